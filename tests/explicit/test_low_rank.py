"""Roots and eigenvectors of low rank and of halves, and optima that rest on them."""

from __future__ import annotations

import numpy as np
import pytest

from noiseplan.matrices import PrefixMatrix, RangesMatrix
from noiseplan.optimize import gram_roots
from noiseplan.optimize.fitness import least_cost
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.priced_rows import FormulaRows, WrittenRows
from noiseplan.strategies.column_norms import total_error
from noiseplan.strategies.eigen import separated_design


def gram_of_rank(rank: int, cells: int) -> np.ndarray:
    random = np.random.default_rng(rank)
    rows = random.normal(size=(2 * rank, rank)) @ random.integers(-1, 2, size=(rank, cells))
    return np.asarray(rows.T @ rows)


def test_the_root_of_a_low_rank_is_a_root() -> None:
    gram = gram_of_rank(7, 520)
    root = gram_roots.low_rank_root(gram)
    assert root is not None
    assert root.shape == (7, 520)
    np.testing.assert_allclose(root.T @ root, gram, atol=1e-9 * gram.max())
    assert gram_roots.low_rank_root(gram_of_rank(100, 520)) is None
    assert gram_roots.low_rank_root(gram[:50, :50]) is None  # small: nothing to be gained


def test_eigenvectors_of_a_low_rank_are_those_of_the_matrix() -> None:
    gram = gram_of_rank(7, 520)
    values, vectors = gram_roots.eigen(gram)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(gram)[-7:], rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(7), atol=1e-9)
    np.testing.assert_allclose(gram @ vectors, vectors * values, atol=1e-9 * values[-1])


@pytest.mark.parametrize("cells", [30, 31])
@pytest.mark.parametrize("kind", [RangesMatrix, PrefixMatrix])  # with the symmetry, and without
def test_eigenvectors_of_halves_are_those_of_the_matrix(
    cells: int, kind: type[RangesMatrix] | type[PrefixMatrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    gram = kind(cells).gram()
    plain = total_error(separated_design(gram, 4), gram)
    monkeypatch.setattr(gram_roots, "HALVED", 8)
    values, vectors = gram_roots.eigen(gram)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(gram), rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(cells), atol=1e-12)
    np.testing.assert_allclose(gram @ vectors, vectors * values, atol=1e-9 * values[-1])
    assert total_error(separated_design(gram, 4), gram) == pytest.approx(plain, rel=1e-6)


def test_the_optimum_of_a_low_rank_is_certified_without_filling_up() -> None:
    gram = gram_of_rank(5, 520)
    best = dense_optimum(gram, 1e-6)
    assert best.gap <= 1e-6
    assert np.einsum("ri,ri->i", best.strategy, best.strategy).max() <= 1 + 1e-9
    assert total_error(best.strategy, gram) <= best.value * (1 + 1e-9)
    weights = np.sqrt(best.weights)
    root = np.linalg.svd(gram_roots.low_rank_root(gram) * weights, compute_uv=False).sum()
    assert root**2 == pytest.approx(best.bound, rel=1e-9)


def test_formulas_and_written_rows_answer_alike() -> None:
    random = np.random.default_rng(1)
    parts = tuple((m, random.normal(size=(6, 3))) for m in (RangesMatrix(6), PrefixMatrix(6)))
    scale = random.uniform(0.5, 2.0, size=27)
    written = np.concatenate([m.dense() @ p for m, p in parts]) * scale[:, None]
    formulas, rows = FormulaRows(parts, scale), WrittenRows(written)
    prices, factor = random.uniform(size=27), random.normal(size=(3, 3))
    assert formulas.count == rows.count == 27
    np.testing.assert_allclose(formulas.moments(prices), rows.moments(prices), rtol=1e-9)
    np.testing.assert_allclose(formulas.variances(factor), rows.variances(factor), rtol=1e-9)


def test_one_row_over_many_cells_needs_no_search() -> None:
    """A single sum with variance one costs its largest entry squared."""
    row = np.arange(1.0, 601.0)[None]
    assert least_cost(row).cost == pytest.approx(600.0**2, rel=1e-6)
