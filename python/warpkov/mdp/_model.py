"""Models of the shapes that Python programs use, as the arrays that the library takes."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Union

import numpy as np
import scipy.sparse as sp

from .. import _warpkov
from .._host import host, is_array, local, real
from .._process import Objective, Process, minimize

Order = Literal["ass", "sas"]

CSR = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Row pointers (uint64), columns (uint32) and values (float64)."""

Place = Callable[[str, int, "int | None"], str]
"""The name of an entry of the caller's arrays: `place(array, row, n)`; see `Model.from_arrays` of the library."""

CHUNK = 1 << 18
"""Numbers of a dense array that are read together."""

TOLERANCE = 1e-6
"""How much a sum of probabilities may differ from 1, as in the library."""

NO_ACTION = 2**32 - 1
"""The action of a state without actions."""

ModelLike = Union["Model", str, "os.PathLike[str]", Mapping[Any, Any], Sequence[Any], Iterable[Any], np.ndarray, Any]


class Model(Process):
    """A finite Markov decision process.

    The model has states s in {0 ... S-1}, a number of actions for each state, probabilities P(s'|s, a),
    rewards R(s, a, s') and a discount factor gamma in [0, 1]. Models are validated and cannot be changed. A model works
    in the memory of read-only arrays (``array.flags.writeable = False``), where their types permit: do not change this
    memory through another array. Arrays that can be written are copied.

    The parameters are those of `warpkov.mdp.solve`, which describes the shapes.

    Parameters
    ----------
    P, R, gamma, order, s_indices, a_indices
        The model.
    objective : {"maximize", "minimize"}, optional
        Whether rewards are earned or costs are paid. By default that of a file, or "maximize".
    ends : array of shape (S, A) or (L,), optional
        Probability that the process ends after each state-action pair, beside the entries of P.
    state_names, action_names : sequence of str, optional
        Distinct names, S and A of them.
    labels : mapping of str to sequences of int, optional
        Named sets of states; "init" names the initial states.

    Raises
    ------
    ValueError
        The arrays are no model. The message names the first place that is wrong.

    Examples
    --------
    >>> from warpkov import mdp
    >>> model = mdp.Model([[[0.7, 0.3], [0, 1]], [[1, 0], [1, 0]]], [[10, 2], [2, -5]], 0.9, order="ass")
    >>> model
    <warpkov.mdp.Model: 2 states, 2 actions, 5 transitions, gamma 0.9>
    >>> model.P.toarray()
    array([[0.7, 0.3],
           [1. , 0. ],
           [0. , 1. ],
           [1. , 0. ]])
    """

    _core: _warpkov.Model

    def __init__(
        self,
        P: ModelLike,
        R: Any = None,
        gamma: float | None = None,
        *,
        order: Order | None = None,
        s_indices: Any = None,
        a_indices: Any = None,
        objective: Objective | None = None,
        ends: Any = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        costs = minimize(objective)
        arrays = (R, order, s_indices, a_indices, ends, state_names, action_names, labels)
        names = ("R", "order", "s_indices", "a_indices", "ends", "state_names", "action_names", "labels")
        self._numbers: np.ndarray | None = None
        P = local(P)
        done = _whole(P, gamma)
        if done is not None:
            for value, name in zip(arrays, names):
                if value is not None:
                    raise ValueError(f"{name} is for arrays, and P is a whole model")
            self._core, self._numbers = done
            if gamma is not None or costs is not None:
                self._core = self._core.replaced(gamma, costs)
            return
        if gamma is None:
            raise ValueError("gamma is missing: arrays have no discount factor")
        shape = _Shape(P, order, s_indices, a_indices)
        if R is None:
            raise ValueError("R is missing: pass the rewards, or R=0 for a model without rewards")
        R = local(R)
        transitions = shape.matrix(P, "P")
        rewards, action_rewards = shape.rewards(R)
        offsets, numbers = shape.offsets, shape.numbers
        end_of_rows = None if ends is None else shape.per_row(ends, "ends")
        keep = None
        if numbers is None and action_rewards is not None and np.isneginf(action_rewards).any():
            # QuantEcon's mark of an action that a state lacks.
            keep = ~np.isneginf(action_rewards)
            offsets = np.concatenate([[0], np.cumsum(keep.reshape(shape.states, -1).sum(axis=1))]).astype(np.uint64)
            numbers = np.tile(np.arange(shape.actions, dtype=np.uint32), shape.states)[keep]
            transitions = _rows(transitions, keep)
            rewards = None if rewards is None else _rows(rewards, keep)
            action_rewards = action_rewards[keep]
            end_of_rows = None if end_of_rows is None else end_of_rows[keep]
        self._numbers = numbers
        names_of_actions = None
        if action_names is not None or numbers is not None:
            texts = [str(name) for name in (range(shape.actions) if action_names is None else action_names)]
            if len(texts) != shape.actions:
                raise ValueError(f"action_names has {len(texts)} elements, expected one per action, {shape.actions}")
            of_row = np.tile(np.arange(shape.actions), shape.states) if numbers is None else numbers
            names_of_actions = (texts, of_row.tolist())
        parts = {
            "states": shape.states,
            "actions": shape.actions if offsets is None else None,
            "offsets": offsets,
            "gamma": float(gamma),
            "minimize": bool(costs),
            "ends": end_of_rows,
            "action_rewards": action_rewards,
            "labels": {str(key): sorted(int(s) for s in states) for key, states in (labels or {}).items()},
            "state_names": None if state_names is None else [str(name) for name in state_names],
            "action_names": names_of_actions,
        }
        place = shape.place(transitions, rewards, keep)
        self._core = _warpkov.Model.from_arrays(parts, transitions, rewards, place)

    def __reduce__(self) -> tuple[Any, ...]:
        # The format for large models is one of files.
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "model.safetensors")
            self._core.save(file, "safetensors")
            return _unpickled, (type(self), file.read_bytes(), self._numbers)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        # Models do not change.
        return type(self)._of(self._core, self._numbers)

    @classmethod
    def _of(cls, core: _warpkov.Model, numbers: np.ndarray | None = None) -> Model:
        model = cls.__new__(cls)
        model._core, model._numbers = core, numbers
        return model

    @property
    def actions(self) -> int:
        """The largest number of actions of a state."""
        return self._core.actions if self._numbers is None else int(self._numbers.max(initial=0)) + 1

    @property
    def nnz(self) -> int:
        """The number of transitions."""
        return self._core.nnz

    @property
    def offsets(self) -> np.ndarray:
        """The first row of each state in `P`, and the number of rows: S + 1 numbers."""
        return np.asarray(self._core.offsets)

    @property
    def P(self) -> sp.csr_array:
        """The probabilities: a row for each state-action pair, those of a state adjacent. Read-only."""
        return self._matrix(self._core.transitions)

    @property
    def R(self) -> sp.csr_array:
        """The rewards R(s, a, s'), in the rows of `P`; those of actions alone are in `action_rewards`. Read-only."""
        return self._matrix(self._core.rewards)

    @property
    def action_rewards(self) -> np.ndarray:
        """The reward of each row of `P` whatever comes next. Read-only."""
        rewards = np.asarray(self._core.action_rewards)
        return rewards if rewards.size else np.zeros(self._core.rows)

    @property
    def ends(self) -> np.ndarray:
        """The probability that the process ends after each row of `P`. Read-only."""
        ends = np.asarray(self._core.ends)
        return ends if ends.size else np.zeros(self._core.rows)

    @property
    def labels(self) -> dict[str, list[int]]:
        """Named sets of states."""
        return self._core.labels

    @property
    def state_names(self) -> list[str] | None:
        """The names of the states, if they have any."""
        return self._core.state_names

    @property
    def grid_shape(self) -> tuple[int, int] | None:
        """Height and width, if the states are the cells of a grid, row by row."""
        grid = self._core.grid
        return None if grid is None else grid[:2]

    def action_name(self, state: int, action: int) -> str:
        """Return the name of an action of a state, or its number."""
        names = self._core.action_names
        if names is None:
            return str(action)
        return names[0][int(np.asarray(names[1])[self._row(state, action)])]

    def replace(self, *, gamma: float | None = None, objective: Objective | None = None) -> Model:
        """Return this model with another discount factor or objective. Shares the arrays.

        Examples
        --------
        >>> from warpkov import mdp
        >>> mdp.generate("forest").replace(gamma=0.5).gamma
        0.5
        """
        return Model._of(self._core.replaced(gamma, minimize(objective)), self._numbers)

    def warnings(self, *, epsilon: float | None = 1e-6) -> list[str]:
        """Return what most likely means that this is another model than the one meant.

        Examples
        --------
        >>> from warpkov import mdp
        >>> mdp.generate("forest").warnings()
        []
        """
        return self._core.warnings(True, epsilon)

    def __repr__(self) -> str:
        costs = ", costs" if self._core.minimize else ""
        of = f"{self.states} states, {self.actions} actions, {self.nnz} transitions, gamma {self.gamma:g}{costs}"
        return f"<warpkov.mdp.Model: {of}>"

    def _matrix(self, buffers: tuple[_warpkov.Buffer, _warpkov.Buffer, _warpkov.Buffer]) -> sp.csr_array:
        indptr, indices, data = (np.asarray(buffer) for buffer in buffers)
        # SciPy has signed indices; the numbers are below 2^31 or the shape would not fit.
        matrix = sp.csr_array((data, indices.view(np.int32), indptr.view(np.int64)), (self._core.rows, self.states))
        return matrix

    def _row(self, state: int, action: int) -> int:
        first, end = (int(at) for at in self.offsets[state : state + 2])
        if self._numbers is None:
            if not 0 <= action < end - first:
                raise ValueError(f"action {action} in state {state}, expected a number below {end - first}")
            return first + action
        found = np.flatnonzero(self._numbers[first:end] == action)
        if not found.size:
            raise ValueError(f"state {state} has no action {action}")
        return first + int(found[0])

    def _outer(self, policy: np.ndarray) -> np.ndarray:
        """Actions by the numbers of their rows in a state, as actions by their own numbers."""
        if self._numbers is None:
            return policy
        acting = policy != NO_ACTION
        outer = policy.copy()
        outer[acting] = self._numbers[self.offsets[:-1][acting] + policy[acting]]
        return outer

    def _inner(self, policy: Any) -> np.ndarray:
        """The inverse of `_outer`, of an array, a solution or a file."""
        if isinstance(policy, (str, os.PathLike)):
            return np.asarray(_warpkov.policy(self._core, os.fspath(policy)))
        if hasattr(policy, "plan"):
            policy = policy.policy if policy.plan is None else policy.plan
        policy = host(policy)
        if policy.ndim == 2:
            return np.concatenate([self._inner(actions) for actions in policy])
        if policy.ndim != 1 or policy.dtype.kind not in "iu":
            raise ValueError(f"policy has shape {policy.shape} and type {policy.dtype}, expected S integers")
        if policy.shape != (self.states,):
            raise ValueError(f"the policy has {policy.size} actions, expected one per state, {self.states}")
        if policy.dtype.kind == "i":
            policy = np.where(policy == -1, NO_ACTION, policy)
            if (policy < 0).any():
                state = int(np.flatnonzero(policy < 0)[0])
                raise ValueError(f"the policy has action {policy[state]} in state {state}")
        if self._numbers is not None:
            offsets = self.offsets
            rows = [
                self._row(s, int(a)) - int(offsets[s]) if offsets[s] < offsets[s + 1] else NO_ACTION
                for s, a in enumerate(policy)
            ]
            policy = np.array(rows)
        return np.ascontiguousarray(policy, dtype=np.uint32)

    def _state(self, state: Any) -> int:
        """The number of a state, by its number or name."""
        if isinstance(state, str):
            names = self.state_names or []
            if state not in names:
                raise ValueError(f"there is no state '{state}'")
            return names.index(state)
        return int(state)

    def _goal(self, goal: Any) -> list[int] | None:
        """States by a label, a number, a name, or several of these; a mask of S truth values."""
        if goal is None:
            return None
        if isinstance(goal, str) and goal in self.labels:
            return self.labels[goal]
        if isinstance(goal, (str, int, np.integer)):
            return [self._state(goal)]
        if is_array(goal) and host(goal).dtype == np.bool_:
            mask = host(goal)
            if mask.shape != (self.states,):
                raise ValueError(f"goal has shape {mask.shape}, expected a truth value per state, {self.states}")
            return np.flatnonzero(mask).tolist()
        return sorted({self._state(state) for state in goal})


