"""Means, shares and ratios: one count over another, with errors from their exact covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array
from noiseplan.queries import Custom, Factor, Identity, Levels, Prefix, Query, Ranges, Total
from noiseplan.queries.factors import Permuted
from noiseplan.queries.named_levels import Level
from noiseplan.queries.questions import read_question
from noiseplan.statistics.asked_groups import (
    Asked,
    answerable,
    as_asked,
    called,
    factors_of,
    together,
)
from noiseplan.statistics.attribute_values import (
    Values,
    about_missing,
    counted,
    measured_attribute,
    numbers_of,
)
from noiseplan.statistics.statistic import (
    EXTRA,
    Intervals,
    Mask,
    Statistic,
    interpolated,
    outward,
)

if TYPE_CHECKING:
    from noiseplan.release.answers import Answer
    from noiseplan.release.release import Release
    from noiseplan.schema import Attribute

# Numbers in the covariance of numerators with denominators.
_MOST_PAIRS: Final = 25_000_000
# Factors whose rows are known to count a record once or not at all, and numbers of other factors
# that are looked through for it.
_OF_ZEROS_AND_ONES: Final = (Identity, Total, Prefix, Ranges, Levels, Level)
_MOST_ENTRIES: Final = 5_000_000
_METHOD: Final = (
    "standard errors by the delta method and intervals by Fieller's, from the exact covariance"
)
_BINS: Final = "intervals by Fieller's of the means of lower and of upper edges"

Range: TypeAlias = tuple[float, float]
ANYTHING: Final[Range] = (-np.inf, np.inf)
# A share that is 1 by definition may come out as a little more.
ROUNDING: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Fraction:
    """What is divided by what, how it is called, and what values it can have."""

    name: str
    numerator: Query
    denominator: Query
    possible: Range = ANYTHING
    counts: bool = True  # whether denominators count records, and are negative by noise alone
    about: str = ""  # the numbers it is made of, in words


def mean(
    release: Release, attribute: str, by: Asked, values: Values | None, how: Intervals
) -> Statistic:
    """Σ v·count(v) / Σ count(v) over the values of an attribute, for every group.

    Of bins with the lower edges l, the upper edges u and the counts n the mean of the records is
    anywhere between

        L = Σ l·n / Σ n   and   U = Σ u·n / Σ n.

    The interval reaches from the lower end of Fieller's interval of L to the upper end of that of
    U. Each of the two ends is beyond L or U with at most half the probability 1 − level, so with
    the probability `level` all of [L, U] is inside, wherever records lie in their bins.
    """
    schema, groups = release.schema, factors_of(by, release.schema)
    kind, all_groups = measured_attribute(schema, attribute), Query(schema, groups)
    least, most, about = numbers_of(attribute, kind, values)
    binned = not np.array_equal(least, most)
    _check_numbers(attribute, least, most)
    if binned and not _adds(all_groups):
        raise QueryError(
            f"a mean of {attribute!r} has no bounds for groups that take records away: of bins "
            f"only the edges are known; name groups of records, as in by='region'"
        )
    name, ones = called(f"mean({attribute})", all_groups), counted(kind)
    below = together({attribute: Custom([ones], labels=["all"])}, groups, schema)
    about = "; ".join(filter(None, [about, about_missing(attribute, kind)]))

    def fraction(numbers: Array) -> Fraction:
        weights = np.zeros_like(ones)
        weights[ones > 0] = numbers
        above = together({attribute: Custom([weights], labels=["sum"])}, groups, schema)
        possible = (float(numbers.min()), float(numbers.max())) if _adds(all_groups) else ANYTHING
        return Fraction(name, above, below, possible, about=about)

    upto = fraction(most) if binned else None
    return _divided(release, fraction(least), how, attribute, upto)


def _check_numbers(name: str, least: Array, most: Array) -> None:
    if least.any() and most.any():
        return
    if least.any() or most.any():
        raise QueryError(
            f"the mean of {name!r} is between {least.min():g} and {most.max():g}: these are its "
            f"bounds whatever the counts are"
        )
    raise QueryError(f"the mean of {name!r} is 0: all its values are")


def share(release: Release, what: Asked, by: Asked, how: Intervals) -> Statistic:
    """count(what in group) / count(group): adds up to 1 over all values of `what` in a group."""
    schema, groups = release.schema, factors_of(by, release.schema)
    parts = factors_of(what, schema)
    if not parts:
        raise QueryError("a share is that of the values of some attribute, as in share('sex')")
    denominator, asked = Query(schema, groups), Query(schema, parts)
    within = _adds(denominator) and all(0 <= low <= high <= 1 for low, high in _entries(asked))
    fraction = Fraction(
        called(f"share({as_asked(asked)})", denominator),
        together(parts, groups, schema),
        denominator,
        (0.0, 1.0) if within else ANYTHING,
    )
    return _divided(release, fraction, how)


def ratio(release: Release, what: Asked, other: Asked, by: Asked, how: Intervals) -> Statistic:
    """count(what in group) / count(other in group), row by row; `other` may have one row."""
    schema, groups = release.schema, factors_of(by, release.schema)
    pair = [_query(release, each, groups) for each in (what, other)]
    names = ", ".join(query.name for query in pair) if not groups else f"{what}, {other}"
    fraction = Fraction(
        called(f"ratio({names})", Query(schema, groups)),
        pair[0],
        pair[1],
        (0.0, np.inf) if all(map(_adds, pair)) else ANYTHING,
        counts=False,
    )
    return _divided(release, fraction, how)


def _query(release: Release, asked: Asked, groups: dict[str, Factor]) -> Query:
    """What is asked, for every group; a query of the workload by its name too."""
    if groups:
        return together(factors_of(asked, release.schema), groups, release.schema)
    if isinstance(asked, str):
        return read_question(asked, release.schema, release.plan.workload)
    return asked if isinstance(asked, Query) else Query(release.schema, asked)


def _entries(query: Query) -> list[Range]:
    """The least and largest entry of each of its matrices."""
    if query.joint is not None:
        return [(float(query.joint.min()), float(query.joint.max()))]
    return [_of_factor(each, query.schema[name]) for name, each in query.factors.items()]


def _of_factor(factor: Factor, attribute: Attribute) -> Range:
    if isinstance(factor, Permuted):
        return _of_factor(factor.factor, attribute)
    if isinstance(factor, _OF_ZEROS_AND_ONES):
        return 0.0, 1.0
    rows = factor.matrix(attribute)
    if rows.shape[0] * rows.shape[1] > _MOST_ENTRIES:
        return ANYTHING
    return float(rows.dense().min()), float(rows.dense().max())


def _adds(query: Query) -> bool:
    """Whether no row takes away, so that no true answer is negative."""
    return all(least >= 0 for least, _ in _entries(query))


# ---------------------------------------------------------------------- the division


def _divided(
    release: Release,
    fraction: Fraction,
    how: Intervals,
    hidden: str | None = None,
    upto: Fraction | None = None,
) -> Statistic:
    """The fraction of every group; with `upto` all that is between the two of them."""
    one, possible = fraction.numerator, fraction.possible
    quotient, above = _quotient(release, fraction)
    z = how.reach(one.rows, above.laplace)
    lower, upper = _limits(quotient, fraction, z)
    estimate, error = quotient.delta()
    if upto is not None:
        other, _ = _quotient(release, upto)
        lower, upper = outward(lower, _limits(other, upto, z)[1])
        possible = possible[0], upto.possible[1]
        lower, upper = np.maximum(lower, possible[0]), np.minimum(upper, possible[1])
        with np.errstate(invalid="ignore"):  # without records but for noise
            estimate = interpolated((estimate + other.delta()[0]) / 2, lower, upper)
    untold = _untold(lower, upper, possible)
    estimate = np.where(untold, np.nan, estimate)
    method = _METHOD if upto is None else f"{_BINS}; {EXTRA}"
    return Statistic(
        fraction.name,
        {name: cells for name, cells in one.row_labels().items() if name != hidden},
        estimate,
        lower,
        upper,
        "; ".join(filter(None, [fraction.about, method])),
        None if upto is not None else np.where(untold, np.nan, error),
        how.level,
        how.simultaneous,
        release.origin,
        above.brand,
        (*_notes(untold, estimate, fraction.possible), *release.left_out),
        upto is not None,
    )


def _quotient(release: Release, fraction: Fraction) -> tuple[Quotient, Answer]:
    """What is divided, with its exact covariance; and the answer of the numerators."""
    one, other = fraction.numerator, fraction.denominator
    beside = partners(one, other)
    if one.rows * other.rows > _MOST_PAIRS:
        raise QueryError(
            f"{fraction.name} has {one.rows:,} numbers over {other.rows:,}, and the covariance of "
            f"all of them is too large: ask for some groups at a time"
        )
    with answerable(release, fraction.name, [one.factors, other.factors]):
        above, below = release.answer(one), release.answer(other)
        covariance = release.covariance(one, other)[np.arange(one.rows), beside]
    total, spread = below.estimate[beside], below.std_error[beside] ** 2
    return Quotient(above.estimate, total, above.std_error**2, covariance, spread), above


def _limits(quotient: Quotient, fraction: Fraction, z: float) -> tuple[Array, Array]:
    """The ends of its interval; all that is possible for groups without records but for noise."""
    ends = quotient.interval(z, fraction.possible)
    if not fraction.counts:
        return ends
    lower, upper = (
        np.where(quotient.d > 0, end, far) for end, far in zip(ends, fraction.possible, strict=True)
    )
    return lower, upper


def _untold(lower: Array, upper: Array, possible: Range) -> Mask:
    """Where the interval is all that is possible, and that is more than one number."""
    least, most = possible
    return np.asarray((lower <= least) & (upper >= most) & (least < most))


def _notes(untold: Mask, estimate: Array, possible: Range) -> tuple[str, ...]:
    """What a reader must know of single groups."""
    found = int(np.count_nonzero(untold))
    beyond = int(np.count_nonzero(~inside(estimate, possible) & ~np.isnan(estimate)))
    notes = []
    if found:
        notes.append(
            f"not determined ({found:,} of {untold.size:,}): the noise is too large for an "
            f"estimate, and the interval is all that is possible"
        )
    if beyond:
        notes.append(
            f"estimates beyond what is possible ({beyond:,} of {untold.size:,}) are so by noise "
            f"alone: read their intervals"
        )
    return tuple(notes)


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


# ---------------------------------------------------------------------- one number over another
#
# One noisy number over another: standard errors, and intervals within what is possible.
#
# Of R̂ = n/d with Var(n) = v, Var(d) = w and Cov(n, d) = c,
#
#     standard error (delta method)   √(v − 2R̂c + R̂²w) / |d|
#     T(r)                            (n − rd)² / (v − 2rc + r²w)
#     interval                        all possible r with T(r) ≤ z² + min T over possible r
#
# At the true ratio n − rd has mean zero and exactly that variance, so that T ≤ z² there with the
# probability `level` wherever the noise is normal, also where d is small: this is Fieller's
# interval. The minimum is 0 where R̂ is possible. Where noise made it impossible (a share of 1.1),
# Fieller's interval may hold nothing possible, or a sliver that pretends to be exact. What is added
# there is that of the test of likelihood ratios among possible r, so that the interval never is
# empty and never has less than its level. T has no other minimum than R̂, so that over other r the
# smallest is at an end.
#
# The interval is bounded if d is more than √(z² + min T) standard errors from zero; otherwise
# everything possible is in it.
#
# References
# ----------
# Fieller (1954), Some problems in interval estimation.


def inside(ratio: Array, possible: Range) -> NDArray[np.bool_]:
    """Whether ratios are possible, but for rounding."""
    beyond = np.abs(ratio - np.clip(ratio, *possible))
    return np.asarray(beyond <= ROUNDING * np.maximum(np.abs(ratio), 1.0))


@dataclass(frozen=True, eq=False)
class Quotient:
    """Numerators and denominators, the variances v and w of each, and their covariances c.

    Examples
    --------
    >>> n, d, v, c, w = (np.array([x]) for x in (50.0, 100.0, 4.0, 0.0, 0.0))
    >>> known = Quotient(n, d, v, c, w)  # the denominator is known
    >>> [end.item() for end in known.interval(2.0)]
    [0.46, 0.54]
    >>> [end.item() for end in known.interval(2.0, (0.5, 1.0))]
    [0.5, 0.54]
    """

    n: Array
    d: Array
    v: Array
    c: Array
    w: Array

    def delta(self) -> tuple[Array, Array]:
        """n/d and its standard error √(v − 2R̂c + R̂²w) / |d|."""
        with np.errstate(all="ignore"):
            r = self.n / self.d
            return r, np.sqrt(self._variance(r)) / np.abs(self.d)

    def interval(self, z: float, possible: Range = ANYTHING) -> tuple[Array, Array]:
        """The ends of {r possible: T(r) ≤ z² + min T}."""
        reach = z**2 + self._least(possible)
        bounded = self.d**2 > reach * self.w
        ends = self._roots(reach)
        return (
            np.where(bounded, np.clip(ends[0], *possible), possible[0]),
            np.where(bounded, np.clip(ends[1], *possible), possible[1]),
        )

    def _variance(self, r: Array | float) -> Array:
        """That of n − rd."""
        return np.maximum(self.v - 2 * r * self.c + r**2 * self.w, 0.0)

    def _least(self, possible: Range) -> Array:
        """The smallest T among possible ratios: 0 where R̂ is one, else that of an end."""
        with np.errstate(all="ignore"):
            r = self.n / self.d
            nearest = np.minimum(*(self._test(end) for end in possible))
        # Without noise nothing impossible is found, but for the rounding of the last digit.
        return np.where(inside(r, possible) | ~np.isfinite(nearest), 0.0, nearest)

    def _test(self, r: float) -> Array:
        """T(r); at ±∞ its limit d²/w."""
        if not np.isfinite(r):
            return np.asarray(self.d**2 / self.w)
        return np.asarray((self.n - r * self.d) ** 2 / self._variance(r))

    def _roots(self, reach: Array) -> tuple[Array, Array]:
        """Where T(r) = z², for d² > z²w.

        They are (b ∓ √(b² − ag))/a with a = d² − z²w, b = nd − z²c, g = n² − z²v. Large numbers
        cancel in the root, which is why it is written out: z²(d²v − 2ndc + n²w) − z⁴(vw − c²).
        """
        n, d, v, c, w = self.n, self.d, self.v, self.c, self.w
        a, b = d**2 - reach * w, n * d - reach * c
        root = reach * (d**2 * v - 2 * n * d * c + n**2 * w) - reach**2 * (v * w - c**2)
        half = np.sqrt(np.maximum(root, 0.0))
        with np.errstate(all="ignore"):
            return (b - half) / a, (b + half) / a
