"""Compares warpkov with QuantEcon's modified policy iteration on random models on the CPU.

Each tool has to reach V* within EPSILON in the sup norm, from a file in the page cache. QuantEcon's seconds are measured within its
process, after a run that compiles: reading the .npz, building the model, solving. warpkov's seconds are those of its whole process:
reading, solving, certifying, writing values and policy. The tools take turns. The script prints the minimum, the median and
the maximum, and the difference of the results.

    python3 -m venv venv && venv/bin/pip install numpy scipy quantecon
    cargo build --release && venv/bin/python benches/peers/policies.py target/release/warpkov
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import scipy.sparse as sp
from quantecon.markov import DiscreteDP

EPSILON = 1e-6
MODELS = [
    ("--states", "100000", "--gamma", "0.99"),
    ("--states", "20000", "--window", "50", "--gamma", "0.9999"),
]


def quantecon(path):
    begun = time.perf_counter()
    arrays = np.load(path)
    rows, states = arrays["P_shape"]
    transitions = sp.csr_matrix((arrays["P_data"], arrays["P_indices"], arrays["P_indptr"]), shape=(rows, states))
    s_indices, a_indices = np.divmod(np.arange(rows), rows // states)
    model = DiscreteDP(arrays["r"], transitions, float(arrays["gamma"]), s_indices, a_indices)
    values = model.solve(method="mpi", epsilon=2 * EPSILON, max_iter=10**6).v
    return time.perf_counter() - begun, values


def warpkov(binary, path, out, threads):
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads)) if threads else os.environ
    command = [binary, "mdp", "solve", path, "--device", "cpu", "--epsilon", str(EPSILON), "--json", "--out", out]
    begun = time.perf_counter()
    said = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    return time.perf_counter() - begun, np.load(out), json.loads(said)["method"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, help="of warpkov [default: all cores]")
    options = parser.parse_args()
    binary = os.path.abspath(options.binary)
    for model in MODELS:
        print("generate garnet", *model)
        with tempfile.TemporaryDirectory() as folder:
            arrays, mapped, out = (f"{folder}/{name}" for name in ("m.npz", "m.safetensors", "v.npy"))
            for path in (arrays, mapped):
                subprocess.run([binary, "mdp", "generate", "garnet", *model, "--out", path], check=True)
            quantecon(arrays)
            theirs, ours = [], []
            for _ in range(options.runs):
                seconds, expected = quantecon(arrays)
                theirs.append(seconds)
                seconds, found, method = warpkov(binary, mapped, out, options.threads)
                ours.append(seconds)
        for name, seconds in (("QuantEcon mpi", theirs), (f"warpkov {method}", ours)):
            print(f"  {name:16} {min(seconds):.3f} {statistics.median(seconds):.3f} {max(seconds):.3f}")
        print(f"  apart by {np.abs(expected - found).max():.1e}")


if __name__ == "__main__":
    main()
