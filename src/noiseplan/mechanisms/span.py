"""What the residual mechanism can answer, and what to say when it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.errors import UnanswerableError
from noiseplan.matrices import DenseMatrix, Matrix
from noiseplan.mechanisms.basis import ROUNDING
from noiseplan.mechanisms.blocks import subset_patterns
from noiseplan.mechanisms.residual_errors import recovery
from noiseplan.queries import Query

if TYPE_CHECKING:
    from noiseplan.mechanisms.residual import ResidualMechanism


def require(mechanism: ResidualMechanism, query: Query) -> None:
    """Raise `UnanswerableError` unless the query lies in the span of what is measured."""
    if query.schema != mechanism.schema:
        raise UnanswerableError("the query is about another schema than the plan")
    _require_attributes(mechanism, query)
    _require_values(mechanism, query)
    for pattern in subset_patterns(len(query.attributes)):
        names = [query.attributes[i] for i in pattern]
        if not mechanism.measures(names) and _needs(mechanism, query, names):
            raise UnanswerableError(
                f"{query.name!r} needs {' × '.join(names) or 'the total'} measured together, and "
                f"the plan does not: add a query on {names} to the workload"
            )


def _require_attributes(mechanism: ResidualMechanism, query: Query) -> None:
    measured = mechanism.attributes
    missing = [n for n in query.attributes if n not in measured]
    if missing:
        raise UnanswerableError(
            f"{query.name!r} needs {missing}, which the plan does not measure; it measures "
            f"{list(measured)}. Add a query on {missing} to the workload"
        )


def _require_values(mechanism: ResidualMechanism, query: Query) -> None:
    for name, factor in zip(query.attributes, _axis_matrices(query), strict=True):
        if not mechanism.basis(name).spans(factor):
            raise UnanswerableError(
                f"{query.name!r} tells values of {name!r} apart that no query of the plan's "
                f"workload tells apart: add a query with this factor on {name!r} to the workload"
            )


def _axis_matrices(query: Query) -> list[Matrix]:
    """What the query asks of each attribute; for a dense matrix, its slices along each axis."""
    if query.joint is None:
        return query.matrices()
    cube = query.joint.reshape(-1, *(query.schema[n].size for n in query.attributes))
    slices = (np.moveaxis(cube, axis, -1) for axis in range(1, cube.ndim))
    return [DenseMatrix(part.reshape(-1, part.shape[-1])) for part in slices]


def _needs(mechanism: ResidualMechanism, query: Query, names: Sequence[str]) -> bool:
    """Whether ω_A enters the query with a coefficient other than rounding."""
    if query.joint is not None:
        bases = {n: mechanism.basis(n) for n in query.attributes}
        sizes = [
            b.spread_trace if n in names else float(b.centre @ b.centre) for n, b in bases.items()
        ]
        largest = float((query.joint**2).sum() * np.prod(sizes))
        return float((recovery(mechanism, query, names) ** 2).sum()) > ROUNDING * largest
    for name, factor in zip(query.attributes, query.matrices(), strict=True):
        size = factor.row_squares()
        centre = mechanism.basis(name).centre
        if name in names:  # rows that give every value the same weight ask for the sum alone
            uneven = size - factor.matmul(np.ones((len(centre), 1)))[:, 0] ** 2 / len(centre)
            if (uneven <= 1e-14 * size).all():
                return False
        elif (factor.matmul(centre[:, None]) ** 2).sum() <= ROUNDING * size.sum() * centre @ centre:
            return False
    return True
