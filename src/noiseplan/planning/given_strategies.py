"""Strategies of single attributes as a user gives them: a matrix, a factor, or a name.

They are planned as members of the residual family. A strategy S measures an attribute at the cost X
= SᵀS. The sum over the attribute and a residual U with UᵀU = X − c11ᵀ tell the same; sets of
attributes are measured by products of residuals, each with the noise that serves the workload best.
Two splits are made, and the better is taken:

| split | U | |
| --- | --- | --- |
| own | UᵀU = X − 11ᵀ/(1ᵀX⁻¹1) | S itself, where there is one attribute |
| even | U = S − S11ᵀ/n | Algorithm 4 of ResidualPlanner+ |

References
----------
ResidualPlanner+ (arXiv 2305.08175): strategy replacement, and Algorithm 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from noiseplan.arrays import first_of
from noiseplan.errors import PlanError, QueryError
from noiseplan.matrices import DenseMatrix, Matrix
from noiseplan.matrices.base import Array
from noiseplan.planning.free_split import role_grams
from noiseplan.planning.workload_types import Design
from noiseplan.queries import Factor, Prefix, Ranges, Workload
from noiseplan.queries.factors import checked_matrix
from noiseplan.queries.query import as_factor
from noiseplan.schema import Schema
from noiseplan.strategies.catalogue import asked_by, product_factors
from noiseplan.strategies.column_norms import supports

# Values of an attribute that a strategy may be over.
MOST_VALUES: Final = 4096
FACTORS: Final[Mapping[str, Factor]] = {"prefix": Prefix(), "ranges": Ranges()}
NAMES: Final = ("identity", "hierarchical", "wavelet", *FACTORS)

# Eigenvalues of X below this share of the largest are rounding; what S leaves out is measured by
# as much as FAINT of it, so that M = [1ᵀ; U] has an inverse.
ROUNDING: Final = 1e-12
FAINT: Final = 1e-9
# Bits of one strategy, and of all that a table multiplies: that leaves room for 2³² records.
MOST_BITS: Final = 12
ALL_BITS: Final = 28


def check_named(workload: Workload, given: object) -> None:
    """Refuse what maps no attributes that queries ask about."""
    names = workload.schema.names
    if not isinstance(given, Mapping) or not given:
        raise PlanError(
            f"strategies maps attributes to what is measured of them, as in "
            f"{{{names[0]!r}: 'hierarchical-4'}}; found {given!r}"
        )
    asked = np.unique(workload.columns.attributes)
    for name in given:
        if workload.schema.index(name) not in asked:
            raise PlanError(f"strategies names {name!r}, and no query asks about it: leave it out")


def read_strategy(schema: Schema, name: str, strategy: object) -> Matrix:
    """What is measured of an attribute: a matrix, a factor, or the name of a strategy."""
    size = schema[name].size
    if size > MOST_VALUES:
        raise PlanError(
            f"a strategy is over at most {MOST_VALUES:,} values, and {name!r} has {size:,}: leave "
            f"it out of strategies"
        )
    if isinstance(strategy, str):
        return _named(schema, name, strategy)
    if isinstance(strategy, Factor):
        as_factor(schema, name, strategy)
        return strategy.matrix(schema[name])
    try:
        rows = checked_matrix(strategy, f"the strategy of {name!r}")
    except QueryError as error:
        raise PlanError(error.message) from None
    if rows.shape[1] != size:
        raise PlanError(
            f"the strategy of {name!r} has {rows.shape[1]:,} columns, and {name!r} has {size:,} "
            f"values: one column for each"
        )
    return DenseMatrix(rows)


def _named(schema: Schema, name: str, strategy: str) -> Matrix:
    if strategy in FACTORS:
        return read_strategy(schema, name, FACTORS[strategy])
    asked = asked_by(strategy)
    found = None if asked is None else product_factors(asked, Schema({name: schema[name]}))
    if found is None:
        raise PlanError(
            f"the strategy of {name!r} is a matrix, a factor, or one of {', '.join(NAMES)}, "
            f"hierarchical-4 and the like; found {strategy!r}"
        )
    return found[0]


def given_splits(design: Design, own: Mapping[int, Matrix]) -> list[dict[int, Array]]:
    """U of the roles of these attributes, by both splits, columns of length one at most."""
    costs = {}
    asked = role_grams(design)
    for attribute, matrix in own.items():
        r = int(design.roles.of_attribute[attribute])
        if r not in design.free:
            continue
        first = first_of(design.groups[r])
        rows = _square(matrix.gram()[np.ix_(first, first)])
        if not supports(np.vstack([np.ones(len(first)) * np.abs(rows).max(), rows]), asked[r]):
            raise PlanError(
                f"the strategy of {design.workload.schema.names[attribute]!r} does not determine "
                f"every query about it: add rows to it, or leave it out"
            )
        costs[r] = rows, np.bincount(design.groups[r]) / len(design.groups[r])
    return [
        {r: _residual(_less_its_sum(rows)) for r, (rows, _) in costs.items()},
        {r: _residual(_gram(rows - (rows @ even)[:, None])) for r, (rows, even) in costs.items()},
    ]


def faithful_bits(design: Design) -> tuple[int, ...]:
    """Bits of integers that leave strategies what they are, as far as products fit 64 bits."""
    most = int(np.isin(design.terms.subset_roles, design.free).sum(axis=1).max(initial=0))
    return (min(MOST_BITS, ALL_BITS // max(most, 1)),)


def _gram(rows: Array) -> Array:
    return np.asarray(rows.T @ rows)


def _square(gram: Array) -> Array:
    """Rows with that Gram matrix, as many as values."""
    values, vectors = np.linalg.eigh(gram)
    kept = np.where(values > ROUNDING * values[-1], values, 0.0)
    return np.asarray(np.sqrt(kept)[:, None] * vectors.T)


def _less_its_sum(rows: Array) -> Array:
    """X − c11ᵀ with the largest c that leaves no negative eigenvalue: 0 if S has no sum."""
    ones, inverse = np.ones(rows.shape[1]), np.linalg.pinv(rows, rcond=np.sqrt(ROUNDING))
    weights = inverse.T @ ones  # of the rows, for the sum
    if np.abs(rows.T @ weights - ones).max() > 1e-6:
        return _gram(rows)
    return _gram(rows) - 1.0 / float(weights @ weights)


def _residual(cost: Array) -> Array:
    """U of one row less than values, UᵀU = `cost`, with a trace of the directions it leaves out."""
    values, vectors = np.linalg.eigh(cost)
    out = max(int((values <= ROUNDING * values[-1]).sum()), 1)
    empty = vectors[:, :out]
    away = empty @ empty.sum(axis=0)  # of those, the one that the sum tells
    away /= np.linalg.norm(away)
    traced = cost + FAINT * values[-1] * (empty @ empty.T - np.outer(away, away))
    values, vectors = np.linalg.eigh(traced)
    rows = np.sqrt(np.maximum(values[1:], 0.0))[:, None] * vectors[:, 1:].T
    return np.asarray(rows / np.sqrt(np.einsum("ri,ri->i", rows, rows).max()))
