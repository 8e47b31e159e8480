"""The demonstration: what it prints, what it draws, and what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from noiseplan.demo import age_band, main

WITHOUT_EXTRAS = """
import sys
for name in ("pandas", "polars", "pyarrow"):
    sys.modules[name] = None
from noiseplan.demo import main
main()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("demo") / "pictures"
    result = CliRunner().invoke(main, ["--seed", "7", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return result.output, folder


def test_tells_the_story_in_order(run: tuple[str, Path]) -> None:
    output, _ = run
    places = [
        output.index(words)
        for words in (
            "5 attributes, 67,584 cells",
            "20 queries, 3,111 rows",
            "Plan for 20 queries",
            "Release of 20 queries",
            "[10, 15)",
            "women aged 25 to 34 with 20 dollars an hour or more",
            "Tables add up",
            "Intervals hold",
            "age.svg",
        )
    ]
    assert places == sorted(places)


def test_says_that_noise_from_a_seed_is_not_private(run: tuple[str, Path]) -> None:
    output, _ = run
    assert "exact discrete Laplace noise, drawn from seed 7, so NOT PRIVATE" in output


def test_checks_come_out_well(run: tuple[str, Path]) -> None:
    output, _ = run
    (line,) = (line for line in output.splitlines() if "Intervals hold" in line)
    share = float(line.split("(")[1].split("%")[0])
    # 3,111 correlated rows at 95 %: with this seed well within these ends.
    assert 90 < share < 99
    (line,) = (line for line in output.splitlines() if "largest difference" in line)
    assert float(line.split(":")[1].split("(")[0]) < 1e-6


def test_fits_a_terminal(run: tuple[str, Path]) -> None:
    output, folder = run
    lines = [line for line in output.splitlines() if str(folder) not in line]
    assert max(map(len, lines)) <= 100, max(lines, key=len)


def test_draws_the_pictures(run: tuple[str, Path]) -> None:
    _, folder = run
    for name in ("age.svg", "earnings.svg", "expected-errors.svg"):
        assert (folder / name).read_text(encoding="utf-8").startswith("<svg")


def test_needs_no_extra(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS],
        cwd=tmp_path, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "NOT PRIVATE" not in done.stdout  # no seed by default
    assert "age.svg" in done.stdout


def test_age_bands() -> None:
    assert [age_band(age) for age in (21, 24, 25, 34, 35, 64)] == [
        "21–24", "21–24", "25–34", "25–34", "35–44", "55–64",
    ]  # fmt: skip
