#!/usr/bin/env python3
"""Compares a run of many ranks with a run of one process: compare_ranks.py ALONE RANKS COMMAND...

ALONE and RANKS are prefixes of files: .code holds the exit code, .stdout the report of --json, and .out what --out
wrote. COMMAND is what both ran, for example: hmm train model.json data.txt --restarts 3. The variable WARPKOV names the
program.

- hmm: all numbers agree within 1e-12, relative, or absolute below 1.
- pomdp: each lower bound is at most each upper bound, and the written vectors attain the reported lower bound.
- mdp: the certified intervals of both runs intersect in every state, and the value of either policy lies in both.
"""

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

WARPKOV = os.environ["WARPKOV"]
# Differ between any two runs.
UNCOMPARED = {"device", "notes", "phases", "seconds"}


class Run:
    """The outputs of one run."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.code = int(Path(prefix + ".code").read_text())
        # Fails if a second rank has printed, too.
        self.report = json.loads(Path(prefix + ".stdout").read_text())
        self.out = prefix + ".out"


def option(command, name, default=None):
    return command[command.index(name) + 1] if name in command else default


def near(a, b, tolerance):
    return a == b or abs(a - b) <= tolerance * max(1, abs(a), abs(b))


def differences(a, b, place, tolerance):
    """The places where two JSON values differ. The second may have further keys."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a.keys() - UNCOMPARED:
            if key in b:
                yield from differences(a[key], b[key], f"{place}.{key}", tolerance)
            else:
                yield f"{place}.{key} is missing"
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{place}[{i}]", tolerance)
    elif isinstance(a, (int, float)) and isinstance(b, (int, float)) and type(a) is not bool:
        if not near(a, b, tolerance):
            yield f"{place}: {a!r} alone, {b!r} with ranks"
    elif a != b:
        yield f"{place}: {str(a)[:80]} alone, {str(b)[:80]} with ranks"


def wrong_times(report):
    """What is wrong with the times of the ranks."""
    ranks = report.get("ranks", [])
    if len(ranks) < 2 or [of_rank["rank"] for of_rank in ranks] != list(range(len(ranks))):
        yield f"ranks: {ranks}"
    for of_rank in ranks:
        parts = [of_rank[part] for part in ("sweeps", "exchange", "waiting")]
        if min(parts) < 0 or of_rank["waiting"] <= 0 or not near(sum(parts), of_rank["seconds"], 1e-6):
            yield f"times of a rank: {of_rank}"


def numbers(text):
    try:
        return float(text)
    except ValueError:
        return text


def compare_hmm(alone, ranks, command):
    if alone.code != ranks.code:
        yield f"exit code {alone.code} alone, {ranks.code} with ranks"
    yield from differences(alone.report, ranks.report, "report", 1e-12)
    read = {
        "train": lambda file: json.loads(Path(file).read_text()),
        "score": lambda file: [[numbers(cell) for cell in row] for row in csv.reader(Path(file).open())],
    }[command[1]]
    yield from differences(read(alone.out), read(ranks.out), "--out", 1e-12)


def compare_pomdp(alone, ranks, command):
    gap = float(option(command, "--gap", "inf"))
    model = command[2]
    for run in (alone, ranks):
        lower, upper = run.report["lower"], run.report["upper"]
        if not lower <= upper:
            yield f"{run.prefix}: lower bound {lower} above upper bound {upper}"
        if (run.report["stopped_by"] == "gap") != (run.code == 0) or run.code not in (0, 1):
            yield f"{run.prefix}: exit code {run.code}, but stopped by {run.report['stopped_by']}"
        if run.code == 0 and not upper - lower <= gap:
            yield f"{run.prefix}: gap {upper - lower}, target {gap}"
        for other in (alone, ranks):
            if not lower <= other.report["upper"]:
                yield f"{run.prefix}: lower bound {lower} above {other.prefix}'s upper bound {other.report['upper']}"
        bound = subprocess.run(
            [WARPKOV, "pomdp", "bound", model, "--policy", run.out, "--json"], stdout=subprocess.PIPE, check=True
        )
        written = json.loads(bound.stdout)
        # A residual within 1e-6 is rounding.
        if not near(written["value"], lower, 1e-6) or not written["residual"] <= 1e-6:
            yield f"{run.prefix}: its lower bound is {lower}, but of its vectors: {written}"
        if not written["certified"] <= min(alone.report["upper"], ranks.report["upper"]):
            yield f"{run.prefix}: its vectors are worth {written['certified']}, above an upper bound"
    if "--iterations" not in command and ranks.code != alone.code:
        yield f"exit code {alone.code} alone, {ranks.code} with ranks"


