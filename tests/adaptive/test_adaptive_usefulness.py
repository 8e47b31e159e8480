"""The rule for any plans at any size: useful cells, expected from the look."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing import Posterior, SignalToNoise, Usefulness, usefulness
from noiseplan.choosing.usefulness import expected_table
from noiseplan.counting import CountTensor
from noiseplan.errors import UnanswerableError

SCHEMA = nz.Schema.from_sizes({"a": 5, "b": 4, "c": 3, "d": 2})
COUNTS = np.random.default_rng(2).gamma(0.6, 300, SCHEMA.shape).round()
PRECISE = nz.zCDP(5e5)


def plan(*tables: list[str], budget: nz.Budget = PRECISE, **how: object) -> nz.Plan:
    queries = [nz.Query(SCHEMA, names) for names in tables]
    return nz.plan(nz.Workload(queries), budget=budget, **how)  # type: ignore[arg-type]


def looked(plans: list[nz.Plan]) -> nz.Look:
    return nz.adaptive(plans).look(CountTensor(SCHEMA, COUNTS), seed=1)


def table(*keep: int) -> np.ndarray:
    return COUNTS.sum(axis=tuple(set(range(4)) - set(keep)))


def test_tables_that_the_look_does_not_tell_are_products() -> None:
    look = looked([plan(["a", "b"], ["c"]), plan(["a", "c"], ["b"])])
    expected = np.einsum("a,b,c->abc", table(0), table(1), table(2)) / COUNTS.sum() ** 2
    found = expected_table(look.release, nz.Query(SCHEMA, ["a", "b", "c"]))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_attributes_that_meet_in_a_third_are_independent_given_it() -> None:
    look = looked([plan(["a", "b"], ["b", "c"]), plan(["a", "b"], ["b", "c"], ["d"])])
    expected = np.einsum("ab,bc,b->abc", table(0, 1), table(1, 2), 1 / table(1))
    found = expected_table(look.release, nz.Query(SCHEMA, ["a", "b", "c"]))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_rounds_fit_tables_that_are_no_products() -> None:
    pairs = [["a", "b"], ["b", "c"], ["a", "c"]]
    look = looked([plan(*pairs), plan(*pairs, ["d"])])
    found = expected_table(look.release, nz.Query(SCHEMA, ["a", "b", "c"]))
    for axis, keep in ((2, (0, 1)), (0, (1, 2)), (1, (0, 2))):
        np.testing.assert_allclose(found.sum(axis=axis), table(*keep), rtol=0.02)


@pytest.mark.parametrize("rho", [1e-5, 1e-4, 1e-3, 1e-1])
def test_shares_are_those_of_the_expected_counts(rho: float) -> None:
    """Plans that are not nested, by the same sums over single queries."""
    plans = [plan(["a", "b"], budget=nz.zCDP(rho)), plan(["c", "d"], ["a"], budget=nz.zCDP(rho))]
    look = looked(plans)
    advice = look.recommend(Usefulness(share=0.4, ratio=2))
    shares, numbers = [], []
    for each in plans:
        useful = 0
        for query in each.workload:
            try:
                counts = look.answer(query).estimate
            except UnanswerableError:
                counts = expected_table(look.release, query).ravel()
            useful += int((counts >= 2 * np.sqrt(each.variance(query))).sum())
        shares.append(useful / each.workload.rows)
        numbers.append(useful)
    for number, share in enumerate(shares):
        assert advice.figures[f"plan {number}: share of useful cells"] == pytest.approx(share)
    enough = [i for i in (0, 1) if shares[i] >= 0.4]
    if enough:
        assert advice.number == max(enough, key=lambda i: numbers[i])
    elif max(shares) > 0:
        assert advice.number == int(np.argmax(shares)) and "no plan has 0.4" in advice.reasons
    else:
        assert advice.action == "stop"


def test_it_is_what_is_taken_unless_another_rule_is_given() -> None:
    plans = [plan(["a", "b"]), plan(["c", "d"])]
    advice = looked(plans).recommend()
    assert advice.action == "choose" and advice.reasons.startswith("about 20 cells with 3")
    assert looked(plans).follow().plan is plans[0]


def test_cells_that_matter_are_of_no_use_where_they_are_not_answered() -> None:
    plans = [plan(["a", "b"]), plan(["b", "c"], ["d"])]
    matter = nz.Workload([nz.Query(SCHEMA, names) for names in (["b", "c"], ["b"])])
    advice = looked(plans).recommend(Usefulness(cells=matter))
    clear = (table(1, 2) > 5).mean()  # so little noise that nothing else counts
    assert advice.figures["plan 0: share of useful cells"] == 4 / 16
    found = advice.figures["plan 1: share of useful cells"]
    assert found == pytest.approx((12 * clear + 4) / 16) and advice.number == 1


def test_of_many_tables_some_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = nz.Workload.marginals(SCHEMA, k=2)
    plans = [
        nz.plan(pairs, budget=PRECISE), nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=PRECISE)
    ]  # fmt: skip
    whole = looked(plans).recommend()
    monkeypatch.setattr(usefulness, "TABLES", 3)
    some = looked(plans).recommend()
    name = "plan 0: share of useful cells"
    assert 0 < some.figures[name] <= 1
    assert some.figures[name] == pytest.approx(whole.figures[name], abs=0.2)


def test_over_a_million_cells_it_is_the_rule_that_others_name() -> None:
    schema = nz.Schema.from_sizes({"age": 100, "sex": 2, "region": 64, "edu": 10, "income": 10})
    rng = np.random.default_rng(0)
    sizes = (90, 2, 50, 10, 6)
    people = {
        n: rng.binomial(size - 1, 0.4, 20_000) for n, size in zip(schema.names, sizes, strict=True)
    }
    plans = [
        nz.plan(
            nz.Workload([nz.Query(schema, each) for each in tables]), budget=nz.zCDP(0.05)
        )
        for tables in ((["age", "sex"], ["region", "edu"]), (["age", "region"], ["income"]))
    ]  # fmt: skip
    look = nz.adaptive(plans).look(people, seed=1)
    advice = look.recommend()
    for number, each in enumerate(plans):
        exact = each.release(people, seed=2)
        useful = [exact.answer(q).estimate >= 3 * np.sqrt(each.variance(q)) for q in each.workload]
        share = advice.figures[f"plan {number}: share of useful cells"]
        assert share == pytest.approx(np.concatenate(useful).mean(), abs=0.1)
    for rule in (SignalToNoise(0.5, 3), Posterior()):
        with pytest.raises(nz.NoiseplanError, match=r"take Usefulness\(\)"):
            look.recommend(rule)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(nz.NoiseplanError, match="share in"):
        Usefulness(share=0)
    halves = nz.Query(SCHEMA, {"d": nz.Custom([[1.0, -1.0]])})
    plans = [
        nz.plan(nz.Workload([halves, *more]), budget=PRECISE, planner="residual")
        for more in ([], [nz.Query(SCHEMA, {"c": nz.Custom([[1.0, -1.0, 0.0]])})])
    ]
    look = nz.adaptive(plans).look(CountTensor(SCHEMA, COUNTS), seed=1)
    with pytest.raises(nz.NoiseplanError, match="does not tell the total"):
        look.recommend()
