"""K = W Λ Wᵀ over all rows of a workload, for product weights Λ = ⊗D_i: few rows, any domain.

Two queries meet on the attributes they share. With every other attribute summed by its weights,

    K_{qq'} = W_q ⊗_{i∈q∩q'} D_i ⊗_{i∈q∖q'} d_i · W_q'ᵀ ⊗_{i∈q'∖q} d_i .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import first_of
from noiseplan.matrices.base import Array
from noiseplan.planning.workload_types import Design

# Numbers of all queries' rows over the table of each one's attributes.
MOST_NUMBERS = 2e7


@dataclass(frozen=True, eq=False)
class Rows:
    """The weighted rows of one query over groups of values: rows × n_1 × … × n_k."""

    attributes: list[int]
    tensor: Array

    def on(self, shared: list[int], weights: dict[int, Array]) -> Array:
        """Rows × cells of the shared attributes, the others summed by their weights."""
        tensor = self.tensor
        for axis in reversed(range(len(self.attributes))):
            if self.attributes[axis] not in shared:
                tensor = np.tensordot(tensor, weights[self.attributes[axis]], axes=(axis + 1, 0))
        return np.asarray(tensor.reshape(len(tensor), -1))


def row_products(design: Design, weights: dict[int, Array]) -> Array | None:
    """K; None where its queries are over tables too large. `weights` are d of each attribute."""
    columns = design.workload.columns
    attributes = [[int(a) for a in row if a >= 0] for row in columns.attributes]
    cells = [np.prod([len(weights[a]) for a in some]) for some in attributes]
    if float(design.workload.sizes @ np.array(cells)) > MOST_NUMBERS:
        return None
    rows = [_rows(design, number, attributes[number]) for number in range(len(cells))]
    ends = np.cumsum([0, *(len(r.tensor) for r in rows)])
    result = np.zeros((ends[-1], ends[-1]))
    for a, one in enumerate(rows):
        for b in range(a, len(rows)):
            shared = [i for i in one.attributes if i in rows[b].attributes]
            scale: Array = np.ones(1)
            for i in shared:
                scale = np.asarray(np.kron(scale, weights[i]))
            block = (one.on(shared, weights) * scale) @ rows[b].on(shared, weights).T
            result[ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = block
            result[ends[b] : ends[b + 1], ends[a] : ends[a + 1]] = block.T
    return result


def _rows(design: Design, number: int, attributes: list[int]) -> Rows:
    roles, workload = design.roles, design.workload
    kind = int(roles.type_of_query[number])
    root = np.sqrt(roles.type_priority[kind])
    for joint in design.joints:
        if joint.number == kind:
            return Rows(attributes, root * joint.tensor)
    tensor = np.full((1,), root)
    for attribute, factor in zip(attributes, workload.columns.factors[number], strict=False):
        first = first_of(design.groups[roles.of_attribute[attribute]])
        matrix = workload.matrix(attribute, int(factor)).dense()[:, first]
        tensor = np.multiply.outer(tensor, matrix)
        tensor = np.moveaxis(tensor, -2, 1).reshape(-1, *tensor.shape[1:-2], len(first))
    return Rows(attributes, tensor)
