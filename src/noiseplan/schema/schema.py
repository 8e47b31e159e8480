"""The schema: the named attributes of a table, declared before any data are read."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import SupportsIndex, final

from noiseplan._doors import through
from noiseplan.errors import SchemaError
from noiseplan.escaping import unwritable, visible_name
from noiseplan.schema.attributes import Attribute, Ordinal
from noiseplan.schema.hierarchical import Hierarchical
from noiseplan.texts import counted, unknown_attribute

_EXAMPLE = "Schema({'age': Ordinal(range(100))})"


@final
@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """The columns of a table and what each may hold.

    A schema is public: declare it from what is known beforehand, never from the private data.

    Parameters
    ----------
    attributes
        The attribute of each column, by the column's name; the order is kept.

    Examples
    --------
    >>> from noiseplan.schema import Categorical, Ordinal, Schema
    >>> schema = Schema({"age": Ordinal(range(100)), "sex": Categorical(["F", "M"])})
    >>> schema.shape, schema.size
    ((100, 2), 200)
    >>> print(schema)
    2 attributes, 200 cells
      age  100  ordinal: 0, 1, 2, …, 99
      sex    2  categorical: 'F', 'M'
    """

    names: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    shape: tuple[int, ...] = field(compare=False)
    """The size of each attribute, in order."""
    size: int = field(compare=False)
    """How many cells the whole domain has (a Python integer: it may be astronomical)."""
    _positions: dict[str, int] = field(compare=False)

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        if not isinstance(attributes, Mapping):
            raise SchemaError(
                f"Schema: needs a mapping from names to attributes, got a "
                f"{type(attributes).__name__}; try {_EXAMPLE}."
            )
        if not attributes:
            raise SchemaError(f"Schema: no attributes declared; try {_EXAMPLE}.")
        for name, attribute in attributes.items():
            _check_name(name)
            if not isinstance(attribute, Attribute):
                raise _no_attribute(name, attribute)
        shape = tuple(attribute.size for attribute in attributes.values())
        object.__setattr__(self, "names", tuple(attributes))
        object.__setattr__(self, "attributes", tuple(attributes.values()))
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "size", math.prod(shape))
        object.__setattr__(self, "_positions", {name: i for i, name in enumerate(attributes)})
        _ = self.levels  # refused here, not when somebody asks for one

    @staticmethod
    def from_sizes(sizes: Mapping[str, SupportsIndex]) -> Schema:
        """Make a schema where only the sizes matter: each attribute is ``Ordinal(range(size))``.

        Examples
        --------
        >>> Schema.from_sizes({"a": 10, "b": 3}).shape
        (10, 3)
        """
        if not isinstance(sizes, Mapping):
            raise SchemaError(
                f"Schema.from_sizes: needs a mapping from names to sizes, got a "
                f"{type(sizes).__name__}; try Schema.from_sizes({{'a': 10, 'b': 3}})."
            )
        return Schema({name: Ordinal(range(_size(name, size))) for name, size in sizes.items()})

    def index(self, name: str) -> int:
        """Return the position of an attribute."""
        position = self._positions.get(name) if isinstance(name, str) else None
        if position is None:
            raise SchemaError(self._unknown(name))
        return position

    @cached_property
    def levels(self) -> dict[str, tuple[str, str]]:
        """Attribute and level by the name of the level, and by both: "county", "geo.county".

        A name that is an attribute, or a level of two of them, is told by both only. Refuses an
        attribute that is called as a level is, other than by its own leaves.
        """
        pairs = [
            (name, level)
            for name, kind in zip(self.names, self.attributes, strict=True)
            if isinstance(kind, Hierarchical)
            for level in kind.levels
        ]
        for name, level in pairs:
            kind = self[name]
            if name == level and isinstance(kind, Hierarchical) and kind.level_index(level) > 0:
                raise SchemaError(
                    f"Schema: {name!r} is called as its level {level!r}, but data hold its leaves, "
                    f"{kind.levels[0]!r}; rename one of them."
                )
            if f"{name}.{level}" in self:
                raise SchemaError(
                    f"Schema: {f'{name}.{level}'!r} is an attribute, and the level {level!r} of "
                    f"{name!r} is called so too; rename one of them."
                )
        levels = [level for _, level in pairs]
        alone = {p[1]: p for p in pairs if levels.count(p[1]) == 1 and p[1] not in self}
        return alone | {f"{name}.{level}": (name, level) for name, level in pairs}

    @property
    def level_names(self) -> tuple[str, ...]:
        """The shortest name of every level of a hierarchical attribute."""
        pairs = dict.fromkeys(self.levels.values())
        return tuple(self.level_name(attribute, level) for attribute, level in pairs)

    def level_name(self, attribute: str, level: str) -> str:
        """The shortest name that :attr:`levels` has a level by.

        An attribute may be called as its leaves are.

        Examples
        --------
        >>> geo = Hierarchical({"tract": ["a1", "b1"], "county": ["a", "b"]})
        >>> Schema({"home": geo}).level_name("home", "county")
        'county'
        >>> Schema({"home": geo, "work": geo}).level_name("home", "county")
        'home.county'
        """
        alone = level == attribute or self.levels.get(level) == (attribute, level)
        return level if alone else f"{attribute}.{level}"

    def _unknown(self, name: object) -> str:
        if isinstance(name, str) and name in self.levels:
            attribute, level = self.levels[name]
            return (
                f"no attribute {name!r}; {level!r} is a level of {attribute!r}: write "
                f"{{{attribute!r}: Level({level!r})}}."
            )
        return unknown_attribute(name, self.names, self.level_names)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._positions

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def to_dict(self) -> dict[str, object]:
        """Return a form that JSON can hold; :meth:`from_dict` undoes it.

        A list, because the order of the attributes matters and that of a JSON object does not.
        """
        pairs = zip(self.names, self.attributes, strict=True)
        return {"attributes": [{"name": name, **kind.to_dict()} for name, kind in pairs]}

    @staticmethod
    def from_dict(saved: Mapping[str, object]) -> Schema:
        """Rebuild a schema from what :meth:`to_dict` returned.

        Examples
        --------
        >>> schema = Schema.from_sizes({"a": 10, "b": 3})
        >>> Schema.from_dict(schema.to_dict()) == schema
        True
        """
        match saved:
            case {"attributes": list(entries)} if all(
                isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
                for entry in entries
            ):
                attributes = {entry["name"]: Attribute.from_dict(entry) for entry in entries}
                if len(attributes) == len(entries):
                    return Schema(attributes)
        raise SchemaError(
            f"{saved!r} is no saved schema; one looks like "
            f"{Schema.from_sizes({'a': 10}).to_dict()!r}."
        )

    def __repr__(self) -> str:
        pairs = zip(self.names, self.attributes, strict=True)
        return f"Schema({{{', '.join(f'{name!r}: {kind!r}' for name, kind in pairs)}}})"

    def _repr_html_(self) -> str:
        return str(through("schema.html")(self))

    def __str__(self) -> str:
        count = "1 attribute" if len(self) == 1 else f"{len(self)} attributes"
        names = [visible_name(name) for name in self.names]
        wide, far = max(map(len, names)), max(len(f"{size:,}") for size in self.shape)
        lines = [
            f"  {name:<{wide}}  {kind.size:>{far},}  {visible_name(kind.describe())}"
            for name, kind in zip(names, self.attributes, strict=True)
        ]
        return "\n".join([f"{count}, {counted(self.size, 'cell')}", *lines])


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise SchemaError(
            f"Schema: the name {name!r} is a {type(name).__name__}; names are strings, "
            f"as in {_EXAMPLE}."
        )
    if not name.strip():
        raise SchemaError(f"Schema: the name {name!r} is empty; give it one, as in {_EXAMPLE}.")
    if found := unwritable(name):  # it could be planned for, but never saved
        raise SchemaError(
            f"Schema: the name {name!r} holds {found}, which no file of text can; write it without."
        )


def _no_attribute(name: str, attribute: object) -> SchemaError:
    remedy = f"Schema({{{name!r}: Categorical([...])}})"
    if isinstance(attribute, int):
        remedy = f"Schema.from_sizes({{{name!r}: {attribute}}})"
    return SchemaError(
        f"Schema: attribute {name!r} is {attribute!r} ({type(attribute).__name__}); it must be a "
        f"Categorical, Ordinal, Binned or Hierarchical; try {remedy}."
    )


def _size(name: object, size: object) -> int:
    example = f"Schema.from_sizes({{{name!r}: 10}})"
    if isinstance(size, bool) or not isinstance(size, SupportsIndex):
        raise SchemaError(
            f"Schema.from_sizes: the size of {name!r} is {size!r} ({type(size).__name__}); "
            f"sizes are integers, as in {example}."
        )
    whole = operator.index(size)
    if whole < 1:
        raise SchemaError(
            f"Schema.from_sizes: the size of {name!r} is {whole}; it must be at least 1, "
            f"as in {example}."
        )
    return whole
