"""What hmmlearn's tutorials do, done with this package."""

import numpy as np
import pytest

from warpkov.hmm import CategoricalHMM, GaussianHMM


def best_of(starts, make, X, **fit):
    """The best of several random starts."""
    models = (make(seed).fit(X, **fit) for seed in range(starts))
    return max(models, key=lambda model: model.score(X, **fit))


def matched(found, states):
    """The share of states that agree after renaming the found ones."""
    names = {k: np.bincount(states[found == k]).argmax() for k in np.unique(found)}
    return np.mean([names[k] for k in found] == states)


def casino():
    """A dealer changes between a fair and a loaded die; six comes up half of the time with the loaded one."""
    model = CategoricalHMM(n_components=2)
    model.startprob_ = np.array([1.0, 0.0])
    model.transmat_ = np.array([[0.95, 0.05], [0.10, 0.90]])
    model.emissionprob_ = np.array([[1 / 6] * 6, [1 / 10] * 5 + [1 / 2]])
    return model


def test_casino():
    dealer = casino()
    rolls, dice = dealer.sample(20_000, random_state=1)
    train, validate = rolls[:10_000], rolls[10_000:]
    models = [CategoricalHMM(2, n_iter=500, random_state=seed).fit(train) for seed in range(5)]
    model = max(models, key=lambda model: model.score(validate))
    loaded = model.emissionprob_[:, 5].argmax()
    np.testing.assert_allclose(model.emissionprob_[loaded], dealer.emissionprob_[1], atol=0.05)
    np.testing.assert_allclose(model.emissionprob_[1 - loaded], dealer.emissionprob_[0], atol=0.05)
    np.testing.assert_allclose(model.transmat_[loaded, loaded], 0.90, atol=0.05)
    assert matched(model.predict(rolls), dice) > 0.75
    # The dealer's own model guesses as well as any.
    assert abs(matched(model.predict(rolls), dice) - (dealer.predict(rolls) == dice).mean()) < 0.02
    # A loaded die is in use for a third of the time.
    np.testing.assert_allclose(dealer.get_stationary_distribution(), [2 / 3, 1 / 3], atol=1e-12)
    assert dice.mean() == pytest.approx(1 / 3, abs=0.02)


def test_path_and_states():
    # The most probable path is possible; the most probable states of each roll need not be one.
    model = casino()
    rolls, dice = model.sample(500, random_state=4)
    log_prob, path = model.decode(rolls)
    steps = np.log(model.startprob_[path[0]]) + np.log(model.transmat_[path[:-1], path[1:]]).sum()
    assert log_prob == pytest.approx(steps + np.log(model.emissionprob_[path, rolls[:, 0]]).sum(), rel=1e-12)
    expected, states = model.decode(rolls, algorithm="map")
    posteriors = model.predict_proba(rolls)
    assert expected == pytest.approx(posteriors.max(axis=1).sum()) and (states == posteriors.argmax(axis=1)).all()
    # Each is the best by its own measure.
    assert np.take_along_axis(posteriors, path[:, None], 1).sum() <= expected
    changes = (np.diff(path) != 0).sum(), (np.diff(states) != 0).sum()
    assert changes[0] < changes[1]
    assert CategoricalHMM(algorithm="map").get_params()["algorithm"] == "map"


def rooms():
    """A walk among four corners of a square; opposite corners are not neighbours."""
    model = GaussianHMM(4, "full")
    model.startprob_ = np.array([0.6, 0.3, 0.1, 0.0])
    model.transmat_ = np.array([[0.7, 0.2, 0.0, 0.1], [0.3, 0.5, 0.2, 0.0], [0.0, 0.3, 0.5, 0.2], [0.2, 0.0, 0.2, 0.6]])
    model.means_ = np.array([[0.0, 0.0], [0.0, 11.0], [9.0, 10.0], [11.0, -1.0]])
    model.covars_ = np.tile(0.5 * np.eye(2), (4, 1, 1))
    return model


