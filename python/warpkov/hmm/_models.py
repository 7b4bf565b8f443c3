"""Models as estimators."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, Union

import numpy as np

from .. import _warpkov
from .._errors import ConvergenceWarning
from .._host import host

Algorithm = Literal["viterbi", "map"]
Precision = Literal["f64", "f32", "tf32"]
RandomState = Union[int, np.random.RandomState, np.random.Generator, None]

Self = TypeVar("Self", bound="_Model")


@dataclass
class ConvergenceMonitor:
    """The course of a training.

    Attributes
    ----------
    tol : float
        Training ends when the log-likelihood rises by less.
    n_iter : int
        Maximum number of iterations.
    history : list of float
        ln P(O) of all sequences before the first iteration and after each one.
    converged : bool
        Whether training has ended because of `tol`.
    """

    tol: float
    n_iter: int
    history: list[float] = field(default_factory=list)
    converged: bool = False

    @property
    def iter(self) -> int:
        """Number of iterations."""
        return max(len(self.history) - 1, 0)


class _Model:
    """What all models share: a chain of states, and sequences of observations."""

    _letters: ClassVar[str]

    n_components: int
    startprob_prior: float
    transmat_prior: float
    algorithm: Algorithm
    random_state: RandomState
    n_iter: int
    tol: float
    init_params: str
    device: str
    precision: Precision

    startprob_: np.ndarray
    transmat_: np.ndarray
    monitor_: ConvergenceMonitor

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: Self, **params: Any) -> Self:
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

    def fit(self: Self, X: Any, lengths: Any = None) -> Self:
        """Train the model by the Baum-Welch algorithm.

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

        Warns
        -----
        warpkov.ConvergenceWarning
            Training has not converged within `n_iter` iterations.
        """
        unknown = set(self.init_params) - set(self._letters)
        if unknown:
            raise ValueError(f"init_params has '{''.join(sorted(unknown))}', expected letters of '{self._letters}'")
        sequences, array = self._sequences(X, lengths)
        self._initialise(array, _generator(self.random_state))
        training = {"iterations": self.n_iter, "tolerance": float(self.tol), **self._pseudocounts()}
        found, history, status = _warpkov.hmm_train(self._parts(), sequences, self._place(), training)
        self._update({name: np.asarray(numbers) for name, numbers in found.items()})
        self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, history, status == "converged")
        if status != "converged":
            why = {"iterations": f"after {self.n_iter} iterations", "fell": "because of rounding errors"}[status]
            warnings.warn(f"training has stopped {why}", ConvergenceWarning, stacklevel=2)
        return self

    def score(self, X: Any, lengths: Any = None) -> float:
        """Return ln P(O), the sum over all sequences."""
        sequences, _ = self._sequences(X, lengths)
        return float(np.asarray(_warpkov.hmm_scores(self._parts(), sequences, self._place())).sum())

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, np.ndarray]:
        """Return ln P(O) and the probability of each state at each observation."""
        return self.score(X, lengths), self.predict_proba(X, lengths)

    def predict_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Return the probability of each state at each observation, of shape (n_samples, n_components)."""
        sequences, _ = self._sequences(X, lengths)
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
            return float(posteriors.max(axis=1).sum()), posteriors.argmax(axis=1)
        if algorithm != "viterbi":
            raise ValueError(f"algorithm is '{algorithm}', expected 'viterbi' or 'map'")
        sequences, _ = self._sequences(X, lengths)
        found, scores = _warpkov.hmm_decode(self._parts(), sequences, self._place())
        states = np.asarray(found).astype(np.int64)
        states[states == 2**32 - 1] = -1
        return float(np.asarray(scores).sum()), states

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Return the states that `decode` finds."""
        return self.decode(X, lengths)[1]

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw a sequence of observations, and its hidden states.

        Parameters
        ----------
        n_samples : int
            The length of the sequence.
        random_state : int, RandomState or Generator, optional
            The source of the seed. By default that of the model.

        Returns
        -------
        X : ndarray, shape (n_samples, n_features)
            The observations.
        states : ndarray of int64, shape (n_samples,)
            The states.
        """
        random = _generator(self.random_state if random_state is None else random_state)
        observations, states = _warpkov.hmm_sample(self._parts(), 1, n_samples, _seed(random))
        return self._observations(np.asarray(observations)), np.asarray(states).astype(np.int64)

    def _place(self) -> dict[str, Any]:
        return {"device": self.device, "precision": self.precision}

    def _pseudocounts(self) -> dict[str, float]:
        priors = {"start": self.startprob_prior, "transitions": self.transmat_prior, "emissions": 1.0}
        priors["emissions"] = getattr(self, "emissionprob_prior", 1.0)
        for name, prior in priors.items():
            if not prior >= 1.0:
                raise ValueError(f"the prior of {name} is {prior}, expected a number of at least 1")
        # The maximum of a posterior with a Dirichlet prior alpha adds alpha - 1 to the expected counts.
        return {name: prior - 1.0 for name, prior in priors.items()}

    def _chain(self) -> dict[str, Any]:
        if not hasattr(self, "startprob_") or not hasattr(self, "transmat_"):
            raise ValueError(
                f"this {type(self).__name__} has no parameters: call fit, or set startprob_, transmat_ ..."
            )
        n = self.n_components
        start, transitions = _shaped(self.startprob_, (n,), "startprob_"), _shaped(self.transmat_, (n, n), "transmat_")
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

    def _offsets(self, lengths: Any, samples: int) -> np.ndarray:
        if lengths is None:
            return np.array([0, samples], dtype=np.uint64)
        lengths = host(lengths)
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any():
            raise ValueError("lengths has elements that are no integers of at least 1")
        if int(lengths.sum()) != samples:
            raise ValueError(f"lengths sums to {int(lengths.sum())}, expected the number of observations, {samples}")
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)

    def _parts(self) -> dict[str, Any]:
        raise NotImplementedError

    def _sequences(self, X: Any, lengths: Any) -> tuple[dict[str, Any], np.ndarray]:
        raise NotImplementedError

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class CategoricalHMM(_Model):
    """A hidden Markov model that emits symbols, numbered from 0.

    Parameters
    ----------
    n_components : int
        Number of states.
    startprob_prior, transmat_prior, emissionprob_prior : float
        Parameters of symmetric Dirichlet priors, at least 1; 1 is none.
    n_features : int, optional
        Number of symbols. By default 1 plus the largest one that `fit` sees.
    algorithm : {"viterbi", "map"}
        The algorithm of `decode`.
    random_state : int, RandomState or Generator, optional
        The source of random numbers.
    n_iter : int
        Maximum number of iterations of training.
    tol : float
        Training ends when the log-likelihood rises by less.
    init_params : str
        The parameters that `fit` initialises at random: "s" for startprob_, "t" for transmat_, "e" for
        emissionprob_. It starts from the others as they are.
    device : str
        "auto", "cpu", "cuda:0", or "emulated": the GPU's kernels on the CPU, which is slow.
    precision : {"f64", "f32", "tf32"}
        Floating-point type of the recursions.

    Attributes
    ----------
    startprob_ : ndarray, shape (n_components,)
        Probability of each state at the start.
    transmat_ : ndarray, shape (n_components, n_components)
        Probability of each state after each state.
    emissionprob_ : ndarray, shape (n_components, n_features)
        Probability of each symbol in each state.
    monitor_ : ConvergenceMonitor
        The course of the training.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov.hmm import CategoricalHMM
    >>> model = CategoricalHMM(n_components=2)
    >>> model.startprob_ = np.array([0.5, 0.5])
    >>> model.transmat_ = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> model.emissionprob_ = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> X = [[0], [0], [1], [1]]
    >>> round(model.score(X), 4)
    -3.3052
    >>> model.predict(X)
    array([0, 0, 1, 1])
    """

    _letters = "ste"

    emissionprob_: np.ndarray

    def __init__(
        self,
        n_components: int = 1,
        *,
        startprob_prior: float = 1.0,
        transmat_prior: float = 1.0,
        emissionprob_prior: float = 1.0,
        n_features: int | None = None,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        init_params: str = "ste",
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self.n_components = n_components
        self.startprob_prior = startprob_prior
        self.transmat_prior = transmat_prior
        self.emissionprob_prior = emissionprob_prior
        self.n_features = n_features
        self.algorithm = algorithm
        self.random_state = random_state
        self.n_iter = n_iter
        self.tol = tol
        self.init_params = init_params
        self.device = device
        self.precision = precision

    def _parts(self) -> dict[str, Any]:
        parts = self._chain()
        if not hasattr(self, "emissionprob_"):
            raise ValueError("this CategoricalHMM has no emissionprob_: call fit, or set it")
        symbols = np.shape(self.emissionprob_)[-1]
        return {
            **parts,
            "symbols": (symbols, _shaped(self.emissionprob_, (self.n_components, symbols), "emissionprob_")),
        }

    def _sequences(self, X: Any, lengths: Any) -> tuple[dict[str, Any], np.ndarray]:
        X = host(X)
        if X.ndim == 2 and X.shape[1] == 1:
            X = X[:, 0]
        if X.ndim != 1 or X.size == 0 or X.dtype.kind not in "iu" or int(X.min()) < 0:
            raise ValueError(f"X has shape {X.shape} and type {X.dtype}, expected (n_samples, 1) symbols from 0")
        if int(X.max()) >= 2**32 - 1:
            raise ValueError(f"X has symbol {int(X.max())}, expected symbols below 2**32 - 1")
        symbols = np.ascontiguousarray(X, dtype=np.uint32)
        return {"offsets": self._offsets(lengths, X.size), "symbols": symbols, "vectors": None}, symbols

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        super()._initialise(X, random)
        if "e" in self.init_params or not hasattr(self, "emissionprob_"):
            symbols = int(X.max()) + 1 if self.n_features is None else self.n_features
            self.emissionprob_ = random.dirichlet(np.ones(symbols), size=self.n_components)

    def _update(self, found: dict[str, np.ndarray]) -> None:
        super()._update(found)
        self.emissionprob_ = found["emissions"].reshape(self.n_components, -1)

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        return flat.astype(np.int64).reshape(-1, 1)


class GaussianHMM(_Model):
    """A hidden Markov model that emits vectors with normal densities.

    Parameters
    ----------
    n_components : int
        Number of states.
    covariance_type : {"diag", "full"}
        The form of the covariance matrices.
    min_covar : float
        Added to the variances that training starts at. During training, variances keep above a tiny part of those of
        all observations.
    startprob_prior, transmat_prior : float
        Parameters of symmetric Dirichlet priors, at least 1; 1 is none.
    algorithm, random_state, n_iter, tol, device, precision
        As for `CategoricalHMM`.
    init_params : str
        The parameters that `fit` initialises: "s" for startprob_, "t" for transmat_, "m" for means_, "c" for covars_.
        It starts from the others as they are.

    Attributes
    ----------
    startprob_ : ndarray, shape (n_components,)
        Probability of each state at the start.
    transmat_ : ndarray, shape (n_components, n_components)
        Probability of each state after each state.
    means_ : ndarray, shape (n_components, n_features)
        Mean of each state.
    covars_ : ndarray, shape (n_components, n_features, n_features)
        Covariance matrix of each state. If "diag", variances of shape (n_components, n_features) may be assigned.
    monitor_ : ConvergenceMonitor
        The course of the training.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov.hmm import GaussianHMM
    >>> X = np.concatenate([np.linspace(-1, 1, 50), np.linspace(9, 11, 50)])[:, None]
    >>> model = GaussianHMM(n_components=2, random_state=0, n_iter=50).fit(X)
    >>> np.allclose(np.sort(model.means_.ravel()), [0, 10], atol=1e-6)
    True
    >>> model.monitor_.converged
    True
    """

    _letters = "stmc"

    means_: np.ndarray

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: Literal["diag", "full"] = "diag",
        *,
        min_covar: float = 1e-3,
        startprob_prior: float = 1.0,
        transmat_prior: float = 1.0,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        init_params: str = "stmc",
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.min_covar = min_covar
        self.startprob_prior = startprob_prior
        self.transmat_prior = transmat_prior
        self.algorithm = algorithm
        self.random_state = random_state
        self.n_iter = n_iter
        self.tol = tol
        self.init_params = init_params
        self.device = device
        self.precision = precision

    @property
    def covars_(self) -> np.ndarray:
        """Covariance matrix of each state."""
        covars: np.ndarray = self._covars_
        return np.stack([np.diag(row) for row in covars]) if covars.ndim == 2 else covars

    @covars_.setter
    def covars_(self, covars: Any) -> None:
        covars = np.asarray(covars, dtype=np.float64)
        if self.covariance_type == "diag" and covars.ndim == 3:
            if any(np.count_nonzero(matrix - np.diag(np.diag(matrix))) for matrix in covars):
                raise ValueError("covars_ has entries beside the diagonal, and covariance_type is 'diag'")
            covars = np.stack([np.diag(matrix) for matrix in covars])
        self._covars_ = covars

    def _parts(self) -> dict[str, Any]:
        parts, n = self._chain(), self.n_components
        if not hasattr(self, "means_") or not hasattr(self, "_covars_"):
            raise ValueError("this GaussianHMM has no means_ or covars_: call fit, or set them")
        d = np.shape(self.means_)[-1]
        name = self._covariances()
        shape = (n, d) if name == "variances" else (n, d, d)
        means = (d, _shaped(self.means_, (n, d), "means_"))
        return {**parts, "means": means, name: _shaped(self._covars_, shape, "covars_")}

    def _covariances(self) -> str:
        if self.covariance_type not in ("diag", "full"):
            raise ValueError(f"covariance_type is '{self.covariance_type}', expected 'diag' or 'full'")
        return "variances" if self.covariance_type == "diag" else "covariances"

    def _sequences(self, X: Any, lengths: Any) -> tuple[dict[str, Any], np.ndarray]:
        X = host(X)
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"X has shape {X.shape}, expected (n_samples, n_features)")
        X = np.ascontiguousarray(X, dtype=np.float64)
        if not np.isfinite(X).all():
            at, feature = (int(index) for index in np.argwhere(~np.isfinite(X))[0])
            raise ValueError(f"X[{at}, {feature}] is {X[at, feature]}, expected a finite number")
        return {"offsets": self._offsets(lengths, len(X)), "symbols": None, "vectors": (X.shape[1], X.ravel())}, X

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        super()._initialise(X, random)
        self._covariances()
        if "m" in self.init_params or not hasattr(self, "means_"):
            self.means_ = _centres(X, self.n_components, random)
        if "c" in self.init_params or not hasattr(self, "_covars_"):
            if self.covariance_type == "diag":
                one = X.var(axis=0) + self.min_covar
            else:
                one = np.atleast_2d(np.cov(X.T, bias=True)) + self.min_covar * np.eye(X.shape[1])
            self._covars_ = np.stack([one] * self.n_components)

    def _update(self, found: dict[str, np.ndarray]) -> None:
        super()._update(found)
        self.means_ = found["means"].reshape(self.n_components, -1)
        d = self.means_.shape[1]
        shape = (-1, d) if self.covariance_type == "diag" else (-1, d, d)
        self._covars_ = found["covariances"].reshape(shape)

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(-1, self.means_.shape[1])


