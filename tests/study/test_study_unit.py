"""A unit that is no person: households, in the words of plan, certificate, page and ledger."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from scipy.stats import norm

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.counting import CountTensor, open_source
from noiseplan.errors import BudgetError, PlanError, StorageError
from noiseplan.ledger.events import Reserved, act_json, read_act
from noiseplan.privacy.conversions import zcdp_delta
from noiseplan.storage.plans import with_saved_unit
from noiseplan.study import StudyError, read_study

STUDY = """\
[schema]
age = { ordinal = { from = 0, to = 9 } }
[[tables]]
up_to = 1
[budget]
zcdp = 0.5
[people]
person = "home"
max_rows = 3
unit = "household"
[ledger]
file = "a.ledger"
dataset = "homes"
purpose = "a test"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    rows = "".join(f"{n // 4},{n % 10}\n" for n in range(100))
    (tmp_path / "homes.csv").write_text(f"home,age\n{rows}", encoding="utf-8")
    nz.Ledger(tmp_path / "a.ledger", create=True).open_dataset("homes", nz.zCDP(1.0))
    return tmp_path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_households_in_all_that_is_said(folder: Path) -> None:
    planned = run("plan", folder / "study.toml")
    assert "differ by all records of one household, at most 3" in planned
    assert "the privacy is that of a household" in planned and "person" not in planned
    run("release", folder / "study.toml", folder / "homes.csv", "-o", folder / "out")
    shown = run("show", folder / "out")
    assert "What is protected: one household, with at most 3 records." in shown
    assert "differ by all records of one household." in shown and "person" not in shown
    run("report", folder / "out", "-o", folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "whether one household is among the data" in page and "one person" not in page
    (entry,) = nz.Ledger(folder / "a.ledger").entries("homes")
    assert (entry.purpose, entry.unit, entry.max_rows) == ("a test", "household", 3)
    shown = run("ledger", "show", folder / "a.ledger")
    assert "neighbours add-remove, one household, at most 3 records" in shown
    assert "a test · one household, at most 3 records" in shown and "person" not in shown
    listed = json.loads(run("ledger", "show", folder / "a.ledger", "--json"))
    assert (listed["entries"][0]["unit"], listed["datasets"][0]["units"]) == (
        "household",
        ["household"],
    )
    exported = run("ledger", "export", folder / "a.ledger", "--format", "csv")
    assert "the unit is a household" in exported
    nz.Ledger(folder / "a.ledger").verify()
    assert "for one household, at most 3 records" in run("compare", folder / "study.toml")
    loaded = nz.load(folder / "out").plan
    assert loaded.unit == "household" and loaded.max_rows == 3


def test_a_household_of_which_one_record_counts_does_not_protect_its_members() -> None:
    """Why costs for households and for persons are not added: the other member takes the place.

    Of two people in two cells one is counted. Without the first the second is counted for sure, so
    that what is seen is N(e₂) instead of ½N(e₁) + ½N(e₂), told apart along e₁ − e₂, of length √2.
    """
    epsilon, rho = 6.0, 0.5  # σ = 1
    ratio = 2 * math.exp(epsilon) - 1  # where ½ + ½L = e^ε, L = N(e₁)/N(e₂)
    place = (math.log(ratio) - 1) / math.sqrt(2)  # ln L = √2 z + 1 under e₁, √2 z − 1 under e₂
    told = 0.5 * norm.sf(place) + (0.5 - math.exp(epsilon)) * norm.sf(place + math.sqrt(2))
    assert told > 100 * zcdp_delta(rho, epsilon)
    assert told < zcdp_delta(4 * rho, epsilon)  # out and in again: two households, ρ by four


def test_different_units_on_one_dataset_are_refused(folder: Path) -> None:
    study, homes = folder / "study.toml", folder / "homes.csv"
    run("release", study, homes, "-o", folder / "out")
    study.write_text(STUDY.replace('unit = "household"\n', "").replace("0.5", "0.4"))
    told = "was charged for a household, and this release is for a person"
    for command in (("check", study, homes), ("release", study, homes, "-o", folder / "two")):
        result = CliRunner().invoke(main, [str(each) for each in command])
        assert result.exit_code == 1 and told in result.output
    with pytest.raises(BudgetError, match=told):
        read = read_study(study)
        read.plan().release(
            homes, person="home", ledger=folder / "a.ledger", dataset="homes", purpose="beside"
        )
    ledger = nz.Ledger(folder / "a.ledger")
    late = Reserved(
        "homes", nz.Guarantee(0.1, "zcdp"), "", "", max_rows=3, tables=(("age", "age"),)
    )
    with pytest.raises(BudgetError, match=told), ledger.charging(late):
        raise AssertionError("another program was first")
    assert len(ledger.entries("homes")) == 1 and not ledger.checks() and not ledger.refusals()


def test_the_words_of_a_purpose_do_not_make_a_person_a_household(folder: Path) -> None:
    study, homes = folder / "study.toml", folder / "homes.csv"
    told = 'purpose = "all of it (the unit is a household)"\n'
    persons = STUDY.replace('unit = "household"\n', "").replace('purpose = "a test"\n', told)
    assert told in persons
    study.write_text(persons)
    run("release", study, homes, "-o", folder / "out")
    ledger = nz.Ledger(folder / "a.ledger")
    assert ledger.balance("homes").units == ("person",)
    study.write_text(STUDY)
    result = CliRunner().invoke(main, ["release", str(study), str(homes), "-o", str(folder / "b")])
    assert result.exit_code == 1
    assert "was charged for a person, and this release is for a household" in result.output


@pytest.mark.parametrize("unit", ["household", "person"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_who_has_several_records_of_which_one_counts_is_no_record(
    folder: Path, neighbours: str, unit: str
) -> None:
    """One record more may take the place of another: no page may promise anything to a record."""
    study, homes, out = folder / "study.toml", folder / "homes.csv", folder / "out"
    one = STUDY.replace("max_rows = 3", "max_rows = 1").split("[ledger]")[0]
    one = one.replace('unit = "household"', "" if unit == "person" else 'unit = "household"')
    study.write_text(f'{one}[plan]\nneighbours = "{neighbours}"\n')
    says = "all records of" if neighbours == "add-remove" else "other values in the records of"
    assert f"{says} one {unit}, of which one counts" in run("plan", study)
    planned = json.loads(run("plan", study, "--json"))
    assert planned["privacy"]["unit"] == f"one {unit}, of whom one record is counted"
    run("plan", study, "--report", folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert f"{says} one {unit}, of which one counts" in page
    assert f"one {unit}, of whom one record is counted" in page and "one record," not in page
    with pytest.raises(PlanError, match="with up to 1 record: say whose record each is"):
        read_study(study).plan().release(homes)
    run("release", study, homes, "-o", out)
    checked = json.loads(run("show", out, "--check", "--json"))
    certified = json.loads((out / "certificate.json").read_text(encoding="utf-8"))
    assert checked["recomputed"]["unit"] == certified["privacy"]["unit"]
    assert certified["privacy"]["unit"] == f"one {unit}, of whom one record is counted"


def test_a_household_is_promised_nothing_where_nobody_says_whose_records_they_are(
    folder: Path,
) -> None:
    """All records of it would count, and the ledger would say that one did."""
    schema = nz.Schema.from_sizes({"age": 10})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.1)).with_unit("household")
    on_record = {"ledger": folder / "a.ledger", "dataset": "homes"}
    homes = {"age": [7] * 50, "home": [1] * 50}
    told = "for each household with up to 1 record: say whose record each is"
    with pytest.raises(PlanError, match=r"counts of no more are given as CountTensor\("):
        plan.release([9] * 10, **on_record)
    for data in (homes, open_source(homes, schema)):
        with pytest.raises(PlanError, match=told):
            plan.release(data, **on_record)
        assert told in str(plan.check(data, **on_record))
    ledger = nz.Ledger(folder / "a.ledger")
    assert not ledger.entries() and not ledger.checks()
    plan.release(open_source(homes, schema, person="home"), **on_record)
    plan.release(homes, person="home", **on_record)
    assert [entry.unit for entry in ledger.entries()] == ["household"] * 2


def test_what_is_made_of_plans_for_households_is_for_households(folder: Path) -> None:
    schema = nz.Schema.from_sizes({"age": 10, "sex": 2})
    tables = [nz.Workload.marginals(schema, k=k) for k in (1, 2)]
    persons = [nz.plan(asked, budget=nz.zCDP(0.1)) for asked in tables]
    one, two = (plan.with_unit("household") for plan in persons)
    homes = open_source({"age": [7] * 50, "sex": [0, 1] * 25, "home": [1, 2] * 25}, schema,
                        person="home")  # fmt: skip
    on_record = {"ledger": folder / "a.ledger", "dataset": "homes"}
    look = nz.adaptive([one, two]).look(homes, **on_record)
    assert look.plan.unit == look.choose(two).plan.unit == "household"
    for mine in (one, persons[0].with_unit("person")):
        with pytest.raises(PlanError, match="say whose record each is"):
            nz.adaptive([mine, replace(mine)]).look({"age": [7, 7], "sex": [0, 1]})
    more = two.given(one.release(homes, **on_record)).release(homes, **on_record)
    more.save(folder / "more")
    assert more.plan.noise == "combined"
    assert "What is protected: one household, of whom" in (
        folder / "more" / "certificate.txt"
    ).read_text(encoding="utf-8")
    ledger = nz.Ledger(folder / "a.ledger")
    assert {entry.unit for entry in ledger.entries()} == {"household"}
    told = "the plans are for a household and for a person"
    for mixed in (lambda: nz.adaptive([one, persons[1]]), lambda: persons[1].given(more)):
        with pytest.raises(PlanError, match=told):
            mixed()


OF_ONE = "Neighbouring data sets differ by all records of one "


def test_the_privacy_of_a_plan_says_whose_records_they_are(folder: Path) -> None:
    schema = nz.Schema.from_sizes({"age": 10, "sex": 2})
    one, two = (nz.Workload.marginals(schema, k=k) for k in (1, 2))
    budget = nz.zCDP(0.1)
    for records in (1, 3):
        several = {"max_rows": records}
        plan, other = (nz.plan(w, budget=budget, **several) for w in (one, two))
        assert (OF_ONE in plan.privacy.describe()) == (records > 1)
        assert plan.privacy == nz.Guarantee(plan.privacy.pcost, "zcdp")  # the price is a number
        for unit in ("person", "household"):
            mine, wider = plan.with_unit(unit), other.with_unit(unit)
            both = nz.adaptive([mine, wider]).privacy
            added = mine.privacy.compose(wider.privacy)
            for privacy in (mine.privacy, both, added):
                assert privacy.describe().endswith(OF_ONE + unit + ".")
        with pytest.raises(BudgetError, match="for each household and one for each record"):
            mine.privacy.compose(nz.plan(one, budget=budget).privacy)
    pure = nz.plan(one, budget=nz.PureDP(1.0), neighbours="replace", max_rows=2).privacy
    told = "by what the records of one person say, not by how many there are."
    for privacy in (pure, pure.compose(pure)):
        assert privacy.describe().endswith(told)


@pytest.mark.parametrize("planner", ["auto", "dawa"])
def test_a_loaded_plan_says_whose_records_they_are(folder: Path, planner: str) -> None:
    """One record of each person counts: it was said to be for records again."""
    schema = nz.Schema.from_sizes({"age": 10})
    asked = nz.Workload([nz.Query(schema, {"age": nz.Prefix()})])
    plan = nz.plan(asked, budget=nz.zCDP(0.5), planner=planner)
    assert plan.hash() != plan.with_unit("person").hash()
    homes = {"age": [7] * 50, "home": [1, 2] * 25}
    for unit in ("person", "household"):
        made = plan.with_unit(unit).release(homes, person="home")
        made.save(folder / unit)
        loaded = nz.load(folder / unit).plan
        assert loaded.owned and not loaded.of_records and loaded.unit == unit
        assert loaded.privacy.describe() == made.plan.privacy.describe()
        assert f"all records of one {unit}, of which one counts" in str(loaded)
    plan.release(homes, person="home").save(folder / "records")
    loaded = nz.load(folder / "records").plan
    assert loaded.of_records and loaded.hash() == plan.hash()


@pytest.mark.parametrize(("rows", "some"), [(1, "one record was"), (3, "at most 3 records were")])
def test_publications_say_that_further_records_are_left_out(
    folder: Path, rows: int, some: str
) -> None:
    """And never how many they were, which is told by no noise."""
    schema = nz.Schema.from_sizes({"age": 10})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.1), max_rows=rows)
    texts = []
    for name, records in (("few", 2), ("many", 90)):
        homes = {"age": [7] * records, "home": [1] * records}
        made = plan.with_unit("household").release(homes, person="home")
        made.save(folder / name)
        how_many = "one record" if rows == 1 else f"at most {rows} records"
        for each in (made, nz.load(folder / name)):
            assert (
                f"\n  counted  of each household {how_many}, drawn at random; any others are left "
                f"out, which no error or interval covers\n" in str(each)
            )
        run("report", folder / name, "-o", folder / f"{name}.html")
        certified = (folder / name / "certificate.txt").read_text(encoding="utf-8")
        texts.append([line for line in certified.splitlines() if "record" in line])
        told = f"Of each household {some} counted, drawn at random; any others are left out."
        page = (folder / f"{name}.html").read_text(encoding="utf-8")
        assert told in certified and page.count(told) == 2  # beside the promise, and in it
        assert "intervals do not cover it" in certified and "do not cover it." in page
    assert texts[0] == texts[1]
    counts = plan.release(CountTensor(schema, [9] * 10))
    assert "left out" not in str(counts)
    counts.save(folder / "counts")
    assert "left out" not in (folder / "counts" / "certificate.txt").read_text(encoding="utf-8")


