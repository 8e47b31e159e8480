"""D̂ and its variance at every value of a long attribute, without a row of numbers for each.

With the prefix sums F(t), their last one N, and p,

    D(t) = F(t) − pN,   V[D(t)] = V[F(t)] + p²V[N] − 2p Cov(F(t), N).

Variances of prefix sums are had at any length. So is the covariance with N of series; elsewhere it
follows from the variances of the sums from the other end, G(t) = N − F(t):

    2 Cov(F(t), N) = V[F(t)] + V[N] − V[G(t)].

In the middle of a value with the count c, D is the mean of D before and D after it, and its
variance ½(V before + V after) − ¼V[c]. All of it is exact, as with the rows written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array
from noiseplan.queries import Custom, Factor, Identity, Prefix, Query, Total
from noiseplan.queries.factors import Permuted
from noiseplan.schema import Attribute
from noiseplan.statistics.asked_groups import together
from noiseplan.statistics.attribute_values import counted

if TYPE_CHECKING:
    from noiseplan.release.release import Release

# Values of all groups together.
MOST_PLACES: Final = 10_000_000


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
