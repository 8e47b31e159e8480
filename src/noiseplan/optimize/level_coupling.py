"""Precisions between rows of different tables, such that every record costs the same.

A record's columns are known by numbers h of which only their moments y matter here: y_0 = 1, and
L_T(y) is what precisions Φ_T cost, tr L_T(y)Φ_T, linear in y. To cost the same whatever the h is to
have Σ_T w_T tr L_T(y)Φ_T = Σ_T w_T tr L_T(e_0)Φ_T for all y with y_0 = 1, so that

    least  Σ_T w_T tr N_TΦ_T⁻¹  at the cost c  =  (max_y F(y))² / c ,
    F(y) = Σ_T w_T tr (L_T^{1/2} N_T L_T^{1/2})^{1/2} ,

which is concave in y. At its maximum Φ_T ∝ L_T^{-1/2}(L_T^{1/2}N_TL_T^{1/2})^{1/2}L_T^{-1/2}.

*Proof.* For any Φ that costs the same, and any y with L_T(y) ≻ 0, Cauchy and Schwarz give
F(y)² ≤ Σw_T tr N_TΦ_T⁻¹ · Σw_T tr L_T(y)Φ_T, whose last factor is the cost. Where F is largest, its
slopes ½Σ_T w_T tr X_T ∂L_T/∂y_j are zero for X_T = L_T^{-1/2}(…)^{1/2}L_T^{-1/2}: so X costs the
same at every y, F in all, and Σw_T tr N_TX_T⁻¹ = F. ∎

F is finite where L_T becomes singular, so that Newton's steps would run into that: a barrier
ε Σ ln det keeps them off, with ε falling to nothing; from the best moments of numbers hardly
different a few steps without it are enough, and by a curvature worked out before: a slope costs a
tenth of one, or far less (`Following`). Matrices over states of attributes that may be exchanged
fall into small blocks (`exchangeable_sums`), made of the same few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array

# The barrier, as shares of F.
BARRIERS: Final = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0)
# Newton's method ends with a step that gains so small a share of F, or of the barrier: one more
# would gain about its square. Where nothing is gained by rounding, no step promises more than this.
GAIN, GAIN_OF_BARRIER, ROUNDED = 1e-9, 1e-2, 1e-9
# How many steps are taken, and how often one is halved, at most.
STEPS, HALVED = 60, 40
# The same of moments nearby, and how many curvatures are taken there.
HALVED_NEARBY, CURVATURES_NEARBY = 5, 8
# By an earlier curvature a step gains such a part of the one before: more, and it is worked out
# anew. The last step gains so little, since one more would gain about a tenth of it.
SHORTER, GAIN_NEARBY = 0.5, 1e-11
# Eigenvalues of N below this share of the largest count as none.
SINGULAR: Final = 1e-13
# Added to a scaled curvature, which may be singular.
FLAT: Final = 1e-13


@dataclass(frozen=True, eq=False)
class StateBlock:
    """A block of states, which occurs so `often`: one of `sums` times each of its numbers."""

    often: float
    sums: Array  # kinds × size × size, symmetric

    @property
    def size(self) -> int:
        return int(self.sums.shape[1])

    def of(self, numbers: Array) -> Array:
        """The block of a matrix with these numbers, … × kinds."""
        flat = numbers @ self.sums.reshape(len(self.sums), -1)
        return np.asarray(flat).reshape(*numbers.shape[:-1], self.size, self.size)

    def pulled_back(self, slopes: Array) -> Array:
        """The slopes of the numbers, from those of the entries."""
        flat = slopes.reshape(*slopes.shape[:-2], -1)
        return np.asarray(flat @ self.sums.reshape(len(self.sums), -1).T)

    def turned(self, columns: Array) -> Array:
        """XᵀSX of each of `sums` and of the matrices X, X × kinds × size × size."""
        kinds, size, count = len(self.sums), self.size, len(columns)
        beside = columns.transpose(1, 0, 2).reshape(size, -1)
        half = (self.sums.reshape(-1, size) @ beside).reshape(kinds, size, count, size)
        turned = half.transpose(2, 0, 3, 1).reshape(count, -1, size) @ columns
        return np.asarray(turned).reshape(count, kinds, size, size)


@dataclass(frozen=True, eq=False)
class Alike:
    """Sets T over the same states, with one L; each N_T is given by its numbers."""

    blocks: tuple[StateBlock, ...]
    moments: Array  # kinds × moments: the numbers of L, from y
    weights: Array  # w_T

    @cached_property
    def used(self) -> IntArray:
        """The moments, but y_0, that L depends on."""
        return np.flatnonzero(self.moments[:, 1:].any(axis=0))

    @cached_property
    def by_used(self) -> sp.csr_array:
        """Used moments × kinds."""
        return sp.csr_array(self.moments[:, 1 + self.used].T)


@dataclass(frozen=True, eq=False)
class _Asked:
    """One block of one group: C with N_T = CCᵀ of each T, and w_T times how often it occurs."""

    group: int
    block: StateBlock
    root: Array
    often: Array


@dataclass(frozen=True, eq=False)
class _Seen:
    """An `_Asked` at some y: CᵀLC = Q diag(λ) Qᵀ."""

    asked: _Asked
    level: Array  # L
    values: Array  # λ, T × size
    turned: Array  # CQ

    def summed(self, slopes: Array) -> Array:
        """Σ_T CQ diag(slopes) QᵀCᵀ."""
        each = self.turned * slopes[:, None, :]
        return np.asarray((each @ self.turned.swapaxes(1, 2)).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Curvature:
    """−∂² F at some y, scaled by its diagonal and factored."""

    scale: Array
    factor: tuple[Array, NDArray[np.signedinteger]]

    @classmethod
    def of(cls, curvature: Array) -> Curvature:
        scale = 1 / np.sqrt(np.maximum(np.diag(curvature), np.finfo(float).tiny))
        scaled = curvature * np.outer(scale, scale) + FLAT * np.eye(len(scale))
        return cls(scale, lu_factor(scaled))

    def step(self, slope: Array) -> Array:
        """Newton's step."""
        return np.asarray(self.scale * lu_solve(self.factor, self.scale * slope))


