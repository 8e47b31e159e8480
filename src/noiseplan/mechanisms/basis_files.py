"""The bases of attributes as JSON and arrays, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from noiseplan.arrays import Arrays, IntArray, Json
from noiseplan.errors import StorageError
from noiseplan.mechanisms.base import floats
from noiseplan.mechanisms.basis import WIDE, Basis, MatrixBasis, WideBasis
from noiseplan.mechanisms.own_rows import OwnRows, axis_groups, centre_of_cells, undoes
from noiseplan.schema import Schema

# No attribute of a release has more values.
MOST_VALUES = 1 << 24
# Bases that follow from the size alone, by the name they are saved under.
PLAIN = {"integer": MatrixBasis.integer, "orthogonal": MatrixBasis.orthogonal}


def write_bases(bases: tuple[Basis, ...], basis_of: IntArray) -> tuple[list[Json], Arrays]:
    """Every basis by name or by numbers, and which attribute has which."""
    arrays: Arrays = {"basis_of_attribute": basis_of}
    saved = []
    for i, basis in enumerate(bases):
        saved.append(_write_basis(basis))
        if isinstance(basis, MatrixBasis) and saved[-1]["kind"] == "matrix":
            arrays[f"basis_{i}_measure"] = basis.measure
            arrays[f"basis_{i}_centre"] = basis.centre
            arrays[f"basis_{i}_recover"] = basis.recover
    return saved, arrays


def read_bases(
    content: Mapping[str, Any], arrays: Arrays, schema: Schema
) -> tuple[tuple[Basis, ...], IntArray]:
    """Undo `write_bases`; refuses bases that do not fit the schema."""
    bases = tuple(_read_basis(saved, i, arrays) for i, saved in enumerate(content["bases"]))
    basis_of = np.asarray(arrays["basis_of_attribute"])
    if basis_of.shape != (len(schema),) or basis_of.dtype.kind != "i":
        raise StorageError("the attributes of the mechanism are not those of the schema")
    if basis_of.size and not (basis_of.min() >= -1 and basis_of.max() < len(bases)):
        raise StorageError("an attribute of the mechanism has a basis that is not there")
    for attribute, basis in zip(schema.attributes, basis_of, strict=True):
        if basis >= 0 and bases[basis].size != attribute.size:
            raise StorageError("a basis of the mechanism does not fit its attribute")
    return bases, basis_of


def write_own(i: int, own: OwnRows | None, arrays: Arrays) -> Json | None:
    """The rows of block i, if it has any of its own, into arrays."""
    if own is None:
        return None
    for j, part in enumerate(own.parts):
        arrays[f"own_{i}_{j}_measure"], arrays[f"own_{i}_{j}_recover"] = part.measure, part.recover
    return {"whole": own.whole}


def read_own(i: int, saved: Mapping[str, Any], arrays: Arrays, bases: tuple[Basis, ...]) -> OwnRows:
    """Undo `write_own`; refuses rows that do not fit these bases."""
    groups = axis_groups([basis.centre for basis in bases], bool(saved["whole"]))
    parts = []
    for j, centres in enumerate(groups):
        measure, recover = (floats(arrays, f"own_{i}_{j}_{k}", 2) for k in ("measure", "recover"))
        centre = centre_of_cells(centres)
        if measure.shape != recover.shape[::-1] or measure.shape[1:] != centre.shape:
            raise StorageError(f"the rows of block {i} have parts that do not fit each other")
        parts.append(MatrixBasis(measure, centre, recover))
        if not undoes(parts[-1], centres):
            raise StorageError(f"block {i} does not undo what it measures by rows of its own")
    return OwnRows(tuple(parts), bool(saved["whole"]))


def _write_basis(basis: Basis) -> Json:
    if isinstance(basis, WideBasis):
        return {"kind": "wide", "size": basis.size, "scale": basis.scale}
    for kind, make in PLAIN.items():
        if basis.rows and np.array_equal(np.asarray(basis.measure), make(basis.size).measure):
            return {"kind": kind, "size": basis.size}
    return {"kind": "matrix", "size": basis.size}


def _read_basis(saved: Mapping[str, Any], i: int, arrays: Arrays) -> Basis:
    if saved["kind"] in PLAIN or saved["kind"] == "wide":
        most = MOST_VALUES if saved["kind"] == "wide" else WIDE
        if type(saved["size"]) is not int or not 1 <= saved["size"] <= most:
            raise StorageError(f"basis {i} has a size of {saved['size']!r}")
        if saved["kind"] == "wide":
            return _wide(saved)
        return _plain(saved["kind"], saved["size"])
    if saved["kind"] != "matrix":
        raise StorageError(f"unknown basis {saved['kind']!r}: was it saved by a newer noiseplan?")
    measure, recover = (floats(arrays, f"basis_{i}_{part}", 2) for part in ("measure", "recover"))
    centre = floats(arrays, f"basis_{i}_centre", 1)
    if measure.shape != recover.shape[::-1] or measure.shape[1:] != centre.shape:
        raise StorageError(f"basis {i} has parts that do not fit each other")
    basis = MatrixBasis(measure, centre, recover)
    if not np.abs(basis.forward @ basis.inverse - np.eye(basis.rows + 1)).max() <= 1e-6:
        raise StorageError(f"basis {i} does not undo what it measures")
    return basis


@lru_cache(maxsize=2 * WIDE)
def _plain(kind: str, size: int) -> Basis:
    """A basis that follows from its size: once, however often it is named."""
    return PLAIN[kind](size)


def _wide(saved: Mapping[str, Any]) -> Basis:
    if not 0 < float(saved["scale"]) < np.inf:
        raise StorageError(f"a wide basis has a scale of {saved['scale']!r}")
    return WideBasis(saved["size"], float(saved["scale"]))
