"""Mixed precision: a model computes in shorter numbers than its parameters are kept in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """In which the forward pass is made, on ``device``; that of float32 or float64 changes nothing.

    It keeps no copies of parameters: one that a CUDA graph had captured would not follow them.
    """
    if precision in ("float32", "float64"):
        return nullcontext()
    return torch.autocast(device.type, PRECISIONS[precision], cache_enabled=False)
