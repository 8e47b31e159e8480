"""Small plans, by name: between them every mechanism with every noise it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from probes import Probe, limits

import noiseplan as nz
from long_attributes import planned_as_long
from noiseplan.mechanisms.crossed import CrossedMechanism
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.planning import limits as limits_of_plans
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.finish import finish
from noiseplan.planning.long_problem import tree_problem
from noiseplan.planning.planners import automatic, each_alone, level_plans
from noiseplan.planning.planners import noise_on_rows as planned_rows
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_errors import RowFigures
from own_examples import mixed as mixed_blocks
from own_examples import own_plan

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(4)),
        "sex": nz.Categorical(["F", "M"]),
        "region": nz.Categorical(["a", "b", "c"]),
    }
)
LINE = nz.Schema({"age": nz.Ordinal(range(6))})
ONE, TWO = (nz.Workload.marginals(SCHEMA, k=k) for k in (1, 2))
MIXED = nz.Workload(
    [
        nz.Query(SCHEMA, {"age": nz.Prefix(), "sex": nz.Identity()}, weight=2.0),
        nz.Query(SCHEMA, {"age": nz.Ranges()}),
        nz.Query(SCHEMA, {"age": nz.Levels(2), "region": nz.Identity()}),
        nz.Query(SCHEMA, ["sex", "region"], matrix=np.eye(6)[[0, 4]] + 1, name="joint"),
    ]
)
STEPS = nz.Workload(
    [
        nz.Query(SCHEMA, {"age": nz.Prefix(), "region": nz.Identity()}),
        nz.Query(SCHEMA, ["sex", "region"]),
    ]
)
SUMS_OF_ALL = nz.Workload(  # every attribute asked in one way, and two of them in sums
    [
        nz.Query(SCHEMA, {"age": nz.Prefix(), "region": nz.Custom(np.tri(3))}),
        nz.Query(SCHEMA, {"age": nz.Prefix(), "sex": nz.Identity()}, weight=2.0),
        nz.Query(SCHEMA, {"region": nz.Custom(np.tri(3)), "sex": nz.Identity()}),
    ]
)
RANGES = nz.Workload([nz.Query(LINE, {"age": nz.Ranges()}), nz.Query(LINE, ["age"], weight=3.0)])
HALVES = nz.Workload(  # 4 of the 24 cells are told apart
    [
        nz.Query(SCHEMA, {"age": nz.Levels(2, leaves=False, total=False), "sex": nz.Identity()}),
        nz.Query(SCHEMA, {"sex": nz.Identity()}),
    ]
)
GROUPS = nz.Levels(["x", "x", "y", "y", "y", "z", "z"], leaves=False)
PLACE = nz.Schema(
    {"age": nz.Ordinal(range(7)), "sex": nz.Categorical(["F", "M"]), "region": SCHEMA["region"]}
)
PLACES = nz.Workload(
    [
        nz.Query(PLACE, ["age", "sex"]),
        nz.Query(PLACE, {"age": GROUPS, "region": nz.Identity()}, weight=2.0),
        nz.Query(PLACE, {"age": nz.Levels(7, leaves=False, total=False), "sex": nz.Identity()}),
    ]
)
# Finer places have less detail; one of the places stands alone in its group, and in its region.
DETAILED = nz.Workload(
    [
        nz.Query(PLACE, {"age": nz.Levels(["x", "x", "y", "y", "y", "y", "z"], leaves=False)}),
        nz.Query(
            PLACE,
            {"age": nz.Levels(["u", "u", "v", "v", "w", "w", "z"], leaves=False, total=False)}
            | {"region": nz.Custom(np.tri(3)), "sex": nz.Identity()},
        ),
        nz.Query(
            PLACE,
            {"age": nz.Identity(), "region": nz.Levels(["n", "s", "s"], leaves=False, total=False)},
            weight=2.0,
        ),
    ]
)
SUMS = nz.Workload(
    [
        nz.Query(PLACE, {"age": nz.Prefix(), "sex": nz.Identity()}),
        nz.Query(PLACE, {"age": GROUPS, "region": nz.Identity()}, weight=2.0),
        nz.Query(PLACE, ["age"]),
        nz.Query(PLACE, ["sex", "region"], weight=9.0),
    ]
)
# Sums in order that hardly count: the later coefficients of their series are rounded to zero, and
# the first is far from one.
SINGLE = nz.Workload(
    [
        nz.Query(PLACE, {"age": nz.Prefix()}, weight=1e-4),
        nz.Query(PLACE, ["age", "sex"]),
        nz.Query(PLACE, {"age": nz.Prefix(), "region": nz.Identity()}, weight=1e-4),
    ]
)
ROWS = nz.Strategy(np.vstack([np.eye(6), np.tri(6)[[2, 4]]]))
ZCDP, SHARP, PURE = nz.zCDP(0.2), nz.zCDP(20.0), nz.PureDP(0.8)
G, D, L = "gaussian", "discrete", "laplace"

Factory = Callable[[], Any]


def by(workload: nz.Workload, **how: Any) -> Factory:
    how.setdefault("budget", ZCDP)
    return lambda: nz.plan(workload, **how)


def product(**how: Any) -> Factory:
    def made() -> Any:
        with limits(written_out=0):
            return nz.plan(MIXED, **how)

    return made


def reduced(workload: nz.Workload = HALVES, **how: Any) -> Factory:
    def made() -> Any:
        with limits(whole=12):
            return nz.plan(workload, **how)

    return made


def common(**how: Any) -> Factory:
    """What two plans have in common, the plan of a look."""
    return lambda: nz.adaptive([nz.plan(w, budget=ZCDP, **how) for w in (ONE, TWO)]).common


def rest(**how: Any) -> Factory:
    """What is left to measure of a plan after another's release."""

    def made() -> Any:
        first = nz.plan(ONE, budget=nz.zCDP(0.05), **how).release(
            np.ones(SCHEMA.shape, int), seed=1
        )
        return nz.plan(TWO, budget=ZCDP, **how).given(first).rest

    return made


