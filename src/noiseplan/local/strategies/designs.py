"""Block designs: few subsets that act like all subsets of a size.

The histogram is best served by subset selection, whose C(n, k) outputs are out of reach. But X only
depends on how often two types lie in a subset together, and over a finite field with n elements the
images of any k-subset B under u ↦ a u + b hold every pair equally often: the affine maps carry any
pair to any pair in exactly one way. So the n − 1 patterns a B, with all their shifts by b, have the
same X as all subsets of size k, hence the same variances.

References
----------
Park, Nam and Lee (2023), "Exactly optimal and communication-efficient private estimation via block
designs", for the use of designs.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.local.strategies.shifts import Group

Bits = NDArray[np.bool_]


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
    powers run through all of them, or for degree one the first primitive root.
    """
    count = prime**degree - 1
    if degree == 1:
        for g in range(1, prime):
            residues = [pow(g, j, prime) for j in range(count)]
            if len(set(residues)) == count:
                return np.array(residues, dtype=np.int64)
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
