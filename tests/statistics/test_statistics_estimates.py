"""Statistics of a release against records and numbers by hand, where the noise is next to nothing.

Errors are compared with derivatives by finite differences and the covariance of all cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import UnanswerableError
from noiseplan.statistics.ratios import Quotient
from noiseplan.words.hints import in_command_line

SCHEMA = nz.Schema(
    {
        "sex": nz.Categorical(["F", "M"]),
        "age": nz.Ordinal(range(20, 27)),
        "region": nz.Categorical(["north", "south", "east"]),
        "income": nz.Binned([0, 10, 20, 40, 80]),
    }
)
COUNTS = np.random.default_rng(3).integers(0, 40, SCHEMA.shape)
EDGES = np.array([0, 10, 20, 40, 80])


def released(
    rho: float = 1e7, counts: np.ndarray = COUNTS, schema: nz.Schema = SCHEMA
) -> nz.Release:
    plan = nz.plan(
        nz.Workload.marginals(schema, up_to=min(2, len(schema.names))), budget=nz.zCDP(rho)
    )
    return plan.release(counts, seed=1)


EXACT = released()
NOISY = released(0.5)


def records(axis: int, region: int) -> np.ndarray:
    """The codes of all records of a region, one by one."""
    table = np.moveaxis(COUNTS, [2, axis], [0, 1]).sum(axis=(2, 3))[region]
    return np.repeat(np.arange(len(table)), table)


# --------------------------------------------------------------------------- estimates


def test_means_are_those_of_the_records() -> None:
    found = EXACT.mean("age", by="region")
    expected = [records(1, region).mean() + 20 for region in range(3)]
    np.testing.assert_allclose(found.estimate, expected, rtol=1e-9)
    assert found.cells == {"region": ["north", "south", "east"]}
    given_values = EXACT.mean("income", values=[1, 2, 3, 9.5]).estimate
    whole = np.concatenate([records(3, region) for region in range(3)])
    np.testing.assert_allclose(given_values, [np.array([1, 2, 3, 9.5])[whole].mean()])
    by_name = EXACT.mean("sex", values={"F": 1.0, "M": 0.0}).estimate
    np.testing.assert_allclose(by_name, [COUNTS[0].sum() / COUNTS.sum()])


def test_means_of_bins_are_between_those_of_their_edges() -> None:
    """Rounded outward to two digits of a quarter of the width; and one of what is interpolated."""
    found = EXACT.mean("income", by=["region"])
    for region, (low, high) in enumerate(zip(found.lower, found.upper, strict=True)):
        bins = records(3, region)
        least, most = EDGES[:-1][bins].mean(), EDGES[1:][bins].mean()
        assert 4 < most - least < 40  # a quarter is between 1 and 10: two digits are tenths
        assert low == pytest.approx(np.floor(10 * (least - 1e-3)) / 10, abs=1e-9)
        assert high == pytest.approx(np.ceil(10 * (most + 1e-3)) / 10, abs=1e-9)
        assert found.estimate[region] == np.round((least + most) / 2)
    assert found.std_error is None and found.interpolated
    assert list(found.columns()) == ["region", "lower", "upper", "interpolated"]


def test_means_of_bins_of_groups_that_take_away_have_no_bounds() -> None:
    odd = {"region": nz.Custom([[1.0, 1.0, -0.5]])}
    with pytest.raises(nz.NoiseplanError, match="no bounds for groups that take records away"):
        EXACT.mean("income", by=odd)
    twice = EXACT.mean("income", by={"region": nz.Custom([[1.0, 0.0, 2.0]])})
    bins = np.concatenate([records(3, region) for region in (0, 2, 2)])
    assert twice.lower[0] == pytest.approx(EDGES[:-1][bins].mean(), abs=0.1)
    assert twice.upper[0] == pytest.approx(EDGES[1:][bins].mean(), abs=0.1)


@pytest.mark.parametrize("p", [0.01, 0.25, 0.5, 0.9, 0.999])
def test_quantiles_of_values_are_those_of_sorted_records(p: float) -> None:
    found = EXACT.quantile("age", p, by="region")
    for region, value in enumerate(found.estimate):
        ages = np.sort(records(1, region)) + 20
        assert value == ages[int(np.ceil(p * len(ages))) - 1]
    np.testing.assert_array_equal(found.lower, found.estimate)
    np.testing.assert_array_equal(found.upper, found.estimate)


@pytest.mark.parametrize("p", [0.05, 0.25, 0.5, 0.9])
def test_quantiles_of_bins_are_read_off_the_broken_line(p: float) -> None:
    found = EXACT.quantile("income", [p], by="region")
    for region, value in enumerate(found.estimate):
        reached = np.cumsum([0, *np.bincount(records(3, region), minlength=4)])
        at = np.sort(records(3, region))[int(np.ceil(p * reached[-1])) - 1]
        assert (found.lower[region], found.upper[region]) == (EDGES[at], EDGES[at + 1])
        digits = -int(np.floor(np.log10((EDGES[at + 1] - EDGES[at]) / 4)))
        between = np.interp(p * reached[-1], reached, EDGES)
        assert value == np.round(between, digits)


def test_the_median_is_the_quantile_of_one_half() -> None:
    half, median = NOISY.quantile("income", 0.5, by="sex"), NOISY.median("income", by="sex")
    for name in ("estimate", "lower", "upper"):
        np.testing.assert_array_equal(getattr(half, name), getattr(median, name))
    assert half.cells == {"sex": ["F", "M"], "quantile": [0.5, 0.5]}
    assert median.cells == {"sex": ["F", "M"]}
    assert median.name == "median(income) by sex"


def test_quantiles_of_each_group_stand_together() -> None:
    found = EXACT.quantile("age", [0.2, 0.8], by=["region"])
    alone = [EXACT.quantile("age", p, by="region").estimate for p in (0.2, 0.8)]
    np.testing.assert_array_equal(found.estimate, np.stack(alone, axis=1).ravel())
    assert list(found.columns()) == ["region", "quantile", "estimate", "lower", "upper"]
    assert found.cells["quantile"] == [0.2, 0.8] * 3


def test_values_that_are_no_numbers_are_named() -> None:
    days = [date(2024, 5, day) for day in (1, 2, 9)]
    schema = nz.Schema({"grade": nz.Ordinal(["low", "middle", "high"]), "day": nz.Ordinal(days)})
    counts = np.array([[5, 1, 1], [20, 0, 30], [3, 0, 40]])
    release = released(counts=counts, schema=schema)
    assert release.median("grade").estimate == ["middle"]
    assert release.quantile("day", [0.25, 0.9]).estimate == [days[0], days[2]]
    assert "middle" in str(release.median("grade"))
    with pytest.raises(nz.NoiseplanError, match=r"needs a number for each value.*values="):
        release.mean("grade")
    scored = release.mean("grade", values={"low": 1, "middle": 2, "high": 3})
    np.testing.assert_allclose(scored.estimate, [(7 + 2 * 50 + 3 * 43) / 100])


def test_shares_are_those_of_rows_columns_and_all() -> None:
    table = COUNTS.sum(axis=(1, 3))  # sex × region
    within = EXACT.share("sex", by="region")
    np.testing.assert_allclose(within.estimate.reshape(2, 3), table / table.sum(axis=0))
    within = EXACT.share("region", by="sex")
    np.testing.assert_allclose(
        within.estimate.reshape(2, 3), table / table.sum(axis=1, keepdims=True)
    )
    np.testing.assert_allclose(
        EXACT.share("sex, region").estimate.reshape(2, 3), table / table.sum()
    )
    older = COUNTS.sum(axis=(2, 3))
    np.testing.assert_allclose(
        EXACT.share("age=24.. | 20", by="sex").estimate.reshape(2, 2),
        np.stack([older[:, 4:].sum(axis=1), older[:, 0]], axis=1) / older.sum(axis=1)[:, None],
    )


def test_ratios_are_divided_row_by_row_or_by_one() -> None:
    table = COUNTS.sum(axis=(1, 3))
    found = EXACT.ratio("sex=F", "sex=M", by="region")
    np.testing.assert_allclose(found.estimate, table[0] / table[1])
    assert found.cells == {"sex": ["F"] * 3, "region": ["north", "south", "east"]}
    by_queries = EXACT.ratio(
        nz.Query(SCHEMA, ["region"]), nz.Query(SCHEMA, {"region": nz.Custom([[1, 0, 0]])})
    )
    np.testing.assert_allclose(by_queries.estimate, table.sum(axis=0) / table[:, 0].sum())
    joint = nz.Query(SCHEMA, ["sex", "region"], matrix=np.eye(6)[[1, 4]])
    np.testing.assert_allclose(EXACT.ratio(joint, joint).estimate, [1, 1])
    np.testing.assert_allclose(
        EXACT.ratio("sex × region", ["region"]).estimate.reshape(2, 3), table / table.sum(axis=0)
    )


# --------------------------------------------------------------------------- errors

CELLS = nz.Query(SCHEMA, ["age", "region"])


def by_differences(statistic: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """√diag(J Σ Jᵀ) of a function of the table of age and region, J by central differences."""
    at, step = NOISY.answer(CELLS).estimate, 1e-3
    moved = step * np.eye(len(at))
    slopes = np.stack(
        [(statistic(at + each) - statistic(at - each)) / (2 * step) for each in moved], axis=1
    )
    covariance = NOISY.covariance(CELLS, CELLS)
    return np.sqrt(np.diag(slopes @ covariance @ slopes.T))


def test_standard_errors_are_those_of_the_delta_method() -> None:
    def mean(cells: np.ndarray) -> np.ndarray:
        table = cells.reshape(7, 3)
        return np.arange(20, 27) @ table / table.sum(axis=0)

    def share(cells: np.ndarray) -> np.ndarray:
        table = cells.reshape(7, 3)
        return (table / table.sum(axis=0)).ravel()

    def ratio(cells: np.ndarray) -> np.ndarray:
        table = cells.reshape(7, 3)
        return table[4:].sum(axis=0) / table[:2].sum(axis=0)

    ages = NOISY.mean("age", by="region")
    np.testing.assert_allclose(ages.std_error, by_differences(mean), rtol=1e-5)
    within = NOISY.share("age", by="region")
    np.testing.assert_allclose(within.std_error, by_differences(share), rtol=1e-5)
    old_to_young = NOISY.ratio("age=24..", "age=..21", by="region")
    np.testing.assert_allclose(old_to_young.std_error, by_differences(ratio), rtol=1e-5)
    # Far from zero Fieller's interval is that of the delta method, but for its second order.
    half = (ages.upper - ages.lower) / 2
    np.testing.assert_allclose(half, 1.959964 * ages.std_error, rtol=0.01)


@given(st.integers(0, 10_000))
@examples(60)
def test_fieller_holds_the_ratios_that_a_test_does_not_reject(seed: int) -> None:
    random = np.random.default_rng(seed)
    root = random.normal(size=(2, 2))
    (v, c), (_, w) = root @ root.T
    z = 1.96
    d = np.sqrt(w) * z * random.uniform(1.05, 9)
    n = random.normal() * 10
    (low,), (high,) = Quotient(*(np.array([x]) for x in (n, d, v, c, w))).interval(z)
    for r, inside in (
        (low * (1 - 1e-6) + high * 1e-6, True),
        (high * (1 - 1e-6) + low * 1e-6, True),
        (low - 1e-4 * (high - low), False),
        (high + 1e-4 * (high - low), False),
        (n / d, True),
    ):
        assert ((n - r * d) ** 2 <= z**2 * (v - 2 * r * c + r**2 * w)) == inside


@given(st.integers(0, 10_000))
@examples(100)
def test_intervals_of_ratios_are_the_possible_ones_that_a_test_does_not_reject(seed: int) -> None:
    """Against a fine grid of what is possible, also where the noise made n/d impossible."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(2, 2))
    (v, c), (_, w) = root @ root.T
    z, possible = 1.96, (-2.0, 3.0)
    n, d = random.normal() * 10, np.sqrt(w) * random.uniform(0, 9)
    (low,), (high,) = Quotient(*(np.array([x]) for x in (n, d, v, c, w))).interval(z, possible)
    grid = np.linspace(*possible, 50_001)
    test = (n - grid * d) ** 2 / (v - 2 * grid * c + grid**2 * w)
    reach = z**2 + (0.0 if -2 <= n / d <= 3 else test.min())
    kept = grid[test <= reach]
    if d**2 > reach * w:
        assert low == pytest.approx(kept[0], abs=2e-4)
        assert high == pytest.approx(kept[-1], abs=2e-4)
    else:
        assert (low, high) == possible


