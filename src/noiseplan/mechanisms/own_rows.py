"""Rows of a block's own, which share the attributes' τ_i.

Instead of ⊗U_i over the attributes of a set A, a block may be measured by

    a product   ⊗U_{A,i},   U_{A,i}τ_i = 0,   back by V_{A,i} = (I − τ_i1ᵀ)U_{A,i}⁺
    one matrix  D over all cells of A,   D(… ⊗ τ_i ⊗ …) = 0,   back by (⊗(I − τ_i1ᵀ))D⁺

with linearly independent rows, of any number. Since the τ_i are everybody's, residuals of different
sets do not see each other, whatever rows they are measured by: UV = I, and 1ᵀV = 0 on every axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy.linalg import solve_triangular

from noiseplan.arrays import immutable
from noiseplan.errors import PlanError
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import MatrixBasis

# Rows see the sum over an attribute by this share at most, and rounding alone makes it.
CENTRED = 1e-9
# Rows of length one that leave less than this beside the others depend on them.
INDEPENDENT = 1e-10
# What is measured is undone to this precision.
UNDONE = 1e-6


@immutable
@dataclass(frozen=True, eq=False)
class OwnRows:
    """One basis for each attribute of a set; or `whole`: a single one over all its cells, the last
    attribute fastest."""

    parts: tuple[MatrixBasis, ...]
    whole: bool = False

    def require_fit(self, centres: Sequence[Array]) -> None:
        """Refuse rows that are not of a set of attributes with these τ_i."""
        groups = axis_groups(centres, self.whole)
        sizes = [prod(map(len, group)) for group in groups]
        if [part.size for part in self.parts] != sizes:
            raise PlanError(
                f"rows of {[part.size for part in self.parts]} cells do not fit a set of "
                f"attributes with {sizes}"
            )
        for part, group in zip(self.parts, groups, strict=True):
            require_centred(part.measure, group)


def axis_groups(centres: Sequence[Array], whole: bool) -> list[Sequence[Array]]:
    """The attributes of each part: one by one, or all together."""
    return [centres] if whole else [[centre] for centre in centres]


def own_basis(measure: Array, centre: Array) -> MatrixBasis:
    """Rows over one attribute with Uτ = 0, and V = (I − τ1ᵀ)U⁺.

    Raises `numpy.linalg.LinAlgError` where rows are linearly dependent, for all numbers can tell.
    """
    return whole_basis(measure, [centre])


def whole_basis(measure: Array, centres: Sequence[Array]) -> MatrixBasis:
    """Rows over all cells of some attributes, and the way back (⊗(I − τ_i1ᵀ))D⁺.

    Raises `numpy.linalg.LinAlgError` where rows are linearly dependent, for all numbers can tell.
    """
    require_centred(measure, centres)
    recover = without_sums(_right_inverse(measure), centres)
    return MatrixBasis(measure, centre_of_cells(centres), recover)


def without_sums(cells: Array, centres: Sequence[Array]) -> Array:
    """⊗(I − τ_i1ᵀ) of columns of cells."""
    cube = cells.reshape(*map(len, centres), -1)
    for axis, centre in enumerate(centres):
        along = centre.reshape([-1 if i == axis else 1 for i in range(cube.ndim)])
        cube = cube - along * cube.sum(axis, keepdims=True)
    return cube.reshape(cells.shape)


def centre_of_cells(centres: Sequence[Array]) -> Array:
    """⊗τ_i, over all cells of some attributes."""
    return kronecker_dense([centre[:, None] for centre in centres])[:, 0]


def require_centred(measure: Array, centres: Sequence[Array]) -> None:
    """Refuse rows that see the sum over an attribute: D(… ⊗ τ_i ⊗ …) = 0 on every axis."""
    cube = measure.reshape(len(measure), *map(len, centres))
    for axis, centre in enumerate(centres, start=1):
        seen = np.abs(np.tensordot(cube, centre, (axis, 0))).reshape(len(cube), -1)
        size = np.tensordot(np.abs(cube), np.abs(centre), (axis, 0)).reshape(len(cube), -1)
        if not (seen.max(axis=1) <= CENTRED * size.max(axis=1)).all():
            raise PlanError(
                "rows of a block's own see the sum over an attribute: they need Uτ = 0 with the "
                "τ of the attribute's basis; take U(I − τ1ᵀ)"
            )


def _right_inverse(measure: Array) -> Array:
    """U⁺ of linearly independent rows, by U = S(QR)ᵀ with S their lengths: U⁺ = QR⁻ᵀS⁻¹.

    The diagonal of R is what each row leaves beside those before it.
    """
    length = np.sqrt(np.einsum("ri,ri->r", measure, measure))
    if (length > 0).all() and len(measure) <= measure.shape[1]:
        q, r = np.linalg.qr((measure / length[:, None]).T)
        if (np.abs(np.diagonal(r)) > INDEPENDENT).all():
            return np.asarray(solve_triangular(r, q.T).T / length)
    raise np.linalg.LinAlgError("rows of a block's own are linearly dependent")


def undoes(part: MatrixBasis, centres: Sequence[Array]) -> bool:
    """Whether the way back leads back and adds up to nothing on every axis: UV = I, 1ᵀV = 0.

    The first is tried on random numbers: of the rows' own span, where there are as many rows as
    values and more, as in nI − 11ᵀ.
    """
    rng = np.random.default_rng(0)
    if part.rows < part.size:
        seen = rng.standard_normal((part.rows, 4))
    else:
        seen = part.measure @ rng.standard_normal((part.size, 4))
    again = part.measure @ (part.recover @ seen)
    cube = part.recover.reshape(*map(len, centres), part.rows)
    sums = [np.abs(cube.sum(axis)).max(initial=0.0) for axis in range(len(centres))]
    return bool(
        np.abs(again - seen).max(initial=0.0) <= UNDONE * np.abs(seen).max(initial=0.0)
        and max(sums) <= UNDONE * np.abs(cube).max(initial=0.0)
    )
