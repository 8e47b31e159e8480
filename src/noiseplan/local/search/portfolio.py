"""Every mechanism by name, and the search for the best one.

Closed forms are looked up first. The search keeps the best of all it tries, by the variances that
will hold: classical mechanisms, subset selection, shifted patterns where the workload allows them,
and column generation from descents and classical starts. It is therefore never worse than any of
the classical ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, inf, isfinite
from typing import Any

import numpy as np

from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local.search.descent import Descent, descend, random_start
from noiseplan.local.search.generation import EXHAUSTIVE, Effort, Found, Goal, generate
from noiseplan.local.search.patterns import drawn, levels, nested
from noiseplan.local.search.shift_search import OrbitEffort, plan_orbits
from noiseplan.local.strategies import classical
from noiseplan.local.strategies.shifts import Group, ShiftStrategy, affine_design, groups_of
from noiseplan.local.strategies.strategy import Strategy, TableStrategy
from noiseplan.local.strategies.subsets import (
    SubsetStrategy,
    histogram_size,
    rappor,
    subset_selection,
)
from noiseplan.local.user_types import Types
from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import to_backend, to_numpy

OUTPUTS_PER_TYPE = 4
# Up to so many types the descents' strategies are taken apart and generated further.
GENERATED = 300
# Steps of a descent that is followed by generation, of one that is not, and from classical starts.
DESCENT_STEPS, LONE_STEPS, CLASSICAL_STEPS = 300, 600, 100
# From this ε on a descent of its own starts from anywhere: drawn shapes are then not always best.
LARGE_EPSILON = 1.5
# A block design has types × (types − 1) outputs; beyond this many types subsets are drawn instead.
LARGEST_DESIGN = 1024
# Up to so many types a search takes no time.
SHORT_REPORTS = 64
# Values this close are the same.
EQUAL = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be planned, and how hard to try."""

    types: Types
    epsilon: float
    prior: Array
    worst: bool = True
    effort: float = 1.0
    seed: int = 0
    backend: str = "numpy"
    numbered: bool = False  # whether reports must be numbers, not subsets

    def value(self, strategy: Strategy) -> float:
        """The worst variance of a type, or the mean under the prior; infinite without answers."""
        try:
            variances = strategy.total_moments(self.types.gram) - np.diagonal(self.types.gram)
        except UnanswerableError:
            return inf
        return float(variances.max() if self.worst else self.prior @ variances)


# ------------------------------------------------------------------------------ by name


def _table(
    name: str, make: Callable[..., Array], *, of_cells: bool = False
) -> Callable[..., Strategy]:
    """A table by name; of all cells where it needs 2^d, and types take the mean of their cells."""

    def build(task: Task, **options: Any) -> Strategy:
        types = task.types
        chances = make(len(types.kind) if of_cells else types.count, task.epsilon, **options)
        if of_cells and types.merged:
            member = (types.kind[:, None] == np.arange(types.count)).astype(np.float64)
            chances = chances @ (member / member.sum(axis=0))
        return TableStrategy.of(chances, task.epsilon, task.prior, name)

    return build


def _weighted_fourier(task: Task) -> Strategy:
    gram = task.types.gram[np.ix_(task.types.kind, task.types.kind)]
    return _table("weighted fourier", classical.weighted_fourier, of_cells=True)(task, gram=gram)


