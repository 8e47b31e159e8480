"""Ways to write a workload down: predicates, and the families of queries that have names.

Multi-dimensional ranges are products of `Ranges` factors, cuboids of a data cube are marginals; so
each of these is made of queries that exist already, and none is ever written out row by row.

References
----------
C. Li, dissertation, 2013, section 2.1.3 and Table 4.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.arrays import combination_rows, widened
from noiseplan.errors import QueryError
from noiseplan.queries.columns import QueryColumns, merged, without_totals
from noiseplan.queries.factors import (
    Factor,
    Identity,
    Permuted,
    Prefix,
    Ranges,
    Total,
    checked_matrix,
)
from noiseplan.queries.predicates import predicate_queries
from noiseplan.queries.query import Query, as_factor, checked_weight
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from typing import Self

    from noiseplan.queries.workload import Workload


class WorkloadMakers(ABC):
    """What `Workload` can be made from, by name."""

    @abstractmethod
    def __init__(self, queries: Iterable[Query]) -> None: ...

    @classmethod
    @abstractmethod
    def from_columns(cls, schema: Schema, columns: QueryColumns) -> Self:
        """A workload from checked columns, without looking at single queries."""

    @classmethod
    def marginals(
        cls,
        schema: Schema,
        *,
        k: int | None = None,
        up_to: int | None = None,
        factors: Mapping[str, Factor | str | ArrayLike] | None = None,
        weight: float = 1.0,
    ) -> Self:
        """All tables of exactly `k` attributes, or of at most `up_to` (the total included).

        `factors` says what is asked of an attribute wherever it occurs, `Identity()` if not named.
        Tables that become equal because of a `Total()` merge, and their weights add.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> schema = Schema.from_sizes({"age": 10, "sex": 2, "region": 4})
        >>> [q.name for q in Workload.marginals(schema, k=2, factors={"age": Prefix()})]
        ['prefix(age) × sex', 'prefix(age) × region', 'sex × region']
        """
        if (k is None) == (up_to is None):
            raise QueryError("say either k=2 (exactly two attributes) or up_to=2 (at most two)")
        largest = checked_ways(schema, k if k is not None else up_to)
        plain: list[Factor] = [Identity()] * len(schema)
        chosen = plain if factors is None else _factor_of_each(schema, factors)
        distinct = {factor: i for i, factor in enumerate(dict.fromkeys(chosen))}
        sizes = [largest] if k is not None else range(largest + 1)
        rows = [widened(combination_rows(len(schema), size), largest) for size in sizes]
        attributes = np.concatenate(rows)
        factor_of = np.array([distinct[factor] for factor in chosen])
        columns = QueryColumns(
            attributes=attributes,
            factors=np.where(attributes >= 0, factor_of[attributes], -1),
            weights=np.full(len(attributes), checked_weight(weight)),
            joint=np.full(len(attributes), -1),
            distinct=tuple(distinct),
            matrices=(),
        )
        if Total() in distinct:  # otherwise all tables differ by construction
            columns = merged(without_totals(columns))
        return cls.from_columns(schema, columns)

    @classmethod
    def from_matrix(
        cls,
        matrix: object,
        schema: Schema | None = None,
        *,
        weight: float = 1.0,
        name: str = "matrix",
    ) -> Self:
        """Any rows over cells: an array, nested lists, or a SciPy sparse matrix.

        Columns are the cells of the schema, the last attribute fastest; without a schema there is
        one attribute, "cell", numbered from 0.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> Workload.from_matrix([[1, 1, 0], [0, 1, 1]])
        Workload(1 query, 2 rows)
        """
        if isinstance(matrix, Schema):  # from_matrix(schema, matrix), as queries are made
            matrix, schema = schema, matrix
        if schema is not None and not isinstance(schema, Schema):
            raise QueryError(
                f"from_matrix takes a matrix and a Schema, found {type(schema).__name__}; write "
                f"Workload.from_matrix(matrix, schema)"
            )
        if schema is None and _is_one_row(matrix):
            matrix = [matrix]
        rows = checked_matrix(matrix, "Workload.from_matrix")
        if schema is None:
            schema = Schema.from_sizes({"cell": rows.shape[1]})
        attributes = list(schema.names)
        return cls([Query(schema, attributes, matrix=rows, weight=weight, name=name)])

    @classmethod
    def predicates(
        cls,
        schema: Schema,
        predicates: Sequence[str] | Mapping[str, str],
        *,
        weight: float | Sequence[float] = 1.0,
    ) -> Self:
        """How many records satisfy each condition: one query each, called by its text.

        Conditions compare attributes with values: ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``,
        ``in (…)``, ``between … and …``, joined by ``and``, ``or``, ``not`` and brackets. Categories
        are equal or not; ordinal values are compared in their declared order; a comparison with
        bins must fall on their edges. Only the attributes named are ever touched.

        Parameters
        ----------
        schema
            The declared attributes.
        predicates
            A list of conditions; or a mapping from names of your own to conditions.
        weight
            One for all, or one each: multiplies the variance in the objective.

        Examples
        --------
        >>> schema = Schema.from_sizes({"age": 100, "sex": 2})
        >>> from noiseplan import Workload
        >>> print(Workload.predicates(schema, ["age < 18 and sex = 0", "age >= 65 or sex = 1"]))
        2 queries, 2 rows, over age, sex
          age < 18 and sex = 0  1 row
          age >= 65 or sex = 1  1 row
        """
        return cls(predicate_queries(schema, predicates, weight))

    @classmethod
    def all_ranges(cls, schema: Schema, attributes: Sequence[str] | None = None) -> Self:
        """All ranges of some ordered attributes, or of all: over several, all boxes.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> Workload.all_ranges(Schema.from_sizes({"x": 2048}))
        Workload(1 query, 2,098,176 rows)
        """
        return cls([_product(schema, attributes, Ranges())])

    @classmethod
    def prefix(cls, schema: Schema, attributes: Sequence[str] | None = None) -> Self:
        """All prefix sums of some ordered attributes, or of all: the cumulative distribution.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> Workload.prefix(Schema.from_sizes({"x": 16, "y": 16}))
        Workload(1 query, 256 rows)
        """
        return cls([_product(schema, attributes, Prefix())])

    @classmethod
    def range_marginals(cls, schema: Schema, k: int) -> Self:
        """All tables of `k` attributes, with all ranges of those that are ordered.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> print(Workload.range_marginals(Schema.from_sizes({"x": 4, "y": 3}), 1))
        2 queries, 16 rows, over x, y
          ranges(x)  10 rows
          ranges(y)   6 rows
        """
        pairs = zip(schema.names, schema.attributes, strict=True)
        ordered = {name: Ranges() for name, attribute in pairs if attribute.ordered}
        return cls.marginals(schema, k=k, factors=ordered)

    @classmethod
    def cube(
        cls,
        schema: Schema,
        weights: Sequence[float] | Mapping[tuple[str, ...], float] | None = None,
    ) -> Self:
        """The data cube: the tables of all sets of attributes, each with its weight.

        Parameters
        ----------
        schema
            The declared attributes.
        weights
            By the number of attributes of a table, starting with the total; a table of weight 0 is
            left out. Or the sets that are wanted, each with its weight. All 1 unless given.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> schema = Schema.from_sizes({"x": 2, "y": 3, "z": 2})
        >>> Workload.cube(schema)
        Workload(8 queries, 36 rows)
        >>> print(Workload.cube(schema, weights={("x", "y"): 1, ("z",): 4, (): 0.25}))
        3 queries, 9 rows, over x, y, z
          x × y  6 rows
          z      2 rows  weight 4
          total  1 row   weight 0.25
        """
        if weights is None:
            return cls.marginals(schema, up_to=len(schema))
        if isinstance(weights, Mapping):
            pairs = [(_names(names), weight) for names, weight in weights.items()]
        else:
            pairs = _by_size(schema, weights)
        return cls([Query(schema, list(names), weight=weight) for names, weight in pairs])

    @classmethod
    def all_predicates(cls, schema: Schema) -> Self:
        """All 2ⁿ sets of the n cells of the domain, through their Gram matrix.

        Two cells are in 2ⁿ⁻² sets together, and each in as many more, so that

            mean of wᵀw over all sets w  =  ¼ (I + 11ᵀ):

        the plan that is best for every cell and for the total, each with weight ¼, is best for all
        predicates, and its `total_variance` is the mean of their variances. That is what is
        returned; the 2ⁿ rows themselves never exist. Any predicate is then answered by
        `release.answer`.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> print(Workload.all_predicates(Schema.from_sizes({"x": 8, "y": 8})))
        2 queries, 65 rows, over x, y
          all predicates: cells  64 rows  weight 0.25
          all predicates: total   1 row   weight 0.25
        """
        names = list(schema.names)
        return cls(
            [
                Query(schema, names, weight=0.25, name="all predicates: cells"),
                Query(schema, [], weight=0.25, name="all predicates: total"),
            ]
        )

    @classmethod
    def permuted(
        cls, workload: Workload, order: Sequence[int] | None = None, *, seed: int | None = None
    ) -> Self:
        """The same queries over cells in another order, given or drawn from a seed.

        Cell j of the workload becomes cell ``order[j]``, cells numbered with the last attribute
        fastest. Over one attribute every factor keeps its structure; over several the queries are
        written out, so that the domain must be small.

        Examples
        --------
        >>> from noiseplan import Workload
        >>> schema = Schema.from_sizes({"x": 4})
        >>> moved = Workload.permuted(Workload.prefix(schema), order=[2, 0, 3, 1])
        >>> moved[0].dense().astype(int).tolist()
        [[0, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 1], [1, 1, 1, 1]]
        """
        places = _order(workload.schema.size, order, seed)
        return cls([_permuted(query, places) for query in workload])


def _is_one_row(matrix: object) -> bool:
    if isinstance(matrix, np.ndarray):
        return matrix.ndim == 1
    return isinstance(matrix, list | tuple) and all(isinstance(x, Real) for x in matrix)


def generator(seed: object) -> np.random.Generator:
    """Draws of their own for every seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise QueryError(f"a seed is an integer from 0 on, found {seed!r}")
    return np.random.default_rng(int(seed))


