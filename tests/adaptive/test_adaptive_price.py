"""What is charged covers what is measured, on every way to data: all pairs of records, exactly.

Attributes have equal sizes, so that the sets that are measured look alike; and plans overlap in
some of them only, so that some of a kind were measured before and others not.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from integer_oracles import Measured
from noiseplan.counting import CountTensor
from noiseplan.errors import PlanError, StorageError
from noiseplan.noise import Source, SystemSource
from noiseplan.planning.plan import Plan
from noiseplan.storage.files import read_arrays
from noiseplan.storage.plans import defining_hash

BOTH = ["add-remove", "replace"]
EQUAL = nz.Schema.from_sizes({"x0": 3, "x1": 3, "x2": 3})
ONES = CountTensor(EQUAL, np.ones(EQUAL.shape, dtype=int))


def plan_of(workload: nz.Workload, rho: float, neighbours: str, **options: object) -> Plan:
    budget = nz.zCDP(rho)
    return nz.plan(workload, budget=budget, neighbours=neighbours, noise="discrete", **options)  # type: ignore[arg-type]


def random_plan(rng: np.random.Generator, schema: nz.Schema, neighbours: str) -> Plan:
    """Some tables of attributes that look alike, perhaps with one factor and a few weights."""
    names = schema.names
    wanted = [c for k in (1, 2) for c in combinations(names, k) if rng.random() < 0.5]
    kind = nz.Prefix() if rng.random() < 0.3 else nz.Identity()
    queries = [
        nz.Query(schema, dict.fromkeys(one, kind), weight=float(rng.choice([1.0, 1.0, 4.0])))
        for one in wanted or [names[:1]]
    ]
    return plan_of(nz.Workload(queries), float(rng.choice([0.2, 0.9, 2.0])), neighbours)


@cache  # plans do not change, and several tests ask for the same
def random_pair(seed: int, neighbours: str) -> tuple[Plan, Plan]:
    rng = np.random.default_rng(seed)
    many, size = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    schema = nz.Schema.from_sizes({f"x{i}": size for i in range(many)})
    return random_plan(rng, schema, neighbours), random_plan(rng, schema, neighbours)


def joint_rho(plans: list[Plan], neighbours: str) -> Fraction:
    """ρ of all plans measured with independent noise on the same records."""
    parts = [Measured.of(plan) for plan in plans]
    rows = [row for part in parts for row in part.rows]
    return Fraction(Measured(rows, [s for p in parts for s in p.sigma2]).rho(neighbours))


def table(plan: Plan) -> CountTensor:
    return CountTensor(plan.schema, np.ones(plan.schema.shape, dtype=int))


# ---------------------------------------------------------------------- what is left of a plan


def test_a_set_that_was_measured_does_not_stand_for_those_that_look_like_it() -> None:
    first = plan_of(nz.Workload([nz.Query(EQUAL, ["x0"])]), 2.0, "replace")
    wanted = plan_of(nz.Workload.marginals(EQUAL, k=1), 0.9, "replace")
    left = wanted.given(first.release(ONES))
    assert left.rest is not None
    exact = Fraction(Measured.of(left.rest).rho("replace"))
    assert exact == pytest.approx(0.6, rel=1e-6)
    assert exact <= Fraction(left.privacy.rho) <= exact * (1 + Fraction(1, 10**9))


@pytest.mark.grid
@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("seed", seeds(40))
def test_what_is_left_is_charged_in_full(seed: int, neighbours: str) -> None:
    first, second = random_pair(seed, neighbours)
    try:
        left = second.given(first.release(table(first)))
    except PlanError as error:  # plans by different rows are not compared for these neighbours
        assert "explicit matrices" in str(error)
        return
    if left.rest is None:
        assert left.privacy.pcost == 0.0
        return
    assert Measured.of(left.rest).rho(neighbours) <= Fraction(left.privacy.rho)
    assert joint_rho([first, left.rest], neighbours) <= Fraction(left.total.rho)


# ---------------------------------------------------------------------- looking and choosing


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("seed", seeds(40))
def test_a_look_and_a_choice_cost_what_is_charged(
    seed: int, neighbours: str, measured_plans: list[Plan]
) -> None:
    plans = random_pair(seed, neighbours)
    try:
        choice = nz.adaptive(plans)
    except PlanError as error:
        assert any(
            words in str(error) for words in ("nothing in common", "explicit matrices", "nothing")
        )
        return
    number = seed % 2
    choice.look(table(plans[0])).choose(number)
    charged = sum((Fraction(plan.privacy.rho) for plan in measured_plans), Fraction(0))
    assert joint_rho(measured_plans, neighbours) <= charged
    assert charged <= Fraction(plans[number].privacy.rho) * (1 + Fraction(1, 10**9))


def mu2(plans: list[Plan], neighbours: str) -> float:
    """max Σ d²/σ²_eff of all plans measured with independent noise, by its definition."""
    rows, sizes = [], []
    for plan in plans:
        found, steps = Measured.of(plan), plan.mechanism.noise.exact**2
        rows += found.rows
        squares = np.array([float(s) * steps for s in found.sigma2])
        sizes += list((squares + np.sqrt(squares**2 - squares / 3)) / 2 / steps)
    columns = np.array(rows, dtype=float).T
    if neighbours == "replace":
        columns = np.concatenate([column - columns for column in columns])
    noisy = np.array(sizes) > 0  # the total is no secret where records are replaced
    assert not columns[:, ~noisy].any()
    return float((columns[:, noisy] ** 2 / np.array(sizes)[noisy]).sum(axis=1).max())


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("planner", ["residual", "optimal"])
def test_a_look_and_a_choice_within_an_exact_curve(
    planner: str, number: int, neighbours: str, measured_plans: list[Plan], tmp_path: Path
) -> None:
    """So little noise that it is drawn on multiples of 1/8: a look at integers would cost more,
    and what is left of a plan would not fit any more. Plans by one matrix of large integers are
    planned anew on common rows, which are smaller."""
    budget, weights = nz.ApproxDP(5.0, 1e-6), (1.0, 3.0)
    plans = [
        nz.plan(
            nz.Workload([nz.Query(EQUAL, ["x0"], weight=w), nz.Query(EQUAL, [f"x{i}"])]),
            budget=budget, neighbours=neighbours, planner=planner,
        )
        for i, w in enumerate(weights, start=1)
    ]  # fmt: skip
    matrix = planner == "optimal"
    assert matrix or all(plan.mechanism.noise.exact > 1 for plan in plans)
    ledger = nz.Ledger(tmp_path / "a.ledger", create=True)
    ledger.open_dataset("people", budget, neighbours=neighbours)
    choice = nz.adaptive(plans, common_rows=matrix)
    release = choice.look(ONES, ledger=ledger, dataset="people").choose(number)
    assert all(plan.mechanism.noise.exact > 1 for plan in measured_plans)
    first, second = (entry.guarantee.mu2 for entry in ledger.entries())
    assert first is not None and second is not None
    assert mu2(measured_plans[:1], neighbours) <= first * (1 + 1e-12)
    assert mu2(measured_plans, neighbours) <= (first + second) * (1 + 1e-12)
    assert first + second <= budget.gaussian_pcost()
    assert release.plan.privacy.mu2 is not None
    assert first + second <= release.plan.privacy.mu2 <= budget.gaussian_pcost()


def test_both_plans_are_chosen_after_a_look_over_more_than_a_thousand_cells(
    measured_plans: list[Plan],
) -> None:
    """1,296 cells: what is left is dearest for other records than what was looked at."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abcd", 6))
    sums = dict.fromkeys(schema.names, nz.Prefix())
    plans = [
        plan_of(nz.Workload.marginals(schema, k=k, factors=sums), 0.5, "add-remove") for k in (2, 3)
    ]
    counts = CountTensor(schema, np.ones(schema.shape, dtype=int))
    choice = nz.adaptive(plans, common_rows=True)
    for number, plan in enumerate(plans):
        measured_plans.clear()
        choice.look(counts).choose(number)
        look, rest = measured_plans
        rows = np.concatenate([look.mechanism.unit_rows(), rest.mechanism.unit_rows()])
        dearest = float((rows**2).sum(axis=0).max())
        assert dearest <= (look.privacy.pcost + rest.privacy.pcost) * (1 + 1e-9)
        assert look.privacy.pcost + rest.privacy.pcost <= plan.privacy.pcost * (1 + 1e-9)


