"""Arrays of other libraries as arrays of NumPy, and arrays of NumPy for other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _warpkov
from ._warpkov import DeviceArray

_CPU = 1
"""The device type of the CPU in DLPack."""

_CUDA = (2, 13)
"""The device types of memory of NVIDIA's GPUs in DLPack."""


def host(array: Any) -> np.ndarray:
    """Return an array in the memory of the host.

    Arrays of other libraries come through DLPack: those of the CPU without a copy, those of a GPU by one copy
    to the host, behind what their library has queued on its current stream.
    """
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        if hasattr(array, "detach"):
            # A tensor that records gradients exports none of its memory.
            array = array.detach()
        kind = int(array.__dlpack_device__()[0])
        if kind == _CPU:
            return np.from_dlpack(array)
        if kind in _CUDA:
            return fetch(array)
    return np.asarray(array)


def real(array: Any, name: str) -> np.ndarray:
    """Return an array of real numbers of any type, or nested lists, as float64 in the byte order of this machine.

    Masked elements become NaN. Messages call the array `name`.
    """
    if type(array) is np.ndarray and array.dtype == np.float64 and array.flags.aligned:
        return array
    found = host(array)
    if found.dtype.kind not in "biufO":
        raise ValueError(f"{name} has elements of type {found.dtype}, expected real numbers")
    if isinstance(array, np.ma.MaskedArray):
        masked: np.ndarray = np.ma.filled(array.astype(np.float64), np.nan)
        return masked
    numbers: np.ndarray = np.require(found, dtype=np.float64, requirements=["A"])
    return numbers


def fetch(array: Any) -> np.ndarray:
    """Return a copy of an array of any device that DLPack names, in the memory of the host."""
    data, offset, shape, strides, dtype = _warpkov.fetch(array)
    # DLPack has bytes of Booleans, as NumPy.
    return np.ndarray(shape, np.dtype(dtype), np.asarray(data), offset, strides)


def local(value: Any) -> Any:
    """Return a value, or a list, with arrays of NumPy and matrices of SciPy in place of those of other libraries."""
    if isinstance(value, (list, tuple)) and len(value) and (is_array(value[0]) or _sparse(value[0]) is not None):
        return [local(one) for one in value]
    found = _sparse(value)
    if found is not None:
        return found
    return host(value) if is_array(value) else value


def is_array(value: Any) -> bool:
    """Whether a value is a dense array of NumPy or of another library."""
    return isinstance(value, np.ndarray) or (hasattr(value, "__dlpack__") and not _layout(value))


def _layout(value: Any) -> str:
    """The layout of a sparse tensor of PyTorch: "csr", "csc" or "coo"; empty for all else."""
    layout = str(getattr(value, "layout", ""))
    return layout.removeprefix("torch.sparse_") if layout.startswith("torch.sparse_") else ""


def _sparse(value: Any) -> Any:
    """A sparse matrix of CuPy or PyTorch as one of SciPy. None if it is neither."""
    if type(value).__module__.startswith("cupyx.scipy.sparse"):
        return value.get()
    layout = _layout(value)
    if layout in ("csr", "csc"):
        pointers, indices = ("crow", "col") if layout == "csr" else ("ccol", "row")
        parts = (value.values(), getattr(value, f"{indices}_indices")(), getattr(value, f"{pointers}_indices")())
        matrix = sp.csr_array if layout == "csr" else sp.csc_array
        return matrix(tuple(host(part) for part in parts), shape=tuple(value.shape))
    if layout == "coo":
        value = value.coalesce()
        return sp.coo_array((host(value.values()), tuple(host(value.indices()))), shape=tuple(value.shape))
    if layout:
        raise ValueError(f"a tensor has layout {value.layout}, expected sparse_csr, sparse_csc, sparse_coo or strided")
    return None


def to_device(array: Any, device: str = "cuda:0") -> DeviceArray:
    """Copy an array to a GPU, for other libraries.

    Parameters
    ----------
    array : array
        Numbers of NumPy, or of another library.
    device : str
        The GPU: "cuda:0", "cuda:1" ...

    Returns
    -------
    DeviceArray
        An array with DLPack and the CUDA array interface: ``torch.from_dlpack``, ``cupy.from_dlpack``,
        ``jax.dlpack.from_dlpack`` and ``cupy.asarray`` take it without a copy, on any stream. It has the attributes
        `shape` and `dtype`.

    Raises
    ------
    DeviceError
        There is no such GPU, or it has too little memory.
    ValueError
        The array has no numbers, or the device is no GPU.

    Examples
    --------
    The values of a solution as a tensor of PyTorch on the GPU:

    >>> import warpkov
    >>> from warpkov import mdp
    >>> solution = mdp.solve(mdp.generate("forest", gamma=0.9))
    >>> values = torch.from_dlpack(warpkov.to_device(solution.values))  # doctest: +SKIP
    """
    kind, _, ordinal = device.partition(":")
    if kind != "cuda" or not (ordinal or "0").isdecimal():
        raise ValueError(f"device is '{device}', expected 'cuda:0' or another GPU")
    found = np.ascontiguousarray(host(array))
    if found.dtype.kind not in "biuf" or found.dtype.itemsize > 8:
        raise ValueError(f"array has elements of type {found.dtype}, expected numbers of at most 64 bits")
    # ascontiguousarray makes arrays without dimensions one-dimensional.
    shape = np.shape(array) if np.ndim(found) == 1 and found.size == 1 else found.shape
    found = found.astype(found.dtype.newbyteorder("="), copy=False)
    data = found.reshape(-1).view(np.uint8)
    return DeviceArray.copied(data, found.dtype.kind, found.dtype.itemsize, list(shape), int(ordinal or 0))
