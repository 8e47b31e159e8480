"""The parts of valid tables: families, whole numbers, even populations, the last step."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples, seeds
from noiseplan.counting import CountTensor
from noiseplan.errors import DataError, PlanError, QueryError
from noiseplan.valid import family as family_module
from noiseplan.valid import valid_tables
from noiseplan.valid.even_population import make_anchor
from noiseplan.valid.family import TableFamily, margin, spread
from noiseplan.valid.settle import settle, table_with_margins
from noiseplan.valid.solver import Dual, NearestTables
from noiseplan.valid.whole_numbers import _fitted, whole_shares, whole_tables, whole_two_way

SIZES = (3, 4, 2, 5)

# --------------------------------------------------------------------------- families


def test_residuals_put_tables_together() -> None:
    rng = np.random.default_rng(0)
    people = rng.random(SIZES)
    family = TableFamily.of(SIZES, [(0, 1, 2), (1, 3)])
    residuals = {s: family.residuals(s, margin(people, (0, 1, 2, 3), s))[s] for s in family.margins}
    for one in family.margins:
        np.testing.assert_allclose(family.expand(residuals, one), margin(people, (0, 1, 2, 3), one))


def test_margins_hold_what_tables_share() -> None:
    family = TableFamily.of((2,) * 6, [(0, 1, 2, 3), (1, 2, 3, 4), (5,)])
    assert family.tables == ((0, 1, 2, 3), (1, 2, 3, 4), (5,))
    assert (1, 2, 3) in family.margins
    assert (0, 1, 2) not in family.margins
    assert (0, 1) in family.margins
    assert family.facets[(5,)] == ((),)
    assert family.facets[(0, 1, 2, 3)] == ((1, 2, 3), (0, 1), (0, 2), (0, 3))
    assert family.above[(1, 2)] == ((0, 1, 2, 3), (1, 2, 3, 4))


@examples(60)
@given(st.lists(st.sets(st.integers(0, 6), max_size=5), min_size=1, max_size=8))
def test_every_two_tables_share_a_margin(drawn: list[set[int]]) -> None:
    sets = [tuple(sorted(one)) for one in drawn]
    family = TableFamily.of((2,) * 7, sets)
    alone = {s for s in sets if s and not any(set(s) < set(other) for other in sets)}
    assert family.tables == tuple(sorted(alone))
    for one, other in combinations(family.tables, 2):
        assert tuple(i for i in one if i in other) in family.margins
    for one in family.margins:  # closed under summing
        assert all(one[:i] + one[i + 1 :] in family.margins for i in range(len(one)))


def test_too_many_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_module, "MOST_MARGINS", 10)
    with pytest.raises(PlanError, match="fewer or narrower"):
        TableFamily.of((2,) * 6, [(0, 1, 2, 3, 4), (1, 2, 3, 4, 5)])


def test_gradient_of_the_dual() -> None:
    rng = np.random.default_rng(1)
    family = TableFamily.of(SIZES, [(0, 1, 2), (1, 3), (0, 3)])
    every = (*family.margins, *family.tables)
    estimates = {s: rng.normal(1.0, 2.0, family.shape(s)) for s in every}
    fixed = {(): np.array(7.0)}
    possible = {(1, 3): (rng.random((4, 5)) < 0.8).astype(float)}
    weights = {s: float(rng.uniform(0.5, 2.0)) for s in every}
    dual = Dual(NearestTables(family, estimates, weights, fixed, possible))
    point = rng.normal(size=dual.size)
    _, gradient = dual.evaluate(point)
    for _ in range(10):
        way = rng.normal(size=dual.size)
        step = 1e-6
        ahead, behind = (dual.evaluate(point + sign * step * way)[0] for sign in (1, -1))
        # Piecewise quadratic: differences are exact but for kinks and rounding.
        assert (ahead - behind) / (2 * step) == pytest.approx(gradient @ way, rel=1e-4, abs=1e-3)
    dual.close()


def test_small_tables_of_one_shape_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one by one, written out by the formula: pairs and triples of several shapes among them."""
    rng = np.random.default_rng(2)
    pairs = [*combinations(range(5), 2), (0, 2, 5), (1, 3, 5)]
    family = TableFamily.of((2, 3, 2, 3, 2, 2), pairs)
    estimates = {s: rng.normal(1.0, 2.0, family.shape(s)) for s in family.every}
    weights = {s: float(rng.uniform(0.5, 2.0)) for s in family.every}
    problem = NearestTables(family, estimates, weights, {(): np.array(9.0)}, {})
    dual = Dual(problem)
    together = [one for same in dual._alike for one in same.tables]
    assert len(together) > 6 and 2 <= len(dual._alike) < len(together)
    point = rng.normal(size=dual.size)
    value, gradient = dual.evaluate(point)
    residuals, known = dual.residuals(point)
    for table in family.tables:
        moved = estimates[table].copy()
        for facet in family.facets[table]:
            moved += spread(dual.part(point, table, facet), facet, table) / weights[table]
        found = np.maximum(moved, 0.0)
        known -= 0.5 * weights[table] * float((found**2).sum())
        for facet in family.facets[table]:
            others = tuple(i for i, one in enumerate(table) if one not in facet)
            gap = found.sum(axis=others) - family.expand(residuals, facet)
            np.testing.assert_allclose(dual.part(gradient, table, facet), gap, atol=1e-12)
    assert value == pytest.approx(-known, rel=1e-12)
    monkeypatch.setattr("noiseplan.valid.solver.SMALL", 0)
    single = Dual(problem)
    assert not single._alike
    np.testing.assert_allclose(single.evaluate(point)[1], gradient, atol=1e-12)
    assert (
        single.mismatch(gradient)
        == dual.mismatch(gradient)
        == pytest.approx(max(np.abs(gradient[place]).sum() for place in dual.places.values()))
    )
    dual.close()
    single.close()


