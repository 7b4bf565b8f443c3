"""Compares warpkov's Python package with hmmlearn, pomegranate 1 and dynamax on hidden Markov models, on one core of the CPU.

Models and sequences are random: N states, M sequences of T observations, 16 symbols, or vectors of 4 numbers with diagonal
covariances, in double precision. The script measures ln P(O) (`score`), the best path (`decode`) and an iteration of training
(`fit`), and compares ln P(O). A library that is not installed is skipped.

    python3 -m venv venv && venv/bin/pip install target/wheel/dist/warpkov-*.whl hmmlearn==0.3.3 pomegranate==1.1.2 dynamax==1.0.3
    venv/bin/python benches/peers/hmm_libraries.py
    venv/bin/python benches/peers/hmm_libraries.py --json > libraries.json

All run in this process, which may use one core alone, and take turns, so that other load on the machine affects all alike. Times
are medians in milliseconds. What is warm does not count: each library computes everything once before, which also compiles
dynamax's functions. An iteration of `fit` is the difference of a run of 6 iterations and a run of 1, by 5: warpkov also computes
the likelihood of the model that it returns. For dynamax it is the E step and the M step of `fit_em` as one compiled function,
because `fit_em` compiles itself in each call.

All priors are the defaults. They differ, which changes what `fit` finds, and not how long an iteration takes. pomegranate has end
probabilities; all are 1 here, so that ln P(O) is that of the others.
"""

import argparse
import importlib.metadata
import json
import logging
import os
import platform
import statistics
import sys
import time
import warnings

import numpy as np

SYMBOLS = 16
DIMENSIONS = 4
ITERATIONS = 6
TOLERANCE = 1e-8


class Problem:
    """A random model, and M random sequences of T observations."""

    def __init__(self, family, states, count, length):
        random = np.random.default_rng([states, count, length])
        self.family, self.states, self.count, self.length = family, states, count, length
        self.start = random.dirichlet(np.ones(states))
        self.transitions = random.dirichlet(np.ones(states), states)
        self.lengths = np.full(count, length)
        if family == "categorical":
            self.emissions = random.dirichlet(np.ones(SYMBOLS), states)
            self.X = random.integers(SYMBOLS, size=(count * length, 1))
        else:
            self.means = 2 * random.standard_normal((states, DIMENSIONS))
            self.variances = random.uniform(0.5, 2, (states, DIMENSIONS))
            self.X = 2 * random.standard_normal((count * length, DIMENSIONS))

    def cube(self):
        """The observations as an array of M x T x D."""
        return self.X.reshape(self.count, self.length, -1)


class Attributes:
    """A model whose parameters are attributes under hmmlearn's names."""

    def __init__(self, problem):
        self.problem = problem
        self.model = self.fresh(1)

    def fresh(self, iterations):
        problem = self.problem
        model = self.create(iterations)
        model.startprob_, model.transmat_ = problem.start.copy(), problem.transitions.copy()
        if problem.family == "categorical":
            model.n_features = SYMBOLS
            model.emissionprob_ = problem.emissions.copy()
        else:
            model.n_features = DIMENSIONS
            model.means_, model.covars_ = problem.means.copy(), problem.variances.copy()
        return model

    def score(self):
        return self.model.score(self.problem.X, self.problem.lengths)

    def decode(self):
        self.model.decode(self.problem.X, self.problem.lengths)

    def iteration(self):
        def run(iterations):
            model = self.fresh(iterations)
            return seconds(lambda: model.fit(self.problem.X, self.problem.lengths))

        return (run(ITERATIONS) - run(1)) / (ITERATIONS - 1)


class Warpkov(Attributes):
    package = "warpkov"

    def create(self, iterations):
        from warpkov import hmm

        options = dict(init_params="", n_iter=iterations, tol=0.0, device="cpu")
        if self.problem.family == "categorical":
            return hmm.CategoricalHMM(self.problem.states, **options)
        return hmm.GaussianHMM(self.problem.states, "diag", **options)


class Hmmlearn(Attributes):
    package = "hmmlearn"

    def create(self, iterations):
        from hmmlearn import hmm

        options = dict(init_params="", n_iter=iterations, tol=-np.inf, implementation="scaling")
        if self.problem.family == "categorical":
            return hmm.CategoricalHMM(self.problem.states, **options)
        return hmm.GaussianHMM(self.problem.states, "diag", **options)


class Pomegranate:
    package = "pomegranate"

    def __init__(self, problem):
        import torch

        torch.set_num_threads(1)
        # Some of its parameters have the default type.
        torch.set_default_dtype(torch.float64)
        self.problem = problem
        self.X = torch.tensor(problem.cube())
        self.model = self.fresh(1)

    def fresh(self, iterations):
        from pomegranate.distributions import Categorical, Normal
        from pomegranate.hmm import DenseHMM

        problem = self.problem
        if problem.family == "categorical":
            emissions = [Categorical(row[None].copy()) for row in problem.emissions]
        else:
            parameters = zip(problem.means, problem.variances)
            emissions = [Normal(mean.copy(), variance.copy(), covariance_type="diag") for mean, variance in parameters]
        chain = dict(edges=problem.transitions.copy(), starts=problem.start.copy(), ends=np.ones(problem.states))
        return DenseHMM(emissions, **chain, max_iter=iterations, tol=0.0)

    def score(self):
        return float(self.model.log_probability(self.X).sum())

    def decode(self):
        self.model.viterbi(self.X)

    def iteration(self):
        def run(iterations):
            model = self.fresh(iterations)
            return seconds(lambda: model.fit(self.X))

        return (run(ITERATIONS) - run(1)) / (ITERATIONS - 1)


