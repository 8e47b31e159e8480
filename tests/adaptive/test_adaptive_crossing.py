"""Plans that measure a few attributes by different rows, compared set by set: against matrices over
the whole domain, and over a domain that no matrix holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing import which_family
from noiseplan.choosing.crossing import ByCrossing
from noiseplan.counting import CountTensor
from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.crossed import CrossedMechanism
from noiseplan.mechanisms.price import probed_cost

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 4, "d": 2})
COUNTS = np.random.default_rng(0).integers(0, 50, SCHEMA.shape)
DATA = CountTensor(SCHEMA, COUNTS)
EACH, P = nz.Identity(), nz.Prefix()
HALVES = nz.Levels(2, leaves=False, total=False)
WORKLOADS = {
    "prefix": [{"c": P, "b": EACH}, {"a": EACH, "d": EACH}],
    "ranges": [{"c": nz.Ranges(), "a": EACH}, {"b": EACH, "d": EACH}],
    "tables": [{"a": EACH, "b": EACH, "c": EACH}, {"a": P, "d": EACH}],
    "halves": [{"c": HALVES, "a": EACH, "d": EACH}, {"c": EACH, "b": EACH}],
}
PAIRS = list(permutations(WORKLOADS, 2))
NOISE = ["discrete", "gaussian"]


@pytest.fixture(autouse=True)
def _as_over_many_cells(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(which_family, "EXPLICIT_CELLS", 1)
    yield


def plan(name: str, noise: str = "gaussian", rho: float = 0.5) -> nz.Plan:
    workload = nz.Workload([nz.Query(SCHEMA, factors) for factors in WORKLOADS[name]])
    return nz.plan(workload, budget=nz.zCDP(rho), noise=noise, planner="residual")


def share(small: np.ndarray, large: np.ndarray) -> float:
    """The largest share of a direction's precision."""
    values, vectors = np.linalg.eigh(large)
    across = vectors[:, values > 1e-10 * values[-1]] / np.sqrt(values[values > 1e-10 * values[-1]])
    return float(np.linalg.eigvalsh(across.T @ small @ across)[-1])


@pytest.mark.grid
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(("one", "two"), PAIRS[1::2])
def test_common_and_rest_are_the_plan_and_cost_no_more(noise: str, one: str, two: str) -> None:
    plans = [plan(one, noise), plan(two, noise)]
    choice = nz.adaptive(plans)
    assert isinstance(choice.family, ByCrossing)
    common = choice.common.mechanism
    for each in plans:
        whole = each.mechanism.cost_matrix()
        assert share(common.cost_matrix(), whole) < 1 + 1e-12
        rest = choice.family.rest(each.mechanism, common)
        both = common.cost_matrix() + rest.cost_matrix()
        np.testing.assert_allclose(both, whole, atol=1e-7 * whole.max())
        # By formula, by matrices over all cells, and by measuring every record alone.
        stated = cost_of([common, rest], "add-remove").pcost
        assert stated <= each.privacy.pcost * (1 + 1e-9)
        assert np.diagonal(both).max() <= stated
        assert probed_cost((common, rest), "add-remove") <= stated


@pytest.mark.parametrize(("one", "two"), PAIRS[::4])
def test_nothing_more_is_in_common(one: str, two: str) -> None:
    """Raised in any direction that both tell, it is no longer below both."""
    plans = [plan(one), plan(two)]
    common = nz.adaptive(plans).common.mechanism.cost_matrix()
    values, vectors = np.linalg.eigh(common)
    rng = np.random.default_rng(1)
    for _ in range(30):
        v = vectors[:, values > 1e-9] @ rng.normal(size=(values > 1e-9).sum())
        more = common + 1e-3 * np.outer(v, v)
        assert max(share(more, p.mechanism.cost_matrix()) for p in plans) > 1 + 1e-9


@pytest.mark.grid
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(("one", "two"), PAIRS[::3])
def test_looking_and_choosing_is_the_plan(noise: str, one: str, two: str) -> None:
    plans = [plan(one, noise), plan(two, noise)]
    look = nz.adaptive(plans).look(DATA, seed=1)
    for query in look.plan.workload:  # what the look says of its errors
        away = look.answer(query).estimate - query.apply(COUNTS)
        assert (np.abs(away) < 6 * np.sqrt(look.variance(query))).all()
    release = look.choose(1)
    for query in plans[1].workload:
        np.testing.assert_allclose(release.variance(query), plans[1].variance(query), rtol=1e-6)
        away = release.answer(query).estimate - query.apply(COUNTS)
        assert (np.abs(away) < 6 * np.sqrt(plans[1].variance(query))).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", NOISE)
