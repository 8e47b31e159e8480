"""One query: a table of linear counts over a few attributes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from numbers import Real
from types import MappingProxyType
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.escaping import unwritable
from noiseplan.matrices import (
    DenseMatrix,
    KroneckerMatrix,
    Matrix,
    SummedMatrix,
    TotalMatrix,
    kronecker_apply,
)
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.queries.factor_text import read_factor, split, unquoted
from noiseplan.queries.factors import Custom, Factor, Identity, Total, checked_matrix
from noiseplan.queries.levels import Levels
from noiseplan.queries.named_levels import Level
from noiseplan.schema import Hierarchical, Schema
from noiseplan.texts import counted


@final
@dataclass(frozen=True, init=False, eq=False, repr=False, slots=True)
class Query:
    """A Kronecker product of factors, or one dense matrix over a few attributes.

    Parameters
    ----------
    schema
        The declared attributes.
    factors
        Attribute → factor; or a sequence of attributes, each with `Identity()`, and of levels of
        hierarchical ones, each with `Level(name)`; also as one text, "age, sex". A factor may be a
        word, as study files have them ("prefix", "levels(5, 10)", "25..34 | 35..44"), or a matrix,
        for `Custom(matrix)`. Attributes not named are summed over.
    matrix
        Instead of factors: any matrix with one column per cell of the table of the named
        attributes (in the order they are named, the last fastest); of all of them if none is named.
    weight
        Multiplies the variance of each row in the objective.
    name
        For targets and reports; made from the attributes if not given.

    Examples
    --------
    >>> from noiseplan.queries import Prefix
    >>> schema = Schema.from_sizes({"age": 100, "sex": 2})
    >>> query = Query(schema, {"age": Prefix(), "sex": Identity()})
    >>> query.name, query.rows
    ('prefix(age) × sex', 200)
    >>> Query(Schema.from_sizes({"a": 2, "b": 2}), ["a"]).dense().tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """

    schema: Schema
    factors: Mapping[str, Factor]
    joint: Array | None
    weight: float
    named: str | None
    attributes: tuple[str, ...]
    """The attributes not summed over, in schema order."""

    def __init__(
        self,
        schema: Schema,
        factors: Mapping[str, Factor | str | ArrayLike] | Sequence[str] | None = None,
        *,
        matrix: object = None,
        weight: float = 1.0,
        name: str | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise QueryError(
                f"a query starts with its schema, found {type(schema).__name__}; "
                f"write Query(schema, ['age', 'sex'])"
            )
        if factors is None and matrix is not None:
            factors = schema.names
        chosen = _as_mapping(factors, schema)
        joint: Array | None = None
        if matrix is not None:
            _check_plain(chosen)
            joint = _joint(schema, list(chosen), matrix)
            if len(chosen) == 1:  # a matrix over one attribute is a factor
                chosen, joint = {attribute: Custom(joint) for attribute in chosen}, None
        ordered = {n: as_factor(schema, n, chosen[n]) for n in sorted(chosen, key=schema.index)}
        kept = {n: f for n, f in ordered.items() if not isinstance(f, Total)}
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "factors", MappingProxyType(kept))
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "weight", checked_weight(weight))
        object.__setattr__(self, "named", name if name is None else _checked_name(name))
        object.__setattr__(self, "attributes", tuple(kept))

    @property
    def name(self) -> str:
        """The name given, or one made of the attributes: "prefix(age) × sex"."""
        if self.named:
            return self.named
        if self.joint is not None:
            rows = "1 row" if len(self.joint) == 1 else f"{len(self.joint)} rows"
            return f"matrix[{rows}]({', '.join(self.attributes)})"
        named = (factor_name(self.schema, n, f) for n, f in self.factors.items())
        return SEPARATOR.join(named) or "total"

    def without_sums(self) -> Query:
        """The same rows in the same order, without attributes that one row of ones sums over.

        Examples
        --------
        >>> schema = Schema.from_sizes({"age": 3, "sex": 2})
        >>> Query(schema, {"age": Identity(), "sex": Custom([[1, 1]])}).without_sums().attributes
        ('age',)
        """
        if self.joint is not None:
            return self
        kept = {n: f for n, f in self.factors.items() if not _sums_over(f)}
        if len(kept) == len(self.factors):
            return self
        return Query(self.schema, kept, weight=self.weight, name=self.name)

    @property
    def headings(self) -> tuple[str, ...]:
        """What the columns of its table are called: attributes, or the levels asked for."""
        return tuple(
            factor_name(self.schema, n, f)
            if isinstance(f, Identity) or (isinstance(f, Level) and len(f.levels) == 1)
            else self._heading(n, f)
            for n, f in self.factors.items()
        )

    def _heading(self, name: str, factor: Factor) -> str:
        """An attribute, or the level whose groups it counts: no county stands under "tract"."""
        kind = self.schema[name]
        if not isinstance(factor, Custom) or not isinstance(kind, Hierarchical):
            return name
        if name in kind.levels:
            for level in sorted(kind.levels, key=len, reverse=True):
                named = all(str(label).startswith(f"{level} ") for label in factor.labels)
                if named and _of_whole_groups(factor.matrix(kind).dense(), kind.group_of(level)):
                    return self.schema.level_name(name, level)
        for level in kind.levels:
            if _inside_groups(factor, kind, level):
                return self.schema.level_name(name, level)
        return name

    @property
    def levelled(self) -> bool:
        """Whether it may ask for several levels of an attribute."""
        return any(isinstance(factor, Level | Levels) for factor in self.factors.values())

    @property
    def key(self) -> object:
        """The same for queries that ask for the same rows, whatever they are called."""
        joint = None if self.joint is None else self.joint.tobytes()
        return self.attributes, tuple(self.factors.values()), joint

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows along each attribute; (rows,) for a dense matrix."""
        rows = self.matrices() if self.joint is None else [self.joint]
        return tuple(matrix.shape[0] for matrix in rows)

    @property
    def rows(self) -> int:
        """How many numbers the query asks for."""
        return prod(self.shape)

    def matrices(self) -> list[Matrix]:
        """One structured matrix per attribute not summed over."""
        return [f.matrix(self.schema[n]) for n, f in self.factors.items()]

    @property
    def pieces(self) -> list[Matrix]:
        """Matrices whose Kronecker product the rows are: one per attribute, or the dense one."""
        return self.matrices() if self.joint is None else [DenseMatrix(self.joint)]

    @property
    def matrix(self) -> Matrix:
        """The rows over the table of the attributes not summed over, the last fastest."""
        return self.over(self.attributes)

    def over(self, names: Sequence[str]) -> Matrix:
        """The rows over the table of some attributes, in schema order, the query's among them."""
        sizes = {name: self.schema[name].size for name in names}
        if not sizes.keys() >= self.factors.keys():
            raise QueryError(
                f"{self.name!r} is about {list(self.factors)}, not {list(names)} alone"
            )
        if self.joint is None:
            own = dict(zip(self.factors, self.matrices(), strict=True))
            return KroneckerMatrix(tuple(own.get(n) or TotalMatrix(k) for n, k in sizes.items()))
        if len(sizes) == len(self.factors):
            return DenseMatrix(self.joint)
        kept = tuple(i for i, name in enumerate(names) if name in self.factors)
        return SummedMatrix(DenseMatrix(self.joint), tuple(sizes.values()), kept)

    @property
    def domain_matrix(self) -> Matrix:
        """The rows over all cells of the domain, the last attribute fastest."""
        return self.over(self.schema.names)

    def apply(self, counts: Array) -> Array:
        """The answer, one number per row, from a table of the query's attributes or of all."""
        if counts.ndim == len(self.schema):
            names = self.schema.names
            counts = counts.sum(axis=tuple(i for i, n in enumerate(names) if n not in self.factors))
        table = np.asarray(counts, dtype=np.float64)
        if self.joint is not None:
            return np.asarray(self.joint @ table.reshape(-1))
        # As it lies in memory: a copy in another order would add up to other last digits.
        return kronecker_apply(self.matrices(), table[..., None]).reshape(-1)

    def row_labels(self) -> dict[str, list[Hashable]]:
        """Of each column, the label of every row (in row order)."""
        if self.joint is not None:
            rows: list[Hashable] = list(range(len(self.joint)))
            # A single row, such as a condition, is called what the query is called.
            return {"row": [self.named] if self.named and len(rows) == 1 else rows}
        found: dict[str, list[Hashable]] = {}
        outer, inner = 1, self.rows
        for heading, (name, factor) in zip(self.headings, self.factors.items(), strict=True):
            labels = factor.row_labels(self.schema[name])
            inner //= len(labels)
            found[heading] = [label for label in labels for _ in range(inner)] * outer
            outer *= len(labels)
        return found

    def dense(self, limit: int = DENSE_LIMIT) -> Array:
        """The query as numbers, rows × domain (last attribute fastest); for small domains."""
        if self.rows * self.schema.size > limit:
            raise QueryError(
                f"{self.name!r} as a dense matrix has {self.rows:,} rows × {self.schema.size:,} "
                f"columns, above the limit of {limit:,} numbers; use matrices(), one small matrix "
                f"per attribute, or raise the limit with dense(limit=...)"
            )
        return self.domain_matrix.dense(limit)

    def __repr__(self) -> str:
        weight = f", weight {self.weight:g}" if self.weight != 1 else ""
        return f"Query({self.name}: {counted(self.rows, 'row')}{weight})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (self.schema, dict(self.factors), self.joint, self.weight, self.named)


