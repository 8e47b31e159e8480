"""What budgets promise on the page: the words of the report, rounded outward."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from serving import Page

from noiseplan.data import example_study
from noiseplan.errors import BudgetError, NoiseplanError
from noiseplan.privacy import GDP, ApproxDP, Guarantee, PureDP, zCDP
from noiseplan.studio.privacy_view import STOPS, asked_privacy, privacy_range, promised
from noiseplan.study import StudyError
from noiseplan.words.privacy import promise, success_bound

WAGES = example_study("wages").read_text(encoding="utf-8")


def test_the_budget_of_a_study_is_told_as_everywhere(page: Page) -> None:
    found = page.post("/api/privacy", text=WAGES)
    most = ApproxDP(1.0, 1e-9).gaussian_pcost()
    assert found["rho"] == pytest.approx(most / 2, rel=1e-12) and found["rho"] >= most / 2
    assert found["law"] == "zcdp" and found["mu"] == pytest.approx(math.sqrt(most), rel=1e-12)
    # Laplace noise may be taken, which is (1, 0)-DP: e times the false alarms of 5 in 100.
    assert found["sentences"] == promise(Guarantee.pure(1.0))
    assert found["success"] == 13.6 and "at most 13.6 of 100" in found["sentences"][0]
    first, other = found["currencies"]
    assert first["value"] == "ε = 1 at δ = 1e-09" and first["meaning"] == "as decided"
    assert other["value"] == "once it is planned"
    assert [each["delta"] for each in found["epsilons"]] == [1e-6, 1e-9, 1e-12]
    assert found["doubts"] == []


def test_a_plan_never_costs_more_than_its_budget_promised(page: Page) -> None:
    text = "[schema]\na = { ordinal = [1, 2, 3] }\n[[tables]]\nk = 1\n[budget]\n"
    pair = "approx_dp = { epsilon = 0.7, delta = 1e-11 }"
    gaussian = '\n[plan]\nnoise = "discrete Gaussian"'
    for budget in ("zcdp = 0.3", pair + gaussian, "gdp = 0.6", "pure_dp = 0.9"):
        before = page.post("/api/privacy", text=text + budget)
        after = page.plan(text + budget)["privacy"]
        assert after["rho"] <= before["rho"] and after["rho"] > 0.9 * before["rho"]
        assert after["success"] <= before["success"] and after["law"] == before["law"]
    before, after = page.post("/api/privacy", text=text + pair), page.plan(text + pair)["privacy"]
    assert after["law"] == "pure" and after["success"] <= before["success"]
    assert before["currencies"][0] == after["currencies"][0]
    assert after["currencies"][0]["value"] == "ε = 0.7 at δ = 1e-11"


@pytest.mark.parametrize(
    ("budget", "noise", "law", "pcost"),
    [
        (zCDP(0.5), None, "zcdp", 1.0),
        (zCDP(0.5), "gaussian", "gaussian", 1.0),
        (GDP(1.0), "gaussian", "gaussian", 1.0),
        (GDP(1.0), None, "zcdp", 1.0),
        (ApproxDP(1.0, 1e-10), "discrete Laplace", "pure", 1.0),
        (PureDP(1.0), None, "pure", 1.0),
        (PureDP(1.0), "laplace", "pure", 1.0),
    ],
)
def test_the_law_is_that_of_the_noise(budget: object, noise: str, law: str, pcost: float) -> None:
    found = promised(budget, noise, "replace")  # type: ignore[arg-type]
    assert (found.law, found.neighbours) == (law, "replace")
    assert pcost <= found.pcost <= pcost * (1 + 1e-15)


def test_budgets_that_stand_in_no_study_yet(page: Page) -> None:
    found = page.post("/api/privacy", budget={"pure_dp": 30}, neighbours="replace", max_rows=3)
    assert found["pure_epsilon"] == 30.0 and found["neighbours"] == "replace"
    assert "which of two persons" in found["sentences"][0]
    assert "protects next to nobody" in found["doubts"][0]
    found = page.post("/api/privacy", budget={"zcdp": 0.1}, unit="household", max_rows=2)
    assert "one household" in found["sentences"][0]
    found = page.post("/api/privacy", budget={"gdp": 1.0}, noise="gaussian")
    assert found["mu"] == 1.0
    assert page.post("/api/privacy", budget={"gdp": 1.0})["mu"] == 1.0
    _, error = page.refused("/api/privacy", budget={"zcdp": -1})
    assert error["place"] == ["budget", "zcdp"]
    with pytest.raises(StudyError):
        asked_privacy({})


def test_a_study_without_a_budget_says_so(page: Page) -> None:
    text = "[schema]\na = { ordinal = [1, 2] }\n[[tables]]\nk = 1\n[targets]\na = 25.0\n"
    status, error = page.refused("/api/privacy", text=text)
    assert status == 400 and "targets decide" in error["message"]
    assert page.post("/api/read", text=text)["privacy"] is None


@pytest.mark.parametrize(
    ("currency", "delta"), [("zcdp", None), ("gdp", None), ("pure_dp", None), ("approx_dp", 1e-6)]
)
def test_the_stops_of_a_slider_rise_and_are_what_they_say(
    currency: str, delta: float | None
) -> None:
    found = privacy_range(currency, delta)
    stops = found["stops"]
    assert len(stops) == STOPS
    assert stops[0]["value"] == found["low"] and stops[-1]["value"] == found["high"]
    for name in ("value", "rho", "epsilon", "success"):
        column = [stop[name] for stop in stops]
        assert column == sorted(column)
    ratios = [b["value"] / a["value"] for a, b in pairwise(stops)]
    assert max(ratios) / min(ratios) < 1.1
    middle = stops[30]
    budget = {"zcdp": zCDP, "gdp": GDP, "pure_dp": PureDP}.get(currency)
    one = ApproxDP(middle["value"], 1e-6) if budget is None else budget(middle["value"])
    spent = promised(one, None, "add-remove")
    assert middle["rho"] == spent.rho
    if currency == "approx_dp":  # Laplace noise may be taken
        spent = Guarantee.pure(middle["value"])
    assert middle["success"] == math.ceil(1000 * success_bound(spent) - 1e-9) / 10


def test_ranges_by_call(page: Page) -> None:
    assert page.post("/api/privacy/range", currency="zcdp")["low"] == 1e-4
    assert page.post("/api/privacy/range", currency="approx_dp", delta=1e-9)["delta"] == 1e-9
    status, error = page.refused("/api/privacy/range", currency="euro")
    assert status == 422 and "zcdp" in error["message"]
    with pytest.raises(NoiseplanError):
        privacy_range("approx_dp", 2.0)
    with pytest.raises(BudgetError):
        privacy_range("none", None)