def _unpickled(cls: type[Model], bytes: bytes, numbers: np.ndarray | None) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "model.safetensors")
        file.write_bytes(bytes)
        return cls._of(_warpkov.Model.load(file, "safetensors", None, None), numbers)


def _whole(P: Any, gamma: float | None) -> tuple[_warpkov.Model, np.ndarray | None] | None:
    """The model that P is alone: a model, a file, Gymnasium's table, or transitions. None if P is an array."""
    if isinstance(P, Model):
        return P._core, P._numbers
    if isinstance(P, (str, os.PathLike)):
        return _warpkov.Model.load(P, None, None, None), None
    if isinstance(P, Mapping):
        return from_table(P, gamma), None
    if sp.issparse(P) or is_array(P):
        return None
    if isinstance(P, (list, tuple)):
        if not P or not _is_transition(P[0]):
            return None
        return _from_transitions(P, gamma), None
    if isinstance(P, Iterable):
        return _from_transitions(P, gamma), None
    raise TypeError(f"P is a {type(P).__name__}, expected arrays, a path, a table or transitions")


def are_arrays(P: Any) -> bool:
    """Whether P holds the arrays of a model, and is no model by itself."""
    if isinstance(P, (list, tuple)):
        return bool(P) and not _is_transition(P[0])
    return sp.issparse(P) or is_array(P)


