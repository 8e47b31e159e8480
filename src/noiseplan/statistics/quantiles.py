"""Quantiles and medians, by inverting a test at every value.

    D(t) = how many have a value up to t, less p times all of them

is linear in the counts, so its noise has a known variance V(t). A p-quantile is a number with at
most pN records below it and at least pN up to it. If it is value k, or lies in bin k, then

    D(k − 1) ≤ 0 ≤ D(k).

So k is left out of the interval where D̂(k) < −z√V(k), or D̂(k − 1) > z√V(k − 1). Each of the two
happens at the k of the true quantile with at most half the probability 1 − level, whatever the
noise makes of the other values, and even where the noisy distribution function is not monotone. The
interval reaches from the first to the last k that is left, and where these are bins, from the
lower edge of the first to the upper edge of the last: counts tell nothing of places inside a bin.

What is interpolated inside a bin takes its records to lie evenly. It is an extra, and no error of
it is known.

References
----------
Woodruff (1952), Confidence intervals for medians and other position measures.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import QueryError, remedy
from noiseplan.matrices.base import Array
from noiseplan.queries import Custom, Factor, Identity, Prefix, Query, Total
from noiseplan.queries.factors import Permuted
from noiseplan.schema import Attribute, Binned, Hierarchical, Schema
from noiseplan.schema.labels import IN_BINS, IN_ORDER
from noiseplan.statistics.asked_groups import Asked, answerable, called, factors_of, together
from noiseplan.statistics.attribute_values import (
    about_labels,
    about_missing,
    bin_ends,
    counted,
    measured_attribute,
    of_a_hierarchy,
    ordered_codes,
)
from noiseplan.statistics.statistic import (
    EXTRA,
    Figures,
    Intervals,
    Mask,
    Statistic,
    interpolated,
    too_small,
)

if TYPE_CHECKING:
    from noiseplan.release.release import Release

# Values of an attribute whose steps are written out: 200 MB of rows.
MOST_WRITTEN: Final = 5_000
_METHOD: Final = "intervals by inverting exact tests at every {} (Woodruff)"

# Values of all groups together.
MOST_PLACES: Final = 10_000_000


@dataclass(frozen=True, eq=False)
class Curve:
    """D̂ and its standard error before and behind every value: groups × (n + 1)."""

    p: float
    d: Array
    error: Array

    @property
    def total(self) -> Array:
        """Estimated records of every group: D at the last end less D at the first."""
        return self.d[:, -1] - self.d[:, 0]

    def small(self, z: float) -> Mask:
        """The groups whose total, of error √V(0)/p, is not above what noise alone can make."""
        return np.asarray(self.total <= z * self.error[:, 0] / self.p)

    def crossing(self) -> NDArray[np.intp]:
        """The value in which D̂ crosses zero, of every group with a positive total.

        Where it crosses several times, that in which the nearest monotone function does: it is
        below zero up to where the sum of D̂ is least.
        """
        # Of a group without records D̂ need not cross zero upward: it has no estimate anyway.
        last = self.d.shape[1] - 2
        return np.asarray(np.minimum(np.argmin(np.cumsum(self.d, axis=1), axis=1), last))

    def reached(self, z: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first and last value, of every group, with D̂ ≥ −z√V behind and D̂ ≤ z√V before it;
        all values of groups that are small."""
        reach, small = z * self.error, self.small(z)[:, None]
        possible = (self.d[:, 1:] >= -reach[:, 1:]) & (self.d[:, :-1] <= reach[:, :-1]) | small
        last = possible.shape[1] - 1
        return np.argmax(possible, axis=1), last - np.argmax(possible[:, ::-1], axis=1)


# The quantile of every group and how far its interval reaches, as places along the attribute.
Places = tuple[Array, Array, Array]


def quantile(
    release: Release,
    attribute: str,
    probabilities: Sequence[float] | float | None,
    by: Asked,
    how: Intervals,
) -> Statistic:
    """Quantiles of an ordered attribute for every group, one row for each probability.

    Without probabilities the median, and no column that says so. Of bins the interval holds whole
    bins, and the estimate is interpolated.
    """
    schema, factors = release.schema, factors_of(by, release.schema)
    kind = measured_attribute(schema, attribute)
    _check_ordered(schema, attribute)
    asked = [0.5] if probabilities is None else _checked_probabilities(probabilities)
    groups = Query(schema, factors)
    binned = isinstance(kind, Binned)
    word = "median" if probabilities is None else "quantile"
    name = called(f"{word}({attribute})", groups)
    z = how.reach(groups.rows * len(asked), release.plan.privacy.laplace)
    summed = attribute if kind.size > MOST_WRITTEN else ""
    with answerable(release, name, [{attribute: Identity()}, factors], summed):
        curves = _curves(release, attribute, asked, factors)
    found = [(_binned if binned else _ordinal)(kind, curve, z) for curve in curves]
    figures = [_figures(kind, np.stack(each, axis=1).ravel()) for each in zip(*found, strict=True)]
    small = np.stack([curve.small(z) for curve in curves], axis=1)
    return Statistic(
        name,
        _cells(groups, None if probabilities is None else asked),
        figures[0],
        figures[1],
        figures[2],
        _method(attribute, kind),
        None,
        how.level,
        how.simultaneous,
        release.origin,
        release.provenance.warning,
        (*too_small(small, z), *_in_open_bins(figures[0], small), *release.left_out),
        binned,
    )


