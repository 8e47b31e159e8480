"""What every mechanism says of itself beyond answers, by experiment: its rows, costs, other noise.

A mechanism answers each of these or refuses in words; what it answers must be what measuring single
records shows. Which refuse is written down here, so that none begins to refuse unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mechanism_examples import NAMES, probe_of
from probes import Probe, law_variance

from noiseplan.errors import NoiseplanError, PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.cost import cost_of

MOST = 4096  # cells that may be written out


def told(ask: Callable[[], Any]) -> Any:
    """What is answered; None where it is refused in words."""
    try:
        return ask()
    except NoiseplanError as refusal:
        assert len(str(refusal)) > 20
        return None


def precision(probe: Probe, variances: Array) -> Array:
    """BᵀΣ⁻¹B of the rows that measuring shows, but those without noise."""
    noisy = variances > 0
    rows = probe.rows[noisy]
    return np.asarray(rows.T / variances[noisy] @ rows)


def nearest(found: Array, probe: Probe) -> Array:
    """The precision by σ², which is what Gaussian noise costs; by 2b² or by what is drawn else."""
    by_size = precision(probe, of_size(probe, probe.sizes))
    if probe.law == "gaussian":
        return by_size
    # Hardly any noise has a variance too small for a number; 10⁻²⁰⁰ stands for it.
    drawn = precision(
        probe, np.where(probe.sizes > 0, np.maximum(probe.draw_variances, 1e-200), 0.0)
    )
    return min(by_size, drawn, key=lambda truth: float(np.abs(found - truth).max()))


def of_size(probe: Probe, sizes: Array) -> Array:
    """σ², or 2b²: the variances of continuous noise of these sizes."""
    return np.array([law_variance(probe.law, float(size), exact=False) for size in sizes])


def same(found: Array, truth: Array) -> None:
    np.testing.assert_allclose(found, truth, rtol=1e-7, atol=1e-9 * np.abs(truth).max(initial=1.0))


def spanned(rows: Array) -> Array:
    """The projector on what rows tell."""
    if not rows.size:
        return np.zeros((rows.shape[1], rows.shape[1]))
    _, sizes, right = np.linalg.svd(rows / np.abs(rows).max(), full_matrices=False)
    basis = right[sizes > 1e-9 * sizes.max()]
    return np.asarray(basis.T @ basis)


# -------------------------------------------------------------------------------- rows and costs


def test_the_cost_matrix_is_that_of_the_measured_rows(probe: Probe) -> None:
    """BᵀΣ⁻¹B, its largest diagonal what is charged; of Laplace noise Σ may be what is drawn."""
    found = told(probe.mechanism.cost_matrix)
    if found is not None:
        same(found, nearest(found, probe))
        same(probe.mechanism.cell_costs(), np.diagonal(found))
        if probe.law == "gaussian" and probe.sizes.all():
            assert np.diagonal(found).max() == pytest.approx(probe.brute_cost("add-remove"))


def test_rows_over_the_size_of_their_noise_cost_what_is_stated(probe: Probe) -> None:
    """‖a‖²/σ² or ‖a‖₁/b, column by column, from the rows as they are written out."""
    found = told(probe.mechanism.dense_rows)
    if found is None:
        return
    assert found.shape[1] == probe.rows.shape[1]
    if probe.law == "laplace":
        same(np.abs(found).sum(axis=0), (np.abs(probe.rows) / probe.sizes[:, None]).sum(axis=0))
    same(spanned(found), spanned(probe.rows))


def test_rows_in_units_of_their_noise_are_the_precision(probe: Probe) -> None:
    """Whatever the order and the signs, RᵀR is BᵀΣ⁻¹B."""
    found = told(probe.mechanism.unit_rows)
    if found is not None:
        same(found.T @ found, precision(probe, of_size(probe, probe.sizes)))


def test_measured_numbers_are_those_rows_of_the_counts(probe: Probe) -> None:
    rows = told(probe.mechanism.unit_rows)
    if rows is None:
        return
    counts = np.random.default_rng(5).integers(0, 30, probe.shape)
    same(probe.mechanism.unit_values(probe.with_noise(counts)), rows @ counts.ravel())


def test_tables_of_what_is_measured_are_no_more_than_asked_for(probe: Probe) -> None:
    queries = told(lambda: probe.mechanism.measured_queries(2))
    if queries is not None:
        assert 1 <= len(queries) <= 2
        assert all(query.schema == probe.plan.schema for query in queries)


def test_measured_twice_it_costs_twice(probe: Probe) -> None:
    """With itself a mechanism is of one kind, and every record pays for both."""
    mechanism = probe.mechanism
    for neighbours in ("add-remove", "replace"):
        together = told(lambda n=neighbours: cost_of([mechanism, mechanism], n))
        if together is not None:
            both = together.pcost if probe.law == "gaussian" else together.pure_epsilon
            brute = 2 * probe.brute_cost(neighbours)
            assert both >= brute * (1 - 1e-12)
            assert both <= 2 * probe.recomputed_cost(neighbours) * (1 + 1e-9)


def test_what_is_priced_in_its_place_costs_the_same(probe: Probe) -> None:
    priced = probe.mechanism.priced
    for neighbours in ("add-remove", "replace"):
        costs = [
            told(lambda m=m, n=neighbours: m.record_cost(n)) for m in (priced, probe.mechanism)
        ]
        assert costs[0] == costs[1]


def test_nothing_that_a_neighbour_changes_is_without_noise(probe: Probe) -> None:
    """What is measured exactly is the same for all records: a public total, and nothing else."""
    exact = probe.rows[probe.sizes == 0]
    probe.mechanism.require_noise(probe.plan.privacy.neighbours)
    assert (exact == exact[:, :1]).all()
    if len(exact):
        with pytest.raises(PlanError):
            probe.mechanism.require_noise("add-remove")


def test_rows_that_may_be_measured_beside_are_its_own(probe: Probe) -> None:
    """The same noise on the rows it has is the mechanism itself; on half of them it is cheaper."""
    rows = told(lambda: probe.mechanism.free_rows(MOST))
    if rows is None:
        return
    again, sizes = rows_and_sizes(probe.mechanism.with_rows(rows), probe)
    same(again, probe.rows)
    np.testing.assert_array_equal(sizes, probe.sizes)
    half = probe.mechanism.with_rows(rows[: len(rows) // 2])
    assert half.record_cost("add-remove") <= probe.mechanism.record_cost("add-remove")


# -------------------------------------------------------------------------------- other noise


def rows_and_sizes(mechanism: Mechanism, like: Probe) -> tuple[Array, Array]:
    """What another mechanism over the same domain measures, record by record."""

    class Other:
        schema, noise, privacy = like.plan.schema, mechanism.noise.name, like.plan.privacy

    other = Other()
    other.mechanism = mechanism  # type: ignore[attr-defined]
    found = Probe(other)
    return found.rows, found.sizes


@pytest.mark.parametrize("factor", [0.4, 3.0])
def test_noise_of_another_size_is_on_the_same_rows(probe: Probe, factor: float) -> None:
    """Never below what is asked for, and above it by rounding only; the cost falls by as much."""
    found = probe.mechanism.with_noise_times(factor)
    if found is None:
        return
    rows, sizes = rows_and_sizes(found, probe)
    same(rows, probe.rows)
    assert (sizes >= probe.sizes * factor).all()
    np.testing.assert_allclose(sizes, probe.sizes * factor, rtol=1e-3)
    for neighbours in ("add-remove", "replace"):
        stated, before = (m.record_cost(neighbours) for m in (found, probe.mechanism))
        assert stated <= before / factor * (1 + 1e-9)
        assert stated == pytest.approx(before / factor, rel=2e-3, abs=1e-12)


def test_some_noise_can_be_of_another_size() -> None:
    """Otherwise the test above would not tell anything."""
    scaled = {type(probe_of(n).mechanism.with_noise_times(2.0)).__name__ for n in NAMES}
    assert {"DenseMechanism", "TablesMechanism", "ReducedMechanism"} <= scaled


def test_continuous_noise_is_on_the_same_rows(probe: Probe) -> None:
    found = probe.mechanism.floating()
    assert not found.noise.exact
    rows, sizes = rows_and_sizes(found, probe)
    same(rows, probe.rows)
    np.testing.assert_array_equal(sizes, probe.sizes)


# -------------------------------------------------------------------------------- many at once


def test_queries_alike_have_the_figures_of_each(probe: Probe) -> None:
    """Every query is in one group, and a group's figures are those of its queries one by one."""
    workload, mechanism = probe.plan.workload, probe.mechanism
    groups = mechanism.alike_queries(workload)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(workload)))
    for group in groups:
        each = np.array([mechanism.variance(workload.query(int(q))) for q in group]).T
        same(mechanism.variances_alike(workload, group).reshape(each.shape), each)
        total, largest = mechanism.figures_alike(workload, group)
        same(total, each.sum(axis=0))
        known = ~np.isnan(largest)  # of very many ranges nobody knows the largest
        same(largest[known], each.max(axis=0)[known])
        kinds = mechanism.noise_alike(workload, group)
        for kind in np.unique(kinds):
            of_kind = each[:, kinds == kind]
            same(of_kind, np.repeat(of_kind[:, :1], of_kind.shape[1], axis=1))


