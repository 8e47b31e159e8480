"""Costs under attack: random plans on every way to data, each recomputed by brute force.

What is really measured is written down number by number, for every possible record, and its cost is
added up in exact fractions over all pairs of neighbours. Nothing of the package's own accounting is
used. The schemas have attributes of equal size, factors occur again, and tables overlap in part:
that is where one set of attributes is easily taken for another.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

import noiseplan as nz
from benchmarks.tables import Claim, Table
from noiseplan.counting import CountTensor
from noiseplan.mechanisms import exact_residuals, matrix, product, residual, tables
from noiseplan.mechanisms.exact_residuals import integer_residuals
from noiseplan.noise import Source, SystemSource

CELLS: Final = 48
# Of each way in a quick run, which counts cases: the same ones on every machine.
QUICK_CASES: Final = 3
# Pairs of neighbours this near the dearest are added up exactly.
NEAR: Final = 1e-9
KINDS: Final = (
    residual.ResidualMechanism,
    matrix.DenseMechanism,
    product.ProductMechanism,
    tables.TablesMechanism,
)


# ---------------------------------------------------------------------- the oracle

GAUSSIAN = "discrete Gaussian"


@dataclass(frozen=True)
class Columns:
    """The whole numbers that each cell's record alone gives, and the noise on each number."""

    values: np.ndarray  # cells × numbers, Python's integers
    noise: tuple[Fraction, ...]

    @classmethod
    def of(cls, mechanism: Any) -> Columns:
        """Measure every possible record alone, and look behind the noise."""
        schema = mechanism.schema
        found, noise = [], []
        for cell in range(schema.size):
            counts = np.zeros(schema.size, dtype=np.int64)
            counts[cell] = 1
            data = CountTensor(schema, counts.reshape(schema.shape))
            values, noise = cls._behind(mechanism, data)
            found.append(values)
        return cls(np.array(found, dtype=object).reshape(schema.size, -1), tuple(noise))

    @staticmethod
    def _behind(mechanism: Any, data: CountTensor) -> tuple[list[int], list[Fraction]]:
        values: list[int] = []
        noise: list[Fraction] = []

        def told(rows: Any, counts: Any) -> Any:
            exact = integer_residuals(rows, counts)
            values.extend(int(v) for v in exact.ravel())
            return exact

        def silent(shape: tuple[int, ...], size: np.ndarray) -> np.ndarray:
            every = np.broadcast_to(np.asarray(size, dtype=np.float64), shape)
            noise.extend(Fraction(float(s)) for s in every.ravel())
            return np.zeros(shape, dtype=np.int64)

        with patched((exact_residuals,), "integer_residuals", told):
            mechanism.measure(data.marginals, silent)
        assert len(values) == len(noise)
        return values, noise

    def beside(self, other: Columns) -> Columns:
        """Both measured, with independent noise."""
        values = np.concatenate([self.values, other.values], axis=1)
        return Columns(values, self.noise + other.noise)

    def cost(self, neighbours: str, laplace: bool) -> Fraction:
        """ρ, or ε, for the dearest pair of neighbours."""
        shifts = list(self.values)
        if neighbours == "replace":
            shifts = [a - b for a, b in combinations(self.values, 2)]
        if not shifts or not len(self.noise):
            return Fraction(0)
        power = 1 if laplace else 2
        sizes = np.array([float(n) or 1e-300 for n in self.noise])
        rough = np.abs(np.array(shifts, dtype=np.float64)) ** power @ (1 / sizes)
        near = np.flatnonzero(rough >= rough.max() * (1 - NEAR))
        return max(self._exact(shifts[i], power) for i in near)

    def _exact(self, shift: Sequence[int], power: int) -> Fraction:
        cost = Fraction(0)
        for number, size in zip(shift, self.noise, strict=True):
            if number:
                if size == 0:
                    return Fraction(10**30)  # a number without noise
                cost += Fraction(abs(int(number)) ** power) / (size * power)
        return cost


@contextmanager
def patched(modules: Sequence[Any], name: str, value: Any) -> Iterator[None]:
    """The same name replaced in several modules."""
    if not modules:
        yield
        return
    with patch.object(modules[0], name, value), patched(modules[1:], name, value):
        yield