def _subset_selection(task: Task, size: int | None = None) -> Strategy:
    """Subsets of one size: the one asked for, or the best for the workload."""
    n = task.types.count
    if n == 1:
        raise PlanError("subset selection needs two types of users, and the workload has only one")
    if size is not None:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < n:
            raise PlanError(f"subset selection: size is 1 to {n - 1}, found {size!r}")
        return subset_selection(n, task.epsilon, size)
    likely = histogram_size(n, task.epsilon)
    sizes = range(1, n) if n <= 64 else range(max(likely // 2, 1), min(2 * likely + 2, n))
    return min((subset_selection(n, task.epsilon, k) for k in sizes), key=task.value)


def _rappor(task: Task) -> Strategy:
    return rappor(task.types.count, task.epsilon)


CLASSICAL: dict[str, Callable[..., Strategy]] = {
    **{name: _table(name, make) for name, make in classical.ORACLES.items()},
    "hierarchical": _table("hierarchical", classical.hierarchical),
    "fourier": _table("fourier", classical.fourier, of_cells=True),
    "weighted fourier": _weighted_fourier,
    "subset selection": _subset_selection,
    "rappor": _rappor,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in CLASSICAL},
    "hierarchical over hadamard": ("hierarchical", {"oracle": "hadamard"}),
    "hierarchical over randomized response": ("hierarchical", {"oracle": "randomized response"}),
    "fourier of order 1": ("fourier", {"order": 1}),
    "fourier of order 2": ("fourier", {"order": 2}),
    "fourier of order 3": ("fourier", {"order": 3}),
}


def named_classical(task: Task) -> Iterator[tuple[str, Strategy]]:
    """Every classical mechanism that can answer the workload, with its name."""
    for label, (name, options) in VARIANTS.items():
        try:
            strategy = CLASSICAL[name](task, **options)
        except PlanError:
            continue
        if isfinite(task.value(strategy)):
            yield label, strategy


# ------------------------------------------------------------------------------ the search


def best_strategy(task: Task) -> Found:
    """The best strategy of all that are tried."""
    if task.types.count == 1:  # nothing is asked but the number of users, which is public
        return Found(TableStrategy.of(np.ones((1, 1)), task.epsilon, name="constant"), 0.0)
    exact = _closed_form(task)
    if exact is not None:
        return Found(exact.rounded())
    known = [strategy for _, strategy in named_classical(task)]
    found = list(_shifted(task)) or _searched(task, min(known, key=task.value))
    found += [Found(s) for s in known if not (task.numbered and isinstance(s, SubsetStrategy))]
    values = [task.value(f.strategy) for f in found]
    # Of equals the first: a table or shifts, whose reports are shorter than subsets.
    best = next(f for f, value in zip(found, values, strict=True) if value <= min(values) * EQUAL)
    bounds = [f.bound for f in found if f.bound is not None]
    return Found(best.strategy.rounded(), max(bounds, default=None))


def _closed_form(task: Task) -> Strategy | None:
    """The optimum of the histogram, where it is known without a search: it meets the lower bound.

    A block design if there is one of so many types; otherwise all subsets, of which those with one
    type are shifts. Over few types shifts are searched, since their reports are shorter.
    """
    types, n = task.types, task.types.count
    if not _even(task) or not _exchangeable(types.gram):
        return None
    size = histogram_size(n, task.epsilon)
    design = affine_design(n, size) if n <= LARGEST_DESIGN else None
    if design is not None:
        chances = np.full(n - 1, 1 / (n - 1))
        return ShiftStrategy(*design, chances, task.epsilon, "block design")
    if n <= SHORT_REPORTS:
        return None
    if size == 1:
        alone = np.arange(n)[None, :] == 0
        group = Group(types.schema.shape)
        return ShiftStrategy(group, alone, np.ones(1), task.epsilon, "randomized response")
    return None if task.numbered else subset_selection(n, task.epsilon, size)


def _even(task: Task) -> bool:
    """Whether all types are single cells that count the same."""
    return not task.types.merged and bool(np.ptp(task.prior) <= 1e-12)


def _shifted(task: Task) -> Iterator[Found]:
    """Shifted patterns, where all shifts leave the workload alike."""
    types = task.types
    if not _even(task):
        return
    group = next((g for g in groups_of(types.schema.shape) if g.leaves_alike(types.gram)), None)
    if group is not None:
        effort = OrbitEffort.for_types(types.count, task.effort)
        rng = np.random.default_rng(task.seed)
        yield plan_orbits(group, types.gram, task.epsilon, effort, rng)


def _exchangeable(gram: Array) -> bool:
    """Whether G = a I + b 11ᵀ, as for the histogram."""
    model = np.full_like(gram, gram[0, 1])
    np.fill_diagonal(model, gram[0, 0])
    return np.allclose(gram, model, rtol=0, atol=1e-9 * gram[0, 0])


def _searched(task: Task, known: Strategy) -> list[Found]:
    """Column generation from what descents find; for many types the descent's result itself."""
    n, gram, ratio = task.types.count, task.types.gram, exp(task.epsilon)
    rng = np.random.default_rng(task.seed)
    effort = Effort.for_types(n, task.effort)
    shapes = drawn(gram, task.prior, task.epsilon, OUTPUTS_PER_TYPE * n, rng)
    weights = np.full(len(shapes), 1.0 / levels(shapes, ratio).sum(axis=0).mean())
    found: list[Found] = []
    if n > EXHAUSTIVE:
        first = levels(shapes, ratio) * weights[:, None]
        lone = n > GENERATED
        starts = [(first, first.min(axis=1), LONE_STEPS if lone else DESCENT_STEPS)]
        if lone and task.epsilon > LARGE_EPSILON:
            anywhere = random_start(OUTPUTS_PER_TYPE * n, n, task.epsilon, rng)
            starts.append((*anywhere, LONE_STEPS))
        if isinstance(known, TableStrategy):
            starts.append((known.chances, known.chances.min(axis=1), CLASSICAL_STEPS))
        descents = [_descended(task, *start) for start in starts]
        found += [Found(TableStrategy.of(q, task.epsilon, task.prior, "descent")) for q in descents]
        if lone:
            return found
        parts = [nested(q, ratio, effort.most) for q in descents]
        shapes = np.vstack([part[0] for part in parts])
        weights = np.concatenate([part[1] for part in parts])
        heaviest = np.argsort(-weights)[: effort.most]
        shapes, weights = shapes[heaviest], weights[heaviest]
    goal = Goal(gram, task.prior, task.epsilon, task.worst)
    return [*found, generate(goal, shapes, weights, effort)]


def _descended(task: Task, start: Array, lower: Array, steps: int) -> Array:
    given = start, lower, task.types.gram, task.prior
    chances, lower, gram, prior = (to_backend(array, task.backend) for array in given)
    steps = max(round(task.effort * steps), 1)
    found = descend(Descent.of(gram, prior, task.epsilon), chances, lower, steps)
    return to_numpy(found)