def _is_transition(value: Any) -> bool:
    """Whether a value is (state, action, next, probability, reward), or without the reward."""
    # A list of numbers may be a row of a matrix.
    if not isinstance(value, tuple) or len(value) not in (4, 5):
        return False
    named = all(isinstance(part, (str, int, np.integer)) for part in value[:3])
    return named and all(isinstance(part, (int, float, np.number)) for part in value[3:])


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"found a {type(value).__name__}, expected a name or a number")


def _from_transitions(transitions: Iterable[Any], gamma: float | None) -> _warpkov.Model:
    if gamma is None:
        raise ValueError("gamma is missing: transitions have no discount factor")
    keys = ("state", "action", "next", "probability", "reward")
    found = []
    sums: dict[tuple[Any, Any], float] = {}
    for number, transition in enumerate(transitions):
        if not _is_transition(transition):
            raise ValueError(
                f"transitions[{number}] is {transition!r}, expected (state, action, next, probability, reward)"
            )
        found.append(dict(zip(keys, transition)))
        pair = transition[:2]
        sums[pair] = sums.get(pair, 0.0) + float(transition[3])
        if not 0.0 <= float(transition[3]) <= 1.0 + TOLERANCE:
            raise ValueError(f"transitions[{number}] has probability {transition[3]}, expected a probability in [0, 1]")
    for (state, action), total in sums.items():
        if abs(total - 1.0) > TOLERANCE:
            raise ValueError(
                f"the probabilities of state {state!r} and action {action!r} sum to {total:g}, expected 1 within 1e-6"
            )
    text = json.dumps({"gamma": gamma, "transitions": found}, default=_plain)
    return _warpkov.Model.loads(text.encode(), "json", "transitions")


