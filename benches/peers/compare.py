"""Compares warpkov with QuantEcon and Storm on one discounted model on the CPU.

The model: a grid of SIDE x SIDE cells with moves of 0.8 / 0.1 / 0.1, reward -1 per step and an absorbing goal; gamma = .9. Every
tool has to reach V* within EPSILON in the sup norm. The script compares each result with a solution certified to 1e-10.

    python3 -m venv venv && venv/bin/pip install numpy scipy quantecon stormpy
    cargo build --release && venv/bin/python benches/peers/compare.py target/release/warpkov

The tools take turns, so that other load on the machine affects all of them alike. Times are medians in milliseconds, with the
fastest and the slowest. `read` is the time from the file to the model in memory, `solve` from there to V, `all` both.
`processor` is the user and system time of all cores. Times exclude Python's start and imports, and include warpkov's start.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections import namedtuple

import numpy as np
import scipy.sparse as sp
import stormpy
from quantecon.markov import DiscreteDP

GAMMA = 0.9

Measured = namedtuple("Measured", "read solve both processor values")


def grid(side):
    """P, rows s*4 + a, and r(s, a)."""
    states = side * side
    s = np.arange(states)
    x, y = s % side, s // side
    moved = [
        np.where(y > 0, s - side, s),
        np.where(y < side - 1, s + side, s),
        np.where(x < side - 1, s + 1, s),
        np.where(x > 0, s - 1, s),
    ]
    goal = states - 1
    rows, cols, vals = [], [], []
    for action, sides in enumerate([(2, 3), (2, 3), (0, 1), (0, 1)]):
        for direction, probability in zip((action, *sides), (0.8, 0.1, 0.1)):
            rows.append(s * 4 + action)
            cols.append(np.where(s == goal, goal, moved[direction]))
            vals.append(np.full(states, probability))
    entries = (np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols)))
    transitions = sp.coo_matrix(entries, shape=(4 * states, states)).tocsr()
    transitions.sum_duplicates()
    transitions.sort_indices()
    transitions.data[transitions.indptr[4 * goal] :] = 1.0
    rewards = np.full(4 * states, -1.0)
    rewards[4 * goal :] = 0.0
    return transitions, rewards


def write_safetensors(path, transitions, rewards):
    rows, states = transitions.shape
    tensors = {
        "P.indptr": ("U64", transitions.indptr.astype("<u8")),
        "R.indptr": ("U64", np.zeros(rows + 1, "<u8")),
        "P.data": ("F64", transitions.data.astype("<f8")),
        "R.data": ("F64", np.zeros(0, "<f8")),
        "action_rewards": ("F64", rewards.astype("<f8")),
        "P.indices": ("U32", transitions.indices.astype("<u4")),
        "R.indices": ("U32", np.zeros(0, "<u4")),
    }
    metadata = {"format": "warpkov-mdp", "version": "1", "S": str(states), "A": "4", "gamma": str(GAMMA)}
    header, at = {"__metadata__": metadata}, 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [array.size], "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in tensors.values():
            file.write(array.tobytes())


def write_drn(path, transitions, rewards):
    rows, states = transitions.shape
    with open(path, "w") as file:
        file.write(f"@type: MDP\n@parameters\n\n@reward_models\ncost\n@nr_states\n{states}\n@nr_choices\n{rows}\n@model\n")
        for row in range(rows):
            if row % 4 == 0:
                file.write(f"state {row // 4} [0]{' init' if row == 0 else ''}\n")
            file.write(f"\taction {row % 4} [{-rewards[row]:g}]\n")
            for entry in range(transitions.indptr[row], transitions.indptr[row + 1]):
                file.write(f"\t\t{transitions.indices[entry]} : {float(transitions.data[entry])!r}\n")


class Clock:
    """Wall-clock and processor milliseconds, of this process or of its children."""

    def __init__(self, who=resource.RUSAGE_SELF):
        self.who, self.laps = who, []
        self.last = self.now()

    def now(self):
        usage = resource.getrusage(self.who)
        return np.array([time.perf_counter(), usage.ru_utime + usage.ru_stime])

    def lap(self):
        now = self.now()
        self.laps.append(1e3 * (now - self.last))
        self.last = now


def quantecon(folder, epsilon):
    """Value iteration, which stops at half of the given epsilon."""
    clock = Clock()
    arrays = np.load(f"{folder}/grid.npz")
    rows, states = arrays["rewards"].size, arrays["indptr"].size // 4
    transitions = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, states))
    s_indices, a_indices = np.divmod(np.arange(rows), 4)
    model = DiscreteDP(arrays["rewards"], transitions, GAMMA, s_indices, a_indices)
    clock.lap()
    result = model.solve(method="value_iteration", epsilon=2 * epsilon, max_iter=10**6)
    clock.lap()
    read, solve = clock.laps
    return Measured(read[0], solve[0], *(read + solve), result.v)


def storm(folder, epsilon, name):
    """Storm's engine for discounted rewards: value iteration to an absolute precision."""
    clock = Clock()
    build = stormpy.build_model_from_umb if name.endswith(".umb") else stormpy.build_model_from_drn
    model = build(f"{folder}/{name}")
    clock.lap()
    formula = stormpy.parse_properties(f'R{{"cost"}}min=? [ Cdiscount={GAMMA} ]')[0]
    environment = stormpy.Environment()
    solver = environment.solver().min_max()
    solver.method = stormpy.environments.MinMaxMethod.VALUE_ITERATION
    solver.precision = stormpy.Rational(epsilon)
    solver.relative_termination_criterion = False
    result = stormpy.model_checking(model, formula, environment=environment)
    clock.lap()
    read, solve = clock.laps
    values = -np.array([result.get_value(state) for state in range(model.nr_states)])
    return Measured(read[0], solve[0], *(read + solve), values)


