"""Hidden Markov models against sums over all paths, and under the conventions of scikit-learn."""

import itertools

import numpy as np
import pytest

import warpkov
from warpkov.hmm import CategoricalHMM, GaussianHMM


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
    if covariance_type == "full":
        model.covars_ = root @ root.transpose(0, 2, 1) + np.eye(dimensions)
    else:
        model.covars_ = random.random((states, dimensions)) + 0.5
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


MODELS = {
    "categorical": categorical(),
    "diag": gaussian(),
    "full": gaussian(covariance_type="full"),
}


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
    trained = type(model)(**{**model.get_params(), "n_iter": 1, "init_params": "", "tol": 0.0})
    trained.startprob_, trained.transmat_ = model.startprob_, model.transmat_
    if name == "categorical":
        trained.emissionprob_ = model.emissionprob_
    else:
        trained.means_, trained.covars_ = model.means_, model.covars_
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
        for i, covariance in enumerate(trained.covars_):
            difference = X - means[i]
            exact = (weights[:, i] * difference.T) @ difference
            np.testing.assert_allclose(covariance, np.diag(np.diag(exact)) if name == "diag" else exact, atol=1e-8)
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


def test_covariances():
    model = gaussian()
    assert model.covars_.shape == (3, 2, 2)
    model.covars_ = model.covars_
    assert model._covars_.shape == (3, 2)
    with pytest.raises(ValueError, match="beside the diagonal"):
        model.covars_ = np.ones((3, 2, 2))


@pytest.mark.parametrize(
    ("change", "X", "message"),
    [
        ({"n_components": 0}, [[0]], "n_components is 0"),
        ({"init_params": "sx"}, [[0]], "init_params has 'x'"),
        ({"device": "gpu"}, [[0]], "device is 'gpu'"),
        ({"precision": "f16"}, [[0]], "precision is 'f16', expected one of f32, tf32, f64|precision is 'f16'"),
        ({"startprob_prior": 0.5}, [[0]], "the prior of start is 0.5"),
        ({"n_features": 2}, [[2]], "sequence 1, position 1: found symbol 2, expected one below 2"),
        ({}, [[-1]], "expected .* symbols from 0"),
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
    with pytest.raises(ValueError, match="covariance_type is 'tied', expected 'diag' or 'full'"):
        GaussianHMM(covariance_type="tied").fit([[0.0]])
    with pytest.raises(ValueError, match=r"X\[1, 0\] is nan, expected a finite number"):
        GaussianHMM().fit([[0.0], [np.nan]])
    wrong = categorical()
    wrong.transmat_ = wrong.transmat_ * 0.9
    with pytest.raises(ValueError, match=r"A\[0\] sums to 0.9"):
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


@pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")
def test_scikit_learn():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, _ = gaussian(states=2).sample(400, random_state=4)
    model = GaussianHMM(2, random_state=0, n_iter=20)
    copy = sklearn.clone(model.fit(X))
    assert copy.get_params() == model.get_params() and not hasattr(copy, "means_")
    pipeline = make_pipeline(StandardScaler(), GaussianHMM(2, random_state=0, n_iter=20)).fit(X)
    assert pipeline.predict(X).shape == (400,) and np.isfinite(pipeline.score(X))
    search = GridSearchCV(GaussianHMM(random_state=0, n_iter=20), {"n_components": [1, 2]}, cv=2).fit(X)
    assert search.best_params_ == {"n_components": 2}


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_hmmlearn(covariance_type):
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    for mine, theirs in (
        (categorical(2), hmmlearn.CategoricalHMM(n_components=3)),
        (gaussian(2, covariance_type=covariance_type), hmmlearn.GaussianHMM(3, covariance_type)),
    ):
        X, _ = mine.sample(60, random_state=6)
        lengths = [25, 35]
        theirs.startprob_, theirs.transmat_ = mine.startprob_, mine.transmat_
        if hasattr(mine, "means_"):
            theirs.n_features, theirs.means_, theirs.covars_ = 2, mine.means_, mine._covars_
            np.testing.assert_allclose(theirs.covars_, mine.covars_)
        else:
            theirs.emissionprob_ = mine.emissionprob_
        assert mine.score(X, lengths) == pytest.approx(theirs.score(X, lengths), rel=1e-10)
        np.testing.assert_allclose(mine.predict_proba(X, lengths), theirs.predict_proba(X, lengths), atol=1e-10)
        for algorithm in ("viterbi", "map"):
            found, expected = mine.decode(X, lengths, algorithm), theirs.decode(X, lengths, algorithm)
            assert found[0] == pytest.approx(expected[0], rel=1e-10) and (found[1] == expected[1]).all()