def test_weights_that_take_away_leave_everything_possible() -> None:
    """A mean over rows with negative weights is no mean: nothing bounds it."""
    odd = {"region": nz.Custom([[1.0, 1.0, -2.05]])}
    assert NOISY.mean("age", by=odd).upper[0] < 18  # all ages are from 20 to 26
    assert NOISY.share({"sex": nz.Custom([[1.0, 3.0]])}).estimate[0] > 1.5
    assert NOISY.ratio(nz.Query(SCHEMA, {"sex": nz.Custom([[-1.0, 0.0]])}), "sex=M").upper[0] < 0


@pytest.mark.parametrize("rho", [0.5, 0.01, 0.001])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.8])
def test_quantiles_may_be_in_the_bins_that_two_tests_leave(rho: float, p: float) -> None:
    """Bin by bin, from the cells of each region and their whole covariance."""
    table = nz.Query(SCHEMA, ["region", "income"])
    release = released(rho)
    cells, covariance = release.answer(table).estimate, release.covariance(table, table)
    found = release.quantile("income", p, by="region")
    for region in range(3):
        own = slice(4 * region, 4 * region + 4)
        total = np.ones(4)
        error = np.sqrt(total @ covariance[own, own] @ total)
        left = []
        for k in range(4):
            tests = []
            for upto in (k, k + 1):
                row = (np.arange(4) < upto) - p
                spread = np.sqrt(row @ covariance[own, own] @ row)
                tests.append(row @ cells[own] / spread)
            if tests[0] <= 1.959964 and tests[1] >= -1.959964:
                left.append(k)
        if total @ cells[own] <= 1.959964 * error:
            left = [0, 3]
        assert found.lower[region] == EDGES[left[0]]
        assert found.upper[region] == EDGES[left[-1] + 1]


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.median("sex"), "quantiles need an ordered attribute, and 'sex' is categor"),
        (lambda r: r.quantile("age", 1.5), r"between 0 and 1.*found 1\.5"),
        (lambda r: r.quantile("age", []), "no quantile is asked for"),
        (lambda r: r.quantile("age", [True]), "found True"),
        (lambda r: r.mean("agee"), "Did you mean 'age'"),
        (lambda r: r.mean("sex"), "needs a number for each value"),
        (lambda r: r.mean("age", values=[1, 2]), "one number for each of the 7 values"),
        (lambda r: r.mean("sex", values={"F": 1}), "no number for 'M'"),
        (lambda r: r.mean("age", values=[np.nan] * 7), "finite numbers"),
        (lambda r: r.mean("age", by="age, sex"), "named in by= too"),
        (lambda r: r.share([]), "as in share"),
        (lambda r: r.ratio("age", "sex"), "not about the same groups"),
        (lambda r: r.ratio("age=20 | 21", "age=22 | 23 | 24"), "not about the same groups"),
        (lambda r: r.median("age", level=1.0), "between 0 and 1"),
        (
            lambda r: r.median("income", by="sex, region"),
            r"median\(income\) by sex × region cannot be had.*add that table to the workload, "
            r"Query\(schema, \['sex', 'region', 'income'\]\)",
        ),
        (lambda r: r.mean("age", by="sex, region"), r"add that table.*'sex', 'age', 'region'"),
        (lambda r: r.share("age", by="sex, region"), r"add that table"),
    ],
)
def test_refusals(ask: Callable[[nz.Release], object], message: str) -> None:
    with pytest.raises(nz.NoiseplanError, match=message):
        ask(NOISY)