def checked_ways(schema: Schema, ways: object) -> int:
    """How many attributes a table has."""
    if isinstance(ways, bool) or not isinstance(ways, (int, np.integer)):
        raise QueryError(f"the number of attributes per table is an integer, found {ways!r}")
    if not 0 <= ways <= len(schema):
        raise QueryError(
            f"tables of {ways} attributes: the schema has {len(schema)}, so say 0 to {len(schema)}"
        )
    return int(ways)


def _factor_of_each(schema: Schema, factors: object) -> list[Factor]:
    """The factor of every attribute of the schema, in order."""
    chosen: dict[str, Factor] = dict.fromkeys(schema.names, Identity())
    if not isinstance(factors, Mapping):
        raise QueryError(f"factors= maps attributes to factors, found {factors!r}")
    for name, factor in factors.items():
        schema.index(name)
        chosen[name] = as_factor(schema, name, factor)
    return list(chosen.values())


def _product(schema: Schema, attributes: Sequence[str] | None, factor: Factor) -> Query:
    names = schema.names if attributes is None else _names(attributes)
    return Query(schema, dict.fromkeys(names, factor))


def _names(attributes: object) -> tuple[str, ...]:
    if isinstance(attributes, str) or not isinstance(attributes, Iterable):
        raise QueryError(f"attributes come as a list or a tuple: write [{attributes!r}]")
    return tuple(attributes)


