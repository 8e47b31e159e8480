"""What the samplers accept and refuse, and where their bits come from."""

from __future__ import annotations

import doctest
import importlib
import os
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from noiseplan.errors import NoiseError, NoiseplanError
from noiseplan.noise import (
    SeededSource,
    Source,
    StreamSource,
    SystemSource,
    discrete_gaussian,
    discrete_laplace,
)
from noiseplan.noise.discrete import LARGEST_SCALE, LARGEST_VARIANCE

both = pytest.mark.parametrize("draw", [discrete_gaussian, discrete_laplace])
NOT_NUMBERS = [
    float("nan"), float("inf"), -float("inf"), -1, -0.5, Fraction(-1, 3), "1", b"1", True, False,
    None, 1j, [1.0], np.array([1.0, 2.0]), Decimal("0.5"), np.bool_(True), np.longdouble(1),
    -(10**5000),
]  # fmt: skip
NOT_SIZES = [
    -1, 1.0, 2.5, True, None, "3", [2, 3], (2, -1), (2, 1.0), (True,), ((2,), 3), np.array(3.0),
]  # fmt: skip


@both
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda v: type(v).__name__)
def test_a_bad_parameter_is_refused(draw: Any, value: object) -> None:
    with pytest.raises(NoiseError, match=r"must be a finite number at least 0.*got") as caught:
        draw(value, 3)
    assert isinstance(caught.value, NoiseplanError)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith("variance" if draw is discrete_gaussian else "scale")


@both
@pytest.mark.parametrize("size", NOT_SIZES, ids=repr)
def test_a_bad_size_is_refused(draw: Any, size: object) -> None:
    with pytest.raises(NoiseError, match="size must be an integer at least 0 or a tuple"):
        draw(1, size)


@pytest.mark.parametrize("value", [LARGEST_VARIANCE + 1, 1e300, Fraction(10) ** 5000])
def test_a_law_too_wide_for_64_bits_is_refused(value: float) -> None:
    with pytest.raises(NoiseError, match="within 64 bits: σ² ≤ 2⁹⁶"):
        discrete_gaussian(value, 1)
    with pytest.raises(NoiseError, match="within 64 bits: scale ≤ 2⁴⁸"):
        discrete_laplace(value, 1)


def test_the_widest_laws_work() -> None:
    wide = discrete_gaussian(LARGEST_VARIANCE, 10**5, source=SeededSource(1)) / 2.0**48
    assert wide.std() == pytest.approx(1, rel=0.02)
    wide = discrete_laplace(LARGEST_SCALE, 10**5, source=SeededSource(1)) / 2.0**48
    assert np.abs(wide).mean() == pytest.approx(1, rel=0.02)


@both
@pytest.mark.parametrize("value", [0, 0.0, -0.0, Fraction(0), np.int64(0)])
def test_no_noise(draw: Any, value: float) -> None:
    zeros = draw(value, (2, 3))
    assert zeros.dtype == np.int64
    assert zeros.tolist() == [[0, 0, 0], [0, 0, 0]]


@both
@pytest.mark.parametrize("value", [5e-324, Fraction(1, 10**5000), 1e-9])
def test_hardly_any_noise(draw: Any, value: float) -> None:
    assert not draw(value, 1000).any()


@both
def test_equal_numbers_of_any_type_give_equal_draws(draw: Any) -> None:
    values = [12, 12.0, Fraction(12), np.int64(12), np.float64(12), np.float32(12), np.uint8(12)]
    draws = [draw(value, 50, source=SeededSource(3)).tolist() for value in values]
    assert all(found == draws[0] for found in draws)


@both
def test_a_float_is_the_rational_it_is(draw: Any) -> None:
    exact = draw(Fraction(0.1) * 10**6, 500, source=SeededSource(4))
    assert np.array_equal(exact, draw(float(Fraction(0.1) * 10**6), 500, source=SeededSource(4)))


@both
@pytest.mark.parametrize(
    ("size", "shape"),
    [(0, (0,)), (5, (5,)), ((), ()), ((0, 3), (0, 3)), ((2, 3, 4), (2, 3, 4)), (np.int32(2), (2,))],
)
@pytest.mark.parametrize("value", [1, 10**7])
def test_shapes(draw: Any, size: Any, shape: tuple[int, ...], value: int) -> None:
    values = draw(value, size)
    assert values.shape == shape
    assert values.dtype == np.int64
    assert values.flags.writeable


def test_more_than_one_block() -> None:
    values = discrete_gaussian(10**9, 100_001, source=SeededSource(1))
    assert values.shape == (100_001,)
    assert np.unique(values).size > 50_000


@both
@pytest.mark.parametrize("source", [7, "os", SystemSource, np.random.default_rng(1)])
def test_a_bad_source_is_refused(draw: Any, source: object) -> None:
    with pytest.raises(NoiseError, match=r"source must be one of .* SystemSource\(\)"):
        draw(1, 3, source=source)


# ---------------------------------------------------------------------- sources


def test_the_default_is_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    kernel = os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or kernel(n))  # type: ignore[func-returns-value]
    discrete_gaussian(1, 1000)
    assert asked[0] == 2000
    assert len(asked) <= 3, "bits are drawn in bulk"


def test_two_calls_differ() -> None:
    assert not np.array_equal(discrete_gaussian(10**9, 20), discrete_gaussian(10**9, 20))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_words(bits: int) -> None:
    words = SystemSource().words(10_000, bits)
    assert words.dtype == np.dtype(f"u{bits // 8}")
    assert words.mean() / 2.0**bits == pytest.approx(0.5, abs=0.03)
    assert SystemSource().integer(bits).bit_length() <= bits


def test_a_seed_is_branded() -> None:
    source = SeededSource(7)
    assert "NOT PRIVATE" in source.brand
    assert "7" in source.brand
    assert not source.private
    assert SystemSource().private
    assert "NOT PRIVATE" not in SystemSource().brand


def test_a_seed_goes_on_and_starts_anew() -> None:
    source = SeededSource(7)
    first, second = source.read(11), source.read(11)
    assert first != second
    assert SeededSource(7).read(11) == first


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True, None])
def test_a_bad_seed_is_refused(seed: Any) -> None:
    with pytest.raises(NoiseError, match="seed must be an integer at least 0"):
        SeededSource(seed)


def test_a_stream_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(NoiseError, match="pip install cryptography"):
        StreamSource()


def test_a_stream_of_a_cipher() -> None:
    pytest.importorskip("cryptography")
    source = StreamSource()
    assert source.private
    assert "AES-256" in source.brand
    assert len(source.read(10)) == 10
    long = source.read(100_000)
    assert len(long) == 100_000
    assert long != source.read(100_000)
    assert discrete_gaussian(100, 10**5, source=source).std() == pytest.approx(10, rel=0.02)


def test_a_source_of_ones_own() -> None:
    class Mine(SystemSource):
        pass

    assert isinstance(Mine(), Source)
    assert discrete_gaussian(4, 5, source=Mine()).shape == (5,)


@pytest.mark.parametrize("module", ["discrete", "energy", "moments", "randomness"])
def test_documented_examples(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"noiseplan.noise.{module}"))
    assert found.attempted > 0
    assert found.failed == 0
