"""The one place here that looks inside: how mechanisms measure, and what they ask noise of."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from inspect import isabstract
from math import prod
from typing import Any
from unittest import mock

import numpy as np

import noiseplan as nz
from noiseplan.choosing import which_family
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.partition import bucket_tree
from noiseplan.mechanisms.partition.bucket_tree import storey_price
from noiseplan.noise import Noise, NoiseSampler
from noiseplan.noise.law import NAMED
from noiseplan.noise.moments import discrete_gaussian_variance, discrete_laplace_variance
from noiseplan.noise.samplers import sampler_for
from noiseplan.planning import planner
from noiseplan.planning.candidate import Planner
from noiseplan.planning.planners import named

Array = np.ndarray[Any, Any]
SUMMED = 1000.0  # laws of larger parameters are too long to be written out
# By the noise of a plan: the law, and whether it is drawn exactly.
NOISES = {
    "gaussian": ("gaussian", False),
    "discrete": ("gaussian", True),
    "laplace": ("laplace", False),
    "discrete Laplace": ("laplace", True),
}


@contextmanager
def limits(
    *,
    written_out: int | None = None,
    whole: int | None = None,
    direct: int | None = None,
    compared: int | None = None,
) -> Iterator[None]:
    """Plan small domains as large ones are: as products, over fewer cells, buckets in storeys,
    compared by no matrices over all cells."""
    with ExitStack() as held:
        if compared is not None:
            held.enter_context(mock.patch.object(which_family, "EXPLICIT_CELLS", compared))
        if written_out is not None:
            held.enter_context(mock.patch.object(named, "WRITTEN_OUT", written_out))
        if whole is not None:
            for law, family in planner.FAMILIES.items():
                every = tuple(_over_fewer(p, whole) for p in family.every)
                scaled = replace(family.scaled, most_cells=whole)
                fewer = replace(family, every=every, scaled=scaled)
                held.enter_context(mock.patch.dict(planner.FAMILIES, {law: fewer}))
        if direct is not None:
            few = {"DIRECT": direct, "TOP": direct // 2, "BRANCHES": 3}
            held.enter_context(mock.patch.multiple(bucket_tree, **few))
        yield


def _over_fewer(each: Planner, cells: int) -> Planner:
    return each if each.most_cells is None else replace(each, most_cells=cells)


# ------------------------------------------------------------------------------ laws by definition


@cache
def law_variance(law: str, parameter: float, exact: bool) -> float:
    """The variance of noise of σ² or b, for exact noise by summing over its law.

    Beyond what can be summed integers differ from all numbers by less than e^{−2π²σ²}, or, for
    Laplace noise, by 1/6 and less than 1/(100 b²).
    """
    if not exact or parameter == 0 or parameter > SUMMED:
        gap = 1 / 6 if exact and parameter > SUMMED else 0.0
        return parameter if law == "gaussian" else 2 * parameter**2 - gap
    values, chances = law_table(law, parameter)
    return float(values**2 @ chances)


def law_table(law: str, parameter: float) -> tuple[Array, Array]:
    """All integers that are ever drawn, and their chances: ∝ e^{−k²/(2σ²)}, or ∝ e^{−|k|/b}."""
    assert parameter <= SUMMED
    reach = int(40 * np.sqrt(parameter) if law == "gaussian" else 750 * parameter) + 40
    values = np.arange(-reach, reach + 1).astype(np.float64)
    energy = values**2 / (2 * parameter) if law == "gaussian" else np.abs(values) / parameter
    weights = np.exp(-energy)
    return values, weights / weights.sum()


# ------------------------------------------------------------------------------ noise


def draws(noise: str, parameter: float, count: int, seed: int | None) -> Array:
    """So many draws of the noise that a plan calls so, of σ² or b, as a mechanism makes them."""
    law, exact = NOISES[noise]
    return np.asarray(sampler_for(noise, seed)((count,), Noise(law, parameter, exact)))


def side_by_side(noise: str, parameters: Array, rows: int, seed: int) -> Array:
    """Exact noise of several parameters at once, one for each column."""
    law, exact = NOISES[noise]
    drawn = Noise(law, parameters, exact)
    return np.asarray(sampler_for(noise, seed)((rows, len(parameters)), drawn))


def promise(noise: str, seed: int | None) -> tuple[bool, str]:
    """Whether the noise may be published, and what readers are told of it."""
    sampler = sampler_for(noise, seed)
    return sampler.private, sampler.brand


def stated_variances(noise: str, parameter: float) -> list[float]:
    """The variance of this noise, wherever the code states one."""
    law, exact = NOISES[noise]
    stated = [float(Noise(law, parameter, exact).variance[0])]
    if exact:
        by_moments = discrete_laplace_variance if law == "laplace" else discrete_gaussian_variance
        stated.append(float(by_moments(np.array([parameter]))[0]))
    return stated


def sampler_types() -> set[type]:
    """Every class that draws noise for releases, found by walking the package."""
    for module in pkgutil.walk_packages(importlib.import_module("noiseplan.noise").__path__):
        importlib.import_module(f"noiseplan.noise.{module.name}")
    return set(NoiseSampler.__subclasses__())


def sampler_type(noise: str) -> type:
    return type(sampler_for(noise, 1))


def noise_names() -> set[str]:
    """The names by which plans call noise that a release can draw."""
    return set(NAMED)


# ------------------------------------------------------------------------------ planners


def planner_names() -> tuple[set[str], set[str]]:
    """The names that `plan` knows for Gaussian noise, and for Laplace noise."""
    return {*planner.PLANNERS, "dawa"}, {*planner.PURE_PLANNERS, "dawa"}


# ------------------------------------------------------------------------------ one mechanism


class Tap(np.ndarray[Any, Any]):
    """Noise of zero that notes what it is added to, and how large it was to be."""

    places: Array
    sizes: Array
    note: Callable[[Array, Array, Array], None]

    @classmethod
    def of(cls, places: Array, sizes: Array, note: Callable[[Array, Array, Array], None]) -> Tap:
        made = np.zeros(places.shape, np.int64).view(cls)
        made.places, made.sizes, made.note = places, sizes, note
        return made

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        (other,) = (np.asarray(each) for each in inputs if not isinstance(each, Tap))
        assert ufunc is np.add, "noise is added, and nothing else"
        self.note(self.places, other, self.sizes)
        return np.add(other, np.zeros(other.shape, other.dtype), **options)


@dataclass(frozen=True, eq=False)
class Probe:
    """What a plan's mechanism does to single records and single units of noise."""

    plan: Any

    @property
    def mechanism(self) -> Mechanism:
        made: Mechanism = self.plan.mechanism
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.plan.schema.shape)

    @property
    def law(self) -> str:
        return NOISES[self.plan.noise][0]

    @property
    def exact(self) -> bool:
        return NOISES[self.plan.noise][1]

    @property
    def cost(self) -> float:
        """What the plan states: 2ρ, or ε for Laplace noise."""
        privacy = self.plan.privacy
        return float(privacy.pcost if self.law == "gaussian" else privacy.pure_epsilon)

    def recomputed_cost(self, neighbours: Any) -> float:
        """What the code computes from the mechanism alone, whatever a plan says: 2ρ, or ε."""
        found = cost_of([self.mechanism], neighbours)
        return float(found.pcost if self.law == "gaussian" else found.pure_epsilon or 0.0)

    def measured(self, counts: Array, sample: Callable[..., Any]) -> tuple[Measurements, list[Any]]:
        """Measured with this noise, and the sets of attributes that were counted by."""
        sets: list[tuple[int, ...]] = []

        def marginals(asked: Array) -> Array:
            sets.extend(tuple(row) for row in asked.tolist())
            axes = [tuple(set(range(len(self.shape))) - set(row)) for row in asked.tolist()]
            return np.array([counts.sum(axis=out) for out in axes])

        return self.mechanism.measure(marginals, sample), sets

    def with_noise(self, counts: Array, noise: Array | None = None) -> Measurements:
        """Measured with these numbers for the noise, in the order in which they are drawn."""
        given = 0

        def sample(shape: tuple[int, ...], asked: Noise) -> Array:
            nonlocal given
            assert (asked.law, asked.exact) == (self.law, self.exact)
            count = prod(shape)
            drawn = np.zeros(count) if noise is None else noise[given : given + count]
            given += count
            assert len(drawn) == count
            return drawn.astype(np.int64 if self.exact else np.float64).reshape(shape)

        return self.measured(counts, sample)[0]

    def integers(self, counts: Array) -> list[int]:
        """List the integers that noise is added to, in the order of drawing."""
        seen: dict[int, int] = {}
        drawn = 0

        def note(places: Array, numbers: Array, sizes: Array) -> None:
            assert numbers.dtype.kind in "iO", "exact noise is added to integers"
            seen.update(zip(places.flat, map(int, numbers.flat), strict=True))

        def sample(shape: tuple[int, ...], noise: Noise) -> Tap:
            nonlocal drawn
            places = np.arange(drawn, drawn + prod(shape)).reshape(shape)
            drawn += prod(shape)
            return Tap.of(places, np.broadcast_to(noise.size, shape).copy(), note)

        self.measured(counts, sample)
        return [seen[place] for place in range(drawn)]

    def answer(self, measured: Measurements, query: nz.Query) -> Array:
        return np.asarray(self.mechanism.answer(measured, query))

    @cached_property
    def _tapped(self) -> tuple[Array, Array]:
        found = [self._tap(cell) for cell in range(prod(self.shape))]
        assert all(np.array_equal(sizes, found[0][1]) for _, sizes in found), "noise knows no data"
        return np.array([rows for rows, _ in found]).T, found[0][1]

    def _tap(self, cell: int) -> tuple[Array, Array]:
        counts = np.zeros(self.shape, np.int64)
        counts.flat[cell] = 1
        seen: dict[int, tuple[float, float]] = {}
        drawn = 0

        def note(places: Array, numbers: Array, sizes: Array) -> None:
            assert numbers.shape == places.shape, "one draw for every number"
            for place, *pair in zip(places.flat, numbers.flat, sizes.flat, strict=True):
                assert place not in seen, "noise is used once"
                seen[int(place)] = (float(pair[0]), float(pair[1]))

        def sample(shape: tuple[int, ...], noise: Noise) -> Tap:
            nonlocal drawn
            places = np.arange(drawn, drawn + prod(shape)).reshape(shape)
            drawn += prod(shape)
            return Tap.of(places, np.broadcast_to(noise.size, shape).copy(), note)

        self.measured(counts, sample)
        assert set(seen) == set(range(drawn)), "all noise that is drawn is added to something"
        numbers, sizes = np.array([seen[place] for place in range(drawn)]).reshape(-1, 2).T
        return numbers, sizes

    @property
    def rows(self) -> Array:
        """Every measured number as a row over all cells."""
        return self._tapped[0]

    @property
    def sizes(self) -> Array:
        """σ² or b of the noise on every number."""
        return self._tapped[1]

    @property
    def draw_variances(self) -> Array:
        """The variance of every draw."""
        return np.array([law_variance(self.law, float(size), self.exact) for size in self.sizes])

    def noise_map(self, queries: Sequence[nz.Query]) -> Array:
        """Rows of all queries × draws: what one unit of each draw does to the answers."""
        nothing = np.zeros(self.shape, np.int64)
        columns = []
        for unit in np.eye(len(self.sizes)):
            measured = self.with_noise(nothing, unit)
            columns.append(np.concatenate([self.answer(measured, q) for q in queries]))
        return np.array(columns).T

    def brute_cost(self, neighbours: str) -> float:
        """2ρ or ε by its definition: every record, or every pair of records."""
        columns = self.rows.T
        if neighbours == "replace":
            columns = np.concatenate([column - columns for column in columns])
        size = columns**2 if self.law == "gaussian" else np.abs(columns)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(size > 1e-18, size / self.sizes, 0.0)
        return float(terms.sum(axis=1).max(initial=0.0))


