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
from noiseplan.storage.table_files import with_fitting_digits
from noiseplan.texts import duration, percent, percent_up

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


@given(st.floats(0, 1e4), st.sampled_from([1, 2]))
def test_a_share_is_near_and_without_powers_of_ten(share: float, digits: int) -> None:
    text = percent(share, digits)
    assert "e-" not in text and "e+" not in text
    value = float(text.removeprefix("< ").removesuffix("%"))
    if text.startswith("<"):
        assert 0 < 100 * share < value
    else:
        assert value == pytest.approx(100 * share, rel=0.5 / 10 ** (digits - 1), abs=0.5e-4)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-6, 1e9)), min_size=1, max_size=5))
def test_digits_fit_the_smallest_error(cells: list[tuple[float, float]]) -> None:
    """Rounding moves no number by more than a hundred-thousandth of any error, and the last place
    that is shown is worth more than a millionth of the smallest, but for units."""
    estimate, error = (np.array(column) for column in zip(*cells, strict=True))
    shown = with_fitting_digits({"estimate": estimate, "std_error": error})["estimate"]
    unit = 10.0 ** np.floor(np.log10(1e-5 * error.min()))  # the place of the sixth digit
    exact = 1e-9 * max(1.0, np.abs(estimate).max())  # of floating point
    assert np.abs(shown - estimate).max() <= max(0.5, 0.5 * unit) + exact
    assert np.abs(shown - estimate).max() <= 1e-5 * error.min() + exact
    if unit <= 1:
        assert np.abs(shown / unit - np.round(shown / unit)).max() * unit <= exact


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
        places = max(5 - int(np.floor(np.log10(answer.std_error.min()))), 0)
        for name, exact in answer.columns().items():
            if isinstance(exact, np.ndarray):
                found = [float(row[name]) for row in rows]
                np.testing.assert_allclose(found, exact, rtol=0, atol=0.51 * 10.0**-places)
                assert all(len(row[name].partition(".")[2]) <= max(places, 1) for row in rows)
    assert written == len(workload)


def test_counting_is_named_beside_drawing_where_it_takes_longer() -> None:
    schema = nz.Schema.from_sizes({f"a{n}": 3 for n in range(60)})
    many = str(nz.plan(nz.Workload.marginals(schema, up_to=3), budget=nz.zCDP(1)))
    assert "36,051 tables comes before that: about 18 s for each million records" in many
    few = nz.Workload.marginals(nz.Schema.from_sizes({"a": 3, "b": 3}), up_to=2)
    assert "counting" not in str(nz.plan(few, budget=nz.zCDP(1)))


def on_a_terminal(code: str, go_on_at: bytes) -> str:
    """What a program shows on a terminal; it may read a line once it has shown `go_on_at`."""
    import pty  # not on every system

    terminal, screen = pty.openpty()
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=screen, stderr=screen, env=environment,
    ) as child:  # fmt: skip
        os.close(screen)
        shown, told = b"", False
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(terminal, 4096):
                shown += part
                if go_on_at in shown and not told and child.stdin is not None:
                    child.stdin.close()
                    told = True
        assert child.wait() == 0
    os.close(terminal)
    return shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_bars_on_a_terminal() -> None:
    """Work of unknown length shows itself after a second; a bar that knows more takes its place."""
    code = (
        "from noiseplan import progress\nimport sys, time\nprogress.PATIENCE = 0.1\n"
        "with progress.waiting('planning'):\n    sys.stdin.read()\n"
        "    with progress.progress('counting', 2) as advance:\n"
        "        for _ in range(2):\n            time.sleep(0.2)\n            advance(1)\n"
        "print('done')\n"
    )
    text = on_a_terminal(code, b"planning")
    assert text.index("planning") < text.index("counting") < text.rindex("done")
    assert "planning" not in text[text.index("counting") :]


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_bar_whose_clock_strikes_too_late_is_not_shown() -> None:
    """Between the end of its work, or another bar's start, and the cancelling of its clock."""
    code = (
        "from noiseplan import progress\nimport threading, time\n"
        "progress.PATIENCE, clocks = 0.1, []\n"
        "class Late(threading.Timer):\n"
        "    def start(self):\n        clocks.append(self)\n"
        "    def strike(self):\n        self.function(*self.args)\n"
        "progress.Timer = Late\n"
        "with progress.waiting('planning'):\n"
        "    with progress.progress('counting', 2) as advance:\n"
        "        time.sleep(0.2)\n        advance(1)\n"
        "        clocks[0].strike()\n        advance(1)\n"
        "clocks[0].strike()\n"
        "with progress.waiting('drawing'):\n    clocks[1].strike()\n"
        "print('done')\n"
    )
    text = on_a_terminal(code, b"counting")
    assert "planning" not in text
    assert text.index("counting") < text.index("drawing") < text.rindex("done")