LINE = nz.Schema.from_sizes({"x": 6})
ONES_AND = {  # rows of signs beside the total, and ρ: the dearest records differ from step to step
    "found by search": (
        [
            [[-1, 0, 1, 0, 0, 1], [1, 0, 0, -1, -1, -1]],
            [[1, 1, 1, -1, -1, 0], [0, 0, -1, -1, -1, 0]],
            [[1, -1, 0, 1, -1, 0]],
        ],
        [0.1, 0.001, 0.1],
    ),
    **{
        f"seed {seed}": (
            [rng.integers(-1, 2, (rng.integers(1, 4), 6)) for _ in range(3)],
            rng.choice([0.001, 0.01, 0.1], 3),
        )
        for seed, rng in ((seed, np.random.default_rng(seed)) for seed in range(8))
    },
}


@pytest.mark.parametrize("case", ONES_AND)
def test_three_steps_of_explicit_matrices_cost_no_more_than_is_charged(
    case: str, measured_plans: list[Plan]
) -> None:
    """In fractions, to the last digit: what is left is what was really measured leaves."""
    matrices, budgets = ONES_AND[case]
    plans = []
    for rows, rho in zip(matrices, budgets, strict=True):
        query = nz.Query(LINE, ["x"], matrix=np.vstack([np.ones(6), rows]))
        plans.append(plan_of(nz.Workload([query]), float(rho), "add-remove", planner="optimal"))
    choice = nz.adaptive(plans, sequential=True)
    for number in (1, 2):
        measured_plans.clear()
        choice.look(np.arange(6) * 7).without(0).choose(plans[number])
        charged = sum((Fraction(plan.privacy.rho) for plan in measured_plans), Fraction(0))
        assert joint_rho(measured_plans, "add-remove") <= charged
        assert charged <= Fraction(plans[number].privacy.rho)


