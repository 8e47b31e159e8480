"""Which array library an array belongs to: NumPy, or any with the array API (a GPU through torch).

The optimiser's core is written once against that interface. NumPy needs nothing more; other
libraries come through `array-api-compat`, part of the extra ``gpu``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import to_numpy

__all__ = ["Tensor", "namespace", "to_backend", "to_numpy"]

# An array of any library; its operations are those of the array API standard.
Tensor = Any


def namespace(array: Tensor) -> Any:
    """The module whose functions work on `array`."""
    if isinstance(array, np.ndarray):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(array)


def to_backend(array: Array, backend: str) -> Tensor:
    """A NumPy array moved to "numpy", "torch" or a device of it such as "torch:cuda"."""
    name, _, device = backend.partition(":")
    if name == "numpy":
        return array
    if name != "torch":
        raise PlanError(f"backend is 'numpy', 'torch' or 'torch:cuda', found {backend!r}")
    try:
        import array_api_compat.torch as torch
    except ImportError as error:
        raise PlanError(
            f"backend {backend!r} needs PyTorch and array-api-compat: "
            f"pip install 'noiseplan[gpu]', or leave backend out for NumPy"
        ) from error
    return torch.asarray(array, device=device or "cpu")
