"""Figures of the matrix-mechanism dissertation, corrected where a recomputation showed misprints.

Source: C. Li, *Optimizing linear queries under differential privacy*, University of Massachusetts
Amherst, 2013. Corrections: the exponent of AllPredicate(1024), its swapped columns, ten factors of
two, the hierarchical entry of AllRange(2048) (Table 4.1); the names in the predicate row and the
whole CDF row (Table 5.2).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Ratios(NamedTuple):
    """Squared errors over the SVD bound; the bound on a range of cells over that on all."""

    bound: float  # or its power of ten, beyond doubles
    projected: float | None
    identity: float
    hierarchical: float
    wavelet: float
    eigen: float
    optimum: float | None


# Table 4.1; the optimum is not in the source.
TABLE_4_1: Final = {
    "AllRange(2048)": Ratios(3.03418e7, 1.00098, 47.2534, 1.7727, 1.5448, 1.0278, 1.01127),
    "AllRange(64, 32)": Ratios(2.26052e7, None, 12.1135, 2.9965, 1.8992, 1.1071, 1.04539),
    "AllRange(2, …, 2), ten twos": Ratios(524174.0, None, 2.0004, 2.0004, 2.0004, 1.0, 1.0),
    "AllPredicate(1024), × 10³¹⁰": Ratios(4.885, None, 1.8841, 6.2921, 3.4644, 1.0, 1.0),
}


class PerQuery(NamedTuple):
    """Root mean square error per query at ε = 0.5, δ = 10⁻⁴ (variance 79.2279 of unit noise)."""

    bound: float
    identity: float
    hierarchical: float
    wavelet: float
    eigen: float | None = None
    optimum: float | None = None


# All ranges over the domains of Table 5.1, of 2,048 cells each, and others of that size.
ALL_RANGES_PER_QUERY: Final = {
    (2048,): PerQuery(33.848, 232.678, 45.066, 42.070, 34.315, 34.038),
    (64, 32): PerQuery(40.383, 140.549, 69.904, 55.652, 42.490, 41.289),
    (8, 16, 16): PerQuery(39.259, 97.506, 77.701, 54.221),
    (8, 8, 16, 2): PerQuery(37.653, 83.919, 73.662, 51.899),
    (2,) * 11: PerQuery(29.579, 43.311, 43.311, 43.311),
}

# Plain k-way tables: the optimum, all cells measured, every table measured alone.
MARGINALS: Final = {
    ((8, 16, 16), 1): (109.723, 6144.0, 120.0),
    ((8, 16, 16), 2): (1360.607, 6144.0, 1536.0),
    ((8, 8, 16, 2), 1): (106.260, 8192.0, 136.0),
    ((8, 8, 16, 2), 2): (1522.421, 12288.0, 2304.0),
    ((2,) * 10, 2): (1669.058, 46080.0, 8100.0),
}


class Factors(NamedTuple):
    """Root errors over the eigen-design's: the bound, trees, wavelets, what else is compared."""

    bound: float
    hierarchical: float
    wavelet: float
    other: float | None = None


# Table 5.2, workload error. The predicate row's "other" is the Fourier basis.
TABLE_5_2: Final = {
    "1-way range marginals, 8×16×16": Factors(0.980, 1.97, 3.32),
    "2-way range marginals, 8×16×16": Factors(0.952, 1.624, 1.753),
    "prefix sums": Factors(0.781, 0.993, 0.988),
    "prefix sums, the optimum instead": Factors(0.987, 1.254, 1.248),
    "predicates, 8×16×16": Factors(1.000, 4.64, 1.940, 1.384),
}
# The first row depends on a random permutation: from the lowest seen in three to what is printed.
PERMUTED: Final = {"hierarchical": (12.77, 13.16), "wavelet": (9.50, 9.62)}
RANGE_MARGINAL_BOUNDS: Final = {1: 1993.88, 2: 453926.0}

# Section 5.3.4's speed-ups on all ranges of 1,024 cells: root error over the bound.
SEPARATED: Final = {
    4: 1.0173, 8: 1.0160, 16: 1.0155, 32: 1.0154, 64: 1.0157, 128: 1.0167, 256: 1.0177,
}  # fmt: skip
PRINCIPAL: Final = {
    1: 1.654, 2: 1.377, 3: 1.263, 6: 1.128, 12.5: 1.054, 25: 1.024, 50: 1.0155,
}  # fmt: skip

# Figure 5.4: root error over the eigen-design's.
DESIGN_SETS: Final = {
    "wavelets as they are": 1.226,
    "wavelets with the best weights": 1.208,
    "the same, ranges in random order": 4.79,
}
