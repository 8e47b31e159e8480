"""Mechanisms as JSON and arrays: exactly what was measured, independent of how it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noiseplan.errors import PlanError, StorageError
from noiseplan.mechanisms.base import Measurements, Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block, Blocks
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.product import ProductMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.tables import TablesMechanism
from noiseplan.schema import Schema
from noiseplan.storage.bases import floats, read_bases, write_bases
from noiseplan.storage.cells import read_reduced, write_reduced
from noiseplan.storage.files import Arrays, Json
from noiseplan.storage.noisy_tables import read_tables_mechanism, write_tables_mechanism
from noiseplan.storage.products import read_product, write_product


def write_mechanism(mechanism: Mechanism) -> tuple[Json, Arrays]:
    """All that answers and errors are computed from, bit for bit."""
    if isinstance(mechanism, DenseMechanism):
        noise = {"integer": mechanism.integer, "sigma2": mechanism.sigma2}
        laplace = {} if mechanism.scale is None else {"scale": mechanism.scale}
        return {"kind": "dense", **noise, **laplace}, {"strategy": mechanism.strategy}
    if isinstance(mechanism, ProductMechanism):
        return write_product(mechanism), {}
    if isinstance(mechanism, TablesMechanism):
        return write_tables_mechanism(mechanism)
    if isinstance(mechanism, ReducedMechanism):
        return write_reduced(mechanism, write_mechanism)
    if isinstance(mechanism, ResidualMechanism):
        return _write_residual(mechanism)
    raise StorageError(f"{type(mechanism).__name__} cannot be saved")


def read_mechanism(content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> Mechanism:
    """Undo `write_mechanism`."""
    try:
        return _read(content, arrays, schema)
    except PlanError as refused:  # such as integers that are none
        raise StorageError(f"the plan's mechanism is none: {refused}") from None


def _read(content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> Mechanism:
    if content["kind"] == "dense":
        strategy, sigma2 = floats(arrays, "strategy", 2), float(content["sigma2"])
        if strategy.shape[1] != schema.size or not 0 < sigma2 < np.inf:
            raise StorageError("the strategy does not fit the schema, or its noise is no variance")
        scale = content.get("scale")
        if scale is not None and not (float(scale) > 0 and 2 * float(scale) ** 2 == sigma2):
            raise StorageError("the strategy's Laplace noise has a scale that is not its own")
        laplace = None if scale is None else float(scale)
        return DenseMechanism(schema, strategy, sigma2, bool(content["integer"]), laplace)
    if content["kind"] == "product":
        return read_product(content, schema)
    if content["kind"] == "tables":
        return read_tables_mechanism(content, arrays, schema)
    if content["kind"] == "reduced":
        return read_reduced(content, arrays, schema, read_mechanism)
    if content["kind"] == "residual":
        return _read_residual(content, arrays, schema)
    raise StorageError(f"unknown mechanism {content['kind']!r}: was it saved by a newer noiseplan?")


def check_measurements(mechanism: Mechanism, measured: Measurements) -> None:
    """Refuse numbers that this mechanism cannot have measured."""
    if isinstance(mechanism, ReducedMechanism):
        mechanism = mechanism.small
    if isinstance(mechanism, TablesMechanism):
        mechanism = mechanism.residuals
    if isinstance(mechanism, ResidualMechanism):
        shapes = [(*block.shape, len(block)) for block in mechanism.blocks]
    else:
        shapes = [(mechanism.numbers,)]
    if [values.shape for values in measured.values] != shapes:
        raise StorageError("the measurements do not have the shapes that the plan measures")
    if not all(np.isfinite(values).all() for values in measured.values):
        raise StorageError("the measurements hold numbers that are not finite")
    # Integers that were put together from several measurements are means, and no integers.
    kinds = "if" if getattr(mechanism, "integer", False) else "f"
    if any(values.dtype.kind not in kinds for values in measured.values):
        raise StorageError("the measurements are not the kind of numbers that the plan measures")


def _write_residual(mechanism: ResidualMechanism) -> tuple[Json, Arrays]:
    blocks = mechanism.blocks
    bases, arrays = write_bases(blocks.bases, blocks.basis_of)
    for i, block in enumerate(blocks):
        arrays[f"block_{i}_sets"], arrays[f"block_{i}_sigma2"] = block.sets, block.sigma2
    content = {
        "kind": "residual",
        "integer": mechanism.integer,
        "bases": bases,
        "blocks": len(blocks.blocks),
    }
    return content, arrays


def _read_residual(content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> ResidualMechanism:
    bases, basis_of = read_bases(content, arrays, schema)
    integer = bool(content["integer"])
    blocks = [_read_block(i, arrays, bases, basis_of, integer) for i in range(content["blocks"])]
    return ResidualMechanism(schema, Blocks(tuple(blocks), bases, basis_of), integer)


def _read_block(
    i: int, arrays: Arrays, bases: tuple[Basis, ...], basis_of: Any, integer: bool
) -> Block:
    sets, sigma2 = arrays[f"block_{i}_sets"], floats(arrays, f"block_{i}_sigma2", 1)
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
