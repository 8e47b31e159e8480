"""Every matrix class against brute force: a new class needs one line in `CASES`."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isabstract
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from depth import seeds
from noiseplan.errors import QueryError
from noiseplan.matrices import (
    CentringMatrix,
    DenseMatrix,
    GroupMatrix,
    HaarMatrix,
    IdentityMatrix,
    KroneckerMatrix,
    Matrix,
    PaddedMatrix,
    PermutedMatrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    SummedMatrix,
    TotalMatrix,
    Transform,
    TreeMatrix,
    UncentringMatrix,
    kronecker,
)
from noiseplan.matrices.base import exactly_equal_columns
from noiseplan.queries import Levels
from noiseplan.schema import Ordinal

SIZES = (1, 2, 7)


def brute_identity(n: int) -> NDArray[np.float64]:
    return np.array([[float(i == j) for j in range(n)] for i in range(n)])


def brute_prefix(n: int) -> NDArray[np.float64]:
    return np.array([[1.0 if j <= i else 0.0 for j in range(n)] for i in range(n)])


def brute_ranges(n: int) -> NDArray[np.float64]:
    """Intervals by length, then by where they start."""
    spans = [range(a, a + length) for length in range(1, n + 1) for a in range(n - length + 1)]
    return np.array([[float(j in span) for j in range(n)] for span in spans])


def brute_groups(n: int, width: int) -> NDArray[np.float64]:
    groups = range(-(-n // width))
    return np.array([[float(j // width == g) for j in range(n)] for g in groups])


def brute_halves(start: int, stop: int, n: int, level: int = 0) -> list[tuple[int, Any]]:
    """The level and the row of every node of a binary tree: its left half minus its right half."""
    if stop - start < 2:
        return []
    middle = (start + stop + 1) // 2
    row = [1.0 if start <= j < middle else -1.0 if middle <= j < stop else 0.0 for j in range(n)]
    left, right = (brute_halves(*ends, n, level + 1) for ends in ((start, middle), (middle, stop)))
    return sorted([(level, row), *left, *right], key=lambda node: node[0])


def brute_haar(n: int) -> NDArray[np.float64]:
    return np.array([[1.0] * n, *(row for _, row in brute_halves(0, n, n))])


def brute_tree(n: int, branching: int) -> NDArray[np.float64]:
    """From the values up, every few neighbours have a parent; the total comes first."""
    levels = [brute_identity(n)]
    while len(levels[0]) > 1:
        below = levels[0]
        groups = range(0, len(below), branching)
        levels.insert(0, np.array([below[g : g + branching].sum(axis=0) for g in groups]))
    return np.vstack(levels)


def _cases() -> Iterator[tuple[str, Matrix, NDArray[np.float64]]]:
    for n in SIZES:
        any_rows = np.random.default_rng(n).normal(size=(3, n))
        yield f"identity-{n}", IdentityMatrix(n), brute_identity(n)
        yield f"total-{n}", TotalMatrix(n), np.ones((1, n))
        yield f"prefix-{n}", PrefixMatrix(n), brute_prefix(n)
        yield f"ranges-{n}", RangesMatrix(n), brute_ranges(n)
        yield f"dense-{n}", DenseMatrix(any_rows), any_rows
        alike = np.tile(np.random.default_rng(n).integers(0, 2, size=(12, n)), (1, 3)).astype(float)
        yield f"dense-alike-{n}", DenseMatrix(alike), alike
        group = np.array([*range(n), *range(n)])[np.random.default_rng(n).permutation(2 * n)]
        yield f"groups-{n}", GroupMatrix(group), np.eye(n)[:, group]
        centred = n * brute_identity(n) - 1.0
        yield f"centring-{n}", CentringMatrix(n), centred
        yield f"centring-scaled-{n}", CentringMatrix(n, 0.25), 0.25 * centred
        undone = np.column_stack([np.full(n, 1.0 / n), centred / (0.25 * n * n)])
        yield f"uncentring-{n}", UncentringMatrix(n, 0.25), undone
        yield (
            f"stack-{n}",
            StackMatrix((DenseMatrix(any_rows), RangesMatrix(n), TotalMatrix(n), PrefixMatrix(n))),
            np.vstack([any_rows, brute_ranges(n), np.ones((1, n)), brute_prefix(n)]),
        )
        inner = StackMatrix((TotalMatrix(n), IdentityMatrix(n)))
        yield (
            f"stack-of-stacks-{n}",
            StackMatrix((inner, inner)),
            np.vstack([np.ones((1, n)), brute_identity(n)] * 2),
        )
        order = np.random.default_rng(n).permutation(n)
        moved = np.empty_like(brute_ranges(n))
        moved[:, order] = brute_ranges(n)
        yield f"permuted-{n}", PermutedMatrix(RangesMatrix(n), tuple(order.tolist())), moved
        wide = np.hstack([brute_ranges(n), np.zeros((len(brute_ranges(n)), 2))])
        yield f"padded-{n}", PaddedMatrix(RangesMatrix(n), n + 2), wide
        yield f"haar-{n}", HaarMatrix(n), brute_haar(n)
        yield f"tree-{n}", TreeMatrix(n), brute_tree(n, 2)
        yield f"tree-of-three-{n}", TreeMatrix(n, 3), brute_tree(n, 3)
        yield (
            f"levels-{n}",
            Levels(2, 3).matrix(Ordinal(range(n))),
            np.vstack([brute_identity(n), brute_groups(n, 2), brute_groups(n, 3), np.ones((1, n))]),
        )
        blocks = StackMatrix((TotalMatrix(2), DenseMatrix(any_rows[:, :1] * [[1.0, -2.0]])))
        by_hand = np.vstack([np.ones((1, 2)), any_rows[:, :1] * [[1.0, -2.0]]])
        yield (
            f"kronecker-{n}",
            KroneckerMatrix((PrefixMatrix(n), blocks)),
            np.array([np.outer(a, b).ravel() for a in brute_prefix(n) for b in by_hand]),
        )
        nested = KroneckerMatrix((RangesMatrix(2), KroneckerMatrix((DenseMatrix(any_rows),))))
        yield (
            f"kronecker-of-kronecker-{n}",
            nested,
            np.array([np.outer(a, b).ravel() for a in brute_ranges(2) for b in any_rows]),
        )
        yield f"kronecker-of-none-{n}", KroneckerMatrix(()), np.ones((1, 1))
        cells = list(np.ndindex(2, n, 3))
        table = np.random.default_rng(n).integers(-3, 4, size=(4, 6)).astype(float)
        yield (
            f"summed-{n}",
            SummedMatrix(DenseMatrix(table), (2, n, 3), (0, 2)),
            np.column_stack([table[:, 3 * a + c] for a, _, c in cells]),
        )
        yield (
            f"kronecker-alike-{n}",
            KroneckerMatrix((DenseMatrix(alike), TotalMatrix(2))),
            np.repeat(alike, 2, axis=1),
        )
        yield (
            f"summed-over-nothing-{n}",
            SummedMatrix(PrefixMatrix(n), (1, n), (1,)),
            brute_prefix(n),
        )


CASES = list(_cases())
every_matrix = pytest.mark.parametrize(
    ("matrix", "dense"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


def kinds_of(kind: type[Matrix]) -> set[type[Matrix]]:
    return {kind}.union(*map(kinds_of, kind.__subclasses__()))


def test_every_class_is_tested() -> None:
    """A matrix class that is missing from `CASES` fails here."""
    every = {kind for kind in kinds_of(Matrix) if not isabstract(kind)}
    # Other rooms have matrices of their own, and test them there.
    own = {kind for kind in every if kind.__module__.startswith("noiseplan.matrices.")}
    assert {type(matrix) for _, matrix, _ in CASES} == own


@every_matrix
def test_dense(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    assert matrix.shape == dense.shape
    assert matrix.dense().dtype == np.float64
    np.testing.assert_array_equal(matrix.dense(), dense)


@every_matrix
@pytest.mark.parametrize("trailing", [(), (1,), (3,), (2, 4), (0,)])
def test_matmul(matrix: Matrix, dense: NDArray[np.float64], trailing: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=(matrix.shape[1], *trailing))
    before = x.copy()
    product = matrix.matmul(x)
    expected = np.einsum("ri,i...->r...", dense, x)
    assert product.shape == (len(dense), *trailing)
    np.testing.assert_allclose(product, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(x, before)


@every_matrix
def test_matmul_of_memory_in_any_order(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    x = np.random.default_rng(1).normal(size=(5, matrix.shape[1], 4))
    np.testing.assert_allclose(
        matrix.matmul(np.moveaxis(x, 1, 0)), np.einsum("ri,aib->rab", dense, x), atol=1e-12
    )


@every_matrix
def test_gram(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(matrix.gram(), dense.T @ dense, rtol=0, atol=1e-12)


@every_matrix
@pytest.mark.parametrize("seed", seeds(3))
def test_quadratic_rows(matrix: Matrix, dense: NDArray[np.float64], seed: int) -> None:
    half = np.random.default_rng(seed).normal(size=(matrix.shape[1],) * 2)
    s = half + half.T  # symmetric and indefinite
    before = s.copy()
    expected = [row @ s @ row for row in dense]
    np.testing.assert_allclose(matrix.quadratic_rows(s), expected, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(s, before)


@every_matrix
@pytest.mark.parametrize("batch", [1, 3])
def test_forms_and_their_adjoint(matrix: Matrix, dense: NDArray[np.float64], batch: int) -> None:
    rng = np.random.default_rng(batch)
    half = rng.normal(size=(matrix.shape[1], matrix.shape[1], batch))
    t, u = half + half.swapaxes(0, 1), rng.normal(size=(len(dense), batch))
    forms, grams = matrix.forms(t), matrix.weighted_grams(u)
    np.testing.assert_allclose(forms, np.einsum("ri,ijb,rj->rb", dense, t, dense), atol=1e-10)
    np.testing.assert_allclose(grams, np.einsum("ri,rb,rj->ijb", dense, u, dense), atol=1e-10)
    np.testing.assert_array_equal(matrix.weighted_gram(u[:, 0]).shape, (matrix.shape[1],) * 2)
    np.testing.assert_allclose(matrix.weighted_gram(u[:, 0]), grams[..., 0], atol=1e-10)


@every_matrix
@pytest.mark.parametrize("written_out", [0, 2**18])
def test_column_kinds(
    matrix: Matrix, dense: NDArray[np.float64], written_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kronecker, "COMPARED", written_out)
    kinds = matrix.column_kinds()
    same = (dense[:, :, None] == dense[:, None, :]).all(axis=0)
    assert kinds.dtype == np.int64
    np.testing.assert_array_equal(kinds == 0, (dense == 0).all(axis=0))
    np.testing.assert_array_equal(kinds[:, None] == kinds, same)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_columns_are_equal_up_to_rounding_whatever_the_size_of_rows(
    rows: int, scale: float
) -> None:
    numbers = np.array([0.3, 0.0, 0.1 + 0.2, -0.0, 0.3 + 1e-11, 0.9]) * scale
    large = np.arange(6.0) // 5 * 1e20
    kinds = DenseMatrix(np.vstack([large, *[numbers] * rows])).column_kinds()
    assert kinds[1] == kinds[3] == 0 and kinds[0] == kinds[2]
    assert len({0, *kinds[[0, 4, 5]].tolist()}) == 4
    exact = exactly_equal_columns(np.tile(numbers, (rows, 1)))
    assert exact[1] == exact[3] and len(set(exact.tolist())) == 5


@every_matrix
def test_row_squares(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(matrix.row_squares(), (dense**2).sum(axis=1), atol=1e-11)


@every_matrix
def test_take(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    rows = np.random.default_rng(2).integers(-len(dense), len(dense), size=9)  # with repetition
    np.testing.assert_array_equal(matrix.take(rows), dense[rows])
    backwards = np.arange(len(dense))[::-1]
    np.testing.assert_array_equal(matrix.take(backwards), dense[::-1])
    assert matrix.take(np.zeros(0, dtype=np.intp)).shape == (0, matrix.shape[1])


@every_matrix
def test_take_columns(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    columns = np.random.default_rng(3).integers(-dense.shape[1], dense.shape[1], size=9)
    np.testing.assert_array_equal(matrix.take_columns(columns), dense[:, columns])


@every_matrix
def test_take_outside(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    for row in (len(dense), -len(dense) - 1):
        with pytest.raises(IndexError):
            matrix.take(np.array([row]))


@every_matrix
def test_results_may_be_written_to_without_changing_the_matrix(
    matrix: Matrix, dense: NDArray[np.float64]
) -> None:
    for result in (matrix.gram(), matrix.dense(), matrix.quadratic_rows(np.eye(matrix.shape[1]))):
        result += 1.0
    np.testing.assert_array_equal(matrix.dense(), dense)
    np.testing.assert_allclose(matrix.gram(), dense.T @ dense, atol=1e-12)


def test_rows_of_the_paper() -> None:
    """Spec E6: W_prefix(3) and W_range(3)."""
    assert PrefixMatrix(3).dense().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    rows = ["".join(str(int(v)) for v in row) for row in RangesMatrix(3).dense()]
    assert rows == ["100", "010", "001", "110", "011", "111"]


@pytest.mark.parametrize("n", SIZES)
def test_bounds_of_ranges(n: int) -> None:
    first, last = RangesMatrix(n).bounds()
    for row, a, b in zip(brute_ranges(n), first, last, strict=True):
        assert np.flatnonzero(row).tolist() == list(range(a, b + 1))


def test_large_matrices_are_applied_but_not_stored() -> None:
    n = 10_000
    big = StackMatrix((IdentityMatrix(n), PrefixMatrix(n), TotalMatrix(n)))
    x = np.arange(n, dtype=float)
    assert big.matmul(x)[[n - 1, 2 * n - 1, 2 * n]].tolist() == [n - 1, x.sum(), x.sum()]
    taken = big.take(np.array([3, n + 3, 2 * n]))
    assert taken.sum(axis=1).tolist() == [1, 4, n]
    with pytest.raises(QueryError, match=r"StackMatrix .*20,001 × 10,000.*take\(.*limit="):
        big.dense()


def test_the_limit_of_dense_can_be_moved() -> None:
    assert PrefixMatrix(3).dense(limit=9).shape == (3, 3)
    with pytest.raises(QueryError, match="above the limit of 8"):
        PrefixMatrix(3).dense(limit=8)


@pytest.mark.parametrize("kind", [IdentityMatrix, TotalMatrix, PrefixMatrix, RangesMatrix])
def test_equality_is_by_class_and_size(kind: Any) -> None:
    assert kind(3) == kind(3)
    assert hash(kind(3)) == hash(kind(3))
    assert kind(3) != kind(4)
    assert all(kind(3) != other(3) for other in (IdentityMatrix, PrefixMatrix) if other is not kind)


@pytest.mark.parametrize("kind", [IdentityMatrix, TotalMatrix, PrefixMatrix, RangesMatrix])
def test_no_columns(kind: Any) -> None:
    with pytest.raises(QueryError, match="at least one column, found 0"):
        kind(0)


def test_what_is_no_matrix() -> None:
    with pytest.raises(QueryError, match=r"two-dimensional array, found shape \(3,\)"):
        DenseMatrix(np.ones(3))
    with pytest.raises(QueryError, match="at least one column"):
        DenseMatrix(np.ones((3, 0)))
    with pytest.raises(QueryError, match="at least one block"):
        StackMatrix(())
    with pytest.raises(QueryError, match=r"equal width; found widths \[2, 3\]"):
        StackMatrix((TotalMatrix(2), TotalMatrix(3)))


@every_matrix
def test_transforms_solve_least_squares(matrix: Matrix, dense: NDArray[np.float64]) -> None:
    if not isinstance(matrix, Transform):
        return
    y = np.random.default_rng(5).normal(size=(len(dense), 2, 3))
    solved = np.tensordot(np.linalg.pinv(dense), y, axes=1)
    np.testing.assert_allclose(matrix.recover(y), solved, atol=1e-12)
    np.testing.assert_allclose(matrix.profile, np.linalg.inv(dense.T @ dense), atol=1e-12)
    assert matrix.touched == np.abs(dense).sum(axis=0).max() == (dense**2).sum(axis=0).max()
    whole = np.arange(dense.shape[1])
    assert matrix.sums(whole).dtype == whole.dtype  # integers stay integers


def test_a_profile_too_large_is_refused() -> None:
    with pytest.raises(QueryError, match="at most 8,192 values"):
        _ = HaarMatrix(8193).profile
    with pytest.raises(QueryError, match="2 or more, found 1"):
        TreeMatrix(4, branching=1)