def crossed(**how: Any) -> Factory:
    """What plans with different rows on one attribute have in common, as over many cells."""

    def made() -> Any:
        plans = [nz.plan(w, budget=ZCDP, planner="residual", **how) for w in (TWO, STEPS)]
        with limits(compared=1):
            found = nz.adaptive(plans).common
        assert isinstance(found.mechanism, CrossedMechanism)
        return found

    return made


def own_blocks(kind: str, exact: bool, neighbours: str = "add-remove") -> Factory:
    """Some blocks measured by rows of their own: products of low rank, one matrix."""
    return lambda: own_plan(mixed_blocks(kind, exact, SCHEMA), neighbours)


def tree(workload: nz.Workload = None, **how: Any) -> Factory:  # type: ignore[assignment]
    """Levels of an attribute, planned as those of long ones are, with one tree for all sets."""
    return along(workload or PLACES, planner="residual", **how)


def along(workload: nz.Workload, **how: Any) -> Factory:
    """A plan for levels of an attribute as for a long one."""

    def made() -> Any:
        with planned_as_long(3, limits_of_plans.SERIES_VALUES):
            return nz.plan(workload, **how)

    return made


def levels(workload: nz.Workload = None, **how: Any) -> Factory:  # type: ignore[assignment]
    """The same with rows of its own for each level."""

    def made() -> Any:
        problem = Problem(workload or DETAILED, **how)
        if problem.targets is not None:
            problem = replace(problem, targets=np.full(len(problem.workload), problem.targets))
        with planned_as_long(3, limits_of_plans.SERIES_VALUES):
            whole = tree_problem(problem)
        assert whole is not None
        found = level_plans.solve(whole)
        assert isinstance(found, Candidate)
        return finish(problem, found)

    return made


def series(workload: nz.Workload = None, **how: Any) -> Factory:  # type: ignore[assignment]
    """Prefix sums of an attribute, planned as those of long ones are."""

    def made() -> Any:
        with planned_as_long(3, 3):
            return nz.plan(workload or SUMS, **how)

    return made


