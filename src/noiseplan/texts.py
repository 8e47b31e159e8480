"""Numbers and counts in words, as everything that is printed has them."""

from __future__ import annotations

import math


def counted(count: int, one: str, many: str = "") -> str:
    """So many things; `many` only where it is not `one` with an s.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(1200, "row")
    ('1 query', '1,200 rows')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def percent_up(share: float) -> str:
    """A share as a percentage of a few digits, rounded up: what is claimed as proved must be.

    Examples
    --------
    >>> percent_up(0.0101), percent_up(0.00123), percent_up(1e-7), percent_up(0.0)
    ('1.1', '0.123', '0.001', '0.000')
    """
    digits = 1 if share >= 0.01 else 3
    return f"{max(0.0, math.ceil(100 * share * 10**digits - 1e-9)) / 10**digits:.{digits}f}"
