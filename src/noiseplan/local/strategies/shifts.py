"""Strategies made of all shifts of a few patterns, for workloads that every shift leaves alike.

Types are the elements of an abelian group, a product of cyclic ones (the cells of a table, each
attribute running around a circle). Output (r, s) is the pattern r shifted by s:

    Q[(r, s), u] = (v_r / σ_r) p_r(u − s) ,   p_r in {1, e}, σ_r its sum, v_r its chance.

Columns sum to one by themselves, X commutes with shifts, and so its eigenvectors are the characters
of the group, with eigenvalues

    λ_χ = Σ_r v_r n |p̂_r(χ)|² / σ_r² .

Plain tables of categories (marginals) are such workloads. Averaging over the group costs nothing
there, since the objective is convex in X, so the optimum is of this form; one pattern in the file
stands for n outputs, and worst and average case coincide.

Block designs are few subsets that act like all subsets of a size. The histogram is best served by
subset selection, whose C(n, k) outputs are out of reach. But X only depends on how often two types
lie in a subset together, and over a finite field with n elements the images of any k-subset B under
u ↦ a u + b hold every pair equally often: the affine maps carry any pair to any pair in exactly one
way. So the n − 1 patterns a B, with all their shifts by b, have the same X as all subsets of size
k, hence the same variances.

References
----------
Park, Nam and Lee (2023), "Exactly optimal and communication-efficient private estimation via block
designs", for the use of designs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import exp, prod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import UnanswerableError
from noiseplan.local.device.counting_randomizers import ShiftRandomizer
from noiseplan.local.device.integer_chances import high_chances, rounded_shares
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.strategies.strategy import EIGENVALUE_FLOOR, OUTSIDE, Strategy
from noiseplan.matrices.base import Array
from noiseplan.schema import Schema

Spectrum = NDArray[np.complex128]
Bits = NDArray[np.bool_]


@immutable
@dataclass(frozen=True)
class Group:
    """A product of cyclic groups; its elements are numbered as cells, the last axis fastest."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @cached_property
    def differences(self) -> IntArray:
        """Element number of u − s in row s, column u (size × size)."""
        axes = np.unravel_index(np.arange(self.size), self.shape)
        apart = [(a[None, :] - a[:, None]) % n for a, n in zip(axes, self.shape, strict=True)]
        return np.ravel_multi_index(apart, self.shape).astype(np.int64)

    def transform(self, rows: Array) -> Spectrum:
        """The Fourier transform of each row."""
        cubes = rows.reshape(-1, *self.shape)
        spectrum = np.fft.fftn(cubes, axes=tuple(range(1, cubes.ndim)))
        return spectrum.reshape(rows.shape)

    def back(self, spectra: Spectrum) -> Array:
        """The inverse transform of each row, real part."""
        cubes = spectra.reshape(-1, *self.shape)
        rows = np.fft.ifftn(cubes, axes=tuple(range(1, cubes.ndim)))
        return np.ascontiguousarray(rows.real).reshape(spectra.shape)

    def leaves_alike(self, gram: Array) -> bool:
        """Whether G[u, v] depends on v − u only."""
        if gram.shape[0] != self.size:
            return False
        return np.allclose(gram, gram[0][self.differences], rtol=1e-9, atol=1e-9 * gram[0, 0])

    def eigenvalues(self, gram: Array) -> Array:
        """χ*Gχ/n of each character: the eigenvalues of G if shifts leave it alike."""
        spectrum = self.transform(gram[:1])[0] if self.leaves_alike(gram) else self._forms(gram)
        values: Array = np.maximum(spectrum.real, 0.0)
        values[values < EIGENVALUE_FLOOR * values.max()] = 0.0
        return values

    def _forms(self, gram: Array) -> Any:
        once = self.transform(gram)  # along rows; then the diagonal of the transform of columns
        return np.diagonal(self.transform(np.conj(once).T.copy())) / self.size


