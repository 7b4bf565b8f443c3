"""Prints the results of hmmlearn 0.3.3 for random models as JSON: the contents of data/hmmlearn.json, which the tests use.

    python3 -m venv venv && venv/bin/pip install hmmlearn==0.3.3
    venv/bin/python benches/peers/hmmlearn_numbers.py > data/hmmlearn.json

With three arguments (a model's .npz, a file of observations, a file of lengths), it prints the results for this model. The tests
run it in this way if hmmlearn is installed.
"""

import json
import sys

import numpy as np
from hmmlearn import hmm


def categorical(random, states, symbols):
    model = hmm.CategoricalHMM(states, implementation="scaling", init_params="", n_iter=1, tol=-np.inf)
    model.startprob_ = random.dirichlet(np.ones(states))
    model.transmat_ = random.dirichlet(np.ones(states), states)
    model.emissionprob_ = random.dirichlet(np.ones(symbols), states)
    return model


def gaussian(random, states, dimensions, kind):
    # No prior: maximum likelihood.
    options = dict(covars_prior=0, covars_weight=1 if kind == "diag" else dimensions, min_covar=0)
    model = hmm.GaussianHMM(states, kind, implementation="scaling", init_params="", n_iter=1, tol=-np.inf, **options)
    model.n_features = dimensions
    model.startprob_ = random.dirichlet(np.ones(states))
    model.transmat_ = random.dirichlet(np.ones(states), states)
    model.means_ = 2 * random.standard_normal((states, dimensions))
    variances = random.uniform(0.5, 2, (states, dimensions))
    if kind == "full":
        v = random.standard_normal((states, dimensions, 1)) / np.sqrt(dimensions)
        model.covars_ = v @ v.transpose(0, 2, 1) + np.apply_along_axis(np.diag, 1, variances)
    else:
        model.covars_ = variances
    return model


def parameters(model):
    names = ["startprob_", "transmat_", "emissionprob_", "means_", "covars_"]
    found = {name: getattr(model, name).tolist() for name in names if hasattr(model, name)}
    if getattr(model, "covariance_type", "") == "diag":
        found["covars_"] = model._covars_.tolist()
    return found


def numbers(model, seen, lengths):
    """The results of the model, and its parameters after one training step."""
    before = parameters(model)
    bounds = np.cumsum([0, *lengths])
    scores = [model.score(seen[start:end]) for start, end in zip(bounds, bounds[1:])]
    viterbi = [model.decode(seen[start:end], algorithm="viterbi") for start, end in zip(bounds, bounds[1:])]
    said = {
        "lengths": np.asarray(lengths).tolist(),
        "observations": seen.tolist(),
        "log_likelihoods": scores,
        "posteriors": model.predict_proba(seen, lengths).tolist(),
        "viterbi_scores": [score for score, _ in viterbi],
        "viterbi_states": np.concatenate([states for _, states in viterbi]).tolist(),
        "aic": model.aic(seen, lengths),
        "bic": model.bic(seen, lengths),
    }
    model.fit(seen, lengths)
    return {"model": before, **said, "trained": parameters(model)}


def read(model, seen, lengths):
    arrays = np.load(model)
    states = len(arrays["startprob_"])
    if "emissionprob_" in arrays:
        found = categorical(np.random.default_rng(0), states, arrays["emissionprob_"].shape[1])
        found.emissionprob_ = arrays["emissionprob_"]
    else:
        kind = "full" if arrays["covars_"].ndim == 3 else "diag"
        found = gaussian(np.random.default_rng(0), states, arrays["means_"].shape[1], kind)
        found.means_, found.covars_ = arrays["means_"], arrays["covars_"]
    found.startprob_, found.transmat_ = arrays["startprob_"], arrays["transmat_"]
    return numbers(found, np.load(seen).astype(int if "emissionprob_" in arrays else float), np.load(lengths))


def main():
    if len(sys.argv) > 1:
        json.dump(read(*sys.argv[1:]), sys.stdout)
        return
    random = np.random.default_rng(20160629)
    cases = []
    for states, symbols in [(1, 2), (2, 3), (5, 4), (17, 9)]:
        cases.append(categorical(random, states, symbols))
    for states, dimensions, kind in [(3, 1, "diag"), (4, 3, "diag"), (3, 2, "full"), (6, 3, "full")]:
        cases.append(gaussian(random, states, dimensions, kind))
    said = []
    for model in cases:
        lengths = [20, 1, 9]
        parts = [model.sample(length, random_state=int(random.integers(1 << 30)))[0] for length in lengths]
        said.append(numbers(model, np.concatenate(parts), lengths))
    json.dump(said, sys.stdout)
    print()


if __name__ == "__main__":
    main()