# ------------------------------------------------------------------------------ data-aware plans


def bucket_noise(release: nz.Release, queries: Sequence[nz.Query]) -> list[Array]:
    """Variances of the noise of every row, given the buckets: one unit of noise at a time."""
    law, exact = NOISES[release.plan.noise]
    buckets = release.measurements.buckets
    nothing = np.zeros(int(buckets.edges[-1]), np.int64)
    given: list[Array] = []

    def zero(shape: tuple[int, ...], noise: Noise) -> Array:
        given.append(np.broadcast_to(noise.size, shape).ravel())
        return np.zeros(shape, np.int64 if exact else np.float64)

    buckets.measure(nothing, zero)
    parameters = np.concatenate(given)
    variances = [law_variance(law, float(parameter), exact) for parameter in parameters]
    cells = np.empty((len(nothing), len(parameters)))
    widths = np.diff(buckets.edges)
    for place in range(len(parameters)):
        totals = buckets.estimate(buckets.measure(nothing, _unit(place, exact)))
        cells[release.plan.mechanism.line.order, place] = np.repeat(totals / widths, widths)
    return [(query.dense() @ cells) ** 2 @ np.array(variances) for query in queries]


def _unit(place: int, exact: bool) -> Callable[..., Array]:
    given = 0

    def sample(shape: tuple[int, ...], noise: Noise) -> Array:
        nonlocal given
        drawn = np.zeros(prod(shape), np.int64 if exact else np.float64)
        if given <= place < given + len(drawn):
            drawn[place - given] = 1
        given += len(drawn)
        return drawn.reshape(shape)

    return sample


def storey_probe(storey: Noise) -> tuple[float, float, float]:
    """A storey's stated variance, its variance by the law, and how often a total is counted."""
    price = storey_price(storey)
    cost = float(price.pure_epsilon or 0.0) if storey.law == "laplace" else price.pcost
    by_law = law_variance(storey.law, storey.one, storey.exact)
    return float(storey.variance[0]), by_law, cost * storey.one


# ------------------------------------------------------------------------------ what there is


def parts_of(plan: Any, release: Any = None) -> set[type]:
    """The classes that measure for a plan: the mechanism's own, and those inside it."""
    mechanism = plan.mechanism
    inside = [mechanism, getattr(mechanism, "small", None), getattr(mechanism, "residuals", None)]
    if release is not None:
        inside.append(release.measurements.buckets)
    return {type(each) for each in inside if each is not None}


def measuring_classes() -> set[type]:
    """Every class of the package's mechanisms that measures, found by walking its modules."""
    found = set()
    for room in ("noiseplan.mechanisms",):
        for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            for each in vars(importlib.import_module(module.name)).values():
                own = isinstance(each, type) and each.__module__ == module.name
                if own and callable(getattr(each, "measure", None)) and not isabstract(each):
                    found.add(each)
    return found
