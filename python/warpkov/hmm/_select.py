"""The choice of the number of states."""

from __future__ import annotations

from typing import Any, Iterable, Literal, NamedTuple

import numpy as np

from ._base import BaseHMM, RandomState, _generator

Criterion = Literal["bic", "aic", "held_out"]


class Candidate(NamedTuple):
    """A number of states, and what its best model reaches.

    Attributes
    ----------
    n_components : int
        Number of states.
    log_prob : float
        ln P(O) of the sequences that it was trained on.
    aic, bic : float
        The criteria of these sequences; lower is better.
    held_out : float or None
        ln P(O) of the sequences that are held out, if there are any; higher is better.
    converged : bool
        Whether training has converged.
    model : BaseHMM
        The trained model.
    """

    n_components: int
    log_prob: float
    aic: float
    bic: float
    held_out: float | None
    converged: bool
    model: BaseHMM


class Selection(NamedTuple):
    """The best model, and all candidates in the order of their numbers of states."""

    best: Any
    candidates: list[Candidate]


def select(
    model: BaseHMM,
    X: Any,
    lengths: Any = None,
    *,
    n_components: Iterable[int] = range(1, 7),
    restarts: int = 5,
    held_out: float = 0.0,
    random_state: RandomState = None,
) -> Selection:
    """Train models with several numbers of states, and choose the best.

    Parameters
    ----------
    model : CategoricalHMM or GaussianHMM
        The parameters of the constructor of all models, but for `n_components`. It stays as it is.
    X, lengths
        As for `fit`.
    n_components : iterable of int
        The numbers of states.
    restarts : int
        As for `fit`.
    held_out : float
        The part of the sequences, drawn at random, by whose likelihood the models are compared, in [0, 1). They are not
        trained on. With 0, the models are compared by BIC.
    random_state : int, RandomState or Generator, optional
        The source of the draw. By default that of the model.

    Returns
    -------
    Selection
        `best`, a trained model, and `candidates`.

    Raises
    ------
    ValueError
        `held_out` is out of range, or there are fewer than two sequences to divide; or as `fit` does.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov.hmm import GaussianHMM, select
    >>> X = np.concatenate([np.linspace(-1, 1, 50), np.linspace(9, 11, 50)] * 4)[:, None]
    >>> chosen = select(GaussianHMM(random_state=0, n_iter=100), X, [100] * 4, n_components=[1, 2])
    >>> chosen.best.n_components, [candidate.n_components for candidate in chosen.candidates]
    (2, [1, 2])
    """
    numbers = list(n_components)
    if not numbers:
        raise ValueError("n_components is empty, expected numbers of states")
    if not 0.0 <= held_out < 1.0:
        raise ValueError(f"held_out is {held_out}, expected a number in [0, 1)")
    sequences, array = model._sequences(X, lengths)
    parts = np.split(array, sequences["offsets"].astype(np.int64)[1:-1])
    held = np.zeros(len(parts), dtype=bool)
    if held_out > 0.0:
        if len(parts) < 2:
            raise ValueError("there is one sequence, expected at least 2, of which some are held out")
        random = _generator(model.random_state if random_state is None else random_state)
        count = min(max(round(held_out * len(parts)), 1), len(parts) - 1)
        held[random.permutation(len(parts))[:count]] = True
    train, test = ([part for part, out in zip(parts, held) if out == which] for which in (False, True))
    params = model.get_params()
    if "n_features" in params and params["n_features"] is None:
        # A symbol may be in sequences alone that are held out.
        params["n_features"] = int(array.max()) + 1
    candidates = []
    for number in numbers:
        fitted = type(model)(**{**params, "n_components": number}).fit(*_joined(train), restarts=restarts)
        criteria = fitted.aic(*_joined(train)), fitted.bic(*_joined(train))
        score = fitted.score(*_joined(test)) if test else None
        monitor = fitted.monitor_
        candidates.append(Candidate(number, monitor.history[-1], *criteria, score, monitor.converged, fitted))
    best = min(candidates, key=lambda one: one.bic if one.held_out is None else -one.held_out)
    return Selection(best.model, candidates)


def _joined(parts: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Sequences one behind the other, and their lengths."""
    return np.concatenate(parts), [len(part) for part in parts]
