"""One text for several array libraries: NumPy, or any with the array API (a GPU through PyTorch).

NumPy needs nothing more; other libraries come through `array-api-compat`, part of the extra
``gpu``. Only functions that both spell the same are used on such arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array

# An array of some library. Precise types would tie the text to one of them.
AnyArray = Any


def namespace_of(array: AnyArray) -> Any:
    """The module whose functions work on the array.

    Examples
    --------
    >>> namespace_of(np.ones(2)).__name__
    'numpy'
    """
    if isinstance(array, np.ndarray):
        return np
    import array_api_compat  # only where another library is used

    return array_api_compat.array_namespace(array)


def to_backend(array: Array, backend: str) -> AnyArray:
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


def to_numpy(array: AnyArray) -> Array:
    """The same numbers as a NumPy array in main memory."""
    if not isinstance(array, np.ndarray):
        array = array.cpu().numpy()
    return np.asarray(array, dtype=np.float64)


def like(values: Array, array: AnyArray) -> AnyArray:
    """NumPy numbers as an array of the same library, precision and device as `array`."""
    if isinstance(array, np.ndarray):
        return values
    return namespace_of(array).asarray(values, dtype=array.dtype, device=array.device)
