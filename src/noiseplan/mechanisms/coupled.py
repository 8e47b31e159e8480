"""Residuals of several tables that are measured together, as far as records pay for them together.

The residual of an attribute is split once more, U_i = [h_i; t_i], into its heads and its tail, so
that what is measured of a set of attributes falls into parts: T seen by tails, each of the others
by one of its heads. The parts with one T, of all states B of heads beside it, are mixed by M:

    measured on T:    (M ⊗ ⊗_{i∈T} t_i) (⊗_{i∈B} h_i x)_B + σ_T z        z independent, standard
    parts:            ω_{T,B} = M⁻¹ of it ,   Cov(ω_{T,B}, ω_{T,B'}) = σ²_T (MᵀM)⁻¹_{BB'} I
    cost of x:        Σ_T ∏_{i∈T} |t_i(x_i)|² |M f(x)|²/σ²_T ,   f_B(x) = ∏_{i∈B} h_i(x_i)

Answers follow from the parts as from any residuals (:mod:`noiseplan.mechanisms.residual`). Where M
is diagonal this is the residual mechanism; where it is not, numbers of one table tell of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from math import prod
from typing import Any, ClassVar, Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import solve_triangular

from noiseplan.arrays import Arrays, IntArray, Json, immutable, subsets, unique_rows
from noiseplan.errors import PlanError, QueryError, StorageError
from noiseplan.matrices import Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import (
    Errors,
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    floats,
)
from noiseplan.mechanisms.basis import Basis, MatrixBasis, without_rounding
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.blocks import BATCH_CELLS, Block, batches, group_blocks
from noiseplan.mechanisms.cost import CELL_BY_CELL, cell_by_cell
from noiseplan.mechanisms.coupled_cost import largest_cost
from noiseplan.mechanisms.exact_residuals import mixed, require_fit, residuals, with_noise
from noiseplan.mechanisms.residual import COST_CELLS, ResidualMechanism
from noiseplan.mechanisms.residual_errors import COVARIANCE_LIMIT
from noiseplan.noise.law import Drawn, Noise, Sampler, lattice_of
from noiseplan.noise.wide_integers import joined
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.texts import counted

UNDIVIDED: Final = (
    "one of the plans measures numbers of several tables together, and is continued by the same "
    "queries with another budget alone; plans by planner='residual' are compared with others"
)


@immutable
@dataclass(frozen=True, eq=False)
class Coupling:
    """Sets T that are measured alike, and the states of heads beside each of them."""

    sets: IntArray  # of each T its attributes, ascending; then those beside it that have heads
    tails: int  # how many are in T
    states: IntArray  # states × attributes beside: the number of a head, 0 where there is none
    rows: Array  # M, upper triangular
    noise: Noise  # of one size

    def __post_init__(self) -> None:
        # As it is read again: products depend on the order of numbers, in their last bits.
        object.__setattr__(self, "rows", np.ascontiguousarray(self.rows))
        count = len(self.states)
        square = self.rows.shape == (count, count) and not np.tril(self.rows, -1).any()
        if not square or (np.diagonal(self.rows) == 0).any():
            raise PlanError("rows that mix states are no invertible triangle")
        if self.sets.shape[1] != self.tails + self.states.shape[1]:
            raise PlanError("states are not about the attributes beside a set")

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def sigma2(self) -> float:
        """The parameter of the noise."""
        return self.noise.one

    @property
    def beside(self) -> IntArray:
        """The attributes seen by heads, of each T."""
        return self.sets[:, self.tails :]

    @cached_property
    def inverse(self) -> Array:
        """M⁻¹."""
        return np.asarray(solve_triangular(self.rows, np.eye(len(self.rows))))

    @cached_property
    def covariance(self) -> Array:
        """σ² (MᵀM)⁻¹ of the parts, for the variance that the noise really has."""
        variance = float(np.asarray(self.noise.variance).reshape(-1)[0])
        return np.asarray(variance * (self.inverse @ self.inverse.T))

    def widths(self) -> Iterator[IntArray]:
        """The sets of attributes that are measured: of each state, all T with it."""
        for state in self.states:
            chosen = [*range(self.tails), *(self.tails + np.flatnonzero(state)).tolist()]
            yield np.sort(self.sets[:, chosen], axis=1)


class _Place(NamedTuple):
    """Where a part stands among residuals: the block, and the entries of its array."""

    block: int
    entries: tuple[slice | int, ...]

    @property
    def key(self) -> tuple[int, ...]:
        """The same in numbers, −1 for a tail."""
        rows = (-1 if isinstance(entry, slice) else entry for entry in self.entries)
        return (self.block, *rows)


@immutable
@dataclass(frozen=True, eq=False)
class CoupledMechanism(Mechanism):
    """Bases whose first rows are heads, and couplings that measure every part of a set once."""

    kind: ClassVar[str] = "coupled"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"
    undivided: ClassVar[str | None] = UNDIVIDED

    schema: Schema
    bases: tuple[Basis, ...]
    basis_of: IntArray
    heads: IntArray  # of each attribute
    couplings: tuple[Coupling, ...]
    noise: Noise = field(init=False, repr=False)  # of one size for each coupling

    def __post_init__(self) -> None:
        sizes = [coupling.sigma2 for coupling in self.couplings]
        exact = max((coupling.noise.exact for coupling in self.couplings), default=False)
        object.__setattr__(self, "noise", Noise("gaussian", np.array(sizes), exact))
        rows = [basis.measure for basis in self.bases]
        require_fit(self.noise, [*rows, *(coupling.rows for coupling in self.couplings)])
        self._require_once()

    def _require_once(self) -> None:
        """Refuse parts that are measured twice, or sets some part of which is not measured."""
        if not self.couplings:
            raise PlanError("nothing is measured: there are no couplings")
        for i in np.flatnonzero(self.heads):
            basis = self.bases[self.basis_of[i]]
            if not (isinstance(basis, MatrixBasis) and 0 < self.heads[i] < basis.rows):
                raise PlanError("an attribute has heads that its rows are not")
        tails = [tuple(row[: c.tails]) for c in self.couplings for row in c.sets.tolist()]
        if len(set(tails)) < len(tails):
            raise PlanError("what is seen by the tails of one set is measured in two couplings")
        found = [place for coupling in self._places for each in coupling for place in each]
        blocks = self.residuals.blocks
        needed = sum(int(np.prod(1 + self.heads[each.sets], axis=1).sum()) for each in blocks)
        if not len({place.key for place in found}) == len(found) == needed:
            raise PlanError("the parts of a set are not measured once each")

    @cached_property
    def residuals(self) -> ResidualMechanism:
        """The residuals that parts make up: how answers follow from them, but not their noise."""
        by_width: dict[int, list[IntArray]] = {}
        for coupling in self.couplings:
            for sets in coupling.widths():
                by_width.setdefault(sets.shape[1], []).append(sets)
        every = [np.concatenate(sets) for sets in by_width.values()]
        every = [sets[unique_rows(sets)[0]] for sets in every]
        ones = [np.ones(len(sets)) for sets in every]
        exact = self.noise.exact
        blocks = group_blocks(every, ones, self.bases, self.basis_of, exact)
        return ResidualMechanism(self.schema, blocks)

    @cached_property
    def _places(self) -> list[list[list[_Place]]]:
        """Of each coupling, of each T, of each state."""
        of_set = {
            tuple(row): (number, place)
            for number, block in enumerate(self.residuals.blocks)
            for place, row in enumerate(block.sets.tolist())
        }
        heads = self.heads.tolist()

        def place(tails: list[int], beside: list[int], state: list[int]) -> _Place:
            part: dict[int, slice | int] = {i: slice(heads[i], None) for i in tails}
            part |= {i: head - 1 for i, head in zip(beside, state, strict=True) if head}
            chosen = sorted(part)
            number, last = of_set[tuple(chosen)]
            return _Place(number, (*(part[i] for i in chosen), last))

        return [
            [
                [place(row[: c.tails], row[c.tails :], state) for state in c.states.tolist()]
                for row in c.sets.tolist()
            ]
            for c in self.couplings
        ]

    def on_lattice(self, exact: int) -> Mechanism:
        couplings = [replace(c, noise=c.noise.on_lattice(exact)) for c in self.couplings]
        return replace(self, couplings=tuple(couplings))

    # ------------------------------------------------------------------ what is measured

    @property
    def sets(self) -> list[IntArray]:
        return self.residuals.sets

    @property
    def steps(self) -> int:
        return self.residuals.steps

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(*self._tail(c), *(len(c), len(c.states))) for c in self.couplings]

    def _tail(self, coupling: Coupling) -> tuple[int, ...]:
        """How many rows the tails of a T have, which those of one coupling share."""
        tails = coupling.sets[0, : coupling.tails].tolist()
        return tuple(self.bases[self.basis_of[i]].rows - int(self.heads[i]) for i in tails)

    @property
    def numbers(self) -> int:
        return sum(prod(shape) for shape in self.shapes)

    def describe(self) -> str:
        subsets = counted(len(self.residuals.blocks), "subset")
        return f"{counted(self.numbers, 'noisy number')} on {subsets} of attributes, coupled"

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Count and transform block by block, then mix the parts of each T and add noise."""
        blocks = self.residuals.blocks
        numbers = [self._counted(block, marginals, progress) for block in blocks]
        values = []
        for coupling, places, shape in zip(self.couplings, self._places, self.shapes, strict=True):
            tail = shape[:-2]
            parts = [
                numbers[place.block][place.entries].reshape(*tail, 1)
                for each in places
                for place in each
            ]
            found = mixed(coupling.rows, joined(parts).reshape(*shape))
            values.append(with_noise(found, sample(shape, coupling.noise)))
        return Measurements(tuple(values))

    def _counted(self, block: Block, marginals: Marginals, progress: Progress) -> Drawn:
        """The residuals of a block without noise, the batch last."""
        rows, found = [axis.measure for axis in block.axes], []
        cells = prod(max(axis.size, axis.rows) for axis in block.axes)
        for part in batches(len(block), cells, BATCH_CELLS):
            counts = marginals(block.sets[part])
            counts = counts.reshape(len(counts), *(axis.size for axis in block.axes))
            found.append(residuals(rows, counts, self.noise))
            progress(len(counts))
        return joined(found)

    # ------------------------------------------------------------------ privacy

    def record_cost(self, neighbours: Neighbours) -> float:
        self.require_noise(neighbours)
        if self.schema.size <= CELL_BY_CELL:
            return cell_by_cell([self], neighbours)
        record = self._largest_cost
        return record if neighbours == "add-remove" else 4 * record  # (a − b)² ≤ 2a² + 2b²

    @cached_property
    def _largest_cost(self) -> float:
        bases = [self.bases[b] if b >= 0 else None for b in self.basis_of]
        return largest_cost(bases, self.heads, self.couplings)

    def cost_matrix(self) -> Array:
        size = self.schema.size
        if size > COST_CELLS:
            raise PlanError(
                f"the cost matrix of a domain of {size:,} cells: the limit is {COST_CELLS:,}"
            )
        rows = self.unit_rows()
        return np.asarray(rows.T @ rows)

    def cell_costs(self) -> Array:
        """∏|t_i|² |M f|²/σ² of every T, over the attributes that it is about."""
        return self._cell_sums(lambda mixing, states: ((mixing @ states) ** 2).sum(axis=0))

    def hidden_cost(self) -> float:
        """A share of Σ_T ∏|t_i|² ‖|M| |f|‖²/σ²: sums M f are right to one of |M| |f|."""
        sizes = self._cell_sums(
            lambda mixing, states: ((np.abs(mixing) @ np.abs(states)) ** 2).sum(axis=0)
        )
        widest = max(len(c.states) for c in self.couplings) + len(self.schema)
        return margin(widest) * float(sizes.max())

    def _cell_sums(self, of_states: Callable[[Array, Array], Array]) -> Array:
        """Σ_T ∏|t_i|² g_T/σ² of every cell, where g_T is found from M and f."""
        costs = np.zeros(self.schema.shape)
        for coupling in self.couplings:
            for attributes in coupling.sets.tolist():
                tails, beside = attributes[: coupling.tails], attributes[coupling.tails :]
                squares = [np.einsum("ri,ri->i", *(self._rows(i)[1],) * 2) for i in tails]
                states = of_states(coupling.rows, self._states_over(coupling, beside))
                each = np.multiply.outer(
                    reduce(np.multiply.outer, squares, np.float64(1.0)), states
                )
                shape = [self.schema.shape[i] for i in attributes]
                own = each.reshape(shape).transpose(np.argsort(attributes)) / coupling.sigma2
                costs += own.reshape([n if i in attributes else 1 for i, n in self._sizes()])
        return costs.ravel()

    def _sizes(self) -> Iterator[tuple[int, int]]:
        return enumerate(self.schema.shape)

    def _rows(self, attribute: int) -> tuple[Array, Array]:
        """[1; h] and t of an attribute."""
        measure = self.bases[self.basis_of[attribute]].measure
        dense = measure.dense() if isinstance(measure, Matrix) else measure
        heads = int(self.heads[attribute])
        return np.vstack([np.ones(dense.shape[1]), dense[:heads]]), dense[heads:]

    def _states_over(self, coupling: Coupling, beside: list[int]) -> Array:
        """f over the cells of the attributes beside a set, states × cells."""
        letters = [self._rows(i)[0] for i in beside]
        chosen = ([rows[[h]] for rows, h in zip(letters, s, strict=True)] for s in coupling.states)
        return np.concatenate([kronecker_dense(rows) for rows in chosen])

    # ------------------------------------------------------------------ answering

    def residuals_of(self, measured: Measurements) -> Measurements:
        """The measured residuals: M⁻¹ of what was measured, part by part."""
        known = _TOLD.get(measured)
        if known is None or known[0] is not self:
            known = _TOLD[measured] = (self, self._unmixed(measured))
        return known[1]

    def _unmixed(self, measured: Measurements) -> Measurements:
        blocks = self.residuals.blocks
        values = [np.empty((*block.shape, len(block))) for block in blocks]
        each = zip(self.couplings, self._places, measured.values, strict=True)
        for coupling, places, noisy in each:
            # As the triangle it is, so that columns of very different sizes do no harm.
            flat = noisy.reshape(-1, len(coupling.states)).T.astype(np.float64)
            parts = solve_triangular(coupling.rows, flat).T.reshape(noisy.shape)
            for member, of_states in enumerate(places):
                for state, place in enumerate(of_states):
                    values[place.block][place.entries] = parts[..., member, state]
        return Measurements(tuple(values))

    def require(self, query: Query) -> None:
        self.residuals.require(query)

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        return partial(self.residuals.answer, self.residuals_of(measured))

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        return self.residuals.batches(self.residuals_of(measured), workload)

    def require_completed(self, query: Query) -> None:
        self.residuals.require_completed(query)

    def completed(self, measured: Measurements, query: Query) -> Array:
        return self.residuals.completed(self.residuals_of(measured), query)

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        self.require(query)
        return self.completed_variance(query)

    def completed_variance(self, query: Query) -> Array:
        if query.joint is not None:
            return np.diagonal(self._of_matrices(query, query)).copy()
        pieces = [self._row_pieces(query, name) for name in query.attributes]
        return kronecker_apply(pieces, self._tensor(query, query)[..., None]).ravel()

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        answer = self.answer(measured, query)
        return answer, Errors(np.sqrt(self.completed_variance(query)))

    def covariance(self, query: Query, other: Query) -> Array:
        self.require(query)
        self.require(other)
        if query.rows * other.rows > COVARIANCE_LIMIT:
            raise QueryError(
                f"the covariance of {query.rows:,} × {other.rows:,} rows has more than "
                f"{COVARIANCE_LIMIT:,} numbers: ask for fewer rows, or for variance(query)"
            )
        if query.joint is not None or other.joint is not None:
            return self._of_matrices(query, other)
        names = self._named(query, other)
        pieces = [self._pair_pieces(query, other, name) for name in names]
        found = kronecker_apply(pieces, self._tensor(query, other)[..., None])
        shape = [n for name in names for n in (_rows_of(query, name), _rows_of(other, name))]
        tensor = found.reshape(shape).transpose(
            [*range(0, len(shape), 2), *range(1, len(shape), 2)]
        )
        return np.ascontiguousarray(tensor).reshape(query.rows, other.rows)

    def _named(self, query: Query, other: Query) -> list[str]:
        """The attributes of either, in order."""
        named = {*query.attributes, *other.attributes}
        return [name for name in self.schema.names if name in named]

    def _letter_count(self, query: Query, name: str) -> int:
        """How many letters but the tail a query asks of an attribute: the sum, and the heads."""
        return 1 + int(self.heads[self.schema.index(name)]) if name in query.attributes else 1

    def _tensor(self, query: Query, other: Query) -> Array:
        """Cov of parts, by pairs of letters on every attribute of either; tails come last."""
        names = self._named(query, other)
        counts = [(self._letter_count(query, n), self._letter_count(other, n)) for n in names]
        common = [n in query.attributes and n in other.attributes for n in names]
        tensor = np.zeros([a * b + c for (a, b), c in zip(counts, common, strict=True)])
        numbers = [self.schema.index(name) for name in names]
        for tails in subsets([i for i, shared in zip(numbers, common, strict=True) if shared]):
            of_set = self._by_tails.get(tails)
            if of_set is None:
                continue
            coupling, member = of_set
            beside = coupling.beside[member].tolist()
            letters = [
                coupling.states[:, beside.index(i)]
                if i in beside
                else np.zeros(len(coupling.states), dtype=np.int64)
                for i in numbers
            ]
            left, right = (self._inside(coupling, beside, q) for q in (query, other))
            places = []
            for i, each, (a, b) in zip(numbers, letters, counts, strict=True):
                pair = each[left][:, None] * b + each[right][None, :]
                places.append(np.full_like(pair, a * b) if i in tails else pair)
            found = coupling.covariance[np.ix_(left, right)]
            tensor[tuple(places)] = found if places else found[0, 0]
        return tensor

    @cached_property
    def _by_tails(self) -> dict[tuple[int, ...], tuple[Coupling, int]]:
        return {
            tuple(row[: coupling.tails]): (coupling, member)
            for coupling in self.couplings
            for member, row in enumerate(coupling.sets.tolist())
        }

    def _inside(self, coupling: Coupling, beside: list[int], query: Query) -> IntArray:
        """The states that see no attribute but the query's."""
        inside = np.isin(beside, [self.schema.index(name) for name in query.attributes])
        return np.flatnonzero(~coupling.states[:, ~inside].any(axis=1))

    def _split(self, query: Query, name: str) -> tuple[Array, Array]:
        """[Wτ | Wv], and V of the tail."""
        attribute, basis = self.schema.index(name), self._basis(name)
        heads, factor = int(self.heads[attribute]), query.factors[name].matrix(self.schema[name])
        recover = basis.recover
        letters = factor.matmul(np.column_stack([basis.centre, recover[:, :heads]]))
        return letters, recover[:, heads:]

    def _basis(self, name: str) -> Basis:
        return self.bases[int(self.basis_of[self.schema.index(name)])]

    def _row_pieces(self, query: Query, name: str) -> Array:
        """Products of two letters' coefficients, and |W_q V_t|² of the tail, of every row."""
        factor = query.factors[name].matrix(self.schema[name])
        basis, heads = self._basis(name), int(self.heads[self.schema.index(name)])
        if heads:
            letters, tail = self._split(query, name)
            squares = factor.quadratic_rows(tail @ tail.T)
            squares = without_rounding(squares, float((tail**2).sum()) * factor.row_squares())
        else:
            letters, squares = factor.matmul(basis.centre[:, None]), basis.residual_rows(factor)
        pairs = letters[:, :, None] * letters[:, None, :]
        return np.column_stack([pairs.reshape(len(letters), -1), squares])

    def _pair_pieces(self, query: Query, other: Query, name: str) -> Array:
        """The same for every row of one with every row of another."""
        one = np.ones((1, 1))
        left, tail = self._split(query, name) if name in query.factors else (one, None)
        right, other_tail = self._split(other, name) if name in other.factors else (one, None)
        flat: Array = np.einsum("qa,rb->qrab", left, right).reshape(len(left) * len(right), -1)
        if tail is None or other_tail is None:
            return flat
        factors = (q.factors[name].matrix(self.schema[name]) for q in (query, other))
        sides = [f.matmul(t) for f, t in zip(factors, (tail, other_tail), strict=True)]
        return np.column_stack([flat, (sides[0] @ sides[1].T).ravel()])

    def _of_matrices(self, query: Query, other: Query) -> Array:
        """Σ_T Σ_{BB'} of parts recovered row by row, where a query is a matrix over its cells."""
        total = np.zeros((query.rows, other.rows))
        common = [self.schema.index(n) for n in query.attributes if n in other.attributes]
        for tails in subsets(common):
            if tails not in self._by_tails:
                continue
            coupling, member = self._by_tails[tails]
            beside = coupling.beside[member].tolist()
            inside = [self._inside(coupling, beside, q) for q in (query, other)]
            left, right = (
                np.stack([self._recovery(q, tails, beside, coupling.states[s]) for s in some])
                for q, some in zip((query, other), inside, strict=True)
            )
            spread = np.tensordot(coupling.covariance[np.ix_(*inside)], right, axes=(1, 0))
            total += np.einsum("sqt,srt->qr", left, spread, optimize=True)
        return total

    def _recovery(
        self, query: Query, tails: tuple[int, ...], beside: list[int], state: IntArray
    ) -> Array:
        """rows × numbers: what each number of a part adds to each row."""
        heads = dict(zip(beside, state.tolist(), strict=True))
        steps = []
        for name in query.attributes:
            i, basis = self.schema.index(name), self._basis(name)
            if i in tails:
                steps.append(basis.recover[:, int(self.heads[i]) :])
            elif heads.get(i, 0):
                steps.append(basis.recover[:, [heads[i] - 1]])
            else:
                steps.append(basis.centre[:, None])
        if query.joint is not None:
            return np.asarray(query.joint @ kronecker_dense(steps))
        return kronecker_dense([f.matmul(s) for f, s in zip(query.matrices(), steps, strict=True)])

    # ------------------------------------------------------------------ written out

    def unit_rows(self) -> Array:
        parts = [np.zeros((0, self.schema.size))]
        for coupling in self.couplings:
            for attributes in coupling.sets.tolist():
                tails, beside = attributes[: coupling.tails], attributes[coupling.tails :]
                states = [
                    self._over_domain(tails, dict(zip(beside, state, strict=True)))
                    for state in coupling.states.tolist()
                ]
                mixed_rows = np.tensordot(coupling.rows, np.stack(states), axes=1)
                parts.append(mixed_rows.reshape(-1, self.schema.size) / np.sqrt(coupling.sigma2))
        return np.concatenate(parts)

    def _over_domain(self, tails: Sequence[int], heads: Mapping[int, int]) -> Array:
        """The rows of a part over all cells."""
        pieces = []
        for i, size in self._sizes():
            if i in tails:
                pieces.append(self._rows(i)[1])
            else:
                pieces.append(self._rows(i)[0][[heads[i]]] if i in heads else np.ones((1, size)))
        return kronecker_dense(pieces)

    def unit_values(self, measured: Measurements) -> Array:
        parts = [np.zeros(0)]
        for coupling, values in zip(self.couplings, measured.values, strict=True):
            moved = np.moveaxis(np.moveaxis(values, -1, 0), -1, 0)  # members × states × numbers
            parts.append(moved.ravel() / np.sqrt(coupling.sigma2))
        return np.concatenate(parts)

    def measured_queries(self, most: int) -> list[Query]:
        return self.residuals.measured_queries(most)

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        bases, arrays = write_bases(self.bases, self.basis_of)
        arrays["heads"] = self.heads
        arrays["tails"] = np.array([c.tails for c in self.couplings], dtype=np.int64)
        for i, coupling in enumerate(self.couplings):
            arrays[f"coupling_{i}_sigma2"] = coupling.noise.size
            arrays[f"coupling_{i}_sets"] = coupling.sets
            arrays[f"coupling_{i}_states"] = coupling.states
            arrays[f"coupling_{i}_rows"] = coupling.rows
        return {"kind": self.kind, "integer": self.noise.exact, "bases": bases}, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> CoupledMechanism:
        bases, basis_of = read_bases(content, arrays, schema)
        heads, tails = arrays["heads"], arrays["tails"]
        if any(each.ndim != 1 or each.dtype.kind != "i" for each in (heads, tails)):
            raise StorageError("the mechanism counts heads or tails by other than whole numbers")
        if (
            heads.shape != basis_of.shape
            or not ((heads == 0) | (heads > 0) & (basis_of >= 0)).all()
        ):
            raise StorageError("the mechanism has heads where nothing is measured")
        exact = lattice_of(content["integer"])
        couplings = tuple(
            _read_coupling(i, arrays, basis_of, heads, int(count), exact)
            for i, count in enumerate(tails)
        )
        return cls(schema, bases, basis_of, heads, couplings)