def test_counts_of_a_plan_for_households_are_certified_for_them(folder: Path) -> None:
    schema = nz.Schema.from_sizes({"age": 10})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.1)).with_unit("household")
    plan.release(CountTensor(schema, [9] * 10)).save(folder / "out")
    certified = json.loads((folder / "out" / "certificate.json").read_text(encoding="utf-8"))
    checked = json.loads(run("show", folder / "out", "--check", "--json"))
    told = "one household, of whom one record is counted"
    assert checked["recomputed"]["unit"] == certified["privacy"]["unit"] == told


def test_records_and_persons_of_one_record_are_not_joined() -> None:
    schema = nz.Schema.from_sizes({"age": 10, "sex": 2})
    one, two = (nz.plan(nz.Workload.marginals(schema, k=k), budget=nz.zCDP(0.1)) for k in (1, 2))
    counts = CountTensor(schema, [[9] * 2] * 10)
    told = "one plan is for single records, and the other counts one record of each person"
    mine = two.with_unit("person")
    for mixed in (
        lambda: nz.adaptive([one, mine]),
        lambda: mine.given(one.release(counts)),
        lambda: two.given(one.with_unit("person").release(counts)),
    ):
        with pytest.raises(PlanError, match=told):
            mixed()
    # Whose records were counted is known of what was released with `person=`, whatever was planned.
    records = {"age": [7] * 50, "sex": [0, 1] * 25, "who": list(range(50))}
    for plan in (two, mine):
        first = one.release(records, person="who")
        assert plan.given(first).release(records, person="who").plan.of_records == plan.of_records