def test_coarse_plans_do_not_tell_values_apart() -> None:
    groups = nz.Query(SCHEMA, {"age": nz.Custom([[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]])})
    release = nz.plan(nz.Workload([groups]), budget=nz.zCDP(1)).release(COUNTS, seed=1)
    with pytest.raises(nz.NoiseplanError, match=r"does not tell the cells of age apart"):
        release.median("age")
    np.testing.assert_allclose(
        release.share(groups).estimate.sum(), 1, rtol=1e-9
    )  # the groups themselves are


def test_biased_answers_have_no_errors_to_make_statistics_of() -> None:
    schema = nz.Schema({"x": nz.Ordinal(range(16))})
    plan = nz.plan(nz.Workload.all_ranges(schema), budget=nz.PureDP(1.0), planner="dawa")
    with pytest.raises(nz.NoiseplanError, match="data-aware release are biased"):
        plan.release(np.arange(16), seed=1).median("x")


# --------------------------------------------------------------------------- how it is shown


def test_a_statistic_says_how_it_was_found() -> None:
    text = str(NOISY.median("income", by="region"))
    assert "inverting exact tests" in text and "NOT PRIVATE" in text
    assert "interpolated: an extra without a known error" in text
    assert "covering noise and any place inside bins" in text and "estimate " not in text
    mean = NOISY.mean("income")
    assert "means of lower and of upper edges" in mean.method and "Fieller" in mean.method
    assert repr(mean) == "Statistic(mean(income): 1 row)"
    ages = NOISY.mean("age")
    assert "delta method" in ages.method and "covering noise only" in str(ages)
    assert "the numbers of 'age' taken as exact" in ages.method
    assert "taken as exact" in NOISY.median("age").method
    frame = NOISY.share("sex", by="region").frame("pandas")
    assert list(frame.columns) == ["sex", "region", "estimate", "std_error", "lower", "upper"]
    together = NOISY.mean("age", by="region", simultaneous=True)
    alone = NOISY.mean("age", by="region")
    assert (together.lower < alone.lower).all() and (together.upper > alone.upper).all()


