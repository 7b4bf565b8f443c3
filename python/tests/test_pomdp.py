"""Partially observable models against exact values of short horizons, and known values."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import warpkov
from warpkov import pomdp

STAYS, OPENS = np.eye(2), np.full((2, 2), 0.5)
HEARS = np.array([[0.85, 0.15], [0.15, 0.85]])
T, O, R = np.stack([STAYS, OPENS, OPENS]), np.stack([HEARS, OPENS, OPENS]), np.array([[-1, -100, 10], [-1, 10, -100]])
NAMES = {
    "state_names": ["left", "right"],
    "action_names": ["listen", "open-left", "open-right"],
    "observation_names": ["hear-left", "hear-right"],
}
# The value of the tiger from its start lies between 19.371368374 and 19.371368448, by bounds with a gap of 1e-7.
VALUE = 19.3713684


def tiger(**changes):
    return pomdp.Model(**{"T": T, "O": O, "R": R, "gamma": 0.95, **NAMES, **changes})


def random_model(seed, states=3, actions=2, observations=2):
    random = np.random.default_rng(seed)
    T = random.dirichlet(np.ones(states), size=(actions, states))
    O = random.dirichlet(np.ones(observations), size=(actions, states))  # noqa: E741
    return T, O, random.normal(size=(states, actions)), random.dirichlet(np.ones(states))


def exact(T, O, R, gamma, belief, steps):  # noqa: E741
    """The value of a belief with so many steps to go, by the tree of all actions and observations."""
    if steps == 0:
        return 0.0
    values = []
    for a in range(len(T)):
        value = belief @ R[:, a]
        for o in range(O.shape[2]):
            after = (belief @ T[a]) * O[a, :, o]
            if after.sum() > 0:
                value += gamma * after.sum() * exact(T, O, R, gamma, after / after.sum(), steps - 1)
        values.append(value)
    return max(values)


@pytest.mark.parametrize("seed", range(4))
def test_horizons(seed):
    T, O, R, start = random_model(seed)  # noqa: E741
    for steps in (1, 4):
        found = pomdp.solve(pomdp.Model(T, O, R, 0.9, start=start), horizon=steps, gap=1e-6)
        value = exact(T, O, R, 0.9, start, steps)
        assert found.converged and found.lower <= value + 1e-12 and value - 1e-12 <= found.upper and found.gap <= 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_infinite_horizons(seed):
    T, O, R, start = random_model(seed)  # noqa: E741
    gamma, steps = 0.3, 6
    found = pomdp.solve(pomdp.Model(T, O, R, gamma, start=start), gap=1e-4)
    value = exact(T, O, R, gamma, start, steps)
    tail = gamma**steps * np.abs(R).max() / (1 - gamma)
    assert found.converged and found.lower <= value + tail and value - tail <= found.upper
    assert found.policy.value() == pytest.approx(found.lower, abs=1e-6)


def doors(hear, **changes):
    left = [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]
    right = [[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    even = np.full((4, 2), 0.5)
    hears = np.array([[hear, 1 - hear], [1 - hear, hear], [0.5, 0.5], [0.5, 0.5]])
    names = {"state_names": ["left", "right", "good", "bad"]}
    T, O = np.array([np.eye(4), left, right]), np.array([hears, even, even])  # noqa: E741
    return pomdp.Model(T, O, np.ones((4, 3)), 1, start=[0.5, 0.5, 0, 0], **names, **changes)


def test_reach():
    heard = pomdp.reach(doors(0.85), "good")
    assert heard.converged and 0.998 < heard.lower <= heard.upper <= 1 and heard.gap <= 1e-3
    assert heard.next.shape == (len(heard.actions), 2) and heard.starts.tolist() == [0]
    guessed = pomdp.reach(doors(0.5), 2, gap=1e-9)
    assert guessed.lower == pytest.approx(0.5) and guessed.upper == pytest.approx(0.5)
    assert pomdp.reach(doors(0.85), ["good"], minimize=True).upper == 0
    steps = pomdp.reach(doors(0.85), ["good", "bad"], rewards=True, minimize=True)
    assert steps.lower == pytest.approx(1) and steps.upper == pytest.approx(1)
    assert pomdp.reach(doors(0.85), [2, 3], rewards=True).lower == np.inf
    with pytest.warns(warpkov.ConvergenceWarning, match="stopped by iterations"):
        assert not pomdp.reach(doors(0.85), "good", iterations=1).converged
    for options, message in (
        ({"goal": "exit"}, "there is no state 'exit'"),
        ({"goal": 4}, "there is no state 4, expected one below 4"),
        ({"goal": 2, "gap": -1.0}, "gap is -1"),
        ({"goal": 2, "time": 0.0}, "time is 0"),
        ({"goal": 2, "device": "gpu"}, "device is 'gpu'"),
    ):
        with pytest.raises(ValueError, match=message):
            pomdp.reach(doors(0.85), **options)


def test_constrain(tmp_path):
    model, opens = tiger(), np.array([[0, 1, 1], [0, 1, 1]])
    found = pomdp.constrain(model, opens, at_most=2)
    assert found.converged and found.lower <= found.upper and found.gap < 1e-2 and found.price > 0
    assert len(found.controllers) == len(found.probabilities) == 2 and found.cost[1] <= 2 + 1e-6
    mixed = sum(p * one.lower for p, one in zip(found.probabilities, found.controllers))
    assert mixed == pytest.approx(found.lower, abs=1e-6)
    assert pomdp.constrain(model, model, at_least=0).lower == pytest.approx(pomdp.solve(model).lower, rel=2e-3)
    pomdp.save(model, tmp_path / "tiger.pomdp")
    assert pomdp.constrain(model, str(tmp_path / "tiger.pomdp"), at_most=100).price == 0
    plan = pomdp.constrain(model, [1.0, 1.0], at_most=5, horizon=3)
    assert plan.cost[1] == pytest.approx(1 + 0.95 + 0.95**2)
    for costs, options, message in (
        (opens, {}, "expected at_most or at_least"),
        (opens, {"at_most": 1, "at_least": 1}, "expected at_most or at_least"),
        (opens, {"at_most": -1}, "no policy keeps the cost at most -1"),
        (opens, {"at_most": np.nan}, "the limit is NaN"),
        (opens.T, {"at_most": 1}, "costs has shape"),
        (doors(0.85), {"at_most": 1}, "costs: 4 states, 3 actions and 2 observations, expected 2, 3 and 2"),
    ):
        with pytest.raises(ValueError, match=message):
            pomdp.constrain(model, costs, **options)


def test_companion():
    # Walks alone would not close this gap soon.
    solution = pomdp.solve(tiger(), device="emulated", beliefs=8, gap=0.02, companion=True)
    assert solution.converged and solution.lower <= 19.3722 and solution.upper >= 19.3711


def test_exact():
    exact = pomdp.solve(tiger(), exact=True)
    assert exact.converged and exact.error < 1e-8 and exact.policy.vectors.shape == (9, 2)
    plan = pomdp.solve(tiger(), exact=True, horizon=3)
    searched = pomdp.solve(tiger(), horizon=3, gap=1e-9)
    assert plan.lower <= searched.upper and searched.lower <= plan.upper and searched.error is None
    with pytest.raises(ValueError, match="expected no option device"):
        pomdp.solve(tiger(), exact=True, device="emulated")


@pytest.mark.parametrize(
    ("belief", "message"),
    [
        ([1.0], "shape"),
        ([[0.5, 0.5]], "shape"),
        ([0.5, 0.25, 0.25], "shape"),
        ([1.5, -0.5], "1.5 for state 0"),
        ([-0.5, 1.5], "-0.5 for state 0"),
        ([0.5, float("nan")], "nan for state 1"),
        ([0.5, 0.25], "sums to 0.75"),
    ],
)
def test_no_belief(belief, message):
    policy = pomdp.solve(tiger()).policy
    for use in (policy.act, policy.value, policy.agent, lambda belief: policy.model.update(belief, 0, 0)):
        with pytest.raises(ValueError, match=message):
            use(belief)


def test_tiger():
    found = pomdp.solve(tiger())
    assert 1e-4 < found.relative_gap <= 1e-3 and found.status == "gap"
    found = pomdp.solve(tiger(), gap=1e-3)
    assert found.lower <= VALUE <= found.upper and found.gap <= 1e-3 and found.status == "gap"
    assert found.policy.act() == 0 and pomdp.act(found.policy, [0.01, 0.99]) == 1
    report = found.to_dict()
    assert report["lower"] == found.lower and len(report["policy"]["actions"]) == len(found.policy.actions)
    assert repr(found).startswith("<warpkov.pomdp.Solution: value 19.37")
    statistics = pomdp.evaluate(found.policy, episodes=20_000)
    assert abs(statistics.mean - found.lower) <= 2 * statistics.half_width + statistics.tail
    assert pomdp.simulate(found.policy, episodes=20_000) == statistics


def test_costs():
    found = pomdp.solve(tiger(R=-R, objective="minimize"))
    assert found.lower <= -VALUE <= found.upper
    assert found.policy.act() == 0 and found.policy.act([0.01, 0.99]) == 1
    assert found.policy.value() == pytest.approx(found.upper, abs=1e-6)


def test_beliefs():
    model = tiger()
    random = np.random.default_rng(0)
    for belief, (a, o) in zip(random.dirichlet([1, 1], size=6), itertools.product(range(3), range(2))):
        after = (belief @ T[a]) * O[a, :, o]
        np.testing.assert_allclose(model.update(belief, a, o), after / after.sum(), rtol=1e-12)
    np.testing.assert_allclose(model.update([0.5, 0.5], "listen", "hear-left"), [0.85, 0.15], rtol=1e-12)
    agent = pomdp.solve(model).policy.agent()
    for _ in range(2):
        assert agent.act() == 0
        agent.observe("listen", "hear-right")
    assert agent.act() == 1
    agent.observe(1, 0)
    np.testing.assert_allclose(agent.belief, [0.5, 0.5])


def test_sparse_models_and_rewards_of_transitions():
    dense = pomdp.solve(tiger(), gap=1e-4)
    sparse = tiger(T=[sp.csr_matrix(one) for one in T], O=[sp.csr_array(one) for one in O])
    found = pomdp.solve(sparse, gap=1e-4)
    assert (found.lower, found.upper) == (dense.lower, dense.upper)
    of_transitions = tiger(R=np.repeat(R.T[:, :, None], 2, axis=2))
    found = pomdp.solve(of_transitions, gap=1e-4)
    assert found.lower == pytest.approx(dense.lower, abs=1e-4)


def test_files(tmp_path):
    model = tiger()
    for name in ("tiger.pomdp", "tiger.json"):
        pomdp.save(model, tmp_path / name)
        again = pomdp.load(tmp_path / name)
        assert again.action_names == NAMES["action_names"] and again.state_names == NAMES["state_names"]
        assert again.observation_names == NAMES["observation_names"] and again.gamma == 0.95
        np.testing.assert_array_equal(again.start, [0.5, 0.5])
        found = pomdp.solve(str(tmp_path / name))
        assert found.lower <= VALUE <= found.upper
    found.policy.save(tmp_path / "tiger.alpha")
    policy = pomdp.load_policy(tmp_path / "tiger.alpha", tmp_path / "tiger.json")
    np.testing.assert_array_equal(policy.vectors, found.policy.vectors)
    np.testing.assert_array_equal(policy.actions, found.policy.actions)
    found.policy.save(tmp_path / "tiger.dot")
    assert (tmp_path / "tiger.dot").read_text().startswith("digraph")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"T": T * 0.9}, r"T\[0, 0, :\] \(state 0, action 0\) sums to 0.9"),
        ({"O": O * 0.9}, r"O\[0, 0, :\] sums to 0.9"),
        ({"O": O[:2]}, r"O has 2 matrices of shape \(2, 2\), expected 3 of shape \(2, n_observations\)"),
        ({"start": [0.5, 0.6]}, "start sums to 1.1"),
        ({"start": [1.5, -0.5]}, "start has 1.5 for state 0, expected a probability"),
        ({"start": [1.0]}, r"start has shape \(1,\), expected \(2,\)"),
        ({"R": R.T}, r"R has shape \(3, 2\), expected \(2, 3\)"),
        ({"gamma": 2.0}, "gamma is 2"),
        ({"action_names": ["a"]}, "name"),
        ({"objective": "max"}, "objective is 'max'"),
    ],
)
def test_invalid_models(change, message):
    with pytest.raises(ValueError, match=message):
        tiger(**change)


def test_lists_among_arrays():
    with pytest.raises(ValueError, match="lists among its matrices"):
        tiger(T=[STAYS, OPENS.tolist(), OPENS])


def test_invalid_options():
    model = tiger()
    for options, message in (
        ({"gap": 0.0}, "gap is 0"),
        ({"relative_gap": -1.0}, "relative_gap is -1"),
        ({"gap": 1.0, "relative_gap": 1.0}, "not both"),
        ({"time": -1.0}, "time is -1"),
        ({"expansion": "pbvi"}, "expansion is 'pbvi', expected one of random, ssea"),
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"horizon": 0}, "horizon is 0"),
        ({"trials": 0}, "trials is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            pomdp.solve(model, **options)
    for action in (-1, 2**40):
        with pytest.raises(ValueError, match=f"there is no action {action}, expected one below 3"):
            model.update([0.5, 0.5], action, 0)
    with pytest.raises(TypeError):
        model.update([0.5, 0.5], 0, 0.5)
    with pytest.raises(ValueError, match="there is no action 'sleep'"):
        model.update([0.5, 0.5], "sleep", 0)
    with pytest.raises(ValueError, match="action 7, expected one below 3"):
        model.update([0.5, 0.5], 7, 0)
    with pytest.raises(ValueError, match="expected a probability for each of 2 states"):
        model.update([1.0], 0, 0)
    with pytest.raises(ValueError, match="γ is 1"):
        pomdp.solve(tiger(gamma=1.0))
    with pytest.warns(warpkov.ConvergenceWarning, match="stopped by iterations"):
        found = pomdp.solve(model, iterations=1, gap=1e-12)
    assert not found.converged and found.lower <= VALUE <= found.upper
    with pytest.raises(FileNotFoundError):
        pomdp.load("/none/there.pomdp")


def test_a_controller_worse_than_its_vectors_warns(tmp_path):
    model = tiger()
    listens = pomdp.Policy(model, np.array([[-20.0, -20.0]]), np.array([0]))
    boasts = pomdp.Policy(model, np.array([[10.0, 10.0]]), np.array([0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("a.pg", "a.dot"):
            listens.save(tmp_path / name)
        boasts.save(tmp_path / "a.alpha")
    for name in ("b.pg", "b.dot"):
        with pytest.warns(UserWarning, match="the value 10.000000 at the start, this controller -20.000000") as found:
            boasts.save(tmp_path / name)
        assert found[0].filename == __file__ and (tmp_path / name).exists()


def test_a_gap_that_closes_slowly_warns():
    T, O, R, start = random_model(1, 60, 4, 8)  # noqa: E741
    model = pomdp.Model(T, O, R, 0.99, start=start)
    # An error stops the run, which takes hours.
    with warnings.catch_warnings(), pytest.raises(warpkov.ConvergenceWarning, match=r"the gap, now .*, closes slowly"):
        warnings.simplefilter("error")
        pomdp.solve(model, gap=1e-9)
    # Nothing of the request to stop is left.
    assert pomdp.solve(tiger()).converged


def test_generate():
    assert pomdp.generate("tiger", accuracy=0.75, gamma=0.5).gamma == 0.5
    rocks = pomdp.generate("rock_sample", size=3, rock=[(0, 0), (2, 1)], start=(0, 1))
    assert (rocks.states, rocks.actions, rocks.observations) == (9 * 4 + 1, 7, 2)
    assert pomdp.generate("rock_sample", layout="4,4").states == 257
    with pytest.raises(ValueError, match="two rocks are at"):
        pomdp.generate("rock_sample", size=3, rock=[(0, 0), (0, 0)], start=(0, 1))
    with pytest.raises(ValueError, match="--accuracy"):
        pomdp.generate("tiger", accuracy=2)
    with pytest.raises(ValueError, match="--out is an option of generate"):
        pomdp.generate("tiger", out="x.json")
