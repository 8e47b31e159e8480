"""Workloads drawn at random, from a seed: what methods are compared on in the literature.

| drawn | where it is used |
| --- | --- |
| `random_ranges` | Li, section 5.3.3 (2,048 cells); "uniform intervals" of 6.5.1 (4,096) |
| `clustered_ranges` | Li, section 6.5.1: 5 centres, 400 ranges each, over 4,096 cells |
| `spatial_ranges` | Li, section 6.5.5: rectangles of a few shapes, over 1,024 × 1,024 cells |
| `random_marginals` | Li, section 5.3.3 and Figure 4.1 |
| `random_predicates` | Li, section 4.3: predicates drawn alike from all |

A range over several attributes is a box, a product of one row for each, so that cells are never
listed, however many there are. Queries that are drawn twice merge, and their weights add.

References
----------
C. Li, dissertation, 2013, sections 4.3, 5.3.3, 6.5.1 and 6.5.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

import numpy as np

import noiseplan as nz
from noiseplan import Custom, Query, Schema
from noiseplan.arrays import IntArray
from noiseplan.queries.comparisons import mask_label

# First and last value of every range of one attribute.
Ends = tuple[IntArray, IntArray]


def random_ranges(schema: Schema, count: int, *, seed: int) -> nz.Workload:
    """`count` ranges drawn at random, each of all ranges alike; over several attributes, boxes.

    Over one attribute they are the rows of one query, over several one query each.
    """
    random = np.random.default_rng(seed)
    sizes = _ordered(schema, schema.names)
    return nz.Workload(
        _boxes(schema, {n: _ranges(size, count, random) for n, size in sizes.items()})
    )


def clustered_ranges(
    schema: Schema, count: int, *, clusters: int = 5, spread: float = 1 / 16, seed: int
) -> nz.Workload:
    """`count` ranges around a few centres: what is asked where something is of interest.

    Centres are drawn alike from all values, ranges belong to them in turn. Each reaches from
    its centre to both sides by the size of a normal number, as far as there are values.

    Parameters
    ----------
    schema
        Ordered attributes; over several, boxes around points.
    count
        Ranges in all.
    clusters
        How many centres.
    spread
        The standard deviation, as a share of the attribute's values: 1/16 is the published 256
        of 4,096, and 1/4 the published 1,024 ("large clusters").
    seed
        The same seed draws the same ranges.
    """
    random = np.random.default_rng(seed)
    drawn = {}
    for name, size in _ordered(schema, schema.names).items():
        centre = random.integers(0, size, clusters)[np.arange(count) % clusters]
        reach = np.abs(random.normal(0, spread * size, (2, count))).round().astype(np.int64)
        drawn[name] = np.maximum(centre - reach[0], 0), np.minimum(centre + reach[1], size - 1)
    return nz.Workload(_boxes(schema, drawn))


def spatial_ranges(
    schema: Schema,
    shapes: Sequence[Sequence[int]],
    count: int,
    *,
    attributes: Sequence[str] | None = None,
    seed: int,
) -> nz.Workload:
    """`count` boxes of each shape, such as rectangles of a map, in places drawn alike.

    Parameters
    ----------
    schema
        The declared attributes.
    shapes
        How many values of each attribute a box is wide, as in ``[(1, 1), (5, 5), (10, 10)]``.
    count
        Boxes of each shape.
    attributes
        Ordered attributes, such as ``["longitude", "latitude"]``; all unless given.
    seed
        The same seed draws the same boxes.
    """
    random = np.random.default_rng(seed)
    sizes = _ordered(schema, schema.names if attributes is None else attributes)
    widths = np.repeat(np.array(shapes), count, axis=0).T
    drawn = {}
    for (name, size), width in zip(sizes.items(), widths, strict=True):
        first = random.integers(0, size - width + 1)
        drawn[name] = first, first + width - 1
    return nz.Workload(_boxes(schema, drawn))


def random_marginals(
    schema: Schema, count: int, *, up_to: int | None = None, seed: int
) -> nz.Workload:
    """`count` different tables, each set of at most `up_to` attributes alike (all, if not
    given).
    """
    random = np.random.default_rng(seed)
    ways = len(schema) if up_to is None else up_to
    sets = [comb(len(schema), k) for k in range(ways + 1)]
    chances = np.array([float(s) for s in sets]) / float(sum(sets))
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        k = int(random.choice(len(sets), p=chances))
        found[tuple(sorted(random.choice(len(schema), k, replace=False).tolist()))] = None
    return nz.Workload([Query(schema, [schema.names[a] for a in on]) for on in found])


def random_predicates(schema: Schema, count: int, *, k: int = 1, seed: int) -> nz.Workload:
    """`count` conditions on `k` attributes each, of which every set of values is as likely.

    The attributes are drawn alike, and every value of each is in the condition with probability
    one half (never none, and not all). Over one attribute these are predicates drawn alike from
    all; over several they are joined by *and*.
    """
    random = np.random.default_rng(seed)
    wide = [a for a, size in enumerate(schema.shape) if size > 1]
    chosen = (random.choice(wide, k, replace=False) for _ in range(count))
    conditions = (
        {schema.names[a]: _some_values(schema, int(a), random) for a in sorted(on)} for on in chosen
    )
    return nz.Workload([Query(schema, condition) for condition in conditions])


def _ordered(schema: Schema, names: Sequence[str]) -> dict[str, int]:
    """How many values of ordered attributes are in their order."""
    return {name: schema[name].stated for name in names}


def _ranges(size: int, count: int, random: np.random.Generator) -> Ends:
    """First and last value of ranges drawn alike from all n(n + 1)/2."""
    # Two different places of 0 … n, in any order, are the ends of exactly one range.
    one = random.integers(0, size + 1, count)
    other = (one + random.integers(1, size + 1, count)) % (size + 1)
    return np.minimum(one, other), np.maximum(one, other) - 1


def _boxes(schema: Schema, drawn: Mapping[str, Ends]) -> list[Query]:
    """The rows of one query over one attribute, one query each over several."""
    if len(drawn) == 1:
        ((name, ends),) = drawn.items()
        return [Query(schema, {name: _as_rows(schema, name, ends)})]
    count = len(next(iter(drawn.values()))[0])
    sides: dict[str, list[Custom]] = {
        name: [_as_rows(schema, name, (first[i : i + 1], last[i : i + 1])) for i in range(count)]
        for name, (first, last) in drawn.items()
    }
    return [Query(schema, {name: side[i] for name, side in sides.items()}) for i in range(count)]


def _as_rows(schema: Schema, name: str, ends: Ends) -> Custom:
    values, (first, last) = np.arange(schema[name].size), ends
    rows = (first[:, None] <= values) & (values <= last[:, None])
    labels = [schema[name].span_label(*end) for end in np.column_stack(ends).tolist()]
    title = str(labels[0]) if len(labels) == 1 else f"{len(labels)} random ranges"
    return Custom(rows, title, labels)


def _some_values(schema: Schema, attribute: int, random: np.random.Generator) -> Custom:
    """One row: a set of values, any but none and all alike."""
    kind = schema.attributes[attribute]
    mask = np.zeros(kind.size, dtype=bool)
    while not mask.any() or mask.all():
        mask = random.random(kind.size) < 0.5
    label = mask_label(kind, mask)
    return Custom([mask], label.strip() or None, [label])
