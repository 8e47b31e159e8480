"""A made-up population with places, households and ages, for cases larger than a survey.

Nobody in it exists. It has the shape of a census file: one row per person; places within regions,
of very different sizes; households whose members' ages depend on each other; and a few traits that
go with age and place. The same `seed` gives the same people.

=========== ============================================================
column      meaning
=========== ============================================================
region      one of 8 regions, R01 to R08, larger ones first
place       one of 15 places in each region, as in R01-07
household   number of the household, for linking; not for publication
size        persons in the household, 1 to 8
role        head, partner, child or other
age         0 to 99
sex         F or M
tenure      owner or renter, of the household
=========== ============================================================
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.schema import Categorical, Ordinal, Schema

REGIONS: Final = 8
PLACES: Final = 15  # in each region
LARGEST: Final = 8  # persons in a household
OLDEST: Final = 99
ROLES: Final = ("head", "partner", "child", "other")
TENURES: Final = ("owner", "renter")
# How often a household has 1, 2, … persons; close to those of many countries.
SIZES: Final = np.array([0.30, 0.34, 0.15, 0.13, 0.05, 0.02, 0.007, 0.003])
DEFAULT_PERSONS: Final = 200_000

Columns = dict[str, NDArray[Any]]


def population(persons: int = DEFAULT_PERSONS, seed: int = 1) -> Columns:
    """About `persons` made-up people as columns, in whole households.

    Examples
    --------
    >>> people = population(1000, seed=1)
    >>> sorted(people)
    ['age', 'household', 'place', 'region', 'role', 'sex', 'size', 'tenure']
    """
    random = np.random.default_rng(seed)
    households = max(1, round(persons / float(SIZES @ np.arange(1, LARGEST + 1))))
    size = random.choice(np.arange(1, LARGEST + 1), size=households, p=SIZES)
    place = random.choice(REGIONS * PLACES, size=households, p=_shares())
    head = np.clip(random.gamma(9.0, 5.8, households) + 4 * (size == 1), 18, OLDEST).astype(int)
    owner = random.random(households) < 1 / (1 + np.exp(-(head - 42) / 9))

    number = np.repeat(np.arange(households), size)
    first = np.r_[0, np.cumsum(size)[:-1]]
    order = np.arange(len(number)) - first[number]  # 0 for the head of a household
    partnered = (random.random(households) < 0.72) & (size > 1)
    role = np.select(
        [order == 0, (order == 1) & partnered[number], head[number] < 75], [0, 1, 2], default=3
    )
    age = _ages(role, head[number], random)
    names = np.array(place_names())
    regions = np.array([f"R{r + 1:02d}" for r in range(REGIONS)])
    return {
        "region": regions[place // PLACES][number],
        "place": names[place][number],
        "household": number,
        "size": size[number],
        "role": np.array(ROLES)[role],
        "age": age,
        "sex": np.where(random.random(len(number)) < 0.49 + 0.0012 * age, "F", "M"),
        "tenure": np.where(owner, *TENURES)[number],
    }


def population_schema() -> Schema:
    """What each column of :func:`population` may hold; households are not for publication."""
    return Schema(
        {
            "place": Categorical(place_names()),
            "size": Ordinal(range(1, LARGEST + 1)),
            "role": Categorical(ROLES),
            "age": Ordinal(range(OLDEST + 1)),
            "sex": Categorical(["F", "M"]),
            "tenure": Categorical(TENURES),
        }
    )


def place_names() -> list[str]:
    """The public code list: R01-01 to R08-15."""
    return [f"R{r + 1:02d}-{p + 1:02d}" for r in range(REGIONS) for p in range(PLACES)]


def write_population(
    data: Path, places: Path, persons: int = DEFAULT_PERSONS, seed: int = 1
) -> None:
    """Write the people as Parquet, and the places with their regions as CSV, a public code list."""
    from noiseplan.engine import copy_to_parquet, engine

    with places.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["place", "region"])
        writer.writerows([name, name.partition("-")[0]] for name in place_names())
    with engine() as connection:
        copy_to_parquet(connection, data, population(persons, seed))


def _shares() -> NDArray[np.float64]:
    """How likely each place is: sizes fall off as in real lists of towns."""
    region = 1 / np.arange(1, REGIONS + 1) ** 0.7
    place = 1 / np.arange(1, PLACES + 1)
    share = np.outer(region, place).ravel()
    return np.asarray(share / share.sum())


def _ages(role: NDArray[Any], head: NDArray[Any], random: np.random.Generator) -> NDArray[np.int64]:
    """Partners are about as old as heads, children a generation younger, others a mixture."""
    draws = random.normal(size=len(role))
    partner = head + 4 * draws
    child = np.minimum(np.abs(head - 28 + 7 * draws), head - 14)
    other = head + 25 * draws
    age = np.select([role == 0, role == 1, role == 2], [head, partner, child], default=other)
    least = np.where(role == 1, 18, 0)
    return np.asarray(np.clip(np.floor(age), least, OLDEST), dtype=np.int64)
