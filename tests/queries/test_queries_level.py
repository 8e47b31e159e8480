"""Level: queries by the names of levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import QueryError
from noiseplan.matrices import GroupMatrix, IdentityMatrix
from noiseplan.queries.predicates import predicate_query
from noiseplan.queries.questions import ask_query
from noiseplan.queries.workload_files import read_workload, write_workload

TRACTS = ["a1", "b1", "a2", "c1", "b2", "c2", "c3"]
COLUMNS = {
    "tract": TRACTS,
    "county": [tract[0] for tract in TRACTS],
    "state": ["X" if tract[0] == "a" else "Y" for tract in TRACTS],
}
GEO = nz.Hierarchical(COLUMNS)
SCHEMA = nz.Schema({"geo": GEO, "sex": nz.Categorical(["F", "M"])})


def by_groups(level: str) -> nz.Levels:
    return nz.Levels(COLUMNS[level], leaves=False, total=False)


@pytest.mark.parametrize("level", ["county", "state"])
def test_a_level_is_its_groups(level: str) -> None:
    """Against membership written out by hand, and against Levels."""
    labels = list(dict.fromkeys(COLUMNS[level]))
    dense = [[float(label == own) for own in COLUMNS[level]] for label in labels]
    factor = nz.Level(level)
    assert isinstance(factor.matrix(GEO), GroupMatrix)
    assert factor.matrix(GEO).dense().tolist() == dense
    assert list(factor.row_labels(GEO)) == labels
    other = by_groups(level)
    assert other.matrix(GEO).dense().tolist() == dense
    assert other.row_labels(GEO) == labels


def test_the_leaves_are_the_identity() -> None:
    assert isinstance(nz.Level("tract").matrix(GEO), IdentityMatrix)
    assert nz.Level("tract").row_labels(GEO) == GEO.labels


def test_several_levels_follow_each_other() -> None:
    factor = nz.Level("state", "tract")
    expected = np.vstack([nz.Level(level).matrix(GEO).dense() for level in ("state", "tract")])
    assert np.array_equal(factor.matrix(GEO).dense(), expected)
    assert factor.row_labels(GEO)[:3] == ("state X", "state Y", "tract a1")


def test_levels_are_values() -> None:
    assert nz.Level("county") == nz.Level("county")
    assert hash(nz.Level("county")) == hash(nz.Level("county"))
    assert nz.Level("county") != nz.Level("state")
    assert repr(nz.Level("county", "state")) == "Level('county', 'state')"


def test_names_and_headings() -> None:
    query = nz.Query(SCHEMA, {"geo": nz.Level("county"), "sex": nz.Identity()})
    assert query.name == "county × sex"
    assert query.headings == ("county", "sex")
    assert query.row_labels()["county"] == ["a", "a", "b", "b", "c", "c"]
    assert nz.Query(SCHEMA, ["sex", "county"]).key == query.key
    assert nz.Query(SCHEMA, ["geo.county", "sex"]).key == query.key
    stacked = nz.Query(SCHEMA, {"geo": nz.Level("county", "state")})
    assert stacked.name == "county + state"
    assert stacked.headings == ("geo",)


@pytest.mark.parametrize(
    ("question", "heading", "label"),
    [
        ("county=12", "county", "county 12"),
        ("county=12 | 13", "county", "county 12"),
        ("county group=1", "county group", "county group 1"),
        ("tract=131", "tract", "131"),
        ("county=12, tract", "tract", "121"),
        ("county=12+13", "county", "county 12+13"),
        ("county, tract=121+122", "county", "12"),
    ],
)
def test_groups_of_a_level_are_headed_by_it(question: str, heading: str, label: str) -> None:
    """Also where the attribute is called like its finest level: a county is no tract."""
    geo = nz.Hierarchical(
        {
            "tract": ["121", "122", "131"],
            "county": ["12", "12", "13"],
            "county group": ["1", "1", "1"],
        }
    )
    by_itself = not question.startswith("tract") and label.isdigit()  # a label names no level
    for name, expected in (("tract", heading), ("geo", heading if by_itself else "geo")):
        schema = nz.Schema({name: geo, "sex": nz.Categorical(["F", "M"])})
        columns = ask_query(f"{question}, sex", schema).row_labels()
        assert list(columns) == [expected, "sex"]
        assert str(columns[expected][0]).endswith(label)
    schema = nz.Schema({"tract": geo})
    # A label of one's own that begins so, over tracts of two counties: no county.
    own = nz.Query(schema, {"tract": nz.Custom([[1, 0, 1]], labels=["county fair"])})
    assert own.headings == ("tract",)
    # Called as a county, but of tracts of another one.
    own = nz.Query(nz.Schema({"geo": geo}), {"geo": nz.Custom([[1, 0, 1]], labels=["12"])})
    assert own.headings == ("geo",)
    assert list(predicate_query(schema, "county = '12'").row_labels()) == ["county"]


def test_names_that_could_be_two_things_are_told_in_full() -> None:
    schema = nz.Schema({"home": GEO, "work": GEO})
    query = nz.Query(schema, {"home": nz.Level("county"), "work": nz.Level("county")})
    assert query.name == "home.county × work.county"
    assert list(query.row_labels()) == ["home.county", "work.county"]
    workload = nz.Workload([query, nz.Query(schema, ["work.state"])])
    assert workload["home.county × work.county"].key == query.key
    assert workload["work.state"].rows == 2


def test_the_leaves_have_one_name_and_are_found_by_both() -> None:
    """Planners know the identity: a plain table of very many leaves is planned at once."""
    query = nz.Query(SCHEMA, {"geo": nz.Level("tract")})
    assert query.factors["geo"] == nz.Identity()
    assert query.key == nz.Query(SCHEMA, ["geo"]).key == nz.Query(SCHEMA, ["tract"]).key
    assert query.name == "tract"
    assert query.headings == ("tract",)
    workload = nz.Workload.marginals(SCHEMA, k=2, factors={"geo": nz.Level("tract")})
    assert workload.columns.distinct == (nz.Identity(),)
    assert workload["tract × sex"].key == workload["geo × sex"].key


def test_an_attribute_called_as_its_leaves() -> None:
    schema = nz.Schema({"tract": GEO})
    assert nz.Query(schema, ["tract"]).factors["tract"] == nz.Identity()
    assert nz.Query(schema, ["tract"]).name == "tract"
    assert nz.Query(schema, ["county"]).name == "county"
    with pytest.raises(nz.NoiseplanError, match="'county' is called as its level 'county', but"):
        nz.Schema({"county": GEO})


def test_tables_are_headed_as_they_were_asked() -> None:
    plan = nz.plan(nz.Workload([nz.Query(SCHEMA, ["geo", "sex"])]), budget=nz.zCDP(0.5))
    release = plan.release({"geo": TRACTS, "sex": ["F"] * 7}, seed=1)
    for names in (["sex", "geo"], ["county", "sex"], ["geo.state"], ["tract"]):
        assert list(release.columns(*names))[: len(names)] == names
    assert next(iter(release.answer("geo × sex").columns())) == "tract"
    assert release.columns("county", "sex")["county"] == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"sex": nz.Level("county")}, "needs a hierarchical attribute, but 'sex' is Categorical"),
        ({"geo": nz.Level("conty")}, "no level 'conty'.*did you mean 'county'"),
        ({"geo": nz.Prefix()}, r"Prefix\(\) needs an ordered attribute, but 'geo' is Hierarch"),
        ({"geo": nz.Ranges()}, r"Ranges\(\) needs an ordered attribute, but 'geo' is Hierarch"),
        (["county", "state"], "'state' asks for 'geo' a second time"),
        (["geo", "state"], "'state' asks for 'geo' a second time"),
    ],
)
def test_refuses(factors: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        nz.Query(SCHEMA, factors)


@pytest.mark.parametrize("levels", [(), (3,), ("county", "county")])
def test_levels_that_are_none(levels: Any) -> None:
    with pytest.raises(QueryError, match="Level"):
        nz.Level(*levels)


def test_workloads_by_level() -> None:
    workload = nz.Workload.marginals(SCHEMA, up_to=2, factors={"geo": nz.Level("county")})
    assert [query.name for query in workload] == ["total", "county", "sex", "county × sex"]
    assert workload["county × sex"].rows == 6
    content, arrays = write_workload(workload + nz.Query(SCHEMA, {"geo": nz.Level("state")}))
    again = read_workload(content, arrays, 100)
    assert [query.name for query in again][-1] == "state"
    assert again["county × sex"].factors["geo"] == nz.Level("county")


@pytest.mark.parametrize("planner", ["auto", "residual"])
def test_plans_are_those_of_groups(planner: str) -> None:
    """On a short attribute the ordinary families plan, with the same variances."""
    by_name = nz.Workload([nz.Query(SCHEMA, ["geo"]), nz.Query(SCHEMA, ["county", "sex"])])
    factors = {"geo": by_groups("county"), "sex": nz.Identity()}
    by_value = nz.Workload([nz.Query(SCHEMA, ["geo"]), nz.Query(SCHEMA, factors)])
    one, other = (nz.plan(w, budget=nz.zCDP(0.5), planner=planner) for w in (by_name, by_value))
    for a, b in zip(by_name, by_value, strict=True):
        assert np.array_equal(one.variance(a), other.variance(b))


def long_places(rng: np.random.Generator, leaves: int) -> nz.Hierarchical:
    tract = rng.integers(0, 40, leaves)
    return nz.Hierarchical({"block": range(leaves), "tract": tract, "county": tract % 7})


def test_long_attributes_are_planned_as_trees() -> None:
    geo = long_places(np.random.default_rng(2), 300)
    schema = nz.Schema({"geo": geo, "sex": nz.Categorical(["F", "M"])})
    names = ("tract", "county")
    by_name = [nz.Query(schema, [level, "sex"], name=level) for level in names]
    groups = {n: nz.Levels(geo.group_of(n).tolist(), leaves=False, total=False) for n in names}
    by_value = [nz.Query(schema, {"geo": groups[n], "sex": nz.Identity()}, name=n) for n in names]
    plans = [
        nz.plan(nz.Workload([nz.Query(schema, ["geo"]), *queries]), budget=nz.zCDP(0.5))
        for queries in (by_name, by_value)
    ]
    assert plans[0].considered[0][0] == "tree of levels"
    for name in names:
        assert np.array_equal(plans[0].variance(name), plans[1].variance(name))
    states = nz.Query(schema, {"geo": nz.Levels(geo.group_of("tract") % 7 % 2)})
    assert plans[0].variance(states).shape == (303,)  # groups of another making work on it too
    counts = {"geo": np.arange(300), "sex": ["F", "M"] * 150}
    release = plans[0].release(counts, seed=3)
    leaves = release.answer(nz.Query(schema, ["geo"])).estimate
    counties = release.answer("county").estimate.reshape(7, 2).sum(axis=1)
    members = np.bincount(geo.group_of("county"), leaves)
    assert counties == pytest.approx(members)  # all levels agree


def test_targets_by_level() -> None:
    geo = long_places(np.random.default_rng(4), 300)
    schema = nz.Schema({"geo": geo, "sex": nz.Categorical(["F", "M"])})
    workload = nz.Workload([nz.Query(schema, ["tract"]), nz.Query(schema, ["county", "sex"])])
    plan = nz.plan(workload, targets={"tract": 60.0**2, "county × sex": 20.0**2})
    assert plan.variance("tract").max() <= 60.0**2 * (1 + 1e-9)
    assert plan.variance("county × sex").max() == pytest.approx(400, rel=1e-2)


@examples(30)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_answers_are_sums_over_members(groups: list[int], seed: int) -> None:
    geo = nz.Hierarchical({"leaf": range(len(groups)), "group": groups})
    schema = nz.Schema({"geo": geo, "sex": nz.Categorical(["F", "M"])})
    counts = np.random.default_rng(seed).integers(0, 9, (len(groups), 2))
    found = nz.Query(schema, ["group", "sex"]).apply(counts).reshape(-1, 2)
    for number, group in enumerate(dict.fromkeys(groups)):
        members = [i for i, own in enumerate(groups) if own == group]
        assert found[number].tolist() == counts[members].sum(axis=0).tolist()


# ---------------------------------------------------------------------- one table for each level


LONG = nz.Schema(
    {"age": nz.Ordinal(range(300), missing="not stated"), "sex": nz.Categorical(["F", "M"])}
)


def test_a_query_on_several_levels_is_taken_apart() -> None:
    """The parts are the rows of the whole, in order, each with its own labels."""
    from noiseplan.queries.level_parts import level_parts

    factors = {"geo": nz.Level("state", "tract"), "sex": nz.Identity()}
    for query in (
        nz.Query(SCHEMA, factors),
        nz.Query(SCHEMA, factors, name="both"),
        nz.Query(SCHEMA, {"sex": nz.Identity(), "geo": nz.Levels(COLUMNS["county"])}),
        # A cell of missing values is in none of the levels.
        nz.Query(LONG, {"age": nz.Levels(10, 50), "sex": nz.Identity()}),
        nz.Query(LONG, {"sex": nz.Identity(), "age": nz.Levels(50, leaves=False)}),
    ):
        whole = query.dense().reshape(*query.shape, -1)
        parts = level_parts(query)
        for part in parts:
            rows = whole[part.rows].reshape(-1, whole.shape[-1])
            assert np.array_equal(part.query.dense(), rows)
        assert sum(part.query.rows for part in parts) == query.rows
        assert len({part.query.name for part in parts}) == len(parts)
    (alone,) = level_parts(nz.Query(SCHEMA, ["county", "sex"]))
    assert alone.query.name == "county × sex"


def test_answers_by_level_are_those_of_the_whole() -> None:
    query = nz.Query(SCHEMA, {"geo": nz.Level("state", "county"), "sex": nz.Identity()}, name="q")
    plan = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5))
    release = plan.release({"geo": TRACTS, "sex": ["F"] * 7}, seed=1)
    for simultaneous in (False, True):
        whole = release.answer(query, simultaneous=simultaneous)
        states, counties = whole.by_level()
        assert (states.query.name, counties.query.name) == ("q: state", "q: county")
        for name in ("estimate", "std_error", "lower", "upper"):
            both = np.concatenate([getattr(states, name), getattr(counties, name)])
            assert np.array_equal(both, getattr(whole, name))
