"""Products of fast strategies as JSON: the name and size of every factor, and the noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noiseplan.errors import StorageError
from noiseplan.matrices import HaarMatrix, IdentityMatrix, TreeMatrix
from noiseplan.mechanisms.product import Factor, ProductMechanism
from noiseplan.schema import Schema
from noiseplan.storage.files import Json


def write_product(mechanism: ProductMechanism) -> Json:
    """All that answers and errors are computed from."""
    laplace = {} if mechanism.scale is None else {"scale": mechanism.scale}
    return {
        "kind": "product",
        "integer": mechanism.integer,
        "sigma2": mechanism.sigma2,
        **laplace,
        "factors": [_write_factor(factor) for factor in mechanism.factors],
    }


def _write_factor(factor: Factor) -> Json:
    if isinstance(factor, TreeMatrix):
        return {"kind": "tree", "size": factor.size, "branching": factor.branching}
    if isinstance(factor, HaarMatrix):
        return {"kind": "haar", "size": factor.size}
    assert isinstance(factor, IdentityMatrix)
    return {"kind": "identity", "size": factor.size}


def read_product(content: Mapping[str, Any], schema: Schema) -> ProductMechanism:
    """Undo `write_product`."""
    sigma2, scale = float(content["sigma2"]), content.get("scale")
    sizes = [saved["size"] for saved in content["factors"]]
    if sizes != list(schema.shape) or not 0 < sigma2 < np.inf:
        raise StorageError("the strategies do not fit the schema, or their noise is no variance")
    factors = tuple(_read_factor(saved) for saved in content["factors"])
    if scale is not None and not (float(scale) > 0 and 2 * float(scale) ** 2 == sigma2):
        raise StorageError("the strategies' Laplace noise has a scale that is not its own")
    laplace = None if scale is None else float(scale)
    return ProductMechanism(schema, factors, sigma2, bool(content["integer"]), laplace)


def _read_factor(saved: Mapping[str, Any]) -> Factor:
    match saved:
        case {"kind": "tree", "size": int(size), "branching": int(branching)}:
            return TreeMatrix(size, branching)
        case {"kind": "haar", "size": int(size)}:
            return HaarMatrix(size)
        case {"kind": "identity", "size": int(size)}:
            return IdentityMatrix(size)
    raise StorageError(f"unknown strategy {saved!r}: was it saved by a newer noiseplan?")