def _shaped(array: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """The numbers of an array of this shape, row by row."""
    found: np.ndarray = np.ascontiguousarray(host(array), dtype=np.float64)
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}, expected {shape}")
    return found.ravel()


def _generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def _seed(random: np.random.Generator) -> int:
    return int(random.integers(2**63))


def _centres(X: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Centres of clusters: k-means++ (Arthur and Vassilvitskii 2007), and ten steps of Lloyd's algorithm."""
    spread = X.std(axis=0)
    scale: np.ndarray = np.where(spread > 0, spread, 1.0)
    Y = X / scale
    centres: np.ndarray = Y[random.integers(len(Y))][None]
    while len(centres) < count:
        distances = _distances(Y, centres).min(axis=1)
        total = distances.sum()
        weights = distances / total if total > 0 else None
        centres = np.concatenate([centres, Y[random.choice(len(Y), p=weights)][None]])
    for _ in range(10):
        nearest = _distances(Y, centres).argmin(axis=1)
        centres = np.stack(
            [Y[nearest == k].mean(axis=0) if (nearest == k).any() else centre for k, centre in enumerate(centres)]
        )
    centres *= scale
    return centres


def _distances(Y: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances of shape (len(Y), len(centres))."""
    distances: np.ndarray = np.stack([((Y - centre) ** 2).sum(axis=1) for centre in centres], axis=1)
    return distances
