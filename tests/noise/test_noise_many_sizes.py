"""Many sizes side by side: each draw has the exact law of its own size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise_scripts import leading_bits
from scipy import stats
from test_noise_coarse_fine import ONES, OneCell, exact_g

from depth import examples
from noiseplan.noise import Noise, SeededSource
from noiseplan.noise.inversion import LARGEST, InversionTable
from noiseplan.noise.law import _FEW_DRAWS, _MANY_SIZES
from noiseplan.noise.many_sizes import SMALLEST, ManySizes

SIZES = np.array([SMALLEST, 0.3, 1.0, 45.5, 47.1, 300.0, 1.2e6, 1.7e6 + 1 / 3, 3e9, 2.0**90])
LAWS = pytest.mark.parametrize("gaussian", [True, False], ids=["Gaussian", "Laplace"])


def laws(gaussian: bool, sizes: np.ndarray = SIZES) -> ManySizes:
    return ManySizes.of(gaussian, sizes if gaussian else np.sqrt(sizes))


def table_of(many: ManySizes, law: int) -> InversionTable:
    tables, number = many._tables()
    return tables[number[law]]


@LAWS
@examples(200)
@given(st.floats(SMALLEST, 2.0**96))
def test_envelopes_are_below_and_tables_short(gaussian: bool, size: float) -> None:
    """E₀(c) ≤ E(cB) in exact fractions, within an eighth, and nothing overflows."""
    many = laws(gaussian, np.array([size]))
    table, shift = table_of(many, 0), int(many.shift[0])
    coarse = many._energy(0).coarsened(1 << shift)
    for mine, below in (
        (coarse.square, table.energy.square),
        (coarse.linear, table.energy.linear),
    ):
        assert below <= mine <= below * Fraction(9, 8) * (1 + Fraction(1, 2**40))
    assert LARGEST << shift <= 2**62 and shift <= 44
    assert table.lower.size < 1200
    assert table.energy.at(table.lower.size - 1) < 2**8


@LAWS
def test_exponents_in_floats_are_within_their_bound(gaussian: bool) -> None:
    many, random = laws(gaussian), np.random.default_rng(0)
    for law in range(len(SIZES)):
        table, shift = table_of(many, law), int(many.shift[law])
        cells = random.integers(0, table.lower.size, 200)
        rest = random.integers(0, 1 << shift, 200)
        found = many._exponents(table, np.full(200, law), cells, rest)
        for c, r, t in zip(cells.tolist(), rest.tolist(), found.tolist(), strict=True):
            exact = many._energy(law).at((c << shift) + r) - table.energy.at(c)
            assert abs(Fraction(t) - exact) <= Fraction(1, 2**44) + exact * Fraction(10, 2**53)
        beyond = many._exponents(table, np.array([law]), np.array([table.lower.size]), rest[:1])
        assert beyond.tolist() == [np.inf]


@LAWS
@pytest.mark.parametrize("cell", [0, 1, 7, 40])
@pytest.mark.parametrize("law", [2, 3, 5, 6, 9])
def test_acceptance_of_a_cell_exhausted(gaussian: bool, law: int, cell: int) -> None:
    """All first looks at V for one (c, r): accepted in the share exp(−t), to within one word."""
    many = laws(gaussian)
    table, shift = table_of(many, law), int(many.shift[law])
    remainder = ((1 << shift) - 1) // 2
    exponent = many._energy(law).at((cell << shift) + remainder) - table.energy.at(cell)
    threshold = float(2**16 * exact_g(exponent))
    looks = np.arange(2**16, dtype=np.uint64)
    if threshold > 2**14:
        looks = looks[(np.abs(looks - threshold) < 300) | (looks % 97 == 0)]
    words = (looks << 48) | np.uint64(remainder)
    first = [words.astype("<u8").tobytes()]

    class First(SeededSource):
        def read(self, count: int) -> bytes:
            return first.pop(0) if first else super().read(count)

    stub = OneCell(table.energy, cell)
    stub.__dict__["lower"] = table.lower
    of = np.full(looks.size, law)
    values, accepted = many._tries(stub, of, First(1))  # type: ignore[arg-type]
    assert set(values.tolist()) == {(cell << shift) + remainder}
    surely, perhaps = (looks >= threshold).sum(), (looks + 1 > threshold).sum()
    assert surely <= accepted.sum() <= perhaps <= surely + 1


def test_ties_are_resolved_by_further_bits() -> None:
    """80 bits of V equal to those of g, in a batch of sizes: further bits decide, each for one."""
    many = laws(True)
    law, cell = 6, 30
    table, shift = table_of(many, law), int(many.shift[law])
    rest = (1 << shift) // 3
    g = exact_g(many._energy(law).at((cell << shift) + rest) - table.energy.at(cell))
    word, next_word = leading_bits(g, 80), leading_bits(g, 144) & ONES
    stub = OneCell(table.energy, cell)
    stub.__dict__["lower"] = table.lower
    for further, expected in ((next_word - 2, False), (next_word + 2, True)):
        reads = [
            np.array([(word >> 64) << 48 | rest], "<u8").tobytes(),
            np.array([word & ONES], "<u8").tobytes(),
            np.array([further], "<u8").tobytes(),
        ]

        class Script(SeededSource):
            left = reads

            def read(self, count: int) -> bytes:
                assert count == len(self.left[0])
                return self.left.pop(0)

        _, accepted = many._tries(stub, np.array([law]), Script(1))  # type: ignore[arg-type]
        assert accepted.tolist() == [expected]
        assert not reads


@LAWS
@pytest.mark.parametrize("size", [0.3, 1.0, 47.1, 300.0, 4000.0])
def test_draws_among_others_have_their_law(gaussian: bool, size: float) -> None:
    """χ² against the masses, drawn between draws of other sizes."""
    many = laws(gaussian, np.array([size, size * 1.02, size * 40.0]))
    of = np.tile([0, 1, 2, 0], 100_000)
    drawn = many.draw(of, SeededSource(5))[of == 0]
    reach = int(12 * max(1.0, np.sqrt(size)))
    k = np.arange(-reach, reach + 1)
    scale = many.sizes[0]
    mass = np.exp(-(k**2) / (2 * scale)) if gaussian else np.exp(-np.abs(k) / scale)
    expected = drawn.size * mass / mass.sum()
    kept = expected > 10
    found = np.array([(drawn == value).sum() for value in k])
    observed = np.append(found[kept], drawn.size - found[kept].sum())
    wanted = np.append(expected[kept], drawn.size - expected[kept].sum())
    chi2 = float(((observed - wanted)[wanted > 5] ** 2 / wanted[wanted > 5]).sum())
    assert 1e-4 < stats.chi2.sf(chi2, int((wanted > 5).sum()) - 1) < 1 - 1e-4


def test_minus_zero_is_refused() -> None:
    """Else zero would come twice as often."""
    many = laws(True, np.array([1.0]))
    drawn = many.draw(np.zeros(200_000, dtype=np.int64), SeededSource(2))
    mass = 1 / (1 + 2 * sum(np.exp(-(k**2) / 2) for k in range(1, 12)))
    assert (drawn == 0).mean() == pytest.approx(mass, abs=0.005)


def test_noise_puts_every_size_where_it_belongs() -> None:
    """Common sizes by themselves, rare ones side by side; all columns as they were asked for."""
    rare = np.geomspace(1.0, 1e8, 3 * _MANY_SIZES)
    sizes = np.concatenate([rare, np.full(50, 4.0), [0.0], np.full(50, 1e12)])
    sizes = np.random.default_rng(1).permutation(sizes)
    noise, rows = Noise("gaussian", sizes, exact=True), _FEW_DRAWS // 4
    drawn = np.asarray(noise.draw((2, rows, len(sizes)), SeededSource(3)))
    assert drawn.dtype == np.int64
    spread = (drawn.reshape(-1, len(sizes)).astype(float) ** 2).mean(axis=0)
    # A χ² with 500 degrees of freedom has a standard deviation of 6 % of its mean.
    np.testing.assert_allclose(spread, noise.variance, rtol=0.35)
    flat = drawn.reshape(-1, len(sizes))[:, sizes > 0] / np.sqrt(sizes[sizes > 0])
    correlation = np.corrcoef(flat.T)[np.triu_indices((sizes > 0).sum(), 1)]
    assert np.abs(correlation).max() < 6 / np.sqrt(2 * rows)


def test_the_same_bits_whatever_else_is_known() -> None:
    sizes = np.geomspace(10.0, 1e9, 100)
    noise = Noise("laplace", sizes, exact=True)
    once, again = (noise.draw((3, 100), SeededSource(9)) for _ in range(2))
    assert np.array_equal(np.asarray(once), np.asarray(again))
