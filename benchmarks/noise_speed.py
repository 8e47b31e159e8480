"""Discrete noise: draws per CPU second, and samples of ten million against the exact law."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

from benchmarks import noise_rounding, noise_scale
from benchmarks.noise_biased import BIASED
from benchmarks.noise_laws import Law, p_values
from benchmarks.noise_rejection import gaussian_by_rejection
from benchmarks.tables import Claim, Table, all_rows, brief
from benchmarks.timing import cpu_seconds
from noiseplan.noise import SystemSource, discrete_gaussian, discrete_laplace

# Million draws per CPU second: what is asked of σ up to 1,000, and of any other.
NARROW, NARROW_FIGURE, WIDE_FIGURE = 1000.0, 5.0, 3.0
DEVIATIONS: Final = (0.5, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6, 1e9, 1e12, 2.0**45)
# A right sampler misses one of these limits once in a million runs.
RIGHT, WRONG = 1e-6, 1e-9
VARIANCES: Final = (
    Fraction(1, 100), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(7, 3),
    Fraction(64, 9), Fraction(36), Fraction(10**4), Fraction(10**5) + Fraction(1, 3),
    Fraction(10**9), Fraction(2) ** 90,
)  # fmt: skip
SCALES: Final = (
    Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(40), Fraction(10**4), Fraction(2) ** 45,
)  # fmt: skip


def tables(quick: bool) -> Iterator[Table]:
    """Speed, alone and in a release; cost of integers; law, and whether its tests can fail."""
    yield speed(quick)
    yield noise_scale.measuring(quick)
    yield noise_rounding.rounding()
    yield laws(10**6 if quick else 10**7)
    yield biased(10**6)


def speed(quick: bool) -> Table:
    """Million draws a second beside OpenDP's, where it is installed."""
    opendp = importlib.util.find_spec("opendp") is not None
    rows = tuple(_speed_row(sigma, quick, opendp) for sigma in DEVIATIONS)
    return Table(
        title="Discrete Gaussian: speed",
        sentence=(
            "Million exact draws per CPU second of one core, with bits from the operating system, "
            "after the first call built its table; beside it the slower reference sampler that "
            "uses whole numbers only."
        ),
        source=(
            "OpenDP's exact discrete Gaussian (64-bit integers), measured in the same run."
            if opendp
            else "OpenDP's exact discrete Gaussian, which is not installed here; 0.06 to 0.09 "
            "million per CPU second where it was measured."
        ),
        columns="σ | required | drawn | reference | OpenDP | times OpenDP | verdict",
        rows=rows,
        claims=(all_rows("as fast as required", rows),),
    )


def _speed_row(sigma: float, quick: bool, opendp: bool) -> tuple[str | bool, ...]:
    variance, count = Fraction(sigma) ** 2, 2 * 10**6 if quick else 10**7
    discrete_gaussian(variance, 10**5)
    ours = _millions(lambda: discrete_gaussian(variance, count), count)
    few = 10**5
    reference = _millions(lambda: gaussian_by_rejection(variance, few, SystemSource()), few)
    theirs = _opendp_millions(sigma, 10**4 if quick else 10**5) if opendp else None
    required = NARROW_FIGURE if sigma <= NARROW else WIDE_FIGURE
    times = None if theirs is None else ours / theirs
    figures = (required, ours, reference, theirs, times)
    return ("2⁴⁵" if sigma == 2.0**45 else f"{sigma:g}", *map(brief, figures), ours >= required)


def _millions(work: Callable[[], object], count: int) -> float:
    return count / cpu_seconds(work)[0] / 1e6


def _opendp_millions(sigma: float, count: int) -> float:
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measure = dp.m.make_gaussian(*space, scale=sigma)
    zeros = [0] * count
    return _millions(lambda: measure(zeros), count)


def laws(count: int) -> Table:
    """Every test of every law on fresh randomness."""
    rows = tuple(_law_row(law, count) for law in _laws())
    return Table(
        title="Discrete noise: the law",
        sentence=(
            f"Samples of {count:,} draws against the exact law: χ², Kolmogorov, zero mass, tails, "
            "moments, symmetry, independence, uniform bits. A row is met when no p-value, "
            f"multiplied by the number of tests, is below {RIGHT:g}."
        ),
        source="masses summed with 60 digits, or by Euler and Maclaurin where the law is wide.",
        columns="law | tests | lowest p | in test | verdict",
        rows=rows,
        claims=(all_rows("no test sees a difference", rows),),
    )


def _laws() -> list[Law]:
    gaussians = [Law(True, variance) for variance in VARIANCES]
    return gaussians + [Law(False, scale) for scale in SCALES]


def _law_row(law: Law, count: int) -> tuple[str | bool, ...]:
    draw = discrete_gaussian if law.gaussian else discrete_laplace
    found = p_values(law, draw(law.parameter, count))
    name = min(found, key=lambda key: found[key])
    lowest = found[name]
    return (str(law), str(len(found)), brief(lowest), name, lowest * len(found) >= RIGHT)


def biased(count: int) -> Table:
    """The tests must find what is wrong with a wrong sampler."""
    rows = []
    for fault, (variance, sampler) in BIASED.items():
        found = p_values(Law(True, variance), sampler(variance, count, SystemSource()))
        name = min(found, key=lambda key: found[key])
        rows.append((fault, brief(found[name]), name, found[name] < WRONG))
    caught = sum(row[-1] is True for row in rows)
    return Table(
        title="Discrete noise: samplers with a fault",
        sentence=f"The same tests on {count:,} draws of samplers that are wrong, at σ² = 2 or 10⁹.",
        source="the table before.",
        columns="fault | lowest p | in test | found",
        rows=tuple(rows),
        claims=(Claim(f"every fault is found: {caught} of {len(rows)}", caught == len(rows)),),
    )