def test_attributes_called_like_columns_keep_their_labels() -> None:
    schema = nz.Schema({"quantile": nz.Categorical(["a", "b"]), "estimate": nz.Ordinal(range(4))})
    release = released(counts=np.full((2, 4), 50), schema=schema)
    found = release.quantile("estimate", [0.3], by="quantile").columns()
    assert list(found) == ["quantile (attribute)", "quantile", "estimate", "lower", "upper"]
    shares = release.share("estimate").columns()
    assert next(iter(shares)) == "estimate (attribute)"
    schema = nz.Schema({"interpolated": nz.Categorical(["a", "b"]), "pay": nz.Binned([0, 1, 2, 3])})
    named = released(counts=np.full((2, 3), 50), schema=schema).median("pay", by="interpolated")
    assert list(named.columns()) == ["interpolated (attribute)", "lower", "upper", "interpolated"]


def test_no_digits_are_shown_beyond_what_bins_leave_known() -> None:
    """Edges as they are, and what is interpolated to the first digit of a quarter of the width."""
    schema = nz.Schema({"pay": nz.Binned([0, 12.25, 20_000, 30_000])})
    release = released(counts=np.array([200, 1_000, 2_469]), schema=schema)
    assert str(release.quantile("pay", [0.01, 0.6])).splitlines()[:3] == [
        "quantile   lower   upper  interpolated",
        "    0.01       0   12.25             2",
        "     0.6  20,000  30,000        24,000",
    ]
    lower, upper, _ = str(release.mean("pay")).splitlines()[1].split()
    assert (lower, upper) == ("13,400", "25,700")  # 13,462.2 and 25,639.7


