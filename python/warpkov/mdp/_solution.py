"""Results."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._model import Model


@dataclass(frozen=True)
class Certificate:
    """Proof of the accuracy of values V, rounding errors included.

    Attributes
    ----------
    bound : float or None
        Upper bound of the largest distance of a value from its exact one, in units of V. None if there
        is none.
    residual : float or None
        The Bellman residual, the largest |TV - V|, of the discounted criterion.
    contraction : float or None
        gamma times the largest sum of a row of P, of the discounted criterion.
    """

    bound: float | None
    residual: float | None = None
    contraction: float | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """Optimal values and an optimal policy.

    Attributes
    ----------
    values : ndarray of float64, shape (S,)
        V, one value per state. States of infinite value have inf or -inf.
    policy : ndarray of int64, shape (S,)
        The number of an action per state; -1 for states without actions.
    lower, upper : ndarray of float64, shape (S,)
        Proven bounds of the exact value of each state.
    certificate : Certificate
        The proof of the accuracy.
    status : str
        How the run ended: "solved", "policy-limit", "sweep-limit", "stalled" (by rounding errors) or
        "overflow".
    converged : bool
        Whether the target was reached.
    sweeps : int
        Number of sweeps over the states.
    device, method, precision : str
        What was used; method and precision of the discounted criterion only.
    notes : list of str
        Automatic choices, with reasons.
    elapsed : float
        Seconds of the sweeps.
    model : Model
        The model.
    plan : ndarray of int64, shape (T, S), or None
        With `all_steps`, the policy of each step of the horizon; `simulate` and `evaluate` take it.
    plan_values : ndarray of float64, shape (T, S), or None
        With `all_steps`, the values of each step.
    exact : list of Fraction or float, length S, or None
        With `exact`, the value of each state: a fraction, or the float inf or -inf. None for a model that is too large,
        as a note says.

    Examples
    --------
    >>> from warpkov import mdp
    >>> solution = mdp.solve(mdp.generate("forest", gamma=0.9))
    >>> solution.converged, solution.certificate.bound <= 1e-6
    (True, True)
    >>> solution.policy
    array([0, 0, 0])
    """

    values: np.ndarray
    policy: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    certificate: Certificate
    status: str
    converged: bool
    sweeps: int
    device: str
    method: str | None
    precision: str | None
    notes: list[str]
    elapsed: float
    model: Model = field(repr=False)
    plan: np.ndarray | None = field(repr=False)
    plan_values: np.ndarray | None = field(repr=False)
    exact: list[Fraction | float] | None = field(repr=False)
    _report: dict[str, Any] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the report of ``warpkov mdp solve --json``, with values and policy as lists.

        Examples
        --------
        >>> from warpkov import mdp
        >>> mdp.solve(mdp.generate("forest", gamma=0.9)).to_dict()["criterion"]
        'discounted'
        """
        found = {**self._report, "values": self.values.tolist(), "policy": self.policy.tolist()}
        return found if self.exact is None else {**found, "exact": [str(value) for value in self.exact]}

    def __repr__(self) -> str:
        how = f"{self.status}, bound {self.certificate.bound}, {self.sweeps} sweeps on {self.device}"
        return f"<warpkov.mdp.Solution: {self.values.size} states, {how}>"

    def plot(self, ax: Axes | None = None, *, what: str = "values", shape: tuple[int, int] | None = None) -> Axes:
        """Draw values or policy with matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        what : {"values", "policy"}
            What to draw.
        shape : tuple of two ints, optional
            Height and width of a grid whose cells are the states, row by row: draws a heat map. By
            default that of the model, whose walls stay blank; without one, the states are on the horizontal axis.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            There is no matplotlib.
        """
        if what not in ("values", "policy"):
            raise ValueError(f"what is '{what}', expected 'values' or 'policy'")
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots()[1]
        data: np.ndarray = self.values if what == "values" else self.policy
        grid = self.model._core.grid
        walls = grid[2] if grid and shape in (None, grid[:2]) else []
        shape = shape or self.model.grid_shape
        name = "value" if what == "values" else "action"
        if shape is None:
            ax.plot(data, "." if what == "policy" or data.size < 50 else "-")
            ax.set(xlabel="state", ylabel=name)
            return ax
        hidden = ~np.isfinite(data) if what == "values" else data < 0
        hidden[walls] = True
        cells = np.ma.masked_array(data, hidden)
        image = ax.imshow(cells.reshape(shape), cmap="viridis" if what == "values" else "tab20", interpolation="none")
        ax.figure.colorbar(image, ax=ax, label=name)
        return ax


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of a policy.

    Attributes
    ----------
    values, lower, upper : ndarray of float64, shape (S,)
        The value of each state, between proven bounds.
    bound : float
        Upper bound of the largest distance of a value from its exact one; inf if a value has no bounds.
    converged : bool
        Whether the bounds meet epsilon.
    device : str
        The device used.
    sweeps : int
        Number of sweeps.
    """

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    bound: float
    converged: bool
    device: str
    sweeps: int


@dataclass(frozen=True)
class Finding:
    """Whether the largest error of values, or the largest loss of a policy, is at most a limit.

    Attributes
    ----------
    verdict : str
        "proved", "refuted" or "undecided".
    arithmetic : str
        "intervals" or "rationals".
    limit : float
        What is claimed.
    lower, upper : float
        Proven bounds of the largest error or loss.
    worst : int
        The state with the largest upper bound.
    """

    verdict: str
    arithmetic: str
    limit: float
    lower: float
    upper: float
    worst: int


@dataclass(frozen=True, eq=False)
class Verification:
    """Proofs about a solution.

    Attributes
    ----------
    values : Finding
        The largest distance of a value from its exact one.
    policy : Finding or None
        The largest loss of the policy against an optimal one, if there is a policy.
    lower, upper : ndarray of float64, shape (S,)
        Proven bounds of the exact values.
    """

    values: Finding
    policy: Finding | None
    lower: np.ndarray
    upper: np.ndarray

    @property
    def verdict(self) -> str:
        """ "proved" if all claims are, "refuted" if one is, else "undecided"."""
        verdicts = [found.verdict for found in (self.values, self.policy) if found is not None]
        return next((word for word in ("refuted", "undecided") if word in verdicts), "proved")


@dataclass(frozen=True, eq=False)
class QFactors:
    """Q(s, a) = r(s, a) + gamma * sum of P(s'|s, a) * V(s').

    Attributes
    ----------
    q : ndarray of float64, shape (S, A)
        The Q-factors; NaN for actions that a state lacks.
    advantages : ndarray of float64, shape (S, A)
        Q(s, a) minus the best Q-factor of s.
    bound : float or None
        Upper bound of the largest distance of a Q-factor from its exact one, if that of the values is known.
    """

    q: np.ndarray
    advantages: np.ndarray
    bound: float | None


@dataclass(frozen=True)
class Simulation:
    """Statistics of sample paths of a policy.

    Attributes
    ----------
    mean : float
        Mean of what the paths yield.
    lower, upper : float
        Interval that holds the expected yield with probability `confidence`.
    confidence : float
        That probability.
    standard_error : float
        Standard error of the mean.
    episodes : int
        Number of paths.
    steps : int
        Total number of their steps.
    cut : int
        Number of paths that were cut after `horizon` steps.
    horizon : int
        The most steps of a path.
    reached : int or None
        Number of paths that reached the goal, if there is one.
    """

    mean: float
    lower: float
    upper: float
    confidence: float
    standard_error: float
    episodes: int
    steps: int
    cut: int
    horizon: int
    reached: int | None


def number(value: Any) -> Any:
    """A number of a report; JSON has strings for infinite ones."""
    return float(value) if value in ("inf", "-inf") else value


def numbers(text: str) -> dict[str, Any]:
    """A report, with infinite numbers at its top level."""
    return {key: number(value) if isinstance(value, str) else value for key, value in json.loads(text).items()}
