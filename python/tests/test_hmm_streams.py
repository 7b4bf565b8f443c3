"""Filtering, smoothing with a lag and prediction, against sums over all paths."""

import pickle

import numpy as np
import pytest
from test_hmm import MODELS, by_paths, categorical, gaussian, partial

import warpkov
from warpkov.hmm import CategoricalHMM, ChannelHMM, Filter, VariationalCategoricalHMM


def drawn(model, steps, seed=0):
    return model.sample(steps, random_state=seed)[0]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("lag", [0, 1, 3, 9])
def test_streams_agree_with_sums_over_all_paths(model, lag):
    X = drawn(model, 6, seed=lag)
    stream = Filter(model, lag)
    found = []
    for t, x in enumerate(X, start=1):
        smoothed = stream.update(int(x[0]) if isinstance(model, CategoricalHMM) else x)
        log, posteriors, _, _ = by_paths(model, X[:t])
        assert stream.log_likelihood == pytest.approx(log, rel=1e-12)
        assert stream.n_steps == t
        np.testing.assert_allclose(stream.probs, posteriors[-1], atol=1e-13)
        assert (smoothed is None) == (t <= lag)
        if smoothed is not None:
            np.testing.assert_allclose(smoothed, posteriors[t - 1 - lag], atol=1e-13)
            found.append(smoothed)
        ahead = np.linalg.matrix_power(model.transmat_, 3)
        np.testing.assert_allclose(stream.predict(3), posteriors[-1] @ ahead, atol=1e-13)
    kept = stream.reset()
    assert len(kept) == min(lag, 6) and stream.n_steps == 0 and stream.log_likelihood == 0.0
    rows = np.array([*found, *kept])
    np.testing.assert_array_equal(model.filter(X, lag=lag)[0], rows)
    # Each sequence by itself.
    both = model.filter(np.concatenate([X, X]), [6, 6], lag=lag)
    np.testing.assert_array_equal(both[0], np.concatenate([rows, rows]))
    # A row knows the next `lag` observations.
    for t in range(6):
        np.testing.assert_allclose(rows[t], by_paths(model, X[: t + 1 + lag])[1][t], atol=1e-13)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_predictions_of_observations_are_mixtures(model):
    X = drawn(model, 4)
    stream = Filter(model)
    np.testing.assert_allclose(stream.predict(1), model.startprob_, atol=1e-15)
    np.testing.assert_allclose(stream.predict(2), model.startprob_ @ model.transmat_, atol=1e-15)
    for x in X:
        stream.update(x[0] if isinstance(model, CategoricalHMM) else x)
    states = by_paths(model, X)[1][-1] @ np.linalg.matrix_power(model.transmat_, 2)
    np.testing.assert_allclose(model.filter(X, ahead=2)[0][-1], states, atol=1e-13)
    if isinstance(model, CategoricalHMM):
        found = stream.predict_observation(2)
        assert found.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(found, states @ model.emissionprob_, atol=1e-13)
        # The chain rule: the next symbol's share is the ratio of likelihoods.
        ratios = [np.exp(model.score([*X, [o]]) - model.score(X)) for o in range(4)]
        np.testing.assert_allclose(stream.predict_observation(1), ratios, rtol=1e-11)
        return
    mean, covariance = stream.predict_observation(2)
    # E[x xᵀ] - E[x] E[x]ᵀ of the mixture.
    moments = sum(p * (c + np.outer(m, m)) for p, m, c in zip(states, model.means_, model.covars_, strict=True))
    np.testing.assert_allclose(mean, states @ model.means_, rtol=1e-12)
    np.testing.assert_allclose(covariance, moments - np.outer(mean, mean), atol=1e-11)


def test_streams_with_missing_observations():
    model = gaussian(4, states=2, dimensions=3, covariance_type="full")
    X = partial(model, 3, steps=40)
    stream, gaps = Filter(model, 2), Filter(model, 2)
    for x in X:
        found = stream.update(x)
        np.testing.assert_array_equal(found, gaps.update(None if np.isnan(x).all() else list(x)))
    assert stream.log_likelihood == model.filter(X)[1][-1]
    # Masked numbers are missing.
    masked = Filter(model)
    masked.update(np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]))
    np.testing.assert_array_equal(masked.probs, model.filter([[1.0, np.nan, 3.0]])[0][0])


def test_streams_bear_any_magnitude():
    """1000 observations that one state emits with probability 1e-300, against logarithms."""
    model = CategoricalHMM(2)
    model.startprob_, model.transmat_ = [0.5, 0.5], [[1.0, 0.0], [1e-250, 1.0]]
    model.emissionprob_ = [[1e-300, 1.0], [1e-200, 1.0]]
    stream = Filter(model)
    alpha = np.log([0.5, 0.5])
    for t in range(1000):
        if t:
            alpha = np.array([np.logaddexp(alpha[0], alpha[1] + np.log(1e-250)), alpha[1]])
        alpha += np.log([1e-300, 1e-200])
        stream.update(0)
        total = np.logaddexp(*alpha)
        assert stream.log_likelihood == pytest.approx(total, rel=1e-13)
        np.testing.assert_allclose(stream.probs, np.exp(alpha - total), atol=1e-300)


