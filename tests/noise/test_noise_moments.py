"""The variance of discrete Gaussian noise and its inverse, against sums of 30 digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from integer_oracles import true_variance
from noiseplan.noise.moments import discrete_gaussian_parameter, discrete_gaussian_variance

PARAMETERS = np.array([2e-3, 0.01, 0.1, 0.215, 0.5, 1.0, 2.0, 3.999, 4.0, 17.5, 1e9])


def test_a_parameter_is_found_from_its_variance_and_never_below() -> None:
    exact = np.array([true_variance(Fraction(p)) for p in PARAMETERS.tolist()])
    np.testing.assert_allclose(discrete_gaussian_variance(PARAMETERS), exact, rtol=1e-12)
    found = discrete_gaussian_parameter(exact)
    np.testing.assert_allclose(found, PARAMETERS, rtol=1e-11)
    assert (discrete_gaussian_variance(found) >= exact * (1 - 1e-13)).all()


def test_the_variance_of_a_parameter_is_a_growing_share_of_it() -> None:
    """Which is why parts put together have at least the variance of one noise as precise."""
    grid = np.geomspace(2e-3, 3.9, 400)
    shares = discrete_gaussian_variance(grid) / grid
    assert (np.diff(shares) > -1e-15).all()
    for one in grid[::37]:
        for other in grid[::29]:
            together = 1 / (1 / one + 1 / other)
            weights = np.array([together / one, together / other])
            parts = discrete_gaussian_variance(np.array([one, other]))
            single = discrete_gaussian_variance(np.array([together]))[0]
            assert weights**2 @ parts >= single * (1 - 1e-12)


def test_no_variance_left_has_the_least_parameter() -> None:
    assert discrete_gaussian_parameter(np.array([0.0]))[0] < 2e-4
    assert np.isinf(discrete_gaussian_parameter(np.array([np.inf]))[0])
