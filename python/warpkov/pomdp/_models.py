"""Models, policies, and functions over them."""

from __future__ import annotations

import json
import operator
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from .. import _warpkov
from .._errors import ConvergenceWarning
from .._host import host, local, real
from .._process import Objective, Path, Process, minimize, words
from ..mdp._model import _arrays, _Shape, _summed, csr_of
from ..mdp._solve import _count

if TYPE_CHECKING:
    from ._controller import Controller

Expansion = Literal["random", "ssea", "ger", "ssga", "fsvi", "walks", "hsvi", "sarsop", "mixed"]
Backups = Literal["full", "randomized", "path"]


class Model(Process):
    """A partially observable Markov decision process.

    Action a moves the process from state s to s' with probability T[a][s][s'], and emits observation o with
    probability O[a][s'][o]. The belief b is the distribution of the state.

    Parameters
    ----------
    T : array of shape (A, S, S), or list of A matrices of shape (S, S)
        The transition probabilities, dense or of SciPy.
    O : array of shape (A, S, n_observations), or list of A matrices
        The probability of each observation after action a in the next state s'.
    R : array of shape (S, A), (S,) or (A, S, S), or list of A matrices
        The rewards, as for `warpkov.mdp.solve`.
    gamma : float
        The discount factor, in [0, 1].
    start : array of shape (S,), optional
        The belief at the start. By default all states are equally likely.
    objective : {"maximize", "minimize"}
        Whether R are rewards or costs.
    state_names, action_names, observation_names : sequence of str, optional
        Distinct names.

    Examples
    --------
    A tiger is behind one of two doors:

    >>> import numpy as np
    >>> from warpkov import pomdp
    >>> stays, opens = np.eye(2), np.full((2, 2), 0.5)
    >>> hears = np.array([[0.85, 0.15], [0.15, 0.85]])
    >>> tiger = pomdp.Model(
    ...     T=[stays, opens, opens], O=[hears, opens, opens], R=[[-1, -100, 10], [-1, 10, -100]], gamma=0.95,
    ...     action_names=["listen", "left", "right"],
    ... )
    >>> tiger
    <warpkov.pomdp.Model: 2 states, 3 actions, 2 observations, gamma 0.95>
    >>> tiger.update([0.5, 0.5], action="listen", observation=0)
    array([0.85, 0.15])
    """

    _core: _warpkov.Pomdp

    def __init__(
        self,
        T: Any,
        O: Any,  # noqa: E741
        R: Any,
        gamma: float,
        *,
        start: Any = None,
        objective: Objective = "maximize",
        state_names: Sequence[str] = (),
        action_names: Sequence[str] = (),
        observation_names: Sequence[str] = (),
    ) -> None:
        if R is None:
            raise ValueError("R is missing: pass the rewards, or R=0 for a model without rewards")
        T, O, R = local(T), local(O), local(R)  # noqa: E741
        shape = _Shape(T, "ass", None, None)
        transitions = shape.matrix(T, "T")
        rewards, action_rewards = shape.rewards(R)
        observed = [_summed(one if sp.issparse(one) else csr_of(np.atleast_2d(real(one, "O")))) for one in O]
        shapes = {one.shape for one in observed}
        if len(observed) != shape.actions or len(shapes) != 1 or observed[0].shape[0] != shape.states:
            found = ", ".join(str(one) for one in sorted(shapes))
            raise ValueError(
                f"O has {len(observed)} matrices of shape {found}, expected {shape.actions} "
                f"of shape ({shape.states}, n_observations)"
            )
        belief = np.full(shape.states, 1 / shape.states) if start is None else host(start)
        if belief.shape != (shape.states,):
            raise ValueError(f"start has shape {belief.shape}, expected {(shape.states,)}")
        parts = {
            "states": shape.states,
            "actions": shape.actions,
            "observations": observed[0].shape[1],
            "gamma": float(gamma),
            "minimize": bool(minimize(objective)),
            "action_rewards": action_rewards,
            "start": np.ascontiguousarray(real(belief, "start")),
            "state_names": list(state_names),
            "action_names": list(action_names),
            "observation_names": list(observation_names),
        }
        stacked = _arrays(sp.vstack(observed, format="csr"), "O")
        place = shape.place(transitions, rewards, None)
        self._core = _warpkov.Pomdp.from_arrays(parts, transitions, stacked, rewards, place)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self._core.dumps())

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        # Models do not change.
        return type(self)._of(self._core)

    @classmethod
    def _of(cls, core: _warpkov.Pomdp) -> Model:
        model = cls.__new__(cls)
        model._core = core
        return model

    @property
    def actions(self) -> int:
        """The number of actions."""
        return self._core.actions

    @property
    def observations(self) -> int:
        """The number of observations."""
        return self._core.observations

    @property
    def start(self) -> np.ndarray:
        """The belief at the start: S probabilities."""
        return np.asarray(self._core.start)

    @property
    def state_names(self) -> list[str]:
        """The names of the states; empty without names."""
        return self._core.names[0]

    @property
    def action_names(self) -> list[str]:
        """The names of the actions; empty without names."""
        return self._core.names[1]

    @property
    def observation_names(self) -> list[str]:
        """The names of the observations; empty without names."""
        return self._core.names[2]

    def update(self, belief: Any, action: int | str, observation: int | str) -> np.ndarray:
        """Return the belief after an action and an observation, by Bayes' rule.

        Parameters
        ----------
        belief : array of shape (S,)
            The belief before.
        action, observation : int or str
            Numbers or names.

        Returns
        -------
        ndarray, shape (S,)
            The belief after.

        Raises
        ------
        ValueError
            The observation is impossible.
        """
        a = _index(action, self.action_names, self.actions, "action")
        o = _index(observation, self.observation_names, self.observations, "observation")
        after = self._core.update(_belief(belief, self.states), a, o)
        if after is None:
            raise ValueError(f"observation {observation} is impossible after action {action}")
        return np.asarray(after)

    def __repr__(self) -> str:
        costs = ", costs" if self._core.minimize else ""
        of = f"{self.states} states, {self.actions} actions, {self.observations} observations, gamma {self.gamma:g}"
        return f"<warpkov.pomdp.Model: {of}{costs}>"


