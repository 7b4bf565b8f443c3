"""Errors are exceptions with the library's text."""

import numpy as np
import pytest
import scipy.sparse as sp

import warpkov
from warpkov import hmm, mdp, pomdp

P = np.array([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]] * 2)
R = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P": P * 0.9}, r"P\[0, 0, :\] \(state 0, action 0\) sums to 0.9, expected 1 within 1e-6"),
        ({"P": P, "R": None}, "R is missing"),
        ({"P": np.where(P == 0, -0.0, P) - [0.5, -0.5, 0.0]}, "expected a probability in"),
        ({"P": P[:, :2]}, r"P has shape \(2, 2, 3\)"),
        ({"P": P, "R": np.zeros((2, 3))}, r"R has shape \(2, 3\), expected \(3, 2\)"),
        ({"P": P, "R": np.zeros(2)}, r"R has shape \(2,\), expected \(3,\)"),
        ({"P": P, "R": np.zeros((3, 3, 2))}, r"R has shape \(3, 3, 2\), expected \(2, 3, 3\)"),
        ({"P": P, "R": np.full((3, 2), np.nan)}, r"R\[0, 0\] is NaN, expected a finite number"),
        ({"P": P, "R": [[0, 0], [0, np.inf], [0, 0]]}, r"R\[1, 1\] is inf, expected a finite number"),
        ({"P": P, "R": [0, 0, np.nan]}, r"R\[2\] is NaN, expected a finite number"),
        ({"P": P, "ends": [[0, 0], [0, 0], [0, 2.0]]}, r"ends\[2, 1\] is 2, expected a probability in \[0, 1\]"),
        ({"P": P, "R": np.where(np.arange(18).reshape(2, 3, 3) == 14, np.nan, 0)}, r"R\[1, 1, 2\] .* is NaN"),
        (
            {"P": np.where(np.arange(18).reshape(2, 3, 3) == 10, -1, P)},
            r"P\[1, 0, 1\] .* is -1, expected a probability",
        ),
        (
            {"P": np.where(np.arange(18).reshape(2, 3, 3) == 14, 0, P * (P != 1))},
            r"P\[0, 1, :\] .* is 0, expected prob",
        ),
        (
            {"P": (P * [[[1.0], [1.0], [0.5]]]).reshape(6, 3), "order": "ass"},
            r"P\[2, :\] \(state 2, action 0\) sums to 0.5",
        ),
        (
            {"P": np.eye(3)[[1, 0]] * [[1.0], [0.5]], "R": [0.0, 0.0], "s_indices": [1, 0], "a_indices": [0, 4]},
            r"P\[1, :\] \(state 0, action 4\) sums to 0.5",
        ),
        (
            {"P": np.eye(3)[[1, 0]], "R": [0.0, np.nan], "s_indices": [1, 0], "a_indices": [0, 4]},
            r"R\[1\] \(state 0, action 4\) is NaN",
        ),
        ({"P": [np.eye(3), np.eye(3) * 0.5]}, r"P\[1, 0, :\] \(state 0, action 1\) sums to 0.5"),
        ({"P": np.full((2, 3, 3), "x")}, "P has elements of type <U1, expected real numbers"),
        ({"P": P, "gamma": 1.5}, r"gamma is 1.5, expected a number in \[0, 1\]"),
        ({"P": P, "gamma": 1.0}, "discounted values need gamma < 1"),
        ({"P": P, "gamma": None}, "gamma is missing"),
        ({"P": P, "order": "sas"}, r"P has shape \(2, 3, 3\), expected \(S, A, S\)"),
        ({"P": P, "order": "aas"}, "order is 'aas'"),
        ({"P": P, "epsilon": 0.0}, "epsilon is 0, expected a finite number above 0"),
        ({"P": P, "theta": -1.0}, "theta is -1"),
        ({"P": P, "method": "policy"}, "method is 'policy', expected one of serial, parallel"),
        ({"P": P, "method": "values:buffering"}, "method is 'values:buffering', method values has no options"),
        ({"P": P, "method": "plain", "device": "cpu"}, "method plain does not run on device cpu"),
        ({"P": P, "device": "gpu"}, "device is 'gpu', expected auto, cpu"),
        ({"P": P, "values": np.zeros(4)}, r"values has shape \(4,\), expected a number per state, \(3,\)"),
        ({"P": P, "criterion": "reach"}, "needs goal"),
        ({"P": P, "criterion": "reach", "goal": [3]}, r"goal\[0\] is 3, expected a state below 3"),
        ({"P": P, "criterion": "sum"}, "criterion is 'sum'"),
        ({"P": P, "goal": 1}, "goal needs criterion"),
        ({"P": P, "criterion": "reach", "goal": "nowhere"}, "there is no state 'nowhere'"),
        ({"P": P, "terminal_values": np.zeros(3)}, "terminal_values needs horizon"),
        ({"P": P, "all_steps": True}, "all_steps needs horizon"),
        ({"P": P, "objective": "max"}, "objective is 'max'"),
        ({"P": P, "max_sweeps": 0}, "max_sweeps is 0, expected an integer of at least 1"),
        ({"P": P, "max_policies": 2.5}, "max_policies is 2.5, expected an integer"),
        ({"P": P, "max_sweeps": 2**32}, r"expected an integer below 2\*\*32"),
        ({"P": P, "horizon": -1}, "horizon is -1"),
        ({"P": P, "s_indices": [0]}, "expected both s_indices and a_indices"),
        ({"P": [sp.eye(3), sp.eye(4)]}, "expected one S x S matrix per action"),
        ({"P": [sp.eye(3)], "R": [sp.eye(3)] * 2}, "R has 2 matrices, expected one per action, 1"),
        ({"P": [("new", "keep", "new", 0.5, 1.0)]}, "the probabilities of state 'new' and action 'keep' sum to 0.5"),
        ({"P": [(0, 0, 0, 1.5, 1.0)]}, r"transitions\[0\] has probability 1.5"),
        ({"P": iter([(0, 0)])}, r"transitions\[0\] is \(0, 0\)"),
        ({"P": {0: {0: [(1.0, 5, 0.0, False)]}}}, r"P\[0\]\[0\]\[0\] has next state 5, expected a state below 1"),
        ({"P": {0: {0: [(0.5, 0, 0.0, False)]}}}, r"P\[0\]\[0\] has probabilities that sum to 0.5"),
        ({"P": np.zeros((0, 0, 0))}, "P has shape"),
        ({"P": [sp.csr_array(np.eye(3) * 1j)]}, "expected real numbers"),
    ],
)
def test_values(change, message):
    arguments = {"gamma": 0.9, "R": 0, **change}
    with pytest.raises(ValueError, match=message):
        mdp.solve(arguments.pop("P"), **arguments)