def test_forgetting_whose_records_they_are_is_refused_where_the_ledger_knows(folder: Path) -> None:
    """All records of a person would count, at the price of one."""
    schema = nz.Schema.from_sizes({"age": 10})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.01))
    on_record = {"ledger": folder / "a.ledger", "dataset": "homes"}
    records = {"age": [7] * 50, "who": [1] * 50}
    plan.release(records, person="who", **on_record)
    ledger = nz.Ledger(folder / "a.ledger")
    assert [entry.owned for entry in ledger.entries()] == [True]
    assert {entry.unit for entry in ledger.entries()} == {"person"}
    before = ledger.head()
    told = (
        r"charged for a person of whom one record counts \(entry \d.* release\(data, person='id'\)"
    )
    for data in (records, open_source(records, schema), [9] * 10):
        with pytest.raises(PlanError, match=told):
            plan.release(data, **on_record)
        assert not plan.check(data, **on_record).ok
    assert ledger.head() == before
    for data in (open_source(records, schema, person="who"), CountTensor(schema, [9] * 10)):
        plan.release(data, **on_record)
    (folder / "study.toml").write_text(
        STUDY.partition("[people]")[0] + STUDY[STUDY.index("[ledger]") :]
    )
    result = CliRunner().invoke(
        main, ["release", str(folder / "study.toml"), str(folder / "homes.csv"), "-o", "out"]
    )
    assert result.exit_code == 1 and '[people] person = "id" in the study' in result.output


