"""The same rows with other noise: a plan asked again for more, or for less.

Along a long attribute, by a tree, by a series or by levels with rows of their own, every number is
measured by the same rows whatever the budget; only σ² of each differs. So it is of tables that are
measured together, of rows of a workload, and of queries that are measured apart, part by part.
Nothing need be compared then but these:

    left of a plan      1/σ² = 1/σ²_plan − 1/σ²_have
    put together        (Σ_j d_j ω_j) / Σ_j d_j   with the precisions d_j of what was measured

Precisions are those of Gaussian noise, which is all that plans are compared with
(`joined_plans.require_alike`). Each number put together is unbiased for its row and has the plan's
variance, so that answers and errors are those of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from noiseplan.arrays import Arrays, Json
from noiseplan.choosing.mechanism_family import SAME, Family
from noiseplan.choosing.precisions import still_needed
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.reduced import CELLS, ReducedMechanism
from noiseplan.noise.law import common_lattice

# Mechanisms that are continued so where they are all of a plan; others have ways of their own.
KINDS: Final = ("levels", "tree", "series", "workload rows", "side by side")
# Those that a part may be: each says σ² of each array of measured numbers, in the same order, in
# arrays of such names or among what is saved beside them.
PARTS: Final = ("levels", "tree", "series", "residual", "dense", "workload rows")
SIZES: Final = ("_sigma2", "sizes")


def parts_of(mechanism: Mechanism) -> list[Mechanism]:
    """The mechanisms that it is made of, over the cells of each."""
    return [part for each in mechanism.inner for part in parts_of(each)] or [mechanism]


def _made_of(like: Mechanism, parts: Iterator[Mechanism]) -> Mechanism:
    """Undo `parts_of`."""
    if not like.inner:
        return next(parts)
    return like.with_inner(tuple(_made_of(each, parts) for each in like.inner))


@dataclass(frozen=True, eq=False)
class _Written:
    """A part as it is saved: its rows, and the sizes of its noise."""

    content: Json  # without these
    rows: Arrays
    sizes: Arrays

    @classmethod
    def of(cls, mechanism: Mechanism) -> _Written:
        content, arrays = mechanism.parts()
        content = deepcopy(content)
        sizes = {name: each for name, each in arrays.items() if name.endswith(SIZES)}
        for number, (saved, key) in enumerate(_numbers(content)):
            sizes[str(number)], saved[key] = np.array([saved[key]]), 1.0
        return cls(content, {n: each for n, each in arrays.items() if n not in sizes}, sizes)

    def same_rows(self, other: _Written) -> bool:
        content = [
            {k: v for k, v in each.content.items() if k != "integer"} for each in (self, other)
        ]
        return (
            content[0] == content[1]
            and list(self.rows) == list(other.rows)
            and all(map(np.array_equal, self.rows.values(), other.rows.values()))
            and {n: each.shape for n, each in self.sizes.items()}
            == {n: each.shape for n, each in other.sizes.items()}
        )

    def sized(self, like: Mechanism, sizes: Arrays, exact: int) -> Mechanism:
        """The mechanism with other noise."""
        content = deepcopy({**self.content, "integer": exact})
        for number, (saved, key) in enumerate(_numbers(content)):
            saved[key] = float(sizes[str(number)][0])
        arrays = {name: each for name, each in sizes.items() if name.endswith(SIZES)}
        return type(like).from_parts(content, {**self.rows, **arrays}, like.schema)


def _numbers(content: Any) -> Iterator[tuple[Any, Any]]:
    """Where sizes of noise stand among what is saved beside arrays, in the order of measuring."""
    if content["kind"] == "dense":
        yield content, "sigma2"
    elif content["kind"] == "series":
        for block in content["blocks"]:
            yield block, "sigma2"
            if block.get("total_sigma2") is not None:
                yield block, "total_sigma2"
            yield from ((block["sums_sigma2"], j) for j in range(len(block.get("sums_sigma2", ()))))


def with_variances_times(mechanism: Mechanism, factor: float) -> Mechanism | None:
    """The same rows with so many times the variance; None where it has parts of other kinds."""
    parts = parts_of(mechanism)
    if any(part.kind not in PARTS for part in parts):
        return None
    sizes = ({name: factor * s for name, s in _Written.of(p).sizes.items()} for p in parts)
    return _made_of(mechanism, map(_sized, parts, sizes))


def same_rows(mechanisms: Sequence[Mechanism]) -> BySameRows | None:
    """The way to compare mechanisms that differ in nothing but their noise; None for others."""
    first, *others = mechanisms
    if not _continued_so(first) or any(part.kind not in PARTS for part in parts_of(first)):
        return None
    shapes = [_shape(each) for each in mechanisms]
    if any(each.schema != first.schema for each in others) or shapes.count(shapes[0]) < len(shapes):
        return None
    written = zip(*(map(_Written.of, parts_of(each)) for each in mechanisms), strict=True)
    return BySameRows() if all(a.same_rows(b) for a, *more in written for b in more) else None


def _continued_so(mechanism: Mechanism) -> bool:
    """Whether it is of such a kind, over its own cells or over classes of them, where it may be one
    matrix, too, whose noise has one size."""
    if mechanism.kind == ReducedMechanism.kind:
        return all(_continued_so(each) or each.kind == "dense" for each in mechanism.inner)
    return mechanism.kind in KINDS


def _shape(mechanism: Mechanism) -> object:
    """How it is made of parts, and the cells of each."""
    inner = [_shape(each) for each in mechanism.inner]
    arrays = mechanism.parts()[1] if inner else {}
    cells = {name: each.tolist() for name, each in arrays.items() if name.startswith(CELLS)}
    return mechanism.kind, cells, inner


@dataclass(frozen=True)
class BySameRows(Family[Mechanism]):
    """Mechanisms that measure the same rows, part by part."""

    nested = False

    def common(self, mechanisms: Sequence[Mechanism], sequential: bool = False) -> Mechanism:
        exact = common_lattice(m.noise for m in mechanisms)
        each = zip(*map(parts_of, mechanisms), strict=True)
        return _made_of(mechanisms[0], (_common(parts, exact) for parts in each))

    def rest(self, target: Mechanism, have: Mechanism) -> Mechanism | None:
        """The differences of precisions; variances are rounded up."""
        pairs = list(zip(parts_of(target), parts_of(have), strict=True))
        sizes = [_needed(part, known) for part, known in pairs]
        # What is public has no noise, and is told as it is each time.
        noisy = np.concatenate([each[each > 0] for own in sizes for each in own.values()])
        if not np.isfinite(noisy).any():
            return None
        if np.isfinite(noisy).all():
            each = zip(parts_of(target), sizes, strict=True)
            return _made_of(target, (_sized(part, own, part.noise.exact) for part, own in each))
        raise PlanError(
            "the earlier release measured some of these rows more precisely than the plan, and "
            "others less, and along a long attribute, of tables measured together or of queries "
            "measured apart only all of them are measured again"
        )

    def shared(self, target: Mechanism, have: Mechanism) -> Mechanism:
        self.rest(target, have)  # refused where not all is measured again
        return self.common([target, have])

    def together(self, parts: Sequence[Mechanism]) -> Mechanism:
        each = zip(*map(parts_of, parts), strict=True)
        return _made_of(parts[0], (_sized(some[0], _put_together(some)[1]) for some in each))

    def recreated(
        self, target: Mechanism, parts: Sequence[tuple[Mechanism, Measurements]]
    ) -> tuple[Measurements, Mechanism | None]:
        """Its variances are the target's up to the rounding of the parts' noise and, below σ² = 4,
        that of discrete laws."""
        numbers: list[Array] = []
        same = True
        each = zip(*(parts_of(mechanism) for mechanism, _ in parts), strict=True)
        for some, own in zip(each, parts_of(target), strict=True):
            wanted, (weights, sizes) = _variances(own), _put_together(some)
            for name, weight in weights.items():
                values = [measured.values[len(numbers)] for _, measured in parts]
                summed = sum(w * v for w, v in zip(weight, values, strict=True))
                numbers.append(np.asarray(summed, dtype=np.float64))
                same = same and np.allclose(wanted[name], sizes[name], rtol=SAME, atol=0.0)
        stated = None if same else self.together([mechanism for mechanism, _ in parts])
        return Measurements(tuple(numbers)), stated


def _sized(like: Mechanism, sizes: Arrays, exact: int = 0) -> Mechanism:
    return _Written.of(like).sized(like, sizes, exact)


def _common(parts: Sequence[Mechanism], exact: int) -> Mechanism:
    """One part with the largest noise that it has anywhere."""
    written = [_Written.of(part).sizes for part in parts]
    sizes = {name: np.max([each[name] for each in written], axis=0) for name in written[0]}
    return _sized(parts[0], sizes, exact)


def _needed(part: Mechanism, known: Mechanism) -> Arrays:
    have = _Written.of(known).sizes
    wanted = _Written.of(part).sizes.items()
    left = {name: still_needed(each, have[name], part.noise) for name, each in wanted}
    return {name: np.where(each == 0, 0.0, left[name]) for name, each in wanted}


def _variances(mechanism: Mechanism) -> dict[str, Array]:
    """What noise of a part really has; that of discrete laws is below σ²."""
    sizes = _Written.of(mechanism).sizes
    ends = np.cumsum([len(each) for each in sizes.values()])
    variance = np.broadcast_to(mechanism.noise.variance, (ends[-1],))  # one may be that of all
    return dict(zip(sizes, np.split(variance, ends[:-1]), strict=True))


def _put_together(parts: Sequence[Mechanism]) -> tuple[dict[str, Array], dict[str, Array]]:
    """What each part counts (parts × sizes), and the variance of the result.

    Inverse-variance weights by the parameters of the noise; the variance by what it really has.
    """
    written, variances = [_Written.of(p).sizes for p in parts], [_variances(p) for p in parts]
    weights, found = {}, {}
    for name in written[0]:
        size = np.array([each[name] for each in written])
        public = size == 0
        precision = np.where(public.any(axis=0), public, 1.0 / np.where(public, 1.0, size))
        weights[name] = precision / precision.sum(axis=0)
        spread = weights[name] ** 2 * np.array([each[name] for each in variances])
        found[name] = spread.sum(axis=0)
    return weights, found
