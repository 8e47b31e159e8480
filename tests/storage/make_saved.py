"""Make the folder `kinds`: one small example of everything that noiseplan saves, and what it says.

    PYTHONPATH=tests python tests/storage/make_saved.py [name ...]

Run by hand, and only for kinds that are missing: what is there was written by an earlier version
and is the proof that it is still read. Noise is seeded where a ledger does not forbid it.
"""

# ruff: noqa: E402, T201
from __future__ import annotations

import os

for _library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_library, "1")

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from saved_facts import (
    KINDS,
    Facts,
    aggregator_facts,
    arithmetic,
    differences,
    ledger_facts,
    made_up_records,
    randomizer_facts,
    release_facts,
)

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.errors import NoiseplanError
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise import Noise, SeededSource
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.finish import finish
from noiseplan.planning.planners import automatic, each_alone
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_errors import RowFigures
from own_examples import mixed, own_plan

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(20, 25)),
        "sex": nz.Categorical(["F", "M"]),
        "région": nz.Categorical(["north", "south"], other="elsewhere"),
    }
)
SUMS = nz.Workload.marginals(SCHEMA, k=2, factors={"age": nz.Prefix()})
LINE = nz.Schema({"age": nz.Ordinal(range(8))})
DETAILED = nz.Schema(
    {
        "income": nz.Binned([0, 10.5, 20, 50, 100], clip=True),
        "size": nz.Ordinal(["S", "M", "L"]),
        "county": nz.Categorical(["Kent", "Essex", "Fife", "=1+1"]),
        "member": nz.Categorical([True, False]),
        "unasked": nz.Ordinal(range(1000)),
    }
)
LARGE = nz.Schema.from_sizes({"age": 20, "income": 20, "region": 20, "unasked": 3})
TALL = nz.Schema(
    {
        "age": nz.Ordinal(range(116)),
        "sex": nz.Categorical([*"FMX"]),
        "work": nz.Categorical([*"abc"]),
    }
)
COUNTS = np.random.default_rng(1).integers(0, 40, SCHEMA.shape)
LINE_COUNTS = np.array([3, 4, 3, 50, 52, 49, 0, 7])

ONE, TWO = (nz.Workload.marginals(SCHEMA, k=k) for k in (1, 2))
PREFIX = nz.Workload.marginals(SCHEMA, up_to=2, factors={"age": nz.Prefix()})
RANGES = nz.Workload([nz.Query(LINE, {"age": nz.Ranges()}), nz.Query(LINE, ["age"], weight=3.0)])
ZCDP, PURE = nz.zCDP(0.3), nz.PureDP(0.7)


def detailed() -> nz.Workload:
    """Every factor, weights, names, and dense matrices over two attributes."""
    counties = nz.Levels({"Kent": "England", "Essex": "England", "Fife": "Scotland", "=1+1": "?"})
    poor = nz.Custom([[1, 1, 0, 0], [0, 0.5, 0.25, -1]], "poor", ["below", "mixed"])
    return nz.Workload(
        [
            nz.Query(DETAILED, {"income": nz.Prefix(), "county": counties}, weight=2.5),
            nz.Query(DETAILED, {"income": nz.Ranges(), "member": nz.Identity()}),
            nz.Query(DETAILED, {"income": poor, "size": nz.Levels(2)}, name="'poor', ½"),
            nz.Query(DETAILED, {"size": nz.Total(), "member": nz.Identity()}, weight=1e-3),
            nz.Query(DETAILED, ["size", "member"], matrix=np.eye(6)[[0, 3]] + 1, name="joint"),
        ]
    )


def detailed_records(rows: int = 200) -> dict[str, list[Any]]:
    rng = np.random.default_rng(2)
    return {
        "income": rng.uniform(-5, 120, rows).round(1).tolist(),
        "size": rng.choice(["S", "M", "L"], rows).tolist(),
        "county": rng.choice(["Kent", "Essex", "Fife", "=1+1"], rows).tolist(),
        "member": [bool(x) for x in rng.integers(0, 2, rows)],
        "unasked": rng.integers(0, 1000, rows).tolist(),
    }


