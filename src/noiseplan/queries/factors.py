"""Factors: what is asked about one attribute.

A query is a Kronecker product of factors, one per attribute; an attribute not named is summed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final, final

import numpy as np

from noiseplan.errors import QueryError, SchemaError, remedy
from noiseplan.escaping import unwritable
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    Matrix,
    PermutedMatrix,
    PrefixMatrix,
    RangesMatrix,
    TotalMatrix,
    padded,
)
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.schema import Attribute, Label
from noiseplan.schema.labels import IN_BINS, IN_ORDER, checked_label

# Beyond these, squares and products of a few entries would leave the range of doubles.
SMALLEST: Final = 1e-30
LARGEST: Final = 1e30


class Factor(ABC):
    """What is asked about one attribute: a matrix with one column per value of the attribute.

    Factors are values: equal ones ask the same, and can be kept in sets and as keys.

    Examples
    --------
    >>> import noiseplan as nz
    >>> size = nz.Ordinal(range(3))
    >>> nz.Prefix().matrix(size).dense().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    >>> nz.Prefix() == nz.Prefix()
    True
    """

    needs_order: ClassVar[bool] = False
    """Whether the factor makes sense on ordered attributes only."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A word for names and reports, such as "prefix"; empty for the identity."""

    @abstractmethod
    def matrix(self, attribute: Attribute) -> Matrix:
        """The rows asked for, as a matrix over the attribute's values."""

    @abstractmethod
    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        """One label per row."""

    def check(self, name: str, attribute: Attribute) -> None:
        """Raise `QueryError` if the factor makes no sense on this attribute."""
        if self.needs_order:
            word = remedy("argument", f"{type(self).__name__}()", self.label)
            check_ordered(word, name, attribute)


def check_ordered(word: str, name: str, attribute: Attribute) -> None:
    """Refuse a factor (in words) on an attribute whose values have no order."""
    if not attribute.ordered:
        raise QueryError(
            word
            + f" needs an ordered attribute, but {name!r} is {type(attribute).__name__}: "
            + "declare it as "
            + IN_ORDER
            + " or "
            + IN_BINS
            + ", or "
            + remedy("other factor", "use Identity() or Levels({value: group, ...})")
        )


