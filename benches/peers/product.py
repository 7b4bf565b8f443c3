#!/usr/bin/env python3
"""The matrix product of `warpkov bench pomdp --suite backups` by cuBLAS, through PyTorch, on the same GPU.

    python3 benches/peers/product.py ROWS VECTORS STATES

X (ROWS x STATES) times the transpose of G (VECTORS x STATES), in f32 with and without TF32: the product alone, and the product with the
largest element of each row, which writes all scores to memory first. Medians of 7 runs after a warm-up run.
"""
import sys
import time

import torch

rows, vectors, states = (int(text) for text in sys.argv[1:4])
x = torch.rand(rows, states, device="cuda")
g = torch.rand(vectors, states, device="cuda")


def seconds(work):
    times = []
    for _ in range(8):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times[1:])[3]


print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {rows} x {vectors} x {states}")
for tf32 in (True, False):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    product = seconds(lambda: x @ g.T)
    best = seconds(lambda: (x @ g.T).argmax(dim=1))
    rate = 2 * rows * vectors * states / 1e12
    name = "tf32" if tf32 else "f32"
    print(f"{name:5} product {1e3 * product:9.3f} ms {rate / product:7.1f} TFLOP/s   with arg-max {1e3 * best:9.3f} ms")
