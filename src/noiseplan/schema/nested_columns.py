"""Columns that declare a hierarchy, checked, and the groups within groups that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import SchemaError, remedy
from noiseplan.escaping import unwritable
from noiseplan.schema.labels import Label, checked_label

MOST_LEVELS: Final = 8
MOST_LEAVES: Final = 10_000_000
PATH: Final = " › "
_EXAMPLE: Final = "Hierarchical({'tract': ['a1', 'a2', 'b1'], 'county': ['a', 'a', 'b']})"
_FROM_CODES: Final = "Hierarchical.from_codes(codes, {'state': 2, 'county': 5})"
_TOLD_APART: Final = remedy("declare paths", "Hierarchical(..., paths=True)")

Labels = tuple[Label, ...]


@runtime_checkable
class Frame(Protocol):
    """A data frame: names of columns, and a column by its name."""

    @property
    def columns(self) -> Any: ...
    def __getitem__(self, name: Any, /) -> Any: ...


def checked_columns(columns: object) -> dict[str, list[Label]]:
    """The columns as lists of plain Python objects of one length, or what is wrong with them."""
    if isinstance(columns, Frame):
        check_levels(list(columns.columns))
        columns = {name: columns[name] for name in columns.columns}
    if not isinstance(columns, Mapping):
        raise SchemaError(
            f"Hierarchical: levels come as columns by their names, got a "
            f"{type(columns).__name__}; try {_EXAMPLE}, or {_FROM_CODES}."
        )
    if len(columns) > MOST_LEVELS and isinstance(next(iter(columns.values())), str):
        raise SchemaError(
            f"Hierarchical: {len(columns):,} names with a text each, as if every leaf were given "
            f"with its group; one list per level is wanted, the leaves first: {_EXAMPLE}."
        )
    check_levels(list(columns))
    listed: dict[str, list[Any]] = {}
    for name, column in columns.items():
        if isinstance(column, str | bytes) or not isinstance(column, Iterable):
            raise SchemaError(f"Hierarchical: {name!r} must be a list, got {column!r}: {_EXAMPLE}.")
        listed[name] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    lengths = {name: len(column) for name, column in listed.items()}
    if len(set(lengths.values())) > 1:
        raise SchemaError(f"Hierarchical: every leaf has one place at every level, got {lengths}.")
    if max(lengths.values()) > MOST_LEAVES:
        raise SchemaError(f"Hierarchical: at most {MOST_LEAVES:,} leaves can be declared.")
    if not lengths[next(iter(lengths))]:
        raise SchemaError(f"Hierarchical: no values declared; at least one is needed: {_EXAMPLE}.")
    leaf, *_ = listed.values()
    return {name: checked_column(name, column, leaf) for name, column in listed.items()}


def checked_column(name: str, column: list[Any], leaves: list[Any]) -> list[Label]:
    """A column of labels; long ones of one type are looked at as a whole."""
    kinds = set(map(type, column))
    for row, label in enumerate(column) if kinds != {int} else ():
        if label is None or label == "" or label != label:
            of = f"row {row}" if column is leaves else f"{leaves[row]!r} (row {row})"
            raise SchemaError(
                f"Hierarchical: {of} has no {name}, found {label!r}; every leaf has a place at "
                f"every level: give the missing ones a group of their own, such as 'none'."
            )
    if kinds == {str} and _writable("".join(column)):
        return column
    return [checked_label(label, "Hierarchical") for label in column]


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def check_levels(names: Sequence[object]) -> None:
    if len(names) > MOST_LEVELS:  # first: there may be very many
        raise SchemaError(
            f"Hierarchical: {len(names):,} levels, and at most {MOST_LEVELS} are allowed; leave "
            f"out those that nobody asks for."
        )
    for name in names:
        if not isinstance(name, str) or not name.strip() or unwritable(name):
            raise SchemaError(f"Hierarchical: a level is named by a text, found {name!r}.")
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise SchemaError(f"Hierarchical: two levels are called {twice[0]!r}.")
    if len(names) < 2:
        raise SchemaError(
            f"Hierarchical: a hierarchy has two levels or more, found {_listed(names) or 'none'}; "
            f"values without groups are Categorical([...]). Levels go from fine to coarse: "
            f"{_EXAMPLE}."
        )


def checked_codes(codes: object) -> list[str]:
    if isinstance(codes, str | bytes) or not isinstance(codes, Iterable):
        raise SchemaError(f"Hierarchical.from_codes: codes come as a list, got {codes!r}.")
    listed = codes.tolist() if isinstance(codes, np.ndarray) else list(codes)
    for code in listed:
        if not isinstance(code, str):
            raise SchemaError(
                f"Hierarchical.from_codes: a code is a text, found {code!r} "
                f"({type(code).__name__}); a number has lost its leading zeros: write '0123'."
            )
    if not listed:
        raise SchemaError(f"Hierarchical.from_codes: no codes declared; try {_FROM_CODES}.")
    return listed


def checked_lengths(prefixes: object) -> dict[str, int]:
    if not isinstance(prefixes, Mapping) or not prefixes:
        raise SchemaError(
            f"Hierarchical.from_codes: levels come as names with how many signs of the code they "
            f"have, got {prefixes!r}; try {_FROM_CODES}."
        )
    for name, length in prefixes.items():
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise SchemaError(
                f"Hierarchical.from_codes: {name!r} takes a number of signs, at least 1, found "
                f"{length!r}."
            )
    if len(set(prefixes.values())) < len(prefixes):
        raise SchemaError(
            f"Hierarchical.from_codes: two levels take as many signs: {dict(prefixes)}; levels "
            f"differ, as in {_FROM_CODES}."
        )
    return dict(prefixes)


def prefixes_of(name: str, length: int, codes: list[str], bare: list[str]) -> list[str]:
    """The first so many counted signs of each code, as the first code of the group spells them."""
    for code, counted in zip(codes, bare, strict=True):
        if len(counted) < length:
            raise SchemaError(
                f"Hierarchical.from_codes: the code {code!r} has {len(counted)} signs, and a "
                f"{name} takes {length}: has it lost a leading zero? Otherwise declare by "
                f"columns: {_EXAMPLE}."
            )
    if codes is bare:
        return [code[:length] for code in codes]
    spelled: dict[str, str] = {}
    return [
        spelled.setdefault(counted[:length], _spelled(code, counted[:length]))
        for code, counted in zip(codes, bare, strict=True)
    ]


def _spelled(code: str, prefix: str) -> str:
    """The shortest beginning of a code that holds these signs, in their order."""
    at = 0
    for sign in prefix:
        at = code.index(sign, at) + 1
    return code[:at]


# ---------------------------------------------------------------------- groups


def numbered_labels(column: Sequence[Any]) -> tuple[Labels, IntArray]:
    """Labels in the order they first come, and the number of each place's."""
    number: dict[Any, int] = {}
    codes = (number.setdefault(label, len(number)) for label in column)
    found = np.fromiter(codes, dtype=np.int64, count=len(column))
    return tuple(number), found


