"""Plans that measure a strategy by name, or one that a user brings, with Gaussian noise."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, setting
from noiseplan.matrices import Transform, kronecker_dense
from noiseplan.matrices.transforms import PROFILE_VALUES
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.product import Factor, ProductMechanism
from noiseplan.noise import Noise
from noiseplan.noise.discrete import LARGEST_VARIANCE
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.integer_matrix import matrix_mechanism
from noiseplan.planning.integers import FINE_BITS, round_up
from noiseplan.planning.limits import EXPLICIT_CELLS
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.plan import Plan
from noiseplan.planning.residual_mechanism import allowed_cost
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import Figures, RowFigures
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import Budget, Guarantee, Law, Neighbours
from noiseplan.privacy.rounding import fraction_up
from noiseplan.queries import Workload
from noiseplan.schema import Schema
from noiseplan.strategies.catalogue import StrategyName, product_factors, strategy_matrix
from noiseplan.strategies.column_norms import total_error
from noiseplan.strategies.given_rows import Strategy

# Products of small domains are written out as one matrix, which other rooms can work with; not
# where that has too many numbers, as trees over many attributes have.
WRITTEN_OUT, WRITTEN_NUMBERS = 1024, 2**22
# Numbers that a product may measure: 128 MB of them.
MOST_NUMBERS: Final = 2**24


def plan_named(
    workload: Workload, budget: Budget | None, planner: StrategyName | Strategy, objective: object,
    neighbours: Neighbours, noise: str, targets: object,
) -> Plan:  # fmt: skip
    """The plan that measures this strategy, scaled to the budget."""
    started = time.perf_counter()
    budget = _checked(budget, planner, objective, neighbours, targets)
    _check_size(planner, workload.schema)
    # Whatever a strategy is, it may treat attributes differently that look alike.
    design = prepare(workload, share=False)
    with one_thread(design):
        made = _made(design, planner, allowed_cost(budget, noise), noise == "discrete")
    law: Law = "zcdp" if noise == "discrete" else "gaussian"
    privacy = Guarantee(made.cost, law, neighbours)
    if not privacy.within(budget):  # fail closed
        raise PlanError(f"the plan would cost {made.cost}, above {budget}: this is a bug")
    _require_answers(design, made.mechanism)
    return Plan(
        workload=workload,
        mechanism=made.mechanism,
        privacy=privacy,
        objective=TotalVariance(),
        planner=planner.name,
        noise=noise,
        rounding_loss=made.loss,
        targets=None,
        design=design,
        figures=made.figures,
        optimality=Unstated(workload, privacy),
        seconds=time.perf_counter() - started,
    )


def _check_size(planner: StrategyName | Strategy, schema: Schema) -> None:
    """Refuse what is too large, before any work is done."""
    factors = product_factors(planner, schema) if isinstance(planner, StrategyName) else None
    if factors is None:
        check_cells(planner.name, schema.size)
    else:
        check_product(planner.name, factors)


def too_large(planner: StrategyName | Strategy, schema: Schema) -> bool:
    """Whether a named strategy needs one matrix over all cells, and there are too many of them."""
    return (
        isinstance(planner, StrategyName)
        and product_factors(planner, schema) is None
        and schema.size > EXPLICIT_CELLS
    )


@dataclass(frozen=True, eq=False)
class _Made:
    """A mechanism, its privacy cost rounded up, its figures, and what integers cost of variance."""

    mechanism: Mechanism
    cost: float
    figures: Figures
    loss: float


def _require_answers(design: Design, mechanism: Mechanism) -> None:
    from noiseplan.planning.planner import require_answers

    require_answers(design, mechanism)


def _made(design: Design, planner: StrategyName | Strategy, allowed: float, integer: bool) -> _Made:
    schema = design.workload.schema
    factors = product_factors(planner, schema) if isinstance(planner, StrategyName) else None
    if factors is not None:
        touched = check_product(planner.name, factors)
        sigma2 = _noise_within(touched, allowed)
        if integer and sigma2 > LARGEST_VARIANCE:
            raise PlanError(
                "the budget is so small that the noise does not fit 64-bit integers: plan for a "
                "larger budget, or use " + setting("noise", "gaussian") + " to simulate"
            )
        noise = Noise("gaussian", sigma2, integer)
        mechanism: Mechanism = product_mechanism(schema, factors, noise)
        cost = fraction_up(Fraction(touched) / Fraction(sigma2))
        # Entries are integers already: only the noise differs from its continuous twin.
        spread = float(noise.variance[0])
        return _Made(mechanism, cost, RowFigures(design, mechanism), spread * allowed / touched - 1)
    gram = design.gram()
    strategy = strategy_matrix(planner, schema, gram, "L2")
    mechanism, cost = matrix_mechanism(schema, strategy, allowed, integer)
    _require_answers(design, mechanism)
    figures = RowFigures(design, mechanism)
    ideal = total_error(strategy, gram) / allowed
    return _Made(mechanism, cost, figures, float(design.type_weight @ figures.sums()) / ideal - 1)


def _noise_within(touched: int, allowed: float) -> float:
    """σ² with touched/σ² ≤ allowed: the quotient rounded up, and a hair more."""
    return float(round_up(np.array([touched / allowed * (1 + 1e-14)]), FINE_BITS)[0])


def product_mechanism(schema: Schema, factors: tuple[Factor, ...], noise: Noise) -> Mechanism:
    """A product of strategies: as one matrix where the domain is small, by transforms beyond."""
    numbers = prod(factor.shape[0] for factor in factors)
    if schema.size <= WRITTEN_OUT and numbers * schema.size <= WRITTEN_NUMBERS:
        rows = kronecker_dense([factor.dense() for factor in factors])
        return DenseMechanism(schema, rows, noise)
    return ProductMechanism(schema, factors, noise)


def check_product(name: str, factors: tuple[Factor, ...]) -> int:
    """How many numbers a record touches, by one each; products that are too large are refused."""
    numbers = prod(factor.shape[0] for factor in factors)
    if numbers > MOST_NUMBERS:
        raise PlanError(
            setting("planner", name)
            + f" would measure {numbers:,} numbers, and at most {MOST_NUMBERS:,} are measured of a "
            f"whole domain; use " + setting("planner", "auto") + ", which measures tables"
        )
    longest = max((f.shape[1] for f in factors if isinstance(f, Transform)), default=0)
    if longest > PROFILE_VALUES:
        raise PlanError(
            setting("planner", name)
            + f" takes attributes of at most {PROFILE_VALUES:,} values, and one has {longest:,}; "
            "use " + setting("planner", "auto")
        )
    return prod(f.touched if isinstance(f, Transform) else 1 for f in factors)


def check_cells(name: str, size: int) -> None:
    """Refuse one matrix over a domain that is too large for it."""
    if size > EXPLICIT_CELLS:
        raise PlanError(
            setting("planner", name)
            + f" plans domains of at most {EXPLICIT_CELLS:,} cells, and the schema has {size:,}; "
            "use "
            + setting("planner", "auto")
            + ", or 'hierarchical' and 'wavelet', which need no matrix over all cells"
        )


def _checked(
    budget: Budget | None, planner: StrategyName | Strategy, objective: object, neighbours: str,
    targets: object,
) -> Budget:  # fmt: skip
    """The budget, where a strategy that is not optimised can do what is asked."""
    plain = objective is None or isinstance(objective, TotalVariance)
    if budget is None or targets is not None or not plain or neighbours != "add-remove":
        raise PlanError(
            setting("planner", planner.name)
            + " plans the total variance under a budget, for neighbours that add or remove a "
            "record; use "
            + setting("planner", "auto")
            + " or 'optimal' for other objectives, targets and neighbours"
        )
    return budget
