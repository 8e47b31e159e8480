"""Plans of tables with Laplace noise: strategies of attributes, tables by type, noise of each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.tables import TableBlock, TablesMechanism, View
from noiseplan.noise import Noise
from noiseplan.noise.law import LEAST_VARIANCE
from noiseplan.optimize.laplace_allocation import Spending
from noiseplan.planning.attribute_strategies import (
    STRATEGIES,
    Mix,
    RoleStrategy,
    bases_of,
    choose_strategies,
    mixes,
    role_gram,
    role_strategies,
)
from noiseplan.planning.candidate import Candidate, Planner, reached
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.noise_within import epsilon_of, scales_within
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.pure_bounds import SharedTables, laplace_cost
from noiseplan.planning.residual_mechanism import numbered, placements
from noiseplan.planning.solve import table_loss
from noiseplan.planning.table_merging import merged_tables
from noiseplan.planning.table_types import TableTypes, find_table_types, variances
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import ResidualFigures
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import Guarantee
from noiseplan.strategies.column_norms import total_error

# Bits of the integers in a strategy: with several such attributes in a table they multiply, and
# together they stay below this, which leaves room for 2³² records.
MOST_BITS, ALL_BITS = 14, 28
# Tables are merged where no more sets than so many are needed, and taken if that is clearly better.
MOST_SETS, WORTH_IT = 6000, 0.99
# Of the least noise, at most of one count: the noise of a total that is public.
HARDLY = 2.0**-10
# The share of ε that all other tables start with.
EVERY_SHARE = 1e-3

Keys = list[tuple[int, ...]]


def solve(problem: Problem) -> Candidate:
    """The best tables within ε, of attributes measured as asked."""
    with one_thread(problem.design):
        return measuring(problem, problem.name)


def measuring(problem: Problem, strategy: str) -> Candidate:
    """Choose strategies, share ε among tables, and make the mechanism with its exact cost."""
    if strategy == "auto":
        return min(ways(problem), key=partial(reached, problem))
    try:
        return _made(
            problem,
            _shared(problem, choose_strategies(problem.design, strategy, problem.public_total)),
        )
    except np.linalg.LinAlgError:  # a faint identity beside few rows
        raise PlanError(
            setting("planner", strategy) + " finds no plan here: few rows that tell many values "
            "apart leave next to nothing for single values, not to be told from rounding; use "
            + setting("planner", "auto")
            + " or "
            + setting("planner", "workload")
        ) from None


def ways(problem: Problem) -> list[Candidate]:
    """What may be best unasked: the mixes of strategies, as far as their noise can be drawn."""
    best, *others = mixes(problem.design, problem.public_total)
    if not (others and _may_mislead(problem, best)):
        with suppress(np.linalg.LinAlgError):  # a faint identity beside few rows, near a limit
            return [_made(problem, _shared(problem, best))]
    found = []
    for mix in (best, *others):
        with suppress(PlanError, np.linalg.LinAlgError):
            found.append(_made(problem, _shared(problem, mix)))
    return found or [_made(problem, _shared(problem, best))]  # which says why


def _may_mislead(problem: Problem, chosen: Mix) -> bool:
    """Whether strategies were chosen for something else than what the plan is for.

    They are for the total of one attribute at a time, where every value of the others is measured;
    and for continuous noise: discrete noise of less than one count is less on single values.
    """
    one_attribute = problem.design.roles.attributes == 1
    if not (one_attribute and isinstance(problem.goal, TotalVariance)):
        return True
    ((role, (_, matrix)),) = chosen.items()
    gram, epsilon = role_gram(problem.design, role, problem.public_total), problem.epsilon
    less = laplace_cost(epsilon, exact=False) / laplace_cost(epsilon, problem.integer)
    return bool(np.trace(gram) * less < total_error(matrix, gram, "L1"))


@dataclass(frozen=True, eq=False)
class Shared:
    """Strategies of roles, the types of tables they make, and the share of ε of each type.

    `of_roles` are the same strategies by the roles of the problem; where tables are merged, every
    attribute has a role of its own.
    """

    name: str
    of_roles: dict[int, Array]
    matrices: dict[int, Array]
    types: TableTypes
    spending: Spending
    larger: Keys | None = None

    def ideal(self, epsilon: float) -> float:
        """The weighted total variance of continuous noise, before rounding."""
        types, shares = self.types, self.spending.shares
        law = types.law(epsilon, exact=False)
        with np.errstate(divide="ignore"):
            each = 1.0 / (types.told @ law.precision(shares * epsilon / types.price))
        weights = variances(types.design, types.strategies)
        return float(weights @ np.where(weights > 0, each, 0.0))


def _shared(problem: Problem, chosen: Mix) -> Shared:
    """The best shares found for these strategies."""
    design = problem.design
    name = " and ".join(sorted({name for name, _ in chosen.values()})) or "tables"
    matrices = {r: matrix for r, (_, matrix) in chosen.items()}
    types = find_table_types(design, role_strategies(design, matrices, None))
    found = Shared(name, matrices, matrices, types, _spend(problem, types))
    merged = _merged(problem, found)
    better = merged is not None and merged.spending.value < WORTH_IT * found.spending.value
    return merged if merged is not None and better else found


def _spend(problem: Problem, types: TableTypes, start: Array | None = None) -> Spending:
    loss = table_loss(types.design, bases_of(types.strategies), problem.goal)
    if problem.public_total:
        told = sp.csr_array(loss.rows @ sp.diags_array(np.where(_totals(types.design), 0.0, 1.0)))
        loss = replace(loss, rows=told) if told.sum() > 0 else loss  # or else nothing is asked
    return types.spend(loss, types.law(problem.epsilon, problem.integer), start)


def _merged(problem: Problem, found: Shared) -> Shared | None:
    """The same with larger tables for single attributes, whatever role they play."""
    design = problem.design
    if design.terms.subset_count.sum() > MOST_SETS:
        return None
    alone = design
    if any(len(role.members) > 1 for role in design.roles.roles):
        alone = prepare(design.workload, problem.priorities, share=False)
    of = design.roles.of_attribute
    same = {r: int(of[role.members[0]]) for r, role in enumerate(alone.roles.roles)}
    own = {r: found.matrices[s] for r, s in same.items() if s in found.matrices}
    strategies = role_strategies(alone, own, None)
    larger, start = merged_tables(alone, strategies, variances(alone, strategies))
    if not larger:
        return None
    types = find_table_types(alone, strategies, larger)
    numbered = reversed(list(enumerate(types.roles)))
    place = {tuple(row[row >= 0].tolist()): m for m, row in numbered}
    shares = np.full(len(types.tables), EVERY_SHARE / len(types.tables))
    shares[[place[key] for key in larger]] += start
    spending = _spend(problem, types, shares / shares.sum())
    return Shared(found.name, found.of_roles, own, types, spending, larger)


def _made(problem: Problem, found: Shared) -> Candidate:
    """The mechanism of these shares, in integers where integers are measured."""
    types, epsilon = found.types, problem.epsilon
    shares, bits = found.spending.shares, None
    if found.matrices:
        bits = problem.numbers.bits(lambda: _bits(found.types, shares))
    if bits is not None:
        strategies = role_strategies(types.design, found.matrices, bits)
        types = find_table_types(types.design, strategies, found.larger)
    scales = scales_within(types.norms, types.tables, found.spending.shares, epsilon)
    noise = problem.drawn.of_size(scales)  # infinite where nothing is measured
    noise.of_size(scales[np.isfinite(scales)]).require_drawable()
    with np.errstate(divide="ignore"):
        precision = types.told @ np.where(np.isfinite(scales), 1.0 / noise.variance, 0.0)
        if problem.public_total:
            least = _of_total(noise).variance
            # Noise that is never seen to be other than zero is none.
            precision[_totals(types.design)] += 1.0 / np.where(least > LEAST_VARIANCE, least, 0.0)
        figures = ResidualFigures(types.design, bases_of(types.strategies), 1.0 / precision)
    privacy = Guarantee.pure(epsilon_of(types.norms, types.tables, scales))
    tables = None
    if isinstance(problem.goal, TotalVariance):
        alike = role_strategies(problem.design, found.of_roles, bits)
        tables = SharedTables(problem.design, alike, epsilon, problem.integer)
    known = Unstated(problem.workload, privacy, exact=problem.integer, tables=tables)
    loss = float(types.design.type_weight @ figures.type_variances) / found.ideal(epsilon)
    mechanism = _assembled(types, noise, problem.public_total)
    return Candidate(found.name, mechanism, privacy, figures, known, loss - 1.0)


def _bits(types: TableTypes, shares: Array) -> int:
    used = types.roles[shares > 0]
    most = int(np.isin(used, types.design.free).sum(axis=1).max(initial=0))
    return min(MOST_BITS, ALL_BITS // max(most, 1))


def _of_total(noise: Noise) -> Noise:
    """The noise of a total that is public: hardly any."""
    return noise.of_size(min(float(np.min(noise.size)), 1.0) * HARDLY)


def _totals(design: Design) -> NDArray[np.bool_]:
    """Which subset is that of no attributes."""
    return np.asarray((design.terms.subset_roles < 0).all(axis=1))


def _assembled(types: TableTypes, noise: Noise, public_total: bool) -> TablesMechanism:
    design, strategies, scales = types.design, types.strategies, noise.size
    bases, of_role = numbered(bases_of(strategies))
    role_of = design.roles.of_attribute
    views: dict[tuple[object, bool], View] = {}
    grouped: dict[tuple[View, ...], list[tuple[Array, Array]]] = {}
    for m in np.flatnonzero(np.isfinite(scales)):
        row = types.roles[m]
        rows = placements(design, row) if (row >= 0).any() else np.zeros((1, 0), np.int64)
        halved = bool(types.difference[m])
        signature = of_role[role_of[rows]]
        for kind in np.unique(signature, axis=0):
            mine = rows[(signature == kind).all(axis=1)]
            own = tuple(_view(strategies[int(role_of[i])], halved, views) for i in mine[0])
            grouped.setdefault(own, []).append((mine, np.full(len(mine), scales[m])))
    if not grouped:
        raise PlanError("the plan would measure nothing: this is a bug")
    blocks = [
        TableBlock(
            np.concatenate([sets for sets, _ in parts]),
            noise.of_size(np.concatenate([sizes for _, sizes in parts])),
            own,
        )
        for own, parts in grouped.items()
    ]
    if public_total:
        blocks.append(TableBlock(np.zeros((1, 0), np.int64), _of_total(noise), ()))
    schema = design.workload.schema
    return TablesMechanism(schema, tuple(blocks), bases, of_role[role_of])


def _view(role: RoleStrategy, halved: bool, views: dict[tuple[object, bool], View]) -> View:
    """The view of an attribute; roles with the same basis share it."""
    by_difference = halved and role.difference is not None
    view = role.difference if by_difference else role.view
    assert view is not None
    return views.setdefault((role.basis, by_difference), view)


PLANNER: Final = Planner(STRATEGIES, solve)
