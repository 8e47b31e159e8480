"""Mechanisms that measure tables with Laplace noise, as JSON and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noiseplan.errors import StorageError
from noiseplan.mechanisms.attribute_views import View, by_difference, by_value
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.tables import TableBlock, TablesMechanism
from noiseplan.schema import Schema
from noiseplan.storage.bases import floats, read_bases, write_bases
from noiseplan.storage.files import Arrays, Json


def write_tables_mechanism(mechanism: TablesMechanism) -> tuple[Json, Arrays]:
    """Bases, how attributes are measured, and the tables with their noise."""
    bases, arrays = write_bases(mechanism.bases, mechanism.basis_of)
    views = list(dict.fromkeys(v for block in mechanism.tables for v in block.views))
    number = {view: i for i, view in enumerate(views)}
    for i, view in enumerate(views):
        if view.kind == "strategy":
            arrays[f"view_{i}_measure"] = np.asarray(view.measure)
            arrays[f"view_{i}_reduce"] = np.asarray(view.reduce)
    for i, block in enumerate(mechanism.tables):
        arrays[f"table_{i}_sets"], arrays[f"table_{i}_scales"] = block.sets, block.scales
    content = {
        "kind": "tables",
        "integer": mechanism.integer,
        "bases": bases,
        "views": [{"kind": v.kind, "size": v.size, "total": v.total} for v in views],
        "tables": [[number[view] for view in block.views] for block in mechanism.tables],
    }
    return content, arrays


def read_tables_mechanism(
    content: Mapping[str, Any], arrays: Arrays, schema: Schema
) -> TablesMechanism:
    """Undo `write_tables_mechanism`."""
    bases, basis_of = read_bases(content, arrays, schema)
    integer, used = bool(content["integer"]), _basis_of_views(content, arrays, basis_of)
    views = [
        _read_view(saved, i, arrays, bases[used[i]]) for i, saved in enumerate(content["views"])
    ]
    tables = []
    for i, own in enumerate(content["tables"]):
        sets, scales = arrays[f"table_{i}_sets"], floats(arrays, f"table_{i}_scales", 1)
        if len(sets) != len(scales) or not len(sets) or not (scales > 0).all():
            raise StorageError(f"tables {i} have parts that do not fit each other, or no noise")
        mine = tuple(views[v] for v in own)
        sizes = np.array(schema.shape)[sets]
        if sets.shape[1] != len(own) or (sizes != [view.size for view in mine]).any():
            raise StorageError(f"tables {i} measure attributes in ways that do not fit them")
        if (np.diff(sets, axis=1) <= 0).any():
            raise StorageError(f"tables {i} have attributes that are not in ascending order")
        tables.append(TableBlock(sets.astype(np.int64), scales, mine, integer))
    return TablesMechanism(schema, tuple(tables), bases, basis_of, integer)


def _basis_of_views(content: Mapping[str, Any], arrays: Arrays, basis_of: Any) -> dict[int, int]:
    """The basis that goes with each view: that of the attributes it is used for, all the same."""
    used: dict[int, int] = {}
    for i, own in enumerate(content["tables"]):
        sets = arrays[f"table_{i}_sets"]
        if sets.ndim != 2 or sets.dtype.kind != "i" or sets.shape[1] != len(own):
            raise StorageError(f"tables {i} are not rows of attribute numbers")
        if sets.size and not (sets.min() >= 0 and sets.max() < len(basis_of)):
            raise StorageError(f"tables {i} measure an attribute that is not there")
        for column, view in enumerate(own):
            mine = np.unique(basis_of[sets[:, column]])
            if len(mine) != 1 or mine[0] < 0 or used.setdefault(view, int(mine[0])) != mine[0]:
                raise StorageError(f"tables {i} mix attributes of different bases")
    if sorted(used) != list(range(len(content["views"]))):
        raise StorageError("the tables measure attributes in ways that are not there, or unused")
    return used


def _read_view(saved: Mapping[str, Any], i: int, arrays: Arrays, basis: Basis) -> View:
    if saved["size"] != basis.size:
        raise StorageError(f"view {i} does not fit its basis")
    if saved["kind"] == "values" and basis.rows in (basis.size - 1, basis.size):
        return by_value(basis.size, basis)
    if saved["kind"] == "difference" and basis.size == 2 and basis.rows == 1:
        return by_difference(basis)
    if saved["kind"] != "strategy":
        raise StorageError(f"unknown view {saved['kind']!r}: was it saved by a newer noiseplan?")
    measure, reduce = (floats(arrays, f"view_{i}_{part}", 2) for part in ("measure", "reduce"))
    total = float(saved["total"])
    if (
        reduce.shape != (basis.rows + 1, len(measure))
        or measure.shape[1] != basis.size
        or not 0 < total < np.inf
    ):
        raise StorageError(f"view {i} has parts that do not fit each other")
    return View("strategy", measure, reduce, total)
