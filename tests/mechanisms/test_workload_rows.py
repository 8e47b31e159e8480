"""The rows of queries, and sums of them, against the same written out over all cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.domain import largest_sum
from noiseplan.domain.largest_sum import Table
from noiseplan.domain.record_costs import RecordCosts
from noiseplan.domain.stacked_rows import StackedRows
from noiseplan.errors import (
    DataError,
    NoiseplanError,
    PlanError,
    StorageError,
    UnanswerableError,
)
from noiseplan.mechanisms import workload_rows
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.exact_residuals import RECORDS
from noiseplan.mechanisms.price import Note, probed_cost
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise import Noise
from noiseplan.storage.plans import read_mechanism

S = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2, "d": 5})
RNG = np.random.default_rng(5)
WORKLOAD = nz.Workload(
    [
        nz.Query(S, {"a": nz.Prefix(), "c": nz.Identity()}),
        nz.Query(S, ["b"]),
        nz.Query(S, {"a": nz.Levels(2), "d": nz.Custom([[1, 0, 2, 0, 1], [0, -1, 1, 1, 0]])}),
        nz.Query(S, ["b", "d"], matrix=RNG.integers(-1, 3, (4, 15)), name="one"),
        nz.Query(S, ["a", "d"], matrix=RNG.integers(0, 2, (3, 20)), name="two"),
        nz.Query(S, {}, name="all"),
        nz.Query(S, ["b", "c"]),
        nz.Query(S, ["b"], name="again"),
    ]
)
DENSE = np.concatenate([query.dense() for query in WORKLOAD])
ROWS = len(DENSE)
FEW = nz.Workload([WORKLOAD[0], WORKLOAD["one"]])
MIX = np.random.default_rng(6).integers(-3, 4, (ROWS + 2, ROWS)).astype(float)
CELLS = np.array(list(itertools.product(*map(range, S.shape))))
OTHERS = [nz.Query(S, ["c"]), nz.Query(S, {"a": nz.Ranges()}), nz.Query(S, {"a": nz.Identity()})]
LAWS = ("gaussian", "laplace")


def made(law: str, mixed: bool, exact: bool = False) -> tuple[WorkloadRowsMechanism, np.ndarray]:
    """The mechanism, and its rows over all cells."""
    mix = MIX if mixed else None
    rows = MIX @ DENSE if mixed else DENSE
    sizes = np.random.default_rng(7).uniform(3, 9, len(rows))
    return WorkloadRowsMechanism(S, WORKLOAD, mix, Noise(law, sizes, exact)), rows  # type: ignore[arg-type]


def counts_of(x: np.ndarray) -> object:
    def marginals(sets: np.ndarray) -> np.ndarray:
        axes = [tuple(set(range(x.ndim)) - set(row)) for row in sets.tolist()]
        return np.array([x.sum(axis=out) for out in axes])

    return marginals


def test_products_of_rows_are_those_of_dense_ones() -> None:
    rows = StackedRows.of(S, WORKLOAD)
    np.testing.assert_allclose(rows.gram(rows) * S.size, DENSE @ DENSE.T, atol=1e-12)
    other = StackedRows.of(S, [WORKLOAD["two"], OTHERS[1]])
    theirs = np.concatenate([WORKLOAD["two"].dense(), OTHERS[1].dense()])
    np.testing.assert_allclose(rows.gram(other) * S.size, DENSE @ theirs.T, atol=1e-12)
    np.testing.assert_array_equal(rows.at(CELLS), DENSE)


def test_values_that_no_row_tells_apart_are_one() -> None:
    query = nz.Query(S, {"d": nz.Levels([0, 0, 1, 1, 0], leaves=False)})
    rows = StackedRows.of(S, [query, nz.Query(S, ["a", "c"], matrix=np.ones((1, 8)))])
    assert [values.tolist() for values in rows.values] == [[0], [0], [0], [0, 2]]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mixed", [False, True])
def test_errors_are_those_of_generalised_least_squares(law: str, mixed: bool) -> None:
    mechanism, rows = made(law, mixed)
    inverse = np.linalg.pinv(rows.T @ (rows / mechanism.noise.variance[:, None]))
    asked = [*WORKLOAD, *OTHERS]
    for query in asked:
        wanted = query.dense() @ inverse @ query.dense().T
        np.testing.assert_allclose(mechanism.variance(query), np.diagonal(wanted), rtol=1e-9)
    one, two = WORKLOAD[2], OTHERS[1]
    wanted = one.dense() @ inverse @ two.dense().T
    np.testing.assert_allclose(mechanism.covariance(one, two), wanted, atol=1e-9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mixed", [False, True])
def test_answers_are_those_of_generalised_least_squares(law: str, mixed: bool) -> None:
    mechanism, rows = made(law, mixed)
    x = np.random.default_rng(8).integers(0, 50, S.shape)
    noise = np.random.default_rng(9).normal(size=len(rows))
    measured = mechanism.measure(counts_of(x), lambda shape, _: noise.reshape(shape))  # type: ignore[arg-type, return-value]
    np.testing.assert_allclose(measured.values[0], rows @ x.ravel() + noise)
    deviations = np.sqrt(mechanism.noise.variance)
    cells = np.linalg.lstsq(
        rows / deviations[:, None], measured.values[0] / deviations, rcond=1e-11
    )[0]
    for query in [*WORKLOAD, *OTHERS]:
        np.testing.assert_allclose(
            mechanism.answer(measured, query), query.dense() @ cells, atol=1e-7
        )


@pytest.mark.parametrize("mixed", [False, True])
def test_queries_outside_the_row_space_are_refused(mixed: bool) -> None:
    mechanism, _ = made("gaussian", mixed)
    for query in (nz.Query(S, ["d"]), nz.Query(S, ["a", "b"]), nz.Query(S, ["a", "c", "d"])):
        with pytest.raises(UnanswerableError, match="add a query on"):
            mechanism.require(query)
    nearly = WORKLOAD["one"].joint.copy()  # type: ignore[union-attr]
    nearly[0, 0] += 1e-4
    with pytest.raises(UnanswerableError):
        mechanism.require(nz.Query(S, ["b", "d"], matrix=nearly))


def test_sums_that_do_not_tell_a_query_leave_it_without_an_answer() -> None:
    mix = np.eye(FEW.rows)[: FEW[0].rows]  # of the first query alone
    mechanism = WorkloadRowsMechanism(S, FEW, mix, Noise("gaussian", 2.0))
    np.testing.assert_allclose(mechanism.variance(FEW[0]), 2.0)
    with pytest.raises(UnanswerableError):
        mechanism.variance(FEW["one"])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mixed", [False, True])
def test_the_cost_is_that_of_the_dearest_record(
    law: str, mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By formula, as over large domains; and never below what measuring every record finds."""
    monkeypatch.setattr(workload_rows, "CELL_BY_CELL", 0)
    mechanism, rows = made(law, mixed)
    power = mechanism.noise.power
    exact = (np.abs(rows) ** power / mechanism.noise.size[:, None]).sum(axis=0).max()
    assert exact <= mechanism.record_cost("add-remove") <= exact * (1 + 1e-11)
    pairs = np.abs(rows[:, :, None] - rows[:, None, :]) ** power
    replaced = (pairs / mechanism.noise.size[:, None, None]).sum(axis=0).max()
    assert replaced <= mechanism.record_cost("replace") <= replaced + 2e-11 * exact
    assert probed_cost([mechanism], "add-remove") <= mechanism.record_cost("add-remove")