# --------------------------------------------------------------------------- whole numbers


@examples(60)
@given(
    cells=st.lists(st.floats(0, 50), min_size=1, max_size=12),
    total=st.integers(0, 400),
)
def test_shares_add_up(cells: list[float], total: int) -> None:
    table = np.array(cells)
    found = whole_shares(table, total)
    assert found.sum() == total
    assert (found >= 0).all()
    if table.sum() > 1e-6:
        shares = table * total / table.sum()
        assert np.abs(np.cumsum(found - shares)).max() <= 0.5 + 1e-6  # so ranges are within one
        assert (found[table == 0] == 0).all()


@examples(60)
@given(seed=st.integers(0, 2**31), shape=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_two_way_whole_numbers_have_their_margins(seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    table = rng.gamma(0.3, 3.0, shape)
    total = round(float(table.sum()))
    rows, columns = whole_shares(table.sum(axis=1), total), whole_shares(table.sum(axis=0), total)
    found = whole_two_way(table, rows, columns)
    assert (found >= 0).all()
    assert (found.sum(axis=1) == rows).all()
    assert (found.sum(axis=0) == columns).all()


def test_two_way_whole_numbers_are_the_nearest_where_margins_are_whole() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        table = rng.integers(0, 5, (4, 5)).astype(float)
        # A cycle of fractions leaves all sums whole.
        table[0, 0] += 0.4
        table[0, 1] += 0.6
        table[1, 0] += 0.6
        table[1, 1] += 0.4
        rows, columns = table.sum(axis=1).round(), table.sum(axis=0).round()
        found = whole_two_way(table, rows.astype(np.int64), columns.astype(np.int64))
        assert np.abs(found - table).max() < 1
        assert (found.sum(axis=1) == rows).all()


@examples(40)
@given(seed=st.integers(0, 2**31), shape=st.sampled_from([(2, 3), (3, 3), (4, 2)]))
def test_two_way_whole_numbers_are_the_best_of_all_roundings(
    seed: int, shape: tuple[int, int]
) -> None:
    """By least squares, over every way to round cells down or up; where there is one."""
    table = np.random.default_rng(seed).gamma(1.0, 2.0, shape)
    total = round(float(table.sum()))
    rows, columns = whole_shares(table.sum(axis=1), total), whole_shares(table.sum(axis=0), total)
    near = _fitted(table, rows, columns)
    ways = np.floor(near) + np.array(list(product((0, 1), repeat=table.size))).reshape(-1, *shape)
    served = (ways.sum(axis=2) == rows).all(axis=1) & (ways.sum(axis=1) == columns).all(axis=1)
    if served.any():
        errors = ((ways[served] - near) ** 2).sum(axis=(1, 2))
        found = whole_two_way(table, rows, columns)
        assert ((found - near) ** 2).sum() == pytest.approx(errors.min(), abs=1e-6)


def test_rounding_does_not_drift() -> None:
    """Any way to round a hundred ages by sex keeps the sums; prefix sums drifted by half a person
    an age where cells were rounded up from the first on."""
    table = np.random.default_rng(4).gamma(2.0, 20.0, (100, 2))
    total = round(float(table.sum()))
    rows, columns = whole_shares(table.sum(axis=1), total), whole_shares(table.sum(axis=0), total)
    found = whole_two_way(table, rows, columns)
    assert np.abs(np.cumsum(found - table, axis=0)).max() < 5


def test_groups_of_small_cells_are_not_emptied() -> None:
    """A thin group of many cells beside a large one: its sum stays, whatever its remainders."""
    table = np.concatenate([np.full((1, 200), 0.2), np.full((3, 200), 7.7)])
    found = whole_shares(table, round(float(table.sum())))
    np.testing.assert_allclose(found.sum(axis=1), table.sum(axis=1), atol=1)


def test_integer_tables_of_a_release() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 5})
    counts = np.random.default_rng(0).poisson(0.6, schema.shape).astype(float)
    plan = nz.plan(nz.Workload.marginals(schema, up_to=3), budget=nz.zCDP(0.1))
    valid = plan.release(counts, seed=1).valid(total=40, public={"b": [20, 15, 5]}, integers=True)
    for one, table in valid.tables.items():
        assert table.dtype == np.int64
        assert (table >= 0).all()
        assert table.sum() == 40
        for i in one if len(one) == 2 else ():
            np.testing.assert_array_equal(margin(table, one, (i,)), valid.tables[(i,)])
    assert valid.values("b").tolist() == [20, 15, 5]
    assert "wider ones" in str(valid)


