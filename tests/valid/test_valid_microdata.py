"""Made-up records: their tables, their file, and what is refused.

The library that fits the model starts threads which other tests could not fork under, so
everything that needs it runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from depth import depth
from noiseplan.errors import MissingExtraError, PlanError, StorageError
from noiseplan.valid.microdata import fidelity
from noiseplan.valid.refining import refine
from noiseplan.valid.unbiased_tables import Unbiased

needs_mbi = pytest.mark.skipif(find_spec("mbi") is None, reason="the extra microdata is missing")

SETUP = """
import numpy as np
import polars as pl
import noiseplan as nz

rng = np.random.default_rng(0)
size = 4000
age = rng.integers(0, 4, size)
job = (age + (rng.random(size) < 0.2)) % 4
sex = rng.integers(0, 2, size)
schema = nz.Schema({
    "age": nz.Binned([0, 20, 40, 60, 80]),
    "job": nz.Categorical(["a", "b", "c", "d"]),
    "sex": nz.Categorical(["F", "M"]),
})
data = pl.DataFrame({
    "age": age * 20 + 5.0,
    "job": np.array(["a", "b", "c", "d"])[job],
    "sex": np.array(["F", "M"])[sex],
})
plan = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.5), noise="gaussian")
release = plan.release(data, seed=1)
"""

RECORDS = """
made = release.microdata(path="people.parquet", seed=3, total=size)
assert made.rows == size and len(made.frame) == size
assert "for simulation; drawn from seed 1, so NOT PRIVATE" in made.warning
assert str(made).endswith(made.warning)
assert made.frame.columns == ["age", "job", "sex"]
from pathlib import Path
mark = Path("people.parquet.NOT-FOR-PUBLISHING.txt")
assert mark.read_text("utf-8") == made.warning + "\\n"
back = pl.read_parquet("people.parquet")
assert back.equals(made.frame)

# Every released table is met about as well as noise lets the data themselves.
assert len(made.fidelity) == 7
assert max(told.mean for told in made.fidelity) < 1.5
counts = back.group_by("age", "job").len()
near = counts.filter((pl.col("age") == "[0, 20)") & (pl.col("job") == "a"))["len"].item()
true = int(((age == 0) & (job == 0)).sum())
assert abs(near - true) < 100, (near, true)
told = {t.names: t for t in made.fidelity}[("age", "job")]
estimate = release.table("age", "job", frame="polars")
joined = estimate.join(back.group_by("age", "job").len(), on=["age", "job"], how="left")
gaps = (joined["len"].fill_null(0) - joined["estimate"]).abs() / joined["std_error"]
assert abs(gaps.mean() - told.mean) < 1e-9 and abs(gaps.max() - told.largest) < 1e-9
assert "age × job" in str(made)

again = release.microdata(rows=50, seed=3, frame="pandas").frame
assert (again == release.microdata(rows=50, seed=3, frame="pandas").frame).all().all()
import jax
assert not jax.config.jax_enable_x64  # as it was before
"""

TOO_LARGE = """
from noiseplan.errors import PlanError
from noiseplan.valid import microdata
from noiseplan.valid.unbiased_tables import Unbiased

microdata.LARGEST_MODEL = 20
microdata.SMALL_MODEL = 20
try:
    release.microdata()
except PlanError as error:
    text = str(error)
    assert "32 cells" in text and "age × job × sex" in text, text
    assert "['age', 'job']" in text and "limit is 20" in text, text
else:
    raise AssertionError
# age and job depend on each other, sex on nothing.
assert (0, 1) in microdata.telling_tables(Unbiased.of(release))
"""


# Five attributes, so that records are drawn given two and three others.
ORDER = """
import noiseplan as nz, numpy as np

