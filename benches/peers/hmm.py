"""Compares warpkov with hmmlearn 0.3.3 on hidden Markov models on the CPU.

Models and sequences are random: N states, V = 16 symbols, M sequences of T observations, in double precision. The script measures
the forward recursion (hmmlearn's `score`), the Viterbi recursion (`decode`) and one training step (`fit` with one iteration; for
warpkov the E step, because the M step is negligible). hmmlearn runs with implementation="scaling", its fastest.

    python3 -m venv venv && venv/bin/pip install hmmlearn==0.3.3
    cargo bench -p warpkov-bench --no-run --bench hmm   # names the executable
    venv/bin/python benches/peers/hmm.py target/release/deps/hmm-... --threads 2

Both tools take turns, so that other load on the machine affects both alike. Times are medians in milliseconds, with the fastest
and the slowest. hmmlearn computes on one thread. The script also compares ln P(O).
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
from hmmlearn import hmm

SYMBOLS = 16


def files(folder, random, states, count, length):
    """Writes a random model and random observations, which both tools read."""
    model = hmm.CategoricalHMM(states, implementation="scaling", init_params="", n_iter=1, tol=-np.inf)
    model.startprob_ = random.dirichlet(np.ones(states))
    model.transmat_ = random.dirichlet(np.ones(states), states)
    model.emissionprob_ = random.dirichlet(np.ones(SYMBOLS), states)
    model.n_features = SYMBOLS
    seen, lengths = random.integers(SYMBOLS, size=(count * length, 1)), np.full(count, length)
    names = [os.path.join(folder, name) for name in ("model.npz", "seen.npy", "lengths.npy")]
    arrays = {name: getattr(model, name) for name in ("startprob_", "transmat_", "emissionprob_")}
    np.savez(names[0], **arrays)
    np.save(names[1], seen.astype(np.uint32))
    np.save(names[2], lengths)
    return names, arrays, model, seen, lengths


def timed(work):
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def theirs(arrays, model, seen, lengths):
    """Seconds of each of the three recursions, and ln P(O)."""
    for name, array in arrays.items():
        setattr(model, name, array.copy())
    forward, log = timed(lambda: model.score(seen, lengths))
    viterbi, _ = timed(lambda: model.decode(seen, lengths))
    step, _ = timed(lambda: model.fit(seen, lengths))
    return {"forward": forward, "viterbi": viterbi, "expect": step}, log


def ours(program, names, threads, repetitions):
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    output = subprocess.run([program, *names, "f64", str(repetitions)], env=environment, check=True, capture_output=True)
    return json.loads(output.stdout)


def show(seconds):
    low, middle, high = (1000 * f(seconds) for f in (min, statistics.median, max))
    return f"{middle:10.3f} ({low:.3f} to {high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the executable of host/bench/benches/hmm.rs")
    parser.add_argument("--threads", type=int, default=2, help="of warpkov")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=7, help="of warpkov in each round")
    parser.add_argument("--sizes", nargs="*", default=["64,64,16", "128,128,64", "512,512,16", "16,4096,1024"])
    arguments = parser.parse_args()
    print(f"{'N x M x T':<16} {'what':<8} {'hmmlearn, ms':<34} {'warpkov, ms':<34} times")
    for size in arguments.sizes:
        states, count, length = map(int, size.split(","))
        with tempfile.TemporaryDirectory() as folder:
            random = np.random.default_rng(1)
            names, arrays, model, seen, lengths = files(folder, random, states, count, length)
            slow, fast = {}, {}
            for _ in range(arguments.rounds):
                times, log = theirs(arrays, model, seen, lengths)
                found = ours(arguments.program, names, arguments.threads, arguments.repetitions)
                assert abs(found["log"] - log) <= 1e-10 * abs(log), (found["log"], log)
                for what, seconds in times.items():
                    slow.setdefault(what, []).append(seconds)
                    # The first warms up.
                    fast.setdefault(what, []).extend(found[what][1:])
            for what in slow:
                ratio = statistics.median(slow[what]) / statistics.median(fast[what])
                name = f"{states} x {count} x {length}"
                print(f"{name:<16} {what:<8} {show(slow[what]):<34} {show(fast[what]):<34} {ratio:.1f}", flush=True)


if __name__ == "__main__":
    main()