def people(rows: int = 120) -> dict[str, list[Any]]:
    rng = np.random.default_rng(3)
    return {
        "who": rng.integers(0, 60, rows).tolist(),
        "age": rng.integers(20, 25, rows).tolist(),
        "sex": rng.choice(["F", "M"], rows).tolist(),
        "région": rng.choice(["north", "south", "far away"], rows).tolist(),
    }


def predicates() -> nz.Workload:
    """Two hundred sums over 24,000 cells that tell few of them apart."""
    texts = ["age < 3 and income >= 15", "region == 7", "age >= 12 or region < 4", "income < 9"]
    return nz.Workload.predicates(LARGE, texts)


def large_counts() -> dict[str, list[int]]:
    rng = np.random.default_rng(4)
    return {
        n: rng.integers(0, s, 500).tolist() for n, s in zip(LARGE.names, LARGE.shape, strict=True)
    }


def planned(workload: nz.Workload, data: Any = None, person: str | None = None, **how: Any) -> Any:
    """A seeded release of a plan."""
    if data is None:
        data = COUNTS if workload.schema == SCHEMA else LINE_COUNTS
    return nz.plan(workload, **how).release(data, person=person, seed=11)


def counted_for(unit: str, person: str | None = None, **how: Any) -> nz.Release:
    """A seeded release of one record of each person, or other unit."""
    asked = nz.Workload([nz.Query(SCHEMA, {"age": nz.Prefix()})])
    plan = nz.plan(asked, budget=ZCDP, noise=D, **how).with_unit(unit)
    data = CountTensor(SCHEMA, COUNTS) if person is None else people()
    return plan.release(data, person=person, seed=11)