class Dynamax:
    package = "dynamax"

    def __init__(self, problem):
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")
        from dynamax.hidden_markov_model import CategoricalHMM, DiagonalGaussianHMM

        chain = dict(initial_probs=jax.numpy.array(problem.start), transition_matrix=jax.numpy.array(problem.transitions))
        if problem.family == "categorical":
            model = CategoricalHMM(problem.states, 1, SYMBOLS)
            emissions = dict(emission_probs=jax.numpy.array(problem.emissions[:, None]))
        else:
            model = DiagonalGaussianHMM(problem.states, DIMENSIONS)
            deviations = jax.numpy.array(np.sqrt(problem.variances))
            emissions = dict(emission_means=jax.numpy.array(problem.means), emission_scale_diags=deviations)
        self.params, props = model.initialize(**chain, **emissions)
        self.X = jax.numpy.array(problem.cube())
        self.ready = jax.block_until_ready
        over = jax.vmap

        def step(params, X):
            state = model.initialize_m_step_state(params, props)
            totals, logs = over(lambda x: model.e_step(params, x))(X)
            return model.m_step(params, props, totals, state)[0], logs

        self.step = jax.jit(step)
        self.scores = jax.jit(lambda params, X: over(lambda x: model.marginal_log_prob(params, x))(X).sum())
        self.paths = jax.jit(lambda params, X: over(lambda x: model.most_likely_states(params, x))(X))

    def score(self):
        return float(self.scores(self.params, self.X))

    def decode(self):
        self.ready(self.paths(self.params, self.X))

    def iteration(self):
        return seconds(lambda: self.ready(self.step(self.params, self.X)))


def seconds(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def versions(libraries):
    """The version of each library that is installed; a line for each other one."""
    found = {}
    for library in libraries:
        try:
            found[library.package] = importlib.metadata.version(library.package)
        except importlib.metadata.PackageNotFoundError:
            print(f"{library.package} is not installed: skipped", file=sys.stderr)
    return found


def compare(libraries, family, size, rounds):
    """ln P(O) by each library, the largest relative difference, and the times of each question in seconds."""
    problem = Problem(family, *size)
    ready = {library.package: library(problem) for library in libraries}
    logs, times = {}, {name: {"score": [], "decode": [], "fit": []} for name in ready}
    for name, one in ready.items():
        # The first of all is not measured: it loads and compiles.
        logs[name] = one.score()
        one.decode()
        one.iteration()
    for _ in range(rounds):
        for name, one in ready.items():
            times[name]["score"].append(seconds(one.score))
            times[name]["decode"].append(seconds(one.decode))
            times[name]["fit"].append(one.iteration())
    difference = max(abs(log / logs["warpkov"] - 1) for log in logs.values())
    assert difference <= TOLERANCE, (family, size, logs)
    medians = {name: {what: statistics.median(some) for what, some in each.items()} for name, each in times.items()}
    return {"family": family, "size": size, "log_probs": logs, "difference": difference, "seconds": medians}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", nargs="*", default=["4,1,10000", "4,64,128", "16,64,128", "64,16,128"], help="N,M,T")
    parser.add_argument("--core", type=int, help="number of the core [default: the last]")
    parser.add_argument("--json", action="store_true", help="print one JSON object, times in seconds")
    arguments = parser.parse_args()
    core = max(os.sched_getaffinity(0)) if arguments.core is None else arguments.core
    if os.sched_getaffinity(0) != {core}:
        # NumPy has started its threads already: begin anew, with the limits.
        os.sched_setaffinity(0, {core})
        for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    libraries = [Warpkov, Hmmlearn, Pomegranate, Dynamax]
    installed = versions(libraries)
    libraries = [library for library in libraries if library.package in installed]
    load = os.getloadavg()[0]
    results = []
    if not arguments.json:
        print(f"one core, Python {platform.python_version()}, {', '.join(map(' '.join, installed.items()))}; load {load:.2f}")
        print(f"{'family':<12} {'N x M x T':<16} {'what':<8}" + "".join(f"{name + ', ms':>18}" for name in installed))
    for family in ("categorical", "gaussian"):
        for size in arguments.sizes:
            found = compare(libraries, family, tuple(map(int, size.split(","))), arguments.rounds)
            results.append(found)
            if arguments.json:
                continue
            for what in ("score", "decode", "fit"):
                shown = "".join(f"{1000 * found['seconds'][name][what]:>18.3f}" for name in installed)
                print(f"{family:<12} {size.replace(',', ' x '):<16} {what:<8}{shown}")
            print(f"{'':<12} ln P(O) agrees to a relative {found['difference']:.1e}", flush=True)
    if arguments.json:
        machine = {"python": platform.python_version(), "core": core, "load": [load, os.getloadavg()[0]]}
        print(json.dumps({"versions": installed, **machine, "rounds": arguments.rounds, "results": results}, indent=1))


if __name__ == "__main__":
    main()
