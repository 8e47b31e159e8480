"""Smooth minimisation: the one place that calls L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from noiseplan.matrices.base import Array

Smooth = Callable[[Array], tuple[float, Array]]


def minimise(
    function: Smooth,
    start: Array,
    *,
    steps: int,
    gain: float,
    told: Callable[[int], object] | None = None,
) -> tuple[float, Array]:
    """The least value found and where, from `start`.

    `function` returns its value and gradient. Ends after `steps`, or when a step gains less than
    the fraction `gain` of the value. `told` hears of every step.
    """
    ends = {"maxiter": steps, "maxfun": 4 * steps, "ftol": gain, "gtol": 1e-10}

    def on(value: float) -> bool:
        if told is not None:
            told(1)
        return False

    return descend(function, start, {**ends, "maxcor": 20}, enough=on)


def descend(
    function: Smooth,
    start: Array,
    options: Mapping[str, float],
    least: float | None = None,
    enough: Callable[[float], bool] = lambda value: False,
) -> tuple[float, Array]:
    """The same with SciPy's own options; no number goes below `least`.

    `enough` is told the value after every step, and ends the search where it says so.
    """
    from scipy.optimize import Bounds, OptimizeResult, minimize

    def after(intermediate_result: OptimizeResult) -> None:  # SciPy asks for this very name
        if enough(float(intermediate_result.fun)):
            raise StopIteration

    bounds = None if least is None else Bounds(np.full(start.size, least), np.inf)
    found = minimize(
        function,  # type: ignore  # SciPy's stubs know no function that returns the gradient too
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options=dict(options),
        callback=after,
    )
    return float(found.fun), found.x