# Residuals that follow from measurements, worked out once for all that is asked of them.
_TOLD: Final[WeakKeyDictionary[Measurements, tuple[CoupledMechanism, Measurements]]] = (
    WeakKeyDictionary()
)


def _rows_of(query: Query, name: str) -> int:
    """The rows of a query's factor; one where it names no such attribute."""
    return query.factors[name].matrix(query.schema[name]).shape[0] if name in query.factors else 1


def _read_coupling(
    i: int, arrays: Arrays, basis_of: IntArray, heads: IntArray, tails: int, exact: int
) -> Coupling:
    sets, states = arrays[f"coupling_{i}_sets"], arrays[f"coupling_{i}_states"]
    rows, sigma2 = (
        floats(arrays, f"coupling_{i}_rows", 2),
        floats(arrays, f"coupling_{i}_sigma2", 1),
    )
    if sigma2.shape != (1,) or not sigma2[0] > 0:
        raise StorageError(f"coupling {i} has no noise, or several")
    if any(each.ndim != 2 or each.dtype.kind != "i" or not len(each) for each in (sets, states)):
        raise StorageError(f"coupling {i} has no sets, or no states")
    if not 0 <= tails <= sets.shape[1] or sets.shape[1] - tails != states.shape[1]:
        raise StorageError(f"coupling {i} has parts that do not fit each other")
    if sets.size and not (sets.min() >= 0 and sets.max() < len(basis_of)):
        raise StorageError(f"coupling {i} measures an attribute that is not there")
    alone = np.sort(sets, axis=1)
    if (np.diff(alone, axis=1) <= 0).any() or (np.diff(sets[:, :tails], axis=1) <= 0).any():
        raise StorageError(f"coupling {i} has sets of attributes that are not in order")
    signature = basis_of[sets[:, :tails]]
    if (basis_of[sets] < 0).any() or (signature != signature[0]).any():
        raise StorageError(f"coupling {i} mixes attributes of different bases")
    if not ((states >= 0).all() and (states <= heads[sets[:, tails:]].min(axis=0)).all()):
        raise StorageError(f"coupling {i} names heads that are not there")
    return Coupling(sets, tails, states, rows, Noise("gaussian", sigma2, exact))
