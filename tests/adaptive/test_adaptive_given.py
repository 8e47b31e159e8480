"""What a plan still costs after a release, joint covariances, and the two charges of a ledger."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from adaptive_plans import MIXED, SCHEMA, data, plan

import noiseplan as nz
from depth import depth
from integer_oracles import Measured
from noiseplan.choosing.continuation import joint_covariance
from noiseplan.choosing.linear_gaussian import LinearGaussian, common_mechanism
from noiseplan.counting import CountTensor
from noiseplan.errors import UnanswerableError
from noiseplan.ledger import BudgetExceeded
from oracles import blue_covariance, probe

# ---------------------------------------------------------------------- what is left


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_noise_down(noise: str) -> None:
    """The same tables, more precisely: the difference of the costs, and the finer plan's errors."""
    coarse, fine = plan(2, 0.1, noise=noise), plan(2, 0.5, noise=noise)
    earlier = coarse.release(data(), seed=1)
    left = fine.given(earlier)
    assert left.privacy.rho == pytest.approx(0.4, rel=1e-6)
    assert left.total.rho == pytest.approx(0.5, rel=1e-6)
    assert left.saved == pytest.approx(0.2, rel=1e-5)
    later = left.release(data(), seed=2)
    query = nz.Query(SCHEMA, ["age", "region"])
    assert np.allclose(later.variance(query), fine.variance(query), rtol=1e-8)
    assert later.plan.privacy.rho == pytest.approx(0.5, rel=1e-6)
    assert "0.1, by the earlier release" in str(left)
    assert "20.0% of the plan's" in str(left)


def test_a_plan_that_was_released_costs_nothing_more() -> None:
    fine = plan(2)
    earlier = fine.release(data(), seed=1)
    left = plan(1, 0.05).given(earlier)
    assert left.privacy.pcost == 0.0
    assert left.saved == 1.0
    later = left.release(data(), seed=2)
    query = nz.Query(SCHEMA, ["age"])
    assert np.allclose(later.answer(query).estimate, earlier.answer(query).estimate)
    assert "measures nothing" in str(left)


@pytest.mark.parametrize("rho", [1.5, 2.9])
def test_coarse_noise_before_a_plan_on_a_finer_lattice_keeps_its_loss(
    rho: float, tmp_path: Path
) -> None:
    """The noise of the first has σ² = 1/2ρ in squares of its step: of 0.33 μ² is twice 2ρ, and of
    0.17 none follows. What both tell has no smaller μ² than both were charged."""
    schema = nz.Schema.from_sizes({"a": 4})
    asked, counts = nz.Query(schema, ["a"]), CountTensor(schema, np.array([5, 6, 7, 8]))
    first, second = (
        nz.plan(asked, budget=budget, planner="identity") for budget in (nz.zCDP(rho), nz.GDP(6.0))
    )
    left = second.given(first.release(counts))
    stated = left.release(counts).plan.privacy.mu2
    assert left.privacy.mu2 is not None
    if rho == 2.9:
        assert (first.privacy.mu2, stated) == (None, None)
    else:
        assert first.privacy.mu2 == pytest.approx(6.0, rel=1e-5)
        assert stated is not None and stated >= first.privacy.mu2 + left.privacy.mu2
    left.release(counts).save(tmp_path / "both")
    assert nz.load(tmp_path / "both").plan.privacy.mu2 == stated


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_another_plan_after_a_release(noise: str) -> None:
    """All that was measured, put together as well as can be, by the dense definition."""
    first, second = plan(1, 0.3, noise=noise), plan(2, 0.5, noise=noise)
    earlier = first.release(data(), seed=1)
    left = second.given(earlier)
    assert left.privacy.pcost < second.privacy.pcost
    later = left.release(data(), seed=2)
    parts = [first, left.rest]
    if noise == "gaussian":
        found = [probe(p) for p in parts if p is not None]
    else:
        exact = [Measured.of(p) for p in parts if p is not None]
        assert exact[1].rho("add-remove") <= Fraction(left.privacy.rho)
        found = [(np.array(m.rows, float), np.array(m.sigma2, float)) for m in exact]
    b, sigma2 = np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])
    for names in (["age"], ["age", "sex"], ["sex", "region"], ["region"]):
        query = nz.Query(SCHEMA, names)
        expected = blue_covariance(query.dense(), query.dense(), b, sigma2)
        assert np.allclose(later.covariance(query, query), expected, rtol=1e-6, atol=1e-9)
        assert (later.variance(query) <= second.variance(query) * (1 + 1e-9)).all()
    for query in first.workload:
        assert (later.variance(query) <= first.variance(query) * (1 + 1e-9)).all()
    assert {q.name for q in later.plan.workload} >= {"age", "age × sex"}
    with pytest.raises(nz.NoiseplanError, match="made already"):
        later.plan.release(data())


