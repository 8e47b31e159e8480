"""Workloads as JSON and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from noiseplan.arrays import Arrays, Json
from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.matrices.base import Array
from noiseplan.queries import (
    Custom,
    Factor,
    Identity,
    Level,
    Levels,
    Prefix,
    Ranges,
    Total,
    Workload,
)
from noiseplan.queries.columns import QueryColumns
from noiseplan.queries.query import checked_weight
from noiseplan.schema import Schema
from noiseplan.schema.labels import label_from_json, label_to_json

SIMPLE: dict[str, type[Factor]] = {
    "identity": Identity,
    "prefix": Prefix,
    "ranges": Ranges,
    "total": Total,
}
# Factors that are saved as what they are; others as the matrices they have.
KNOWN: tuple[type[Factor], ...] = (*SIMPLE.values(), Level, Levels, Custom)


def write_workload(workload: Workload) -> tuple[Json, Arrays]:
    """The schema and the factors as JSON, the queries as columns of numbers."""
    columns = workload.columns
    if not all(isinstance(factor, KNOWN) for factor in columns.distinct):
        columns = _portable(workload)
    arrays: Arrays = {
        "query_attributes": columns.attributes,
        "query_factors": columns.factors,
        "query_weights": columns.weights,
        "query_matrix": columns.joint,
    }
    arrays |= {f"matrix_{i}": matrix for i, matrix in enumerate(columns.matrices)}
    factors = []
    for i, factor in enumerate(columns.distinct):
        factors.append(_write_factor(factor))
        if isinstance(factor, Custom):
            arrays[f"factor_{i}"] = factor.values
    content = {
        "schema": workload.schema.to_dict(),
        "factors": factors,
        "names": [[q, name] for q, name in columns.names.items()],
        "matrices": len(columns.matrices),
    }
    return content, arrays


def read_workload(
    content: Mapping[str, Any], arrays: Arrays, numbers: int, *, all_measured: bool = False
) -> Workload:
    """Undo `write_workload`; every query is checked as if it were written by hand.

    Attributes with more values than a folder has `numbers` are refused before they are looked at:
    whatever tells n values of an attribute apart holds at least n − 1 numbers, a matrix over them,
    groups of them, or what was measured. Attributes nobody asks about may have any size.
    """
    schema, factors = Schema.from_dict(content["schema"]), content["factors"]
    named = _integers(arrays, "query_attributes", -1, len(schema) - 1, 2)
    asked = _integers(arrays, "query_factors", -1, len(factors) - 1, 2)
    if named.shape != asked.shape:
        raise StorageError("the columns of the workload have different lengths or widths")
    sums = [f for f, saved in enumerate(factors) if saved["kind"] == "total"]
    used = range(len(schema)) if all_measured else np.unique(named[~np.isin(asked, [-1, *sums])])
    for a in used:
        if schema.shape[a] - 1 > numbers:
            raise StorageError(
                f"{schema.names[a]!r} has {schema.shape[a]:,} values, and there are only "
                f"{numbers:,} numbers to tell them apart"
            )
    distinct = (_read_factor(saved, arrays.get(f"factor_{i}")) for i, saved in enumerate(factors))
    columns = QueryColumns(
        attributes=named,
        factors=asked,
        weights=np.asarray(arrays["query_weights"], dtype=np.float64),
        joint=_integers(arrays, "query_matrix", -1, content["matrices"] - 1, 1),
        distinct=tuple(distinct),
        matrices=tuple(_fixed(arrays[f"matrix_{i}"]) for i in range(content["matrices"])),
        names={int(q): str(name) for q, name in content["names"]},
    )
    _check(schema, columns)
    return Workload.from_columns(schema, columns)


def _portable(workload: Workload) -> QueryColumns:
    """The columns with factors of foreign classes written out as the matrices they are.

    Such a factor may have another matrix on another attribute, so each pair gets its own.
    """
    columns = workload.columns
    distinct: dict[Factor, int] = {}
    factors = np.full_like(columns.factors, -1)
    for a, f in workload.pairs():
        factor, attribute = columns.distinct[f], workload.schema.attributes[a]
        if not isinstance(factor, KNOWN):
            rows = factor.matrix(attribute).dense()
            factor = Custom(rows, factor.label or None, list(factor.row_labels(attribute)))
        number = distinct.setdefault(factor, len(distinct))
        factors[(columns.attributes == a) & (columns.factors == f)] = number
    joint = columns.joint >= 0  # with a matrix, the identity stands for every attribute
    if joint.any():
        number = distinct.setdefault(Identity(), len(distinct))
        factors[joint] = np.where(columns.attributes[joint] >= 0, number, -1)
    return replace(columns, factors=factors, distinct=tuple(distinct))


def _write_factor(factor: Factor) -> Json:
    for kind, simple in SIMPLE.items():
        if isinstance(factor, simple):
            return {"kind": kind}
    if isinstance(factor, Custom):
        labels = [label_to_json(label) for label in factor.labels]  # type: ignore[arg-type]
        return {"kind": "custom", "name": factor.name, "labels": labels}
    if isinstance(factor, Level):
        return {"kind": "level", "levels": list(factor.levels)}
    assert isinstance(factor, Levels)
    levels = list(map(_write_groups, factor.groups))
    return {"kind": "levels", "levels": levels, "leaves": factor.leaves, "total": factor.total}


def _write_groups(level: Any) -> int | Json:
    if isinstance(level, int):
        return level
    if isinstance(level, tuple):
        return {"groups": [label_to_json(group) for group in level]}
    pairs = [[label_to_json(value), label_to_json(group)] for value, group in level]
    return {"pairs": sorted(pairs, key=repr)}


def _read_factor(saved: Mapping[str, Any], matrix: Array | None) -> Factor:
    kind = saved["kind"]
    if kind in SIMPLE:
        return SIMPLE[kind]()
    if kind == "custom" and matrix is not None:
        return Custom(matrix, saved["name"], [label_from_json(x) for x in saved["labels"]])
    if kind == "level":
        return Level(*saved["levels"])
    if kind == "levels":
        levels = map(_read_groups, saved["levels"])
        return Levels(*levels, leaves=saved["leaves"], total=saved["total"])
    raise StorageError(f"unknown factor {kind!r}: was it saved by a newer noiseplan?")


def _read_groups(saved: int | Mapping[str, Any]) -> Any:
    if isinstance(saved, int):
        return saved
    if "groups" in saved:
        return [label_from_json(group) for group in saved["groups"]]
    return {label_from_json(value): label_from_json(group) for value, group in saved["pairs"]}


def _integers(arrays: Arrays, name: str, lowest: int, highest: int, ndim: int) -> Any:
    found = arrays[name]
    if found.dtype.kind not in "iu" or found.ndim != ndim:
        raise StorageError(f"{name} should be {ndim}-dimensional integers")
    if found.size and not (lowest <= found.min() and found.max() <= highest):
        raise StorageError(f"{name} holds numbers outside {lowest} … {highest}")
    return found.astype(np.int64)


def _fixed(matrix: Array) -> Array:
    matrix = np.asarray(matrix, dtype=np.float64)
    matrix.setflags(write=False)
    return matrix


def _check(schema: Schema, columns: QueryColumns) -> None:
    """Refuse columns that no workload has; then the queries themselves, one of each kind."""
    count = len(columns.weights)
    if columns.weights.ndim != 1:
        raise StorageError("query_weights should be one number for each query")
    if not count or {len(columns.attributes), len(columns.factors), len(columns.joint)} != {count}:
        raise StorageError("the columns of the workload have different lengths")

    if ((columns.attributes >= 0) != (columns.factors >= 0)).any():
        raise StorageError("an attribute of the workload has no factor")
    if any(not 0 <= q < count for q in columns.names):
        raise StorageError("a name belongs to no query")
    both = columns.attributes
    rising = (both[:, 1:] > both[:, :-1]) | (both[:, 1:] == -1)
    if not rising.all():
        raise StorageError("the attributes of a query are not in ascending order")
    workload = Workload.from_columns(schema, columns)
    try:
        for weight in np.unique(columns.weights):
            checked_weight(float(weight))
        for a, f in workload.pairs():
            columns.distinct[f].check(schema.names[a], schema.attributes[a])
        for q in np.flatnonzero(columns.joint >= 0):
            workload.query(int(q))
    except NoiseplanError as error:
        raise StorageError(f"a query of the workload makes no sense: {error}") from None
