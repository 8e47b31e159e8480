"""Workloads that ask one attribute at several resolutions, as statistical offices do."""

from __future__ import annotations

from typing import Final

import numpy as np

import noiseplan as nz
from noiseplan.data import cpssw8_schema
from noiseplan.demo import labour_workload

MOST_CELLS: Final = 100_000
# Rows of a random workload: enough to be hard, few enough for its optimum to be found.
MOST_ROWS: Final = 1_400


def demonstration() -> nz.Workload:
    """The twenty tables of `make demo`, each of the same weight."""
    return labour_workload(cpssw8_schema()).weighted("tables")


def hierarchy() -> nz.Workload:
    """60 blocks in 12 tracts in 3 counties, with ages and sex."""
    schema = nz.Schema.from_sizes({"block": 60, "age": 8, "sex": 2})
    tracts = nz.Levels(20, leaves=False)
    return nz.Workload(
        [
            nz.Query(schema, {"block": nz.Levels(5, 20), "sex": nz.Identity()}),
            nz.Query(schema, {"block": tracts, "age": nz.Prefix()}),
            nz.Query(schema, ["block"]),
        ]
    )


def places_and_ages() -> dict[str, nz.Workload]:
    """256 places at three levels with other factors on age at each; and one condition more."""
    schema = nz.Schema.from_sizes({"place": 256, "age": 36, "sex": 2})
    tract = np.sort(np.random.default_rng(1).integers(0, 48, 256)).tolist()
    tracts = nz.Levels(tract, leaves=False, total=False)
    counties = nz.Levels([t // 4 for t in tract], leaves=False, total=False)
    by_sex = {"sex": nz.Identity()}
    levels = nz.Workload(
        [
            nz.Query(schema, ["place", "sex"]),
            nz.Query(schema, {"place": tracts, "age": nz.Levels(6, leaves=False, total=False)}),
            nz.Query(schema, {"place": counties, "age": nz.Prefix(), **by_sex}),
            nz.Query(schema, ["age", "sex"]),
        ]
    )
    condition = nz.Workload.predicates(schema, ["place >= 30 and age < 7 or sex = 1 and age > 12"])
    return {
        "256 places, tracts and counties": levels,
        "the same and a condition": levels + condition,
    }


def two_resolutions() -> dict[str, nz.Workload]:
    """Single values in one table, groups of them in another."""

    def groups(size: int) -> nz.Factor:
        return nz.Levels(size, leaves=False, total=False)

    by_value = nz.Identity()
    ages = nz.Schema.from_sizes({"age": 100, "sex": 2, "region": 50})
    pairs = nz.Schema.from_sizes({"a": 40, "b": 40})
    codes = nz.Schema.from_sizes({"c": 500, "a": 20, "s": 2})
    return {
        "ages and age bands by sex and region": nz.Workload(
            [
                nz.Query(ages, ["age", "sex"]),
                nz.Query(ages, {"age": groups(10), "sex": by_value, "region": by_value}),
                nz.Query(ages, ["region"]),
            ]
        ),
        "40 values, 8 groups by 40": nz.Workload(
            [nz.Query(pairs, ["a"]), nz.Query(pairs, {"a": groups(5), "b": by_value})]
        ),
        "500 codes, 50 groups by 20 by 2": nz.Workload(
            [
                nz.Query(codes, ["c"]),
                nz.Query(codes, {"c": groups(10), "a": by_value, "s": by_value}),
            ]
        ),
    }


def random_mixed(seed: int) -> nz.Workload:
    """Tables of one to three of 3 to 6 attributes, each with factors of its own."""
    rng = np.random.default_rng([7, seed])
    while True:
        sizes = rng.choice([2, 3, 4, 6, 8, 12, 20, 30], size=int(rng.integers(3, 7)))
        if not 500 <= np.prod(sizes) <= MOST_CELLS:
            continue
        schema = nz.Schema.from_sizes({f"a{i}": int(n) for i, n in enumerate(sizes)})
        workload = nz.Workload(_table(rng, schema) for _ in range(int(rng.integers(4, 12))))
        if workload.rows <= MOST_ROWS:
            return workload


def _table(rng: np.random.Generator, schema: nz.Schema) -> nz.Query:
    width = int(rng.integers(1, 4))
    names = [schema.names[i] for i in sorted(rng.permutation(len(schema))[:width])]
    weight = float(np.exp(rng.uniform(-1, 1)))
    return nz.Query(schema, {n: _factor(rng, schema[n].size) for n in names}, weight=weight)


def _factor(rng: np.random.Generator, size: int) -> nz.Factor:
    """Values, prefix sums, or groups of two to five values, with the values or without."""
    groups = [g for g in (2, 3, 4, 5) if size % g == 0 and size > g]
    kind = int(rng.integers(4 if groups else 2))
    if kind < 2:
        return (nz.Identity(), nz.Prefix())[kind]
    return nz.Levels(int(rng.choice(groups)), leaves=kind == 3, total=False)


def conjunctions(count: int) -> nz.Workload:
    """Conditions on 3 of 6 attributes, 576,000 cells: one row each, half of every attribute."""
    rng = np.random.default_rng([11, count])
    sizes = (10, 8, 12, 20, 6, 5)
    schema = nz.Schema.from_sizes({f"a{i}": n for i, n in enumerate(sizes)})
    return nz.Workload(_condition(rng, schema) for _ in range(count))


def _condition(rng: np.random.Generator, schema: nz.Schema) -> nz.Query:
    factors = {}
    for place in sorted(rng.permutation(len(schema))[:3]):
        size = schema.shape[place]
        row = np.zeros((1, size))
        row[0, rng.permutation(size)[: size // 2]] = 1.0
        factors[schema.names[place]] = nz.Custom(row)
    return nz.Query(schema, factors)


def high_rank() -> nz.Workload:
    """Five attributes, 103,680 cells, nine tables of some 1,500 rows."""
    sizes = {"a": 12, "b": 12, "c": 10, "d": 9, "e": 8}
    schema = nz.Schema.from_sizes(sizes)
    tables: list[dict[str, nz.Factor]] = [
        {"a": nz.Prefix(), "b": nz.Identity(), "e": nz.Levels(4, leaves=False, total=False)},
        {"a": nz.Identity(), "c": nz.Prefix()},
        {"b": nz.Prefix(), "d": nz.Identity()},
        {"c": nz.Identity(), "d": nz.Prefix(), "e": nz.Levels(4, leaves=False, total=False)},
        {"b": nz.Levels(3, leaves=False, total=False), "c": nz.Identity(), "e": nz.Prefix()},
        {"a": nz.Levels(4, leaves=False, total=False), "d": nz.Identity(), "e": nz.Identity()},
        {"a": nz.Prefix(), "d": nz.Prefix()},
        {"b": nz.Prefix(), "e": nz.Prefix()},
        {"c": nz.Ranges()},
    ]
    return nz.Workload(nz.Query(schema, factors) for factors in tables)