def places(**how: Any) -> nz.Release:
    """Levels of a long attribute, with another one."""
    schema = nz.Schema.from_sizes({"place": 300, "sex": 2})
    tracts = nz.Levels([i * i // 3000 for i in range(300)], leaves=False)
    workload = nz.Workload(
        [nz.Query(schema, ["place", "sex"]), nz.Query(schema, {"place": tracts})]
    )
    rng = np.random.default_rng(5)
    data = {"place": rng.integers(0, 300, 900).tolist(), "sex": rng.integers(0, 2, 900).tolist()}
    return planned(workload, data, budget=ZCDP, **how)


def minutes(**how: Any) -> nz.Release:
    """Prefix sums and hours of a long attribute, with another one, and its totals."""
    schema = nz.Schema.from_sizes({"minute": 1440, "sex": 2})
    hours = nz.Levels(60, leaves=False, total=False)
    workload = nz.Workload(
        [
            nz.Query(schema, {"minute": nz.Prefix()}),
            nz.Query(schema, {"minute": hours, "sex": nz.Identity()}),
            nz.Query(schema, ["sex"], weight=100.0),
        ]
    )
    rng = np.random.default_rng(5)
    data = {"minute": rng.integers(0, 1440, 900).tolist(), "sex": rng.integers(0, 2, 900).tolist()}
    return planned(workload, data, budget=ZCDP, **how)


def levels_by_name(**how: Any) -> nz.Release:
    """A hierarchical attribute, in no order and with a place for others, asked by its levels."""
    tract = [f"{i * i % 31:02d}" for i in range(299)]
    county = [chr(65 + int(t) % 5) for t in tract]
    geo = nz.Hierarchical({"block": range(299), "tract": tract, "county": county}, other="abroad")
    schema = nz.Schema({"geo": geo, "sex": nz.Categorical(["F", "M"])})
    workload = nz.Workload(
        [
            nz.Query(schema, ["block"]),
            nz.Query(schema, ["county", "sex"]),
            nz.Query(schema, {"geo": nz.Level("tract", "county")}, name="both"),
        ]
    )
    rng = np.random.default_rng(7)
    data = {"geo": rng.integers(0, 310, 900), "sex": rng.choice(["F", "M"], 900)}
    return planned(workload, data, budget=ZCDP, **how)


def levels_of_their_own(**how: Any) -> nz.Release:
    """Levels by name that ask different things of age: each has rows of its own."""
    tract = [f"{i * i % 13:02d}" for i in range(299)]
    county = [chr(65 + int(t) % 3) for t in tract]
    geo = nz.Hierarchical({"block": range(299), "tract": tract, "county": county}, other="abroad")
    schema = nz.Schema({"geo": geo, "age": nz.Ordinal(range(6)), "sex": nz.Categorical(["F", "M"])})
    bands = nz.Levels(2, leaves=False, total=False)
    workload = nz.Workload(
        [
            nz.Query(schema, {"geo": nz.Level("block"), "sex": nz.Identity()}),
            nz.Query(schema, {"geo": nz.Level("tract"), "age": bands}, name="bands"),
            nz.Query(schema, {"geo": nz.Level("county"), "age": nz.Prefix()}),
        ]
    )
    rng = np.random.default_rng(8)
    data = {
        "geo": rng.integers(0, 310, 900),
        "age": rng.integers(0, 6, 900),
        "sex": rng.choice(["F", "M"], 900),
    }
    return planned(workload, data, budget=ZCDP, **how)


def tall(**how: Any) -> nz.Release:
    """Just more cells than a product of strategies is written out for."""
    workload = nz.Workload(
        [
            nz.Query(TALL, {"age": nz.Levels(29, leaves=False), "sex": nz.Identity()}),
            nz.Query(TALL, ["sex", "work"], matrix=np.eye(9)[[0, 4, 8]] - 1, name="joint"),
        ]
    )
    rng = np.random.default_rng(6)
    return planned(workload, rng.integers(0, 9, TALL.shape), **how)


def several() -> nz.Workload:
    """Conditions, a matrix and tables at two resolutions over 24,000 cells."""
    bands = nz.Query(LARGE, {"age": nz.Levels(10, leaves=False), "region": nz.Levels(5)})
    matrix = np.random.default_rng(7).integers(-1, 3, (3, 400))
    joint = nz.Query(LARGE, ["age", "income"], matrix=matrix, weight=2.0, name="joint")
    return predicates() + nz.Workload([bands, joint])


def sums_of_rows() -> nz.Release:
    """Sums of the rows of queries, which no planner by name measures."""
    problem = Problem(predicates(), ZCDP)
    mix = np.array([[3.0, 1, 0, 0], [0, 2, -1, 0], [1, 0, 5, 0], [0, 0, 1, 4], [1, 1, 1, 1]])
    noise = Noise("gaussian", [90.0, 80, 150, 160, 120], exact=True)
    mechanism = WorkloadRowsMechanism(LARGE, problem.workload, mix, noise)
    privacy = mechanism.cost("add-remove")
    figures = RowFigures(problem.design, mechanism)
    made = Candidate("optimal", mechanism, privacy, figures, Unstated(problem.workload, privacy))
    return finish(problem, made).release(large_counts(), seed=11)


def side_by_side() -> nz.Release:
    """Every query planned by itself, as where all together are too many to be planned as one."""
    problem = Problem(PREFIX, PURE)
    found = each_alone.solve(problem, automatic.solve, np.inf)
    assert isinstance(found, Candidate)
    return finish(problem, found).release(COUNTS, seed=12)


def continued(first: nz.Workload, second: nz.Workload, **how: Any) -> nz.Release:
    earlier = nz.plan(first, budget=nz.zCDP(0.1), **how).release(COUNTS, seed=5)
    return nz.plan(second, budget=ZCDP, **how).given(earlier).release(COUNTS, seed=6)


def looked(then: int | None, **how: Any) -> Any:
    choice = nz.adaptive([nz.plan(w, budget=ZCDP, **how) for w in (ONE, TWO)])
    look = choice.look(COUNTS, seed=8)
    return look if then is None else look.choose(then)


def crossed(then: int | None, **how: Any) -> Any:
    """A look at plans with different rows on one attribute, over more cells than matrices have."""
    schema = nz.Schema.from_sizes({"age": 12, "sex": 2, "street": 50})
    tables = [
        {"age": nz.Prefix(), "sex": nz.Identity()},
        {"age": nz.Identity(), "sex": nz.Identity()},
    ]
    plans = [nz.plan(nz.Workload([nz.Query(schema, f)]), budget=ZCDP, **how) for f in tables]
    counts = np.random.default_rng(4).integers(0, 9, schema.shape)
    look = nz.adaptive(plans).look(counts, seed=8)
    return look if then is None else look.choose(then)


def elsewhere(uneven: bool, known: bool) -> nz.Release:
    cells = COUNTS.sum(axis=2) + 0.5
    variance = 1.0 + np.arange(cells.size).reshape(cells.shape) / 7 if uneven else 2.0
    tables = [
        nz.NoisyTable(["age", "sex"], cells, variance),
        nz.NoisyTable(["sex", "région"], COUNTS.sum(axis=0), 1.5),
        nz.NoisyTable(["sex"], COUNTS.sum(axis=(0, 2)) + 1, 0.75),
    ]
    stated = nz.Guarantee(1.25, "zcdp") if known else None
    return nz.from_noisy_tables(SCHEMA, tables, privacy=stated)


def charged(twice: bool) -> nz.Release:
    """With noise from the operating system: a ledger takes no other."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = nz.Ledger(Path(folder) / "kept.ledger", create=True, by="somebody")
        ledger.open_dataset("people", nz.zCDP(2.0))
        how: Any = {"ledger": ledger, "dataset": "people", "purpose": "tables"}
        made = nz.plan(ONE, budget=nz.zCDP(0.1), noise="discrete").release(COUNTS, **how)
        if twice:
            plan = nz.plan(TWO, budget=ZCDP, noise="discrete")
            made = plan.given(made).release(COUNTS, **how)
        return made


G, D, L = "gaussian", "discrete", "laplace"
ROWS = nz.Strategy(np.vstack([np.eye(8), np.tri(8)[[3, 5]]]), name="cells and two sums")
WEIGHTED = nz.Strategy(np.vstack([np.eye(8), np.tri(8)]), weighted=True, filled=True)

RELEASES: dict[str, Callable[[], Any]] = {
    # residuals of tables
    "residual-discrete": lambda: planned(TWO, budget=ZCDP, noise=D, planner="residual"),
    "residual-float": lambda: planned(TWO, budget=ZCDP, noise=G, planner="residual"),
    "residual-prefix-discrete": lambda: planned(PREFIX, budget=ZCDP, noise=D, planner="residual"),
    "residual-prefix-float": lambda: planned(
        PREFIX, budget=nz.GDP(0.8), noise=G, planner="residual"
    ),
    "residual-approx": lambda: planned(ONE, budget=nz.ApproxDP(1.0, 1e-6), noise=D),
    "decided-halves": lambda: planned(
        ONE, budget=nz.ApproxDP(1.0, 1e-10), noise="discrete Gaussian", planner="identity"
    ),
    "decided-laplace": lambda: planned(ONE, budget=nz.ApproxDP(1.0, 1e-10), noise=D),
    "residual-small-noise": lambda: planned(ONE, budget=nz.zCDP(40.0), noise=D),
    "residual-plus": lambda: planned(PREFIX, budget=ZCDP, noise=D, planner="residual+"),
    "residual-product": lambda: planned(PREFIX, budget=ZCDP, noise=D, planner="product"),
    "residual-replace-discrete": lambda: planned(TWO, budget=ZCDP, noise=D, neighbours="replace"),
    "residual-replace-float": lambda: planned(PREFIX, budget=ZCDP, noise=G, neighbours="replace"),
    "residual-worst": lambda: planned(
        PREFIX, budget=ZCDP, noise=D, planner="residual", objective=nz.WorstVariance()
    ),
    "residual-p-norm": lambda: planned(
        PREFIX, budget=ZCDP, noise=G, planner="residual", objective=nz.PNormVariance(3)
    ),
    "residual-targets": lambda: planned(
        PREFIX, targets={"prefix(age)": 9.0, "sex": 4.0}, noise=D, planner="residual"
    ),
    "residual-targets-budget": lambda: planned(
        TWO, targets=6.0, budget=ZCDP, noise=G, planner="residual"
    ),
    "residual-detailed": lambda: planned(
        detailed(), detailed_records(), budget=ZCDP, noise=D, planner="residual"
    ),
    "residual-joint-float": lambda: planned(
        detailed(), detailed_records(), budget=ZCDP, noise=G, planner="residual"
    ),
    "residual-own-products": lambda: own_plan(
        mixed("product", exact=True, schema=SCHEMA)
    ).release(COUNTS, seed=11),
    "residual-own-matrix": lambda: own_plan(
        mixed("whole", exact=True, schema=SCHEMA)
    ).release(COUNTS, seed=11),
    "auto": lambda: planned(PREFIX, budget=ZCDP, noise=D),
    # persons
    "persons-discrete": lambda: planned(TWO, people(), "who", budget=ZCDP, noise=D, max_rows=3),
    "persons-one": lambda: planned(ONE, people(), "who", budget=ZCDP, noise=D),
    "persons-pure": lambda: planned(ONE, people(), "who", budget=PURE, noise=D, max_rows=2),
    "persons-owned": lambda: counted_for("person", "who"),
    "persons-households": lambda: counted_for("household", "who"),
    "persons-households-counted": lambda: counted_for("household"),
    "persons-owned-dawa": lambda: counted_for("person", "who", planner=nz.Dawa(longest=2)),
    # one matrix over all cells
    "optimal-discrete": lambda: planned(RANGES, budget=ZCDP, noise=D, planner="optimal"),
    "optimal-float": lambda: planned(PREFIX, budget=ZCDP, noise=G, planner="optimal"),
    "optimal-worst": lambda: planned(
        RANGES, budget=ZCDP, noise=D, planner="optimal", objective=nz.WorstVariance()
    ),
    "optimal-relative": lambda: planned(
        RANGES, budget=ZCDP, noise=G, planner="optimal",
        objective=nz.RelativeError(LINE_COUNTS + 1.0),
    ),
    "optimal-convex": lambda: planned(
        RANGES, budget=ZCDP, noise=G, planner="optimal",
        objective=nz.ConvexLoss(lambda v: float((v**2).sum())),
    ),
    "optimal-targets": lambda: planned(RANGES, targets=25.0, noise=D, planner="optimal"),
    "refined-targets": lambda: planned(RANGES, targets=25.0, noise=G, planner="refined"),
    "sm2-targets": lambda: planned(RANGES, targets=25.0, noise=G, planner="sm2"),
    "strategy-discrete": lambda: planned(RANGES, budget=ZCDP, noise=D, planner=ROWS),
    "strategy-float": lambda: planned(RANGES, budget=ZCDP, noise=G, planner=WEIGHTED),
    "strategy-pure": lambda: planned(RANGES, budget=PURE, noise=D, planner=ROWS),
    "eigen": lambda: planned(RANGES, budget=ZCDP, noise=D, planner="eigen"),
    "fourier": lambda: planned(RANGES, budget=ZCDP, noise=G, planner="fourier"),
    "weighted-hierarchical": lambda: planned(
        RANGES, budget=ZCDP, noise=G, planner="weighted-hierarchical-3"
    ),
    # residuals of several tables together
    # products of one strategy per attribute
    "product-identity": lambda: tall(budget=ZCDP, noise=D, planner="identity"),
    "product-wavelet": lambda: tall(budget=ZCDP, noise=G, planner="wavelet"),
    "product-hierarchical": lambda: tall(budget=ZCDP, noise=D, planner="hierarchical-9"),
    "product-pure-discrete": lambda: tall(budget=PURE, noise=D, planner="privelet"),
    "product-pure-float": lambda: tall(budget=PURE, noise=L, planner="hierarchical-9"),
    "written-out-wavelet": lambda: planned(PREFIX, budget=ZCDP, noise=D, planner="wavelet"),
    "written-out-privelet": lambda: planned(PREFIX, budget=PURE, noise=D, planner="privelet"),
    # Laplace noise
    "tables-discrete": lambda: planned(TWO, budget=PURE, noise=D, planner="identity"),
    "tables-float": lambda: planned(TWO, budget=PURE, noise=L, planner="identity"),
    "tables-p-identity": lambda: planned(PREFIX, budget=PURE, noise=D, planner="p-identity"),
    "tables-tree": lambda: planned(RANGES, budget=PURE, noise=D, planner="tree"),
    "tables-wavelet": lambda: planned(RANGES, budget=PURE, noise=L, planner="wavelet"),
    "pure-auto": lambda: planned(TWO, budget=PURE, noise=D),
    "matrix-pure-discrete": lambda: planned(PREFIX, budget=PURE, noise=D, planner="matrix"),
    "matrix-pure-float": lambda: planned(PREFIX, budget=PURE, noise=L, planner="matrix"),
    "least-sensitivity": lambda: planned(RANGES, budget=PURE, noise=L, planner="least-sensitivity"),
    # smaller domains
    "reduced-discrete": lambda: planned(
        predicates(), large_counts(), budget=ZCDP, noise=D, planner="optimal"
    ),
    "reduced-float": lambda: planned(
        predicates(), large_counts(), budget=ZCDP, noise=G, planner="optimal"
    ),
    "reduced-values": lambda: planned(
        nz.Workload([nz.Query(LARGE, {"age": nz.Levels(10, leaves=False)})]), large_counts(),
        budget=ZCDP, noise=D, planner="optimal",
    ),
    "reduced-pure": lambda: planned(
        predicates(), large_counts(), budget=PURE, noise=D, planner="matrix"
    ),
    # the rows of the queries themselves
    "tree-discrete": lambda: places(noise="discrete"),
    "tree-float": lambda: places(noise="gaussian", objective=nz.WorstVariance()),
    "series-discrete": lambda: minutes(noise="discrete"),
    "series-float": lambda: minutes(noise="gaussian", objective=nz.WorstVariance()),
    "tree-hierarchical": lambda: levels_by_name(noise="discrete"),
    "levels-discrete": lambda: levels_of_their_own(noise="discrete"),
    "levels-float": lambda: levels_of_their_own(noise="gaussian", objective=nz.WorstVariance()),
    "own-rows-discrete": lambda: planned(
        several(), large_counts(), budget=ZCDP, noise=D, planner="workload"
    ),
    "own-rows-float": lambda: planned(
        several(), large_counts(), budget=ZCDP, noise=G, planner="workload"
    ),
    "own-rows-pure": lambda: planned(
        several(), large_counts(), budget=PURE, noise=D, planner="workload"
    ),
    "own-rows-sums": sums_of_rows,
    "side-by-side": side_by_side,
    # data-aware
    "dawa-pure-discrete": lambda: planned(RANGES, budget=PURE, noise=D, planner="dawa"),
    "dawa-pure-float": lambda: planned(
        RANGES, budget=PURE, noise=L, planner=nz.Dawa(0.25, second="tree", longest=4)
    ),
    "dawa-zcdp-discrete": lambda: planned(
        RANGES, budget=ZCDP, noise=D,
        planner=nz.Dawa(0.3, lengths="every", longest=5, error_share=0.1),
    ),
    "dawa-zcdp-float": lambda: planned(
        RANGES, budget=nz.ApproxDP(1.0, 1e-6), noise=G, planner=nz.Dawa(longest=4)
    ),
    "dawa-two": lambda: planned(
        nz.Workload([nz.Query(DETAILED, ["income", "size"])]), detailed_records(),
        budget=PURE, noise=D, planner=nz.Dawa(0.2, longest=4),
    ),
    "dawa-persons": lambda: planned(
        nz.Workload([nz.Query(SCHEMA, {"age": nz.Prefix()})]), people(), "who",
        budget=ZCDP, noise=D, planner=nz.Dawa(longest=2), max_rows=2,
    ),
    # after earlier releases, and from elsewhere
    "given-residual": lambda: continued(ONE, TWO, noise=D, planner="residual"),
    "given-float": lambda: continued(TWO, PREFIX, noise=G, planner="residual"),
    "given-matrix": lambda: continued(ONE, PREFIX, noise=D, planner="optimal"),
    "given-nothing-left": lambda: continued(TWO, ONE, noise=D, planner="residual"),
    "look": lambda: looked(None, noise=D),
    "look-chosen": lambda: looked(1, noise=D),
    "look-float": lambda: looked(1, noise=G),
    "look-crossed": lambda: crossed(None, noise=D, planner="residual"),
    "look-crossed-chosen": lambda: crossed(1, noise=D, planner="residual"),
    "look-matrix": lambda: looked(1, noise=D, planner="optimal"),
    "free-queries": lambda: nz.plan(
        nz.Workload([nz.Query(LINE, ["age"], matrix=np.eye(8)[[i]], name=f"{i}") for i in (0, 1)]),
        targets={"0": 1.0, "1": 4.0}, noise=D, planner="refined",
    ).free_queries(nz.Query(LINE, ["age"], name="cells")).release(LINE_COUNTS, seed=4),
    "elsewhere-even": lambda: elsewhere(uneven=False, known=False),
    "elsewhere-uneven": lambda: elsewhere(uneven=True, known=True),
    "ledger-charged": lambda: charged(twice=False),
    "ledger-charged-twice": lambda: charged(twice=True),
}  # fmt: skip

# Folders that hold their tables as files too.
WITH_TABLES = (
    "residual-discrete",
    "residual-detailed",
    "tables-float",
    "dawa-two",
    "elsewhere-even",
)

LOCAL_LINE = nz.Schema({"crashes": nz.Ordinal(range(6))})
LOCAL_SEVEN = nz.Schema.from_sizes({"v": 7})
LOCAL_PAIR = nz.Schema({"a": nz.Ordinal(range(4)), "b": nz.Categorical(["x", "y", "z"])})
LOCAL_PREFIX = nz.Workload([nz.Query(LOCAL_LINE, {"crashes": nz.Prefix()})])
LOCAL_TABLES = nz.Workload.marginals(LOCAL_PAIR, up_to=2)
LOCAL: dict[str, tuple[nz.Workload, dict[str, Any]]] = {
    "local-auto": (LOCAL_PREFIX, {}),
    "local-shifts": (nz.Workload([nz.Query(LOCAL_SEVEN, ["v"])]), {}),
    "local-average": (LOCAL_PREFIX, {"objective": "average"}),
    "local-prior": (LOCAL_PREFIX, {"prior": [0.3, 0.3, 0.1, 0.1, 0.1, 0.1]}),
    "local-response": (LOCAL_TABLES, {"mechanism": "randomized response"}),
    "local-subsets": (LOCAL_TABLES, {"mechanism": "subset selection", "size": 2}),
    "local-hadamard": (LOCAL_PREFIX, {"mechanism": "hadamard"}),
    "local-rappor": (LOCAL_PREFIX, {"mechanism": "rappor"}),
    "local-hierarchical": (LOCAL_PREFIX, {"mechanism": "hierarchical"}),
    "local-sums-l1": (LOCAL_PREFIX, {"mechanism": "matrix l1"}),
    "local-sums-l2": (LOCAL_PREFIX, {"mechanism": "matrix l2", "delta": 1e-5}),
    "local-split": (nz.Workload.marginals(LOCAL_PAIR, k=1), {"mechanism": "split", "cells": 6}),
}


def write(name: str, facts: Facts) -> None:
    made = {"arithmetic": arithmetic(), "facts": facts}
    text = json.dumps(made, indent=0, ensure_ascii=False, sort_keys=True)
    (KINDS / name / "expected.json").write_text(text + "\n", encoding="utf-8")


def save_release(name: str) -> None:
    made = RELEASES[name]()
    folder = KINDS / name / "release"
    made.save(folder, tables=None if name in WITH_TABLES else [])
    again = nz.load(folder)
    facts, first = release_facts(again), release_facts(getattr(made, "release", made))
    moved = differences(first["answers"], facts["answers"], 0.0)
    moved += differences(first["errors"], facts["errors"], 1e-9)
    moved += differences(first["told"]["privacy"], facts["told"]["privacy"], 0.0)
    for line in moved:
        print(f"  {name}: saved and loaded differ: {line[:300]}")
    write(name, facts)


def local_values(schema: nz.Schema) -> dict[str, list[Any]]:
    rng = np.random.default_rng(9)
    pairs = zip(schema.names, schema.attributes, strict=True)
    return {n: [a.labels[c] for c in rng.integers(0, a.size, 300)] for n, a in pairs}


def save_local(name: str) -> None:
    workload, how = LOCAL[name]
    plan = nz.local.plan(workload, 1.2, **how)
    folder = KINDS / name
    folder.mkdir(parents=True)
    device = plan.randomizer()
    device.save(folder / "device.randomizer")
    server = plan.aggregator()
    server.add_many(device.reports(local_values(workload.schema), source=SeededSource(1)))
    server.add(b"no report")
    server.save(folder / "server.aggregator")
    memory = nz.local.Memory(device, folder / "memory.json")
    values = local_values(workload.schema)
    sent = [
        memory.report({n: v[i] for n, v in values.items()}, source=SeededSource(i)).hex()
        for i in range(4)
    ]
    facts = {
        "randomizer": randomizer_facts(nz.local.load_randomizer(folder / "device.randomizer")),
        "aggregator": aggregator_facts(
            nz.local.load_aggregator(folder / "server.aggregator"), list(workload)
        ),
        "memory": {"told": {"sent": sent, "spent": memory.spent, "delta": memory.delta}},
    }
    merged: Facts = {}
    for thing, parts in facts.items():
        for part, told in parts.items():
            merged.setdefault(part, {})[thing] = told
    (folder / "memory.json.lock").unlink(missing_ok=True)
    write(name, merged)


def save_ledger(name: str) -> None:
    folder = KINDS / name
    folder.mkdir(parents=True)
    ledger = nz.Ledger(folder / "budget.ledger", create=True, by="somebody")
    ledger.open_dataset("people", nz.zCDP(1.0), note="all of them")
    ledger.open_dataset("visits", nz.ApproxDP(2.0, 1e-6), max_rows=4)
    ledger.open_dataset("households", nz.GDP(1.0), neighbours="replace")
    how: Any = {"ledger": ledger, "dataset": "people"}
    nz.plan(TWO, budget=nz.zCDP(0.2), noise=D).release(COUNTS, purpose="yearly tables", **how)
    nz.plan(ONE, budget=nz.PureDP(0.3)).release(COUNTS, purpose="Laplace", **how)
    first = nz.plan(ONE, budget=nz.zCDP(0.1), noise=D).release(COUNTS, **how)
    nz.plan(TWO, budget=nz.zCDP(0.3), noise=D).given(first).release(COUNTS, **how)
    nz.adaptive([nz.plan(w, budget=nz.zCDP(0.1), noise=D) for w in (ONE, TWO)]).look(
        COUNTS, purpose="a look", **how
    ).choose(1)
    persons = nz.plan(ONE, budget=nz.zCDP(0.01), noise=D, max_rows=4)
    persons.release(people(), person="who", ledger=ledger, dataset="visits")
    failed = ledger.spend("visits", nz.GDP(0.03), purpose="never made", max_rows=2)
    ledger.mark_failed(failed, note="broken off")
    ledger.spend("households", nz.Guarantee(0.01, "gaussian", "replace"), plan_hash="ab" * 32)
    bad = people() | {"age": [99] * 120}
    for data, plan in ((bad, ONE), (COUNTS, TWO)):
        try:
            nz.plan(plan, budget=nz.zCDP(0.19 if data is bad else 0.9), noise=D).release(
                data, **how
            )
        except NoiseplanError as refused:
            print(f"  {name}: refused, as meant: {refused}")
    ledger.note_refusal("visits", "values outside the schema", details=True, purpose="a trial")
    ledger.change_budget("visits", nz.ApproxDP(2.5, 1e-6), reason="a longer study", max_rows=5)
    write(name, ledger_facts(nz.Ledger(folder / "budget.ledger")))


def save_valid(name: str) -> None:
    """Valid tables and made-up records, files to publish, of a release that is saved beside."""
    release = planned(TWO, budget=nz.zCDP(0.02), noise=D)
    folder = KINDS / name
    release.save(folder / "release", tables=["sex × région"])
    loaded = nz.load(folder / "release")
    loaded.valid().save(folder / "valid")
    whole = loaded.valid(integers=True, total=float(COUNTS.sum()))
    whole.save(folder / "valid-integers", tables=["sex", ("age", "sex")])
    made = made_up_records(folder / "release", folder / "people.csv")
    write(name, {"told": {"valid": str(whole), "microdata": made}})


OTHERS = {"ledger": save_ledger, "valid": save_valid}
MAKERS = dict.fromkeys(RELEASES, save_release) | dict.fromkeys(LOCAL, save_local) | OTHERS


def main(names: list[str]) -> None:
    for name in names or MAKERS:
        if (KINDS / name).exists():
            continue
        print(name)
        try:
            MAKERS[name](name)
        except NoiseplanError as refused:
            print(f"  {name}: {type(refused).__name__}: {refused}")


if __name__ == "__main__":
    main(sys.argv[1:])