class Flaky(Source):
    """The operating system's bits, until they fail."""

    fail = False
    brand = "bits that may fail"
    private = True

    def read(self, count: int) -> bytes:
        if self.fail:
            raise OSError("generator gone")
        return SystemSource().read(count)


@pytest.mark.parametrize("seed", seeds(24))
@pytest.mark.parametrize("neighbours", BOTH)
def test_a_choice_made_again_is_charged_all_it_costs(
    seed: int, neighbours: str, tmp_path: Path, measured_plans: list[Plan]
) -> None:
    first, second = random_pair(seed, neighbours)
    try:
        choice = nz.adaptive([first, second])
    except PlanError:
        return
    book = nz.Ledger(tmp_path / "l", create=True)
    book.open_dataset("d", nz.zCDP(50.0), neighbours=neighbours)
    bits = Flaky()
    look = choice.look(table(first), ledger=book, dataset="d", randomness=bits)
    bits.fail = True
    try:
        look.choose(second)
    except OSError:
        bits.fail = False
        look.choose(second)
    else:  # nothing was left to measure
        return
    *_, last = book.entries("d")
    seen, broken, refused, again = measured_plans  # the third was followed already: not measured
    assert refused.mechanism is again.mechanism
    assert Measured.of(again).rho(neighbours) <= Fraction(last.guarantee.rho)
    assert joint_rho([seen, broken, again], neighbours) <= Fraction(book.balance("d").spent.rho)