schema = nz.Schema.from_sizes({"year": 3, "age": 4, "sex": 2, "job": 3, "town": 2})
counts = np.random.default_rng(2).poisson(3.0, schema.shape)
plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5), noise="gaussian")
frame = plan.release(counts, seed=1).microdata(rows=60, seed=3, frame="polars").frame
print(frame.write_csv())
"""


def ran(folder: Path, code: str, order: str) -> subprocess.CompletedProcess[str]:
    """A process with sets in an order of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder, env=os.environ | {"PYTHONHASHSEED": order},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def all_in_one(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """One process for what can share it: the library takes seconds to start."""
    return ran(tmp_path_factory.mktemp("records"), SETUP + RECORDS + ORDER + TOO_LARGE, "0")


@needs_mbi
def test_records_in_a_process_of_their_own(
    all_in_one: subprocess.CompletedProcess[str],
) -> None:
    assert all_in_one.returncode == 0, all_in_one.stderr


@needs_mbi
def test_the_same_records_in_every_order_of_sets(
    all_in_one: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    """Python orders sets of texts anew in every process; a seed gives the same records in all."""
    others = [ran(tmp_path, ORDER, order) for order in ("0", "3", "5")[1 : depth(3, 2)]]
    assert [done.stderr for done in others if done.returncode] == []
    found = {done.stdout for done in (all_in_one, *others)}
    assert len(found) == 1
    assert len(found.pop().split()) == 61


def small_release() -> nz.Release:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    table = nz.NoisyTable(["a", "b"], np.arange(6.0), 4.0)
    return nz.from_noisy_tables(schema, [table])


def test_refined_records_have_nearly_the_wanted_tables() -> None:
    sizes, rng = (6, 4, 3), np.random.default_rng(0)
    people = rng.choice(72, 2000, p=rng.dirichlet(np.full(72, 0.3)))
    truth = dict(enumerate(np.unravel_index(people, sizes)))
    drawn = {i: column[rng.integers(0, 2000, 2000)].copy() for i, column in truth.items()}
    sets = [(0,), (0, 1), (1, 2), (0, 2)]

    def table(codes: dict[int, np.ndarray], one: tuple[int, ...]) -> np.ndarray:
        shape = [sizes[i] for i in one]
        cells = np.ravel_multi_index([codes[i] for i in one], shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(float)

    wanted = {one: table(truth, one) for one in sets}
    weights = {one: 1.0 + len(one) for one in sets}

    def distance() -> float:
        gaps = ((table(drawn, s) - wanted[s]) ** 2 * weights[s] for s in sets)
        return float(sum(gap.sum() for gap in gaps))

    before = distance()
    changed = refine(drawn, wanted, weights, seed=1)
    assert 0 < changed < 2000
    # Measured: below a thousandth.
    assert distance() < 0.05 * before
    for i, column in drawn.items():
        assert (column >= 0).all()
        assert (column < sizes[i]).all()


def test_deviations_are_in_standard_errors() -> None:
    release = small_release()
    codes = {0: np.array([0, 1, 2, 2]), 1: np.array([1, 1, 0, 1])}
    (told,) = fidelity(Unbiased.of(release), codes, [(0, 1)], records=8.0)
    counts = 2.0 * np.array([0, 1, 0, 1, 1, 1])
    gaps = np.abs(counts - np.arange(6.0)) / 2.0
    assert told.mean == pytest.approx(gaps.mean())
    assert told.largest == pytest.approx(gaps.max())
    (total,) = fidelity(Unbiased.of(release), codes, [()], records=8.0)
    assert total.mean == pytest.approx(7.0 / np.sqrt(24.0))


def test_what_is_refused_before_anything_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = small_release()
    (tmp_path / "there.csv").touch()
    with pytest.raises(StorageError, match="left alone"):
        release.microdata(path=tmp_path / "there.csv")
    with pytest.raises(StorageError, match="parquet"):
        release.microdata(path=tmp_path / "people.xlsx")
    with pytest.raises(PlanError, match="auto"):
        release.microdata(tables="all")
    monkeypatch.setitem(sys.modules, "mbi", None)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError, match=r"noiseplan\[microdata\]"):
        release.microdata()
