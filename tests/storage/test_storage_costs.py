"""Saved plans of every kind: no forged cost is believed, and nothing known of them is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import noiseplan as nz
from noiseplan.errors import StorageError
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.noise import Noise
from noiseplan.planning.planners import named
from noiseplan.privacy import Guarantee
from noiseplan.storage.plans import read_mechanism

SMALL = nz.Schema({"a": nz.Ordinal(range(4)), "b": nz.Categorical(["x", "y"])})
LARGE = nz.Schema(
    {"a": nz.Ordinal(range(4)), "b": nz.Categorical(["x", "y"]), "z": nz.Ordinal(range(900))}
)
FRAME = pd.DataFrame(
    {"a": [0, 1, 1, 2, 3], "b": list("xyxyx"), "z": [0] * 5, "id": [1, 1, 2, 3, 4]}
)
KINDS = {
    "dense": (SMALL, nz.zCDP(0.5), "optimal", "discrete"),
    "floating point": (SMALL, nz.zCDP(0.5), "optimal", "gaussian"),
    "residual": (SMALL, nz.zCDP(0.5), "residual", "discrete"),
    "product": (LARGE, nz.zCDP(0.5), "hierarchical", "discrete"),
    "reduced": (LARGE, nz.zCDP(0.5), "optimal", "discrete"),
    "own rows": (LARGE, nz.zCDP(0.5), "workload", "discrete"),
    "own rows Laplace": (LARGE, nz.PureDP(1.0), "workload", "discrete"),
    "dense Laplace": (SMALL, nz.PureDP(1.0), "eigen", "discrete"),
    "tables": (SMALL, nz.PureDP(1.0), "tree", "discrete"),
    "product Laplace": (LARGE, nz.PureDP(1.0), "privelet", "discrete"),
    "reduced Laplace": (LARGE, nz.PureDP(1.0), "matrix", "laplace"),
}


def release_of(kind: str, max_rows: int, monkeypatch: pytest.MonkeyPatch) -> nz.Release:
    schema, budget, planner, noise = KINDS[kind]
    monkeypatch.setattr(named, "WRITTEN_OUT", 100)
    workload = nz.Workload([nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()}, name="q")])
    plan = nz.plan(workload, budget=budget, planner=planner, noise=noise, max_rows=max_rows)
    return plan.release(FRAME, seed=1, **({"person": "id"} if max_rows > 1 else {}))


def priced(plan: nz.Plan, factor: float) -> nz.Plan:
    """The same plan with another price on it."""
    price = plan.privacy
    if price.pure_epsilon is not None:
        return replace(plan, privacy=Guarantee.pure(price.pure_epsilon * factor))
    return replace(plan, privacy=Guarantee(price.pcost * factor, price.law))


@pytest.mark.grid
@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_cost_is_refused(
    kind: str, max_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = release_of(kind, max_rows, monkeypatch)
    for number, factor in enumerate((0.9, 1e-9)):
        folder = tmp_path / str(number)
        replace(release, plan=priced(release.plan, factor)).save(folder)
        with pytest.raises(StorageError, match="lower privacy cost"):
            nz.load(folder)
    if max_rows > 1:  # the price of one record is not a person's
        replace(release, plan=replace(release.plan, max_rows=max_rows + 1)).save(tmp_path / "more")
        with pytest.raises(StorageError, match="lower privacy cost"):
            nz.load(tmp_path / "more")


@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_forged_mu_is_refused(max_rows: int, neighbours: str, tmp_path: Path) -> None:
    """σ² is small enough that 2ρ, at which μ² is refused by itself, is far below."""
    workload = nz.Workload([nz.Query(SMALL, ["b"])])
    how = {"neighbours": neighbours, "max_rows": max_rows, "budget": nz.zCDP(0.4 * max_rows**2)}
    plan = nz.plan(workload, **how)  # type: ignore[arg-type]
    price = plan.privacy
    assert price.mu2 is not None and price.mu2 > 1.005 * price.pcost
    release = plan.release(FRAME, seed=1, **({"person": "id"} if max_rows > 1 else {}))
    for number, share in enumerate((0.0, 0.5, 0.999, 1.0)):
        mu2 = price.pcost + share * (price.mu2 - price.pcost)
        forged = replace(plan, privacy=replace(price, mu2=mu2))
        replace(release, plan=forged).save(tmp_path / str(number))
        if share == 1.0:
            assert nz.load(tmp_path / str(number)).plan.privacy.mu2 == price.mu2
            continue
        with pytest.raises(StorageError, match="lower μ"):
            nz.load(tmp_path / str(number))
    replace(release, plan=replace(plan, privacy=replace(price, mu2=None))).save(tmp_path / "none")
    assert nz.load(tmp_path / "none").plan.privacy.mu2 is None  # zCDP is true without it


def test_a_forged_cost_is_not_believed_of_what_says_it_was_made_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise "given" is not priced; so it must be told as the word of others, not as exact noise."""
    release = release_of("residual", 1, monkeypatch)
    forged = replace(priced(release.plan, 1e-9), noise="given")
    replace(release, plan=forged).save(tmp_path / "forged")
    with pytest.raises(StorageError, match="made elsewhere"):
        nz.load(tmp_path / "forged")
    honest = nz.from_noisy_tables(SMALL, [nz.NoisyTable(["b"], [5, 7], variance=2.0)])
    honest.save(tmp_path / "honest")
    assert nz.load(tmp_path / "honest").brand == honest.brand


