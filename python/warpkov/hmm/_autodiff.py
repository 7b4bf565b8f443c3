"""`log_partition` for PyTorch and for JAX, which are imported when it is first called with their arrays."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from ._partition import Place, derivatives, values


@functools.cache
def _of_torch() -> Any:
    torch: Any = importlib.import_module("torch")

    def array(tensor: Any) -> np.ndarray:
        """The numbers of a tensor, without a copy if they are on the CPU."""
        return np.from_dlpack(tensor.detach().cpu().contiguous())

    def like(array: np.ndarray, tensor: Any) -> Any:
        return torch.from_dlpack(array).to(tensor)

    def forward(ctx: Any, start: Any, transitions: Any, steps: Any, lengths: tuple[int, ...], place: Place) -> Any:
        ctx.save_for_backward(start, transitions, steps)
        ctx.lengths, ctx.place = lengths, place
        return like(values([array(tensor) for tensor in (start, transitions, steps)], lengths, place), steps)

    def backward(ctx: Any, weights: Any) -> Any:
        tensors = ctx.saved_tensors
        found = derivatives([array(tensor) for tensor in tensors], ctx.lengths, ctx.place, array(weights))
        return (*(like(array, tensor) for array, tensor in zip(found, tensors)), None, None)

    once = torch.autograd.function.once_differentiable
    methods = {"forward": staticmethod(forward), "backward": staticmethod(once(backward))}
    return type("LogPartition", (torch.autograd.Function,), methods).apply  # type: ignore[attr-defined]


def of_torch(start: Any, transitions: Any, steps: Any, lengths: tuple[int, ...], place: Place) -> Any:
    """ln Z of each sequence, a tensor with derivatives."""
    torch: Any = importlib.import_module("torch")
    others = (torch.as_tensor(array, dtype=steps.dtype, device=steps.device) for array in (start, transitions))
    return _of_torch()(*others, steps, lengths, place)


@functools.lru_cache(maxsize=256)
def _of_jax(lengths: tuple[int, ...], place: Place) -> Any:
    """The function of chains of these lengths, which may be compiled: the recursions are a call to the host."""
    jax: Any = importlib.import_module("jax")

    def call(of: Any, shapes: Any, *arrays: Any) -> Any:
        return jax.pure_callback(of, shapes, *arrays, vmap_method="sequential")

    def forward(*arrays: Any) -> Any:
        dtype = arrays[2].dtype

        def of(*given: Any) -> Any:
            return values([np.asarray(array) for array in given], lengths, place).astype(dtype)

        return call(of, jax.ShapeDtypeStruct((len(lengths),), dtype), *arrays)

    def backward(arrays: Any, weights: Any) -> Any:
        def of(*given: Any) -> Any:
            *numbers, last = (np.asarray(array) for array in given)
            found = derivatives(numbers, lengths, place, last)
            return tuple(array.astype(like.dtype) for array, like in zip(found, arrays))

        return call(of, tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays), *arrays, weights)

    function = jax.custom_vjp(forward)
    function.defvjp(lambda *arrays: (forward(*arrays), arrays), backward)
    return function


def of_jax(start: Any, transitions: Any, steps: Any, lengths: tuple[int, ...], place: Place) -> Any:
    """ln Z of each sequence, an array with derivatives."""
    numpy: Any = importlib.import_module("jax.numpy")
    return _of_jax(lengths, place)(numpy.asarray(start), numpy.asarray(transitions), steps)
