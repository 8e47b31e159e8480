"""Answers and exact errors from noisy tables that were made elsewhere.

A noisy table on the attributes B, each cell with independent noise of variance s_B, says of every
A ⊆ B: the residual ω_A with variance s_B ∏_{i∈B∖A} n_i per number, in orthonormal bases, all of
them uncorrelated. Several tables that say the same residual are averaged by their precisions,

    1/σ²_A = Σ_{B⊇A} 1/(s_B ∏_{i∈B∖A} n_i) ,

which is the best linear unbiased estimate from all tables at once, at any size of the domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.arrays import subsets
from noiseplan.errors import DataError
from noiseplan.matrices import kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Stated
from noiseplan.planning.finish import finish_stated
from noiseplan.planning.objectives import Recorded
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import prepare
from noiseplan.privacy import Guarantee
from noiseplan.queries import Query, Workload
from noiseplan.release.provenance import ELSEWHERE, Provenance
from noiseplan.release.release import Release
from noiseplan.schema import Schema
from noiseplan.texts import counted

# Domains over which cells of one table may differ in variance: they are combined as one matrix.
UNEVEN_CELLS = 1024


@dataclass(frozen=True, eq=False, repr=False)
class NoisyTable:
    """A table of noisy counts with known noise.

    Parameters
    ----------
    attributes
        Their names; the axes of `values` follow this order.
    values
        One unbiased noisy count per cell, as an array of the attributes' sizes or flat (last
        attribute fastest).
    variance
        Of the independent noise on each cell: one number, or one per cell.

    Examples
    --------
    >>> NoisyTable(["sex"], [41.2, 38.9], variance=4.0).attributes
    ['sex']
    """

    attributes: Sequence[str]
    values: ArrayLike
    variance: ArrayLike

    def __repr__(self) -> str:
        cells = counted(np.size(np.asarray(self.values)), "cell")
        variance = np.asarray(self.variance)
        noise = f"variance {variance:g}" if variance.ndim == 0 else "a variance for each"
        return f"NoisyTable({list(self.attributes)}, {cells}, {noise})"


def from_noisy_tables(
    schema: Schema, tables: Iterable[NoisyTable], *, privacy: Guarantee | None = None
) -> Release:
    """The release that noisy tables made elsewhere amount to: consistent answers, exact errors.

    Parameters
    ----------
    schema
        The attributes of all tables.
    tables
        Any number, overlapping or not; several of the same attributes are averaged.
    privacy
        What the maker of the tables guarantees for all of them together, if it is known.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3, "sex": 2})
    >>> release = nz.from_noisy_tables(schema, [
    ...     nz.NoisyTable(["age", "sex"], [[5, 7], [8, 2], [1, 4]], variance=2.0),
    ...     nz.NoisyTable(["sex"], [12, 15], variance=1.0),
    ... ])
    >>> answer = release.answer(nz.Query(schema, ["sex"]))
    >>> answer.estimate.round(2).tolist(), answer.std_error.round(3).tolist()
    ([12.29, 14.71], [0.926, 0.926])
    """
    checked = [_checked(schema, number, table) for number, table in enumerate(tables)]
    if not checked:
        raise DataError("no noisy tables were given: from_noisy_tables(schema, [NoisyTable(…)])")
    queries = dict.fromkeys(names for names, _, _ in checked)
    workload = Workload([Query(schema, list(names)) for names in queries])
    even = [(names, values, float(s.flat[0])) for names, values, s in checked if np.ptp(s) == 0]
    if len(even) == len(checked):
        mechanism, measured = _residuals(schema, even)
    else:
        mechanism, measured = _one_matrix(schema, checked)
    figures = RowFigures(prepare(workload), mechanism)
    stated = privacy or Guarantee(math.inf, "zcdp")
    made = Candidate("given", mechanism, stated, figures, Stated(0.0, proved=False))
    plan = finish_stated(made, Recorded("none"), "given")
    return Release(plan, measured, Provenance((ELSEWHERE,)))


Checked = tuple[tuple[str, ...], Array, Array]


def _checked(schema: Schema, number: int, table: object) -> Checked:
    """Attribute names in the schema's order, values and variances with axes in that order."""
    if not isinstance(table, NoisyTable):
        raise DataError(f"table {number} is {table!r}; write NoisyTable(attributes, values, 4.0)")
    query = Query(schema, list(table.attributes))  # refuses unknown and repeated names
    given = list(table.attributes)
    sizes = tuple(schema[name].size for name in given)
    try:
        values = np.asarray(table.values, dtype=np.float64)
        variance = np.asarray(table.variance, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the noisy table of {given} should hold numbers: {error}") from None
    if values.size != math.prod(sizes) or values.shape not in (sizes, (values.size,)):
        raise DataError(
            f"the noisy table of {given} has shape {values.shape}; it should be {sizes}, "
            f"one number per cell"
        )
    if variance.shape not in ((), sizes, (values.size,)):
        raise DataError(f"the variance of {given} is one number or one per cell, shape {sizes}")
    if not np.isfinite(values).all():
        raise DataError(f"the noisy table of {given} holds numbers that are not finite")
    if not (np.isfinite(variance).all() and (variance > 0).all()):
        raise DataError(f"the variance of {given} should be positive and finite")
    axes = [given.index(name) for name in query.attributes]
    spread = np.broadcast_to(variance.reshape(sizes if variance.size > 1 else ()), sizes)
    return query.attributes, values.reshape(sizes).transpose(axes), spread.transpose(axes)


def _residuals(
    schema: Schema, tables: list[tuple[tuple[str, ...], Array, float]]
) -> tuple[Mechanism, Measurements]:
    """Every residual that some table tells, averaged by precision over those that do."""
    of_size = {n: i for i, n in enumerate(dict.fromkeys(schema.shape))}
    bases = tuple(Basis.orthogonal(n) for n in of_size)
    asked = {schema.index(name) for names, _, _ in tables for name in names}
    basis_of = np.array([of_size[n] if i in asked else -1 for i, n in enumerate(schema.shape)])
    precision: dict[tuple[int, ...], float] = {}
    weighted: dict[tuple[int, ...], Array] = {}
    for names, values, variance in tables:
        numbers = [schema.index(name) for name in names]
        own = [bases[basis_of[i]] for i in numbers]
        tensor = kronecker_apply([b.forward for b in own], values[..., None])[..., 0]
        for pattern in subsets(range(len(names))):
            inside = tuple(numbers[i] for i in pattern)
            summed = math.prod(b.size for i, b in enumerate(own) if i not in pattern)
            part = tensor[tuple(slice(1, None) if i in pattern else 0 for i in range(len(names)))]
            weight = 1.0 / (variance * summed)
            precision[inside] = precision.get(inside, 0.0) + weight
            weighted[inside] = weighted.get(inside, 0.0) + weight * part
    sets, noise = [], []
    for width in sorted({len(inside) for inside in precision}):
        chosen = [inside for inside in precision if len(inside) == width]
        sets.append(np.array(chosen, dtype=np.int64).reshape(len(chosen), width))
        noise.append(np.array([1.0 / precision[inside] for inside in chosen]))
    blocks = group_blocks(sets, noise, bases, basis_of)
    measured = []
    for block in blocks:
        keys = [tuple(row) for row in block.sets.tolist()]
        measured.append(np.stack([weighted[key] / precision[key] for key in keys], axis=-1))
    return ResidualMechanism(schema, blocks), Measurements(tuple(measured))


def _one_matrix(schema: Schema, tables: list[Checked]) -> tuple[Mechanism, Measurements]:
    """Every cell as a row, divided by its standard error: generalised least squares."""
    if schema.size > UNEVEN_CELLS:
        raise DataError(
            f"cells of one table with different variances are combined over at most "
            f"{UNEVEN_CELLS:,} cells, and the schema has {schema.size:,}: give each table one "
            f"variance, the largest of its cells'"
        )
    rows, numbers = [], []
    for names, values, variance in tables:
        error = np.sqrt(variance).ravel()
        rows.append(Query(schema, list(names)).dense() / error[:, None])
        numbers.append(values.ravel() / error)
    mechanism = DenseMechanism(schema, np.concatenate(rows))
    return mechanism, Measurements((np.concatenate(numbers),))
