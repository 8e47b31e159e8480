"""Manners: completion, printed forms, spellings that are accepted, pictures, examples."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing import SignalToNoise

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(20, 26)),
        "sex": nz.Categorical(["F", "M"]),
        "income": nz.Binned([0, 10, 20]),
    }
)
COUNTS = np.random.default_rng(1).integers(0, 30, SCHEMA.shape)
WORKLOAD = nz.Workload.marginals(SCHEMA, up_to=2) + nz.Query(
    SCHEMA, {"sex": nz.Identity(), "age": nz.Prefix()}, name="up to each age"
)
PLAN = nz.plan(WORKLOAD, budget=nz.zCDP(0.5))
RELEASE = PLAN.release(COUNTS, seed=1)
AGES = nz.Query(SCHEMA, {"age": nz.Prefix()})


# --------------------------------------------------------------------------- completion


@pytest.mark.parametrize("module", [nz, nz.local], ids=lambda module: module.__name__)
def test_completion_shows_the_public_names(module: Any) -> None:
    _ = [getattr(module, name) for name in module.__all__]  # loading them adds none
    assert dir(module) == sorted(module.__all__)


def test_completion_is_complete_before_anything_is_loaded() -> None:
    code = "import noiseplan as nz; print(dir(nz) == sorted(nz.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


# --------------------------------------------------------------------------- printed forms


def one_by_one() -> Iterator[tuple[str, object]]:
    """An object of every public class, and what public functions and methods return."""
    yield from {
        "Schema": SCHEMA,
        **dict(zip(SCHEMA.names, SCHEMA.attributes, strict=True)),
        "Hierarchical": nz.Hierarchical(
            {"tract": [f"t{i}" for i in range(500)], "county": [f"c{i // 5}" for i in range(500)]}
        ),
        "TextFile": nz.TextFile("people.csv"),
        "Identity": nz.Identity(),
        "Level": nz.Level("county"),
        "Prefix": nz.Prefix(),
        "Ranges": nz.Ranges(),
        "Total": nz.Total(),
        "Levels": nz.Levels(2),
        "Custom": nz.Custom(np.eye(200)),
        "Query": AGES,
        "Workload": WORKLOAD,
        "zCDP": nz.zCDP(0.5),
        "GDP": nz.GDP(1.0),
        "ApproxDP": nz.ApproxDP(1.0, 1e-9),
        "PureDP": nz.PureDP(1.0),
        "Guarantee": PLAN.privacy,
        "RMSE": nz.RMSE(),
        "TotalVariance": nz.TotalVariance(),
        "WorstVariance": nz.WorstVariance(),
        "PNormVariance": nz.PNormVariance(4),
        "ConvexLoss": nz.ConvexLoss(np.sum),
        "RelativeError": nz.RelativeError(np.ones(50)),
        "Dawa": nz.Dawa(),
        "Strategy": nz.Strategy(np.eye(200)),
        "NoisyTable": nz.NoisyTable(["age"], np.ones(6), 2.0),
        "Plan": PLAN,
        "Release": RELEASE,
        "bounds": nz.bounds(WORKLOAD),
        "compare": nz.compare([PLAN]),
        "plan.profile": PLAN.profile(),
        "plan.certify": PLAN.certify(),
        "plan.given": PLAN.given(RELEASE),
        "release.answer": RELEASE.answer(AGES),
        "release.median": RELEASE.median("income", by="sex"),
        "release.valid": RELEASE.valid(),
        "release.provenance": RELEASE.provenance,
        "release.measurements": RELEASE.measurements,
        "SignalToNoise": SignalToNoise(share=0.5, ratio=2),
    }.items()
    choice = nz.adaptive([PLAN, nz.plan(WORKLOAD, budget=nz.zCDP(0.7))])
    yield "adaptive", choice
    yield "adaptive.look", choice.look(COUNTS, seed=1)
    planned = nz.local.plan(nz.Workload([AGES]), 1.0)
    yield "local.plan", planned
    yield "local.randomizer", planned.randomizer()
    yield "local.Memory", nz.local.Memory(planned.randomizer())
    counted = planned.simulate(COUNTS.sum(axis=(1, 2)), seed=1)
    yield "local.aggregator", counted
    yield "local.consistent", counted.consistent()


def test_everything_public_prints_for_people(tmp_path: Path) -> None:
    """No address, no array written out: a line or two."""
    objects = dict(one_by_one())
    ledger = nz.Ledger(tmp_path / "a.ledger", create=True)
    ledger.open_dataset("people", nz.zCDP(1))
    objects["Ledger"] = ledger
    shown = {name: repr(each) for name, each in objects.items()}
    bad = {
        name: text[:200]
        for name, text in shown.items()
        if re.search(r"<.* at 0x|array\(", text) or len(text) > 400
    }
    assert not bad
    classes = {type(each) for each in objects.values()}
    abstract = {nz.Factor, nz.Objective, nz.NoiseplanError}
    public = {getattr(nz, n) for n in nz.__all__ if isinstance(getattr(nz, n), type)} - abstract
    assert public <= classes, "a public class has no example here"
    local = {getattr(nz.local, n) for n in nz.local.__all__}
    assert {each for each in local if isinstance(each, type)} - {nz.local.Randomizer} <= classes
    assert isinstance(objects["local.randomizer"], nz.local.Randomizer)


# --------------------------------------------------------------------------- spellings


@pytest.mark.parametrize("said", [AGES, [AGES], (AGES,)])
def test_a_query_or_a_list_is_planned_for(said: Any) -> None:
    expected = nz.plan(nz.Workload([AGES]), budget=nz.zCDP(0.5))
    assert nz.plan(said, budget=nz.zCDP(0.5)).hash() == expected.hash()


@pytest.mark.parametrize(
    ("word", "meant"),
    [("total", nz.TotalVariance()), ("worst", nz.WorstVariance()), ("rmse", nz.RMSE())],
)
def test_objectives_have_words(word: str, meant: nz.Objective) -> None:
    by_word = nz.plan(WORKLOAD, budget=nz.zCDP(0.5), objective=word)
    assert by_word.hash() == nz.plan(WORKLOAD, budget=nz.zCDP(0.5), objective=meant).hash()
    assert by_word.objective == meant


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nz.plan(AGES, budget=nz.zCDP(1), objective="wurst"), "'total', 'rmse', 'worst'"),
        (lambda: nz.plan("age", budget=nz.zCDP(1)), "starts with a Workload or a list of queries"),
        (lambda: nz.plan([], budget=nz.zCDP(1)), "needs at least one query"),
        (lambda: nz.plan(["age"], budget=nz.zCDP(1)), "a workload is made of queries"),
        (lambda: RELEASE.table("aeg, sex"), "Did you mean 'age'"),
        (lambda: RELEASE.table("age", "age"), "named twice"),
    ],
)
def test_other_spellings_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(nz.NoiseplanError, match=message):
        call()


@pytest.mark.parametrize(
    "names", [("age", "sex"), (["age", "sex"],), ("age, sex",), ("age × sex",)]
)
def test_tables_are_named_in_any_way(names: Any) -> None:
    expected = RELEASE.answer(nz.Query(SCHEMA, ["age", "sex"]))
    found = RELEASE.table(*names, frame="pandas")
    assert list(found.columns[:2]) == ["age", "sex"]
    np.testing.assert_array_equal(found["estimate"], expected.estimate)
    turned = RELEASE.table("sex, age", frame="pandas")
    assert list(turned.columns[:2]) == ["sex", "age"]
    np.testing.assert_array_equal(turned["estimate"], expected.estimate.reshape(6, 2).T.ravel())
    valid = RELEASE.valid(tables=[["age", "sex"]])
    np.testing.assert_array_equal(valid.values(*names), valid.values("age", "sex"))
    assert list(valid.table(*names, frame="pandas").columns[:2]) == ["age", "sex"]


def test_tables_are_found_by_the_name_of_a_query() -> None:
    found = RELEASE.table("up to each age", frame="pandas")
    answer = RELEASE.answer("up to each age")
    np.testing.assert_array_equal(found["estimate"], answer.estimate)
    assert list(found["age"][:2]) == ["≤ 20", "≤ 20"]


def test_answers_come_with_errors() -> None:
    plain = dict(RELEASE.answers())
    assert len(plain) == len(WORKLOAD)
    for query, answer in RELEASE.answers(errors=True):
        alone = RELEASE.answer(query)
        np.testing.assert_allclose(answer.std_error, alone.std_error)
        np.testing.assert_allclose(answer.estimate, alone.estimate)


# --------------------------------------------------------------------------- pictures


@pytest.mark.parametrize(
    "plot",
    [
        PLAN.plot,
        lambda path: RELEASE.plot("age, sex", path=path),
        lambda path: nz.compare([PLAN]).plot(path),
        lambda path: RELEASE.valid().plot("age", path),
    ],
    ids=["plan", "release", "compare", "valid"],
)
def test_one_verb_draws_everything(plot: Callable[[Path | None], Any], tmp_path: Path) -> None:
    """Without a path a picture for a notebook; with one, a file."""
    assert plot(None)._repr_svg_().startswith("<svg")
    drawn = plot(tmp_path / "picture.svg")
    assert drawn == tmp_path / "picture.svg"
    assert drawn.read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(nz.NoiseplanError, match=r"\.svg or \.html"):
        plot(tmp_path / "picture.doc")


# --------------------------------------------------------------------------- examples

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_import_public_names_only(example: Path) -> None:
    """From the package, or from a room whose list of public names has them."""
    for node in ast.walk(ast.parse(example.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert all(not name.name.startswith("noiseplan.") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("noiseplan"):
            assert node.module is not None and node.module.count(".") <= 1
            public = import_module(node.module).__all__
            assert {name.name for name in node.names} <= set(public), node.module