# --------------------------------------------------------------------------- even populations


def test_anchor_obeys_what_is_public() -> None:
    people = np.random.default_rng(2).poisson(2.0, SIZES).astype(float)
    every = (0, 1, 2, 3)
    # A triangle, which no product of tables solves: fitted by proportions.
    public = {s: margin(people, every, s) for s in ((0, 1), (1, 2), (0, 2))}
    anchor = make_anchor(SIZES, "abcd", public, {})
    total = people.sum()
    for one, table in public.items():
        np.testing.assert_allclose(anchor.table(one, total), table, atol=1e-6)
    # The last attribute is even and independent.
    np.testing.assert_allclose(anchor.table((3,), total), total / 5)
    np.testing.assert_allclose(
        anchor.table((0, 3), total), np.outer(margin(people, every, (0,)), np.ones(5) / 5),
        atol=1e-6,
    )  # fmt: skip
    assert anchor.possible((3,)) is None


def test_impossible_cells_close_others() -> None:
    closed = np.array([[True, True, False, False]] * 2 + [[True, False, True, True]])
    anchor = make_anchor(SIZES, "abcd", {}, {(0, 1): closed})
    open_cells = anchor.possible((0, 1))
    assert open_cells is not None
    np.testing.assert_array_equal(open_cells == 0, closed)
    assert anchor.possible((1,)).tolist() == [0, 1, 1, 1]


def test_no_population_can_obey() -> None:
    public = {(0,): np.array([5.0, 0, 0]), (1,): np.array([5.0, 0, 0, 0])}
    closed = np.zeros((3, 4), dtype=bool)
    closed[0, 0] = True
    with pytest.raises(DataError, match="no table of a, b"):
        make_anchor(SIZES, "abcd", public, {(0, 1): closed})


# --------------------------------------------------------------------------- the last step