def parents_of(fine: IntArray, coarse: IntArray) -> IntArray:
    """The coarse group of every fine one, if each lies in one."""
    found = np.empty(int(fine.max()) + 1, dtype=np.int64)
    found[fine] = coarse
    return found


def nests(fine: IntArray, coarse: IntArray) -> bool:
    return bool((parents_of(fine, coarse)[fine] == coarse).all())


def by_path(
    own: tuple[Labels, IntArray], above: tuple[Labels, IntArray]
) -> tuple[Labels, IntArray]:
    """Groups of one label told apart by what they lie in, and labelled by the path to them."""
    pairs, codes = numbered_labels((own[1] * len(above[0]) + above[1]).tolist())
    labels = tuple(
        f"{above[0][pair % len(above[0])]}{PATH}{own[0][pair // len(above[0])]}"  # type: ignore[operator, index]
        for pair in pairs
    )
    if len(set(labels)) < len(labels):
        raise SchemaError(f"Hierarchical: labels that hold {PATH!r} make two paths the same.")
    return labels, codes


def declared_twice(listed: Mapping[str, list[Label]]) -> str:
    """A leaf that comes twice: with one place at all levels, or in two groups of one."""
    (leaf, leaves), *above = listed.items()
    first: dict[Label, int] = {}
    for row, label in enumerate(leaves):
        if first.setdefault(label, row) == row:
            continue
        for name, column in above:
            before = column[first[label]]
            if column[row] != before:
                return (
                    f"Hierarchical: the {leaf} {label!r} is in {name} {before!r} (row "
                    f"{first[label]}) and in {name} {column[row]!r} (row {row}); a {leaf} lies in "
                    f"one {name}" + _turned_round(listed)
                )
        return (
            f"Hierarchical: the {leaf} {label!r} is declared twice, at rows {first[label]} and "
            f"{row}; every one may occur once."
        )
    raise AssertionError("no leaf comes twice")


def _turned_round(listed: Mapping[str, list[Label]]) -> str:
    *_, last = listed.values()
    if len(set(last)) < len(last):
        return "."
    turned = ", ".join(f"{name!r}: …" for name in reversed(list(listed)))
    return f". Levels go from fine to coarse: {{{turned}}}."


def in_two(listed: Mapping[str, list[Label]], name: str) -> str:
    """A group that lies in two groups of the level above it."""
    names = list(listed)
    above = names[names.index(name) + 1]
    found: dict[Label, Label] = {}
    for own, parent in zip(listed[name], listed[above], strict=True):
        if found.setdefault(own, parent) != parent:
            return (
                f"Hierarchical: the {name} {own!r} is in {above} {found[own]!r} and in {above} "
                f"{parent!r}; a {name} lies in one {above}. If these are two of one label, tell "
                f"them apart by their parents: " + _TOLD_APART + "."
            )
    raise AssertionError("every group lies in one")


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(repr, names))