def test_one_record_of_each_is_refused_where_records_of_nobody_were_counted(folder: Path) -> None:
    """All records of a person had counted at the price of one: the sum would be no person's."""
    schema = nz.Schema.from_sizes({"age": 10})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.01))
    ledger = nz.Ledger(folder / "a.ledger")
    on_record = {"ledger": ledger, "dataset": "homes"}
    records = {"age": [7] * 6, "who": [1, 1, 1, 2, 2, 3]}
    plan.release(CountTensor(schema, [9] * 10), **on_record)  # whose these are, its maker knows
    plan.release(records, **on_record)
    assert [entry.of_nobody for entry in ledger.entries()] == [False, True]
    before = ledger.head()
    told = r"without saying whose they are \(entry \d.*change_budget\('homes', .*max_rows=…"
    opened = open_source(records, schema, person="who")
    for of_persons, data, how in (
        (plan, records, {"person": "who"}),
        (plan, opened, {}),
        (plan.with_unit("person"), CountTensor(schema, [9] * 10), {}),
    ):
        with pytest.raises(PlanError, match=told):
            of_persons.release(data, **how, **on_record)
        assert not of_persons.check(data, **how, **on_record).ok
    assert ledger.head() == before
    for data in (records, CountTensor(schema, [9] * 10)):
        plan.release(data, **on_record)
    spent = ledger.balance("homes").spent.rho
    ledger.change_budget("homes", nz.zCDP(1.0), reason="three at most", max_rows=3)
    assert ledger.balance("homes").spent.rho == pytest.approx(9 * spent)
    plan.release(records, person="who", **on_record)
    ledger.verify()


