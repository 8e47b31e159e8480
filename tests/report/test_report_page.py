"""The page: well formed, complete, safe, and right in its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.draw.html import element
from noiseplan.draw.svg import Scale, interval_bar, ticks
from noiseplan.report import drawn_tables, released_tables, report_page
from noiseplan.report.budgets import scaled_guarantee
from noiseplan.report.drawn_tables import Errors
from noiseplan.report.offline_page import file_links
from noiseplan.report.table_cells import Digits, relative
from noiseplan.storage.certificate import certificate
from page_parsing import parsed, rows_of

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(12)),
        "sex": nz.Categorical(["F", "M"]),
        '<b>odd</b> & "name"': nz.Categorical(["<script>alert(1)</script>", "b"]),
    }
)
DATA = np.random.default_rng(0).integers(0, [12, 2, 2], size=(300, 3))


def released(workload: nz.Workload | None = None, **arguments: object) -> nz.Release:
    chosen = workload or nz.Workload.marginals(SCHEMA, up_to=2)
    plan = nz.plan(chosen, budget=nz.zCDP(0.5), **({"noise": "discrete"} | arguments))  # type: ignore[arg-type]
    return plan.release(DATA)


def page_of(release: nz.Release, **arguments: object) -> str:
    return report_page(release, certificate(release, release.plan.hash()), **arguments)  # type: ignore[arg-type]


def test_the_page_is_well_formed_and_complete() -> None:
    release = released()
    checker = parsed(page_of(release, title="Persons & places"))
    words = " ".join(checker.words)
    ids = [attributes["id"] for _, attributes in checker.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"the-tables", "how-precise-the-tables-are", "certificate"} <= set(ids)
    assert {"what-another-budget-would-buy", "the-promise-in-every-currency"} <= set(ids)
    assert "Persons & places" in words
    assert "ρ = 0.5" in words
    assert "CERTIFICATE OF A DIFFERENTIALLY PRIVATE RELEASE" in words
    names = [a["data-name"] for tag, a in checker.seen if "data-name" in a]
    assert names == [query.name for query in release.plan.workload]
    ids_of_sections = [a["id"] for tag, a in checker.seen if tag == "section"]
    assert ids_of_sections[0] == "the-tables"  # what people come for, behind the promise
    assert words.index("at most") < words.index("The tables")


def test_nothing_of_the_data_can_become_markup() -> None:
    page = page_of(released(), title="<img src=x onerror=alert(1)>")
    tags = {tag for tag, _ in parsed(page).seen}
    assert not tags & {"b", "img", "iframe", "link", "object"}
    assert [tag for tag, _ in parsed(page).seen].count("script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_nothing_is_loaded_from_anywhere() -> None:
    page = page_of(released(), files={"age": "../out/tables/2-age"})
    for tag, attributes in parsed(page).seen:
        if tag == "a" and "type" in attributes:  # to be followed, and not loaded
            assert attributes["href"] in ("../out/tables/2-age.csv", "../out/tables/2-age.parquet")
            continue
        assert not {"src", "srcset", "style", "onclick", "xlink:href"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "default-src 'none'" in page
    assert "url(" not in page
    assert "@import" not in page


def test_accessible() -> None:
    checker = parsed(page_of(released()))
    for tag, attributes in checker.seen:
        if tag == "svg":
            hidden = attributes.get("aria-hidden") == "true"
            assert hidden or (attributes["role"] == "img" and attributes["aria-label"])
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
        if tag == "a" and attributes["href"] != "#main":
            assert f'id="{attributes["href"][1:]}"' in page_of(released())  # type: ignore[index]
    tags = [tag for tag, _ in checker.seen]
    assert tags.count("table") == tags.count("caption")
    assert tags.count("h1") == 1
    assert tags.count("main") == 1


def shown_numbers(cells: list[str]) -> list[float]:
    return [float(cell.replace(",", "").replace("−", "-")) for cell in cells]


def test_every_number_of_a_list_is_on_the_page() -> None:
    release = released()
    page = page_of(release)
    answer = release.answer(nz.Query(SCHEMA, ["age"]))
    rows = rows_of(page, "age: estimate")
    assert [int(row[0]) for row in rows] == list(range(12))
    half = answer.upper - answer.estimate
    place = 10.0 ** (np.floor(np.log10(half.min())) - 1)  # of its second digit
    np.testing.assert_allclose(shown_numbers([r[1] for r in rows]), answer.estimate, atol=place)
    block = page[page.index('data-name="age"') :].partition("</details>")[0]
    bars = re.findall(r'<rect class="ci" x="([\d.]+)" width="([\d.]+)"', block)
    span = max(0, answer.upper.max()) - min(0, answer.lower.min())
    widths = 100 * (answer.upper - answer.lower) / span
    np.testing.assert_allclose([float(width) for _, width in bars], widths, atol=0.02)


def test_every_number_of_a_cross_table_is_in_its_place() -> None:
    release = released()
    answer = release.answer(nz.Query(SCHEMA, ["age", "sex"]))
    (table,) = [t for t in parsed(page_of(release)).tables if t[0].startswith("age × sex: ")]
    head, *rows = table[1]
    assert head[:3] == ["age ↓  sex →", "F", "M"]
    assert [row[0] for row in rows] == [str(age) for age in range(12)]
    found = np.array([shown_numbers([cell.split()[0] for cell in row[1:3]]) for row in rows])
    place = 10.0 ** (np.floor(np.log10((answer.upper - answer.estimate).min())) - 1)
    np.testing.assert_allclose(found, answer.estimate.reshape(12, 2), atol=place)


def test_three_attributes_by_a_choice_of_the_third() -> None:
    release = released(nz.Workload.marginals(SCHEMA, k=3))
    page = page_of(release)
    checker = parsed(page)
    slices = [a for tag, a in checker.seen if tag == "details" and a.get("class") == "slice"]
    assert ["open" in each for each in slices] == [True, False]
    cube = release.answer(nz.Query(SCHEMA, SCHEMA.names)).estimate.reshape(12, 2, 2)
    odd = '<b>odd</b> & "name"'
    for i, value in enumerate(["<script>alert(1)</script>", "b"]):
        start = f"age × sex × {odd}, {odd}: {value}: estimate"
        (table,) = [t for t in checker.tables if t[0].startswith(start)]
        found = [shown_numbers([c.split()[0] for c in row[1:3]]) for row in table[1][1:]]
        np.testing.assert_allclose(found, cube[:, :, i], atol=0.06)


def test_single_numbers_stand_in_one_table() -> None:
    queries = [nz.Query(SCHEMA, {"age": f"{i}..{i + 1}", "sex": "F"}, name=f"no {i}")
               for i in range(4)]  # fmt: skip
    release = released(nz.Workload(queries))
    rows = rows_of(page_of(release), "Single numbers")
    assert [row[0].partition(",")[0] for row in rows] == [query.name for query in queries]
    answers = [float(release.answer(query).estimate[0]) for query in queries]
    np.testing.assert_allclose(shown_numbers([row[1] for row in rows]), answers, atol=0.06)


def test_negative_counts_are_counted_and_explained() -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(30))})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.01))
    release = plan.release(np.zeros((4, 1), dtype=int))
    below = int((release.answer(nz.Query(schema, ["age"])).estimate < 0).sum())
    assert below > 1
    assert f"{below} of the 30 numbers shown here are negative" in page_of(release)
    many = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5)).release(
        np.repeat(np.arange(30), 1000)[:, None]
    )
    assert "negative" not in page_of(many).partition("Search")[0]


def test_the_error_is_said_once_where_it_is_the_same() -> None:
    release = released(nz.Workload.marginals(SCHEMA, k=2))
    page = page_of(release)
    caption = next(t[0] for t in parsed(page).tables if t[0].startswith("age × sex"))
    half = float((release.answer("age × sex").upper - release.answer("age × sex").estimate)[0])
    assert float(caption.partition("± ")[2].partition(",")[0]) == pytest.approx(half, abs=0.05)
    assert page.count("<small>") == 0


def test_errors_of_cross_tables_are_told_by_line_by_column_or_by_cell() -> None:
    digits = Digits(0, 0)
    once = Errors.of(np.full((2, 3), 7.0), digits)
    assert once.once
    assert once.words("it") == " ± 7, half it"
    assert Errors.of(np.array([[30.0, 33.0]]), digits).words("it") == " ± at most 33, half it"
    lines = Errors.of(np.array([[3.0, 3.0], [9.0, 9.0]]), digits)
    assert lines.by_line
    assert not lines.by_column
    columns = Errors.of(np.array([[3.0, 9.0], [3.0, 9.0]]), digits)
    assert columns.by_column
    cells = Errors.of(np.array([[3.0, 9.0], [9.0, 3.0]]), digits)
    assert not (cells.once or cells.by_line or cells.by_column)
    assert "± 9" in str(cells.line(np.array(["1", "2"]), 0)[1])


@pytest.mark.parametrize(
    ("half", "value", "number", "error"),
    [
        (34.4, 1234.56, "1,235", "34"),
        (3.44, 1234.56, "1,234.6", "3.4"),
        (1234.0, -45678.9, "−45,700", "1,200"),
        (0.0344, 2.0, "2", "0.034"),
        (0.0, 5.0, "5", "0"),
        (34.4, -0.2, "0", "34"),
        (float("nan"), float("nan"), "–", "–"),
    ],
)
def test_digits_fit_their_error(half: float, value: float, number: str, error: str) -> None:
    digits = Digits.fitting(np.array([half]), np.array([value]))
    assert digits.number(value) == number
    assert digits.error(half) == error


def test_relative_errors() -> None:
    assert relative(1000.0, 34.0) == "3.4 %"
    assert relative(-1000.0, 340.0) == "34 %"
    assert relative(1000.0, 0.67) == "0.067 %"
    assert relative(10.0, 10.0) == "–"
    assert relative(0.0, 0.0) == "–"


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_what_another_budget_buys_is_what_planning_anew_gives(noise: str) -> None:
    workload = nz.Workload.marginals(SCHEMA, k=2, factors={"age": nz.Prefix()})
    page = page_of(released(workload, noise=noise))
    rows = re.findall(r'<th scope="row">(¼|½|2|4) ×</th><td class="n">[^<]*</td>'
                      r'<td class="n">([^<]*)</td><td class="n">([^<]*)</td>', page)  # fmt: skip
    assert len(rows) == 4
    for times, epsilon, error in rows:
        budget = 0.5 * {"¼": 0.25, "½": 0.5}.get(times, float(times) if times.isdigit() else 0)
        again = nz.plan(workload, budget=nz.zCDP(budget), noise=noise)
        assert float(error) == pytest.approx(again.rmse, rel=0.005)
        assert float(epsilon) == pytest.approx(again.privacy.epsilon(1e-9), rel=0.001)


def test_the_tables_that_are_favoured_are_named() -> None:
    release = released()
    words = " ".join(parsed(page_of(release)).words)
    rows = release.plan.fairness()
    assert f"Most favoured: “{rows[-1]['table']}”" in words
    assert f"Least: “{rows[0]['table']}”" in words


def test_releases_that_are_not_for_publication_say_so() -> None:
    plan = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.zCDP(0.5), noise="discrete")
    assert "Not for publishing: exact discrete Gaussian" in page_of(plan.release(DATA, seed=1))
    assert "Not for publishing: floating-point Gau" in page_of(released(noise="gaussian"))
    pure = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.PureDP(0.5), noise="laplace")
    assert "Not for publishing: floating-point Laplace" in page_of(pure.release(DATA))
    assert 'class="warning"' not in page_of(released())


def test_measurements_made_elsewhere() -> None:
    given = nz.from_noisy_tables(SCHEMA, [nz.NoisyTable(["age"], [9.0] * 12, 4.0)])
    words = " ".join(parsed(page_of(given)).words)
    assert "not known here" in words
    assert "made elsewhere" in words


def test_pure_privacy_is_scaled_by_the_square() -> None:
    workload = nz.Workload.marginals(SCHEMA, k=1)
    scaled = scaled_guarantee(nz.plan(workload, budget=nz.PureDP(0.5)), 4.0)
    assert scaled.epsilon(1e-9) == pytest.approx(1.0)
    assert scaled.rho == pytest.approx(4 * nz.Guarantee.pure(0.5).rho)


# ---------------------------------------------------------------------- limits


def test_large_tables_and_many_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    release = released()
    monkeypatch.setattr(released_tables, "MOST_ROWS", 5)
    page = page_of(release)
    assert "12 rows: the first 5 of 12 rows are shown" in page
    assert "24 rows: the first 5 of 12 lines are shown" in page
    monkeypatch.setattr(drawn_tables, "MOST_COLUMNS", 1)
    assert "24 rows: the first 5 of 12 lines and 1 of 2 columns are shown" in page_of(release)
    monkeypatch.setattr(released_tables, "MOST_NUMBERS_IN_ALL", 8)
    assert "too large for this page" in page_of(release)
    monkeypatch.setattr(released_tables, "MOST_TABLES", 3)
    page = page_of(release)
    assert "The first 3 of 7 tables are shown" in page
    assert page.count("<details") == 3


def test_many_slices_are_cut() -> None:
    sizes = {"a": 40, "b": 35, "c": 30}
    schema = nz.Schema.from_sizes(sizes)
    release = nz.plan(nz.Workload.marginals(schema, k=3), budget=nz.zCDP(1.0)).release(
        np.zeros((9, 3), dtype=int)
    )
    page = page_of(release)
    assert "42,000 rows: the first 1 of 35 tables by b are shown" in page
    assert len(page) < 300_000


def test_odd_shapes() -> None:
    """A dense matrix, one number, replaced records, a total that is exact."""
    queries = [
        nz.Query(SCHEMA, []),
        nz.Query(SCHEMA, ["age", "sex"], matrix=np.ones((2, 24)), name="matrix"),
        nz.Query(SCHEMA, {"age": nz.Levels(3)}),
    ]
    parsed(page_of(released(nz.Workload(queries))))
    parsed(page_of(released(nz.Workload.marginals(SCHEMA, up_to=1), neighbours="replace")))
    parsed(page_of(released(nz.Workload(queries[:1]), neighbours="replace", noise="gaussian")))


# ---------------------------------------------------------------------- pieces


def test_scales_and_ticks() -> None:
    assert Scale(0, 10, 0, 100).at(5) == 50
    assert Scale(1, 100, 0, 100, log=True).at(10) == pytest.approx(50)
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(0, 10, most=3) == [0, 5, 10]
    assert ticks(-3, 9)[0] >= -3
    assert ticks(5, 5) == [5]
    assert 'x="25.00" width="50.00"' in str(interval_bar(-5, 0, 5, (-10, 10)))


def test_elements_escape() -> None:
    assert str(element("p", "<", title='"', hidden=True, lang=None)) == (
        '<p title="&quot;" hidden>&lt;</p>'
    )


# ---------------------------------------------------------------------- levels


def test_tables_by_level() -> None:
    places = nz.Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
    schema = nz.Schema({"place": places, "sex": nz.Categorical(["F", "M"])})
    workload = nz.Workload(
        [
            nz.Query(schema, ["tract"]),
            nz.Query(schema, {"place": nz.Level("county"), "sex": "identity"}),
            nz.Query(schema, ["sex"]),
            nz.Query(schema, ["place", "sex"], matrix=np.ones((2, 6)), name="matrix"),
        ]
    )
    release = nz.plan(workload, budget=nz.zCDP(0.5)).release(
        {"place": ["a1", "b1", "b1"], "sex": ["F", "M", "M"]}
    )
    page = page_of(release)
    headings = re.findall(r"<h3>([^<]+)</h3>", page)
    assert headings == ["all", "county", "tract", "Other tables"]
    names = re.findall(r'data-name="([^"]+)"', page)
    assert names == ["sex", "county × sex", "tract", "matrix"]
    levels = [row[0] for row in rows_of(page, "Standard error by level")]
    assert levels == ["all", "county", "tract"]


# ---------------------------------------------------------------------- valid tables


def test_valid_tables_in_place_of_the_unbiased() -> None:
    release = released(nz.Workload.marginals(SCHEMA, up_to=2, factors={"age": nz.Prefix()}))
    valid = release.valid(tables=[["age", "sex"]])
    page = page_of(release, valid=valid)
    rows = rows_of(page, "prefix(age): valid")
    expected = np.cumsum(np.asarray(valid.values("age"), dtype=float))
    np.testing.assert_allclose(shown_numbers([row[1] for row in rows]), expected, atol=0.6)
    odd = '<b>odd</b> & "name"'
    words = " ".join(parsed(page).words)
    left = [query.name for query in release.plan.workload if odd in query.attributes]
    assert f"Left out, because no valid table holds them: “{left[0]}”" in words
    assert all(f"“{name}”" in words for name in left)
    assert "no count is negative" in words
    assert "which no count is" not in words


# ---------------------------------------------------------------------- the command


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    released().save(out)
    result = CliRunner().invoke(main, ["report", str(out), "--title", "T", "--level", "0.9"])
    assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "90 % interval" in page
    links = [a["href"] for tag, a in parsed(page).seen if tag == "a" and "type" in a]
    assert len(links) == 14
    assert all((out / str(link)).is_file() for link in links)
    assert nz.load(out).plan.privacy.rho <= 0.5  # the folder is still whole
    other = tmp_path / "page.html"
    result = CliRunner().invoke(main, ["report", str(out), "-o", str(other), "--json"])
    assert json.loads(result.stdout) == {"page": str(other), "bytes": len(other.read_bytes())}
    links = [str(a["href"]) for tag, a in parsed(other.read_text("utf-8")).seen
             if tag == "a" and "type" in a]  # fmt: skip
    assert links[0].startswith("out/tables/")
    assert all((tmp_path / link).is_file() for link in links)
    result = CliRunner().invoke(main, ["report", str(out), "--valid", "--integers"])
    assert result.exit_code == 0, result.output
    assert "These are valid tables" in (out / "valid.html").read_text(encoding="utf-8")
    assert CliRunner().invoke(main, ["report", str(out), "--integers"]).exit_code == 2
    missing = CliRunner().invoke(main, ["report", str(out), "-o", str(tmp_path / "no" / "x.html")])
    assert missing.exit_code == 1
    assert "cannot be written" in missing.stderr
    assert CliRunner().invoke(main, ["report", str(tmp_path)]).exit_code == 1


def test_an_edited_index_links_to_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    released().save(out)
    index = out / "tables" / "index.csv"
    text = index.read_text(encoding="utf-8")
    index.write_text(text.replace("1-total", "javascript:alert(1)").replace("2-age", "../../x"))
    found = file_links(out, tmp_path / "page.html")
    assert "total" not in found
    assert "age" not in found
    assert len(found) == 5


def test_title_and_purpose_come_from_the_study(tmp_path: Path) -> None:
    study, data, out = tmp_path / "study.toml", tmp_path / "data.csv", tmp_path / "out"
    study.write_text(
        'title = "Visits <2030>"\npurpose = "The yearly report"\n[schema]\nsex = { categorical = '
        '["F", "M"] }\n[[tables]]\nup_to = 1\n[budget]\nzcdp = 0.1\n',
        encoding="utf-8",
    )
    data.write_text("sex\nF\nM\n", encoding="utf-8")
    assert (
        CliRunner().invoke(main, ["release", str(study), str(data), "-o", str(out)]).exit_code == 0
    )
    again = nz.load(out)
    assert (again.title, again.purpose) == ("Visits <2030>", "The yearly report")
    assert "Visits <2030>" in (out / "certificate.txt").read_text(encoding="utf-8")
    page = page_of(again)
    assert "<h1>Visits &lt;2030&gt;</h1>" in page
    assert "The yearly report" in page
    assert "<h1>Other</h1>" in page_of(again, title="Other")
    assert (released().title, released().purpose) == ("", "")
