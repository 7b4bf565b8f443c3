"""Memory, threads, signals and the command."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import warpkov
from warpkov import mdp


def address(array):
    return array.__array_interface__["data"][0]


def stacked(states, actions):
    """A model in the library's own order, with SciPy's int32 indices and int64 row pointers."""
    rows = states * actions
    indptr = np.arange(0, 2 * rows + 1, 2)
    first = np.arange(rows) % (states - 1)
    indices = np.stack([first, first + 1], axis=1).astype(np.int32).ravel()
    P = sp.csr_array((np.full(2 * rows, 0.5), indices, indptr.astype(np.int32)), shape=(rows, states))
    P.indptr = indptr
    return P


def test_no_copy_of_csr():
    P = stacked(1000, 3)
    R = stacked(1000, 3)
    # What can be written is copied.
    P.indptr.flags.writeable = P.indices.flags.writeable = P.data.flags.writeable = False
    model = mdp.Model(P, R, 0.9, order="sas")
    for mine, theirs, lent in ((model._core.transitions, P, True), (model._core.rewards, R, False)):
        indptr, indices, data = (address(np.asarray(array)) for array in mine)
        assert (indptr == address(theirs.indptr), indices == address(theirs.indices)) == (lent, lent)
        assert (data == address(theirs.data)) == lent
    rewards = np.arange(3000.0).reshape(1000, 3)
    rewards.flags.writeable = False
    model = mdp.Model(P, rewards, 0.9, order="sas")
    assert address(model.action_rewards) == address(rewards)


def test_arrays_that_change_do_not_change_a_model():
    P, R = stacked(100, 3), np.ones((100, 3))
    model = mdp.Model(P, R, 0.9, order="sas")
    before = mdp.solve(model, device="cpu").values.copy()
    P.data *= 1.05
    P.indices[:] = 99
    R *= 2
    np.testing.assert_array_equal(mdp.solve(model, device="cpu").values, before)


def test_models_keep_arrays_alive_and_cannot_be_written():
    P = stacked(1000, 3)
    model = mdp.Model(P, 0, gamma=0.9, order="sas")
    before = P.toarray()
    found = model.P
    del P, model
    np.testing.assert_array_equal(found.toarray(), before)
    with pytest.raises(ValueError, match="read-only"):
        found.data[0] = 2.0


def test_memory_is_freed():
    source = """
        import resource, sys
        import numpy as np, scipy.sparse as sp
        from warpkov import mdp
        sys.path.insert(0, {folder!r})
        from test_process import stacked
        P = stacked(500_000, 4)
        # SciPy's own types.
        P.indptr = P.indptr.astype(np.int32)
        assert P.has_canonical_format
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        size = P.data.nbytes + P.indices.nbytes + P.indptr.nbytes
        before = peak()
        for _ in range(20):
            mdp.Model(P, 0, gamma=0.9, order="sas")
        # The row pointers, twice: those of P in 64 bits, and those of the absent R.
        assert peak() - before < 2.5 * 2 * P.indptr.nbytes, (peak() - before, size)
        for _ in range(20):
            mdp.Model(P, np.ones((500_000, 4)), gamma=0.9, order="sas")
        assert peak() - before < 2 * size, (peak() - before, size)
    """
    source = textwrap.dedent(source).format(folder=os.path.dirname(__file__))
    subprocess.run([sys.executable, "-c", source], check=True)


def slow():
    """A model whose value iteration takes minutes."""
    P = stacked(200_000, 2)
    return mdp.Model(P, np.random.default_rng(0).random((200_000, 2)), 0.9999, order="sas")


SLOW = {"method": "sequential", "device": "cpu", "skip": False}


def test_other_threads_run():
    """A thread counts while another one solves, which ends by Ctrl-C."""
    script = """
        import faulthandler, sys, threading, time, signal, os
        sys.path.insert(0, {folder!r})
        from test_process import slow, SLOW
        from warpkov import mdp
        # Python takes no notice of Ctrl-C if its parent ignored it, as a shell does for what runs in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Where all threads are, if this takes too long.
        faulthandler.dump_traceback_later(60, exit=True)
        counts = []
        def count():
            for number in range(10):
                time.sleep(0.05)
                counts.append(number)
            os.kill(os.getpid(), signal.SIGINT)
        model = slow()
        thread = threading.Thread(target=count)
        thread.start()
        try:
            mdp.solve(model, **SLOW)
            sys.exit("solved")
        except KeyboardInterrupt:
            begun = time.monotonic()
        assert len(counts) == 10, counts
        # The process goes on, and solves again.
        thread.join()
        print(mdp.solve(mdp.generate("forest", gamma=0.9)).policy.tolist())
        # A solve in another thread stops as well.
        raised = []
        def solve():
            try:
                mdp.solve(model, **SLOW)
            except KeyboardInterrupt:
                raised.append(True)
        # A daemon: if it does not stop, the assertion below ends the process all the same.
        thread = threading.Thread(target=solve, daemon=True)
        thread.start()
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            mdp.solve(model, **SLOW)
            sys.exit("solved")
        except KeyboardInterrupt:
            pass
        thread.join(20)
        assert raised == [True]
        print(mdp.solve(mdp.generate("forest", gamma=0.9)).policy.tolist())
    """
    script = textwrap.dedent(script).format(folder=os.path.dirname(__file__))
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[0, 0, 0]"] * 2
    assert time.monotonic() - begun < 60


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_in_a_signal_handler_of_the_user():
    """An exception of a handler is the result."""

    class Stop(Exception):
        pass

    def raises(*_):
        raise Stop

    model = slow()
    before = signal.signal(signal.SIGUSR2, raises)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR2))
    try:
        timer.start()
        with pytest.raises(Stop):
            mdp.solve(model, **SLOW)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR2, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork of POSIX")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told():
    """The threads of the parent do not come along, and to wait for them would take for ever."""
    mdp.generate("forest")
    process = os.fork()
    if process == 0:
        try:
            mdp.generate("forest")
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(process, 0)[1] == 0


def test_threads_solve_at_once():
    model = mdp.generate("grid", width=20, height=20)
    expected = mdp.solve(model, device="cpu").values
    results = []

    def work():
        results.append(mdp.solve(model, device="cpu").values)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all((values == expected).all() for values in results)


def command(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "warpkov", *arguments], capture_output=True, text=True, **options)


def test_command(tmp_path):
    found = command("--version")
    assert (found.returncode, found.stdout) == (0, f"warpkov {warpkov.__version__}\n")
    path = str(tmp_path / "forest.json")
    assert command("mdp", "generate", "forest", "--out", path).returncode == 0
    found = command("mdp", "solve", path, "--json", "--gamma", "0.9")
    assert found.returncode == 0
    report, solution = json.loads(found.stdout), mdp.solve(path, gamma=0.9)
    assert report["values"] == solution.values.tolist() and report["policy"] == solution.policy.tolist()
    assert command("mdp", "solve", path, "--gamma", "0.99", "--max-sweeps", "1", "--method", "values").returncode == 1
    found = command("mdp", "solve", str(tmp_path / "none.json"))
    assert found.returncode == 2 and found.stderr.startswith("error: cannot read")
    assert command("mdp", "solve", path, "--gamma", "0.9", "--device", "cuda:7777").returncode == 3
    assert "Usage: warpkov mdp solve" in command("mdp", "solve", "--help").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="counts of one thread")
def test_short_work_starts_no_thread():
    import resource

    def waits(count, length):
        """How often this thread waits in each of 50 calls."""
        states = np.random.default_rng(1).integers(3, size=(count * length, 1))
        model = warpkov.hmm.CategoricalHMM(2, init_params="")
        model.startprob_, model.transmat_, model.n_features = np.array([0.5, 0.5]), np.full((2, 2), 0.5), 3
        model.emissionprob_ = np.full((2, 3), 1 / 3)
        lengths = np.full(count, length)
        model.score(states, lengths)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        for _ in range(50):
            model.score(states, lengths)
            model.decode(states, lengths)
        return (resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before) / 50

    assert waits(1, 100) < 0.5
    # Work that lasts has a thread of its own, for which this one waits.
    assert waits(1, 1_000_000) >= 1


def test_command_is_installed():
    script = os.path.join(os.path.dirname(sys.executable), "warpkov")
    found = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert found.stdout == f"warpkov {warpkov.__version__}\n"


def catches(process, number):
    """Whether a process has a handler of a signal; Python itself has one of SIGINT only."""
    (mask,) = [line.split()[1] for line in Path(f"/proc/{process}/status").read_text().splitlines() if "SigCgt" in line]
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc of Linux")
def test_command_stops_at_ctrl_c(tmp_path):
    path = str(tmp_path / "slow.safetensors")
    slow().save(path)
    arguments = ["mdp", "solve", path, "--method", "sequential", "--device", "cpu"]
    with subprocess.Popen(
        [sys.executable, "-m", "warpkov", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not catches(process.pid, signal.SIGTERM):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in errors
