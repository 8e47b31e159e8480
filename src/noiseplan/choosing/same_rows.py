"""The same rows with other noise: a plan of places asked again for more, or for less.

Along a long attribute, by a tree or by levels with rows of their own, every number is measured by
the same rows whatever the budget; only σ² of each differs. So nothing need be compared but these:

    left of a plan      1/σ² = 1/σ²_plan − 1/σ²_have
    put together        (Σ_j d_j ω_j) / Σ_j d_j   with the precisions d_j of what was measured

The estimates of both kinds of mechanism are the same linear functions of what was measured whatever
its noise, so they stay unbiased, and their variances are those of the numbers put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.arrays import Arrays, Json
from noiseplan.choosing.mechanism_family import SAME, Family
from noiseplan.choosing.precisions import still_needed
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism

# Mechanisms that say σ² of each array of measured numbers in one saved array, in the same order.
KINDS: Final = ("levels", "tree")
SIZES: Final = "_sigma2"


@dataclass(frozen=True, eq=False)
class _Written:
    """A mechanism as it is saved: its rows, and the sizes of its noise."""

    content: Json
    rows: Arrays
    sizes: Arrays

    @classmethod
    def of(cls, mechanism: Mechanism) -> _Written:
        content, arrays = mechanism.parts()
        sizes = {name: each for name, each in arrays.items() if name.endswith(SIZES)}
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

    def sized(self, like: Mechanism, sizes: Arrays, exact: bool) -> Mechanism:
        """The mechanism with other noise."""
        content = {**self.content, "integer": exact}
        return type(like).from_parts(content, {**self.rows, **sizes}, like.schema)


def same_rows(mechanisms: Sequence[Mechanism]) -> BySameRows | None:
    """The way to compare mechanisms that differ in nothing but their noise; None for others."""
    first, *others = mechanisms
    if first.kind not in KINDS or any(other.kind != first.kind for other in others):
        return None
    if any(other.schema != first.schema for other in others):
        return None
    written = [_Written.of(mechanism) for mechanism in mechanisms]
    alike = all(written[0].same_rows(other) for other in written[1:])
    return BySameRows() if alike else None


@dataclass(frozen=True)
class BySameRows(Family[Mechanism]):
    """Mechanisms along a long attribute that measure the same rows."""

    nested = False

    def common(self, mechanisms: Sequence[Mechanism], sequential: bool = False) -> Mechanism:
        written = [_Written.of(mechanism) for mechanism in mechanisms]
        sizes = {n: np.max([each.sizes[n] for each in written], axis=0) for n in written[0].sizes}
        return written[0].sized(mechanisms[0], sizes, all(m.noise.exact for m in mechanisms))

    def rest(self, target: Mechanism, have: Mechanism) -> Mechanism | None:
        """The differences of precisions; variances are rounded up."""
        wanted, known = _Written.of(target), _Written.of(have)
        sizes = {
            name: still_needed(each, known.sizes[name], target.noise)
            for name, each in wanted.sizes.items()
        }
        finite = [bool(np.isfinite(each).all()) for each in sizes.values()]
        if all(finite):
            return wanted.sized(target, sizes, target.noise.exact)
        if not any(np.isfinite(each).any() for each in sizes.values()):
            return None
        raise PlanError(
            "the earlier release measured some of these rows more precisely than the plan, and "
            "others less, and along a long attribute only all of them are measured again"
        )

    def shared(self, target: Mechanism, have: Mechanism) -> Mechanism:
        self.rest(target, have)  # refused where not all is measured again
        return self.common([target, have])

    def covers(self, target: Mechanism, united: Mechanism) -> bool:
        return target.numbers == united.numbers

    def together(self, parts: Sequence[Mechanism]) -> Mechanism:
        return _Written.of(parts[0]).sized(parts[0], _put_together(parts)[1], exact=False)

    def recreated(
        self, target: Mechanism, parts: Sequence[tuple[Mechanism, Measurements]]
    ) -> tuple[Measurements, Mechanism | None]:
        """Its variances are the target's up to the rounding of the parts' noise and, below σ² = 4,
        that of discrete laws."""
        weights, sizes = _put_together([mechanism for mechanism, _ in parts])
        numbers = []
        for place, name in enumerate(sizes):
            each = [measured.values[place] for _, measured in parts]
            numbers.append(
                np.sum([w * v for w, v in zip(weights[name], each, strict=True)], axis=0)
            )
        own = _variances(target)
        same = all(np.allclose(own[n], sizes[n], rtol=SAME, atol=0.0) for n in sizes)
        stated = None if same else _Written.of(target).sized(target, sizes, exact=False)
        return Measurements(tuple(numbers)), stated


def _variances(mechanism: Mechanism) -> dict[str, Array]:
    """What noise of each size really has; that of discrete laws is below σ²."""
    sizes, variance = _Written.of(mechanism).sizes, mechanism.noise.variance
    ends = np.cumsum([len(each) for each in sizes.values()])
    if not len(ends) or ends[-1] != len(variance):
        raise PlanError("the noise of a mechanism is not told number by number: this is a bug")
    return dict(zip(sizes, np.split(variance, ends[:-1]), strict=True))


def _put_together(parts: Sequence[Mechanism]) -> tuple[dict[str, Array], dict[str, Array]]:
    """What each part counts (parts × sizes), and the variance of the result.

    Inverse-variance weights by the parameters of the noise; the variance by what it really has.
    """
    written, variances = [_Written.of(p).sizes for p in parts], [_variances(p) for p in parts]
    weights, found = {}, {}
    for name in written[0]:
        precision = np.array([1.0 / each[name] for each in written])
        weights[name] = precision / precision.sum(axis=0)
        spread = weights[name] ** 2 * np.array([each[name] for each in variances])
        found[name] = spread.sum(axis=0)
    return weights, found
