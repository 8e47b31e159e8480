"""The matrix of least trace above several others in the Loewner order.

    least     tr X             with X ⪰ P_i for every i
    largest   Σ_i tr(A_iP_iA_iᵀ)    with Σ_i A_iᵀA_i = I

have the same value, and X = Σ_i sym(A_iᵀA_iP_i) at the solution: A_i shares out the directions
among those P_i that X touches there. The second is smooth, and found with products of matrices
alone: a few rounds of a fixed point, which never falls, and then Newton's method on the manifold of
all A with orthonormal columns. A step is A + ΩA, made orthonormal again, with a skew Ω:

    value rises by   ⟨G, Ω⟩ − ½⟨Ω, HΩ⟩,   G = MAᵀ − AMᵀ,   HΩ = TAᵀ − ATᵀ
    with             M_i = A_iP_i,   T_i = (ΩA)_iS_i,   S_i = X − P_i

and no blocks Ω_ii, which change nothing. For two matrices H falls into one equation
Ω(A_2S_1A_2ᵀ) + (A_1S_2A_1ᵀ)Ω = G for each pair; for more these precondition it.

Any A bounds the trace from below, and X + Σ_i (P_i − X)₊ is above all P_i: both are had in every
step, and their difference is what is left to gain.

References
----------
Ježek, Řeháček, Fiurášek, "Finding optimal strategies for minimum-error quantum-state
discrimination", Physical Review A 65, 2002, for the fixed point: the same problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array

# The gap to be certified, and the steps of Newton's method until then.
GAP, STEPS = 1e-9, 200
# Rounds of the fixed point before it, rows being left out after each so many.
ROUNDS, EVERY = 30, 10
# Eigenvalues that it multiplies by are no smaller shares of the largest.
LEAST: Final = 1e-5
# Rows A_i of a smaller squared length are left out; those that are missed come back with this one.
FAINT: Final = 1e-4
# A step that gains less than this share of what is left finds rows missing: those of eigenvalues
# that are not much smaller than the worst.
STUCK, WORST = 1e-4, 0.1
# Equations for a step: how many products at most, and the share of the residual that is left.
PRODUCTS, RESIDUAL = 200, 0.1
# Divisors of the preconditioner are at least this share of the largest.
FLAT: Final = 1e-6
# Steps that rise by less than this share of what they promised are cut to a third.
POOR, GOOD = 0.1, 0.75


def least_trace(matrices: Sequence[Array]) -> tuple[Array, float]:
    """The Σ of least trace above all matrices, and the relative gap to a proved lower bound.

    Parameters
    ----------
    matrices
        Positive definite, of one size.
    """
    scale = float(np.mean([np.trace(p) for p in matrices])) / len(matrices[0])
    sharing = _started(np.array(matrices) / scale)
    radius = 0.05 * np.sqrt(len(matrices[0]))
    for _ in range(STEPS):
        if sharing.gap <= GAP:
            return sharing.above * scale, sharing.gap
        before = sharing
        sharing, radius = _stepped(sharing, radius)
        if sharing.value - before.value < STUCK * sharing.lacking:
            sharing = _widened(sharing)
    raise PlanError(
        f"the bound of {len(matrices)} matrices was found only to {sharing.gap:.1g} of its trace "
        f"in {STEPS:,} steps; chain(mechanisms) takes two at a time, in closed form"
    )


@dataclass(frozen=True, eq=False)
class Sharing:
    """Rows A_i for each P_i, one below the other, with orthonormal columns together."""

    matrices: Array  # P, many × size × size
    rows: Array  # A, all rows × size
    counts: tuple[int, ...]  # how many rows each A_i has

    @cached_property
    def parts(self) -> list[slice]:
        ends = np.cumsum(self.counts).tolist()
        return [slice(end - count, end) for count, end in zip(self.counts, ends, strict=True)]

    def times(self, rows: Array, matrices: Array) -> Array:
        """Every part of the rows times its own matrix."""
        pairs = zip(self.parts, matrices, strict=True)
        return np.concatenate([rows[part] @ matrix for part, matrix in pairs])

    @cached_property
    def images(self) -> Array:
        """M_i = A_iP_i."""
        return self.times(self.rows, self.matrices)

    @cached_property
    def bound(self) -> Array:
        """X = Σ sym(A_iᵀM_i), nearly above all matrices."""
        found = self.rows.T @ self.images
        return np.asarray((found + found.T) / 2)

    @property
    def value(self) -> float:
        """tr X, which nothing above all matrices falls below."""
        return float(np.trace(self.bound))

    @cached_property
    def slacks(self) -> Array:
        """S_i = X − P_i."""
        return self.bound - self.matrices

    @cached_property
    def _spectra(self) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(self.slacks)
        return np.asarray(values), np.asarray(vectors)

    def lacks(self) -> list[tuple[Array, Array]]:
        """Of each matrix, the eigenvalues and eigenvectors (as rows) by which X is not above it."""
        return [(w[w < 0], v[:, w < 0].T) for w, v in zip(*self._spectra, strict=True)]

    @property
    def lacking(self) -> float:
        """What the trace grows by when X is raised."""
        return float(-np.minimum(self._spectra[0], 0.0).sum())

    @property
    def gap(self) -> float:
        return self.lacking / (self.value + self.lacking)

    @property
    def above(self) -> Array:
        """X + Σ_i (P_i − X)₊, above all matrices."""
        added = [(vectors.T * -values) @ vectors for values, vectors in self.lacks()]
        return np.asarray(self.bound + np.sum(added, axis=0))

    # ------------------------------------------------------------------ along Ω

    def skew(self, images: Array) -> Array:
        """TAᵀ − ATᵀ without the blocks that change nothing."""
        found = images @ self.rows.T
        found = found - found.T
        for part in self.parts:
            found[part, part] = 0.0
        return np.asarray(found)

    @cached_property
    def gradient(self) -> Array:
        return self.skew(self.images)

    def curved(self, omega: Array) -> Array:
        """HΩ."""
        return self.skew(self.times(omega @ self.rows, self.slacks))

    def moved(self, omega: Array) -> Sharing:
        """A + ΩA, made orthonormal again."""
        return replace(self, rows=_orthonormal(self.rows + omega @ self.rows))

    def preconditioner(self) -> Callable[[Array], Array]:
        """Solves the equation of every pair for itself."""
        pairs = list(combinations(self.parts, 2))
        seen = dict(zip(map(id, self.parts), self.slacks, strict=True))
        turns = [(self._turn(a, seen[id(b)]), self._turn(b, seen[id(a)])) for a, b in pairs]

        def solved(right: Array) -> Array:
            found = np.zeros_like(right)
            for (a, b), ((own, u), (other, v)) in zip(pairs, turns, strict=True):
                divisor = np.abs(own[:, None] + other)
                divisor = np.maximum(divisor, FLAT * divisor.max(initial=1e-300))
                found[a, b] = u @ ((u.T @ right[a, b] @ v) / divisor) @ v.T
                found[b, a] = -found[a, b].T
            return found

        return solved

    def _turn(self, part: slice, slack: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(self.rows[part] @ slack @ self.rows[part].T)
        return np.asarray(values), np.asarray(vectors)


# ---------------------------------------------------------------------- the start


def _started(p: Array) -> Sharing:
    """Some rounds of A_i ← A_i(P_i − cI), made orthonormal: the same solution for any c, sooner
    found for large ones, and products that can be told from rounding."""
    many, size = p.shape[:2]
    values = np.linalg.eigvalsh(p)
    least = float(values.min()) - max(LEAST * float(values.max()), 0.01 * float(values.min()))
    lowered = p - least * np.eye(size)
    sharing = Sharing(p, np.tile(np.eye(size), (many, 1)) / np.sqrt(many), (size,) * many)
    for done in range(1, ROUNDS + 1):
        sharing = replace(sharing, rows=_orthonormal(sharing.times(sharing.rows, lowered)))
        if done % EVERY == 0:
            sharing = _with_rows(sharing, [_strong(sharing.rows[part]) for part in sharing.parts])
    return sharing


def _orthonormal(rows: Array) -> Array:
    """The nearest rows with AᵀA = I: A(AᵀA)^{−½}."""
    values, vectors = np.linalg.eigh(rows.T @ rows)
    return np.asarray(rows @ ((vectors / np.sqrt(values)) @ vectors.T))


def _strong(rows: Array) -> Array:
    """As few rows with the same AᵀA, but for what is faint."""
    values, vectors = np.linalg.eigh(rows.T @ rows)
    keep = values > FAINT
    return np.asarray((vectors[:, keep] * np.sqrt(values[keep])).T)


def _with_rows(sharing: Sharing, rows: Sequence[Array]) -> Sharing:
    every = _orthonormal(np.concatenate(rows))
    return Sharing(sharing.matrices, every, tuple(map(len, rows)))


def _widened(sharing: Sharing) -> Sharing:
    """With rows for the directions in which X is least above a matrix."""
    lacks = sharing.lacks()
    worst = WORST * min(float(values.min(initial=0.0)) for values, _ in lacks)
    rows = [
        np.concatenate([_strong(sharing.rows[part]), np.sqrt(2 * FAINT) * vectors[values < worst]])
        for part, (values, vectors) in zip(sharing.parts, lacks, strict=True)
    ]
    return _with_rows(sharing, rows)


# ---------------------------------------------------------------------- a step


def _stepped(sharing: Sharing, radius: float) -> tuple[Sharing, float]:
    """The sharing after a step, and how far the next may go."""
    omega, cut = _towards(sharing, radius)
    rise = float(np.sum(sharing.gradient * omega))
    bend = float(np.sum(omega * sharing.curved(omega))) / 2
    while True:
        moved = sharing.moved(omega)
        gained = (moved.value - sharing.value) / max(rise - bend, np.finfo(float).tiny)
        if gained > POOR or rise < GAP**2 * sharing.value:
            break
        omega, rise, bend, cut = omega / 3, rise / 3, bend / 9, False
        radius = float(np.linalg.norm(omega))
    if gained > GOOD and cut:
        radius *= 2
    return (moved if moved.value >= sharing.value else sharing), radius


def _towards(sharing: Sharing, radius: float) -> tuple[Array, bool]:
    """Ω with HΩ ≈ G by conjugate gradients, cut where it leaves the radius (Steihaug); and whether
    it was cut."""
    solve, left = sharing.preconditioner(), sharing.gradient
    length = float(np.linalg.norm(left))
    enough = min(RESIDUAL, np.sqrt(length / sharing.value)) * length
    omega, along = np.zeros_like(left), solve(left)
    weight = float(np.sum(left * along))
    for _ in range(PRODUCTS):
        image = sharing.curved(along)
        bend = float(np.sum(along * image))
        if bend <= 0 or np.linalg.norm(omega + (weight / bend) * along) >= radius:
            return omega + _to_edge(omega, along, radius) * along, True
        omega, left = omega + (weight / bend) * along, left - (weight / bend) * image
        if np.linalg.norm(left) <= enough:
            break
        better = solve(left)
        weight, before = float(np.sum(left * better)), weight
        along = better + (weight / before) * along
    return omega, False


def _to_edge(omega: Array, along: Array, radius: float) -> float:
    """The t > 0 with |Ω + t·along| = radius."""
    square, lean = float(np.sum(along**2)), float(np.sum(omega * along))
    room = radius**2 - float(np.sum(omega**2))
    return float((np.sqrt(lean**2 + square * room) - lean) / square)