def groups_of(shape: tuple[int, ...]) -> list[Group]:
    """The groups to try on a table of this shape: circles, and bits where cells are 2^d."""
    circles = Group(shape)
    bits = circles.size.bit_length() - 1
    if circles.size == 1 << bits and bits and shape != (2,) * bits:
        return [Group((2,) * bits), circles]
    return [circles]


@final
@immutable
@dataclass(frozen=True, eq=False)
class ShiftStrategy(Strategy):
    """All shifts of some patterns.

    Parameters
    ----------
    group
        What the types are.
    patterns
        Where each pattern is high (patterns × n).
    chances
        v, how often each pattern is used.
    """

    group: Group
    patterns: Bits
    chances: Array
    epsilon: float
    name: str = "shifted patterns"

    @property
    def types(self) -> int:
        return self.group.size

    @property
    def outputs(self) -> int:
        return self.patterns.size

    @cached_property
    def rows(self) -> Array:
        """a of the unshifted patterns: n p_r / σ_r."""
        levels = np.where(self.patterns, exp(self.epsilon), 1.0)
        scaled: Array = levels * (self.types / levels.sum(axis=1, keepdims=True))
        return scaled

    @cached_property
    def _spectra(self) -> Spectrum:
        return self.group.transform(self.rows)

    @cached_property
    def eigenvalues(self) -> Array:
        """λ_χ of X."""
        return np.asarray(self.chances @ np.abs(self._spectra) ** 2 / self.types)

    @cached_property
    def _inverted(self) -> Array:
        # The first one belongs to the total, and is 1; the others are of size ε².
        floor = max(EIGENVALUE_FLOOR * float(self.eigenvalues[1:].max(initial=0.0)), 1e-300)
        return np.where(self.eigenvalues > floor, 1 / np.maximum(self.eigenvalues, floor), 0.0)

    @property
    def tells_all_apart(self) -> bool:
        return bool((self._inverted > 0).all())

    @cached_property
    def information(self) -> Array:
        kernel = self.group.back(self.eigenvalues.astype(complex)[None, :])[0]
        return np.asarray(kernel[self.group.differences])

    def applied(self, rows: Array) -> Array:
        return self.group.back(self.group.transform(rows) * self.eigenvalues)

    def coefficients(self, rows: Array) -> Array:
        found = self.group.back(self.group.transform(rows) * self._inverted)
        missed = np.abs(self.applied(found) - rows).max(axis=1)
        if (missed > OUTSIDE * np.abs(rows).max(axis=1)).any():
            raise UnanswerableError(
                "some rows lie outside what this strategy measures; add the query to the workload "
                "and plan again"
            )
        return found

    def moments(self, rows: Array) -> Array:
        result = np.zeros(rows.shape)
        for row, total in zip(rows, result, strict=True):
            # c·a_{r,s} for all shifts s at once is a correlation; Q then spreads it back.
            spread = self.group.transform(self._scores(row) ** 2) * self._spectra
            total[:] = self.group.back((self.chances @ spread)[None, :])[0] / self.types
        return result

    def score_ends(self, rows: Array) -> tuple[Array, Array]:
        ends = [(float(s.min()), float(s.max())) for s in map(self._scores, rows)]
        low, high = np.array(ends).reshape(-1, 2).T
        return low, high

    def cross_moments(self, left: Array, right: Array, counts: Array) -> Array:
        # How often each output is expected: correlations of x with the patterns.
        expected = self._scores(counts) * (self.chances / self.types)[:, None]
        theirs = [self._scores(row) for row in right]
        result = np.empty((len(left), len(right)))
        for i, row in enumerate(left):
            mine = self._scores(row) * expected
            result[i] = [np.vdot(mine, other) for other in theirs]
        return result

    def _scores(self, row: Array) -> Array:
        return self.group.back(self.group.transform(row[None, :]) * np.conj(self._spectra))

    def total_moments(self, gram: Array) -> Array:
        if not self.group.leaves_alike(gram):
            return super().total_moments(gram)
        values = self.group.eigenvalues(gram)
        if (values[self._inverted == 0] > 0).any():
            raise UnanswerableError(f"the strategy {self.name!r} cannot answer this workload")
        return np.full(self.types, float(values @ self._inverted))

    def estimate(self, tally: IntArray) -> Array:
        spectrum = self.group.transform(self.evidence(tally)[None]) * self._inverted
        return np.asarray(self.group.back(spectrum)[0])

    def evidence(self, tally: IntArray) -> Array:
        # Σ y_{r,s} a_r(u − s): a convolution of each pattern with its tally.
        counted = tally.reshape(self.patterns.shape).astype(np.float64)
        spectra = (self.group.transform(counted) * self._spectra).sum(axis=0)
        return np.asarray(self.group.back(spectra[None, :])[0])

    def randomizer(self, schema: Schema, cells: IntArray | None) -> Randomizer:
        high = high_chances(self.patterns.sum(axis=1), self.types, self.epsilon)
        shares = rounded_shares(self.chances)
        return ShiftRandomizer(schema, cells, self.group.shape, self.patterns, shares, high)

    def table(self) -> Array:
        """Q explicitly, outputs × types: for small domains and for tests."""
        scaled = (self.chances / self.types)[:, None] * self.rows
        shifted: Array = scaled[:, self.group.differences]
        return shifted.reshape(self.outputs, self.types)


