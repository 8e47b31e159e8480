"""Numbers for people: durations, percentages, and digits that fit an error."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from noiseplan.storage.table_files import DIGITS, fitting_places
from noiseplan.texts import duration, percent_up

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@given(st.floats(0.01, 1e7))
def test_a_duration_is_near_and_without_powers_of_ten(seconds: float) -> None:
    number, unit = duration(seconds).split(" ")
    assert re.fullmatch(r"[\d,.]+", number)
    shown = float(number.replace(",", "")) * UNITS[unit]
    assert shown == pytest.approx(seconds, rel=0.26)  # "2 min" is 120 to 150 seconds
    assert seconds >= 10 or shown == pytest.approx(seconds, rel=0.051)


@given(st.floats(0, 1e4))
def test_a_percentage_never_claims_too_much(share: float) -> None:
    text = percent_up(share)
    assert "e" not in text
    assert float(text) >= 100 * share * (1 - 1e-9) - 1e-9
    assert float(text) <= 100 * share + 0.1 + 1e-9


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=5))
def test_digits_fit_the_smallest_error(errors: list[float]) -> None:
    """Rounding moves a number by less than a hundred-thousandth of any error; with one place less
    it could move it by more than a millionth of the smallest."""
    places = fitting_places(errors)
    assert places is not None
    assert 0.5 * 10.0**-places <= 1e-5 * min(errors) or places == 0
    assert places == 0 or 0.5 * 10.0 ** (1 - places) > 10.0**-DIGITS * min(errors)


def test_csv_files_have_fitting_digits_and_parquet_files_all(tmp_path: Path) -> None:
    schema = nz.Schema({"a": nz.Ordinal(range(7)), "b": nz.Categorical(["x", "y"])})
    workload = nz.Workload.marginals(schema, up_to=2)
    plan = nz.plan(workload, budget=nz.zCDP(0.013))
    release = plan.release({"a": [0, 3, 6], "b": ["x", "x", "y"]})
    release.save(tmp_path / "out")
    written = 0
    for path in sorted((tmp_path / "out" / "tables").glob("*-*.csv")):
        answer = release.answer(workload[written].name)
        written += 1
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        places = fitting_places(answer.std_error.tolist())
        assert places is not None
        for name, exact in answer.columns().items():
            if isinstance(exact, np.ndarray):
                found = [float(row[name]) for row in rows]
                np.testing.assert_allclose(found, exact, rtol=0, atol=0.51 * 10.0**-places)
                assert all(len(row[name].partition(".")[2]) <= max(places, 1) for row in rows)
    assert written == len(workload)


def test_counting_is_named_beside_drawing_where_it_takes_longer() -> None:
    schema = nz.Schema.from_sizes({f"a{n}": 3 for n in range(60)})
    many = str(nz.plan(nz.Workload.marginals(schema, up_to=3), budget=nz.zCDP(1)))
    assert "36,051 tables comes before that: about 72 s for each million records" in many
    few = nz.Workload.marginals(nz.Schema.from_sizes({"a": 3, "b": 3}), up_to=2)
    assert "counting" not in str(nz.plan(few, budget=nz.zCDP(1)))


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_bars_on_a_terminal() -> None:
    """Work of unknown length shows itself after a second; a bar that knows more takes its place."""
    import pty  # not on every system

    code = (
        "from noiseplan import progress\nimport time\nprogress.PATIENCE = 0.1\n"
        "with progress.waiting('planning'):\n    time.sleep(0.8)\n"
        "    with progress.progress('counting', 2) as advance:\n"
        "        for _ in range(2):\n            time.sleep(0.4)\n            advance(1)\n"
        "print('done')\n"
    )
    terminal, screen = pty.openpty()
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=screen, stderr=screen, env=environment
    ) as child:
        os.close(screen)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(terminal, 4096):
                shown += part
        assert child.wait() == 0
    os.close(terminal)
    text = shown.decode()
    assert "planning" in text
    assert text.index("planning") < text.index("counting") < text.rindex("done")
    assert "planning" not in text[text.index("counting") :]