def test_the_ends_of_clipped_and_endless_bins_are_open() -> None:
    schema = nz.Schema(
        {"a": nz.Binned([0, 10, 20, np.inf]), "b": nz.Binned([0, 10, 20, 30], clip=True)}
    )
    release = released(counts=np.array([[1, 3, 0], [2, 4, 0], [90, 200, 5]]), schema=schema)
    median = release.median("a")
    assert np.isnan(median.estimate[0])
    assert (median.lower[0], median.upper[0]) == (20.0, np.inf)
    assert "inside an open end bin (1 of 1)" in median.notes[0]
    low = release.quantile("b", 0.01)
    assert (low.lower[0], low.upper[0]) == (-np.inf, 10.0)
    with pytest.raises(nz.NoiseplanError, match=r"no mean where bins end at infinity: \[20, inf\]"):
        release.mean("a")
    with pytest.raises(
        nz.NoiseplanError, match=r"beyond the edges: \[0, 10\) and \[20, 30\]; give"
    ):
        release.mean("b")
    with pytest.raises(nz.NoiseplanError, match=r"or ask for the median: median\(b\)"):
        release.mean("b", by="a")


def test_an_open_bin_has_a_mean_that_is_given() -> None:
    """The other bins keep their edges; the numbers of all bins leave no room but for the noise."""
    schema = nz.Schema({"a": nz.Binned([0, 10, 20, np.inf])})
    release = released(counts=np.array([30, 50, 20]), schema=schema)
    found = release.mean("a", values={"[20, inf]": 45.0})
    assert found.lower[0] == pytest.approx((10 * 50 + 45 * 20) / 100, abs=0.1)
    assert found.upper[0] == pytest.approx((10 * 30 + 20 * 50 + 45 * 20) / 100, abs=0.1)
    assert "values as given, as the means of their bins" in found.method
    known = release.mean("a", values=[4.0, 14.0, 45.0])
    assert known.upper[0] - known.lower[0] < 0.1 and not known.interpolated


