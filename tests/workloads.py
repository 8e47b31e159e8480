"""Random small workloads: 2–3 attributes of 1–5 values, at most 125 cells."""

from __future__ import annotations

from math import prod

import numpy as np

import noiseplan as nz

# What one attribute may be asked. `structured` factors tell all values apart.
STRUCTURED = ("identity", "prefix", "ranges", "levels")
ANY = (*STRUCTURED, "custom", "low rank", "ones", "total")


def random_factor(rng: np.random.Generator, n: int, kinds: tuple[str, ...]) -> nz.Factor:
    kind = str(rng.choice(kinds))
    if kind == "custom":
        return nz.Custom(rng.integers(-2, 3, (int(rng.integers(1, n + 2)), n)) + 5.0 * np.eye(1, n))
    if kind == "low rank":  # values 0 and n − 1 are never told apart
        rows = rng.integers(-1, 3, (2, n)).astype(float)
        rows[:, -1] = rows[:, 0] = 1.0
        return nz.Custom(rows)
    return {
        "identity": nz.Identity(),
        "prefix": nz.Prefix(),
        "ranges": nz.Ranges(),
        "levels": nz.Levels(2),
        "ones": nz.Custom(np.full((1, n), 2.0)),
        "total": nz.Total(),
    }[kind]


def random_schema(rng: np.random.Generator, smallest: int = 1) -> nz.Schema:
    count = int(rng.integers(2, 4))
    return nz.Schema.from_sizes({name: int(rng.integers(smallest, 6)) for name in "abc"[:count]})


def random_workload(
    seed: int, kinds: tuple[str, ...] = STRUCTURED, several: bool = False, joint: bool = False
) -> nz.Workload:
    """One to five weighted tables; `several`: an attribute's factor differs from table to table."""
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    fixed = {n: random_factor(rng, schema[n].size, kinds) for n in schema.names}
    queries = []
    for number in range(int(rng.integers(2, 6))):
        on = [n for n in schema.names if rng.random() < 0.6]
        weight = float(rng.uniform(0.3, 3.0))
        if joint and number == 0:
            on = list(schema.names[:2])
            cells = prod(schema[n].size for n in on)
            matrix = rng.integers(-1, 3, (3, cells)) + np.eye(3, cells)
            queries.append(nz.Query(schema, on, matrix=matrix, weight=weight))
            continue
        factors = {
            n: random_factor(rng, schema[n].size, kinds) if several else fixed[n] for n in on
        }
        queries.append(nz.Query(schema, factors, weight=weight))
    if not any(q.attributes for q in queries):
        queries.append(nz.Query(schema, {schema.names[0]: fixed[schema.names[0]]}))
    return nz.Workload(queries)


def random_tables(seed: int, smallest: int = 2) -> nz.Workload:
    """Plain tables with random weights."""
    rng = np.random.default_rng(seed)
    schema = random_schema(rng, smallest)
    queries = []
    for _ in range(int(rng.integers(1, 6))):
        on = [n for n in schema.names if rng.random() < 0.6]
        queries.append(nz.Query(schema, on, weight=float(rng.uniform(0.3, 3.0))))
    queries.append(nz.Query(schema, [schema.names[0]]))
    return nz.Workload(queries)


def random_rows(seed: int) -> nz.Workload:
    """A random workload of at most a dozen cells, weights and unasked cells included."""
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 9))
    schema = nz.Schema.from_sizes({"a": cells})
    queries = []
    for _ in range(int(rng.integers(1, 4))):
        rows = rng.integers(-1, 3, (int(rng.integers(1, 4)), cells)).astype(float)
        rows[0, 0] += 1.0 + (not rows[0].any())
        rows[:, -1] = rows[:, 0] if seed % 3 else 0.0  # cells that look alike, or none asks for
        weight = float(rng.uniform(0.3, 3.0))
        queries.append(nz.Query(schema, ["a"], matrix=rows, weight=weight))
    return nz.Workload(queries)
