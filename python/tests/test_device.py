"""Arrays of other libraries, on the CPU and on a GPU. Tests with PyTorch and CuPy run where there is a GPU."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

import warpkov
from warpkov import hmm, mdp, pomdp
from warpkov._host import fetch, host, local


def of_gpu(name):
    """A library with a GPU. `WARPKOV_REQUIRE_GPU` makes its lack a failure."""
    if os.environ.get("WARPKOV_REQUIRE_GPU"):
        return __import__(name)
    library = pytest.importorskip(name)
    there = {
        "torch": lambda: library.cuda.is_available(),
        "cupy": lambda: library.is_available(),
        "jax": lambda: library.default_backend() == "gpu",
    }
    return library if there[name]() else pytest.skip("there is no GPU")


@pytest.fixture
def torch():
    return of_gpu("torch")


@pytest.fixture
def cupy():
    return of_gpu("cupy")


class Elsewhere:
    """An array with a part of the protocol changed."""

    def __init__(self, array, device=None, capsule=None):
        self.array, self.device, self.capsule = array, device, capsule

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        assert options == {"stream": None}
        return self.capsule or self.array.__dlpack__(**options)


TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


@pytest.mark.parametrize("dtype", [*TYPES, "?"])
def test_fetch_copies_every_type_and_layout(dtype):
    whole = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 100, (5, 6, 7)).astype(dtype)
    for array in (
        whole,
        whole[1:4, ::2, 3:],
        whole[::-1, :, ::-2],
        whole.T,
        whole[:0],
        whole[2, 3],
        whole[0, 0, 0:1],
        whole[1, 1, 1, ...],
    ):
        found = fetch(Elsewhere(array))
        assert found.dtype == array.dtype and found.shape == array.shape
        np.testing.assert_array_equal(found, array)
        assert not np.shares_memory(found, whole)


def test_fetch_refuses_what_it_cannot_read():
    array = np.zeros(3)
    with pytest.raises(ValueError, match="a device of DLPack's kind 10"):
        fetch(Elsewhere(array, device=(10, 0)))
    with pytest.raises(BufferError, match="no capsule"):
        fetch(Elsewhere(array, capsule=7))
    with pytest.raises(ValueError, match="elements of DLPack's kind 5"):
        fetch(Elsewhere(np.zeros(3, dtype=complex)))
    used = array.__dlpack__()
    np.testing.assert_array_equal(fetch(Elsewhere(array, capsule=used)), array)
    with pytest.raises(BufferError, match="no capsule"):
        fetch(Elsewhere(array, capsule=used))


def test_to_device_refuses_what_is_no_array_and_no_gpu():
    for device in ("cpu", "cuda:x", "gpu", "cuda:-1"):
        with pytest.raises(ValueError, match=f"device is '{device}'"):
            warpkov.to_device(np.zeros(3), device)
    with pytest.raises(ValueError, match="elements of type object"):
        warpkov.to_device(np.array([None]))
    with pytest.raises(ValueError, match="elements of type complex128"):
        warpkov.to_device(np.zeros(3, dtype=complex))
    with pytest.raises(warpkov.DeviceError):
        warpkov.to_device(np.zeros(3), "cuda:99")


def dense(states=50):
    """P[a][s][s'] and R[s][a] of a random model."""
    random = np.random.default_rng(1)
    P = random.random((3, states, states))
    return P / P.sum(axis=2, keepdims=True), random.standard_normal((states, 3))


def check(P, R, order="ass"):
    """The solution from the arrays of another library is that from those of NumPy."""
    found = mdp.solve(P, R, gamma=0.9, order=order, device="cpu")
    expected = mdp.solve(*(local(one) for one in (P, R)), gamma=0.9, order=order, device="cpu")
    np.testing.assert_array_equal(found.values, expected.values)
    return found


def test_pytorch_in(torch):
    P, R = dense()
    expected = mdp.solve(P, R, gamma=0.9, order="ass", device="cpu").values
    P, R = (torch.from_numpy(one).cuda() for one in (P, R))
    for one in (P, P.transpose(1, 2).contiguous().transpose(1, 2), P.requires_grad_()):
        np.testing.assert_array_equal(mdp.solve(one, R, gamma=0.9, order="ass", device="cpu").values, expected)
    P = P.detach()
    np.testing.assert_allclose(mdp.solve(list(P), R, gamma=0.9, device="cpu").values, expected, atol=2e-6)
    stacked = P.transpose(0, 1).reshape(-1, P.shape[2])
    for sparse in (stacked.to_sparse_csr(), stacked.to_sparse_csc(), stacked.to_sparse_coo()):
        assert sp.issparse(local(sparse))
        np.testing.assert_allclose(check(sparse, R, "sas").values, expected, atol=2e-6)
    np.testing.assert_array_equal(host(R.to(torch.float16)), R.to(torch.float16).cpu().numpy())
    with pytest.raises(ValueError, match="kind 4"):
        host(R.to(torch.bfloat16))


def test_arrays_arrive_behind_the_work_of_the_callers_stream(torch):
    P, R = (torch.from_numpy(one).cuda() for one in dense())
    expected = mdp.solve(P, R, gamma=0.9, order="ass", device="cpu").values
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late, rewards = torch.zeros_like(P), torch.zeros_like(R)
        # Half a second before the numbers are there.
        torch.cuda._sleep(10**9)
        late.copy_(P)
        rewards.copy_(R)
        assert not stream.query()
        found = mdp.solve(late, rewards, gamma=0.9, order="ass", device="cpu").values
    np.testing.assert_array_equal(found, expected)
    assert torch.cuda.current_device() == 0


def test_arrays_for_every_stream(torch):
    for array in (
        np.arange(1000.0),
        np.ones((3, 4, 5), dtype=np.float32),
        np.array([True, False]),
        np.array(2.5),
        np.zeros(0),
    ):
        on_device = warpkov.to_device(array)
        assert on_device.shape == array.shape and on_device.dtype == array.dtype.str
        address = on_device.__cuda_array_interface__["data"][0]
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = torch.from_dlpack(on_device)
            assert tensor.is_cuda and (array.size == 0 or tensor.data_ptr() == address)
            # The tensor keeps the memory.
            del on_device
            for _ in range(3):
                warpkov.to_device(np.zeros(1000))
            np.testing.assert_array_equal(tensor.cpu().numpy(), array)


def test_memory_of_the_device_comes_back(torch):
    array = np.zeros(10**7)
    warpkov.to_device(array)
    before = torch.cuda.mem_get_info()[0]
    for turn in range(20):
        on_device = warpkov.to_device(array)
        if turn % 2:
            # A capsule that nobody takes.
            on_device.__dlpack__()
        else:
            torch.from_dlpack(on_device)
        fetch(on_device)
    del on_device
    assert abs(torch.cuda.mem_get_info()[0] - before) < 10**8


def test_cupy(cupy):
    from cupyx.scipy import sparse

    P, R = dense()
    expected = mdp.solve(P, R, gamma=0.9, order="ass", device="cpu").values
    check(cupy.asarray(P), cupy.asarray(R))
    np.testing.assert_array_equal(host(cupy.asarray(P)[:, ::-2, ::3]), P[:, ::-2, ::3])
    matrices = [sparse.csr_matrix(cupy.asarray(one)) for one in P]
    np.testing.assert_allclose(check(matrices, cupy.asarray(R)).values, expected, atol=2e-6)
    with cupy.cuda.Stream(non_blocking=True):
        on_device = warpkov.to_device(expected)
        for found in (cupy.from_dlpack(on_device), cupy.asarray(on_device)):
            np.testing.assert_array_equal(cupy.asnumpy(found), expected)
            assert found.data.ptr == on_device.__cuda_array_interface__["data"][0]


def test_jax():
    # JAX would take most of the memory of the GPU.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = of_gpu("jax")
    P, R = dense()
    P = np.eye(50)[P.argmax(axis=2)]
    check(*(jax.numpy.asarray(one, dtype="float32") for one in (P, R)))
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    on_device = jax.numpy.asarray(array) * 2
    np.testing.assert_array_equal(fetch(on_device), 2 * array)
    np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(warpkov.to_device(array))), array)


