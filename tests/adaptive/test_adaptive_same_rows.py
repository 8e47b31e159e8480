"""Plans along a long attribute, asked again for more: the same rows, against least squares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing.same_rows import BySameRows, same_rows
from noiseplan.errors import PlanError
from noiseplan.release.release import make_release

TRACT = np.arange(300) // 6
GEO = nz.Hierarchical({"place": range(300), "tract": TRACT + 1000, "county": TRACT // 10 + 5000})
SCHEMA = nz.Schema({"geo": GEO, "age": nz.Ordinal(range(4))})
HALVES = nz.Levels(2, leaves=False, total=False)
WORKLOAD = nz.Workload(
    [
        nz.Query(SCHEMA, ["county", "age"], name="counties"),
        nz.Query(SCHEMA, {"geo": nz.Level("tract"), "age": HALVES}, name="tracts"),
        nz.Query(SCHEMA, ["geo"], name="places"),
    ]
).weighted("tables")
KINDS = {"auto": "levels", "residual": "tree"}


def planned(rho: float, planner: str, noise: str = "discrete") -> nz.Plan:
    plan = nz.plan(WORKLOAD, budget=nz.zCDP(rho), planner=planner, noise=noise)
    assert plan.mechanism.kind == KINDS[planner]
    return plan


def counts() -> np.ndarray:
    return np.random.default_rng(4).poisson(2.0, SCHEMA.shape).astype(float)


@pytest.mark.parametrize("planner", list(KINDS))
def test_what_is_left_costs_the_difference(planner: str) -> None:
    """Written out, the costs of what was measured and of what is left add up to the plan's."""
    few, many = planned(0.05, planner), planned(0.2, planner)
    more = many.given(few.release(counts(), seed=1))
    assert isinstance(more.family, BySameRows) and more.rest is not None
    assert more.privacy.rho == pytest.approx(0.15, rel=1e-6)
    assert more.total.rho <= 0.2 * (1 + 1e-6)
    together = few.cost_matrix() + more.rest.cost_matrix()
    np.testing.assert_allclose(together, many.cost_matrix(), atol=1e-9 * together.max())
    assert together.max() <= many.cost_matrix().max() * (1 + 1e-12)  # rounded to the safe side


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("planner", list(KINDS))
def test_answers_are_those_of_least_squares(planner: str, noise: str) -> None:
    """From both releases' numbers, by their rows over all cells."""
    few, many = planned(0.05, planner, noise), planned(0.3, planner, noise)
    earlier = few.release(counts(), seed=1)
    more = many.given(earlier)
    found = more.release(counts(), seed=2)
    assert more.rest is not None
    rest = make_release(more.rest, counts(), seed=2)
    parts = [(few.mechanism, earlier.measurements), (more.rest.mechanism, rest.measurements)]
    if planner == "residual":  # rows of trees are not written out: by their answers
        first, second = (p.answer("counties") for p in (earlier, rest))
        weights = 1 / np.stack([first.std_error, second.std_error]) ** 2
        both = np.stack([first.estimate, second.estimate])
        expected = (weights * both).sum(axis=0) / weights.sum(axis=0)
        np.testing.assert_allclose(found.answer("counties").estimate, expected, atol=1e-5)
    else:
        rows = np.concatenate([mechanism.unit_rows() for mechanism, _ in parts])
        numbers = np.concatenate([mechanism.unit_values(own) for mechanism, own in parts])
        inverse = np.linalg.pinv(rows.T @ rows, rcond=1e-10, hermitian=True)
        cells = inverse @ (rows.T @ numbers)
        for query in WORKLOAD:
            told, w = found.answer(query), query.dense()
            np.testing.assert_allclose(told.estimate, w @ cells, atol=1e-4)
            variance = ((w @ inverse) * w).sum(axis=1)
            np.testing.assert_allclose(told.std_error**2, variance, rtol=1e-5)
    for query in WORKLOAD:
        np.testing.assert_allclose(found.answer(query).std_error, many.std_error(query), rtol=1e-6)


def test_less_costs_nothing_and_folders_go_on(tmp_path: Path) -> None:
    few, many = planned(0.05, "auto"), planned(0.2, "auto")
    known = many.release(counts(), seed=1)
    assert few.given(known).privacy.rho == 0
    np.testing.assert_allclose(
        few.given(known).release(counts(), seed=3).answer("tracts").estimate,
        known.answer("tracts").estimate,
    )
    known.save(tmp_path / "out")
    again = planned(0.5, "auto").given(nz.load(tmp_path / "out"))
    assert again.privacy.rho == pytest.approx(0.3, rel=1e-6)


def test_other_rows_are_refused_in_words() -> None:
    """What is true of them, once, and what can be done."""
    levels, tree = planned(0.1, "auto"), planned(0.2, "residual")
    assert same_rows([levels.mechanism, tree.mechanism]) is None
    fewer = nz.plan(WORKLOAD.subset([0, 2]), budget=nz.zCDP(0.2))
    for plan in (tree, fewer):
        with pytest.raises(PlanError) as refused:
            plan.given(levels.release(counts(), seed=1))
        said = str(refused.value)
        assert "by the same queries with another budget alone" in " ".join(said.split())
        assert "plan.release(data, …)" in said and "plans of any size go together" not in said
        assert all(sentence.count(", and ") <= 1 for sentence in said.replace(";", ".").split("."))
    with pytest.raises(PlanError, match="says how much larger errors are then"):
        nz.adaptive([levels, fewer])


FEW = ["a < 4 and b = 2", "b < 7 and c > 3", "d = 1 and e < 5 and f < 5", "a > 2 and f = 9"]
MANY = [
    f"{a} < {n} and {b} > {n - 2} and {c} < 7"
    for a, b, c in ("abc", "bde", "cef", "afd")
    for n in (3, 4, 5, 6, 7)
]


@pytest.mark.parametrize(("words", "kind"), [(FEW, "reduced"), (MANY, "workload rows")])
def test_conditions_are_looked_at_and_asked_again_for_twice_the_budget(
    words: list[str], kind: str
) -> None:
    """Over a million cells: the best for both budgets are the same sums, of classes of cells or of
    the conditions' own rows."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abcdef", 10))
    asked = nz.Workload.predicates(schema, words)
    once, twice = (nz.plan(asked, budget=nz.zCDP(rho)) for rho in (0.5, 1.0))
    assert once.mechanism.kind == kind
    rng = np.random.default_rng(1)
    data = {name: rng.integers(0, 10, 500) for name in schema.names}
    more = twice.given(once.release(data, seed=1))
    assert more.privacy.rho == pytest.approx(0.5, rel=1e-6)
    assert more.total.rho <= 1.0
    choice = nz.adaptive([once, twice])
    assert choice.common.privacy.rho == pytest.approx(0.5, rel=1e-6)
    assert choice.privacy.rho <= 1.0
    for found in (more.release(data, seed=2), choice.look(data, seed=3).choose(twice)):
        for query in asked:
            np.testing.assert_allclose(
                found.answer(query).std_error, twice.std_error(query), rtol=1e-6
            )
