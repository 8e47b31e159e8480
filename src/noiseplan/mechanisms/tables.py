"""Tables measured as they are, with Laplace noise, and put together by their precisions.

    measured on B:      y_B = (⊗_{i∈B} S_i) x_B + z ,   z independent, variance v_B
    residual on A ⊆ B:  (⊗_{i∈A} residual of F_i ⊗_{i∈B∖A} sum of F_i) y_B ,   variance
                        v_B ∏_{i∈A} κ_i ∏_{i∈B∖A} 1/c_i ,   uncorrelated for different A

Every table tells the residuals inside it, and tables are independent; so each residual is the mean
of what all tables say, weighted by precision, and the whole is a residual mechanism. These are the
best linear unbiased estimates, because all tables split an attribute in the same way (`views`): by
value, by difference, or by a strategy of its own. Such a strategy S with X = SᵀS splits as X =
c·11ᵀ + UᵀU, c = 1/(1ᵀX⁻¹1), and M = [1ᵀ; U] has

    M X⁻¹ Mᵀ = diag(1/c, I) .

So F = M X⁻¹Sᵀ turns noisy numbers Sx + z into the best estimate of the sum and of the residual Ux,
with uncorrelated errors: variance 1/c for the sum and 1 for each residual, in units of z's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Final, Literal

import numpy as np

from noiseplan.arrays import Arrays, IntArray, Json, immutable, subsets, unique_rows
from noiseplan.errors import StorageError
from noiseplan.matrices import IdentityMatrix, Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import (
    Errors,
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    floats,
)
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches, group_blocks
from noiseplan.mechanisms.exact_residuals import noisy_residuals, require_fit
from noiseplan.mechanisms.pair_distances import columns_apart
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.noise.law import Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.texts import counted

# Numbers of all differences of two records that are looked at: about half a second.
PAIRED_NUMBERS: Final = 1 << 27


@immutable
@dataclass(frozen=True, eq=False)
class View:
    """What is measured of an attribute, and how sum and residual follow from it.

    `reduce` is F; its first row is the sum where `total`, the variance of the sum, is a number.
    `residual` is the variance of each residual. Both are in units of the variance of the noise.
    """

    kind: str
    measure: Array | Matrix
    reduce: Array | Matrix
    total: float | None
    residual: float = 1.0

    @property
    def rows(self) -> int:
        """Numbers measured along the attribute."""
        return int(self.measure.shape[0])

    @property
    def size(self) -> int:
        """Values of the attribute."""
        return int(self.measure.shape[1])


def by_value(size: int, basis: Basis) -> View:
    """Every value: S = I."""
    return View("values", IdentityMatrix(size), basis.forward, float(size))


def by_difference(basis: Basis) -> View:
    """The one residual of an attribute of two values, x₁ − x₂; its sum is left to other tables."""
    unit = float(np.asarray(basis.measure)[0, 0])  # U = unit · [1, −1]
    return View("difference", np.array([[1.0, -1.0]]), np.array([[unit]]), None, unit**2)


def by_strategy(strategy: Array, groups: IntArray) -> tuple[View, Basis]:
    """S over groups of values, and the basis in which its errors are uncorrelated.

    Raises `numpy.linalg.LinAlgError` where S does not determine the groups.
    """
    cost = strategy.T @ strategy
    inverse = np.linalg.inv(cost)
    total = float(inverse.sum())
    values, vectors = np.linalg.eigh(cost - 1.0 / total)
    # The smallest eigenvalue is zero: its direction, X⁻¹1, is the sum's.
    rows = np.sqrt(np.maximum(values[1:], 0.0))[:, None] * vectors[:, 1:].T
    basis = Basis.from_rows(rows, groups)
    reduce = np.vstack([np.ones(len(cost)), rows]) @ inverse @ strategy.T
    return View("strategy", np.ascontiguousarray(strategy[:, groups]), reduce, total), basis


@immutable
@dataclass(frozen=True, eq=False)
class TableBlock:
    """Tables whose attributes are measured in the same way, with noise of one size for each."""

    sets: IntArray
    noise: Noise
    views: tuple[View, ...]

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(view.rows for view in self.views)

    @property
    def numbers(self) -> int:
        return len(self) * prod(self.shape)

    @property
    def record_cost(self) -> float:
        """Σ_tables ∏_i ‖S_i‖₁ / b, which a record in them costs, up to rounding."""
        return math.fsum(1.0 / self.noise.size) * prod(_norm(view.measure) for view in self.views)

    @property
    def tells_apart(self) -> bool:
        """Whether a record that takes another's place may change any of its numbers."""
        return not all(_same_for_all(view.measure) for view in self.views)

    @cached_property
    def parts(self) -> list[tuple[tuple[int, ...], Array]]:
        """The residuals a table tells, by the axes inside A, with the precision of each table's."""
        told = []
        for pattern in subsets(range(len(self.views))):
            outside = [v.total for i, v in enumerate(self.views) if i not in pattern]
            if None not in outside:
                unit = prod(self.views[i].residual for i in pattern)
                unit *= prod(total for total in outside if total is not None)
                told.append((pattern, 1.0 / (self.noise.variance * unit)))
        return told

    def part(self, tensor: Array, pattern: tuple[int, ...]) -> Array:
        """The residual on some axes out of all that F makes of a table."""
        return tensor[
            tuple(
                0 if i not in pattern else slice(0 if view.total is None else 1, None)
                for i, view in enumerate(self.views)
            )
        ]


