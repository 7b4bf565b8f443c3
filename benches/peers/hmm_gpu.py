#!/usr/bin/env python3
"""The recursions of `warpkov bench hmm` in PyTorch and Triton, for comparison on the same GPU.

Models and sequences are random with a fixed seed: N states, V = 16 symbols, M sequences of T observations, all on the
device. Every recursion is one CUDA graph over all steps, timed by CUDA events. Times are medians in milliseconds.

    forward    f64, PyTorch: a step is a matrix product, the product with emissions, the sum of each row and the
               division by it
    Viterbi    f32, paths included, the best of PyTorch (all sums over pairs of states, in chunks of two sizes, and
               their maxima) and Triton (a product over (max, +) in tiles of several sizes, with arg-max, for each step)
    E step     f64, PyTorch: forward, backward, the expected transitions as one product over all rows or as one for each
               step, whichever is faster, and those of emissions likewise, with a one-hot matrix of the symbols
    step       f64: the E step and the M step

    python3 benches/peers/hmm_gpu.py
    python3 benches/peers/hmm_gpu.py --sizes 512,512,16 --runs 101 --json

Before the measurements, the script compares all recursions with plain loops on small models; afterwards it compares them with
each other. The exit code is 1 if they differ. Without a GPU only the comparison runs, on the CPU, and the exit code is 2; with
TRITON_INTERPRET=1 it includes the Triton kernels.
"""
import argparse
import json
import math
import os
import statistics
import sys

try:
    import numpy as np
    import torch
except ImportError as error:
    sys.exit(f"{error}: this script needs PyTorch and NumPy")
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SYMBOLS = 16
SEED = 1
# Emissions of some steps that the forward recursion looks up at once.
LOOKED_UP = 1 << 30
# Sums over pairs of states that PyTorch's Viterbi holds: what a GPU's cache holds, and what launches little.
CHUNKS = (32 << 20, 1 << 30)
# States and sequences of a tile, and its warps.
TILES = ((16, 16, 1), (16, 32, 1), (32, 32, 4), (32, 64, 4), (64, 64, 4), (64, 64, 8))


def generate(states, count, steps):
    """π, A, B (N × V) and observations (T × M)."""
    random = np.random.default_rng(SEED)

    def rows(*shape):
        weights = random.random(shape)
        return weights / weights.sum(axis=-1, keepdims=True)

    return rows(states), rows(states, states), rows(states, SYMBOLS), random.integers(SYMBOLS, size=(steps, count))


def placed(problem, dtype, device, of=lambda numbers: numbers):
    """π, A, Bᵀ (V × N) and observations (T × M); `of` is applied to probabilities."""
    *probabilities, seen = problem
    start, transitions, emissions = (torch.tensor(of(numbers), dtype=dtype, device=device) for numbers in probabilities)
    return start, transitions, emissions.T.contiguous(), torch.tensor(seen, device=device)


