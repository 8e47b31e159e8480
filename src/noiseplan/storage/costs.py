"""What a saved mechanism costs one record, against what its plan promises a person."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from noiseplan.errors import StorageError
from noiseplan.matrices import IdentityMatrix, Matrix, Transform
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.dense import DenseMechanism
from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.mechanisms.product import ProductMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.tables import TablesMechanism
from noiseplan.privacy import Guarantee

# Sums of floating-point numbers are off by less than this, relative.
ROUNDING: Final = 1e-9


def check_cost(mechanism: Mechanism, guarantee: Guarantee, max_rows: int = 1) -> None:
    """Refuse a guarantee that promises more than the noise can keep.

    A record costs the largest column of what is measured, ‖a_j‖₁/b or ‖a_j‖²/σ², and a person with
    k records k or k² times that. Only neighbours that add or remove records are checked.
    """
    if guarantee.neighbours != "add-remove":
        return
    if isinstance(mechanism, ReducedMechanism):
        mechanism = mechanism.small
    if _laplace(mechanism):
        if guarantee.pure_epsilon is None:
            raise StorageError("the plan measures with Laplace noise, and promises another law")
        stated, person = guarantee.pure_epsilon, max_rows * laplace_cost(mechanism)
    else:
        if guarantee.pure_epsilon is not None:
            raise StorageError("the plan promises pure DP, and its noise is not Laplace noise")
        stated, person = guarantee.pcost, max_rows**2 * gaussian_cost(mechanism)
    if not person <= stated * (1 + ROUNDING):
        raise StorageError("the plan states a lower privacy cost than its noise has")


def _laplace(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, TablesMechanism) or getattr(mechanism, "scale", None) is not None


def gaussian_cost(mechanism: Mechanism) -> float:
    """The largest ‖a_j‖²/σ² of what is measured: 2ρ of one record."""
    if isinstance(mechanism, DenseMechanism):
        columns = np.einsum("ri,ri->i", mechanism.strategy, mechanism.strategy)
        return float(columns.max(initial=0.0)) / mechanism.sigma2
    if isinstance(mechanism, ProductMechanism):
        return _touched(mechanism) / mechanism.sigma2
    if not isinstance(mechanism, ResidualMechanism):
        raise StorageError(f"what {type(mechanism).__name__} costs is not known")
    cost = 0.0
    for block in mechanism.blocks:
        with np.errstate(divide="ignore"):
            precision = float((1.0 / block.sigma2).sum())
        cost += precision * float(np.prod([basis.sensitivity for basis in block.bases]))
    return cost


def laplace_cost(mechanism: Mechanism) -> float:
    """The largest ‖a_j‖₁/b of what is measured, or their sum over tables: ε of one record."""
    if isinstance(mechanism, TablesMechanism):
        return sum(
            float((1.0 / block.scales).sum()) * prod(_norm(view.measure) for view in block.views)
            for block in mechanism.tables
        )
    if isinstance(mechanism, DenseMechanism) and mechanism.scale is not None:
        return _norm(mechanism.strategy) / mechanism.scale
    if isinstance(mechanism, ProductMechanism) and mechanism.scale is not None:
        return _touched(mechanism) / mechanism.scale
    raise StorageError(f"what {type(mechanism).__name__} costs is not known")


def _touched(mechanism: ProductMechanism) -> int:
    """How many numbers one record changes, by one each."""
    return prod(f.touched if isinstance(f, Transform) else 1 for f in mechanism.factors)


def _norm(rows: Array | Matrix) -> float:
    """The largest L1 norm of a column."""
    if isinstance(rows, IdentityMatrix):
        return 1.0
    values = rows.dense() if isinstance(rows, Matrix) else rows
    return float(np.abs(values).sum(axis=0).max(initial=0.0))