def test_another_plan_on_other_rows() -> None:
    """By explicit matrices: C_1 + (C_2 − C_*), with the common mechanism of the definition."""
    first = plan(1, 0.3, factors=MIXED, planner="optimal", noise="gaussian")
    second = plan(2, 0.5, noise="gaussian")
    left = second.given(first.release(data(), seed=1))
    dense = [LinearGaussian.from_cost_matrix(p.cost_matrix()) for p in (first, second)]
    rest = dense[1].cost_matrix - common_mechanism(dense).cost_matrix
    assert left.rest is not None
    assert np.allclose(left.rest.cost_matrix(), rest, atol=1e-7)
    assert left.privacy.pcost == pytest.approx(np.diagonal(rest).max(), rel=1e-6)
    later = left.release(data(), seed=2)
    query = nz.Query(SCHEMA, ["age", "sex"])
    both = LinearGaussian.from_cost_matrix(dense[0].cost_matrix + rest)
    assert np.allclose(later.covariance(query, query), both.best_covariance(query.dense()))
    assert (later.variance(query) <= second.variance(query) * (1 + 1e-6)).all()


GROUPS = nz.Custom([[1, 1, 0, 0], [0, 0, 1, 1]])
ON_OTHER_ROWS = {
    "prefix": [nz.Query(SCHEMA, {"age": nz.Prefix()}), nz.Query(SCHEMA, ["region"])],
    "ranges": [nz.Query(SCHEMA, {"age": nz.Ranges()})],
    "groups": [nz.Query(SCHEMA, {"age": GROUPS, "region": nz.Identity()})],
    "tables": [nz.Query(SCHEMA, ["age", "sex"]), nz.Query(SCHEMA, ["region"])],
}


@pytest.mark.grid
@pytest.mark.parametrize("way", ["given", "adaptive"])
@pytest.mark.parametrize(("first", "second"), list(permutations(ON_OTHER_ROWS, 2)))
def test_what_neither_plan_measured_is_refused(
    first: str, second: str, way: str, measured_plans: list[nz.Plan]
) -> None:
    """What is answered, and how well, by the rows of both plans and by brute force."""
    one, two = (
        nz.plan(nz.Workload(ON_OTHER_ROWS[name]), budget=nz.zCDP(0.1)) for name in (first, second)
    )
    if way == "given":
        later = two.given(one.release(data(), seed=1)).release(data(), seed=2)
        plans, parts = [one, two], [one, *measured_plans]
    else:
        later, plans = nz.adaptive([one, two]).look(data(), seed=1).choose(1), [two]
        parts = measured_plans
    each = [Measured.of(part) for part in parts]
    rows = [row for m in each for row in m.rows]
    both = Measured(rows, [s for m in each for s in m.sigma2])
    assert both.rho("add-remove") <= Fraction(later.plan.privacy.rho)
    asked = np.concatenate([query.dense() for p in plans for query in p.workload])
    told = 0
    for names in chain.from_iterable(combinations(SCHEMA.names, k) for k in range(4)):
        query = nz.Query(SCHEMA, list(names))
        within = np.linalg.matrix_rank(np.concatenate([asked, query.dense()]))
        if within > np.linalg.matrix_rank(asked):
            with pytest.raises(UnanswerableError):
                later.variance(query)
        else:
            told += 1
            expected = np.diagonal(both.covariance(query.dense()))
            assert np.allclose(later.variance(query), expected, rtol=1e-6)
    assert 2 <= told < 8
    valid = later.valid()
    assert "solved      to the end" in str(valid)


