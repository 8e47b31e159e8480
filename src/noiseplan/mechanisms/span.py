"""What the residual mechanism can answer, and what to say when it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.errors import UnanswerableError
from noiseplan.matrices import DenseMatrix, Matrix
from noiseplan.mechanisms.blocks import subset_patterns
from noiseplan.mechanisms.errors import recovery
from noiseplan.queries import Query

if TYPE_CHECKING:
    from noiseplan.mechanisms.residual import ResidualMechanism


NEGLIGIBLE = 1e-14


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
    """Whether ω_A enters the query with a coefficient other than zero."""
    if query.joint is not None:
        pieces = [mechanism.basis(n) for n in query.attributes]
        inside = [
            np.trace(b.spread) if n in names else b.centre @ b.centre
            for n, b in zip(query.attributes, pieces, strict=True)
        ]
        scale = float((query.joint**2).sum() * np.prod(inside))
        return float((recovery(mechanism, query, names) ** 2).sum()) > NEGLIGIBLE * scale
    for name, factor in zip(query.attributes, query.matrices(), strict=True):
        basis = mechanism.basis(name)
        part = basis.spread if name in names else np.outer(basis.centre, basis.centre)
        size = factor.quadratic_rows(np.eye(basis.size)).sum() * np.trace(part)
        # The planner's own measure of what is rounding (`planning.design.ROUNDING`).
        if factor.quadratic_rows(part).sum() <= NEGLIGIBLE * size:
            return False
    return True
