"""Strategies of single attributes as a user gives them: a matrix, a factor, or a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, QueryError
from noiseplan.matrices import DenseMatrix, Matrix
from noiseplan.queries import Factor, Prefix, Ranges, Workload
from noiseplan.queries.factors import checked_matrix
from noiseplan.queries.query import checked_factor
from noiseplan.schema import Schema
from noiseplan.strategies.catalogue import asked_by, product_factors

# Values of an attribute that a strategy may be over.
MOST_VALUES: Final = 4096
FACTORS: Final[Mapping[str, Factor]] = {"prefix": Prefix(), "ranges": Ranges()}
NAMES: Final = ("identity", "hierarchical", "wavelet", *FACTORS)


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
        checked_factor(schema, name, strategy)
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
