"""The partition function of linear chains, which PyTorch and JAX can differentiate."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _warpkov
from ._base import Precision, offsets_of

Place = tuple[str, str]
"""Device and precision."""


def log_partition(
    start: Any,
    transitions: Any,
    steps: Any,
    lengths: Any = None,
    *,
    device: str = "auto",
    precision: Precision = "f64",
) -> Any:
    """Return ln Z of linear chains with any potentials, such as those that a neural network computes.

    A path q of a sequence of T steps has the weight
    exp(start[q_1] + sum_{t > 1} transitions[q_{t-1}, q_t] + sum_t steps[t, q_t]), and Z is the sum over all paths. With the
    logarithms of a start distribution, of a transition matrix and of the densities of observations, ln Z is the
    log-likelihood of a hidden Markov model; any other potentials are those of a conditional random field.

    Arrays of PyTorch and of JAX yield such an array, of the type of `steps`, which has derivatives with respect to all
    potentials: from one forward and one backward recursion. Tensors are taken by DLPack.

    Parameters
    ----------
    start : array, shape (n_states,)
    transitions : array, shape (n_states, n_states)
        From each state to each state.
    steps : array, shape (n_steps, n_states)
        Of all sequences, one behind the other.
    lengths : array of int, shape (n_sequences,)
        The number of steps of each sequence; all steps are one sequence by default.
    device, precision : str
        As for `CategoricalHMM`. The precision is that of the recursions, whatever the type of the arrays.

    Potentials are below infinity; -inf is a weight of 0.

    Returns
    -------
    array, shape (n_sequences,)

    Examples
    --------
    Two states and two steps: four paths.

    >>> import numpy as np
    >>> from warpkov.hmm import log_partition
    >>> log_partition(np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2)), device="cpu").round(6)
    array([1.386294])
    """
    place = (device, precision)
    shape = np.shape(steps)
    count = tuple(np.diff(offsets_of(lengths, shape[0] if shape else 1)).tolist())
    library = type(steps).__module__.split(".")[0]
    if library in ("torch", "jax", "jaxlib"):
        from . import _autodiff

        function = _autodiff.of_torch if library == "torch" else _autodiff.of_jax
        return function(start, transitions, steps, count, place)
    return values([np.asarray(array) for array in (start, transitions, steps)], count, place)


def _call(arrays: list[np.ndarray], lengths: tuple[int, ...], place: Place, weights: np.ndarray | None) -> Any:
    n = arrays[0].size
    shapes = [(n,), (n, n), (sum(lengths), n)]
    for name, array, shape in zip(("start", "transitions", "steps"), arrays, shapes):
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    start, transitions, steps = (np.ascontiguousarray(array, dtype=float).ravel() for array in arrays)
    words: dict[str, Any] = dict(zip(("device", "precision"), place))
    counts = np.array(lengths, dtype=np.uint64)
    return _warpkov.hmm_log_partition(start, transitions, steps, counts, words, weights), shapes


def values(arrays: list[np.ndarray], lengths: tuple[int, ...], place: Place) -> np.ndarray:
    """ln Z of each sequence."""
    (log_z, _), _ = _call(arrays, lengths, place, None)
    return np.asarray(log_z)


def derivatives(
    arrays: list[np.ndarray], lengths: tuple[int, ...], place: Place, weights: np.ndarray
) -> list[np.ndarray]:
    """The derivatives of sum(weights * ln Z) with respect to each array."""
    (_, found), shapes = _call(arrays, lengths, place, np.ascontiguousarray(weights, dtype=float))
    return [np.asarray(array).reshape(shape) for array, shape in zip(found or [], shapes)]