@pytest.mark.parametrize("chosen", [1, 2])
def test_plans_left_over_may_have_rows_in_common(chosen: int, measured_plans: list[Plan]) -> None:
    """The first by other rows than the two that are left: what was looked at is one matrix."""
    schema = nz.Schema.from_sizes({"a": 2, "b": 3})
    sums = nz.Workload([nz.Query(schema, {"b": nz.Prefix()})])
    asked = (sums, nz.Workload.marginals(schema, k=1), nz.Workload.marginals(schema, k=2))
    plans = [plan_of(workload, 0.5, "add-remove") for workload in asked]
    look = nz.adaptive(plans, sequential=True).look(table(plans[0]))
    release = look.without(0).choose(plans[chosen])
    for query in plans[chosen].workload:
        assert (release.variance(query) <= plans[chosen].variance(query) * (1 + 1e-3)).all()
    charged = sum((Fraction(plan.privacy.rho) for plan in measured_plans), Fraction(0))
    assert joint_rho(measured_plans, "add-remove") <= charged <= Fraction(plans[chosen].privacy.rho)


def test_a_plan_that_costs_nothing_is_not_looked_at_first() -> None:
    total = plan_of(nz.Workload([nz.Query(EQUAL, {})]), 0.1, "replace")
    tables = plan_of(nz.Workload.marginals(EQUAL, up_to=1), 0.1, "replace")
    assert total.privacy.pcost == 0.0
    with pytest.raises(PlanError, match="plan 0 costs nothing"):
        nz.adaptive([total, tables])
    assert total.given(tables.release(ONES)).saved == 0.0


# ---------------------------------------------------------------------- plans from folders


def forged(folder: Path, pcost: str) -> None:
    """Another cost written into a saved plan, with hashes that fit."""
    plan, certificate = folder / "plan.json", folder / "certificate.json"
    content = json.loads(plan.read_text())
    content["privacy"]["pcost"] = pcost
    plan.write_text(json.dumps(content))
    stated = json.loads(certificate.read_text())
    stated["plan_sha256"] = defining_hash(content, read_arrays(folder / "plan.npz"))
    certificate.write_text(json.dumps(stated))
    names = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    sums = [f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names]
    (folder / "SHA256SUMS").write_text("".join(sums))


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_folder_that_understates_its_cost_is_refused(neighbours: str, tmp_path: Path) -> None:
    plan_of(nz.Workload.marginals(EQUAL, k=1), 0.5, neighbours).release(ONES).save(tmp_path / "a")
    forged(tmp_path / "a", "1e-12")
    with pytest.raises(StorageError, match="lower privacy cost than its noise has"):
        nz.load(tmp_path / "a")


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_loaded_plan_is_measured_through_no_door(neighbours: str, tmp_path: Path) -> None:
    mine = plan_of(nz.Workload.marginals(EQUAL, k=1), 0.5, neighbours)
    other = plan_of(nz.Workload.marginals(EQUAL, k=2), 0.5, neighbours)
    mine.release(ONES).save(tmp_path / "a")
    earlier = nz.load(tmp_path / "a")
    loaded = earlier.plan
    for plans in ([loaded, other], [other, loaded]):
        for options in ({}, {"sequential": True}, {"common_rows": True}):
            with pytest.raises(PlanError, match="read from a folder"):
                nz.adaptive(plans, **options)
    with pytest.raises(PlanError, match="read from a folder"):
        loaded.release(ONES)
    with pytest.raises(PlanError, match="read from a folder"):
        loaded.given(other.release(ONES))
    # What it says of what was measured serves to answer, and to spare another plan that.
    assert other.given(earlier).privacy.pcost < other.privacy.pcost


