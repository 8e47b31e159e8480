"""The best rows of attributes with heads, where tables are coupled through these (`coupled_terms`).

For fixed rows the best precisions over parts are a concave problem (`optimize.level_coupling`), of
which only g and R of each role are known. Its value changes with them by its slopes at the optimum,
and they with U = [h; t] by dT = −T dM T, M = [1ᵀ; U], T = M⁻¹. Rows of all roles are moved together
by L-BFGS, from those that are best without coupling, turned so that the head is what is asked most.

By dM = DM, tr Y TᵀGT of A = TᵀGT changes by A_aaY_bb D_ab² + … at second order: it curves alike
along D_ab √(A_aaY_bb + A_bbY_aa), which is what is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import Basis
from noiseplan.optimize.lbfgs import descend
from noiseplan.optimize.level_coupling import Following
from noiseplan.planning.coupled_terms import CoupledTerms, Seen
from noiseplan.planning.solve import moments_of
from noiseplan.planning.workload_types import Design
from noiseplan.progress import progress

# Steps of the search, and how much of ln F the last so many of them must gain to go on.
STEPS: Final = 250
LAST, GAIN = 20, 1e-6
# Steps of one head more of every role: each takes long, and most is gained by each role alone.
TOGETHER: Final = 80
# Heads are no longer than this to begin with, or there would be no tail left.
LONGEST: Final = 0.98
# Beyond this a tail is shorter than what rounding leaves of it.
FARTHEST: Final = 20.0
# ln F where nothing level is found: no step leads there.
NOWHERE: Final = 1e3
TINY: Final = 1e-12
# Where an eigenvalue has less of the largest, precisions cannot be rounded to integers.
MEASURABLE: Final = 1e-12
# Whether so many steps that have come to so much, ln F, will not get where they should.
Hopeless = Callable[[int, float], bool]


@dataclass(frozen=True, eq=False)
class Coupled:
    """U of each free role, [h; t] where it has heads, the moments y at the optimum, and F."""

    rows: dict[int, Array]
    moments: Array
    value: float


def letters_of(design: Design, heads: int) -> dict[int, int]:
    """Roles whose attributes can be measured by heads and a tail, and one more than the heads."""
    counts = {r: min(heads, design.group_count(r) - 2) for r in design.free}
    return {r: count + 1 for r, count in counts.items() if count > 0}


def others_seen(design: Design, bases: dict[int, Basis], heads: Collection[int]) -> dict[int, Seen]:
    """What is asked of attributes without heads, as their bases split them."""
    moments, found = moments_of(design, bases), {}
    for pair, r in enumerate(design.roles.pair_role.tolist()):
        if r not in heads:
            mean, tail = float(moments.mean[pair]), float(moments.residual[pair])
            found[r] = Seen(np.array([[mean]]), tail * bases[r].sensitivity)
    return found


def seen_by(gram: Array, rows: Array, letters: int) -> Seen:
    """g and R of U = [h; t], for a Gram matrix WᵀW over groups of values."""
    return _seen(gram, _inverse(rows), letters)


def _inverse(rows: Array) -> Array:
    """T = [τ | v | V_t]."""
    return np.linalg.inv(np.vstack([np.ones(rows.shape[1]), rows]))


def _seen(gram: Array, inverse: Array, letters: int) -> Seen:
    asked = inverse.T @ gram @ inverse
    return Seen(asked[:letters, :letters], float(np.trace(asked[letters:, letters:])))


def head_grams(design: Design, heads: Sequence[int]) -> list[Array]:
    """WᵀW of each of these roles, over groups of values."""
    pair_of = {int(r): pair for pair, r in enumerate(design.roles.pair_role)}
    grams = [design.grams[pair_of[r]] for r in heads]
    return [gram for gram in grams if gram is not None]  # which roles with heads all have


def best_moments(terms: CoupledTerms, seen: list[Seen], start: Array) -> tuple[float, Array]:
    """F and y for other rows, such as rounded ones, from the best y of rows nearby.

    What tails cost is taken to be 1 − |h|². Rounded columns have several lengths: divided by the
    longest, they have |t|² ≤ 1 − |h|², and cost no more than that.
    """
    problem = terms.coupling(seen)
    found = problem.near(start)
    if found is None:
        raise np.linalg.LinAlgError("no moments nearby are the best")
    return found[0], problem.levelled(found[1])


def coupled_rows(
    design: Design,
    terms: CoupledTerms,
    rows: Mapping[int, Array],
    kept: Mapping[int, int] | None = None,
    steps: int = STEPS,
    told: Callable[[int], object] = lambda steps: None,
    hopeless: Hopeless = lambda steps, value: False,
    most: float = np.inf,
) -> Coupled | None:
    """The best U found, from those without coupling; None where nothing level is found.

    `kept`: so many of the rows of each role are heads already, from a search with fewer of them.
    `told` hears of every step, and the search ends early where it is `hopeless`, or when curvatures
    have taken `most` products of numbers.
    """
    grams, counts = head_grams(design, terms.heads), [terms.letters[r] for r in terms.heads]
    begun = [
        _raw(_turned(gram, rows[r], kept[r] if kept else 0), count - 1)
        for r, gram, count in zip(terms.heads, grams, counts, strict=True)
    ]
    search = _Search(terms, counts, grams, begun)
    first = search.level(begun)
    if first is None:
        return None
    along = _Along(search, begun, first)
    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
    enough = _Enough(search, most, told, hopeless)
    descend(along, np.zeros(along.size), options, enough=enough)
    best = search.best
    if best is None:
        return None
    found = {r: point.rows for r, point in zip(terms.heads, best.points, strict=True)}
    return Coupled({**rows, **found}, best.moments, best.value)


def with_another_head(
    design: Design, terms: CoupledTerms, most: int | None = None
) -> CoupledTerms | None:
    """The terms with one head more of each role that can have it, if any; may raise `TooLarge`."""
    letters = terms.letters
    more = letters_of(design, max(letters.values()))
    return None if more == letters else CoupledTerms(design, more, terms.others, most)


def rows_with_more_heads(
    design: Design, terms: CoupledTerms, found: Coupled, together: CoupledTerms
) -> Coupled | None:
    """The best U for more heads, from those of fewer; None where nothing level is found.

    A search for all of them at once begins where hardly anything is gained by a step, and its steps
    are long. So each is found first with the other roles as they were.
    """
    letters, more, rows = terms.letters, together.letters, dict(found.rows)
    kept = _heads(letters)
    longer = [r for r in letters if more[r] > letters[r]]
    with progress("Coupling tables", len(longer) * STEPS + TOGETHER) as advance:
        for r in longer:
            each = CoupledTerms(design, {**letters, r: more[r]}, terms.others)
            alone = coupled_rows(design, each, found.rows, _heads(letters), told=advance)
            if alone is not None:
                rows[r], kept[r] = alone.rows[r], more[r] - 1
        return coupled_rows(design, together, rows, kept, TOGETHER, advance)


def _heads(letters: Mapping[int, int]) -> dict[int, int]:
    return {r: count - 1 for r, count in letters.items()}


def _turned(gram: Array, rows: Array, kept: int) -> Array:
    """The same UᵀU, its first rows but those kept the directions of which most is asked."""
    recover = _inverse(rows)[:, 1 + kept :]
    _, vectors = np.linalg.eigh(recover.T @ gram @ recover)
    return np.vstack([rows[:kept], vectors[:, ::-1].T @ rows[kept:]])


def _raw(rows: Array, heads: int) -> Array:
    lengths = np.linalg.norm(rows[:heads], axis=0)
    inner = np.arctanh(np.minimum(lengths, LONGEST)) / np.maximum(lengths, TINY)
    return np.vstack([rows[:heads] * inner, rows[heads:]])


@dataclass(frozen=True, eq=False)
class _Point:
    """U = [h; t] from raw numbers: columns a of heads made h = a tanh|a|/|a|, and those of t scaled
    to √(1 − |h|²)."""

    letters: int
    raw: Array
    rows: Array
    inverse: Array

    @classmethod
    def at(cls, raw: Array, letters: int) -> _Point:
        inner, outer = raw[: letters - 1], raw[letters - 1 :]
        size = np.maximum(np.linalg.norm(inner, axis=0), TINY)
        tail = 1 / np.cosh(size)  # √(1 − tanh²)
        rows = np.vstack(
            [inner * np.tanh(size) / size, outer * tail / np.linalg.norm(outer, axis=0)]
        )
        return cls(letters, raw, rows, _inverse(rows))

    def scales(self, gram: Array, by_heads: Array, by_tail: float) -> Array:
        """1/√(A_aaY_bb + A_bbY_aa) of each D_ab: rows of U × rows of M."""
        asked = np.einsum("ia,ij,ja->a", self.inverse, gram, self.inverse)
        slopes = np.full(len(asked), by_tail)
        slopes[: self.letters] = np.diag(by_heads)
        both = np.outer(*(np.maximum(each, TINY * each.max()) for each in (asked, slopes)))
        return np.asarray(1 / np.sqrt(both + both.T)[1:])

    def pull_back(self, gram: Array, by_heads: Array, by_tail: float) -> Array:
        """The gradient by raw numbers, from the slopes by g and by R."""
        weights = by_tail * np.eye(len(self.inverse))
        weights[: self.letters, : self.letters] = by_heads
        by_rows = -2 * (self.inverse @ weights @ self.inverse.T @ gram @ self.inverse).T[1:]
        inner, outer = self.raw[: self.letters - 1], self.raw[self.letters - 1 :]
        to_inner, to_outer = by_rows[: self.letters - 1], by_rows[self.letters - 1 :]
        size, length = np.linalg.norm(inner, axis=0), np.linalg.norm(outer, axis=0)
        size = np.maximum(size, TINY)
        tail, along, out = 1 / np.cosh(size), inner / size, outer / length
        inward, outward = (along * to_inner).sum(axis=0), (out * to_outer).sum(axis=0)
        # d|h| = (1 − tanh²) d|a|, and d√(1 − |h|²) = −tanh · √(1 − tanh²) d|a|.
        by_size = inward * tail**2 - outward * np.tanh(size) * tail
        by_inner = along * by_size + (to_inner - along * inward) * np.tanh(size) / size
        return np.vstack([by_inner, (to_outer - out * outward) * tail / length])


@dataclass(frozen=True, eq=False)
class _Level:
    """What is best for some U: F, y, and of each role the slopes of F by g and by R."""

    value: float
    points: list[_Point]
    moments: Array
    slopes: list[tuple[Array, float]]


class _Search:
    """ln F and its gradient, each from the moments that were best before; keeps the best of all."""

    def __init__(
        self, terms: CoupledTerms, letters: list[int], grams: list[Array], begun: list[Array]
    ) -> None:
        self.terms, self.letters, self.grams = terms, letters, grams
        seconds = [_seconds(*one) for one in zip(begun, letters, strict=True)]
        self.moments = Following(terms.product_moments(seconds))
        self.best: _Level | None = None

    def __call__(self, raw: list[Array]) -> tuple[float, list[Array]]:
        found = self.level(raw)
        if found is None:
            return NOWHERE, [np.zeros_like(one) for one in raw]
        each = zip(found.points, self.grams, found.slopes, strict=True)
        pulled = [point.pull_back(gram, *slopes) / found.value for point, gram, slopes in each]
        return float(np.log(found.value)), pulled

    def level(self, raw: list[Array]) -> _Level | None:
        each = zip(raw, self.letters, strict=True)
        if any(np.linalg.norm(one[: count - 1], axis=0).max() > FARTHEST for one, count in each):
            return None
        try:
            points = [_Point.at(*one) for one in zip(raw, self.letters, strict=True)]
            asked = zip(self.grams, points, self.letters, strict=True)
            seen = [_seen(gram, point.inverse, count) for gram, point, count in asked]
            problem = self.terms.coupling(seen)
            value, moments = self.moments.solve(problem)
        except np.linalg.LinAlgError:
            return None
        by_number, least = problem.slopes(moments)
        found = _Level(value, points, moments, self.terms.slopes(seen, by_number))
        measurable = least > MEASURABLE
        if measurable and (self.best is None or value < self.best.value):
            self.best = found
        return found


def _seconds(raw: Array, letters: int) -> Array:
    """The mean of (1, h)(1, h)ᵀ over all values."""
    some = np.vstack([np.ones(raw.shape[1]), _Point.at(raw, letters).rows[: letters - 1]])
    return np.asarray(some @ some.T / raw.shape[1])


class _Along:
    """The search, by changes that weigh about alike: D scaled, dM = DM at the beginning."""

    def __init__(self, search: _Search, begun: list[Array], first: _Level) -> None:
        self.search, self.begun = search, begun
        each = zip(first.points, search.grams, first.slopes, strict=True)
        self.scales = [point.scales(gram, *slopes) for point, gram, slopes in each]
        self.frames = [np.vstack([np.ones(one.rows.shape[1]), one.rows]) for one in first.points]
        self.ends = np.cumsum([scale.size for scale in self.scales])
        self.size = int(self.ends[-1])
        # The first step of L-BFGS has the length one: this makes it that of Newton's method.
        self.unit = 1.0
        self.unit = float(np.linalg.norm(self(np.zeros(self.size))[1])) or 1.0

    def __call__(self, changes: Array) -> tuple[float, Array]:
        parts = np.split(self.unit * changes, self.ends[:-1])
        each = list(zip(self.scales, self.frames, strict=True))
        raw = [
            one + (scale * part.reshape(scale.shape)) @ frame
            for one, part, (scale, frame) in zip(self.begun, parts, each, strict=True)
        ]
        value, by_raw = self.search(raw)
        pulled = [
            (scale * (slope @ frame.T)).ravel()
            for slope, (scale, frame) in zip(by_raw, each, strict=True)
        ]
        return value, self.unit * np.concatenate(pulled)


class _Enough:
    """Whether the last steps gained too little, all steps far too little, or it takes too long."""

    def __init__(
        self, search: _Search, most: float, told: Callable[[int], object], hopeless: Hopeless
    ) -> None:
        self.search, self.most, self.told, self.hopeless = search, most, told, hopeless
        self.values: list[float] = []

    def __call__(self, value: float) -> bool:
        self.told(1)
        self.values.append(value)
        slow = len(self.values) > LAST and self.values[-1 - LAST] - value < GAIN
        long = self.search.moments.products > self.most
        return slow or long or self.hopeless(len(self.values), value)
