"""Vectors of counts like those of the dissertation's seven data sets, made from fixed seeds.

The data sets themselves are not part of this project. What is known of them is: how many records,
the share of empty cells, and the least cost of a partition (their Table 6.1, recomputed). Each
maker follows what the data set counts, and comes near these three numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CELLS: Final = 4096
Counts = NDArray[np.int64]


class Known(NamedTuple):
    """Of a data set: records, share of empty cells, least cost with lengths of powers of two."""

    records: int
    empty: float
    cost: float


KNOWN: Final = {
    "Nettrace": Known(25_714, 0.966, 586.75),
    "Adult": Known(17_665, 0.980, 1135.5312),
    "Medical Cost": Known(9_415, 0.748, 2417.4541),
    "Search Logs": Known(335_889, 0.510, 13948.0625),
    "Income": Known(20_787_122, 0.450, 19610.2051),
    "Patents": Known(27_948_226, 0.062, 19117.875),
    "HepPh": Known(347_414, 0.212, 29885.6562),
}


def shapes() -> dict[str, Counts]:
    """All seven, 4,096 cells each."""
    return {name: MAKERS[name](np.random.default_rng(2014)) for name in KNOWN}


def reduced(counts: Counts, cells: int, records: int, seed: int = 111) -> Counts:
    """Fewer cells, by adding up neighbours, and so many records drawn from that shape."""
    merged = counts.reshape(cells, -1).sum(axis=1)
    drawn = np.random.default_rng(seed).multinomial(records, merged / merged.sum())
    return drawn.astype(np.int64)


def _spread(rng: np.random.Generator, name: str, shape: NDArray[np.float64]) -> Counts:
    """The data set's number of records, drawn from a shape."""
    return rng.multinomial(KNOWN[name].records, shape / shape.sum()).astype(np.int64)


def nettrace(rng: np.random.Generator) -> Counts:
    """Connections of hosts: a power law over few hosts, and nothing beyond."""
    shape = np.zeros(CELLS)
    shape[:160] = 1.0 / np.arange(1, 161) ** 1.6
    return _spread(rng, "Nettrace", shape)


def adult(rng: np.random.Generator) -> Counts:
    """Capital losses: some eighty amounts in the middle, a few of them very common."""
    shape = np.zeros(CELLS)
    places = rng.choice(np.arange(1000, 2700), 90, replace=False)
    shape[places] = rng.pareto(0.65, len(places)) + 0.05
    return _spread(rng, "Adult", shape)


def medical_cost(rng: np.random.Generator) -> Counts:
    """Expenses: many small ones, ever fewer large ones, and round sums."""
    cells = np.arange(CELLS)
    shape = np.exp(-cells / 220.0)
    shape[::64] += 2 * np.exp(-cells[::64] / 600.0)
    return _spread(rng, "Medical Cost", shape + 2e-3)


def search_logs(rng: np.random.Generator) -> Counts:
    """How often a name is looked for: nothing for years, then bursts in blocks of days."""
    blocks = CELLS // 16
    level = np.exp(np.cumsum(rng.normal(0, 0.3, blocks)) / 1.5)
    level *= 1 + (rng.random(blocks) < 0.1) * rng.exponential(6, blocks)
    level[: blocks // 2] = 0.0
    shape = np.repeat(level, 16) * rng.lognormal(0, 0.25, CELLS)
    return _spread(rng, "Search Logs", shape)


def income(rng: np.random.Generator) -> Counts:
    """Incomes: peaks at round sums on a smooth body, in pairs of cells; many never occur."""
    cells = np.arange(CELLS) // 2
    body = np.exp(-((np.log1p(cells) - np.log(220.0)) ** 2) / 1.2) / (1 + cells)
    rounds = np.where(cells % 50 == 0, 40.0, np.where(cells % 10 == 0, 12.0, 1.0))
    kept = np.repeat(rng.random(CELLS // 2) > 0.43, 2)
    shape = body * rounds * kept * np.repeat(rng.lognormal(0, 0.4, CELLS // 2), 2)
    exact = shape / shape.sum() * KNOWN["Income"].records
    return np.rint(exact).astype(np.int64)


def patents(rng: np.random.Generator) -> Counts:
    """Citations by time of filing: growth, then decline, in runs of about two equal cells."""
    runs = 1890
    when = np.arange(runs) / runs
    level = (1 - np.exp(-3 * when)) * np.exp(-(np.maximum(0, (when - 0.8) * 8) ** 2))
    level *= rng.lognormal(0, 0.25, runs) * (rng.random(runs) > 0.06)
    shape = level[np.arange(CELLS) * runs // CELLS]
    return np.rint(shape / shape.sum() * KNOWN["Patents"].records).astype(np.int64)


def hepph(rng: np.random.Generator) -> Counts:
    """Citations by day: growing, restless from day to day, none on every fifth."""
    level = np.exp(np.cumsum(rng.normal(0, 0.05, CELLS))) * rng.lognormal(0, 0.7, CELLS)
    level *= np.arange(CELLS) / CELLS + 0.05
    return _spread(rng, "HepPh", level * (rng.random(CELLS) > 0.2))


MAKERS: Final[dict[str, Callable[[np.random.Generator], Counts]]] = {
    "Nettrace": nettrace,
    "Adult": adult,
    "Medical Cost": medical_cost,
    "Search Logs": search_logs,
    "Income": income,
    "Patents": patents,
    "HepPh": hepph,
}