@pytest.mark.grid
@pytest.mark.parametrize("few", [True, False], ids=["compared", "too many to compare"])
@pytest.mark.parametrize("signs", ["one sign", "both signs", "mixed"])
def test_replacing_a_record_with_gaussian_noise(
    few: bool, signs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the farthest two records are apart, in exact fractions; where they are not compared, two
    of the dearest if no entry is negative, and four else."""
    monkeypatch.setattr(workload_rows, "CELL_BY_CELL", 0)
    if not few:
        monkeypatch.setattr(WorkloadRowsMechanism.compared_columns, "__defaults__", (1,))
    first = nz.Query(S, {"a": nz.Prefix()})
    one_sign = nz.Workload([first, nz.Query(S, ["b", "d"])])
    workload = one_sign if signs == "one sign" else nz.Workload([first, WORKLOAD["one"]])
    mix = MIX[:6, : workload.rows] if signs == "mixed" else None
    rows = np.concatenate([query.dense() for query in workload])
    rows = rows if mix is None else mix @ rows
    sizes = np.random.default_rng(8).uniform(0.1, 9, len(rows))
    mechanism = WorkloadRowsMechanism(S, workload, mix, Noise("gaussian", sizes))
    noise = [Fraction(size) for size in sizes]
    apart = max(
        sum(Fraction(a - b) ** 2 / d for a, b, d in zip(one, two, noise, strict=True))
        for one, two in itertools.combinations(np.unique(rows, axis=1).T, 2)
    )
    alone, stated = mechanism.record_cost("add-remove"), mechanism.record_cost("replace")
    assert apart <= Fraction(stated) and stated >= probed_cost([mechanism], "replace")
    if few:
        assert stated <= float(apart) + 2e-11 * alone
    else:
        assert stated == (2 if signs == "one sign" else 4) * alone


def test_records_that_are_nearly_alike_are_never_priced_below_what_they_are_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns of a million that differ by one: what is left of their squares is all rounding."""
    monkeypatch.setattr(workload_rows, "CELL_BY_CELL", 0)
    schema = nz.Schema.from_sizes({"t": 3, "u": 2})
    matrix = 2.0**20 + np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0]])
    workload = nz.Workload([nz.Query(schema, {"t": nz.Custom(matrix)})])
    sizes = np.array([0.7, 1.9, 3.1])
    mechanism = WorkloadRowsMechanism(schema, workload, None, Noise("gaussian", sizes))
    pairs = itertools.combinations(matrix.T, 2)
    apart = max(
        sum(Fraction(a - b) ** 2 / Fraction(d) for a, b, d in zip(one, two, sizes, strict=True))
        for one, two in pairs
    )
    stated = mechanism.record_cost("replace")
    assert apart <= Fraction(stated) < mechanism.record_cost("add-remove") * 1e-9


