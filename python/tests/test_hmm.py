"""Hidden Markov models against sums over all paths, and under the conventions of scikit-learn."""

import copy
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

import warpkov
from warpkov import hmm
from warpkov.hmm import CategoricalHMM, ConvergenceMonitor, GaussianHMM


def categorical(seed=0, states=3, symbols=4):
    random = np.random.default_rng(seed)
    model = CategoricalHMM(n_components=states)
    model.startprob_ = random.dirichlet(np.ones(states))
    model.transmat_ = random.dirichlet(np.ones(states), size=states)
    model.emissionprob_ = random.dirichlet(np.ones(symbols), size=states)
    return model


def gaussian(seed=0, states=3, dimensions=2, covariance_type="diag"):
    random = np.random.default_rng(seed)
    model = GaussianHMM(n_components=states, covariance_type=covariance_type)
    model.startprob_ = random.dirichlet(np.ones(states))
    model.transmat_ = random.dirichlet(np.ones(states), size=states)
    model.means_ = random.normal(size=(states, dimensions)) * 3
    root = random.normal(size=(states, dimensions, dimensions))
    matrices = root @ root.transpose(0, 2, 1) + np.eye(dimensions)
    model.covars_ = {
        "spherical": lambda: random.random(states) + 0.5,
        "diag": lambda: random.random((states, dimensions)) + 0.5,
        "full": lambda: matrices,
        "tied": lambda: matrices[0],
    }[covariance_type]()
    return model


def densities(model, X):
    """ln b_i(x_t) of shape (T, N)."""
    if isinstance(model, CategoricalHMM):
        return np.log(model.emissionprob_[:, np.ravel(X)].T)
    logs = []
    for mean, covariance in zip(model.means_, model.covars_):
        difference = X - mean
        _, determinant = np.linalg.slogdet(2 * np.pi * covariance)
        logs.append(
            -0.5 * (determinant + np.einsum("td,td->t", difference, np.linalg.solve(covariance, difference.T).T))
        )
    return np.stack(logs, axis=1)


def by_paths(model, X):
    """ln P(O), the posteriors and the best path of one short sequence, by the sum over all paths."""
    emitted = densities(model, X)
    steps, states = emitted.shape
    paths = np.array(list(itertools.product(range(states), repeat=steps)))
    logs = np.log(model.startprob_[paths[:, 0]]) + emitted[np.arange(steps), paths].sum(axis=1)
    logs += np.log(model.transmat_[paths[:, :-1], paths[:, 1:]]).sum(axis=1)
    top = logs.max()
    weights = np.exp(logs - top)
    total = top + np.log(weights.sum())
    posteriors = np.stack([[weights[paths[:, t] == i].sum() for i in range(states)] for t in range(steps)])
    return total, posteriors / weights.sum(), paths[logs.argmax()], top


TYPES = ("spherical", "diag", "full", "tied")
MODELS = {"categorical": categorical(), **{kind: gaussian(covariance_type=kind) for kind in TYPES}}


def started(model, **params):
    """A model that trains from the parameters of another one."""
    copy = type(model)(**{**model.get_params(), "init_params": "", "tol": 0.0, **params})
    for name in ("startprob_", "transmat_", "emissionprob_", "means_", "covars_"):
        if hasattr(model, name):
            setattr(copy, name, getattr(model, name))
    return copy


FLAT = {"covars_prior": 0, "covars_weight": 0}
"""No prior of covariances."""


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_recursions(name, device):
    model = MODELS[name]
    model.set_params(device=device)
    lengths = [5, 1, 4]
    X, _ = model.sample(10, random_state=3)
    parts = np.split(X, np.cumsum(lengths)[:-1])
    exact = [by_paths(model, part) for part in parts]
    total = sum(one[0] for one in exact)
    assert model.score(X, lengths) == pytest.approx(total, rel=1e-12)
    log_prob, posteriors = model.score_samples(X, lengths)
    assert log_prob == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(posteriors, np.concatenate([one[1] for one in exact]), atol=1e-12)
    score, states = model.decode(X, lengths)
    assert score == pytest.approx(sum(one[3] for one in exact), rel=1e-12)
    assert (states == np.concatenate([one[2] for one in exact])).all()
    assert (model.predict(X, lengths) == states).all()
    score, states = model.decode(X, lengths, algorithm="map")
    assert (states == posteriors.argmax(axis=1)).all() and score == pytest.approx(posteriors.max(axis=1).sum())
    model.set_params(device="auto")


def em_step(model, X, lengths):
    """One iteration of Baum-Welch, from posteriors and pairs by the sum over all paths."""
    start, pairs, states = 0, 0, []
    for part in np.split(X, np.cumsum(lengths)[:-1]):
        emitted = densities(model, part)
        _, posteriors, _, _ = by_paths(model, part)
        start = start + posteriors[0]
        forward = [model.startprob_ * np.exp(emitted[0])]
        for t in range(1, len(part)):
            forward.append(forward[-1] @ model.transmat_ * np.exp(emitted[t]))
        backward = [np.ones(len(start))]
        for t in range(len(part) - 1, 0, -1):
            backward.insert(0, model.transmat_ @ (np.exp(emitted[t]) * backward[0]))
        for t in range(len(part) - 1):
            one = forward[t][:, None] * model.transmat_ * (np.exp(emitted[t + 1]) * backward[t + 1])
            pairs = pairs + one / one.sum()
        states.append(posteriors)
    posteriors = np.concatenate(states)
    return start / start.sum(), pairs / pairs.sum(axis=1, keepdims=True), posteriors


