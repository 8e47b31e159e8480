"""The result of a comparison: printed, as a frame, and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from noiseplan.comparing.error_figures import Errors, Figure
from noiseplan.draw.error_dots import comparison_picture
from noiseplan.draw.notebook import comparison_html
from noiseplan.draw.picture import shown
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.privacy import Guarantee
from noiseplan.privacy.guarantee import SHOWN_DELTA
from noiseplan.privacy.people import PERSON
from noiseplan.queries import Workload
from noiseplan.release.answers import frame_library
from noiseplan.words.compared import described

# How far apart guarantees may be and are called equal.
SAME_PRIVACY = 0.01


@dataclass(frozen=True, eq=False)
class Contender:
    """One plan of a comparison, with its errors over the workload.

    Parameters
    ----------
    name
        As it was given, or the name of its planner.
    privacy, max_rows, unit
        What it promises, and to a person, or another unit, with how many records.
    errors
        Exact, or simulated on the example data.
    planned
        Seconds that planning took.
    run
        Of a simulation: seconds of one release and its answers; None where errors are exact.
    """

    name: str
    privacy: Guarantee
    max_rows: int
    errors: Errors
    planned: float
    run: float | None
    unit: str = PERSON

    @property
    def simulated(self) -> bool:
        """Whether the errors come from runs on the example data."""
        return self.errors.runs is not None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Errors of several plans over one workload.

    Errors of plans that do not look at the data are exact, and hold for any data. Those of
    data-aware plans are simulated on the example data; on other data they will be others.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, k=1, factors={"age": nz.Prefix()})
    >>> planners = ("residual", "residual+")
    >>> plans = {name: nz.plan(workload, budget=nz.zCDP(0.5), planner=name) for name in planners}
    >>> compared = nz.compare(plans)
    >>> compared.best, compared.same_privacy
    ('residual', True)
    """

    contenders: tuple[Contender, ...]
    workload: Workload
    runs: int
    records: int | None  # of the example data, which are public
    size: float | None  # root mean square of the true answers on the example data

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """By name, the errors over all rows of all queries."""
        rows = np.asarray(self.workload.sizes, dtype=np.float64)
        return {each.name: each.errors.figure(rows) for each in self.contenders}

    @property
    def best(self) -> str:
        """The name of the plan with the lowest rmse."""
        return min(self.figures, key=lambda name: self.figures[name].rmse)

    @property
    def same_privacy(self) -> bool:
        """Whether all plans promise nearly the same to the same unit: only then is the error all
        there is to compare."""
        first, costs = self.contenders[0], [each.privacy.pcost for each in self.contenders]
        kinds = {
            (each.max_rows, each.privacy.neighbours, each.privacy.laplace)
            for each in self.contenders
        }
        apart = max(costs) - min(costs) > SAME_PRIVACY * first.privacy.pcost
        return len(kinds) == 1 and not apart

    def columns(self, by: str = "plan") -> dict[str, list[Any]]:
        """The tidy table as columns; see `table`."""
        if by == "plan":
            rows = [_row(each, self.figures[each.name]) for each in self.contenders]
        elif by == "query":
            sizes = np.asarray(self.workload.sizes, dtype=np.float64)
            rows = [
                {"query": query.name, "rows": int(sizes[i])}
                | _row(each, each.errors.figure(_only(i, sizes)))
                for i, query in enumerate(self.workload)
                for each in self.contenders
            ]
        else:
            raise PlanError(f"a comparison is shown by 'plan' or by 'query', found {by!r}")
        return {name: [row[name] for row in rows] for name in rows[0]}

    def table(self, by: str = "plan", *, frame: str | None = None) -> Any:
        """One row per plan, or per query and plan, as a data frame.

        Columns: plan; rmse and its Monte Carlo standard error (0: exact); worst, the root of the
        largest mean squared error of a row; bias, and whether it stands out from the noise of the
        simulation (if not, it is what the bias is likely to stay below); simulated; seconds of
        planning and of one release; ρ, ε at δ = 1e-9 and ε of pure DP (missing without).

        Parameters
        ----------
        by
            "plan", or "query" for one row per query and plan.
        frame
            "pandas", "polars" or "pyarrow"; by default the first of them that is installed.
        """
        import narwhals.stable.v2 as nw  # not needed to compare and print

        return nw.from_dict(self.columns(by), backend=frame_library(frame or "")).to_native()

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the errors side by side, as a picture for a notebook or to a file.

        Parameters
        ----------
        path
            A file to write, ending in .svg or .html; its path is returned.
        """
        drawn = comparison_picture(self.columns(), self.columns("query"), self.runs)
        return shown(drawn, path)

    chart = plot  # its former name

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {figure.rmse:.4g}" for name, figure in self.figures.items())
        return f"Comparison(rmse: {shown})"

    def _repr_html_(self) -> str:
        return str(comparison_html(self))

    def __str__(self) -> str:
        return described(self)


def _only(place: int, sizes: Array) -> Array:
    return np.where(np.arange(len(sizes)) == place, sizes, 0.0)


def _row(each: Contender, figure: Figure) -> dict[str, Any]:
    privacy = each.privacy
    return {
        "plan": each.name,
        "rmse": figure.rmse,
        "rmse_error": figure.rmse_error,
        "worst": figure.worst,
        "bias": figure.bias,
        "bias_seen": figure.bias_seen,
        "simulated": each.simulated,
        "seconds_planning": each.planned,
        "seconds_release": np.nan if each.run is None else each.run,
        "rho": privacy.rho,
        "epsilon": privacy.epsilon(SHOWN_DELTA) if np.isfinite(privacy.pcost) else np.inf,
        **({"pure_epsilon": np.nan} | privacy.own_figures),
    }
