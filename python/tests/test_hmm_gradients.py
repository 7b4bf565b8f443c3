"""Derivatives of log-likelihoods and of partition functions, against differences, PyTorch and JAX."""

import numpy as np
import pytest
from test_hmm import MODELS

from warpkov.hmm import ChannelHMM, log_partition

LENGTHS = [4, 1, 7]


def potentials(seed, states=3):
    random = np.random.default_rng(seed)
    shapes = [(states,), (states, states), (sum(LENGTHS), states)]
    return [random.normal(scale=[0.1, 1.0, 10.0][seed % 3], size=shape) for shape in shapes]


def recursion(start, transitions, steps, logsumexp, stack):
    """ln Z of each sequence by the forward recursion."""
    found, first = [], 0
    for length in LENGTHS:
        alpha = start + steps[first]
        for step in steps[first + 1 : first + length]:
            alpha = logsumexp(alpha[:, None] + transitions, 0) + step
        found.append(logsumexp(alpha, 0))
        first += length
    return stack(found)


def logsumexp(x, axis):
    most = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - most).sum(axis=axis)) + most.squeeze(axis)


@pytest.mark.parametrize("device", ["cpu", "emulated"])
@pytest.mark.parametrize("seed", range(6))
def test_partition_functions_are_those_of_the_recursion(seed, device):
    arrays = potentials(seed)
    expected = recursion(*arrays, logsumexp, np.stack)
    np.testing.assert_allclose(log_partition(*arrays, LENGTHS, device=device), expected, rtol=1e-12)
    narrow = log_partition(*arrays, LENGTHS, device=device, precision="f32")
    np.testing.assert_allclose(narrow, expected, rtol=1e-4, atol=1e-4)


def test_weights_of_zero():
    start, transitions, steps = potentials(1)
    start[0] = transitions[1, 2] = steps[5, 1] = -np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = recursion(start, transitions, steps, logsumexp, np.stack)
    np.testing.assert_allclose(log_partition(start, transitions, steps, LENGTHS), expected, rtol=1e-12)
    steps[4] = -np.inf
    found = log_partition(start, transitions, steps, LENGTHS)
    assert found[1] == -np.inf and np.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, b, c: (a, b[:2], c, LENGTHS), r"transitions has shape \(2, 3\), expected \(3, 3\)"),
        (lambda a, b, c: (a, b, c, [4, 1]), "lengths sums to 5, expected the number of observations, 12"),
        (lambda a, b, c: (a, b, c, [12, 0]), "lengths"),
        (lambda a, b, c: (a, b, c, [1.5]), "lengths"),
        (lambda a, b, c: (a, b, c + np.nan, LENGTHS), "steps has the number NaN"),
        (lambda a, b, c: (a + np.inf, b, c, LENGTHS), "start has the number inf"),
        (lambda a, b, c: (a[:0], b[:0, :0], c[:, :0], LENGTHS), "state"),
    ],
)
def test_wrong_potentials_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        log_partition(*change(*potentials(0)))


@pytest.mark.parametrize("name", [name for name in MODELS if "spherical" not in name and "tied" not in name])
def test_gradients_are_differences(name):
    model = MODELS[name]
    X = model.sample(12, random_state=3)[0]
    found = {of["name"]: of for of in model.gradient(X, [9, 3])}
    # From one state to another: the sum of each row stays 1.
    slope = found["transmat"]["derivative"]
    assert found["transmat"]["logarithmic"] and slope.shape == model.transmat_.shape
    (i, j, k), h = (0, 0, 1), 1e-6
    before = model.transmat_.copy()
    logs = []
    for by in (h, -h):
        model.transmat_ = before.copy()
        model.transmat_[i, [j, k]] += [by, -by]
        logs.append(model.score(X, [9, 3]))
    model.transmat_ = before
    expected = (logs[0] - logs[1]) / (2 * h)
    assert slope[i, j] / before[i, j] - slope[i, k] / before[i, k] == pytest.approx(expected, rel=1e-5, abs=1e-5)
    if "means" in found:
        before = model.means_.copy()
        logs = []
        for by in (h, -h):
            model.means_ = before + by * (np.arange(before.size).reshape(before.shape) == 1)
            logs.append(model.score(X, [9, 3]))
        model.means_ = before
        assert found["means"]["derivative"].ravel()[1] == pytest.approx((logs[0] - logs[1]) / (2 * h), rel=1e-5, abs=1e-5)


def test_gradients_of_channels():
    counts = np.random.default_rng(0).poisson(3, (50, 1)).astype(float)
    model = ChannelHMM(2, [{"family": "poisson", "columns": [0]}], random_state=0, n_iter=3).fit(counts)
    found = model.gradient(counts)[2]
    assert (found["name"], found["channel"], found["logarithmic"]) == ("rates", 0, False)
    rates, h, logs = model.channels_[0]["rates"], 1e-6, []
    for by in (h, -h):
        moved = rates.copy()
        moved.ravel()[0] += by
        model.channels_[0]["rates"] = moved
        logs.append(model.score(counts))
    assert found["derivative"][0] == pytest.approx((logs[0] - logs[1]) / (2 * h), rel=1e-5, abs=1e-5)


def test_jax_has_the_same_derivatives():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    weights = jnp.array([1.0, -2.0, 0.5])

    def ours(*arrays):
        return weights @ log_partition(*arrays, LENGTHS, device="cpu")

    def theirs(*arrays):
        of = recursion(*arrays, lambda x, axis: jax.scipy.special.logsumexp(x, axis=axis), jnp.stack)
        return weights @ of

    arrays = [jnp.array(array) for array in potentials(1)]
    for function in (ours, jax.jit(ours)):
        value, found = jax.value_and_grad(function, argnums=(0, 1, 2))(*arrays)
        other, expected = jax.value_and_grad(theirs, argnums=(0, 1, 2))(*arrays)
        np.testing.assert_allclose(value, other, rtol=1e-12)
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    # Through the function that makes the potentials.
    softmax = jax.grad(lambda logits: ours(jax.nn.log_softmax(logits[0]), jax.nn.log_softmax(logits), arrays[2]))
    assert abs(float(softmax(arrays[1]).sum())) < 1e-9


def test_torch_has_the_same_derivatives():
    torch = pytest.importorskip("torch")
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    places = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    for place in places:
        arrays = [torch.tensor(array, device=place, requires_grad=True) for array in potentials(1)]
        ours = log_partition(*arrays, LENGTHS, device="cpu")
        assert ours.device == arrays[2].device and ours.dtype == torch.float64
        found = torch.autograd.grad(weights.to(place) @ ours, arrays)
        theirs = recursion(*arrays, torch.logsumexp, torch.stack)
        expected = torch.autograd.grad(weights.to(place) @ theirs, arrays)
        for one, two in zip([ours, *found], [theirs, *expected], strict=True):
            torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)
    single = log_partition(*(array.detach().float() for array in arrays), LENGTHS)
    assert single.dtype == torch.float32