@pytest.mark.parametrize("kind", ["spherical", "diag", "full", "tied"])
def test_sampled_walk_is_recovered(kind):
    truth = rooms()
    X, states = truth.sample(2_000, random_state=3)
    model = best_of(3, lambda seed: GaussianHMM(4, kind, n_iter=200, random_state=seed), X)
    order = ((truth.means_[:, None] - model.means_) ** 2).sum(axis=2).argmin(axis=1)
    assert sorted(order) == [0, 1, 2, 3]
    np.testing.assert_allclose(model.means_[order], truth.means_, atol=0.15)
    np.testing.assert_allclose(model.covars_[order], truth.covars_, atol=0.15)
    np.testing.assert_allclose(model.transmat_[np.ix_(order, order)], truth.transmat_, atol=0.06)
    assert (order[states] == model.predict(X)).mean() > 0.999
    # The walk goes on where it was.
    more, after = truth.sample(10, random_state=5, currstate=int(states[-1]))
    assert after[0] == states[-1] and np.abs(more[0] - truth.means_[after[0]]).max() < 5


def test_number_of_states_by_criteria():
    X, _ = rooms().sample(600, random_state=8)
    X = X[:, :1] * 0.5 + X[:, 1:]
    aic, bic, scores = [], [], []
    for n in range(1, 7):
        model = best_of(4, lambda seed, n=n: GaussianHMM(n, n_iter=300, tol=1e-3, random_state=seed), X)
        aic.append(model.aic(X))
        bic.append(model.bic(X))
        scores.append(model.score(X))
    assert 1 + np.argmin(bic) == 4 and 1 + np.argmin(aic) in (4, 5, 6)
    # The likelihood alone prefers more states.
    assert 1 + np.argmax(scores) > 4


def test_covariance_types_of_returns():
    # Two assets in calm and in troubled weeks: the correlation is that of the assets, the same in both.
    truth = GaussianHMM(2, "tied")
    truth.startprob_ = np.array([0.5, 0.5])
    truth.transmat_ = np.array([[0.97, 0.03], [0.06, 0.94]])
    truth.means_ = np.array([[0.4, 0.3], [-1.5, -1.2]])
    truth.covars_ = np.array([[1.0, 0.8], [0.8, 1.2]])
    X, states = truth.sample(3_000, random_state=2)
    scores, criteria = {}, {}
    for kind in ("spherical", "diag", "tied", "full"):
        model = best_of(3, lambda seed, kind=kind: GaussianHMM(2, kind, n_iter=500, tol=1e-4, random_state=seed), X)
        scores[kind], criteria[kind] = model.score(X), model.bic(X)
        if kind == "tied":
            np.testing.assert_allclose(model.covars_[0], truth.covars_[0], atol=0.1)
            assert (model.covars_[0] == model.covars_[1]).all()
            assert matched(model.predict(X), states) > 0.9
    # More freedom fits better, and the criterion finds the form of the truth.
    assert scores["spherical"] <= scores["diag"] + 1 and scores["tied"] <= scores["full"] + 1
    assert min(criteria, key=criteria.get) == "tied"


def test_several_sequences_of_different_lengths():
    truth = rooms()
    parts = [truth.sample(length, random_state=length)[0] for length in (40, 7, 300, 1, 152)]
    lengths = [len(part) for part in parts]
    X = np.concatenate(parts)
    model = GaussianHMM(4, "full", n_iter=100, random_state=0).fit(X, lengths)
    assert model.score(X, lengths) == pytest.approx(sum(model.score(part) for part in parts), rel=1e-10)
    together = model.predict(X, lengths)
    assert (together == np.concatenate([model.predict(part) for part in parts])).all()
    assert model.score(X, lengths) > truth.score(X, lengths) - 1


def test_left_to_right():
    # Zeros stay zeros: a word whose parts follow each other.
    truth = GaussianHMM(3)
    truth.startprob_, truth.transmat_ = np.array([1.0, 0, 0]), np.array([[0.8, 0.2, 0], [0, 0.8, 0.2], [0, 0, 1.0]])
    truth.means_, truth.covars_ = np.array([[0.0], [4.0], [1.0]]), np.ones((3, 1)) * 0.3
    words = [truth.sample(25, random_state=seed)[0] for seed in range(60)]
    X, lengths = np.concatenate(words), [25] * 60
    model = GaussianHMM(3, init_params="mc", params="tmc", n_iter=300, random_state=1)
    model.startprob_ = truth.startprob_
    model.transmat_ = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1.0]])
    model.fit(X, lengths)
    assert (model.transmat_[truth.transmat_ == 0] == 0).all() and model.startprob_.tolist() == [1, 0, 0]
    np.testing.assert_allclose(model.transmat_, truth.transmat_, atol=0.1)