def from_table(table: Mapping[Any, Any], gamma: float | None) -> _warpkov.Model:
    """The model of Gymnasium's table `P[s][a] = [(p, s', r, terminated), ...]`."""
    if gamma is None:
        raise ValueError("gamma is missing: a table of transitions has no discount factor")
    plain = {
        int(state): {int(action): [list(outcome) for outcome in outcomes] for action, outcomes in actions.items()}
        for state, actions in table.items()
    }
    for state, actions in plain.items():
        for action, outcomes in actions.items():
            for at, (probability, after, *_) in enumerate(outcomes):
                place = f"P[{state}][{action}][{at}]"
                if not 0.0 <= float(probability) <= 1.0 + TOLERANCE:
                    raise ValueError(f"{place} has probability {probability}, expected a probability in [0, 1]")
                if not 0 <= int(after) < len(plain):
                    raise ValueError(f"{place} has next state {after}, expected a state below {len(plain)}")
            total = sum(float(outcome[0]) for outcome in outcomes)
            if outcomes and abs(total - 1.0) > TOLERANCE:
                raise ValueError(
                    f"P[{state}][{action}] has probabilities that sum to {total:g}, expected 1 within 1e-6"
                )
    text = json.dumps({"gamma": gamma, "P": plain}, default=_plain)
    return _warpkov.Model.loads(text.encode(), "gymnasium", "P")


