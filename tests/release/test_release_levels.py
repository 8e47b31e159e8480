"""What a release of levels says of questions that were not planned for: refused, or remarked on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import UnanswerableError

TRACT = np.arange(400) // 5
GEO = nz.Hierarchical({"place": range(400), "tract": TRACT + 1000, "county": TRACT // 20 + 5000})
SCHEMA = nz.Schema({"geo": GEO, "age": nz.Ordinal(range(20)), "sex": nz.Categorical(["F", "M"])})
BANDS = nz.Levels(5, leaves=False, total=False)


@cache
def release(planner: str = "auto") -> nz.Release:
    tracts = {"geo": nz.Level("tract"), "age": BANDS, "sex": nz.Identity()}
    asked = [
        nz.Query(SCHEMA, ["county", "age", "sex"], name="counties"),
        nz.Query(SCHEMA, tracts, name="tracts"),
        nz.Query(SCHEMA, ["geo", "sex"], name="places"),
    ]
    workload = nz.Workload(asked).weighted("tables")
    counts = np.random.default_rng(0).poisson(1.0, SCHEMA.shape).astype(float)
    return nz.plan(workload, budget=nz.zCDP(0.5), planner=planner).release(counts, seed=1)


@pytest.mark.parametrize(
    ("question", "cause"),
    [
        ("tract, age", "'age': by tract the plan tells 4 groups of 'age' and 'sex' apart"),
        ("geo, age, sex", "'age': by place the plan tells 'sex' apart"),
        ("tract=1003, age", "'age': by tract the plan tells 4 groups of 'age' and 'sex' apart"),
    ],
)
def test_refusals_name_the_cause_and_what_is_measured(question: str, cause: str) -> None:
    with pytest.raises(UnanswerableError, match="add the query to the workload") as refused:
        release().ask(question)
    assert str(refused.value).endswith(f"The cause is {cause}")


def test_refusals_of_trees_say_what_is_measured_there() -> None:
    with pytest.raises(UnanswerableError, match=r"By place it measures sex$"):
        release("residual").answer(nz.Query(SCHEMA, ["geo", "age"]))


def test_all_places_together_are_no_level() -> None:
    """Three levels were declared; a nation of one group would be the fourth."""
    said = release().plan.mechanism.describe()
    assert "at 3 levels of geo and in total, each by rows of its own" in said
    nation = nz.Hierarchical({"place": range(400), "tract": TRACT + 1000, "nation": [0] * 400})
    schema = nz.Schema({"geo": nation, "sex": nz.Ordinal(range(2))})
    asked = [nz.Query(schema, ["place"]), nz.Query(schema, ["tract", "sex"])]
    plan = nz.plan(nz.Workload(asked), budget=nz.zCDP(0.5))
    assert "at 3 levels of geo" in str(plan) and "in total" not in str(plan)


def test_answers_that_are_hardly_measured_say_so() -> None:
    """Every second place of a county, many thousand times over: far above what was planned."""
    made = release()
    worst = max(made.plan.std_error(query).max() for query in made.plan.workload)
    for times, remarked in ((1, False), (5, True)):
        row = np.zeros((1, 400))
        row[0, ::2] = times
        answer = made.answer(nz.Query(SCHEMA, {"geo": nz.Custom(row)}, name="some"))
        assert (answer.std_error[0] > 20 * worst) == remarked  # otherwise it proves nothing
        assert ("hardly measured" in str(answer)) == remarked
        assert len(answer.notes) == remarked
        if remarked:
            assert f"up to {answer.std_error[0]:,.4g}," in str(answer)
            assert f"are {worst:,.4g} at most" in str(answer)
            assert "hardly measured" in answer._repr_html_()
            assert set(answer.columns()) == {"geo", "estimate", "std_error", "lower", "upper"}
    for query in made.plan.workload:
        assert not made.answer(query).notes
