"""What all models share: a chain of states, and sequences of observations."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, ClassVar, Literal, TypeVar, Union

import numpy as np
import scipy.sparse as sp

from .. import _warpkov
from .._errors import ConvergenceWarning, not_fitted
from .._host import host
from ._monitor import ConvergenceMonitor

Algorithm = Literal["viterbi", "map"]
Implementation = Literal["log", "scaling"]
Precision = Literal["f64", "f32", "tf32"]
RandomState = Union[int, np.random.RandomState, np.random.Generator, None]

Model = TypeVar("Model", bound="BaseHMM")

_IMPOSSIBLE = 2**32 - 1
"""The state of each observation of an impossible sequence."""


class BaseHMM:
    """A chain of states, and the methods that do not depend on the emissions."""

    _letters: ClassVar[str]
    """The letters of `params` and `init_params`: startprob_, transmat_, then emissionprob_, or means_ and covars_."""

    n_components: int
    startprob_prior: Any
    transmat_prior: Any
    algorithm: Algorithm
    random_state: RandomState
    n_iter: int
    tol: float
    verbose: bool
    params: str
    init_params: str
    implementation: Implementation
    device: str
    precision: Precision

    startprob_: np.ndarray
    transmat_: np.ndarray
    n_features_in_: int

    @property
    def monitor_(self) -> ConvergenceMonitor:
        """The course of the training. `fit` keeps an assigned monitor of a subclass."""
        if "_monitor" not in self.__dict__:
            self._monitor = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)
        return self._monitor

    @monitor_.setter
    def monitor_(self, monitor: ConvergenceMonitor) -> None:
        self._monitor = monitor

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: Model, **params: Any) -> Model:
        """Set parameters of the constructor, by name, and return the model."""
        known = inspect.signature(type(self)).parameters
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter '{name}', expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        default = inspect.signature(type(self)).parameters
        params = self.get_params().items()
        changed = (f"{name}={value!r}" for name, value in params if value is not default[name].default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "startprob_")

    def fit(self: Model, X: Any, lengths: Any = None) -> Model:
        """Train the model by the Baum-Welch algorithm: expectation-maximisation.

        Training maximises ln P(O) + ln p(parameters) over the parameters that `params` names, where p is the prior. It
        finds a local maximum: the best of several starts, each with its own `random_state`, is more likely the global
        one. A probability that is 0 stays 0.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The observations of all sequences, one behind the other.
        lengths : array of int, optional
            The lengths of the sequences. By default there is one.

        Returns
        -------
        self
            The trained model.

        Raises
        ------
        ValueError
            X, lengths or a parameter of the constructor is wrong, or a sequence is impossible under the start.

        Warns
        -----
        warpkov.ConvergenceWarning
            Training has not converged within `n_iter` iterations.
        """
        for name in ("params", "init_params"):
            unknown = set(getattr(self, name)) - set(self._letters)
            if unknown:
                raise ValueError(f"{name} has '{''.join(sorted(unknown))}', expected letters of '{self._letters}'")
        if self.n_iter < 0:
            raise ValueError(f"n_iter is {self.n_iter}, expected an integer of at least 0")
        if self.implementation not in ("log", "scaling"):
            raise ValueError(f"implementation is '{self.implementation}', expected 'log' or 'scaling'")
        sequences, array = self._sequences(X, lengths)
        self._initialise(array, _generator(self.random_state))
        self.n_features_in_ = array.shape[1]
        if type(self.monitor_) is ConvergenceMonitor:
            self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)
        self.monitor_._reset()
        training = {"iterations": self.n_iter, "observe": self.monitor_._observe, **self._objective()}
        found, status = _warpkov.hmm_train(self._parts(), sequences, self._place(), training)
        self._update({name: np.asarray(numbers) for name, numbers in found.items()})
        if status != "converged":
            why = {"iterations": f"after {self.n_iter} iterations", "fell": "because of rounding errors"}[status]
            warnings.warn(f"training has stopped {why}", ConvergenceWarning, stacklevel=2)
        return self

    def score(self, X: Any, lengths: Any = None) -> float:
        """Return ln P(O), the sum over all sequences."""
        sequences, _ = self._observed(X, lengths)
        return float(np.asarray(_warpkov.hmm_scores(self._parts(), sequences, self._place())).sum())

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, np.ndarray]:
        """Return ln P(O) and the probability of each state at each observation."""
        return self.score(X, lengths), self.predict_proba(X, lengths)

    def predict_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Return the probability of each state at each observation, P(q_t = i | O).

        Returns
        -------
        ndarray, shape (n_samples, n_components)
            Rows sum to 1; they are 0 for an impossible sequence.
        """
        sequences, _ = self._observed(X, lengths)
        posteriors = np.asarray(_warpkov.hmm_posteriors(self._parts(), sequences, self._place()))
        return posteriors.reshape(-1, self.n_components)

    def decode(self, X: Any, lengths: Any = None, algorithm: Algorithm | None = None) -> tuple[float, np.ndarray]:
        """Find hidden states.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        algorithm : {"viterbi", "map"}, optional
            The most probable path, or the most probable state of each observation. By default that of the model.

        Returns
        -------
        log_prob : float
            "viterbi": ln P(O, path), the sum over all sequences. "map": the sum of the probabilities of the states.
        states : ndarray of int64, shape (n_samples,)
            The states; -1 for all observations of an impossible sequence.
        """
        algorithm = algorithm or self.algorithm
        if algorithm == "map":
            posteriors = self.predict_proba(X, lengths)
            states = posteriors.argmax(axis=1)
            states[posteriors.max(axis=1) == 0.0] = -1
            return float(posteriors.max(axis=1).sum()), states
        if algorithm != "viterbi":
            raise ValueError(f"algorithm is '{algorithm}', expected 'viterbi' or 'map'")
        sequences, _ = self._observed(X, lengths)
        found, scores = _warpkov.hmm_decode(self._parts(), sequences, self._place())
        states = np.asarray(found).astype(np.int64)
        states[states == _IMPOSSIBLE] = -1
        return float(np.asarray(scores).sum()), states

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Return the states that `decode` finds."""
        return self.decode(X, lengths)[1]

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, currstate: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw a sequence of observations, and its hidden states.

        Parameters
        ----------
        n_samples : int
            The length of the sequence.
        random_state : int, RandomState or Generator, optional
            The source of the seed. By default that of the model.
        currstate : int, optional
            The state of the first observation. By default it is drawn from `startprob_`.

        Returns
        -------
        X : ndarray, shape (n_samples, n_features)
            The observations.
        states : ndarray of int64, shape (n_samples,)
            The states.
        """
        parts = self._parts()
        if currstate is not None:
            if not 0 <= currstate < self.n_components:
                raise ValueError(f"currstate is {currstate}, expected a state below {self.n_components}")
            parts["start"] = np.zeros(self.n_components)
            parts["start"][currstate] = 1.0
        random = _generator(self.random_state if random_state is None else random_state)
        observations, states = _warpkov.hmm_sample(parts, 1, n_samples, int(random.integers(2**63)))
        return self._observations(np.asarray(observations)), np.asarray(states).astype(np.int64)

    def get_stationary_distribution(self) -> np.ndarray:
        """Return the distribution that the chain keeps: x with x A = x, of shape (n_components,).

        If there are several, as in a chain with two absorbing states, it is the shortest vector of them.
        """
        n = self.n_components
        transitions = self._chain()["transitions"].reshape(n, n)
        equations = np.concatenate([transitions.T - np.eye(n), np.ones((1, n))])
        found: np.ndarray = np.linalg.lstsq(equations, np.append(np.zeros(n), 1.0), rcond=None)[0]
        found = found.clip(min=0.0)
        found /= found.sum()
        return found

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Return Akaike's information criterion, 2 k - 2 ln P(O).

        k is the number of parameters: all probabilities but one of each distribution, all means, and the entries of
        the covariances that determine the others. The model with the least value explains the data best.
        """
        return 2.0 * self._parameters() - 2.0 * self.score(X, lengths)

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Return the Bayesian information criterion, k ln n - 2 ln P(O) of n observations, with k as for `aic`."""
        score = self.score(X, lengths)
        return float(self._parameters() * np.log(len(X)) - 2.0 * score)

    def _place(self) -> dict[str, Any]:
        return {"device": self.device, "precision": self.precision}

    def _objective(self) -> dict[str, Any]:
        """The prior, and what training leaves as it is."""
        n = self.n_components
        return {
            "start": pseudocounts(self.startprob_prior, (n,), "startprob_prior"),
            "transitions": pseudocounts(self.transmat_prior, (n, n), "transmat_prior"),
            "emissions": 0.0,
            "normals": None,
            "constraint": "none",
            "frozen": [letter not in self.params for letter in self._letters] + [False] * (4 - len(self._letters)),
        }

    def _parameters(self) -> int:
        """The number of free parameters, as hmmlearn counts them."""
        n = self.n_components
        return n - 1 + n * (n - 1)

    def _needs(self, *names: str) -> None:
        for name in names:
            if not hasattr(self, name):
                shown = name.replace("_covars_", "covars_")
                raise not_fitted(f"this {type(self).__name__} has no {shown}: call fit, or set it")

    def _chain(self) -> dict[str, Any]:
        self._needs("startprob_", "transmat_")
        n = self.n_components
        start, transitions = shaped(self.startprob_, (n,), "startprob_"), shaped(self.transmat_, (n, n), "transmat_")
        none = {"symbols": None, "means": None, "variances": None, "covariances": None}
        return {"start": start, "transitions": transitions, **none}

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        if not isinstance(self.n_components, (int, np.integer)) or self.n_components < 1:
            raise ValueError(f"n_components is {self.n_components}, expected an integer of at least 1")
        n = self.n_components
        if "s" in self.init_params or not hasattr(self, "startprob_"):
            self.startprob_ = random.dirichlet(np.ones(n))
        if "t" in self.init_params or not hasattr(self, "transmat_"):
            self.transmat_ = random.dirichlet(np.ones(n), size=n)

    def _update(self, found: dict[str, np.ndarray]) -> None:
        self.startprob_ = found["start"]
        self.transmat_ = found["transitions"].reshape(self.n_components, -1)

    def _observed(self, X: Any, lengths: Any) -> tuple[dict[str, Any], np.ndarray]:
        """The sequences, for a model that has parameters."""
        self._parts()
        sequences, array = self._sequences(X, lengths)
        expected = self._features()
        if array.shape[1] != expected:
            name = type(self).__name__
            raise ValueError(f"X has {array.shape[1]} features, but {name} is expecting {expected} features as input")
        return sequences, array

    def _offsets(self, lengths: Any, samples: int) -> np.ndarray:
        if lengths is None:
            return np.array([0, samples], dtype=np.uint64)
        lengths = host(lengths)
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any():
            raise ValueError("lengths has elements that are no integers of at least 1")
        if int(lengths.sum()) != samples:
            raise ValueError(f"lengths sums to {int(lengths.sum())}, expected the number of observations, {samples}")
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)

    def _features(self) -> int:
        raise NotImplementedError

    def _parts(self) -> dict[str, Any]:
        raise NotImplementedError

    def _sequences(self, X: Any, lengths: Any) -> tuple[dict[str, Any], np.ndarray]:
        raise NotImplementedError

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def dense(X: Any) -> np.ndarray:
    """X as an array of NumPy that is not empty."""
    if sp.issparse(X):
        raise TypeError("X is a sparse matrix, expected a dense array: pass X.toarray()")
    array: np.ndarray = host(X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X has complex numbers")
    if array.ndim == 2 and array.shape[0] > 0 and array.shape[1] == 0:
        raise ValueError(f"X has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array


def shaped(array: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """The numbers of an array of this shape, row by row."""
    found: np.ndarray = np.ascontiguousarray(host(array), dtype=np.float64)
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}, expected {shape}")
    return found.ravel()


def broadcast(array: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """An array broadcast to this shape, as adjacent numbers."""
    found = np.asarray(host(array), dtype=np.float64)
    try:
        return np.ascontiguousarray(np.broadcast_to(found, shape))
    except ValueError:
        raise ValueError(f"{name} has shape {found.shape}, which NumPy cannot broadcast to {shape}") from None


def pseudocounts(prior: Any, shape: tuple[int, ...], name: str) -> float | np.ndarray:
    """The pseudocounts of a Dirichlet prior: one for all parameters, or one for each."""
    array = np.asarray(host(prior), dtype=np.float64)
    wrong = ~(array >= 1.0)
    if wrong.any():
        raise ValueError(
            f"{name} is {float(array[wrong].flat[0])}, expected numbers of at least 1: below 1, the density of a "
            "Dirichlet prior has no maximum"
        )
    # The maximum of a posterior with a Dirichlet prior alpha adds alpha - 1 to the expected counts.
    if array.ndim == 0:
        return float(array) - 1.0
    return broadcast(array, shape, name).ravel() - 1.0


def _generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
