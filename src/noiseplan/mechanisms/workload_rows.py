"""The rows of a workload themselves, or sums of them, measured over a domain of any size.

    y = C·Wx + z ,    W the rows of all queries, one table counted for each

Everything happens in the row space of W (`row_space`), which follows from products of pairs of
rows (`StackedRows`), however many cells there are.

With C = 1 and more rows than can be compared, each row is what was measured of it, which is
unbiased too; then nothing is answered but the queries of the workload, and sums of rows of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf, prod
from typing import Any, ClassVar, Final, Literal

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import Arrays, IntArray, Json, beginning_with, immutable
from noiseplan.domain.record_costs import RecordCosts
from noiseplan.domain.stacked_rows import StackedRows
from noiseplan.errors import PlanError, QueryError, StorageError, UnanswerableError, setting
from noiseplan.matrices import IdentityMatrix, Matrix
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.mechanisms.base import (
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    floats,
    undetermined,
)
from noiseplan.mechanisms.cost import CELL_BY_CELL, cell_by_cell
from noiseplan.mechanisms.exact_residuals import EXACT, mixed, require_fit, residuals, with_noise
from noiseplan.mechanisms.pair_distances import columns_apart, different_columns
from noiseplan.mechanisms.row_space import MixedEstimates, OwnEstimates, RowSpace
from noiseplan.mechanisms.sums_of_one import sums_of
from noiseplan.noise.law import Noise, Sampler
from noiseplan.noise.wide_integers import joined
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query, Workload
from noiseplan.queries.workload_files import read_workload, write_workload
from noiseplan.schema import Schema
from noiseplan.texts import counted

# Rows that are compared with each other: their Gram matrix is factored in seconds.
MOST_ROWS: Final = 4096
# Cells over which sums of rows are priced, one by one, and numbers looked at together.
PRICED_CELLS: Final = 2**24
AT_ONCE: Final = 2**23
# Numbers of all differences of two records that are looked at: half a second.
COMPARED_NUMBERS: Final = 2**28
# So many times fewer may be written down, of which those of cells that are alike are left out.
WRITTEN_ONCE: Final = 64
# Variances that are hardly any, in counts, and as a share of others.
FAINT: Final = 1e-12
# Arrays of the workload are told apart by this.
ROWS: Final = "rows_"


@immutable
@dataclass(frozen=True, eq=False)
class WorkloadRowsMechanism(Mechanism):
    """C·W with independent noise, of one size or of one for each number; `mix` is C, or none.

    With exact noise rows and mix are of integers.
    """

    kind: ClassVar[str] = "workload rows"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"
    undivided: ClassVar[str | None] = "one of the plans measures the rows of its queries"

    schema: Schema
    workload: Workload
    mix: Array | None
    noise: Noise

    def __post_init__(self) -> None:
        if self.workload.schema != self.schema:
            raise PlanError("the rows to measure are about another schema than the plan")
        if self.mix is not None:
            object.__setattr__(self, "mix", np.ascontiguousarray(self.mix, dtype=np.float64))
            if self.mix.ndim != 2 or self.mix.shape[1] != self.workload.rows:
                raise PlanError(
                    f"a mix has one column for each of the {self.workload.rows:,} rows, found "
                    f"shape {self.mix.shape}"
                )
            self._require_few()
        if len(self.noise) not in (1, self.numbers):
            raise PlanError(f"{self.numbers:,} numbers have one size of noise each, or all one")
        require_fit(self.noise, self._matrices())

    def _require_few(self) -> None:
        if self.workload.rows > MOST_ROWS:
            raise PlanError(
                f"sums of at most {MOST_ROWS:,} rows are measured, and the queries have "
                f"{self.workload.rows:,}: measure the rows themselves, or plan fewer queries"
            )

    # ------------------------------------------------------------------ what is measured

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The queries whose rows are measured."""
        return tuple(self.workload)

    @cached_property
    def _places(self) -> dict[object, slice]:
        """Where the rows of each query are; equal queries are one."""
        ends = np.cumsum(self.workload.sizes).tolist()
        pairs = zip(self.queries, self.workload.sizes.tolist(), ends, strict=True)
        return {query.key: slice(end - size, end) for query, size, end in reversed(list(pairs))}

    @cached_property
    def _factors(self) -> tuple[tuple[Matrix | Array, ...], ...]:
        """The rows of each query over its own table, as measuring multiplies them."""
        known: dict[object, tuple[Matrix | Array, ...]] = {}
        return tuple(known.setdefault(q.key, tuple(map(_plain, q.pieces))) for q in self.queries)

    def _matrices(self) -> Iterator[Matrix | Array]:
        """All that counts are multiplied by."""
        yield from () if self.mix is None else (self.mix,)
        for factors in self._factors:
            yield from factors

    @property
    def numbers(self) -> int:
        return self.workload.rows if self.mix is None else len(self.mix)

    @cached_property
    def _tables(self) -> dict[tuple[int, ...], list[int]]:
        """The queries about each set of attributes."""
        found: dict[tuple[int, ...], list[int]] = {}
        for number, query in enumerate(self.queries):
            found.setdefault(_attributes(query), []).append(number)
        return found

    @property
    def sets(self) -> list[IntArray]:
        return [np.array([on], dtype=np.int64).reshape(1, len(on)) for on in self._tables]

    @property
    def steps(self) -> int:
        return len(self._tables)

    def describe(self) -> str:
        numbers = counted(self.numbers, "noisy number")
        if self.mix is None:
            alone = "" if self._fitted else ", whose answers need not agree"
            return f"{numbers}: rows of the queries, or rows that tell them{alone}"
        return f"{numbers}, sums of the {counted(self.workload.rows, 'row')} of the queries"

    @property
    def _fitted(self) -> bool:
        """Whether rows are few enough to be fitted to each other."""
        return self.workload.rows <= MOST_ROWS

    @property
    def caution(self) -> str:  # type: ignore[override]
        alone = "Each row was measured by itself: tables need not add up."
        return "" if self._fitted else alone

    def agreeing(self, queries: Sequence[Query]) -> list[list[int]] | None:
        return None if self._fitted else []

    def floating(self) -> Mechanism:
        return replace(self, noise=self.noise.floating())

    def with_noise_times(self, factor: float) -> Mechanism:
        return replace(self, noise=self.noise.above(self.noise.size * factor))

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        rows: list[Any] = [None] * len(self.queries)
        for on, numbers in self._tables.items():
            counts = np.asarray(marginals(np.array([on], dtype=np.int64).reshape(1, len(on))))
            for number in numbers:
                rows[number] = self._applied(self._factors[number], counts)
            progress(1)
        exact = joined(rows)
        if self.mix is not None:
            exact = mixed(self.mix, exact)
        return Measurements((with_noise(exact, sample(exact.shape, self.noise)),))

    def _applied(self, factors: tuple[Matrix | Array, ...], counts: Any) -> Any:
        """(⊗F_i) x, in integers where the noise is exact."""
        if len(factors) != counts.ndim - 1:  # one matrix over all cells of the table
            counts = counts.reshape(1, -1)
        return residuals(factors, counts, self.noise).reshape(-1)

    # ------------------------------------------------------------------ privacy

    def record_cost(self, neighbours: Neighbours) -> float:
        """max_x Σ_j |(CWe_x)_j|^p / size_j, rounded up; replacing one is at most two of them.

        A difference of two numbers of one sign is no larger than the larger of them, so the two
        squares of rows without negative entries add; else (a − b)² ≤ 2a² + 2b². Where there are not
        too many different records to compare, it is what the farthest two are apart.
        """
        self.require_noise(neighbours)
        return {1: self._by_sizes, 2: self._by_squares}[self.noise.power](neighbours)

    def _by_sizes(self, neighbours: Neighbours) -> float:
        """Of Laplace noise."""
        record = self._added_cost
        return record if neighbours == "add-remove" else min(2 * record, self._apart(2 * record))

    def _by_squares(self, neighbours: Neighbours) -> float:
        """Of Gaussian noise."""
        if self.schema.size <= CELL_BY_CELL:
            return cell_by_cell([self], neighbours)
        record = self._added_cost
        if neighbours == "add-remove":
            return record
        most = 2 * record if self._one_sign else 4 * record
        return min(most, self._apart(8 * record))

    @property
    def _added_cost(self) -> float:
        return product_up(self._largest_cost, 1 + margin(self.numbers + self.workload.rows))

    def _apart(self, most: float) -> float:
        """max_{r,s} Σ_j |a_jr − a_js|^p/size_j, rounded up; infinite where there are many to
        compare. Numbers a that are off by a share of themselves move it by that share of `most`:
        |a − b| ≤ |a| + |b|, and 2‖a − b‖(‖a‖ + ‖b‖) is at most eight times the dearest record.
        """
        columns = self.compared_columns()
        if columns is None:
            return inf
        rounding, power = margin(self.numbers + self.workload.rows), self.noise.power
        apart = columns_apart(columns * self._prices[:, None] ** (1 / power), power)
        return product_up(apart + most * rounding, 1 + rounding)

    def compared_columns(self, most: int = COMPARED_NUMBERS) -> Array | None:
        """What different records change; None where all pairs of them have more numbers."""
        if self.numbers * self.schema.size > most // WRITTEN_ONCE:
            return None
        columns = different_columns(self._dense_rows())
        return columns if columns.size * columns.shape[1] <= most else None

    @property
    def _one_sign(self) -> bool:
        return self.mix is None and all(
            isinstance(f, Matrix) or bool((f >= 0).all()) for own in self._factors for f in own
        )

    @property
    def _prices(self) -> Array:
        """One over the size of each number's noise."""
        return 1.0 / self._sizes

    @cached_property
    def _largest_cost(self) -> float:
        if self.mix is None:
            return RecordCosts(self.workload, self.noise.power).largest(self._prices)[0]
        return max(float(costs.max()) for costs in self._costs_of_cells(self.mix))

    def _costs_of_cells(self, mix: Array) -> Iterator[Array]:
        """What records cost that the rows tell apart, some at a time."""
        values = self._stacked.values
        shape = tuple(map(len, values))
        cells = prod(shape)
        if cells > PRICED_CELLS:
            raise PlanError(
                f"what sums of rows cost is found cell by cell, for at most {PRICED_CELLS:,}, and "
                f"the rows tell {cells:,} apart: measure the rows themselves, "
                + setting("planner", "workload")
            )
        batch = max(1, AT_ONCE // max(mix.shape))
        for start in range(0, cells, batch):
            digits = np.unravel_index(np.arange(start, min(start + batch, cells)), shape)
            some = np.column_stack([v[d] for v, d in zip(values, digits, strict=True)])
            entries = self._stacked.at(some)
            self._require_exact(mix, entries)
            columns = np.asarray(mix @ sp.csc_array(entries))
            yield self._prices @ np.abs(columns) ** self.noise.power

    def cost_matrix(self) -> Array:
        rows = self._dense_rows()
        return (rows.T / self.noise.nominal) @ rows

    def cell_costs(self) -> Array:
        batch, size = max(1, AT_ONCE // (self.workload.rows + self.numbers)), self.schema.size
        found = []
        for start in range(0, size, batch):
            some = np.unravel_index(np.arange(start, min(start + batch, size)), self.schema.shape)
            rows = self._stacked.at(np.column_stack(some))
            rows = rows if self.mix is None else self.mix @ rows
            found.append((rows.T**2 / self.noise.nominal).sum(axis=1))
        return np.concatenate(found)

    def _dense_rows(self) -> Array:
        """All measured rows over the whole domain."""
        rows = np.concatenate([query.dense() for query in self.queries])
        if self.mix is None:
            return rows
        self._require_exact(self.mix, rows)
        return np.asarray(self.mix @ rows)

    def _require_exact(self, mix: Array, entries: Array) -> None:
        """Refuse sums of rows that are rounded, where the noise is exact: what a record costs would
        not be known."""
        if not self.noise.takes(partial(_exact_sums, mix, entries)):
            raise PlanError(
                "sums of the rows have entries above 2^53, and what a record costs is found for "
                "smaller ones: measure the rows themselves, " + setting("planner", "workload")
            )

    # ------------------------------------------------------------------ answering

    @cached_property
    def _stacked(self) -> StackedRows:
        return StackedRows.of(self.schema, self.queries)

    @cached_property
    def _space(self) -> RowSpace | None:
        """The space of the rows; none where they are too many to be compared."""
        if not self._fitted:
            return None
        return RowSpace(self._stacked, self._variances if self.mix is None else None)

    @cached_property
    def _variances(self) -> Array:
        """Of every number. Noise that is nearly always zero has a variance of nothing but rounding:
        it is taken for a little more than it is, and so are the errors."""
        variances = np.broadcast_to(self.noise.variance, (self.numbers,))
        faint = np.maximum(variances, FAINT * min(variances.max(), 1.0))
        return np.where(variances < FAINT, faint, variances)

    @cached_property
    def _estimates(self) -> OwnEstimates | MixedEstimates:
        if self.mix is None:
            return OwnEstimates(self._variances, self._space)
        assert self._space is not None  # as the rows of a mix are few
        return MixedEstimates(self._variances, self._space, self.mix)

    def require(self, query: Query) -> None:
        self._asked(query)

    def _asked(self, query: Query) -> sp.csr_array:
        """The query as sums of the workload's rows, if what is measured determines it."""
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        place = self._places.get(query.key)
        asked: sp.csr_array | None = None
        if place is not None:
            ones = np.ones(query.rows), (np.arange(query.rows), np.arange(place.start, place.stop))
            asked = sp.csr_array(ones, shape=(query.rows, self.workload.rows))
        else:
            space = self._space
            asked = self._sums_of_one(query) if space is None else space.coefficients(query)
        if asked is None and not self._fitted:
            raise UnanswerableError(
                f"{query.name!r} is not told by any one query of the plan, whose {self.numbers:,} "
                f"rows are too many to be fitted to each other, so that nothing else is answered: "
                f"ask for it in the workload"
            )
        if asked is None or not self._estimates.determines(asked):
            raise undetermined(query, "what the plan measures")
        return asked

    def _sums_of_one(self, query: Query) -> sp.csr_array | None:
        """The query as sums of the rows of that query which tells it with the least noise."""
        least, best = inf, None
        for told in {each.key: each for each in self.queries}.values():
            sums = sums_of(query, told)
            if sums is None:
                continue
            before = sp.csr_array((query.rows, self._places[told.key].start))
            after = sp.csr_array((query.rows, self.workload.rows - self._places[told.key].stop))
            asked = sp.csr_array(sp.hstack([before, sums, after]))
            total = float(self._estimates.variance(asked).sum())
            if total < least:
                least, best = total, asked
        return best

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        rows = self._estimates.answers(np.asarray(measured.values[0], dtype=np.float64))
        return lambda query: np.asarray(self._asked(query) @ rows)

    def variance(self, query: Query) -> Array:
        return self._estimates.variance(self._asked(query))

    def require_completed(self, query: Query) -> None:
        together = any(set(_attributes(query)) <= set(on) for on in self._tables)
        if query.schema != self.schema or self._space is None or not together:
            self.require(query)

    def completed(self, measured: Measurements, query: Query) -> Array:
        """Of the counts with the least squares that have the estimated rows."""
        rows = self._estimates.answers(np.asarray(measured.values[0], dtype=np.float64))
        return np.asarray(self._nearest(query) @ rows)

    def completed_variance(self, query: Query) -> Array:
        return self._estimates.variance(self._nearest(query))

    def _nearest(self, query: Query) -> sp.csr_array:
        """The sums of the workload's rows that are nearest to the query."""
        if self._space is None or query.key in self._places:
            return self._asked(query)
        return self._space.nearest(query)

    def covariance(self, query: Query, other: Query) -> Array:
        one, two = self._asked(query), self._asked(other)
        if query.rows * other.rows > DENSE_LIMIT:
            raise QueryError(
                f"the covariance of {query.name!r} and {other.name!r} has {query.rows:,} × "
                f"{other.rows:,} numbers, above the limit of {DENSE_LIMIT:,}: ask for fewer rows, "
                f"or for variance(query)"
            )
        return self._estimates.covariance(one, two)

    # ------------------------------------------------------------------ written out

    def unit_rows(self) -> Array:
        return np.asarray((self._dense_rows().T / np.sqrt(self.noise.nominal)).T)

    def unit_values(self, measured: Measurements) -> Array:
        return np.asarray(measured.values[0] / np.sqrt(self.noise.nominal))

    @property
    def _sizes(self) -> Array:
        return np.broadcast_to(self.noise.size, (self.numbers,))

    def measured_queries(self, most: int) -> list[Query]:
        return list(self.queries[:most])

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        rows, found = write_workload(self.workload)
        arrays = {ROWS + name: array for name, array in found.items()}
        arrays["sizes"] = np.array(self._sizes)
        if self.mix is not None:
            arrays["mix"] = self.mix
        noise = {"law": self.noise.law, "integer": self.noise.exact}
        return {"kind": self.kind, **noise, "rows": rows}, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> WorkloadRowsMechanism:
        sizes = floats(arrays, "sizes", 1)
        if not (sizes > 0).all():
            raise StorageError("the rows of the plan are measured without noise")
        numbers = sum(array.size for array in arrays.values())
        workload = read_workload(content["rows"], beginning_with(ROWS, arrays), numbers)
        mix = floats(arrays, "mix", 2) if "mix" in arrays else None
        return cls(schema, workload, mix, Noise(content["law"], sizes, bool(content["integer"])))


def _attributes(query: Query) -> tuple[int, ...]:
    return tuple(map(query.schema.index, query.attributes))


def _exact_sums(mix: Array, entries: Array) -> bool:
    """Say whether all sums Σ|M||entry| are below 2⁵³."""
    largest = np.abs(entries).max(axis=1, initial=0.0)
    return bool((np.abs(mix) @ largest).max(initial=0.0) < EXACT)


def _plain(piece: Matrix) -> Matrix | Array:
    """As exact integers are computed from: the identity, or numbers."""
    return piece if isinstance(piece, IdentityMatrix) else piece.dense()
