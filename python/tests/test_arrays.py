"""Arrays of any type, byte order and layout; and the memory that dense ones take."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from warpkov import hmm, mdp, pomdp

TYPES = ["?", "i1", "<i4", ">i4", "<i8", ">i8", "u1", ">u2", "<f4", ">f4", "<f8", ">f8", "f2", "g", "O"]


def layouts(array):
    """The array, and the same numbers in other layouts."""
    yield array
    yield np.asfortranarray(array)
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), dtype=array.dtype)
    wide[..., ::2] = array
    yield wide[..., ::2]
    yield np.ascontiguousarray(array[::-1])[::-1]
    frozen = array.copy()
    frozen.flags.writeable = False
    yield frozen
    # Off the boundary of a word.
    if array.dtype != object:
        bytes = np.zeros(array.nbytes + 1, dtype=np.uint8)
        view = bytes[1:].view(array.dtype).reshape(array.shape)
        view[...] = array
        yield view


@pytest.mark.parametrize("dtype", TYPES)
def test_processes(dtype):
    P = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 1]], [[1, 0, 0], [1, 0, 0], [0, 1, 0]]]).astype(dtype)
    R = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    expected = mdp.solve(P.astype(float), R.astype(float), 0.9).values
    for one in layouts(P):
        assert mdp.Model(one, R, 0.9).nnz == 6
        np.testing.assert_array_equal(mdp.solve(one, R, 0.9).values, expected)
        np.testing.assert_array_equal(mdp.solve(list(one), R, 0.9).values, expected)
        np.testing.assert_array_equal(mdp.solve(one.reshape(6, 3), R, 0.9, order="ass").values, expected)
        np.testing.assert_array_equal(mdp.solve(one.transpose(1, 0, 2), R, 0.9, order="sas").values, expected)
        np.testing.assert_array_equal(mdp.solve(one.tolist(), R.tolist(), 0.9).values, expected)
    for one in layouts(R):
        np.testing.assert_array_equal(mdp.solve(P, one, 0.9).values, expected)
        # R(s, a, s').
        whole = np.broadcast_to(one.T[:, :, None], P.shape)
        np.testing.assert_array_equal(mdp.solve(P, whole, 0.9).values, expected)
    s, a = np.repeat(np.arange(3), 2), np.tile(np.arange(2), 3)
    order = np.array([5, 0, 3, 1, 4, 2])
    if np.dtype(dtype).kind in "iu":
        s, a = s.astype(dtype), a.astype(dtype)
    rows = P.transpose(1, 0, 2).reshape(6, 3)
    for one in layouts(rows[order]):
        found = mdp.solve(one, R.ravel()[order], 0.9, s_indices=s[order], a_indices=a[order])
        np.testing.assert_array_equal(found.values, expected)
    if np.dtype(dtype).kind not in "O" and dtype != "f2":
        matrices = [sp.csr_array(one.astype(np.dtype(dtype).newbyteorder("="))) for one in P]
        for matrix in matrices:
            matrix.data = matrix.data.astype(dtype)
        np.testing.assert_array_equal(mdp.solve(matrices, R, 0.9).values, expected)
    values = np.zeros(3).astype(dtype)
    assert mdp.solve(P, R, 0.9, values=values).converged
    np.testing.assert_array_equal(
        mdp.solve(P, R, 0.9, horizon=2, terminal_values=values).values,
        mdp.solve(P, R, 0.9, horizon=2, terminal_values=np.zeros(3)).values,
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_partially_observable_processes(dtype):
    T = np.array([np.eye(2), [[0, 1], [1, 0]]]).astype(dtype)
    O = np.array([np.eye(2), np.eye(2)[::-1]]).astype(dtype)  # noqa: E741
    R, start = np.array([[1, 0], [0, 1]]).astype(dtype), np.array([1, 0]).astype(dtype)
    expected = pomdp.Model(T.astype(float), O.astype(float), R.astype(float), 0.9, start=[1.0, 0.0])._core.dumps()
    for first, second, third in zip(layouts(T), layouts(O), layouts(R)):
        model = pomdp.Model(first, second, third, 0.9, start=start)
        assert model._core.dumps() == expected
        assert model.update(start, 0, 0).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", TYPES)
def test_hidden_markov_models(dtype):
    model, plain = hmm.GaussianHMM(2), hmm.GaussianHMM(2)
    X = np.array([[0, 1], [1, 0], [1, 1], [0, 0], [1, 0]]).astype(dtype)
    start, step, means = (np.array(x).astype(dtype) for x in ([1, 0], [[0, 1], [1, 0]], [[0, 1], [1, 0]]))
    covars = np.ones((2, 2)).astype(dtype)
    for it, kind in ((model, dtype), (plain, float)):
        it.startprob_, it.transmat_, it.means_, it.covars_ = (x.astype(kind) for x in (start, step, means, covars))
    expected = plain.score(X.astype(float))
    for one in layouts(X):
        assert model.score(one) == expected
    assert np.isfinite(hmm.GaussianHMM(1, n_iter=1, tol=np.inf).fit(X).means_).all()
    if np.dtype(dtype).kind in "biu":
        symbols = hmm.CategoricalHMM(2)
        symbols.startprob_, symbols.transmat_ = [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]
        symbols.emissionprob_ = [[0.5, 0.5], [0.5, 0.5]]
        for one in layouts(X[:, :1]):
            assert symbols.score(one) == pytest.approx(5 * np.log(0.5))


def test_complex_numbers_are_refused():
    for arguments in (
        (np.eye(2)[None] * (1 + 0j), [0.0, 0.0]),
        (np.eye(2)[None], np.array([0j, 1])),
        (np.eye(2)[None], np.zeros((2, 1), dtype=complex)),
    ):
        with pytest.raises(ValueError, match="expected real numbers"):
            mdp.solve(*arguments, gamma=0.9)


PEAK = """
import resource, sys
import numpy as np
from warpkov import mdp
S, A, density, order, writeable = 1000, 8, float(sys.argv[1]), sys.argv[2], sys.argv[3] == "writeable"
random = np.random.default_rng(0)
P = random.random((A, S, S))
if density < 1:
    P *= random.random((A, S, S)) < density
