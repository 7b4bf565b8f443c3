"""Shapes and results of other packages, where they are installed."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference import expected, policy_iteration, random_model

from warpkov import mdp


def toolbox_examples():
    """Models in each shape that mdptoolbox takes."""
    P, R = random_model(5, states=7, actions=3)
    matrices = [sp.csr_matrix(matrix) for matrix in P]
    objects = np.empty(3, dtype=object)
    objects[:] = matrices
    of_states, of_actions = np.arange(7.0), expected(P, R)
    return {
        "P (A, S, S), R (S,)": (P, of_states),
        "P (A, S, S), R (S, A)": (P, of_actions),
        "P (A, S, S), R (A, S, S)": (P, R),
        "P of dense matrices": (tuple(P), R),
        "P of sparse matrices": (matrices, of_actions),
        "P and R of sparse matrices": (matrices, [sp.csr_matrix(matrix) for matrix in R]),
        "P an array of sparse matrices": (objects, of_actions),
    }


@pytest.mark.parametrize("name", toolbox_examples())
def test_mdptoolbox_shapes(name):
    toolbox = pytest.importorskip("mdptoolbox.mdp")
    P, R = toolbox_examples()[name]
    theirs = toolbox.PolicyIteration(P, R, 0.9)
    theirs.run()
    found = mdp.solve(P, R, 0.9)
    np.testing.assert_allclose(found.values, theirs.V, atol=1e-6)
    assert found.policy.tolist() == list(theirs.policy)


@pytest.mark.parametrize("example", ["forest", "sparse forest", "rand", "sparse rand"])
def test_mdptoolbox_methods(example):
    toolbox = pytest.importorskip("mdptoolbox.mdp")
    import mdptoolbox.example

    np.random.seed(0)
    sparse = example.startswith("sparse")
    make = {
        "forest": lambda: mdptoolbox.example.forest(S=10, p=0.2, is_sparse=sparse),
        "rand": lambda: mdptoolbox.example.rand(8, 3, is_sparse=sparse),
    }
    P, R = make[example.split()[-1]]()
    found = mdp.solve(P, R, 0.9, epsilon=1e-9)
    methods = [
        (toolbox.PolicyIteration, {"eval_type": 0}),
        (toolbox.PolicyIteration, {"eval_type": 1}),
        (toolbox.PolicyIterationModified, {"epsilon": 1e-9}),
        (toolbox.ValueIteration, {"epsilon": 1e-9}),
    ]
    if not sparse:
        # It does not work with sparse matrices.
        methods.append((toolbox.ValueIterationGS, {"epsilon": 1e-9}))
    for method, options in methods:
        theirs = method(P, R, 0.9, **options)
        theirs.max_iter = 10_000
        theirs.run()
        assert found.policy.tolist() == list(theirs.policy), method.__name__
        if options == {"eval_type": 0}:
            np.testing.assert_allclose(found.values, theirs.V, atol=1e-8)
        # The other methods stop when the *differences* of the values are accurate.
        differences = np.array(theirs.V) - theirs.V[0]
        np.testing.assert_allclose(found.values - found.values[0], differences, atol=1e-3, err_msg=method.__name__)
    # A horizon: their values and policies are those of each number of steps to go, ours those of the first step.
    for steps in (1, 5):
        theirs = toolbox.FiniteHorizon(P, R, 0.9, steps)
        theirs.run()
        plan = mdp.solve(P, R, 0.9, horizon=steps)
        np.testing.assert_allclose(plan.values, theirs.V[:, 0], atol=1e-9)
        assert plan.policy.tolist() == theirs.policy[:, 0].tolist()
    theirs = toolbox.RelativeValueIteration(P, R, epsilon=1e-9, max_iter=100_000)
    theirs.run()
    average = mdp.solve(P, R, 1.0, criterion="average", epsilon=1e-8)
    np.testing.assert_allclose(average.values, theirs.average_reward, atol=1e-6)


def test_quantecon():
    markov = pytest.importorskip("quantecon.markov")
    P, R = random_model(1)
    r, Q = expected(P, R), P.transpose(1, 0, 2)
    # An action that a state lacks has the reward -inf.
    r[3, 1] = -np.inf
    theirs = markov.DiscreteDP(r, Q, 0.9)
    found = mdp.solve(Q, r, 0.9, epsilon=1e-8)
    for method in ("policy_iteration", "value_iteration", "modified_policy_iteration", "linear_programming"):
        options = {} if method in ("policy_iteration", "linear_programming") else {"epsilon": 1e-8}
        solution = theirs.solve(method=method, **options)
        np.testing.assert_allclose(found.values, solution.v, atol=1e-6)
        assert (found.policy == solution.sigma).all(), method
    # The Bellman operator, a greedy policy, and the values of a policy.
    model = mdp.Model(Q, r, 0.9)
    assert (np.nanargmax(mdp.q_factors(model).q, axis=1) == theirs.compute_greedy(found.values)).all()
    np.testing.assert_allclose(
        np.nanmax(mdp.q_factors(model).q, axis=1), theirs.bellman_operator(found.values), atol=1e-6
    )
    other = np.zeros(12, dtype=int)
    np.testing.assert_allclose(mdp.evaluate(model, other).values, theirs.evaluate_policy(other), atol=1e-6)
    # Backward induction.
    values, policies = markov.backward_induction(theirs, 6, v_term=np.arange(12.0))
    plan = mdp.solve(Q, r, 0.9, horizon=6, terminal_values=np.arange(12.0))
    np.testing.assert_allclose(plan.values, values[0], atol=1e-9)
    assert (plan.policy == policies[0]).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_quantecon_pairs(sparse, shuffled):
    markov = pytest.importorskip("quantecon.markov")
    P, R = random_model(1)
    r = expected(P, R)
    r[[0, 3, 3], [2, 0, 2]] = -np.inf
    whole = markov.DiscreteDP(r, P.transpose(1, 0, 2), 0.9)
    pairs = whole.to_sa_pair_form(sparse=sparse)
    assert pairs.num_sa_pairs == 33
    order = np.random.default_rng(0).permutation(33) if shuffled else np.arange(33)
    s, a, rewards, Q = pairs.s_indices[order], pairs.a_indices[order], pairs.R[order], pairs.Q[order]
    theirs = markov.DiscreteDP(rewards, Q, 0.9, s, a).solve(method="policy_iteration")
    found = mdp.solve(Q, rewards, 0.9, s_indices=s, a_indices=a)
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
