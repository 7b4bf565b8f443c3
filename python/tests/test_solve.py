"""Values and policies against independent solutions."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from reference import expected, policy_iteration, policy_values, q_of, random_model

import warpkov
from warpkov import mdp


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("gamma", [0.3, 0.9, 0.999])
def test_random_models(seed, scale, gamma):
    P, R = random_model(seed, scale=scale)
    r = expected(P, R)
    values, _ = policy_iteration(P, r, gamma)
    epsilon = 1e-7 * scale / (1 - gamma)
    found = mdp.solve(P, R, gamma, epsilon=epsilon)
    assert found.converged and found.status == "solved" and found.certificate.bound <= epsilon
    assert np.abs(found.values - values).max() <= epsilon
    assert (found.lower <= values).all() and (values <= found.upper).all()
    # The policy is as good as the values claim.
    worth = policy_values(P, r, gamma, found.policy)
    assert np.abs(worth - values).max() <= 2 * epsilon / (1 - gamma)


@pytest.mark.parametrize("method", ["values", "modified", "krylov", "gauss-seidel", "serial", "parallel", "sequential"])
def test_methods_of_the_cpu(method):
    P, R = random_model(7)
    values, policy = policy_iteration(P, expected(P, R), 0.95)
    found = mdp.solve(P, R, 0.95, method=method, device="cpu")
    assert found.method == method
    np.testing.assert_allclose(found.values, values, atol=1e-6)
    assert (found.policy == policy).all()


@pytest.mark.parametrize("method", ["values", "projected"])
def test_kernels_under_the_emulator(method):
    P, R = random_model(8, states=6, actions=2)
    values, policy = policy_iteration(P, expected(P, R), 0.5)
    found = mdp.solve(P, R, 0.5, method=method, device="emulated", epsilon=1e-4)
    assert "emulat" in found.device
    np.testing.assert_allclose(found.values, values, atol=1e-4)
    assert (found.policy == policy).all()


def test_costs_are_minimised():
    P, R = random_model(9)
    values, policy = policy_iteration(P, -expected(P, R), 0.9)
    found = mdp.solve(P, R, 0.9, objective="minimize")
    np.testing.assert_allclose(found.values, -values, atol=1e-6)
    assert (found.policy == policy).all() and found.model.objective == "minimize"


def test_initial_values_save_sweeps():
    P, R = random_model(10)
    cold = mdp.solve(P, R, 0.99, method="values", device="cpu")
    warm = mdp.solve(P, R, 0.99, method="values", device="cpu", values=cold.values)
    assert warm.sweeps < cold.sweeps
    np.testing.assert_allclose(warm.values, cold.values, atol=2e-6)


def test_a_limit_is_a_warning():
    P, R = random_model(11)
    with pytest.warns(warpkov.ConvergenceWarning, match="sweep-limit"):
        found = mdp.solve(P, R, 0.999, method="values", device="cpu", max_sweeps=3)
    assert not found.converged and found.status == "sweep-limit" and found.sweeps == 3


def test_theta():
    P, R = random_model(12)
    found = mdp.solve(P, R, 0.9, method="values", device="cpu", theta=1e-3)
    assert found.converged and found.to_dict()["target"] == {"theta": 1e-3}


@pytest.mark.parametrize("steps", [1, 5])
def test_horizon(steps):
    P, R = random_model(13)
    r = expected(P, R)
    last = np.arange(P.shape[1], dtype=float)
    values, plan, stages = last, [], []
    for _ in range(steps):
        q = q_of(P, r, 1.0, values)
        values = q.max(axis=1)
        plan.insert(0, q.argmax(axis=1))
        stages.insert(0, values)
    found = mdp.solve(P, R, 1.0, horizon=steps, terminal_values=last)
    np.testing.assert_allclose(found.values, values, rtol=1e-12)
    assert (found.lower <= found.upper).all()
    assert found.plan is None and found.plan_values is None
    kept = mdp.solve(P, R, 1.0, horizon=steps, terminal_values=last, all_steps=True)
    np.testing.assert_array_equal(kept.plan, plan)
    np.testing.assert_array_equal(kept.plan[0], kept.policy)
    np.testing.assert_allclose(kept.plan_values, stages, rtol=1e-12)
    # The plan is worth its values.
    whole = mdp.solve(P, R, 1.0, horizon=steps, all_steps=True)
    worth = mdp.evaluate(whole.model, whole.plan, horizon=steps)
    np.testing.assert_allclose(worth.values, whole.values, rtol=1e-12)


def test_average_reward():
    # The long-run reward of a chain of two states with the stationary distribution (5/6, 1/6).
    P = np.array([[[0.9, 0.1], [0.5, 0.5]]])
    found = mdp.solve(P, np.array([1.0, 7.0]), 1.0, criterion="average")
    np.testing.assert_allclose(found.values, 5 / 6 + 7 / 6, atol=1e-6)
    assert (found.lower <= 2.0).all() and (2.0 <= found.upper).all()


def test_reach_and_total():
    # The gambler's ruin with 4 stakes: 1 - (q/p)^s over 1 - (q/p)^4.
    p, ratio = 0.4, 1.5
    P = np.zeros((1, 5, 5))
    P[0, 0, 0] = P[0, 4, 4] = 1
    for s in (1, 2, 3):
        P[0, s, s + 1], P[0, s, s - 1] = p, 1 - p
    exact = (1 - ratio ** np.arange(5)) / (1 - ratio**4)
    found = mdp.solve(P, gamma=1.0, criterion="reach", goal=4, epsilon=1e-9)
    np.testing.assert_allclose(found.values, exact, atol=1e-9)
    assert (found.lower <= exact).all() and (exact <= found.upper).all()
    for goal in ([4], np.arange(5) == 4):
        again = mdp.solve(P, gamma=1.0, criterion="reach", goal=goal, epsilon=1e-9)
        np.testing.assert_array_equal(again.values, found.values)
    # A reward of 1 before the end: the expected number of steps.
    steps = mdp.solve(P, np.array([0.0, 1, 1, 1, 0]), 1.0, criterion="total", goal=[0, 4], epsilon=1e-9)
    exact_steps = (np.arange(5) - 4 * exact) / (1 - 2 * p)
    np.testing.assert_allclose(steps.values, exact_steps, atol=1e-8)


def test_infinite_values():
    P = np.array([[[1.0]]])
    found = mdp.solve(P, np.array([1.0]), 1.0, criterion="total")
    assert found.values[0] == np.inf


def test_solution():
    P, R = random_model(14)
    found = mdp.solve(P, R, 0.9)
    assert found.values.dtype == np.float64 and found.policy.dtype == np.int64
    assert found.elapsed >= 0 and found.notes and isinstance(found.device, str)
    report = found.to_dict()
    assert report["values"] == found.values.tolist() and report["policy"] == found.policy.tolist()
    assert report["certificate"]["bound"] == found.certificate.bound
    assert repr(found).startswith("<warpkov.mdp.Solution: 12 states, solved, bound ")
    assert found.certificate.residual <= found.certificate.bound
    assert found.certificate.contraction == pytest.approx(0.9)


def test_states_without_actions():
    found = mdp.solve([("go", "right", "end", 1.0, 3.0)], gamma=0.5)
    assert found.values.tolist() == [3.0, 0.0] and found.policy.tolist() == [0, -1]
    assert found.model.state_names == ["go", "end"] and found.model.action_name(0, 0) == "right"


def test_evaluate():
    P, R = random_model(15)
    policy = np.random.default_rng(0).integers(0, 3, 12)
    exact = policy_values(P, expected(P, R), 0.9, policy)
    found = mdp.evaluate(mdp.Model(P, R, 0.9), policy)
    assert found.converged and found.bound <= 1e-6
    assert (found.lower <= exact).all() and (exact <= found.upper).all()
    np.testing.assert_allclose(found.values, exact, atol=1e-6)


def test_verify():
    P, R = random_model(17)
    model = mdp.Model(P, R, 0.9)
    solution = mdp.solve(model, epsilon=1e-9)
    found = mdp.verify(model, solution, epsilon=1e-9)
    assert found.verdict == found.values.verdict == found.policy.verdict == "proved"
    assert found.values.upper <= found.values.limit == 1e-9 and found.policy.limit == 2e-9
    assert (found.lower <= solution.upper).all() and (solution.lower <= found.upper).all()
    wrong = solution.values.copy()
    wrong[3] += 1e-3
    found = mdp.verify(model, wrong)
    assert found.verdict == "refuted" and found.policy is None and found.values.worst == 3
    assert 1e-4 < found.values.lower <= 1e-3 + 1e-9 and found.values.upper >= 1e-3 - 1e-9
    worst = expected(P, R).argmin(axis=1)
    assert mdp.verify(model, solution.values, worst, loss=1e6).policy.verdict == "proved"
    with pytest.raises(ValueError, match="one of its 3 actions"):
        mdp.verify(model, wrong, np.full(12, 7))


def test_exact():
    # A step ends with probability 1/4, earning 1: V = 1 + 3/4 V.
    stays = [("a", "go", "a", 0.75, 1), ("a", "go", "b", 0.25, 1), ("b", "rest", "b", 1, 0)]
    found = mdp.solve(stays, gamma=1, criterion="total", exact=True)
    assert found.exact == [Fraction(4), Fraction(0)] and found.values.tolist() == [4.0, 0.0]
    assert found.converged and found.certificate.bound == 0 and (found.lower == found.upper).all()
    assert found.to_dict()["exact"] == ["4", "0"] and found.to_dict()["arithmetic"] == "rationals"

    # The Quantitative Verification Benchmark Set's consensus, as PRISM computes it.
    coin = mdp.generate("consensus")
    goal = set(coin.labels["finished"]) & set(coin.labels["all_coins_equal_1"])
    least = mdp.solve(coin.replace(objective="minimize"), criterion="reach", goal=sorted(goal), exact=True)
    assert Fraction(49, 128) in least.exact
    assert all(lower <= value <= upper for lower, value, upper in zip(least.lower, least.exact, least.upper))

    # 0.9 is a binary fraction: V = 1/(1 - 0.9) is not 10.
    one = mdp.Model([("a", "stay", "a", 1, 1)], gamma=0.9)
    assert mdp.solve(one, exact=True).exact == [1 / (1 - Fraction(0.9))]
    assert mdp.solve(one, horizon=3, exact=True).exact == [1 + Fraction(0.9) + Fraction(0.9) ** 2]
    assert mdp.solve(one.replace(gamma=1), criterion="total", exact=True).exact == [math.inf]
    assert mdp.solve(one).exact is None

    P, R = random_model(19)
    model = mdp.Model(P, R, 0.9)
    solution, found = mdp.solve(model, epsilon=1e-9), mdp.solve(model, exact=True)
    assert all(abs(exact - Fraction(value)) <= Fraction(1e-9) for exact, value in zip(found.exact, solution.values))
    assert found.policy.tolist() == solution.policy.tolist()
    assert mdp.verify(model, found, epsilon=1e-12, loss=0).verdict == "proved"


def test_exact_of_large_models_has_proved_bounds():
    grid = mdp.generate("grid", width=64, height=64)
    found = mdp.solve(grid, exact=True)
    assert found.exact is None and "exact" not in found.to_dict() and found.certificate.bound <= 1e-6
    assert any(note.startswith("no fractions: rational arithmetic would take") for note in found.notes)
    assert ((found.lower <= found.values) & (found.values <= found.upper)).all()


def test_exact_refuses_what_the_command_refuses():
    model = mdp.generate("forest", gamma=0.9)
    for option in (
        {"theta": 1e-3},
        {"values": np.zeros(3)},
        {"horizon": 2, "terminal_values": np.zeros(3)},
        {"horizon": 2, "all_steps": True},
        {"criterion": "reach", "goal": 0, "relative": True},
    ):
        with pytest.raises(ValueError, match=f"exact cannot be used with {list(option)[-1]}"):
            mdp.solve(model, exact=True, **option)
    with pytest.raises(ValueError, match="both signs"):
        mdp.solve([("a", "x", "a", 1, 1), ("a", "y", "a", 1, -1)], gamma=1, criterion="total", exact=True)


def test_q_factors():
    P, R = random_model(16)
    model = mdp.Model(P, R, 0.9)
    r = expected(P, R)
    values, _ = policy_iteration(P, r, 0.9)
    exact = q_of(P, r, 0.9, values)
    found = mdp.q_factors(model, epsilon=1e-9)
    assert np.abs(found.q - exact).max() <= found.bound <= 1e-9
    np.testing.assert_allclose(found.advantages, exact - exact.max(axis=1, keepdims=True), atol=1e-8)
    solution = mdp.solve(model)
    np.testing.assert_array_equal(mdp.q_factors(model, solution).q, mdp.q_factors(model, solution.values).q)
    assert mdp.q_factors(model, solution.values).bound is None
    with pytest.raises(ValueError, match="not solved"):
        mdp.q_factors(model, solution, epsilon=1e-3)


def test_simulate():
    P, R = random_model(17)
    model = mdp.Model(P, R, 0.9)
    solution = mdp.solve(model)
    found = mdp.simulate(model, solution.policy, start=3, confidence=0.9999, seed=1)
    assert found.lower <= solution.values[3] <= found.upper
    assert found.episodes == 10_000 and found.reached is None
    assert mdp.simulate(model, solution.policy, start=3, confidence=0.9999, seed=1) == found
    everywhere = mdp.simulate(model, solution.policy, confidence=0.9999)
    assert everywhere.lower <= solution.values.mean() <= everywhere.upper


def test_solve_many():
    models = [mdp.Model(*random_model(seed), 0.9) for seed in range(4)]
    for model, (values, policy, bound) in zip(models, mdp.solve_many(models)):
        alone = mdp.solve(model)
        assert bound <= 1e-6
        np.testing.assert_allclose(values, alone.values, atol=2e-6)
        assert (policy == alone.policy).all()


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    grid = mdp.solve(mdp.generate("grid", width=6, height=4, walls=0.2))
    for what in ("values", "policy"):
        cells = grid.plot(what=what).images[0].get_array()
        assert cells.shape == (4, 6) and 0 < cells.mask.sum() < 24, "walls stay blank"
    assert (cells.compressed() == grid.policy[~cells.mask.ravel()]).all()
    P, R = random_model(18)
    flat = mdp.solve(P, R, 0.9)
    _, axes = plt.subplots()
    assert flat.plot(axes) is axes and len(axes.lines[0].get_ydata()) == 12
    assert flat.plot(shape=(3, 4)).images[0].get_array().shape == (3, 4)
    with pytest.raises(ValueError, match="expected 'values' or 'policy'"):
        flat.plot(what="q")
    plt.close("all")


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mdp.solve(*random_model(19), 0.9)


def test_policies_come_from_solutions_and_files(tmp_path):
    model = mdp.generate("garnet", states=30, seed=3)
    solution = mdp.solve(model)
    path = tmp_path / "policy.csv"
    path.write_text("state,action\n" + "".join(f"{s},{a}\n" for s, a in enumerate(solution.policy)))
    expected = mdp.evaluate(model, solution.policy).values
    for policy in (solution, path, str(path)):
        np.testing.assert_array_equal(mdp.evaluate(model, policy).values, expected)
    planned = mdp.solve(model, horizon=4, all_steps=True)
    rows = [f"{t},{s},{a}\n" for t, actions in enumerate(planned.plan) for s, a in enumerate(actions)]
    path.write_text("step,state,action\n" + "".join(rows))
    expected = mdp.evaluate(model, planned.plan, horizon=4).values
    for policy in (planned, path):
        np.testing.assert_array_equal(mdp.evaluate(model, policy, horizon=4).values, expected)
    with pytest.raises((OSError, ValueError), match="missing.csv"):
        mdp.evaluate(model, tmp_path / "missing.csv")
