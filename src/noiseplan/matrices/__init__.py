"""Structured matrices: one attribute's queries, kept as formulas rather than as numbers."""

from noiseplan.matrices.base import Matrix
from noiseplan.matrices.basic import (
    DenseMatrix,
    IdentityMatrix,
    PrefixMatrix,
    RangesMatrix,
    TotalMatrix,
)
from noiseplan.matrices.kronecker import kronecker_apply, kronecker_dense
from noiseplan.matrices.stack import StackMatrix

__all__ = [
    "DenseMatrix",
    "IdentityMatrix",
    "Matrix",
    "PrefixMatrix",
    "RangesMatrix",
    "StackMatrix",
    "TotalMatrix",
    "kronecker_apply",
    "kronecker_dense",
]
