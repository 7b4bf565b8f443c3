"""Variational Bayes: a posterior of the parameters in place of a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _warpkov
from ._base import Algorithm, BaseHMM, Implementation, Precision, RandomState, broadcast
from ._categorical import CategoricalHMM
from ._gaussian import CovarianceType, GaussianHMM, _centres


class _Variational(BaseHMM):
    """What both models share: Dirichlet distributions of the chain, and training by the lower bound."""

    startprob_prior_: np.ndarray
    startprob_posterior_: np.ndarray
    transmat_prior_: np.ndarray
    transmat_posterior_: np.ndarray

    def _initialise(self, X: np.ndarray, random: np.random.Generator) -> None:
        if not isinstance(self.n_components, (int, np.integer)) or self.n_components < 1:
            raise ValueError(f"n_components is {self.n_components}, expected an integer of at least 1")
        n = self.n_components
        if self._needs_init("s", "startprob_posterior_"):
            self.startprob_prior_ = self._dirichlet(self.startprob_prior, (n,), "startprob_prior")
            self.startprob_posterior_ = self.startprob_prior_ + random.dirichlet(np.ones(n))
        if self._needs_init("t", "transmat_posterior_"):
            self.transmat_prior_ = self._dirichlet(self.transmat_prior, (n, n), "transmat_prior")
            draws = random.dirichlet(np.ones(n), size=n) * len(X) / n
            self.transmat_posterior_ = self.transmat_prior_ + np.where(self.transmat_prior_ > 0, draws, 0.0)
        self._initialise_emissions(X, random)
        self._point()

    def _initialise_emissions(self, X: np.ndarray, random: np.random.Generator) -> None:
        raise NotImplementedError

    def partial_fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Any:
        """Not for these models: raises ValueError."""
        raise ValueError(f"{type(self).__name__} learns from all sequences at once: call fit")

    @staticmethod
    def _dirichlet(prior: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
        """Parameters of Dirichlet distributions; 1 over their number by default."""
        return broadcast(1.0 / shape[-1] if prior is None else prior, shape, name).copy()

    def _beliefs(self, of: str) -> dict[str, Any]:
        """The "prior" or the "posterior", for the library."""
        names = ("symbols", "means", "strengths", "degrees", "variances", "covariances")
        chain = {name: np.ravel(self._of(f"{name}_{of}_")) for name in ("startprob", "transmat")}
        found = {"start": chain["startprob"], "transitions": chain["transmat"], **dict.fromkeys(names)}
        return {**found, **self._emission_beliefs(of)}

    def _emission_beliefs(self, of: str) -> dict[str, Any]:
        raise NotImplementedError

    def _of(self, name: str) -> np.ndarray:
        return np.ascontiguousarray(getattr(self, name), dtype=float)

    def _starting(self) -> dict[str, Any]:
        return self._beliefs("posterior")

    def _train(self, starts: Any, sequences: Any, training: Any) -> Any:
        if any(training[name] is not None for name in ("ties", "tied_transitions")) or training["by"] != "baum-welch":
            raise ValueError("ties, transition_ties and by are not for variational Bayes")
        return _warpkov.hmm_variational(starts, self._beliefs("prior"), sequences, self._place(), training)

    def _objective(self) -> dict[str, Any]:
        frozen = [letter not in self.params for letter in self._letters] + [False] * (4 - len(self._letters))
        if frozen[2] != frozen[3] and len(self._letters) == 4:
            raise ValueError(f"params is '{self.params}', expected both of 'm' and 'c' or none")
        counts = dict.fromkeys(("start", "transitions", "emissions"), 0.0)
        return {**counts, "normals": None, "constraint": "none", "redraw": None, "frozen": frozen}

    def _update(self, found: dict[str, np.ndarray]) -> None:
        n = self.n_components
        self.startprob_posterior_ = found["start"]
        self.transmat_posterior_ = found["transitions"].reshape(n, n)
        self._update_emissions(found)
        self._point()

    def _update_emissions(self, found: dict[str, np.ndarray]) -> None:
        raise NotImplementedError

    def _point(self) -> None:
        """Set the parameters to the means of the posterior."""
        self.startprob_ = _shares(self.startprob_posterior_)
        self.transmat_ = _shares(self.transmat_posterior_)


def _shares(counts: Any) -> np.ndarray:
    """The mean of Dirichlet distributions."""
    counts = np.asarray(counts, dtype=float)
    found: np.ndarray = counts / counts.sum(axis=-1, keepdims=True)
    return found


class VariationalCategoricalHMM(_Variational, CategoricalHMM):
    """A hidden Markov model that emits symbols, trained by variational Bayes.

    `fit` finds Dirichlet distributions Q of all parameters that maximise the lower bound of ln P(O),

        E[ln P(O, path, parameters)] - E[ln Q] = ln Z - KL(Q || prior),

    where Z is the sum over all paths with parameters exp(E[ln p]). States that the data do not need get no counts, so
    that `n_components` may be larger than needed. Other methods use the means of Q.

    Parameters
    ----------
    n_components : int
        Number of states.
    startprob_prior, transmat_prior, emissionprob_prior : float or array, optional
        Parameters of the Dirichlet priors, of the shapes of the attributes, above 0; by default 1 over the number of
        outcomes. A prior of 0 stands for a probability that is 0.
    n_features, algorithm, random_state, n_iter, verbose, params, init_params, implementation, device, precision
        As for `CategoricalHMM`.
    tol : float
        Training ends when the lower bound rises by less.

    Attributes
    ----------
    startprob_prior_, startprob_posterior_ : ndarray, shape (n_components,)
        Dirichlet parameters of `startprob_`.
    transmat_prior_, transmat_posterior_ : ndarray, shape (n_components, n_components)
        Those of the rows of `transmat_`.
    emissionprob_prior_, emissionprob_posterior_ : ndarray, shape (n_components, n_features)
        Those of the rows of `emissionprob_`.
    startprob_, transmat_, emissionprob_ : ndarray
        The means of the posterior.
    monitor_ : ConvergenceMonitor
        The course of the lower bound, which never falls.
    restart_log_probs_ : ndarray
        The last lower bound of all starts of `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov.hmm import VariationalCategoricalHMM
    >>> X = np.array([[0] * 30 + [1] * 30] * 4).reshape(-1, 1)
    >>> model = VariationalCategoricalHMM(4, random_state=0, n_iter=500).fit(X, [60] * 4, restarts=4)
    >>> bool((np.diff(model.monitor_.history) > -1e-9).all())
    True
    >>> int((model.emissionprob_posterior_.sum(axis=1) > 5).sum())
    2
    """

    emissionprob_prior_: np.ndarray
    emissionprob_posterior_: np.ndarray

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = None,
        transmat_prior: Any = None,
        emissionprob_prior: Any = None,
        n_features: int | None = None,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 100,
        tol: float = 1e-6,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: Implementation = "log",
        *,
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        super().__init__(
            n_components,
            startprob_prior,
            transmat_prior,
            emissionprob_prior=emissionprob_prior,
            n_features=n_features,
            algorithm=algorithm,
            random_state=random_state,
            n_iter=n_iter,
            tol=tol,
            verbose=verbose,
            params=params,
            init_params=init_params,
            implementation=implementation,
            device=device,
            precision=precision,
        )

    def _initialise_emissions(self, X: np.ndarray, random: np.random.Generator) -> None:
        if self._needs_init("e", "emissionprob_posterior_"):
            symbols = int(X.max()) + 1 if self._n_features is None else self._n_features
            shape = (self.n_components, symbols)
            self.emissionprob_prior_ = self._dirichlet(self.emissionprob_prior, shape, "emissionprob_prior")
            draws = random.dirichlet(np.ones(symbols), size=self.n_components) * len(X) / self.n_components
            self.emissionprob_posterior_ = self.emissionprob_prior_ + np.where(self.emissionprob_prior_ > 0, draws, 0.0)

    def _emission_beliefs(self, of: str) -> dict[str, Any]:
        counts = self._of(f"emissionprob_{of}_")
        return {"symbols": (counts.shape[-1], counts.ravel())}

    def _update_emissions(self, found: dict[str, np.ndarray]) -> None:
        self.emissionprob_posterior_ = found["emissions"].reshape(self.n_components, -1)

    def _point(self) -> None:
        super()._point()
        self.emissionprob_ = _shares(self.emissionprob_posterior_)


class VariationalGaussianHMM(_Variational, GaussianHMM):
    """A hidden Markov model that emits vectors with normal densities, trained by variational Bayes.

    `fit` maximises the lower bound of ln P(O), as `VariationalCategoricalHMM` does. The precision of a state has a
    Wishart distribution with `dof` degrees of freedom and the mean dof S^-1 of the scale S, and its mean given the
    precision Lambda has the normal distribution with mean m and precision beta Lambda. Of "diag", each entry of the
    precision has a gamma distribution of shape dof / 2 and rate s / 2.

    Parameters
    ----------
    n_components : int
        Number of states.
    covariance_type : {"full", "tied", "diag"}
        A precision matrix per state, one for all states, or a diagonal one per state.
    startprob_prior, transmat_prior : float or array, optional
        As for `VariationalCategoricalHMM`.
    means_prior : float or array, optional
        m, that broadcasts to (n_components, n_features); by default the mean of X.
    beta_prior : float or array of shape (n_components,), optional
        beta, above 0; by default 1.
    dof_prior : float or array of shape (n_components,), optional
        The degrees of freedom, above n_features - 1 for matrices and above 0 for "diag"; by default n_features. One
        number for "tied".
    scale_prior : float or array, optional
        S, which broadcasts to the shape of `scale_posterior_`; by default 0.001 on the diagonal.
    algorithm, random_state, n_iter, tol, verbose, params, init_params, implementation, device, precision
        As for `VariationalCategoricalHMM` and `GaussianHMM`. `params` has both of "m" and "c", or none.

    Attributes
    ----------
    means_prior_, means_posterior_ : ndarray, shape (n_components, n_features)
        m.
    beta_prior_, beta_posterior_ : ndarray, shape (n_components,)
        beta.
    dof_prior_, dof_posterior_ : ndarray, shape (n_components,), or float for "tied"
        The degrees of freedom.
    scale_prior_, scale_posterior_ : ndarray
        S, of shape (n_components, n_features, n_features) for "full", (n_features, n_features) for "tied", and
        (n_components, n_features) for "diag".
    startprob_, transmat_, means_, covars_ : ndarray
        The means of the posterior, and S / dof.
    monitor_ : ConvergenceMonitor
        The course of the lower bound, which never falls.
    restart_log_probs_ : ndarray
        The last lower bound of all starts of `fit`.

    Notes
    -----
    What differs from hmmlearn: the bound has the constant of the normal densities, -n_samples n_features ln(2 pi) / 2;
    that of "diag" is of gamma distributions, where hmmlearn takes Wishart distributions of a diagonal matrix, whose
    expectations are others; there is no "spherical". Missing numbers are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from warpkov.hmm import VariationalGaussianHMM
    >>> X = np.concatenate([np.linspace(-1, 1, 50), np.linspace(9, 11, 50)])[:, None]
    >>> model = VariationalGaussianHMM(n_components=2, random_state=0).fit(X)
    >>> np.allclose(np.sort(model.means_.ravel()), [0, 10], atol=0.2)
    True
    """

    means_prior_: np.ndarray
    means_posterior_: np.ndarray
    beta_prior_: np.ndarray
    beta_posterior_: np.ndarray
    dof_prior_: Any
    dof_posterior_: Any
    scale_prior_: np.ndarray
    scale_posterior_: np.ndarray

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: CovarianceType = "full",
        startprob_prior: Any = None,
        transmat_prior: Any = None,
        means_prior: Any = None,
        beta_prior: Any = None,
        dof_prior: Any = None,
        scale_prior: Any = None,
        algorithm: Algorithm = "viterbi",
        random_state: RandomState = None,
        n_iter: int = 100,
        tol: float = 1e-6,
        verbose: bool = False,
        params: str = "stmc",
        init_params: str = "stmc",
        implementation: Implementation = "log",
        *,
        device: str = "auto",
        precision: Precision = "f64",
    ) -> None:
        super().__init__(
            n_components,
            covariance_type,
            startprob_prior=startprob_prior,
            transmat_prior=transmat_prior,
            means_prior=means_prior,
            algorithm=algorithm,
            random_state=random_state,
            n_iter=n_iter,
            tol=tol,
            verbose=verbose,
            params=params,
            init_params=init_params,
            implementation=implementation,
            device=device,
            precision=precision,
        )
        self.beta_prior = beta_prior
        self.dof_prior = dof_prior
        self.scale_prior = scale_prior

    def _kind(self) -> CovarianceType:
        if self.covariance_type not in ("full", "tied", "diag"):
            raise ValueError(f"covariance_type is '{self.covariance_type}', expected 'full', 'tied' or 'diag'")
        return self.covariance_type

    def _initialise_emissions(self, X: np.ndarray, random: np.random.Generator) -> None:
        if np.isnan(X).any():
            raise ValueError("X has missing numbers, which variational Bayes does not take")
        kind, n, d = self._kind(), self.n_components, X.shape[1]
        share = len(X) / n
        if self._needs_init("m", "means_posterior_"):
            means = X.mean(axis=0) if self.means_prior is None else self.means_prior
            self.means_prior_ = broadcast(means, (n, d), "means_prior").copy()
            self.means_posterior_ = _centres(X, n, random)
            beta = 1.0 if self.beta_prior is None else self.beta_prior
            self.beta_prior_ = broadcast(beta, (n,), "beta_prior").copy()
            self.beta_posterior_ = self.beta_prior_ + share
        if self._needs_init("c", "scale_posterior_"):
            shape = {"full": (n, d, d), "tied": (d, d), "diag": (n, d)}[kind]
            scale = self.scale_prior
            if scale is None:
                scale = 1e-3 if kind == "diag" else 1e-3 * np.eye(d)
            self.scale_prior_ = broadcast(scale, shape, "scale_prior").copy()
            dof = float(d) if self.dof_prior is None else self.dof_prior
            dof = broadcast(dof, () if kind == "tied" else (n,), "dof_prior")
            covariance = np.atleast_2d(np.cov(X.T, bias=True)) + 1e-3 * np.eye(d)
            if kind == "tied":
                self.dof_prior_ = float(dof.ravel()[0])
                self.dof_posterior_ = self.dof_prior_ + len(X)
                self.scale_posterior_ = covariance * self.dof_posterior_
            else:
                self.dof_prior_, self.dof_posterior_ = dof.copy(), dof + share
                spread = np.diag(covariance) if kind == "diag" else covariance
                self.scale_posterior_ = np.multiply.outer(self.dof_posterior_, spread)

    def _emission_beliefs(self, of: str) -> dict[str, Any]:
        means = self._of(f"means_{of}_")
        name = "variances" if self._kind() == "diag" else "covariances"
        return {
            "means": (means.shape[-1], means.ravel()),
            "strengths": self._of(f"beta_{of}_"),
            "degrees": np.atleast_1d(self._of(f"dof_{of}_")),
            name: self._of(f"scale_{of}_").ravel(),
        }

    def _update_emissions(self, found: dict[str, np.ndarray]) -> None:
        n, kind = self.n_components, self._kind()
        self.means_posterior_ = found["means"].reshape(n, -1)
        d = self.means_posterior_.shape[1]
        self.beta_posterior_ = found["strengths"]
        self.dof_posterior_ = float(found["degrees"][0]) if kind == "tied" else found["degrees"]
        self.scale_posterior_ = found["scales"].reshape({"full": (n, d, d), "tied": (d, d), "diag": (n, d)}[kind])

    def _point(self) -> None:
        super()._point()
        dof, scale = np.asarray(self.dof_posterior_, dtype=float), np.asarray(self.scale_posterior_, dtype=float)
        self.means_ = np.array(self.means_posterior_, dtype=float)
        self._covars_ = scale / dof.reshape(dof.shape + (1,) * (scale.ndim - dof.ndim))
