"""`plan(workload, epsilon)`: arguments, their checks, and the choice of a mechanism."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from noiseplan.errors import BudgetError, PlanError, UnanswerableError, remedy
from noiseplan.local.device.integer_chances import log_up
from noiseplan.local.device.randomizer import LARGEST_TABLE
from noiseplan.local.localplan import LocalPlan
from noiseplan.local.search.generation import EXHAUSTIVE, Found
from noiseplan.local.search.portfolio import (
    CLASSICAL,
    EQUAL,
    Task,
    best_strategy,
    named_classical,
)
from noiseplan.local.search.variance_bounds import lower_bound
from noiseplan.local.server.reconstruction import Part, Reconstruction
from noiseplan.local.split_planner import NEAR, choose_tables, plain_tables, plan_split
from noiseplan.local.strategies.additive import additive_strategy
from noiseplan.local.strategies.strategy import Strategy, TableStrategy, check_strategy
from noiseplan.local.user_types import Types, asked_schema, types_of
from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import to_backend
from noiseplan.planning.threads import LARGE, one_thread_below
from noiseplan.privacy.rounding import positive_finite
from noiseplan.progress import waiting
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

OBJECTIVES = ("worst", "average")
ADDITIVE = ("matrix l1", "matrix l2")
MECHANISMS = ("auto", *CLASSICAL, *ADDITIVE, "split")
DELTA = ("matrix l2", "delta")
# Of queries with more entries than this it is taken on trust that they are answered.
CHECKED_ENTRIES = 1 << 24
# Below and above, variances would have lost too many of their digits.
SMALLEST_EPSILON, LARGEST_EPSILON = 0.001, 16.0


def plan(
    workload: Workload | Query,
    epsilon: float | None = None,
    *,
    mechanism: str = "auto",
    strategy: Any = None,
    objective: str = "worst",
    prior: Any = None,
    effort: float = 1.0,
    seed: int = 0,
    backend: str = "numpy",
    **options: Any,
) -> LocalPlan:
    """Plan what users report under ε-local differential privacy, for a workload of queries.

    No data is read. Each user's report is ε-differentially private by itself: whoever collects the
    reports need not be trusted.

    Parameters
    ----------
    workload
        What is to be answered. A query's weight multiplies its variance.
    epsilon
        ε of one report.
    mechanism
        "auto" searches for the best; or one of the classical mechanisms by name: "randomized
        response", "rappor", "subset selection" (option `size`), "hadamard", "hadamard blocks",
        "hierarchical" (`branching`, `oracle`), "fourier" (`order`), "weighted fourier", and
        "matrix l1", "matrix l2" (`delta`) for noise added to numbers. "split" lets every user
        report on one of several smaller tables (`cells`); "auto" does so where the domain is too
        large, and where it is better.
    strategy
        Instead of a mechanism, your own matrix of chances: one row per possible report, one column
        per cell of the attributes asked about. Its ε is computed, exactly; `epsilon` may be left
        out.
    objective
        "worst": the least variance for the least favourable type of user. "average": the least mean
        variance over types, under the prior.
    prior
        Shares of users expected in each cell, in the schema's shape: only what is known in advance,
        never from the data. Sets the objective to "average".
    effort
        Multiplies the time spent on searching.
    seed
        Of the search; the same seed gives the same plan.
    backend
        Where descents run: "numpy", "torch" or "torch:cuda" (extra ``gpu``).

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema({"crashes": nz.Ordinal(range(8))})
    >>> made = plan(nz.Workload([nz.Query(schema, {"crashes": nz.Prefix()})]), epsilon=1.0)
    >>> made.users_needed(0.01)
    289
    """
    workload = Workload([workload]) if isinstance(workload, Query) else workload
    _check(workload, mechanism, objective, effort, seed)
    if "budget" in options:
        raise BudgetError(
            "local plans take epsilon=, the ε of one report, and no budget: "
            "local.plan(workload, epsilon=1.0)"
        )
    if not isinstance(backend, str):
        raise PlanError(f"backend is 'numpy', 'torch' or 'torch:cuda', found {backend!r}")
    to_backend(np.zeros(1), backend)  # refused now rather than after a search
    worst = objective == "worst" and prior is None
    if strategy is not None:
        named = None if mechanism == "auto" else mechanism
        refuse("a strategy of your own", mechanism=named, **options)
        within = None if epsilon is None else checked_epsilon(epsilon)
        own = own_strategy(asked_schema(workload), strategy, within)
        how = Search(checked_epsilon(own.epsilon), worst, prior, effort, seed, backend)
        given = partial(_with_prior, own)
        return _one_matrix(workload, how, given, merge=False)
    if epsilon is None:
        raise BudgetError("say how private one report is: local.plan(workload, epsilon=1.0)")
    how = Search(checked_epsilon(epsilon), worst, prior, effort, seed, backend)
    return _planned(workload, mechanism, how, options)


@dataclass(frozen=True, eq=False)
class Search:
    """ε, what is minimised, and how hard to try."""

    epsilon: float
    worst: bool
    prior: Any
    effort: float
    seed: int
    backend: str

    def split(self, workload: Workload, **options: Any) -> LocalPlan:
        """Users split over tables, of which none is large."""
        with one_thread_below(LARGE, 0):
            how = {"effort": self.effort, "seed": self.seed, "backend": self.backend}
            return plan_split(workload, self.epsilon, **how, **options)  # type: ignore[arg-type]


def _planned(workload: Workload, mechanism: str, how: Search, options: dict[str, Any]) -> LocalPlan:
    """A mechanism by name, or the best: one matrix, or users split over tables."""
    too_large = asked_schema(workload).size > LARGEST_TABLE
    if mechanism == "split" or (mechanism == "auto" and too_large):
        unused = {o: v for o, v in options.items() if o != "cells"} | {"prior": how.prior}
        mean = None if how.worst or how.prior is not None else "average"
        refuse("mechanism 'split'", too_large, **unused, objective=mean)
        return how.split(workload, **options)
    if mechanism in ADDITIVE:
        unused = {o: v for o, v in options.items() if (mechanism, o) != DELTA}
        elsewhere = None if how.backend == "numpy" else how.backend
        refuse(f"mechanism {mechanism!r}", **unused, prior=how.prior, backend=elsewhere)
    whole = partial(_one_matrix, workload, how, partial(_found, mechanism, options))
    if mechanism != "auto" or options or not how.worst or not _may_split(workload):
        return whole()
    apart = how.split(workload, cells=1)
    if apart.gap <= NEAR and not plain_tables(workload):
        return apart
    one = whole()
    return one if one.value <= apart.value * EQUAL else apart


def _may_split(workload: Workload) -> bool:
    """Whether tables are asked about apart, over too many cells for a search to find the best."""
    few = asked_schema(workload).size <= EXHAUSTIVE
    return not few and len(choose_tables(workload, 1)) > 1


def _one_matrix(
    workload: Workload, how: Search, find: Callable[[Task], Found], *, merge: bool = True
) -> LocalPlan:
    """A plan of one strategy over all types, as `find` finds it."""
    started, cells = time.perf_counter(), asked_schema(workload).size
    with one_thread_below(LARGE, cells), waiting("planning reports"):
        types = types_of(workload, merge=merge)
        weights = types.uniform if how.prior is None else _checked_prior(types, how.prior)
        more = how.effort, how.seed, how.backend
        found = find(Task(types, how.epsilon, weights, how.worst, *more))
        _check_answers(workload, types, found.strategy)
        made = Reconstruction((Part(types, found.strategy),), split=False)
        plan = LocalPlan(workload, made, how.epsilon, how.worst, (weights,), 0.0)
        proved = max(found.bound or 0.0, 0.0)
        if not getattr(found.strategy, "delta", 0.0):  # bounds are on what has no δ
            asked = lower_bound(
                types.gram, weights, how.epsilon, worst=how.worst,
                cells=cells if how.prior is None else None, reached=plan.value,
            )  # fmt: skip
            proved = max(asked, proved)
    return replace(plan, lower_bound=proved, seconds=time.perf_counter() - started)


def _found(mechanism: str, options: dict[str, Any], task: Task) -> Found:
    if mechanism in ADDITIVE:
        return Found(additive_strategy(task.types.gram, task.epsilon, mechanism, **options))
    if mechanism == "auto" and options:
        raise PlanError(f"options {sorted(options)} belong to a mechanism: name it, mechanism=...")
    # One type of users has nothing to hide: every mechanism is the constant one.
    if task.types.count == 1 and mechanism != "subset selection":
        return best_strategy(task)
    try:
        chosen = None if mechanism == "auto" else CLASSICAL[mechanism](task, **options)
    except TypeError as error:
        raise PlanError(f"mechanism {mechanism!r} takes other options: {error}") from None
    return best_strategy(task) if chosen is None else Found(chosen.rounded())


def _with_prior(own: TableStrategy, task: Task) -> Found:
    return Found(replace(own, prior=task.prior))


def refuse(what: str, always: bool = False, /, **unused: Any) -> None:
    """Refuse arguments that would not be used; those that are None were not given.

    Users are `always` split where the domain is too large: then there is nothing else to choose.
    """
    given = sorted(name for name, value in unused.items() if value is not None)
    if given:
        other = ", or choose another mechanism"
        if always:
            other = f"; users are always split where {LARGEST_TABLE:,} cells are exceeded"
        raise PlanError(f"{what} has no use for {given}: leave them out{other}")


def _check_answers(workload: Workload, types: Types, strategy: Strategy) -> None:
    """Whether every query will be answered without bias: better known now than after collecting.

    Queries too large to be written out are not, and `answer` would not write them out either.
    """
    for query in workload:
        if query.rows * len(types.kind) > CHECKED_ENTRIES:
            continue
        try:
            strategy.coefficients(types.matrix(query))
        except UnanswerableError as error:
            raise PlanError(
                f"mechanism {strategy.name!r} cannot answer {query.name!r} of the workload "
                f"itself: it does not measure all that is asked, or weights and rows differ too "
                f"much in size; choose another mechanism, bring weights closer, or plan the query "
                f"apart"
            ) from error


def checked_epsilon(epsilon: object) -> float:
    """A number in the range in which variances keep enough of their digits."""
    with suppress(BudgetError):
        value = positive_finite("epsilon", epsilon, "1.0")
        if SMALLEST_EPSILON <= value <= LARGEST_EPSILON:
            return value
    raise BudgetError(
        f"epsilon is a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}, as in "
        + remedy("argument", "local.plan(workload, epsilon=1.0)", "--epsilon 1.0")
        + f"; found {epsilon!r}"
    )


def _check(
    workload: object, mechanism: object, objective: object, effort: object, seed: object
) -> None:
    if not isinstance(workload, Workload):
        raise PlanError(
            f"a plan starts from a workload, found {type(workload).__name__}; write "
            f"local.plan(Workload([Query(schema, ['age'])]), epsilon=1.0)"
        )
    if mechanism not in MECHANISMS:
        raise PlanError(f"no mechanism {mechanism!r}; choose from {list(MECHANISMS)}")
    if objective not in OBJECTIVES:
        raise PlanError(f"no objective {objective!r}; choose from {list(OBJECTIVES)}")
    if isinstance(effort, bool) or not isinstance(effort, (int, float)) or not 0 < effort < 1e6:
        raise PlanError(f"effort is a positive number, 1 for the usual search; found {effort!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise PlanError(f"seed is an integer of at least 0, found {seed!r}")


def _checked_prior(types: Types, prior: Any) -> Array:
    try:
        shares = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise PlanError(
            f"prior is an array of shares, one for each cell of {list(types.schema.names)}; found "
            f"{prior!r}"
        ) from None
    if shares.size != len(types.kind):
        raise PlanError(
            f"prior has {shares.size:,} shares, but the table of {list(types.schema.names)} has "
            f"{len(types.kind):,} cells ({' × '.join(map(str, types.schema.shape))})"
        )
    weights = types.counts(shares)
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise PlanError("prior holds shares of at least 0, not all 0")
    # A type that is not expected at all would be left unprotected from any error.
    kept = np.maximum(weights / weights.sum(), 1e-6 / len(weights))
    return np.asarray(kept / kept.sum())


def compare(workload: Workload | Query, epsilon: float = 1.0) -> dict[str, float]:
    """Users each classical mechanism needs for a mean variance of 0.01 of the rows, worst case.

    Those that cannot answer the workload are left out. Hierarchies have branching 4.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"a": 8})
    >>> found = compare(nz.Query(schema, ["a"]), epsilon=1.0)
    >>> round(found["randomized response"], 1), round(found["subset selection"], 1)
    (338.9, 271.7)
    """
    workload = Workload([workload]) if isinstance(workload, Query) else workload
    _check(workload, "auto", "worst", 1.0, 0)
    types = types_of(workload)
    task = Task(types, checked_epsilon(epsilon), types.uniform)
    with one_thread_below(LARGE, len(types.kind)):
        found = [(label, task.value(strategy)) for label, strategy in named_classical(task)]
    return {label: 100 * value / types.rows for label, value in found}


# ---------------------------------------------------------------------- strategies that users bring


def own_strategy(schema: Schema, chances: Any, epsilon: float | None) -> TableStrategy:
    """The strategy of a matrix Q, possible reports × cells, within ε or within its own.

    The integers that devices draw from lie within ε whatever rounding does; Q itself may exceed it
    by rounding alone.
    """
    matrix = _checked(schema, chances)
    met = matrix_epsilon(matrix)
    within = met if epsilon is None else epsilon
    check_strategy(matrix, within)
    return TableStrategy.of(matrix, within, name="own strategy").rounded()


# Chances below this are no numbers to be reckoned with.
LEAST_CHANCE: Final = 1e-200


def matrix_epsilon(chances: Array) -> float:
    """ln max_o (max_u Q[o, u]/min_u Q[o, u]) of the numbers as they are, rounded up."""
    low, high = chances.min(axis=1), chances.max(axis=1)
    impossible = (low <= 0) & (high > 0)
    if impossible.any():
        raise PlanError(
            f"report {int(impossible.argmax())} of the strategy is possible for some values and "
            f"impossible for others, which is private at no ε: give it a chance for every value"
        )
    if not (high > 0).any() or (low[high > 0] < LEAST_CHANCE).any():
        raise PlanError(
            f"a strategy gives every possible report a chance of at least {LEAST_CHANCE:g} for "
            f"every value, and its columns add up to one"
        )
    pairs = zip(high[high > 0].tolist(), low[high > 0].tolist(), strict=True)
    return log_up(max(Fraction(most) / Fraction(least) for most, least in pairs))


def _checked(schema: Schema, chances: Any) -> Array:
    try:
        matrix = np.asarray(chances, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    fits = matrix.ndim == 2 and matrix.shape[1] == schema.size and len(matrix) > 0
    if not fits or not np.isfinite(matrix).all():
        raise PlanError(
            f"a strategy has one row for each possible report and one column for each of the "
            f"{schema.size:,} cells of {list(schema.names)}, the last attribute fastest, all "
            f"finite; found shape {matrix.shape}"
        )
    return matrix
