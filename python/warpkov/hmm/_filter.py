"""Filtering of streams."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .. import _warpkov
from ._base import BaseHMM, counted


class Filter:
    """What is known about the hidden state of a stream, an observation at a time.

    `BaseHMM.filter` does the same for whole arrays. A filter takes N^2 operations per observation, lag * N^2 more with
    a lag, and memory for the last lag + 1 observations. It has a copy of the model, and may be pickled.

    Parameters
    ----------
    model : CategoricalHMM or GaussianHMM
        A model that has parameters.
    lag : int
        Fixed-lag smoothing: `update` returns the distribution `lag` steps before the observation.

    Examples
    --------
    >>> from warpkov.hmm import CategoricalHMM, Filter
    >>> model = CategoricalHMM(2)
    >>> model.startprob_, model.transmat_ = [0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]]
    >>> model.emissionprob_ = [[0.5, 0.5], [0.0, 1.0]]
    >>> stream = Filter(model)
    >>> stream.update(0)
    array([1., 0.])
    >>> stream.predict(1), stream.predict_observation(1)
    (array([0.75, 0.25]), array([0.375, 0.625]))
    >>> stream.update(None)
    array([0.75, 0.25])
    >>> round(stream.log_likelihood, 4), stream.n_steps
    (-1.3863, 2)
    """

    def __init__(self, model: BaseHMM, lag: int = 0) -> None:
        self._lag = counted(lag, "lag")
        self._core = _warpkov.HmmFilter(model._parts(), self._lag)
        kept = copy.copy(model)
        kept.__dict__.pop("_monitor", None)
        self._model = copy.deepcopy(kept)

    def update(self, observation: Any) -> np.ndarray | None:
        """Take the next observation.

        Parameters
        ----------
        observation : int, or array of shape (n_features,), or None
            A symbol, or a vector, in which NaN is a missing number. None is a step without an observation.

        Returns
        -------
        ndarray of shape (n_components,), or None
            P(q_{t-lag} = i | o_1 ... o_t) of each state i; None before step lag + 1.

        Raises
        ------
        ValueError
            The model cannot emit the observation, at all or after those before it. The filter is as before.
        """
        seen = None
        if observation is not None:
            rows = observation[None] if isinstance(observation, np.ndarray) else [observation]
            seen = self._model._sequences(rows, None, checked=False)[0]
        found = self._core.push(seen)
        return None if found is None else np.asarray(found)

    def predict(self, steps: int = 1) -> np.ndarray:
        """Return P(q_{t+steps} = i | o_1 ... o_t) of each state i, of shape (n_components,).

        Before the first observation, `startprob_` is the distribution one step ahead.
        """
        return np.asarray(self._core.predicted(counted(steps, "steps", 1)))

    def predict_observation(self, steps: int = 1) -> Any:
        """Return the distribution of the observation at step t + steps, given o_1 ... o_t.

        Returns
        -------
        ndarray of shape (n_symbols,), or (mean, covariance)
            The probability of each symbol; or of vectors the mean, of shape (n_features,), and the covariance matrix of
            the mixture of all states, of shape (n_features, n_features).
        """
        return self._model._mixture(self.predict(steps))

    @property
    def probs(self) -> np.ndarray:
        """P(q_t = i | o_1 ... o_t) of each state i, without a lag; 0 before the first observation."""
        return np.asarray(self._core.probs())

    @property
    def log_likelihood(self) -> float:
        """ln P(o_1 ... o_t)."""
        return self._core.log_likelihood()

    @property
    def n_steps(self) -> int:
        """t, the number of observations since the last `reset`."""
        return self._core.steps()

    def reset(self) -> np.ndarray:
        """End the sequence. The next observation is the first of another one.

        Returns
        -------
        ndarray, shape (min(lag, t), n_components)
            P(q_s = i | o_1 ... o_t) of the last steps s, which the lag has kept back.
        """
        return np.asarray(self._core.reset()).reshape(-1, self._model.n_components)

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self._model, "lag": self._lag, "saved": np.asarray(self._core.save())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._model, self._lag = state["model"], state["lag"]
        self._core = _warpkov.HmmFilter(self._model._parts(), self._lag)
        self._core.restore(np.ascontiguousarray(state["saved"]))
