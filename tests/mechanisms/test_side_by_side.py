"""Mechanisms side by side against matrices written out: least squares of each, and their mean."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import product as pairs
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.counting.tensor import CountTensor
from noiseplan.domain.cells import MergedValues
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.mechanisms.agreement import agreement
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.side_by_side import SideBySide
from noiseplan.noise import Noise
from noiseplan.report import Design, planning_page, report_page
from noiseplan.storage.certificate import certificate
from noiseplan.storage.plans import read_mechanism
from page_parsing import parsed

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2})
RNG = np.random.default_rng(11)
# All six cells; the three values of a, twice; and the cells once more with other sums.
ROWS = (
    np.vstack([np.eye(6), np.ones((1, 6))]),
    np.kron(np.vstack([np.eye(3), [[1, 1, 0]]]), np.ones((1, 2))),
    np.vstack([np.eye(6), RNG.integers(0, 3, (2, 6))]).astype(float),
)
SIZES = (2.0, 0.7, 5.0)
TOLD = [
    nz.Query(SCHEMA, {"a": nz.Prefix(), "b": nz.Identity()}),  # by the first and the third
    nz.Query(SCHEMA, {"a": nz.Ranges()}),  # by all
    nz.Query(SCHEMA, ["a", "b"], matrix=np.array([[0.0] * 6, [1, 2, 0, 0, -1, 0]]), name="rows"),
]


def beside(law: str, exact: bool = False) -> SideBySide:
    noises = [Noise(law, size, exact) for size in SIZES]
    parts = zip(ROWS, noises, strict=True)
    return SideBySide(tuple(DenseMechanism(SCHEMA, rows, noise) for rows, noise in parts))


def by_hand(mechanism: SideBySide, query: nz.Query) -> list[np.ndarray]:
    """What multiplies the numbers of each mechanism: least squares, weighted row by row."""
    asked, maps, variances = query.dense(), [], []
    for rows, own in zip(ROWS, mechanism.mechanisms, strict=True):
        back = asked @ np.linalg.pinv(rows)
        told = np.allclose(back @ rows, asked)
        maps.append(back)
        sums = (back**2).sum(axis=1) * float(own.noise.variance[0])
        variances.append(np.where(asked.any(axis=1), sums, 1.0) if told else np.inf)
    precision = np.array([1 / np.broadcast_to(each, len(asked)) for each in variances])
    shares = precision / precision.sum(axis=0)
    return [share[:, None] * back for share, back in zip(shares, maps, strict=True)]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("exact", [False, True])
def test_answers_and_errors_are_those_of_the_matrices(law: str, exact: bool) -> None:
    mechanism = beside(law, exact)
    values = tuple(RNG.integers(0, 40, len(rows)) for rows in ROWS)
    measured = Measurements(tuple(v.astype(mechanism.noise.dtype) for v in values))
    each = [float(own.noise.variance[0]) for own in mechanism.mechanisms]
    for query in TOLD:
        maps = by_hand(mechanism, query)
        estimate = sum(m @ v for m, v in zip(maps, values, strict=True))
        np.testing.assert_allclose(mechanism.answer(measured, query), estimate, atol=1e-9)
        for other in TOLD:
            also = by_hand(mechanism, other)
            truth = sum(m @ n.T * v for m, n, v in zip(maps, also, each, strict=True))
            np.testing.assert_allclose(mechanism.covariance(query, other), truth, atol=1e-9)
        np.testing.assert_allclose(
            mechanism.variance(query), np.diagonal(mechanism.covariance(query, query)), atol=1e-12
        )


def test_all_noise_is_on_one_lattice() -> None:
    """Counts are multiplied by eight for all of them: noise of integers would be too small."""
    fine, coarse = (DenseMechanism(SCHEMA, ROWS[0], Noise("gaussian", 9.0, k)) for k in (8, 1))
    for pair in ((fine, coarse), (coarse, fine)):
        with pytest.raises(PlanError, match="noise of one kind"):
            SideBySide(pair)
    mixed = SideBySide((fine, fine))
    object.__setattr__(mixed, "mechanisms", (fine, coarse))

    def marginals(sets: np.ndarray) -> np.ndarray:
        return np.ones((len(sets), 3, 2), dtype=np.int64)

    with pytest.raises(PlanError, match="one lattice"):
        mixed.measured_on_lattice(marginals, lambda shape, noise: np.zeros(shape, np.int64))


def test_what_several_determine_is_better_than_by_the_best_of_them() -> None:
    mechanism, query = beside("laplace"), TOLD[1]
    alone = np.array([own.variance(query) for own in mechanism.mechanisms])
    assert (mechanism.variance(query) < 0.999 * alone.min(axis=0)).all()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_record_costs_more_than_is_stated(law: str, neighbours: str) -> None:
    """Column by column, and pair by pair, of all rows over the sizes of their noise."""
    mechanism, power = beside(law), 1 if law == "laplace" else 2
    replaced = neighbours == "replace"
    changes = [(x, y) for x, y in pairs(range(6), range(6)) if replaced or x == y]

    def paid(x: int, y: int) -> float:
        differ = [
            (rows[:, x] - rows[:, y] if replaced else rows[:, x], s)
            for rows, s in zip(ROWS, SIZES, strict=True)
        ]
        return sum(float((np.abs(d) ** power).sum()) / s for d, s in differ)

    dearest = max(paid(x, y) for x, y in changes)
    stated = mechanism.record_cost(neighbours)
    assert dearest <= stated
    each = sum(own.record_cost(neighbours) for own in mechanism.mechanisms)
    assert stated == pytest.approx(each)
    guarantee = mechanism.cost(neighbours)
    told = guarantee.pure_epsilon if law == "laplace" else guarantee.pcost
    assert told is not None and told >= dearest


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_squares_are_added_record_by_record(neighbours: str) -> None:
    """The dearest records of two parts are different ones: none pays for both."""
    rows = np.diag([3.0, 1, 1, 1, 1, 1]), np.diag([1.0, 1, 1, 1, 1, 2])
    parts = [DenseMechanism(SCHEMA, each, Noise("gaussian", 2.0)) for each in rows]
    mechanism, each = SideBySide(tuple(parts)), sum(rows[i].T @ rows[i] / 2.0 for i in (0, 1))
    cells = np.diagonal(each)
    replaced = max(cells[x] + cells[y] for x, y in pairs(range(6), range(6)) if x != y)
    truth = replaced if neighbours == "replace" else cells.max()
    assert truth <= mechanism.record_cost(neighbours) <= truth * (1 + 1e-9)
    assert truth < sum(part.record_cost(neighbours) for part in parts)


def test_groups_of_queries_are_told_from_single_ones() -> None:
    alone = beside("gaussian", exact=True)
    together = SideBySide(alone.mechanisms, grouped=True)
    assert "for 3 queries each by itself" in alone.describe()
    assert "for 3 groups of queries each by itself" in together.describe()
    assert together.caution != alone.caution
    for mechanism in (alone, together):
        again = read_mechanism(*saved(mechanism), SCHEMA)
        assert isinstance(again, SideBySide) and again.grouped is mechanism.grouped


def follows(mechanism: SideBySide, one: nz.Query, other: nz.Query) -> bool:
    """Whether the answer to one adds up to that to the other, whatever is measured."""
    values = [RNG.normal(0, 9, sum(np.prod(s) for s in own.shapes)) for own in mechanism.mechanisms]
    answer = mechanism.answering(Measurements(tuple(values)))
    sums = other.dense() @ np.linalg.pinv(one.dense())
    assert np.allclose(sums @ one.dense(), other.dense())
    return np.allclose(sums @ answer(one), answer(other))


def test_groups_that_agree_are_those_whose_answers_add_up() -> None:
    """By numbers at random instead of measurements, of all pairs where one follows from another."""
    pairs_of_b = np.kron(np.array([[1, 1, 0]]), np.eye(2))  # of the first two values of a
    parts = [DenseMechanism(SCHEMA, rows, Noise("gaussian", 1.0)) for rows in (ROWS[1], pairs_of_b)]
    mechanism = SideBySide(tuple(parts), grouped=True)
    two = nz.Custom([[1, 1, 0]])
    asked = [
        nz.Query(SCHEMA, ["a"]),
        nz.Query(SCHEMA, {"a": two}, name="both tell it"),
        nz.Query(SCHEMA, {"a": two, "b": nz.Identity()}, name="two"),
        nz.Query(SCHEMA, []),
        nz.Query(SCHEMA, {"a": two, "b": nz.Custom([[1, 0]])}, name="the first of two"),
    ]
    found = mechanism.agreeing(asked)
    assert found == [[0, 3], [2, 4]]
    together = {(x, y) for group in found for x, y in pairs(group, group)}
    compared = [(0, 1), (0, 3), (2, 1), (2, 4)]  # the second is of sums of the first
    for x, y in compared:
        assert follows(mechanism, asked[x], asked[y]) is ((x, y) in together), (x, y)
    workload = nz.Workload(asked)
    said = "tables that agree: 'a', 'total' | 'two', 'the first of two'; 1 other agrees with none"
    assert agreement(mechanism, workload) == said
    assert agreement(SideBySide((mechanism, parts[0])), workload.subset([2, 4])).endswith(
        "'two', 'the first of two'"
    )
    assert agreement(parts[0], workload) == "", "all of them agree"
    assert agreement(mechanism, workload.subset([1, 2])) == "", "no two of them agree"


def test_many_groups_are_named_in_part() -> None:
    schema = nz.Schema.from_sizes(dict.fromkeys("abcdefg", 2))
    parts = [
        DenseMechanism(schema, nz.Query(schema, [name]).dense(), Noise("gaussian", 1.0))
        for name in schema.names
    ]
    queries = [
        nz.Query(schema, {name: nz.Custom([row])}, name=f"{name}{number}\x1b" + "x" * 60)
        for name in schema.names
        for number, row in enumerate([[1, 0], [0, 1], [1, 2], [1, 3], [2, 1]])
    ]
    said = agreement(SideBySide(tuple(parts), grouped=True), nz.Workload(queries))
    assert said.count(" and 2 more") == 4 and said.endswith(" and 3 groups more")
    assert "\x1b" not in said and len(said) < 700


def test_a_plan_and_its_certificate_name_what_agrees(tmp_path: Path) -> None:
    """Also where it is over fewer cells than the schema has."""
    parts = [DenseMechanism(SCHEMA, rows, Noise("gaussian", 4.0, exact=True)) for rows in ROWS[:1]]
    other = DenseMechanism(SCHEMA, np.eye(1, 6), Noise("gaussian", 4.0, exact=True))
    small = SideBySide((*parts, other), grouped=True)
    schema = nz.Schema.from_sizes({"a": 3, "b": 4})
    groups = (np.arange(3), np.array([0, 0, 1, 1]))
    reduced = ReducedMechanism(MergedValues(schema, np.arange(2), groups), small)
    pairs_of_b = nz.Custom([[1, 1, 0, 0], [0, 0, 1, 1]])
    workload = nz.Workload([nz.Query(schema, {"a": "identity", "b": pairs_of_b}, name="pairs")])
    workload += nz.Query(schema, ["a"])
    assert reduced.caution == small.caution != ""
    plan = nz.plan(workload, budget=nz.zCDP(0.5))
    plan = replace(plan, mechanism=reduced, privacy=reduced.cost("add-remove"))
    said = "ables that agree: 'pairs', 'a'"
    assert said in str(plan)
    plan.release(np.ones((3, 4), int), seed=1).save(tmp_path / "out")
    text = (tmp_path / "out" / "certificate.txt").read_text("utf-8")
    assert said in text and small.caution in text


def measured_apart(path: Path) -> tuple[nz.Plan, nz.Release]:
    """Tables of two groups, and one that agrees with none, saved to a folder."""
    pairs_of_b = np.kron(np.array([[1, 1, 0]]), np.eye(2))
    noise = Noise("gaussian", 4.0, exact=True)
    parts = [DenseMechanism(SCHEMA, rows, noise) for rows in (ROWS[1], pairs_of_b)]
    mechanism, two = SideBySide(tuple(parts), grouped=True), nz.Custom([[1, 1, 0]])
    workload = nz.Workload(
        [
            nz.Query(SCHEMA, ["a"]),
            nz.Query(SCHEMA, {"a": two}, name="both tell it"),
            nz.Query(SCHEMA, {"a": two, "b": nz.Identity()}, name="two"),
            nz.Query(SCHEMA, []),
            nz.Query(SCHEMA, {"a": two, "b": nz.Custom([[1, 0]])}, name="<first> of two"),
        ]
    )
    plan = nz.plan(workload, budget=nz.zCDP(0.5))
    plan = replace(plan, mechanism=mechanism, privacy=mechanism.cost("add-remove"))
    release = plan.release(CountTensor(SCHEMA, np.full((3, 2), 40)), seed=1)
    release.save(path)
    return plan, release


SAID = "Tables that agree: 'a', 'total' | 'two', '<first> of two'; 1 other agrees with none."


def test_the_index_of_a_folder_names_the_tables_that_agree(tmp_path: Path) -> None:
    """And their numbers do: sums of the one are the other, to the digits that are written."""
    measured_apart(tmp_path / "out")
    tables = tmp_path / "out" / "tables"

    def rows(name: str) -> list[dict[str, str]]:
        with (tables / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    groups = {row["query"]: row["agreement"] for row in rows("index")}
    assert groups == {
        "a": "group 1",
        "both tell it": "none",
        "two": "group 2",
        "total": "group 1",
        "<first> of two": "group 2",
    }
    told = {
        row["query"]: [float(each["estimate"]) for each in rows(row["file"])]
        for row in rows("index")
    }
    assert sum(told["a"]) == pytest.approx(told["total"][0], abs=1e-3)
    assert told["two"][0] == pytest.approx(told["<first> of two"][0], abs=1e-3)
    for other in (sum(told["a"][:2]), sum(told["two"])):
        assert abs(told["both tell it"][0] - other) > 0.01
    everything = nz.plan(nz.Workload.marginals(SCHEMA, up_to=2), budget=nz.zCDP(0.5))
    everything.release({"a": [0, 1], "b": [0, 1]}, seed=1).save(tmp_path / "one")
    index = (tmp_path / "one" / "tables" / "index.csv").read_text("utf-8")
    assert index.startswith("file,query,rows\n"), "all tables agree"


def test_pages_and_answers_say_which_tables_agree(tmp_path: Path) -> None:
    plan, release = measured_apart(tmp_path / "out")
    page = report_page(release, certificate(release, plan.hash()))
    sentences = f"{plan.mechanism.caution} {SAID}"
    assert sentences in "".join(parsed(page).words)
    design = planning_page([Design("one", "Tables", "", plan, "")])
    assert sentences in "".join(parsed(design).words)
    for told in (release.answer("a"), release.share("a"), release.ask("total")):
        assert told.notes[-2:] == (plan.mechanism.caution, SAID)
        assert SAID in str(told)
        assert SAID in "".join(parsed(told._repr_html_()).words)
    printed = CliRunner().invoke(main, ["answer", str(tmp_path / "out"), "a"])
    assert printed.exit_code == 0 and SAID in printed.output
    told = CliRunner().invoke(main, ["answer", str(tmp_path / "out"), "share(a)", "--json"])
    assert SAID in json.loads(told.output)["notes"]
    agreeing = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.zCDP(0.5))
    assert SAID not in planning_page([Design("one", "Tables", "", agreeing, "")])
    assert agreeing.release({"a": [0], "b": [1]}, seed=1).answer("a").notes == ()


def test_what_none_determines_alone_is_refused() -> None:
    """The sum over b of the second, and one cell of the first: only together they tell another."""
    one = DenseMechanism(SCHEMA, ROWS[1], Noise("laplace", 1.0))
    two = DenseMechanism(SCHEMA, np.eye(1, 6), Noise("laplace", 1.0))
    mechanism = SideBySide((one, two))
    mechanism.require(nz.Query(SCHEMA, ["a"]))
    second = nz.Query(SCHEMA, ["a", "b"], matrix=np.eye(1, 6, 1), name="the second cell")
    for refused in (mechanism.require, mechanism.variance):
        with pytest.raises(UnanswerableError, match="the second cell"):
            refused(second)


def saved(mechanism: Mechanism) -> tuple[dict, dict]:
    content, arrays = mechanism.parts()
    return dict(content), dict(arrays)


def test_saved_and_read_it_is_the_same() -> None:
    mechanism = beside("laplace", exact=True)
    again = read_mechanism(*saved(mechanism), SCHEMA)
    assert isinstance(again, SideBySide)
    for query in TOLD:
        assert np.array_equal(again.variance(query), mechanism.variance(query))
    assert again.record_cost("replace") == mechanism.record_cost("replace")


def test_files_that_make_no_sense_are_refused() -> None:
    content, arrays = saved(beside("laplace"))
    with pytest.raises(StorageError):
        read_mechanism(content | {"mechanisms": []}, arrays, SCHEMA)
    other, _ = saved(beside("gaussian"))
    mixed = [content["mechanisms"][0], other["mechanisms"][1]]
    with pytest.raises(StorageError, match="one kind"):
        read_mechanism(content | {"mechanisms": mixed}, arrays, SCHEMA)


def test_noise_of_two_kinds_and_other_schemas_are_refused() -> None:
    """What they cost together would not be what either law says."""
    laplace = beside("laplace").mechanisms
    for other in (beside("gaussian"), beside("laplace", exact=True)):
        with pytest.raises(PlanError, match="one schema, and noise of one kind"):
            SideBySide((laplace[0], other.mechanisms[1]))
    renamed = nz.Schema.from_sizes({"a": 3, "c": 2})
    elsewhere = DenseMechanism(renamed, ROWS[0], Noise("laplace", 1.0))
    for wrong in ((laplace[0], elsewhere), ()):
        with pytest.raises(PlanError, match="one schema, and noise of one kind"):
            SideBySide(wrong)


def test_measurements_of_other_shapes_are_refused() -> None:
    mechanism = beside("laplace")
    values = tuple(np.zeros(len(rows)) for rows in ROWS)
    mechanism.check(Measurements(values))
    with pytest.raises(StorageError):
        mechanism.check(Measurements(values[:2]))
    with pytest.raises(StorageError):
        mechanism.check(Measurements((values[0], values[2], values[1])))