@pytest.mark.parametrize("name", MODELS)
def test_one_iteration_of_training(name):
    model, lengths = MODELS[name], [6, 5, 6]
    X, _ = model.sample(17, random_state=5)
    start, transitions, posteriors = em_step(model, X, lengths)
    before = model.score(X, lengths)
    trained = started(model, n_iter=1, **({} if name == "categorical" else FLAT))
    with pytest.warns(warpkov.ConvergenceWarning, match="after 1 iterations"):
        trained.fit(X, lengths)
    np.testing.assert_allclose(trained.startprob_, start, atol=1e-10)
    np.testing.assert_allclose(trained.transmat_, transitions, atol=1e-10)
    weights = posteriors / posteriors.sum(axis=0)
    if name == "categorical":
        for symbol in range(4):
            exact = weights[np.ravel(X) == symbol].sum(axis=0)
            np.testing.assert_allclose(trained.emissionprob_[:, symbol], exact, atol=1e-10)
    else:
        means = weights.T @ X
        np.testing.assert_allclose(trained.means_, means, atol=1e-8)
        difference = X[:, None] - means
        exact = np.einsum("ti,tia,tib->iab", weights, difference, difference)
        if name == "spherical":
            exact = np.stack([np.eye(2) * np.trace(matrix) / 2 for matrix in exact])
        elif name == "diag":
            exact = np.stack([np.diag(np.diag(matrix)) for matrix in exact])
        elif name == "tied":
            exact = np.stack([np.tensordot(posteriors.sum(axis=0), exact, 1) / len(X)] * 3)
        np.testing.assert_allclose(trained.covars_, exact, atol=1e-8)
    assert trained.monitor_.iter == 1 and trained.monitor_.history[0] == pytest.approx(before, rel=1e-12)
    assert trained.monitor_.history[1] == pytest.approx(trained.score(X, lengths), rel=1e-9)


def test_training_finds_a_model():
    truth = categorical(1, states=2, symbols=3)
    truth.transmat_ = np.array([[0.95, 0.05], [0.1, 0.9]])
    truth.emissionprob_ = np.array([[0.8, 0.15, 0.05], [0.05, 0.15, 0.8]])
    X, states = truth.sample(5000, random_state=1)
    found = CategoricalHMM(n_components=2, random_state=0, n_iter=500, tol=1e-4).fit(X)
    assert found.monitor_.converged and found.monitor_.iter < 500
    assert (np.diff(found.monitor_.history) >= -1e-6).all()
    order = found.emissionprob_[:, 0].argsort()[::-1]
    np.testing.assert_allclose(found.emissionprob_[order], truth.emissionprob_, atol=0.05)
    np.testing.assert_allclose(found.transmat_[np.ix_(order, order)], truth.transmat_, atol=0.05)
    assert (order.argsort()[found.predict(X)] == states).mean() > 0.9


@pytest.mark.parametrize("name", MODELS)
def test_frozen_parameters(name):
    model = MODELS[name]
    X, _ = model.sample(40, random_state=9)
    names = {"s": "startprob_", "t": "transmat_", "e": "emissionprob_", "m": "means_", "c": "covars_"}
    for letter in model._letters:
        trained = started(model, n_iter=500, tol=1e-4, params=letter).fit(X)
        for other in model._letters:
            same = np.array_equal(getattr(trained, names[other]), getattr(model, names[other]))
            assert same == (other != letter), (letter, other)
    none = started(model, n_iter=5, params="").fit(X)
    assert none.monitor_.converged and none.score(X) == model.score(X)


@pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")
@pytest.mark.parametrize("kind", TYPES)
def test_the_objective_never_falls(kind):
    random = np.random.default_rng(1)
    for seed in range(25):
        unit = 10.0 ** random.uniform(-20, 20)
        truth = gaussian(seed, states=3, dimensions=2, covariance_type=kind)
        X, _ = truth.sample(50, random_state=seed)
        weights = 10.0 ** random.uniform(-4, 3, size=5)
        model = started(
            gaussian(seed + 100, covariance_type=kind),
            n_iter=20,
            startprob_prior=1 + weights[0] * random.random(3),
            transmat_prior=1 + weights[1] * random.random((3, 3)),
            means_prior=unit * random.normal(size=(3, 2)),
            means_weight=weights[2] * random.random(3),
            covars_prior=weights[3] * unit**2,
            covars_weight=weights[4],
        )
        model.means_ *= unit
        model.covars_ *= unit**2
        model.fit(X * unit)
        objectives = np.array(model.monitor_.objectives)
        assert len(objectives) > 2
        assert (np.diff(objectives) >= -3e-7 * np.abs(objectives[1:]).clip(min=1)).all(), (seed, objectives)


def test_priors_pull():
    X, _ = gaussian(states=1).sample(100, random_state=1)
    held = GaussianHMM(1, means_prior=[5.0, -5.0], means_weight=1e9, random_state=0, n_iter=50).fit(X)
    np.testing.assert_allclose(held.means_, [[5.0, -5.0]], atol=1e-4)
    held = GaussianHMM(1, covars_prior=4e9, covars_weight=1e9, random_state=0, n_iter=50).fit(X)
    np.testing.assert_allclose(held.covars_, [np.diag([4.0, 4.0])], rtol=1e-3)
    prior = np.array([[1.0, 9.0], [1.0, 1.0]]) * 1e9 + 1
    held = CategoricalHMM(2, transmat_prior=prior, startprob_prior=[1e9, 1 + 3e9], random_state=0, n_iter=50)
    held.fit([[0], [1], [1], [0]])
    np.testing.assert_allclose(held.transmat_, [[0.1, 0.9], [0.5, 0.5]], atol=1e-6)
    np.testing.assert_allclose(held.startprob_, [0.25, 0.75], atol=1e-6)


def test_priors():
    X = [[0], [0], [0], [0]]
    free = CategoricalHMM(n_components=1, n_features=2, random_state=0).fit(X)
    assert free.emissionprob_.tolist() == [[1.0, 0.0]]
    held = CategoricalHMM(n_components=1, n_features=2, emissionprob_prior=3.0, random_state=0, n_iter=50).fit(X)
    np.testing.assert_allclose(held.emissionprob_, [[6 / 8, 2 / 8]], atol=1e-9)


