"""What a release draws from: one law per measured number, whatever the data, process or thread."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import NoiseError
from noiseplan.noise import (
    ExactSampler,
    Noise,
    SeededSource,
    Source,
    SystemSource,
    discrete_gaussian,
)
from noiseplan.noise.moments import discrete_gaussian_variance

# ---------------------------------------------------------------------- variances side by side


def test_each_entry_has_its_own_variance() -> None:
    variances = np.array([4.0, 10.0**9, 0.0, 4.0, 0.01])
    noise = ExactSampler("gaussian", SeededSource(1))(
        (200, 300, 5), Noise("gaussian", variances, exact=True)
    )
    assert noise.dtype == np.int64
    for k, variance in enumerate(variances):
        values = noise[..., k].astype(float)
        true = float(discrete_gaussian_variance(np.array([variance]))[0])
        assert (values**2).mean() == pytest.approx(true, rel=0.05, abs=1e-9)
    flat = noise.reshape(-1, 5).astype(float)
    assert abs(np.corrcoef(flat[:, 0], flat[:, 3])[0, 1]) < 0.025


def test_wide_and_narrow_variances_side_by_side() -> None:
    variances = np.array([4.0, 2.0**130, 0.0, 2.0**97])
    noise = Noise("gaussian", variances, exact=True)
    assert noise.wide and noise.drawable
    drawn = ExactSampler("gaussian", SeededSource(1))((200, 300, 4), noise)
    assert drawn.shape == (200, 300, 4)
    squares = (drawn.python().astype(float) ** 2).mean(axis=(0, 1))
    np.testing.assert_allclose(squares, variances, rtol=0.05)
    assert not Noise("gaussian", 2.0**96, exact=True).wide
    assert not Noise("gaussian", 2.0**481, exact=True).drawable
    assert Noise("gaussian", 2.0**481).drawable


def test_one_variance_and_none() -> None:
    sampler = ExactSampler("gaussian", SeededSource(1))
    same = sampler((3, 2), Noise("gaussian", [7.0, 7.0], exact=True))
    assert np.array_equal(same, discrete_gaussian(7, (3, 2), source=SeededSource(1)))
    assert sampler((3, 0), Noise("gaussian", [], exact=True)).shape == (3, 0)


def test_releases_say_where_their_bits_come_from() -> None:
    plan = nz.plan(
        nz.Workload.marginals(nz.Schema.from_sizes({"a": 3}), k=1), budget=nz.zCDP(0.5),
        noise="discrete",
    )  # fmt: skip
    counts = np.array([1, 2, 3])
    assert "NOT PRIVATE" not in str(plan.release(counts))
    assert "operating system" in str(plan.release(counts))
    assert "drawn from seed 7, so NOT PRIVATE" in str(plan.release(counts, seed=7))
    assert "NOT PRIVATE" in str(plan.release(counts, randomness=SeededSource(7)))


@examples(60)
@given(st.floats(1e-3, 30.0))
def test_the_variance_of_the_law(parameter: float) -> None:
    with mpmath.workdps(40):
        p = mpmath.mpf(parameter)
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * p)) for k in range(80)]
        truth = 2 * mpmath.fsum(k * k * w for k, w in enumerate(weights))
        truth /= 2 * mpmath.fsum(weights) - 1
    found = float(discrete_gaussian_variance(np.array([parameter]))[0])
    assert found == pytest.approx(float(truth), rel=1e-13)


def test_the_variance_at_the_ends() -> None:
    values = np.array([0.0, 5e-324, 1e300, np.inf])
    assert discrete_gaussian_variance(values).tolist() == [0.0, 0.0, 1e300, np.inf]


# ---------------------------------------------------------------------- bits that are missing


class Short(Source):
    """Returns fewer bytes than it is asked for."""

    def __init__(self, missing: int) -> None:
        self.missing = missing

    def read(self, count: int) -> bytes:
        return bytes(max(0, count - self.missing))

    @property
    def brand(self) -> str:
        return "broken"

    @property
    def private(self) -> bool:
        return False


@pytest.mark.parametrize("missing", [1, 2, 1000, 10**9, -2])
@pytest.mark.parametrize("variance", [1, 10**9])
def test_a_source_that_runs_dry_is_found(missing: int, variance: int) -> None:
    """Otherwise one draw might be repeated, or missing bits be taken for zeros."""
    with pytest.raises(NoiseError, match=r"Short\.read\(\d+\) returned \d+ bytes"):
        discrete_gaussian(variance, 1000, source=Short(missing))
    with pytest.raises(NoiseError, match="as many as it is asked for"):
        Short(missing).integer(64)


# ---------------------------------------------------------------------- nothing leaks between runs


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="fork is a matter of POSIX")
def test_forked_processes_draw_different_noise() -> None:
    """Draw, fork, draw: parent and child must not go on from the same bits."""
    code = """
import os
from noiseplan.noise import discrete_gaussian
discrete_gaussian(10**12, 3)
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, repr(discrete_gaussian(10**12, 20).tolist()).encode())
    os._exit(0)
print(discrete_gaussian(10**12, 20).tolist())
print(os.read(reader, 10**4).decode())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parent, child = map(eval, done.stdout.splitlines())
    assert len(parent) == len(child) == 20
    assert not set(parent) & set(child)


def test_threads_draw_different_noise() -> None:
    source = SystemSource()
    with ThreadPoolExecutor(8) as pool:
        parts = pool.map(lambda _: discrete_gaussian(2**90, 2000, source=source), range(32))
    values = np.concatenate(list(parts))
    assert np.unique(values).size == values.size


class Noted(SeededSource):
    """Notes how many bytes were asked for."""

    asked: list[int]

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        object.__setattr__(self, "asked", [])

    def read(self, count: int) -> bytes:
        self.asked.append(count)
        return super().read(count)


def test_noise_knows_nothing_of_the_data() -> None:
    """The same bits are read and the same noise is added, whatever the counts are."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    asked = nz.Workload([nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()})])
    plan = nz.plan(asked, budget=nz.zCDP(0.5), noise="discrete", planner="residual")
    noises, reads = [], []
    for counts in (np.zeros((4, 3), int), np.arange(12).reshape(4, 3), np.full((4, 3), 10**9)):
        source = Noted(3)
        data = CountTensor(schema, counts)
        noisy = plan.mechanism.measure(data.marginals, ExactSampler("gaussian", source))
        exact = plan.mechanism.measure(data.marginals, lambda shape, _: np.zeros(shape, np.int64))
        pairs = zip(noisy.values, exact.values, strict=True)
        noises.append(np.concatenate([(a - b).ravel() for a, b in pairs]).tolist())
        reads.append(source.asked)
    assert noises[0] == noises[1] == noises[2]
    assert reads[0] == reads[1] == reads[2]


def test_a_variance_is_the_rational_number_of_its_float() -> None:
    """0.1 is 3602879701896397/2⁵⁵, and so is the law."""
    drawn = ExactSampler("gaussian", SeededSource(5))((1000, 1), Noise("gaussian", 0.1, exact=True))
    exact = discrete_gaussian(Fraction(3602879701896397, 2**55), (1000, 1), source=SeededSource(5))
    assert np.array_equal(drawn, exact)