class LevelCoupling:
    """max F(y) for the numbers of N_T of each group; singular N_T are refused (`LinAlgError`)."""

    def __init__(self, groups: Sequence[Alike], asked: Sequence[Array]) -> None:
        self.groups, self.asked = groups, asked
        self.products = 0.0  # of numbers, that curvatures have taken so far
        self._parts: list[_Asked] = []
        for number, (group, numbers) in enumerate(zip(groups, asked, strict=True)):
            for block in group.blocks:
                values, vectors = np.linalg.eigh(block.of(numbers))
                if (values[:, 0] <= SINGULAR * values[:, -1]).any():
                    raise np.linalg.LinAlgError("something that is measured is not asked for")
                root = vectors * np.sqrt(values)[:, None, :]
                self._parts.append(_Asked(number, block, root, group.weights * block.often))

    def solve(self, start: Array) -> tuple[float, Array]:
        """The largest F, and y there, from moments that are not extreme."""
        moments, seen = start, self._begun(start)
        sizes = sum(part.root.shape[0] * part.block.size for part in self._parts)
        for share in BARRIERS:
            barrier = share * self._value(seen, 0.0) / sizes
            found = self._climbed(moments, seen, barrier)
            if found is None:
                raise np.linalg.LinAlgError("no moments are found to be the best")
            moments, seen = found
        return self._value(seen, 0.0), moments

    def near(
        self, moments: Array, curvature: Curvature | None = None
    ) -> tuple[float, Array, Curvature] | None:
        """The same from the best moments of numbers hardly different, by a curvature there.

        With the last curvature that was taken; None where steps lead nowhere.
        """
        seen = self._at(moments)
        if seen is None:
            return None
        halved = 0
        for _ in range(CURVATURES_NEARBY):
            if curvature is None:
                curvature, halved = self._curved(seen, 0.0), HALVED_NEARBY
            begun = moments
            moments, seen, gain = self._along(moments, seen, curvature, halved)
            stands = moments is begun and halved > 0
            value = self._value(seen, 0.0)
            if gain <= (ROUNDED if stands else GAIN_NEARBY) * value:
                return value, moments, curvature
            if stands:
                break
            curvature = None
        return None

    def _along(
        self, moments: Array, seen: list[_Seen], curvature: Curvature, halved: int
    ) -> tuple[Array, list[_Seen], float]:
        """Steps by one curvature while each gains far less than the one before.

        With what the last gained, or would have; the first may be halved so often.
        """
        before = np.inf
        while True:
            slope = self._slope(seen, 0.0)
            step = curvature.step(slope)
            gain = float(slope @ step)
            if gain > SHORTER * before:
                return moments, seen, gain
            found = self._risen(moments, seen, step, 0.0, halved)
            if found is None:
                return moments, seen, gain
            moments, seen = found
            if gain <= GAIN_NEARBY * self._value(seen, 0.0):
                return moments, seen, gain
            before, halved = gain, 0

    def levelled(self, moments: Array) -> Array:
        """The best y, from one where F gains no more than rounding.

        Slopes still fall there, and what they leave is what some records pay more than others.
        """
        step, gain = self._step(self._begun(moments), 0.0)
        for _ in range(STEPS):
            further = moments + np.append(0.0, step)
            found = self._at(further)
            if found is None:
                break
            step, left = self._step(found, 0.0)
            if not left < gain / 2:
                break
            moments, gain = further, left
        return moments

    def _begun(self, moments: Array) -> list[_Seen]:
        seen = self._at(moments)
        if seen is None:
            raise np.linalg.LinAlgError("the moments to begin with are those of no records")
        return seen

    def _climbed(
        self, moments: Array, seen: list[_Seen], barrier: float
    ) -> tuple[Array, list[_Seen]] | None:
        """Newton's method on F + ε Σ ln det to where it gains no more; None where patience ends."""
        enough = max(GAIN * self._value(seen, 0.0), GAIN_OF_BARRIER * barrier)
        for _ in range(STEPS):
            value = self._value(seen, barrier)
            step, gain = self._step(seen, barrier)
            found = self._risen(moments, seen, step, barrier, HALVED)
            if found is None:
                return (moments, seen) if gain <= ROUNDED * value else None
            moments, seen = found
            if gain <= enough:
                return moments, seen
        return None

    def _risen(
        self, moments: Array, seen: list[_Seen], step: Array, barrier: float, halved: int
    ) -> tuple[Array, list[_Seen]] | None:
        """Where F is larger: after the step, or half of it, and so on."""
        value = self._value(seen, barrier)
        for times in range(1 + halved):
            further = moments + 0.5**times * np.append(0.0, step)
            found = self._at(further)
            if found is not None and self._value(found, barrier) > value:
                return further, found
        return None

    def _step(self, seen: list[_Seen], barrier: float) -> tuple[Array, float]:
        """Newton's step, and twice what it would gain."""
        slope = self._slope(seen, barrier)
        step = self._curved(seen, barrier).step(slope)
        return step, float(slope @ step)

    def _curved(self, seen: list[_Seen], barrier: float) -> Curvature:
        return Curvature.of(self._curvature(seen, barrier))

    def _at(self, moments: Array) -> list[_Seen] | None:
        """All blocks at y; None where some L_T is not positive definite."""
        levels, result = [group.moments @ moments for group in self.groups], []
        for part in self._parts:
            level = part.block.of(levels[part.group])
            values, vectors = np.linalg.eigh(part.root.swapaxes(1, 2) @ level @ part.root)
            if (values <= 0).any():
                return None
            result.append(_Seen(part, level, values, part.root @ vectors))
        return result

    def _value(self, seen: list[_Seen], barrier: float) -> float:
        found = sum(float(s.asked.often @ np.sqrt(s.values).sum(axis=1)) for s in seen)
        return found + barrier * sum(float(np.log(s.values).sum()) for s in seen)

    def _slope(self, seen: list[_Seen], barrier: float) -> Array:
        slope = np.zeros(self.groups[0].moments.shape[1])
        for s in seen:
            by_entry = s.summed(
                0.5 * s.asked.often[:, None] / np.sqrt(s.values) + barrier / s.values
            )
            slope += s.asked.block.pulled_back(by_entry) @ self.groups[s.asked.group].moments
        return slope[1:]

    def _curvature(self, seen: list[_Seen], barrier: float) -> Array:
        """−∂²: Σ E_ab E'_ab (½w/(√λ_a √λ_b (√λ_a + √λ_b)) + ε/(λ_aλ_b)), E = QᵀCᵀ(∂L)CQ.

        First by the numbers of L of each group, then by moments.
        """
        self.products += self._products
        count = self.groups[0].moments.shape[1] - 1
        result = np.zeros((count, count))
        for g, group in enumerate(self.groups):
            if len(group.used):  # else it costs every record the same anyway
                mine = [self._by_numbers(s, barrier) for s in seen if s.asked.group == g]
                by_used = group.by_used @ (group.by_used @ np.sum(mine, axis=0)).T
                result[np.ix_(group.used, group.used)] += by_used
        return result

    @cached_property
    def _products(self) -> float:
        """How many products of numbers a curvature takes."""
        each = ((len(p.root), len(p.block.sums), p.block.size) for p in self._parts)
        return float(sum(n * kinds * size**2 * (size + kinds) for n, kinds, size in each))

    def _by_numbers(self, s: _Seen, barrier: float) -> Array:
        """What one block adds to −∂² by the numbers of L."""
        a, b = np.tril_indices(s.asked.block.size)  # E is symmetric
        roots = np.sqrt(s.values)
        both = roots[:, a] * roots[:, b]
        weight = 0.5 * s.asked.often[:, None] / (both * (roots[:, a] + roots[:, b]))
        weight = (weight + barrier / both**2) * np.where(a == b, 1.0, 2.0)
        each = s.asked.block.turned(s.turned)[:, :, a, b] * np.sqrt(weight)[:, None]
        flat = each.swapaxes(0, 1).reshape(each.shape[1], -1)
        return np.asarray(flat @ flat.T)

    def slopes(self, moments: Array) -> tuple[list[Array], float]:
        """∂F/∂N_T at the best y, by the numbers of N_T: ½ w_T LC A^{-3/2} CᵀL, A = CᵀLC.

        With the least share that an eigenvalue of some A has of its largest: where it is next to
        nothing, precisions are next to infinite.
        """
        result, least = [np.zeros_like(numbers) for numbers in self.asked], 1.0
        for s in self._begun(moments):
            least = min(least, float((s.values[:, 0] / s.values[:, -1]).min()))
            columns = s.level @ s.turned / s.values[:, None, :] ** 0.75
            by_entry = 0.5 * s.asked.often[:, None, None] * (columns @ columns.swapaxes(1, 2))
            result[s.asked.group] += s.asked.block.pulled_back(by_entry)
        return result, least


