"""What all charts share: the look, logarithmic axes, and ways to show a specification."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from noiseplan.errors import MissingExtraError, NoiseplanError
from noiseplan.escaping import visible_name
from noiseplan.paths import checked_path

Spec = dict[str, Any]

# Okabe and Ito's colours, told apart in the common kinds of colour blindness. Yellow is left out:
# it is too faint for a thin line on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK = "#222222"
MUTED = "#666666"

NUMBER = ",.12~g"  # 1,200 and 0.5, never 1.2e+3

ROW = 18  # pixels for one line of a list down the page
MOST_ROWS = 40  # lines of such a list before a picture stops helping

WIDE = 20.0  # ratio of largest to smallest above which an axis is logarithmic

TAG = re.compile("<(?=[/!?a-zA-Z])")

PLOT_EXTRA = 'charts need the plot extra; install it with: pip install "noiseplan[plot]"'


class ChartError(NoiseplanError, ValueError):
    """What was given cannot be drawn."""


def figure(title: str, lines: Sequence[str]) -> Spec:
    """Title with its caption, and the look of every mark and axis."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 12}
    plain = text | {"titleFontWeight": "normal"}
    heading = {"text": title, "subtitle": lines, "anchor": "start", "fontSize": 15, "offset": 12}
    return {
        "title": heading | {"color": INK, "subtitleColor": MUTED, "subtitlePadding": 4},
        "background": "white",
        "padding": 14,
        "config": {
            "view": {"stroke": None},
            "axis": plain | {"labelLimit": 260, "gridColor": "#e6e6e6"},
            "header": plain,
            "legend": plain | {"orient": "top", "titleOrient": "left", "offset": 8},
            "bar": {"opacity": 0.18},
            "point": {"filled": True, "size": 38, "opacity": 1},
            "rule": {"strokeWidth": 1.6},
            "tick": {"thickness": 1.6, "opacity": 1},
        },
    }


def branded(spec: Spec, brand: str) -> Spec:
    """The chart with what its reader must know, where what it shows is not for publishing."""
    spec["title"]["subtitle"] += [brand] if brand else []
    return spec


def error_axis(low: float, high: float, least: float, title: str) -> Spec:
    """Axis of errors from `low` to `high`: from 0, or logarithmic where they differ by much.

    `least` is the smallest of them, without the lines around it.
    """
    if least > 0 and high / least > WIDE:
        return {"type": "quantitative", **log_axis(low, high, most=8), "title": title}
    axis = {"format": NUMBER, "tickCount": 6}
    return {"type": "quantitative", "axis": axis, "title": title}


def log_axis(low: float, high: float, *, most: int) -> Spec:
    """Logarithmic scale between round numbers, labelled at no more than about `most` of them."""
    steps = _round_numbers(low, high)
    powers = [step for step in steps if math.isclose(math.log10(step) % 1, 0, abs_tol=1e-9)]
    return {
        "scale": {"type": "log", "domain": [steps[0], steps[-1]]},
        "axis": {"values": steps if len(steps) <= most else powers, "format": NUMBER},
    }


def _round_numbers(low: float, high: float) -> list[float]:
    """Numbers 1, 2, 5, 10, … from at most `low` to at least `high`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)]
    start = max(step for step in steps if step <= low)
    stop = min(step for step in steps if step >= high and step > start)
    return [step for step in steps if start <= step <= stop]


def write(spec: Spec, path: Path) -> Path:
    """Draw `spec` in the format that the suffix of `path` names: .svg, .png or .html."""
    suffix = path.suffix.lower()
    if suffix not in (".svg", ".png", ".html"):
        raise ChartError(f"cannot draw to {path.name!r}: the suffix must be .svg, .png or .html")
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError(PLOT_EXTRA) from error
    if suffix == ".png":
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    elif suffix == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    else:
        # Bundled: the page holds the libraries it needs, so it opens without a network.
        path.write_text(vl_convert.vegalite_to_html(spec, bundle=True), encoding="utf-8")
    return path


def shown(spec: Spec, path: str | PathLike[str] | None) -> Any:
    """A chart for a notebook; with a path, the file it was drawn to."""
    spec = _drawable(spec)
    return in_notebook(spec) if path is None else write(spec, checked_path(path, ChartError))


def drawn_text(text: str) -> str:
    """Replace what a chart cannot hold: control characters, backslashes, and the starts of tags.

    On the first the drawing program aborts. It puts titles into expressions, where a backslash acts
    on what follows, and it and Altair put all texts unescaped into the scripts of pages.

    Examples
    --------
    >>> print(drawn_text("</script> < 5"))
    ‹/script> < 5
    """
    return TAG.sub("‹", visible_name(text).replace("\\", "∖"))


def _drawable(part: Any) -> Any:
    """A specification whose texts can be drawn; expressions stay as they are."""
    if isinstance(part, str):
        return drawn_text(part)
    if isinstance(part, dict):
        return {k: v if k == "calculate" else _drawable(v) for k, v in part.items()}
    return [_drawable(each) for each in part] if isinstance(part, list | tuple) else part


def in_notebook(spec: Spec) -> Any:
    """The same as an Altair chart, which notebooks show."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtraError(PLOT_EXTRA) from error
    return altair.Chart.from_dict(json.loads(json.dumps(spec)))  # lists, where tuples stand
