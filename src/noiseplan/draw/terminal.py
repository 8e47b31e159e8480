"""The expected errors of a plan as bars on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from noiseplan.escaping import visible_name
from noiseplan.texts import error_text
from noiseplan.words.plan import kind_name

if TYPE_CHECKING:
    from noiseplan.planning.plan import TableKind

MOST_BARS: Final = 24
WIDEST: Final = 100  # columns, where the terminal has more
NARROWEST: Final = 8  # columns of a bar
EIGHTHS: Final = "▏▎▍▌▋▊▉"


def draw_errors(
    console: Console, rows: Sequence[TableKind], rmse: float, most: int = MOST_BARS
) -> None:
    """One bar per kind of table, the largest standard error first.

    The middle is left out where there are many; tables worse than the average are told apart.
    """
    half, hidden = most // 2, len(rows) - most
    shown = list(rows) if hidden <= 1 else [*rows[:half], *rows[-half:]]
    names = [visible_name(kind_name(row)) for row in shown]
    cells = [(f"{row['rows']:,}", error_text(row["std_error"])) for row in shown]
    width = min(console.width, WIDEST)
    between = f"… {hidden:,} kinds between …" if hidden > 1 else ""
    longest = max(len("table"), len(between), *map(len, names))
    name_width = min(longest, max(20, width // 2 - 4))
    fixed = [max(map(len, column)) for column in zip(("rows", "std. error"), *cells, strict=True)]
    room = max(NARROWEST, width - name_width - sum(fixed) - 8)
    largest = max(row["std_error"] for row in shown) or 1.0
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, width=None)
    table.add_column("table", max_width=name_width, no_wrap=True, overflow="ellipsis")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("std. error", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=NARROWEST)
    for i, (row, name, texts) in enumerate(zip(shown, names, cells, strict=True)):
        if hidden > 1 and i == half:
            table.add_row(Text(between, style="dim"), "", "", "")
        share = row["std_error"] / largest
        style = "yellow" if row["std_error"] > rmse else "cyan"
        drawn = Text(bar(share, room, ascii_only=console.options.ascii_only), style=style)
        table.add_row(Text(name), *texts, drawn)
    console.print(table)


def bar(share: float, width: int, ascii_only: bool) -> str:
    """A bar of so many columns, to an eighth of one."""
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    if ascii_only:
        return "#" * max(round(eighths / 8), int(eighths > 0))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (EIGHTHS[rest - 1] if rest else "")
