"""Errors are exceptions with the library's text."""

import numpy as np
import pytest
import scipy.sparse as sp

import warpkov
from warpkov import mdp

P = np.array([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]] * 2)
R = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P": P * 0.9}, r"P row 0 \(state 0, action 0\): probabilities sum to 0.9, expected 1 within 1e-6"),
        ({"P": np.where(P == 0, -0.0, P) - [0.5, -0.5, 0.0]}, "expected a probability in"),
        ({"P": P[:, :2]}, r"P has shape \(2, 2, 3\)"),
        ({"P": P, "R": np.zeros((2, 3))}, r"R has shape \(2, 3\), expected \(3, 2\)"),
        ({"P": P, "R": np.zeros(2)}, r"R has shape \(2,\), expected \(3,\)"),
        ({"P": P, "R": np.zeros((3, 3, 2))}, r"R has shape \(3, 3, 2\), expected \(2, 3, 3\)"),
        ({"P": P, "R": np.full((3, 2), np.nan)}, "expected a finite number"),
        ({"P": P, "gamma": 1.5}, r"gamma is 1.5, expected a number in \[0, 1\]"),
        ({"P": P, "gamma": 1.0}, "discounted values need gamma < 1"),
        ({"P": P, "gamma": None}, "gamma is missing"),
        ({"P": P, "order": "sas"}, r"P has shape \(2, 3, 3\), expected \(S, A, S\)"),
        ({"P": P, "order": "aas"}, "order is 'aas'"),
        ({"P": P, "epsilon": 0.0}, "epsilon is 0, expected a finite number above 0"),
        ({"P": P, "theta": -1.0}, "theta is -1"),
        ({"P": P, "method": "policy"}, "method is 'policy', expected one of serial, parallel"),
        ({"P": P, "method": "plain", "device": "cpu"}, "method plain does not run on device cpu"),
        ({"P": P, "device": "gpu"}, "device is 'gpu', expected auto, cpu"),
        ({"P": P, "values": np.zeros(4)}, r"values has shape \(4,\), expected a number per state, \(3,\)"),
        ({"P": P, "criterion": "reach"}, "needs goal"),
        ({"P": P, "criterion": "reach", "goal": [3]}, r"goal\[0\] is 3, expected a state below 3"),
        ({"P": P, "criterion": "sum"}, "criterion is 'sum'"),
        ({"P": P, "goal": 1}, "goal needs criterion"),
        ({"P": P, "criterion": "reach", "goal": "nowhere"}, "there is no state 'nowhere'"),
        ({"P": P, "terminal_values": np.zeros(3)}, "terminal_values needs horizon"),
        ({"P": P, "objective": "max"}, "objective is 'max'"),
        ({"P": P, "max_sweeps": 0}, "max_sweeps is 0, expected an integer of at least 1"),
        ({"P": P, "max_policies": 2.5}, "max_policies is 2.5, expected an integer"),
        ({"P": P, "max_sweeps": 2**32}, r"expected an integer below 2\*\*32"),
        ({"P": P, "horizon": -1}, "horizon is -1"),
        ({"P": P, "s_indices": [0]}, "expected both s_indices and a_indices"),
        ({"P": [sp.eye(3), sp.eye(4)]}, "expected one S x S matrix per action"),
        ({"P": [sp.eye(3)], "R": [sp.eye(3)] * 2}, "R has 2 matrices, expected one per action, 1"),
        ({"P": [(0, 0, 0, 0.5, 1.0)]}, "sum to 0.5"),
        ({"P": iter([(0, 0)])}, r"transitions\[0\] is \(0, 0\)"),
        ({"P": {0: {0: [(1.0, 5, 0.0, False)]}}}, r"indices\[0\] is 5, expected a state below 1"),
        ({"P": np.zeros((0, 0, 0))}, "P has shape"),
        ({"P": [sp.csr_array(np.eye(3) * 1j)]}, "expected real numbers"),
    ],
)
def test_values(change, message):
    arguments = {"gamma": 0.9, **change}
    with pytest.raises(ValueError, match=message):
        mdp.solve(arguments.pop("P"), **arguments)


@pytest.mark.parametrize("index", [-1, 3])
def test_indices_out_of_range(index):
    bad = sp.csr_array((np.ones(3), np.array([0, index, 2]), np.array([0, 1, 2, 3])))
    bad._shape = (3, 3)
    with pytest.raises(ValueError, match="expected (indices from 0|a state below 3|states below 3)"):
        mdp.solve([bad], gamma=0.9)


def test_pointers_out_of_range():
    bad = sp.csr_array(np.eye(3))
    bad.indptr = np.array([0, 2, 1, 3], dtype=np.int64)
    bad.has_canonical_format = True
    with pytest.raises(ValueError, match="P.indptr falls from 2 to 1 in row 1"):
        mdp.solve([bad], gamma=0.9)


def test_transposed():
    matrix = np.array([[0.5, 1.0], [0.5, 0.0]])
    with pytest.raises(ValueError, match="P seems to be transposed"):
        mdp.solve([matrix], gamma=0.9)


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