def own_rows(workload: nz.Workload, *, mixed: bool = False, **how: Any) -> Factory:
    """The rows of the queries themselves, as large domains are planned, or sums of them."""

    def made() -> Any:
        problem = Problem(workload, **how)
        found = planned_rows.solve(problem)
        if mixed:
            rows, rng = workload.rows, np.random.default_rng(3)
            mix = np.vstack([np.eye(rows), rng.integers(-2, 3, (4, rows))])
            size = 4000.0 if found.mechanism.noise.law == "laplace" else 40_000.0
            noise = found.mechanism.noise.of_size(np.linspace(size, 2 * size, len(mix)))
            sums = WorkloadRowsMechanism(workload.schema, workload, mix, noise)
            privacy, figures = sums.cost("add-remove"), RowFigures(problem.design, sums)
            found = replace(found, mechanism=sums, privacy=privacy, figures=figures)
        return finish(problem, found)

    return made


def alone(workload: nz.Workload, **how: Any) -> Factory:
    """Every query planned by itself, as where all together are too many."""

    def made() -> Any:
        problem = Problem(workload, **({"budget": PURE} | how))
        found = each_alone.solve(problem, automatic.solve, np.inf)
        assert isinstance(found, Candidate)
        return finish(problem, found)

    return made


def grouped(workload: nz.Workload, *parts: tuple[int, ...], **how: Any) -> Factory:
    """Groups of queries planned by themselves, with what a budget or targets leave to each."""

    def made() -> Any:
        problem = Problem(workload, **how)
        return finish(problem, each_alone.Apart(problem, automatic.solve).candidate(parts))

    return made


