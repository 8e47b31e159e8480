"""Finished pictures: a drawing under its title, for notebooks and files, without any library."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from noiseplan.draw.html import Markup, element, escaped
from noiseplan.draw.svg import Drawing, label
from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.escaping import visible_name
from noiseplan.paths import checked_path
from noiseplan.texts import shortened

# Okabe and Ito's colours, which the common kinds of colour blindness distinguish. Yellow is left
# out: a thin line of it on white is hard to see.
PALETTE: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
SERIES_STYLE = "".join(
    f"svg.nz-picture .s{i}{{fill:{colour};stroke:{colour}}}" for i, colour in enumerate(PALETTE)
)
# Each rule names the picture's own class, for a notebook may insert the picture into its page.
STYLE: Final = (
    "svg.nz-picture text{font:13px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#444}"
    "svg.nz-picture text.title{font-size:16px;font-weight:600;fill:#1c2430}"
    "svg.nz-picture text.head{font-weight:600}"
    "svg.nz-picture .axis{fill:none;stroke:#dfe3e8;stroke-width:1}"
    + SERIES_STYLE
    + "svg.nz-picture .err{fill:none;stroke-width:1.5}"
    "svg.nz-picture .dots{fill:none;stroke-linecap:round}"
    "svg.nz-picture .pale{fill-opacity:.25;stroke-width:0}"
    "svg.nz-picture .point{stroke:none}"
    "svg.nz-picture .hollow{fill:#fff;stroke-width:2}"
    "svg.nz-picture .curve{fill:none;stroke-width:2}"
)
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
MARGIN, LINE, KEY = 16, 18, 22  # pixels: around the picture, a line of notes, a row of keys
BETWEEN: Final = 28  # pixels between panels, and for a panel's heading
PIXELS: Final = 7.0  # of a letter


class ChartError(NoiseplanError, ValueError):
    """What was given cannot be drawn."""


@dataclass(frozen=True)
class Picture:
    """A drawing with its title, notes and the names of its colours; notebooks show it.

    Parameters
    ----------
    title
        What the drawing shows.
    notes
        Lines under the title.
    drawing
        The axes and marks.
    names
        Names of the colours, in order; a single one needs no key.
    """

    title: str
    notes: Sequence[str]
    drawing: Drawing
    names: Sequence[str] = ()

    def _repr_svg_(self) -> str:
        """Return the picture as one SVG on a white ground, which dark notebooks show as it is."""
        width = self.drawing.width
        room = int(width / PIXELS)
        y = MARGIN + 16.0
        parts = [label(MARGIN, y, shortened(self.title, room - 10), "start", "title")]
        for line in (part for note in self.notes for part in textwrap.wrap(note, room)):
            y += LINE
            parts.append(label(MARGIN, y, line, "start"))
        if len(self.names) > 1:
            keys, rows = _keys(self.names, width)
            parts.append(_moved(keys, MARGIN, y + 10))
            y += rows * KEY + 4
        y += 12
        parts.append(_moved(self.drawing.content, MARGIN, y))
        wide, high = width + 2 * MARGIN, y + self.drawing.height + MARGIN
        ground = '<rect width="100%" height="100%" fill="#fff"/>'
        drawn = element(
            "svg",
            Markup(f"<style>{STYLE}</style>{ground}{''.join(parts)}"),
            xmlns="http://www.w3.org/2000/svg",
            class_="nz-picture",
            width=f"{wide:g}",
            height=f"{high:g}",
            viewBox=f"0 0 {wide:g} {high:g}",
            role="img",
            aria_label=visible_name(". ".join([self.title, *self.notes])),
        )
        return str(drawn)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file ending in .svg, or in .html for a page that holds it."""
        target = checked_path(path, ChartError)
        suffix = target.suffix.lower()
        if suffix not in (".svg", ".html"):
            raise ChartError(
                f"cannot draw to {target.name!r}: the suffix must be .svg or .html; for other "
                f"formats open the .svg in a browser and print it, or convert it"
            )
        if not target.parent.is_dir():
            raise StorageError(
                f"{str(target)!r} cannot be written: there is no folder {str(target.parent)!r}"
            )
        drawn = self._repr_svg_()
        if suffix == ".html":
            drawn = (
                f'<!doctype html><html lang="en"><meta charset="utf-8">'
                f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
                f"<title>{escaped(visible_name(self.title))}</title><body>{drawn}</body></html>"
            )
        target.write_text(drawn + "\n", encoding="utf-8")
        return target


def shown(picture: Picture, path: str | PathLike[str] | None) -> Any:
    """Return the picture for a notebook; with a path, the file it was saved to."""
    return picture if path is None else picture.save(path)


def side_by_side(panels: Sequence[tuple[str, Drawing]], columns: int) -> Drawing:
    """Arrange drawings of one size in rows of `columns`, each under its heading."""
    _, first = panels[0]
    wide, high = first.width + BETWEEN, first.height + BETWEEN
    parts = []
    for i, (heading, drawing) in enumerate(panels):
        row, column = divmod(i, columns)
        content = label(0, 14, shortened(heading, int(first.width / PIXELS)), "start", "head")
        parts.append(_moved(content, column * wide, row * high))
        parts.append(_moved(drawing.content, column * wide, row * high + BETWEEN))
    rows = -(-len(panels) // columns)
    return Drawing("".join(parts), wide * columns - BETWEEN, high * rows)


def letters(text: str) -> int:
    """Return how many letters wide a text is; those of Chinese, Japanese and Korean count twice."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _keys(names: Sequence[str], width: float) -> tuple[str, int]:
    """Return dots with names, in as many rows as they need, and the number of rows."""
    x, row, parts = 0.0, 0, []
    for i, name in enumerate(visible_name(shortened(name, 60)) for name in names):
        needed = PIXELS * letters(name) + 34
        if x and x + needed > width:
            x, row = 0.0, row + 1
        y = row * KEY + 12
        parts.append(f'<circle class="point s{i}" cx="{x + 6:g}" cy="{y:g}" r="5"/>')
        parts.append(label(x + 16, y + 4.5, name, "start"))
        x += needed
    return "".join(parts), row + 1


def _moved(content: str, x: float, y: float) -> str:
    return f'<g transform="translate({x:g} {y:g})">{content}</g>'
