"""Every mechanism, by experiment: unbiased, errors as stated, cost as stated, saved as it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pytest
from mechanism_examples import NAMES, probe_of
from probes import Probe, measuring_classes, parts_of

import noiseplan as nz
from depth import depth
from noiseplan.counting import CountTensor
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.mechanisms.exact_residuals import RECORDS
from noiseplan.mechanisms.long_answers import AskedTable
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.measured_levels import LevelsMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.side_by_side import SideBySide
from noiseplan.noise import Noise

RELEASES = depth(150, 30)  # each with some dozens of draws


def counts(probe: Probe, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 30, probe.shape)


def asked(probe: Probe) -> list[nz.Query]:
    return list(probe.plan.workload)


def anything(schema: nz.Schema) -> list[nz.Query]:
    """Queries of every shape, whether or not a plan has heard of them."""
    rng = np.random.default_rng(3)
    names = list(schema.names)
    subsets = [list(c) for k in range(len(names) + 1) for c in combinations(names, k)]
    queries = [nz.Query(schema, subset) for subset in subsets]
    queries += [
        nz.Query(schema, {"age": nz.Prefix()}),
        nz.Query(schema, {"age": nz.Levels(2, leaves=False)}),
        nz.Query(schema, {"age": nz.Custom(rng.integers(-2, 3, (2, schema["age"].size)))}),
        nz.Query(schema, matrix=rng.integers(0, 2, (2, schema.size)), name="any cells"),
    ]
    for pair in combinations(names, 2):
        cells = int(np.prod([schema[name].size for name in pair]))
        rows = rng.integers(-1, 2, (2, cells))
        queries.append(nz.Query(schema, list(pair), matrix=rows, name=f"joint {pair}"))
    return queries


def is_determined(probe: Probe, query: nz.Query) -> bool:
    """Whether the rows of the query are combinations of the rows that are measured."""
    _, sizes, rows = np.linalg.svd(probe.rows / np.abs(probe.rows).max(), full_matrices=False)
    basis = rows[sizes > 1e-9 * sizes.max()]
    rows = query.dense()
    left = rows - rows @ basis.T @ basis
    return bool(np.abs(left).max(initial=0.0) < 1e-7 * np.abs(rows).max(initial=1.0))


def test_without_noise_answers_are_true(probe: Probe) -> None:
    for seed in range(3):
        data = counts(probe, seed)
        measured = probe.with_noise(data)
        for query in asked(probe):
            truth = query.dense() @ data.ravel()
            np.testing.assert_allclose(probe.answer(measured, query), truth, rtol=1e-9, atol=1e-8)
        for positions, estimates in probe.mechanism.batches(measured, probe.plan.workload):
            for place, position in enumerate(positions):
                truth = probe.plan.workload.query(int(position)).dense() @ data.ravel()
                found = estimates[..., place].ravel()
                np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-8)


def test_variances_and_covariances_are_those_of_the_noise(probe: Probe) -> None:
    queries = asked(probe)
    answers = probe.noise_map(queries)
    truth = answers * probe.draw_variances @ answers.T
    scale = np.abs(truth).max()
    ends = np.cumsum([0, *(query.rows for query in queries)])
    for i, query in enumerate(queries):
        own = slice(ends[i], ends[i + 1])
        variance = probe.plan.variance(query)
        np.testing.assert_allclose(variance, np.diagonal(truth)[own], rtol=1e-9, atol=1e-12 * scale)
        for j, other in enumerate(queries):
            stated = probe.plan.covariance(query, other)
            block = truth[own, ends[j] : ends[j + 1]]
            np.testing.assert_allclose(stated, block, rtol=1e-9, atol=1e-9 * scale)


def test_answers_with_errors_are_both_and_refuse_as_each(probe: Probe) -> None:
    mechanism, measured = probe.mechanism, probe.with_noise(counts(probe))
    for query in (*asked(probe), *anything(probe.plan.schema)):
        if not mechanism.determines(query):
            with pytest.raises(UnanswerableError):
                mechanism.answer_with_errors(measured, query)
            continue
        estimate, errors = mechanism.answer_with_errors(measured, query)
        np.testing.assert_allclose(estimate, probe.answer(measured, query), atol=1e-9)
        np.testing.assert_allclose(errors.noise**2, mechanism.variance(query), rtol=1e-12)
        assert errors.bias is None


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("residual, discrete", (ResidualMechanism, "require")),
        ("tables, discrete", (ResidualMechanism, "require")),
        ("tree, discrete", (AskedTable, "require")),
        ("series, discrete", (AskedTable, "require")),
        ("levels, discrete", (LevelsMechanism, "_asked")),
        ("reduced, discrete", (DenseMechanism, "require")),
        ("side by side, Gaussian, discrete", (SideBySide, "_told")),
    ],
)
def test_an_answer_looks_once_for_what_tells_it(
    name: str, check: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = probe_of(name)
    release = probe.plan.release(counts(probe), seed=1)
    looked, (kind, method) = [], check
    own = getattr(kind, method)
    monkeypatch.setattr(kind, method, lambda self, *what: looked.append(1) or own(self, *what))
    release.answer(probe.plan.workload.query(0))
    assert len(looked) == 1


def test_covariances_agree_with_each_other(probe: Probe) -> None:
    queries = asked(probe)
    plan = probe.plan
    whole = np.block([[plan.covariance(q, r) for r in queries] for q in queries])
    scale = np.abs(whole).max()
    np.testing.assert_allclose(whole, whole.T, rtol=1e-9, atol=1e-10 * scale)
    assert np.linalg.eigvalsh((whole + whole.T) / 2).min() > -1e-9 * scale
    for query in queries:
        own = np.diagonal(plan.covariance(query, query))
        np.testing.assert_allclose(plan.variance(query), own, rtol=1e-9, atol=1e-12 * scale)


def test_exactly_what_is_not_measured_is_refused(probe: Probe) -> None:
    for query in [*asked(probe), *anything(probe.plan.schema)]:
        if is_determined(probe, query):
            probe.mechanism.require(query)
            truth = query.dense() @ counts(probe).ravel()
            found = probe.answer(probe.with_noise(counts(probe)), query)
            np.testing.assert_allclose(found, truth, rtol=1e-7, atol=1e-6)
        else:
            for refused in (probe.mechanism.require, probe.plan.variance):
                with pytest.raises(UnanswerableError) as told:
                    refused(query)
                assert query.name in str(told.value)
    assert all(is_determined(probe, query) for query in asked(probe))


def test_some_queries_are_refused_by_some() -> None:
    """Otherwise the test above would not tell anything."""
    schema = probe_of("residual, float").plan.schema
    answered = [is_determined(probe_of("residual, float"), q) for q in anything(schema)]
    assert True in answered and False in answered


def test_it_asks_for_the_sets_and_numbers_it_states(probe: Probe) -> None:
    stated = [tuple(row) for sets in probe.mechanism.sets for row in sets.tolist()]
    _, found = probe.measured(
        counts(probe), lambda shape, *_: np.zeros(shape, np.int64 if probe.exact else float)
    )
    assert sorted(found) == sorted(stated)
    assert len(probe.sizes) == probe.mechanism.numbers == probe.plan.measured_numbers


def test_it_is_unbiased_and_says_what_is_measured_before(probe: Probe) -> None:
    mechanism = probe.mechanism
    mechanism.require_unbiased(PlanError("it is not"))
    assert mechanism.most_numbers == mechanism.numbers
    with pytest.raises(AttributeError, match="data-aware"):
        _ = probe.with_noise(counts(probe)).partition


def test_listed_is_what_nothing_speaks_against(probe: Probe) -> None:
    workload, mechanism = probe.plan.workload, probe.mechanism
    wanted = [query.name for query in workload if mechanism.unlisted(query) is None]
    assert [query.name for query in mechanism.listed(workload)] == wanted


def test_progress_is_told_to_the_end(probe: Probe) -> None:
    told: list[int] = []
    data = counts(probe)

    def marginals(sets: np.ndarray) -> np.ndarray:
        axes = [tuple(set(range(data.ndim)) - set(row)) for row in sets.tolist()]
        return np.array([data.sum(axis=out) for out in axes])

    kind = np.int64 if probe.exact else np.float64
    probe.mechanism.measure(marginals, lambda shape, *_: np.zeros(shape, kind), told.append)
    assert sum(told) == probe.mechanism.steps


def test_the_stated_cost_is_the_dearest_record(probe: Probe) -> None:
    neighbours = probe.plan.privacy.neighbours
    brute = probe.brute_cost(neighbours)
    assert brute <= probe.cost * (1 + 1e-12)
    assert probe.cost <= brute * (1 + 1e-6)
    if probe.law == "gaussian":  # C = BᵀΣ⁻¹B by definition; exact rows have no part in it
        noisy = probe.sizes > 0
        rows = probe.rows[noisy] / np.sqrt(probe.sizes[noisy])[:, None]
        np.testing.assert_allclose(probe.plan.cost_matrix(), rows.T @ rows, rtol=1e-9, atol=1e-9)
        costs = probe.plan.mechanism.cell_costs()
        np.testing.assert_allclose(costs, (rows**2).sum(axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_costs_are_computed_for_all_neighbours(probe: Probe, neighbours: str) -> None:
    brute = probe.brute_cost(neighbours)
    if not np.isfinite(brute):  # the number of records, measured exactly, is no secret to some
        with pytest.raises(PlanError, match="measured without noise"):
            probe.recomputed_cost(neighbours)
        return
    computed = probe.recomputed_cost(neighbours)
    assert computed >= brute * (1 - 1e-12)
    if probe.law == "laplace" and neighbours == "replace":
        assert computed <= 2 * probe.brute_cost("add-remove") * (1 + 1e-6)  # one off, one on
    else:
        # Exact where columns have equal lengths, a bound where rounding to integers spoils that.
        rounded = neighbours == "replace" and probe.exact
        assert computed <= brute * (1 + (1e-3 if rounded else 1e-6))


# ---------------------------------------------------------------------- the most records


def most_records(shape: tuple[int, ...], seed: int) -> Iterator[np.ndarray]:
    """As many records as are ever released: in one cell, in two, and all over."""
    rng, cells = np.random.default_rng(seed), prod(shape)
    for share in (1.0, 0.7):
        counts = np.zeros(cells, np.int64)
        counts[rng.integers(cells)] = int(share * RECORDS)
        counts[rng.integers(cells)] += RECORDS - counts.sum()
        yield counts.reshape(shape)
    yield rng.multinomial(RECORDS, np.full(cells, 1 / cells)).reshape(shape)


def test_the_most_records_are_measured_to_the_last_digit(probe: Probe) -> None:
    """Refused while measuring they would be lost after the charge. By Python's integers."""
    cells = prod(probe.shape)
    for seed, data in enumerate(most_records(probe.shape, seed=7)):
        release = probe.plan.release(CountTensor(probe.plan.schema, data), seed=seed)
        for query in asked(probe):
            answer = release.answer(query)
            truth = query.dense() @ data.ravel()
            off = np.abs(answer.estimate - truth) - 1e-12 * RECORDS * query.rows
            assert (off <= 12 * answer.std_error).all()
    if probe.exact:
        single = np.eye(cells, dtype=np.int64).reshape(cells, *probe.shape)
        columns = np.array([probe.integers(one) for one in single], dtype=object)
        for data in most_records(probe.shape, seed=8):
            assert probe.integers(data) == list(data.ravel().astype(object) @ columns)


