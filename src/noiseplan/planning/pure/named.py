"""Strategies by name, or brought by a user, with Laplace noise: L1 columns instead of L2."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.noise import Noise
from noiseplan.planning.named_plans import check_cells, check_product, product_mechanism
from noiseplan.planning.pure.made import PureMade
from noiseplan.planning.pure.matrix import made_of_matrix
from noiseplan.planning.pure.scales import cost_of, require_drawable, scales_within
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Guarantee
from noiseplan.strategies.catalogue import (
    PURE_STRATEGIES,
    StrategyName,
    asked_by,
    product_factors,
    strategy_matrix,
)
from noiseplan.strategies.given_rows import Strategy

# Rounding to integers tilts the rows; where they do not determine every cell, this much of L1
# columns goes to the cells themselves, so that every query still has an answer.
EVERY_CELL = 1e-3


def laplace_strategy(planner: object) -> StrategyName | Strategy | None:
    """What a planner's name, or a strategy in its place, says is to be measured."""
    return planner if isinstance(planner, Strategy) else asked_by(planner, PURE_STRATEGIES)


def plan_named_pure(
    design: Design, epsilon: float, planner: StrategyName | Strategy, integer: bool
) -> PureMade:
    """The plan that measures this strategy within ε."""
    schema = design.workload.schema
    factors = product_factors(planner, schema) if isinstance(planner, StrategyName) else None
    if factors is not None:
        touched = Fraction(check_product(planner.name, factors))
        scales = scales_within([touched], [1], np.ones(1), epsilon)
        if integer:
            require_drawable(scales)
        noise = Noise("laplace", scales, integer)
        mechanism = product_mechanism(schema, factors, noise)
        figures = RowFigures(design, mechanism)
        # Entries are integers already: only the noise differs from its continuous twin.
        loss = float(noise.variance[0]) / (2 * float(touched) ** 2 / epsilon**2)
        value = float(design.type_weight @ figures.sums())
        cost = Guarantee.pure(cost_of([touched], [1], scales))
        return PureMade(design, mechanism, cost, figures, value, planner.name, loss - 1.0)
    check_cells(planner.name, schema.size)
    strategy = strategy_matrix(planner, schema, design.gram(), "L1")
    if integer and not _whole(strategy):
        strategy = _determining(strategy)
    return made_of_matrix(design, epsilon, strategy, planner.name, integer)


def _whole(strategy: Array) -> bool:
    """Whether all entries are 0 or of one size: then integers are no rounding."""
    size = np.abs(strategy)
    return bool(np.isin(size, (0.0, size.max())).all())


def _determining(strategy: Array) -> Array:
    """The same with a little of every cell, where rows do not determine all cells."""
    if np.linalg.matrix_rank(strategy, tol=1e-7) == strategy.shape[1]:
        return strategy
    return np.concatenate([strategy, EVERY_CELL * np.eye(strategy.shape[1])])