def _of_whole_groups(rows: Array, group_of: IntArray) -> bool:
    """Whether rows tell no cells of a group apart: a label of one's own may begin like a level."""
    _, first = np.unique(group_of, return_index=True)
    return bool((rows == rows[:, first][:, group_of]).all())


def _inside_groups(factor: Custom, kind: Hierarchical, level: str) -> bool:
    """Whether every row is called as a group of a level is, and counts values of it alone."""
    wanted = {str(label) for label in factor.labels}
    labels = enumerate(kind.level_labels(level))
    number = {str(label): n for n, label in labels if str(label) in wanted}
    if len(number) < len(wanted):
        return False
    of_row = np.array([number[str(label)] for label in factor.labels])
    outside = kind.group_of(level) != of_row[:, None]
    return not (factor.values[outside] != 0).any()


SEPARATOR = " × "


def _sums_over(factor: Factor) -> bool:
    return isinstance(factor, Custom) and len(factor.values) == 1 and (factor.values == 1).all()


def _rebuilt(
    schema: Schema,
    factors: dict[str, Factor],
    joint: Array | None,
    weight: float,
    named: str | None,
) -> Query:
    return Query(schema, factors, matrix=joint, weight=weight, name=named)


def factor_name(schema: Schema, attribute: str, factor: Factor) -> str:
    """ "prefix(age)", just "age" for the identity, and "county" for a level of places."""
    kind = schema[attribute]
    if isinstance(factor, Level):
        return factor.called(schema, attribute)
    if isinstance(factor, Identity) and isinstance(kind, Hierarchical):
        return schema.level_name(attribute, kind.levels[0])
    return f"{factor.label}({attribute})" if factor.label else attribute