WIDE = nz.Schema.from_sizes({"age": 24, "place": 24})


@pytest.mark.parametrize("planner", ["optimal", "workload", "residual", "identity"])
@pytest.mark.parametrize("largest", [4_000_000, 2**30])
@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.PureDP(1.0)], ids=["Gaussian", "Laplace"])
def test_sums_of_large_numbers_are_released_of_the_most_records(
    planner: str, largest: int, budget: nz.Budget
) -> None:
    """Incomes, say: planned and charged they are measured, too, as few numbers over many cells."""
    if isinstance(budget, nz.PureDP) and planner in ("optimal", "residual"):
        planner = "auto"
    rows = np.random.default_rng(1).integers(0, largest, (6, WIDE.size))
    query = nz.Query(WIDE, ["age", "place"], matrix=rows)
    plan = nz.plan(nz.Workload([query]), budget=budget, planner=planner)
    for seed, data in enumerate(most_records(WIDE.shape, seed=9)):
        answer = plan.release(CountTensor(WIDE, data), seed=seed).answer(query)
        truth = rows.astype(object) @ data.ravel().astype(object)
        off = np.abs(answer.estimate - truth.astype(float)) - 1e-12 * RECORDS * largest
        assert (off <= 12 * answer.std_error).all()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_mu_squared_covers_every_record(probe: Probe, neighbours: str) -> None:
    """Σ d²/σ²_eff over what is really measured; on multiples of 1/8 σ² counts 64 times as much."""
    for k in (1, 8):
        if (probe.law, probe.exact) != ("gaussian", True):
            continue
        fine = probe.mechanism.on_lattice(k)
        try:
            stated = fine.cost(neighbours, max_rows=3).mu2
        except PlanError:  # the number of records, measured exactly, is no secret to some
            continue
        known = probe.sizes[probe.sizes > 0] * k**2
        if known.min(initial=np.inf) <= 1 / 3:
            assert stated is None
            continue
        squares = np.zeros(len(probe.sizes))
        squares[probe.sizes > 0] = (known + np.sqrt(known**2 - known / 3)) / 2 / k**2
        columns = probe.rows.T
        if neighbours == "replace":
            columns = np.concatenate([column - columns for column in columns])
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(columns**2 > 1e-18, columns**2 / squares, 0.0)
        most = 9 * float(terms.sum(axis=1).max(initial=0.0))
        assert stated is not None
        assert most * (1 - 1e-12) <= stated
        if k == 8 and neighbours == "add-remove":
            assert stated <= most * 1.01


