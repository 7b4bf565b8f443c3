"""What all models share: a chain of states, and sequences of observations."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
from typing import Any, ClassVar, Literal, TypeVar, Union

import numpy as np
import scipy.sparse as sp

from .. import _warpkov
from .._errors import ConvergenceWarning, not_fitted
from .._host import host, real
from ._monitor import ConvergenceMonitor

Algorithm = Literal["viterbi", "map"]
By = Literal["baum-welch", "viterbi"]
Implementation = Literal["log", "scaling"]
Precision = Literal["f64", "f32", "tf32"]
RandomState = Union[int, np.random.RandomState, np.random.Generator, None]

Model = TypeVar("Model", bound="BaseHMM")

OnError = Literal["stop", "missing", "restart"]

_log = logging.getLogger("warpkov.hmm")
"""Where hmmlearn's warnings about `fit` go, under their texts."""

_NAMES = {"s": "startprob_", "t": "transmat_", "e": "emissionprob_", "m": "means_", "c": "covars_", "l": "lambdas_", "w": "weights_"}
"""The attributes that the letters of `init_params` stand for."""

_IMPOSSIBLE = 2**32 - 1
"""The state of each observation of an impossible sequence, and an unknown state."""


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
    restart_log_probs_: np.ndarray
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

    def _take(self, given: dict[str, Any]) -> None:
        """Set the parameters of a constructor, whose `locals()` are given."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

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

    def fit(
        self: Model,
        X: Any,
        lengths: Any = None,
        *,
        y: Any = None,
        sample_weight: Any = None,
        ties: Any = None,
        transition_ties: Any = None,
        restarts: int = 0,
        by: By = "baum-welch",
    ) -> Model:
        """Train the model by the Baum-Welch algorithm: expectation-maximisation.

        Training maximises ln P(O) + ln p(parameters) over the parameters that `params` names, where p is the prior. It
        finds a local maximum: the best of several starts is more likely the global one. A probability that is 0 stays 0.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The observations of all sequences, one behind the other. NaN in vectors is a missing number: see
            `GaussianHMM`.
        lengths : array of int, optional
            The lengths of the sequences. By default there is one.
        y : array of int, shape (n_samples,), optional
            The states of the observations, -1 where one is unknown. A known state restricts the paths to it. If all are
            known, training counts them: one iteration finds the maximum.
        sample_weight : array of shape (n_sequences,), optional
            The weights w of the sequences, at least 0: ln P(O) is the sum of w ln P(O) over all sequences. By default 1.
        ties : array of int, shape (n_components,), optional
            The class of each state: the states of one class share their emissions, which start at their mean.
        transition_ties : array of int, shape (n_components, n_components), optional
            The class of each transition, negative for one on its own: the transitions of one class share their
            probability, which starts at their mean. Rows with a common class have the same classes, each as often.
        restarts : int
            Number of further starts, all trained in one batch: the parameters of `init_params`, or of `params` if it
            names none, are drawn anew for each. The model becomes the best one, `monitor_` has its course, and
            `restart_log_probs_` has ln P(O) of all, that of the first start first. Each ends by `tol` and `n_iter`; the
            rule of a subclass of `ConvergenceMonitor` is not asked.
        by : {"baum-welch", "viterbi"}
            "viterbi" counts the most probable path of each sequence alone (segmental k-means). ln P(O, path) takes the
            place of ln P(O), also in `monitor_`.

        Returns
        -------
        self
            The trained model.

        Raises
        ------
        ValueError
            An argument or a parameter of the constructor is wrong, or a sequence is impossible under the start.

        Warns
        -----
        warpkov.ConvergenceWarning
            Training has not converged within `n_iter` iterations.

        Notes
        -----
        The logger "warpkov.hmm" warns, with hmmlearn's texts, of an attribute that initialisation overwrites because
        `init_params` has its letter, and of fewer data points than free parameters.
        """
        for name in ("params", "init_params"):
            unknown = set(getattr(self, name)) - set(self._letters)
            if unknown:
                raise ValueError(f"{name} has '{''.join(sorted(unknown))}', expected letters of '{self._letters}'")
        if self.n_iter < 0:
            raise ValueError(f"n_iter is {self.n_iter}, expected an integer of at least 0")
        if self.implementation not in ("log", "scaling"):
            raise ValueError(f"implementation is '{self.implementation}', expected 'log' or 'scaling'")
        if by not in ("baum-welch", "viterbi"):
            raise ValueError(f"by is '{by}', expected 'baum-welch' or 'viterbi'")
        if not isinstance(restarts, (int, np.integer)) or restarts < 0:
            raise ValueError(f"restarts is {restarts}, expected an integer of at least 0")
        self.__dict__.pop("_learnt", None)
        sequences, array = self._sequences(X, lengths)
        random = _generator(self.random_state)
        self._start(array, random)
        starts = [self._starting(), *self._restarts(array, restarts, random)]
        self.n_features_in_ = array.shape[1]
        if type(self.monitor_) is ConvergenceMonitor:
            self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)
        self.monitor_._begin()
        known = {"states": self._known(y, len(array)), "weights": None, "ties": None, "tied_transitions": None}
        if ties is not None:
            classes = host(ties)
            if classes.shape != (self.n_components,) or classes.dtype.kind not in "iu":
                raise ValueError(f"ties has shape {classes.shape}, expected the number of a class for each state")
            known["ties"] = np.unique(classes, return_inverse=True)[1].astype(np.uint32).ravel()
        if transition_ties is not None:
            classes, n = host(transition_ties), self.n_components
            if classes.shape != (n, n) or classes.dtype.kind not in "iu":
                raise ValueError(
                    f"transition_ties has shape {classes.shape}, expected the number of a class for each transition"
                )
            if "t" not in self.params:
                raise ValueError("transition_ties is for training the transitions, which params leaves out")
            numbers = np.unique(np.append(classes, -1), return_inverse=True)[1][:-1]
            known["tied_transitions"] = np.where(classes.ravel() < 0, 0, numbers.ravel()).astype(np.uint32)
        if sample_weight is not None:
            count = len(sequences["offsets"]) - 1
            known["weights"] = shaped(sample_weight, (count,), "sample_weight")
        observe = None if restarts else self.monitor_._observe
        training: dict[str, Any] = {"by": by, "iterations": self.n_iter, "tolerance": float(self.tol)}
        training |= {"observe": observe, **known, **self._objective()}
        found, status, course, logs = self._train(starts, sequences, training)
        self._update({name: np.asarray(numbers) for name, numbers in found.items()})
        self.restart_log_probs_ = np.asarray(logs)
        if restarts:
            for log_prob, objective in zip(*(np.asarray(numbers).tolist() for numbers in course)):
                self.monitor_._observe(log_prob, objective)
        if status != "converged":
            why = {"iterations": f"after {self.n_iter} iterations", "fell": "because of rounding errors"}[status]
            warnings.warn(f"training has stopped {why}", ConvergenceWarning, stacklevel=2)
        return self

    def partial_fit(self: Model, X: Any, y: Any = None, *, lengths: Any = None) -> Model:
        """Learn from a batch of sequences, by stochastic EM: for data that does not fit in memory, or that arrives over time.

        The mean expected counts of an observation are averaged with those of the batches before, with steps
        (k + 1) ** -0.7 in batch k, from 0. The first call initialises the parameters as `fit` does; `fit` begins anew. For
        symbols and vectors. `n_iter` and `tol` have no effect; `monitor_.history` has ln P of each batch under the
        parameters before it.

        Parameters
        ----------
        X, lengths
            As for `fit`, at least one whole sequence.
        y
            Not used; scikit-learn passes it.
        """
        learnt: Any = self.__dict__.get("_learnt")
        if learnt is not None:
            _, sequences = self._observed(X, lengths)
        else:
            sequences, array = self._sequences(X, lengths)
            self._start(array, _generator(self.random_state))
            none = dict.fromkeys(("states", "weights", "ties", "tied_transitions", "observe"))
            training = {"by": "baum-welch", "iterations": 0, "tolerance": 0.0, **none, **self._objective()}
            learnt = _warpkov.HmmStochastic(self._starting(), training, self._place())
            self.n_features_in_ = array.shape[1]
            self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)
            self.monitor_._begin()
        log_prob, found = learnt.learn(sequences, self._place())
        self._learnt = learnt
        self._update({name: np.asarray(numbers) for name, numbers in found.items()})
        self.monitor_.history.append(log_prob)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_learnt"}

    def filter(
        self, X: Any, lengths: Any = None, on_error: OnError = "stop", *, lag: int = 0, ahead: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what is known after each observation, from it and those before it.

        `Filter` takes the observations of a stream one at a time.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        on_error : {"stop", "missing", "restart"}
            What to do about an observation that the model cannot emit, or that is none: an infinite number, or a symbol
            that the model lacks. "stop" raises ValueError, "missing" takes it as missing, and "restart" begins another
            sequence, with the observation if that is possible.
        lag : int
            Fixed-lag smoothing: each row also knows the next `lag` observations of its sequence.
        ahead : int
            Prediction: row t is about the state `ahead` steps behind observation t.

        Returns
        -------
        probs : ndarray, shape (n_samples, n_components)
            The probability of each state: P(q_t = i | o_1 ... o_s) with s = min(t + lag, T), or
            P(q_{t+ahead} = i | o_1 ... o_t).
        log_probs : ndarray, shape (n_samples,)
            ln P(o_1 ... o_t) of the observations of the sequence so far.

        Examples
        --------
        >>> import numpy as np
        >>> from warpkov.hmm import GaussianHMM
        >>> model = GaussianHMM(2)
        >>> model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]
        >>> model.means_, model.covars_ = [[0.0], [9.0]], [[1.0], [1.0]]
        >>> model.filter([[9.0], [np.nan], [np.inf]], on_error="missing")[0].round(2)
        array([[0.  , 1.  ],
               [0.1 , 0.9 ],
               [0.18, 0.82]])
        """
        if on_error not in ("stop", "missing", "restart"):
            raise ValueError(f"on_error is '{on_error}', expected 'stop', 'missing' or 'restart'")
        lag, ahead = counted(lag, "lag"), counted(ahead, "ahead")
        if lag and ahead:
            raise ValueError(f"lag is {lag} and ahead is {ahead}, expected one of them to be 0")
        parts, sequences = self._observed(X, lengths, checked=False)
        probs, logs = _warpkov.hmm_filter(parts, sequences, on_error, lag, ahead)
        return np.asarray(probs).reshape(-1, self.n_components), np.asarray(logs)

    def score(self, X: Any, lengths: Any = None) -> float:
        """Return ln P(O), the sum over all sequences."""
        parts, sequences = self._observed(X, lengths)
        return float(np.asarray(_warpkov.hmm_scores(parts, sequences, self._place())).sum())

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
        parts, sequences = self._observed(X, lengths)
        posteriors = np.asarray(_warpkov.hmm_posteriors(parts, sequences, self._place()))
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
        parts, sequences = self._observed(X, lengths)
        found, scores = _warpkov.hmm_decode(parts, sequences, self._place())
        return float(np.asarray(scores).sum()), _paths(found, 1)[0]

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Return the states that `decode` finds."""
        return self.decode(X, lengths)[1]

    def decode_best(self, X: Any, lengths: Any = None, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Find the k most probable paths of each sequence: the list Viterbi algorithm.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        k : int
            The number of paths. The longest sequence takes 8 bytes for each observation, state and path.

        Returns
        -------
        log_probs : ndarray, shape (k, n_sequences)
            ln P(O, path), descending; -inf if there are fewer paths of positive probability.
        paths : ndarray of int64, shape (k, n_samples)
            The states of the paths; -1 if there are fewer. Of equal probabilities, the path with the lowest last state comes
            first, then the one with the lowest state before it, and so on. The first path is that of `decode`.

        Raises
        ------
        MemoryError
            The paths of a sequence take more than 8 GiB, or than there is.
        """
        k = counted(k, "k", 1, 2**32 - 1)
        parts, sequences = self._observed(X, lengths)
        found, scores = _warpkov.hmm_best(parts, sequences, k)
        return np.asarray(scores).reshape(k, -1), _paths(found, k)

    def sample_paths(self, X: Any, lengths: Any = None, n: int = 1, seed: int = 42) -> np.ndarray:
        """Draw paths from their distribution given the observations, P(path | O).

        Parameters
        ----------
        X, lengths
            As for `fit`.
        n : int
            The number of paths of each sequence.
        seed : int
            Seed of the random numbers. Path i of sequence j depends on the seed, i and j alone.

        Returns
        -------
        ndarray of int64, shape (n, n_samples)
            The states; -1 for all observations of an impossible sequence.
        """
        n, seed = counted(n, "n", 1, 2**32 - 1), counted(seed, "seed", 0, 2**64 - 1)
        parts, sequences = self._observed(X, lengths)
        return _paths(_warpkov.hmm_sample_paths(parts, sequences, n, seed)[0], n)

    def occupancy(self, X: Any, lengths: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return how long, and how often, each sequence is expected to be in each state.

        Returns
        -------
        time : ndarray, shape (n_sequences, n_components)
            The expected number of observations in each state: the sum of their posterior probabilities. Rows sum to
            the lengths, or to 0 for an impossible sequence.
        visits : ndarray, shape (n_sequences, n_components)
            The expected number of visits: runs of observations in the state.
        """
        parts, sequences = self._observed(X, lengths)
        time, visits = _warpkov.hmm_occupancy(parts, sequences)
        return np.asarray(time).reshape(-1, self.n_components), np.asarray(visits).reshape(-1, self.n_components)

    def gradient(self, X: Any, lengths: Any = None) -> list[dict[str, Any]]:
        """Return the derivatives of ln P(O) with respect to all parameters, which count as free numbers.

        Returns
        -------
        list of dict
            "name" of the parameter: "startprob", "transmat", and those of the emissions as in the JSON of models; "channel",
            the index of its channel, or None; "logarithmic", whether the derivative is one with respect to the logarithms,
            as that of each distribution is; and "derivative", an array with a row for each state, or a number. The covariances
            of all types are "diag" or "full", one for each state.
        """
        parts, sequences = self._observed(X, lengths)
        start, transitions, emissions = _warpkov.hmm_gradient(parts, sequences, self._place())
        n = self.n_components
        found = [(None, "startprob", True, start), (None, "transmat", True, transitions), *emissions]
        rows = [(channel, name, log, np.asarray(numbers).reshape(n, -1)) for channel, name, log, numbers in found]
        return [
            {"name": name, "channel": channel, "logarithmic": log, "derivative": row[:, 0] if row.shape[1] == 1 else row}
            for channel, name, log, row in rows
        ]

    def score_windows(self, X: Any, window: int, step: int = 1, lengths: Any = None) -> np.ndarray:
        """Return ln P of each window of `window` observations, as a sequence of its own that starts with `startprob_`.

        Parameters
        ----------
        X, lengths
            As for `fit`.
        window : int
            The length of the windows.
        step : int
            Observations from the begin of a window to that of the next one. The work is that of window / step times
            the observations.

        Returns
        -------
        ndarray
            Of the windows of the first sequence, then of the second one, and so on; none of sequences that are shorter
            than a window. Of one sequence, number i is about ``X[i * step : i * step + window]``.
        """
        window, step = counted(window, "window", 1, 2**32 - 1), counted(step, "step", 1, 2**32 - 1)
        parts, sequences = self._observed(X, lengths)
        return np.asarray(_warpkov.hmm_windows(parts, sequences, self._place(), window, step))

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
            "redraw": None,
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
        none = {"symbols": None, "means": None, "variances": None, "covariances": None, "channels": None}
        return {"start": start, "transitions": transitions, **none}

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        if not isinstance(self.n_components, (int, np.integer)) or self.n_components < 1:
            raise ValueError(f"n_components is {self.n_components}, expected an integer of at least 1")
        n = self.n_components
        if self._needs_init("s", "startprob_"):
            self.startprob_ = random.dirichlet(np.ones(n))
        if self._needs_init("t", "transmat_"):
            self.transmat_ = random.dirichlet(np.ones(n), size=n)

    def _starting(self) -> dict[str, Any]:
        """What training starts from, for the library."""
        return self._parts()

    def _train(self, starts: Any, sequences: Any, training: Any) -> Any:
        return _warpkov.hmm_train(starts, sequences, self._place(), training)

    def _restarts(self, X: np.ndarray, count: int, random: np.random.Generator) -> list[dict[str, Any]]:
        """Further starts."""
        other = copy.copy(self)
        other.init_params = self.init_params or self.params
        starts = []
        for _ in range(count):
            other._initialise(X, random)
            starts.append(other._starting())
        return starts

    def _start(self, X: np.ndarray, random: np.random.Generator) -> None:
        """Initialises the parameters, and warns of what hmmlearn warns of."""
        for letter in self._letters:
            name = _NAMES[letter]
            if letter in self.init_params and hasattr(self, name):
                _log.warning(
                    "Even though the %r attribute is set, it will be overwritten during initialization because "
                    "'init_params' contains %r",
                    name,
                    letter,
                )
        self._initialise(X, random)
        scalars = self._scalars(X)
        free = sum(scalars[letter] for letter in self.params)
        if X.size < free:
            _log.warning(
                "Fitting a model with %d free scalar parameters with only %d data points will result in a degenerate "
                "solution.",
                free,
                X.size,
            )

    def _init(self, X: Any, lengths: Any = None) -> None:
        """Initialise the parameters as `fit` does, under hmmlearn's name. `lengths` has no effect."""
        self._start(self._sequences(X, None)[1], _generator(self.random_state))

    def _check(self) -> None:
        """Raise ValueError unless the parameters are those of a model; hmmlearn's name."""
        _warpkov.hmm_check(self._parts())

    def _needs_init(self, letter: str, name: str) -> bool:
        return letter in self.init_params or not hasattr(self, name)

    def _scalars(self, X: np.ndarray) -> dict[str, int]:
        """The number of free parameters that each letter of `params` stands for."""
        n = self.n_components
        return {"s": n - 1, "t": n * (n - 1)}

    def _update(self, found: dict[str, np.ndarray]) -> None:
        self.startprob_ = found["start"]
        self.transmat_ = found["transitions"].reshape(self.n_components, -1)

    def _observed(self, X: Any, lengths: Any, checked: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
        """The parameters, and the sequences."""
        parts = self._parts()
        sequences, array = self._sequences(X, lengths, checked)
        expected = self._features()
        if array.shape[1] != expected:
            name = type(self).__name__
            raise ValueError(f"X has {array.shape[1]} features, but {name} is expecting {expected} features as input")
        return parts, sequences

    def _known(self, y: Any, samples: int) -> np.ndarray | None:
        """The known states as the library has them."""
        if y is None:
            return None
        y = host(y)
        if y.shape != (samples,) or y.dtype.kind not in "iu":
            raise ValueError(f"y has shape {y.shape} and type {y.dtype}, expected {samples} states, or -1 for unknown ones")
        wrong = np.flatnonzero((y < -1) | (y >= self.n_components))
        if wrong.size:
            at = int(wrong[0])
            raise ValueError(f"y[{at}] is {y[at]}, expected a state below {self.n_components}, or -1 if it is unknown")
        return np.where(y < 0, _IMPOSSIBLE, y).astype(np.uint32)

    def _features(self) -> int:
        raise NotImplementedError

    def _parts(self) -> dict[str, Any]:
        raise NotImplementedError

    def _sequences(self, X: Any, lengths: Any, checked: bool = True) -> tuple[dict[str, Any], np.ndarray]:
        """Sequences for the library, and X. Unless `checked`, observations may be wrong that `filter` treats."""
        raise NotImplementedError

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _mixture(self, probs: np.ndarray) -> Any:
        """The distribution of an observation, given those of the states."""
        raise NotImplementedError


def offsets_of(lengths: Any, samples: int) -> np.ndarray:
    """The first observation of each sequence, and the number of all."""
    if lengths is None:
        return np.array([0, samples], dtype=np.uint64)
    lengths = host(lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any():
        raise ValueError("lengths has elements that are no integers of at least 1")
    if int(lengths.sum()) != samples:
        raise ValueError(f"lengths sums to {int(lengths.sum())}, expected the number of observations, {samples}")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)


def counted(number: Any, name: str, least: int = 0, most: int = 999_999) -> int:
    """An integer in a range."""
    if not isinstance(number, (int, np.integer)) or not least <= number <= most:
        raise ValueError(f"{name} is {number}, expected an integer from {least} to {most}")
    return int(number)


def _paths(states: Any, count: int) -> np.ndarray:
    """Paths of all sequences as rows, -1 where there are none."""
    paths: np.ndarray = np.asarray(states).astype(np.int64).reshape(count, -1)
    paths[paths == _IMPOSSIBLE] = -1
    return paths


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
    found: np.ndarray = np.ascontiguousarray(real(array, name))
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}, expected {shape}")
    return found.ravel()


def broadcast(array: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """An array broadcast to this shape, as adjacent numbers."""
    found = real(array, name)
    try:
        return np.ascontiguousarray(np.broadcast_to(found, shape))
    except ValueError:
        raise ValueError(f"{name} has shape {found.shape}, which NumPy cannot broadcast to {shape}") from None


def pseudocounts(prior: Any, shape: tuple[int, ...], name: str) -> float | np.ndarray:
    """The pseudocounts of a Dirichlet prior: one for all parameters, or one for each."""
    array = real(prior, name)
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
