"""The errors of one plan over a workload: exact, or gathered over simulated runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from noiseplan.choosing.workload_answers import require_all
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.row_variances import sums_and_largest
from noiseplan.planning.plan import Plan
from noiseplan.planning.workload_errors import ResidualFigures
from noiseplan.queries import Workload


@dataclass(frozen=True, eq=False)
class Figure:
    """A root mean square error, and how well it is known.

    Parameters
    ----------
    rmse
        √ of the mean of E(error²) over the rows.
    rmse_error
        Its Monte Carlo standard error; 0 where it is exact.
    worst
        √ of the largest E(error²) of a row.
    bias
        √ of the mean of (E error)² over the rows; 0 where the answers are unbiased.
    bias_seen
        Whether the bias stands out from the noise of the simulation; if not, `bias` is what it is
        likely to stay below.
    """

    rmse: float
    rmse_error: float = 0.0
    worst: float = 0.0
    bias: float = 0.0
    bias_seen: bool = True


@dataclass(frozen=True, eq=False)
class Errors:
    """Mean and largest squared error of every query, and the squared bias.

    Parameters
    ----------
    mean, worst
        Of E(error²) over the rows of each query.
    runs
        Of a simulation: the mean squared error of every run and query, runs × queries.
    bias, spread
        Of a simulation: over the rows of each query, the mean of the squared bias (estimated
        without bias, so that it may be below zero), and of the variance.
    """

    mean: Array
    worst: Array
    runs: Array | None = None
    bias: Array = field(default_factory=lambda: np.zeros(0))
    spread: Array = field(default_factory=lambda: np.zeros(0))

    def figure(self, rows: Array) -> Figure:
        """The errors over several queries together, each counted with `rows` rows."""
        share = rows / rows.sum()
        worst = float(np.sqrt(self.worst[rows > 0].max()))
        rmse = float(np.sqrt(max(share @ self.mean, 0.0)))
        if self.runs is None:
            return Figure(rmse, worst=worst)
        each = self.runs @ share
        noise = float(each.std(ddof=1) / np.sqrt(len(each)))
        bias, seen = _bias(float(share @ self.bias), float(share @ self.spread) / len(each))
        return Figure(rmse, noise / (2 * rmse) if rmse else 0.0, worst, bias, seen)


def _bias(squared: float, noise: float) -> tuple[float, bool]:
    """The bias and whether it is seen, from its square and the variance of a mean over all runs.

    Notes
    -----
    With b the bias of a row and v the variance of its mean error over the runs, the estimate of b²
    has variance 4b²v + 2v² (for normal errors). Rows may all err together, so that their mean is
    no better known than one of them: its standard error is at most 2√(b²v) + √2 v.
    """
    error = 2 * np.sqrt(max(squared, 0.0) * noise) + np.sqrt(2) * noise
    if squared > 2 * error or noise == 0:
        return float(np.sqrt(max(squared, 0.0))), True
    return float(np.sqrt(max(squared, 0.0) + 2 * error)), False


def exact_errors(plan: Plan, workload: Workload) -> Errors:
    """From the plan alone: its answers are unbiased, with variances that are known."""
    if workload is plan.workload and isinstance(plan.figures, ResidualFigures):
        kind = plan.design.roles.type_of_query
        sums, largest = plan.type_variances[kind], plan.type_worst[kind]
    else:
        require_all(plan.mechanism, workload)
        sums, largest = sums_and_largest(plan.mechanism, workload)
    return Errors(sums / workload.sizes, largest)


class Gathered:
    """Errors of simulated answers, added up run by run."""

    def __init__(self, truths: list[Array], runs: int) -> None:
        self._truths = truths
        self._sums = [np.zeros(len(truth)) for truth in truths]
        self._squares = [np.zeros(len(truth)) for truth in truths]
        self._means = np.zeros((runs, len(truths)))
        self._done = 0

    def add(self, answers: list[Array]) -> None:
        """The answers of one more run, in the order of the truths."""
        for query, (truth, answer) in enumerate(zip(self._truths, answers, strict=True)):
            error = answer - truth
            self._sums[query] += error
            error *= error
            self._squares[query] += error
            self._means[self._done, query] = error.mean()
        self._done += 1

    def errors(self) -> Errors:
        """What the runs tell."""
        runs = self._done
        squares = [squares / runs for squares in self._squares]
        means = [sums / runs for sums in self._sums]
        variances = [
            np.maximum(square - mean**2, 0.0) * (runs / (runs - 1))
            for square, mean in zip(squares, means, strict=True)
        ]
        # The square of a mean over the runs is too large by its variance.
        biases = [m**2 - v / runs for m, v in zip(means, variances, strict=True)]
        return Errors(
            mean=np.array([square.mean() for square in squares]),
            worst=np.array([square.max() for square in squares]),
            runs=self._means,
            bias=np.array([bias.mean() for bias in biases]),
            spread=np.array([variance.mean() for variance in variances]),
        )