def _method(name: str, attribute: Attribute) -> str:
    binned = isinstance(attribute, Binned)
    said = [_METHOD.format("edge" if binned else "value"), about_missing(name, attribute)]
    said.append(EXTRA if binned else about_labels(name, attribute))
    return "; ".join(filter(None, said))


def _check_ordered(schema: Schema, name: str) -> None:
    attribute = schema[name]
    if isinstance(attribute, Hierarchical):
        raise of_a_hierarchy(schema, name)
    if not attribute.ordered:
        raise QueryError(
            f"quantiles need an ordered attribute, and {name!r} is {attribute.describe()}: declare "
            f"it as " + IN_ORDER + " or " + IN_BINS
        )


def _checked_probabilities(asked: Sequence[float] | float) -> list[float]:
    listed: list[Any] = list(np.atleast_1d(np.asarray(asked, dtype=object)))
    for p in listed:
        if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 0 < p < 1:
            raise QueryError(
                "a quantile has a probability between 0 and 1, as in "
                + remedy("argument", "quantile('age', [0.25, 0.75])", "quantile(age, 0.25, 0.75)")
                + f"; found {p!r}"
            )
    if not listed:
        raise QueryError("no quantile is asked for; name some, as in quantile('age', [0.25, 0.75])")
    return [float(p) for p in listed]


def _cells(groups: Query, asked: Sequence[float] | None) -> dict[str, list[Hashable]]:
    """Labels of all rows: the probabilities of each group one after another."""
    if asked is None:
        return groups.row_labels()
    cells: dict[str, list[Hashable]] = {
        f"{name} (attribute)" if name == "quantile" else name: [
            label for label in labels for _ in asked
        ]
        for name, labels in groups.row_labels().items()
    }
    return cells | {"quantile": list[Hashable](asked) * groups.rows}


# ---------------------------------------------------------------------- from counts to places


def steps(attribute: Attribute) -> Array:
    """Rows that count the values before each value, in order, and all of them.

    Examples
    --------
    >>> from noiseplan.schema import Ordinal
    >>> steps(Ordinal(range(2))).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """
    codes = ordered_codes(attribute)
    rows = np.zeros((len(codes) + 1, attribute.size))
    rows[:, codes] = np.arange(len(rows))[:, None] > np.arange(len(codes))
    return rows


def _curves(
    release: Release, name: str, asked: Sequence[float], groups: Mapping[str, Factor]
) -> list[Curve]:
    if release.schema[name].size <= MOST_WRITTEN:
        return [_curve(release, name, p, groups) for p in asked]
    found = long_curves(release, name, asked, groups)
    return [Curve(p, *each) for p, each in zip(asked, found, strict=True)]


def _curve(release: Release, name: str, p: float, groups: Mapping[str, Factor]) -> Curve:
    """D̂ of every group: rows of steps less p times all."""
    attribute = release.schema[name]
    rows = steps(attribute) - p * counted(attribute)
    query = together({name: Custom(rows)}, groups, release.schema)
    answer, axis = release.answer(query), query.attributes.index(name)
    d, error = (
        np.moveaxis(each.reshape(query.shape), axis, -1).reshape(-1, len(rows))
        for each in (answer.estimate, answer.std_error)
    )
    return Curve(p, d, error)


def _ordinal(attribute: Attribute, curve: Curve, z: float) -> Places:
    """Positions in the order; no estimate where a group is too small."""
    first, last = (end.astype(float) for end in curve.reached(z))
    return np.where(curve.small(z), np.nan, curve.crossing()), first, last


def _binned(attribute: Attribute, curve: Curve, z: float) -> Places:
    """Numbers: where D̂ crosses zero, and the edges around all bins that the quantile may be in.

    An end bin is open if it has no end, or catches numbers beyond it: nothing is interpolated
    there, and an interval with it has no end.
    """
    assert isinstance(attribute, Binned)
    left, right = bin_ends(attribute)
    opened = np.isinf(right - left)
    first, last = curve.reached(z)
    lower, upper = left[first], right[last]
    rows, at, value = np.arange(len(first)), curve.crossing(), np.full(len(first), np.nan)
    closed = ~(curve.small(z) | opened[at])
    rows, at = rows[closed], at[closed]
    begin, end, before, after = left[at], right[at], curve.d[rows, at], curve.d[rows, at + 1]
    share = before / np.where(before < after, before - after, 1.0)
    value[rows] = interpolated(
        begin + share * (end - begin),
        np.where(np.isinf(lower[rows]), begin, lower[rows]),
        np.where(np.isinf(upper[rows]), end, upper[rows]),
    )
    return value, lower, upper


