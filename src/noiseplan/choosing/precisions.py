"""The common mechanism at any scale: plans whose residuals are measured by the same rows.

Two residual mechanisms with the same U_i differ only in the precision 1/σ²_A with which they
measure the residual of each set A of attributes. Written in the measured rows their cost matrices
are diagonal, so

    common to all      1/σ²_A = min_k 1/σ²_{A,k}
    left of plan k     1/σ²_A = 1/σ²_{A,k} − common
    put together       (Σ_j d_j ω_j) / Σ_j d_j   with the precisions d_j of what was measured

for any number of plans. Nothing larger is common: a matrix between the common one and all the
plans' has the same diagonal as it, and a semidefinite difference with a zero diagonal is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.choosing.mechanism_family import SAME, Family
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block, Blocks, group_blocks
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.noise import Noise
from noiseplan.noise.discrete import LARGEST_VARIANCE
from noiseplan.noise.sizes import round_up

# A quotient of two products and a difference is right to 2 ulps; so much more is above the truth.
OUTWARD = 1 + 4 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class SharedBases:
    """One basis for each attribute, the same in all mechanisms that measure it."""

    bases: tuple[Basis, ...]
    basis_of: IntArray

    @classmethod
    def of(cls, mechanisms: Sequence[ResidualMechanism]) -> SharedBases:
        """Raises `PlanError` with the first attribute that two mechanisms measure differently."""
        schema = mechanisms[0].schema
        known: list[Basis] = []
        number: dict[int, int] = {}  # of bases that were compared already, by identity
        basis_of = np.full(len(schema), -1)
        for mechanism in mechanisms:
            own = mechanism.blocks
            for attribute in np.flatnonzero(own.basis_of >= 0):
                basis = own.bases[own.basis_of[attribute]]
                if id(basis) not in number:
                    number[id(basis)] = _place(basis, known)
                found = number[id(basis)]
                if basis_of[attribute] not in (-1, found):
                    raise PlanError(
                        f"the plans measure {schema.names[attribute]!r} by different rows"
                    )
                basis_of[attribute] = found
        return cls(tuple(known), basis_of)

    def mechanism(
        self, like: ResidualMechanism, sets: list[IntArray], sigma2: list[Array], integer: bool
    ) -> ResidualMechanism:
        """The mechanism that measures these sets with this noise; infinite: not at all."""
        blocks = group_blocks(sets, sigma2, self.bases, self.basis_of, integer)
        return ResidualMechanism(like.schema, blocks)


def _place(basis: Basis, known: list[Basis]) -> int:
    for i, other in enumerate(known):
        if basis.same_rows(other):
            return i
    known.append(basis)
    return len(known) - 1


@dataclass(frozen=True)
class ByPrecisions(Family[ResidualMechanism]):
    """Residual mechanisms with the same rows."""

    nested = True

    def common(
        self, mechanisms: Sequence[ResidualMechanism], sequential: bool = False
    ) -> ResidualMechanism:
        shared = SharedBases.of(mechanisms)
        fewest = min(mechanisms, key=lambda m: len(m.blocks))
        sets, noise = [], []
        for block in fewest.blocks:
            sets.append(block.sets)
            noise.append(np.max([Places.of(m, block.sets).sigma2 for m in mechanisms], axis=0))
        integer = all(m.noise.exact for m in mechanisms)
        return shared.mechanism(fewest, sets, noise, integer)

    def rest(self, target: ResidualMechanism, have: ResidualMechanism) -> ResidualMechanism | None:
        """The differences of precisions.

        Where `have` is the more precise one nothing is left. Variances are rounded up, so that the
        precisions of both together never exceed the target's.
        """
        shared = SharedBases.of([target, have])
        sets = [block.sets for block in target.blocks]
        noise = [
            still_needed(block.sigma2, Places.of(have, block.sets).sigma2, target.noise.exact)
            for block in target.blocks
        ]
        found = shared.mechanism(target, sets, noise, target.noise.exact)
        return found if found.numbers else None

    def shared(self, target: ResidualMechanism, have: ResidualMechanism) -> ResidualMechanism:
        return self.common([target, have])

    def covers(self, target: ResidualMechanism, united: ResidualMechanism) -> bool:
        return target.numbers == united.numbers

    def together(self, parts: Sequence[ResidualMechanism]) -> ResidualMechanism:
        shared = SharedBases.of(parts)
        sets = _distinct([block.sets for part in parts for block in part.blocks])
        noise = [weights_and_variance([Places.of(p, rows) for p in parts])[1] for rows in sets]
        return shared.mechanism(parts[0], sets, noise, integer=False)

    def recreated(
        self, target: ResidualMechanism, parts: Sequence[tuple[ResidualMechanism, Measurements]]
    ) -> tuple[Measurements, ResidualMechanism | None]:
        """Its variances are the target's up to the rounding of the parts' noise and, below σ² = 4,
        that of discrete laws."""
        values: list[NDArray[np.number]] = []
        blocks, same = [], True
        for block in target.blocks:
            places = [Places.of(mechanism, block.sets) for mechanism, _ in parts]
            weights, variance = weights_and_variance(places)
            numbers = np.zeros((*block.shape, len(block)))
            for weight, where, (_, measured) in zip(weights, places, parts, strict=True):
                for found, mine, place in where.groups():
                    numbers[..., mine] += weight[mine] * measured.values[found][..., place]
            values.append(numbers)
            blocks.append(Block(block.sets, Noise("gaussian", variance), block.bases))
            same = same and np.allclose(block.variance, blocks[-1].variance, rtol=SAME, atol=0.0)
        really = Blocks(tuple(blocks), target.blocks.bases, target.blocks.basis_of)
        return Measurements(tuple(values)), None if same else replace(target, blocks=really)


def still_needed(target: Array, have: Array, integer: bool) -> Array:
    """The σ² with 1/σ² = 1/target − 1/have, rounded up; infinite where nothing is needed."""
    with np.errstate(invalid="ignore", divide="ignore"):
        missing = target * (have / (have - target)) * OUTWARD
    missing = np.where(np.isinf(have), target, missing)
    if integer:
        missing = round_up(missing)
        missing = np.where(missing > LARGEST_VARIANCE, np.inf, missing)
    return np.where(have <= target, np.inf, missing)


def _distinct(sets: list[IntArray]) -> list[IntArray]:
    found = []
    for width in sorted({rows.shape[1] for rows in sets}):
        rows = np.concatenate([r for r in sets if r.shape[1] == width])
        found.append(rows[unique_rows(rows)[0]])
    return found


# ---------------------------------------------------------------------- looking sets up


@dataclass(frozen=True, eq=False)
class Places:
    """Where a mechanism has some sets: the block of each, and its place there; −1 nowhere."""

    blocks: Blocks
    number: IntArray
    place: IntArray

    @classmethod
    def of(cls, mechanism: ResidualMechanism, sets: IntArray) -> Places:
        blocks = mechanism.blocks
        number, place = np.full(len(sets), -1), np.full(len(sets), -1)
        first, kind = unique_rows(blocks.basis_of[sets])
        for group, example in enumerate(first):
            found = blocks.block_for(sets[example])
            if found < 0:
                continue
            mine = np.flatnonzero(kind == group)
            place[mine] = blocks.blocks[found].find(sets[mine])
            number[mine] = np.where(place[mine] >= 0, found, -1)
        return cls(blocks, number, place)

    def groups(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Block by block: its number, which of the sets it has, and their places in it."""
        for found in np.unique(self.number[self.number >= 0]):
            mine = np.flatnonzero(self.number == found)
            yield int(found), mine, self.place[mine]

    @property
    def sigma2(self) -> Array:
        """The parameter σ² of each set, infinite where it is not measured."""
        return self._of_sets([block.sigma2 for block in self.blocks])

    @property
    def variance(self) -> Array:
        """The variance of the noise on each set; that of discrete laws is below σ²."""
        return self._of_sets([block.variance for block in self.blocks])

    def _of_sets(self, sizes: list[Array]) -> Array:
        result = np.full(len(self.number), np.inf)
        for found, mine, place in self.groups():
            result[mine] = sizes[found][place]
        return result


# ---------------------------------------------------------------------- putting together


def weights_and_variance(parts: Sequence[Places]) -> tuple[Array, Array]:
    """What each part counts (parts × sets, summing to one), and the variance of the result.

    Inverse-variance weights by the parameters of the noise; the variance by what it really has.
    """
    sigma2 = np.array([part.sigma2 for part in parts])
    exact = sigma2 == 0
    with np.errstate(divide="ignore"):
        precision = np.where(exact.any(axis=0), exact.astype(float), 1.0 / sigma2)
    total = precision.sum(axis=0)
    if not (total > 0).all():
        raise PlanError("a set of attributes was measured by none of the parts: this is a bug")
    weights = precision / total
    variance = np.array([part.variance for part in parts])
    spread = weights**2 * np.where(weights > 0, variance, 0.0)
    return weights, spread.sum(axis=0)