def test_two_steps_have_the_law_of_one(noise: str) -> None:
    plans = [plan("ranges", noise, 0.1), plan("halves", noise, 0.1)]
    query, draws = plans[1].workload.query(1), 40
    choice = nz.adaptive(plans)
    looks = (choice.look(DATA, seed=seed) for seed in range(draws))
    away = np.array([look.choose(1).answer(query).estimate for look in looks]) - query.apply(COUNTS)
    whole = np.linalg.inv(plans[1].covariance(query, query))
    # The mean, and the sum of squares over their covariance: normal, and χ² with so many degrees.
    assert draws * away.mean(0) @ whole @ away.mean(0) < 40
    degrees = draws * query.rows
    found = np.einsum("ni,ij,nj->", away, whole, away)
    assert abs(found - degrees) < 4 * np.sqrt(2 * degrees)


@pytest.mark.grid
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(("one", "two"), PAIRS[1::3])
def test_a_release_is_continued_by_a_plan_on_other_rows(noise: str, one: str, two: str) -> None:
    first, second = plan(one, noise), plan(two, noise)
    left = second.given(first.release(DATA, seed=1))
    assert 0.05 < left.saved < 1
    later = left.release(DATA, seed=2)
    united = (first.mechanism.cost_matrix(), left.rest.mechanism.cost_matrix())
    assert cost_of([left.rest.mechanism], "add-remove").pcost <= left.privacy.pcost
    inverse = np.linalg.pinv(sum(united), rcond=1e-9, hermitian=True)
    for each in (first, second):
        for query in each.workload:
            found, rows = later.variance(query), query.dense()
            assert (found <= each.variance(query) * (1 + 1e-6)).all()
            np.testing.assert_allclose(found, np.diagonal(rows @ inverse @ rows.T), rtol=1e-4)
            away = later.answer(query).estimate - query.apply(COUNTS)
            assert (np.abs(away) < 6 * np.sqrt(found)).all()


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(("one", "two"), [("prefix", "halves"), ("halves", "ranges")])
def test_tables_in_two_steps_are_completed(noise: str, one: str, two: str) -> None:
    """To one table of all cells, which has every answer, with the noise of what was measured."""
    first, second = plan(one, noise), plan(two, noise)
    later = second.given(first.release(DATA, seed=1)).release(DATA, seed=2)
    mechanism, measured = later.plan.mechanism, later.measurements
    assert isinstance(mechanism, CrossedMechanism)
    cells = mechanism.completed(measured, nz.Query(SCHEMA, list(SCHEMA.names)))
    for query in later.plan.workload:
        own = query.apply(cells.reshape(SCHEMA.shape))
        np.testing.assert_allclose(own, later.answer(query).estimate, atol=1e-6)
        table = nz.Query(SCHEMA, list(query.attributes))
        mechanism.require_completed(table)
        own = table.apply(cells.reshape(SCHEMA.shape))
        np.testing.assert_allclose(mechanism.completed(measured, table), own, atol=1e-6)
    table, found = nz.Query(SCHEMA, ["a", "c", "d"]), np.zeros(24)
    with pytest.raises(UnanswerableError):
        mechanism.require(table)
    blank = [np.zeros(shape) for shape in mechanism.shapes]
    for part, values in zip(mechanism.parts_of, blank, strict=True):
        for place in np.ndindex(values.shape):
            values[place] = 1.0
            added = mechanism.completed(Measurements(tuple(blank)), table)
            found += added**2 * part.rows.noise.one
            values[place] = 0.0
    np.testing.assert_allclose(mechanism.completed_variance(table), found, rtol=1e-8)
    with pytest.raises(UnanswerableError):
        mechanism.require_completed(nz.Query(SCHEMA, list(SCHEMA.names)))
    assert "solved      to the end" in str(later.valid())


def test_noise_down_on_other_rows_measures_what_is_missing() -> None:
    """A plan that contains the earlier one leaves exactly the difference."""
    rough, fine = plan("prefix", rho=0.05), plan("tables", rho=5.0)
    left = fine.given(rough.release(DATA, seed=1))
    assert left.total.pcost < fine.privacy.pcost * 1.01


