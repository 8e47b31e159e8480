"""The examples: studies that can be planned, and the made-up population that they count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import open_source
from noiseplan.data import EXAMPLES, example_study
from noiseplan.data.population import (
    LARGEST,
    OLDEST,
    place_names,
    population,
    population_schema,
    write_population,
)
from noiseplan.study import read_study

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted((ROOT / "examples").glob("*.toml"), reverse=True)  # the one that takes less first


@pytest.mark.few(1)
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_examples_can_be_planned(path: Path) -> None:
    study = read_study(path)
    plan = study.plan()
    assert study.budget is not None
    assert plan.privacy.within(study.budget)


def test_examples_are_found() -> None:
    assert {path.name for path in STUDIES} >= {"hospital.toml", "worst_case.toml"}
    with pytest.raises(nz.NoiseplanError, match="wages, population, census"):
        example_study("none")
    assert all(example_study(name).is_file() for name in EXAMPLES)


# ---------------------------------------------------------------------- the population


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    return population(40_000, seed=3)


def test_the_same_seed_makes_the_same_people(people: dict[str, np.ndarray]) -> None:
    again, other = population(40_000, seed=3), population(40_000, seed=4)
    assert all((again[name] == people[name]).all() for name in people)
    assert len(other["age"]) != len(people["age"]) or (other["age"] != people["age"]).any()
    assert len(people["age"]) == pytest.approx(40_000, rel=0.05)


def test_people_fit_their_schema(people: dict[str, np.ndarray]) -> None:
    schema = population_schema()
    counted = open_source(people, schema).marginals(np.array([[schema.index("age")]]))
    assert counted.sum() == len(people["age"])
    assert set(people["place"]) <= set(place_names())
    assert people["age"].min() >= 0
    assert people["age"].max() <= OLDEST


def test_households_make_sense(people: dict[str, np.ndarray]) -> None:
    number, size, role, age = (people[name] for name in ("household", "size", "role", "age"))
    members = np.bincount(number)
    assert (members[number] == size).all()
    assert members.max() <= LARGEST
    heads = np.bincount(number[role == "head"], minlength=len(members))
    assert (heads == 1).all()
    partners = np.bincount(number[role == "partner"], minlength=len(members))
    assert partners.max() == 1
    oldest = np.zeros(len(members), dtype=int)
    oldest[number[role == "head"]] = age[role == "head"]
    children = role == "child"
    assert (age[children] <= np.maximum(oldest[number[children]] - 14, 0)).all()
    assert (age[role == "head"] >= 18).all()
    for name in ("place", "tenure", "region"):  # one of each in a household
        pairs = set(zip(number.tolist(), people[name].tolist(), strict=True))
        assert len(pairs) == len(members)


def test_places_differ_in_size_and_belong_to_regions(people: dict[str, np.ndarray]) -> None:
    names, counts = np.unique(people["place"], return_counts=True)
    assert counts.max() > 10 * np.median(counts)
    assert (np.char.partition(people["place"].astype(str), "-")[:, 0] == people["region"]).all()
    assert len(names) > 100


def test_files(tmp_path: Path) -> None:
    write_population(tmp_path / "p.parquet", tmp_path / "places.csv", persons=500, seed=1)
    study = tmp_path / "population.toml"
    study.write_text(example_study("population").read_text(encoding="utf-8"), encoding="utf-8")
    read = read_study(study)
    assert read.schema == population_schema()
    source = open_source(tmp_path / "p.parquet", read.schema)
    sex = read.schema.index("sex")
    expected = np.unique(population(500, seed=1)["sex"], return_counts=True)[1]
    assert source.marginals(np.array([[sex]]))[0].tolist() == expected.tolist()
