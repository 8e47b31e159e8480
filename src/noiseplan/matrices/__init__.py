"""Structured matrices: queries kept as formulas rather than as numbers."""

from noiseplan.matrices.base import Matrix
from noiseplan.matrices.basic import (
    DenseMatrix,
    GroupMatrix,
    IdentityMatrix,
    PrefixMatrix,
    RangesMatrix,
    TotalMatrix,
)
from noiseplan.matrices.composed import (
    CentringMatrix,
    PaddedMatrix,
    PermutedMatrix,
    StackMatrix,
    UncentringMatrix,
    padded,
)
from noiseplan.matrices.kronecker import (
    KroneckerMatrix,
    SummedMatrix,
    kronecker_apply,
    kronecker_dense,
)
from noiseplan.matrices.transforms import HaarMatrix, Transform, TreeMatrix

__all__ = [
    "CentringMatrix",
    "DenseMatrix",
    "GroupMatrix",
    "HaarMatrix",
    "IdentityMatrix",
    "KroneckerMatrix",
    "Matrix",
    "PaddedMatrix",
    "PermutedMatrix",
    "PrefixMatrix",
    "RangesMatrix",
    "StackMatrix",
    "SummedMatrix",
    "TotalMatrix",
    "Transform",
    "TreeMatrix",
    "UncentringMatrix",
    "kronecker_apply",
    "kronecker_dense",
    "padded",
]
