"""Shapes and results of other packages, where they are installed."""

import numpy as np
import pytest
from reference import expected, policy_iteration, random_model

from warpkov import mdp


@pytest.mark.parametrize("example", ["forest", "rand", "sparse"])
def test_mdptoolbox(example):
    toolbox = pytest.importorskip("mdptoolbox.mdp")
    import mdptoolbox.example

    np.random.seed(0)
    P, R = {
        "forest": lambda: mdptoolbox.example.forest(S=10),
        "rand": lambda: mdptoolbox.example.rand(8, 3),
        "sparse": lambda: mdptoolbox.example.rand(8, 3, is_sparse=True),
    }[example]()
    theirs = toolbox.PolicyIteration(P, R, 0.9)
    theirs.run()
    found = mdp.solve(P, R, 0.9)
    np.testing.assert_allclose(found.values, theirs.V, atol=1e-6)
    assert found.policy.tolist() == list(theirs.policy)


def test_quantecon():
    markov = pytest.importorskip("quantecon.markov")
    P, R = random_model(1)
    r = expected(P, R)
    theirs = markov.DiscreteDP(r, P.transpose(1, 0, 2), 0.9).solve(method="policy_iteration")
    found = mdp.solve(P.transpose(1, 0, 2), r, 0.9)
    np.testing.assert_allclose(found.values, theirs.v, atol=1e-6)
    assert (found.policy == theirs.sigma).all()
    for sparse in (False, True):
        pairs = markov.DiscreteDP(r, P.transpose(1, 0, 2), 0.9).to_sa_pair_form(sparse=sparse)
        found = mdp.solve(pairs.Q, pairs.R, 0.9, s_indices=pairs.s_indices, a_indices=pairs.a_indices)
        np.testing.assert_allclose(found.values, theirs.v, atol=1e-6)
        assert (found.policy == theirs.sigma).all()


@pytest.mark.parametrize("name", ["FrozenLake", "Taxi", "CliffWalking"])
def test_gymnasium(name):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name)
    table = env.unwrapped.P
    model = mdp.from_gymnasium(env, 0.95)
    states, actions = len(table), len(table[0])
    assert (model.states, model.actions) == (env.observation_space.n, env.action_space.n)
    P, r = np.zeros((actions, states, states)), np.zeros((states, actions))
    for s in table:
        for a in table[s]:
            for p, after, reward, terminated in table[s][a]:
                r[s, a] += p * reward
                P[a, s, after] += 0 if terminated else p
    values, _ = policy_iteration(P, r, 0.95)
    np.testing.assert_allclose(mdp.solve(model).values, values, atol=1e-6)
    again = mdp.from_gymnasium(mdp.to_gymnasium(model), 0.95)
    np.testing.assert_allclose(mdp.solve(again).values, values, atol=1e-6)
    np.testing.assert_allclose(mdp.solve(table, gamma=0.95).values, values, atol=1e-6)


def test_environments_without_a_table():
    with pytest.raises(ValueError, match="no table of transitions"):
        mdp.from_gymnasium(object(), 0.9)


def test_torch():
    torch = pytest.importorskip("torch")
    P, R = random_model(2)
    r = expected(P, R)
    found = mdp.solve(torch.from_numpy(P), torch.from_numpy(r), 0.9)
    np.testing.assert_allclose(found.values, policy_iteration(P, r, 0.9)[0], atol=1e-6)
    assert torch.from_dlpack(found.values).shape == (12,)


class Foreign:
    """An array of another library: all that it has is DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_dlpack():
    P, R = random_model(3)
    r = expected(P, R)
    found = mdp.solve(Foreign(P), Foreign(r), 0.9)
    np.testing.assert_allclose(found.values, policy_iteration(P, r, 0.9)[0], atol=1e-6)
    assert np.shares_memory(np.from_dlpack(found.values), found.values)


class OnDevice:
    """An array in the memory of a GPU, as CuPy has it."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        raise BufferError("the memory is that of a GPU")

    def __dlpack_device__(self):
        return (2, 0)

    def get(self):
        return self._array.copy()


def test_arrays_of_a_gpu_are_copied():
    P, R = random_model(4)
    r = expected(P, R)
    found = mdp.solve(OnDevice(P), OnDevice(r), 0.9, values=OnDevice(np.zeros(12)))
    np.testing.assert_allclose(found.values, policy_iteration(P, r, 0.9)[0], atol=1e-6)
