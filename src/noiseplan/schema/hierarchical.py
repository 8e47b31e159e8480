"""Hierarchical attributes: values in groups within groups, as blocks in tracts in counties."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import SchemaError
from noiseplan.schema.attributes import SAVED_KINDS, Attribute, Categorical, as_range
from noiseplan.schema.code_files import code_file, read_code_columns
from noiseplan.schema.encoding import Codes, LabelTable
from noiseplan.schema.labels import (
    Label,
    check_writable,
    checked_label,
    checked_missing,
    label_from_json,
    label_to_json,
)
from noiseplan.schema.nested_columns import (
    MOST_LEAVES,
    PATH,
    Frame,
    Labels,
    by_path,
    check_levels,
    checked_codes,
    checked_column,
    checked_columns,
    checked_lengths,
    declared_twice,
    in_two,
    nests,
    numbered_labels,
    parents_of,
    prefixes_of,
)


@final
@dataclass(frozen=True, init=False, repr=False, eq=False)
class Hierarchical(Attribute):
    """Values with named levels of groups above them: blocks, tracts, counties, states.

    Data hold the values of the finest level, the leaves. Queries ask for any level,
    ``{"geo": Level("county")}``; `Identity()` asks for the leaves.

    Parameters
    ----------
    columns
        One column per level, from fine to coarse, by the name of the level: the leaves, each once,
        then the group of each leaf; or a data frame of such columns. At most eight levels.
    other
        The name of one more leaf, which catches every value that is not declared, missing values
        included unless they have a cell. It is a group of its own at every level.
    missing
        The name of a cell for missing values, and for nothing else: the last leaf, and the last
        group of every level, alone in it. Totals count it; a county does not.
    paths
        Allow one label for several groups, tract "0001" in two counties: they are told apart by
        their parents, and labelled "41 › 0001". Without it such labels are refused.

    Examples
    --------
    >>> geo = Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
    >>> geo.describe()
    'hierarchical: 2 levels, county 2 › tract 3'
    >>> geo.encode(["b1", "a1", "a"]).tolist()
    [2, 0, -1]
    >>> geo.level_labels("county"), geo.group_of("county").tolist()
    (('a', 'b'), [0, 0, 1])
    >>> geo = Hierarchical({"tract": ["a1"], "county": ["a"]}, missing="not stated")
    >>> geo.encode(["a1", None]).tolist(), geo.level_labels("county")
    ([0, 1], ('a', 'not stated'))
    """

    levels: tuple[str, ...]
    """The names of the levels, from fine to coarse."""
    values: Labels | range
    """The leaves as data hold them; consecutive integers are kept as a range."""
    groups: tuple[Labels, ...]
    """The labels of the groups of every level but the leaves, in the order of their first leaf."""
    parents: tuple[IntArray, ...]
    """Of every level but the coarsest: the number of the group that each of its groups lies in."""
    other: Label | None
    ordered: ClassVar[bool] = False

    def __init__(
        self,
        columns: Mapping[str, Iterable[object]] | Frame,
        *,
        other: Label | None = None,
        missing: str | None = None,
        paths: bool = False,
    ) -> None:
        listed = checked_columns(columns)
        names, (leaves, *above) = list(listed), listed.values()
        if len(set(leaves)) < len(leaves):
            raise SchemaError(declared_twice(listed))
        codes = np.arange(len(leaves))
        groups: list[Labels] = []
        numbers: list[IntArray] = []
        for column in reversed(above):  # from coarse to fine: paths begin with the coarsest
            labels, codes = numbered_labels(column)
            if numbers and not nests(codes, numbers[-1]):
                if not paths:
                    raise SchemaError(in_two(listed, names[len(above) - len(groups)]))
                labels, codes = by_path((labels, codes), (groups[-1], numbers[-1]))
            groups.append(labels)
            numbers.append(codes)
        numbers = [np.arange(len(leaves)), *reversed(numbers)]
        parents = tuple(parents_of(fine, coarse) for fine, coarse in pairwise(numbers))
        self._fill(tuple(names), tuple(leaves), tuple(reversed(groups)), parents, (other, missing))

    def _fill(
        self,
        levels: tuple[str, ...],
        values: Labels | range,
        groups: tuple[Labels, ...],
        parents: tuple[IntArray, ...],
        beside: tuple[Label | None, str | None],
    ) -> None:
        """Set what is kept; `beside` are the names of other and missing values, where declared.

        Each of them is a group of its own at every level, behind all that is listed.
        """
        other, missing = beside
        other = None if other is None else checked_label(other, "Hierarchical")
        if missing is not None:
            checked_missing(missing, [] if other is None else [other], "Hierarchical")
        for said, label in (("other", other), ("missing", missing)):
            if label is not None:
                _refuse_declared(said, label, dict(zip(levels, (values, *groups), strict=True)))
        more = tuple(label for label in (other, missing) if label is not None)
        for own in (parents := tuple(_with_own_groups(own, len(more)) for own in parents)):
            own.setflags(write=False)
        kept = as_range(values) if isinstance(values, tuple) else values
        groups = tuple((*labels, *more) for labels in groups)
        found = {"levels": levels, "values": kept, "groups": groups, "parents": parents}
        for name, value in {**found, "other": other, "missing": missing}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        levels: Sequence[str] | Mapping[str, str],
        *,
        separator: str = ",",
        other: Label | None = None,
        missing: str | None = None,
        paths: bool = False,
    ) -> Hierarchical:
        """Declare the levels by columns of a public code list, CSV with a header line or Parquet.

        Parameters
        ----------
        path
            The file. What CSV holds is text, so a code "01" keeps its zero. Rows that say the same
            are one: the list may go on to finer levels than are declared.
        levels
            The columns from fine to coarse; or the column of each level by its name, such as
            ``{"block": "GEOID", "county": "county name"}``.
        separator
            Between the cells of CSV.
        other, missing, paths
            As for the class itself.
        """
        columns = dict(levels) if isinstance(levels, Mapping) else {name: name for name in levels}
        file = code_file(path)  # first: levels of a file that is not there say nothing
        check_levels(list(columns) if isinstance(levels, Mapping) else list(levels))
        found = read_code_columns(file, list(columns.values()), separator)
        if len(set(found[0])) < len(found[0]):
            rows = dict.fromkeys(zip(*found, strict=True))
            found = [list(column) for column in zip(*rows, strict=True)]
        named = dict(zip(columns, found, strict=True))
        return cls(named, other=other, missing=missing, paths=paths)

    @classmethod
    def from_codes(
        cls,
        codes: Iterable[str],
        prefixes: Mapping[str, int],
        *,
        leaf: str = "code",
        ignore: str = "",
        other: Label | None = None,
        missing: str | None = None,
    ) -> Hierarchical:
        """Declare the levels by how many signs of the code they have: FIPS, NUTS, NACE, ICD.

        Parameters
        ----------
        codes
            The leaves, as text: a number would have lost its leading zeros.
        prefixes
            The signs of each level's code. A level that takes all of every code is the leaves.
        leaf
            The name of the leaves, if no such level names them.
        ignore
            Signs that are not counted, such as "." in ICD.
        other, missing
            As for the class itself.

        Examples
        --------
        >>> Hierarchical.from_codes(["06037", "06059", "41051"], {"state": 2, "county": 5})
        Hierarchical(state 2 › county 3)
        >>> icd = Hierarchical.from_codes(["I21.0", "I21.4"], {"group": 3}, ignore=".")
        >>> icd.level_labels("group")
        ('I21',)
        """
        listed = checked_codes(codes)
        bare = listed
        if ignore:
            dropped = str.maketrans("", "", ignore)
            bare = [code.translate(dropped) for code in listed]
        lengths = sorted(checked_lengths(prefixes).items(), key=lambda item: -item[1])
        if lengths[0][1] >= max(map(len, bare)):
            leaf, lengths = lengths[0][0], lengths[1:]
        columns: dict[str, Sequence[object]] = {leaf: listed}
        for name, length in lengths:
            if name in columns:
                raise SchemaError(f"Hierarchical.from_codes: two levels are called {name!r}.")
            columns[name] = prefixes_of(name, length, listed, bare)
        return cls(columns, other=other, missing=missing)

    @staticmethod
    def from_saved(saved: Mapping[str, Any]) -> Hierarchical:
        """Undo :meth:`to_dict`; whatever is no hierarchy is refused."""
        names, other, missing = saved["levels"], saved["other"], saved.get("missing")
        check_levels(names)
        leaves, *groups = (_labels_from_json(labels) for labels in saved["labels"])
        parents = tuple(map(_parents_from_json, saved["parents"]))
        sizes = [len(leaves), *map(len, groups)]
        if len(sizes) != len(names) or len(parents) != len(groups):
            raise SchemaError("Hierarchical: levels, labels and parents are of different numbers.")
        for own, fine, coarse in zip(parents, sizes, sizes[1:], strict=False):
            if len(own) != fine or not np.array_equal(numbered_labels(own.tolist())[1], own):
                raise SchemaError("Hierarchical: the parents of a level are not those of groups.")
            if int(own.max()) + 1 != coarse:
                raise SchemaError("Hierarchical: a level has groups without members.")
        for name, labels in zip(names, (leaves, *groups), strict=True):
            if len(set(labels)) < len(labels):
                raise SchemaError(f"Hierarchical: the labels of {name!r} do not differ.")
        made = object.__new__(Hierarchical)
        label: Any = None if other is None else label_from_json(other)
        made._fill(tuple(names), leaves, tuple(map(tuple, groups)), parents, (label, missing))
        return made

    # ------------------------------------------------------------------ what it holds

    @cached_property
    def labels(self) -> Labels:
        return (*self.values, *self._beside)

    @property
    def _beside(self) -> Labels:
        """The last leaves, which are groups of their own: of other and of missing values."""
        return tuple(label for label in (self.other, self.missing) if label is not None)

    @property
    def size(self) -> int:
        return len(self.parents[0])

    @property
    def unknown_code(self) -> int:
        return -1 if self.other is None else len(self.values)

    def level_index(self, level: str) -> int:
        """The place of a level, 0 for the leaves; refuses a name that is none of them."""
        if level in self.levels:
            return self.levels.index(level)
        close = get_close_matches(str(level), self.levels, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise SchemaError(
            f"no level {level!r}; there are {', '.join(map(repr, self.levels))}{meant}"
        )

    def level_labels(self, level: str) -> Labels:
        """The label of every group of a level."""
        place = self.level_index(level)
        return self.groups[place - 1] if place else self.labels

    def group_of(self, level: str) -> IntArray:
        """The number of the group of a level that each leaf lies in."""
        return self._numbers[self.level_index(level)]

    def at(self, level: str) -> Attribute:
        """The groups of a level as an attribute of their own; itself for the leaves."""
        place = self.level_index(level)
        if not place:
            return self
        labels = self.groups[place - 1]
        named = labels if self.missing is None else labels[:-1]
        return Categorical(named, missing=self.missing)

    def above(self, level: str) -> Attribute:
        """The groups of a level with the levels above them; itself for the leaves.

        Examples
        --------
        >>> places = {"tract": ["a1", "b1"], "county": ["a", "b"], "state": ["s", "s"]}
        >>> Hierarchical(places).above("county")
        Hierarchical(state 1 › county 2)
        """
        place = self.level_index(level)
        if not 0 < place < len(self.levels) - 1:
            return self.at(level)
        more = len(self._beside)
        groups = [labels[: len(labels) - more] for labels in self.groups[place - 1 :]]
        parents = [own[: len(own) - more] for own in self.parents[place:]]
        made = object.__new__(Hierarchical)
        beside = self.other, self.missing
        made._fill(self.levels[place:], groups[0], tuple(groups[1:]), tuple(parents), beside)
        return made

    @cached_property
    def _numbers(self) -> tuple[IntArray, ...]:
        numbers = [np.arange(self.size)]
        for own in self.parents:
            numbers.append(own[numbers[-1]])
        for own in numbers:
            own.setflags(write=False)
        return tuple(numbers)

    @cached_property
    def _table(self) -> LabelTable:
        return LabelTable(self.values, self.unknown_code)

    def _encode(self, values: NDArray[Any]) -> Codes:
        return self._table.encode(values)

    # ------------------------------------------------------------------ as a value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Hierarchical):
            return NotImplemented
        own = (self.levels, self.other, self.missing)
        return (
            own == (other.levels, other.other, other.missing)
            and all(map(np.array_equal, self.parents, other.parents))
            and (self.values, self.groups) == (other.values, other.groups)
        )

    def __hash__(self) -> int:
        return hash((self.levels, self.size, self.groups[-1], self.other))

    def _chain(self) -> str:
        sizes = [self.size, *map(len, self.groups)]
        pairs = zip(reversed(self.levels), reversed(sizes), strict=True)
        return PATH.join(f"{name} {size:,}" for name, size in pairs)

    def describe(self) -> str:
        caught = "" if self.other is None else f"; anything else is {self.other!r}"
        gone = self._said_of_missing()
        return f"hierarchical: {len(self.levels)} levels, {self._chain()}{caught}{gone}"

    def to_dict(self) -> dict[str, object]:
        last = len(self._beside)
        own = [labels[: len(labels) - last] for labels in self.groups]
        parents = [numbers[: len(numbers) - last] for numbers in self.parents]
        saved = {
            "kind": "hierarchical",
            "levels": list(self.levels),
            "labels": [_labels_to_json(self.values), *map(_labels_to_json, own)],
            "parents": [_parents_to_json(own) for own in parents],
            "other": None if self.other is None else label_to_json(self.other),
        }
        return saved if self.missing is None else {**saved, "missing": self.missing}

    def __repr__(self) -> str:
        other = "" if self.other is None else f", other={self.other!r}"
        return f"Hierarchical({self._chain()}{other}{self._missing_argument()})"


def _refuse_declared(said: str, label: Label, levels: Mapping[str, Sequence[Label]]) -> None:
    """Refuse a name for other or missing values that a group has already."""
    for name, labels in levels.items():
        if label in labels:
            raise SchemaError(
                f"Hierarchical: {said}={label!r} is also declared as a {name}; choose another name."
            )


def _with_own_groups(parents: IntArray, more: int) -> IntArray:
    """The parents of a level with so many more groups at its end, each in one of its own."""
    return np.append(parents, int(parents.max()) + 1 + np.arange(more))


SAVED_KINDS["hierarchical"] = Hierarchical.from_saved


# ---------------------------------------------------------------------- JSON


def _labels_to_json(labels: Labels | range) -> object:
    if isinstance(labels, range):
        return {"range": [labels.start, labels.stop]}
    return [label_to_json(label) for label in labels]


def _labels_from_json(saved: object) -> Labels | range:
    match saved:
        case {"range": [int(start), int(stop)]} if start < stop:
            for end in (start, stop - 1):
                check_writable(end, "Hierarchical")
            return range(start, stop)
        case list(labels):
            found: list[Any] = [label_from_json(label) for label in labels]
            return tuple(checked_column("label", found, found))
    raise SchemaError("Hierarchical: the labels of a level are a list or a range.")


def _parents_to_json(parents: IntArray) -> object:
    """How many children each group has where they follow each other, as in a sorted code list."""
    if (np.diff(parents) >= 0).all():
        return {"children": np.bincount(parents).tolist()}
    return parents.tolist()


def _parents_from_json(saved: object) -> IntArray:
    match saved:
        case {"children": list(counts)} if _are_counts(counts):
            return np.repeat(np.arange(len(counts)), counts)
        case list(parents) if parents and all(type(n) is int for n in parents):
            return np.array(parents, dtype=np.int64)
    raise SchemaError("Hierarchical: the parents of a level are whole numbers.")


def _are_counts(counts: list[object]) -> bool:
    """Positive whole numbers, no more of them than leaves can be: a folder may say anything."""
    whole = [n for n in counts if type(n) is int and n > 0]
    return len(whole) == len(counts) and 0 < sum(whole) <= MOST_LEAVES
