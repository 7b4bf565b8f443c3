"""Models, solutions and policies are pickled and copied."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import warpkov
from warpkov import hmm, mdp, pomdp

pytestmark = pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")


def same(one, other):
    """Whether two values have the same parts, models by their bytes."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f") and one.dtype == other.dtype
    if isinstance(one, mdp.Model):
        return one._core.dumps("json") == other._core.dumps("json") and same(one._numbers, other._numbers)
    if isinstance(one, pomdp.Model):
        return one._core.dumps() == other._core.dumps()
    if isinstance(one, (np.random.RandomState, np.random.Generator)):
        return True
    if hasattr(one, "__dict__"):
        assert vars(one).keys() == vars(other).keys()
        return all(same(value, vars(other)[name]) for name, value in vars(one).items())
    return one == other or (one != one and other != other)


def tiger():
    still, one = np.eye(2), np.full((2, 2), 0.5)
    hears = np.array([[0.85, 0.15], [0.15, 0.85]])
    rewards = [[-1, -100, 10], [-1, 10, -100]]
    names = {"action_names": ["listen", "left", "right"], "state_names": ["left", "right"]}
    return pomdp.Model([still, one, one], [hears, one, one], rewards, 0.95, start=[1 / 3, 2 / 3], **names)


def ragged():
    P = sp.csr_array(np.random.default_rng(1).dirichlet(np.ones(4), size=6))
    return mdp.Model(P, np.arange(6) / 7, 0.9, s_indices=[2, 0, 0, 1, 3, 3], a_indices=[0, 1, 0, 5, 2, 3])


def named():
    P = np.array([[[0.7, 0.3], [0.0, 1.0]], [[1.0, 0.0], [0.9, 0.1]]])
    names = {"state_names": ["new", "worn"], "action_names": ["keep", "replace"], "labels": {"init": [0]}}
    return mdp.Model(
        P * 0.9, [[10, 2], [2, -5]], 0.9, order="ass", objective="minimize", ends=np.full((2, 2), 0.1), **names
    )


def normal():
    model = hmm.GaussianHMM(2, "tied", random_state=np.random.RandomState(3), n_iter=3)
    X = np.random.default_rng(0).normal(size=(60, 2))
    return model.fit(X)


def everything():
    yield from (named(), ragged(), mdp.generate("grid", width=5, height=4), tiger())
    solution = mdp.solve(named())
    yield from (solution, mdp.evaluate(named(), solution.policy), mdp.q_factors(named(), solution.values))
    yield mdp.simulate(named(), solution.policy, episodes=10)
    yield mdp.solve(ragged(), criterion="reach", goal=1)
    found = pomdp.solve(tiger(), gap=0.1)
    yield from (found, found.policy, found.policy.agent(), pomdp.evaluate(found.policy, episodes=5))
    yield from (normal(), normal().monitor_, hmm.CategoricalHMM(3))
    yield hmm.CategoricalHMM(2, random_state=1, n_iter=2).fit([[0], [1], [2], [0]])


@pytest.mark.parametrize("one", list(everything()), ids=lambda one: f"{type(one).__module__}.{type(one).__name__}")
def test_copies_are_equal(one):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert same(one, pickle.loads(pickle.dumps(one, protocol)))
    assert same(one, copy.deepcopy(one))
    assert same(one, copy.copy(one))


def test_copies_work():
    model = pickle.loads(pickle.dumps(ragged()))
    np.testing.assert_array_equal(mdp.solve(model).values, mdp.solve(ragged()).values)
    assert mdp.solve(model).policy.tolist() == mdp.solve(ragged()).policy.tolist()
    agent = copy.deepcopy(pomdp.solve(tiger(), gap=0.1).policy.agent([0.5, 0.5]))
    agent.observe("listen", 0)
    np.testing.assert_allclose(agent.belief, [0.85, 0.15])
    trained = normal()
    again = pickle.loads(pickle.dumps(trained))
    X = [[0.0, 1.0], [np.nan, 0.5]]
    assert again.score(X) == trained.score(X)
    # A deep copy of a trained model shares no parameters.
    twin = copy.deepcopy(trained)
    twin.means_[:] = 0.0
    assert not (trained.means_ == 0.0).any()


class Mine(mdp.Model):
    """A subclass keeps its class."""


def test_subclasses():
    model = Mine([np.eye(2)], [0.0, 1.0], 0.5)
    assert type(pickle.loads(pickle.dumps(model))) is Mine and type(copy.deepcopy(model)) is Mine
    assert warpkov.__version__
