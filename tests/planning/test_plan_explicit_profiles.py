"""What records of each cell pay, the kindest optimum, and queries that are free: by brute force."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.mechanisms.matrix import DenseMechanism

NOISES = ["gaussian", "discrete"]
SCHEMA = nz.Schema.from_sizes({"cell": 3})
LINE = nz.Schema({"a": nz.Ordinal(range(6))})


def cell(i: int, name: str) -> nz.Query:
    return nz.Query(SCHEMA, ["cell"], matrix=np.eye(3)[i : i + 1], name=name)


def uneven(planner: str, noise: str) -> nz.Plan:
    """Cells with targets 1 and 4, and one that nobody asks about."""
    workload = nz.Workload([cell(0, "sharp"), cell(1, "loose")])
    return nz.plan(workload, targets={"sharp": 1.0, "loose": 4.0}, planner=planner, noise=noise)


@pytest.mark.parametrize("noise", NOISES)
def test_the_profile_is_what_a_record_adds(noise: str) -> None:
    plan = uneven("refined", noise)
    costs = plan.profile().costs
    assert costs.shape == (3,)
    np.testing.assert_allclose(costs[:2], [1.0, 0.25], rtol=1e-4)
    mechanism = plan.mechanism
    assert isinstance(mechanism, DenseMechanism)
    sigma2 = Fraction(mechanism.noise.one)
    for column, cost in zip(mechanism.strategy.T, costs, strict=True):
        exact = sum(Fraction(float(v)) ** 2 for v in column) / sigma2
        assert exact <= Fraction(float(cost)), "rounded up"
        assert float(exact) == pytest.approx(cost, rel=1e-9, abs=1e-12)
    assert costs.max() <= plan.privacy.pcost


LONG = nz.Schema.from_sizes({"sex": 2, "place": 4000, "age": 8})
GROUPS = nz.Levels((np.arange(4000) // 10).tolist(), leaves=False, total=False)
ADULTS, VALUE = nz.Custom([[0, 0, 1, 1, 1, 1, 1, 1]]), nz.Identity()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "factors", "others"),
    [
        ("levels", (VALUE, GROUPS), (ADULTS, nz.Prefix())),
        ("tree", (VALUE, GROUPS), (VALUE, VALUE)),
        ("series", (nz.Prefix(), GROUPS), (VALUE, VALUE)),
    ],
)
def test_the_profile_along_a_long_attribute(
    kind: str, factors: tuple[nz.Factor, ...], others: tuple[nz.Factor, ...]
) -> None:
    """Of 64,000 cells, which no matrix is written down over."""
    pairs = zip(factors, others, strict=True)
    queries = [nz.Query(LONG, {"place": along, "age": age}) for along, age in pairs]
    plan = nz.plan(nz.Workload(queries), budget=nz.zCDP(0.5))
    assert plan.mechanism.kind == kind
    costs = plan.profile().costs
    assert costs.shape == LONG.shape
    assert costs.max() == pytest.approx(plan.privacy.pcost, rel=1e-9)
    assert costs.max() <= plan.privacy.pcost
    np.testing.assert_array_equal(costs[0], costs[1])  # nothing is asked by sex


@pytest.mark.parametrize("noise", NOISES)
def test_personal_privacy(noise: str) -> None:
    plan = uneven("refined", noise)
    profile = plan.profile()
    for cost, rho, mu, epsilon in zip(
        profile.costs, profile.rho, profile.mu, profile.epsilon(1e-6), strict=True
    ):
        own = plan.privacy.at(float(cost))
        assert own.rho == pytest.approx(rho, rel=1e-12, abs=1e-300)
        assert own.mu <= mu * (1 + 1e-15)
        assert own.epsilon(1e-6) <= epsilon, "rounded up"
        assert epsilon <= plan.privacy.epsilon(1e-6)
    # Records of the loose cell have the curve of half the μ.
    assert profile.epsilon(1e-6)[1] == pytest.approx(plan.privacy.at(0.25).epsilon(1e-6), rel=1e-3)
    np.testing.assert_allclose(profile.spare, plan.privacy.pcost - profile.costs)


def test_a_profile_in_the_shape_of_the_schema() -> None:
    schema = nz.Schema.from_sizes({"a": 2, "b": 3})
    plan = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.5), planner="residual")
    profile = plan.profile()
    assert profile.costs.shape == (2, 3)
    np.testing.assert_allclose(profile.costs, 1.0, rtol=1e-9)
    assert repr(profile) == "Profile(6 cells, cost 1 to 1)"


def test_the_refined_optimum_is_the_kindest() -> None:
    """Two cells share a demand; what the third pays is up to the planner."""
    rows = np.array([[1.0, 1, 0], [0, 0, 1]])
    workload = nz.Workload([
        nz.Query(SCHEMA, ["cell"], matrix=rows[:1], name="pair"),
        nz.Query(SCHEMA, ["cell"], matrix=rows[1:], name="one"),
    ])  # fmt: skip
    targets = {"pair": 1.0, "one": 9.0}
    refined = nz.plan(workload, targets=targets, planner="refined", noise="gaussian")
    spoilt = nz.plan(nz.Workload([cell(2, "c")]) + workload, targets={**targets, "c": 1.0},
                     planner="optimal", noise="gaussian")  # fmt: skip
    np.testing.assert_allclose(refined.profile().costs, [1, 1, 1 / 9], rtol=1e-5)
    assert refined.privacy.pcost == pytest.approx(spoilt.privacy.pcost, rel=1e-5)
    assert refined.profile().kinder_than(spoilt.profile())
    assert not spoilt.profile().kinder_than(refined.profile())


@pytest.mark.parametrize("noise", NOISES)
def test_free_queries_cost_nothing(noise: str) -> None:
    plan = uneven("refined", noise)
    extra = nz.Query(SCHEMA, ["cell"], name="all cells")
    richer = plan.free_queries(extra)
    assert richer.privacy == plan.privacy
    assert [query.name for query in richer.workload] == ["sharp", "loose", "all cells"]
    before, after = plan.mechanism, richer.mechanism
    assert isinstance(before, DenseMechanism) and isinstance(after, DenseMechanism)
    np.testing.assert_array_equal(after.strategy[: len(before.strategy)], before.strategy)
    sigma2 = Fraction(after.noise.one)
    columns = [sum(Fraction(float(v)) ** 2 for v in column) for column in after.strategy.T]
    assert max(columns) / sigma2 <= Fraction(plan.privacy.pcost)
    if noise == "discrete":
        assert (after.strategy == np.rint(after.strategy)).all()
    # What is left fits exactly: every cell at the full cost, all variances one.
    np.testing.assert_allclose(richer.variance("all cells"), 1.0, rtol=1e-3)
    np.testing.assert_allclose(richer.variance("loose"), 1.0, rtol=1e-3)
    inverse = np.linalg.inv(richer.cost_matrix())
    np.testing.assert_allclose(richer.variance("all cells"), np.diagonal(inverse), rtol=1e-6)
    text = str(richer)
    assert "at no further cost" in text and "as the plans it comes from make it" in text


def test_free_queries_are_for_the_same_unit() -> None:
    prefix = nz.Query(LINE, {"a": nz.Prefix()})
    plan = nz.plan(prefix, budget=nz.zCDP(0.5), planner="workload").with_unit("household")
    assert plan.free_queries(nz.Query(LINE, ["a"])).unit == "household"


def test_free_queries_are_not_free_where_records_are_replaced() -> None:
    """Cells pay different amounts; two records that each pay less may be farther apart."""
    prefix = nz.Query(LINE, {"a": nz.Prefix()})
    plan = nz.plan(prefix, budget=nz.zCDP(0.5), planner="workload", neighbours="replace")
    with pytest.raises(PlanError, match="this plan is for replaced records"):
        plan.free_queries(nz.Query(LINE, ["a"]))


def test_free_queries_choose_what_serves_best() -> None:
    """A sum over two cells with room is measured as a sum, not cell by cell."""
    plan = uneven("refined", "gaussian")
    both = nz.Query(SCHEMA, ["cell"], matrix=[[0, 1, 1]], name="both")
    richer = plan.free_queries(nz.Workload([both]))
    cells = plan.free_queries(nz.Query(SCHEMA, ["cell"]))
    # Room 3/4 and 1: (0, 1, 1)·√(3/4) at unit noise is the best row, and the loose cell helps.
    assert richer.variance("both")[0] < cells.variance(both)[0]
    assert richer.profile().costs.max() <= plan.privacy.pcost


def test_what_is_not_free() -> None:
    schema = nz.Schema.from_sizes({"a": 4})
    full = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5), planner="optimal")
    with pytest.raises(PlanError, match="every cell pays the full cost already"):
        full.free_queries(nz.Query(schema, []))
    tables = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5), planner="residual")
    with pytest.raises(PlanError, match="planner='optimal' or planner='refined'"):
        tables.free_queries(nz.Query(schema, []))
    narrow = nz.plan(
        nz.Workload([nz.Query(SCHEMA, ["cell"], matrix=[[1, 1, 0]], name="pair")]),
        targets=1.0, planner="optimal", noise="gaussian",
    )  # fmt: skip
    with pytest.raises(UnanswerableError, match="'cell' is not determined"):
        narrow.free_queries(nz.Query(SCHEMA, ["cell"]))


def test_profiles_that_do_not_exist() -> None:
    schema = nz.Schema.from_sizes({"a": 4})
    workload = nz.Workload.marginals(schema, k=1)
    with pytest.raises(PlanError, match="profiles are of Gaussian noise"):
        nz.plan(workload, budget=nz.PureDP(1.0)).profile()
    with pytest.raises(PlanError, match="up to 2 records"):
        nz.plan(workload, budget=nz.zCDP(0.5), max_rows=2).profile()
