"""The entries of `[[tables]]` and the like after an edit: each keeps its lines and its comments."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from noiseplan.studio.edited_lines import NotInPlace, change_parts
from noiseplan.studio.toml_blocks import Blocks, Section, blocks_of
from noiseplan.studio.toml_json import canonical, same
from noiseplan.studio.toml_text import section_text

Entry = dict[str, Any]
Unit = list[Section]  # an entry: its header, and headers below it


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
