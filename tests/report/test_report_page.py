"""The page: well formed, complete, safe, and right in its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.draw.html import element
from noiseplan.draw.svg import Scale, _ticks, interval_bar
from noiseplan.report import released_tables, report_page
from noiseplan.report.budgets import scaled_guarantee
from noiseplan.storage.certificate import certificate
from page_parsing import parsed

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
    return report_page(release, certificate(release), **arguments)  # type: ignore[arg-type]


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
    names = [a["data-name"] for tag, a in checker.seen if tag == "details"]
    assert names == [query.name for query in release.plan.workload]


def test_nothing_of_the_data_can_become_markup() -> None:
    page = page_of(released(), title="<img src=x onerror=alert(1)>")
    tags = {tag for tag, _ in parsed(page).seen}
    assert not tags & {"b", "img", "iframe", "link", "object"}
    assert [tag for tag, _ in parsed(page).seen].count("script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_nothing_is_loaded_from_anywhere() -> None:
    page = page_of(released())
    for _, attributes in parsed(page).seen:
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


def test_every_number_of_a_table_is_on_the_page() -> None:
    release = released()
    page = page_of(release)
    answer = release.answer(nz.Query(SCHEMA, ["age"]))
    block = page[page.index('data-name="age"') :].partition("</details>")[0]
    cells = re.findall(r'<th scope="row">(\d+)</th><td class="n">([-\d,.]+)</td>', block)
    assert [int(label) for label, _ in cells] == list(range(12))
    shown = [float(value.replace(",", "")) for _, value in cells]
    np.testing.assert_allclose(shown, answer.estimate, atol=0.5)
    bars = re.findall(r'<rect class="ci" x="([\d.]+)" width="([\d.]+)"', block)
    span = max(0, answer.upper.max()) - min(0, answer.lower.min())
    widths = 100 * (answer.upper - answer.lower) / span
    np.testing.assert_allclose([float(width) for _, width in bars], widths, atol=0.02)


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
    scaled = scaled_guarantee(nz.Guarantee.pure(0.5), 4.0)
    assert scaled.epsilon(1e-9) == pytest.approx(1.0)
    assert scaled.rho == pytest.approx(4 * nz.Guarantee.pure(0.5).rho)


# ---------------------------------------------------------------------- limits


def test_large_tables_and_many_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    release = released()
    monkeypatch.setattr(released_tables, "MOST_ROWS", 5)
    page = page_of(release)
    assert "12 rows: the first 5 rows are shown" in page
    monkeypatch.setattr(released_tables, "MOST_ROWS_IN_ALL", 8)
    assert "too large for this page" in page_of(release)
    monkeypatch.setattr(released_tables, "MOST_TABLES", 3)
    page = page_of(release)
    assert "The first 3 of 7 tables are shown" in page
    assert page.count("<details") == 3


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
    assert _ticks(0, 10) == [0, 5, 10]
    assert _ticks(-3, 9)[0] >= -3
    assert _ticks(5, 5) == [5]
    assert 'x="25.00" width="50.00"' in str(interval_bar(-5, 0, 5, (-10, 10)))


def test_elements_escape() -> None:
    assert str(element("p", "<", title='"', hidden=True, lang=None)) == (
        '<p title="&quot;" hidden>&lt;</p>'
    )


# ---------------------------------------------------------------------- the command


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    released().save(out)
    result = CliRunner().invoke(main, ["report", str(out), "--title", "T", "--level", "0.9"])
    assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "90 % interval" in page
    assert nz.load(out).plan.privacy.rho <= 0.5  # the folder is still whole
    other = tmp_path / "page.html"
    result = CliRunner().invoke(main, ["report", str(out), "-o", str(other), "--json"])
    assert json.loads(result.stdout) == {"page": str(other), "bytes": len(other.read_bytes())}
    missing = CliRunner().invoke(main, ["report", str(out), "-o", str(tmp_path / "no" / "x.html")])
    assert missing.exit_code == 1
    assert "cannot be written" in missing.stderr
    assert CliRunner().invoke(main, ["report", str(tmp_path)]).exit_code == 1


# ---------------------------------------------------------------------- notebooks


def values(chart: Any) -> list[dict[str, Any]]:
    """The rows that a chart draws."""
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def test_charts_for_notebooks() -> None:
    altair = pytest.importorskip("altair")
    release = released()
    drawn = release.plan.plot()
    assert isinstance(drawn, altair.TopLevelMixin)
    names = {row["table"] for row in values(drawn)}
    assert "age × sex" in {name.partition(" and ")[0] for name in names}
    cells = values(release.plot("age", "sex", level=0.9))
    answer = release.answer(nz.Query(SCHEMA, ["age", "sex"]), level=0.9)
    np.testing.assert_allclose([cell["lower"] for cell in cells], answer.lower)
    assert len(values(release.plot("age"))) == 12
    for attributes in ((), ("age", "sex", "x")):
        with pytest.raises(nz.NoiseplanError, match="one or two attributes"):
            release.plot(*attributes)


def test_charts_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    with pytest.raises(nz.NoiseplanError, match=r"noiseplan\[plot\]"):
        released().plan.plot()
