"""Mechanisms as JSON and arrays: exactly what was measured, independent of how it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noiseplan.errors import StorageError
from noiseplan.mechanisms.basis import Basis, MatrixBasis, WideBasis
from noiseplan.mechanisms.blocks import Block, Blocks
from noiseplan.mechanisms.dense import DenseMechanism
from noiseplan.mechanisms.mechanism import Measurements, Mechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.schema import Schema
from noiseplan.storage.files import Arrays, Json

# No attribute of a release has more values.
MOST_VALUES = 1 << 24
# Bases that follow from the size alone, by the name they are saved under.

PLAIN = {"integer": MatrixBasis.integer, "orthogonal": MatrixBasis.orthogonal}


def write_mechanism(mechanism: Mechanism) -> tuple[Json, Arrays]:
    """All that answers and errors are computed from, bit for bit."""
    if isinstance(mechanism, DenseMechanism):
        return (
            {"kind": "dense", "integer": mechanism.integer, "sigma2": mechanism.sigma2},
            {"strategy": mechanism.strategy},
        )
    if isinstance(mechanism, ResidualMechanism):
        return _write_residual(mechanism)
    raise StorageError(f"{type(mechanism).__name__} cannot be saved")


def read_mechanism(content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> Mechanism:
    """Undo `write_mechanism`."""
    if content["kind"] == "dense":
        strategy, sigma2 = _floats(arrays, "strategy", 2), float(content["sigma2"])
        if strategy.shape[1] != schema.size or not 0 < sigma2 < np.inf:
            raise StorageError("the strategy does not fit the schema, or its noise is no variance")
        return DenseMechanism(schema, strategy, sigma2, bool(content["integer"]))
    if content["kind"] == "residual":
        return _read_residual(content, arrays, schema)
    raise StorageError(f"unknown mechanism {content['kind']!r}: was it saved by a newer noiseplan?")


def check_measurements(mechanism: Mechanism, measured: Measurements) -> None:
    """Refuse numbers that this mechanism cannot have measured."""
    if isinstance(mechanism, ResidualMechanism):
        shapes = [(*block.shape, len(block)) for block in mechanism.blocks]
    else:
        shapes = [(mechanism.numbers,)]
    if [values.shape for values in measured.values] != shapes:
        raise StorageError("the measurements do not have the shapes that the plan measures")
    if not all(np.isfinite(values).all() for values in measured.values):
        raise StorageError("the measurements hold numbers that are not finite")


def _write_residual(mechanism: ResidualMechanism) -> tuple[Json, Arrays]:
    blocks = mechanism.blocks
    arrays: Arrays = {"basis_of_attribute": blocks.basis_of}
    bases = []
    for i, basis in enumerate(blocks.bases):
        bases.append(_write_basis(basis))
        if isinstance(basis, MatrixBasis) and bases[-1]["kind"] == "matrix":
            arrays[f"basis_{i}_measure"] = basis.measure
            arrays[f"basis_{i}_centre"] = basis.centre
            arrays[f"basis_{i}_recover"] = basis.recover
    for i, block in enumerate(blocks):
        arrays[f"block_{i}_sets"], arrays[f"block_{i}_sigma2"] = block.sets, block.sigma2
    content = {
        "kind": "residual",
        "integer": mechanism.integer,
        "bases": bases,
        "blocks": len(blocks.blocks),
    }
    return content, arrays


def _write_basis(basis: Basis) -> Json:
    if isinstance(basis, WideBasis):
        return {"kind": "wide", "size": basis.size, "scale": basis.scale}
    for kind, make in PLAIN.items():
        if basis.rows and np.array_equal(np.asarray(basis.measure), make(basis.size).measure):
            return {"kind": kind, "size": basis.size}
    return {"kind": "matrix", "size": basis.size}


def _read_residual(content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> ResidualMechanism:
    bases = tuple(_read_basis(saved, i, arrays) for i, saved in enumerate(content["bases"]))
    basis_of = np.asarray(arrays["basis_of_attribute"])
    if basis_of.shape != (len(schema),) or basis_of.dtype.kind != "i":
        raise StorageError("the attributes of the mechanism are not those of the schema")
    if basis_of.size and not (basis_of.min() >= -1 and basis_of.max() < len(bases)):
        raise StorageError("an attribute of the mechanism has a basis that is not there")
    for attribute, basis in zip(schema.attributes, basis_of, strict=True):
        if basis >= 0 and bases[basis].size != attribute.size:
            raise StorageError("a basis of the mechanism does not fit its attribute")
    integer = bool(content["integer"])
    blocks = [_read_block(i, arrays, bases, basis_of, integer) for i in range(content["blocks"])]
    return ResidualMechanism(schema, Blocks(tuple(blocks), bases, basis_of), integer)


def _read_basis(saved: Mapping[str, Any], i: int, arrays: Arrays) -> Basis:
    if saved["kind"] in PLAIN or saved["kind"] == "wide":
        if type(saved["size"]) is not int or not 1 <= saved["size"] <= MOST_VALUES:
            raise StorageError(f"basis {i} has a size of {saved['size']!r}")
        if saved["kind"] == "wide":
            return _wide(saved)
        return PLAIN[saved["kind"]](saved["size"])
    if saved["kind"] != "matrix":
        raise StorageError(f"unknown basis {saved['kind']!r}: was it saved by a newer noiseplan?")
    measure, recover = (_floats(arrays, f"basis_{i}_{part}", 2) for part in ("measure", "recover"))
    centre = _floats(arrays, f"basis_{i}_centre", 1)
    if measure.shape != recover.shape[::-1] or measure.shape[1:] != centre.shape:
        raise StorageError(f"basis {i} has parts that do not fit each other")
    return MatrixBasis(measure, centre, recover)


def _wide(saved: Mapping[str, Any]) -> Basis:
    if not 0 < float(saved["scale"]) < np.inf:
        raise StorageError(f"a wide basis has a scale of {saved['scale']!r}")
    return WideBasis(saved["size"], float(saved["scale"]))


def _read_block(
    i: int, arrays: Arrays, bases: tuple[Basis, ...], basis_of: Any, integer: bool
) -> Block:
    sets, sigma2 = arrays[f"block_{i}_sets"], _floats(arrays, f"block_{i}_sigma2", 1)
    if sets.ndim != 2 or sets.dtype.kind != "i" or len(sets) != len(sigma2) or not len(sets):
        raise StorageError(f"block {i} has parts that do not fit each other")
    if sets.size and not (sets.min() >= 0 and sets.max() < len(basis_of)):
        raise StorageError(f"block {i} measures an attribute that is not there")
    own = basis_of[sets]
    if (own < 0).any() or (own != own[0]).any() or (sigma2 < 0).any():
        raise StorageError(f"block {i} mixes attributes of different bases, or has no noise")
    if (np.diff(sets, axis=1) <= 0).any():
        raise StorageError(f"block {i} has sets of attributes that are not in ascending order")
    return Block(sets.astype(np.int64), sigma2, tuple(bases[b] for b in own[0]), integer)


def _floats(arrays: Arrays, name: str, ndim: int) -> Any:
    found = np.asarray(arrays[name], dtype=np.float64)
    if found.ndim != ndim or not np.isfinite(found).all():
        raise StorageError(f"{name} should be {ndim}-dimensional finite numbers")
    return found
