"""The common mechanism of plans that measure a few attributes by different rows, at any scale.

Let D be those attributes, and split the others as all plans do, with the same U_i. Then

    C_k = Σ_A (⊗_{i∈A} U_iᵀU_i ⊗ 11ᵀ) ⊗ G_{k,A}        A among the attributes not in D

with one small cost matrix G over D's cells for each set A, and C_k ⪯ C_l exactly where G_{k,A} ⪯
G_{l,A} for all A, since [1ᵀ; U_i] has an inverse. So what plans have in common, and what is left of
one, is found set by set, over D's cells alone (`common_and_rest`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from noiseplan.choosing.common_and_rest import (
    EXPLICIT_CELLS,
    LAST_OVER,
    common_rows_of,
    faint,
    noisier,
    rest_rows,
    times_over,
)
from noiseplan.choosing.loewner import intersection
from noiseplan.choosing.mechanism_family import SAME, Family
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.crossed import CrossedMechanism, Part
from noiseplan.mechanisms.crossed_pieces import as_floats, scale_of
from noiseplan.mechanisms.crossed_queries import Frame, Set
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.optimize.integer_cost_matrix import positive_part
from noiseplan.planning.measured_numbers import REALS, Numbers


def frame_of(mechanisms: Sequence[Mechanism]) -> Frame:
    """The attributes that all mechanisms split alike, and the others; refused where those have too
    many cells."""
    schema = mechanisms[0].schema
    bases: dict[int, Basis] = {}
    whole: set[int] = set()
    for i, axis, basis in (each for mechanism in mechanisms for each in mechanism.axes()):
        first = bases.setdefault(i, basis)
        if axis is None or not (scale_of(axis, first) and _same_centre(basis, first)):
            whole.add(i)
    cells = prod(schema.shape[i] for i in whole)
    names = ", ".join(schema.names[i] for i in sorted(whole))
    if not whole or cells > EXPLICIT_CELLS:
        raise PlanError(
            f"the plans measure {names} by different rows, and are compared over up to "
            f"{EXPLICIT_CELLS:,} cells of such attributes, which have {cells:,}"
        )
    split = {i: basis for i, basis in bases.items() if i not in whole}
    return Frame(schema, split, tuple(sorted(whole)))


def _same_centre(one: Basis, other: Basis) -> bool:
    return one is other or np.allclose(one.centre, other.centre, rtol=1e-12, atol=1e-15)


@dataclass(frozen=True)
class ByCrossing(Family[Mechanism]):
    """Residual mechanisms that differ in the rows of a few attributes, and what is made of them."""

    nested = False
    frame: Frame
    numbers: Numbers
    _known: WeakKeyDictionary[Mechanism, dict[Set, Array]] = field(
        default_factory=WeakKeyDictionary, compare=False, repr=False
    )

    @classmethod
    def of(cls, mechanisms: Sequence[Mechanism], numbers: Numbers) -> ByCrossing:
        """Refused where a plan is priced by more than its cells in D: the price must hold for what
        is measured in two steps, too."""
        family = cls(frame_of(mechanisms), numbers)
        for mechanism in mechanisms:
            if family.cell_costs(mechanism).max() > mechanism.record_cost("add-remove") * (
                1 + SAME
            ):
                raise PlanError(
                    "the plans measure attributes by different rows, and others by rows that cost "
                    "some values more than others"
                )
        return family

    # ------------------------------------------------------------------ as matrices over D

    def costs(self, mechanism: Mechanism) -> dict[Set, Array]:
        """G_A of every set A that is measured."""
        if mechanism not in self._known:
            found = self.unit_rows(mechanism).items()
            self._known[mechanism] = {split: rows.T @ rows for split, (rows, _) in found}
        return self._known[mechanism]

    def cell_costs(self, mechanism: Mechanism) -> Array:
        """What no record of each of D's cells exceeds."""
        found = np.zeros(self.frame.cells.size)
        for split, cost in self.costs(mechanism).items():
            found += prod(a.sensitivity for a in self.frame.axes(split)) * np.diagonal(cost)
        return found

    def unit_rows(
        self, mechanism: Mechanism, measured: Measurements | None = None
    ) -> dict[Set, tuple[Array, Array]]:
        """Of every set, rows over the deviation of their noise, and what was measured likewise."""
        found: dict[Set, list[tuple[Array, Array]]] = {}
        none: Array = np.zeros(0)
        for piece in mechanism.pieces(self.frame):
            deviation = np.sqrt(piece.sigma2)
            numbers = none if measured is None else piece.numbers(measured)
            unit = piece.cell_rows / deviation, numbers / deviation
            found.setdefault(piece.split, []).append(unit)
        return {split: _stacked(pairs) for split, pairs in found.items()}

    def _made(self, found: Mapping[Set, DenseMechanism | None]) -> CrossedMechanism:
        parts = [Part(split, rows) for split, rows in found.items() if rows is not None]
        measuring = tuple(part for part in parts if part.rows.numbers)
        return CrossedMechanism(self.frame.schema, self.frame, measuring)

    # ------------------------------------------------------------------ what is in common

    def common(self, mechanisms: Sequence[Mechanism], sequential: bool = False) -> Mechanism:
        return self._common(mechanisms, self.numbers, sequential)

    def _common(
        self, mechanisms: Sequence[Mechanism], numbers: Numbers, sequential: bool = False
    ) -> CrossedMechanism:
        """Sets that some do not measure are not in common."""
        costs, cells = [self.costs(m) for m in mechanisms], self.frame.cells
        sets = [split for split in costs[0] if all(split in other for other in costs)]
        grams = {split: [each[split] for each in costs] for split in sets}
        return self._made(_each(grams, lambda g: common_rows_of(cells, g, numbers, sequential)))

    def span(self, mechanisms: Sequence[Mechanism]) -> Mechanism | None:
        return self.numbers.span(lambda: self._in_all(mechanisms))

    def _in_all(self, mechanisms: Sequence[Mechanism]) -> CrossedMechanism:
        """Rows of the directions that all measure, of every set."""
        costs = [self.costs(m) for m in mechanisms]
        spans = {}
        for split in costs[0]:
            if all(split in other for other in costs):
                bases = [positive_part(each[split])[1] for each in costs]
                spans[split] = DenseMechanism(self.frame.cells, intersection(bases).T)
        return self._made(spans)

    def rest(self, target: Mechanism, have: Mechanism) -> Mechanism | None:
        wanted, paid, cells = self.costs(target), self.costs(have), self.frame.cells
        nothing = np.zeros((cells.size, cells.size))
        grams = {split: [gram, paid.get(split, nothing)] for split, gram in wanted.items()}
        found = self._made(_each(grams, lambda g: rest_rows(cells, g[0], g[1], self.numbers)))
        if not found.numbers:
            return None
        whole, before = self.cell_costs(target), self.cell_costs(have)
        over = times_over(found.crossed_costs, whole.max() - before)
        if over > LAST_OVER:
            raise PlanError("what was measured costs more than the plan it is a part of: a bug")
        parts = [replace(part, rows=noisier(over, part.rows)) for part in found.parts_of]
        return replace(found, parts_of=tuple(parts))

    def shared(self, target: Mechanism, have: Mechanism) -> Mechanism:
        return self._common([target, have], REALS)

    # ------------------------------------------------------------------ put together

    def covers(self, target: Mechanism, united: Mechanism) -> bool:
        return self._same(self.costs(target), self.costs(united))

    def _same(self, wanted: Mapping[Set, Array], found: Mapping[Set, Array]) -> bool:
        return wanted.keys() == found.keys() and all(
            np.abs(gram - found[split]).max() <= SAME * np.abs(gram).max()
            for split, gram in wanted.items()
        )

    def together(self, parts: Sequence[Mechanism]) -> CrossedMechanism:
        return self._united([self.unit_rows(part) for part in parts])[0]

    def _united(
        self, parts: Sequence[Mapping[Set, tuple[Array, Array]]]
    ) -> tuple[CrossedMechanism, Measurements]:
        """All rows of all parts, and all numbers."""
        sets = dict.fromkeys(split for part in parts for split in part)
        every = {split: _stacked([p[split] for p in parts if split in p]) for split in sets}
        made = [
            Part(split, DenseMechanism(self.frame.cells, rows))
            for split, (rows, _) in every.items()
        ]
        united = CrossedMechanism(self.frame.schema, self.frame, tuple(made))
        return united, Measurements(tuple(numbers for _, numbers in every.values()))

    def recreated(
        self, target: Mechanism, parts: Sequence[tuple[Mechanism, Measurements]]
    ) -> tuple[Measurements, Mechanism | None]:
        really, numbers = self._united([self.unit_rows(*part) for part in parts])
        if not self._same(self.costs(target), self.costs(really)) or faint(target):
            return numbers, really
        cells = {
            part.split: as_floats(values) @ part.back.T
            for part, values in zip(really.parts_of, numbers.values, strict=True)
        }
        return self._of_cells(target, cells), None

    def _of_cells(self, target: Mechanism, cells: Mapping[Set, Array]) -> Measurements:
        """What a mechanism would have measured of residual coordinates … × D's cells."""
        values = [np.empty(shape) for shape in target.shapes]
        for piece in target.pieces(self.frame):
            piece.put(values, cells[piece.split])
        return Measurements(tuple(values))


def _stacked(pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """All rows, and all numbers along their last axis."""
    rows, numbers = zip(*pairs, strict=True)
    return np.concatenate(rows), np.concatenate(numbers, axis=-1)


def _each(
    grams: Mapping[Set, list[Array]], find: Callable[[list[Array]], DenseMechanism | None]
) -> dict[Set, DenseMechanism | None]:
    """What is found of each set's matrices; the same matrices are looked at once."""
    known: dict[tuple[bytes, ...], DenseMechanism | None] = {}
    found = {}
    for split, each in grams.items():
        key = tuple(gram.tobytes() for gram in each)
        if key not in known:
            known[key] = find(each)
        found[split] = known[key]
    return found
