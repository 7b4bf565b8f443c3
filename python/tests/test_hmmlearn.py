"""Numbers of hmmlearn, where it is installed."""

import inspect

import numpy as np
import pytest
from test_hmm import TYPES, categorical, densities, gaussian, started

from warpkov import hmm

theirs = pytest.importorskip("hmmlearn.hmm")
variational = pytest.importorskip("hmmlearn.vhmm")

pytestmark = pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")

LENGTHS = [25, 1, 34]


def twin(model, **params):
    """hmmlearn's model with the same parameters."""
    own = {"device", "precision"}
    given = {name: value for name, value in {**model.get_params(), **params}.items() if name not in own}
    copy = getattr(theirs, type(model).__name__)(**given)
    copy.startprob_, copy.transmat_ = model.startprob_.copy(), model.transmat_.copy()
    if hasattr(model, "means_"):
        copy.n_features, copy.means_, copy.covars_ = model.n_features, model.means_.copy(), model._covars_
    else:
        copy.emissionprob_ = model.emissionprob_.copy()
    return copy


def same(mine, model):
    """Equal parameters."""
    for name in ("startprob_", "transmat_", "emissionprob_", "means_"):
        if hasattr(mine, name):
            np.testing.assert_allclose(getattr(mine, name), getattr(model, name), atol=1e-10, err_msg=name)
    if hasattr(mine, "means_"):
        covars = model._covars_
        if mine.covariance_type == "spherical" and covars.ndim == 2:
            covars = covars[:, 0]
        np.testing.assert_allclose(mine._covars_, covars, rtol=1e-8)


@pytest.mark.parametrize("name", ["CategoricalHMM", "GaussianHMM"])
def test_signatures(name):
    mine, expected = (inspect.signature(getattr(module, name)).parameters for module in (hmm, theirs))
    shared = [parameter for parameter in mine if parameter not in ("device", "precision")]
    assert shared == list(expected)
    for parameter in shared:
        assert mine[parameter].default == expected[parameter].default, parameter
        assert mine[parameter].kind == expected[parameter].kind, parameter
    methods = {
        "fit", "score", "score_samples", "decode", "predict", "predict_proba", "sample", "aic", "bic",
        "get_stationary_distribution", "get_params", "set_params",
    }  # fmt: skip
    for method in methods:
        mine, expected = (inspect.signature(getattr(getattr(module, name), method)) for module in (hmm, theirs))
        # `fit` has more, by name alone.
        more = [name for name, parameter in mine.parameters.items() if parameter.kind == parameter.KEYWORD_ONLY]
        assert [name for name in mine.parameters if name not in more] == list(expected.parameters), method
        assert method == "fit" or not more


def joint(model, X, states):
    """ln P(O, path), the sum over all sequences."""
    total = densities(model, X)[np.arange(len(X)), states].sum()
    for path in np.split(states, np.cumsum(LENGTHS)[:-1]):
        total += np.log(model.startprob_[path[0]]) + np.log(model.transmat_[path[:-1], path[1:]]).sum()
    return total


@pytest.mark.parametrize("kind", ["categorical", *TYPES])
@pytest.mark.parametrize("seed", range(3))
def test_recursions(kind, seed):
    mine = categorical(seed) if kind == "categorical" else gaussian(seed, covariance_type=kind)
    X, _ = mine.sample(60, random_state=6)
    model = twin(mine)
    assert mine.score(X, LENGTHS) == pytest.approx(model.score(X, LENGTHS), rel=1e-10)
    np.testing.assert_allclose(mine.predict_proba(X, LENGTHS), model.predict_proba(X, LENGTHS), atol=1e-10)
    for algorithm in ("viterbi", "map"):
        (score, states), (expected, others) = mine.decode(X, LENGTHS, algorithm), model.decode(X, LENGTHS, algorithm)
        assert score == pytest.approx(expected, rel=1e-10)
        if algorithm == "map":
            assert (states == others).all()
        # Paths of symbols may tie.
        assert joint(mine, X, states) == pytest.approx(joint(mine, X, others), rel=1e-10)
    for criterion in ("aic", "bic"):
        assert getattr(mine, criterion)(X) == pytest.approx(getattr(model, criterion)(X), rel=1e-10)
    np.testing.assert_allclose(mine.get_stationary_distribution(), model.get_stationary_distribution(), atol=1e-12)


def start_near(seed, kind):
    """A start for the observations of `gaussian(seed)` at which each state is visited."""
    random = np.random.default_rng(seed)
    start = gaussian(seed, covariance_type=kind)
    start.startprob_, start.transmat_ = random.dirichlet(np.ones(3)), random.dirichlet(np.ones(3), size=3)
    start.means_ = start.means_ + random.normal(size=(3, 2))
    start.covars_ = 2 * start.covars_
    return start


