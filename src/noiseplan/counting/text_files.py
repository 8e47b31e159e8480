"""Text files together with how they write numbers and missing values."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from noiseplan.errors import DataError
from noiseplan.schema.spelling import Spelling


@final
@dataclass(frozen=True, init=False)
class TextFile:
    """A CSV file, or a pattern of several, and how it writes numbers and what is missing.

    Parameters
    ----------
    path
        As for plain text files.
    missing
        Texts that stand for a missing value in every column, such as ``["NA", "."]``. An empty
        field always does, unless it is declared as a value.
    decimal
        What stands before the fraction, ``"."`` or ``","``.
    thousands
        What may stand between groups of three digits: nothing, or one of ``, . ' _`` or a space.

    Examples
    --------
    >>> TextFile("people.csv", missing=["NA"], decimal=",")
    TextFile('people.csv', missing=['NA'], decimal=',')
    """

    path: str
    spelling: Spelling

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        missing: Iterable[str] = (),
        decimal: str = ".",
        thousands: str = "",
    ) -> None:
        listed = [missing] if isinstance(missing, str) else list(missing)
        if not all(isinstance(text, str) for text in listed):
            raise DataError(f"missing= lists texts, as in ['NA', '.']; found {listed!r}.")
        spelled = tuple(dict.fromkeys(text.strip() for text in listed))
        object.__setattr__(self, "path", os.fspath(path))
        object.__setattr__(self, "spelling", Spelling(spelled, decimal, thousands))

    def __repr__(self) -> str:
        own, said = self.spelling, f"TextFile({self.path!r}"
        said += f", missing={list(own.missing)!r}" if own.missing else ""
        said += f", decimal={own.decimal!r}" if own.decimal != "." else ""
        return said + (f", thousands={own.thousands!r})" if own.thousands else ")")
