"""A folder checked as a whole: damage anywhere is found, and the cost is computed anew."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.queries.questions import read_question
from noiseplan.storage.folder_check import ComparedTables, check_folder, compare_tables

SCHEMA = nz.Schema({"age": nz.Ordinal(range(6)), "sex": nz.Categorical(["F", "M"])})
DATA = np.random.default_rng(0).integers(0, [6, 2], size=(200, 2))


def saved(folder: Path, seed: int | None = None, **arguments: object) -> Path:
    workload = nz.Workload.marginals(SCHEMA, up_to=2)
    plan = nz.plan(workload, **({"budget": nz.zCDP(0.5)} | arguments))  # type: ignore[arg-type]
    plan.release(DATA, seed=seed).save(folder / "out")
    return folder / "out"


def checked(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["show", str(folder), "--check", *more])


def test_a_whole_folder(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "report.html").write_text("later", encoding="utf-8")
    found = check_folder(folder)
    listed = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert found.files == len(listed)
    assert found.beside == ("report.html",)
    assert found.private
    assert found.cost is not None
    # 2ρ of one record is the largest diagonal entry of BᵀΣ⁻¹B, whatever the plan says of itself.
    largest = float(np.diagonal(found.release.plan.mechanism.cost_matrix()).max())
    assert found.cost.rho == pytest.approx(largest / 2, rel=1e-9)
    assert found.cost.rho <= 0.5
    result = checked(folder)
    assert result.exit_code == 0, result.output
    assert "as it was written, and private" in result.output
    assert "ρ = 0.5 (zCDP)" in result.output
    told = json.loads(checked(folder, "--json").stdout)
    assert (told["whole"], told["private"], told["files"]) == (True, True, len(listed))
    assert told["recomputed"]["rho"] == found.cost.rho


@pytest.mark.parametrize(
    "arguments",
    [
        {"budget": nz.PureDP(1.0)},
        {"neighbours": "replace"},
        {"noise": "discrete", "budget": nz.ApproxDP(1.0, 1e-6)},
    ],
)
def test_other_kinds_of_releases(tmp_path: Path, arguments: dict[str, object]) -> None:
    folder = saved(tmp_path, **arguments)
    found = check_folder(folder)
    assert found.cost is not None
    assert found.cost.law == found.release.plan.privacy.law
    assert found.cost.rho <= found.release.plan.privacy.rho * (1 + 1e-9)
    assert checked(folder).exit_code == 0


def test_people_with_several_records(tmp_path: Path) -> None:
    workload = nz.Workload.marginals(SCHEMA, k=1)
    data = {"age": DATA[:, 0], "sex": DATA[:, 1], "id": np.arange(200) // 4}
    plan = nz.plan(workload, budget=nz.zCDP(0.5), max_rows=3)
    labelled = data | {"sex": np.array(["F", "M"])[DATA[:, 1]]}
    plan.release(labelled, person="id").save(tmp_path / "out")
    found = check_folder(tmp_path / "out")
    record = float(np.diagonal(found.release.plan.mechanism.cost_matrix()).max()) / 2
    assert found.cost is not None
    assert found.cost.rho == pytest.approx(9 * record, rel=1e-9)


def test_a_data_aware_release(tmp_path: Path) -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(32))})
    workload = nz.Workload.marginals(schema, k=1)
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner="dawa")
    plan.release(DATA[:, :1]).save(tmp_path / "out")
    found = check_folder(tmp_path / "out")
    assert found.cost is not None
    assert found.cost.pure_epsilon == pytest.approx(1.0, rel=1e-9)


def test_tables_made_elsewhere(tmp_path: Path) -> None:
    given = nz.from_noisy_tables(SCHEMA, [nz.NoisyTable(["sex"], [9.0, 4.0], 4.0)])
    given.save(tmp_path / "out")
    assert check_folder(tmp_path / "out").cost is None
    assert "made elsewhere" in checked(tmp_path / "out").output


def test_what_is_not_private_says_so_and_fails(tmp_path: Path) -> None:
    result = checked(saved(tmp_path, seed=1))
    assert result.exit_code == 1
    assert "NOT PRIVATE" in result.output


def edited_table(folder: Path) -> str:
    name = next((folder / "tables").glob("*.csv"))
    name.write_text(name.read_text(encoding="utf-8").replace("1", "2"), encoding="utf-8")
    return name.name


def missing_table(folder: Path) -> str:
    name = next((folder / "tables").glob("*.parquet"))
    name.unlink()
    return name.name


def edited_text(folder: Path) -> str:
    path = folder / "certificate.txt"
    path.write_text(path.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    return path.name


def edited_measurements(folder: Path) -> str:
    path = folder / "measurements.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    return path.name


@pytest.mark.parametrize("damage", [edited_table, missing_table, edited_text, edited_measurements])
def test_damage_is_found_and_named(tmp_path: Path, damage: Callable[[Path], str]) -> None:
    folder = saved(tmp_path)
    name = damage(folder)
    result = checked(folder)
    assert result.exit_code == 4
    assert name in result.output


def rehashed(folder: Path, name: str) -> None:
    """State the hash that an edited file has now, as somebody who edits would."""
    digest = sha256((folder / name).read_bytes()).hexdigest()
    sums = folder / "SHA256SUMS"
    lines = sums.read_text(encoding="utf-8").splitlines()
    kept = [f"{digest}  {name}" if line.endswith(f"  {name}") else line for line in lines]
    sums.write_text("\n".join(kept) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rho", 0.1),
        ("unit", "everybody"),
        ("neighbours", "replace"),
        ("epsilon", [[1e-9, 0.1]]),
        ("pure_epsilon", 0.01),
        ("mu", 0.1),
        ("gdp", 0.1),
    ],
)
def test_a_certificate_that_promises_more_than_its_plan(
    tmp_path: Path, key: str, value: object
) -> None:
    folder = saved(tmp_path)
    path = folder / "certificate.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["privacy"][key] = value
    path.write_text(json.dumps(content), encoding="utf-8")
    rehashed(folder, "certificate.json")
    result = checked(folder)
    assert result.exit_code == 4
    assert f"states {key}" in result.output


def test_names_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    digest = sha256(b"x").hexdigest()
    with (folder / "SHA256SUMS").open("a", encoding="utf-8") as sums:
        sums.write(f"{digest}  ../secret\n")
    result = checked(folder)
    assert result.exit_code == 4
    assert "../secret" in result.output


def test_no_release(tmp_path: Path) -> None:
    assert checked(tmp_path).exit_code == 1


# ---------------------------------------------------------------------- tables


def edited(folder: Path, name: str, change: Callable[[list[list[str]]], None]) -> None:
    path = next((folder / "tables").glob(name))
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    change(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    rehashed(folder, f"tables/{path.name}")


def with_number(row: int, column: int, text: str) -> Callable[[list[list[str]]], None]:
    return lambda rows: rows[row].__setitem__(column, text)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_number(3, 2, "41.5"), "row 3 (1, F), has estimate 41.5, and the measurements give"),
        (with_number(12, 3, "0.01"), "row 12 (5, M), has std_error 0.01"),
        (with_number(1, 5, "many"), "row 1 (0, F), has upper many"),
        (with_number(2, 1, "F"), "row 2, is not of 0, M"),
        (with_number(0, 2, "truth"), "has other columns than age, sex, estimate"),
        (lambda rows: rows.pop(), "row 12, is not of 5, M"),
        (lambda rows: rows.append(rows[-1]), "row 13, is not of"),
    ],
)
def test_a_table_that_the_measurements_do_not_give(
    tmp_path: Path, change: Callable[[list[list[str]]], None], said: str
) -> None:
    folder = saved(tmp_path)
    assert check_folder(folder).tables.numbers == 4 * (1 + 6 + 2 + 12)
    edited(folder, "*-age-by-sex.csv", change)
    result = checked(folder)
    assert result.exit_code == 4
    assert "tables/4-age-by-sex.csv" in " ".join(result.output.split())
    assert said in " ".join(result.output.split())


def test_tables_of_all_kinds_are_compared(tmp_path: Path) -> None:
    """Levels are files of their own, and questions are in no workload."""
    schema = nz.Schema(
        {
            "geo": nz.Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]}),
            "t": nz.Ordinal(range(3)),
            "=x": nz.Categorical(["-1", "@b"]),
        }
    )
    asked = [
        nz.Query(schema, {"geo": nz.Level("county", "tract")}),
        nz.Query(schema, ["=x"]),
        nz.Query(schema, {"t": nz.Prefix()}),
        nz.Query(schema, ["t", "=x"], matrix=np.tri(2, 6), name="by hand"),
    ]
    plan = nz.plan(nz.Workload(asked), budget=nz.zCDP(0.5))
    release = plan.release({"geo": ["a1", "b1"], "t": [0, 2], "=x": ["-1", "@b"]})
    question = read_question("t=0..1 | 2", schema)
    unnamed = nz.Query(schema, {"t": nz.Custom([[1, 1, 0]])}, name="nobody's")
    release.save(tmp_path / "out", tables=[*asked, question, unnamed])
    found = check_folder(tmp_path / "out").tables
    assert found.numbers == 4 * (2 + 3 + 2 + 3 + 2 + 2)
    assert found.unknown == ("tables/7-nobody-s.csv",)
    assert "tables/7-nobody-s.csv" in checked(tmp_path / "out").output


KINDS = sorted(path.parent for path in (Path(__file__).parent / "kinds").rglob("SHA256SUMS"))


@pytest.mark.parametrize("folder", KINDS, ids=lambda folder: folder.name)
def test_tables_of_earlier_versions_are_compared(folder: Path) -> None:
    found = compare_tables(folder, nz.load(folder))
    assert found.unknown == ()
    assert bool(found.numbers) == (folder / "tables").is_dir()


def test_groups_of_a_level_under_the_name_of_the_attribute_as_earlier_files_have_them(
    tmp_path: Path,
) -> None:
    geo = nz.Hierarchical({"tract": ["121", "122", "131"], "county": ["12", "12", "13"]})
    schema = nz.Schema({"tract": geo})
    asked = nz.Workload.predicates(schema, ["county = '12'"]) + nz.Query(schema, ["tract"])
    release = nz.plan(asked, budget=nz.zCDP(0.5)).release({"tract": ["121", "131"]}, seed=1)
    release.save(tmp_path / "out")
    whole = ComparedTables(4 * (1 + 3), ())
    assert compare_tables(tmp_path / "out", release) == whole
    (path,) = (tmp_path / "out" / "tables").glob("1-*.csv")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("county,")
    path.write_text(text.replace("county,", "tract,", 1), encoding="utf-8")
    assert compare_tables(tmp_path / "out", release) == whole
    path.write_text(text.replace("county,", "state,", 1), encoding="utf-8")
    with pytest.raises(nz.NoiseplanError, match="has other columns than county"):
        compare_tables(tmp_path / "out", release)


def test_a_program_that_does_nothing_else_loads_every_kind() -> None:
    """Mechanisms are known by their names where nothing that plans them was imported."""
    program = "import sys, noiseplan as nz\nfor folder in sys.argv[1:]: nz.load(folder)"
    subprocess.run([sys.executable, "-c", program, *map(str, KINDS)], check=True)


def of_ages(tmp_path: Path, saved_too: list[nz.Query]) -> Path:
    """A release of two conditions of one name and of a table, with other tables saved beside."""
    schema = nz.Schema({"age": nz.Ordinal(range(5)), "sex": nz.Categorical(["F", "M"])})
    rows = ([[1, 1, 0, 0, 0]], [[0, 0, 1, 1, 0]])
    asked = [nz.Query(schema, {"age": nz.Custom(row)}) for row in rows]
    assert asked[0].name == asked[1].name
    asked.append(nz.Query(schema, ["age", "sex"]))
    release = nz.plan(nz.Workload(asked), budget=nz.zCDP(0.5)).release(
        {"age": [0, 1, 1, 4] * 50, "sex": ["F", "M"] * 100}
    )
    release.save(tmp_path / "out", tables=[*asked, *saved_too])
    return tmp_path / "out"


def test_queries_of_one_name_are_each_compared(tmp_path: Path) -> None:
    folder = of_ages(tmp_path, [])
    assert check_folder(folder).tables == ComparedTables(4 * (1 + 1 + 10), ())
    edited(folder, "2-custom-*.csv", with_number(1, 1, "41.5"))
    result = checked(folder)
    assert result.exit_code == 4
    assert "2-custom-1-row-age.csv" in result.output


@pytest.mark.parametrize("name", ["age", "sex × age", " age ", "age=prefix", "age × sex "])
def test_a_name_that_asks_for_something_else_is_not_compared(tmp_path: Path, name: str) -> None:
    """Nobody is accused of a change who saved a query of his own under such a name."""
    schema = nz.Schema({"age": nz.Ordinal(range(5)), "sex": nz.Categorical(["F", "M"])})
    folder = of_ages(tmp_path, [nz.Query(schema, {"age": nz.Prefix()}, name=name)])
    found = check_folder(folder).tables
    assert found.numbers == 4 * (1 + 1 + 10)
    assert [path.split("-")[0] for path in found.unknown] == ["tables/4"]


def listed(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    index = folder / "tables" / "index.csv"
    lines = index.read_text(encoding="utf-8").splitlines()
    index.write_text("\n".join(change(lines)) + "\n", encoding="utf-8")
    rehashed(folder, "tables/index.csv")


def test_a_table_that_left_the_index_is_said_not_to_be_compared(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    edited(folder, "*-age-by-sex.csv", with_number(3, 2, "41.5"))
    listed(folder, lambda lines: lines[:-1])
    assert check_folder(folder).tables == ComparedTables(
        4 * (1 + 6 + 2), ("tables/4-age-by-sex.csv",)
    )
    assert "tables/4-age-by-sex.csv" in checked(folder).output
    listed(folder, lambda lines: lines[:1])
    found = check_folder(folder).tables
    assert (found.numbers, len(found.unknown)) == (0, 4)


def test_an_index_leads_nowhere_else(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (tmp_path / "other.csv").write_text("x\n", encoding="utf-8")
    listed(folder, lambda lines: [*lines, "../../other,age,6"])
    result = checked(folder)
    assert result.exit_code == 4
    assert "no table of it" in " ".join(result.output.split())