def test_records_of_nobody_are_admitted_at_the_price_of_all_that_one_person_has(
    folder: Path,
) -> None:
    schema = nz.Schema.from_sizes({"age": 10})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.01))
    ledger = nz.Ledger(folder / "a.ledger")
    ledger.open_dataset("bounded", nz.zCDP(1.0))
    on_record = {"ledger": ledger, "dataset": "bounded"}
    records = {"age": [7] * 6, "who": [1, 1, 1, 2, 2, 3]}
    plan.release(records, person="who", **on_record)
    with pytest.raises(PlanError, match="whose these records are"):
        plan.release(records, **on_record)
    ledger.change_budget("bounded", nz.zCDP(1.0), reason="three at most", max_rows=3)
    before = ledger.balance("bounded").spent.rho
    plan.release(records, **on_record)
    assert ledger.balance("bounded").spent.rho - before == pytest.approx(9 * plan.privacy.rho)


def test_advice_on_another_number_of_records_can_be_followed(folder: Path) -> None:
    """A study without persons was told to add `max_rows` alone, which is no study."""
    study, homes = folder / "study.toml", folder / "homes.csv"
    persons = STUDY.replace('unit = "household"\n', "").replace("zcdp = 0.5", "zcdp = 0.01")
    nobody = persons.partition("[people]")[0] + persons[persons.index("[ledger]") :]
    advice = {
        (persons, nobody): 'Write [people] person = "id" and max_rows = 3 in the study',
        (nobody, persons): "Leave [people] out of the study",
        (persons.replace("= 3", "= 1"), persons): "Write [people] max_rows = 1 in the study",
    }
    ledger = nz.Ledger(folder / "a.ledger")
    for number, ((first, second), told) in enumerate(advice.items()):
        dataset, name = f'dataset = "{number} homes"', f"{number} homes"
        ledger.open_dataset(name, nz.zCDP(1.0))
        for step, text in enumerate((first, second, first)):  # refused, then as it was advised
            study.write_text(text.replace('dataset = "homes"', dataset), encoding="utf-8")
            out = folder / f"{number}-{step}"
            asked = ["release", str(study), str(homes), "-o", str(out), "--again"]
            result = CliRunner().invoke(main, asked)
            assert (result.exit_code, told in result.output) == (int(step == 1), step == 1)
        assert len(ledger.entries(name)) == 2


def test_records_by_hand_and_of_earlier_programs_close_nothing(folder: Path) -> None:
    schema = nz.Schema.from_sizes({"age": 10})
    ledger = nz.Ledger(folder / "a.ledger")
    ledger.spend("homes", nz.Guarantee(0.01, "zcdp"))
    act = Reserved("homes", nz.Guarantee(0.01, "zcdp"), "", "a plan", tables=(("age", "age"),))
    ledger._history.add(lambda _: act)
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.01))
    plan.release({"age": [7] * 50}, ledger=ledger, dataset="homes")
    assert not any(entry.owned for entry in ledger.entries())
    ledger.open_dataset("early", nz.zCDP(1.0))
    act = replace(act, dataset="early")  # which says nothing of whose records it counted
    ledger._history.add(lambda _: act)
    plan.release({"age": [7] * 2, "who": [1, 2]}, person="who", ledger=ledger, dataset="early")