@contextmanager
def watched() -> Iterator[list[Any]]:
    """Every mechanism that is really measured, in order."""
    seen: list[Any] = []
    originals = {kind: kind.measure for kind in KINDS}

    def watch(kind: type) -> Callable[..., Any]:
        def measure(self: Any, marginals: Any, sample: Any, *others: Any) -> Any:
            if hasattr(sample, "brand"):  # noise is drawn: no experiment with records made up
                seen.append(self)
            return originals[kind](self, marginals, sample, *others)

        return measure

    try:
        for kind in KINDS:
            kind.measure = watch(kind)  # type: ignore[assignment, method-assign]
        yield seen
    finally:
        for kind, original in originals.items():
            kind.measure = original  # type: ignore[method-assign]


# ---------------------------------------------------------------------- random plans


@dataclass(frozen=True)
class Case:
    """A schema, and random plans over it for one kind of neighbours."""

    draw: random.Random
    schema: nz.Schema
    neighbours: str

    @classmethod
    def of(cls, draw: random.Random) -> Case:
        sizes = [draw.choice([2, 2, 3, 3, 4])] * draw.randint(1, 5)
        if draw.random() < 0.3:
            sizes.append(draw.choice([1, 2, 5]))
        while np.prod(sizes) > CELLS:
            sizes.pop()
        schema = nz.Schema.from_sizes({f"x{i}": n for i, n in enumerate(sizes)})
        return cls(draw, schema, draw.choice(["add-remove", "replace"]))

    def factor(self) -> nz.Factor:
        kinds = [nz.Identity(), nz.Identity(), nz.Identity(), nz.Prefix(), nz.Ranges()]
        return self.draw.choice(kinds)

    def workload(self, plain: bool = False) -> nz.Workload:
        """All tables of some width, in which attributes look alike; or any tables."""
        names, draw = self.schema.names, self.draw
        if draw.random() < 0.5:
            kind = nz.Identity() if plain else self.factor()
            width = draw.randint(1, min(len(names), 3))
            return nz.Workload.marginals(self.schema, k=width, factors=dict.fromkeys(names, kind))
        shared = dict.fromkeys(names, nz.Identity()) if plain else {n: self.factor() for n in names}
        most = min(len(names), 3)
        wanted = [c for k in range(most + 1) for c in combinations(names, k) if draw.random() < 0.4]
        queries = [
            nz.Query(self.schema, {n: shared[n] for n in c}, weight=draw.choice([1.0, 1.0, 3.0]))
            for c in wanted or [names[:1]]
        ]
        return nz.Workload(queries)

    def plan(self, plain: bool = False, **options: Any) -> nz.Plan:
        """Any objective, any budget with discrete Gaussian noise."""
        draw, workload = self.draw, self.workload(plain)
        options["neighbours"] = self.neighbours
        how = draw.randrange(6)
        if how == 0:
            targets = {query.name: draw.uniform(0.5, 50.0) for query in workload}
            return nz.plan(workload, targets=targets, noise="discrete", **options)
        objective = {1: nz.WorstVariance(), 2: nz.PNormVariance(4.0)}.get(how)
        budget = draw.choice([nz.zCDP(draw.choice([0.01, 0.5, 3.0])), nz.ApproxDP(1.0, 1e-9)])
        return nz.plan(workload, budget=budget, objective=objective, noise=GAUSSIAN, **options)

    def data(self) -> CountTensor:
        counts = [self.draw.randrange(20) for _ in range(self.schema.size)]
        return CountTensor(self.schema, np.array(counts).reshape(self.schema.shape))


class Breaking(Source):
    """The operating system's bits, until they break."""

    broken = False
    brand = "bits that may break"
    private = True

    def read(self, count: int) -> bytes:
        if self.broken:
            raise OSError("no more bits")
        return SystemSource().read(count)


@dataclass
class Trial:
    """One way to data, taken with a ledger of its own."""

    case: Case
    ledger: nz.Ledger
    folder: Path
    rows: int = 1  # of one person
    epsilon: Fraction | None = None  # what is promised beside the ledger, of pure DP
    broke: list[int] = field(default_factory=list)  # measurements that gave nothing away

    @property
    def charge(self) -> dict[str, Any]:
        return {"ledger": self.ledger, "dataset": "d", "purpose": "attack"}


