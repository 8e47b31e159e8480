"""Data that the demonstration and the documentation use: a survey of 61,395 US workers, studies of
it, and a made-up population for larger cases.

Where the survey comes from, and what its columns mean, is told in ``README.md`` beside this file.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noiseplan.errors import NoiseplanError

if TYPE_CHECKING:
    from noiseplan.schema import Schema

__all__ = ["EXAMPLES", "cpssw8_path", "cpssw8_schema", "example_study"]

# A list, not a range: the survey asks for the level of schooling, which the extract codes in years.
_EDUCATION_YEARS = (6, 8, 9, 10, 11, 12, 13, 14, 16, 18, 19, 20)

# Studies that are shipped, and what each is about.
EXAMPLES: Final = {
    "wages": "the survey of 61,395 workers",
    "population": "a made-up population with places, households and ages",
    "census": "a made-up census of 60,000 people, in blocks up to the nation",
}


def example_study(name: str) -> Path:
    """Path of a study file that is shipped: ``"wages"``, ``"population"`` or ``"census"``.

    Examples
    --------
    >>> example_study("wages").name
    'wages.toml'
    """
    if name not in EXAMPLES:
        raise NoiseplanError(f"no example {name!r}; there are {', '.join(EXAMPLES)}")
    return Path(str(files(__name__) / f"{name}.toml"))


def cpssw8_path() -> Path:
    """Path of the shipped survey sample, a Parquet file of 61,395 rows.

    Examples
    --------
    >>> cpssw8_path().name
    'cpssw8.parquet'
    """
    return Path(str(files(__name__) / "cpssw8.parquet"))


def cpssw8_schema() -> Schema:
    """Schema of the survey sample, declared from its published description.

    Returns
    -------
    Schema
        ``gender`` (2 values), ``age`` (21 to 64), ``region`` (4), ``education`` (12 levels, in
        years) and ``earnings`` (16 bins of 5 dollars an hour): 67,584 cells.

    Notes
    -----
    *Privacy.* Nothing here is computed from the rows. Ages, regions and education levels are those
    the survey extract is defined by; the earnings bins are round numbers chosen beforehand.

    Examples
    --------
    >>> cpssw8_schema().shape
    (2, 44, 4, 12, 16)
    """
    # Imported here so that asking for the path costs nothing.
    from noiseplan.schema import Binned, Categorical, Ordinal, Schema

    return Schema(
        {
            "gender": Categorical(["female", "male"]),
            "age": Ordinal(range(21, 65)),
            "region": Categorical(["Northeast", "Midwest", "South", "West"]),
            "education": Ordinal(_EDUCATION_YEARS),
            "earnings": Binned(range(0, 81, 5)),
        }
    )
