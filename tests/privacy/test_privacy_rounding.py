"""Outward arithmetic against exact fractions."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from depth import examples
from noiseplan.privacy import rounding

repeatable = examples(200)
numbers = st.floats(allow_nan=False, allow_infinity=False)
ordinary = st.floats(-1e100, 1e100)
costs = st.floats(0, 1e300)


def is_least_above(found: float, exact: Fraction) -> bool:
    """found ≥ exact, and the float before found is not."""
    return Fraction(found) >= exact > Fraction(math.nextafter(found, -math.inf))


def test_steps() -> None:
    assert rounding.up(1.0, 3) == 1.0 + 3 * math.ulp(1.0)
    assert rounding.down(2.0, 2) == 2.0 - 2 * math.ulp(1.0)
    assert rounding.up(0.0) == math.ulp(0.0)
    assert rounding.up(sys.float_info.max) == math.inf == rounding.up(math.inf)
    assert rounding.up(5.0, 0) == rounding.down(5.0, 0) == 5.0


@repeatable
@given(st.lists(ordinary, max_size=30))
def test_sum_up(values: list[float]) -> None:
    assert is_least_above(rounding.sum_up(values), sum(map(Fraction, values), Fraction(0)))


def test_sum_up_at_the_ends() -> None:
    assert rounding.sum_up([]) == 0.0
    assert rounding.sum_up([1.0, math.inf]) == math.inf
    assert rounding.sum_up([1e308] * 3) == math.inf
    assert rounding.sum_up(iter([0.5, 0.25])) == 0.75
    assert rounding.sum_up([1.0, 1e-300]) == 1.0 + math.ulp(1.0)


@repeatable
@given(st.lists(ordinary, min_size=1, max_size=3))
def test_products(values: list[float]) -> None:
    exact = math.prod(map(Fraction, values), start=Fraction(1))
    assume(abs(exact) < Fraction(sys.float_info.max))
    assert is_least_above(rounding.product_up(*values), exact)
    assert is_least_above(-rounding.product_down(*values), -exact)


def test_products_at_the_ends() -> None:
    largest, least = sys.float_info.max, math.ulp(0.0)
    assert rounding.product_up(1e200, 1e200) == math.inf
    assert rounding.product_down(1e200, 1e200) == largest
    assert rounding.product_up(1e200, -1e200) == -largest
    assert rounding.product_up(1e-200, 1e-200) == least
    assert rounding.product_down(1e-200, 1e-200) == 0.0
    assert rounding.product_up(2.0, math.inf) == rounding.product_down(2.0, math.inf) == math.inf
    assert rounding.product_up() == rounding.product_down() == 1.0


@repeatable
@given(ordinary, ordinary.filter(lambda x: abs(x) > 1e-100))
def test_quotient_up(numerator: float, denominator: float) -> None:
    exact = Fraction(numerator) / Fraction(denominator)
    assert is_least_above(rounding.quotient_up(numerator, denominator), exact)


@repeatable
@given(costs)
def test_sqrt_up(x: float) -> None:
    root = rounding.sqrt_up(x)
    assert Fraction(root) ** 2 >= Fraction(x)
    assert x == 0 or Fraction(math.nextafter(root, 0)) ** 2 < Fraction(x)


def test_sqrt_up_at_the_ends() -> None:
    assert rounding.sqrt_up(math.inf) == math.inf
    assert rounding.sqrt_up(0.0) == 0.0
    assert rounding.sqrt_up(2.25) == 1.5


@repeatable
@given(numbers.map(abs))
def test_text_up_reads_back_no_lower(x: float) -> None:
    shown = Decimal(rounding.text_up(x))
    assert shown >= Decimal(repr(x))
    assert float(shown) <= x * (1 + 1.1e-5) + 1e-320


@repeatable
@given(st.floats(1e-12, 1e12), st.integers(2, 6))
def test_a_cost_is_never_shown_below_itself(x: float, digits: int) -> None:
    for near in (x, math.nextafter(x, math.inf), x * (1 + 1e-13), float(f"{x:.3g}") * (1 + 1e-15)):
        shown = Decimal(rounding.text_up(near, digits))
        assert shown >= Decimal(repr(near))
        assert Decimal(rounding.text_down(near, digits)) <= Decimal(repr(near)) <= shown
        assert float(rounding.text_of(near)) == near


@repeatable
@given(st.floats(1e-300, 1e300))
def test_square_roots_below(x: float) -> None:
    root = rounding.sqrt_down(x)
    assert Fraction(root) ** 2 <= Fraction(x) < Fraction(math.nextafter(root, math.inf)) ** 2


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (0.5, "0.5"),
        (1.0, "1"),
        (1.0000001, "1.00001"),
        (0.09**0.5, "0.3"),
        (0.1 + 0.2, "0.300001"),
        (123456.7, "123457"),
        (1e-6, "1e-6"),
        (2.5e12, "2.5e+12"),
        (math.inf, "∞"),
    ],
)
def test_text_up(x: float, text: str) -> None:
    assert rounding.text_up(x) == text