def _planned(trial: Trial) -> None:
    trial.case.plan().release(trial.case.data(), **trial.charge)


def _by_name(trial: Trial) -> None:
    draw = trial.case.draw
    name = draw.choice(["optimal", "identity", "wavelet", "hierarchical", "workload", "eigen"])
    plan = nz.plan(
        trial.case.workload(), budget=nz.zCDP(draw.choice([0.1, 2.0])), planner=name,
        noise="discrete",
    )  # fmt: skip
    plan.release(trial.case.data(), **trial.charge)


def _pure(trial: Trial) -> None:
    draw = trial.case.draw
    name = draw.choice(["auto", "matrix", "identity", "wavelet", "tree", "p-identity"])
    budget = nz.PureDP(draw.choice([0.1, 1.0, 5.0]))
    plan = nz.plan(trial.case.workload(), budget=budget, planner=name, noise="discrete")
    trial.epsilon = Fraction(plan.privacy.pure_epsilon or 0.0)
    plan.release(trial.case.data(), **trial.charge)


def _persons(trial: Trial) -> None:
    trial.rows = trial.case.draw.randint(2, 4)
    plan = trial.case.plan(max_rows=trial.rows)
    plan.release(trial.case.data(), **trial.charge)


def _chosen(trial: Trial) -> None:
    plans = [trial.case.plan(plain=True) for _ in range(2)]
    look = nz.adaptive(plans).look(trial.case.data(), **trial.charge)
    look.choose(trial.case.draw.randrange(2))


def _common_rows(trial: Trial) -> None:
    plans = [trial.case.plan() for _ in range(2)]
    look = nz.adaptive(plans, common_rows=True).look(trial.case.data(), **trial.charge)
    look.choose(trial.case.draw.randrange(2))


def _passed_over(trial: Trial) -> None:
    mixed = trial.case.draw.random() < 0.5  # the first by other rows than those that are left
    plans = [trial.case.plan(plain=not mixed or number > 0) for number in range(3)]
    look = nz.adaptive(plans, sequential=True).look(trial.case.data(), **trial.charge)
    look.without(0).choose(plans[trial.case.draw.randrange(1, 3)])


def _chosen_again(trial: Trial) -> None:
    plans = [trial.case.plan(plain=True) for _ in range(2)]
    bits = Breaking()
    look = nz.adaptive(plans).look(trial.case.data(), randomness=bits, **trial.charge)
    bits.broken = True
    try:
        look.choose(1)
    except OSError:
        trial.broke.append(1)
        bits.broken = False
        look.choose(1)


def _given(trial: Trial) -> None:
    first, second, data = trial.case.plan(True), trial.case.plan(True), trial.case.data()
    second.given(first.release(data, **trial.charge)).release(data, **trial.charge)


def _given_twice(trial: Trial) -> None:
    first, second, third = (trial.case.plan(plain=True) for _ in range(3))
    data = trial.case.data()
    one = first.release(data, **trial.charge)
    two = second.given(one).release(data, **trial.charge)
    third.given(two).release(data, **trial.charge)


def _loaded(trial: Trial) -> None:
    first, second, data = trial.case.plan(True), trial.case.plan(True), trial.case.data()
    first.release(data, **trial.charge).save(trial.folder / "out")
    earlier = nz.load(trial.folder / "out")
    for way in (
        lambda: earlier.plan.release(data, **trial.charge),
        lambda: nz.adaptive([earlier.plan, second]),
        lambda: earlier.plan.given(earlier).release(data, **trial.charge),
    ):
        try:
            way()
        except nz.NoiseplanError:
            continue
        raise AssertionError("a loaded plan was measured with")
    second.given(earlier).release(data, **trial.charge)


WAYS: Final = {
    "plan": _planned,
    "plan by name": _by_name,
    "plan, pure DP": _pure,
    "plan, persons of several records": _persons,
    "look, choose": _chosen,
    "look on common rows, choose": _common_rows,
    "look, pass over, choose": _passed_over,
    "look, choose, break off, choose again": _chosen_again,
    "given": _given,
    "given twice": _given_twice,
    "saved, loaded, given": _loaded,
}
# What is planned for neighbours that add or remove a record alone.
ADDED_ALONE: Final = ("plan by name", "plan, pure DP", "plan, persons of several records")


