"""What mechanisms over a small domain have in common, by their cost matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from noiseplan.choosing.loewner import common_of_costs, intersection, pseudo_inverse
from noiseplan.choosing.mechanism_family import SAME, Family
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.noise.discrete import WIDEST_VARIANCE
from noiseplan.optimize.integer_cost_matrix import positive_part, symmetric
from noiseplan.planning.limits import COMPARED_CELLS, COMPARED_IN_ALL
from noiseplan.planning.measured_numbers import REALS, Numbers
from noiseplan.schema import Schema

# The common cost matrix is taken this share smaller; noise of the rest may grow by so much for it.
HAIR: Final = 1e-11
MOST_OVER: Final = 1 + 1e-4
# By so much where nothing else is possible: the release then states the variances it really has.
LAST_OVER: Final = 1.25

# Cells over which matrices are preferred to other ways, and those over which they are all there is:
# some ten seconds and half a gigabyte.
EXPLICIT_CELLS, MOST_CELLS = COMPARED_CELLS, COMPARED_IN_ALL


@dataclass(frozen=True)
class ByMatrices(Family[Mechanism]):
    """Any mechanisms over a small domain, by their cost matrices (`loewner`)."""

    nested = False
    numbers: Numbers

    def common(self, mechanisms: Sequence[Mechanism], sequential: bool = False) -> Mechanism:
        costs = [cost_of(mechanism) for mechanism in mechanisms]
        return common_rows_of(mechanisms[0].schema, costs, self.numbers, sequential)

    def span(self, mechanisms: Sequence[Mechanism]) -> Mechanism | None:
        return self.numbers.span(lambda: _in_all(mechanisms))

    def rest(self, target: Mechanism, have: Mechanism) -> Mechanism | None:
        return rest_rows(target.schema, cost_of(target), cost_of(have), self.numbers)

    def shared(self, target: Mechanism, have: Mechanism) -> Mechanism:
        return ByMatrices(REALS).common([target, have])

    def covers(self, target: Mechanism, united: Mechanism) -> bool:
        return True  # whatever they told beside it would show in their cost matrix

    def together(self, parts: Sequence[Mechanism]) -> Mechanism:
        rows = np.concatenate([part.unit_rows() for part in parts])
        return DenseMechanism(parts[0].schema, rows)

    def recreated(
        self, target: Mechanism, parts: Sequence[tuple[Mechanism, Measurements]]
    ) -> tuple[Measurements, Mechanism | None]:
        really = self.together([mechanism for mechanism, _ in parts])
        values = np.concatenate([part.unit_values(measured) for part, measured in parts])
        wanted, cost = cost_of(target), cost_of(really)
        if np.abs(wanted - cost).max() > SAME * np.abs(wanted).max() or faint(target):
            return Measurements((values,)), really
        # Least squares, and the target's own rows of it: unbiased in the target's row space.
        estimate = pseudo_inverse(wanted) @ (really.unit_rows().T @ values)
        return _measured_exactly(target, estimate), None


def _in_all(mechanisms: Sequence[Mechanism]) -> Mechanism:
    """Rows of the directions that all measure."""
    bases = [positive_part(cost_of(mechanism))[1] for mechanism in mechanisms]
    return DenseMechanism(mechanisms[0].schema, intersection(bases).T)


def faint(target: Mechanism) -> bool:
    """Whether a mechanism's noise is of less than one count, so that its variance is not σ².

    The parts have other rows, and with these noise of the same cost is not so small.
    """
    return not np.allclose(target.noise.variance, target.noise.nominal, rtol=1e-9, atol=0.0)


def common_rows_of(
    schema: Schema, costs: Sequence[Array], numbers: Numbers, sequential: bool
) -> DenseMechanism:
    """What mechanisms with these cost matrices have in common; from the back, if one after the
    other will be passed over."""
    if not sequential:
        return carried(numbers, schema, _below(costs), costs[0])
    link = costs[-1]
    for cost in reversed(costs[:-1]):
        found = carried(numbers, schema, _below([cost, link]), cost)
        link = cost_of(found)
    return found


def rest_rows(
    schema: Schema, wanted: Array, paid: Array, numbers: Numbers
) -> DenseMechanism | None:
    """What is left of a cost matrix; nobody pays more than its largest diagonal entry."""
    room = np.diagonal(wanted).max() - np.diagonal(paid)
    fewest: tuple[float, DenseMechanism] | None = None
    for negligible in numbers.negligible:
        missing = rest_cost(wanted, paid, negligible)
        if not missing.any():
            return None
        found = carried(numbers, schema, missing, wanted, room)
        over = times_over(np.diagonal(cost_of(found)), room)
        if fewest is None or over < fewest[0]:
            fewest = over, found
        if over <= MOST_OVER:
            break
    if fewest is not None and fewest[0] <= LAST_OVER:
        return noisier(*fewest)
    raise PlanError("what was measured costs more than the plan that should contain it: a bug")


def _below(costs: Sequence[Array]) -> Array:
    """The common cost matrix, less a hair: below all of them whatever rounding did.

    By more than a hair where rounding was larger: by the largest share that it is of any.
    """
    rows, covariance = common_of_costs(costs)
    if not len(rows):
        return np.zeros_like(costs[0])
    found = symmetric(rows.T @ np.linalg.solve(covariance, rows))
    return found * min(1 - HAIR, (1 - HAIR / 10) / max(_share(found, cost) for cost in costs))


def _share(small: Array, large: Array) -> float:
    """The largest share of any direction's precision in one cost matrix that another has."""
    values, vectors = positive_part(large)
    across = vectors / np.sqrt(values)
    return float(np.linalg.eigvalsh(symmetric(across.T @ small @ across))[-1])


