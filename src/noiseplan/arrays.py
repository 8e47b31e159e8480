"""Small helpers on arrays, most of integers: sets of attributes are rows of numbers here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from itertools import chain, combinations
from math import comb
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Made = TypeVar("_Made")
IntArray = NDArray[np.int64]
# What things are saved as: a JSON object, and arrays by name.
Json = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

T = TypeVar("T")

# Keys stay below this, so that a product of two numbers checked against it never overflows.
_LARGEST_KEY = 2**62


def beginning_with(start: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin so, by the rest of their names."""
    return {n.removeprefix(start): array for n, array in arrays.items() if n.startswith(start)}


def all_whole(values: NDArray[np.number]) -> bool:
    """Whether all of these are whole numbers."""
    return bool((values == np.rint(values)).all())


def subsets(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """All subsets of these, in their order, the empty one first and the smaller before the larger.

    Examples
    --------
    >>> list(subsets("ab"))
    [(), ('a',), ('b',), ('a', 'b')]
    """
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def frozen(value: Any, others: bool = True) -> Any:
    """An array that nobody can change, also each of those in tuples and lists; else the value.

    It is a copy, unless it is read-only as it is, or no `others` have it. What is read-only through
    a view alone can be changed by whoever has the array behind it, or the memory that is not an
    array's: a file, a buffer.

    Examples
    --------
    >>> mine = np.array([1, 2])
    >>> kept = frozen(mine)
    >>> mine[0] = 7
    >>> kept.tolist(), kept.flags.writeable, frozen(kept) is kept
    ([1, 2], False, True)
    """
    if type(value) in (tuple, list):
        found = [frozen(each, others) for each in value]
        same = all(a is b for a, b in zip(found, value, strict=True))
        return value if same else type(value)(found)
    if not isinstance(value, np.ndarray):
        if not others and hasattr(value, "indptr"):  # sparse
            value.data.setflags(write=False)
        return value
    behind = value
    while isinstance(behind.base, np.ndarray):
        behind = behind.base
        if not others:
            behind.setflags(write=False)
    shared = behind.base is not None and not isinstance(behind.base, bytes)
    if others and (value.flags.writeable or behind.flags.writeable or shared):
        once = value[tuple(slice(None) if step else slice(1) for step in value.strides)]
        copied = np.array(once)  # what is broadcast is kept once
        copied.setflags(write=False)
        return copied if copied.shape == value.shape else np.broadcast_to(copied, value.shape)
    value.setflags(write=False)
    return value


def immutable(made: type[_Made]) -> type[_Made]:
    """A frozen dataclass whose arrays cannot be changed in place either.

    What it is given is kept by `frozen`; what it works out later by `cached_property` is its own,
    and is made read-only as it is.
    """
    begin = made.__init__

    @wraps(begin)
    def __init__(self: Any, *values: Any, **named: Any) -> None:
        begin(self, *values, **named)
        for name, value in vars(self).items():
            if (found := frozen(value)) is not value:
                object.__setattr__(self, name, found)

    made.__init__ = __init__  # type: ignore[method-assign]
    made.__setstate__ = _restored  # type: ignore[attr-defined]
    for each in (value for kind in made.__mro__ for value in vars(kind).values()):
        if isinstance(each, cached_property) and not hasattr(each.func, "__wrapped__"):
            each.func = _read_only(each.func)
    return made


def _restored(self: Any, state: dict[str, Any]) -> None:
    """After copying or pickling, which lose that arrays are read-only."""
    for name, value in state.items():
        object.__setattr__(self, name, frozen(value, False))


def _read_only(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, with arrays that are read-only."""

    @wraps(work)
    def found(self: Any) -> Any:
        return frozen(work(self), False)

    return found


def widened(rows: IntArray, width: int, filler: int = -1) -> IntArray:
    """Rows made so wide, filled up at their end."""
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=filler)


def plain_columns(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns as lists of Python's own values, whatever arrays or sequences they come in.

    Zeros are plain: what is written for people and programs has no zero below zero.

    Examples
    --------
    >>> plain_columns({"age": ("0", "1"), "estimate": np.array([-0.0, -1.5])})
    {'age': ['0', '1'], 'estimate': [0.0, -1.5]}
    """
    return {
        name: (values + 0.0 if values.dtype.kind == "f" else values).tolist()
        if isinstance(values, np.ndarray)
        else list(values)
        for name, values in columns.items()
    }


def combination_rows(items: int, size: int) -> IntArray:
    """All `size`-subsets of `range(items)` as ascending rows, in lexicographic order.

    Examples
    --------
    >>> combination_rows(3, 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> combination_rows(3, 0).tolist()
    [[]]
    """
    count = comb(items, size)
    flat = chain.from_iterable(combinations(range(items), size))
    return np.fromiter(flat, dtype=np.int64, count=count * size).reshape(count, size)


def row_keys(rows: NDArray[np.integer], base: int) -> IntArray | None:
    """One integer per row, ordered as the rows are; None if it could overflow.

    Entries lie in −1 … base − 2.

    Examples
    --------
    >>> row_keys(np.array([[0, -1], [0, 2], [1, 0]]), base=10).tolist()
    [10, 13, 21]
    """
    if rows.shape[1] * np.log2(max(base, 2)) >= 62:
        return None
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        keys = keys * base + (column + 1)
    return keys


def distinct_rows(rows: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Index of the first row of each distinct kind, and the kind of every row.

    Kinds are numbered in lexicographic order of their rows, which hold floats that are numbers, or
    64-bit integers. It is what `np.unique(rows, axis=0)` finds; here rows are compared as texts of
    bytes, whose order is that of the numbers, and not number by number.

    Examples
    --------
    >>> first, kind = distinct_rows(np.array([[0.5, 1.0], [-2.0, 7.0], [0.5, 1.0], [-0.0, 3.0]]))
    >>> first.tolist(), kind.tolist()
    ([1, 3, 0], [2, 0, 2, 1])
    """
    if not rows.size:
        return np.arange(min(len(rows), 1)), np.zeros(len(rows), dtype=np.int64)
    whole = rows.dtype.kind != "f"
    plain = np.array(rows, dtype=np.int64 if whole else np.float64, order="C")
    plain += 0  # no zero below zero
    below = np.zeros(plain.shape, dtype=bool) if whole else plain < 0
    bits = plain.view(np.uint64)  # in place: rows may be very many
    np.invert(bits, out=bits, where=below)  # of a float below zero they count downwards
    np.bitwise_xor(bits, np.uint64(1 << 63), out=bits, where=~below)
    if sys.byteorder == "little":
        bits.byteswap(inplace=True)
    texts = bits.view(f"V{8 * rows.shape[1]}").reshape(-1)
    first, kind = np.unique(texts, return_index=True, return_inverse=True)[1:]
    return first, kind.reshape(-1)


def unique_rows(rows: NDArray[np.integer]) -> tuple[IntArray, IntArray]:
    """Index of the first row of each distinct kind, and the kind of every row.

    Kinds are numbered in lexicographic order of their rows. Entries must be at least −1. Columns
    are digits of one integer per row, each with the base its largest entry needs; where the number
    would outgrow 64 bits, what was read so far is replaced by its rank, which keeps the order.

    Examples
    --------
    >>> first, kind = unique_rows(np.array([[5, 1], [2, 7], [5, 1]]))
    >>> first.tolist(), kind.tolist()
    ([1, 0], [1, 0, 1])
    """
    if not len(rows):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    keys, span = np.zeros(len(rows), dtype=np.int64), 1
    for column in rows.T:
        digit, base = column.astype(np.int64), int(column.max()) + 2
        if base > _LARGEST_KEY // span:
            keys, span = _ranks(keys)
        if base > _LARGEST_KEY // span:
            digit, base = _ranks(digit)
            digit -= 1
        keys, span = keys * base + (digit + 1), span * base
    return numbered(keys)


def numbered(values: IntArray) -> tuple[IntArray, IntArray]:
    """The first place of each distinct value, in their order, and the number of every value.

    Values that are small beside how many there are need no sorting: they are places of a table.

    Examples
    --------
    >>> first, number = numbered(np.array([7, 2, 7]))
    >>> first.tolist(), number.tolist()
    ([1, 0], [1, 0, 1])
    """
    if not len(values) or values.min() < 0 or values.max() > len(values):
        _, found, kind = np.unique(values, return_index=True, return_inverse=True)
        return found.astype(np.int64), kind.reshape(-1).astype(np.int64)
    first = np.full(int(values.max()) + 1, -1, dtype=np.int64)
    first[values[::-1]] = np.arange(len(values) - 1, -1, -1)  # of equal values the last one stays
    found = first[first >= 0]
    first[first >= 0] = np.arange(len(found))
    return found, first[values]


def joined_kinds(kinds: Sequence[IntArray]) -> IntArray:
    """The same number where all `kinds` are the same, counted in the order they first come.

    Examples
    --------
    >>> joined_kinds([np.array([5, 5, 2, 5]), np.array([0, 1, 1, 0])]).tolist()
    [0, 1, 2, 0]
    """
    first, kind = unique_rows(np.column_stack(kinds))
    return np.argsort(np.argsort(first))[kind]


def first_of(kinds: IntArray) -> IntArray:
    """The first place of each kind, kinds numbered from 0."""
    return numbered(kinds)[0]


def _ranks(values: IntArray) -> tuple[IntArray, int]:
    """Each value's place among the distinct ones, and how many there are."""
    first, rank = numbered(values)
    return rank, len(first)