# ---------------------------------------------------------------------- the campaign


@dataclass
class Tally:
    """What became of the trials of one way."""

    tried: int = 0
    refused: int = 0
    understated: int = 0
    raw: int = 0
    least_over: Fraction | None = None  # the least that was charged beyond the cost, relative

    def note(self, charged: Fraction, cost: Fraction) -> bool:
        """Write down a trial; whether it held."""
        if charged < cost:
            self.understated += 1
            return False
        if cost:
            over = charged / cost - 1
            self.least_over = over if self.least_over is None else min(self.least_over, over)
        return True


def campaign(seconds: float, seed: int, least: int = 0) -> dict[str, Tally]:
    """Trials for so many seconds, and at least so many of each way; failures are printed."""
    found = {name: Tally() for name in WAYS}
    started, number = time.perf_counter(), 0
    while time.perf_counter() - started < seconds or number < least * len(WAYS):
        name = list(WAYS)[number % len(WAYS)]
        _try(name, f"{seed}-{number}", found[name])
        number += 1
    return found


def _try(name: str, seed: str, tally: Tally) -> None:
    tally.tried += 1
    case = Case.of(random.Random(seed))
    if name in ADDED_ALONE:
        case = replace(case, neighbours="add-remove")
    with tempfile.TemporaryDirectory() as folder:
        ledger = nz.Ledger(Path(folder) / "l", create=True)
        ledger.open_dataset("d", nz.zCDP(1e9), neighbours=case.neighbours)  # type: ignore[arg-type]
        trial = Trial(case, ledger, Path(folder))
        with watched() as mechanisms:
            try:
                WAYS[name](trial)
            except nz.NoiseplanError:
                tally.refused += 1
            except Exception as error:  # a raw exception is a fault of its own
                tally.raw += 1
                print(f"{name}, seed {seed}: {type(error).__name__}: {error}", flush=True)
        charged = sum((Fraction(e.guarantee.pcost) for e in ledger.entries("d")), Fraction(0)) / 2
    parts = [Columns.of(mechanism) for mechanism in mechanisms]
    if not parts:
        return
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.beside(part)
    laplace = trial.epsilon is not None
    if laplace:
        epsilon = whole.cost("add-remove", laplace=True)
        held = tally.note(trial.epsilon or Fraction(0), epsilon)
        held = held and charged >= epsilon**2 / 2
    else:
        cost = whole.cost(case.neighbours, laplace=False)
        held = tally.note(charged, cost * trial.rows**2)
    if not held:
        print(f"UNDERSTATED: {name}, seed {seed}", flush=True)


def table(quick: bool, seed: int = 1, seconds: float = 240.0) -> Table:
    """Every way to data, tried at random."""
    found = campaign(0.0 if quick else seconds, seed, least=QUICK_CASES)
    rows = []
    for name, tally in found.items():
        over = "–" if tally.least_over is None else f"{float(tally.least_over):.1e}"
        counts = map(str, (tally.tried, tally.refused, tally.understated, tally.raw))
        rows.append((name, *counts, over, not (tally.understated or tally.raw)))
    total = Counter({"tried": 0})
    for tally in found.values():
        total.update(tried=tally.tried, refused=tally.refused, wrong=tally.understated)
    return Table(
        title="Costs of random plans, on every way to data",
        sentence=(
            f"{total['tried']:,} random schemas × workloads × objectives × budgets × neighbours "
            f"(seed {seed}), up to {CELLS} cells; all that was measured is recomputed for every "
            "pair of neighbours in exact fractions, and compared with what the ledger was charged. "
            "The last figure is the least that was charged beyond the cost."
        ),
        source="brute force, sharing no accounting code with the package.",
        columns="way | tried | refused in words | understated | raw exceptions | least over | "
                "verdict",
        rows=tuple(rows),
        claims=(
            Claim("no cost understated", total["wrong"] == 0),
            Claim("every way was measured", all(t.least_over is not None for t in found.values())),
        ),
    )  # fmt: skip
