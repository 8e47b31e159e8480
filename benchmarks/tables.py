"""A table of figures with its verdicts, and how it is written as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# A truth value is a verdict; everything else was made into text where its precision was known.
Cell = str | bool


@dataclass(frozen=True)
class Claim:
    """One thing the table must show, and whether it does."""

    text: str
    met: bool


@dataclass(frozen=True)
class Table:
    """Figures side by side.

    `columns` is the line of headings, with bars between them; `claims` sum the rows up; a verdict
    inside a row is a truth value among its cells.
    """

    title: str
    sentence: str
    source: str
    columns: str
    rows: tuple[tuple[Cell, ...], ...]
    claims: tuple[Claim, ...]

    @property
    def met(self) -> bool:
        """Whether every claim is met and so is every row."""
        cells = [cell for row in self.rows for cell in row if isinstance(cell, bool)]
        return all(claim.met for claim in self.claims) and all(cells)

    def __str__(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """The title, a sentence, the figures, the verdicts, the source."""
        lines = [
            f"### {self.title}",
            "",
            self.sentence,
            "",
            *_grid(self.columns, self.rows),
            "",
            *(f"- {verdict(claim.met)}: {claim.text}" for claim in self.claims),
            "",
            f"Compared with: {self.source}",
            "",
        ]
        return "\n".join(lines)


def all_rows(what: str, rows: Sequence[Sequence[Cell]]) -> Claim:
    """The claim that every row met what its last cell says."""
    right = sum(row[-1] is True for row in rows)
    return Claim(f"{what}: {right} of {len(rows)} rows", right == len(rows))


def verdict(met: bool) -> str:
    """The word for it."""
    return "met" if met else "**NOT met**"


def decimals(value: float | None, places: int) -> str:
    """A number with so many decimals; a dash where there is none."""
    return "–" if value is None else f"{value:.{places}f}"


def brief(value: float | None) -> str:
    """A number to three digits, for seconds and ratios."""
    if value is None:
        return "–"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _grid(columns: str, rows: Sequence[Sequence[Cell]]) -> list[str]:
    ruler = " | ".join([":---"] + ["---:"] * columns.count(" | "))
    body = [" | ".join(verdict(c) if isinstance(c, bool) else c for c in row) for row in rows]
    return [f"| {line} |" for line in (columns, ruler, *body)]
