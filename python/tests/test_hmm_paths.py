"""Best paths, drawn paths, occupancies and windows, against sums over all paths."""

import itertools

import numpy as np
import pytest
from test_hmm import MODELS, densities, gaussian, partial

from warpkov.hmm import CategoricalHMM


def enumerated(model, X):
    """All paths of a short sequence and ln P(O, path), by descending probability."""
    emitted = densities(model, X)
    steps, states = emitted.shape
    # Last state first, so that a stable sort keeps the order of ties.
    paths = np.array(list(itertools.product(range(states), repeat=steps)))[:, ::-1]
    logs = np.log(model.startprob_[paths[:, 0]]) + emitted[np.arange(steps), paths].sum(axis=1)
    logs += np.log(model.transmat_[paths[:, :-1], paths[:, 1:]]).sum(axis=1)
    order = np.argsort(-logs, kind="stable")
    return paths[order], logs[order]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_best_paths_are_those_of_all_paths(model):
    X = np.concatenate([model.sample(6, random_state=0)[0], model.sample(2, random_state=1)[0]])
    log_probs, found = model.decode_best(X, [6, 2], k=30)
    assert log_probs.shape == (30, 2) and found.shape == (30, 8) and found.dtype == np.int64
    for sequence, (begin, end) in enumerate([(0, 6), (6, 8)]):
        paths, logs = enumerated(model, X[begin:end])
        count = min(30, len(paths))
        np.testing.assert_allclose(log_probs[:count, sequence], logs[:count], rtol=1e-12)
        # Rounding decides between paths with equal factors in another order.
        own = dict(zip(map(tuple, paths), logs, strict=True))
        best = [tuple(path) for path in found[:count, begin:end]]
        assert len(set(best)) == count
        np.testing.assert_allclose([own[path] for path in best], logs[:count], rtol=1e-12)
        assert (found[count:, begin:end] == -1).all() and (log_probs[count:, sequence] == -np.inf).all()
    log, best = model.decode(X, [6, 2])
    assert log == pytest.approx(log_probs[0].sum(), rel=1e-14)
    np.testing.assert_array_equal(best, found[0])


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_drawn_paths_have_their_posterior_distribution(model):
    X = np.concatenate([model.sample(4, random_state=2)[0], model.sample(3, random_state=3)[0]])
    n = 20_000
    drawn = model.sample_paths(X, [4, 3], n=n, seed=1)
    assert drawn.shape == (n, 7)
    for begin, end in [(0, 4), (4, 7)]:
        paths, logs = enumerated(model, X[begin:end])
        expected = n * np.exp(logs - np.logaddexp.reduce(logs))
        counts = np.array([(drawn[:, begin:end] == path).all(axis=1).sum() for path in paths])
        assert counts.sum() == n
        often = expected >= 8
        square = ((counts - expected)[often] ** 2 / expected[often]).sum()
        assert square <= often.sum() + 6 * np.sqrt(2 * often.sum()), (square, often.sum())
    # Path i of sequence j depends on the seed, i and j.
    np.testing.assert_array_equal(model.sample_paths(X[:4], n=5, seed=1), drawn[:5, :4])
    assert (model.sample_paths(X, [4, 3], n=200, seed=2) != drawn[:200]).any()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_occupancies_are_sums_over_all_paths(model):
    X = model.sample(9, random_state=4)[0]
    lengths = [5, 4]
    time, visits = model.occupancy(X, lengths)
    posteriors = model.predict_proba(X, lengths)
    np.testing.assert_allclose(time, [posteriors[:5].sum(axis=0), posteriors[5:].sum(axis=0)], atol=1e-12)
    for sequence, part in enumerate([X[:5], X[5:]]):
        paths, logs = enumerated(model, part)
        weights = np.exp(logs - np.logaddexp.reduce(logs))
        for state in range(3):
            entered = (paths == state) & np.pad(paths[:, :-1] != state, ((0, 0), (1, 0)), constant_values=True)
            assert visits[sequence, state] == pytest.approx(weights @ entered.sum(axis=1), abs=1e-12)