def times_over(own: Array, room: Array) -> float:
    """How many times the room of some kind of record is asked; infinite where it has none.

    Rounding may have pushed C_have + C_rest above the target's largest diagonal, by a little.
    """
    asked = own > 0
    if (room[asked] <= 0).any():
        return np.inf
    return float(np.max(own[asked] / room[asked], initial=0.0)) * (1 + 1e-12)


def noisier(over: float, rest: DenseMechanism) -> DenseMechanism:
    """With so much more noise that no kind of record pays more than for the target."""
    noise = rest.noise if over <= 1 else replace(rest.noise, size=rest.noise.size * over)
    if noise.one > WIDEST_VARIANCE:
        raise PlanError("what is left is too faint to be measured in integers")
    return replace(rest, noise=noise)


def _measured_exactly(mechanism: Mechanism, counts: Array) -> Measurements:
    """What a mechanism would measure of these counts, whole numbers or not, without noise."""
    tensor = counts.reshape(mechanism.schema.shape)

    def marginals(sets: np.ndarray) -> np.ndarray:
        axes = [tuple(set(range(tensor.ndim)) - set(row)) for row in sets.tolist()]
        return np.array([tensor.sum(axis=out) for out in axes])

    return mechanism.floating().measure(marginals, lambda shape, noise: np.zeros(shape))


# ---------------------------------------------------------------------- cost matrices


def carried(
    numbers: Numbers, schema: Schema, cost: Array, within: Array, room: Array | None = None
) -> DenseMechanism:
    """A mechanism whose cost matrix is this one; in integers, slightly below it.

    `within` is a cost matrix whose row space contains this one's: nothing outside of it is
    measured. `room` is what every cell may still pay, where they differ.
    """
    rows, sigma2 = np.zeros((0, len(cost))), 1.0
    if cost.any():
        rows, sigma2 = numbers.rows_of_cost(cost, within, room)
    return DenseMechanism(schema, rows, numbers.noise(sigma2))


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


def cost_of(mechanism: Mechanism) -> Array:
    """BᵀΣ⁻¹B over the domain; raises `PlanError` where that is too large to write down."""
    require_few_cells(mechanism.schema.size)
    return symmetric(mechanism.cost_matrix())


def require_few_cells(size: int, why: str = "") -> None:
    """Refuse a domain over which no matrix is written down, and say what goes to any size."""
    if size > MOST_CELLS:
        raise PlanError(
            why
            + f"explicit matrices go up to {MOST_CELLS:,} cells, while the schema has {size:,}. "
            + "Over more cells plans go together that have "
            + setting("planner", "residual")
            + " and measure each attribute by the same rows, as plans of plain tables do"
        )