@pytest.mark.parametrize("rows", [1, 3])
def test_check_and_release_agree_where_nothing_new_is_measured(folder: Path, rows: int) -> None:
    """A folder does not know which records were counted, and none are counted again."""
    study, homes = folder / "study.toml", folder / "homes.csv"
    study.write_text(STUDY.replace("max_rows = 3", f"max_rows = {rows}"), encoding="utf-8")
    run("release", study, homes, "-o", folder / "out")
    given = (study, homes, "-o", folder / "again", "--given", folder / "out")
    assert "cost  nothing: the earlier release tells all of it" in run("check", *given)
    assert "new      nothing: all of it was spent" in run("release", *given)
    wider = STUDY.replace("zcdp = 0.5", "zcdp = 0.7").replace("max_rows = 3", f"max_rows = {rows}")
    study.write_text(wider, encoding="utf-8")
    for command in ("check", "release"):
        arguments = [command, *map(str, given[:3]), str(folder / "more"), *map(str, given[4:])]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 1 and "which does not keep which" in result.output


def test_refusals_speak_of_the_unit(folder: Path) -> None:
    schema = nz.Schema.from_sizes({"age": 10})
    asked = nz.Query(schema, ["age"])
    homes = {"age": [7] * 50, "home": [1] * 50}
    on_record = {"ledger": folder / "a.ledger", "dataset": "homes"}
    three, two = (
        nz.plan(asked, budget=nz.zCDP(0.1), max_rows=rows).with_unit("household") for rows in (3, 2)
    )
    aware = nz.plan(asked, budget=nz.zCDP(0.1), max_rows=2, planner="dawa").with_unit("household")
    three.release(homes, person="home", **on_record)
    for call in (
        lambda: two.release(homes, person="home", **on_record),
        lambda: nz.adaptive([two, three]),
        lambda: two.release(open_source(homes, schema, person="home", cap=3)),
        lambda: nz.compare({"dawa": aware}, homes),
        two.profile,
    ):
        with pytest.raises((PlanError, BudgetError)) as caught:
            call()
        assert not re.search(r"\bpersons?\b(?!=)|\bpeople\b", str(caught.value)), caught.value
    told = str(
        nz.plan(asked, budget=nz.zCDP(0.1))
        .with_unit("household")
        .check(CountTensor(schema, [9] * 10))
    )
    assert "for one household" in told and "person's only one" not in told


def test_pure_epsilon_is_told_with_what_it_is_charged_as(folder: Path) -> None:
    study = folder / "study.toml"
    study.write_text(STUDY.replace("zcdp = 0.5", "pure_dp = 0.5"), encoding="utf-8")
    told = run("check", study, folder / "homes.csv", "-o", folder / "out")
    assert "pure ε = 0.5, which implies ρ = 0.125, for one household" in told
    # √(2 · 1) and √(2 · 0.875), rounded down
    assert "now    left ε = 1.41421 (pure DP)" in told
    assert "after  left ε = 1.32287 (pure DP)" in told
    for _ in range(2):
        run("release", study, folder / "homes.csv", "-o", folder / f"out{_}", "--again")
    study.write_text(STUDY.replace("zcdp = 0.5", "pure_dp = 2.0"), encoding="utf-8")
    arguments = ["release", str(study), str(folder / "homes.csv"), "-o", str(folder / "more")]
    refused = CliRunner().invoke(main, arguments).output
    # Two releases of ε = 0.5 have ρ = 0.125 each.
    assert "spent ρ = 0.25" in refused


def test_one_noisy_number_is_one(folder: Path) -> None:
    schema = nz.Schema.from_sizes({"age": 2})
    for how in (
        {"budget": nz.zCDP(0.1)},
        {"budget": nz.PureDP(0.1)},
        {"budget": nz.zCDP(0.1), "planner": "workload"},
    ):
        plan = nz.plan(nz.Query(schema, []), **how)
        release = plan.release({"age": [0, 1, 1]})
        for text in (str(plan), str(release), repr(release.measurements)):
            assert "1 noisy number" in text and "1 noisy numbers" not in text


