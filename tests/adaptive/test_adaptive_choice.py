"""Look, then choose: costs by brute force, laws by simulation, against plans released at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from adaptive_plans import COUNTS, MIXED, SCHEMA, data, plan
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from integer_oracles import Measured
from noiseplan.choosing import precisions
from noiseplan.choosing.common_and_rest import ByMatrices
from noiseplan.choosing.linear_gaussian import LinearGaussian, common_mechanism
from noiseplan.choosing.precisions import ByPrecisions
from noiseplan.counting import CountTensor
from noiseplan.noise import Noise
from noiseplan.planning.plan import Plan
from noiseplan.privacy.people import person_cost
from oracles import blue_covariance, cost_of, probe


def smallest(matrix: np.ndarray) -> float:
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2).min())


# ---------------------------------------------------------------------- the public face


def test_the_contract() -> None:
    pd = pytest.importorskip("pandas")
    a, b = plan(1, noise="discrete"), plan(2, noise="discrete")
    records = pd.DataFrame({"age": [0, 1, 3], "sex": [0, 1, 1], "region": [2, 2, 0]})
    look = nz.adaptive([a, b]).look(records)
    assert look.table("age").shape == (4, 5)
    assert look.choose(b).table("age", "sex").shape == (8, 6)


@pytest.mark.parametrize("first", ["noiseplan.choosing", "noiseplan.choosing.choice"])
def test_the_function_survives_importing_its_room(first: str) -> None:
    code = f"import {first}, noiseplan as nz\nprint(callable(nz.adaptive), nz.adaptive.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "adaptive"]


def test_a_choice_and_its_common_plan_in_words() -> None:
    choice = nz.adaptive([plan(1), plan(2)])
    text = str(choice)
    assert "Choice of 2 plans" in text
    assert "for the look alone" in text
    common = str(choice.common)
    assert "what 2 plans have in common" in common
    assert f"{100 * choice.shares[0]:.4g}% of their privacy cost" in common
    assert "age" in common
    assert choice.workload.rows == plan(1).workload.rows
    assert repr(choice).startswith("Choice(2 plans")
    look = choice.look(data(), seed=1)
    assert ".choose(plan) of 2 plans" in str(look)
    assert "2 plans to choose from" in repr(look)
    assert str(COUNTS.sum()) not in repr(look)


# ---------------------------------------------------------------------- what is common


CASES: dict[str, Callable[[], list[Plan]]] = {
    "marginals": lambda: [plan(1), plan(2)],
    "three": lambda: [plan(1, 0.2), plan(2), plan(3, 0.9)],
    "some tables": lambda: [
        nz.plan(nz.Workload([nz.Query(SCHEMA, n) for n in names]), budget=nz.zCDP(0.5))
        for names in ([["age", "sex"], ["region"]], [["age", "region"], ["sex", "region"]])
    ],
    "worst": lambda: [plan(1, objective=nz.WorstVariance()), plan(2)],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_nothing_larger_is_common_to_plain_plans(case: str, noise: str) -> None:
    """Orthogonal residuals commute: the dense definition gives the same cost matrix."""
    plans = [nz.plan(p.workload, budget=nz.zCDP(p.privacy.rho), objective=p.objective, noise=noise)
             for p in CASES[case]()]  # fmt: skip
    choice = nz.adaptive(plans)
    assert isinstance(choice.family, ByPrecisions)
    dense = [LinearGaussian.from_cost_matrix(p.cost_matrix()) for p in plans]
    expected = common_mechanism(dense).cost_matrix
    scale = np.abs(expected).max()
    assert np.allclose(choice.common.cost_matrix(), expected, atol=1e-7 * scale)
    assert choice.common.privacy.pcost == pytest.approx(np.diagonal(expected).max(), rel=1e-7)


def test_nothing_larger_is_common_on_oblique_rows() -> None:
    plans = [plan(k, factors=MIXED, planner="residual") for k in (1, 2)]
    choice = nz.adaptive(plans, common_rows=True)
    costs = [p.cost_matrix() for p in choice.plans]
    common = choice.common.cost_matrix()
    for cost in costs:
        assert smallest(cost - common) > -1e-12
    rng = np.random.default_rng(0)
    for _ in range(200):
        v = common @ rng.normal(size=SCHEMA.size)
        more = common + 0.1 * np.outer(v, v) / (v @ v)
        assert min(smallest(cost - more) for cost in costs) < -1e-9


def test_one_query_is_said_to_be_one() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    alone, both = (nz.plan(nz.Query(schema, asked), budget=nz.zCDP(1)) for asked in ("a", "a, b"))
    said = str(nz.adaptive([alone, both]))
    assert "look     1 query, RMSE" in said and "plan 0   1 query, RMSE" in said


def test_costs_of_the_common_plan_are_those_of_what_it_measures() -> None:
    for case in CASES.values():
        common = nz.adaptive(case()).common
        b, sigma2 = probe(common)
        cost = float(np.diagonal(cost_of(b, sigma2)).max())
        assert cost <= common.privacy.pcost <= cost * (1 + 1e-9)


@pytest.mark.grid
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("factors", [None, MIXED])
@pytest.mark.parametrize("chosen", [0, 1])
def test_integer_costs_add_up_by_brute_force(
    neighbours: str, factors: object, chosen: int, measured_plans: list[Plan]
) -> None:
    """The look, and the look with the rest, in exact rationals over all pairs of neighbours."""
    options = {"neighbours": neighbours, "noise": "discrete", "planner": "residual"}
    plans = [plan(k, factors=factors, **options) for k in (1, 2)]
    choice = nz.adaptive(plans, common_rows=factors is not None)
    choice.look(data(), seed=5).choose(chosen)
    look, rest = map(Measured.of, measured_plans)
    both = Measured(look.rows + rest.rows, look.sigma2 + rest.sigma2)
    target = choice.plans[chosen]
    assert look.rho(neighbours) <= Fraction(choice.common.privacy.rho)
    assert both.rho(neighbours) <= Fraction(target.privacy.rho)
    alone = Measured.of(target).rho(neighbours)  # replacing has an upper bound only, with prefixes
    assert float(both.rho(neighbours)) == pytest.approx(float(alone), rel=1e-9)
    paid = Fraction(measured_plans[0].privacy.pcost) + Fraction(measured_plans[1].privacy.pcost)
    assert paid <= Fraction(target.privacy.pcost)
    assert float(paid) == pytest.approx(target.privacy.pcost, rel=1e-12)


@given(st.floats(1e-3, 1e12), st.floats(1e-9, 1, exclude_max=True), st.booleans())
@examples(300)
def test_precisions_are_split_outward(have: float, share: float, integer: bool) -> None:
    target = have * share
    (rest,) = precisions.still_needed(
        np.array([target]), np.array([have]), Noise("gaussian", 1.0, integer)
    )
    if target >= have:  # the product was rounded
        assert rest == np.inf
    elif np.isfinite(rest):
        left = 1 / Fraction(target) - 1 / Fraction(have)
        assert 0 <= left - 1 / Fraction(rest) <= left * Fraction(1, 2**38)


def test_precisions_at_the_ends() -> None:
    inf = np.inf
    target = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    have = np.array([inf, 1.0, 0.5, 3.0, 0.0])
    assert precisions.still_needed(target, have, Noise("gaussian", 1.0, True)).tolist() == [
        1.0,
        inf,
        inf,
        0.0,
        inf,
    ]
    large = np.array([1e140])
    too_faint = precisions.still_needed(
        large, np.nextafter(large, inf), Noise("gaussian", 1.0, True)
    )
    assert too_faint.tolist() == [inf]


# ---------------------------------------------------------------------- choosing, passing over


def test_a_plan_that_is_common_needs_nothing_more(measured_plans: list[Plan]) -> None:
    coarse, fine = plan(1, 0.1), plan(1, 0.5)
    choice = nz.adaptive([coarse, fine])
    assert choice.shares[0] == pytest.approx(1.0)
    assert choice.shares[1] == pytest.approx(0.2)
    release = choice.look(data(), seed=4).choose(coarse)
    assert len(measured_plans) == 1
    assert release.plan is coarse


def test_noise_of_the_rest_is_not_that_of_the_look() -> None:
    """The same seed for both would let the counts be solved for."""
    coarse, fine = plan(1, 0.1), plan(1, 0.5)
    look = nz.adaptive([coarse, fine]).look(data(), seed=4)
    query = nz.Query(SCHEMA, ["age"])
    seen = look.answer(query).estimate - query.dense() @ COUNTS.ravel()
    then = look.choose(fine).answer(query).estimate - query.dense() @ COUNTS.ravel()
    ratio = then / seen
    assert np.ptp(ratio) > 1e-3


def test_a_look_is_followed_once() -> None:
    look = nz.adaptive([plan(1), plan(2)]).look(data(), seed=1)
    look.choose(0)
    with pytest.raises(nz.NoiseplanError, match="followed already, by plan 0"):
        look.choose(1)


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_passing_plans_over_one_by_one(noise: str, measured_plans: list[Plan]) -> None:
    plans = [plan(k, rho, noise=noise) for k, rho in ((1, 0.3), (2, 0.4), (3, 0.5))]
    look = nz.adaptive(plans).look(data(), seed=2)
    closer = look.without(plans[0])
    assert len(closer.choice.plans) == 2
    assert closer.privacy.pcost > look.privacy.pcost
    with pytest.raises(nz.NoiseplanError, match="followed already"):
        look.choose(0)
    release = closer.choose(plans[2])
    assert release.plan is plans[2]
    paid = sum(Fraction(p.privacy.pcost) for p in measured_plans)
    assert len(measured_plans) == 3
    assert paid <= Fraction(plans[2].privacy.pcost)
    assert float(paid) == pytest.approx(plans[2].privacy.pcost, rel=1e-12)
    total = sum(p.mechanism.cost_matrix() for p in measured_plans)
    assert np.allclose(total, plans[2].cost_matrix(), rtol=1e-9)


AGES = nz.Schema.from_sizes({"sex": 2, "age": 12})


def histogram(groups: list[int], noise: str) -> Plan:
    rows = np.array([[float(g == i) for g in groups] for i in range(max(groups) + 1)])
    query = nz.Query(AGES, {"sex": nz.Identity(), "age": nz.Custom(rows)})
    return nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5), noise=noise)


NESTED = [[0] * 12, [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2], [0, 0, 1, 1, 2, 3, 3, 3, 4, 5, 5, 5]]


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_nested_histograms_in_sequence(noise: str, measured_plans: list[Plan]) -> None:
    plans = [histogram(groups, noise) for groups in NESTED]
    choice = nz.adaptive(plans, sequential=True)
    assert isinstance(choice.family, ByMatrices)
    totals = plans[0].workload.query(0)
    # Unit noise on every bucket: the common one has as much as the finest has buckets in each.
    assert np.allclose(choice.common.variance(totals), 6.0, rtol=1e-3)
    counts = CountTensor(AGES, np.arange(24).reshape(2, 12))
    closer = choice.look(counts, seed=8).without(0)
    middle = plans[1].workload.query(0)
    assert np.allclose(closer.variance(middle), [2, 3, 1] * 2, rtol=4e-3)
    release = closer.choose(plans[2])
    query = plans[2].workload.query(0)
    assert np.allclose(release.variance(query), plans[2].variance(query), rtol=1e-4)
    total = sum(p.mechanism.cost_matrix() for p in measured_plans)
    assert np.diagonal(total).max() <= plans[2].privacy.pcost * (1 + 1e-12)
    errors = release.answer(query).estimate - query.dense() @ np.arange(24.0)
    assert np.abs(errors).max() < 7 * np.sqrt(plans[2].variance(query)).max()


def test_explicit_plans_are_passed_over_in_order_only() -> None:
    plans = [histogram(groups, "gaussian") for groups in NESTED]
    counts = CountTensor(AGES, np.arange(24).reshape(2, 12))
    with pytest.raises(nz.NoiseplanError, match="sequential=True"):
        nz.adaptive(plans).look(counts, seed=1).without(0)
    with pytest.raises(nz.NoiseplanError, match="from the first to the last"):
        nz.adaptive(plans, sequential=True).look(counts, seed=1).without(1)


# ---------------------------------------------------------------------- figures of the look


def test_figures_where_a_plan_breaks_the_symmetry_of_another() -> None:
    """Equal sizes, but only one of them asked for more: their errors differ, and are averaged."""
    schema = nz.Schema.from_sizes({"x": 3, "y": 3, "z": 2})
    first = nz.plan(nz.Workload([nz.Query(schema, [n]) for n in "xy"]), budget=nz.zCDP(0.5))
    tables = [nz.Query(schema, list(n)) for n in ("xz", "x", "y")]
    second = nz.plan(nz.Workload(tables), budget=nz.zCDP(0.5))
    common = nz.adaptive([first, second]).common
    b, sigma2 = probe(common)
    each = [np.diagonal(blue_covariance(q.dense(), q.dense(), b, sigma2)) for q in common.workload]
    assert not np.isclose(each[0].sum(), each[1].sum(), rtol=1e-3)
    assert common.rmse == pytest.approx(np.sqrt(np.mean(np.concatenate(each))))
    assert common.worst_variance == pytest.approx(np.concatenate(each).max())


def test_plans_that_share_a_table_but_no_query() -> None:
    names = (["age", "sex"], ["age", "region"])
    plans = [nz.plan(nz.Workload([nz.Query(SCHEMA, n)]), budget=nz.zCDP(0.5)) for n in names]
    common = nz.adaptive(plans).common
    assert {q.name for q in common.workload} >= {"age"}


def test_saved_looks_and_choices_say_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    schema = nz.Schema.from_sizes({"x": 3, "y": 3, "z": 2})
    counts = CountTensor(schema, np.arange(18).reshape(3, 3, 2))
    first = nz.plan(
        nz.Workload([nz.Query(schema, [n]) for n in "xy"]), budget=nz.zCDP(0.5), noise="discrete"
    )
    tables = [nz.Query(schema, list(n)) for n in ("xz", "x", "y")]
    second = nz.plan(nz.Workload(tables), budget=nz.zCDP(0.5), noise="discrete")
    look = nz.adaptive([first, second]).look(counts, seed=1)
    chosen = look.choose(second)
    for name, release in (("look", look.release), ("chosen", chosen)):
        release.save(tmp_path / name)
        again = nz.load(tmp_path / name)
        assert again.plan.rmse == pytest.approx(release.plan.rmse)
        assert str(again.plan.privacy) == str(release.plan.privacy)
        for query in release.plan.workload:
            assert np.array_equal(again.answer(query).estimate, release.answer(query).estimate)


# ---------------------------------------------------------------------- errors


def test_what_cannot_be_chosen_from() -> None:
    a, b = plan(1), plan(2)
    with pytest.raises(nz.NoiseplanError, match="two plans or more"):
        nz.adaptive([a])
    with pytest.raises(nz.NoiseplanError, match="two plans or more"):
        nz.adaptive("ab")  # type: ignore[arg-type]
    with pytest.raises(nz.NoiseplanError, match="there twice"):
        nz.adaptive([a, a])
    with pytest.raises(nz.NoiseplanError, match="different noise"):
        nz.adaptive([a, plan(2, noise="gaussian")])
    with pytest.raises(nz.NoiseplanError, match="different neighbours"):
        nz.adaptive([a, plan(2, neighbours="replace")])
    other = nz.Schema.from_sizes({"a": 2})
    elsewhere = nz.plan(nz.Workload.marginals(other, k=1), budget=nz.zCDP(0.5))
    with pytest.raises(nz.NoiseplanError, match="different schemas"):
        nz.adaptive([a, elsewhere])
    choice = nz.adaptive([a, b])
    with pytest.raises(nz.NoiseplanError, match="none of the 2 plans"):
        choice.number(plan(1))
    with pytest.raises(nz.NoiseplanError, match="none of the 2 plans"):
        choice.number(2)
    with pytest.raises(nz.NoiseplanError, match="take one of them"):
        choice.without(a)


def difference(noise: str, planner: str, row: list[float]) -> Plan:
    schema = nz.Schema.from_sizes({"a": 4})
    query = nz.Query(schema, {"a": nz.Custom([row])})
    return nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5), noise=noise, planner=planner)


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_nothing_in_common_is_refused(noise: str) -> None:
    rows = ([1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0])
    plans = [difference(noise, "residual", row) for row in rows]
    with pytest.raises(nz.NoiseplanError, match="nothing in common"):
        nz.adaptive(plans)
    names = (["x"], ["y"])
    schema = nz.Schema.from_sizes({"x": 2, "y": 2})
    with_replace = [
        nz.plan(
            nz.Workload([nz.Query(schema, n)]), budget=nz.zCDP(0.5), noise=noise,
            neighbours="replace",
        )
        for n in names
    ]  # fmt: skip
    # Only the public total is in common: it costs nothing.
    assert nz.adaptive(with_replace).common.privacy.pcost == 0.0


def test_large_plans_on_different_rows_are_refused_with_the_way_out() -> None:
    schema = nz.Schema.from_sizes({"age": 40, "income": 40})
    factors = {"age": nz.Prefix(), "income": nz.Prefix()}
    plans = [
        nz.plan(nz.Workload.marginals(schema, k=k, factors=factors), budget=nz.zCDP(0.5))
        for k in (1, 2)
    ]
    with pytest.raises(nz.NoiseplanError, match=r"age, income by different.*common_rows=True"):
        nz.adaptive(plans)
    choice = nz.adaptive(plans, common_rows=True)
    assert "planned on its own rows" in str(choice)
    for ours, theirs in zip(choice.plans, plans, strict=True):
        assert ours.privacy.pcost <= theirs.privacy.pcost
        assert theirs.rmse <= ours.rmse * (1 + 1e-6)
        assert ours.rmse <= 1.1 * theirs.rmse
    counts = np.random.default_rng(0).integers(0, 9, size=(40, 40))
    release = choice.look(CountTensor(schema, counts), seed=1).choose(plans[1])
    assert release.plan is choice.plans[1]


def test_plans_on_common_rows_are_for_whom_they_were_made() -> None:
    schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    workloads = [nz.Workload.marginals(schema, k=k, factors={"age": nz.Prefix()}) for k in (1, 2)]
    plans = [nz.plan(w, budget=nz.zCDP(0.1), max_rows=3).with_unit("household") for w in workloads]
    for made in nz.adaptive(plans, common_rows=True).plans:
        assert made.privacy.whose == "household"
        assert "household" in made.privacy.describe()


def for_persons(made: Plan, rows: int) -> Plan:
    """The same measurements, priced for persons of so many records."""
    cost = person_cost(made.privacy.pcost, rows)
    return replace(made, max_rows=rows, privacy=made.privacy.at(cost))


def test_persons_of_several_records_are_priced_as_in_the_plans(measured_plans: list[Plan]) -> None:
    plans = [for_persons(plan(k, noise="discrete"), 3) for k in (1, 2)]
    choice = nz.adaptive(plans)
    record = nz.adaptive([plan(k, noise="discrete") for k in (1, 2)]).common.privacy.pcost
    assert choice.common.max_rows == 3
    assert choice.common.privacy.pcost == pytest.approx(9 * record, rel=1e-9)
    choice.look(data(), seed=1).choose(1)
    look, rest = map(Measured.of, measured_plans)
    both = Measured(look.rows + rest.rows, look.sigma2 + rest.sigma2)
    paid = sum(Fraction(p.privacy.pcost) for p in measured_plans)
    assert 9 * 2 * both.rho("add-remove") <= paid * (1 + Fraction(1, 10**12))
    assert paid <= Fraction(plans[1].privacy.pcost)
    left = plans[1].given(plans[0].release(data(), seed=1))
    assert left.privacy.pcost == pytest.approx(
        9 * plan(2, noise="discrete").given(plan(1, noise="discrete").release(data())).privacy.pcost
    )
    with pytest.raises(nz.NoiseplanError, match="a person of 1 and 3 records"):
        nz.adaptive([plan(1, noise="discrete"), plans[1]])
    rebased = nz.adaptive(plans, common_rows=True)
    for ours, theirs in zip(rebased.plans, plans, strict=True):
        assert ours.max_rows == 3
        assert theirs.privacy.pcost * (1 - 1e-9) <= ours.privacy.pcost <= theirs.privacy.pcost


def test_other_noise_is_refused() -> None:
    plans = [replace(plan(k), noise="laplace") for k in (1, 2)]
    with pytest.raises(nz.NoiseplanError, match="for Gaussian noise"):
        nz.adaptive(plans)
    laplace = replace(plan(1).release(data(), seed=1), plan=plans[0])
    with pytest.raises(nz.NoiseplanError, match="different noise"):
        plan(2).given(laplace)


def test_plans_of_a_loss_of_ones_own_keep_their_rows() -> None:
    own = nz.plan(
        nz.Workload.marginals(SCHEMA, k=1), budget=nz.zCDP(0.5), objective=nz.ConvexLoss(np.sum)
    )
    with pytest.raises(nz.NoiseplanError, match="cannot be planned on common rows"):
        nz.adaptive([own, plan(2)], common_rows=True)
    assert nz.adaptive([own, plan(2)]).common.privacy.pcost > 0