@pytest.mark.parametrize("index", [-1, 3])
def test_indices_out_of_range(index):
    bad = sp.csr_array((np.ones(3), np.array([0, index, 2]), np.array([0, 1, 2, 3])))
    bad._shape = (3, 3)
    with pytest.raises(ValueError, match="expected (indices from 0|a state below 3|states below 3)"):
        mdp.solve([bad], 0, gamma=0.9)


def test_pointers_out_of_range():
    bad = sp.csr_array(np.eye(3))
    bad.indptr = np.array([0, 2, 1, 3], dtype=np.int64)
    bad.has_canonical_format = True
    with pytest.raises(ValueError, match="P.indptr falls from 2 to 1 in row 1"):
        mdp.solve([bad], 0, gamma=0.9)


def test_transposed():
    matrix = np.array([[0.5, 1.0], [0.5, 0.0]])
    with pytest.raises(ValueError, match="P seems to be transposed"):
        mdp.solve([matrix], 0, gamma=0.9)


def test_arrays_without_rewards_serve_one_criterion():
    assert mdp.solve(P, gamma=0.9, criterion="reach", goal=1).values[0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="R is missing: pass the rewards, or R=0"):
        mdp.solve(P, gamma=0.9, criterion="average")
    with pytest.raises(ValueError, match="R is missing"):
        mdp.Model(P, gamma=0.9)
    assert (mdp.Model(P, 3, gamma=0.9).action_rewards == 3.0).all()
    with pytest.raises(ValueError, match="R is missing"):
        pomdp.Model(P, np.ones((2, 3, 1)), None, 0.9)


