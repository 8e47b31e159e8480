"""The lines of one table after an edit: kept, changed, renamed, moved, taken out and added."""

from __future__ import annotations

import re
import tomllib
from difflib import SequenceMatcher
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Array, InlineTable

from noiseplan.studio.toml_text import (
    EXACT_IN_A_PAGE,
    Line,
    Section,
    canonical,
    key_text,
    same,
    value_text,
)

Table = dict[str, Any]


class NotInPlace(Exception):
    """The text is written in a way that is not followed line by line."""


def change_lines(section: Section, old: Table, new: Table) -> None:
    """Make the lines of a section say what the new table says.

    Keys of the section that neither table has are left alone.
    """
    ours = [line for line in section.lines if line.path[0] in old or line.path[0] in new]
    groups: dict[str, list[Line]] = {}
    for line in ours:
        groups.setdefault(line.path[0], []).append(line)
    if set(groups) != set(old):
        raise NotInPlace
    source = _sources(list(old), list(new), old, new)
    made = []
    for key in new:
        origin = source.get(key)
        if origin is None:
            made.append([_new_line(section, key, new[key])])
        else:
            made.append(_changed(section, groups[origin], key, (old[origin], new[key])))
    _put(section, groups, source, list(new), made)


def change_parts(sections: list[Section], depth: int, old: Table, new: Table) -> list[Section]:
    """The sections of a table of which some keys have headers of their own, as `[schema.age]`.

    `depth` is the length of the table's own place. Returns those that are left.
    """
    heads = [each for each in sections if len(each.place) == depth]
    parts = {str(each.place[depth]): each for each in sections if len(each.place) == depth + 1}
    rest = {key: each for key, each in new.items() if key not in parts}
    if len(heads) + len(parts) != len(sections) or len(heads) > 1 or (rest and not heads):
        raise NotInPlace
    for head in heads:
        change_lines(head, {key: old[key] for key in old if key not in parts}, rest)
    for key in [key for key in parts if key in new]:
        if not isinstance(new[key], dict):
            raise NotInPlace
        change_lines(parts[key], old[key], new[key])
    return [each for each in sections if each in heads or str(each.place[depth]) in new]


def _sources(before: list[str], after: list[str], old: Table, new: Table) -> dict[str, str]:
    """For every new key the old one whose line it takes: its own, or that of one it replaces."""
    source = {key: key for key in after if key in old}
    gone = [key for key in before if key not in new]
    for key in [key for key in after if key not in old]:
        alike = [each for each in gone if same(old[each], new[key])]
        there = [each for each in gone if _beside(each, before, key, after)]
        for each in [*alike, *there][:1]:
            source[key] = each
            gone.remove(each)
    return source


def _beside(old: str, before: list[str], new: str, after: list[str]) -> bool:
    """Whether two keys stand behind the same one."""
    i, j = before.index(old), after.index(new)
    return (before[i - 1] if i else None) == (after[j - 1] if j else None)


def _changed(section: Section, lines: list[Line], key: str, values: tuple[Any, Any]) -> list[Line]:
    """The lines of one key with its new name and value; untouched where both are the old ones."""
    (old, new), first = values, lines[0]
    renamed = first.path[0] != key
    if not renamed and same(old, new):
        return lines
    if len(lines) > 1 or len(first.path) > 1:  # dotted keys become one line
        return [Line((key,), f"{key_text(key)} = ", value_text(new), "\n", first.lead, first.above)]
    written = _renamed(section, first.key, key) if renamed else first.key
    value = first.value if same(old, new) else changed_value(first.value, old, new, len(written))
    return [Line((key,), written, value, first.tail, first.lead, first.above)]


def _renamed(section: Section, written: str, key: str) -> str:
    """The start of a line with another key; signs of equality below each other stay so."""
    indent = written[: len(written) - len(written.lstrip())]
    aligned = sum(len(line.key) == len(written) for line in section.lines) > 1
    wide = len(written.rstrip()[:-1]) - len(indent) - 1 if aligned else 0
    return f"{indent}{key_text(key):<{wide}} = "


def _new_line(section: Section, key: str, value: Any) -> Line:
    """A line in the manner of those above it."""
    above = section.lines[-1].key if section.lines else ""
    written = _renamed(section, above, key) if above else f"{key_text(key)} = "
    return Line((key,), written, value_text(value, len(written)))


def insert_line(section: Section, key: str, value: Any) -> None:
    """A new line behind all others."""
    section.lines.append(_new_line(section, key, value))


