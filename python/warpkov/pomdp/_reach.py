"""Goals without a discount."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .. import _warpkov
from .._errors import ConvergenceWarning
from .._host import host
from .._process import Path
from ..mdp._solve import _count
from ._models import Model, _index, _model


@dataclass(frozen=True, eq=False)
class Reached:
    """Bounds on the best probability of a goal, or on the best sum of rewards until then, and a controller.

    Attributes
    ----------
    lower, upper : float
        Bounds on the optimum. The controller attains `lower` of a maximum, and `upper` of a minimum.
    converged : bool
        Whether the gap was reached.
    status : str
        How the run ended: "gap", "time", "memory", "iterations" or "stalled".
    actions : ndarray of uint32, shape (N,)
        The action of each node of the controller.
    next : ndarray of uint32, shape (N, O)
        The node that follows each observation.
    starts : ndarray of uint32
        The node to begin in, one for each value of the seen component of the state, in ascending order.
    beliefs, iterations : int
        Numbers of beliefs and of rounds.
    device : str
        The device used.
    elapsed : float
        Seconds.
    """

    lower: float
    upper: float
    converged: bool
    status: str
    actions: np.ndarray
    next: np.ndarray
    starts: np.ndarray
    beliefs: int
    iterations: int
    device: str
    elapsed: float

    @property
    def gap(self) -> float:
        """The width of the bounds."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower


def reach(
    model: Model | Path,
    goal: int | str | Iterable[int | str],
    *,
    rewards: bool = False,
    minimize: bool | None = None,
    relative_gap: float | None = None,
    gap: float | None = None,
    time: float | None = None,
    iterations: int | None = None,
    memory: int | None = None,
    device: str = "auto",
) -> Reached:
    """Bound the best probability of reaching goal states, or the best sum of rewards until then, without a discount.

    Parameters
    ----------
    model : Model or path
        The model, or a file: Cassandra's .pomdp, POMDPX or JSON. Its discount factor is ignored.
    goal : int, str or iterable
        Numbers or names of goal states.
    rewards : bool
        The sum of rewards until the goal, instead of its probability. It is infinite if the goal may be missed.
    minimize : bool, optional
        Minimise. By default a probability is maximised, and a sum as the model says.
    relative_gap : float, optional
        Stop when the bounds differ by at most this fraction of the value, or of 0.01 or 1 % of what a step of good
        play earns if that is more. By default 1e-3, without `gap`.
    gap : float, optional
        Stop when the bounds are this close.
    time : float, optional
        Limit of seconds.
    iterations : int, optional
        Limit of rounds.
    memory : int, optional
        Limit of bytes for beliefs.
    device : str
        "auto", "cpu", "cuda:0" or "emulated".

    Returns
    -------
    Reached
        The bounds and a controller.

    Raises
    ------
    ValueError
        A goal is not a state, the sum is undefined, or options do not fit together.
    warpkov.DeviceError
        There is no such device, or it failed.

    Warns
    -----
    warpkov.ConvergenceWarning
        A limit was reached first.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov import pomdp
    >>> left, right = [[0, 0, 1], [0.5, 0.5, 0], [0, 0, 1]], [[0.5, 0.5, 0], [0, 0, 1], [0, 0, 1]]
    >>> hears = [[0.85, 0.15], [0.15, 0.85], [0.5, 0.5]]
    >>> T, O = np.array([np.eye(3), left, right]), np.array([hears, np.full((3, 2), 0.5), np.full((3, 2), 0.5)])
    >>> cost = [[1, 1, 20], [1, 20, 1], [0, 0, 0]]
    >>> doors = pomdp.Model(T, O, cost, 1, start=[0.5, 0.5, 0], objective="minimize")
    >>> found = pomdp.reach(doors, 2, rewards=True)
    >>> round(found.upper, 2), len(found.actions)
    (4.39, 5)
    """
    model = _model(model)
    for name, value in (("iterations", iterations), ("memory", memory)):
        _count(name, value)
    states = [goal] if isinstance(goal, (int, str)) else list(goal)
    options = {
        "goal": [_index(state, model.state_names or [], model.states, "state") for state in states],
        "rewards": rewards,
        "minimize": minimize,
        "relative_gap": relative_gap,
        "gap": gap,
        "time": time,
        "iterations": iterations,
        "memory": memory,
        "device": device,
    }
    actions, next, (lower, upper), text = _warpkov.pomdp_reach(model._core, options)
    report = json.loads(text)
    found = Reached(
        lower=lower,
        upper=upper,
        converged=report["stopped_by"] == "gap",
        status=report["stopped_by"],
        actions=host(actions),
        next=host(next).reshape(-1, model.observations),
        starts=np.array(report["start"], dtype=np.uint32),
        beliefs=report["beliefs"],
        iterations=report["iterations"],
        device=report["device"],
        elapsed=report["seconds"],
    )
    if not found.converged:
        message = f"not converged: stopped by {found.status}, gap {found.gap:g}, limit {report['gap_limit']:g}"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return found
