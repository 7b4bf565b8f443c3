"""Models that emit vectors with normal densities."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .._host import real
from ._base import Algorithm, BaseHMM, Implementation, Precision, RandomState, broadcast, dense, offsets_of, shaped

CovarianceType = Literal["spherical", "diag", "full", "tied"]

_TYPES = ("spherical", "diag", "full", "tied")


class GaussianHMM(BaseHMM):
    """A hidden Markov model that emits vectors with normal densities.

    State j emits x with density N(x; mu_j, Sigma_j). The EM algorithm maximises the posterior

        ln P(O) + sum (a - 1) ln p - 1/2 sum_j w (mu_j - m_j)' Sigma_j^-1 (mu_j - m_j)
            - 1/2 sum_j [tr(Psi_j Sigma_j^-1) + nu ln |Sigma_j|],

    with Dirichlet parameters a of all probabilities p, m = `means_prior`, w = `means_weight`, Psi = `covars_prior` and
    nu = max(`covars_weight` - k, 0), where k is 1 for "spherical" and "diag", and n_features for "full" and "tied".
    Of "tied", the last sum has one term.

    Parameters
    ----------
    n_components : int
        Number of states.
    covariance_type : {"spherical", "diag", "full", "tied"}
        One variance per state, a variance per state and feature, a matrix per state, or one matrix for all states.
    min_covar : float
        Added to the variances that training starts at.
    startprob_prior : float or array of shape (n_components,)
        Parameters a of the Dirichlet prior of `startprob_`, at least 1; 1 is none.
    transmat_prior : float or array of shape (n_components, n_components)
        Those of the rows of `transmat_`.
    means_prior : float or array that broadcasts to (n_components, n_features)
        Means of the normal priors of `means_`.
    means_weight : float or array of shape (n_components,)
        Their precisions, as numbers of observations, at least 0; 0 is none.
    covars_prior : float or array
        Scale of the prior of the covariances: of the inverse gamma distribution for "spherical" and "diag", where it
        broadcasts to (n_components, n_features), and of the inverse Wishart distribution for "full" and "tied", where
        it broadcasts to (n_components, n_features, n_features) and (n_features, n_features). Positive semidefinite; 0
        is none. As in hmmlearn, a number is that of *all* entries of a matrix, not of its diagonal alone.
    covars_weight : float
        The degrees of freedom of that prior.
    algorithm, random_state, n_iter, tol, verbose, implementation, device, precision
        As for `CategoricalHMM`.
    params : str
        The parameters that `fit` trains: "s" for startprob_, "t" for transmat_, "m" for means_, "c" for covars_. The
        others keep their values.
    init_params : str
        The parameters that `fit` initialises, with the same letters. It starts from the others as they are.

    X may have missing numbers: NaN, or masked elements of a masked array. A vector then has the marginal density of its
    other components, and density 1 without any. `fit` takes the expectations of the missing numbers and of their
    products given the others, which maximises the likelihood of what was observed.

    Attributes
    ----------
    startprob_ : ndarray, shape (n_components,)
        Probability of each state at the start.
    transmat_ : ndarray, shape (n_components, n_components)
        Probability of each state after each state.
    means_ : ndarray, shape (n_components, n_features)
        Mean of each state.
    covars_ : ndarray, shape (n_components, n_features, n_features)
        Covariance matrix of each state.
    monitor_ : ConvergenceMonitor
        The course of the training.
    restart_log_probs_ : ndarray
        ln P(O) of all starts of `fit`, after their training.
    n_features, n_features_in_ : int
        Number of features.

    Notes
    -----
    What differs from hmmlearn, beside the notes of `CategoricalHMM`: missing numbers are no error; variances keep above 1e-9 of those of all
    observations, which bounds the likelihood also without a prior; a state with an expected count (plus nu) below 1e-5
    keeps its covariances if there is a prior; with "m" not in `params`, covariances are those about the means as they
    are; `covars_` of "spherical" has a matrix per state after training too. The means start at centres of clusters, as
    in hmmlearn, found by another k-means.

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

    covariance_type: CovarianceType
    min_covar: float
    means_prior: Any
    means_weight: Any
    covars_prior: Any
    covars_weight: float

    means_: np.ndarray

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: CovarianceType = "diag",
        min_covar: float = 1e-3,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        means_prior: Any = 0,
        means_weight: Any = 0,
        covars_prior: Any = 1e-2,
        covars_weight: float = 1,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stmc",
        init_params: str = "stmc",
        implementation: Implementation = "log",
        *,
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        self._take(locals())

    @property
    def n_features(self) -> int:
        """Number of features."""
        if hasattr(self, "means_"):
            return int(np.shape(self.means_)[-1])
        if "_n_features" in self.__dict__:
            return int(self._n_features)
        raise AttributeError("n_features is that of means_, which are missing")

    @n_features.setter
    def n_features(self, features: int) -> None:
        self._n_features = features

    @property
    def covars_(self) -> np.ndarray:
        """Covariance matrix of each state, of shape (n_components, n_features, n_features).

        Assign an array of shape (n_components,) for "spherical", (n_components, n_features) for "diag",
        (n_components, n_features, n_features) for "full", or (n_features, n_features) for "tied". A matrix per state
        may be assigned for each type if its matrices have the form of the type.
        """
        if not hasattr(self, "_covars_"):
            raise AttributeError(f"this {type(self).__name__} has no covars_: call fit, or set it")
        covars: np.ndarray = self._covars_
        if self.covariance_type == "full":
            return covars
        if self.covariance_type == "tied":
            return np.tile(covars, (self.n_components, 1, 1))
        variances = np.tile(covars[:, None], (1, self.n_features)) if covars.ndim == 1 else covars
        return np.stack([np.diag(row) for row in variances])

    @covars_.setter
    def covars_(self, covars: Any) -> None:
        self._covars_ = _compact(np.array(real(covars, "covars_")), self._kind(), self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _features(self) -> int:
        return int(np.shape(self.means_)[-1])

    def _parts(self) -> dict[str, Any]:
        self._needs("startprob_", "transmat_", "means_", "_covars_")
        kind, n, d = self._kind(), self.n_components, self._features()
        covars = shaped(self._covars_, _SHAPES[kind](n, d), "covars_")
        if kind == "spherical":
            covars = np.repeat(covars, d)
        elif kind == "tied":
            covars = np.tile(covars, n)
        name = "variances" if kind in ("spherical", "diag") else "covariances"
        return {**self._chain(), "means": (d, shaped(self.means_, (n, d), "means_")), name: covars}

    def _kind(self) -> CovarianceType:
        if self.covariance_type not in _TYPES:
            raise ValueError(f"covariance_type is '{self.covariance_type}', expected one of {', '.join(_TYPES)}")
        return self.covariance_type

    def _sequences(self, X: Any, lengths: Any, checked: bool = True) -> tuple[dict[str, Any], np.ndarray]:
        given, X = X, dense(X)
        if X.ndim != 2 or X.shape[0] == 0:
            raise ValueError(
                f"X has shape {X.shape}, expected a 2D array of shape (n_samples, n_features). Reshape your data: "
                "X.reshape(-1, 1) if it has one feature, X.reshape(1, -1) if it is one sample"
            )
        X = np.ascontiguousarray(real(given if isinstance(given, np.ma.MaskedArray) else X, "X"))
        if checked and np.isinf(X).any():
            at, feature = (int(index) for index in np.argwhere(np.isinf(X))[0])
            shown = "inf" if X[at, feature] > 0 else "-inf"
            raise ValueError(f"X[{at}, {feature}] is {shown}, expected a finite number, or NaN where it is missing")
        return {"offsets": offsets_of(lengths, len(X)), "symbols": None, "vectors": (X.shape[1], X.ravel())}, X

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        super()._initialise(X, random)
        kind, n = self._kind(), self.n_components
        lost = np.isnan(X)
        if lost.all(axis=0).any():
            feature = int(np.flatnonzero(lost.all(axis=0))[0])
            raise ValueError(f"X[:, {feature}] has only missing numbers, expected at least one number of each feature")
        variances = np.nanvar(X, axis=0) if lost.any() else X.var(axis=0)
        if lost.any():
            # For the start alone.
            X = np.where(lost, np.nanmean(X, axis=0), X)
        if self._needs_init("m", "means_"):
            self.means_ = _centres(X, n, random)
        if self._needs_init("c", "_covars_"):
            if kind in ("spherical", "diag"):
                variances = variances + self.min_covar
                self._covars_ = np.full(n, variances.mean()) if kind == "spherical" else np.tile(variances, (n, 1))
            else:
                matrix = np.atleast_2d(np.cov(X.T, bias=True)) + self.min_covar * np.eye(X.shape[1])
                if lost.any():
                    # Means in place of missing numbers have lowered the variances.
                    matrix[np.diag_indices_from(matrix)] = variances + self.min_covar
                self._covars_ = np.tile(matrix, (n, 1, 1)) if kind == "full" else matrix

    def _objective(self) -> dict[str, Any]:
        kind, n, d = self._kind(), self.n_components, self._features()
        weights = real(self.means_weight, "means_weight")
        weights = broadcast(weights[:, 0] if weights.shape == (n, 1) else weights, (n,), "means_weight")
        if not (weights >= 0).all():
            state = int(np.flatnonzero(~(weights >= 0))[0])
            raise ValueError(f"means_weight of state {state} is {weights[state]:g}, expected a number of at least 0")
        least = 1 if kind in ("spherical", "diag") else d
        shape = _SHAPES["diag" if kind == "spherical" else kind](n, d)
        scales = broadcast(self.covars_prior, shape, "covars_prior")
        if kind in ("spherical", "diag"):
            semidefinite = bool((scales >= 0).all())
        else:
            semidefinite = bool(np.isfinite(scales).all()) and np.allclose(scales, scales.swapaxes(-1, -2))
            eigenvalues = np.linalg.eigvalsh(scales) if semidefinite else np.zeros(1)
            least_of_all = -1e-12 * float(np.abs(scales).max(initial=0.0)) * d
            semidefinite = semidefinite and bool((eigenvalues >= least_of_all).all())
        if not semidefinite:
            raise ValueError("covars_prior is not positive semidefinite")
        if kind == "tied":
            scales = np.tile(scales, (n, 1, 1))
        degrees = max(float(self.covars_weight) - least, 0.0)
        normals = None
        if weights.any() or scales.any() or degrees:
            means = broadcast(self.means_prior, (n, d), "means_prior").ravel()
            normals = {"means": means, "weights": weights, "scales": scales.ravel(), "degrees": degrees}
        constraint = kind if kind in ("spherical", "tied") else "none"
        return {**super()._objective(), "normals": normals, "constraint": constraint}

    def _parameters(self) -> int:
        n, d = self.n_components, self._features()
        return super()._parameters() + n * d + self._entries(d)

    def _entries(self, d: int) -> int:
        """The number of entries of the covariances that determine the others."""
        n = self.n_components
        entries = {"spherical": n, "diag": n * d, "full": n * d * (d + 1) // 2, "tied": d * (d + 1) // 2}
        return entries[self._kind()]

    def _scalars(self, X: np.ndarray) -> dict[str, int]:
        d = X.shape[1]
        return {**super()._scalars(X), "m": self.n_components * d, "c": self._entries(d)}

    def _check(self) -> None:
        self._kind()
        super()._check()

    def _update(self, found: dict[str, np.ndarray]) -> None:
        super()._update(found)
        n, kind = self.n_components, self._kind()
        self.means_ = found["means"].reshape(n, -1)
        d = self.means_.shape[1]
        # All variances of a state, or all matrices, are equal under a constraint.
        covars = found["covariances"].reshape((n, d) if kind in ("spherical", "diag") else (n, d, d))
        self._covars_ = covars[:, 0].copy() if kind == "spherical" else covars[0].copy() if kind == "tied" else covars

    def _observations(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(-1, self._features())

    def _mixture(self, probs: np.ndarray) -> Any:
        mean = probs @ np.asarray(self.means_)
        deviations = np.asarray(self.means_) - mean
        within, between = np.tensordot(probs, self.covars_, 1), deviations.T @ (probs[:, None] * deviations)
        return mean, within + between


_SHAPES: dict[str, Any] = {
    "spherical": lambda n, d: (n,),
    "diag": lambda n, d: (n, d),
    "full": lambda n, d: (n, d, d),
    "tied": lambda n, d: (d, d),
}
"""The shapes of `_covars_`."""


def _compact(covars: np.ndarray, kind: str, n: int) -> np.ndarray:
    """The covariances in the shape of their type, from that shape or from a matrix per state."""
    if kind == "spherical" and covars.ndim > 3 and covars.size == n:
        # One variance per state, however nested.
        covars = covars.reshape(n)
    if covars.ndim == 3 and kind != "full":
        if kind == "tied":
            if (covars != covars[0]).any():
                raise ValueError("covars_ has matrices that differ, and covariance_type is 'tied'")
            covars = covars[0]
        else:
            variances = covars.diagonal(axis1=1, axis2=2)
            if any(np.count_nonzero(matrix - np.diag(np.diag(matrix))) for matrix in covars):
                raise ValueError(f"covars_ has entries beside the diagonal, and covariance_type is '{kind}'")
            covars = variances.copy()
    if kind == "spherical" and covars.ndim == 2:
        if (covars != covars[:, :1]).any():
            raise ValueError("covars_ has variances that differ, and covariance_type is 'spherical'")
        covars = covars[:, 0].copy()
    dimensions = {"spherical": 1, "diag": 2, "full": 3, "tied": 2}.get(kind, covars.ndim)
    square = kind in ("spherical", "diag") or covars.shape[-2:-1] == covars.shape[-1:]
    if covars.ndim != dimensions or not square or (kind != "tied" and len(covars) != n):
        shapes = {"spherical": "(n_components,)", "diag": "(n_components, n_features)"}
        shapes |= {"full": "(n_components, n_features, n_features)", "tied": "(n_features, n_features)"}
        raise ValueError(f"covars_ has shape {covars.shape}, expected {shapes[kind]} as covariance_type is '{kind}'")
    if kind in ("spherical", "diag"):
        wrong = np.argwhere(~(covars > 0)).tolist()
        if wrong:
            value = covars[tuple(wrong[0])]
            raise ValueError(f"covars_{wrong[0]} is {value:g}, expected a positive variance")
        return covars
    for state, matrix in enumerate(covars[None] if kind == "tied" else covars):
        place = "covars_" if kind == "tied" else f"covars_[{state}]"
        if not np.isfinite(matrix).all():
            raise ValueError(f"{place} has an entry that is not finite")
        if not np.allclose(matrix, matrix.T):
            raise ValueError(f"{place} is not symmetric")
        if not (np.linalg.eigvalsh(matrix) > 0).all():
            raise ValueError(f"{place} is not positive definite")
    return covars


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