@pytest.mark.parametrize("mixed", [False, True])
def test_integers_are_exact_however_large(mixed: bool) -> None:
    mechanism, rows = made("gaussian", mixed, exact=True)
    x = np.random.default_rng(10).integers(0, 10**14, S.shape)
    measured = mechanism.measure(
        counts_of(x),  # type: ignore[arg-type]
        lambda shape, _: np.arange(np.prod(shape)).reshape(shape),
    )
    whole = [[int(v) for v in row] for row in rows]
    wanted = [
        sum(v * int(n) for v, n in zip(row, x.ravel(), strict=True)) + i
        for i, row in enumerate(whole)
    ]
    assert measured.values[0].dtype == np.int64
    assert measured.values[0].tolist() == wanted


@pytest.mark.parametrize("bits", [10, 23, 26, 40, 52])
def test_sums_of_large_rows_are_exact_at_the_most_records(bits: int) -> None:
    """By Python's integers, before noise is added to them."""
    schema = nz.Schema.from_sizes({"a": 3})
    rows = np.array([[1, 1, 0], [0, 1, -1], [1, 0, 1]]) * 2**bits + np.eye(3)
    query = nz.Query(schema, {"a": nz.Custom(rows)})
    mix = np.array([[1.0, 1, 0], [0, 1, -1], [1, 0, 2], [-3, 5, 7]])
    noise = Noise("gaussian", 100.0, exact=True)
    mechanism = WorkloadRowsMechanism(schema, nz.Workload([query]), mix, noise)
    counts = np.array([RECORDS // 5 + 1, 3 * RECORDS // 5 - 3, RECORDS // 5 + 2])
    found: list[int] = []
    mechanism.measure(
        counts_of(counts),  # type: ignore[arg-type]
        lambda shape, _: Note.of(np.ones(shape), lambda numbers, _: found.extend(numbers.tolist())),
    )
    sums = [sum(int(v) * int(n) for v, n in zip(row, counts, strict=True)) for row in rows]
    assert found == [sum(int(m) * x for m, x in zip(own, sums, strict=True)) for own in mix]


def test_one_sum_of_several_rows_is_one_number() -> None:
    mechanism = WorkloadRowsMechanism(
        S, FEW, np.ones((1, FEW.rows)), Noise("gaussian", 2.0, exact=True)
    )
    found = mechanism.measure(
        counts_of(np.ones(S.shape, int)),  # type: ignore[arg-type]
        lambda shape, _: np.zeros(shape, np.int64),
    )
    whole = np.concatenate([query.dense() for query in FEW])
    assert found.values[0].tolist() == [int(whole.sum())]


def test_fractions_are_refused_where_noise_is_exact() -> None:
    half = nz.Workload([nz.Query(S, {"a": nz.Custom([[0.5, 1, 1, 1]])}, name="half")])
    noise = Noise("gaussian", 4.0, exact=True)
    with pytest.raises(PlanError, match="whole numbers"):
        WorkloadRowsMechanism(S, half, None, noise)
    with pytest.raises(PlanError, match="whole numbers"):
        WorkloadRowsMechanism(S, WORKLOAD, MIX / 2, noise)
    mechanism, _ = made("gaussian", mixed=False, exact=True)
    with pytest.raises(DataError, match="whole numbers of records"):
        mechanism.measure(counts_of(np.full(S.shape, 0.5)), lambda shape, _: np.zeros(shape))  # type: ignore[arg-type]


def test_parts_that_do_not_fit_are_refused() -> None:
    other = nz.Schema.from_sizes({"a": 4})
    for bad in (
        lambda: WorkloadRowsMechanism(other, WORKLOAD, None, Noise("gaussian", 1.0)),
        lambda: WorkloadRowsMechanism(S, WORKLOAD, MIX[:, 1:], Noise("gaussian", 1.0)),
        lambda: WorkloadRowsMechanism(S, WORKLOAD, None, Noise("gaussian", [1.0, 2.0])),
        lambda: WorkloadRowsMechanism(S, WORKLOAD, None, Noise("gaussian", 0.0)).cost("add-remove"),
    ):
        with pytest.raises(PlanError):
            bad()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mixed", [False, True])
def test_saved_and_read_it_is_the_same_to_the_last_digit(law: str, mixed: bool) -> None:
    mechanism, _ = made(law, mixed, exact=True)
    content, arrays = mechanism.parts()
    again = read_mechanism(content, arrays, S)
    for query in [*WORKLOAD, *OTHERS]:
        np.testing.assert_array_equal(mechanism.variance(query), again.variance(query))
    assert again.record_cost("add-remove") == mechanism.record_cost("add-remove")
    with pytest.raises(NoiseplanError):
        read_mechanism(content, arrays | {"sizes": arrays["sizes"][:-1]}, S)
    with pytest.raises(NoiseplanError):
        read_mechanism(content, arrays | {"sizes": -arrays["sizes"]}, S)


# ---------------------------------------------------------------------- domains of any size

LONG = nz.Schema.from_sizes({f"x{i}": 50 for i in range(40)})


def conditions(count: int) -> nz.Workload:
    rng = np.random.default_rng(11)
    made = []
    for number in range(count):
        names = rng.choice(LONG.names, 3, replace=False)
        factors = {str(n): nz.Custom((rng.random((1, 50)) < 0.5).astype(float)) for n in names}
        made.append(nz.Query(LONG, factors, name=f"condition {number}"))
    return nz.Workload(made)


def test_conditions_on_a_domain_that_no_one_can_list() -> None:
    """10^68 cells: independent conditions have the variances of their own noise."""
    workload = conditions(12)
    mechanism = WorkloadRowsMechanism(LONG, workload, None, Noise("gaussian", np.arange(1.0, 13.0)))
    for number, query in enumerate(workload):
        np.testing.assert_allclose(mechanism.variance(query), number + 1.0)
    assert mechanism.record_cost("add-remove") <= (1 / np.arange(1.0, 13.0)).sum() * (1 + 1e-11)
    with pytest.raises(PlanError, match="cell by cell"):
        replaced = WorkloadRowsMechanism(LONG, workload, np.eye(12), Noise("gaussian", 1.0))
        replaced.record_cost("add-remove")


def test_plain_tables_cost_the_same_for_every_record() -> None:
    workload = nz.Workload([nz.Query(LONG, LONG.names[i : i + 2]) for i in range(20)])
    mechanism = WorkloadRowsMechanism(LONG, workload, None, Noise("laplace", 4.0))
    assert 5.0 <= mechanism.record_cost("add-remove") <= 5.0 * (1 + 1e-10)


def test_rows_too_many_to_be_compared_stand_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_rows, "MOST_ROWS", ROWS - 1)
    sizes = np.linspace(1, 2, ROWS)
    mechanism = WorkloadRowsMechanism(S, WORKLOAD, None, Noise("gaussian", sizes))
    np.testing.assert_array_equal(mechanism.variance(WORKLOAD[0]), sizes[: WORKLOAD[0].rows])
    assert not mechanism.covariance(WORKLOAD[0], WORKLOAD[1]).any()
    zeros = mechanism.measure(counts_of(np.ones(S.shape)), lambda shape, _: np.zeros(shape))  # type: ignore[arg-type]
    np.testing.assert_allclose(
        mechanism.answer(zeros, WORKLOAD["two"]), WORKLOAD["two"].dense().sum(axis=1)
    )
    with pytest.raises(UnanswerableError, match="not told by any one query of the plan, whose"):
        mechanism.require(nz.Query(S, ["c", "d"]))
    assert "whose answers need not agree" in mechanism.describe()
    assert "tables need not add up" in mechanism.caution
    with pytest.raises(PlanError, match="sums of at most"):
        WorkloadRowsMechanism(S, WORKLOAD, MIX, Noise("gaussian", 1.0))


OF_ONE = {
    "sums of a table": (nz.Query(S, {"b": nz.Custom([[1, 1, 0]]), "c": nz.Identity()}), 6),
    "the last of prefix sums": (nz.Query(S, ["c"]), 0),
    "differences of prefix sums": (nz.Query(S, ["a"]), 0),
    "a range": (nz.Query(S, {"a": nz.Custom([[0, 1, 1, 0]]), "c": nz.Custom([[1, -1]])}), 0),
    "groups of levels": (
        nz.Query(S, {"a": nz.Custom([[1, 1, 0, 0]]), "d": WORKLOAD[2].factors["d"]}),
        2,
    ),
}


@pytest.mark.parametrize("case", OF_ONE)
def test_sums_of_rows_of_one_query_where_rows_are_not_compared(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pseudoinverse of that query's rows, written out over all cells."""
    monkeypatch.setattr(workload_rows, "MOST_ROWS", ROWS - 1)
    sizes = np.full(ROWS, 2.0)
    query, number = OF_ONE[case]
    rows = WORKLOAD[number].dense()
    sums = query.dense() @ np.linalg.pinv(rows)
    np.testing.assert_allclose(sums @ rows, query.dense(), atol=1e-9)
    mechanism = WorkloadRowsMechanism(S, WORKLOAD, None, Noise("gaussian", sizes))
    np.testing.assert_allclose(mechanism.variance(query), 2 * (sums**2).sum(axis=1))
    np.testing.assert_allclose(mechanism.covariance(query, WORKLOAD[number]), 2 * sums, atol=1e-9)
    counts = RNG.integers(0, 9, S.shape).astype(float)
    exact = mechanism.measure(counts_of(counts), lambda shape, _: np.zeros(shape))  # type: ignore[arg-type]
    np.testing.assert_allclose(mechanism.answer(exact, query), query.dense() @ counts.ravel())


def test_of_several_queries_the_one_with_the_least_noise_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload_rows, "MOST_ROWS", ROWS - 1)
    asked = nz.Query(S, {"b": nz.Custom([[1, 1, 0]])})
    sizes = np.ones(ROWS)
    by_b = WorkloadRowsMechanism(S, WORKLOAD, None, Noise("gaussian", sizes))
    np.testing.assert_allclose(by_b.variance(asked), 2.0)
    start = WORKLOAD[0].rows
    sizes[start : start + 3] = 9.0  # b by itself
    by_both = WorkloadRowsMechanism(S, WORKLOAD, None, Noise("gaussian", sizes))
    np.testing.assert_allclose(by_both.variance(asked), 4.0)


# ---------------------------------------------------------------------- largest sums


def tables(rng: np.random.Generator) -> list[Table]:
    shape = (3, 4, 2, 3, 2)
    sets = [(0, 1), (1, 2, 3), (0, 4), (3,), (2, 4)]
    return [Table(on, rng.integers(0, 4, [shape[a] for a in on]).astype(float)) for on in sets]


def total_at(some: Sequence[Table], cell: dict[int, int]) -> float:
    return float(sum(t.values[tuple(cell[a] for a in t.attributes)] for t in some))


@pytest.mark.parametrize("seed", seeds(20))
def test_the_largest_sum_of_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    some = tables(np.random.default_rng(seed))
    best = float(largest_sum.added(some).values.max())
    found, cell = largest_sum.largest_sum(some)
    assert found == best == total_at(some, cell)
    quick, near = largest_sum.large_sum(some)
    assert quick == total_at(some, near) <= best
    monkeypatch.setattr(largest_sum, "MOST_CELLS", 6)
    assert largest_sum.largest_sum(some)[0] >= best


@pytest.mark.parametrize("power", [1, 2])
def test_what_records_meet_of_rows_with_prices(power: int) -> None:
    prices = np.random.default_rng(12).uniform(0.1, 1, ROWS)
    costs = RecordCosts(WORKLOAD, power)
    each = prices @ np.abs(DENSE) ** power
    most, cell = costs.largest(prices)
    np.testing.assert_allclose(most, each.max())
    np.testing.assert_allclose(prices @ costs.at(cell), each.max())
    for number in (0, 17, 100):
        np.testing.assert_allclose(costs.at(CELLS[number]), np.abs(DENSE[:, number]) ** power)


@pytest.mark.parametrize("few", [True, False], ids=["compared", "too many to compare"])
@pytest.mark.parametrize("mixed", [False, True])
def test_replacing_a_record_with_laplace_noise(
    few: bool, mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the farthest two records are apart; where they are not compared, twice the dearest."""
    if not few:
        monkeypatch.setattr(workload_rows, "COMPARED_NUMBERS", 1)
        monkeypatch.setattr(WorkloadRowsMechanism.compared_columns, "__defaults__", (1,))
    mechanism, rows = made("laplace", mixed)
    paid = rows / mechanism.noise.size[:, None]
    apart = max(np.abs(paid - paid[:, [x]]).sum(axis=0).max() for x in range(rows.shape[1]))
    stated, alone = mechanism.record_cost("replace"), mechanism.record_cost("add-remove")
    assert apart <= stated <= 2 * alone
    assert stated == pytest.approx(apart if few else 2 * alone, rel=1e-11)
    assert (mechanism.compared_columns() is not None) is few


def test_columns_that_are_the_same_are_compared_once() -> None:
    mechanism = WorkloadRowsMechanism(S, nz.Workload([WORKLOAD[1]]), None, Noise("laplace", 2.0))
    columns = mechanism.compared_columns()
    assert columns is not None  # of "b" alone, which has three values
    assert sorted(columns.T.tolist()) == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert mechanism.record_cost("replace") == pytest.approx(1.0)


# ---------------------------------------------------------------------- written out


@pytest.mark.parametrize("mixed", [False, True])
def test_costs_and_units_are_those_of_the_rows_written_out(mixed: bool) -> None:
    mechanism, rows = made("gaussian", mixed)
    unit = rows / np.sqrt(mechanism.noise.size)[:, None]
    np.testing.assert_allclose(mechanism.unit_rows(), unit, rtol=1e-12)
    np.testing.assert_allclose(mechanism.cost_matrix(), unit.T @ unit, atol=1e-9)
    np.testing.assert_allclose(mechanism.cell_costs(), (unit**2).sum(axis=0), rtol=1e-9)
    numbers = np.random.default_rng(3).standard_normal(len(rows))
    measured = Measurements((numbers,))
    expected = numbers / np.sqrt(mechanism.noise.size)
    np.testing.assert_allclose(mechanism.unit_values(measured), expected, rtol=1e-12)


@pytest.mark.parametrize("exact", [False, True])
def test_so_many_times_the_noise_costs_so_many_times_less(exact: bool) -> None:
    mechanism, _ = made("gaussian", False, exact)
    more = mechanism.with_noise_times(4.0)
    assert more is not None and (more.noise.size >= 4 * mechanism.noise.size).all()
    np.testing.assert_allclose(more.noise.size, 4 * mechanism.noise.size, rtol=1e-6)
    for neighbours in ("add-remove", "replace"):
        ratio = mechanism.record_cost(neighbours) / more.record_cost(neighbours)  # type: ignore[arg-type]
        assert ratio == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("size", [0.0, -1.0])
def test_a_single_row_without_noise_is_refused_when_it_is_read(size: float) -> None:
    content, arrays = made("gaussian", False)[0].parts()
    sizes = arrays["sizes"].copy()
    sizes[3] = size
    with pytest.raises(StorageError, match="measured without noise"):
        read_mechanism(content, {**arrays, "sizes": sizes}, S)


@pytest.mark.parametrize("power", [52, 54])
def test_sums_that_would_be_rounded_have_no_cost(
    power: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number of many with entries that 53 bits do not hold, beside small ones."""
    monkeypatch.setattr(workload_rows, "CELL_BY_CELL", 0)
    workload = nz.Workload([nz.Query(S, {"a": nz.Custom([[1, 1, 1, 1], [0, 1, 0, 0]])})])
    mix = np.array([[1.0, 0.0], [2.0**power - 1, 0.0], [1.0, 1.0]])
    mechanism = WorkloadRowsMechanism(S, workload, mix, Noise("gaussian", 9.0, exact=True))
    if power < 53:
        assert mechanism.record_cost("add-remove") >= (2.0**power - 1) ** 2 / 9
        return
    with pytest.raises(PlanError, match=r"entries above 2\^53"):
        mechanism.record_cost("add-remove")


def test_tables_whose_attributes_are_asked_together_are_completed() -> None:
    """Not told in full, but counted together: and nothing else is."""
    workload = nz.Workload([nz.Query(S, {"a": nz.Prefix(), "b": nz.Custom([[1, 1, 0]])})])
    mechanism = WorkloadRowsMechanism(S, workload, None, Noise("gaussian", 2.0))
    for names in (["a", "b"], ["b"], ["a"], []):
        mechanism.require_completed(nz.Query(S, names))
    for names in (["c"], ["a", "c"]):
        with pytest.raises(UnanswerableError):
            mechanism.require_completed(nz.Query(S, names))
    other = nz.Schema.from_sizes({"a": 4, "b": 3})
    with pytest.raises(UnanswerableError, match="another schema"):
        mechanism.require_completed(nz.Query(other, ["a"]))
    # The counts with the least squares that have the estimated rows, by a dense inverse.
    rows, asked = workload[0].dense(), nz.Query(S, ["a", "b"]).dense()
    back = asked @ np.linalg.pinv(rows)
    values = np.random.default_rng(4).standard_normal(len(rows))
    found = mechanism.completed(Measurements((values,)), nz.Query(S, ["a", "b"]))
    np.testing.assert_allclose(found, back @ values, atol=1e-9)
    variances = mechanism.completed_variance(nz.Query(S, ["a", "b"]))
    np.testing.assert_allclose(variances, 2.0 * (back**2).sum(axis=1), atol=1e-9)


# ---------------------------------------------------------------------- noise of very unequal sizes


def exact_covariance(rows: np.ndarray, variances: Sequence[float], asked: np.ndarray) -> np.ndarray:
    """Q(WᵀD⁻¹W)⁻Qᵀ in fractions: no digit is lost, however far the variances are apart."""
    # A basis of the rows by elimination: over these columns of W the others are F, F W_b = W.
    reduced, pivots = row_reduced(rows.tolist())
    basis = np.array([row for row in reduced if any(row)], dtype=object)
    f, q = (np.array(w[:, pivots].tolist(), dtype=object) for w in (rows, asked))
    assert (f @ basis == rows).all() and (q @ basis == asked).all()
    precision = (f.T / np.array([Fraction(v) for v in variances], dtype=object)) @ f
    size = len(precision)
    beside = [
        [*row, *map(Fraction, own)]
        for row, own in zip(precision.tolist(), np.eye(size, dtype=int).tolist(), strict=True)
    ]
    inverse = np.array(row_reduced(beside)[0], dtype=object)[:, size:]
    return np.asarray(q @ inverse @ q.T)


def row_reduced(rows: list[list[int | Fraction]]) -> tuple[list[list[Fraction]], list[int]]:
    """By Gauss and Jordan, and the columns of the pivots."""
    left, pivots = [[Fraction(x) for x in row] for row in rows], list[int]()
    for column in range(len(left[0])):
        at = len(pivots)
        found = next((i for i in range(at, len(left)) if left[i][column]), None)
        if found is None:
            continue
        left[at], left[found] = left[found], left[at]
        left[at] = [x / left[at][column] for x in left[at]]
        for i, row in enumerate(left):
            if i != at and row[column]:
                left[i] = [x - row[column] * y for x, y in zip(row, left[at], strict=True)]
        pivots.append(column)
        if len(pivots) == len(left):
            break
    return left, pivots


UNEVEN = nz.Workload(
    [
        nz.Query(S, ["a"], name="a"),
        nz.Query(S, {"a": nz.Identity(), "b": nz.Ranges()}, name="ab"),
        nz.Query(S, {"a": nz.Prefix()}, name="p"),
        nz.Query(S, {}, name="all"),
        nz.Query(S, {"c": nz.Custom([[1, 2], [3, -1]])}, name="c"),
    ]
)
SIZES = {
    **{f"one by {w:g}": [1 / w, 1.0, 1 / w, 1.0, 1.0] for w in (1e-8, 1e-12, 1e-16, 1e-20)},
    **{f"most by {w:g}": [1.0, 1 / w, 1.0, 1 / w, 1 / w] for w in (1e-8, 1e-12, 1e-16, 1e-20)},
    "all": [1e40, 1.0, 1e10, 1e-5, 1e20],
    "all the other way": [1.0, 1e20, 1e10, 1e30, 1e-8],
    "hardly": [3.0, 4.0, 9.0, 2.0, 5.0],
    "some thousand times": [1e4, 1.0, 9999.0, 1e3, 1e8],
}


@pytest.mark.grid
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_no_digits_are_lost_where_noise_differs(name: str, few: bool) -> None:
    """Stated errors were zero where they are 2: against least squares in fractions."""
    every = zip(UNEVEN, SIZES[name], strict=True)
    queries, sizes = zip(*(e for e in every if not few or e[0].name in ("ab", "all")), strict=True)
    workload, rows = nz.Workload(queries), np.concatenate([q.dense() for q in queries])
    variances = np.repeat(sizes, [q.rows for q in queries])
    mechanism = WorkloadRowsMechanism(S, workload, None, Noise("gaussian", variances))
    asked = [*queries, nz.Query(S, {"a": nz.Ranges()}), nz.Query(S, {"a": nz.Levels(2)})]
    every_row = np.concatenate([query.dense() for query in asked])
    truth = exact_covariance(rows.astype(int), variances.tolist(), every_row.astype(int))
    found = np.concatenate([mechanism.variance(query) for query in asked])
    np.testing.assert_allclose(found, np.diagonal(truth).astype(float), rtol=1e-9)
    scale = np.sqrt(np.diagonal(truth).astype(float))
    together = np.block([[mechanism.covariance(q, r) for r in asked] for q in asked])
    apart = together / scale / scale[:, None] - truth.astype(float) / scale / scale[:, None]
    assert np.abs(apart).max() < 1e-9


@pytest.mark.parametrize("seed", seeds(12))
def test_noise_of_any_sizes_row_by_row(seed: int) -> None:
    """Sizes of single rows, over forty powers of ten; and answers are as good as they say."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([q.dense() for q in UNEVEN])
    variances = 10.0 ** rng.integers(-8, 32, len(rows))
    mechanism = WorkloadRowsMechanism(S, UNEVEN, None, Noise("gaussian", variances))
    truth = exact_covariance(rows.astype(int), variances.tolist(), rows.astype(int))
    own = np.diagonal(truth).astype(float)
    found = np.concatenate([mechanism.variance(query) for query in UNEVEN])
    np.testing.assert_allclose(found, own, rtol=1e-8)
    # Unit noise on every row moves answers by its column of Cov(ŷ, y)/d = Cov(ŷ)/d.
    for row in rng.choice(len(rows), 6, replace=False):
        noise = np.zeros(len(rows))
        noise[row] = np.sqrt(variances[row])
        answers = mechanism.answering(Measurements((noise,)))
        moved = np.concatenate([answers(query) for query in UNEVEN])
        expected = (truth[:, row] / Fraction(float(variances[row]))).astype(float) * noise[row]
        np.testing.assert_allclose(moved / np.sqrt(own), expected / np.sqrt(own), atol=1e-7)
