"""Rows of a cost matrix C = AᵀA/σ²: any, or integers to which exact noise is added."""

from __future__ import annotations

from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.noise.moments import size_above

# Eigenvalues below this share of the largest are rounding: the matrix has no such direction.
RANK: Final = 1e-10
# Entries of integer rows: rounding them changes precisions by about 2^−bits. Where they are made
# from a basis they have fewer, so that no row has an entry that double precision does not hold.
BITS: Final = 46
HELD: Final = 52
# A row space is taken for rational if multiples up to this of its reduced basis are integers.
DENOMINATORS: Final = 12
NEAR_INTEGER: Final = 1e-6
# Share of a wider row space that is mixed in where a row space has no such basis.
WIDER: Final = 1e-8


def symmetric(matrix: Array) -> Array:
    """The matrix without the asymmetry that rounding leaves."""
    return np.asarray((matrix + matrix.T) / 2)


def positive_part(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues above rounding and their eigenvectors (as columns) of a semidefinite matrix."""
    values, vectors = np.linalg.eigh(symmetric(matrix))
    keep = values > RANK * max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)
    return values[keep], vectors[:, keep]


def root_rows(matrix: Array) -> Array:
    """B (rank × d) with BᵀB = C for a semidefinite C: one row √λ v for each eigenvalue λ."""
    values, vectors = positive_part(matrix)
    return np.asarray((vectors * np.sqrt(values)).T)


def rows_in_integers(cost: Array, within: Array, room: Array | None) -> tuple[Array, float]:
    """Integer rows A and σ² with AᵀA/σ² almost equal to C, and nobody's cost above its largest.

    C = RᵀMR with an integer basis R of its row space, so that rounding the root of M leaves the
    row space as it is; then AᵀA/σ² ⪯ C. Without such a basis R is one of the space that C lies in,
    and every direction of that is measured, most of them hardly.
    """
    basis = _integer_basis(cost)
    if basis is None:
        return _wider_rows(cost, _integer_basis(within), room)
    back = np.linalg.pinv(basis)
    values, vectors = np.linalg.eigh(symmetric(back.T @ cost @ back))
    values = np.maximum(values, np.finfo(float).eps * values[-1])
    root = _rounded(_symmetric_root(values, vectors), np.abs(basis).sum(axis=0).max())
    inverse = _symmetric_root(1.0 / values, vectors)
    # The largest share of a direction of C that is measured: with so much noise, all of it.
    grown = float(np.linalg.eigvalsh(symmetric(inverse @ (root.T @ root) @ inverse))[-1])
    return root @ basis, size_above(grown * (1 + 1e-12))


def _wider_rows(cost: Array, basis: Array | None, room: Array | None) -> tuple[Array, float]:
    """The same by an integer basis R of a wider space, or by all cells: (1 − w) C + w RᵀDR.

    D is diagonal with d_r = min_i room_i / ‖R_i‖² over the cells i of row r, so that the second
    term takes no more than the room of any cell.
    """
    basis, largest = np.eye(len(cost)) if basis is None else basis, np.diagonal(cost).max()
    most = np.full(len(cost), largest) if room is None else np.clip(room, 0.0, largest)
    lengths = np.einsum("ri,ri->i", basis, basis)
    shares = np.divide(most, lengths, out=np.zeros_like(most), where=lengths > 0)
    each = np.where(basis != 0, shares, np.inf).min(axis=1)
    back = np.linalg.pinv(basis)
    mixed = (1 - WIDER) * symmetric(back.T @ cost @ back) + WIDER * np.diag(each)
    root = _symmetric_root(*np.linalg.eigh(mixed))
    rows = _rounded(root, np.abs(basis).sum(axis=0).max()) @ basis
    grown = float(np.einsum("ri,ri->i", rows, rows).max() / largest)
    return rows, size_above(grown * (1 + 1e-12))


def _symmetric_root(values: Array, vectors: Array) -> Array:
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _rounded(rows: Array, times: float = 1.0) -> Array:
    """A multiple of the rows, in integers of at most so many bits; of fewer if they grow."""
    most = min(2.0**BITS, 2.0**HELD / times)
    return np.asarray(np.rint(rows * (most / np.abs(rows).max())))


def _integer_basis(cost: Array) -> Array | None:
    """An integer basis of a cost matrix's row space, if it has a simple one."""
    from scipy.linalg import qr

    vectors = positive_part(cost)[1]
    size, rank = vectors.shape
    if rank == size:
        return np.eye(size)
    pivots = qr(vectors.T, mode="r", pivoting=True)[1][:rank]
    reduced = np.linalg.solve(vectors[pivots].T, vectors.T)
    for denominator in range(1, DENOMINATORS + 1):
        basis = np.rint(denominator * reduced)
        if np.abs(basis - denominator * reduced).max() <= NEAR_INTEGER:
            return np.asarray(basis)
    return None
