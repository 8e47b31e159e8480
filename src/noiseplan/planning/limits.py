"""Where plans by one matrix over all cells begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from noiseplan.errors import PlanError

# Domains over which a plan may be one matrix: when asked for, and when tried unasked.
EXPLICIT_CELLS: Final = 4096
SMALL_CELLS: Final = 256
# With Laplace noise, when asked for.
LAPLACE_CELLS: Final = 2048
# Tried unasked, for other objectives than the total, only with so many rows and cells together.
SMALL_PROBLEM: Final = 1000
# A matrix is preferred if it has less than this share of the residual plan's objective; and where
# that is known at once, less than that.
WORTH_IT: Final = 0.99
BETTER: Final = 0.999
# Planners of one matrix that meet targets only, and all of them.
FITTED: Final = ("refined", "sm2")
EXPLICIT: Final = ("optimal", *FITTED)
# An attribute asked by levels that has more values than this is planned as a tree.
LONG_VALUES: Final = 256
# One asked by prefix sums or ranges that has more values than this is planned as a series.
SERIES_VALUES: Final = 1024
# Values told apart up to which matrices are searched for where no long attribute is planned: some
# minutes, and eight times as long for twice as many.
SEARCHED_VALUES: Final = 2048
# Gram matrices of one attribute are written down up to so many values that are told apart.
GRAM_VALUES: Final = 8192
# Plans that measure attributes by different rows are compared, and continue each other's releases,
# over so many cells of these, or where there are no more than so many cells in all.
COMPARED_CELLS: Final = 1024
COMPARED_IN_ALL: Final = 2048


@contextmanager
def double_precision() -> Iterator[None]:
    """Refuse in words what linear algebra cannot solve in double precision."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise PlanError(
            "the numbers of the queries, or their weights or targets, differ too much for double "
            "precision: give numbers within 12 orders of magnitude, or plan the queries one by one"
        ) from error
