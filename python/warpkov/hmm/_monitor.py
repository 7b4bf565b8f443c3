"""The course of a training."""

from __future__ import annotations

import sys


class ConvergenceMonitor:
    """The course of a training, and the rule that ends it.

    A subclass may have another rule: `fit` uses the monitor that is assigned to a model's `monitor_`.

    Parameters
    ----------
    tol : float
        Training ends when the objective rises by less.
    n_iter : int
        Maximum number of iterations.
    verbose : bool
        Whether each iteration is reported to the standard error: its number, ln P(O), and the increase of ln P(O).

    Attributes
    ----------
    iter : int
        Number of reports; `fit` counts from the model that it starts from, so that it is the number of iterations.
    history : list of float
        ln P(O) of all sequences before the first iteration and after each one. The last is that of the trained model.
    objectives : list of float
        `history` plus the logarithm of the prior up to a constant, which training maximises. It never falls by more
        than rounding errors.
    """

    _template = "{iter:>10d} {log_prob:>16.8f} {delta:>+16.8f}"

    def __init__(self, tol: float, n_iter: int, verbose: bool = False) -> None:
        self.tol = tol
        self.n_iter = n_iter
        self.verbose = verbose
        self._reset()

    def _reset(self) -> None:
        self.iter = 0
        self.history: list[float] = []
        self.objectives: list[float] = []

    def _begin(self) -> None:
        """Reset the monitor for `fit`, whose first report is about the model before any iteration."""
        self._reset()
        self.iter = -1

    @property
    def converged(self) -> bool:
        """Whether the last iteration has raised the objective by less than `tol`. Training then ends.

        Of reports without objectives, those of a program that trains by itself, ln P(O) is the objective, and `n_iter`
        of them end the training, too.
        """
        if not self.objectives and self.iter == self.n_iter:
            return True
        course = self.objectives or self.history
        if len(course) < 2:
            return False
        rise = course[-1] - course[-2]
        return rise < self.tol or rise <= 0.0

    def report(self, log_prob: float) -> None:
        """Append ln P(O) to the history, and print it if `verbose`."""
        if self.verbose:
            rise = log_prob - self.history[-1] if self.history else float("nan")
            print(self._template.format(iter=self.iter + 1, log_prob=log_prob, delta=rise), file=sys.stderr)
        self.history.append(log_prob)
        self.iter += 1

    def _observe(self, log_prob: float, objective: float) -> bool:
        """Take the results of an iteration. Return whether training ends."""
        self.objectives.append(objective)
        self.report(log_prob)
        return bool(self.converged)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(tol={self.tol}, n_iter={self.n_iter}, iter={self.iter}, "
            f"converged={self.converged}, history={self.history})"
        )
