"""Arrays of other libraries as arrays of NumPy."""

from typing import Any

import numpy as np

_CPU = 1
"""The device type of the CPU in DLPack."""


def host(array: Any) -> np.ndarray:
    """Return an array in the memory of the host.

    Arrays of other libraries come through DLPack: those of the CPU without a copy, those of a GPU by a
    copy to the host, on the stream of their library.
    """
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        if hasattr(array, "detach"):
            # A tensor that records gradients exports none of its memory.
            array = array.detach()
        if int(array.__dlpack_device__()[0]) == _CPU:
            return np.from_dlpack(array)
        # PyTorch's and CuPy's names of a copy to the host. Both wait for what has been queued before.
        for copy in ("cpu", "get"):
            if hasattr(array, copy):
                return np.asarray(getattr(array, copy)())
    return np.asarray(array)


def is_array(value: Any) -> bool:
    """Whether a value is a dense array of NumPy or of another library."""
    return isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")