def test_a_median_in_closed_bins_is_given_where_others_are_open() -> None:
    schema = nz.Schema({"a": nz.Binned([0, 10, 20, 30], clip=True)})
    found = released(0.5, np.array([30, 300, 30]), schema).median("a")
    assert (found.lower[0], found.upper[0]) == (10.0, 20.0)
    wide = released(0.5, np.array([30, 300, 330]), schema).median("a")
    assert (wide.lower[0], wide.upper[0]) == (10.0, np.inf)


def test_bins_of_which_the_bounds_are_known_beforehand() -> None:
    release = released(counts=np.array([7]), schema=nz.Schema({"a": nz.Binned([0, 10])}))
    with pytest.raises(nz.NoiseplanError, match="between 0 and 10: these are its bounds"):
        release.mean("a")


def test_missing_values_are_left_out() -> None:
    """Of means, quantiles and what they are divided by; they are no largest value."""
    schema = nz.Schema(
        {
            "sex": nz.Categorical(["F", "M", "X", "Y"]),
            "age": nz.Ordinal(range(20, 24), missing="not stated"),
            "income": nz.Binned([0, 10, 20], missing="not stated"),
        }
    )
    counts = np.random.default_rng(8).integers(1, 30, schema.shape)
    counts[:, -1, :] *= 20  # most ages are missing
    counts[:, :, -1] *= 20
    release = released(counts=counts, schema=schema)
    ages = counts.sum(axis=2)[:, :4]
    mean = release.mean("age", by="sex")
    np.testing.assert_allclose(mean.estimate, ages @ np.arange(20, 24) / ages.sum(axis=1))
    assert "whose 'age' is not 'not stated'" in mean.method
    found = release.median("age", by="sex")
    for group, median in zip(ages, found.estimate, strict=True):
        listed = np.repeat(np.arange(20, 24), group)
        assert median == listed[int(np.ceil(len(listed) / 2)) - 1]
    low, high = counts.sum(axis=(0, 1))[:2]
    half = (low + high) / 2
    expected = np.interp(half, [0, low, low + high], [0, 10, 20])
    incomes = release.median("income")
    np.testing.assert_allclose(incomes.estimate, [np.round(expected)])
    at = 10 * (half > low)
    assert (incomes.lower[0], incomes.upper[0]) == (at, at + 10)
    assert "whose 'income' is not 'not stated'" in incomes.method
    mean = release.mean("income")
    assert mean.lower[0] == pytest.approx(10 * high / (low + high), abs=0.11)
    assert mean.upper[0] == pytest.approx(10 + 10 * high / (low + high), abs=0.11)
    np.testing.assert_allclose(release.share("age").estimate.sum(), 1)