def test_a_charge_by_hand_names_no_unit(folder: Path) -> None:
    """It neither opens a dataset of households to persons, nor closes one to households."""
    study, homes = folder / "study.toml", folder / "homes.csv"
    ledger = nz.Ledger(folder / "a.ledger")
    ledger.spend("homes", nz.Guarantee(0.01, "zcdp"), max_rows=3)
    run("release", study, homes, "-o", folder / "out")
    ledger.spend("homes", nz.Guarantee(0.01, "zcdp"), max_rows=3)
    assert ledger.balance("homes").units == ("household",)
    ledger.change_budget("homes", nz.zCDP(9.0), reason="more", max_rows=3)
    assert ledger.balance("homes").units == ("household",)
    study.write_text(STUDY.replace('unit = "household"\n', ""))
    result = CliRunner().invoke(main, ["release", str(study), str(homes), "-o", str(folder / "b")])
    assert result.exit_code == 1
    assert "was charged for a household, and this release is for a person" in result.output


def test_different_units_of_an_early_ledger_are_told(folder: Path) -> None:
    """They were added up once; both go on, and the balance says what the sum is worth."""
    study, ledger = folder / "study.toml", nz.Ledger(folder / "a.ledger")
    for unit in ("household", None):
        act = Reserved("homes", nz.Guarantee(0.1, "zcdp"), "", "a plan", max_rows=3, unit=unit)
        ledger._history.add(lambda _, act=act: act)
    told = "earlier releases were priced for a person, and this one is for a household"
    assert told in run("check", study, folder / "homes.csv", "-o", folder / "two")
    result = CliRunner().invoke(
        main, ["release", str(study), str(folder / "homes.csv"), "-o", str(folder / "two")]
    )
    assert result.exit_code == 0 and told in result.stderr
    shown = run("ledger", "show", folder / "a.ledger")
    assert "one household or person, at most 3 records" in shown
    assert "units  a household and a person: to the smaller of them" in shown


def test_ledgers_that_said_the_unit_in_the_purpose_are_read(folder: Path) -> None:
    ledger = nz.Ledger(folder / "a.ledger")
    act = Reserved(
        "homes", nz.Guarantee(0.1, "zcdp"), "tables (the unit is a household)", "", max_rows=3
    )
    ledger._history.add(lambda _: act)
    assert ledger.entries("homes")[0].unit == "household"
    assert ledger.balance("homes").units == ("household",)
    assert act_json(act).keys() >= {"max_rows"} and "unit" not in act_json(act)


@pytest.mark.parametrize(
    "change",
    [{"unit": 3}, {"unit": "<b>"}, {"tables": "a"}, {"tables": [[]]}, {"tables": [["a", 1]]}],
)
def test_units_and_tables_that_are_none_are_refused_in_a_ledger(change: dict[str, object]) -> None:
    act = Reserved("homes", nz.Guarantee(0.1, "zcdp"), "", "", 3, None, "household", (("a", "b"),))
    content = json.loads(json.dumps(act_json(act)))
    assert read_act(content) == act
    with pytest.raises((ValueError, BudgetError)):
        read_act({**content, **change})


def test_persons_are_saved_as_they_were(folder: Path) -> None:
    text = STUDY.replace('unit = "household"\n', "")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    plan = read_study(folder / "study.toml").plan()
    assert plan.unit == "person"
    assert plan.hash() == plan.with_unit("person").hash() != plan.with_unit("home").hash()


@pytest.mark.parametrize("unit", ["", "7 homes", "a\nb", "<b>", 'x"', "x" * 41])
def test_what_is_no_unit(folder: Path, unit: str) -> None:
    plan = nz.plan(nz.Workload.marginals(nz.Schema.from_sizes({"a": 2}), k=1), budget=nz.zCDP(1))
    with pytest.raises(BudgetError, match="a unit is a word or two"):
        plan.with_unit(unit)
    with pytest.raises(StorageError, match="a unit is a word or two"):
        with_saved_unit(plan, unit)
    text = STUDY.replace('"household"', "'" + unit.replace("\n", " 1 ") + "'")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=r"study.toml:10: people.unit"):
        read_study(folder / "study.toml")