class _Shape:
    """The numbers of states and actions, and the order of the rows, that P shows."""

    def __init__(self, P: Any, order: str | None, s_indices: Any, a_indices: Any) -> None:
        if order not in (None, "ass", "sas"):
            raise ValueError(f"order is '{order}', expected 'ass' or 'sas'")
        self.order = order
        self.offsets: np.ndarray | None = None
        self.numbers: np.ndarray | None = None
        self._permutation: np.ndarray | None = None
        self._name = "P"
        self._forms: dict[str, str] = {}
        if (s_indices is None) != (a_indices is None):
            raise ValueError("expected both s_indices and a_indices, or neither")
        if s_indices is not None:
            self._of_pairs(P, host(s_indices), host(a_indices))
        elif isinstance(P, (list, tuple)) or _is_list(P):
            self._of_list(P)
        elif sp.issparse(P):
            self._of_stack(P.shape)
        else:
            self._of_array(host(P).shape)

    def _of_pairs(self, P: Any, s: np.ndarray, a: np.ndarray) -> None:
        P = P if sp.issparse(P) else host(P)
        if P.ndim != 2 or s.shape != (P.shape[0],) or a.shape != s.shape:
            raise ValueError(
                f"P has shape {P.shape}, s_indices {s.shape} and a_indices {a.shape}; expected (L, S), (L,) and (L,)"
            )
        self.states = P.shape[1]
        for name, indices in (("s_indices", s), ("a_indices", a)):
            if indices.dtype.kind not in "iu" or (indices < 0).any():
                raise ValueError(f"{name} has type {indices.dtype}, or negative elements; expected indices from 0")
        # Differences of unsigned numbers are none.
        s, a = s.astype(np.int64), a.astype(np.int64)
        if (s >= self.states).any():
            raise ValueError(f"s_indices has {int(s.max())}, expected states below {self.states}")
        self.actions = int(a.max()) + 1 if a.size else 0
        if (np.diff(s) < 0).any() or ((np.diff(s) == 0) & (np.diff(a) <= 0)).any():
            self._permutation = np.lexsort((a, s))
            s, a = s[self._permutation], a[self._permutation]
            same = (np.diff(s) == 0) & (np.diff(a) == 0)
            if same.any():
                at = int(np.flatnonzero(same)[0])
                raise ValueError(f"the pair of state {s[at]} and action {a[at]} comes twice")
        self.offsets = np.searchsorted(s, np.arange(self.states + 1)).astype(np.uint64)
        self.numbers = a.astype(np.uint32)
        self.order = "pairs"

    def _of_list(self, P: Any) -> None:
        """A matrix per action, unless its elements are numbers in lists."""
        first: Any = P[0] if len(P) else None
        if not sp.issparse(first) and not is_array(first):
            self._of_array(real(P, "P").shape)
            return
        if self.order == "sas":
            self._of_array((len(P), *np.shape(first)))
            return
        if not all(sp.issparse(matrix) or is_array(matrix) for matrix in P):
            raise ValueError("P has lists among its matrices, expected arrays or sparse matrices alone")
        shapes = {matrix.shape for matrix in P}
        self.states, self.actions, self.order = first.shape[0], len(P), "ass"
        if shapes != {(self.states, self.states)}:
            text = ", ".join(str(shape) for shape in sorted(shapes))
            raise ValueError(f"P has matrices of shape {text}, expected one S x S matrix per action")

    def _of_stack(self, shape: tuple[int, ...]) -> None:
        rows, self.states = shape
        self.actions = rows // max(self.states, 1)
        if self.states == 0 or rows != self.states * self.actions or rows == 0:
            raise ValueError(f"P has shape {shape}, expected (S*A, S)")
        if self.actions == 1:
            self.order = "sas"
        elif self.order is None:
            raise ValueError(
                f"P has shape {shape}: set order='sas' if row s*A + a is that of state s and action a, "
                "or order='ass' if it is row a*S + s"
            )

    def _of_array(self, shape: tuple[int, ...]) -> None:
        if len(shape) == 2:
            self._of_stack(shape)
            return
        if len(shape) != 3 or 0 in shape:
            raise ValueError(f"P has shape {shape}, expected (A, S, S) or (S, A, S)")
        first, second, self.states = shape
        fits = {"ass": second == self.states, "sas": first == self.states}
        if self.order is None:
            if all(fits.values()) and self.states > 1:
                raise ValueError(
                    f"P has shape {shape}: set order='ass' for P[a][s][s'], or order='sas' for P[s][a][s']"
                )
            self.order = "ass" if fits["ass"] else "sas"
        if not fits[self.order]:
            expected = "(A, S, S)" if self.order == "ass" else "(S, A, S)"
            raise ValueError(f"P has shape {shape}, expected {expected}")
        self.actions = first if self.order == "ass" else second

    @property
    def rows(self) -> int:
        return self.states * self.actions if self.numbers is None else self.numbers.size

    def matrix(self, M: Any, name: str) -> CSR:
        """The matrix of a row for each state-action pair, those of a state adjacent."""
        if name != "R":
            self._name = name
        if isinstance(M, (list, tuple)) or _is_list(M):
            first = M[0] if len(M) else None
            if sp.issparse(first):
                self._forms[name] = "ass"
                return self._of_actions(M, name)
            M = np.stack([real(matrix, name) for matrix in M]) if not is_array(first) else [host(one) for one in M]
        if not sp.issparse(M):
            return self._of_dense(M, name)
        self._forms[name] = "pairs" if self.numbers is not None else f"stack-{self.order}"
        if self.order == "ass":
            M = M.tocsr()
            parts = [M[first : first + self.states] for first in range(0, M.shape[0], self.states)]
            return self._of_actions(parts, name)
        if M.shape != (self.rows, self.states):
            raise ValueError(f"{name} has shape {M.shape}, expected {(self.rows, self.states)}")
        M = _summed(M)
        if self._permutation is not None:
            M = M[self._permutation]
        return _arrays(M, name)

    def _of_dense(self, M: Any, name: str) -> CSR:
        """The matrix of a dense array of 2 or 3 dimensions, or of a list of the matrices of its first index.

        The array is read in parts, so that beside the result there is no copy of it.
        """
        S, A = self.states, self.actions
        if isinstance(M, list):
            shapes = {one.shape for one in M}
            shape = (len(M), *M[0].shape) if len(shapes) == 1 else (len(M),)
        else:
            M = host(M)
            shape = M.shape
        if len(shape) == 3:
            expected: tuple[int, ...] = (A, S, S) if self.order == "ass" else (S, A, S)
            if self.numbers is not None:
                expected = (self.rows, S)
            if shape != expected:
                raise ValueError(f"{name} has shape {shape}, expected {expected}")
            self._forms[name] = str(self.order)
        else:
            if shape != (self.rows, S):
                raise ValueError(f"{name} has shape {shape}, expected {(self.rows, S)}")
            self._forms[name] = "pairs" if self.numbers is not None else f"stack-{self.order}"
        first = M[0] if isinstance(M, list) else M
        if first.dtype.kind not in "biufO":
            raise ValueError(f"{name} has elements of type {first.dtype}, expected real numbers")
        step = max(1, CHUNK // max(1, S * (1 if self.numbers is not None else A)))

        def parts() -> Iterator[np.ndarray]:
            if self.numbers is not None:
                for at in range(0, self.rows, step):
                    rows = slice(at, at + step) if self._permutation is None else self._permutation[at : at + step]
                    yield np.asarray(M[rows], dtype=np.float64)
                return
            for at in range(0, S, step):
                end = min(at + step, S)
                if self.order == "ass" and len(shape) == 3:
                    part = np.stack([np.asarray(M[a][at:end], dtype=np.float64) for a in range(A)], axis=1)
                elif self.order == "ass":
                    of_actions = [M[a * S + at : a * S + end] for a in range(A)]
                    part = np.stack([np.asarray(one, dtype=np.float64) for one in of_actions], axis=1)
                elif len(shape) == 3:
                    part = np.stack([np.asarray(M[s], dtype=np.float64) for s in range(at, end)])
                else:
                    part = np.asarray(M[at * A : end * A], dtype=np.float64)
                yield part.reshape(-1, S)

        ordered = A == 1 if self.order == "ass" else self._permutation is None
        whole = M if ordered and isinstance(M, np.ndarray) else None
        return _compressed(parts, self.rows, S, whole)

    def place(self, transitions: CSR, rewards: CSR | None, keep: np.ndarray | None) -> Place:
        """The names of entries of the arrays that the caller has passed. `keep`: the rows that remain."""

        def place(array: str, row: int, position: int | None) -> str:
            name = {"P": self._name, "R": "R", "action_rewards": "R"}.get(array, array)
            column = ":"
            matrix = transitions if array == "P" else rewards
            if position is not None and matrix is not None:
                column = str(int(matrix[1][position]))
            if keep is not None:
                row = int(np.flatnonzero(keep)[row])
            if self.numbers is None or self.offsets is None:
                state, action = divmod(row, self.actions)
            else:
                state = int(np.searchsorted(self.offsets, row, side="right")) - 1
                action = int(self.numbers[row])
            own = row if self._permutation is None else int(self._permutation[row])
            where = f"(state {state}, action {action})"
            form = self._forms.get(name, "sa")
            of_matrix = {
                "ass": f"{action}, {state}",
                "sas": f"{state}, {action}",
                "stack-ass": f"{action * self.states + state}",
                "stack-sas": f"{row}",
                "pairs": f"{own}",
            }
            if form in of_matrix and array in ("P", "R"):
                return f"{name}[{of_matrix[form]}, {column}] {where}"
            return {"s": f"{name}[{state}]", "l": f"{name}[{own}] {where}"}.get(form, f"{name}[{state}, {action}]")

        return place

    def _of_actions(self, matrices: Any, name: str) -> CSR:
        """The matrices of all actions as one: row s*A + a is row s of matrix a."""
        if len(matrices) != self.actions:
            raise ValueError(f"{name} has {len(matrices)} matrices, expected one per action, {self.actions}")
        found = []
        for action, matrix in enumerate(matrices):
            if not sp.issparse(matrix):
                dense = real(matrix, name)
                if dense.ndim != 2:
                    raise ValueError(f"{name}[{action}] has shape {dense.shape}, expected {(self.states, self.states)}")
                matrix = csr_of(dense)
            if matrix.shape != (self.states, self.states):
                raise ValueError(f"{name}[{action}] has shape {matrix.shape}, expected {(self.states, self.states)}")
            found.append(_summed(matrix))
        if self.actions == 1:
            return _arrays(found[0], name)
        indptr, indices, data = _warpkov.interleave([_arrays(matrix, name) for matrix in found], name)
        return _own(np.asarray(indptr)), _own(np.asarray(indices)), _own(np.asarray(data))

    def per_row(self, values: Any, name: str) -> np.ndarray:
        """Numbers of shape (S, A), or (L,), one for each row."""
        values = real(values, name)
        self._forms[name] = "sa"
        if self.numbers is not None and values.shape == (self.numbers.size,):
            self._forms[name] = "l"
            values = values if self._permutation is None else values[self._permutation]
        elif self.numbers is not None and self.offsets is not None and values.ndim == 2:
            if values.shape != (self.states, self.actions):
                raise ValueError(f"{name} has shape {values.shape}, expected {(self.states, self.actions)}")
            states = np.repeat(np.arange(self.states), lengths(self.offsets))
            values = values[states, self.numbers]
        elif values.shape != (self.states, self.actions):
            expected = (self.states, self.actions) if self.numbers is None else (self.numbers.size,)
            raise ValueError(f"{name} has shape {values.shape}, expected {expected}")
        return np.ascontiguousarray(values, dtype=np.float64).ravel()

    def rewards(self, R: Any) -> tuple[CSR | None, np.ndarray | None]:
        """R(s, a, s') as a matrix, or the rewards of the rows."""
        if np.ndim(R) == 0 and not sp.issparse(R) and not isinstance(R, (list, tuple)):
            reward = float(real(R, "R"))
            return None, np.full(self.rows, reward) if reward != 0.0 else None
        if sp.issparse(R):
            return self.matrix(R, "R"), None
        if isinstance(R, (list, tuple)) and len(R) and (sp.issparse(R[0]) or is_array(R[0])):
            if sp.issparse(R[0]) or host(R[0]).ndim == 2:
                return self.matrix(R, "R"), None
        if _is_list(R) and (sp.issparse(R[0]) or is_array(R[0])):
            return self.matrix(R, "R"), None
        R = real(R, "R") if isinstance(R, (list, tuple)) else host(R)
        if R.ndim == 3:
            return self.matrix(R, "R"), None
        if self.numbers is not None and R.shape == (self.numbers.size,):
            return None, self.per_row(R, "R")
        if R.ndim == 1:
            if R.shape != (self.states,):
                raise ValueError(f"R has shape {R.shape}, expected {(self.states,)}")
            counts = self.actions if self.offsets is None else lengths(self.offsets)
            self._forms["R"] = "s"
            return None, np.repeat(real(R, "R"), counts)
        return None, self.per_row(R, "R")


def _is_list(value: Any) -> bool:
    """Whether a value is NumPy's array of objects, as it makes of a list of matrices."""
    return isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1 and value.size > 0


def _summed(matrix: Any) -> Any:
    """A CSR matrix without duplicates. SciPy's matrices mean the sums of their duplicates."""
    matrix = matrix.tocsr()
    if matrix.dtype.kind in "biuf" and matrix.dtype != np.dtype(np.float64):
        # SciPy adds numbers of other types in these types, and none of another byte order.
        indptr, indices = matrix.indptr, matrix.indices
        matrix = sp.csr_array((matrix.data.astype(np.float64), indices, indptr), shape=matrix.shape)
    indptr, indices = matrix.indptr, matrix.indices
    # SciPy's own check runs on one core.
    if indices.dtype == np.int32 and indices.flags.c_contiguous and indices.flags.aligned:
        canonical = _warpkov.ascending(np.ascontiguousarray(indptr, dtype=np.uint64), indices.view(np.uint32))
    else:
        canonical = matrix.has_canonical_format
    if not canonical:
        matrix = matrix.copy()
        # Whatever the matrix has been said to be.
        matrix.has_canonical_format = matrix.has_sorted_indices = False
        matrix.sum_duplicates()
    return matrix


def _compressed(
    parts: Callable[[], Iterator[np.ndarray]], rows: int, width: int, whole: np.ndarray | None = None
) -> CSR:
    """The entries that are not 0 of a dense matrix whose rows come in parts of float64, twice.

    `whole` is the array if it has the rows in this order. Without zeros, its memory is that of the entries.
    """
    indptr = np.zeros(rows + 1, dtype=np.uint64)
    at = 1
    for part in parts():
        indptr[at : at + len(part)] = np.count_nonzero(part, axis=1)
        at += len(part)
    np.cumsum(indptr, out=indptr)
    if whole is not None and int(indptr[-1]) == whole.size and whole.dtype == np.dtype(np.float64):
        if whole.flags.c_contiguous and whole.flags.aligned:
            return _own(indptr), _own(np.tile(np.arange(width, dtype=np.uint32), rows)), whole.reshape(-1)
    indices, data = np.empty(int(indptr[-1]), dtype=np.uint32), np.empty(int(indptr[-1]))
    at = 0
    for part in parts():
        # Row by row.
        places = np.flatnonzero(part)
        end = at + places.size
        data[at:end] = part.reshape(-1)[places]
        np.remainder(places, width, out=places)
        indices[at:end] = places
        at = end
    return _own(indptr), _own(indices), _own(data)


def _own(array: np.ndarray) -> np.ndarray:
    """An array that nobody else has, read-only, so that a model takes it as it is."""
    array.flags.writeable = False
    return array


def csr_of(dense: np.ndarray) -> Any:
    """A dense matrix of float64 as one of SciPy."""
    step = max(1, CHUNK // max(1, dense.shape[1]))
    parts = [dense[at : at + step] for at in range(0, dense.shape[0], step)]
    indptr, indices, data = _compressed(lambda: iter(parts), *dense.shape)
    return sp.csr_array((data, indices.view(np.int32), indptr.view(np.int64)), shape=dense.shape)


def _check_indices(indices: np.ndarray, name: str) -> None:
    if indices.size and int(indices.min()) < 0:
        raise ValueError(f"{name}.indices has {int(indices.min())}, expected indices from 0")


def _arrays(matrix: Any, name: str) -> CSR:
    """The arrays of a CSR matrix; its own memory where types permit."""
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    _check_indices(indptr, name)
    if indices.dtype == np.int32:
        columns = np.require(indices.view(np.uint32), requirements=["C", "A"])
        if _warpkov.greatest(columns) >= 2**31:
            _check_indices(indices, name)
    else:
        _check_indices(indices, name)
        if indices.size and int(indices.max()) >= matrix.shape[1]:
            raise ValueError(f"{name}.indices has {int(indices.max())}, expected states below {matrix.shape[1]}")
        columns = np.require(indices, dtype=np.uint32, requirements=["C", "A"])
    if data.dtype.kind not in "biuf":
        raise ValueError(f"{name} has elements of type {data.dtype}, expected real numbers")
    indptr = indptr.view(np.uint64) if indptr.dtype == np.int64 else indptr.astype(np.uint64)
    return (
        np.require(indptr, requirements=["C", "A"]),
        columns,
        np.require(data, dtype=np.float64, requirements=["C", "A"]),
    )


def lengths(offsets: np.ndarray) -> np.ndarray:
    """The differences of ascending offsets."""
    differences: np.ndarray = offsets[1:] - offsets[:-1]
    return differences.astype(np.int64)


def _rows(arrays: CSR, keep: np.ndarray) -> CSR:
    """The rows of a matrix that are kept."""
    indptr, indices, data = arrays
    counts = lengths(indptr)
    entries = np.repeat(keep, counts)
    kept = np.concatenate([[0], np.cumsum(counts[keep])]).astype(np.uint64)
    return _own(kept), _own(indices[entries]), _own(data[entries])
