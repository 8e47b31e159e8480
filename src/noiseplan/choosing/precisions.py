"""The common mechanism at any scale: plans whose residuals are measured by the same rows.

Two residual mechanisms with the same U_i differ only in the precision 1/σ²_A with which they
measure the residual of each set A of attributes. Written in the measured rows their cost matrices
are diagonal, so

    common to all      1/σ²_A = min_k 1/σ²_{A,k}
    left of plan k     1/σ²_A = 1/σ²_{A,k} − common
    put together       (Σ_j d_j ω_j) / Σ_j d_j   with the precisions d_j of what was measured

for any number of plans. Nothing larger is common: a matrix between the common one and all the
plans' has the same diagonal as it, and a semidefinite difference with a zero diagonal is zero.

Sets that plans measure by different rows of their own count as not in common: what all plans tell
is then at least what is stated, and nothing is charged twice that is measured once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.choosing.mechanism_family import SAME, Family
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block, Blocks, Places, group_blocks, with_own
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.noise import Noise
from noiseplan.noise.law import common_lattice

# A quotient of two products and a difference is right to 2 ulps; so much more is above the truth.
OUTWARD = 1 + 4 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class SharedBases:
    """One basis for each attribute, the same in all mechanisms that measure it."""

    bases: tuple[Basis, ...]
    basis_of: IntArray

    @classmethod
    def of(cls, mechanisms: Sequence[Mechanism]) -> SharedBases:
        """Raises `PlanError` with the first attribute that two mechanisms measure differently."""
        schema = mechanisms[0].schema
        known: list[Basis] = []
        number: dict[int, int] = {}  # of bases that were compared already, by identity
        basis_of = np.full(len(schema), -1)
        for mechanism in mechanisms:
            own = mechanism.residual_blocks()
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
        self, like: ResidualMechanism, kinds: list[Block], sigma2: list[Array], integer: int
    ) -> ResidualMechanism:
        """The mechanism that measures these sets with this noise; infinite: not at all."""
        pairs = list(zip(kinds, sigma2, strict=True))
        shared = [(block.sets, noise) for block, noise in pairs if block.own is None]
        sets, noises = [each for each, _ in shared], [each for _, each in shared]
        blocks = group_blocks(sets, noises, self.bases, self.basis_of, integer)
        for block, noise in pairs:
            if block.own is not None:
                blocks = with_own(blocks, block.sets, noise, block.own)
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
        kinds = list(fewest.blocks)
        noise = [
            np.max([Located.of(m.blocks, block).sigma2 for m in mechanisms], axis=0)
            for block in kinds
        ]
        integer = common_lattice(m.noise for m in mechanisms)
        return shared.mechanism(fewest, kinds, noise, integer)

    def rest(self, target: ResidualMechanism, have: ResidualMechanism) -> ResidualMechanism | None:
        """The differences of precisions.

        Where `have` is the more precise one nothing is left. Variances are rounded up, so that the
        precisions of both together never exceed the target's.
        """
        shared = SharedBases.of([target, have])
        kinds = list(target.blocks)
        noise = [
            still_needed(block.sigma2, Located.of(have.blocks, block).sigma2, target.noise)
            for block in kinds
        ]
        found = shared.mechanism(target, kinds, noise, target.noise.exact)
        return found if found.numbers else None

    def shared(self, target: ResidualMechanism, have: ResidualMechanism) -> ResidualMechanism:
        """Refused where both could not be put together after measuring."""
        different = measured_differently([target, have])
        if different:
            raise PlanError(
                f"the plans measure {different} by different rows, which are not put together over "
                f"so many cells"
            )
        return self.common([target, have])

    def together(self, parts: Sequence[ResidualMechanism]) -> ResidualMechanism:
        shared = SharedBases.of(parts)
        kinds = _distinct([block for part in parts for block in part.blocks])
        noise = [
            weights_and_variance([Located.of(p.blocks, kind) for p in parts])[1] for kind in kinds
        ]
        return shared.mechanism(parts[0], kinds, noise, integer=False)

    def recreated(
        self, target: ResidualMechanism, parts: Sequence[tuple[ResidualMechanism, Measurements]]
    ) -> tuple[Measurements, ResidualMechanism | None]:
        """Its variances are the target's up to the rounding of the parts' noise and, below σ² = 4,
        that of discrete laws."""
        values: list[NDArray[np.number]] = []
        blocks, same = [], True
        for block in target.blocks:
            places = [Located.of(mechanism.blocks, block) for mechanism, _ in parts]
            weights, variance = weights_and_variance(places)
            numbers = np.zeros((*block.shape, len(block)))
            for weight, where, (_, measured) in zip(weights, places, parts, strict=True):
                for found, mine, place in where.places.groups():
                    numbers[..., mine] += weight[mine] * measured.values[found][..., place]
            values.append(numbers)
            blocks.append(replace(block, noise=Noise("gaussian", variance)))
            same = same and np.allclose(block.variance, blocks[-1].variance, rtol=SAME, atol=0.0)
        really = Blocks(tuple(blocks), target.blocks.bases, target.blocks.basis_of)
        return Measurements(tuple(values)), None if same else replace(target, blocks=really)


def still_needed(target: Array, have: Array, noise: Noise) -> Array:
    """The σ² with 1/σ² = 1/target − 1/have, rounded up; infinite where nothing is needed."""
    with np.errstate(invalid="ignore", divide="ignore"):
        missing = target * (have / (have - target)) * OUTWARD
    missing = noise.fitting(np.where(np.isinf(have), target, missing))
    return np.where(have <= target, np.inf, missing)


def _distinct(blocks: list[Block]) -> list[Block]:
    """Every set once for all blocks that measure it by the same rows."""
    found: list[Block] = []
    for block in blocks:
        known = [b.sets for b in found if _alike(b, block)]
        rows = np.concatenate([*known, block.sets])
        new = np.sort(unique_rows(rows)[0] - (len(rows) - len(block)))
        new = new[new >= 0]
        if len(new):
            noise = replace(block.noise, size=block.sigma2[new])
            found.append(replace(block, sets=block.sets[new], noise=noise))
    return found


def _alike(block: Block, other: Block) -> bool:
    """Whether blocks may hold the same sets, measured by the same rows."""
    return block.sets.shape[1] == other.sets.shape[1] and block.same_rows(other)


# ---------------------------------------------------------------------- looking sets up


@dataclass(frozen=True, eq=False)
class Located:
    """Where a mechanism has the sets of a block, measured by the same rows; and which by others."""

    blocks: Blocks
    places: Places
    differently: IntArray

    @classmethod
    def of(cls, blocks: Blocks, like: Block) -> Located:
        sets = like.sets
        number, place = np.full(len(sets), -1), np.full(len(sets), -1)
        first, kind = unique_rows(blocks.basis_of[sets])
        for group in range(len(first)):
            mine = np.flatnonzero(kind == group)
            found = blocks.find(sets[mine])
            number[mine], place[mine] = found.number, found.place
        there = np.unique(number[number >= 0])
        other = [i for i in there if not blocks.blocks[i].same_rows(like)]
        differently = np.isin(number, other)
        number = np.where(differently, -1, number)
        return cls(blocks, Places(number, place), sets[differently])

    @property
    def sigma2(self) -> Array:
        """The parameter σ² of each set, infinite where it is not measured."""
        return self.places.of_sets(lambda number: self.blocks.blocks[number].sigma2)

    @property
    def variance(self) -> Array:
        """The variance of the noise on each set; that of discrete laws is below σ²."""
        return self.places.of_sets(lambda number: self.blocks.blocks[number].variance)


def measured_differently(mechanisms: Sequence[Mechanism]) -> str:
    """The attributes of a set that two mechanisms measure by different rows, if there is one."""
    every, names = [m.residual_blocks() for m in mechanisms], mechanisms[0].schema.names
    with_own_rows = [blocks for blocks in every if blocks.has_own]
    for one in with_own_rows:
        for block in one:
            for other in every:
                for row in Located.of(other, block).differently:
                    return " × ".join(names[i] for i in row)
    return ""


# ---------------------------------------------------------------------- putting together


def weights_and_variance(parts: Sequence[Located]) -> tuple[Array, Array]:
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