PRIORS = {
    "default": {},
    "none": {"covars_prior": 0, "covars_weight": 0},
    "strong": {"means_prior": 1.5, "means_weight": 3.0, "covars_prior": 0.7, "covars_weight": 5.5},
    "array": {
        "means_prior": np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 3.0]]),
        "means_weight": 0.5,
        "covars_weight": 2.5,
    },
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("params", ["stmc", "mc", "stm", "st"])
def test_an_iteration_of_vectors(kind, prior, params):
    X, _ = gaussian(3, covariance_type=kind).sample(60, random_state=1)
    chain = {"startprob_prior": np.array([1.0, 2.0, 1.5]), "transmat_prior": 1 + np.arange(9.0).reshape(3, 3) / 4}
    options = {"n_iter": 1, "params": params, **chain, **PRIORS[prior]}
    start = start_near(3, kind)
    mine, model = started(start, **options), twin(start, init_params="", tol=0.0, **options)
    same(mine.fit(X, LENGTHS), model.fit(X, LENGTHS))
    assert mine.monitor_.history[0] == pytest.approx(model.monitor_.history[0], rel=1e-10)


@pytest.mark.parametrize("prior", [1.0, 2.5, "array"])
@pytest.mark.parametrize("params", ["ste", "e", "st"])
def test_an_iteration_of_symbols(prior, params):
    X, _ = categorical(3).sample(60, random_state=1)
    of = (lambda *shape: 1 + np.random.default_rng(0).random(shape)) if prior == "array" else lambda *shape: prior
    options = {
        "n_iter": 1, "params": params, "startprob_prior": of(3), "transmat_prior": of(3, 3),
        "emissionprob_prior": of(3, 4),
    }  # fmt: skip
    start = categorical(4)
    mine, model = started(start, **options), twin(start, init_params="", tol=0.0, n_features=4, **options)
    same(mine.fit(X, LENGTHS), model.fit(X, LENGTHS))


@pytest.mark.parametrize("kind", ["categorical", *TYPES])
def test_many_iterations(kind):
    start = categorical(4) if kind == "categorical" else start_near(3, kind)
    X, _ = (categorical(3) if kind == "categorical" else gaussian(3, covariance_type=kind)).sample(60, random_state=1)
    # Their rule to stop looks at the likelihood alone, which may fall while the posterior rises.
    mine, model = started(start, n_iter=12), twin(start, init_params="", tol=-np.inf, n_iter=12)
    same(mine.fit(X), model.fit(X))
    np.testing.assert_allclose(mine.monitor_.history[:-1], list(model.monitor_.history), rtol=1e-9)
    assert mine.score(X) == pytest.approx(mine.monitor_.history[-1], rel=1e-10)


@pytest.mark.parametrize("name", ["VariationalCategoricalHMM", "VariationalGaussianHMM"])
def test_variational_signatures(name):
    mine, expected = (inspect.signature(getattr(module, name)).parameters for module in (hmm, variational))
    shared = [parameter for parameter in mine if parameter not in ("device", "precision")]
    assert shared == list(expected)
    for parameter in shared:
        assert mine[parameter].default == expected[parameter].default, parameter


def posteriors(model):
    return {name: getattr(model, name) for name in sorted(vars(model)) if name.endswith(("_prior_", "_posterior_"))}


@pytest.mark.parametrize("kind", ["categorical", "full", "tied"])
@pytest.mark.parametrize("seed", range(3))
def test_variational_training(kind, seed):
    random = np.random.default_rng(seed)
    if kind == "categorical":
        X, _ = categorical(seed).sample(60, random_state=1)
        mine = hmm.VariationalCategoricalHMM(3, random_state=seed)
        model = variational.VariationalCategoricalHMM(3, n_features=4, init_params="", n_iter=13, tol=-np.inf)
        mine.n_features = 4
    else:
        X, _ = gaussian(seed, covariance_type=kind).sample(60, random_state=1)
        options = {"beta_prior": random.random(3) + 0.5, "dof_prior": 2.5, "scale_prior": np.eye(2) * 0.7}
        mine = hmm.VariationalGaussianHMM(3, kind, random_state=seed, **options)
        model = variational.VariationalGaussianHMM(3, kind, init_params="", n_iter=13, tol=-np.inf)
        model.n_features = 2
    mine.set_params(n_iter=12, tol=-np.inf).fit(X, LENGTHS)
    begun = hmm.__dict__[type(mine).__name__](**mine.get_params())
    begun._init(X)
    for name, value in posteriors(begun).items():
        setattr(model, name, value)
    model.startprob_, model.transmat_ = begun.startprob_, begun.transmat_
    if kind == "categorical":
        model.emissionprob_ = begun.emissionprob_
    else:
        model._covars_ = begun._covars_
    model.fit(X, LENGTHS)
    # Theirs leaves out a constant, and reports before each step.
    constant = 0.0 if kind == "categorical" else X.size / 2 * np.log(2 * np.pi)
    np.testing.assert_allclose(np.array(mine.monitor_.history) + constant, list(model.monitor_.history), rtol=1e-9)
    last = hmm.__dict__[type(mine).__name__](**{**mine.get_params(), "n_iter": 13}).fit(X, LENGTHS)
    for name, value in posteriors(last).items():
        np.testing.assert_allclose(value, getattr(model, name), rtol=1e-7, err_msg=name)