def test_on_a_finer_lattice_the_same_is_measured(probe: Probe) -> None:
    if (probe.law, probe.exact) != ("gaussian", True):
        return
    data, lattices = counts(probe), set()

    def marginals(sets: np.ndarray) -> np.ndarray:
        axes = [tuple(set(range(data.ndim)) - set(row)) for row in sets.tolist()]
        return np.array([data.sum(axis=out) for out in axes])

    def sample(shape: tuple[int, ...], noise: Noise) -> np.ndarray:
        lattices.add(noise.exact)
        return np.ones(shape, dtype=np.int64)

    fine = probe.mechanism.on_lattice(8)
    found = fine.measured_on_lattice(marginals, sample)
    plain, moved = probe.with_noise(data), probe.with_noise(data, np.ones(len(probe.sizes)))
    assert lattices == {8}
    for one, none, unit in zip(found.values, plain.values, moved.values, strict=True):
        assert np.array_equal(one, none + (unit - none) / 8)
    saved, arrays = fine.parts()
    again = type(fine).from_parts(saved, arrays, fine.schema)
    assert again.noise.exact == 8


def test_saved_and_loaded_it_is_the_same(probe: Probe, tmp_path: Path) -> None:
    release = probe.plan.release(counts(probe), seed=5)
    release.save(tmp_path / "out", tables=[])
    loaded = nz.load(tmp_path / "out")
    assert loaded.plan.privacy == probe.plan.privacy
    assert type(loaded.plan.mechanism) is type(probe.mechanism)
    queries = asked(probe)
    for query in queries:
        assert np.array_equal(loaded.answer(query).estimate, release.answer(query).estimate)
        assert np.array_equal(loaded.plan.variance(query), probe.plan.variance(query))
        again = loaded.plan.covariance(queries[0], query)
        assert np.array_equal(again, probe.plan.covariance(queries[0], query))


