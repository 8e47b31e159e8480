"""Smooth minimisation: the one place that calls L-BFGS."""

from __future__ import annotations

from collections.abc import Callable

from noiseplan.matrices.base import Array

Smooth = Callable[[Array], tuple[float, Array]]


def minimise(function: Smooth, start: Array, *, steps: int, gain: float) -> tuple[float, Array]:
    """The least value found and where, from `start`.

    `function` returns its value and gradient. Ends after `steps`, or when a step gains less than
    the fraction `gain` of the value.
    """
    from scipy.optimize import minimize

    options = {"maxiter": steps, "maxfun": 4 * steps, "maxcor": 20, "ftol": gain, "gtol": 1e-10}
    # SciPy's stubs know no function that returns value and gradient together.
    found = minimize(function, start, jac=True, method="L-BFGS-B", options=options)  # type: ignore
    return float(found.fun), found.x
