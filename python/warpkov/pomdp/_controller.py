"""Finite-state controllers: policies that remember a node instead of a belief."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _warpkov
from .._host import host
from .._process import Path
from ._models import Model, _index, _model

NO_NODE = 2**32 - 1


class Controller:
    """A finite-state controller: each node has an action, and a next node after each observation.

    Parameters
    ----------
    model : Model or path
        The model.
    actions : array of int, shape (n,)
        The action of each node.
    next : array of int, shape (n, O)
        The next node after each observation, or -1 where none can follow. A node with -1 alone ends the episode
        after its action.
    starts : array of int, optional
        Nodes to begin in, of which the best counts. By default any node, or in a plan, whose nodes have no cycle,
        any with the most steps.

    Attributes
    ----------
    model : Model
        The model.
    actions : ndarray of int64, shape (m,)
        The action of each node that can be reached.
    next : ndarray of int64, shape (m, O)
        The next node after each observation, or -1.
    numbers : ndarray of int64, shape (m,)
        The number of each node in the arrays or in the file from which the controller was made.
    start : int
        The node to begin in.
    values : ndarray of float64, shape (m, S)
        The value of each node in each state.
    lower, upper : float
        Bounds on the value at the start of the model, rounding errors included.

    Raises
    ------
    ValueError
        An action or a node does not exist, an observation without a next node can follow, or gamma is 1 and the
        controller may never end.

    Examples
    --------
    Listen twice; open a door if both observations are the same:

    >>> import numpy as np
    >>> from warpkov import pomdp
    >>> still, one = np.eye(2), np.full((2, 2), 0.5)
    >>> hears = np.array([[0.85, 0.15], [0.15, 0.85]])
    >>> tiger = pomdp.Model([still, one, one], [hears, one, one], [[-1, -100, 10], [-1, 10, -100]], 0.95)
    >>> next = [[1, 2], [3, 0], [0, 4], [0, 0], [0, 0]]
    >>> controller = pomdp.Controller(tiger, [0, 0, 0, 2, 1], next, starts=[0])
    >>> round(controller.lower, 4), controller.upper - controller.lower < 1e-6
    (19.3714, True)
    >>> agent = controller.agent()
    >>> agent.observe(0)
    >>> agent.observe(0)
    >>> agent.act()
    2
    """

    def __init__(self, model: Model | Path, actions: Any, next: Any, starts: Any = None) -> None:
        model = _model(model)
        acts = _numbers(actions, "actions", (None,), model.actions)
        nodes = acts.size
        follows = _numbers(next, "next", (nodes, model.observations), nodes, least=-1)
        begins = _numbers([] if starts is None else starts, "starts", (None,), nodes)
        self._of(model, _warpkov.Controller.from_arrays(model._core, acts, follows.ravel(), begins))

    def _of(self, model: Model, core: _warpkov.Controller) -> Controller:
        self._core = core
        self.model = model
        self.actions: np.ndarray = np.asarray(core.actions).astype(np.int64)
        following: np.ndarray = np.asarray(core.next(model._core)).astype(np.int64)
        following[following == NO_NODE] = -1
        self.next = following.reshape(-1, model.observations)
        self.numbers: np.ndarray = np.asarray(core.numbers).astype(np.int64)
        self.start = int(np.asarray(core.starts)[0])
        self.values: np.ndarray = np.asarray(core.values).reshape(-1, model.states)
        self.lower, self.upper = core.bounds
        return self

    def agent(self, node: int | None = None) -> ControllerAgent:
        """Return an agent that begins in a node, by default in `start`."""
        return ControllerAgent(self, self.start if node is None else node)

    def _simulate(self, episodes: int, steps: int | None, seed: int) -> str:
        return self._core.simulate(self.model._core, episodes, steps, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self.actions, self.next, [self.start])

    def __repr__(self) -> str:
        return f"<warpkov.pomdp.Controller: {self.actions.size} nodes, value {self.lower:g} to {self.upper:g}>"


class ControllerAgent:
    """A controller at work.

    Attributes
    ----------
    controller : Controller
        The controller.
    node : int or None
        The present node; None after the end of the episode.
    """

    def __init__(self, controller: Controller, node: int) -> None:
        if not 0 <= node < controller.actions.size:
            raise ValueError(f"there is no node {node}, expected one below {controller.actions.size}")
        self.controller = controller
        self.node: int | None = node

    def act(self) -> int:
        """Return the action of the present node."""
        return int(self.controller.actions[self._present()])

    def observe(self, observation: int | str) -> None:
        """Go to the next node after an observation."""
        following = self.controller.next[self._present()]
        o = _index(observation, self.controller.model.observation_names, following.size, "observation")
        if following[o] < 0 and (following >= 0).any():
            raise ValueError(f"observation {observation} is impossible in node {self.node}")
        self.node = int(following[o]) if following[o] >= 0 else None

    def _present(self) -> int:
        if self.node is None:
            raise ValueError("the episode has ended")
        return self.node


def load_controller(
    path: Path, model: Model | Path, *, format: str | None = None, node: int | None = None
) -> Controller:
    """Read a controller from a file.

    Parameters
    ----------
    path : str or path
        The file.
    model : Model or path
        The model of the controller.
    format : {"pg", "dot"}, optional
        The format. By default that of the extension or the content.
    node : int, optional
        The node to begin in, by its number in the file.
    """
    model = _model(model)
    controller = Controller.__new__(Controller)
    return controller._of(model, _warpkov.Controller.load(path, format, model._core, node))


def _numbers(values: Any, name: str, shape: tuple[int | None, ...], count: int, least: int = 0) -> np.ndarray:
    """Numbers from `least` to below `count`, where -1 becomes NO_NODE."""
    found: np.ndarray = host(values)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu" or len(found.shape) != len(shape):
        dimensions = len(shape)
        message = f"{name} has shape {found.shape} and type {found.dtype}, expected {dimensions}-dimensional integers"
        raise ValueError(message)
    if any(size is not None and size != of for size, of in zip(shape, found.shape)):
        raise ValueError(f"{name} has shape {found.shape}, expected {shape}")
    wrong = np.argwhere((found < least) | (found >= count))
    if wrong.size:
        at = ", ".join(str(index) for index in wrong[0])
        raise ValueError(f"{name}[{at}] is {found[tuple(wrong[0])]}, expected {least} to {count - 1}")
    return np.ascontiguousarray(np.where(found < 0, NO_NODE, found), dtype=np.uint32)
