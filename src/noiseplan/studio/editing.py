"""A study's text after an edit on the page: only what changed has changed.

The page sends the design that it wants; the text it has is taken apart into blocks, and those that
say something else are written anew, in their place. Comments stay with what they stand above. Every
result is read again and compared with the design: where the text is written in a way that cannot be
followed block by block, the section is written anew, and at worst the whole text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any, Final

from noiseplan.studio.edited_lines import NotInPlace, change_lines, change_parts, insert_line
from noiseplan.studio.toml_text import (
    Blocks,
    Section,
    blocks_of,
    canonical,
    from_json,
    is_tables,
    same,
    section_text,
)
from noiseplan.study import StudyError
from noiseplan.study.study import SECTIONS

Table = dict[str, Any]
# Keys that JavaScript puts first in every object, whatever their order was.
_INDEX: Final = re.compile(r"0|[1-9]\d{0,9}")

Entry = dict[str, Any]
Unit = list[Section]  # an entry: its header, and headers below it


def edited(text: str, design: Table) -> str:
    """The text that says what the design says.

    Examples
    --------
    >>> print(edited("[budget]\\nzcdp = 1.0  # agreed\\n", {"budget": {"zcdp": 0.5}}), end="")
    [budget]
    zcdp = 0.5  # agreed
    """
    text = text.replace("\r\n", "\n")
    old, new = _read(text), from_json(design)
    if old is None:
        raise StudyError("the text is not TOML: mend it before anything else is changed")
    new = meant_order(old, new)
    if same(old, new):
        return text
    for attempt in (_in_place, _by_section):
        made = _attempted(attempt, text, old, new)
        if made is not None:
            return made
    return written(new)


def _read(text: str) -> Table | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # no TOML, or a number of too many digits
        return None


def _attempted(
    attempt: Callable[[Blocks, Table, Table], None], text: str, old: Table, new: Table
) -> str | None:
    """What a way of editing makes of the text, if that says what was wanted."""
    blocks = blocks_of(text)
    try:
        attempt(blocks, old, new)
    except NotInPlace:
        return None
    found = _read(blocks.text())
    return blocks.text() if found is not None and says(found, new) else None


def says(found: Table, wanted: Table) -> bool:
    """Whether a text says what was wanted; sections may stand in any order."""
    return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in found)


def meant_order(old: Any, new: Any) -> Any:
    """The new value with its keys in the order that was meant.

    A page has keys that are whole numbers before all others, so their order says nothing: they
    stand where they stood, and new ones at the end.
    """
    if isinstance(new, list):
        pairs = zip(old, new, strict=False) if isinstance(old, list) else ()
        return [*(meant_order(*pair) for pair in pairs), *new[len(old) if pairs else 0 :]]
    if not isinstance(new, dict):
        return new
    before = list(old) if isinstance(old, dict) else []
    order = [key for key in new if not _INDEX.fullmatch(key)]
    for key in [key for key in before if key in new and _INDEX.fullmatch(key)]:
        ahead = [each for each in before[: before.index(key)] if each in order]
        order.insert(order.index(ahead[-1]) + 1 if ahead else 0, key)
    order += [key for key in new if key not in order]
    return {key: meant_order(old[key] if key in before else None, new[key]) for key in order}


def _in_place(blocks: Blocks, old: Table, new: Table) -> None:
    """Change single lines and entries."""
    for key in [key for key in old if key not in new]:
        remove(blocks, key)
    for key in new:
        if key not in old:
            add(blocks, key, new[key])
        elif not same(old[key], new[key]):
            _change(blocks, key, old[key], new[key])


def _by_section(blocks: Blocks, old: Table, new: Table) -> None:
    """Write every section anew that has changed."""
    for key in dict.fromkeys([*old, *new]):
        if key in old and key in new and same(old[key], new[key]):
            continue
        if key in old:
            remove(blocks, key)
        if key in new:
            add(blocks, key, new[key])


def _change(blocks: Blocks, key: str, old: Any, new: Any) -> None:
    """Change one section as far as it is written in the usual ways."""
    sections = blocks.under(key)
    lines = [line for line in blocks.sections[0].lines if line.path[0] == key]
    if sections and lines:
        raise NotInPlace
    if lines and not isinstance(new, dict | list):
        change_lines(blocks.sections[0], {key: old}, {key: new})
    elif sections and is_tables(old) and is_tables(new):
        change_entries(blocks, key, old, new)
    elif lines and isinstance(old, dict | list) and type(old) is type(new) and old and new:
        change_lines(blocks.sections[0], {key: old}, {key: new})
    elif sections and isinstance(old, dict) and isinstance(new, dict):
        kept = change_parts(sections, 1, old, new)
        blocks.sections = [each for each in blocks.sections if each in kept or each not in sections]
    else:
        remove(blocks, key)
        add(blocks, key, new)


def remove(blocks: Blocks, key: str) -> None:
    """Take a section out, with the comment right above it; what stands further above stays."""
    root = blocks.sections[0]
    if any(line.path[0] == key for line in root.lines):
        change_lines(root, {key: None}, {})
    for section in blocks.under(key):
        at = blocks.sections.index(section)
        del blocks.sections[at]
        if section.above.strip():
            if at < len(blocks.sections):
                blocks.sections[at].above = section.above + blocks.sections[at].above
            else:
                blocks.end = section.above + blocks.end


def add(blocks: Blocks, key: str, value: Any) -> None:
    """Put a section where studies usually have it."""
    if not isinstance(value, dict) and not is_tables(value):
        _add_line(blocks, key, value)
        return
    made = blocks_of(section_text(key, value)).sections[1:]
    at = _place(blocks, key)
    for number, section in enumerate(made):
        empty = at + number == 1 and not blocks.sections[0].lines
        section.above = "" if empty and not number else "\n"
    following = blocks.sections[at] if at < len(blocks.sections) else None
    if following is not None and not following.above.startswith("\n"):
        following.above = "\n" + following.above
    _end_line(blocks, at)
    blocks.sections[at:at] = made


def _end_line(blocks: Blocks, at: int) -> None:
    """What stands at the end of the text stays above what is put there."""
    if at == len(blocks.sections) and blocks.end.strip():
        blocks.sections[-1].rest += blocks.end
        blocks.end = ""


def _place(blocks: Blocks, key: str) -> int:
    """Behind the sections that come before it in a study, or at the end."""
    order = list(SECTIONS)
    rank = order.index(key) if key in order else len(order)
    before = [
        at
        for at, each in enumerate(blocks.sections)
        if at == 0 or (each.place[0] in order and order.index(str(each.place[0])) <= rank)
    ]
    return before[-1] + 1 if key in order else len(blocks.sections)


def _add_line(blocks: Blocks, key: str, value: Any) -> None:
    """A line of its own before all sections: the title, say."""
    root = blocks.sections[0]
    first = not root.lines
    insert_line(root, key, value)
    if first and len(blocks.sections) > 1:
        following = blocks.sections[1]
        root.lines[0].above, following.above = following.above, "\n"


def written(design: Table) -> str:
    """A design as a text of its own, lines without a section first."""
    alone = {
        key: each
        for key, each in design.items()
        if not isinstance(each, dict) and not is_tables(each)
    }
    lines = "".join(section_text(key, each) for key, each in alone.items())
    sections = [section_text(key, each) for key, each in design.items() if key not in alone]
    text = "\n".join([*([lines] if lines else []), *sections])
    found = _read(text)
    if found is None or not says(found, design):
        raise StudyError("this design cannot be written as TOML")
    return text


# ---------------------------------------------------------------------- entries of lists


def change_entries(blocks: Blocks, key: str, old: list[Entry], new: list[Entry]) -> None:
    """Make the entries of one name say what the new list says."""
    units = _units(blocks, key, len(old))
    origins = _origins(old, new)
    first = units[0][0]
    lead, first.lead = first.lead, ""  # a comment above the first entry is one on all of them
    aboves = [unit[0].above for unit in units]
    made = []
    for wanted, origin in zip(new, origins, strict=True):
        if origin is None:
            made.append(_fresh(key, wanted))
        elif same(old[origin], wanted):
            made.append(units[origin])
        else:
            made.append(_changed(units[origin], key, old[origin], wanted))
    left = _set_above(made, origins, aboves)
    made[0][0].lead = lead + made[0][0].lead
    _replace(blocks, units, made, left)


def _units(blocks: Blocks, key: str, count: int) -> list[Unit]:
    found: list[Unit] = [[] for _ in range(count)]
    for section in blocks.under(key):
        if len(section.place) < 2 or not isinstance(section.place[1], int):
            raise NotInPlace
        found[section.place[1]].append(section)
    if not all(found):
        raise NotInPlace
    return found


def _origins(old: list[Entry], new: list[Entry]) -> list[int | None]:
    """For every new entry the old one that it was: equal ones first, then those in the place."""
    one, other = ([canonical(each) for each in some] for some in (old, new))
    origin: list[int | None] = [None] * len(new)
    free = set(range(len(old)))
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    for kind, first, last, start, _ in steps:
        for number in range(last - first if kind == "equal" else 0):
            origin[start + number] = first + number
            free.discard(first + number)
    for at, text in enumerate(other):  # the same elsewhere: it was moved
        twin = next((each for each in sorted(free) if one[each] == text), None)
        if origin[at] is None and twin is not None:
            origin[at] = twin
            free.discard(twin)
    for kind, first, last, start, stop in steps:
        for was, at in zip(range(first, last), range(start, stop), strict=False):
            if kind == "replace" and origin[at] is None and was in free:
                origin[at] = was
                free.discard(was)
    return origin


def _fresh(key: str, entry: Entry) -> Unit:
    return blocks_of(section_text(key, [entry])).sections[1:]


def _changed(unit: Unit, key: str, old: Entry, new: Entry) -> Unit:
    """One entry with other lines; written anew where that is not possible line by line."""
    try:
        return change_parts(unit, 2, old, new)
    except NotInPlace:
        fresh = _fresh(key, new)
        fresh[0].lead, fresh[0].above = unit[0].lead, unit[0].above
        return fresh


def _set_above(made: list[Unit], origins: list[int | None], aboves: list[str]) -> str:
    """Empty lines and loose comments above the entries; returns those of entries that are gone.

    They go with their entries where these keep their order, and else stay at their places.
    """
    kept = [origin for origin in origins if origin is not None]
    if kept != sorted(kept):
        for number, unit in enumerate(made):
            unit[0].above = aboves[number] if number < len(aboves) else "\n"
        return "".join(filter(str.strip, aboves[len(made) :]))
    told = 0  # of the old entries, whose lines above have a place
    for number, (unit, origin) in enumerate(zip(made, origins, strict=True)):
        if origin is None:
            unit[0].above = "\n" if number else aboves[0]
            continue
        gone = "".join(filter(str.strip, aboves[told:origin]))
        own = aboves[origin] if number == 0 or origin else "\n"
        first = aboves[0] if number == 0 and origin and not own.strip() else own
        unit[0].above = gone + first if number or not gone else gone + own
        told = origin + 1
    return "".join(filter(str.strip, aboves[told:]))


def _replace(blocks: Blocks, units: list[Unit], made: list[Unit], left: str) -> None:
    """Every new entry in the place of an old one, as long as there are any.

    What was `left` of those that are gone stands above what follows.
    """
    heads = {id(unit[0]): number for number, unit in enumerate(units)}
    old = {id(section) for unit in units for section in unit}
    sections: list[Section] = []
    at = 0  # behind the last entry
    for section in blocks.sections:
        number = heads.get(id(section))
        if number is not None:
            last = number == len(units) - 1
            taken = made[number:] if last else made[number : number + 1]
            sections += [each for unit in taken for each in unit]
            at = len(sections)
        elif id(section) not in old:
            sections.append(section)
    if at < len(sections):
        sections[at].above = left + sections[at].above
    else:
        blocks.end = left + blocks.end
    blocks.sections = sections