@examples(30)
@given(seed=st.integers(0, 2**31), width=st.integers(2, 4))
def test_a_table_with_given_margins(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    name = tuple(range(width))
    people = rng.gamma(0.5, 1.0, SIZES[:width]) + 0.01
    missing = {s: margin(people, name, s) for s in combinations(name, width - 1)}
    found = table_with_margins(name, missing, make_anchor(SIZES, "abcd", {}, {}))
    for one, table in missing.items():
        np.testing.assert_allclose(margin(found, name, one), table, atol=1e-9 * people.sum())
    if width == 2:
        assert (found >= 0).all()


@examples(30)
@given(seed=st.integers(0, 2**31), noise=st.sampled_from([0.0, 1e-6, 0.1, 10.0]))
def test_settling_whatever_is_given(seed: int, noise: float) -> None:
    """Tables however far from each other end up in agreement, none negative."""
    rng = np.random.default_rng(seed)
    family = TableFamily.of(SIZES, list(combinations(range(4), 3)))
    people = rng.gamma(0.2, 5.0, SIZES) + 1e-3
    tables = {}
    for one in family.tables:
        table = margin(people, (0, 1, 2, 3), one)
        tables[one] = np.maximum(table + noise * rng.normal(size=table.shape), 0.0)
    anchor = make_anchor(SIZES, "abcd", {}, {})
    settled, share = settle(family, tables, {}, anchor, None)
    assert 0 <= share <= 1
    total = float(settled[()])
    for one in (*family.tables, *family.margins):
        assert (settled[one] >= 0).all()
        for facet in family.facets[one]:
            np.testing.assert_allclose(
                margin(settled[one], one, facet), settled[facet], atol=1e-9 * max(total, 1.0)
            )
    if noise == 0.0:
        assert share <= 1e-6
        for one, table in tables.items():
            np.testing.assert_allclose(settled[one], table, atol=1e-5 * total)


# --------------------------------------------------------------------------- other sources


def test_tables_of_local_reports() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    workload = nz.Workload.marginals(schema, up_to=2)
    plan = nz.local.plan(workload, epsilon=1.0)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(3000, rng.dirichlet(np.full(12, 0.2))).reshape(4, 3)
    aggregator = plan.simulate(counts, seed=1)
    valid = valid_tables(aggregator, schema=schema, tables=[["a", "b"]], total=3000)
    assert (valid.values("a", "b") >= 0).all()
    np.testing.assert_allclose(valid.values("a", "b").sum(axis=0), valid.values("b"), atol=1e-5)
    unbiased = aggregator.answer(nz.Query(schema, ["a", "b"])).estimate.reshape(4, 3)
    before, after = unbiased - counts, valid.values("a", "b") - counts
    assert (after**2).sum() < (before**2).sum()
    itself = valid_tables(aggregator, total=3000)  # aggregators know schema and workload
    np.testing.assert_allclose(itself.values("a", "b"), valid.values("a", "b"), atol=1e-6)
    assert itself.answer("a × b") == pytest.approx(itself.values("a", "b").ravel())
    with pytest.raises(QueryError, match="name the tables"):
        valid_tables(replace(aggregator, workload=None))


def test_exactly_known_total() -> None:
    """Where one record replaces another the total has no noise, and is kept."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    counts = np.zeros((4, 3))
    counts[0, 0] = 21.0
    plan = nz.plan(
        nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.1), neighbours="replace"
    )
    release = plan.release(CountTensor(schema, counts), seed=1)
    valid = valid_tables(release)
    assert valid.total == pytest.approx(21.0)
    assert (valid.values("a", "b") >= 0).all()


def test_picture(tmp_path: Path) -> None:
    schema = nz.Schema.from_sizes({"a": 4})
    table = nz.NoisyTable(["a"], [3.0, -1.0, 2.0, 0.5], 1.0)
    valid = valid_tables(nz.from_noisy_tables(schema, [table]))
    assert valid.draw("a", tmp_path / "valid.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("shape", [(9, 4, 7), (5, 3, 4, 6)])
@pytest.mark.parametrize("seed", seeds(5))
def test_wide_tables_agree_with_every_single_attribute(shape: tuple[int, ...], seed: int) -> None:
    """Thin tables too, whose sums drift where each cell is rounded by those before it."""
    rng, axes = np.random.default_rng(seed), tuple(range(len(shape)))
    table = rng.gamma(0.2, 2.0, shape)
    table *= 200 / table.sum()
    sets = [s for width in (0, 1, 2, len(shape)) for s in combinations(axes, width)]
    tables = {s: table.sum(axis=tuple(a for a in axes if a not in s)) for s in sets}
    found = whole_tables(tables, 200)
    wide = found[axes]
    assert (wide >= 0).all() and wide.dtype == np.int64
    for i in axes:
        summed = wide.sum(axis=tuple(a for a in axes if a != i))
        assert summed.tolist() == found[i,].tolist()
        assert np.abs(np.cumsum(summed - tables[i,])).max() <= 0.5 + 1e-9
    assert wide.sum(axis=axes[2:]).tolist() == found[0, 1].tolist()
    assert np.abs(wide - table).max() < 2