@pytest.mark.parametrize("n", [100.0, 100.00000000000001, 99.99999999999999])
def test_a_share_that_is_one_by_definition_is_one(n: float) -> None:
    """Of all among all: the noise is the same, and rounding is not what makes it impossible."""
    (low,), (high,) = Quotient(*(np.array([x]) for x in (n, 100.0, 4.0, 4.0, 4.0))).interval(
        1.96, (0.0, 1.0)
    )
    assert (low, high) == (pytest.approx(1), pytest.approx(1))


def test_the_last_of_clipped_numbers_has_a_number_under_either_name() -> None:
    """99 stands for 99+ in values=; and labels beside numbers are drawn as labels."""
    schema = nz.Schema({"age": nz.Ordinal(range(4), clip=True)})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(1000.0))
    release = plan.release({"age": [0, 1, 3, 8]}, seed=1)
    given = {0: 0.0, 1: 1.0, 2: 2.0}
    for name in (3, "3+"):
        (mean,) = release.mean("age", values=given | {name: 7.0}).estimate
        assert mean == pytest.approx(3.75, abs=0.5)
        # Numbers that are not named stand for themselves.
        found = release.mean("age", values={name: 7.0})
        assert found.estimate == mean
        assert "values as given; the numbers of 'age' taken as exact" in str(found)
    for wrong in ("4+", 4):
        with pytest.raises(
            nz.NoiseplanError, match=f"names {re.escape(repr(wrong))}, no value of 'age'"
        ):
            release.mean("age", values={"3+": 7.0, wrong: 1.0})
    with pytest.raises(nz.NoiseplanError, match=r"no number for '3\+'"):
        release.mean("age", values={0: 7.0})
    with pytest.raises(nz.NoiseplanError, match=r"two numbers for '3\+'"):
        release.mean("age", values={3: 7.0, "3+": 8.0})
    with pytest.raises(nz.NoiseplanError, match="two numbers for 0"):
        release.mean("age", values={0: 7.0, "0": 8.0, "3+": 8.0})
    with pytest.raises(nz.NoiseplanError, match=r"mean\('age', values=\{'3\+': 1.0, …\}\)"):
        release.mean("age")
    assert "3+" in release.plot("age")._repr_svg_()


def test_a_number_for_what_is_left_out_is_refused() -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(3), missing="not stated")})
    release = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(1.0)).release({"age": [0, 1, None]})
    with pytest.raises(nz.NoiseplanError, match="names 'not stated', no value of 'age'"):
        release.mean("age", values={"not stated": 9.0})