def checked_weight(weight: object) -> float:
    """A positive finite number."""
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise QueryError(f"a weight is a positive number, found {weight!r}")
    try:
        value = float(weight)
    except OverflowError:
        value = float("inf")
    if not (isfinite(value) and value > 0):
        raise QueryError(
            f"a weight is a positive finite number, found {value}; leave a query out to ignore it"
        )
    return value


def as_factor(schema: Schema, attribute: str, factor: object) -> Factor:
    """A factor as it is, as a word such as "prefix", or as a matrix.

    Refuses what is no factor, and a factor that makes no sense on the attribute. The level of the
    leaves is the identity, which planners know best.
    """
    if isinstance(factor, str):
        factor = read_factor(factor, attribute, schema[attribute])
    elif isinstance(factor, list | tuple | np.ndarray) or hasattr(factor, "toarray"):
        factor = Custom(factor)
    if not isinstance(factor, Factor):
        called = f"; did you mean {factor.__name__}()?" if isinstance(factor, type) else ""
        raise QueryError(
            f"the factor on {attribute!r} is {factor!r}; use Identity(), Prefix(), Ranges(), "
            f"Total(), Level('...'), Levels(...) or Custom([[...]]), or a word such as "
            f"'prefix'{called}"
        )
    kind = schema[attribute]
    factor.check(attribute, kind)
    if isinstance(kind, Hierarchical) and factor == Level(kind.levels[0]):
        return Identity()
    return factor


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise QueryError(f"a query's name is a text that is not empty, found {name!r}")
    if found := unwritable(name):
        raise QueryError(f"the name {name!r} holds {found}, which no file of text can")
    return name


