"""Models that emit rows of counts, bits, durations and numbers, by channels of columns."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np

from .._host import real
from ._base import Algorithm, BaseHMM, Implementation, Precision, RandomState, dense, offsets_of

_KEYS = ("family", "columns", "inputs", "lags", "trials", "parts", "symbols")
"""What a channel says beside its parameters."""


class ChannelHMM(BaseHMM):
    """A hidden Markov model whose rows of observations have independent channels.

    ln b_j(x) is the sum over the channels of the logarithm of their probability or density of some columns of x. The
    EM algorithm maximises ln P(O) + sum (a - 1) ln p, with Dirichlet parameters a of `startprob_` and `transmat_`.

    Parameters
    ----------
    n_components : int
        Number of states.
    channels : list of dict
        The channels, as in the JSON of models: "family", "columns" (numbers of columns), and for regressions "inputs"
        and "lags", for multinomial distributions "trials". "symbols" is the number of symbols of a categorical channel,
        "parts" that of the parts of a mixture, by default 2. A channel may have its parameters, from which training
        starts; `init_params` without "e" keeps them. The families are "categorical", "bernoulli", "poisson",
        "multinomial", "exponential", "gamma", "gaussian", "student-t", "mixture", "regression" and "logistic".
    startprob_prior : float or array of shape (n_components,)
        Parameters a of the Dirichlet prior of `startprob_`, at least 1; 1 is none.
    transmat_prior : float or array of shape (n_components, n_components)
        Those of the rows of `transmat_`.
    algorithm, random_state, n_iter, tol, verbose, implementation, device, precision
        As for `CategoricalHMM`.
    params : str
        The parameters that `fit` trains: "s" for startprob_, "t" for transmat_, "e" for channels_.
    init_params : str
        The parameters that `fit` initialises, with the same letters. Those of channels are estimates from a few random
        observations for each state.

    X may have missing numbers, NaN. A channel whose columns are all missing has probability 1.

    Attributes
    ----------
    startprob_ : ndarray, shape (n_components,)
        Probability of each state at the start.
    transmat_ : ndarray, shape (n_components, n_components)
        Probability of each state after each state.
    channels_ : list of dict
        The channels with their parameters: arrays whose first index is the state.
    monitor_ : ConvergenceMonitor
        The course of the training.
    n_features, n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov.hmm import ChannelHMM
    >>> rng = np.random.default_rng(0)
    >>> calm = np.column_stack([rng.poisson(1, 200), rng.random(200) < 0.1])
    >>> busy = np.column_stack([rng.poisson(9, 200), rng.random(200) < 0.8])
    >>> channels = [{"family": "poisson", "columns": [0]}, {"family": "bernoulli", "columns": [1]}]
    >>> model = ChannelHMM(2, channels, random_state=1, n_iter=50).fit(np.concatenate([calm, busy]))
    >>> np.sort(model.channels_[0]["rates"].ravel()).round(1)
    array([1.2, 8.5])
    """

    _letters = "ste"

    channels: Any

    channels_: list[dict[str, Any]]

    def __init__(
        self,
        n_components: int = 1,
        channels: Any = None,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: Implementation = "log",
        *,
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self._take(locals())

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self._features()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _features(self) -> int:
        self._needs("channels_")
        columns = [column for one in self.channels_ for key in ("columns", "inputs") for column in one.get(key, [])]
        return 1 + max((int(column) for column in columns), default=-1)

    def _parts(self) -> dict[str, Any]:
        self._needs("startprob_", "transmat_", "channels_")
        channels = [{key: _plain(value) for key, value in one.items()} for one in self.channels_]
        return {**self._chain(), "channels": json.dumps(channels)}

    def _sequences(self, X: Any, lengths: Any, checked: bool = True) -> tuple[dict[str, Any], np.ndarray]:
        given, X = X, dense(X)
        if X.ndim != 2 or X.shape[0] == 0:
            raise ValueError(f"X has shape {X.shape}, expected a 2D array of shape (n_samples, n_features)")
        X = np.ascontiguousarray(real(given if isinstance(given, np.ma.MaskedArray) else X, "X"))
        if checked and np.isinf(X).any():
            at, column = (int(index) for index in np.argwhere(np.isinf(X))[0])
            found = f"X[{at}, {column}] is {X[at, column]}"
            raise ValueError(f"{found}, expected a finite number, or NaN where it is missing")
        return {"offsets": offsets_of(lengths, len(X)), "symbols": None, "vectors": (X.shape[1], X.ravel())}, X

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        super()._initialise(X, random)
        self._redraw = None
        letter = self._letters[2]
        if self._needs_init(letter, "channels_"):
            self.channels_ = [_started(one, self.n_components, X) for one in self._given(X)]
            if letter in self.init_params:
                self._redraw = int(random.integers(2**63))

    def _given(self, X: np.ndarray) -> list[dict[str, Any]]:
        """The channels of the constructor."""
        if not isinstance(self.channels, (list, tuple)) or not self.channels:
            raise ValueError("channels is empty, expected a list of dicts with family and columns")
        for one in self.channels:
            if not isinstance(one, dict) or "family" not in one or "columns" not in one:
                raise ValueError(f"channels has {one!r}, expected a dict with family and columns")
        return list(self.channels)

    def _scalars(self, X: np.ndarray) -> dict[str, int]:
        return {**super()._scalars(X), self._letters[2]: self._entries()}

    def _entries(self) -> int:
        """The number of free parameters of the channels."""
        free = 0
        for one in self.channels_:
            for name, numbers in one.items():
                if name in _KEYS:
                    continue
                shape = np.shape(numbers)
                if name == "weights" or name == "probs" and one["family"] != "bernoulli":
                    free += int(np.prod(shape[:-1])) * (shape[-1] - 1)
                elif name == "covariances" and len(shape) == 3:
                    free += shape[0] * shape[1] * (shape[1] + 1) // 2
                else:
                    free += int(np.prod(shape))
        return free

    def _parameters(self) -> int:
        return super()._parameters() + self._entries()

    def _objective(self) -> dict[str, Any]:
        redraw = self.__dict__.pop("_redraw", None)
        return {**super()._objective(), "redraw": redraw}

    def _update(self, found: dict[str, np.ndarray]) -> None:
        super()._update(found)
        channels = json.loads(str(found["channels"]))["channels"]
        self.channels_ = [
            {key: value if key in _KEYS else np.array(value, float) for key, value in one.items()} for one in channels
        ]

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(-1, self._features())


def _plain(value: Any) -> Any:
    """A value of JSON."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _started(channel: dict[str, Any], n: int, X: np.ndarray) -> dict[str, Any]:
    """The channel with parameters, which are equal in all states unless it has them."""
    columns = [int(column) for column in channel["columns"]]
    if not columns or min(columns) < 0 or max(columns) >= X.shape[1]:
        raise ValueError(f"channels has the columns {columns}, expected some below {X.shape[1]}")
    family, c = channel["family"], len(columns)
    Y = X[:, columns]
    seen = [column[~np.isnan(column)] for column in Y.T]
    mean = np.array([column.mean() if column.size else 0.0 for column in seen])
    variance = np.array([column.var() if column.size else 0.0 for column in seen])
    variance = np.where(variance > 0, variance, 1.0)
    inputs, lags = list(channel.get("inputs", [])), int(channel.get("lags", 0))
    positive = np.where(mean > 0, mean, 1.0)
    parts = int(channel.get("parts", 2))
    symbols = int(channel.get("symbols", np.max(seen[0], initial=0) + 1)) if family == "categorical" else 1
    intercepts = np.zeros(c) if family == "logistic" else mean
    linear = {"coefficients": np.zeros((c, len(inputs) + lags * c)), "intercepts": intercepts}
    start: dict[str, dict[str, Any]] = {
        "categorical": {"probs": np.full(symbols, 1 / symbols)},
        "bernoulli": {"probs": np.full(c, 0.5)},
        "poisson": {"rates": positive},
        "multinomial": {"probs": np.full(c, 1 / c)},
        "exponential": {"rates": 1 / positive},
        "gamma": {"shapes": positive**2 / variance, "rates": positive / variance},
        "gaussian": {"means": mean, "covariances": variance},
        "student-t": {"degrees": np.full(c, 5.0), "locations": mean, "scales": np.sqrt(variance)},
        "mixture": {
            "weights": np.full(parts, 1 / parts),
            "means": np.tile(mean, (parts, 1)),
            "variances": np.tile(variance, (parts, 1)),
        },
        "regression": {**linear, "variances": variance},
        "logistic": linear,
    }
    if family not in start:
        raise ValueError(f"channels has the family {family!r}, expected one of {', '.join(start)}")
    found = {key: value for key, value in channel.items() if key not in ("parts", "symbols")}
    found["columns"] = columns
    for name, of_state in start[family].items():
        if name not in found and np.size(of_state):
            found[name] = np.tile(of_state, (n,) + (1,) * np.ndim(of_state))
    return found