@pytest.mark.parametrize("statistic", ["median(age), county", "mean(age), county"])
def test_advice_names_the_coarsest_table_that_does(statistic: str) -> None:
    """A table by county, where groups are counties: not every block, and it is enough."""
    blocks = {"block": ["a1", "a2", "b1", "b2"], "county": ["a", "a", "b", "b"]}
    schema = nz.Schema({"age": nz.Ordinal(range(5)), "home": nz.Hierarchical(blocks)})
    people = {"age": [0, 1, 2, 4] * 50, "home": ["a1", "a2", "b1", "b2"] * 50}
    alone = nz.Workload([nz.Query(schema, ["age"]), nz.Query(schema, ["home"])])
    release = nz.plan(alone, budget=nz.zCDP(1.0)).release(people, seed=1)
    with pytest.raises(nz.NoiseplanError, match=r"Query\(schema, \['age', 'county'\]\)"):
        release.ask(statistic)
    advised = nz.Workload([nz.Query(schema, ["age", "county"])])
    assert nz.plan(advised, budget=nz.zCDP(1.0)).release(people, seed=1).ask(statistic).rows


def test_advice_on_medians_of_places_can_be_followed() -> None:
    """It led in a circle: from the attribute to its levels, and back to the attribute."""
    geo = nz.Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
    schema = nz.Schema({"home": geo, "age": nz.Ordinal(range(5))})
    plan = nz.plan(nz.Query(schema, ["home", "age"]), budget=nz.zCDP(0.5))
    release = plan.release(np.full((3, 5), 40))
    for ask, name in (
        (release.median, "home"),
        (release.median, "tract"),
        (release.median, "county"),
        (lambda name: release.quantile(name, 0.25), "county"),
        (release.mean, "county"),
    ):
        with pytest.raises(nz.errors.QueryError) as caught:
            ask(name)
        told = str(caught.value)
        assert f"the values of {name!r} are places of a hierarchy and have no order" in told
        call = re.search(r"median\(.*?\)", told)
        assert call is not None and "Level(" not in told
        followed = eval(f"release.{call[0]}", {"release": release})
        assert len(followed.estimate) == (2 if name == "county" else 3)
        command = in_command_line(caught.value)
        assert f'"median(age), {name}"' in command and "{ levels = [...] }" in command


@pytest.mark.parametrize("names", [["home"], ["home", "work"]], ids=["one", "both"])
@pytest.mark.parametrize(
    ("asked", "level"),
    [("mean(age), {}tract=02", "tract"), ("share({}tract=01+03), age", "tract"),
     ("median(age), {}tract=03+04", "county"), ("mean(age), {}county, {}tract=01", "tract"),
     ("mean(age), {}place=p1", "place")],
)  # fmt: skip
def test_the_table_that_is_advised_has_the_level_and_tells_it(
    names: list[str], asked: str, level: str
) -> None:
    """Not all leaves, where groups are asked for; and by the words of the question."""
    geo = nz.Hierarchical(
        {
            "place": [f"p{number}" for number in range(8)],
            "tract": [f"{1 + number // 2:02d}" for number in range(8)],
            "county": ["A"] * 4 + ["B"] * 4,
        }
    )
    schema = nz.Schema(dict.fromkeys(names, geo) | {"age": nz.Ordinal(range(3))})
    counts = np.ones(schema.shape, dtype=int)
    total = nz.plan([nz.Query(schema, [])], budget=nz.zCDP(0.5)).release(counts, seed=1)
    question = asked.replace("{}", "" if len(names) == 1 else "home.")
    with pytest.raises(UnanswerableError) as refused:
        total.ask(question)
    said = str(refused.value)
    group = question.partition(", ")[2] if question[0] == "m" else question[6:].partition(")")[0]
    assert group in said.partition(" cannot be had")[0] and "(home)" not in said
    call = said.partition("to the workload, ")[2]
    short = schema.level_name("home", level) if level != "place" else "home"
    assert call == f"Query(schema, {[short, 'age']!r})"
    table = nz.Query(schema, [short, "age"])
    nz.plan([table], budget=nz.zCDP(50.0)).release(counts, seed=1).ask(question)
