"""A data-aware plan is a plan, its release a release: every member answers, or refuses in words."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import DependsOnData, NoiseplanError, PlanError

LINE = nz.Schema({"v": nz.Ordinal(range(16))})
WORKLOAD = nz.Workload([nz.Query(LINE, {"v": nz.Prefix()}, name="prefix")])
PLAN = nz.plan(WORKLOAD, budget=nz.PureDP(1.0), planner="dawa")
RELEASE = PLAN.release(np.arange(16), seed=3)
# Members that take arguments, with some.
ARGUMENTS = {
    "query": ("prefix",),
    "variance": ("prefix",),
    "std_error": ("prefix",),
    "half_width": ("prefix",),
    "covariance": ("prefix", "prefix"),
    "answer": ("prefix",),
    "table": ("v",),
    "plot": (),
    "free_queries": (WORKLOAD,),
    "given": (RELEASE,),
    "with_unit": ("household",),
    "ask": ("v=prefix",),
    "named": ("prefix",),
    "mean": ("v",),
    "median": ("v",),
    "quantile": ("v", 0.5),
    "share": ("v",),
    "ratio": ("prefix", "prefix"),
}
# Asked elsewhere: they read data, or write files.
ELSEWHERE = ("release", "check", "save")


def members(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and name not in ELSEWHERE]


def ask(thing: object, name: str) -> object:
    member = getattr(thing, name)
    return member(*ARGUMENTS.get(name, ())) if callable(member) else member


@pytest.mark.parametrize("name", [*members(nz.Plan), "figures", "optimality", "mechanism"])
def test_every_member_of_a_plan_answers_or_refuses_in_words(name: str) -> None:
    assert isinstance(PLAN, nz.Plan)
    try:
        ask(PLAN, name)
    except NoiseplanError as refused:
        assert len(str(refused)) > 40, "a refusal says why, and what else to do"


@pytest.mark.parametrize("name", [*members(nz.Release), "plan", "measurements"])
def test_every_member_of_a_release_answers_or_refuses_in_words(name: str) -> None:
    assert isinstance(RELEASE, nz.Release)
    try:
        ask(RELEASE, name)
    except NoiseplanError as refused:
        assert len(str(refused)) > 40, "a refusal says why, and what else to do"


def test_what_only_the_data_know_is_refused_as_such() -> None:
    for name in ("rmse", "total_variance", "worst_variance", "lower_bound", "optimal", "gap"):
        with pytest.raises(DependsOnData, match="compare"):
            getattr(PLAN, name)
        assert not hasattr(PLAN, name)  # so that probing for it finds nothing
    with pytest.raises(DependsOnData, match="depends on the data"):
        PLAN.fairness()
    assert isinstance(pickle.loads(pickle.dumps(DependsOnData())), PlanError)


def test_ordinary_releases_have_no_buckets() -> None:
    plain = nz.plan(WORKLOAD, budget=nz.zCDP(0.5)).release(np.arange(16), seed=1)
    for name in ("edges", "buckets", "counts"):
        with pytest.raises(AttributeError, match="looked at no data"):
            getattr(plain, name)


def test_answers_name_the_error_they_have() -> None:
    plain = nz.plan(WORKLOAD, budget=nz.zCDP(0.5)).release(np.arange(16), seed=1).answer("prefix")
    aware = RELEASE.answer("prefix")
    assert plain.bias_error is None and (plain.error == plain.std_error).all()
    assert not hasattr(plain, "estimated_error") and not hasattr(aware, "std_error")
    both = np.hypot(aware.noise_error, aware.bias_error)
    assert np.array_equal(aware.error, both) and np.array_equal(aware.estimated_error, both)


def test_records_that_were_chosen_are_told_in_the_certificate(tmp_path) -> None:
    data = {"v": [1, 2, 2, 3], "who": ["a", "a", "b", "c"]}
    release = PLAN.release(data, person="who", seed=1)
    release.save(tmp_path / "out")
    text = (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")
    assert "one person, of whom one record is counted" in text
    assert nz.load(tmp_path / "out").choice is not None