class Mdp:
    """A model as JSON has it: compressed sparse rows, one row per choice of a state."""

    def __init__(self, file, command):
        model = json.loads(Path(file).read_text())
        self.states = model["S"]
        self.gamma = float(option(command, "--gamma", model["gamma"]))
        choices = model.get("choices") or range(0, self.states * model["A"] + 1, model["A"])

        def rows(matrix):
            ptr = matrix["indptr"]
            return [
                list(zip(matrix["indices"][i:j], matrix["data"][i:j])) for i, j in zip(ptr, ptr[1:])
            ]

        transitions, rewards = rows(model["P"]), [dict(row) for row in rows(model["R"])]
        of_action = model.get("action_rewards") or [0] * len(transitions)
        # Of each state, of each choice: the expected reward, and the successors with their probabilities.
        self.choices = [
            [
                (of_action[row] + sum(p * rewards[row].get(t, 0) for t, p in transitions[row]), transitions[row])
                for row in range(choices[s], choices[s + 1])
            ]
            for s in range(self.states)
        ]
        goal = option(command, "--goal")
        if goal in model.get("labels", {}):
            self.goal = set(model["labels"][goal])
        else:
            self.goal = {int(state) for state in goal.split(",")} if goal else set()

    def policy_values(self, policy, report, command):
        """The values of a policy under the report's criterion."""
        criterion = report["criterion"]
        gamma = self.gamma if criterion in ("discounted", "horizon") else 1.0
        rows = [choices[policy[s]] if choices else (0.0, []) for s, choices in enumerate(self.choices)]
        if criterion == "horizon":
            best = max if report["objective"] == "maximize" else min
            values = [0.0] * self.states
            for _ in range(int(option(command, "--horizon")) - 1):
                values = [
                    best((r + gamma * expected(row, values) for r, row in choices), default=0.0)
                    for choices in self.choices
                ]
            return [r + gamma * expected(row, values) for r, row in rows]
        values = [0.0] * self.states
        for s in self.goal:
            rows[s] = (0.0, [(s, 1.0)])
            values[s] = 1.0 if criterion == "reach" else 0.0
        if criterion == "reach":
            rows = [(0.0, row) for _, row in rows]
        for _ in range(100_000):
            steps = [r + gamma * expected(row, values) - values[s] for s, (r, row) in enumerate(rows)]
            if criterion == "average":
                # The least and the largest step enclose the gain. Half steps keep periodic chains from oscillating.
                values = [v + step / 2 for v, step in zip(values, steps)]
                if max(steps) - min(steps) <= 1e-10:
                    return steps
            else:
                values = [v + step for v, step in zip(values, steps)]
                if all(abs(step) <= 1e-13 * max(1, abs(v)) for step, v in zip(steps, values)):
                    return values
        raise ValueError("the evaluation of a policy does not converge")


def expected(row, values):
    return sum(p * values[t] for t, p in row)


def bounds(out):
    values = [float(value) for value in out["values"]]
    if "lower" in out:
        return [float(low) for low in out["lower"]], [float(high) for high in out["upper"]]
    error = out["certificate"]["bound"]
    return [value - error for value in values], [value + error for value in values]


def compare_mdp(alone, ranks, command):
    if alone.code != ranks.code:
        yield f"exit code {alone.code} alone, {ranks.code} with ranks"
    model = Mdp(command[2], command)
    outs = [json.loads(Path(run.out).read_text()) for run in (alone, ranks)]
    for key in ("status", "criterion", "objective", "states", "method"):
        if alone.report.get(key) != ranks.report.get(key):
            yield f"{key}: {alone.report.get(key)} alone, {ranks.report.get(key)} with ranks"
    enclosures = [bounds(out) for out in outs]
    # Ties that no improvement breaks cost a policy at most this much.
    tie = outs[0].get("tie", 0) / (1 - model.gamma) if model.gamma < 1 else 0
    for run, out, mine in zip((alone, ranks), outs, enclosures):
        evaluated = model.policy_values(out["policy"], out, command)
        for other, (lower, upper) in zip((alone, ranks), enclosures):
            for s, (value, low, high) in enumerate(zip(map(float, out["values"]), lower, upper)):
                slack = 1e-9 * max(1, abs(value)) if math.isfinite(value) else 0
                mine_low, mine_high = mine[0][s], mine[1][s]
                if mine_low > high + slack or mine_high < low - slack:
                    yield f"state {s}: {run.prefix} has [{mine_low}, {mine_high}], {other.prefix} [{low}, {high}]"
                if not low - slack - tie <= evaluated[s] <= high + slack + tie:
                    worth = f"{run.prefix}'s policy is worth {evaluated[s]}"
                    yield f"state {s}: {worth}, {other.prefix} has [{low}, {high}]"


def main():
    alone, ranks, *command = sys.argv[1:]
    compare = {"hmm": compare_hmm, "pomdp": compare_pomdp, "mdp": compare_mdp}[command[0]]
    try:
        many = Run(ranks)
        found = list(compare(Run(alone), many, command)) + list(wrong_times(many.report))
    except (OSError, ValueError, KeyError) as error:
        found = [f"{type(error).__name__}: {error}"]
    for difference in found[:10]:
        print(difference, file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} differences between {alone} and {ranks}")


if __name__ == "__main__":
    main()