def test_equal_seeds_give_equal_models():
    X, _ = gaussian().sample(300, random_state=2)
    one, two = (GaussianHMM(3, random_state=7, n_iter=200).fit(X) for _ in range(2))
    assert (one.means_ == two.means_).all() and (one.transmat_ == two.transmat_).all()
    for a, b in zip(one.sample(5), two.sample(5)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("kind", "shape"), [("spherical", (3,)), ("diag", (3, 2)), ("full", (3, 2, 2)), ("tied", (2, 2))]
)
def test_covariances(kind, shape):
    model = gaussian(covariance_type=kind)
    covars = model.covars_
    assert covars.shape == (3, 2, 2) and model._covars_.shape == shape
    model.covars_ = covars
    assert (model.covars_ == covars).all() and model._covars_.shape == shape
    model.covars_ = model._covars_.tolist()
    assert (model.covars_ == covars).all()
    X, _ = model.sample(60, random_state=0)
    trained = GaussianHMM(3, kind, random_state=0, n_iter=1000).fit(X)
    assert trained.covars_.shape == (3, 2, 2) and trained._covars_.shape == shape
    with pytest.raises(ValueError, match=rf"covars_ has shape \(4, 4, 4, 4\), expected .* covariance_type is '{kind}'"):
        model.covars_ = np.ones((4, 4, 4, 4))


def test_invalid_covariances():
    with pytest.raises(ValueError, match="beside the diagonal, and covariance_type is 'diag'"):
        gaussian().covars_ = np.ones((3, 2, 2))
    with pytest.raises(ValueError, match=r"covars_\[1, 0\] is -1, expected a positive variance"):
        gaussian().covars_ = [[1, 1], [-1, 1], [1, 1]]
    with pytest.raises(ValueError, match=r"covars_\[2\] is nan, expected a positive variance"):
        gaussian(covariance_type="spherical").covars_ = [1, 1, np.nan]
    with pytest.raises(ValueError, match="variances that differ, and covariance_type is 'spherical'"):
        gaussian(covariance_type="spherical").covars_ = [[1, 2], [1, 1], [1, 1]]
    with pytest.raises(ValueError, match="matrices that differ, and covariance_type is 'tied'"):
        gaussian(covariance_type="tied").covars_ = [np.eye(2), np.eye(2), 2 * np.eye(2)]
    with pytest.raises(ValueError, match=r"covars_\[1\] is not positive definite"):
        gaussian(covariance_type="full").covars_ = [np.eye(2), [[1, 2], [2, 1]], np.eye(2)]
    with pytest.raises(ValueError, match="covars_ is not symmetric"):
        gaussian(covariance_type="tied").covars_ = [[2, 1], [0, 2]]
    with pytest.raises(AttributeError, match="no covars_"):
        GaussianHMM().covars_


def test_monitor(capsys):
    X, _ = categorical().sample(200, random_state=0)
    model = CategoricalHMM(3, random_state=0, n_iter=500, tol=1e-3, verbose=True).fit(X)
    monitor = model.monitor_
    assert monitor.converged and monitor.iter == len(monitor.history) - 1 < 500 and monitor.n_iter == 500
    assert monitor.history == monitor.objectives and monitor.history[-1] == pytest.approx(model.score(X), rel=1e-12)
    assert 0 <= monitor.history[-1] - monitor.history[-2] < 1e-3 == monitor.tol and monitor.verbose
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(monitor.history) and lines[-1].split()[0] == str(monitor.iter)
    assert float(lines[1].split()[1]) == pytest.approx(monitor.history[1], abs=1e-7)
    # The objective counts, and it is the posterior.
    model = CategoricalHMM(3, random_state=0, n_iter=500, transmat_prior=2.0).fit(X)
    prior = model.monitor_.objectives[-1] - model.monitor_.history[-1]
    assert prior == pytest.approx(np.log(model.transmat_).sum(), rel=1e-9)


def test_an_own_monitor():
    class Enough(ConvergenceMonitor):
        @property
        def converged(self):
            return self.iter == self.n_iter or self.history[-1] >= self.tol

    X, _ = categorical().sample(200, random_state=0)
    model = CategoricalHMM(3, random_state=0, n_iter=500)
    start = CategoricalHMM(3, random_state=0, n_iter=0, tol=np.inf)
    with pytest.warns(warpkov.ConvergenceWarning):
        start.fit(X)
    model.monitor_ = Enough(start.score(X) + 1.0, model.monitor_.n_iter, model.monitor_.verbose)
    for _ in range(2):
        model.fit(X)
        assert model.monitor_.history[-1] >= model.monitor_.tol > model.monitor_.history[-2]

    class Broken(ConvergenceMonitor):
        def report(self, log_prob):
            raise ZeroDivisionError("told")

    model.monitor_ = Broken(1.0, 5)
    with pytest.raises(ZeroDivisionError, match="told"):
        model.fit(X)


def test_samples_continue():
    model = categorical()
    model.transmat_ = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    _, states = model.sample(5, random_state=0, currstate=1)
    assert states.tolist() == [1, 2, 0, 1, 2]
    with pytest.raises(ValueError, match="currstate is 3, expected a state below 3"):
        model.sample(2, currstate=3)