@immutable
@dataclass(frozen=True, eq=False)
class TablesMechanism(Mechanism):
    """Tables with Laplace noise; `basis_of[i]` is the place of attribute i's basis, or −1."""

    kind: ClassVar[str] = "tables"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "type"

    schema: Schema
    tables: tuple[TableBlock, ...]
    bases: tuple[Basis, ...]
    basis_of: IntArray

    def __post_init__(self) -> None:
        views = {view for block in self.tables for view in block.views}
        require_fit(self.noise, (view.measure for view in views))

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        (exact,) = {block.noise.exact for block in self.tables}
        sizes = np.concatenate([block.noise.size for block in self.tables])
        return Noise("laplace", sizes, exact)

    def floating(self) -> Mechanism:
        tables = (replace(block, noise=block.noise.floating()) for block in self.tables)
        return replace(self, tables=tuple(tables))

    def with_noise_times(self, factor: float) -> Mechanism:
        each = ((block, block.noise.above(block.noise.size * factor)) for block in self.tables)
        return replace(self, tables=tuple(replace(block, noise=noise) for block, noise in each))

    def record_cost(self, neighbours: Neighbours) -> float:
        """Σ_B ∏_i ‖S_i‖₁ / b_B: one record is in one cell of every table.

        To replace it is at most to remove one and to add one, in the tables that tell values apart;
        over few cells it is what the farthest two of them are apart, less where tables have rows
        that records share.
        """
        costs = [block.record_cost for block in self.tables]
        record = product_up(math.fsum(costs), 1 + margin(len(costs)))
        if neighbours == "add-remove":
            return record
        changed = math.fsum(c for c, b in zip(costs, self.tables, strict=True) if b.tells_apart)
        # Of numbers that all records share it is zero, however little noise they have; where there
        # are no others it is given as what may be rounding, since noise is sized by it.
        changed = product_up(changed or min(costs) * margin(1), 1 + margin(len(costs)))
        return min(2 * changed, self._apart(changed))

    def _apart(self, record: float) -> float:
        """max_{r,s} Σ_j |a_jr − a_js|/b_j, rounded up; infinite where there are many to compare."""
        counts = sum(block.numbers for block in self.tables)
        if counts * self.schema.size**2 > PAIRED_NUMBERS:
            return math.inf
        # Differences have what rounding took from their columns, but where these are the same.
        rounding = margin(counts)
        return product_up(columns_apart(self.dense_rows(), 1) + 2 * record * rounding, 1 + rounding)

    @cached_property
    def residuals(self) -> ResidualMechanism:
        """The residual mechanism that the tables amount to; all answers and errors are its."""
        by_width: dict[int, list[tuple[IntArray, Array]]] = {}
        for block in self.tables:
            for pattern, precision in block.parts:
                inner = block.sets[:, list(pattern)]
                by_width.setdefault(len(pattern), []).append((inner, precision))
        sets, noise = [], []
        for pieces in by_width.values():
            rows = np.concatenate([inner for inner, _ in pieces])
            first, kind = unique_rows(rows)
            sets.append(rows[first])
            noise.append(1.0 / np.bincount(kind, np.concatenate([p for _, p in pieces])))
        return ResidualMechanism(self.schema, group_blocks(sets, noise, self.bases, self.basis_of))

    # ------------------------------------------------------------------ measuring

    @property
    def numbers(self) -> int:
        return sum(block.numbers for block in self.tables)

    @property
    def steps(self) -> int:
        return sum(map(len, self.tables))

    @property
    def sets(self) -> list[IntArray]:
        return [block.sets for block in self.tables]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return self.residuals.shapes

    def check(self, measured: Measurements) -> None:
        self.residuals.check(measured)

    def describe(self) -> str:
        tables = counted(self.steps, "table")
        by_name = {
            self.schema.names[int(block.sets[0, i])]: view
            for block in self.tables
            for i, view in enumerate(block.views)
            if view.kind == "strategy" and np.count_nonzero(np.asarray(view.measure)) > view.size
        }
        parts = [
            f"{name} by {counted(view.rows, 'weighted sum')}" for name, view in by_name.items()
        ]
        how = f" ({', '.join(parts[:3])}{', …' * (len(parts) > 3)})" if parts else ""
        return f"{counted(self.numbers, 'noisy number')} in {tables}{how}"

    def cost_matrix(self) -> Array:
        """BᵀΣ⁻¹B of what is measured, Σ the variances of the Laplace noise."""
        return self.residuals.cost_matrix()

    def cell_costs(self) -> Array:
        return self.residuals.cell_costs()

    def dense_rows(self) -> Array:
        """Every measured row over the whole domain, divided by the scale of its noise."""
        rows = []
        for block in self.tables:
            for attributes, scale in zip(block.sets.tolist(), block.noise.size, strict=True):
                pieces = [np.ones((1, n)) for n in self.schema.shape]
                for attribute, view in zip(attributes, block.views, strict=True):
                    measure = view.measure
                    dense = measure.dense() if isinstance(measure, Matrix) else measure
                    pieces[attribute] = dense
                rows.append(kronecker_dense(pieces) / scale)
        return np.vstack(rows)

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Count and add noise, batch by batch, and average what the tables say of each residual.

        The averages are computed from the noisy numbers alone.
        """
        blocks = self.residuals.blocks
        sums = [np.zeros((*block.shape, len(block))) for block in blocks]
        for table in self.tables:
            rows = [view.measure for view in table.views]
            cells = prod(max(view.size, view.rows) for view in table.views)
            for chosen in batches(len(table), cells, BATCH_CELLS):
                sets = table.sets[chosen]
                found = noisy_residuals(rows, marginals(sets), table.noise[chosen], sample)
                noisy = found.astype(np.float64, copy=False)
                tensor = kronecker_apply([view.reduce for view in table.views], noisy)
                for pattern, precision in table.parts:
                    inner = sets[:, list(pattern)]
                    told = table.part(tensor, pattern) * precision[chosen]
                    for number, mine, place in blocks.find(inner).groups():
                        _add_last(sums[number], place, told[..., mine])
                progress(len(sets))
        pairs = zip(sums, blocks, strict=True)
        return Measurements(tuple(total * block.variance for total, block in pairs))

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        self.residuals.require(query)

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        return self.residuals.answering(measured)

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        return self.residuals.batches(measured, workload)

    def variance(self, query: Query) -> Array:
        return self.residuals.variance(query)

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        return self.residuals.answer_with_errors(measured, query)

    def covariance(self, query: Query, other: Query) -> Array:
        return self.residuals.covariance(query, other)

    def require_completed(self, query: Query) -> None:
        self.residuals.require_completed(query)

    def completed(self, measured: Measurements, query: Query) -> Array:
        return self.residuals.completed(measured, query)

    def completed_variance(self, query: Query) -> Array:
        return self.residuals.completed_variance(query)

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        """Bases, how attributes are measured, and the tables with their noise."""
        bases, arrays = write_bases(self.bases, self.basis_of)
        views = list(dict.fromkeys(v for block in self.tables for v in block.views))
        number = {view: i for i, view in enumerate(views)}
        for i, view in enumerate(views):
            if view.kind == "strategy":
                arrays[f"view_{i}_measure"] = np.asarray(view.measure)
                arrays[f"view_{i}_reduce"] = np.asarray(view.reduce)
        for i, block in enumerate(self.tables):
            arrays[f"table_{i}_sets"], arrays[f"table_{i}_scales"] = block.sets, block.noise.size
        content = {
            "kind": self.kind,
            "integer": self.noise.exact,
            "bases": bases,
            "views": [{"kind": v.kind, "size": v.size, "total": v.total} for v in views],
            "tables": [[number[view] for view in block.views] for block in self.tables],
        }
        return content, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> TablesMechanism:
        bases, basis_of = read_bases(content, arrays, schema)
        exact, used = bool(content["integer"]), _basis_of_views(content, arrays, basis_of)
        views = [
            _read_view(saved, i, arrays, bases[used[i]]) for i, saved in enumerate(content["views"])
        ]
        tables = []
        for i, own in enumerate(content["tables"]):
            sets, scales = arrays[f"table_{i}_sets"], floats(arrays, f"table_{i}_scales", 1)
            if len(sets) != len(scales) or not len(sets) or not (scales > 0).all():
                raise StorageError(f"tables {i} have parts that do not fit each other, or no noise")
            mine = tuple(views[v] for v in own)
            sizes = np.array(schema.shape)[sets]
            if sets.shape[1] != len(own) or (sizes != [view.size for view in mine]).any():
                raise StorageError(f"tables {i} measure attributes in ways that do not fit them")
            if (np.diff(sets, axis=1) <= 0).any():
                raise StorageError(f"tables {i} have attributes that are not in ascending order")
            noise = Noise("laplace", scales, exact)
            tables.append(TableBlock(sets.astype(np.int64), noise, mine))
        return cls(schema, tuple(tables), bases, basis_of)


def _basis_of_views(content: Mapping[str, Any], arrays: Arrays, basis_of: Any) -> dict[int, int]:
    """The basis that goes with each view: that of the attributes it is used for, all the same."""
    used: dict[int, int] = {}
    for i, own in enumerate(content["tables"]):
        sets = arrays[f"table_{i}_sets"]
        if sets.ndim != 2 or sets.dtype.kind != "i" or sets.shape[1] != len(own):
            raise StorageError(f"tables {i} are not rows of attribute numbers")
        if sets.size and not (sets.min() >= 0 and sets.max() < len(basis_of)):
            raise StorageError(f"tables {i} measure an attribute that is not there")
        for column, view in enumerate(own):
            mine = np.unique(basis_of[sets[:, column]])
            if len(mine) != 1 or mine[0] < 0 or used.setdefault(view, int(mine[0])) != mine[0]:
                raise StorageError(f"tables {i} mix attributes of different bases")
    if sorted(used) != list(range(len(content["views"]))):
        raise StorageError("the tables measure attributes in ways that are not there, or unused")
    return used


def _read_view(saved: Mapping[str, Any], i: int, arrays: Arrays, basis: Basis) -> View:
    if saved["size"] != basis.size:
        raise StorageError(f"view {i} does not fit its basis")
    if saved["kind"] == "values" and basis.rows in (basis.size - 1, basis.size):
        return by_value(basis.size, basis)
    if saved["kind"] == "difference" and basis.size == 2 and basis.rows == 1:
        return by_difference(basis)
    if saved["kind"] != "strategy":
        raise StorageError(f"unknown view {saved['kind']!r}: was it saved by a newer noiseplan?")
    measure, reduce = (floats(arrays, f"view_{i}_{part}", 2) for part in ("measure", "reduce"))
    total = float(saved["total"])
    if (
        reduce.shape != (basis.rows + 1, len(measure))
        or measure.shape[1] != basis.size
        or not 0 < total < np.inf
    ):
        raise StorageError(f"view {i} has parts that do not fit each other")
    return View("strategy", measure, reduce, total)


def _norm(rows: Array | Matrix) -> float:
    """The largest L1 norm of a column."""
    if isinstance(rows, IdentityMatrix):
        return 1.0
    values = rows.dense() if isinstance(rows, Matrix) else rows
    return float(np.abs(values).sum(axis=0).max(initial=0.0))


def _same_for_all(rows: Array | Matrix) -> bool:
    """Whether all columns are the same one."""
    if isinstance(rows, IdentityMatrix):
        return rows.shape[1] == 1
    values = rows.dense() if isinstance(rows, Matrix) else rows
    return bool((values == values[:, :1]).all())


def _add_last(sums: Array, place: IntArray, values: Array) -> None:
    """sums[..., place] += values, where places may repeat."""
    order = np.argsort(place, kind="stable")
    sorted_places = place[order]
    first = np.flatnonzero(np.diff(sorted_places, prepend=-1))
    if len(first) < len(place):
        values = np.add.reduceat(values[..., order], first, axis=-1)
        place = sorted_places[first]
    sums[..., place] += values
