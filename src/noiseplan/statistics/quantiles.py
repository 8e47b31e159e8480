"""Quantiles and medians, by inverting a test at every value.

    D(t) = how many have a value up to t, less p times all of them

is linear in the counts, so its noise has a known variance V(t). The p-quantile t₀ has D(t₀) = 0.
The interval reaches from the first to the last t with |D̂(t)| ≤ z√V(t): t₀ is one of these with the
probability `level`, whatever the noise makes of the other values, and even where the noisy
distribution function is not monotone. Nothing is said about single groups that is not true of t₀.

Inside a bin records are taken to lie evenly. D is then linear there, V quadratic, and the ends are
roots of quadratic equations. Values of an ordinal attribute are not divided: the quantile is the
first value k with D(k) ≥ 0, and k is left out of the interval if D̂(k) < −z√V(k), or
D̂(k − 1) > z√V(k − 1). Each of the two happens at the true quantile with half the probability
1 − level.

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
    about_missing,
    counted,
    edge_numbers,
    measured_attribute,
    of_a_hierarchy,
    ordered_codes,
)
from noiseplan.statistics.statistic import Figures, Intervals, Mask, Statistic, too_small

if TYPE_CHECKING:
    from noiseplan.release.release import Release

# Values of an attribute whose steps are written out: 400 MB of rows.
MOST_WRITTEN: Final = 5_000
_METHOD: Final = "intervals by inverting exact tests at every value (Woodruff)"
_EVENLY: Final = "records taken to lie evenly inside each bin"

# Values of all groups together.
MOST_PLACES: Final = 10_000_000


@dataclass(frozen=True, eq=False)
class Curve:
    """D̂ and its standard error at the ends and in the middle of every value: groups × (2n + 1)."""

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
        return np.asarray(np.argmin(np.cumsum(self.d[:, ::2], axis=1), axis=1))

    @property
    def zeros(self) -> Array:
        """Where D̂, or the line through it, is zero in every value: 0 at its begin, 1 at its end."""
        before, after = self.d[:, :-1:2], self.d[:, 2::2]
        with np.errstate(all="ignore"):
            return np.asarray(before / (before - after))

    def possible(self, z: float) -> Mask:
        """Whether D may be at least 0 behind a value and at most 0 before it, value by value."""
        d, reach = self.d[:, ::2], z * self.error[:, ::2]
        return np.asarray((d[:, 1:] >= -reach[:, 1:]) & (d[:, :-1] <= reach[:, :-1]))


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

    Without probabilities the median, and no column that says so.
    """
    schema, factors = release.schema, factors_of(by, release.schema)
    kind = measured_attribute(schema, attribute)
    _check_ordered(schema, attribute)
    asked = [0.5] if probabilities is None else _checked_probabilities(probabilities)
    groups = Query(schema, factors)
    word = "median" if probabilities is None else "quantile"
    name = called(f"{word}({attribute})", groups)
    z = how.reach(groups.rows * len(asked), release.plan.privacy.laplace)
    summed = attribute if kind.size > MOST_WRITTEN else ""
    with answerable(release, name, [{attribute: Identity()}, factors], summed):
        curves = _curves(release, attribute, asked, factors)
    places = _binned if isinstance(kind, Binned) else _ordinal
    found = [places(kind, curve, z) for curve in curves]
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
    )


def _method(name: str, attribute: Attribute) -> str:
    how = f"{_METHOD}, {_EVENLY}" if isinstance(attribute, Binned) else _METHOD
    return "; ".join(filter(None, [how, about_missing(name, attribute)]))


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
    """Rows that count the values before each end and up to the middle of each value, in order.

    Examples
    --------
    >>> from noiseplan.schema import Ordinal
    >>> steps(Ordinal(range(2))).tolist()
    [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [1.0, 0.5], [1.0, 1.0]]
    """
    codes = ordered_codes(attribute)
    rows = np.zeros((2 * len(codes) + 1, attribute.size))
    rows[:, codes] = np.clip((np.arange(len(rows))[:, None] - 2 * np.arange(len(codes))) / 2, 0, 1)
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
    small, possible = curve.small(z), curve.possible(z)
    last = possible.shape[1] - 1
    return (
        np.where(small, np.nan, curve.crossing()),
        np.where(small, 0, np.argmax(possible, axis=1)),
        np.where(small, last, last - np.argmax(possible[:, ::-1], axis=1)),
    )


