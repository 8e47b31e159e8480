"""Everything that was ever saved is read, and says what it said: one small example of each kind.

`make_saved.py` made the examples in `kinds` and what is expected of them; they are never made
again. A new kind joins by a line there, or `test_every_kind_has_an_example` fails.
"""

from __future__ import annotations

import csv
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_saved import LOCAL as ASKED
from make_saved import MAKERS, local_values
from saved_facts import (
    KINDS,
    Facts,
    aggregator_facts,
    arithmetic,
    compare,
    differences,
    ledger_facts,
    made_up_records,
    randomizer_facts,
    release_facts,
    same_folders,
)

import noiseplan as nz
from noiseplan.errors import StorageError

RELEASES = sorted(p.parent.name for p in KINDS.glob("*/release") if p.parent.name != "valid")
LOCAL = sorted(path.parent.name for path in KINDS.glob("*/device.randomizer"))


def expected(name: str) -> Facts:
    facts: Facts = json.loads((KINDS / name / "expected.json").read_text(encoding="utf-8"))
    return facts


def part_of(name: str, thing: str) -> Facts:
    """What is expected of one of several things in a folder."""
    told = expected(name)
    facts = {part: things[thing] for part, things in told["facts"].items() if thing in things}
    return told | {"facts": facts}


@pytest.mark.parametrize("name", RELEASES)
def test_a_saved_release_says_what_it_said(name: str) -> None:
    compare(release_facts(nz.load(KINDS / name / "release")), expected(name))


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_saved_again_is_the_same_folder(name: str, tmp_path: Path) -> None:
    folder = KINDS / name / "release"
    queries = None if (folder / "tables").is_dir() else []
    nz.load(folder).save(tmp_path / "again", tables=queries)
    same_folders(tmp_path / "again", folder)


@pytest.mark.parametrize("name", LOCAL)
def test_a_saved_randomizer_draws_what_it_drew(name: str, tmp_path: Path) -> None:
    path = KINDS / name / "device.randomizer"
    made = nz.local.load_randomizer(path)
    compare(randomizer_facts(made), part_of(name, "randomizer"))
    again = nz.local.load_randomizer(made.save(tmp_path / "again"))
    assert again.hash == made.hash
    if arithmetic() == expected(name)["arithmetic"]:  # compressed by the same library
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", LOCAL)
def test_a_saved_aggregator_answers_as_it_did(name: str, tmp_path: Path) -> None:
    path = KINDS / name / "server.aggregator"
    made = nz.local.load_aggregator(path)
    compare(aggregator_facts(made, list(ASKED[name][0])), part_of(name, "aggregator"))
    made.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", LOCAL)