def _of_one(model: ChannelHMM, name: str) -> np.ndarray:
    """A parameter of the only channel."""
    if not hasattr(model, "channels_"):
        raise AttributeError(f"this {type(model).__name__} has no parameters: call fit, or set them")
    numbers: np.ndarray = np.asarray(model.channels_[0][name])
    return numbers


class PoissonHMM(ChannelHMM):
    """A hidden Markov model that emits independent counts, under hmmlearn's names: `ChannelHMM` with one channel.

    Parameters
    ----------
    n_components : int
        Number of states.
    startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol, verbose, implementation, device, precision
        As for `ChannelHMM`.
    params, init_params : str
        As for `ChannelHMM`, with "l" for lambdas_.

    Attributes
    ----------
    lambdas_ : ndarray, shape (n_components, n_features)
        Mean count of each state and feature.
    startprob_, transmat_, channels_, monitor_, n_features, n_features_in_
        As for `ChannelHMM`.

    Notes
    -----
    Unlike hmmlearn's, the rates have no prior.

    Examples
    --------
    >>> from warpkov.hmm import PoissonHMM
    >>> model = PoissonHMM(2)
    >>> model.startprob_, model.transmat_, model.lambdas_ = [1, 0], [[0.9, 0.1], [0.2, 0.8]], [[2.0], [9.0]]
    >>> model.predict([[1], [2], [12], [8]])
    array([0, 0, 1, 1])
    """

    _letters = "stl"

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stl",
        init_params: str = "stl",
        implementation: Implementation = "log",
        *,
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self._take(locals())

    def _given(self, X: np.ndarray) -> list[dict[str, Any]]:
        return [{"family": "poisson", "columns": list(range(X.shape[1]))}]

    @property
    def lambdas_(self) -> np.ndarray:
        """Mean count of each state and feature."""
        return _of_one(self, "rates")

    @lambdas_.setter
    def lambdas_(self, rates: Any) -> None:
        _set_one(self, "poisson", "lambdas_", rates=rates)


