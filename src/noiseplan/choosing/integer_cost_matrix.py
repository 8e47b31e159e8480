"""Explicit mechanisms that carry a cost matrix over a small domain, continuous or in integers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, final

import numpy as np

from noiseplan.choosing.loewner import RANK, positive_part, root_rows, symmetric
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.noise import Noise
from noiseplan.noise.moments import size_above
from noiseplan.schema import Schema

# Cells over which matrices are preferred to other ways, and those over which they are all there is:
# some ten seconds and half a gigabyte.
EXPLICIT_CELLS, MOST_CELLS = 1024, 2048
# Entries of integer rows: rounding them changes precisions by about 2^−bits. Where they are made
# from a basis they have fewer, so that no row has an entry that double precision does not hold.
BITS: Final = 46
HELD: Final = 52
# A row space is taken for rational if multiples up to this of its reduced basis are integers.
DENOMINATORS: Final = 12
NEAR_INTEGER: Final = 1e-6
# Share of a wider row space that is mixed in where a row space has no such basis.
WIDER: Final = 1e-8
# Precisions left over that are smaller shares of the target's are not measured. Rounding may leave
# more than the first; then the next is tried.
NEGLIGIBLE: Final = (RANK, 1e-8, 1e-6)
NEGLIGIBLE_IN_INTEGERS: Final = (1e-6, 1e-5, 1e-4)


class Carrier(ABC):
    """Makes mechanisms of cost matrices, in the numbers that are measured."""

    negligible: ClassVar[tuple[float, ...]]
    nothing: ClassVar[Noise]

    def carry(
        self, schema: Schema, cost: Array, within: Array, room: Array | None = None
    ) -> DenseMechanism:
        """A mechanism whose cost matrix is this one; in integers, slightly below it.

        `within` is a cost matrix whose row space contains this one's: nothing outside of it is
        measured. `room` is what every cell may still pay, where they differ.
        """
        if not cost.any():
            return DenseMechanism(schema, np.zeros((0, len(cost))), self.nothing)
        return self._carried(schema, cost, within, room)

    @abstractmethod
    def _carried(
        self, schema: Schema, cost: Array, within: Array, room: Array | None
    ) -> DenseMechanism:
        """The same of one that is not zero."""

    @abstractmethod
    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        """What decides which queries are answered, where that is not the mechanism itself."""


@final
class RealRows(Carrier):
    """Any rows, with continuous noise: nothing is lost."""

    negligible: ClassVar[tuple[float, ...]] = NEGLIGIBLE
    nothing: ClassVar[Noise] = Noise("gaussian", 1.0)

    def _carried(
        self, schema: Schema, cost: Array, within: Array, room: Array | None
    ) -> DenseMechanism:
        return DenseMechanism(schema, np.ascontiguousarray(root_rows(cost)))

    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        return None


@final
class IntegerRows(Carrier):
    """Integer rows, with exact noise. They may measure every direction, most of them hardly: what
    all of them have in common does not."""

    negligible: ClassVar[tuple[float, ...]] = NEGLIGIBLE_IN_INTEGERS
    nothing: ClassVar[Noise] = Noise("gaussian", 1.0, exact=True)

    def _carried(
        self, schema: Schema, cost: Array, within: Array, room: Array | None
    ) -> DenseMechanism:
        rows, sigma2 = _integer_rows(cost, within, room)
        return DenseMechanism(schema, rows, Noise("gaussian", sigma2, exact=True))

    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        return common()


REAL_ROWS: Final = RealRows()
INTEGER_ROWS: Final = IntegerRows()


def carrier_of(noise: Noise) -> Carrier:
    """What carries cost matrices with this noise: the one place that asks."""
    return INTEGER_ROWS if noise.exact else REAL_ROWS


def rest_cost(target: Array, have: Array, negligible: float) -> Array:
    """The positive part of target − have, relative to the target: what is still to be measured.

    Shares of a direction's precision that are `negligible` are not.

    Notes
    -----
    In coordinates in which the target is the identity its eigenvalues are the shares of each
    direction's precision that are missing; none is negative where `have` is common to both.
    """
    values, vectors = positive_part(target)
    across, back = vectors / np.sqrt(values), vectors * np.sqrt(values)
    shares, turn = np.linalg.eigh(symmetric(across.T @ (target - have) @ across))
    keep = shares > negligible
    rows = back @ turn[:, keep]
    return symmetric((rows * np.minimum(shares[keep], 1.0)) @ rows.T)


def _integer_rows(cost: Array, within: Array, room: Array | None = None) -> tuple[Array, float]:
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


def cost_of(mechanism: Mechanism) -> Array:
    """BᵀΣ⁻¹B over the domain; raises `PlanError` where that is too large to write down."""
    require_few_cells(mechanism.schema.size)
    return symmetric(mechanism.cost_matrix())


def require_few_cells(size: int, why: str = "") -> None:
    """Refuse a domain over which no matrix is written down, and say what goes to any size."""
    if size > MOST_CELLS:
        raise PlanError(
            f"{why}explicit matrices go up to {MOST_CELLS:,} cells, and the schema has {size:,}; "
            f"plans of any size go together where both have " + setting("planner", "residual")
        )
