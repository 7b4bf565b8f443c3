"""Models of channels: against formulas of SciPy's special functions, and training."""

import json

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from warpkov import hmm


def _chain(model):
    model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    return model


def _score(model, logs):
    """ln P(O) of emissions with these logarithms, (n_samples, n_components)."""
    alpha = np.log(model.startprob_) + logs[0]
    for row in logs[1:]:
        alpha = logsumexp(alpha[:, None] + np.log(model.transmat_), axis=0) + row
    return logsumexp(alpha)


def test_poisson_scores_are_those_of_the_formula():
    model = _chain(hmm.PoissonHMM(2))
    model.lambdas_ = [[0.5, 3.0], [1e-3, 1e4]]
    X = np.random.default_rng(0).poisson([2, 5], (30, 2))
    rates = np.array(model.lambdas_)
    logs = (X[:, None] * np.log(rates) - rates - gammaln(X[:, None] + 1)).sum(axis=-1)
    assert model.score(X) == pytest.approx(_score(model, logs), rel=1e-12)
    assert model.n_features == 2
    with pytest.raises(ValueError, match=r"X\[1, 1\] is -1, expected a count"):
        model.score([[1, 1], [1, -1]])
    missing = X.astype(float)
    missing[3, 1] = np.nan
    logs[3] = X[3, 0] * np.log(rates[:, 0]) - rates[:, 0] - gammaln(X[3, 0] + 1)
    assert model.score(missing) == pytest.approx(_score(model, logs), rel=1e-12)


def test_multinomial_scores_are_those_of_the_formula():
    model = _chain(hmm.MultinomialHMM(2, n_trials=6))
    model.emissionprob_ = [[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]
    X, states = model.sample(40, random_state=1)
    assert (X.sum(axis=1) == 6).all() and set(states) <= {0, 1}
    logs = gammaln(7) - gammaln(X + 1).sum(axis=1)[:, None] + X @ np.log(model.emissionprob_).T
    assert model.score(X) == pytest.approx(_score(model, logs), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (hmm.PoissonHMM(2, random_state=1, n_iter=100, tol=1e-6), "lambdas_"),
        (hmm.MultinomialHMM(2, random_state=1, n_iter=100, tol=1e-6), "emissionprob_"),
    ],
)
def test_samples_are_fitted(model, name):
    truth = _chain(type(model)(2, n_trials=20) if name == "emissionprob_" else type(model)(2))
    expected = np.array([[0.2, 0.8], [0.7, 0.3]]) if name == "emissionprob_" else np.array([[1.0, 4.0], [9.0, 2.0]])
    setattr(truth, name, expected)
    X, states = truth.sample(3000, random_state=5)
    found = getattr(model.fit(X), name)
    order = np.argsort(found[:, 0])
    assert np.allclose(found[order], expected, rtol=0.1)
    assert (np.argsort(order)[model.predict(X)] == states).mean() > 0.95
    assert model.monitor_.history[-1] > model.monitor_.history[0]
    assert np.isfinite(model.bic(X))


def test_mixtures_are_fitted():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(center, 0.2, 300) for center in (0, 3, 20, 25)])[:, None]
    model = hmm.GMMHMM(2, n_mix=2, random_state=4, n_iter=200, tol=1e-8)
    assert model.fit(X).score(X) == pytest.approx(model.monitor_.history[-1])
    assert model.weights_.sum(axis=1) == pytest.approx([1, 1])
    assert model.covars_.min() > 0


def test_channels_are_saved_and_loaded(tmp_path):
    channels = [
        {"family": "student-t", "columns": [1], "degrees": [4, 5], "locations": [0, 8], "scales": [1, 2]},
        {
            "family": "regression",
            "columns": [0],
            "inputs": [1],
            "lags": 1,
            "coefficients": [[[0.5, 0.1]], [[-0.5, 0.2]]],
            "intercepts": [1, 2],
            "variances": [1, 3],
        },
    ]
    model = _chain(hmm.ChannelHMM(2, channels))
    model.channels_ = channels
    X, _ = model.sample(50, random_state=3)
    path = tmp_path / "model.json"
    hmm.save(model, path)
    assert json.loads(path.read_text())["channels"][1]["lags"] == 1
    loaded = hmm.load(path)
    assert loaded.score(X) == model.score(X)
    before = model.score(X)
    assert model.set_params(init_params="", n_iter=5, tol=0).fit(X).score(X) > before
    assert model.channels_[0]["degrees"].shape == (2, 1)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(50))
    probs, _ = model.filter(X)
    assert probs[-1] == pytest.approx(model.predict_proba(X)[-1])


def test_every_family_is_initialised_from_data():
    rng = np.random.default_rng(6)
    n = 120
    regime = np.repeat([0, 1, 0], n // 3)
    X = np.column_stack(
        [
            rng.integers(0, 3, n),
            rng.random(n) < 0.2 + 0.6 * regime,
            rng.poisson(1 + 8 * regime),
            *rng.multinomial(5, [0.5, 0.5], n).T,
            rng.exponential(1 + 3 * regime),
            rng.gamma(2 + 5 * regime),
            rng.normal(4 * regime),
            rng.standard_t(4, n) + 5 * regime,
            rng.normal(3 * regime),
            rng.normal(2 * regime),
            rng.random(n) < 0.5,
        ]
    ).astype(float)
    names = ["categorical", "bernoulli", "poisson", "exponential", "gamma", "gaussian", "student-t", "mixture"]
    columns = [0, 1, 2, 5, 6, 7, 8, 9]
    channels = [{"family": name, "columns": [column]} for name, column in zip(names, columns)]
    channels += [
        {"family": "multinomial", "columns": [3, 4]},
        {"family": "regression", "columns": [10], "inputs": [9], "lags": 1},
        {"family": "logistic", "columns": [11], "inputs": [10]},
    ]
    model = hmm.ChannelHMM(2, channels, random_state=0, n_iter=30, tol=1e-6).fit(X)
    found = model.predict(X)
    assert max((found == regime).mean(), (found != regime).mean()) > 0.95
    history = np.array(model.monitor_.history)
    assert (np.diff(history) >= -1e-9 * abs(history[:-1])).all()


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        (None, "channels is empty"),
        ([{"columns": [0]}], "expected a dict with family and columns"),
        ([{"family": "fish", "columns": [0]}], "expected one of categorical"),
        ([{"family": "poisson", "columns": [3]}], "expected some below 1"),
    ],
)
def test_wrong_channels_are_refused(channels, message):
    with pytest.raises(ValueError, match=message):
        hmm.ChannelHMM(2, channels).fit([[1.0], [2.0]])