def _as_mapping(factors: object, schema: Schema) -> dict[str, object]:
    if isinstance(factors, Mapping):
        return dict(factors)
    if isinstance(factors, str):
        factors = attribute_names([factors], schema)
        if any(sign in name for name in factors for sign in "<>=(" if name not in schema):
            raise QueryError(
                f"a condition is asked as Workload.predicates(schema, [{factors[0]!r}]); "
                f"Query(schema, …) takes attributes"
            )
    if not isinstance(factors, Iterable):
        raise QueryError(
            f"attributes come as a list, ['age', 'sex'], or as a mapping to factors, "
            f"{{'age': Prefix()}}; found {factors!r}"
        )
    names = list(factors)
    twice = list(dict.fromkeys(str(n) for n in names if names.count(n) > 1))
    if twice:
        raise QueryError(f"attributes named twice in one query: {', '.join(map(repr, twice))}")
    chosen: dict[str, object] = {}
    for name in names:
        if not isinstance(name, str):
            raise QueryError(f"an attribute is named by a text, found {name!r}")
        attribute, *level = schema.levels.get(name, (name,))
        if attribute in chosen:
            raise QueryError(
                f"{name!r} asks for {attribute!r} a second time: a table has one level of it; ask "
                f"for several tables, or for both levels in one: {{{attribute!r}: Level(…, …)}}"
            )
        chosen[attribute] = Level(*level) if level else Identity()
    return chosen


def attribute_names(names: Sequence[Any], schema: Schema) -> list[str]:
    """Names one by one, as a list, or as one text: "age, sex".

    Examples
    --------
    >>> schema = Schema.from_sizes({"age": 3, "sex": 2})
    >>> [attribute_names(n, schema) for n in (["age", "sex"], [["age", "sex"]], ["age, sex"])]
    [['age', 'sex'], ['age', 'sex'], ['age', 'sex']]
    """
    if len(names) == 1 and isinstance(names[0], list | tuple):
        return list(names[0])
    if len(names) == 1 and isinstance(names[0], str) and names[0] not in schema:
        return [unquoted(name.strip()) for name in split(names[0], ",×") if name.strip()]
    return list(names)


def _check_plain(chosen: Mapping[str, object]) -> None:
    """With a matrix, attributes are only named: the matrix says what is asked."""
    if not chosen:
        raise QueryError(
            "a matrix query names the attributes its columns run over: "
            "Query(schema, ['age', 'sex'], matrix=...)"
        )
    if any(not isinstance(factor, Identity) for factor in chosen.values()):
        raise QueryError(
            f"give either factors or a matrix: with a matrix, list only the attributes, "
            f"Query(schema, {list(chosen)}, matrix=...)"
        )


def _joint(schema: Schema, names: list[str], matrix: object) -> Array:
    """The dense matrix with its columns in schema order."""
    values = checked_matrix(matrix, "matrix=")
    sizes = [schema[n].size for n in names]
    if values.shape[1] != prod(sizes):
        cells = f"the table of {names} has {SEPARATOR.join(map(str, sizes))} = {prod(sizes)} cells"
        if len(names) == 1:
            cells = f"{names[0]!r} has {sizes[0]} values"
        raise QueryError(f"the matrix has {values.shape[1]} columns, but {cells}")
    order = sorted(range(len(names)), key=lambda i: schema.index(names[i]))
    cube = values.reshape(len(values), *sizes).transpose(0, *(1 + i for i in order))
    joint = np.ascontiguousarray(cube).reshape(len(values), -1)
    joint.setflags(write=False)
    return joint
