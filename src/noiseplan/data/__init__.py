"""The survey that the demonstration and the documentation use: 61,395 US workers.

Where it comes from, and what its columns mean, is told in ``README.md`` beside this file.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseplan.schema import Schema

__all__ = ["cpssw8_path", "cpssw8_schema"]

# A list, not a range: the survey asks for the level of schooling, which the extract codes in years.
_EDUCATION_YEARS = (6, 8, 9, 10, 11, 12, 13, 14, 16, 18, 19, 20)


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