def warpkov(binary, folder, epsilon, name, *options):
    """read: the whole process of `mdp info`. solve: the time that `mdp solve` reports for layout and sweeps. all: the whole
    process of `mdp solve`, which reads, solves, certifies and writes values and policy."""
    out = f"{folder}/out.json"
    clock = Clock(resource.RUSAGE_CHILDREN)
    subprocess.run([binary, "mdp", "info", f"{folder}/{name}"], check=True, capture_output=True)
    clock.lap()
    command = [binary, "mdp", "solve", f"{folder}/{name}", "--device", "cpu", "--epsilon", str(epsilon), *options]
    report = subprocess.run([*command, "--json", "--quiet", "--out", out], check=True, capture_output=True).stdout
    clock.lap()
    report = json.loads(report)
    read, both = clock.laps
    with open(out) as file:
        values = np.array(json.load(file)["values"])
    return Measured(read[0], 1e3 * (report["setup_seconds"] + report["compute_seconds"]), *both, values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpkov", help="the binary, built with --release")
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--epsilon", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)
    transitions, rewards = grid(arguments.side)
    print(f"{arguments.side} x {arguments.side} cells, {transitions.nnz} entries, epsilon {arguments.epsilon:g}")
    with tempfile.TemporaryDirectory() as folder:
        csr = dict(data=transitions.data, indices=transitions.indices, indptr=transitions.indptr)
        np.savez(f"{folder}/grid.npz", rewards=rewards, **csr)
        write_safetensors(f"{folder}/grid.safetensors", transitions, rewards)
        write_drn(f"{folder}/grid.drn", transitions, rewards)
        stormpy.io.export_to_umb(stormpy.build_model_from_drn(f"{folder}/grid.drn"), f"{folder}/grid.umb")
        binary, epsilon = os.path.abspath(arguments.warpkov), arguments.epsilon
        subprocess.run([binary, "mdp", "convert", f"{folder}/grid.safetensors", f"{folder}/grid.json"], check=True)
        optimal = warpkov(binary, folder, 1e-10, "grid.safetensors").values
        tools = {
            "QuantEcon, .npz": lambda: quantecon(folder, epsilon),
            "Storm, .drn": lambda: storm(folder, epsilon, "grid.drn"),
            "Storm, .umb": lambda: storm(folder, epsilon, "grid.umb"),
            "warpkov, .safetensors": lambda: warpkov(binary, folder, epsilon, "grid.safetensors"),
            "warpkov, .json": lambda: warpkov(binary, folder, epsilon, "grid.json"),
        }
        found = {name: [] for name in tools}
        for run in range(arguments.runs + 1):
            for name, tool in tools.items():
                measured = tool()
                # The first turn loads libraries and compiles what is compiled at run time.
                if run > 0:
                    found[name].append((*measured[:4], np.abs(measured.values - optimal).max()))
    print("| tool, model file | read ms | solve ms | all ms | processor ms | error |\n| --- | --- | --- | --- | --- | --- |")
    for name, runs in found.items():
        *times, errors = zip(*runs)
        cells = [f"{statistics.median(x):.1f} ({min(x):.1f}–{max(x):.1f})" for x in times]
        print(f"| {name} | {' | '.join(cells)} | {max(errors):.1e} |")


if __name__ == "__main__":
    main()