def emitted(table, seen, limit):
    """t and the rows of the table for the observations at t (M × N), gathered for several steps at a time."""
    at_once = max(1, limit // (table.element_size() * seen.shape[1] * table.shape[1]))
    for first in range(0, len(seen), at_once):
        yield from enumerate(torch.nn.functional.embedding(seen[first : first + at_once], table), first)


class Forward:
    """ln P(O) of each sequence."""

    def __init__(self, problem, device):
        self.start, self.transitions, self.table, self.seen = placed(problem, torch.float64, device)
        (steps, count), states = self.seen.shape, len(self.start)
        self.alpha, self.rows = (torch.empty(count, states, dtype=torch.float64, device=device) for _ in range(2))
        self.scales = torch.empty(steps, count, 1, dtype=torch.float64, device=device)

    @staticmethod
    def bytes(states, count, steps):
        rows = states * states + 2 * count * states + 3 * count * steps
        return 8 * rows + min(8 * count * states * steps, LOOKED_UP)

    def __call__(self):
        for t, probabilities in emitted(self.table, self.seen, LOOKED_UP):
            if t == 0:
                torch.mul(probabilities, self.start, out=self.rows)
            else:
                torch.matmul(self.alpha, self.transitions, out=self.rows)
                self.rows.mul_(probabilities)
            torch.sum(self.rows, 1, keepdim=True, out=self.scales[t])
            torch.div(self.rows, self.scales[t], out=self.alpha)
        return self.scales.log().sum(dim=(0, 2))


class Expect:
    """ln P(O) of each sequence, Σ γ₁ (N), Σ ξ (N × N) and Σ γ by symbol (V × N); `by_step`: one product per step."""

    def __init__(self, problem, device, by_step):
        self.start, self.transitions, self.table, self.seen = placed(problem, torch.float64, device)
        self.by_step = by_step
        (steps, count), states = self.seen.shape, len(self.start)
        self.emitted, self.alpha, self.beta = (
            torch.empty(steps, count, states, dtype=torch.float64, device=device) for _ in range(3)
        )
        self.entered = torch.empty(steps - 1, count, states, dtype=torch.float64, device=device)
        self.scales = torch.empty(steps, count, 1, dtype=torch.float64, device=device)
        self.which = torch.zeros(steps, count, SYMBOLS, dtype=torch.float64, device=device)
        self.which.scatter_(2, self.seen[:, :, None], 1.0)

    @staticmethod
    def bytes(states, count, steps):
        return 8 * (2 * states * states + count * steps * (4 * states + SYMBOLS + 3))

    def product(self, left, right):
        """Σ over steps and sequences of the outer products of rows."""
        if self.by_step:
            return torch.bmm(left.transpose(1, 2), right).sum(dim=0)
        return left.flatten(0, 1).T @ right.flatten(0, 1)

    def __call__(self):
        steps, alpha, beta = len(self.seen), self.alpha, self.beta
        torch.index_select(self.table, 0, self.seen.flatten(), out=self.emitted.flatten(0, 1))
        for t in range(steps):
            if t == 0:
                torch.mul(self.emitted[0], self.start, out=alpha[0])
            else:
                torch.matmul(alpha[t - 1], self.transitions, out=alpha[t])
                alpha[t].mul_(self.emitted[t])
            torch.sum(alpha[t], 1, keepdim=True, out=self.scales[t])
            alpha[t].div_(self.scales[t])
        self.emitted.div_(self.scales)
        beta[-1].fill_(1.0)
        for t in range(steps - 1, 0, -1):
            torch.mul(self.emitted[t], beta[t], out=self.entered[t - 1])
            torch.matmul(self.entered[t - 1], self.transitions.T, out=beta[t - 1])
        pairs = self.transitions * self.product(alpha[:-1], self.entered)
        gamma = alpha.mul_(beta)
        return self.scales.log().sum(dim=(0, 2)), gamma[0].sum(dim=0), pairs, self.product(self.which, gamma)


class Step(Expect):
    """The E step and the M step."""

    def __call__(self):
        logs, first, pairs, symbols = super().__call__()
        torch.div(first, first.sum(), out=self.start)
        torch.div(pairs, pairs.sum(dim=1, keepdim=True), out=self.transitions)
        torch.div(symbols, symbols.sum(dim=0), out=self.table)
        return logs


class Viterbi:
    """The score of the best path of each sequence, and the paths (T × M). PyTorch, `chunk` bytes of sums at a time."""

    def __init__(self, problem, device, chunk):
        self.start, self.transitions, self.table, self.seen = placed(problem, torch.float32, device, np.log)
        self.entering = self.transitions.T.contiguous()
        (steps, count), states = self.seen.shape, len(self.start)
        self.at_once = self.sequences(states, count, chunk)
        self.sums = torch.empty(self.at_once, states, states, device=device)
        self.delta, self.best = (torch.empty(count, states, device=device) for _ in range(2))
        self.back = torch.empty(steps, count, states, dtype=torch.int64, device=device)
        self.score = torch.empty(count, device=device)
        self.path = torch.empty(steps, count, dtype=torch.int64, device=device)

    @staticmethod
    def sequences(states, count, chunk):
        return min(count, max(1, chunk // (4 * states * states)))

    @staticmethod
    def bytes(states, count, steps):
        sums = Viterbi.sequences(states, count, max(CHUNKS)) * states * states
        return 4 * (2 * states * states + sums) + 8 * count * (states * (steps + 1) + 2 * steps) + LOOKED_UP

    def __call__(self):
        for t, logs in emitted(self.table, self.seen, LOOKED_UP):
            if t == 0:
                torch.add(logs, self.start, out=self.delta)
                continue
            for first in range(0, len(self.delta), self.at_once):
                before = self.delta[first : first + self.at_once]
                sums = self.sums[: len(before)]
                torch.add(before[:, None, :], self.entering, out=sums)
                part = slice(first, first + len(before))
                torch.max(sums, 2, out=(self.best[part], self.back[t, part]))
            torch.add(self.best, logs, out=self.delta)
        torch.max(self.delta, 1, out=(self.score, self.path[-1]))
        for t in range(len(self.seen) - 1, 0, -1):
            torch.gather(self.back[t], 1, self.path[t][:, None], out=self.path[t - 1][:, None])
        return self.score, self.path


if triton:

    @triton.jit
    def step_kernel(before, after, back, transitions, table, seen, states, count, J: tl.constexpr, M: tl.constexpr):
        """after(j, m) = maxₖ (before(k, m) + ln A(k, j)) + ln bⱼ(oₘ), and back(j, m) the least k with it."""
        m = tl.program_id(0) * M + tl.arange(0, M)
        j = tl.program_id(1) * J + tl.arange(0, J)
        best = tl.full((J, M), float("-inf"), tl.float32)
        least = tl.zeros((J, M), tl.int32)
        for first in range(0, states, 4):
            for more in tl.static_range(4):
                k = first + more
                left = tl.load(transitions + k * states + j, mask=(j < states) & (k < states), other=float("-inf"))
                delta = tl.load(before + k * count + m, mask=(m < count) & (k < states), other=float("-inf"))
                sums = left[:, None] + delta[None, :]
                better = sums > best
                best = tl.where(better, sums, best)
                least = tl.where(better, k, least)
        inside = (j < states)[:, None] & (m < count)[None, :]
        symbol = tl.load(seen + m, mask=m < count, other=0)
        logs = tl.load(table + symbol[None, :] * states + j[:, None], mask=inside, other=0.0)
        at = j[:, None] * count + m[None, :]
        tl.store(after + at, best + logs, mask=inside)
        tl.store(back + at, least, mask=inside)

    @triton.jit
    def trace_kernel(delta, back, score, path, states, count, steps, M: tl.constexpr):
        """The best last state of each sequence, and the path that led there."""
        m = tl.program_id(0) * M + tl.arange(0, M)
        inside = m < count
        best = tl.full((M,), float("-inf"), tl.float32)
        state = tl.zeros((M,), tl.int32)
        for k in range(states):
            value = tl.load(delta + k * count + m, mask=inside, other=float("-inf"))
            better = value > best
            best = tl.where(better, value, best)
            state = tl.where(better, k, state)
        tl.store(score + m, best, mask=inside)
        for behind in range(steps):
            t = steps - 1 - behind
            tl.store(path + t * count + m, state, mask=inside)
            # The first step has no pointers: what was there before is read, and not used.
            state = tl.load(back + (state + t * states).to(tl.int64) * count + m, mask=inside, other=0)


class TritonViterbi:
    """The same in Triton: δ and back-pointers have one row per state."""

    def __init__(self, problem, device, tile):
        self.start, self.transitions, self.table, self.seen = placed(problem, torch.float32, device, np.log)
        self.tile = tile
        (steps, count), states = self.seen.shape, len(self.start)
        self.seen = self.seen.to(torch.int32)
        self.delta = torch.empty(2, states, count, device=device)
        self.back = torch.zeros(steps, states, count, dtype=torch.int32, device=device)
        self.score = torch.empty(count, device=device)
        self.path = torch.empty(steps, count, dtype=torch.int32, device=device)

    @staticmethod
    def bytes(states, count, steps):
        return 4 * (states * states + count * (states * (steps + 2) + 2 * steps))

    def __call__(self):
        (steps, count), states, (j, m, warps) = self.seen.shape, len(self.start), self.tile
        torch.add(torch.nn.functional.embedding(self.seen[0], self.table).T, self.start[:, None], out=self.delta[0])
        for t in range(1, steps):
            step_kernel[(-(-count // m), -(-states // j))](
                self.delta[(t - 1) % 2],
                self.delta[t % 2],
                self.back[t],
                self.transitions,
                self.table,
                self.seen[t],
                states,
                count,
                J=j,
                M=m,
                num_warps=warps,
            )
        last = self.delta[(steps - 1) % 2]
        trace_kernel[(-(-count // 32),)](
            last, self.back, self.score, self.path, states, count, steps, M=32, num_warps=1
        )
        return self.score, self.path


def plain(problem):
    """ln P(O), the score of the best path, Σ γ₁, Σ ξ and Σ γ by symbol (V × N), by their definitions."""
    start, transitions, emissions, seen = problem
    (steps, count), states = seen.shape, len(start)
    logs, scores = np.zeros(count), np.zeros(count)
    first, pairs, symbols = np.zeros(states), np.zeros((states, states)), np.zeros((SYMBOLS, states))
    for m in range(count):
        alpha, beta, delta = np.zeros((steps, states)), np.ones((steps, states)), np.zeros((steps, states))
        for t in range(steps):
            for j in range(states):
                b = emissions[j, seen[t, m]]
                if t == 0:
                    alpha[t, j] = start[j] * b
                    delta[t, j] = math.log(start[j]) + math.log(b)
                else:
                    alpha[t, j] = sum(alpha[t - 1, i] * transitions[i, j] for i in range(states)) * b
                    best = max(delta[t - 1, i] + math.log(transitions[i, j]) for i in range(states))
                    delta[t, j] = best + math.log(b)
        for t in range(steps - 2, -1, -1):
            for i in range(states):
                entered = (transitions[i, j] * emissions[j, seen[t + 1, m]] * beta[t + 1, j] for j in range(states))
                beta[t, i] = sum(entered)
        likelihood = alpha[-1].sum()
        logs[m], scores[m] = math.log(likelihood), delta[-1].max()
        first += alpha[0] * beta[0] / likelihood
        for t in range(steps):
            symbols[seen[t, m]] += alpha[t] * beta[t] / likelihood
        for t in range(steps - 1):
            entered = emissions[:, seen[t + 1, m]] * beta[t + 1]
            pairs += np.outer(alpha[t], entered) * transitions / likelihood
    return logs, scores, first, pairs, symbols


def same(what, found, expected, tolerance):
    """Exits if the numbers are not finite or differ by more than a fraction of the largest."""
    found, expected = (torch.as_tensor(numbers).cpu().double().numpy() for numbers in (found, expected))
    error = np.abs(found - expected).max() / np.abs(expected).max() if found.shape == expected.shape else math.nan
    if not error <= tolerance:
        print(f"{what}: wrong by {error:.3g}, expected at most {tolerance:g}", file=sys.stderr)
        sys.exit(1)


def path_scores(problem, path):
    """ln P(O, q) of given paths."""
    start, transitions, emissions, seen = problem
    path = path.cpu().long().numpy()
    logs = np.log(start[path[0]]) + np.log(emissions[path, seen]).sum(axis=0)
    return logs + np.log(transitions[path[:-1], path[1:]]).sum(axis=0)


def check(device, kernels):
    """All recursions on small models of awkward sizes."""
    for states, count, steps in ((1, 1, 1), (3, 1, 2), (5, 7, 9), (17, 33, 4), (40, 9, 6)):
        problem = generate(states, count, steps)
        logs, scores, first, pairs, symbols = plain(problem)
        size = f"{states} x {count} x {steps}"
        same(f"forward, {size}", Forward(problem, device)(), logs, 1e-12)
        for by_step in (False, True):
            found = Expect(problem, device, by_step)()
            names = ("logs", "starts", "transitions", "emissions")
            for what, numbers, expected in zip(names, found, (logs, first, pairs, symbols)):
                # There are no transitions where there is one step.
                if expected.any():
                    same(f"E step, {what}, {size}", numbers, expected, 1e-12)
            step = Step(problem, device, by_step)
            step()
            same(f"step, emissions, {size}", step.table, symbols / symbols.sum(axis=0), 1e-12)
            if steps > 1:
                same(f"step, transitions, {size}", step.transitions, pairs / pairs.sum(axis=1, keepdims=True), 1e-12)
        # One sequence at a time, and all.
        decoders = [Viterbi(problem, device, chunk) for chunk in (0, 3 * 4 * states * states, max(CHUNKS))]
        if kernels:
            decoders += [TritonViterbi(problem, device, tile) for tile in TILES]
        for decoder in decoders:
            score, path = decoder()
            same(f"{type(decoder).__name__}, {size}", score, scores, 1e-6)
            same(f"{type(decoder).__name__}, path, {size}", path_scores(problem, path), scores, 1e-6)


def measure(work, runs):
    """The median time of a CUDA graph of `work` in milliseconds, and its result."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = work()
    times = []
    for run in range(runs + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if run >= 3:
            times.append(begin.elapsed_time(end))
    # The graph's memory goes with it.
    found = tuple(part.clone() for part in found) if isinstance(found, tuple) else found.clone()
    torch.cuda.synchronize()
    return statistics.median(times), found


def fits(recursion, size):
    """Whether a recursion fits into two thirds of the free memory."""
    torch.cuda.empty_cache()
    free, needed = torch.cuda.mem_get_info()[0], recursion.bytes(*size)
    if needed > 2 / 3 * free:
        name, (needs, has) = " x ".join(map(str, size)), (f"{number / 2**30:.1f} GiB" for number in (needed, free))
        print(f"{name}: {recursion.__name__} needs {needs}, {has} are free", file=sys.stderr)
    return needed <= 2 / 3 * free


def best(variants, runs, seen=lambda found: None):
    """The smallest median and the name of its variant; calls `seen` with each result."""
    times = {}
    for name, make in variants.items():
        times[name], found = measure(make(), runs)
        seen(found)
    name = min(times, key=times.get, default=None)
    return times.get(name), name, times


def row(size, runs):
    """The times of a size; None for a recursion that does not fit."""
    problem, device = generate(*size), "cuda"
    states, count, steps = size
    result = dict(zip(("states", "sequences", "steps"), size), runs=runs)
    result["forward_f64_ms"] = logs = None
    if fits(Forward, size):
        result["forward_f64_ms"], logs = measure(Forward(problem, device), runs)

    variants = {}
    if fits(Viterbi, size):
        for chunk in CHUNKS:
            at_once = Viterbi.sequences(states, count, chunk)
            variants[f"PyTorch, {at_once} at once"] = lambda chunk=chunk: Viterbi(problem, device, chunk)
    if triton and fits(TritonViterbi, size):
        for tile in TILES:
            # No tile is twice as large as what there is.
            if tile == TILES[0] or (tile[0] < 2 * states and tile[1] < 2 * count):
                name = "Triton, {} x {}, {} warps".format(*tile)
                variants[name] = lambda tile=tile: TritonViterbi(problem, device, tile)
    scores = []

    def decoded(found):
        score, path = found
        same(f"Viterbi's paths, {size}", path_scores(problem, path), score, 1e-4)
        same(f"Viterbi's scores, {size}", score, scores[0] if scores else score, 1e-5)
        scores.append(score)

    result["viterbi_f32_ms"], result["viterbi_by"], result["viterbi_all"] = best(variants, runs, decoded)

    products = {"one product": False, "a product for each step": True} if fits(Expect, size) else {}

    def expected(found):
        if logs is not None:
            same(f"ln P(O), {size}", found[0], logs, 1e-10)
        sums = [part.sum().item() for part in found[1:]]
        same(f"expected counts, {size}", sums, [count, count * (steps - 1), count * steps], 1e-9)

    variants = {name: lambda by_step=by_step: Expect(problem, device, by_step) for name, by_step in products.items()}
    result["e_step_f64_ms"], by, result["e_step_all"] = best(variants, runs, expected)
    result["e_step_by"] = by
    result["step_f64_ms"] = measure(Step(problem, device, products[by]), runs)[0] if by else None
    return result


def size(text):
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text}: expected three positive numbers, as 64,64,16")
    return tuple(map(int, parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=size, metavar="N,M,T", help="states, sequences and steps")
    parser.add_argument("--runs", type=int, default=51)
    parser.add_argument("--json", action="store_true", help="one object for each row")
    arguments = parser.parse_args()
    sizes = arguments.sizes or [(64, 64, 16), (128, 128, 64), (512, 512, 16), (16, 4096, 1024)]
    if arguments.runs < 1:
        parser.error("--runs: expected 1 or more")
    if not torch.cuda.is_available():
        interpreted = triton is not None and os.environ.get("TRITON_INTERPRET") == "1"
        check("cpu", interpreted)
        kernels = "PyTorch and Triton agree" if interpreted else "PyTorch agrees"
        print(f"PyTorch sees no GPU, so nothing is timed; on the CPU {kernels} with plain loops", file=sys.stderr)
        sys.exit(2)
    check("cuda", triton is not None)
    about = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__ if triton else None,
    }
    if not arguments.json:
        print(", ".join(f"{name} {what}" for name, what in about.items()))
        print(f"{'N x M x T':<18} {'forward':>9} {'Viterbi':>9} {'E step':>9} {'step':>9}  ms; Viterbi by, E step by")
    for numbers in sizes:
        found = row(numbers, arguments.runs)
        if arguments.json:
            print(json.dumps({**found, **about}), flush=True)
            continue
        times = [found[name] for name in ("forward_f64_ms", "viterbi_f32_ms", "e_step_f64_ms", "step_f64_ms")]
        columns = " ".join(f"{'none' if time is None else format(time, '.4f'):>9}" for time in times)
        name = " x ".join(map(str, numbers))
        print(f"{name:<18} {columns}  {found['viterbi_by']}; {found['e_step_by']}", flush=True)


if __name__ == "__main__":
    main()
