"""HTML written safely: every text is escaped, every table says what it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from noiseplan.escaping import visible


@dataclass(frozen=True)
class Markup:
    """Text that is HTML already."""

    text: str

    def __str__(self) -> str:
        return self.text


def escaped(value: object) -> str:
    """A text of others: neither a tag, nor a mark that turns the direction of what follows."""
    return escape(visible(str(value)))


def text(value: object) -> str:
    """Anything as HTML: escaped, unless it is markup already."""
    return str(value) if isinstance(value, Markup) else escaped(value)


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """`<tag attribute="…">children</tag>`; `class_` and `for_` lose their underscore.

    Examples
    --------
    >>> print(element("p", "a < b", class_="note"))
    <p class="note">a &lt; b</p>
    """
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{tag}{written}>{''.join(map(text, children))}</{tag}>")


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """Several pieces in a row."""
    return Markup(between.join(map(text, parts)))


@dataclass(frozen=True)
class Column:
    """A heading, and whether numbers stand below it."""

    name: str
    number: bool = False
    hidden: bool = False  # a picture, whose numbers stand beside it
    spare: bool = False  # may be left out on a phone
    shown: Markup | str = ""  # above a picture: its scale, say

    @property
    def kind(self) -> str | None:
        """Its class in the style sheet."""
        kinds = {"n": self.number, "pic": self.hidden, "spare": self.spare}
        return " ".join(name for name, on in kinds.items() if on) or None


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    *,
    long: bool = False,
) -> Markup:
    """A table that scrolls by itself where it is wide or `long`; the first column names rows."""
    head = joined(
        element(
            "th",
            column.shown if column.hidden else column.name,
            scope="col",
            class_=column.kind,
            aria_label=column.name if column.hidden else None,
        )
        for column in columns
    )
    body = joined(_row(columns, row) for row in rows)
    inner = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", head)),
        element("tbody", body),
        class_="wide" if any(column.hidden for column in columns) else None,
    )
    return region(inner, caption, long)


def region(inner: Markup, name: str, long: bool = False) -> Markup:
    """A box that scrolls by itself, also by keyboard; a `long` one keeps its heads in sight."""
    kind = "scroll long" if long else "scroll"
    return element("div", inner, class_=kind, tabindex=0, role="region", aria_label=name)


def _row(columns: Sequence[Column], row: Sequence[object]) -> Markup:
    cells = []
    for position, (column, cell) in enumerate(zip(columns, row, strict=True)):
        if position == 0:
            cells.append(element("th", cell, scope="row"))
        else:
            cells.append(element("td", cell, class_=column.kind))
    return element("tr", joined(cells))