def _put(
    section: Section,
    groups: dict[str, list[Line]],
    source: dict[str, str],
    keys: list[str],
    made: list[list[Line]],
) -> None:
    """The lines in their new order; what stands above a place stays at the place."""
    before = list(groups)
    kept = [source[key] for key in keys if key in source]
    if kept != [each for each in before if each in kept]:
        _stay_above(groups, keys, source, made)
    others = [line for line in section.lines if line.path[0] not in groups]
    if others and before and kept != before:
        raise NotInPlace  # lines of others between ours
    left = _left_above(before, kept, groups)
    for key, lines in zip(keys, made, strict=True):
        origin = source.get(key)
        if origin in left:
            lines[0].above = left.pop(origin) + lines[0].above
    section.rest = "".join(left.values()) + section.rest
    ours = [line for lines in made for line in lines]
    section.lines = _merged(section.lines, groups, ours)


def _merged(lines: list[Line], groups: dict[str, list[Line]], ours: list[Line]) -> list[Line]:
    """Ours in the place of the old ones among the lines of others."""
    places = [at for at, line in enumerate(lines) if line.path[0] in groups]
    at = places[0] if places else len(lines)
    others = [line for line in lines if line.path[0] not in groups]
    ahead = sum(line.path[0] not in groups for line in lines[:at])
    return [*others[:ahead], *ours, *others[ahead:]]


def _left_above(
    before: list[str], kept: list[str], groups: dict[str, list[Line]]
) -> dict[str | None, str]:
    """What lines that are gone leave behind, by the next line that stays (None: none does).

    A comment right above the first line is one on all of them.
    """
    left: dict[str | None, str] = {}
    for at, key in enumerate(before):
        if key in kept:
            continue
        heir = next((each for each in before[at:] if each in kept), None)
        lines = groups[key]
        text = "".join(line.above if line.above.strip() else "" for line in lines)
        text += lines[0].lead if at == 0 else ""
        if text:
            left[heir] = left.get(heir, "") + text
    return left


def _stay_above(
    groups: dict[str, list[Line]], keys: list[str], source: dict[str, str], made: list[list[Line]]
) -> None:
    """Lines have moved: empty lines and loose comments keep their places among the lines."""
    aboves = [lines[0].above for key, lines in groups.items() if key in source.values()]
    moved = [lines for key, lines in zip(keys, made, strict=True) if key in source]
    for lines, above in zip(moved, aboves, strict=True):
        first = lines[0]
        lines[0] = Line(first.path, first.key, first.value, first.tail, first.lead, above)


# ---------------------------------------------------------------------- inside a value


def changed_value(written: str, old: Any, new: Any, before: int) -> str:
    """A value's text after a change; one of several lines keeps those that say the same."""
    new = _as_before(old, new)
    fresh = value_text(new, before)
    if "\n" not in written:
        return fresh
    try:
        document = tomlkit.parse(f"x = {written}\n")
        _merge(document, "x", old, new)
        text = document.as_string().removeprefix("x = ").removesuffix("\n")
        kept = same(tomllib.loads(f"x = {text}\n"), {"x": new})
    except (TOMLKitError, tomllib.TOMLDecodeError, ValueError, IndexError, TypeError):
        return fresh
    return text if kept else fresh


def _as_before(old: Any, new: Any) -> Any:
    """A page has no floating numbers: one that was one before stays one."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _as_before(old.get(key), each) for key, each in new.items()}
    if isinstance(old, list) and isinstance(new, list) and all(type(e) is float for e in old):
        return [_as_before(0.0, each) for each in new]
    fits = type(old) is float and type(new) is int and abs(new) <= EXACT_IN_A_PAGE
    return float(new) if fits else new


def _merge(container: Any, key: str | int, old: Any, new: Any) -> None:
    """Change a value inside brackets, and only what differs of it."""
    item = container[key]
    if same(old, new):
        return
    if isinstance(item, InlineTable) and isinstance(new, dict) and list(old) == list(new):
        for name in new:
            _merge(item, name, old[name], new[name])
    elif isinstance(item, Array) and isinstance(new, list):
        _merge_list(item, old, new)
    else:
        container[key] = _item(new)


def _merge_list(item: Array, old: list[Any], new: list[Any]) -> None:
    """From the end to the start, so that positions stay."""
    one, other = [canonical(each) for each in old], [canonical(each) for each in new]
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    for kind, first, last, start, stop in reversed(steps):
        if kind == "equal":
            continue
        common = min(last - first, stop - start)
        for at in reversed(range(first + common, last)):
            del item[at]
        for number in range(common):
            _merge(item, first + number, old[first + number], new[start + number])
        for number in range(common, stop - start):
            item.insert(first + number, _item(new[start + number]))


def _item(value: Any) -> Any:
    return tomlkit.parse(f"x = {re.sub(chr(10) + ' *', ' ', value_text(value))}\n")["x"]