@final
@dataclass(frozen=True)
class Identity(Factor):
    """One row per value: the plain table.

    Examples
    --------
    >>> from noiseplan.schema import Categorical
    >>> Identity().row_labels(Categorical(["F", "M"]))
    ('F', 'M')
    """

    label = ""

    def matrix(self, attribute: Attribute) -> Matrix:
        return IdentityMatrix(attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return attribute.labels


@final
@dataclass(frozen=True)
class Total(Factor):
    """One row, the sum over all values: the same as not naming the attribute.

    Examples
    --------
    >>> from noiseplan.schema import Categorical
    >>> Total().row_labels(Categorical(["F", "M"]))
    ['total']
    """

    label = "total"

    def matrix(self, attribute: Attribute) -> Matrix:
        return TotalMatrix(attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return ["total"]


@final
@dataclass(frozen=True)
class Prefix(Factor):
    """One row per value v: how many have a value up to and including v; missing ones have none.

    Examples
    --------
    >>> from noiseplan.schema import Ordinal
    >>> Prefix().row_labels(Ordinal(range(3)))
    ['≤ 0', '≤ 1', '≤ 2']
    """

    label = "prefix"
    needs_order = True

    def matrix(self, attribute: Attribute) -> Matrix:
        return padded(PrefixMatrix(attribute.stated), attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return [attribute.up_to_label(last) for last in range(attribute.stated)]


@final
@dataclass(frozen=True)
class Ranges(Factor):
    """One row per interval of consecutive values: those of length 1 first, all values last.

    Missing values are in no interval.

    Examples
    --------
    >>> from noiseplan.schema import Ordinal
    >>> Ranges().row_labels(Ordinal(range(3)))
    [0, 1, 2, '0 … 1', '1 … 2', '0 … 2']
    """

    label = "ranges"
    needs_order = True

    def matrix(self, attribute: Attribute) -> Matrix:
        return padded(RangesMatrix(attribute.stated), attribute.size)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        pairs = zip(*RangesMatrix(attribute.stated).bounds(), strict=True)
        return [attribute.span_label(int(first), int(last)) for first, last in pairs]


@final
@dataclass(frozen=True)
class Permuted(Factor):
    """What `factor` asks, as if the values came in the order `order`, given by their codes.

    Examples
    --------
    >>> from noiseplan.queries import Prefix
    >>> from noiseplan.schema import Ordinal
    >>> Permuted(Prefix(), (2, 0, 1)).matrix(Ordinal(range(3))).dense().astype(int).tolist()
    [[0, 0, 1], [1, 0, 1], [1, 1, 1]]
    """

    factor: Factor
    order: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"permuted {self.factor.label}".rstrip()

    def matrix(self, attribute: Attribute) -> Matrix:
        return PermutedMatrix(self.factor.matrix(attribute), self.order)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return [f"row {i}" for i in range(self.factor.matrix(attribute).shape[0])]

    def check(self, name: str, attribute: Attribute) -> None:
        self.factor.check(name, attribute)
        if sorted(self.order) != list(range(attribute.size)):
            raise QueryError(
                f"the order of the values of {name!r} names each code from 0 to "
                f"{attribute.size - 1} once, found {len(self.order)} numbers"
            )


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Custom(Factor):
    """Any rows: a matrix with one column per value of the attribute.

    Parameters
    ----------
    matrix
        Anything NumPy reads as a two-dimensional array of finite numbers.
    name
        A word for names and reports. Factors with different names are different.
    labels
        A word or number for each row, shown in tables; "row 0", "row 1", … if not given.

    Examples
    --------
    >>> ages = Custom([[1] * 18 + [0] * 82, [0] * 65 + [1] * 35], "ages", ["minors", "retired"])
    >>> ages
    Custom(2 × 100, name='ages')
    >>> from noiseplan.schema import Ordinal
    >>> ages.row_labels(Ordinal(range(100)))
    ('minors', 'retired')
    """

    values: Array
    name: str
    labels: tuple[Hashable, ...]

    def __init__(
        self, matrix: object, name: str | None = None, labels: Sequence[Hashable] | None = None
    ) -> None:
        values = checked_matrix(matrix, "Custom")
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise QueryError(f"Custom: a name is a text that is not empty, found {name!r}")
        if name is not None and (found := unwritable(name)):
            raise QueryError(f"Custom: the name {name!r} holds {found}, which no file of text can")
        rows = "1 row" if len(values) == 1 else f"{len(values)} rows"
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "name", name or f"custom[{rows}]")
        object.__setattr__(self, "labels", _checked_row_labels(labels, len(values)))

    @property
    def label(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.name, self.labels, self.values.shape, self.values.tobytes()

    def check(self, name: str, attribute: Attribute) -> None:
        if self.values.shape[1] != attribute.size:
            raise QueryError(
                f"Custom on {name!r} has {self.values.shape[1]} columns, but {name!r} has "
                f"{attribute.size} values: one column per value"
            )

    def matrix(self, attribute: Attribute) -> Matrix:
        return DenseMatrix(self.values)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return self.labels

    def __repr__(self) -> str:
        rows, columns = self.values.shape
        return f"Custom({rows} × {columns}, name={self.name!r})"


def _checked_row_labels(labels: object, rows: int) -> tuple[Hashable, ...]:
    if labels is None:
        return tuple(f"row {i}" for i in range(rows))
    if isinstance(labels, str) or not isinstance(labels, Sequence) or len(labels) != rows:
        raise QueryError(f"Custom: labels is a list of {rows}, one per row, found {labels!r}")
    allowed = "Custom: a label is a text, a number or a date"
    return tuple(checked_row_label(label, "Custom", allowed) for label in labels)


def checked_row_label(label: object, call: str, allowed: str) -> Label:
    """What a row may be called: what a value may be, so that it can be saved."""
    try:
        return checked_label(label, call)
    except SchemaError as error:
        raise QueryError(f"{allowed}: {error}") from None


def checked_matrix(matrix: object, where: str) -> Array:
    """A read-only copy of a matrix of finite numbers, at least one of them not zero.

    A SciPy sparse matrix or array is written out, within the limit for dense matrices.
    """
    if hasattr(matrix, "toarray") and hasattr(matrix, "nnz"):
        shape = tuple(getattr(matrix, "shape", ()))
        if prod(shape) > DENSE_LIMIT:
            raise QueryError(
                f"{where}: a sparse matrix of shape {shape} has more than {DENSE_LIMIT:,} "
                f"numbers when written out; bring fewer rows at a time, as several queries"
            )
        matrix = matrix.toarray()
    try:
        found = np.asarray(matrix)
        if found.dtype.kind not in "biufO":
            raise TypeError(f"found {found.dtype}")
        values = np.array(found, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise QueryError(f"{where} needs a matrix of numbers, as in [[1, 0, 1]]: {error}") from None
    if values.ndim != 2 or not values.size:
        raise QueryError(
            f"{where} needs a matrix with at least one row and one column, found shape "
            f"{values.shape}; a single row is written [[...]]"
        )
    if not np.isfinite(values).all():
        raise QueryError(f"{where} needs finite numbers, found NaN or infinity")
    if not values.any():
        raise QueryError(f"{where} has only zeros: there is nothing to answer")
    sizes = np.abs(values[values != 0])
    if not (sizes.min() >= SMALLEST and sizes.max() <= LARGEST):
        raise QueryError(
            f"{where} needs numbers of sizes between {SMALLEST:g} and {LARGEST:g} (or zero), found "
            f"{sizes.min():g} to {sizes.max():g}: multiply the matrix by a power of ten"
        )
    values += 0.0  # −0 becomes 0, so that equal matrices have equal bytes
    values.setflags(write=False)
    return values
