"""Pictures: a table with its error bars, and the expected errors of a plan.

A chart is a plain Vega-Lite specification, a dictionary; vl-convert draws it without a browser or
a network. Importing this package is cheap, and only drawing needs the ``plot`` extra.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noiseplan._charts.figure import ChartError, MissingExtraError, write
from noiseplan._charts.forest import ForestRow, forest_spec
from noiseplan._charts.tables import error_bar_spec

__all__ = [
    "ChartError",
    "ForestRow",
    "MissingExtraError",
    "error_bar_chart",
    "error_bar_spec",
    "forest_chart",
    "forest_spec",
]


def error_bar_chart(
    frame_columns: Mapping[str, Sequence[Any]],
    x: str,
    colour: str | None,
    title: str,
    level: float,
    path: Path,
    *,
    unit: str = "records",
) -> Path:
    """Draw a released table: every estimate with its interval.

    Where the intervals are too short to see beside the estimates, a second panel shows each as a
    percentage of its estimate.

    Parameters
    ----------
    frame_columns
        Columns of a tidy table: ``x``, ``colour``, ``estimate``, ``lower`` and ``upper``.
    x
        The column whose values are laid out along the chart.
    colour
        The column told apart by colour, or by panels where there are many cells; or None.
    title
        What the table is, in words.
    level
        Level of the intervals, e.g. 0.95.
    path
        File to write; its suffix is one of ``.svg``, ``.png`` and ``.html``.
    unit
        What is counted.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ChartError
        If a column is missing, a cell appears twice, there is no cell, a number is not finite, or
        the suffix is unknown.
    MissingExtraError
        If the ``plot`` extra is not installed.
    """
    return write(error_bar_spec(frame_columns, x, colour, title, level, unit=unit), path)


def forest_chart(
    rows: Sequence[ForestRow | tuple[str, float]],
    path: Path,
    *,
    title: str = "Expected standard error of each table",
    unit: str = "records",
) -> Path:
    """Draw the expected error of every table of a plan, the least accurate first.

    Parameters
    ----------
    rows
        One per table: its name and standard error, and optionally the standard errors of its most
        and least accurate cell.
    path
        File to write; its suffix is one of ``.svg``, ``.png`` and ``.html``.
    title
        What the plan is, in words.
    unit
        What is counted.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ChartError
        If there is no row, a standard error is not a finite number of at least 0, or the suffix is
        unknown.
    MissingExtraError
        If the ``plot`` extra is not installed.
    """
    return write(forest_spec(rows, title=title, unit=unit), path)