@pytest.mark.grid
@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_a_plan_comes_back(
    kind: str, max_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = release_of(kind, max_rows, monkeypatch)
    release.save(tmp_path / "out")
    loaded = nz.load(tmp_path / "out")
    plan, again = release.plan, loaded.plan
    assert (again.privacy, again.max_rows) == (plan.privacy, plan.max_rows)
    assert again.gap == plan.gap
    assert again.optimal == plan.optimal
    # A bound that nobody asked for is worked out anew, perhaps in another way.
    assert again.lower_bound == pytest.approx(plan.lower_bound, rel=1e-3)
    assert np.array_equal(loaded.answer("q").estimate, release.answer("q").estimate)


def test_costs_are_those_of_the_columns() -> None:
    rows = np.array([[1.0, -2.0], [3.0, 1.0]])
    schema = nz.Schema.from_sizes({"a": 2})
    gaussian = cost_of([DenseMechanism(schema, rows, Noise("gaussian", 4.0))], "add-remove")
    laplace = cost_of([DenseMechanism(schema, rows, Noise("laplace", 2.0))], "add-remove")
    assert gaussian.pcost == pytest.approx(10 / 4, rel=1e-11)
    assert gaussian.pcost >= 10 / 4
    assert laplace.pure_epsilon == pytest.approx(4 / 2, rel=1e-11)
    assert laplace.pure_epsilon >= 4 / 2


def test_the_law_must_be_that_of_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gaussian = release_of("dense", 1, monkeypatch)
    laplace = release_of("dense Laplace", 1, monkeypatch)
    replace(gaussian, plan=replace(gaussian.plan, privacy=Guarantee.pure(99.0))).save(
        tmp_path / "g"
    )
    replace(laplace, plan=replace(laplace.plan, privacy=Guarantee(99.0, "zcdp"))).save(
        tmp_path / "l"
    )
    for folder in ("g", "l"):
        with pytest.raises(StorageError, match="Laplace noise"):
            nz.load(tmp_path / folder)


def test_fractions_are_no_integers_on_disk_either(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = release_of("dense", 1, monkeypatch).plan.mechanism
    content, arrays = mechanism.parts()
    arrays["strategy"] = arrays["strategy"] + 0.25
    with pytest.raises(StorageError, match="whole numbers"):
        read_mechanism(content, arrays, SMALL)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_unit_is_a_person_where_one_record_of_each_was_counted(
    neighbours: str, tmp_path: Path
) -> None:
    schema = nz.Schema.from_sizes({"a": 2})
    workload = nz.Workload.marginals(schema, k=1)
    plan = nz.plan(workload, budget=nz.zCDP(0.5), neighbours=neighbours, noise="discrete")  # type: ignore[arg-type]
    data = {"a": [0, 1, 1], "id": ["p", "p", "q"]}
    plan.release(data).save(tmp_path / "records")
    plan.release(data, person="id").save(tmp_path / "persons")
    for name, unit in (("records", "one record"), ("persons", "one person, of whom one record")):
        words = (tmp_path / name / "certificate.txt").read_text(encoding="utf-8")
        assert f"What is protected: {unit}" in words
        assert "\nIt answers 1 query, 2 rows in all, from " in words
        replaced = "by replacing one record" if name == "records" else "what the records of one"
        assert (replaced in words) == (neighbours == "replace")