@pytest.mark.parametrize("lag", [0, 2])
def test_a_stream_is_pickled_with_what_it_knows(lag):
    model = categorical(3)
    X = drawn(model, 30).ravel()
    for steps in (0, 1, 2, 10):
        stream = Filter(model, lag)
        for symbol in X[:steps]:
            stream.update(symbol)
        copied = pickle.loads(pickle.dumps(stream))
        assert copied.n_steps == steps
        for symbol in X[steps:]:
            np.testing.assert_array_equal(stream.update(symbol), copied.update(symbol))
        assert stream.log_likelihood == copied.log_likelihood
        np.testing.assert_array_equal(stream.reset(), copied.reset())
    state = stream.__getstate__()
    with pytest.raises(ValueError, match="not of a filter of this model and lag"):
        stream.__setstate__({**state, "saved": np.zeros(3)})


def test_refused_observations_change_nothing():
    ring = CategoricalHMM(2)
    ring.startprob_, ring.transmat_ = [1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]]
    ring.emissionprob_ = np.eye(2)
    stream = Filter(ring)
    stream.update(0)
    for wrong, message in [
        (0, r"X\[0\]: the model cannot emit this after the observations before it"),
        (2, r"X\[0, 0\] is 2, expected a symbol below 2"),
        (-1, r"X\[0, 0\] is -1, expected a symbol from 0"),
        (0.5, "symbols from 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            stream.update(wrong)
    assert stream.n_steps == 1 and stream.update(1).tolist() == [0.0, 1.0]
    normal = Filter(gaussian(2))
    for wrong, message in [
        ([1.0], "found 1 finite or missing numbers, expected 2"),
        ([np.inf, 0.0], "is not finite, expected 2 finite numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            normal.update(wrong)
    for make, message in [
        (lambda: Filter(ring, lag=-1), "lag is -1, expected an integer from 0 to 999999"),
        (lambda: stream.predict(0), "steps is 0, expected an integer from 1 to 999999"),
        (lambda: ring.filter([[0]], ahead=1.5), "ahead is 1.5, expected an integer"),
        (lambda: ring.filter([[0]], lag=1, ahead=1), "expected one of them to be 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    # A later change of the model does not reach the filter.
    ring.emissionprob_[0] = [0.5, 0.5]
    assert stream.predict_observation(1).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_batches_are_learnt_one_after_another(model):
    draws = [model.sample(300, random_state=seed)[0] for seed in range(30)]
    options = {**model.get_params(), "random_state": 1, "n_iter": 1, "tol": 0.0}
    online = type(model)(**options)
    for X in draws:
        assert online.partial_fit(X) is online
    assert len(online.monitor_.history) == 30
    # Better than one iteration of all, at the same work, and than the first batches were.
    everything, lengths = np.concatenate(draws), [300] * 30
    with pytest.warns(warpkov.ConvergenceWarning):
        once = type(model)(**options).fit(everything, lengths)
    assert online.score(everything, lengths) > once.score(everything, lengths)
    # Without its averages, a copy begins anew.
    copy = pickle.loads(pickle.dumps(online))
    np.testing.assert_array_equal(copy.transmat_, online.transmat_)
    assert copy.partial_fit(draws[0]).monitor_.history != online.monitor_.history


def test_one_batch_is_one_iteration():
    X = MODELS["categorical"].sample(200, random_state=4)[0]
    options = {**MODELS["categorical"].get_params(), "random_state": 2, "n_iter": 1, "tol": 0.0}
    online = type(MODELS["categorical"])(**options).partial_fit(X)
    with pytest.warns(warpkov.ConvergenceWarning):
        batch = type(MODELS["categorical"])(**options).fit(X)
    np.testing.assert_allclose(online.transmat_, batch.transmat_, rtol=1e-9)
    np.testing.assert_allclose(online.monitor_.history[0], batch.monitor_.history[0], rtol=1e-12)


def test_what_cannot_learn_from_batches_says_so():
    with pytest.raises(ValueError, match="channels"):
        ChannelHMM(2, [{"family": "poisson", "columns": [0]}]).partial_fit(np.ones((9, 1)))
    with pytest.raises(ValueError, match="at once"):
        VariationalCategoricalHMM(2).partial_fit([[0], [1]])
    with pytest.raises(ValueError, match="lengths"):
        CategoricalHMM(2).partial_fit([[0], [1]], lengths=[3])