# ---------------------------------------------------------------------- from places to values


def _figures(attribute: Attribute, places: Array) -> Figures:
    """Numbers, or the labels of an attribute whose values are none."""
    if isinstance(attribute, Binned):
        return places
    labels = [attribute.labels[code] for code in ordered_codes(attribute)]
    chosen = [None if np.isnan(place) else labels[int(place)] for place in places]
    if all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels):
        return np.array([np.nan if value is None else value for value in chosen], dtype=float)
    return list[Hashable](chosen)


def _in_open_bins(estimate: Figures, small: Mask) -> tuple[str, ...]:
    if not isinstance(estimate, np.ndarray):
        return ()
    found = int(np.count_nonzero(np.isnan(estimate) & ~small.ravel()))
    if not found:
        return ()
    return (f"no estimate inside an open end bin ({found:,} of {small.size:,})",)


# ---------------------------------------------------------------------- long attributes
#
# D̂ and its variance at every value of a long attribute, without a row of numbers for each.
#
# With the prefix sums F(t), their last one N, and p,
#
#     D(t) = F(t) − pN,   V[D(t)] = V[F(t)] + p²V[N] − 2p Cov(F(t), N).
#
# Variances of prefix sums are had at any length. So is the covariance with N of series; elsewhere
# it follows from the variances of the sums from the other end, G(t) = N − F(t):
#
#     2 Cov(F(t), N) = V[F(t)] + V[N] − V[G(t)].
#
# All of it is exact, as with the rows written out.


def long_curves(
    release: Release, name: str, asked: Sequence[float], groups: Mapping[str, Factor]
) -> Iterator[tuple[Array, Array]]:
    """D̂ and its standard error before and behind every value, for every p."""
    _check_size(release, name, groups)
    sums, spread = _along(release, name, Prefix(), groups)
    shared = _with_total(release, name, groups, spread)
    for p in asked:
        own = _from_zero(spread) + p**2 * spread[:, -1:] - 2 * p * _from_zero(shared)
        yield _from_zero(sums) - p * sums[:, -1:], np.sqrt(np.maximum(own, 0.0))


def _check_size(release: Release, name: str, groups: Mapping[str, Factor]) -> None:
    rows, most = Query(release.schema, groups).rows, MOST_PLACES // release.schema[name].size
    if rows > most:
        raise QueryError(
            f"quantiles of {name!r}, which has {release.schema[name].size:,} values, are had for "
            f"up to {most:,} groups at once, and these are {rows:,}: ask for some of them at a "
            f"time, by naming values"
        )


def _along(
    release: Release, name: str, factor: Factor, groups: Mapping[str, Factor]
) -> tuple[Array, Array]:
    """Estimates and variances of the rows of a factor, groups × rows."""
    query = together({name: factor}, groups, release.schema)
    answer, axis = release.answer(query), query.attributes.index(name)
    estimate, error = (
        np.moveaxis(each.reshape(query.shape), axis, -1).reshape(-1, query.shape[axis])
        for each in (answer.estimate, answer.std_error)
    )
    return estimate, error**2


def _with_total(release: Release, name: str, groups: Mapping[str, Factor], spread: Array) -> Array:
    """Cov(F(t), N) of every group, groups × values, where the variances of F are `spread`."""
    attribute = release.schema[name]
    whole = Total() if attribute.missing is None else Custom(counted(attribute)[None])
    try:
        return np.stack(
            [
                release.covariance(
                    together({name: Prefix()}, group, release.schema),
                    together({name: whole}, group, release.schema),
                )[:, 0]
                for group in _one_by_one(release, groups)
            ]
        )
    except QueryError:  # too large to be written out, but for series
        _, other = _along(release, name, _from_the_end(attribute), groups)
    beyond = np.pad(other[:, -2::-1], ((0, 0), (0, 1)))  # G(t) = N − F(t), nothing at the last t
    return np.asarray((spread + spread[:, -1:] - beyond) / 2)


def _one_by_one(release: Release, groups: Mapping[str, Factor]) -> Iterator[dict[str, Factor]]:
    """Every group alone: one row of each factor."""
    query = Query(release.schema, groups)
    for places in np.ndindex(query.shape):
        rows = zip(query.factors, query.matrices(), places, strict=True)
        yield {name: Custom(matrix.take(np.array([row]))) for name, matrix, row in rows}


def _from_the_end(attribute: Attribute) -> Factor:
    """Sums of the last values, one more in every row; the cell of missing values stays apart."""
    stated = attribute.stated
    return Permuted(Prefix(), (*range(stated - 1, -1, -1), *range(stated, attribute.size)))


def _from_zero(sums: Array) -> Array:
    return np.pad(sums, ((0, 0), (1, 0)))