@pytest.mark.parametrize("noise", NOISE)
def test_plans_are_passed_over_one_by_one(noise: str) -> None:
    plans = [plan(name, noise) for name in ("prefix", "ranges", "halves")]
    choice = nz.adaptive(plans, sequential=True)
    assert isinstance(choice.family, ByCrossing)
    look = choice.look(DATA, seed=1)
    closer = look.without(0)
    assert share(look.plan.mechanism.cost_matrix(), closer.plan.mechanism.cost_matrix()) < 1 + 1e-6
    release = closer.choose(1)
    for query in plans[2].workload:
        np.testing.assert_allclose(release.variance(query), plans[2].variance(query), rtol=1e-5)


@pytest.mark.parametrize("noise", NOISE)
def test_a_look_is_saved_and_continued_elsewhere(noise: str, tmp_path: Path) -> None:
    plans = [plan("ranges", noise), plan("halves", noise)]
    look = nz.adaptive(plans).look(DATA, seed=1)
    look.save(tmp_path / "look")
    again = nz.load(tmp_path / "look")
    assert isinstance(again.plan.mechanism, CrossedMechanism)
    for query in again.plan.workload:
        np.testing.assert_array_equal(again.answer(query).estimate, look.answer(query).estimate)
    left = plans[1].given(again)
    assert left.total.pcost == pytest.approx(plans[1].privacy.pcost, rel=0.2)
    for query in plans[1].workload:
        found = left.release(DATA, seed=2).variance(query)
        np.testing.assert_allclose(found, plans[1].variance(query), rtol=1e-5)


def test_an_attribute_that_all_split_alike_may_cost_values_unevenly() -> None:
    """Rows that cost some values more are priced as the plans themselves are, or refused."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 5})
    tables = [[{"a": P, "b": P}], [{"a": P, "b": EACH}], [{"a": EACH, "b": P}]]
    plans = [
        nz.plan(
            nz.Workload([nz.Query(schema, each) for each in one]),
            budget=nz.zCDP(0.5), planner="residual",
        )
        for one in tables
    ]  # fmt: skip
    for one, two in permutations(plans, 2):
        choice = nz.adaptive([one, two])
        look = choice.look(np.ones(schema.shape, dtype=int), seed=1)
        assert look.choose(1).plan.privacy.pcost <= two.privacy.pcost * (1 + 1e-9)


# ---------------------------------------------------------------------- over a million cells

LARGE = nz.Schema.from_sizes({"age": 100, "sex": 2, "region": 64, "edu": 10, "income": 10})


def persons(many: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: rng.integers(0, size, many) for n, size in zip(LARGE, LARGE.shape, strict=True)}


def large(*tables: dict[str, nz.Factor]) -> nz.Plan:
    queries = [nz.Query(LARGE, factors) for factors in tables]
    return nz.plan(nz.Workload(queries), budget=nz.zCDP(0.05))


def test_plans_over_a_million_cells_are_as_they_were() -> None:
    bands = nz.Levels(10, leaves=False, total=False)
    plans = [
        large({"age": bands, "sex": EACH, "region": EACH}, {"age": EACH, "sex": EACH}),
        large({"age": P, "region": EACH}, {"sex": EACH, "income": EACH}),
    ]
    rng = np.random.default_rng(0)
    people = {
        n: rng.integers(0, a.size, 5000) for n, a in zip(LARGE, LARGE.attributes, strict=True)
    }
    choice = nz.adaptive(plans)
    assert choice.plans == tuple(plans) and choice.shares[0] > 0.05
    look = choice.look(people, seed=1)
    assert look.recommend().action in ("choose", "stop")
    release = look.choose(1)
    for query in plans[1].workload:
        np.testing.assert_allclose(release.variance(query), plans[1].variance(query), rtol=1e-6)
    left = plans[0].given(plans[1].release(people, seed=2))
    assert left.saved > 0.05
    later = left.release(people, seed=3)
    for query in plans[0].workload:
        assert (later.variance(query) <= plans[0].variance(query) * (1 + 1e-6)).all()


def test_too_many_cells_that_differ_are_refused_by_what_helps() -> None:
    plans = [large({"age": P, "region": P}), large({"age": EACH, "region": nz.Ranges()})]
    with pytest.raises(nz.NoiseplanError, match=r"age, region .* 6,400.*common_rows=True"):
        nz.adaptive(plans)
    people = persons(50)
    with pytest.raises(nz.NoiseplanError, match=r"age, region .*plan\.release\(data"):
        plans[1].given(plans[0].release(people, seed=1))