@pytest.mark.grid
@pytest.mark.parametrize("rho", [0.5, 5.0, 50.0, 500.0])
@pytest.mark.parametrize("neighbours", BOTH)
def test_what_was_paid_for_in_two_steps_is_read_back(
    neighbours: str, rho: float, tmp_path: Path
) -> None:
    """Of noise below one count the variance is far below the parameter, which the cost is made of:
    releases put together state variances, and were refused as if they had understated their cost.
    """
    # One matrix, which `auto` may take, is not compared where records are replaced.
    how = {"planner": "residual"} if neighbours == "replace" else {}
    one = plan_of(nz.Workload.marginals(EQUAL, k=1), rho, neighbours, **how)
    two = plan_of(nz.Workload.marginals(EQUAL, k=2), 2 * rho, neighbours, **how)
    chosen = nz.adaptive([one, two]).look(ONES).choose(two)
    continued = two.given(one.release(ONES)).release(ONES)
    for number, release in enumerate((chosen, continued)):
        release.save(tmp_path / str(number))
        again = nz.load(tmp_path / str(number))
        assert again.plan.privacy == release.plan.privacy
        for query in two.workload:
            assert np.array_equal(again.answer(query).estimate, release.answer(query).estimate)
        forged(tmp_path / str(number), repr(release.plan.privacy.pcost / 2))
        with pytest.raises(StorageError, match="lower privacy cost"):
            nz.load(tmp_path / str(number))


# ---------------------------------------------------------------------- beside the ledger


def test_what_is_left_of_a_charged_release_is_charged_too(tmp_path: Path) -> None:
    book = nz.Ledger(tmp_path / "l", create=True)
    book.open_dataset("d", nz.zCDP(0.6))
    tables = nz.Workload.marginals(EQUAL, k=1)
    one, more = (plan_of(tables, rho, "add-remove") for rho in (0.01, 0.5))
    earlier = one.release(ONES, ledger=book, dataset="d")
    earlier.save(tmp_path / "out")
    for release in (earlier, nz.load(tmp_path / "out")):
        with pytest.raises(PlanError, match="measured beside it: add ledger="):
            more.given(release).release(ONES)
    assert len(book.entries("d")) == 1
    both = more.given(earlier).release(ONES, ledger=book, dataset="d")
    entries = book.entries("d")
    assert sum(e.guarantee.rho for e in entries) == pytest.approx(0.5, rel=1e-6)
    assert all(f"entry {e.id} " in both.recorded for e in entries)
    # Nothing is left to measure: nothing is charged, and no ledger is needed.
    again = one.given(both).release(ONES)
    assert (again.recorded, len(book.entries("d"))) == (both.recorded, 2)


def test_a_look_and_what_completes_it_are_one_event(
    tmp_path: Path, measured_plans: list[Plan]
) -> None:
    """What completes a look is charged the difference, and costs more by itself."""
    schema = nz.Schema.from_sizes({"x": 5})
    rows = ([[1, 0, 0, 0, 0], [0, 1, 1, 0, 0]], [[1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
    plans = [
        plan_of(
            nz.Workload([nz.Query(schema, {"x": nz.Custom(each)})]),
            0.5,
            "add-remove",
            planner="optimal",
        )
        for each in rows
    ]
    book = nz.Ledger(tmp_path / "l", create=True)
    book.open_dataset("d", nz.zCDP(5.0))
    counts = np.full(5, 5)
    nz.adaptive(plans).look(counts, ledger=book, dataset="d").choose(0)
    plans[1].release(counts, ledger=book, dataset="d")
    look, rest = measured_plans
    assert Measured.of(rest).rho("add-remove") > Fraction(rest.privacy.rho) * 1000
    first, second, third = book.entries("d")
    both, alone = json.loads(book.export("dp-accounting"))["datasets"]["d"]
    assert (both["entry"], both["completed_by"]) == (first.id, [second.id])
    both_rho = 1 / (2 * Fraction(both["noise_multiplier"]) ** 2)
    assert both_rho >= joint_rho([look, rest], "add-remove")
    assert (alone["entry"], "completed_by" in alone) == (third.id, False)
    events = book.events("d").events
    stated = [each["noise_multiplier"] for each in (both, alone)]
    assert [event.noise_multiplier for event in events] == stated
