"""How text writes numbers and missing values, where it has ways of its own.

What a file means by `NA` or `1.234,5` is declared, once for all its columns, and never guessed: a
number that is not written as declared is none, and a text that is both a declared value and a
spelling of missing is refused before a record is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from noiseplan.errors import DataError, remedy
from noiseplan.schema.attributes import Attribute
from noiseplan.schema.schema import Schema

DECIMALS: Final = (".", ",")
THOUSANDS: Final = ("", ",", ".", " ", "'", "_")
_SPACES: Final = " \u00a0\u202f"  # a space between digits is often one that does not break


@final
@dataclass(frozen=True)
class Spelling:
    """How text writes missing values and numbers; by default as most programs do."""

    missing: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS:
            raise DataError(f"decimal= is one of {_listed(DECIMALS)}; found {self.decimal!r}.")
        if self.thousands not in THOUSANDS or self.thousands == self.decimal:
            raise DataError(
                remedy("argument", "thousands=", "thousands")
                + f" is one of {_listed(THOUSANDS)}, and not what "
                + remedy("argument", "decimal=", "decimal")
                + f" is; found {self.thousands!r}."
            )

    @property
    def plain(self) -> bool:
        """Whether numbers are written as everywhere."""
        return self.decimal == "." and not self.thousands

    @property
    def between(self) -> str:
        """What may stand between groups of three digits, as a class of a regular expression."""
        marks = _SPACES if self.thousands == " " else self.thousands
        return f"[{marks}]" if marks else ""

    @property
    def number(self) -> str:
        """The regular expression of a number: groups are of three digits, or there are none."""
        grouped = f"|[0-9]{{1,3}}({self.between}[0-9]{{3}})+" if self.between else ""
        whole, part = f"([0-9]+{grouped})", f"[{self.decimal}][0-9]"
        return f"[+-]?({whole}({part}*)?|{part}+)([eE][+-]?[0-9]+)?"

    def as_number(self, text: str) -> float | None:
        """The number that a text writes.

        Examples
        --------
        >>> german = Spelling(decimal=",", thousands=".")
        >>> german.as_number("1.234,5"), german.as_number("1.5")
        (1234.5, None)
        """
        if not re.fullmatch(self.number, text.strip()):
            return None
        plain = re.sub(self.between, "", text.strip()) if self.between else text.strip()
        return float(plain.replace(self.decimal, "."))

    def begins_with_zero(self, text: str) -> bool:
        """Whether the first group of digits is zero, as no number with marks between them has."""
        return bool(self.between and re.match(rf"[+-]?0+{self.between}", text.strip()))

    def require_unambiguous(self, schema: Schema) -> None:
        """Refuse spellings of missing that some column declares as a value."""
        for name in schema.names:
            for text in self.missing:
                if self._is_value(text, schema[name]):
                    raise DataError(
                        f"{text!r} stands for a missing value in this file, and is a value of "
                        f"{name!r} ({schema[name].describe()}); a text means one thing: take it "
                        f"out of "
                        + remedy("argument", "missing=[…]", "[data] missing")
                        + ", or out of the values."
                    )

    def _is_value(self, text: str, attribute: Attribute) -> bool:
        values = getattr(attribute, "values", ())
        if text in values or (not isinstance(values, range) and text in map(str, values)):
            return True
        number = self.as_number(text)
        if number is None:
            return False
        (code,) = attribute.encode([number]).tolist()
        return code not in (attribute.unknown_code, attribute.null_code)


AS_USUAL: Final = Spelling()
OTHERS: Final = tuple(
    Spelling(decimal=decimal, thousands=mark)
    for decimal in DECIMALS
    for mark in THOUSANDS
    if mark != decimal
)
_MARKED: Final = re.compile(rf"[0-9][,.'_{_SPACES}][0-9]")


def misread(texts: Iterable[str], attribute: Attribute) -> bool:
    """Whether texts, read as usual, might be meant for other values of the attribute.

    They are written in one way, all of them: where one can only have a decimal point, all have.

    Examples
    --------
    >>> from noiseplan.schema import Binned
    >>> large, small = Binned([0, 100, 10_000]), Binned([0, 1, 10])
    >>> misread(["1.234"], large), misread(["1,234"], large), misread(["1.234"], small)
    (True, True, False)
    >>> misread(["1.234", "0.5"], large)
    False
    """
    marked = [text for text in set(texts) - set(map(str, attribute.labels)) if _MARKED.search(text)]
    usual = {text: text if (n := AS_USUAL.as_number(text)) is None else n for text in marked}
    for spelling in OTHERS:
        meant = [spelling.as_number(text) for text in marked if not spelling.begins_with_zero(text)]
        if len(meant) < len(marked) or None in meant:
            continue
        other = attribute.encode(meant)
        if ((other != attribute.encode(list(usual.values()))) & (other >= 0)).any():
            return True
    return False


def _listed(marks: Iterable[str]) -> str:
    return ", ".join(map(repr, marks))
