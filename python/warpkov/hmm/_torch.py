"""`log_partition` for PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ._partition import Place, derivatives, values


def _array(tensor: Any) -> np.ndarray:
    """The numbers of a tensor, without a copy if they are on the CPU."""
    return np.from_dlpack(torch.as_tensor(tensor).detach().cpu().contiguous())


def _like(array: np.ndarray, tensor: Any) -> Any:
    return torch.from_dlpack(array).to(tensor)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, start: Any, transitions: Any, steps: Any, lengths: tuple[int, ...], place: Place) -> Any:
        ctx.save_for_backward(start, transitions, steps)
        ctx.lengths, ctx.place = lengths, place
        return _like(values([_array(tensor) for tensor in (start, transitions, steps)], lengths, place), steps)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, weights: Any) -> Any:
        tensors = ctx.saved_tensors
        found = derivatives([_array(tensor) for tensor in tensors], ctx.lengths, ctx.place, _array(weights))
        return *(_like(array, tensor) for array, tensor in zip(found, tensors)), None, None


def log_partition(start: Any, transitions: Any, steps: Any, lengths: tuple[int, ...], place: Place) -> Any:
    """ln Z of each sequence, a tensor with derivatives."""
    start, transitions = (torch.as_tensor(array, dtype=steps.dtype, device=steps.device) for array in (start, transitions))
    return _LogPartition.apply(start, transitions, steps, lengths, place)
