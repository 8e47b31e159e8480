"""How hard is a workload: every bound there is, in one place, before any plan is made.

Numbers are total variances (Σ weight · variance over all rows) at privacy cost one, which is ρ = ½,
μ = 1; `WorkloadBounds.at(budget)` gives them at any budget. Weights play no part in root mean
squares, as in `Plan.rmse`: these come from a bound on the sum of all variances as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np

from noiseplan.domain.gram import Reduction
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.noise import Noise
from noiseplan.optimize.accuracy import root_mean_square
from noiseplan.optimize.closed_forms import DataCube, is_cyclic, is_exchangeable
from noiseplan.optimize.gram_bounds import (
    ALL_CHOICES_UP_TO,
    ALL_RANGES_UP_TO,
    Projection,
    Spectrum,
    product_bound,
    range_bound,
    supreme_bound,
    union_bounds,
)
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.record_pairs import replaced_optimum
from noiseplan.planning.bounds import THOROUGH, total_variance_bound
from noiseplan.planning.cell_classes import class_gram, classes_of
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.limits import EXPLICIT_CELLS, double_precision
from noiseplan.planning.planners.row_space_plans import affordable_optimum
from noiseplan.planning.problem import Problem
from noiseplan.planning.pure_bounds import lower_bounds
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import Budget, Neighbours
from noiseplan.queries import Identity, Query, Workload
from noiseplan.strategies.column_norms import total_error
from noiseplan.strategies.eigen import singular_value_strategy
from noiseplan.texts import percent, percent_up

# The exact optimum is worked out unasked up to so many cells, on the way to so small a gap.
EXACT_CELLS: Final = 1024
EXACT_GAP: Final = 1e-6
# The same where records are replaced: unasked, and at most; and the gap.
REPLACED_CELLS, REPLACED_GAP = (256, 1024), 1e-4
EVEN: Final = "√(WᵀW) has an even diagonal"
# Beyond this many values the bound of one factor is not worked out.
FACTOR_VALUES: Final = 4096


@dataclass(frozen=True, repr=False)
class WorkloadBounds:
    """What is known of the least total variance of any linear mechanism with Gaussian noise.

    The lower bounds hold for Laplace noise too, at its own cost (`at`).
    `None` stands for what was too large to work out.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 8})
    >>> known = nz.bounds(nz.Workload([nz.Query(schema, {"age": nz.Prefix()})]))
    >>> known.lower <= known.upper, known.rank
    (True, 8)
    """

    rows: int
    cells: int
    even: float = 0.0  # a lower bound on Σ variance over all rows, without weights
    neighbours: Neighbours = "add-remove"
    told_apart: int | None = None  # cells that some query tells apart from all others
    rank: int | None = None
    svd: float | None = None
    svd_between: tuple[float, float] | None = None  # where only rules for parts give it
    simplified: float | None = None
    projected: Projection | None = None
    supreme: Projection | None = None
    structured: float | None = None
    optimum: tuple[float, float] | None = None  # certified lower end, and a value reached
    closed_form: float | None = None
    identity: float | None = None
    tight: str | None = None  # why the SVD bound is reached, if it is

    @property
    def lower(self) -> float:
        """The best lower bound known."""
        known = [self.svd, self.simplified, self.structured]
        known += [b.value for b in (self.projected, self.supreme) if b is not None]
        known += [self.svd_between[0]] if self.svd_between else []
        known += [self.optimum[0]] if self.optimum else []
        return max(value for value in known if value is not None)

    @property
    def upper(self) -> float | None:
        """The least total variance known to be reached."""
        known = [self.closed_form, self.identity, self.svd if self.tight else None]
        known += [self.optimum[1]] if self.optimum else []
        return min((value for value in known if value is not None), default=None)

    def at(self, budget: Budget) -> float:
        """The lower bound at a budget, with the noise that goes with it.

        Gaussian noise has 1/pcost of the variance at cost one. Laplace noise, of integers or not,
        is at best as precise as Gaussian noise at the cost cosh ε − 1: L1 sensitivities are never
        below L2 sensitivities.
        """
        return self.lower / _gaussian_cost(budget)

    def accuracy(self, budget: Budget, beta: float = 0.05) -> float:
        """α: what reaches the lower bound without weights is RMS-(α, β)-accurate at this budget."""
        return root_mean_square(self.even / _gaussian_cost(budget), self.rows, beta)

    def __repr__(self) -> str:
        upper = "not known" if self.upper is None else f"{self.upper:.6g}"
        rows = f"{self.rows:,} rows over {self.cells:,} cells"
        return f"WorkloadBounds({rows}: lower {self.lower:.6g}, upper {upper})"

    def __str__(self) -> str:
        head = f"Bounds for {self.rows:,} rows over {self.cells:,} cells"
        replaced = ", records replaced" if self.neighbours == "replace" else ""
        lines = [f"{head}{replaced}: total variance at privacy cost 1 (ρ = 0.5, μ = 1)"]
        found = list(self._lines())
        width = max(len(name) for name, _, _ in found)
        for name, value, remark in found:
            lines.append(f"  {name:<{width}}  {value:>12}  {remark}".rstrip())
        each = f"{sqrt(self.even / self.rows):.4g}"
        lines.append(f"  no mechanism of this kind has an RMSE below {each} per row")
        return "\n".join(lines)

    def _lines(self) -> Iterator[tuple[str, str, str]]:
        if self.told_apart is not None:
            rank = f"rank {self.rank:,}" if self.rank is not None else ""
            yield "cells told apart", f"{self.told_apart:,}", rank
        if self.svd is not None:
            yield "SVD bound", _number(self.svd), f"reached: {self.tight}" if self.tight else ""
        if self.svd_between is not None:
            low, high = self.svd_between
            yield "SVD bound from", _number(low), "the hardest query alone"
            yield "to", _number(high), "by the rule for unions"
        if self.simplified is not None and self.told_apart != self.cells:
            yield "on merged cells", _number(self.simplified), ""
        if self.projected is not None:
            first, last = self.projected.span
            yield "on a range of cells", _number(self.projected.value), f"cells {first} to {last}"
        if self.supreme is not None:
            chosen = f"{len(self.supreme.cells)} of {self.cells} cells"
            yield "on the best choice", _number(self.supreme.value), chosen
        if self.structured is not None:
            yield "structured bound", _number(self.structured), ""
        if self.optimum is not None:
            low, high = self.optimum
            proof = f"proved to {percent(high / low - 1)}" if high > low else "in closed form"
            yield "exact optimum", _number(high), proof
        if self.closed_form is not None:
            over = self.closed_form / self.lower - 1
            yield "singular-value strategy", _number(self.closed_form), _over(over)
        if self.identity is not None:
            yield (
                "every cell measured",
                _number(self.identity),
                _over(self.identity / self.lower - 1),
            )


def _gaussian_cost(budget: Budget) -> float:
    """What Gaussian noise of the same variances costs at most."""
    if not isinstance(budget, Budget):
        raise PlanError(f"a budget is zCDP(rho), GDP(mu) or another, found {budget!r}")
    noise = Noise.within(budget, "discrete").floating()
    return lower_bounds(noise.accounting).cost(noise.allowed(budget), True)


def _number(value: float) -> str:
    return f"{value:.7g}"


def _over(share: float) -> str:
    """How far above the lower bound, rounded up: what is claimed must be true."""
    if share < 1e-9:
        return "optimal"
    return f"within {percent_up(share)}% of the best" if share < 1 else ""


@double_precision()
def bounds(
    workload: Workload, *, exact: bool | None = None, neighbours: Neighbours = "add-remove"
) -> WorkloadBounds:
    """How low the total variance of a workload can be, whatever is measured.

    Parameters
    ----------
    workload
        What is to be answered. Small domains have all bounds; large ones those that follow from
        the structure: plain tables exactly, one product of factors exactly, few conditions over
        many cells exactly, others from their parts.
    exact
        Whether to work out the exact optimum: up to 1,024 cells that queries tell apart if not
        said, up to 4,096 if True; or where queries span few dimensions. Where records are replaced
        up to 256 cells if not said, up to 1,024 if True.
    neighbours
        What one record may change, as in `plan`.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"hour": 24})
    >>> workload = nz.Workload([nz.Query(schema, {"hour": nz.Ranges()})])
    >>> found = nz.bounds(workload)
    >>> round(found.svd, 3), round(found.optimum[1], 3), round(found.identity, 3)
    (1058.696, 1082.668, 2600.0)
    """
    if not isinstance(workload, Workload):
        raise PlanError(f"bounds() takes a Workload, found {type(workload).__name__}")
    if neighbours not in ("add-remove", "replace"):
        raise PlanError(f"neighbours are 'add-remove' or 'replace', found {neighbours!r}")
    design, weights = prepare(workload), workload.columns.weights
    if any(design.too_long(r) for r in range(len(design.groups))):
        raise PlanError(
            "an attribute of so many values has no bounds of its own: plan the workload, and ask "
            "plan.certify()"
        )
    find = _added if neighbours == "add-remove" else _replaced
    found = find(design, exact)
    heaviest = float(weights.max())
    even = found.lower / heaviest
    if np.ptp(weights) > 0:
        even = max(even, find(prepare(workload, np.ones(len(weights))), exact).lower)
    return replace(found, even=even)


def _added(design: Design, exact: bool | None) -> WorkloadBounds:
    """Where a record is added or removed."""
    with one_thread(design):
        small = design.workload.schema.size <= EXPLICIT_CELLS
        return _small(design, exact) if small else _large(design, exact)


def _replaced(design: Design, exact: bool | None) -> WorkloadBounds:
    """Where one record is replaced by another."""
    rows, cells = design.workload.rows, design.workload.schema.size
    unasked, most = REPLACED_CELLS
    if exact and cells > most:
        raise PlanError(
            f"the exact optimum is worked out over at most {most:,} cells where records are "
            f"replaced, and the schema has {cells:,}; leave out exact=True for bounds by structure"
        )
    with one_thread(design):
        if not (cells <= unasked if exact is None else exact):
            structured = _structured(design, "replace")
            return WorkloadBounds(rows, cells, neighbours="replace", structured=structured)
        found = replaced_optimum(design.gram(), REPLACED_GAP)
        optimum = (found.bound, found.value)
        return WorkloadBounds(rows, cells, neighbours="replace", optimum=optimum)


def _small(design: Design, exact: bool | None) -> WorkloadBounds:
    """All bounds over a domain that has a Gram matrix."""
    workload = design.workload
    wanted = exact if exact is not None else workload.schema.size <= EXACT_CELLS
    found = workload_bounds(design.gram(), workload.rows, wanted, _cube(design) is not None)
    if wanted:
        return found
    optimum = _in_row_space(design, patient=False) if exact is None else None
    if optimum is not None:
        return replace(found, optimum=optimum)
    return replace(found, structured=_structured(design, "add-remove"))


def _large(design: Design, exact: bool | None) -> WorkloadBounds:
    """Over classes of cells, in the row space, or from the structure."""
    workload = design.workload
    plain = _cube(design) is not None
    classes = None if plain else classes_of(design, EXPLICIT_CELLS)
    if classes is not None:
        wanted = exact if exact is not None else classes.inner.size <= EXACT_CELLS
        gram, members = class_gram(design, classes), classes.members
        found = _over_classes(gram, members, wanted)
        return replace(found, rows=workload.rows, cells=workload.schema.size)
    optimum = None if plain else _in_row_space(design, patient=bool(exact))
    if optimum is not None:
        return WorkloadBounds(workload.rows, workload.schema.size, optimum=optimum)
    if exact and not plain:
        raise PlanError(
            f"the exact optimum is worked out over at most {EXPLICIT_CELLS:,} cells that queries "
            f"tell apart, or where they span few dimensions, and the schema has "
            f"{workload.schema.size:,} cells; leave out exact=True for bounds by structure"
        )
    return _structural(design)


def workload_bounds(
    gram: Array, rows: int, exact: bool = True, cube: bool = False
) -> WorkloadBounds:
    """All bounds that follow from WᵀW over a small domain."""
    reduction, cells = Reduction.of_gram(gram), len(gram)
    members = np.bincount(reduction.groups[reduction.groups >= 0]).astype(np.float64)
    found = _over_classes(reduction.gram(gram), members, exact)
    counted = float(members.sum())
    svd = found.svd * counted / cells if found.svd is not None else None
    return replace(
        found,
        rows=rows,
        cells=cells,
        svd=svd,
        projected=range_bound(gram) if cells <= ALL_RANGES_UP_TO else None,
        supreme=supreme_bound(gram) if cells <= ALL_CHOICES_UP_TO else None,
        tight=_why(gram, cube) if found.tight and counted == cells else None,
    )


def _over_classes(small: Array, members: Array, exact: bool) -> WorkloadBounds:
    """What follows from WᵀW over classes of cells, each with so many members."""
    whole, merged = Spectrum.of_classes(small, members), Spectrum.of(small)
    best = dense_optimum(small, EXACT_GAP) if exact else None
    return WorkloadBounds(
        rows=0,
        cells=0,
        told_apart=len(small),
        rank=merged.rank,
        svd=whole.bound,
        simplified=merged.bound,
        optimum=None if best is None else (best.bound, best.value),
        closed_form=total_error(singular_value_strategy(small), small),
        identity=float(np.trace(small)),
        tight=EVEN if whole.tight else None,
    )


def _why(gram: Array, cube: bool) -> str:
    if cube:
        return "tables of counts, in closed form"
    if is_exchangeable(gram):
        return "all cells are asked alike"
    return "cells in a circle" if is_cyclic(gram) else EVEN


def _cube(design: Design) -> DataCube | None:
    """The workload as a data cube, if it asks for plain tables only."""
    workload, columns = design.workload, design.workload.columns
    if (columns.joint >= 0).any() or not all(isinstance(f, Identity) for f in columns.distinct):
        return None
    tables: dict[tuple[int, ...], float] = {}
    for attributes, weight in zip(columns.attributes.tolist(), design.priorities, strict=True):
        table = tuple(i for i in attributes if i >= 0)
        tables[table] = tables.get(table, 0.0) + float(weight)
    cube = DataCube.of(workload.schema.shape, tables)
    return cube if cube.countable else None


def _structural(design: Design) -> WorkloadBounds:
    workload = design.workload
    rows, cells = workload.rows, workload.schema.size
    cube = _cube(design)
    if cube is not None:
        best = cube.optimum
        reached = "tables of counts, in closed form"
        return WorkloadBounds(rows, cells, svd=best, optimum=(best, best), tight=reached)
    known = WorkloadBounds(rows, cells, structured=_structured(design, "add-remove"))
    each = zip(range(len(workload)), design.priorities, strict=True)
    parts = [_product_svd(workload.query(number), weight) for number, weight in each]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):  # too large a factor: no rule for the whole
        return known
    if len(found) == 1:
        return replace(known, svd=found[0])
    between = (found[0], found[0])
    for part in found[1:]:
        between = (max(between[0], part), union_bounds(between[1], part)[1])
    return replace(known, svd_between=between)


def _in_row_space(design: Design, patient: bool) -> tuple[float, float] | None:
    """The optimum of few rows over many cells with their weights, where it takes seconds."""
    if not np.array_equal(design.priorities, design.workload.columns.weights):
        return None
    found = affordable_optimum(Problem(design.workload, noise="gaussian"), patient)
    return None if found is None else (found.bound, found.value)


def _structured(design: Design, neighbours: Neighbours) -> float:
    return total_variance_bound(design, optimise_total(design), 1.0, neighbours, THOROUGH)


def _product_svd(query: Query, weight: float) -> float | None:
    """SVDB of one query: that of its factors, and one for each attribute summed over.

    A row of ones over n values has one singular value √n, so its SVDB is 1.
    """
    if any(piece.shape[1] > FACTOR_VALUES for piece in query.pieces):
        return None
    return weight * product_bound(*(Spectrum.of(p.gram()).bound for p in query.pieces))
