"""Smaller domains and the mechanisms over them, as JSON and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.cells import Cells, Classes, MergedValues
from noiseplan.errors import StorageError
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.schema import Schema
from noiseplan.storage.files import Arrays, Json

# Arrays of the mechanism over the smaller domain are told apart by this.
SMALL = "small_"


def write_reduced(
    mechanism: ReducedMechanism, write: Callable[[Mechanism], tuple[Json, Arrays]]
) -> tuple[Json, Arrays]:
    """Which values and cells are one, and the mechanism over what is left of them."""
    cells = mechanism.cells
    values = cells.values if isinstance(cells, Classes) else cells
    assert isinstance(values, MergedValues)
    arrays: Arrays = {"cells_attributes": values.positions}
    arrays |= {f"cells_groups_{i}": groups for i, groups in enumerate(values.groups)}
    if isinstance(cells, Classes):
        arrays["cells_classes"] = cells.classes
    content, small = write(mechanism.small)
    arrays |= {SMALL + name: array for name, array in small.items()}
    return {"kind": "reduced", "small": content}, arrays


def read_reduced(
    content: Mapping[str, Any],
    arrays: Arrays,
    schema: Schema,
    read: Callable[[Mapping[str, Any], Arrays, Schema], Mechanism],
) -> ReducedMechanism:
    """Undo `write_reduced`; refuses groups that leave a value or a cell out."""
    cells = _read_cells(arrays, schema)
    small = {name.removeprefix(SMALL): a for name, a in arrays.items() if name.startswith(SMALL)}
    return ReducedMechanism(cells, read(content["small"], small, cells.inner))


def _read_cells(arrays: Arrays, schema: Schema) -> Cells:
    positions = arrays["cells_attributes"]
    named = positions.tolist()
    if positions.ndim != 1 or positions.dtype.kind != "i" or not named:
        raise StorageError("the attributes of the smaller domain are not a list of numbers")
    if sorted(set(named)) != named or not 0 <= named[0] <= named[-1] < len(schema):
        raise StorageError("the attributes of the smaller domain are not those of the schema")
    groups = tuple(
        _groups(arrays[f"cells_groups_{i}"], schema.shape[a]) for i, a in enumerate(named)
    )
    values = MergedValues(schema, positions.astype(np.int64), groups)
    if "cells_classes" not in arrays:
        return values
    return Classes(values, _groups(arrays["cells_classes"], values.inner.size))


def _groups(found: Any, size: int) -> IntArray:
    """Numbers of groups, every one from 0 on in use, in the order of their first members."""
    if found.shape != (size,) or found.dtype.kind != "i":
        raise StorageError(f"groups of {size:,} members should be so many integers")
    distinct, first = np.unique(found, return_index=True)
    if not np.array_equal(distinct, np.arange(len(distinct))) or (np.diff(first) <= 0).any():
        raise StorageError("groups should be numbered from 0 by their first members")
    return np.asarray(found, dtype=np.int64)
