"""The released tables of a page: every one with its intervals, within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from noiseplan.draw.html import Markup, element, joined
from noiseplan.matrices.base import Array
from noiseplan.queries.level_parts import level_parts
from noiseplan.report.drawn_tables import cells_picture, cross_tables, listed_table, single_numbers
from noiseplan.report.table_cells import Cells
from noiseplan.texts import counted
from noiseplan.words.level_errors import hierarchy, level_of

if TYPE_CHECKING:
    from noiseplan.queries import Query, Workload

# Beyond these a page helps nobody; what is left out is said, with the command that shows it.
MOST_TABLES = 300
MOST_ROWS = 200  # lines of one table
MOST_NUMBERS = 2_000  # of one table
MOST_NUMBERS_IN_ALL = 10_000
LARGEST = 200_000  # rows of a table that is worth computing for its first ones
FIRST_ROWS = 60  # of the table that is open from the start

NEGATIVE = (
    "{some} of the {all} numbers shown here {are} negative, which no count is: noise was added to "
    "every number, and it is left as it fell, because sums and averages stay right only so. Read "
    "such a number as “few or none”."
)
WITHOUT = " Tables without negative counts"
OTHER = "Other tables"


class Asked(NamedTuple):
    """A table of the page: the query of the workload it belongs to, and its own."""

    whole: Query
    query: Query


@dataclass
class Tables:
    """What a page shows of a workload, and how much of it was shown so far.

    Parameters
    ----------
    cells
        The numbers of a query; None if there are none, and the table is left out by name.
    files
        Addresses of the tables that were written as files, without their endings.
    mend
        Finds the command that makes tables without negative counts; nothing where there is none.
    """

    workload: Workload
    cells: Callable[[Query], Cells | None]
    files: Mapping[str, str] = field(default_factory=dict)
    mend: Callable[[], str] = str
    numbers: int = 0
    negative: int = 0
    opened: bool = False
    missing: list[str] = field(default_factory=list)

    def markup(self) -> Markup:
        """One block per table that opens on demand, and a field to search them."""
        count = min(len(self.workload), MOST_TABLES)
        parts = [
            Asked(query, part.query)
            for query in map(self.workload.query, range(count))
            for part in level_parts(query)
        ]
        groups = by_level(parts)
        blocks = [self._group(name, some) for name, some in groups.items()]
        note: Markup | str = ""
        if count < len(self.workload):
            note = element(
                "p",
                f"The first {count:,} of {len(self.workload):,} tables are shown; noiseplan answer "
                f"prints any of them.",
                class_="muted",
            )
        return joined([self._negative(), self._left_out(), _tools(len(parts)), note, *blocks])

    def _negative(self) -> Markup | str:
        if not self.negative:
            return ""
        some, every = f"{self.negative:,}", f"{self.numbers:,}"
        words = NEGATIVE.format(some=some, all=every, are="is" if self.negative == 1 else "are")
        command = self.mend()
        if not command:
            return element("p", words)
        named = " Some tables without negative counts" if "--table" in command else WITHOUT
        return element("p", f"{words}{named}: ", element("code", command), ".")

    def _left_out(self) -> Markup | str:
        if not self.missing:
            return ""
        names = ", ".join(f"“{name}”" for name in self.missing)
        words = f"Left out, because no valid table holds them: {names}. The release answers them."
        return element("p", words)

    def _group(self, name: str, parts: Sequence[Asked]) -> Markup:
        heading = element("h3", name) if name else ""
        return element("div", heading, joined(self._blocks(parts)), class_="group")

    def _blocks(self, parts: Sequence[Asked]) -> Iterator[Markup]:
        single = [asked for asked in parts if asked.query.rows == 1]
        if len(single) > 1:  # one table of them says more than many of one number
            yield self._singles(single)
        for asked in parts:
            if len(single) < 2 or asked.query.rows > 1:
                yield from self._block(asked)

    def _singles(self, parts: Sequence[Asked]) -> Markup:
        found = [(asked.query.name, self._cells(asked.query)) for asked in parts]
        every = [(name, cells) for name, cells in found if cells is not None]
        for _, cells in every:
            self._count(cells.value)
        names = " ".join(name for name, _ in every)
        content = single_numbers([cells for _, cells in every])
        facts = counted(len(every), "number")
        self.opened = True
        return _closed("Single numbers", facts, content, search=names, opened=True)

    def _block(self, asked: Asked) -> Iterator[Markup]:
        query, rows = asked.query, counted(asked.query.rows, "row")
        left = min(MOST_NUMBERS, MOST_NUMBERS_IN_ALL - self.numbers)
        if query.rows > LARGEST or left <= 0:
            yield _closed(query.name, rows, _elsewhere(asked.whole, "too large for this page"))
            return
        cells = self._cells(query)
        if cells is None:
            return
        table, shown, first = self._table(cells, left)
        picture = cells_picture(cells)
        content = [picture, table]
        if shown < query.rows:
            content.append(_elsewhere(asked.whole, f"the first {first} are shown"))
        content.append(self._links(query.name))
        opened = not self.opened and bool(picture) and query.rows <= FIRST_ROWS
        self.opened = self.opened or opened  # one small table stands open, to show what there is
        yield _closed(query.name, f"{rows}, {cells.error}", *content, opened=opened)

    def _table(self, cells: Cells, left: int) -> tuple[Markup, int, str]:
        """The numbers of a table, how many of them are shown, and of what they are the first."""
        if len(cells.axes) > 1:
            table, values, first = cross_tables(cells, MOST_ROWS, left)
            self._count(values)
            return table, values.size, first
        shown = min(cells.size, MOST_ROWS, left)
        self._count(cells.value.ravel()[:shown])
        return listed_table(cells, shown), shown, f"{shown:,} of {cells.size:,} rows"

    def _cells(self, query: Query) -> Cells | None:
        cells = self.cells(query)
        if cells is None:
            self.missing.append(query.name)
        return cells

    def _count(self, values: Array) -> None:
        """Numbers that are shown, and those below 0 among them."""
        self.numbers += values.size
        self.negative += int((values < 0).sum())

    def _links(self, name: str) -> Markup | str:
        address = self.files.get(name)
        if address is None:
            return ""
        links = [
            element("a", kind, href=f"{address}.{kind.lower()}", type=mime)
            for kind, mime in (("CSV", "text/csv"), ("Parquet", "application/vnd.apache.parquet"))
        ]
        return element("p", "The whole table as a file: ", joined(links, " · "), class_="small")


def by_level(parts: Sequence[Asked]) -> dict[str, list[Asked]]:
    """The tables under the level of places they are of, the coarsest first; or all under nothing.

    The first hierarchical attribute counts, and only if its tables are of two levels or more.
    """
    name = hierarchy(parts[0].query.schema) if parts else None
    if name is None:
        return {"": list(parts)}
    placed = [level_of(asked.query, name) for asked in parts]
    known = sorted({place for place in placed if place is not None}, reverse=True)
    if len(known) < 2:
        return {"": list(parts)}
    groups: dict[str, list[Asked]] = {title: [] for title in (*(name for _, name in known), OTHER)}
    for place, asked in zip(placed, parts, strict=True):
        groups[OTHER if place is None else place[1]].append(asked)
    return {title: some for title, some in groups.items() if some}


def _tools(count: int) -> Markup:
    search = element("label", "Search ", Markup('<input type="search" aria-controls="released">'))
    return element(
        "div",
        search,
        element("button", "Open or close all", type="button"),
        element("output", counted(count, "table"), role="status", class_="muted"),
        class_="tools no-script-hidden",
    )


def _closed(
    name: str, facts: str, *content: object, search: str = "", opened: bool = False
) -> Markup:
    summary = element("summary", name, " ", element("span", facts, class_="muted"))
    return element(
        "details", summary, *content, class_="released", data_name=search or name, open=opened
    )


def _elsewhere(query: Query, why: str) -> Markup:
    command = element("code", f'noiseplan answer RELEASE "{query.name}" --csv')
    said = f"{query.rows:,} rows: {why}. All of them: the files in tables/, or "
    return element("p", said, command, class_="muted")
