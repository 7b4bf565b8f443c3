"""Measures the Python package: what it costs beside the command, and beside hmmlearn.

1. A garnet model of about 100 MB, in row order and as one SciPy matrix per action: `mdp.solve` on the arrays, and the whole command
   `warpkov mdp solve` on the same model in safetensors, each in a new process, in turns. The package's time begins where the arrays
   are there and NumPy, SciPy and warpkov are imported; the command's is that of its process. `--device` names the device of both.
2. Hidden Markov models of hmmlearn's arrays: `score`, `decode` and one iteration of `fit` by `warpkov.hmm.CategoricalHMM` and by
   hmmlearn's, which runs with implementation="scaling", its fastest, on one thread. Both take turns in one process.

    pip install warpkov hmmlearn==0.3.3
    python3 benches/peers/python_package.py --device cuda:0 --program target/release/warpkov

3. Arrays of PyTorch on a GPU: a copy of 100 MB to the host and back by `warpkov` and by PyTorch, and whole calls with tensors, NumPy's
   arrays in turns with them.

Times are medians, with the fastest and the slowest. Values and likelihoods of both sides are compared.
"""

import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

ONE = """
import sys, time
import numpy as np, scipy.sparse as sp
from warpkov import mdp
folder, order, device = sys.argv[1:]
with np.load(folder + "/arrays.npz") as arrays:
    P = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
    R = arrays["R"]
actions = R.shape[1]
if order == "ass":
    P = [P[action::actions] for action in range(actions)]
begun = time.perf_counter()
solution = mdp.solve(P, R, gamma=0.95, order=order, device=device, epsilon=1e-6)
seconds = time.perf_counter() - begun
assert solution.converged
np.save(folder + "/values.npy", solution.values)
print(seconds, solution.elapsed)
"""


def show(seconds):
    low, middle, high = (1000 * f(seconds) for f in (min, statistics.median, max))
    return f"{middle:10.2f} ({low:.2f} to {high:.2f})"


def solves(program, device, rounds, states):
    from warpkov import mdp

    with tempfile.TemporaryDirectory() as folder:
        model = mdp.generate("garnet", states=states, actions=4, branching=10, seed=1, gamma=0.95)
        path, out = os.path.join(folder, "model.safetensors"), os.path.join(folder, "out.npy")
        mdp.save(model, path)
        P = model.P
        R = (model.action_rewards + np.asarray(P.multiply(model.R).sum(axis=1)).ravel()).reshape(states, 4)
        np.savez(folder + "/arrays.npz", data=P.data, indices=P.indices, indptr=P.indptr, shape=P.shape, R=R)
        size = P.data.nbytes + P.indices.nbytes + P.indptr.nbytes + R.nbytes
        print(f"garnet, {states} states, 4 actions, 10 successors: {size / 1e6:.0f} MB in SciPy")
        times = {"command": [], "sas": [], "ass": []}
        inner = {"sas": [], "ass": []}
        for _ in range(rounds):
            begun = time.perf_counter()
            words = [program, "mdp", "solve", path, "--device", device, "--epsilon", "1e-6", "--out", out]
            subprocess.run(words, check=True, capture_output=True)
            times["command"].append(time.perf_counter() - begun)
            expected = np.load(out)
            for order in ("sas", "ass"):
                words = [sys.executable, "-c", ONE, folder, order, device]
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                seconds, of_sweeps = map(float, done.stdout.split())
                times[order].append(seconds)
                inner[order].append(of_sweeps)
                found = np.load(folder + "/values.npy")
                assert np.abs(found - expected.reshape(-1)[:states]).max() < 2.1e-6
        print(f"  command, whole process            {show(times['command'])} ms")
        for order, name in (("sas", "one matrix, row s*A + a"), ("ass", "a matrix per action")):
            ratio = statistics.median(times[order]) / statistics.median(times["command"])
            print(
                f"  solve, {name:<26} {show(times[order])} ms, {ratio:.2f} of the command; sweeps {show(inner[order])}"
            )


