"""One text for several array libraries: NumPy, and PyTorch on an accelerator.

Only functions that both spell the same are used on such arrays: `linalg.eigh`, `linalg.cholesky`,
`sqrt`, `exp`, `log`, `einsum`, `flip`, `concatenate`, arithmetic, `sum`, `max`, `clip`, slices.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from noiseplan.matrices.base import Array

# An array of some library. Precise types would tie the text to one of them.
AnyArray = Any


def namespace_of(array: AnyArray) -> Any:
    """The module the array belongs to: numpy, or torch.

    Examples
    --------
    >>> namespace_of(np.ones(2)).__name__
    'numpy'
    """
    if isinstance(array, np.ndarray):
        return np
    return import_module(type(array).__module__.partition(".")[0])


def to_numpy(array: AnyArray) -> Array:
    """The same numbers as a NumPy array in main memory."""
    if not isinstance(array, np.ndarray):
        array = array.cpu().numpy()
    return np.asarray(array, dtype=np.float64)


def like(values: Array, array: AnyArray) -> AnyArray:
    """NumPy numbers as an array of the same library, precision and device as `array`."""
    if isinstance(array, np.ndarray):
        return values
    return namespace_of(array).as_tensor(values, dtype=array.dtype, device=array.device)