P /= P.sum(axis=2, keepdims=True)
if order == "sas":
    P = np.ascontiguousarray(P.transpose(1, 0, 2))
P.flags.writeable = writeable
R = np.zeros((S, A))
# Of a small model, which loads what is loaded once.
mdp.Model(np.full((A, 20, 20), 0.05), R[:20], 0.9, order="ass")
# Room that what has been freed above has left is used again: fill the peak.
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
now = lambda: int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
ballast = np.ones(max(peak() - now(), 0) // 8)
before = peak()
model = mdp.Model(P, R, 0.9, order=order)
print((peak() - before) / P.nbytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize(
    ("density", "order", "access", "most"),
    [
        (1.0, "ass", "read-only", 1.75),
        (1.0, "ass", "writeable", 1.75),
        (1.0, "sas", "read-only", 0.75),
        (1.0, "sas", "writeable", 1.75),
        (0.5, "ass", "writeable", 1.0),
        (0.5, "sas", "writeable", 1.0),
        (0.05, "ass", "writeable", 0.35),
    ],
)
def test_dense_models_take_little_memory(density, order, access, most):
    """A matrix has 12 bytes for each entry that is not 0: 1.5 times as much as a dense array without zeros.

    A read-only array without zeros in the order of the rows keeps its numbers, and 4 bytes for each are new.
    """
    arguments = [str(density), order, access]
    run = subprocess.run([sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True)
    assert float(run.stdout) < most, run.stdout


def test_indices_cannot_be_changed_behind_a_model():
    P = sp.csr_array(np.array([[0.5, 0.5], [0.0, 1.0]]))
    P.indices, P.indptr = P.indices.astype(np.int32), P.indptr.astype(np.int64)
    model = mdp.Model([P], np.array([[1.0], [0.0]]), 0.5)
    before = mdp.solve(model).values.copy()
    P.indices[:] = 2**31 - 1
    P.indptr[:] = 10**9
    assert (mdp.solve(model).values == before).all()
    # One matrix of rows is not interleaved.
    P = sp.csr_array(np.array([[0.5, 0.5], [0.0, 1.0]]))
    P.indices, P.indptr = P.indices.astype(np.int32), P.indptr.astype(np.int64)
    model = mdp.Model(P, np.array([[1.0], [0.0]]), 0.5, order="sas")
    P.indices[:] = 2**31 - 1
    P.indptr[:] = 10**9
    assert (mdp.solve(model).values == before).all()
