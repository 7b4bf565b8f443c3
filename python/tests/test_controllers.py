"""Finite-state controllers against the solution of their linear systems by NumPy."""

import copy
import pickle

import numpy as np
import pytest

from warpkov import mdp, pomdp

from test_pomdp import T as TIGER_T
from test_pomdp import random_model, tiger


def random_controller(seed, nodes, actions, observations):
    random = np.random.default_rng(1000 + seed)
    return random.integers(actions, size=nodes), random.integers(nodes, size=(nodes, observations))


@pytest.mark.parametrize("seed", range(20))
def test_values(seed):
    T, O, R, start = random_model(seed, states=2 + seed % 3, actions=2, observations=2 + seed % 2)
    scale, gamma = 10.0 ** (seed % 9 - 4), [0.0, 0.5, 0.95, 0.999][seed % 4]
    S, nodes = len(start), 1 + seed % 5
    actions, follows = random_controller(seed, nodes, 2, O.shape[2])
    # V[i, s] = R[s, a] + gamma * sum of T[a, s, t] * O[a, t, o] * V[follows[i, o], t]
    system = np.eye(nodes * S)
    for i, a in enumerate(actions):
        for o, j in enumerate(follows[i]):
            system[i * S : (i + 1) * S, j * S : (j + 1) * S] -= gamma * T[a] * O[a, :, o]
    exact = np.linalg.solve(system, np.concatenate([scale * R[:, a] for a in actions])).reshape(nodes, S)
    for objective in ("maximize", "minimize"):
        model = pomdp.Model(T, O, scale * R, gamma, start=start, objective=objective)
        found = pomdp.Controller(model, actions, follows, starts=[0])
        np.testing.assert_allclose(found.values, exact[found.numbers], rtol=1e-7, atol=1e-9 * scale)
        assert found.numbers[found.start] == 0
        slack = 1e-9 * scale
        assert found.lower - slack <= start @ exact[0] <= found.upper + slack
        best = pomdp.Controller(model, actions, follows)
        of_start = exact @ start
        assert best.lower - slack <= (of_start.min() if objective == "minimize" else of_start.max()) <= best.upper + slack
        simulated = pomdp.simulate(found, episodes=200, seed=seed)
        assert abs(simulated.mean - start @ exact[0]) <= 3 * simulated.half_width + simulated.tail + slack


def test_files_and_agents(tmp_path):
    model = tiger()
    solution = pomdp.solve(model, gap=1e-3)
    path = tmp_path / "tiger.pg"
    solution.policy.save(path)
    controller = pomdp.load_controller(path, model)
    assert controller.lower <= solution.upper + 1e-9 and controller.upper >= solution.lower - 1e-3
    agent = controller.agent()
    assert agent.act() == 0
    agent.observe("hear-left")
    agent.observe("hear-left")
    assert agent.act() == 2
    with pytest.raises(ValueError, match="there is no observation 'roar'"):
        agent.observe("roar")
    with pytest.raises(ValueError, match="there is no observation 7, expected one below 2"):
        agent.observe(7)
    with pytest.raises(ValueError, match="there is no node 99"):
        controller.agent(99)
    with pytest.raises(ValueError, match="there is no node 99"):
        pomdp.load_controller(path, model, node=99)
    vectors = tmp_path / "tiger.alpha"
    solution.policy.save(vectors)
    with pytest.raises(ValueError, match="holds alpha vectors, expected a controller"):
        pomdp.load_controller(vectors, model)
    for again in (pickle.loads(pickle.dumps(controller)), copy.deepcopy(controller)):
        np.testing.assert_array_equal(again.next, controller.next)
        assert (again.start, again.lower, again.upper) == (controller.start, controller.lower, controller.upper)


def test_plans_end():
    # Listen, then open the door: -1 + 0.95 * (0.85 * 10 - 0.15 * 100).
    plan = pomdp.Controller(tiger(), [0, 2, 1], [[1, 2], [-1, -1], [-1, -1]])
    np.testing.assert_allclose([plan.lower, plan.upper], -1 + 0.95 * (8.5 - 15), rtol=1e-12)
    agent = plan.agent()
    agent.observe(0)
    agent.observe(1)
    assert agent.node is None
    with pytest.raises(ValueError, match="the episode has ended"):
        agent.act()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"actions": [0, 3]}, r"actions\[1\] is 3, expected 0 to 2"),
        ({"actions": [0.5, 1]}, "actions has shape"),
        ({"actions": []}, "next has shape"),
        ({"next": [[0, 1], [2, 0]]}, r"next\[1, 0\] is 2, expected -1 to 1"),
        ({"next": [[0, 1]]}, r"next has shape \(1, 2\), expected \(2, 2\)"),
        ({"next": [[0, -1], [0, 0]]}, "node 0: no successor after observation hear-right"),
        ({"starts": [2]}, r"starts\[0\] is 2, expected 0 to 1"),
        ({"starts": [-1]}, r"starts\[0\] is -1, expected 0 to 1"),
    ],
)
def test_invalid(change, message):
    with pytest.raises(ValueError, match=message):
        pomdp.Controller(tiger(), **{"actions": [0, 1], "next": [[0, 1], [0, 0]], **change})


def test_endless():
    model = pomdp.Model(TIGER_T, np.full((3, 2, 1), 1.0), np.ones((2, 3)), 1.0)
    with pytest.raises(ValueError, match="the controller may never end"):
        pomdp.Controller(model, [0], [[0]])


def test_steps_of_a_plan_of_states():
    # Plans of states, as those of `mdp.solve(..., all_steps=True)`, survive pickle.
    solution = mdp.solve(mdp.generate("forest", gamma=0.9), horizon=3, all_steps=True)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(solution)).plan, solution.plan)