def test_three_releases_one_after_the_other() -> None:
    release = plan(1, 0.1).release(data(), seed=1)
    for seed, step in enumerate([plan(2, 0.2), plan(2, 0.3), plan(3, 0.5)], start=2):
        release = step.given(release).release(data(), seed=seed)
        for query in step.workload:
            assert (release.variance(query) <= step.variance(query) * (1 + 1e-6)).all()
    assert release.plan.privacy.rho < 0.1 + 0.2 + 0.3 + 0.5
    release_at_once = plan(3, 0.5)
    assert release.plan.privacy.rho > release_at_once.privacy.rho


def test_joint_covariances_by_simulation() -> None:
    """Earlier and later answers of many runs; limits of six standard errors."""
    first, second = plan(1, 0.3), plan(2, 0.5)
    one, two = nz.Query(SCHEMA, ["age"]), nz.Query(SCHEMA, ["sex", "region"])
    runs, pairs = depth(150, 60), []
    for seed in range(runs):
        earlier = first.release(data(), seed=2 * seed)
        later = second.given(earlier).release(data(), seed=2 * seed + 1)
        pairs.append([*earlier.answer(one).estimate, *later.answer(two).estimate])
    found = np.cov(np.array(pairs).T)
    stated = joint_covariance(earlier, later, one, two)
    scale = np.outer(first.std_error(one), later.plan.std_error(two))
    assert (np.abs(found[:4, 4:] - stated) <= 6 * scale / np.sqrt(runs)).all()
    assert np.allclose(np.diagonal(found)[4:], later.variance(two), rtol=6 * np.sqrt(2 / runs))
    with pytest.raises(nz.NoiseplanError):
        joint_covariance(earlier, later, two, one)


def test_after_a_release_that_was_saved(tmp_path: Path) -> None:
    plan(1, 0.1, noise="discrete").release(data(), seed=1).save(tmp_path / "out")
    fine = plan(1, 0.5, noise="discrete")
    left = fine.given(nz.load(tmp_path / "out"))
    assert left.privacy.rho == pytest.approx(0.4, rel=1e-6)
    query = nz.Query(SCHEMA, ["age"])
    assert np.allclose(left.release(data(), seed=2).variance(query), fine.variance(query))


def test_after_noisy_tables_made_elsewhere() -> None:
    """Their privacy is not known here, and so is the total; what is left is known."""
    table = nz.NoisyTable(["age"], [30.0, 40.0, 50.0, 60.0], variance=2.0)
    elsewhere = nz.from_noisy_tables(SCHEMA, [table])
    target = plan(1, 0.5, noise="gaussian")
    left = target.given(elsewhere)
    assert 0 < left.privacy.pcost < target.privacy.pcost
    assert left.total.pcost == np.inf
    later = left.release(data(), seed=1)
    for query in target.workload:
        assert (later.variance(query) <= target.variance(query) * (1 + 1e-9)).all()


def test_what_cannot_be_given() -> None:
    with pytest.raises(nz.NoiseplanError, match="takes an earlier release"):
        plan(1).given(plan(2))  # type: ignore[arg-type]
    other = nz.Schema.from_sizes({"a": 2})
    release = nz.plan(nz.Workload.marginals(other, k=1), budget=nz.zCDP(0.1)).release({"a": [0]})
    with pytest.raises(nz.NoiseplanError, match="different schemas"):
        plan(1).given(release)
    with pytest.raises(nz.NoiseplanError, match="different neighbours"):
        plan(1, neighbours="replace").given(plan(1).release(data()))
    combined = plan(2).given(plan(1, 0.4).release(data(), seed=1)).release(data(), seed=2)
    with pytest.raises(nz.NoiseplanError, match="not measured again"):
        combined.plan.given(combined)


