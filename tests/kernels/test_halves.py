"""Types of 16 bits with a point at the edges of their values, in kernels: torch is the oracle."""

from __future__ import annotations

import math

import pytest
import torch

import hinterland as hl


def edges() -> torch.Tensor:
    """Float32 at which what it is kept as changes."""
    kind = torch.finfo(torch.float32)
    tiny = (kind.tiny, kind.smallest_normal / 4, kind.eps, kind.max)
    some = (0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.0, 127.0, 128.0, 255.5, 256.0, 32768.0, 2.0**24 + 1, 2.0**31 - 1, 2.0**31)
    far = (2.0**32, 2.0**53, 2.0**62, 2.0**63, 1e30, math.inf)
    random = (torch.randn(8, generator=torch.Generator().manual_seed(3)) * 100).tolist()
    return torch.tensor([sign * one for one in (*some, *far, *tiny) for sign in (1, -1)] + [math.nan, *random])


@pytest.mark.parametrize(("c", "dtype"), (("half", torch.float16), ("bfloat16", torch.bfloat16)))
def test_what_has_16_bits_at_the_edges(c: str, dtype: torch.dtype, device: torch.device) -> None:
    """In kernels: all that there are, as floats; edges of floats, as they are kept; operators, each rounded once."""
    step = hl.kernel(f"""
        __global__ void step(array<const {c}> x, array<const {c}> y, array<const float> z, array<float> wide, array<{c}> kept,
                             array<{c}> sum, array<{c}> product, array<{c}> quotient, array<bool> less) {{
          const int64_t i = int64_t{{blockIdx.x}} * blockDim.x + threadIdx.x;
          if (i >= x.size()) return;
          wide[i] = x[i];
          kept[i] = z[i];
          sum[i] = x[i] + y[i];
          product[i] = x[i] * y[i];
          quotient[i] = x[i] / y[i];
          less[i] = x[i] < y[i];
        }}""")
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    y = x[torch.randperm(2**16, generator=torch.Generator().manual_seed(2))]
    z = edges()
    kind = torch.finfo(dtype)
    halfway = [
        kind.max * (1 + kind.eps / 4),
        kind.max * (1 + kind.eps / 8),
        1 + kind.eps / 2,
        1 + 1.5 * kind.eps,
        kind.tiny / 3,
    ]
    z = torch.cat([z, torch.tensor(halfway), -torch.tensor(halfway)]).repeat(2**16)[: 2**16]
    wide, less = torch.empty(2**16, device=device), torch.empty(2**16, dtype=torch.bool, device=device)
    kept, total, product, quotient = (torch.empty(2**16, dtype=dtype, device=device) for _ in range(4))
    step(x.to(device), y.to(device), z.to(device), wide, kept, total, product, quotient, less)
    for name, ours, theirs in (
        ("wide", wide, x.float()),
        ("kept", kept, z.to(dtype)),
        ("sum", total, x + y),
        ("product", product, x * y),
        ("quotient", quotient, x / y),
        ("less", less, x < y),
    ):
        ours = ours.cpu()
        equal = (ours == theirs) | ((ours != ours) & (theirs != theirs))
        assert equal.all(), [name, *((one[~equal][:5]).tolist() for one in (x, y, z, ours, theirs))]