def test_drawn_noise_has_the_stated_covariance(probe: Probe) -> None:
    """Means of all rows, and Σ eᵀC⁺e over releases, at five standard deviations.

    With C of rank r each release adds r, with a variance of at most 5r: 2r for Gaussian noise, and
    the fourth moment of Laplace noise is at most 6σ⁴ more than Gaussian's 3σ⁴ makes it. Errors in
    directions without variance must not occur at all.
    """
    queries, data = asked(probe), counts(probe)
    truth = np.concatenate([query.dense() @ data.ravel() for query in queries])
    errors = []
    for seed in range(RELEASES):
        release = probe.plan.release(data, seed=1000 + seed)
        found = [probe.plan.mechanism.answer(release.measurements, query) for query in queries]
        errors.append(np.concatenate(found) - truth)
    # The errors that come with an answer are the same each time, and take half of it: asked once.
    told = np.concatenate([release.answer(query).estimate for query in queries])
    assert np.array_equal(told, np.concatenate(found))
    drawn = np.array(errors)
    covariance = np.block([[probe.plan.covariance(q, r) for r in queries] for q in queries])
    variance = np.diagonal(covariance)
    assert (np.abs(drawn.mean(axis=0)) <= 5 * np.sqrt(variance / RELEASES) + 1e-7).all()
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    real = values > 1e-9 * values.max()
    assert np.abs(drawn @ vectors[:, ~real]).max(initial=0.0) < 1e-3 * np.sqrt(values.max())
    squares = ((drawn @ vectors[:, real]) ** 2 / values[real]).sum()
    expected = RELEASES * real.sum()
    # Noise far below one is seldom drawn, and its fourth moment large: 1/variance at most.
    rare = max(1.0, 1.0 / probe.draw_variances[probe.draw_variances > 0].min())
    assert abs(squares - expected) < 5 * np.sqrt((5 + rare) * expected)


