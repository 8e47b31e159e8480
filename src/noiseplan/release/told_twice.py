"""Which tables of two releases will disagree, for a ledger and in words.

Two releases of the same people have noise of their own. Where a table of the one and a table of the
other determine a common number, a cell, a sum of cells or the total, it is told twice and
differently; elsewhere no two tables can disagree. Sums of several tables against others are not
looked for. A total that is public is the same in both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from noiseplan.queries import Workload
from noiseplan.release.told_tables import Common, Piece, Pieces, Told
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from noiseplan.ledger import Entry
    from noiseplan.ledger.events import Tables

# Tables of a release that are kept in a ledger, and letters of a name.
MOST_TABLES, LONGEST_NAME = 200, 120
# Earlier tables that a plan is compared with, the latest.
MOST_EARLIER: Final = 2_000
# Tables that a message names, and for each the others that it names.
SHOWN, SHOWN_FOR_EACH = 6, 3

# How two tables disagree: the names of the others, by the name of each.
Clash = Literal["same", "sums", "total", "perhaps"]
Clashes = Mapping[Clash, Mapping[str, Sequence[str]]]


def published(workload: Workload) -> Tables:
    """The first tables of a workload for a ledger: of each its name and its attributes."""
    some = (workload[i] for i in range(min(len(workload), MOST_TABLES)))
    return tuple(tuple(map(_plain, (query.name, *query.attributes))) for query in some)


def told_pieces(workload: Workload) -> Tables:
    """What these tables tell, for a ledger: of each piece the numbers of its tables, its texts."""
    tables: dict[Piece, list[int]] = {}
    for number, table in enumerate(_told(workload, Pieces(workload.schema))):
        for piece in table.pieces:
            tables.setdefault(piece, []).append(number)
    return tuple((" ".join(map(str, numbers)), *piece.texts()) for piece, numbers in tables.items())


def both_told(workload: Workload, entries: Sequence[Entry], public_total: bool) -> str:
    """Which tables of a plan and of earlier releases will disagree, in words."""
    before = _before(entries, workload.schema)
    if not before:
        return (
            "The ledger does not know its tables: a count that both tell will have two different "
            "numbers, and tables of the one do not add up to those of the other. "
        )
    found = clashes(workload, before[-MOST_EARLIER:], public_total)
    cut = len(workload) > MOST_TABLES or len(before) > MOST_EARLIER
    cut = cut or any(len(entry.tables) == MOST_TABLES for entry in entries)
    return _said(found) + (f"Compared are the first {MOST_TABLES} tables of each. " if cut else "")


def clashes(workload: Workload, before: Sequence[Told], public_total: bool) -> Clashes:
    """Every pair of a table of the workload and one from before that will disagree."""
    pieces = Pieces(workload.schema)
    found: dict[Clash, dict[str, list[str]]] = defaultdict(dict)
    for table in _told(workload, pieces):
        for other in before:
            clash = _clash(pieces.common(table, other), public_total)
            if clash is not None:
                found[clash].setdefault(table.name, []).append(other.name)
    return found


def _clash(common: Common, public_total: bool) -> Clash | None:
    if common.something is False or (public_total and common.beyond_total is False):
        return None
    if common.same:
        return "same"
    if common.something is None or common.beyond_total is None:
        return "perhaps"
    return "sums" if common.beyond_total else "total"


def _before(entries: Sequence[Entry], schema: Schema) -> list[Told]:
    """The tables of earlier releases; those that tell the same once."""
    found: dict[object, Told] = {}
    for entry in entries:
        pieces: dict[str, list[Piece]] = defaultdict(list)
        for numbers, *texts in entry.pieces:
            piece = Piece.read(texts, schema)
            for number in numbers.split():
                pieces[number].append(piece)
        for place, (name, *attributes) in enumerate(entry.tables):
            table = Told(name, _with_unknown(pieces[str(place)], attributes))
            key = tuple((piece.attributes, piece.declared, piece.digest) for piece in table.pieces)
            found.setdefault((name, key), table)
    return list(found.values())


def _with_unknown(pieces: Sequence[Piece], attributes: Sequence[str]) -> tuple[Piece, ...]:
    """The pieces of a table, with one of which nothing is known for every attribute without."""
    told = {_plain(name) for piece in pieces for name in piece.attributes}
    return (*pieces, *(Piece((name,)) for name in attributes if name not in told))


def _told(workload: Workload, pieces: Pieces) -> list[Told]:
    some = (workload[i] for i in range(min(len(workload), MOST_TABLES)))
    return [pieces.told(query, _plain(query.name)) for query in some]


def _said(found: Clashes) -> str:
    same, sums, total, perhaps = (found.get(c, {}) for c in ("same", "sums", "total", "perhaps"))
    called = (repr(n) if n in then else f"{n!r} (as {then[0]!r})" for n, then in same.items())
    told = f"In both, with two different numbers each: {_listed(called)}. " if same else ""
    if sums:
        told += f"Will not add up to the same sums: {_pairs(sums)}. "
    if total:
        told += f"Nothing but the total in common, which will differ: {_pairs(total)}. "
    if perhaps:
        told += (
            f"May disagree, since an attribute was declared otherwise or the ledger does not know "
            f"what exactly was asked: {_pairs(perhaps)}. "
        )
    return told or "No two tables tell a common count, though sums of several might. "


def _pairs(found: Mapping[str, Sequence[str]]) -> str:
    """'age' and 'age × sex', 'age × ward'; and others."""
    each = [
        f"{name!r} and {_listed(map(repr, dict.fromkeys(others)), SHOWN_FOR_EACH)}"
        for name, others in found.items()
    ]
    more = f"; and {len(each) - SHOWN:,} more of these tables" if len(each) > SHOWN else ""
    return "; ".join(each[:SHOWN]) + more


def _listed(names: Iterable[str], shown: int = SHOWN) -> str:
    every = list(names)
    more = f" and {len(every) - shown:,} more" if len(every) > shown else ""
    return ", ".join(every[:shown]) + more


def _plain(text: str) -> str:
    """A name on one line that is safe to print."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"
