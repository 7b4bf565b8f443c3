"""Models that emit symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._base import Algorithm, BaseHMM, Implementation, Precision, RandomState, dense, offsets_of, pseudocounts, shaped


class CategoricalHMM(BaseHMM):
    """A hidden Markov model that emits symbols, numbered from 0.

    State j emits symbol o with probability ``emissionprob_[j, o]``. The EM algorithm maximises the posterior
    ln P(O) + sum (a - 1) ln p, the sum over all probabilities p > 0 with Dirichlet parameters a.

    Parameters
    ----------
    n_components : int
        Number of states.
    startprob_prior : float or array of shape (n_components,)
        Parameters a of the Dirichlet prior of `startprob_`, at least 1; 1 is none.
    transmat_prior : float or array of shape (n_components, n_components)
        Those of the rows of `transmat_`.
    emissionprob_prior : float or array of shape (n_components, n_features)
        Those of the rows of `emissionprob_`.
    n_features : int, optional
        Number of symbols. By default 1 plus the largest one that `fit` sees.
    algorithm : {"viterbi", "map"}
        The algorithm of `decode`.
    random_state : int, RandomState or Generator, optional
        The source of random numbers.
    n_iter : int
        Maximum number of iterations of training.
    tol : float
        Training ends when the objective, ln P(O) plus the logarithm of the prior, rises by less.
    verbose : bool
        Whether `fit` reports each iteration to the standard error.
    params : str
        The parameters that `fit` trains: "s" for startprob_, "t" for transmat_, "e" for emissionprob_. The others
        keep their values.
    init_params : str
        The parameters that `fit` initialises at random, with the same letters. It starts from the others as they are.
    implementation : {"log", "scaling"}
        Accepted for hmmlearn, without effect: the recursions are scaled, and computed with exponents of their own
        where numbers would underflow.
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
    restart_log_probs_ : ndarray
        ln P(O) of all starts of `fit`, after their training.
    n_features_in_ : int
        1, the number of columns of X.

    Notes
    -----
    What differs from hmmlearn: a prior below 1 is refused, because the posterior has no maximum; a probability that is
    0 stays 0, also in `emissionprob_` with a prior; a row without expected counts keeps its values; random numbers
    differ; numbers do not underflow where hmmlearn's "scaling" does and raises an error. `monitor_.history` has one more number, ln P(O) of the trained model, and
    `monitor_.converged` is False if `n_iter` was the reason to stop.

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
    >>> model.get_stationary_distribution().round(4)
    array([0.6667, 0.3333])
    """

    _letters = "ste"

    emissionprob_prior: Any

    emissionprob_: np.ndarray

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        *,
        emissionprob_prior: Any = 1.0,
        n_features: int | None = None,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: Implementation = "log",
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self._take(locals())

    @property
    def n_features(self) -> int | None:
        """The number of symbols: that of the constructor, or else that of `emissionprob_`; None before it is known."""
        if self._n_features is None and hasattr(self, "emissionprob_") and np.ndim(self.emissionprob_) == 2:
            return int(np.shape(self.emissionprob_)[1])
        return self._n_features

    @n_features.setter
    def n_features(self, symbols: int | None) -> None:
        self._n_features = symbols

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor, by name."""
        return {**super().get_params(deep), "n_features": self._n_features}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        # One column of symbols, not a matrix of any width.
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        return tags

    def _parts(self) -> dict[str, Any]:
        self._needs("startprob_", "transmat_", "emissionprob_")
        if np.ndim(self.emissionprob_) != 2:
            shape = np.shape(self.emissionprob_)
            raise ValueError(f"emissionprob_ has shape {shape}, expected (n_components, n_features)")
        symbols = np.shape(self.emissionprob_)[-1]
        emissions = shaped(self.emissionprob_, (self.n_components, symbols), "emissionprob_")
        return {**self._chain(), "symbols": (symbols, emissions)}

    def _features(self) -> int:
        return 1

    def _sequences(self, X: Any, lengths: Any, checked: bool = True) -> tuple[dict[str, Any], np.ndarray]:
        X = dense(X)
        if X.ndim == 1:
            X = X[:, None]
        if X.ndim != 2 or X.shape[1] != 1 or X.size == 0 or X.dtype.kind not in "biu":
            raise ValueError(f"X has shape {X.shape} and type {X.dtype}, expected (n_samples, 1) symbols from 0")
        # As numbers without sign, those below 0 are the largest.
        if X.astype(np.int64, copy=False).view(np.uint64).max() >= 2**32 - 1:
            wrong = np.flatnonzero((X < 0) | (X >= 2**32 - 1))
            raise ValueError(f"X[{wrong[0]}, 0] is {X[wrong[0], 0]}, expected a symbol from 0 to 2**32 - 2")
        symbols = np.ascontiguousarray(X, dtype=np.uint32)
        return {"offsets": offsets_of(lengths, len(X)), "symbols": symbols.ravel(), "vectors": None}, symbols

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        super()._initialise(X, random)
        if self._needs_init("e", "emissionprob_"):
            symbols = int(X.max()) + 1 if self._n_features is None else self._n_features
            self.emissionprob_ = random.dirichlet(np.ones(symbols), size=self.n_components)

    def _check_and_set_n_features(self, X: Any) -> None:
        """Raise ValueError unless X has symbols of the model; hmmlearn's name."""
        array = dense(X)
        if array.dtype.kind not in "iu":
            raise ValueError(f"X has type {array.dtype}, expected symbols, which are integers")
        if array.size and int(array.min()) < 0:
            raise ValueError(f"X has {int(array.min())}, expected symbols from 0")
        largest = int(array.max()) if array.size else -1
        if self._n_features is None:
            self._n_features = largest + 1
        elif largest >= self._n_features:
            raise ValueError(f"X has symbol {largest}, expected symbols below n_features, {self._n_features}")

    def _scalars(self, X: np.ndarray) -> dict[str, int]:
        n, symbols = np.shape(self.emissionprob_)
        return {**super()._scalars(X), "e": int(n * (symbols - 1))}

    def _objective(self) -> dict[str, Any]:
        emissions = pseudocounts(self.emissionprob_prior, np.shape(self.emissionprob_), "emissionprob_prior")
        return {**super()._objective(), "emissions": emissions}

    def _parameters(self) -> int:
        n, symbols = np.shape(self.emissionprob_)
        return super()._parameters() + int(n * (symbols - 1))

    def _update(self, found: dict[str, np.ndarray]) -> None:
        super()._update(found)
        self.emissionprob_ = found["emissions"].reshape(self.n_components, -1)

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        return flat.astype(np.int64).reshape(-1, 1)

    def _mixture(self, probs: np.ndarray) -> Any:
        return probs @ np.asarray(self.emissionprob_)