def _by_size(schema: Schema, weights: Sequence[float]) -> list[tuple[tuple[str, ...], float]]:
    listed = list(weights)
    if len(listed) != len(schema) + 1:
        raise QueryError(
            f"weights by the number of attributes are {len(schema) + 1} here, from the total to "
            f"the full table; found {len(listed)}"
        )
    return [
        (names, weight)
        for size, weight in enumerate(listed)
        if weight != 0
        for names in combinations(schema.names, size)
    ]


def _order(cells: int, order: Sequence[int] | None, seed: int | None) -> tuple[int, ...]:
    if (order is None) == (seed is None):
        raise QueryError("say either order=[...] (the new place of each cell) or seed=1")
    if order is None:
        return tuple(generator(seed).permutation(cells).tolist())
    places = tuple(int(place) for place in order)
    if sorted(places) != list(range(cells)):
        raise QueryError(
            f"the order names each of the cells 0 to {cells - 1:,} once, found {len(places):,} "
            f"numbers"
        )
    return places


def _permuted(query: Query, places: tuple[int, ...]) -> Query:
    schema = query.schema
    if len(schema) > 1:
        moved = query.dense()[:, np.argsort(places)]
        return Query(
            schema, list(schema.names), matrix=moved, weight=query.weight, name=query.named
        )
    factors = {name: Permuted(factor, places) for name, factor in query.factors.items()}
    return Query(schema, factors, weight=query.weight, name=query.named)
