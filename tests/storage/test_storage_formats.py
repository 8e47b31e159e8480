"""Releases saved by earlier versions keep loading: one folder for each format and kind of plan.

The folders in `saved` were written when their format was new and are never written again.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.storage.folder_check import check_folder

FOLDERS = sorted((Path(__file__).parent / "saved").iterdir())


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_an_old_release_gives_the_tables_it_gave(folder: Path) -> None:
    release = nz.load(folder)
    with (folder / "tables" / "index.csv").open(encoding="utf-8") as file:
        index = list(csv.DictReader(file))
    assert index
    for entry in index:
        answer = release.answer(release.plan.workload[entry["query"]])
        with (folder / "tables" / f"{entry['file']}.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        estimates = [float(row["estimate"]) for row in rows]
        np.testing.assert_allclose(answer.estimate, estimates, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(
            answer.std_error, [float(row["std_error"]) for row in rows], rtol=1e-12
        )
    assert "NOT PRIVATE" in release.brand  # they were made with a seed, from made-up data
    for query in release.plan.workload:
        assert np.isfinite(release.answer(query).estimate).all()


def test_every_format_has_its_folders() -> None:
    from noiseplan.storage.certificate import FORMAT

    for number in range(1, FORMAT + 1):
        assert any(folder.name.startswith(f"format-{number}-") for folder in FOLDERS)


def test_counts_that_were_certified_for_records_are_whole() -> None:
    """Certificates of one record of each household once spoke of records, if counts were given."""
    folder = Path(__file__).parent / "certificates" / "households-as-records"
    assert "protected: one record." in (folder / "certificate.txt").read_text(encoding="utf-8")
    plan = check_folder(folder).release.plan
    assert plan.unit == "household" and not plan.of_records
