"""Shapes of models, and what they mean."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from reference import expected, policy_iteration, random_model

from warpkov import mdp

GAMMA = 0.9


def object_array(matrices):
    array = np.empty(len(matrices), dtype=object)
    array[:] = matrices
    return array


def shapes_of_P():
    """P in every shape that has no s_indices, with its order."""
    P, _ = random_model(1)
    by_state = P.transpose(1, 0, 2)
    sparse = [sp.csr_matrix(matrix) for matrix in P]
    return {
        "ass": (P, None),
        "sas": (by_state, None),
        "nested list": (P.tolist(), None),
        "list of csr_matrix": (sparse, None),
        "tuple of csr_array": (tuple(sp.csr_array(matrix) for matrix in P), None),
        "list of csc": ([sp.csc_matrix(matrix) for matrix in P], None),
        "list of coo": ([sp.coo_matrix(matrix) for matrix in P], None),
        "list of dense": (list(P), None),
        "object array": (object_array(sparse), None),
        "stack by state": (sp.csr_array(by_state.reshape(-1, 12)), "sas"),
        "stack by action": (sp.csr_array(P.reshape(-1, 12)), "ass"),
        "dense stack by state": (by_state.reshape(-1, 12), "sas"),
        "dense stack by action": (P.reshape(-1, 12), "ass"),
        "Fortran order": (np.asfortranarray(P), None),
        "strided": (np.repeat(P, 2, axis=0)[::2], None),
        "float32": (P.astype(np.float32), None),
    }


@pytest.mark.parametrize("name", shapes_of_P())
def test_shapes_of_P(name):
    P, R = random_model(1)
    r = expected(P, R)
    values, policy = policy_iteration(P, r, GAMMA)
    shaped, order = shapes_of_P()[name]
    found = mdp.solve(shaped, r, GAMMA, order=order)
    np.testing.assert_allclose(found.values, values, atol=1e-6 if name != "float32" else 1e-4)
    assert (found.policy == policy).all()
    np.testing.assert_allclose(found.model.P.toarray(), P.transpose(1, 0, 2).reshape(-1, 12), atol=1e-7)


@pytest.mark.parametrize("form", ["ass", "list of sparse", "object array", "tuple of dense", "stack"])
def test_rewards_of_transitions(form):
    P, R = random_model(2)
    values, _ = policy_iteration(P, expected(P, R), GAMMA)
    sparse = [sp.csr_matrix(matrix) for matrix in R]
    if form == "stack":
        found = mdp.solve(sp.csr_array(P.reshape(-1, 12)), sp.csr_array(R.reshape(-1, 12)), GAMMA, order="ass")
    else:
        forms = {"ass": R, "list of sparse": sparse, "object array": object_array(sparse), "tuple of dense": tuple(R)}
        found = mdp.solve(P, forms[form], GAMMA)
    np.testing.assert_allclose(found.values, values, atol=1e-6)


def test_rewards_by_state_and_by_both():
    P, R = random_model(3)
    of_state = R[0, :, 0]
    values, _ = policy_iteration(P, np.repeat(of_state[:, None], 3, axis=1), GAMMA)
    np.testing.assert_allclose(mdp.solve(P, of_state, GAMMA).values, values, atol=1e-6)
    np.testing.assert_allclose(mdp.solve(P, of_state.tolist(), GAMMA).values, values, atol=1e-6)
    by_state = mdp.solve(P.transpose(1, 0, 2), R.transpose(1, 0, 2), GAMMA)
    np.testing.assert_allclose(by_state.values, policy_iteration(P, expected(P, R), GAMMA)[0], atol=1e-6)


def test_no_rewards_are_zero():
    P, _ = random_model(4)
    assert mdp.solve(P, 0, gamma=GAMMA).values.tolist() == [0.0] * 12


def test_a_cube_needs_an_order():
    P = np.array([[[0.7, 0.3], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    R = np.array([[10.0, 2.0], [2.0, -5.0]])
    with pytest.raises(ValueError, match=r"set order='ass' for P\[a\]\[s\]\[s'\], or order='sas'"):
        mdp.solve(P, R, GAMMA)
    ass, sas = mdp.solve(P, R, GAMMA, order="ass"), mdp.solve(P, R, GAMMA, order="sas")
    np.testing.assert_allclose(ass.values, policy_iteration(P, R, GAMMA)[0], atol=1e-6)
    np.testing.assert_allclose(sas.values, policy_iteration(P.transpose(1, 0, 2), R, GAMMA)[0], atol=1e-6)
    assert np.abs(ass.values - sas.values).max() > 1
    # A list of matrices is one per action.
    np.testing.assert_array_equal(mdp.solve(list(P), R, GAMMA).values, ass.values)


def test_a_stack_needs_an_order():
    P, _ = random_model(5)
    with pytest.raises(ValueError, match="set order='sas' if row"):
        mdp.solve(sp.csr_array(P.reshape(-1, 12)), gamma=GAMMA)


def pairs(P, r, keep):
    """The state-action pairs of a mask keep[s][a]."""
    s, a = np.nonzero(keep)
    return P[a, s], r[s, a], s, a


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_pairs(sparse, shuffled):
    P, R = random_model(6)
    r = expected(P, R)
    random = np.random.default_rng(0)
    keep = random.random(r.shape) < 0.6
    keep[~keep.any(axis=1), 2] = True
    values, policy = policy_iteration(P, np.where(keep, r, -1e6), GAMMA)
    Q, rewards, s, a = pairs(P, r, keep)
    if shuffled:
        order = random.permutation(s.size)
        Q, rewards, s, a = Q[order], rewards[order], s[order], a[order]
    found = mdp.solve(sp.csr_matrix(Q) if sparse else Q, rewards, GAMMA, s_indices=s, a_indices=a)
    np.testing.assert_allclose(found.values, values, atol=1e-6)
    assert (found.policy == policy).all(), "actions have the numbers of a_indices"
    # -inf marks the same actions.
    marked = mdp.solve(P, np.where(keep, r, -np.inf), GAMMA)
    np.testing.assert_allclose(marked.values, values, atol=1e-6)
    assert (marked.policy == policy).all()
    # Policies and Q-factors have the same numbers.
    evaluated = mdp.evaluate(found.model, policy)
    np.testing.assert_allclose(evaluated.values, values, atol=1e-5)
    q = mdp.q_factors(found.model, found).q
    assert q.shape == r.shape and (np.isnan(q) == ~keep).all()
    state = int(np.flatnonzero(~keep.all(axis=1))[0])
    wrong = policy.copy()
    wrong[state] = int(np.flatnonzero(~keep[state])[0])
    with pytest.raises(ValueError, match=f"state {state} has no action {wrong[state]}"):
        mdp.evaluate(found.model, wrong)


def test_duplicates_of_scipy_are_sums():
    P = sp.coo_matrix(([0.25, 0.25, 0.5, 1.0], ([0, 0, 0, 1], [1, 1, 0, 1])), shape=(2, 2)).tocsr()
    raw = sp.csr_matrix((np.array([0.25, 0.25, 0.5, 1.0]), np.array([1, 1, 0, 1]), np.array([0, 3, 4])), shape=(2, 2))
    for matrix in (P, raw):
        assert mdp.Model([matrix], 0, gamma=0.5).P.toarray().tolist() == [[0.5, 0.5], [0.0, 1.0]]


def test_int64_indices():
    P, R = random_model(7)
    matrices = [sp.csr_array(matrix) for matrix in P]
    for matrix in matrices:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    found = mdp.solve(matrices, expected(P, R), GAMMA)
    np.testing.assert_allclose(found.values, policy_iteration(P, expected(P, R), GAMMA)[0], atol=1e-6)


def test_ends():
    # The process ends with probability 0.25 in each step, so the value is 1 / (1 - 0.75 * 0.8).
    found = mdp.solve(np.array([[[0.75]]]), np.array([[1.0]]), 0.8, ends=np.array([[0.25]]))
    assert found.values[0] == pytest.approx(2.5, abs=1e-6)


def test_transitions_by_numbers_and_from_an_iterator():
    listed = [(0, 0, 0, 0.5, 1.0), (0, 0, 1, 0.5, 1.0), (0, 1, 1, 1.0, 3.0), (np.int64(1), 0, 0, np.float64(1), 0)]
    found = mdp.solve(iter(listed), gamma=0.5)
    P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    r = np.array([[1.0, 3.0], [0.0, -1e9]])
    np.testing.assert_allclose(found.values, policy_iteration(P, r, 0.5)[0], atol=1e-6)
    assert found.model.state_names is None


def test_names_and_labels():
    P, R = random_model(8, states=3, actions=2)
    model = mdp.Model(
        P, expected(P, R), GAMMA, state_names=["a", "b", "c"], action_names=["x", "y"], labels={"init": [2]}
    )
    assert model.state_names == ["a", "b", "c"] and model.labels == {"init": [2]}
    assert model.action_name(2, 1) == "y"
    policy = mdp.solve(model).policy
    assert mdp.simulate(model, policy, seed=3) == mdp.simulate(model, policy, seed=3, start="c")


def test_model_of_a_model_and_other_discounts():
    model = mdp.generate("forest", gamma=0.9)
    assert mdp.Model(model, gamma=0.5).gamma == 0.5
    assert model.replace(objective="minimize").objective == "minimize"
    with pytest.raises(ValueError, match="R is for arrays, and P is a whole model"):
        mdp.solve(model, np.zeros(3))


@pytest.mark.parametrize("extension", ["json", "safetensors", "npz"])
def test_files(tmp_path, extension):
    P, R = random_model(9)
    model = mdp.Model(P, R, GAMMA)
    path = tmp_path / f"model.{extension}"
    mdp.save(model, path)
    solution = mdp.solve(path)
    np.testing.assert_array_equal(solution.values, mdp.solve(model).values)
    again = mdp.load(str(path), gamma=0.5)
    assert again.gamma == 0.5
    np.testing.assert_array_equal(again.P.toarray(), model.P.toarray())
    np.testing.assert_array_equal(again.R.toarray() * (again.P.toarray() > 0), model.R.toarray())
    mdp.solve(path, gamma=0.1)


def test_save_in_a_named_format(tmp_path):
    mdp.save(mdp.generate("forest"), tmp_path / "model", format="csv")
    assert (tmp_path / "model").read_text().startswith("state,action,next,probability,reward\n")


def test_generate():
    grid = mdp.generate("grid", width=5, height=3)
    assert grid.states == 15 and grid.grid_shape == (3, 5)
    assert mdp.generate("sutton_grid").states == 25
    with pytest.raises(ValueError, match="--widht"):
        mdp.generate("grid", widht=5)
    with pytest.raises(ValueError, match="unrecognized subcommand 'gird'"):
        mdp.generate("gird")
    with pytest.raises(ValueError, match=r"--slip <P>': expected a number in \[0, 1\]"):
        mdp.generate("grid", slip=1.5)
    rental = mdp.generate("car_rental", max_cars=3, rentals=(1.5, 2), returns=np.array([1.0, 1.0]))
    assert rental.states == 16
    same = mdp.generate("car_rental", max_cars=3, rentals="1.5,2", returns="1,1")
    assert np.array_equal(rental.P.toarray(), same.P.toarray())


def test_a_model_does_not_depend_on_its_file(tmp_path):
    path = tmp_path / "model.safetensors"
    mdp.save(mdp.generate("garnet", states=500), path)
    expected = mdp.solve(str(path)).values
    model = mdp.load(path)
    os.truncate(path, 100)
    assert np.array_equal(mdp.solve(model).values, expected)