class Following:
    """The best y of problems that change little from one to the next.

    `start`: moments that are not extreme, where the nearest known are of no use; `moments`: those.
    """

    def __init__(self, start: Array) -> None:
        self.start = start
        self.moments: Array | None = None
        self.products = 0.0  # of numbers, that all curvatures have taken
        self._curvature: Curvature | None = None  # at some earlier y

    def solve(self, problem: LevelCoupling) -> tuple[float, Array]:
        """The largest F, and y there."""
        near = None if self.moments is None else problem.near(self.moments, self._curvature)
        if near is None:
            value, self.moments = problem.solve(self.start)
        else:
            value, self.moments, self._curvature = near
        self.products += problem.products
        return value, self.moments


def precision(level: Array, asked: Array) -> Array:
    """Φ = L^{-1/2}(L^{1/2}NL^{1/2})^{1/2}L^{-1/2}, which is C(CᵀLC)^{-1/2}Cᵀ for N = CCᵀ.

    There is none where L is singular: something would cost nothing (`LinAlgError`).
    """
    root = np.linalg.cholesky(asked)
    values, vectors = np.linalg.eigh(root.T @ level @ root)
    if not values.min() > len(values) * np.finfo(float).eps * values.max():
        raise np.linalg.LinAlgError("something that is measured costs nothing")
    turned = root @ (vectors / values**0.25)
    return np.asarray(turned @ turned.T)