def test_what_a_plan_was_made_for_is_answered_alike(probe: Probe) -> None:
    workload, mechanism = probe.plan.workload, probe.mechanism
    for group in mechanism.alike_queries(workload):
        assert (mechanism.answered_alike(workload, group) >= 0).all()


def test_completed_tables_are_the_answers_where_these_are_determined(probe: Probe) -> None:
    counts = np.random.default_rng(6).integers(0, 30, probe.shape)
    measured = probe.with_noise(counts)
    for query in probe.plan.workload:
        if told(lambda query=query: probe.mechanism.require_completed(query) or True):
            same(probe.mechanism.completed(measured, query), query.dense() @ counts.ravel())
            same(probe.mechanism.completed_variance(query), probe.plan.variance(query))


# -------------------------------------------------------------------------------- who refuses


def test_who_refuses_what() -> None:
    """What each kind of mechanism does not write out; a change here is a change of a contract."""
    asks: dict[str, Callable[[Mechanism], Any]] = {
        "cost_matrix": lambda m: m.cost_matrix(),
        "dense_rows": lambda m: m.dense_rows(),
        "unit_rows": lambda m: m.unit_rows(),
        "measured_queries": lambda m: m.measured_queries(MOST),
    }
    refused: dict[str, set[str]] = {}
    for name in NAMES:
        mechanism = probe_of(name).mechanism
        for ask, asked in asks.items():
            if told(lambda asked=asked, mechanism=mechanism: asked(mechanism)) is None:
                refused.setdefault(ask, set()).add(type(mechanism).__name__)
    long = {"SeriesMechanism", "TreeMechanism"}
    assert refused == {
        "dense_rows": {type(probe_of(n).mechanism).__name__ for n in NAMES} - {"TablesMechanism"},
        # Residuals only where the total is public and has no noise.
        "unit_rows": {
            "ResidualMechanism", "ProductMechanism", "CrossedMechanism", "TablesMechanism",
            "SideBySide", *long
        },
        "measured_queries": {
            "ReducedMechanism", "ProductMechanism", "TablesMechanism", "SideBySide", *long
        },
    }  # fmt: skip
    public = probe_of("residual, replacing").mechanism
    with pytest.raises(PlanError, match="measured exactly"):
        public.unit_rows()
    assert probe_of("residual, discrete").mechanism.unit_rows().size


def test_examples_hold_every_noise() -> None:
    laws = {(probe_of(name).law, probe_of(name).exact) for name in NAMES}
    assert laws == {(law, exact) for law in ("gaussian", "laplace") for exact in (True, False)}