class MultinomialHMM(ChannelHMM):
    """A hidden Markov model that emits counts of outcomes, under hmmlearn's names: `ChannelHMM` with one channel.

    Parameters
    ----------
    n_components : int
        Number of states.
    n_trials : int, optional
        The sum of the counts of each observation. By default it may be any, and `sample` needs it.
    startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol, verbose, implementation, device, precision
        As for `ChannelHMM`.
    params, init_params : str
        As for `ChannelHMM`, with "e" for emissionprob_.

    Attributes
    ----------
    emissionprob_ : ndarray, shape (n_components, n_features)
        Probability of each outcome in each state.
    startprob_, transmat_, channels_, monitor_, n_features, n_features_in_
        As for `ChannelHMM`.

    Examples
    --------
    >>> from warpkov.hmm import MultinomialHMM
    >>> model = MultinomialHMM(2, n_trials=4)
    >>> model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    >>> model.emissionprob_ = [[0.9, 0.1], [0.2, 0.8]]
    >>> model.predict([[4, 0], [3, 1], [0, 4]])
    array([0, 0, 1])
    """

    n_trials: int | None

    def __init__(
        self,
        n_components: int = 1,
        n_trials: int | None = None,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: Implementation = "log",
        *,
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self._take(locals())

    def _given(self, X: np.ndarray) -> list[dict[str, Any]]:
        return [{"family": "multinomial", "columns": list(range(X.shape[1])), **self._trials()}]

    def _trials(self) -> dict[str, Any]:
        return {} if self.n_trials is None else {"trials": int(self.n_trials)}

    @property
    def emissionprob_(self) -> np.ndarray:
        """Probability of each outcome in each state."""
        return _of_one(self, "probs")

    @emissionprob_.setter
    def emissionprob_(self, probs: Any) -> None:
        _set_one(self, "multinomial", "emissionprob_", probs=probs)
        self.channels_[0].update(self._trials())


class GMMHMM(ChannelHMM):
    """A hidden Markov model that emits mixtures of normal densities, under hmmlearn's names.

    It is a `ChannelHMM` with one channel.

    Parameters
    ----------
    n_components : int
        Number of states.
    n_mix : int
        Number of parts of each mixture.
    covariance_type : {"diag"}
        Each part has a variance for each feature.
    startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol, verbose, implementation, device, precision
        As for `ChannelHMM`.
    params, init_params : str
        As for `ChannelHMM`, with "w" for weights_, means_ and covars_ together.

    Attributes
    ----------
    weights_ : ndarray, shape (n_components, n_mix)
        Weight of each part.
    means_ : ndarray, shape (n_components, n_mix, n_features)
        Means of each part.
    covars_ : ndarray, shape (n_components, n_mix, n_features)
        Variances of each part.
    startprob_, transmat_, channels_, monitor_, n_features, n_features_in_
        As for `ChannelHMM`.

    Notes
    -----
    Unlike hmmlearn's, the parameters of the parts have no prior.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov.hmm import GMMHMM
    >>> rng = np.random.default_rng(3)
    >>> X = np.concatenate([rng.normal(center, 0.1, 100) for center in (0, 1, 10, 11)])[:, None]
    >>> model = GMMHMM(2, n_mix=2, random_state=0, n_iter=100, tol=1e-6).fit(X)
    >>> model.weights_.shape, model.means_.shape, model.covars_.shape
    ((2, 2), (2, 2, 1), (2, 2, 1))
    """

    _letters = "stw"

    n_mix: int
    covariance_type: Literal["diag"]

    def __init__(
        self,
        n_components: int = 1,
        n_mix: int = 1,
        covariance_type: Literal["diag"] = "diag",
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stw",
        init_params: str = "stw",
        implementation: Implementation = "log",
        *,
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self._take(locals())

    def _given(self, X: np.ndarray) -> list[dict[str, Any]]:
        if self.covariance_type != "diag":
            raise ValueError(f"covariance_type is '{self.covariance_type}', expected 'diag'")
        return [{"family": "mixture", "columns": list(range(X.shape[1])), "parts": self.n_mix}]

    @property
    def weights_(self) -> np.ndarray:
        """Weight of each part."""
        return _of_one(self, "weights")

    @property
    def means_(self) -> np.ndarray:
        """Means of each part."""
        return _of_one(self, "means")

    @property
    def covars_(self) -> np.ndarray:
        """Variances of each part."""
        return _of_one(self, "variances")


def _set_one(model: ChannelHMM, family: str, name: str, **parameters: Any) -> None:
    """Makes a channel of this family the only one, with a column for each entry of the last index."""
    arrays = {key: real(value, name) for key, value in parameters.items()}
    for array in arrays.values():
        if array.ndim < 2 or len(array) != model.n_components:
            raise ValueError(f"{name} has shape {array.shape}, expected (n_components, n_features)")
    columns = list(range(next(iter(arrays.values())).shape[-1]))
    model.channels_ = [{"family": family, "columns": columns, **arrays}]