def test_sequences_and_models_of_tensors(torch):
    random = np.random.default_rng(2)
    X = random.standard_normal((400, 2)) + 5 * random.integers(0, 2, 400)[:, None]
    found = hmm.GaussianHMM(2, random_state=0).fit(torch.from_numpy(X).cuda())
    expected = hmm.GaussianHMM(2, random_state=0).fit(X)
    np.testing.assert_array_equal(found.means_, expected.means_)
    T = np.stack([np.eye(2), np.full((2, 2), 0.5), np.full((2, 2), 0.5)])
    O = np.stack([[[0.85, 0.15], [0.15, 0.85]], np.full((2, 2), 0.5), np.full((2, 2), 0.5)])  # noqa: E741
    R = np.array([[-1.0, -100.0, 10.0], [-1.0, 10.0, -100.0]])
    tiger = pomdp.Model(*(torch.from_numpy(one).cuda() for one in (T, O, R)), gamma=0.95)
    np.testing.assert_allclose(tiger.update([0.5, 0.5], action=0, observation=0), [0.85, 0.15])


def test_solves_on_the_gpu(torch):
    P, R = (torch.from_numpy(one).cuda() for one in dense())
    found = mdp.solve(P, R, gamma=0.9, order="ass", device="cuda:0")
    assert found.converged and "cuda:0" in found.device
    values = torch.from_dlpack(warpkov.to_device(found.values))
    # Another way to the same values: the Bellman operator of PyTorch.
    backup = (R + 0.9 * torch.einsum("ast,t->sa", P, values)).max(dim=1).values
    assert float((backup - values).abs().max()) < 2e-6