EXAMPLES: dict[str, Factory] = {
    "residual, discrete": by(TWO, noise=D, planner="residual"),
    "residual, float": by(TWO, noise=G, planner="residual"),
    "residual of rows, discrete": by(MIXED, noise=D, planner="residual"),
    "residual of rows, float": by(MIXED, noise=G, planner="residual"),
    "residual, little noise": by(TWO, budget=SHARP, noise=D, planner="residual"),
    "residual, replacing": by(TWO, noise=D, planner="residual", neighbours="replace"),
    "residual of rows, replacing": by(MIXED, noise=G, planner="residual", neighbours="replace"),
    "residual+, discrete": by(MIXED, noise=D, planner="residual+"),
    "residual, product of rows": by(ONE, noise=D, planner="product"),
    "residual, products of their own, discrete": own_blocks("product", True),
    "residual, products of their own, float": own_blocks("product", False),
    "residual, a matrix of its own, discrete": own_blocks("whole", True),
    "residual, a matrix of its own, float": own_blocks("whole", False),
    "residual, rows of their own, replacing": own_blocks("both", True, "replace"),
    "common, discrete": common(noise=D, planner="residual"),
    "common by matrix": common(noise=G, planner="optimal"),
    "common, crossed, discrete": crossed(noise=D),
    "common, crossed, float": crossed(noise=G),
    "rest, discrete": rest(noise=D, planner="residual"),
    "rest, float": rest(noise=G, planner="residual"),
    "dense, discrete": by(RANGES, noise=D, planner="optimal"),
    "dense, float": by(MIXED, noise=G, planner="optimal"),
    "dense, little noise": by(RANGES, budget=SHARP, noise=D, planner="optimal"),
    "dense for targets": by(RANGES, budget=None, targets=9.0, noise=D, planner="optimal"),
    "dense, given rows": by(RANGES, noise=D, planner=ROWS),
    "dense, Laplace, discrete": by(RANGES, budget=PURE, noise=D, planner=ROWS),
    "dense, Laplace, float": by(TWO, budget=PURE, noise=L, planner="matrix"),
    "product, discrete": product(budget=ZCDP, noise=D, planner="hierarchical"),
    "product, float": product(budget=ZCDP, noise=G, planner="wavelet"),
    "product of cells": product(budget=ZCDP, noise=D, planner="identity"),
    "product, Laplace, discrete": product(budget=PURE, noise=D, planner="privelet"),
    "product, Laplace, float": product(budget=PURE, noise=L, planner="hierarchical"),
    "tables, discrete": by(TWO, budget=PURE, noise=D, planner="identity"),
    "tables, float": by(TWO, budget=PURE, noise=L, planner="identity"),
    "tables of rows, discrete": by(RANGES, budget=PURE, noise=D, planner="p-identity"),
    "tables of trees, float": by(RANGES, budget=PURE, noise=L, planner="tree"),
    "tables, little noise": by(ONE, budget=nz.PureDP(30.0), noise=D, planner="identity"),
    "reduced, discrete": reduced(budget=ZCDP, noise=D, planner="optimal"),
    "reduced, float": reduced(budget=ZCDP, noise=G, planner="optimal"),
    "reduced, Laplace, discrete": reduced(budget=PURE, noise=D, planner="matrix"),
    "reduced, Laplace, float": reduced(budget=PURE, noise=L, planner="matrix"),
    "tree, discrete": tree(budget=ZCDP, noise=D),
    "tree, float": tree(budget=ZCDP, noise=G),
    "tree, little noise": tree(budget=SHARP, noise=D),
    "tree for targets": tree(targets=30.0, noise=G),
    "levels, discrete": levels(budget=ZCDP, noise=D),
    "levels, float": levels(budget=ZCDP, noise=G),
    "levels, little noise": levels(budget=SHARP, noise=D),
    "levels for targets": levels(targets=30.0, noise=G),
    "series, discrete": series(budget=ZCDP, noise=D),
    "series, float": series(budget=ZCDP, noise=G),
    "series, little noise": series(budget=SHARP, noise=D, planner="residual"),
    "series for targets": series(targets=30.0, noise=G),
    "series of single values, discrete": series(SINGLE, budget=ZCDP, noise=D),
    "series of single values, float": series(SINGLE, budget=ZCDP, noise=G),
    "series of ranges": series(RANGES, budget=ZCDP, noise=D),
    "own rows, discrete": own_rows(MIXED, budget=ZCDP, noise=D),
    "own rows, float": own_rows(MIXED, budget=ZCDP, noise=G),
    "own rows, replacing": own_rows(TWO, budget=ZCDP, noise=D, neighbours="replace"),
    "own rows, Laplace, discrete": own_rows(MIXED, budget=PURE, noise=D),
    "own rows, Laplace, float": own_rows(HALVES, budget=PURE, noise=L),
    "own rows, little noise": own_rows(TWO, budget=nz.PureDP(30.0), noise=D),
    "sums of rows, discrete": own_rows(MIXED, budget=ZCDP, noise=D, mixed=True),
    "sums of rows, float": own_rows(HALVES, budget=ZCDP, noise=G, mixed=True),
    "sums of rows, Laplace, discrete": own_rows(TWO, budget=PURE, noise=D, mixed=True),
    "side by side, discrete": alone(SUMS, noise=D),
    "side by side, float": alone(TWO, noise=L),
    "side by side, replacing": alone(STEPS, noise=D, neighbours="replace"),
    "side by side, Gaussian, discrete": alone(SUMS, budget=ZCDP, noise=D),
    "side by side, Gaussian, float": alone(MIXED, budget=ZCDP, noise=G),
    "side by side, Gaussian, replacing": alone(STEPS, budget=ZCDP, noise=D, neighbours="replace"),
    "side by side, little noise": alone(TWO, budget=nz.zCDP(4.0), noise=D),
    "groups side by side, discrete": grouped(SUMS, (0, 2), (1,), (3,), budget=ZCDP, noise=D),
    "groups side by side, replacing": grouped(
        MIXED, (3,), (0, 1, 2), budget=ZCDP, noise=G, neighbours="replace"
    ),
    "groups side by side for targets": grouped(
        SUMS, (1, 2), (0, 3), targets=np.array([30.0, 20.0, 10.0, 5.0]), noise=D
    ),
}
NAMES = list(EXAMPLES)


@cache
def probe_of(name: str) -> Probe:
    """What an example's mechanism does, measured once for all tests."""
    return Probe(EXAMPLES[name]())
