"""Means, shares and ratios: one count over another, with errors from their exact covariance.

Of R̂ = n/d with Var(n) = v, Var(d) = w and Cov(n, d) = c,

    standard error (delta method)   √(v − 2R̂c + R̂²w) / |d|
    interval (Fieller)              all r with (n − rd)² ≤ z²(v − 2rc + r²w)

At the true ratio n − rd has mean zero and exactly that variance, so the interval has its level
wherever the noise is normal, also where d is small. It is bounded if d is more than z standard
errors from zero; otherwise everything possible is in it, and no estimate is given.

References
----------
Fieller (1954), Some problems in interval estimation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array
from noiseplan.queries import Custom, Factor, Query
from noiseplan.queries.questions import read_question
from noiseplan.statistics.asked_groups import Asked, answerable, called, factors_of, together
from noiseplan.statistics.attribute_values import Values, about_missing, counted, numbers_of
from noiseplan.statistics.statistic import Intervals, Statistic, too_small

if TYPE_CHECKING:
    from noiseplan.release.release import Release

# Numbers in the covariance of numerators with denominators.
_MOST_PAIRS: Final = 25_000_000
_METHOD: Final = (
    "standard errors by the delta method and intervals by Fieller's, from the exact covariance"
)
_ANYTHING: Final = (-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class Fraction:
    """What is divided by what, how it is called, and what values it can have."""

    name: str
    numerator: Query
    denominator: Query
    possible: tuple[float, float] = _ANYTHING
    counts: bool = True  # whether denominators count records, and are negative by noise alone
    about: str = ""  # the numbers it is made of, in words


def mean(
    release: Release, attribute: str, by: Asked, values: Values | None, how: Intervals
) -> Statistic:
    """Σ v·count(v) / Σ count(v) over the values of an attribute, for every group."""
    schema, groups = release.schema, factors_of(by, release.schema)
    numbers, about = numbers_of(attribute, schema[attribute], values)
    if not numbers.any():
        raise QueryError(f"the mean of {attribute!r} is 0: all its values are")
    ones = counted(schema[attribute])
    weights = np.zeros_like(ones)
    weights[ones > 0] = numbers
    fraction = Fraction(
        called(f"mean({attribute})", Query(schema, groups)),
        together({attribute: Custom([weights], labels=["sum"])}, groups, schema),
        together({attribute: Custom([ones], labels=["all"])}, groups, schema),
        (float(numbers.min()), float(numbers.max())),
        about="; ".join(filter(None, [about, about_missing(attribute, schema[attribute])])),
    )
    return _divided(release, fraction, how, hidden=attribute)


def share(release: Release, what: Asked, by: Asked, how: Intervals) -> Statistic:
    """count(what in group) / count(group): adds up to 1 over all values of `what` in a group."""
    schema, groups = release.schema, factors_of(by, release.schema)
    parts = factors_of(what, schema)
    if not parts:
        raise QueryError("a share is that of the values of some attribute, as in share('sex')")
    denominator = Query(schema, groups)
    fraction = Fraction(
        called(f"share({Query(schema, parts).name})", denominator),
        together(parts, groups, schema),
        denominator,
        (0.0, 1.0) if all(map(_selects, parts.values())) else _ANYTHING,
    )
    return _divided(release, fraction, how)


def ratio(release: Release, what: Asked, other: Asked, by: Asked, how: Intervals) -> Statistic:
    """count(what in group) / count(other in group), row by row; `other` may have one row."""
    schema, groups = release.schema, factors_of(by, release.schema)
    pair = [_query(release, each, groups) for each in (what, other)]
    names = ", ".join(query.name for query in pair) if not groups else f"{what}, {other}"
    fraction = Fraction(
        called(f"ratio({names})", Query(schema, groups)), pair[0], pair[1], counts=False
    )
    return _divided(release, fraction, how)


def _query(release: Release, asked: Asked, groups: dict[str, Factor]) -> Query:
    """What is asked, for every group; a query of the workload by its name too."""
    if groups:
        return together(factors_of(asked, release.schema), groups, release.schema)
    if isinstance(asked, str):
        return read_question(asked, release.schema, release.plan.workload)
    return asked if isinstance(asked, Query) else Query(release.schema, asked)


def _selects(factor: Factor) -> bool:
    """Whether no row counts a record more than once or less than not at all."""
    return not isinstance(factor, Custom) or bool(
        (factor.values >= 0).all() and (factor.values <= 1).all()
    )


# ---------------------------------------------------------------------- the division


def _divided(
    release: Release, fraction: Fraction, how: Intervals, hidden: str | None = None
) -> Statistic:
    one, other = fraction.numerator, fraction.denominator
    beside = partners(one, other)
    if one.rows * other.rows > _MOST_PAIRS:
        raise QueryError(
            f"{fraction.name} has {one.rows:,} numbers over {other.rows:,}, and the covariance of "
            f"all of them is too large: ask for some groups at a time"
        )
    names = sorted({*one.attributes, *other.attributes}, key=release.schema.index)
    with answerable(release, fraction.name, names):
        above, below = release.answer(one), release.answer(other)
        covariance = release.covariance(one, other)[np.arange(one.rows), beside]
    variances = above.std_error**2, covariance, below.std_error[beside] ** 2
    z = how.reach(one.rows, above.laplace)
    size = below.estimate[beside] if fraction.counts else np.abs(below.estimate[beside])
    small = size <= z * below.std_error[beside]
    denominator = np.where(small, np.nan, below.estimate[beside])
    estimate, error = delta(above.estimate, denominator, variances)
    lower, upper = fieller(above.estimate, denominator, variances, z)
    least, most = fraction.possible
    return Statistic(
        fraction.name,
        {name: cells for name, cells in one.row_labels().items() if name != hidden},
        estimate,
        np.where(small, least, lower),
        np.where(small, most, upper),
        "; ".join(filter(None, [fraction.about, _METHOD])),
        error,
        how.level,
        how.simultaneous,
        release.origin,
        above.brand,
        too_small(small, z),
    )


def partners(one: Query, other: Query) -> IntArray:
    """Of every row of one query, the row of the other that is about the same group.

    Axes of attributes that the other sums over, or has one row of, are repeated.
    """
    rows = np.arange(other.rows)
    if other.rows == 1 or one.joint is not None or other.joint is not None:
        if other.rows not in (1, one.rows):
            raise QueryError(
                f"{one.name!r} has {one.rows:,} rows and {other.name!r} has {other.rows:,}: they "
                f"are divided row by row, or all by one"
            )
        return np.broadcast_to(rows, (one.rows,))
    sizes = dict(zip(other.attributes, other.shape, strict=True))
    foreign = [name for name in sizes if name not in one.attributes and sizes[name] > 1]
    shape = tuple(sizes.get(name, 1) for name in one.attributes)
    try:
        if foreign:
            raise ValueError
        return np.broadcast_to(rows.reshape(shape), one.shape).ravel()
    except ValueError:
        raise QueryError(
            f"{one.name!r} and {other.name!r} are not about the same groups: what is divided by "
            f"has one row, or the same rows, along each attribute"
        ) from None


def delta(n: Array, d: Array, variances: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """n/d and its standard error √(v − 2R̂c + R̂²w) / |d|."""
    v, c, w = variances
    r = n / d
    return r, np.sqrt(np.maximum(v - 2 * r * c + r**2 * w, 0.0)) / np.abs(d)


def fieller(
    n: Array, d: Array, variances: tuple[Array, Array, Array], z: float
) -> tuple[Array, Array]:
    """The ends of {r: (n − rd)² ≤ z²(v − 2rc + r²w)}, for d² > z²w.

    They are (b ∓ √(b² − ag))/a with a = d² − z²w, b = nd − z²c, g = n² − z²v. Large numbers cancel
    in the root, which is why it is written out: z²(d²v − 2ndc + n²w) − z⁴(vw − c²).

    Examples
    --------
    >>> exact = tuple(np.array([x]) for x in (4.0, 0.0, 0.0))  # the denominator is known
    >>> [end.item() for end in fieller(np.array([50.0]), np.array([100.0]), exact, 2.0)]
    [0.46, 0.54]
    """
    v, c, w = variances
    a, b = d**2 - z**2 * w, n * d - z**2 * c
    root = z**2 * (d**2 * v - 2 * n * d * c + n**2 * w) - z**4 * (v * w - c**2)
    half = np.sqrt(np.maximum(root, 0.0))
    return (b - half) / a, (b + half) / a
