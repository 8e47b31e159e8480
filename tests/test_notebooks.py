"""Notebooks are kept small and without outputs; the test of the site runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_notebooks_are_found_and_listed() -> None:
    listed = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 4
    for notebook in NOTEBOOKS:
        assert f"](../examples/notebooks/{notebook.name})" in listed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_clean(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 20_000
    nbformat.validate(nbformat.reads(text, as_version=4))
    cells: list[dict[str, Any]] = json.loads(text)["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert "".join(cells[0]["source"]).startswith("# ")
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 6
    for cell in code:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
