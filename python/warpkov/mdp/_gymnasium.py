"""Tables of transitions as Gymnasium's toy-text environments have them."""

from __future__ import annotations

import json
from typing import Any

from ._model import Model, ModelLike, from_table

Table = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


def from_gymnasium(env: Any, gamma: float) -> Model:
    """Read the model of an environment of Gymnasium with a transition table.

    Parameters
    ----------
    env : gymnasium.Env or mapping
        An environment with ``env.unwrapped.P``, as FrozenLake, Taxi and CliffWalking have it, or the table.
        The process ends after a transition that terminates.
    gamma : float
        The discount factor.

    Returns
    -------
    Model
        The model.

    Examples
    --------
    >>> from warpkov import mdp
    >>> table = {0: {0: [(0.5, 0, 0.0, False), (0.5, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}
    >>> mdp.solve(mdp.from_gymnasium(table, 0.9)).values.round(4)
    array([0.9091, 0.    ])
    """
    table = getattr(getattr(env, "unwrapped", env), "P", env)
    if not hasattr(table, "items"):
        raise ValueError(f"{env!r} has no table of transitions, env.unwrapped.P")
    return Model._of(from_table(table, gamma))


def to_gymnasium(model: ModelLike) -> Table:
    """Return the transition table of a model, as ``env.unwrapped.P`` of Gymnasium.

    The rewards of a model with costs are negated. An end of the process becomes a transition to the same
    state that terminates.

    Parameters
    ----------
    model : Model, path, mapping or iterable
        What `Model` takes alone.

    Returns
    -------
    dict
        ``table[s][a] = [(p, s', r, terminated), ...]``.

    Examples
    --------
    >>> from warpkov import mdp
    >>> mdp.to_gymnasium(mdp.generate("forest", gamma=0.9))[2][1]
    [(1.0, 0, 2.0, False)]
    """
    states = json.loads(Model(model)._core.dumps("gymnasium"))["P"]
    return {
        state: {action: [tuple(outcome) for outcome in outcomes] for action, outcomes in enumerate(actions)}
        for state, actions in enumerate(states)
    }