def test_every_mechanism_has_joined() -> None:
    """And with every noise that it can have."""
    from test_conformance_aware import AWARE

    joined = set().union(*(parts_of(probe_of(name).plan) for name in NAMES))
    joined |= set().union(*(parts_of(*made()) for made in AWARE.values()))
    missing = measuring_classes() - joined
    assert not missing, f"add an example of {sorted(c.__name__ for c in missing)} to the lists"


KINDS = {
    "workloadrows": ("gaussian", "laplace"),
    "residual": ("gaussian",),
    "tree": ("gaussian",),
    "series": ("gaussian",),
    "tables": ("laplace",),
    "dense": ("gaussian", "laplace"),
    "product": ("gaussian", "laplace"),
    "reduced": ("gaussian", "laplace"),
}


# What the names of examples begin with; an example that was planned by another family after all
# tests that one twice, and its own not at all.
NAMED = {
    "residual": "ResidualMechanism",
    "common, crossed": "CrossedMechanism",
    "rest": "ResidualMechanism",
    "dense": "DenseMechanism",
    "product": "ProductMechanism",
    "tables": "TablesMechanism",
    "reduced": "ReducedMechanism",
    "tree": "TreeMechanism",
    "levels": "LevelsMechanism",
    "series": "SeriesMechanism",
    "own rows": "WorkloadRowsMechanism",
    "sums of rows": "WorkloadRowsMechanism",
    "side by side": "SideBySide",
    "groups side by side": "SideBySide",
}


@pytest.mark.parametrize("begin", NAMED)
def test_every_example_is_of_the_kind_it_is_named_for(begin: str) -> None:
    own = [name for name in NAMES if name.startswith(begin)]
    assert {name: type(probe_of(name).mechanism).__name__ for name in own} == dict.fromkeys(
        own, NAMED[begin]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_there_with_all_its_noise(kind: str) -> None:
    found = {
        (probe_of(name).law, probe_of(name).exact)
        for name in NAMES
        if type(probe_of(name).mechanism).__name__.lower().startswith(kind)
    }
    assert found == {(law, exact) for law in KINDS[kind] for exact in (True, False)}