# ------------------------------------------------------------------------------ block designs


def prime_power(number: int) -> tuple[int, int] | None:
    """p and r with number = p^r, or None.

    Examples
    --------
    >>> prime_power(64), prime_power(49), prime_power(7), prime_power(12)
    ((2, 6), (7, 2), (7, 1), None)
    """
    if number < 2:
        return None
    prime = next((p for p in range(2, int(number**0.5) + 1) if number % p == 0), number)
    power, rest = 0, number
    while rest % prime == 0:
        rest, power = rest // prime, power + 1
    return (prime, power) if rest == 1 else None


def affine_design(types: int, size: int) -> tuple[Group, Bits] | None:
    """The group and the n − 1 patterns a·B of a k-subset B; None if no field has n elements."""
    found = prime_power(types)
    if found is None:
        return None
    prime, degree = found
    group = Group((prime,) * degree)
    powers = _powers_of_a_generator(prime, degree, group)
    # B = {0, g⁰, g¹, …} or without 0: multiplying by gʲ shifts exponents.
    exponents = np.arange(size)
    shapes = np.zeros((types - 1, types), dtype=bool)
    for j in range(types - 1):
        shapes[j, powers[(exponents + j) % (types - 1)]] = True
    return group, shapes


def _powers_of_a_generator(prime: int, degree: int, group: Group) -> IntArray:
    """g⁰, g¹, … of an element g that generates all but zero, as numbers of the group's elements.

    Elements are polynomials over the prime field; g is x modulo the first polynomial for which its
    powers run through all of them, which for degree one is the first primitive root.
    """
    count = prime**degree - 1
    for low in product(range(prime), repeat=degree):
        digits = tuple(_powers_of_x(prime, np.array(low), count).T[::-1])
        numbers = np.asarray(np.ravel_multi_index(digits, group.shape))
        if len(np.unique(numbers)) == count and numbers.min() > 0:
            return numbers.astype(np.int64)
    raise AssertionError(f"no primitive polynomial of degree {degree} over {prime}")


def _powers_of_x(prime: int, low: IntArray, count: int) -> IntArray:
    """Coefficients of xʲ modulo x^degree − Σ low_i xⁱ, one row per j."""
    element = np.zeros(len(low), dtype=np.int64)
    element[0] = 1
    rows = np.empty((count, len(low)), dtype=np.int64)
    for j in range(count):
        rows[j] = element
        element = (np.append(0, element[:-1]) + element[-1] * low) % prime
    return rows
