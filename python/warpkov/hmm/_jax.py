"""`log_partition` for JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._partition import Place, derivatives, values


@functools.lru_cache(maxsize=256)
def _function(lengths: tuple[int, ...], place: Place) -> Any:
    """The function of chains of these lengths, which may be compiled: the recursions are a call to the host."""

    def call(of: Any, shapes: Any, *arrays: Any) -> Any:
        return jax.pure_callback(of, shapes, *arrays, vmap_method="sequential")

    def forward(*arrays: Any) -> Any:
        steps = arrays[2]
        shape = jax.ShapeDtypeStruct((len(lengths),), steps.dtype)
        return call(
            lambda *given: values([np.asarray(array) for array in given], lengths, place).astype(steps.dtype),
            shape,
            *arrays,
        )

    def backward(arrays: Any, weights: Any) -> Any:
        def of(*given: Any) -> Any:
            *numbers, last = (np.asarray(array) for array in given)
            found = derivatives(numbers, lengths, place, last)
            return tuple(array.astype(like.dtype) for array, like in zip(found, arrays))

        return call(of, tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays), *arrays, weights)

    function = jax.custom_vjp(forward)
    function.defvjp(lambda *arrays: (forward(*arrays), arrays), backward)
    return function


def log_partition(start: Any, transitions: Any, steps: Any, lengths: tuple[int, ...], place: Place) -> Any:
    """ln Z of each sequence, an array with derivatives."""
    return _function(lengths, place)(jnp.asarray(start), jnp.asarray(transitions), steps)