def test_a_saved_memory_reports_what_it_reported(name: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    shutil.copy(KINDS / name / "memory.json", path)
    device = nz.local.load_randomizer(KINDS / name / "device.randomizer")
    memory = nz.local.Memory(device, path)
    values = local_values(device.schema)
    sent = [memory.report({n: v[i] for n, v in values.items()}).hex() for i in range(4)]
    found = {"sent": sent, "spent": memory.spent, "delta": memory.delta}
    compare({"told": found}, part_of(name, "memory"))
    assert path.read_bytes() == (KINDS / name / "memory.json").read_bytes()


def test_a_saved_ledger_tells_what_it_told(tmp_path: Path) -> None:
    path = tmp_path / "budget.ledger"
    shutil.copy(KINDS / "ledger" / "budget.ledger", path)
    ledger = nz.Ledger(path)
    compare(ledger_facts(ledger), expected("ledger"))
    # It can be carried on: the next row follows the last one that was written.
    before = ledger.head()
    ledger.spend("people", nz.zCDP(0.001), purpose="one more")
    assert ledger.verify(before).count == before.count + 1


def rounded_alike(found: list[Any], before: list[Any]) -> tuple[list[Any], list[Any]]:
    """Two tables without their whole numbers, which are rounded by least squares since: each of
    them within one of what it was, with the same total."""
    column = before[0].index("valid")
    now, then = ([row[column] for row in table[1:]] for table in (found, before))
    assert sum(now) == sum(then)
    assert all(abs(a - b) <= 1 and a == int(a) for a, b in zip(now, then, strict=True))
    kept = [[row[:column] + row[column + 1 :] for row in table] for table in (found, before)]
    return kept[0], kept[1]


@pytest.mark.parametrize(
    ("folder", "how"),
    [("valid", {}), ("valid-integers", {"integers": True, "total": None})],
    ids=["valid", "integers"],
)
def test_valid_tables_of_a_saved_release(folder: str, how: dict[str, Any], tmp_path: Path) -> None:
    release = nz.load(KINDS / "valid" / "release")
    saved = KINDS / "valid" / folder
    told = changes(saved)
    if "total" in how:
        how = how | {"total": told["total"]}
    tables = ["sex", ("age", "sex")] if how else None
    made = release.valid(**how)
    if how:
        assert str(made) == expected("valid")["facts"]["told"]["valid"]
    made.save(tmp_path / "again", tables=tables)
    for path in sorted(saved.glob("*.csv")):
        found, before = rows(tmp_path / "again" / path.name), rows(path)
        if how and "valid" in before[0]:
            found, before = rounded_alike(found, before)
        assert not differences(found, before, 1e-9)
    now = changes(tmp_path / "again")
    assert not differences(now, told, 1e-9, least=1.0)  # a part of a count is rounding
    with pytest.raises(StorageError, match="these are valid tables, which are files to publish"):
        nz.load(saved)


def changes(folder: Path) -> dict[str, Any]:
    """What was changed, but for how long that took."""
    told = json.loads((folder / "changes.json").read_text(encoding="utf-8"))
    return {name: value for name, value in told.items() if name != "seconds"}


def rows(path: Path) -> list[list[Any]]:
    """Every field of a table, numbers as numbers."""
    with path.open(encoding="utf-8") as file:
        return [[number(text) for text in line] for line in csv.reader(file)]


def number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.skipif(find_spec("mbi") is None, reason="the extra microdata is missing")
@pytest.mark.skipif(
    arithmetic() != expected("valid")["arithmetic"], reason="another machine draws other records"
)
def test_made_up_records_of_a_saved_release(tmp_path: Path) -> None:
    again = tmp_path / "people.csv"
    told = made_up_records(KINDS / "valid" / "release", again)
    assert told == expected("valid")["facts"]["told"]["microdata"]
    assert again.read_bytes() == (KINDS / "valid" / "people.csv").read_bytes()


def test_every_kind_has_an_example() -> None:
    """Every kind of mechanism, noise, randomizer and certificate that a file can name."""
    assert {path.name for path in KINDS.iterdir()} == set(MAKERS)
    mechanisms, noises, kinds = set(), set(), set()
    for name in RELEASES:
        saved = json.loads((KINDS / name / "release" / "plan.json").read_text(encoding="utf-8"))
        certificate = json.loads(
            (KINDS / name / "release" / "certificate.json").read_text(encoding="utf-8")
        )
        kinds.add(certificate["kind"])
        noises.add(saved["noise"])
        mechanism = saved.get("mechanism", saved)
        mechanisms |= {mechanism["kind"], mechanism.get("small", mechanism)["kind"]}
    assert mechanisms >= {"residual", "dense", "product", "tables", "reduced", "data-aware"}
    assert mechanisms >= {"workload rows", "side by side"}
    assert noises >= {"discrete", "gaussian", "laplace", "discrete Laplace", "given", "combined"}
    assert kinds == {"noiseplan release", "noiseplan data-aware release"}
    devices = {nz.local.load_randomizer(KINDS / name / "device.randomizer").kind for name in LOCAL}
    assert devices == {"table", "shifts", "subsets", "sums", "split"}


def test_a_moved_number_or_text_is_found() -> None:
    """The comparison itself can fail: on a last bit, a word, a number that is missing."""
    told = {"a": [1.0, 2.0], "b": "text", "c": {"d": None}}
    assert not differences(told, told, 0.0)
    assert differences(told | {"a": [1.0, np.nextafter(2.0, 3.0)]}, told, 0.0)
    assert not differences(told | {"a": [1.0, np.nextafter(2.0, 3.0)]}, told, 1e-12)
    assert differences(told | {"a": [1.0, 2.0 + 1e-11]}, told, 1e-12)
    assert differences(told | {"b": "texts"}, told, 1e-12)
    assert differences(told | {"c": {}}, told, 1e-12)
    assert differences(told | {"a": [1.0]}, told, 1e-12)
