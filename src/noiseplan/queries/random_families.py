"""Workloads drawn at random, from a seed: what methods are compared on in the literature.

| drawn | where it is used |
| --- | --- |
| `random_ranges` | Li, section 5.3.3 (2,048 cells); "uniform intervals" of 6.5.1 (4,096) |
| `clustered_ranges` | Li, section 6.5.1: 5 centres, 400 ranges each, over 4,096 cells |
| `spatial_ranges` | Li, section 6.5.5: rectangles of a few shapes, over 1,024 × 1,024 cells |
| `random_marginals` | Li, section 5.3.3 and Figure 4.1 |
| `random_predicates` | Li, section 4.3: predicates drawn alike from all |

A range over several attributes is a box, a product of one row for each, so that cells are never
listed, however many there are.

References
----------
C. Li, dissertation, 2013, sections 4.3, 5.3.3, 6.5.1 and 6.5.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.queries.comparisons import mask_label
from noiseplan.queries.factors import Custom, Ranges
from noiseplan.queries.families import WorkloadMakers, checked_ways, generator
from noiseplan.queries.query import Query
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from typing import Self

# First and last value of every range of one attribute.
Ends = tuple[IntArray, IntArray]


class RandomWorkloads(WorkloadMakers):
    """What `Workload` can draw. Queries that are drawn twice merge, and their weights add."""

    @classmethod
    def random_ranges(cls, schema: Schema, count: int, *, seed: int) -> Self:
        """`count` ranges drawn at random, each of all ranges alike; over several attributes, boxes.

        Over one attribute they are the rows of one query, over several one query each.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> Workload.random_ranges(Schema.from_sizes({"x": 1024}), 1000, seed=1)
        Workload(1 query, 1,000 rows)
        """
        count, random = _checked_count(count, "ranges"), generator(seed)
        sizes = _ordered(schema, schema.names)
        return cls(_boxes(schema, {n: _ranges(size, count, random) for n, size in sizes.items()}))

    @classmethod
    def clustered_ranges(
        cls, schema: Schema, count: int, *, clusters: int = 5, spread: float = 1 / 16, seed: int
    ) -> Self:
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

        Examples
        --------
        >>> from noiseplan import Workload
        >>> Workload.clustered_ranges(Schema.from_sizes({"x": 4096}), 2000, seed=1)
        Workload(1 query, 2,000 rows)
        """
        count, random = _checked_count(count, "ranges"), generator(seed)
        clusters = _checked_count(clusters, "clusters")
        if isinstance(spread, bool) or not (np.isfinite(spread) and spread > 0):
            raise QueryError(
                f"spread is a share of the values, a positive number as in 1/16; found {spread!r}"
            )
        drawn = {}
        for name, size in _ordered(schema, schema.names).items():
            centre = random.integers(0, size, clusters)[np.arange(count) % clusters]
            reach = np.abs(random.normal(0, spread * size, (2, count))).round().astype(np.int64)
            drawn[name] = np.maximum(centre - reach[0], 0), np.minimum(centre + reach[1], size - 1)
        return cls(_boxes(schema, drawn))

    @classmethod
    def spatial_ranges(
        cls,
        schema: Schema,
        shapes: Sequence[Sequence[int]],
        count: int,
        *,
        attributes: Sequence[str] | None = None,
        seed: int,
    ) -> Self:
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

        Examples
        --------
        >>> from noiseplan import Workload
        >>> world = Schema.from_sizes({"x": 1024, "y": 1024})
        >>> Workload.spatial_ranges(world, [(64, 64), (500, 10)], 500, seed=1)
        Workload(1,000 queries, 1,000 rows)
        """
        count, random = _checked_count(count, "boxes of each shape"), generator(seed)
        sizes = _ordered(schema, schema.names if attributes is None else attributes)
        widths = np.repeat(_checked_shapes(shapes, sizes), count, axis=0).T
        drawn = {}
        for (name, size), width in zip(sizes.items(), widths, strict=True):
            first = random.integers(0, size - width + 1)
            drawn[name] = first, first + width - 1
        return cls(_boxes(schema, drawn))

    @classmethod
    def random_marginals(
        cls, schema: Schema, count: int, *, up_to: int | None = None, seed: int
    ) -> Self:
        """`count` different tables, each set of at most `up_to` attributes alike (all, if not
        given).

        Examples
        --------
        >>> from noiseplan import Workload
        >>> schema = Schema.from_sizes({f"q{i}": 2 for i in range(1, 51)})
        >>> [q.name for q in Workload.random_marginals(schema, 3, up_to=2, seed=1)]
        ['q38 × q48', 'q8 × q13', 'q14 × q42']
        """
        count, random = _checked_count(count, "tables"), generator(seed)
        ways = len(schema) if up_to is None else checked_ways(schema, up_to)
        sets = [comb(len(schema), k) for k in range(ways + 1)]
        if count > sum(sets):
            raise QueryError(
                f"there are {sum(sets):,} tables of at most {ways} attributes, so at most so many "
                f"different ones can be drawn; found count={count:,}"
            )
        chances = np.array([float(s) for s in sets]) / float(sum(sets))
        found: dict[tuple[int, ...], None] = {}
        while len(found) < count:
            k = int(random.choice(len(sets), p=chances))
            found[tuple(sorted(random.choice(len(schema), k, replace=False).tolist()))] = None
        return cls([Query(schema, [schema.names[a] for a in on]) for on in found])

    @classmethod
    def random_predicates(cls, schema: Schema, count: int, *, k: int = 1, seed: int) -> Self:
        """`count` conditions on `k` attributes each, of which every set of values is as likely.

        The attributes are drawn alike, and every value of each is in the condition with probability
        one half (never none, and not all). Over one attribute these are predicates drawn alike from
        all; over several they are joined by *and*.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> schema = Schema.from_sizes({f"q{i}": 4 for i in range(1, 51)})
        >>> Workload.random_predicates(schema, 100, k=3, seed=1)
        Workload(100 queries, 100 rows)
        """
        count, random = _checked_count(count, "conditions"), generator(seed)
        wide = [a for a, size in enumerate(schema.shape) if size > 1]
        if not 1 <= checked_ways(schema, k) <= len(wide):
            raise QueryError(
                f"k is how many attributes a condition is on, 1 to {len(wide)} of those with "
                f"several values; found {k!r}"
            )
        chosen = (random.choice(wide, k, replace=False) for _ in range(count))
        conditions = (
            {schema.names[a]: _some_values(schema, int(a), random) for a in sorted(on)}
            for on in chosen
        )
        return cls([Query(schema, condition) for condition in conditions])


def _checked_count(count: object, what: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise QueryError(f"count is how many {what} to draw, at least 1; found {count!r}")
    return int(count)


def _checked_shapes(shapes: object, sizes: Mapping[str, int]) -> IntArray:
    example = f"[({', '.join('2' for _ in sizes)},)]" if len(sizes) == 1 else "[(1, 1), (5, 5)]"
    try:
        found = np.array(shapes)
    except ValueError:
        found = np.zeros(0)
    if found.ndim != 2 or found.shape[1] != len(sizes) or found.dtype.kind not in "iu":
        raise QueryError(
            f"shapes are numbers of values, one for each of {', '.join(sizes)}, as in {example}; "
            f"found {shapes!r}"
        )
    if (found < 1).any() or (found > list(sizes.values())).any():
        raise QueryError(
            f"boxes are at least 1 value wide and at most {tuple(sizes.values())}; found {shapes!r}"
        )
    return found.astype(np.int64)


def _ordered(schema: Schema, names: Sequence[str]) -> dict[str, int]:
    """How many values of ordered attributes are in their order."""
    if isinstance(names, str) or not names:
        raise QueryError(f"attributes come as a list of at least one, found {names!r}")
    for name in names:
        Ranges().check(name, schema[name])
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