# ---------------------------------------------------------------------- the ledger


@pytest.fixture
def ledger(tmp_path: Path) -> nz.Ledger:
    book = nz.Ledger(tmp_path / "budget.ledger", create=True)
    book.open_dataset("people", nz.zCDP(0.5))
    return book


def test_two_charges_add_up_to_the_plan(ledger: nz.Ledger) -> None:
    plans = [plan(k, noise="discrete") for k in (1, 2)]
    choice = nz.adaptive(plans)
    look = choice.look(data(), ledger=ledger, dataset="people", purpose="yearly")
    (first,) = ledger.entries("people")
    assert first.guarantee == choice.common.privacy
    assert first.purpose == "yearly: look"
    release = look.choose(1)
    _, second = ledger.entries("people")
    assert second.purpose == "yearly: plan 1 after the look"
    paid = Fraction(first.guarantee.pcost) + Fraction(second.guarantee.pcost)
    assert paid <= Fraction(plans[1].privacy.pcost)
    assert float(paid) == pytest.approx(plans[1].privacy.pcost, rel=1e-12)
    assert f"entry {first.id}" in release.recorded
    assert f"entry {second.id}" in release.recorded
    assert "operating system" in release.brand


def test_stopping_costs_only_the_look(ledger: nz.Ledger) -> None:
    choice = nz.adaptive([plan(k, noise="discrete") for k in (1, 2)])
    choice.look(data(), ledger=ledger, dataset="people")
    (entry,) = ledger.entries("people")
    assert entry.guarantee.pcost == choice.common.privacy.pcost < choice.privacy.pcost


def test_a_budget_that_lacks_the_rest_measures_nothing(tmp_path: Path) -> None:
    book = nz.Ledger(tmp_path / "small.ledger", create=True)
    choice = nz.adaptive([plan(k, noise="discrete") for k in (1, 2)])
    book.open_dataset("people", nz.zCDP(choice.common.privacy.rho * 1.1))
    look = choice.look(data(), ledger=book, dataset="people")
    with pytest.raises(BudgetExceeded):
        look.choose(1)
    assert len(book.entries("people")) == 1
    # Nothing was measured, so the look can still be followed once there is room.
    book.change_budget("people", nz.zCDP(0.5), reason="granted")
    assert look.choose(1).plan is choice.plans[1]


def test_a_sequence_adds_up_in_the_ledger(ledger: nz.Ledger) -> None:
    plans = [plan(k, noise="discrete") for k in (1, 2, 3)]
    look = nz.adaptive(plans).look(data(), ledger=ledger, dataset="people")
    look.without(0).choose(plans[2])
    entries = ledger.entries("people")
    assert len(entries) == 3
    paid = sum(Fraction(e.guarantee.pcost) for e in entries)
    assert paid <= Fraction(plans[2].privacy.pcost)
    assert len({e.plan_hash for e in entries}) == 3


def test_a_continuation_is_charged_what_it_costs(ledger: nz.Ledger) -> None:
    earlier = plan(1, 0.1, noise="discrete").release(data(), ledger=ledger, dataset="people")
    left = plan(2, 0.4, noise="discrete").given(earlier)
    release = left.release(data(), ledger=ledger, dataset="people")
    first, second = ledger.entries("people")
    assert second.guarantee == left.privacy
    assert release.plan.privacy.pcost >= first.guarantee.pcost + second.guarantee.pcost
    assert "entry" in release.recorded


def test_the_total_guarantee_is_the_worst_branch() -> None:
    plans = [plan(1, 0.2), plan(2, 0.5), plan(3, 0.3)]
    assert nz.adaptive(plans).privacy == plans[1].privacy


def test_seeds_and_ledgers_exclude_each_other(ledger: nz.Ledger) -> None:
    choice = nz.adaptive([plan(k, noise="discrete") for k in (1, 2)])
    with pytest.raises(nz.NoiseplanError, match="leave out seed="):
        choice.look(data(), ledger=ledger, dataset="people", seed=1)
    assert ledger.entries("people") == ()
