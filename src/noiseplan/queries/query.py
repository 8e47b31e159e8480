"""One query: a table of linear counts over a few attributes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from math import isfinite, prod
from numbers import Real
from types import MappingProxyType

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.matrices import Matrix, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.queries.factors import Custom, Factor, Identity, Total, _checked_matrix
from noiseplan.schema import Schema

# A dense query matrix beyond this many numbers (400 MB) is refused rather than made by accident.
DENSE_LIMIT = 50_000_000


class Query:
    """A Kronecker product of factors, or one dense matrix over a few attributes.

    Parameters
    ----------
    schema
        The declared attributes.
    factors
        Attribute → factor; or a sequence of attributes, each with `Identity()`. Attributes not
        named are summed over.
    matrix
        Instead of factors: any matrix with one column per cell of the table of the named
        attributes (last attribute fastest).
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
    """

    __slots__ = ("factors", "joint", "named", "schema", "weight")

    schema: Schema
    factors: Mapping[str, Factor]
    joint: Array | None
    weight: float
    named: str | None

    def __init__(
        self,
        schema: Schema,
        factors: Mapping[str, Factor] | Sequence[str],
        *,
        matrix: object = None,
        weight: float = 1.0,
        name: str | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise QueryError(f"a query starts with its schema, found {type(schema).__name__}")
        chosen = _as_mapping(factors)
        if matrix is not None and len(chosen) == 1:  # a matrix over one attribute is a factor
            chosen, matrix = {n: Custom(matrix) for n in chosen}, None
        ordered = {n: chosen[n] for n in sorted(chosen, key=schema.index)}
        for attribute, factor in ordered.items():
            _check_factor(schema, attribute, factor)
        self.schema = schema
        self.weight = checked_weight(weight)
        self.named = _checked_name(name)
        self.joint = None if matrix is None else _joint(schema, list(chosen), matrix, chosen)
        if self.joint is None:
            ordered = {n: f for n, f in ordered.items() if not isinstance(f, Total)}
        self.factors = MappingProxyType(ordered)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes not summed over, in schema order."""
        return tuple(self.factors)

    @property
    def name(self) -> str:
        if self.named:
            return self.named
        if self.joint is not None:
            return f"matrix[{len(self.joint)} rows]({', '.join(self.attributes)})"
        return " × ".join(factor_name(n, f) for n, f in self.factors.items()) or "total"

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows along each attribute; (rows,) for a dense matrix."""
        if self.joint is not None:
            return (len(self.joint),)
        return tuple(m.shape[0] for m in self.matrices())

    @property
    def rows(self) -> int:
        return prod(self.shape)

    def matrices(self) -> list[Matrix]:
        """One structured matrix per attribute not summed over."""
        return [f.matrix(self.schema[n]) for n, f in self.factors.items()]

    def row_labels(self) -> dict[str, list[Hashable]]:
        """Of each attribute, the label of every row (in row order)."""
        if self.joint is not None:
            return {"row": list(range(len(self.joint)))}
        per_axis = [f.row_labels(self.schema[n]) for n, f in self.factors.items()]
        cells = list(product(*per_axis))
        return {n: [cell[i] for cell in cells] for i, n in enumerate(self.factors)}

    def dense(self) -> Array:
        """The query as numbers, rows × domain; for small domains."""
        if self.rows * self.schema.size > DENSE_LIMIT:
            raise QueryError(
                f"{self.name!r} as a dense matrix has {self.rows} rows × {self.schema.size:,} "
                f"columns, above the limit of {DENSE_LIMIT:,} numbers"
            )
        if self.joint is not None:
            return self._dense_joint(self.joint)
        pieces = [
            (self.factors[n] if n in self.factors else Total()).matrix(a).dense()
            for n, a in zip(self.schema.names, self.schema.attributes, strict=True)
        ]
        return kronecker_dense(pieces)

    def _dense_joint(self, joint: Array) -> Array:
        sizes = [self.schema[n].size if n in self.factors else 1 for n in self.schema.names]
        spread = joint.reshape(len(joint), *sizes)
        return np.broadcast_to(spread, (len(joint), *self.schema.shape)).reshape(len(joint), -1)

    def __repr__(self) -> str:
        weight = f", weight {self.weight:g}" if self.weight != 1 else ""
        return f"Query({self.name}: {self.rows:,} rows{weight})"


def factor_name(attribute: str, factor: Factor) -> str:
    """ "prefix(age)", or just "age" for the identity."""
    return f"{factor.label}({attribute})" if factor.label else attribute


def checked_weight(weight: object) -> float:
    """A positive finite number."""
    if isinstance(weight, bool) or not isinstance(weight, (Real, np.number)):
        raise QueryError(f"a weight is a positive number, found {weight!r}")
    value = float(weight)
    if not (isfinite(value) and value > 0):
        raise QueryError(
            f"a weight is a positive finite number, found {value}; leave a query out to ignore it"
        )
    return value


def _checked_name(name: str | None) -> str | None:
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise QueryError(f"a query's name is a text that is not empty, found {name!r}")
    return name


def _as_mapping(factors: Mapping[str, Factor] | Sequence[str]) -> dict[str, Factor]:
    if isinstance(factors, Mapping):
        return dict(factors)
    if isinstance(factors, str):
        raise QueryError(f"attributes come as a list or a mapping: write [{factors!r}]")
    names = list(factors)
    twice = {str(n) for n in names if names.count(n) > 1}
    if twice:
        raise QueryError(f"attributes named twice in one query: {sorted(twice)}")
    return {n: Identity() for n in names}


def _check_factor(schema: Schema, attribute: str, factor: Factor) -> None:
    if not isinstance(factor, Factor):
        raise QueryError(
            f"the factor on {attribute!r} is {factor!r}; use Identity(), Prefix(), Ranges(), "
            f"Total(), Levels(...) or Custom([[...]])"
        )
    factor.check(attribute, schema[attribute])


def _joint(schema: Schema, names: list[str], matrix: object, chosen: Mapping[str, Factor]) -> Array:
    """The dense matrix with its columns in schema order."""
    if not names:
        raise QueryError("a matrix query names the attributes its columns run over")
    if any(not isinstance(f, Identity) for f in chosen.values()):
        raise QueryError("give either factors or a matrix: with a matrix, list only the attributes")
    values = _checked_matrix(matrix, "matrix=")
    sizes = [schema[n].size for n in names]
    if values.shape[1] != prod(sizes):
        raise QueryError(
            f"the matrix has {values.shape[1]} columns, but the table of {names} has "
            f"{' × '.join(map(str, sizes))} = {prod(sizes)} cells"
        )
    order = sorted(range(len(names)), key=lambda i: schema.index(names[i]))
    cube = values.reshape(len(values), *sizes).transpose(0, *(1 + i for i in order))
    return np.ascontiguousarray(cube).reshape(len(values), -1)
