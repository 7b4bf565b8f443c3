"""A limit on the sum of a second reward."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _warpkov
from .._errors import ConvergenceWarning
from .._host import host, real
from .._process import Path
from ..mdp._solve import _count
from ._controller import NO_NODE, Controller
from ._models import Model, _model


@dataclass(frozen=True, eq=False)
class Constrained:
    """Bounds on the best value whose cost is within a limit, and a mixture of controllers.

    Attributes
    ----------
    lower, upper : float
        Bounds on the optimum. The mixture attains `lower` of rewards, and `upper` of costs that are minimised.
    controllers : list of Controller
        One or two controllers, of which one is drawn at the start.
    probabilities : ndarray, shape (len(controllers),)
        Their probabilities.
    cost : tuple of float
        Bounds on the sum of costs of the mixture.
    price : float
        How much the optimum changes with the limit.
    converged : bool
        Whether the gap was reached.
    status : str
        How the run ended: "gap", "time", "memory", "iterations" or "stalled".
    solves : int
        Number of solves.
    device : str
        The device used.
    elapsed : float
        Seconds.
    """

    lower: float
    upper: float
    controllers: list[Controller]
    probabilities: np.ndarray
    cost: tuple[float, float]
    price: float
    converged: bool
    status: str
    solves: int
    device: str
    elapsed: float

    @property
    def gap(self) -> float:
        """The width of the bounds."""
        return self.upper - self.lower


def constrain(
    model: Model | Path,
    costs: Any,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    horizon: int | None = None,
    exact: bool = False,
    relative_gap: float | None = None,
    gap: float | None = None,
    time: float | None = None,
    memory: int | None = None,
    seed: int = 0,
    device: str = "auto",
) -> Constrained:
    """Bound the best value among the policies whose expected discounted sum of costs is within a limit.

    Parameters
    ----------
    model : Model or path
        The model, or a file: Cassandra's .pomdp, POMDPX or JSON.
    costs : array of shape (S, A) or (S,), Model or path
        The costs; or a model whose rewards they are, and which is `model` but for these.
    at_most, at_least : float
        The limit of the sum of costs; one of them.
    horizon : int, optional
        The sums of the first rewards and costs alone. Required if gamma is 1.
    exact : bool
        Solve a small model in all beliefs for each price.
    relative_gap : float, optional
        Stop when the bounds differ by at most this fraction of the value, or of 1 % of what a step of good play earns
        if that is more. By default 1e-3, without `gap`.
    gap : float, optional
        Stop when the bounds are this close.
    time : float, optional
        Limit of seconds.
    memory : int, optional
        Limit of bytes for beliefs and vectors.
    seed : int
        Seed of the random numbers.
    device : str
        "auto", "cpu", "cuda:0" or "emulated".

    Returns
    -------
    Constrained
        The bounds and the mixture.

    Raises
    ------
    ValueError
        No policy is within the limit, or none was found, or arguments do not fit together.
    warpkov.DeviceError
        There is no such device, or it failed.

    Warns
    -----
    warpkov.ConvergenceWarning
        A limit was reached first.

    Examples
    --------
    Opening a door costs 1, and two openings are permitted:

    >>> import numpy as np
    >>> from warpkov import pomdp
    >>> still, one = np.eye(2), np.full((2, 2), 0.5)
    >>> hears = np.array([[0.85, 0.15], [0.15, 0.85]])
    >>> tiger = pomdp.Model([still, one, one], [hears, one, one], [[-1, -100, 10], [-1, 10, -100]], 0.95)
    >>> found = pomdp.constrain(tiger, [[0, 1, 1], [0, 1, 1]], at_most=2)
    >>> round(found.lower, 2), round(found.price, 1), len(found.controllers)
    (1.97, 10.9, 2)
    """
    model = _model(model)
    for name, value in (("memory", memory), ("horizon", horizon)):
        _count(name, value)
    if (at_most is None) == (at_least is None):
        raise ValueError("expected at_most or at_least")
    numbers, other = None, None
    if isinstance(costs, (Model, str, os.PathLike)):
        other = _model(costs)._core
    else:
        numbers = real(host(costs), "costs")
        if numbers.shape == (model.states,):
            numbers = np.repeat(numbers[:, None], model.actions, axis=1)
        if numbers.shape != (model.states, model.actions):
            expected = f"{(model.states, model.actions)} or {(model.states,)}"
            raise ValueError(f"costs has shape {numbers.shape}, expected {expected}")
        numbers = np.ascontiguousarray(numbers).ravel()
    options = {
        "at_most": at_most,
        "at_least": at_least,
        "horizon": horizon,
        "exact": exact,
        "relative_gap": relative_gap,
        "gap": gap,
        "time": time,
        "memory": memory,
        "seed": seed,
        "device": device,
    }
    parts, text = _warpkov.pomdp_constrain(model._core, numbers, other, options)
    report = json.loads(text)
    controllers = []
    for actions, next, starts in parts:
        following = host(next).astype(np.int64)
        following[following == NO_NODE] = -1
        nodes = following.reshape(-1, model.observations)
        controllers.append(Controller(model, host(actions).astype(np.int64), nodes, host(starts).astype(np.int64)))
    found = Constrained(
        lower=report["lower"],
        upper=report["upper"],
        controllers=controllers,
        probabilities=np.array([part["probability"] for part in report["controllers"]]),
        cost=tuple(report["cost"]),
        price=report["price"],
        converged=report["stopped_by"] == "gap",
        status=report["stopped_by"],
        solves=report["solves"],
        device=report["device"],
        elapsed=report["seconds"],
    )
    if not found.converged:
        message = f"not converged: stopped by {found.status}, gap {found.gap:g}, limit {report['gap_limit']:g}"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return found