def test_entries_of_partially_observable_models():
    O = np.full((2, 3, 2), 0.5)  # noqa: E741
    for change, message in (
        ({"T": P * 0.9}, r"T\[0, 0, :\] \(state 0, action 0\) sums to 0.9"),
        (
            {"T": np.where(np.arange(18).reshape(2, 3, 3) == 10, 2.0, P)},
            r"T\[1, 0, 1\] .* is 2, expected a probability",
        ),
        ({"R": [[0, 0], [0, np.nan], [0, 0]]}, r"R\[1, 1\] is NaN"),
        ({"O": O * 0.5}, r"O\[0, 0, :\] sums to 0.5, expected 1"),
        ({"O": O - [[[0.0, 1.0]] * 3] * 2}, r"O\[0, 0, 1\] is -0.5, expected a probability in \[0, 1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            pomdp.Model(**{"T": P, "O": O, "R": R, "gamma": 0.9, **change})


def test_entries_of_hidden_markov_models():
    def model(**change):
        it = hmm.CategoricalHMM(2)
        it.startprob_, it.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
        it.emissionprob_ = [[0.9, 0.1], [0.2, 0.8]]
        for name, value in change.items():
            setattr(it, name, value)
        return it

    for change, message in (
        ({"startprob_": [0.5, 0.6]}, "startprob_ sums to 1.1, expected 1"),
        ({"transmat_": [[0.9, 0.1], [0.2, 0.9]]}, r"transmat_\[1\] sums to 1.1"),
        ({"transmat_": [[0.9, 0.1], [-0.2, 1.2]]}, r"transmat_\[1, 0\] is -0.2, expected a probability"),
        ({"transmat_": [[0.9, 0.2], [0.1, 0.8]]}, r"transmat_ looks transposed, expected transmat_\[from, to\]"),
        ({"emissionprob_": [[0.9, 0.1], [0.2, np.nan]]}, r"emissionprob_\[1, 1\] is NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**change).score([[0], [1]])
    with pytest.raises(ValueError, match=r"X\[3, 0\] is 7, expected a symbol below 2"):
        model().score([[0], [1], [1], [7]], lengths=[2, 2])
    normal = hmm.GaussianHMM(2)
    normal.startprob_, normal.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    normal.means_, normal.covars_ = [[0.0], [np.nan]], [[1.0], [1.0]]
    with pytest.raises(ValueError, match=r"means_\[1, 0\] is NaN, expected a finite number"):
        normal.score([[0.0]])


def distributions(random, *shape):
    """Random distributions with zeros along the last axis."""
    found = random.random(shape) * (random.random(shape) < 0.6)
    found[..., 0] += 0.1
    return found / found.sum(-1, keepdims=True)


def test_every_bad_entry_is_named():
    random = np.random.default_rng(0)
    for _ in range(400):
        states, actions = random.integers(1, 5, 2)
        a, s, u = random.integers(actions), random.integers(states), random.integers(states)
        bad, other = distributions(random, actions, states, states), distributions(random, actions, states, states)
        form, is_reward = random.choice(["ass", "sas", "list", "pairs"]), random.random() < 0.5
        if is_reward:
            bad, name = random.random((actions, states, states)) - 0.5, "R"
            bad[a, s, u] = random.choice([np.nan, np.inf])
        else:
            name = "P"
            bad[a, s, u] = random.choice([-0.25, np.nan, np.inf, 1.5])
        rows = {
            "ass": (lambda m: m, f"{a}, {s}"),
            "sas": (lambda m: m.transpose(1, 0, 2), f"{s}, {a}"),
            "list": (lambda m: [sp.csr_array(one) for one in m], f"{a}, {s}"),
            "pairs": (lambda m: sp.csr_array(m.transpose(1, 0, 2).reshape(-1, states)), f"{s * actions + a}"),
        }
        shaped, row = rows[form]
        options = {"order": form} if form in ("ass", "sas") else {}
        if form == "pairs":
            options = {
                "s_indices": np.repeat(np.arange(states), actions),
                "a_indices": np.tile(np.arange(actions), states),
            }
        arrays = (shaped(other), shaped(bad)) if is_reward else (shaped(bad), random.random((states, actions)))
        with pytest.raises(ValueError) as error:
            mdp.Model(*arrays, 0.9, **options)
        assert str(error.value).startswith(f"{name}[{row}, {u}] "), (form, bad, error.value)


def test_every_bad_entry_of_a_pomdp_is_named():
    random = np.random.default_rng(0)
    for _ in range(200):
        states, actions, observations = random.integers(1, 5, 3)
        arrays = {
            "T": distributions(random, actions, states, states),
            "O": distributions(random, actions, states, observations),
        }
        name = random.choice(["T", "O"])
        place = tuple(int(random.integers(size)) for size in arrays[name].shape)
        arrays[name][place] = random.choice([-0.25, np.nan, np.inf, 1.5])
        if random.random() < 0.5:
            arrays = {key: [sp.csr_array(one) for one in array] for key, array in arrays.items()}
        with pytest.raises(ValueError) as error:
            pomdp.Model(arrays["T"], arrays["O"], random.random((states, actions)), 0.9)
        assert str(error.value).startswith(f"{name}[{', '.join(map(str, place))}] "), (place, error.value)


def test_other_types():
    with pytest.raises(TypeError, match="P is a int, expected arrays"):
        mdp.solve(3, gamma=0.9)


def test_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot read .*none.json"):
        mdp.load(tmp_path / "none.json")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"gamma": 0.5,\n "P": 7}')
    with pytest.raises(ValueError, match=r"wrong.json:2"):
        mdp.solve(wrong)
    with pytest.raises(ValueError, match="format is 'yaml', expected one of json, csv"):
        mdp.load(wrong, format="yaml")
    with pytest.raises(OSError, match="cannot write"):
        mdp.save(mdp.generate("forest"), tmp_path / "no folder" / "model.json")


def test_devices():
    with pytest.raises(warpkov.DeviceError, match="7777|NVIDIA driver"):
        mdp.solve(P, R, 0.9, device="cuda:7777")
    assert issubclass(warpkov.DeviceError, RuntimeError)


def test_policies():
    model = mdp.Model(P, R, 0.9)
    for policy, message in (
        ([0, 0], "the policy has 2 actions, expected one per state, 3"),
        ([0, 2, 0], "the policy has action 2 in state 1, expected a number below 2"),
        ([0, -5, 0], "the policy has action -5 in state 1"),
        ([0.0, 1.0, 0.0], "expected S integers"),
    ):
        with pytest.raises(ValueError, match=message):
            mdp.evaluate(model, policy)
    with pytest.raises(ValueError, match="confidence is 1"):
        mdp.simulate(model, [0, 0, 0], confidence=1.0)
    with pytest.raises(ValueError, match="episodes is 0"):
        mdp.simulate(model, [0, 0, 0], episodes=0)
    with pytest.raises(ValueError, match="seed is -1"):
        mdp.simulate(model, [0, 0, 0], seed=-1)
    with pytest.raises(ValueError, match="start 9"):
        mdp.simulate(model, [0, 0, 0], start=9)
