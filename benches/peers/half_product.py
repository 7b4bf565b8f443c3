#!/usr/bin/env python3
"""The product of chapter 8's last steps by cuBLAS, through PyTorch, on the same GPU.

    python3 benches/peers/half_product.py N

C = A·Bᵀ for matrices of N x N with elements in [-1, 1), in f16 and bf16, sums in f32. The median of 21 products after a first one, by
events of the GPU.
"""
import sys

import torch

n = int(sys.argv[1])
# Sums in f32, also across parts of the depth.
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {n} x {n} x {n}")
for name, dtype in ("f16", torch.float16), ("bf16", torch.bfloat16):
    a, b = ((2 * torch.rand(n, n, device="cuda") - 1).to(dtype) for _ in range(2))
    c = torch.empty(n, n, device="cuda", dtype=dtype)
    torch.matmul(a, b.T, out=c)
    times = []
    for _ in range(21):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.matmul(a, b.T, out=c)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    time = sorted(times)[10]
    print(f"{name:5} {1e3 * time:9.2f} us {2 * n**3 / time / 1e9:7.2f} TFLOP/s")
