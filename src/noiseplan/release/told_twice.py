"""Which tables of two releases will disagree, for a ledger and in words.

Two releases of the same people have noise of their own. Where a table of the one and a table of the
other determine a common number, a cell, a sum of cells or the total, it is told twice and
differently; elsewhere no two tables can disagree. Sums of several tables against others are not
looked for. A total that both tell as it is, because it is public, is the same in both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from noiseplan.queries import Workload
from noiseplan.release.told_tables import Common, Piece, Pieces, Told
from noiseplan.schema import Schema
from noiseplan.texts import one_line

if TYPE_CHECKING:
    from noiseplan.ledger import Entry
    from noiseplan.ledger.events import Tables

# Tables of a release that are kept in a ledger, and letters of a name.
MOST_TABLES, LONGEST_NAME = 200, 120
# Earlier tables that a plan is compared with, the latest.
MOST_EARLIER: Final = 2_000
# Pairs of tables that a message names.
SHOWN: Final = 8

# How two tables disagree, what comes first is told first; and what is said of a pair.
Clash = Literal["same", "sums", "somehow", "total", "perhaps"]
SAID: Final[Mapping[Clash, str]] = {
    "same": "the same counts, with two different numbers each",
    "sums": "sums of their cells will differ",
    "somehow": (
        "will disagree, in what is not known: an attribute was declared otherwise, or the ledger "
        "lacks what exactly was asked"
    ),
    "total": "the total will differ, and nothing else is in both",
    "perhaps": (
        "may disagree: an attribute was declared otherwise, or the ledger lacks what exactly was "
        "asked"
    ),
}
# How a ledger keeps, as a piece of no table, whether the total is public or was told with noise.
EXACT_TOTAL: Final = ("", "total exactly")
NOISY_TOTAL: Final = ("", "total with noise")
# The names of a table now and of one from before, by how they disagree.
Clashes = Mapping[Clash, Sequence[tuple[str, str]]]


def published(workload: Workload) -> Tables:
    """The first tables of a workload for a ledger: of each its name and its attributes."""
    some = islice(workload, MOST_TABLES)
    return tuple(tuple(map(_plain, (query.name, *query.attributes))) for query in some)


def told_pieces(workload: Workload, public_total: bool | None) -> Tables:
    """What these tables tell, for a ledger: of each piece the numbers of its tables, its texts.

    Where records are replaced, `public_total` says whether the total is told as it is.
    """
    tables: dict[Piece, list[int]] = {}
    for number, table in enumerate(_told(workload, Pieces(workload.schema))):
        for piece in table.pieces:
            tables.setdefault(piece, []).append(number)
    kept = [(" ".join(map(str, numbers)), *piece.texts()) for piece, numbers in tables.items()]
    total = [] if public_total is None else [EXACT_TOTAL if public_total else NOISY_TOTAL]
    return (*total, *kept)


def both_told(workload: Workload, entries: Sequence[Entry], public_total: bool) -> list[str]:
    """Which tables of a plan and of earlier releases will disagree, a line for each pair."""
    before = _before(entries, workload.schema)
    if not before:
        return [
            "The ledger does not know its tables: a count that both tell will have two different "
            "numbers, and tables of the one do not add up to those of the other."
        ]
    found = clashes(workload, before[-MOST_EARLIER:], public_total)
    cut = len(workload) > MOST_TABLES or len(before) > MOST_EARLIER
    cut = cut or any(len(entry.tables) == MOST_TABLES for entry in entries)
    compared = [f"Compared are the first {MOST_TABLES} tables of each."] if cut else []
    return [*_said(found), *compared]


def clashes(workload: Workload, before: Sequence[Told], public_total: bool) -> Clashes:
    """Every pair of a table of the workload and one from before that will disagree."""
    pieces = Pieces(workload.schema)
    found: dict[Clash, list[tuple[str, str]]] = defaultdict(list)
    for table in _told(workload, pieces):
        for other in before:
            clash = _clash(pieces.common(table, other), public_total and other.exact_total)
            if clash is not None:
                found[clash].append((table.name, other.name))
    return found


def _clash(common: Common, public_total: bool | None) -> Clash | None:
    """How two tables disagree that have something in common; None as a total is not known."""
    if common.something is False or (public_total and common.beyond_total is False):
        return None
    if public_total is None and common.beyond_total is False:
        return "perhaps"
    if common.same:
        return "same"
    if common.something is None or (common.beyond_total is None and public_total is not False):
        return "perhaps"
    if common.beyond_total is None:
        return "somehow"
    return "sums" if common.beyond_total else "total"


def _before(entries: Sequence[Entry], schema: Schema) -> list[Told]:
    """The tables of earlier releases; those that tell the same once."""
    found: dict[object, Told] = {}
    for entry in entries:
        pieces: dict[str, list[Piece]] = defaultdict(list)
        exact = {EXACT_TOTAL: True, NOISY_TOTAL: False}
        total = next((exact[each] for each in entry.pieces if each in exact), None)
        for numbers, *texts in entry.pieces:
            piece = Piece.read(texts, schema)
            for number in numbers.split():
                pieces[number].append(piece)
        for place, (name, *attributes) in enumerate(entry.tables):
            table = Told(name, _with_unknown(pieces[str(place)], attributes), total)
            key = tuple((piece.attributes, piece.declared, piece.digest) for piece in table.pieces)
            found.setdefault((name, key, total), table)
    return list(found.values())


def _with_unknown(pieces: Sequence[Piece], attributes: Sequence[str]) -> tuple[Piece, ...]:
    """The pieces of a table, with one of which nothing is known for every attribute without."""
    told = {_plain(name) for piece in pieces for name in piece.attributes}
    return (*pieces, *(Piece((name,)) for name in attributes if name not in told))


def _told(workload: Workload, pieces: Pieces) -> list[Told]:
    some = islice(workload, MOST_TABLES)
    return [pieces.told(query, _plain(query.name)) for query in some]


def _said(found: Clashes) -> list[str]:
    pairs = [(clash, pair) for clash in SAID for pair in dict.fromkeys(found.get(clash, ()))]
    if not pairs:
        return ["No two tables tell a common count, though sums of several might."]
    lines = [f"  {_named(*pair)}: {SAID[clash]}" for clash, pair in pairs[:SHOWN]]
    if len(pairs) > SHOWN:
        lines.append(
            f"  and {len(pairs) - SHOWN:,} more pairs: noiseplan ledger show LEDGER --json lists "
            f"the earlier tables"
        )
    return ["Which tables disagree, of this plan and of what was released before:", *lines]


def _named(now: str, before: str) -> str:
    return f"{now!r} in both" if now == before else f"{now!r} and {before!r}"


def _plain(text: str) -> str:
    """A name on one line that is safe to print."""
    return one_line(text, LONGEST_NAME)
