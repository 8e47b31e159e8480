"""Plans whose blocks have rows of their own: what is common, what is left, what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing import crossing, which_family
from noiseplan.choosing.common_and_rest import ByMatrices
from noiseplan.choosing.crossing import ByCrossing
from noiseplan.choosing.precisions import ByPrecisions
from noiseplan.choosing.which_family import family_for
from noiseplan.errors import PlanError
from noiseplan.mechanisms.blocks import with_own
from noiseplan.mechanisms.residual import ResidualMechanism
from own_examples import SCHEMA, SHARED, blocks_of, mixed, own_plan, product

COUNTS = np.random.default_rng(0).integers(0, 20, SCHEMA.shape)
NOISE = ["discrete", "gaussian"]


def rough(kind: str, exact: bool) -> nz.Plan:
    """With so much noise that discrete laws have the variance of the others."""
    return own_plan(mixed(kind, exact, noise=30.0))


def precise(exact: bool) -> nz.Plan:
    """Both kinds of rows with a third of that noise."""
    return own_plan(mixed("both", exact, noise=10.0))


def other_rows(exact: bool) -> nz.Plan:
    """Halves of the first attribute measured by other rows than in `mixed`: quarters."""
    blocks = blocks_of({each: 20 * size for each, size in SHARED.items()}, exact)
    quarters = product([[[1, 1, 0, 0], [0, 1, 0, 1]]], [0])
    return own_plan(
        ResidualMechanism(SCHEMA, with_own(blocks, np.array([[0]]), np.array([300.0]), quarters))
    )


def below(one: Any, other: Any) -> bool:
    """Whether what one mechanism tells is part of what another does, by their cost matrices."""
    apart = other.cost_matrix() - one.cost_matrix()
    return bool(np.linalg.eigvalsh(apart).min() > -1e-9 * np.abs(apart).max())


@pytest.mark.parametrize("noise", NOISE)
def test_the_same_rows_are_looked_at_once(noise: str) -> None:
    exact = noise == "discrete"
    coarse, fine = rough("product", exact), precise(exact)
    choice = nz.adaptive([coarse, fine])
    assert isinstance(choice.family, ByPrecisions)
    common = choice.common.mechanism
    # All of the rough plan is in the fine one.
    np.testing.assert_allclose(common.cost_matrix(), coarse.mechanism.cost_matrix(), rtol=1e-12)
    look = choice.look(COUNTS, seed=1)
    release = look.choose(fine)
    for query in fine.workload:
        np.testing.assert_allclose(release.variance(query), fine.variance(query), rtol=1e-6)
        assert np.abs(release.answer(query).estimate - query.dense() @ COUNTS.ravel()).max() < 2000
    assert release.plan.privacy.pcost <= fine.privacy.pcost * (1 + 1e-9)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("kind", ["product", "whole"])
def test_a_release_is_continued(noise: str, kind: str) -> None:
    exact = noise == "discrete"
    earlier = rough(kind, exact).release(COUNTS, seed=2)
    rest = precise(exact).given(earlier)
    assert rest.rest is not None
    # What was measured and what is left are the plan, and no more.
    both = earlier.plan.mechanism.cost_matrix() + rest.rest.mechanism.cost_matrix()
    np.testing.assert_allclose(both, precise(exact).mechanism.cost_matrix(), rtol=1e-4, atol=1e-9)
    release = rest.release(COUNTS, seed=3)
    for query in rest.plan.workload:
        np.testing.assert_allclose(release.variance(query), rest.plan.variance(query), rtol=1e-4)


@pytest.mark.parametrize("noise", NOISE)
def test_over_few_cells_other_rows_are_compared_as_matrices(noise: str) -> None:
    exact = noise == "discrete"
    plans = [rough("product", exact), other_rows(exact)]
    mechanisms = [plan.mechanism for plan in plans]
    assert isinstance(family_for(mechanisms, "add-remove"), ByMatrices)
    choice = nz.adaptive(plans)
    assert all(below(choice.common.mechanism, mechanism) for mechanism in mechanisms)


@pytest.mark.parametrize("noise", NOISE)
def test_over_many_cells_other_rows_are_crossed(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(which_family, "EXPLICIT_CELLS", 1)
    exact = noise == "discrete"
    plans = [rough("product", exact), other_rows(exact)]
    choice = nz.adaptive(plans)
    assert isinstance(choice.family, ByCrossing) and choice.family.frame.cells.names == ("a",)
    assert all(below(choice.common.mechanism, plan.mechanism) for plan in plans)
    for plan in plans:
        release = nz.adaptive(plans).look(COUNTS, seed=4).choose(plan)
        for query in plan.workload:
            np.testing.assert_allclose(release.variance(query), plan.variance(query), rtol=1e-6)
    later = plans[1].given(plans[0].release(COUNTS, seed=5)).release(COUNTS, seed=6)
    for plan in plans:
        for query in plan.workload:
            assert (later.variance(query) <= plan.variance(query) * (1 + 1e-6)).all()


@pytest.mark.parametrize("noise", NOISE)
def test_other_rows_have_nothing_in_common_over_too_many_cells(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (which_family, crossing):
        monkeypatch.setattr(module, "EXPLICIT_CELLS", 1)
    exact = noise == "discrete"
    plans = [rough("product", exact), other_rows(exact)]
    choice = nz.adaptive(plans)
    assert isinstance(choice.family, ByPrecisions)
    common = choice.common.mechanism
    assert isinstance(common, ResidualMechanism)
    assert common.block_on(["a"]) is None and common.block_on(["b", "c"]) is not None
    for plan in plans:
        assert below(common, plan.mechanism)
        release = nz.adaptive(plans).look(COUNTS, seed=4).choose(plans.index(plan))
        for query in plan.workload:
            np.testing.assert_allclose(release.variance(query), plan.variance(query), rtol=1e-6)
    earlier = plans[0].release(COUNTS, seed=5)
    with pytest.raises(PlanError, match=r"measure a by different rows.*Release the plan by"):
        plans[1].given(earlier)