def models(device, rounds):
    from hmmlearn import hmm as theirs

    from warpkov import hmm as ours

    # One iteration never converges, and hmmlearn counts parameters.
    warnings.simplefilter("ignore")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)

    print("N x M x T         what     hmmlearn, ms                   warpkov.hmm, ms                times")
    for states, count, length in ((64, 64, 16), (128, 128, 64), (512, 512, 16), (8, 1, 200_000), (16, 4096, 1024)):
        random = np.random.default_rng(states)
        start, moves = random.dirichlet(np.ones(states)), random.dirichlet(np.ones(states), states)
        emissions = random.dirichlet(np.ones(16), states)
        seen, lengths = random.integers(16, size=(count * length, 1)), np.full(count, length)
        options = {"init_params": "", "n_iter": 1, "tol": 0.0}
        pair = {
            "hmmlearn": theirs.CategoricalHMM(states, implementation="scaling", n_features=16, **options),
            "warpkov": ours.CategoricalHMM(states, device=device, n_features=16, **options),
        }
        works = {
            "score": lambda model: model.score(seen, lengths),
            "decode": lambda model: model.decode(seen, lengths)[0],
            "fit": lambda model: model.fit(seen, lengths).transmat_,
        }
        # The largest takes hmmlearn minutes.
        turns = rounds if states * states * count * length < 10**9 else 1
        for what, work in works.items():
            times = {name: [] for name in pair}
            results = {}
            for _ in range(turns):
                for name, model in pair.items():
                    # hmmlearn trains in place.
                    model.startprob_, model.transmat_, model.emissionprob_ = (
                        start.copy(),
                        moves.copy(),
                        emissions.copy(),
                    )
                    if name == "warpkov" and not times[name]:
                        # The first call starts the device.
                        work(model)
                        model.startprob_, model.transmat_, model.emissionprob_ = (
                            start.copy(),
                            moves.copy(),
                            emissions.copy(),
                        )
                    begun = time.perf_counter()
                    results[name] = work(model)
                    times[name].append(time.perf_counter() - begun)
            np.testing.assert_allclose(results["warpkov"], results["hmmlearn"], rtol=1e-6, atol=1e-9)
            ratio = statistics.median(times["hmmlearn"]) / statistics.median(times["warpkov"])
            size = f"{states} x {count} x {length}"
            print(
                f"{size:<17} {what:<8} {show(times['hmmlearn']):<30} {show(times['warpkov']):<30} {ratio:.1f}",
                flush=True,
            )


def arrays(device, rounds):
    import torch

    import warpkov
    from warpkov import hmm, mdp
    from warpkov._host import host

    tensor = torch.rand(12_500_000, dtype=torch.float64, device=device)
    array = tensor.cpu().numpy()
    random = np.random.default_rng(0)
    P, R = random.dirichlet(np.ones(1000), (4, 1000)), random.standard_normal((1000, 4))
    X = random.standard_normal((200_000, 8)) + 4.0 * random.integers(0, 4, 200_000)[:, None]
    tensors = {name: torch.from_numpy(one).to(device) for name, one in (("P", P), ("R", R), ("X", X))}
    lengths = np.full(200, 1000)

    def solve(P, R):
        return mdp.solve(P, R, gamma=0.95, order="ass", device=device).values

    def fit(X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return hmm.GaussianHMM(4, n_iter=5, tol=0.0, random_state=0, device=device).fit(X, lengths).means_

    for name, own, other in (
        ("100 MB to the host: warpkov, PyTorch", lambda: host(tensor), lambda: tensor.cpu().numpy()),
        (
            "100 MB to the GPU: warpkov, PyTorch",
            lambda: torch.from_dlpack(warpkov.to_device(array, device)).cpu().numpy()[:9],
            lambda: torch.from_numpy(array).to(device).cpu().numpy()[:9],
        ),
        (
            "solve, 4 x 1000 x 1000 dense: tensors, arrays",
            lambda: solve(tensors["P"], tensors["R"]),
            lambda: solve(P, R),
        ),
        ("fit, 5 iterations, 200 x 1000 x 8: tensors, arrays", lambda: fit(tensors["X"]), lambda: fit(X)),
    ):
        times = {own: [], other: []}
        for turn in range(rounds + 1):
            results = []
            for work, seconds in times.items():
                torch.cuda.synchronize()
                begun = time.perf_counter()
                results.append(work())
                seconds.append(time.perf_counter() - begun)
            np.testing.assert_array_equal(*results)
        # Without the first round, in which libraries start.
        print(f"{name:<52} {show(times[own][1:])} ms, {show(times[other][1:])} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="warpkov", help="the command")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--states", type=int, default=200_000)
    parser.add_argument("--only", choices=["solve", "hmm", "arrays"], action="append")
    arguments = parser.parse_args()
    wanted = arguments.only or ["solve", "hmm"]
    if "solve" in wanted:
        solves(arguments.program, arguments.device, arguments.rounds, arguments.states)
    if "hmm" in wanted:
        models(arguments.device, arguments.rounds)
    if "arrays" in wanted:
        arrays(arguments.device, arguments.rounds)


if __name__ == "__main__":
    main()