def _unpickled(cls: type[Model], bytes: bytes) -> Model:
    return cls._of(_warpkov.Pomdp.loads(bytes))


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy of alpha vectors: it takes the action of the best vector at the belief.

    Attributes
    ----------
    model : Model
        The model.
    vectors : ndarray of float64, shape (n, S)
        The value that each vector promises in each state.
    actions : ndarray of int64, shape (n,)
        The action with which each vector begins.
    """

    model: Model
    vectors: np.ndarray
    actions: np.ndarray

    def _best(self, belief: Any) -> tuple[int, float]:
        values = self.vectors @ _belief(belief, self.model.states)
        best = int(values.argmin() if self.model.objective == "minimize" else values.argmax())
        return best, float(values[best])

    def value(self, belief: Any = None) -> float:
        """Return the value of a belief of S probabilities; by default of that at the start."""
        return self._best(self.model.start if belief is None else belief)[1]

    def act(self, belief: Any = None) -> int:
        """Return the action in a belief of S probabilities; by default in that at the start."""
        return int(self.actions[self._best(self.model.start if belief is None else belief)[0]])

    def agent(self, belief: Any = None) -> Agent:
        """Return an agent that keeps the belief, from a belief or from that at the start."""
        return Agent(self, self.model.start if belief is None else _belief(belief, self.model.states))

    def save(self, path: Path, format: str | None = None) -> None:
        """Write the policy to a file: "alpha", "policy" (XML), or as a controller "pg" or "dot".

        Warns
        -----
        UserWarning
            The controller is worse than the vectors.
        """
        values, actions = self._arrays()
        shortfall = _warpkov.pomdp_save_policy(path, format, self.model._core, values, actions)
        if shortfall is not None:
            vectors, controller = shortfall
            message = (
                f"the vectors have the value {vectors:.6f} at the start, this controller {controller:.6f}: it remembers "
                "a vector, not the belief"
            )
            warnings.warn(message, UserWarning, stacklevel=2)

    def _simulate(self, episodes: int, steps: int | None, seed: int) -> str:
        values, actions = self._arrays()
        return _warpkov.pomdp_simulate(self.model._core, values, actions, episodes, steps, seed)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        values: np.ndarray = np.ascontiguousarray(self.vectors, dtype=np.float64).ravel()
        return values, np.ascontiguousarray(self.actions, dtype=np.uint32)


@dataclass(eq=False)
class Agent:
    """A policy at work.

    Attributes
    ----------
    policy : Policy
        The policy.
    belief : ndarray, shape (S,)
        The distribution of the present state.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov import pomdp
    >>> still, one = np.eye(2), np.full((2, 2), 0.5)
    >>> hears = np.array([[0.85, 0.15], [0.15, 0.85]])
    >>> tiger = pomdp.Model([still, one, one], [hears, one, one], [[-1, -100, 10], [-1, 10, -100]], 0.95)
    >>> agent = pomdp.solve(tiger).policy.agent()
    >>> agent.act()
    0
    >>> agent.observe(0, 1)
    >>> agent.observe(0, 1)
    >>> agent.belief.round(4), agent.act()
    (array([0.0302, 0.9698]), 1)
    """

    policy: Policy
    belief: np.ndarray

    def act(self) -> int:
        """Return the action in the present belief."""
        return self.policy.act(self.belief)

    def observe(self, action: int | str, observation: int | str) -> None:
        """Update the belief by an action that was taken and what was observed."""
        self.belief = self.policy.model.update(self.belief, action, observation)


@dataclass(frozen=True, eq=False)
class Solution:
    """A policy, and bounds on the optimal value of the belief at the start.

    Attributes
    ----------
    policy : Policy
        The policy, which attains `lower` ("maximize") or `upper` ("minimize").
    lower, upper : float
        Bounds on the optimal value, rounding errors included.
    error : float or None
        Of an exact solution: the optimal value differs by at most this from that of the best vector, in every belief.
    converged : bool
        Whether the gap or the target was reached.
    status : str
        How the run ended: "gap", "target", "time", "memory", "iterations" or "stalled".
    iterations, backups : int
        Numbers of expansions and of backups.
    device : str
        The device used.
    notes : list of str
        Automatic choices, with reasons.
    elapsed : float
        Seconds.
    """

    policy: Policy
    lower: float
    upper: float
    error: float | None
    converged: bool
    status: str
    iterations: int
    backups: int
    device: str
    notes: list[str]
    elapsed: float
    _report: dict[str, Any] = field(repr=False)

    @property
    def gap(self) -> float:
        """`upper` minus `lower`."""
        return self.upper - self.lower

    @property
    def relative_gap(self) -> float:
        """`gap` relative to the value, or to 1 % of what a step of good play earns if that is more."""
        return float(self._report["relative_gap"])

    def to_dict(self) -> dict[str, Any]:
        """Return the report of ``warpkov pomdp solve --json``, with the policy as lists."""
        policy = {"vectors": self.policy.vectors.tolist(), "actions": self.policy.actions.tolist()}
        return {**self._report, "policy": policy}

    def __repr__(self) -> str:
        size = f"{len(self.policy.actions)} vectors on {self.device}"
        return f"<warpkov.pomdp.Solution: value {self.lower:g} to {self.upper:g}, {self.status}, {size}>"


@dataclass(frozen=True)
class Evaluation:
    """Statistics of simulated episodes.

    Attributes
    ----------
    mean : float
        Mean of the discounted sum of rewards.
    half_width : float
        Half of the width of the interval that holds its expectation with 95 % confidence.
    tail : float
        What cut episodes change the mean by, at most.
    episodes, horizon, steps, cut : int
        Number of episodes, the most steps of one, the number of all steps, and the number of cut episodes.
    """

    mean: float
    half_width: float
    tail: float
    episodes: int
    horizon: int
    steps: int
    cut: int


def solve(
    model: Model | Path,
    *,
    relative_gap: float | None = None,
    gap: float | None = None,
    target: float | None = None,
    time: float | None = None,
    iterations: int | None = None,
    memory: int | None = None,
    vectors: int = 1 << 20,
    horizon: int | None = None,
    exact: bool = False,
    device: str = "auto",
    precision: Literal["f64", "f32"] = "f64",
    expansion: Expansion | None = None,
    backups: Backups | None = None,
    beliefs: int = 256,
    trials: int | None = None,
    companion: bool = False,
    seed: int = 0,
) -> Solution:
    """Solve a model by point-based value iteration.

    Parameters
    ----------
    model : Model or path
        The model, or a file: Cassandra's .pomdp, POMDPX or JSON.
    relative_gap : float, optional
        Stop when the bounds at the start differ by at most this fraction of the value, or of 1 % of what a
        step of good play earns if that is more. By default 1e-3, without `gap`.
    gap : float, optional
        Stop when the bounds at the start are this close, whatever the value.
    target : float, optional
        Stop when the value that the policy attains reaches this one.
    time : float, optional
        Limit of seconds.
    iterations : int, optional
        Limit of expansions.
    memory : int, optional
        Limit of bytes for beliefs and vectors.
    vectors : int
        Limit of the number of vectors.
    horizon : int, optional
        Optimise the sum of the first so many rewards. The policy is that of the first step.
    exact : bool
        Solve a small model in all beliefs, by linear programs on the CPU, until only rounding errors are left, or
        up to `gap` or `relative_gap`.
    device : str
        "auto", "cpu", "cuda:0" or "emulated".
    precision : {"f64", "f32"}
        Floating-point type of vectors on a GPU.
    expansion, backups : str, optional
        How beliefs are chosen, and which are backed up. By default those of the device.
    beliefs : int
        Beliefs per expansion.
    trials : int, optional
        Walks or trials that are backed up together.
    companion : bool
        Search on the CPU beside the walks on a GPU, by trials guided by the bounds, and share the upper bounds.
        Equal runs then have different results.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    Solution
        The policy and the bounds.

    Raises
    ------
    ValueError
        The model is invalid, or options do not fit together.
    warpkov.DeviceError
        There is no such device, or it failed.

    Warns
    -----
    warpkov.ConvergenceWarning
        A limit was reached first; or, during a run without `time` and `iterations`, the gap closes slowly.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov import pomdp
    >>> still, one = np.eye(2), np.full((2, 2), 0.5)
    >>> hears = np.array([[0.85, 0.15], [0.15, 0.85]])
    >>> tiger = pomdp.Model([still, one, one], [hears, one, one], [[-1, -100, 10], [-1, 10, -100]], 0.95)
    >>> solution = pomdp.solve(tiger, gap=1e-3)
    >>> solution.gap <= 1e-3, round(solution.lower, 2)
    (True, 19.37)
    """
    model = _model(model)
    counts = {"horizon": horizon, "iterations": iterations, "memory": memory, "beliefs": beliefs, "trials": trials}
    for name, value in {**counts, "vectors": vectors}.items():
        _count(name, value)
    options = {
        "device": device,
        "precision": precision,
        "horizon": horizon,
        "exact": exact,
        "expansion": expansion,
        "backups": backups,
        "beliefs": beliefs,
        "trials": trials,
        "companion": companion,
        "seed": seed,
        "gap": gap,
        "relative_gap": relative_gap,
        "target": target,
        "time": time,
        "memory": memory,
        "iterations": iterations,
        "vectors": vectors,
    }

    def slow(now: float) -> None:
        message = f"the gap, now {now:.1e}, closes slowly: a larger relative_gap or gap, or time, ends the run earlier"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)

    values, actions, text = _warpkov.pomdp_solve(model._core, options, slow)
    report = json.loads(text)
    solution = Solution(
        policy=_policy(model, values, actions),
        lower=report["lower"],
        upper=report["upper"],
        error=report.get("error"),
        converged=report["stopped_by"] in ("gap", "target"),
        status=report["stopped_by"],
        iterations=report["iterations"],
        backups=report["backups"],
        device=report["device"],
        notes=report["notes"],
        elapsed=report["seconds"],
        _report=report,
    )
    if not solution.converged:
        message = f"not converged: stopped by {solution.status}, gap {solution.gap:g}, limit {report['gap_limit']:g}"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return solution


def simulate(
    policy: Policy | Controller, *, episodes: int = 10_000, steps: int | None = None, seed: int = 42
) -> Evaluation:
    """Estimate the value of a policy from simulated episodes.

    Parameters
    ----------
    policy : Policy or Controller
        The policy, with its model.
    episodes : int
        Number of episodes.
    steps : int, optional
        The most steps of an episode. By default the least with gamma**steps <= 1e-6.
    seed : int
        Seed of the random numbers. Equal seeds give equal results.

    Returns
    -------
    Evaluation
        The mean and its interval.
    """
    for name, value in (("episodes", episodes), ("steps", steps)):
        _count(name, value)
    return Evaluation(**json.loads(policy._simulate(episodes, steps, seed)))


def act(policy: Policy, belief: Any = None) -> int:
    """Return the action of a policy in a belief of S probabilities; by default in that at the start."""
    return policy.act(belief)


def generate(family: str, **parameters: Any) -> Model:
    """Generate a model of a known family.

    Parameters
    ----------
    family : str
        "tiger", "four_by_three", "hallway", "hallway2", "tiger_grid", "maze", "tag", "rock_sample", "olfactory",
        "maintenance", "inspection" or "aloha".
    **parameters
        The options of ``warpkov pomdp generate FAMILY``, which ``--help`` lists, with underscores for hyphens.

    Returns
    -------
    Model
        The model. Equal parameters give equal models.

    Examples
    --------
    >>> from warpkov import pomdp
    >>> pomdp.generate("rock_sample", size=3, rock=[(0, 0), (2, 1)], start=(0, 1)).states
    37
    """
    return Model._of(_warpkov.pomdp_generate(words(family, parameters)))


def load(path: Path, *, format: str | None = None) -> Model:
    """Read a model from a file.

    Parameters
    ----------
    path : str or path
        The file.
    format : {"pomdp", "pomdpx", "pomdpx-dd", "json"}, optional
        The format. By default that of the extension or the content.
    """
    return Model._of(_warpkov.Pomdp.load(path, format))


def save(model: Model, path: Path, *, format: str | None = None) -> None:
    """Write a model to a file, completely or not at all. Costs become negated rewards, except in JSON.

    Parameters
    ----------
    model : Model
        The model.
    path : str or path
        The file.
    format : {"pomdp", "pomdpx", "pomdpx-dd", "json"}, optional
        The format. By default that of the extension, or JSON.
    """
    model.save(path, format)


def load_policy(path: Path, model: Model | Path, *, format: str | None = None) -> Policy:
    """Read a policy of alpha vectors from a file.

    Parameters
    ----------
    path : str or path
        The file.
    model : Model or path
        The model of the policy.
    format : {"alpha", "policy-xml"}, optional
        The format. By default that of the extension or the content.
    """
    model = _model(model)
    values, actions, states = _warpkov.pomdp_load_policy(path, format, model._core)
    if states != model.states:
        raise ValueError(f"{os.fspath(path)}: vectors of {states} numbers, expected {model.states}, one per state")
    return _policy(model, values, actions)


def _model(model: Model | Path) -> Model:
    return model if isinstance(model, Model) else load(model)


def _policy(model: Model, values: _warpkov.Buffer, actions: _warpkov.Buffer) -> Policy:
    return Policy(model, np.asarray(values).reshape(-1, model.states), np.asarray(actions).astype(np.int64))


def _belief(belief: Any, states: int) -> np.ndarray:
    probs: np.ndarray = np.ascontiguousarray(real(belief, "belief"))
    if probs.shape != (states,):
        raise ValueError(f"the belief has shape {probs.shape}, expected a probability for each of {states} states")
    # NaN is neither.
    wrong = np.flatnonzero(~((probs >= 0) & (probs <= 1 + 1e-6)))
    if wrong.size:
        raise ValueError(f"the belief has {probs[wrong[0]]:g} for state {wrong[0]}, expected a probability")
    if abs(probs.sum() - 1) > 1e-6:
        raise ValueError(f"the belief sums to {probs.sum():g}, expected 1")
    return probs


def _index(name: int | str, names: list[str], count: int, what: str) -> int:
    """The number of a name, or a number below `count` itself."""
    if isinstance(name, str):
        if name not in names:
            raise ValueError(f"there is no {what} '{name}'")
        return names.index(name)
    number = operator.index(name)
    if not 0 <= number < count:
        raise ValueError(f"there is no {what} {number}, expected one below {count}")
    return number
