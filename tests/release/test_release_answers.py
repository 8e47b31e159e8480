"""Answers of one release: consistent, streamed, branded, and refused where nothing was measured."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import NoiseplanError, PlanError, QueryError, SchemaError, UnanswerableError
from oracles import prefix
from workloads import ANY, random_workload

ONE = nz.zCDP(0.5)
SCHEMA = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2})
COUNTS = np.arange(24).reshape(4, 3, 2) % 7


def mixed_workload() -> nz.Workload:
    return (
        nz.Workload.marginals(SCHEMA, up_to=2)
        + nz.Workload.marginals(SCHEMA, k=2, factors={"a": nz.Prefix()})
        + nz.Query(SCHEMA, ["b", "c"], matrix=np.arange(12.0).reshape(2, 6), name="dense")
        + nz.Query(SCHEMA, ["a", "c"], matrix=np.eye(3, 8), name="dense too")
    )


@pytest.fixture(scope="module", params=["residual", "optimal"])
def plan(request: pytest.FixtureRequest) -> nz.Plan:
    return nz.plan(mixed_workload(), budget=ONE, planner=request.param)


@pytest.fixture(scope="module")
def release(plan: nz.Plan) -> nz.Release:
    return plan.release(COUNTS, seed=5)


# --------------------------------------------------------------------------- consistency


def test_tables_add_up(release: nz.Release) -> None:
    def table(*names: str) -> np.ndarray:
        query = nz.Query(SCHEMA, list(names))
        return release.answer(query).estimate.reshape(query.shape)

    total = table()
    for name in "abc":
        np.testing.assert_allclose(table(name).sum(), total, rtol=1e-10)
    np.testing.assert_allclose(table("a", "b").sum(axis=1), table("a"), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(table("a", "b").sum(axis=0), table("b"), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(table("b", "c").sum(axis=1), table("b"), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(table("a", "c").sum(axis=0), table("c"), rtol=1e-9, atol=1e-9)


def test_factors_agree(release: nz.Release) -> None:
    """Prefix sums, ranges and rows of a matrix are the sums of cells that they should be."""
    cells = release.answer(nz.Query(SCHEMA, ["a", "b"])).estimate.reshape(4, 3)
    up_to = release.answer(nz.Query(SCHEMA, {"a": nz.Prefix(), "b": nz.Identity()})).estimate
    np.testing.assert_allclose(up_to.reshape(4, 3), prefix(4) @ cells, rtol=1e-9, atol=1e-9)
    ranges = release.answer(nz.Query(SCHEMA, {"a": nz.Ranges()})).estimate
    values = cells.sum(axis=1)
    np.testing.assert_allclose(ranges[:4], values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ranges[4:7], values[:-1] + values[1:], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ranges[-1], values.sum(), rtol=1e-9)
    matrix = np.arange(12.0).reshape(2, 6)
    pair = release.answer(nz.Query(SCHEMA, ["b", "c"])).estimate
    dense = release.answer(release.plan.workload["dense"]).estimate
    np.testing.assert_allclose(dense, matrix @ pair, rtol=1e-9)


def test_asking_twice_gives_one_answer(release: nz.Release) -> None:
    query = nz.Query(SCHEMA, ["a"])
    first, second = release.answer(query), release.answer(query)
    np.testing.assert_array_equal(first.estimate, second.estimate)


# --------------------------------------------------------------------------- streaming


@pytest.mark.parametrize("seed", seeds(8))
def test_streamed_answers_are_the_single_ones(seed: int) -> None:
    workload = random_workload(seed, kinds=ANY[:5], several=True, joint=bool(seed % 2))
    plan = nz.plan(workload, budget=ONE)
    x = np.random.default_rng(seed).integers(0, 9, workload.schema.shape)
    release = plan.release(CountTensor(workload.schema, x), seed=seed)
    check_streams(release)


def test_streamed_answers_of_many_tables(release: nz.Release) -> None:
    check_streams(release)


def test_streaming_in_small_batches(plan: nz.Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    from noiseplan.mechanisms import residual as module

    monkeypatch.setattr(module, "BATCH_CELLS", 10)
    check_streams(plan.release(COUNTS, seed=2))


def check_streams(release: nz.Release) -> None:
    workload = release.plan.workload
    seen: dict[int, np.ndarray] = {}
    for positions, estimates in release.batches():
        for i, position in enumerate(positions):
            assert position not in seen
            seen[int(position)] = estimates[..., i].ravel()
    assert sorted(seen) == list(range(len(workload)))
    for position, estimate in seen.items():
        expected = release.answer(workload[position]).estimate
        np.testing.assert_allclose(estimate, expected, rtol=1e-9, atol=1e-9)
    names = []
    for query, estimate in release.answers():
        names.append(query.name)
        np.testing.assert_allclose(estimate, release.answer(query).estimate, rtol=1e-9, atol=1e-9)
    assert sorted(names) == sorted(q.name for q in workload)


def test_a_release_of_many_tables() -> None:
    """All ≤2-way tables of 30 attributes, from records: every table, once, and near the truth."""
    schema = nz.Schema.from_sizes({f"a{i}": 2 + i % 3 for i in range(30)})
    workload = nz.Workload.marginals(schema, up_to=2)
    plan = nz.plan(workload, budget=nz.zCDP(50.0))
    rng = np.random.default_rng(0)
    records = np.column_stack([rng.integers(0, n, 200) for n in schema.shape])
    release = plan.release(records, seed=0)
    count = 0
    for positions, estimates in release.batches():
        for i, position in enumerate(positions):
            query = workload[int(position)]
            on = [schema.index(n) for n in query.attributes]
            exact = np.zeros(query.shape)
            for record in records[:, on]:
                exact[tuple(record)] += 1
            error = np.abs(estimates[..., i] - exact).ravel()
            assert (error < 7 * plan.std_error(query)).all()
            count += 1
    assert count == len(workload) == 1 + 30 + 435


# --------------------------------------------------------------------- errors that go with answers


def test_errors_are_those_of_the_plan(release: nz.Release, plan: nz.Plan) -> None:
    query, other = nz.Query(SCHEMA, ["a"]), nz.Query(SCHEMA, {"a": nz.Prefix(), "b": nz.Identity()})
    np.testing.assert_array_equal(release.variance(query), plan.variance(query))
    np.testing.assert_array_equal(release.covariance(query, other), plan.covariance(query, other))
    np.testing.assert_allclose(release.answer(query).std_error ** 2, plan.variance(query))


# Rows of the optimum that are rounded to integers tell a little of everything.
@pytest.mark.parametrize(
    ("planner", "noise"),
    [("residual", "discrete"), ("residual", "gaussian"), ("optimal", "gaussian")],
)
def test_what_was_not_measured_is_refused(planner: str, noise: str) -> None:
    plan = nz.plan(mixed_workload(), budget=ONE, planner=planner, noise=noise)
    release = plan.release(COUNTS, seed=5)
    cube = nz.Query(SCHEMA, ["a", "b", "c"])
    with pytest.raises(UnanswerableError, match="a × b × c"):
        release.answer(cube)
    with pytest.raises(UnanswerableError, match="a × b × c"):
        release.table("a", "b", "c")
    with pytest.raises(UnanswerableError, match="another schema"):
        release.answer(nz.Query(nz.Schema.from_sizes({"a": 4}), ["a"]))
    with pytest.raises(UnanswerableError):
        release.covariance(nz.Query(SCHEMA, ["a"]), cube)


def test_unknown_attributes_name_the_known_ones(release: nz.Release) -> None:
    with pytest.raises(SchemaError, match=r"no attribute 'bb'; .*Did you mean 'b'\?"):
        release.table("bb")
    with pytest.raises(QueryError, match="twice"):
        release.table("a", "a")


def test_unknown_frame_libraries_name_the_known_ones(release: nz.Release) -> None:
    with pytest.raises(QueryError, match=r"pandas, polars, pyarrow; found 'dask'"):
        release.table("a", frame="dask")


@pytest.mark.parametrize("level", [0, 1, 95, -1, "high"])
def test_levels_are_checked(release: nz.Release, level: object) -> None:
    with pytest.raises(QueryError, match="between 0 and 1"):
        release.table("a", level=level)


@pytest.mark.parametrize("seed", [1.5, "7", True, [1]])
def test_seeds_are_integers(plan: nz.Plan, seed: object) -> None:
    with pytest.raises(PlanError, match="seed is an integer"):
        plan.release(COUNTS, seed=seed)


@pytest.mark.parametrize("seed", [0, 2**40, np.int64(3)])
def test_integers_are_seeds(plan: nz.Plan, seed: int) -> None:
    first, second = (plan.release(COUNTS, seed=seed) for _ in range(2))
    query = nz.Query(SCHEMA, ["a"])
    np.testing.assert_array_equal(first.answer(query).estimate, second.answer(query).estimate)


def test_a_negative_seed_is_refused_clearly(plan: nz.Plan) -> None:
    with pytest.raises(NoiseplanError, match="seed"):
        plan.release(COUNTS, seed=-1)


# --------------------------------------------------------------------------- brands and words


def test_different_seeds_and_no_seeds_differ(plan: nz.Plan) -> None:
    query = nz.Query(SCHEMA, ["a"])
    seeded = [plan.release(COUNTS, seed=s).answer(query).estimate for s in (1, 2)]
    free = [plan.release(COUNTS).answer(query).estimate for _ in range(3)]
    every = np.array(seeded + free)
    assert len(np.unique(every.round(9), axis=0)) == 5


@pytest.mark.parametrize(
    ("noise", "brand"), [("discrete", "exact discrete"), ("gaussian", "floating-point Gaussian")]
)
@pytest.mark.parametrize("planner", ["residual", "optimal"])
def test_releases_say_what_their_noise_is(planner: str, noise: str, brand: str) -> None:
    plan = nz.plan(mixed_workload(), budget=ONE, planner=planner, noise=noise)
    free, seeded = plan.release(COUNTS), plan.release(COUNTS, seed=5)
    for text in (free.brand, str(free), repr(free)):
        assert brand in text
        assert ("simulation" in text) == (noise == "gaussian")
        assert "NOT PRIVATE" not in text
    for text in (seeded.brand, str(seeded), repr(seeded)):
        assert ("simulation" in text) == (noise == "gaussian")
        assert "seed 5" in text
        assert "NOT PRIVATE" in text


def test_a_release_in_print(plan: nz.Plan, release: nz.Release) -> None:
    text = str(release)
    assert f"{len(plan.workload)} queries, {plan.workload.rows} rows" in text
    assert "ρ = 0.5" in text
    assert f"{plan.measured_numbers} noisy numbers" in text


def test_an_answer_in_print(release: nz.Release) -> None:
    answer = release.answer(nz.Query(SCHEMA, ["a", "b"]), level=0.9, simultaneous=True)
    lines = str(answer).splitlines()
    assert lines[0].split() == ["a", "b", "estimate", "std_error", "lower", "upper"]
    assert len(lines) == 1 + 12 + 1
    covered, said = lines[-1].split("; not for publishing: ")
    assert covered == "90% simultaneous intervals, covering noise only"
    assert said == release.brand
    assert lines[1].split()[2] == f"{answer.estimate[0]:,.1f}"
    long = str(release.answer(nz.Query(SCHEMA, {"a": nz.Ranges(), "b": nz.Ranges()})))
    assert "… 40 more rows" in long
    assert "95% pointwise" in long


def test_levels_are_printed_as_they_are(release: nz.Release) -> None:
    """99.9 % is not 100 %."""
    text = str(release.answer(nz.Query(SCHEMA, ["a"]), level=0.999))
    assert "99.9%" in text


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("factor", [nz.Ranges(), nz.Levels(2)])
def test_frames_of_labels_of_several_types(factor: nz.Factor, library: str) -> None:
    """Ranges of length one are called by their value, longer ones by a text."""
    schema = nz.Schema.from_sizes({"a": 4})
    query = nz.Query(schema, {"a": factor})
    release = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5)).release({"a": [0, 1]}, seed=1)
    answer = release.answer(query)
    frame = answer.frame(library)
    labels = frame["a"].to_pylist() if library == "pyarrow" else list(frame["a"])
    assert labels == [str(label) for label in query.row_labels()["a"]]
    assert list(map(float, frame["estimate"].to_numpy())) == answer.estimate.tolist()


def test_attributes_called_like_the_columns_of_an_answer() -> None:
    schema = nz.Schema.from_sizes({"estimate": 2, "lower": 3})
    query = nz.Query(schema, ["estimate", "lower"])
    release = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5)).release(
        {"estimate": [0, 1], "lower": [2, 2]}, seed=1
    )
    columns = release.answer(query).columns()
    assert columns["estimate (attribute)"] == [0, 0, 0, 1, 1, 1]
    assert columns["lower (attribute)"] == [0, 1, 2, 0, 1, 2]
    assert list(columns["estimate"]) == release.answer(query).estimate.tolist()


def test_an_answer_is_to_a_query() -> None:
    schema = nz.Schema.from_sizes({"a": 2})
    release = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5)).release(
        {"a": [0, 1]}, seed=1
    )
    assert release.answer("a").estimate.tolist() == release.table("a")["estimate"].to_list()
    with pytest.raises(QueryError, match="no query is called 'b'; the workload has 'a'"):
        release.answer("b")
    with pytest.raises(QueryError, match="a query is a Query, or the name of one"):
        release.answer(3)  # type: ignore[arg-type]
    assert release.table(["a"])["estimate"].to_list() == release.table("a")["estimate"].to_list()
    with pytest.raises(SchemaError, match="no attribute 'b'; the schema has 'a'"):
        release.table(["a", "b"])
    assert release.answer(nz.Query(schema, ["a"]), level=np.float32(0.9)).upper.shape == (2,)


def test_tables_follow_the_order_in_which_attributes_are_named() -> None:
    release = nz.plan(mixed_workload(), budget=ONE).release(CountTensor(SCHEMA, COUNTS), seed=2)
    straight = release.table("a", "b", frame="pandas")
    turned = release.table("b", "a", frame="pandas")
    assert list(turned.columns)[:2] == ["b", "a"]
    assert turned[["b", "a"]].to_numpy().tolist() == [[b, a] for b in range(3) for a in range(4)]
    again = turned.sort_values(["a", "b"])[straight.columns].reset_index(drop=True)
    assert again.equals(straight)


def test_names_of_queries_wherever_a_query_is_asked_for() -> None:
    plan = nz.plan(mixed_workload(), budget=ONE)
    query = plan.workload["dense"]
    assert plan.variance("dense").tolist() == plan.variance(query).tolist()
    assert plan.half_width("dense", simultaneous=True).tolist() == (
        plan.half_width(query, simultaneous=True).tolist()
    )
    assert plan.covariance("dense", "a × b").shape == (2, 12)
    assert plan.schema is plan.workload.schema
