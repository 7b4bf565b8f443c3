"""Solves the problems of mdpax with mdpax on JAX, and the same with warpkov's models as code, to the same ε.

    pip install mdpax==0.2.2
    python3 benches/peers/mdpax_models.py target/release/warpkov-models [PROBLEM ...]

Both solve each problem twice in one process: the first time includes compilation or the start of the device, the second time
does not. mdpax works in double precision, with the fastest of the batch sizes below; its time is that of `solve`, up to values
and policy in the memory of the host. warpkov's time is that of `solve_model`: check of all outcomes, sweeps, certificate,
values and policy in the memory of the host.

mdpax has two tests of convergence. "span", its default, leaves values that are wrong by a constant; "max_diff" leaves values
within ε, as warpkov does. Both are timed. Where "max_diff" ran, V(0) must agree within 2 ε.
"""

import json
import re
import subprocess
import sys
import time

import jax
import numpy
from mdpax.problems.forest import Forest
from mdpax.problems.perishable_inventory.de_moor_single_product import DeMoorSingleProductPerishable
from mdpax.problems.perishable_inventory.hendrix_two_product import HendrixTwoProductPerishable
from mdpax.problems.perishable_inventory.mirjalili_platelet import MirjaliliPlateletPerishable
from mdpax.solvers.value_iteration import ValueIteration

jax.config.update("jax_enable_x64", True)

EPSILON = 1e-3
BATCHES = (1024, 16384)
MOST_SWEEPS = 100_000
HENDRIX = {"demand_poisson_mean_a": 5.0, "demand_poisson_mean_b": 5.0}

# Arguments of warpkov-models, class and arguments of mdpax, γ, what mdpax's values are multiplied by, tests.
PROBLEMS = {
    "forest": ("forest --size 1000000", Forest, {"S": 1_000_000}, 0.99, 1, ("span", "max_diff")),
    "de-moor-3": ("de-moor --size 3", DeMoorSingleProductPerishable,
                  {"max_useful_life": 3, "lead_time": 2}, 0.99, -1, ("span", "max_diff")),
    "de-moor-5": ("de-moor --size 5", DeMoorSingleProductPerishable,
                  {"max_useful_life": 5, "lead_time": 2}, 0.99, -1, ("span",)),
    "hendrix": ("hendrix --size 10", HendrixTwoProductPerishable, HENDRIX, 0.99, 1, ("span",)),
    "mirjalili": ("mirjalili --size 20", MirjaliliPlateletPerishable, {}, 0.95, -1, ("span",)),
}


def by_mdpax(make, arguments, gamma, test):
    """The times of the fastest batch size."""
    found = []
    for batch in BATCHES:
        solver = ValueIteration(make(**arguments), gamma=gamma, epsilon=EPSILON, max_batch_size=batch,
                                convergence_test=test, verbose=0)
        start, seconds = solver.values, []
        for _ in range(2):
            # The compiled functions stay; the values start again.
            solver.values, solver.iteration, solver.policy = start, 0, None
            begun = time.perf_counter()
            solved = solver.solve(MOST_SWEEPS)
            values, _ = numpy.asarray(solved.values), numpy.asarray(solved.policy)
            seconds.append(time.perf_counter() - begun)
        found.append({"test": test, "batch": batch, "seconds": seconds, "sweeps": solved.info.iteration,
                      "states": len(values), "value": float(values[0]), "type": str(values.dtype)})
    return min(found, key=lambda one: one["seconds"][1])


def by_warpkov(program, arguments):
    """The times, sweeps and value that `warpkov-models` prints."""
    command = [program, *arguments.split(), "--epsilon", str(EPSILON)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    pattern = r"(\d+) states on (.*): (\d+) sweeps in [\d.]+ s, ([\d.]+) s in all, V within \S+, V\(0\) = (\S+)"
    runs = re.findall(pattern, output)
    states, device, sweeps, _, value = runs[-1]
    return {"device": device, "seconds": [float(run[3]) for run in runs], "sweeps": int(sweeps),
            "states": int(states), "value": float(value)}


def main():
    program, *names = sys.argv[1:]
    for name in names or PROBLEMS:
        arguments, make, of_mdpax, gamma, sign, tests = PROBLEMS[name]
        own = by_warpkov(program, arguments)
        print(json.dumps({"problem": name, "warpkov": own}), flush=True)
        for test in tests:
            peer = by_mdpax(make, of_mdpax, gamma, test)
            print(json.dumps({"problem": name, "mdpax": peer}), flush=True)
            difference = abs(own["value"] - sign * peer["value"])
            assert own["states"] == peer["states"]
            assert test == "span" or difference <= 2 * EPSILON, f"V(0) differs by {difference}"
            print(f"{name}, {test}: mdpax {peer['seconds'][1]:.4f} s, warpkov {own['seconds'][1]:.5f} s, "
                  f"{peer['seconds'][1] / own['seconds'][1]:.1f} times", flush=True)


if __name__ == "__main__":
    main()