def _binned(attribute: Attribute, curve: Curve, z: float) -> Places:
    """Numbers: where D̂ crosses zero, and from where to where D̂² ≤ z²V, bin by bin.

    An end bin is open if it has no end, or catches numbers beyond it. Nothing is known of places
    inside: it belongs to the interval as a whole or not at all.
    """
    left, right, opened = _bins(attribute)
    small, possible = curve.small(z), curve.possible(z)
    low, high = _reached(curve, z)
    low = np.where(opened, np.where(possible, 0.0, np.inf), low)
    high = np.where(opened, np.where(possible, 1.0, -np.inf), high)
    rows, at = np.arange(len(small)), curve.crossing()
    # Of a group without records D̂ need not cross zero upward: it has no estimate anyway.
    at = np.minimum(at, len(left) - 1)
    crossed = _place(curve.zeros[rows, at], left[at], right[at])
    return (
        np.where(small | opened[at], np.nan, crossed),
        np.where(small, left[0], np.where(low > 1, np.inf, _place(low, left, right)).min(axis=1)),
        np.where(small, right[-1], np.where(high < 0, -np.inf, _place(high, left, right)).max(1)),
    )


def _bins(attribute: Attribute) -> tuple[Array, Array, Mask]:
    """Where every bin begins and ends, infinite at an open end, and which bins are open."""
    assert isinstance(attribute, Binned)
    edges = edge_numbers(attribute)
    left, right = edges[:-1].copy(), edges[1:].copy()
    if attribute.clip:
        left[0], right[-1] = -np.inf, np.inf
    return left, right, np.isinf(right - left)


def _place(share: Array, left: Array, right: Array) -> Array:
    """The number that lies so far inside a bin; its ends are exact, also where they are ±∞."""
    with np.errstate(invalid="ignore"):
        inside = left + share * (right - left)
    return np.where(share <= 0, left, np.where(share >= 1, right, inside))


def _reached(curve: Curve, z: float) -> tuple[Array, Array]:
    """The first and last λ in [0, 1] of every bin with D̂(λ)² ≤ z²V(λ); ∞ and −∞ where none is.

    D̂(λ) = D₀ + λ(D₁ − D₀), and V(λ) = V₀ + λ(4V½ − 3V₀ − V₁) + 2λ²(V₀ − 2V½ + V₁). The ends of
    the set are those of the bin, or roots. Where D̂ is zero is always in it, roots rounded or not.
    """
    before, after = curve.d[:, :-1:2], curve.d[:, 2::2]
    v = z**2 * curve.error**2
    v0, middle, v1 = v[:, :-1:2], v[:, 1::2], v[:, 2::2]
    a = (after - before) ** 2 - 2 * (v0 - 2 * middle + v1)
    b = 2 * before * (after - before) - (4 * middle - 3 * v0 - v1)
    c = before**2 - v0
    with np.errstate(all="ignore"):  # no root, or no equation of second degree: NaN or ∞
        q = -(b + np.copysign(np.sqrt(b**2 - 4 * a * c), b)) / 2
        roots = np.stack([q / a, c / q, curve.zeros])
    ends = np.stack([np.where(c <= 0, 0.0, np.nan), np.where(after**2 <= v1, 1.0, np.nan)])
    found = np.concatenate([roots, ends])
    inside = (found >= 0) & (found <= 1)
    return (
        np.where(inside, found, np.inf).min(axis=0),
        np.where(inside, found, -np.inf).max(axis=0),
    )


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
# In the middle of a value with the count c, D is the mean of D before and D after it, and its
# variance ½(V before + V after) − ¼V[c]. All of it is exact, as with the rows written out.


def long_curves(
    release: Release, name: str, asked: Sequence[float], groups: Mapping[str, Factor]
) -> Iterator[tuple[Array, Array]]:
    """D̂ and its standard error at the ends and in the middle of every value, for every p."""
    _check_size(release, name, groups)
    sums, spread = _along(release, name, Prefix(), groups)
    _, cells = _along(release, name, Identity(), groups)
    shared = _with_total(release, name, groups, spread)
    for p in asked:
        d = _from_zero(sums) - p * sums[:, -1:]
        own = _from_zero(spread) + p**2 * spread[:, -1:] - 2 * p * _from_zero(shared)
        v = np.maximum(own, 0.0)
        middle = (v[:, :-1] + v[:, 1:]) / 2 - cells[:, : v.shape[1] - 1] / 4
        yield (
            _between(d, (d[:, :-1] + d[:, 1:]) / 2),
            np.sqrt(_between(v, np.maximum(middle, 0.0))),
        )


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


def _between(ends: Array, middles: Array) -> Array:
    """Ends and middles in turn."""
    found = np.empty((len(ends), ends.shape[1] + middles.shape[1]))
    found[:, ::2], found[:, 1::2] = ends, middles
    return found
