"""A made-up census: people in blocks, tracts, counties and states of very different sizes.

Nobody in it exists. It has the shape of a census file by place: one row per person, and a public
code list that says where each block lies. A block's code begins with that of its tract, a tract's
with that of its county, a county's with that of its state. The same `seed` gives the same people.

=========== =====================================================================
column      meaning
=========== =====================================================================
geo         code of the block: 2 signs of the state, 3 of the county, 4 of the
            tract, 3 of the block
age         0-17, 18-39, 40-64 or 65+; older blocks lie beside younger ones
sex         F or M
=========== =====================================================================

States have 2, 4, 8 and 16 counties, counties 4 to 19 tracts, tracts 2 to 12 blocks. How many people
a block draws is lognormal, so that some blocks stay empty and some have hundreds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.engine import copy_to_parquet, engine
from noiseplan.escaping import write_csv_rows

COUNTIES: Final = (2, 4, 8, 16)  # of each state
AGES: Final = ("0-17", "18-39", "40-64", "65+")
SEXES: Final = ("F", "M")
LEVELS: Final = ("block", "tract", "county", "state", "nation")
DEFAULT_PERSONS: Final = 60_000

Columns = dict[str, NDArray[Any]]


def census_places() -> dict[str, list[str]]:
    """The public code list: one column for each level, one row for each block.

    Examples
    --------
    >>> places = census_places()
    >>> len(places["block"]), len(set(places["tract"])), len(set(places["county"]))
    (2195, 320, 30)
    """
    random = np.random.default_rng(2030)
    blocks = [
        f"{state + 1:02d}{county + 1:03d}{tract + 1:04d}{block + 1:03d}"
        for state, counties in enumerate(COUNTIES)
        for county in range(counties)
        for tract in range(random.integers(4, 20))
        for block in range(random.integers(2, 13))
    ]
    cut = {"block": 12, "tract": 9, "county": 5, "state": 2}
    places = {level: [block[:signs] for block in blocks] for level, signs in cut.items()}
    return places | {"nation": ["all"] * len(blocks)}


def census(persons: int = DEFAULT_PERSONS, seed: int = 1) -> Columns:
    """So many made-up people as columns.

    Examples
    --------
    >>> people = census(1000)
    >>> sorted(people), len(people["geo"])
    (['age', 'geo', 'sex'], 1000)
    """
    random = np.random.default_rng(seed)
    blocks = np.array(census_places()["block"])
    share = random.lognormal(0.0, 1.3, len(blocks))
    home = random.choice(len(blocks), persons, p=share / share.sum())
    older = random.normal(0.0, 0.5, len(blocks))[home]  # what the ages of a block lean to
    age = np.clip(np.floor(1.4 + older + random.normal(0.0, 0.9, persons)), 0, 3).astype(int)
    sex = random.random(persons) < 0.49 + 0.02 * age
    return {
        "geo": blocks[home],
        "age": np.array(AGES)[age],
        "sex": np.where(sex, *SEXES),
    }


def write_census(data: Path, places: Path, persons: int = DEFAULT_PERSONS) -> None:
    """The people as Parquet, and the code list as CSV."""
    columns = {name: values.astype(object) for name, values in census(persons).items()}
    with engine() as connection:
        copy_to_parquet(connection, data, columns)
    listed = census_places()
    with places.open("w", encoding="utf-8", newline="") as file:
        write_csv_rows(file, [listed, *zip(*listed.values(), strict=True)], line_end="\n")