@pytest.mark.parametrize("device", ["cpu", "emulated"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_windows_are_sequences(model, device):
    X = model.sample(30, random_state=5)[0]
    placed = type(model)(**{**model.get_params(), "device": device})
    placed.__dict__.update({k: v for k, v in model.__dict__.items() if k.endswith("_") and not k.startswith("__")})
    for window, step in [(1, 1), (5, 1), (5, 5), (7, 3), (30, 1)]:
        found = placed.score_windows(X, window, step)
        expected = [model.score(X[i : i + window]) for i in range(0, 30 - window + 1, step)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    both = placed.score_windows(X, 8, 2, lengths=[17, 3, 10])
    np.testing.assert_allclose(
        both, np.concatenate([model.score_windows(X[:17], 8, 2), model.score_windows(X[20:], 8, 2)]), rtol=1e-12
    )
    assert placed.score_windows(X, 31).shape == (0,)


def test_paths_with_missing_numbers():
    model = gaussian(6, states=2, dimensions=2, covariance_type="full")
    X = partial(model, 8, steps=6)
    log_probs, paths = model.decode_best(X, k=64)
    assert np.logaddexp.reduce(log_probs[:, 0]) == pytest.approx(model.score(X), rel=1e-12)
    weights = np.exp(log_probs[:, 0] - model.score(X))
    np.testing.assert_allclose(weights @ paths, model.predict_proba(X)[:, 1], atol=1e-12)
    drawn = model.sample_paths(X, n=20_000)
    np.testing.assert_allclose(drawn.mean(axis=0), model.predict_proba(X)[:, 1], atol=0.02)
    np.testing.assert_allclose(model.occupancy(X)[0][0], model.predict_proba(X).sum(axis=0), atol=1e-12)
    windows = model.score_windows(X, 3)
    np.testing.assert_allclose(windows, [model.score(X[i : i + 3]) for i in range(4)], rtol=1e-12)


def test_impossible_sequences_and_wrong_arguments():
    ring = CategoricalHMM(2)
    ring.startprob_, ring.transmat_ = [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]]
    ring.emissionprob_ = np.eye(2)
    X = [[0], [0], [0], [1]]
    log_probs, paths = ring.decode_best(X, [2, 2], k=2)
    assert paths.tolist() == [[-1, -1, 0, 1], [-1] * 4]
    np.testing.assert_allclose(log_probs, [[-np.inf, np.log(0.5)], [-np.inf, -np.inf]])
    assert ring.sample_paths(X, [2, 2], n=2).tolist() == [[-1, -1, 0, 1]] * 2
    time, visits = ring.occupancy(X, [2, 2])
    assert time.tolist() == visits.tolist() == [[0, 0], [1, 1]]
    np.testing.assert_allclose(ring.score_windows(X, 2), [-np.inf, -np.inf, np.log(0.5)])
    wide = CategoricalHMM(100)
    wide.startprob_, wide.transmat_ = np.full(100, 0.01), np.full((100, 100), 0.01)
    wide.emissionprob_ = np.ones((100, 1))
    with pytest.raises(MemoryError, match="1000000 best paths of sequence 1 need 7450.6 GiB, 8 bytes for each step"):
        wide.decode_best(np.zeros((10_000, 1), int), k=10**6)
    for call, message in [
        (lambda: ring.decode_best(X, k=0), "k is 0, expected an integer from 1"),
        (lambda: ring.sample_paths(X, n=0), "n is 0, expected an integer from 1"),
        (lambda: ring.sample_paths(X, seed=-1), "seed is -1, expected an integer from 0"),
        (lambda: ring.score_windows(X, 0), "window is 0, expected an integer from 1"),
        (lambda: ring.score_windows(X, 2, 1.5), "step is 1.5, expected an integer from 1"),
        (lambda: ring.sample_paths([[2]]), r"X\[0, 0\] is 2, expected a symbol below 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
