"""`plan(workload, epsilon)`: arguments, their checks, and the choice of a mechanism."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import numpy as np

from noiseplan.errors import BudgetError, PlanError, UnanswerableError
from noiseplan.local.device.randomizer import LARGEST_TABLE
from noiseplan.local.localplan import LocalPlan
from noiseplan.local.search.generation import Found
from noiseplan.local.search.portfolio import (
    CLASSICAL,
    Task,
    best_strategy,
    named_classical,
)
from noiseplan.local.search.variance_bounds import lower_bound
from noiseplan.local.server.reconstruction import Part, Reconstruction
from noiseplan.local.split_planner import plan_split
from noiseplan.local.strategies.additive import additive_strategy
from noiseplan.local.strategies.strategy import Strategy
from noiseplan.local.user_types import Types, asked_schema, types_of
from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import to_backend
from noiseplan.planning.threads import LARGE, one_thread_below
from noiseplan.privacy._checks import positive_finite
from noiseplan.progress import progress
from noiseplan.queries import Query, Workload

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
        report on one of several smaller tables; "auto" does so where the domain is too large.
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
    if epsilon is None:
        raise BudgetError("say how private one report is: local.plan(workload, epsilon=1.0)")
    if not isinstance(backend, str):
        raise PlanError(f"backend is 'numpy', 'torch' or 'torch:cuda', found {backend!r}")
    to_backend(np.zeros(1), backend)  # refused now rather than after a search
    epsilon = checked_epsilon(epsilon)
    cells = asked_schema(workload).size
    # Of a split no matrix is large.
    with one_thread_below(LARGE, cells if cells <= LARGEST_TABLE else 0):
        if mechanism == "split" or (mechanism == "auto" and cells > LARGEST_TABLE):
            unused = {o: v for o, v in options.items() if o != "cells"}
            average = None if objective == "worst" else objective
            refuse("split", cells, **unused | {"prior": prior, "objective": average})
            return plan_split(
                workload, epsilon, effort=effort, seed=seed, backend=backend, **options
            )
        if mechanism in ADDITIVE:
            unused = {o: v for o, v in options.items() if (mechanism, o) != DELTA}
            elsewhere = None if backend == "numpy" else backend
            refuse(mechanism, cells, **unused | {"prior": prior, "backend": elsewhere})
        started = time.perf_counter()
        types = types_of(workload)
        weights = types.uniform if prior is None else _checked_prior(types, prior)
        worst = objective == "worst" and prior is None
        if mechanism in ADDITIVE:
            found = Found(additive_strategy(types.gram, epsilon, mechanism, **options))
        else:
            with progress("planning reports", 40) as advance:
                task = Task(types, epsilon, weights, worst, effort, seed, backend, advance)
                found = _found(task, mechanism, options)
            _check_answers(workload, types, found.strategy, mechanism)
        proved = max(found.bound or 0.0, 0.0)
        if mechanism != DELTA[0]:  # without a δ alone
            equal = cells if prior is None else None
            bound = lower_bound(types.gram, weights, epsilon, worst=worst, cells=equal)
            proved = max(bound, proved)
        made = Reconstruction((Part(types, found.strategy),), split=False)
        took = time.perf_counter() - started
    return LocalPlan(workload, made, epsilon, worst, (weights,), proved, took)


def _found(task: Task, mechanism: str, options: dict[str, Any]) -> Found:
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


def refuse(mechanism: str, cells: int, /, **unused: Any) -> None:
    """Refuse arguments that a mechanism would not use; those that are None were not given."""
    given = sorted(name for name, value in unused.items() if value is not None)
    if given:
        other = ", or choose another mechanism"
        if cells > LARGEST_TABLE:  # there is no other
            other = f"; users are always split where {LARGEST_TABLE:,} cells are exceeded"
        raise PlanError(f"mechanism {mechanism!r} has no use for {given}: leave them out{other}")


def _check_answers(workload: Workload, types: Types, strategy: Strategy, mechanism: str) -> None:
    """Whether every query will be answered without bias: better known now than after collecting.

    Queries too large to be written out are not, and `answer` would not write them out either.
    """
    for query in workload:
        if query.rows * len(types.kind) > CHECKED_ENTRIES:
            continue
        try:
            strategy.coefficients(types.matrix(query))
        except UnanswerableError as error:
            found = "the strategy found" if mechanism == "auto" else f"mechanism {mechanism!r}"
            raise PlanError(
                f"{found} cannot answer {query.name!r} of the workload itself: it does not measure "
                f"all that is asked, or weights and rows differ too much in size; choose another "
                f"mechanism, bring weights closer, or plan the query apart"
            ) from error


def checked_epsilon(epsilon: object) -> float:
    """A number in the range in which variances keep enough of their digits."""
    with suppress(BudgetError):
        value = positive_finite("epsilon", epsilon, "1.0")
        if SMALLEST_EPSILON <= value <= LARGEST_EPSILON:
            return value
    raise BudgetError(
        f"epsilon is a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}, as in "
        f"local.plan(workload, epsilon=1.0); found {epsilon!r}"
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