def test_stationary_distribution():
    for seed in range(5):
        model = categorical(seed)
        stationary = model.get_stationary_distribution()
        np.testing.assert_allclose(stationary @ model.transmat_, stationary, atol=1e-14)
        assert stationary.sum() == pytest.approx(1) and (stationary > 0).all()
    model.transmat_ = np.array([[1.0, 0.0, 0.0], [0.3, 0.3, 0.4], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(model.get_stationary_distribution(), [0.5, 0, 0.5], atol=1e-14)


def test_criteria():
    model, X = categorical(), [[0], [1], [2]]
    assert model.aic(X) == pytest.approx(2 * (2 + 6 + 9) - 2 * model.score(X))
    assert model.bic(X) == pytest.approx((2 + 6 + 9) * np.log(3) - 2 * model.score(X))
    for kind, entries in (("spherical", 3), ("diag", 6), ("full", 9), ("tied", 3)):
        model = gaussian(covariance_type=kind)
        X, _ = model.sample(7, random_state=0)
        assert model.aic(X) == pytest.approx(2 * (2 + 6 + 6 + entries) - 2 * model.score(X))


def test_impossible_sequences():
    model = categorical(symbols=2)
    model.emissionprob_ = np.array([[1.0, 0.0]] * 3)
    assert model.score([[1]]) == -np.inf and (model.predict_proba([[1]]) == 0).all()
    for algorithm in ("viterbi", "map"):
        assert model.decode([[0], [1]], [1, 1], algorithm)[1].tolist()[1] == -1


@pytest.mark.parametrize(
    ("change", "X", "message"),
    [
        ({"n_components": 0}, [[0]], "n_components is 0"),
        ({"init_params": "sx"}, [[0]], "init_params has 'x'"),
        ({"device": "gpu"}, [[0]], "device is 'gpu'"),
        ({"precision": "f16"}, [[0]], "precision is 'f16', expected one of f32, tf32, f64|precision is 'f16'"),
        ({"startprob_prior": 0.5}, [[0]], "startprob_prior is 0.5, expected numbers of at least 1"),
        ({"transmat_prior": [1.0, 2.0, 3.0]}, [[0]], r"transmat_prior has shape \(3,\), .* to \(1, 1\)"),
        ({"emissionprob_prior": [[np.nan]]}, [[0]], "emissionprob_prior is nan"),
        ({"params": "sm"}, [[0]], "params has 'm', expected letters of 'ste'"),
        ({"n_iter": -1}, [[0]], "n_iter is -1, expected an integer of at least 0"),
        ({"implementation": "exact"}, [[0]], "implementation is 'exact', expected 'log' or 'scaling'"),
        ({"n_features": 2}, [[2]], r"X\[0, 0\] is 2, expected a symbol below 2"),
        ({}, [[0], [-1]], r"X\[1, 0\] is -1, expected a symbol from 0"),
        ({}, [[0.5]], "expected .* symbols from 0"),
        ({}, [], "expected .* symbols from 0"),
    ],
)
def test_errors(change, X, message):
    with pytest.raises(ValueError, match=message):
        CategoricalHMM(**{"random_state": 0, **change}).fit(X)


def test_more_errors():
    with pytest.raises(ValueError, match="call fit"):
        CategoricalHMM().score([[0]])
    with pytest.raises(ValueError, match="lengths sums to 2, expected the number of observations, 3"):
        categorical().score([[0], [1], [2]], [1, 1])
    with pytest.raises(ValueError, match="covariance_type is 'round', expected one of spherical, diag, full, tied"):
        GaussianHMM(covariance_type="round").fit([[0.0]])
    with pytest.raises(ValueError, match=r"X\[1, 0\] is -inf, expected a finite number, or NaN where it is missing"):
        GaussianHMM().fit([[0.0], [-np.inf]])
    with pytest.raises(ValueError, match=r"X\[:, 1\] has only missing numbers"):
        GaussianHMM().fit([[0.0, np.nan], [1.0, np.nan]])
    with pytest.raises(ValueError, match="covars_prior is not positive semidefinite"):
        GaussianHMM(1, "full", covars_prior=[[1.0, 2.0], [2.0, 1.0]], random_state=0).fit(np.eye(2))
    with pytest.raises(ValueError, match="means_weight of state 0 is -1, expected a number of at least 0"):
        GaussianHMM(means_weight=-1.0, random_state=0).fit([[0.0]])
    with pytest.raises(ValueError, match="X has 1 features, but GaussianHMM is expecting 2 features as input"):
        gaussian().score([[0.0]])
    with pytest.raises(warpkov.NotFittedError, match="this GaussianHMM has no startprob_"):
        GaussianHMM().predict([[0.0]])
    with pytest.raises(AttributeError, match="n_features is that of means_"):
        GaussianHMM().n_features
    wrong = categorical()
    wrong.transmat_ = wrong.transmat_ * 0.9
    with pytest.raises(ValueError, match=r"transmat_\[0\] sums to 0.9"):
        wrong.score([[0]])
    wrong.transmat_ = np.eye(2)
    with pytest.raises(ValueError, match=r"transmat_ has shape \(2, 2\), expected \(3, 3\)"):
        wrong.score([[0]])


def test_parameters():
    model = GaussianHMM(2, "full", n_iter=5)
    assert model.get_params()["covariance_type"] == "full"
    assert model.set_params(n_components=4) is model and model.n_components == 4
    assert repr(model) == "GaussianHMM(n_components=4, covariance_type='full', n_iter=5)"
    with pytest.raises(ValueError, match="no parameter 'n_states'"):
        model.set_params(n_states=3)


def test_pickling():
    X, _ = gaussian().sample(100, random_state=0)
    model = GaussianHMM(2, "tied", random_state=0, n_iter=200).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.score(X) == model.score(X) and copy.monitor_.history == model.monitor_.history


def partial(model, seed=0, steps=7):
    """Observations of a model, of which numbers and whole vectors are missing."""
    random = np.random.default_rng(seed)
    X = model.sample(steps, random_state=seed)[0]
    X[random.random(X.shape) < 0.3] = np.nan
    X[random.random(steps) < 0.2] = np.nan
    return X


def marginal_densities(model, X):
    """ln b_i(x_t) of the numbers that are there."""
    logs = np.zeros((len(X), model.n_components))
    for t, x in enumerate(X):
        seen = ~np.isnan(x)
        for i, (mean, covariance) in enumerate(zip(model.means_, model.covars_)):
            part = GaussianHMM(1, "full")
            part.means_, part.covars_ = mean[None, seen], covariance[None, seen][:, :, seen]
            if seen.any():
                logs[t, i] = densities(part, x[None, seen])[0, 0]
    return logs


@pytest.mark.parametrize("covariance_type", ["spherical", "diag", "full", "tied"])
@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_missing_numbers_are_integrated_out(covariance_type, device):
    for seed in range(6):
        model = gaussian(seed, states=2, dimensions=3, covariance_type=covariance_type)
        model.device = device
        X = partial(model, seed)
        emitted = marginal_densities(model, X)
        paths = np.array(list(itertools.product(range(2), repeat=len(X))))
        logs = np.log(model.startprob_[paths[:, 0]]) + emitted[np.arange(len(X)), paths].sum(axis=1)
        logs += np.log(model.transmat_[paths[:, :-1], paths[:, 1:]]).sum(axis=1)
        expected = np.logaddexp.reduce(logs)
        assert model.score(X) == pytest.approx(expected, rel=1e-11)
        assert model.score(np.ma.masked_invalid(X)) == model.score(X)
        assert model.decode(X)[0] == pytest.approx(logs.max(), rel=1e-11)
        assert (model.predict(X) == paths[logs.argmax()]).all()
        weights = np.exp(logs - expected)
        gamma = np.stack([(weights[:, None] * (paths == i)).sum(axis=0) for i in range(2)], axis=1)
        np.testing.assert_allclose(model.predict_proba(X), gamma, atol=1e-11)
        probs, so_far = model.filter(X)
        np.testing.assert_allclose(probs[-1], gamma[-1], atol=1e-11)
        assert so_far[-1] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("covariance_type", ["spherical", "diag", "full", "tied"])
def test_training_with_missing_numbers(covariance_type):
    source = gaussian(3, states=2, dimensions=2, covariance_type=covariance_type)
    X = partial(source, 5, steps=600)
    none = {"covars_prior": 0, "covars_weight": 0, "min_covar": 0}
    model = GaussianHMM(2, covariance_type, random_state=1, n_iter=60, tol=1e-4, **none).fit(X, [200, 400])
    history = np.array(model.monitor_.history)
    assert len(history) > 3 and (np.diff(history) > -1e-8).all()
    # From the parameters of the source, the maximum is above it.
    trained = copy.deepcopy(source).set_params(init_params="", n_iter=60, tol=1e-4, **none).fit(X, [200, 400])
    assert trained.score(X, [200, 400]) > source.score(X, [200, 400])


def test_one_state_with_missing_numbers_has_andersons_estimates():
    x = np.array([1.0, 2.0, 0.5, 3.0, 4.0, 2.5, 1.5, 6.0, -2.0])
    y = np.array([2.5, 3.0, 1.0, 5.5, 5.0, 4.5])
    X = np.stack([x, np.append(y, [np.nan] * 3)], axis=1)
    model = GaussianHMM(1, "full", n_iter=2000, tol=1e-14, covars_prior=0, covars_weight=0, min_covar=0).fit(X)
    slope = np.cov(x[:6], y, bias=True)[0, 1] / x[:6].var()
    mean = y.mean() + slope * (x.mean() - x[:6].mean())
    np.testing.assert_allclose(model.means_, [[x.mean(), mean]], rtol=1e-6)
    rest = y.var() - slope**2 * x[:6].var()
    expected = [[x.var(), slope * x.var()], [slope * x.var(), rest + slope**2 * x.var()]]
    np.testing.assert_allclose(model.covars_[0], expected, rtol=1e-5)


def test_filter_treats_impossible_observations():
    ring = CategoricalHMM(2)
    ring.startprob_, ring.transmat_ = [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]]
    ring.emissionprob_ = np.eye(2)
    X = [[0], [0], [1], [1]]
    with pytest.raises(ValueError, match=r"X\[1\]: the model cannot emit this after the observations before it"):
        ring.filter(X)
    probs, logs = ring.filter(X, on_error="missing")
    np.testing.assert_array_equal(probs, [[1, 0], [0, 1], [1, 0], [0, 1]])
    probs, logs = ring.filter(X, on_error="restart")
    np.testing.assert_array_equal(probs, [[1, 0], [1, 0], [0, 1], [0, 1]])
    np.testing.assert_allclose(logs, np.log(0.5))
    # The second sequence begins anew.
    assert ring.filter(X, [1, 3], on_error="restart")[1].tolist() == logs.tolist()
    with pytest.raises(ValueError, match=r"X\[2, 0\] is 7, expected a symbol below 2"):
        ring.filter([[0], [1], [7]])
    assert ring.filter([[0], [1], [7]], on_error="missing")[0].tolist() == [[1, 0], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="on_error is 'skip', expected 'stop', 'missing' or 'restart'"):
        ring.filter(X, on_error="skip")
    normal = gaussian(2)
    with pytest.raises(ValueError, match=r"X\[1\] is not finite, expected 2 finite numbers, or NaN"):
        normal.filter([[0.0, 1.0], [np.inf, 0.0]])
    found = normal.filter([[0.0, 1.0], [np.inf, 0.0]], on_error="missing")
    np.testing.assert_array_equal(found[0], normal.filter([[0.0, 1.0], [np.nan, np.nan]])[0])


def test_wrong_kinds_of_covariances():
    model = GaussianHMM(2, "foo")
    for use in (lambda: setattr(model, "covars_", [[1.0], [1.0]]), model._check, lambda: model.fit([[0.0], [1.0]])):
        with pytest.raises(ValueError, match="covariance_type is 'foo'|call fit"):
            use()
    nested = GaussianHMM(2, "spherical")
    nested.covars_ = [[[[4.0]]], [[[3.0]]]]
    assert nested._covars_.tolist() == [4.0, 3.0]


def test_warnings_of_fit(caplog):
    model = gaussian(1, states=2, dimensions=1)
    X = model.sample(200, random_state=0)[0]
    model.init_params = "sc"
    model.fit(X)
    told = [record.getMessage() for record in caplog.records]
    assert [record.name for record in caplog.records] == ["warpkov.hmm"] * 2
    assert "'startprob_' attribute is set, it will be overwritten" in told[0] and "contains 's'" in told[0]
    assert "'covars_'" in told[1]
    caplog.clear()
    GaussianHMM(2, "full", random_state=0, n_iter=1, tol=np.inf).fit(np.random.default_rng(0).normal(size=(4, 2)))
    # 1 + 2 + 4 + 6 parameters.
    assert [record.getMessage() for record in caplog.records] == [
        "Fitting a model with 13 free scalar parameters with only 8 data points will result in a degenerate solution."
    ]
    caplog.clear()
    GaussianHMM(2, "full", random_state=0, n_iter=1, tol=np.inf, params="st").fit(np.zeros((4, 2)) + np.eye(4)[:, :2])
    CategoricalHMM(2, random_state=0, n_iter=1, tol=np.inf).fit([[0], [1]] * 20)
    assert not caplog.records


def test_the_number_of_symbols():
    model = CategoricalHMM(2, random_state=0, n_iter=1, tol=np.inf)
    assert model.n_features is None
    model.fit([[0], [2], [1]])
    assert model.n_features == 3 and model.get_params()["n_features"] is None
    model = CategoricalHMM(2, random_state=0, n_features=5, n_iter=1, tol=np.inf).fit([[0], [2], [1]])
    assert model.n_features == 5 == model.emissionprob_.shape[1]
    model._check_and_set_n_features(np.array([[0], [4]], dtype=np.uint8))
    for wrong in (np.array([[5]]), np.array([[-1]]), np.array([[1.0]])):
        with pytest.raises(ValueError, match="X has"):
            model._check_and_set_n_features(wrong)
    for wrong in ([], np.zeros((0, 3)), [[0.5, 0.6], [0.5, 0.5]]):
        model.emissionprob_ = wrong
        with pytest.raises(ValueError, match="emissionprob_"):
            model._check()


def test_initialisation_alone():
    X = gaussian(4).sample(50, random_state=0)[0]
    model = GaussianHMM(3, init_params="c", random_state=0)
    model._init(X, [50])
    assert model._covars_.flags.writeable and model._covars_.shape == (3, 2)
    model._check()
    model.startprob_ = model.startprob_ * 2
    with pytest.raises(ValueError, match="startprob_"):
        model._check()


def test_a_monitor_by_itself(capsys):
    monitor = ConvergenceMonitor(tol=1e-3, n_iter=2, verbose=True)
    monitor.report(-0.01)
    assert not monitor.converged and (monitor.iter, monitor.history) == (1, [-0.01])
    assert capsys.readouterr().err.splitlines() == [monitor._template.format(iter=1, log_prob=-0.01, delta=np.nan)]
    monitor.report(-0.001)
    # All iterations are done.
    assert monitor.converged
    monitor._reset()
    assert monitor.iter == 0 and not monitor.history and not monitor.converged
    monitor = ConvergenceMonitor(tol=1e-3, n_iter=10, verbose=False)
    for log_prob in (-0.03, -0.02, -0.01):
        monitor.report(log_prob)
        assert not monitor.converged
    monitor.report(-0.0101)
    assert monitor.converged


@pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")
@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_known_states_are_counted(device):
    X, y = np.array([0, 1, 2, 2, 0, 1, 1]), np.array([0, 0, 1, 1, 0, 0, 1])
    model = CategoricalHMM(2, n_iter=1, random_state=1, device=device)
    model.fit(X, [4, 3], y=y, sample_weight=[3, 1])
    np.testing.assert_allclose(model.startprob_, [1, 0], atol=1e-12)
    np.testing.assert_allclose(model.transmat_, [[0.5, 0.5], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(model.emissionprob_, [[0.5, 0.5, 0], [0, 1 / 7, 6 / 7]], atol=1e-12)
    gaussian = GaussianHMM(2, n_iter=1, random_state=1, device=device, covars_prior=0)
    gaussian.fit(X[:, None].astype(float), [4, 3], y=y)
    np.testing.assert_allclose(gaussian.means_, [[0.5], [5 / 3]], atol=1e-12)


@pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")
def test_some_known_states_and_weights():
    X, y = np.array([[0], [1], [1], [0], [1], [1]]), np.array([0, -1, -1, -1, 1, -1])
    model = CategoricalHMM(2, n_iter=5, random_state=2)
    known = copy.copy(model).fit(X, y=y)
    assert not np.allclose(known.transmat_, copy.copy(model).fit(X).transmat_)
    unknown = copy.copy(model).fit(X, y=np.full(6, -1))
    np.testing.assert_array_equal(unknown.transmat_, copy.copy(model).fit(X).transmat_)
    weighted = copy.copy(model).fit(X, [4, 2], sample_weight=[1, 2])
    copies = copy.copy(model).fit(np.concatenate([X, X[4:]]), [4, 2, 2])
    np.testing.assert_allclose(weighted.transmat_, copies.transmat_, rtol=1e-9)
    for arguments, message in [
        ({"y": [0, 1]}, "y has shape"),
        ({"y": [0, 0, 0, 0, 0, 2]}, r"y\[5\] is 2, expected a state below 2"),
        ({"sample_weight": [1.0, 2.0]}, "sample_weight has shape"),
        ({"sample_weight": [-1.0]}, "the weight of sequence 1 is -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            copy.copy(model).fit(X, **arguments)


@pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")
@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_tied_states_share_their_emissions(device):
    X = np.random.default_rng(5).integers(3, size=(60, 1))
    model = CategoricalHMM(3, n_iter=4, random_state=1, device=device).fit(X, ties=[7, 2, 7])
    np.testing.assert_array_equal(model.emissionprob_[0], model.emissionprob_[2])
    assert not np.allclose(model.emissionprob_[0], model.emissionprob_[1])
    vectors = GaussianHMM(3, "full", n_iter=4, random_state=1, device=device, covars_prior=0)
    vectors.fit(np.random.default_rng(6).normal(size=(60, 2)), ties=[0, 0, 1])
    np.testing.assert_array_equal(vectors.means_[0], vectors.means_[1])
    np.testing.assert_array_equal(vectors.covars_[0], vectors.covars_[1])
    with pytest.raises(ValueError, match="ties has shape"):
        model.fit(X, ties=[0, 1])


@pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")
@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_tied_transitions_are_equal(device):
    X = np.random.default_rng(5).integers(3, size=(60, 1))
    ties = np.array([[4, 9, -1], [-7, 4, 9], [9, -1, 4]])
    model = CategoricalHMM(3, n_iter=4, random_state=1, device=device).fit(X, transition_ties=ties)
    for label in (4, 9):
        assert len(set(model.transmat_[ties == label])) == 1
    # What each row has on its own remains.
    assert len(set(model.transmat_.ravel())) == 3
    np.testing.assert_allclose(model.transmat_.sum(axis=1), 1, atol=1e-14)
    with pytest.raises(ValueError, match="transition_ties has shape"):
        model.fit(X, transition_ties=[0, 1, 2])
    with pytest.raises(ValueError, match="share a class of tied transitions"):
        model.fit(X, transition_ties=[[1, 2, 3], [1, 1, 1], [-1, -1, -1]])
    with pytest.raises(ValueError, match="params leaves out"):
        CategoricalHMM(3, params="se").fit(X, transition_ties=ties)
    with pytest.raises(ValueError, match="not for variational"):
        hmm.VariationalCategoricalHMM(3).fit(X, transition_ties=ties)


@pytest.mark.parametrize("extension", ["json", "npz", "hmm"])
def test_files_of_symbols(extension, tmp_path):
    random = np.random.default_rng(3)
    model = CategoricalHMM(3)
    model.startprob_, model.transmat_ = random.dirichlet(np.ones(3)), random.dirichlet(np.ones(3), size=3)
    model.emissionprob_ = random.dirichlet(np.ones(5), size=3)
    hmm.save(model, tmp_path / f"model.{extension}")
    again = hmm.load(tmp_path / f"model.{extension}")
    assert isinstance(again, CategoricalHMM) and again.n_components == 3
    for name in ("startprob_", "transmat_", "emissionprob_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    X = random.integers(5, size=(20, 1))
    assert again.score(X) == model.score(X)


@pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")
@pytest.mark.parametrize("extension", ["json", "npz"])
@pytest.mark.parametrize("kind", ["spherical", "diag", "full", "tied"])
def test_files_of_vectors(kind, extension, tmp_path):
    X = np.random.default_rng(4).normal(size=(60, 2))
    model = GaussianHMM(2, kind, random_state=0, n_iter=3).fit(X)
    hmm.save(model, tmp_path / f"model.{extension}")
    again = hmm.load(tmp_path / f"model.{extension}")
    assert again.covariance_type == ("diag" if kind in ("spherical", "diag") else "full")
    assert again.score(X) == model.score(X)
    with pytest.raises(ValueError, match="UMDHMM"):
        hmm.save(model, tmp_path / "model.hmm")


def test_files_that_are_no_model(tmp_path):
    with pytest.raises(FileNotFoundError):
        hmm.load(tmp_path / "absent.json")
    with pytest.raises(ValueError, match="format"):
        hmm.load(tmp_path / "absent.json", format="xml")
    file = tmp_path / "ends.json"
    file.write_text('{"pi": [1], "A": [[0.5]], "B": [[1]], "end": [0.5]}')
    with pytest.raises(ValueError, match="end probabilities"):
        hmm.load(file)


@pytest.mark.parametrize(
    "family, parameters",
    [
        ("random", {"states": 3, "symbols": 4, "seed": 7}),
        ("random", {"states": 2, "symbols": ["A", "C", "G", "T"]}),
        ("left_right", {"states": 5, "jump": 2, "dimensions": 2, "full": True}),
    ],
)
def test_models_of_families_are_those_of_the_command(family, parameters, tmp_path):
    model = hmm.generate(family, **parameters)
    options = [f"--{name}={','.join(value) if isinstance(value, list) else value}" for name, value in parameters.items()]
    options = ["--full" if option == "--full=True" else option for option in options]
    command = [sys.executable, "-m", "warpkov", "hmm", "generate", family.replace("_", "-"), *options]
    subprocess.run([*command, "--out", tmp_path / "model.json"], check=True, timeout=60)
    expected = hmm.load(tmp_path / "model.json")
    assert type(model) is type(expected) and model.n_components == expected.n_components
    names = ["startprob_", "transmat_"]
    names += ["emissionprob_"] if isinstance(model, CategoricalHMM) else ["means_", "covars_"]
    for name in names:
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))


def test_families_that_are_none():
    with pytest.raises(ValueError, match="casino"):
        hmm.generate("casino")
    with pytest.raises(ValueError, match="--stats"):
        hmm.generate("random", stats=3)
    with pytest.raises(ValueError, match="ice-cream: the model has end probabilities"):
        hmm.generate("ice_cream")


def test_restarts_are_one_batch_of_which_the_best_is_returned():
    X, _ = gaussian(5).sample(300, random_state=1)
    lengths = [100, 150, 50]
    model = GaussianHMM(3, random_state=4, n_iter=200, tol=1e-3)
    model.fit(X, lengths, restarts=4)
    logs, history = model.restart_log_probs_, model.monitor_.history
    assert logs.shape == (5,) and len(set(logs.round(9))) > 1
    assert history[-1] == logs.max() == pytest.approx(model.score(X, lengths), rel=1e-12)
    assert model.monitor_.converged and (np.diff(model.monitor_.objectives) > -1e-9).all()
    # The first start is that of a training alone, and equal seeds give equal bits.
    assert GaussianHMM(3, random_state=4, n_iter=200, tol=1e-3).fit(X, lengths).restart_log_probs_ == logs[:1]
    again = GaussianHMM(3, random_state=4, n_iter=200, tol=1e-3).fit(X, lengths, restarts=4)
    assert (again.restart_log_probs_ == logs).all() and (again.means_ == model.means_).all()
    # Parameters that are given stay the start of the first model alone.
    started = gaussian(5)
    started.init_params, started.n_iter = "", 50
    started.fit(X, lengths, restarts=2)
    assert len(set(started.restart_log_probs_.round(9))) > 1
    with pytest.raises(ValueError, match="restarts is -1"):
        model.fit(X, restarts=-1)


def test_viterbi_training_raises_the_probability_of_the_best_path():
    for model in (categorical(7), gaussian(7)):
        X, _ = model.sample(120, random_state=2)
        start = copy.deepcopy(model)
        start.init_params, start.n_iter, start.tol = "", 100, 0.0
        start.fit(X, [60, 60], by="viterbi")
        history = start.monitor_.history
        assert history[0] == pytest.approx(model.decode(X, [60, 60])[0], rel=1e-10)
        assert history[-1] == pytest.approx(start.decode(X, [60, 60])[0], rel=1e-10)
        assert (np.diff(start.monitor_.objectives) > -1e-9).all() and start.monitor_.converged
        # The parameters of the chain are the frequencies of the path.
        _, path = start.decode(X, [60, 60])
        moves = np.zeros((3, 3))
        for part in (path[:60], path[60:]):
            np.add.at(moves, (part[:-1], part[1:]), 1.0)
        visited = moves.sum(axis=1) > 0
        rows = moves[visited] / moves[visited].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(start.transmat_[visited], rows, atol=1e-12)
    with pytest.raises(ValueError, match="by is 'em'"):
        start.fit(X, by="em")


def test_select_finds_the_number_of_states():
    source = GaussianHMM(2)
    source.startprob_, source.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    source.means_, source.covars_ = [[0.0], [6.0]], [[1.0], [1.0]]
    X = np.concatenate([source.sample(80, random_state=seed)[0] for seed in range(6)])
    model = GaussianHMM(random_state=0, n_iter=100, tol=1e-4)
    for held_out in (0.0, 0.34):
        best, candidates = hmm.select(model, X, [80] * 6, n_components=(1, 2, 3), restarts=2, held_out=held_out)
        assert [one.n_components for one in candidates] == [1, 2, 3] and best is candidates[best.n_components - 1].model
        if held_out == 0.0:
            assert best.n_components == 2 and candidates[0].held_out is None
            assert candidates[1].bic == best.bic(X, [80] * 6) == min(one.bic for one in candidates)
            assert candidates[1].log_prob == pytest.approx(best.score(X, [80] * 6))
        else:
            assert best.n_components > 1
            assert max(candidates, key=lambda one: one.held_out).model is best
            # Two sequences are held out.
            assert candidates[0].log_prob + candidates[0].held_out == pytest.approx(candidates[0].model.score(X, [80] * 6))
    symbols = np.array([[0], [1], [0], [5]] * 3)
    assert hmm.select(CategoricalHMM(), symbols, [4] * 3, n_components=[1], held_out=0.5).best.n_features == 6
    for wrong, message in [({"held_out": 1.0}, "held_out is 1.0"), ({"n_components": []}, "n_components is empty")]:
        with pytest.raises(ValueError, match=message):
            hmm.select(model, X, **wrong)
    with pytest.raises(ValueError, match="at least 2"):
        hmm.select(model, X, held_out=0.5)
    assert not hasattr(model, "means_")


def test_sticky_priors_make_states_last():
    X, _ = categorical(3).sample(200, random_state=1)
    plain, sticky = (
        CategoricalHMM(3, random_state=0, n_iter=30, transmat_prior=1 + k * np.eye(3)).fit(X) for k in (0, 50)
    )
    assert np.diag(sticky.transmat_).min() > np.diag(plain.transmat_).min()


def test_variational_training_raises_its_bound():
    X, _ = gaussian(5).sample(300, random_state=1)
    lengths = [100, 150, 50]
    for kind in ("full", "tied", "diag"):
        model = hmm.VariationalGaussianHMM(3, kind, random_state=4, n_iter=500, tol=1e-5).fit(X, lengths, restarts=2)
        bounds = np.array(model.monitor_.history)
        assert (np.diff(bounds) > -1e-9 * np.abs(bounds[:-1])).all() and model.monitor_.converged
        assert bounds[-1] == model.restart_log_probs_.max() < model.score(X, lengths)
        # The counts of the data are in the posterior.
        assert model.beta_posterior_.sum() == pytest.approx(3 + 300)
        assert model.transmat_posterior_.sum() == pytest.approx(model.transmat_prior_.sum() + 297)
        assert np.sum(model.dof_posterior_) == pytest.approx(np.sum(model.dof_prior_) + 300)
        np.testing.assert_allclose(model.transmat_.sum(axis=1), 1)
        assert model.covars_.shape == (3, 2, 2) and model.predict(X, lengths).shape == (300,)
        twin = pickle.loads(pickle.dumps(model))
        assert (twin.scale_posterior_ == model.scale_posterior_).all()
        assert copy.deepcopy(model).get_params() == model.get_params()
    symbols, _ = categorical(3).sample(200, random_state=1)
    model = hmm.VariationalCategoricalHMM(5, random_state=4, n_iter=500).fit(symbols, restarts=3)
    assert (np.diff(model.monitor_.history) > -1e-9).all()
    assert model.emissionprob_posterior_.sum() == pytest.approx(5 + 200)
    # It goes on from what it has.
    model.init_params = ""
    before = model.monitor_.history[-1]
    assert model.fit(symbols).monitor_.history[0] == pytest.approx(before, rel=1e-12)
    # A prior of 0 is a probability of 0.
    prior = np.triu(np.ones((3, 3)))
    chain = hmm.VariationalCategoricalHMM(3, transmat_prior=prior, random_state=1).fit(symbols)
    assert (chain.transmat_[prior == 0] == 0).all() and (np.diff(chain.monitor_.history) > -1e-9).all()
    for wrong, message in [
        (lambda: hmm.VariationalGaussianHMM(2, "spherical").fit(X), "covariance_type is 'spherical'"),
        (lambda: hmm.VariationalGaussianHMM(2, params="stm").fit(X), "both of 'm' and 'c'"),
        (lambda: hmm.VariationalGaussianHMM(2).fit([[0.0], [np.nan]]), "missing numbers"),
        (lambda: hmm.VariationalGaussianHMM(2, dof_prior=0.5).fit(X), "nu = 0.5"),
        (lambda: hmm.VariationalCategoricalHMM(2).fit(symbols, by="viterbi"), "not for variational Bayes"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
