"""The (ε, δ) that was decided, and the promise computed from a certificate alone."""

from __future__ import annotations

import json
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import norm

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.counting import CountTensor
from noiseplan.errors import StorageError
from noiseplan.storage.files import file_hash
from noiseplan.storage.folder_check import check_folder

S = nz.Schema.from_sizes
SCHEMA = S({"a": 4, "b": 3})
WORKLOAD = nz.Workload.marginals(SCHEMA, up_to=2)
TENTH = nz.ApproxDP(1.0, 1e-10)
COUNTS = np.arange(12).reshape(4, 3)
GAUSSIAN = "discrete Gaussian"


def saved(folder: Path, workload: nz.Workload = WORKLOAD, **how: Any) -> tuple[nz.Plan, Any]:
    plan = nz.plan(workload, **({"budget": TENTH} | how))
    data = CountTensor(workload.schema, np.ones(workload.schema.shape, dtype=np.int64))
    plan.release(data).save(folder)
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    return plan, content["privacy"]


@pytest.mark.parametrize("how", [{}, {"neighbours": "replace"}, {"max_rows": 3}], ids=str)
@pytest.mark.parametrize(
    "budget", [TENTH, nz.ApproxDP(5.0, 1e-6), nz.ApproxDP(0.01, 1e-12)], ids=str
)
@pytest.mark.parametrize(
    "workload", [WORKLOAD, nz.Workload([nz.Query(SCHEMA, ["b"])])], ids=["tables", "cells"]
)
def test_a_certificate_is_enough_to_compute_its_promise(
    tmp_path: Path, workload: nz.Workload, budget: nz.ApproxDP, how: dict[str, Any]
) -> None:
    """The lines of docs/secure-noise.md; 2ρ is twice the ρ that stands on it too."""
    plan, stated = saved(tmp_path / "out", workload, budget=budget, noise=GAUSSIAN, **how)
    assert stated["decided"] == {"epsilon": budget.epsilon, "delta": budget.delta}
    curve = stated["curve"]
    assert curve["two_rho"] == pytest.approx(2 * stated["rho"], rel=1e-12)
    sizes = plan.mechanism.noise.size
    least = curve["least_variance"] / curve["steps"] ** 2
    assert least == pytest.approx(sizes[sizes > 0].min(), rel=1e-12)
    loss = 2 / (1 + sqrt(1 - 1 / (3 * curve["least_variance"])))
    assert curve["lattice_loss"] == pytest.approx(loss, rel=1e-12)
    assert curve["mu2"] == pytest.approx(loss * curve["two_rho"], rel=1e-12)
    mu, epsilon = sqrt(curve["mu2"]), budget.epsilon
    assert stated["mu"] == pytest.approx(mu, rel=1e-12)
    delta = norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert 0.9 * budget.delta < delta <= budget.delta * (1 + 1e-9)


def test_the_pair_that_was_decided_stands_first(tmp_path: Path) -> None:
    for name, noise in (("laplace", "discrete"), ("gaussian", GAUSSIAN)):
        folder = tmp_path / name
        plan, stated = saved(folder, noise=noise)
        assert stated["decided"] == {"epsilon": 1.0, "delta": 1e-10}
        said = "ithin ε = 1 at δ = 1e-10, as decided"
        words = (folder / "certificate.txt").read_text(encoding="utf-8")
        lines = words.splitlines()
        first = lines.index(f"W{said}.")
        assert first < lines.index("What is protected: one record.")
        assert (noise == GAUSSIAN) == ("Exact curve: μ² = " in words)
        checked = CliRunner().invoke(main, ["show", str(folder), "--check"]).output
        assert f"  cost    w{said}:\n" in checked
        read = nz.load(folder)
        assert read.plan.budget == TENTH
        assert read.plan.hash() == plan.hash()
        assert f"  privacy  w{said} (" in str(read)
        page = folder.with_suffix(".html")
        done = CliRunner().invoke(main, ["report", str(folder), "-o", str(page)])
        assert done.exit_code == 0, done.output
        text = page.read_text(encoding="utf-8")
        assert text.index(f"W{said}") < text.index("Suppose that somebody knows")


def test_other_budgets_are_told_in_their_own_currency(tmp_path: Path) -> None:
    _, stated = saved(tmp_path / "out", budget=nz.zCDP(0.1))
    assert "decided" not in stated
    assert "decided" not in (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")


def changed(folder: Path, change: dict[str, Any]) -> None:
    """Write other figures into the certificate, with its hash."""
    path = folder / "certificate.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, figures in change.items():
        content["privacy"][name] = content["privacy"].get(name, {}) | figures
    before = file_hash(path)
    path.write_text(json.dumps(content), encoding="utf-8")
    sums = folder / "SHA256SUMS"
    text = sums.read_text(encoding="utf-8")
    sums.write_text(text.replace(before, file_hash(path)), encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        {"decided": {"epsilon": 0.5}},
        {"decided": {"delta": 1e-11}},
        {"curve": {"mu2": 0.01}},
        {"curve": {"least_variance": 1e9, "lattice_loss": 1.0}},
    ],
    ids=str,
)
def test_a_certificate_that_states_another_promise_is_found(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    saved(tmp_path / "out", noise=GAUSSIAN)
    changed(tmp_path / "out", change)
    with pytest.raises(StorageError, match=f"states {next(iter(change))}"):
        check_folder(tmp_path / "out")


def test_a_plan_that_is_not_within_what_was_decided_is_refused(tmp_path: Path) -> None:
    from noiseplan.storage.plans import read_plan, write_plan

    plan = nz.plan(WORKLOAD, budget=TENTH, noise=GAUSSIAN)
    content, arrays = write_plan(plan)
    assert content["decided"] == ["1.0", "1e-10"]
    assert read_plan(content, arrays, 10**6).budget == TENTH
    with pytest.raises(StorageError, match="its cost is above that"):
        read_plan(content | {"decided": ["0.9", "1e-10"]}, arrays, 10**6)
