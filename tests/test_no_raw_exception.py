"""Whatever a public function is given, it answers, or says in a sentence of ours what is wrong."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import torch

NUMBERS = [True, 0, -1, 7, 2**31, 2**63 - 1, 2**63, 2**64, 2**64 + 5, 10**30, -(2**63) - 1, -(10**30), 10**400]
REALS = [0.5, 1e300, float("nan"), float("inf"), float("-inf"), 1j, Fraction(1, 3), np.float32("nan"), np.int64(-3)]
WORDS = ["", "no such word", "\0", "1e5", "é" * 300, "\udcff", b"bytes", Path("/no/such\0place"), Path("/dev/null/x")]
LISTS = [[], (), {}, set(), [None], ["a"], [0.5], [float("nan")], [2**64 + 5], [10**30], [-1], [[0], [1, 2]], [[]], {"a": None}]
LISTS += [{None: 1}, {0: 0.5}, [True], {"a": "host"}, {0: float("nan")}, {10**30: 1}, [torch.zeros(2)], range(3), iter([0, 1])]
OTHERS = [None, object(), int, len, lambda *args: 1 / 0, slice(None), ..., np.zeros(3), np.zeros((2, 2), dtype=object)]
DEVICES = [torch.device("meta"), "cuda:99", "meta", "cpu:7", torch.device("xla"), torch.float32, torch.bool, torch.quint8]


def tensors():
    values = torch.arange(8, dtype=torch.float32)
    yield torch.zeros(0)
    yield torch.zeros(0, dtype=torch.int64)
    yield torch.zeros((0, 3))
    yield torch.tensor(3)
    yield torch.tensor(0.5)
    yield torch.zeros(8, dtype=torch.int64)
    yield torch.full((8,), 2**62)
    yield torch.full((8,), -(2**63))
    yield torch.full((8,), float("nan"))
    yield torch.full((8,), float("inf"))
    yield torch.full((8,), -1.0)
    yield torch.zeros(8, 2)
    yield torch.zeros(9)
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.uint16, torch.uint32, torch.uint64, torch.int32):
        yield torch.ones(8, dtype=dtype)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.float8_e4m3fn):
        yield torch.ones(8, dtype=torch.float32).to(dtype)
    yield torch.ones(8).to_sparse()
    yield torch.ones(8, dtype=torch.int64).to_sparse()
    yield torch.ones(8, 8).to_sparse_csr()
    yield torch.ones(8, 8).to_mkldnn()
    yield torch.ones(8, dtype=torch.int64, device="meta")
    yield torch.ones(8, 2, device="meta")
    yield torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    yield torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    yield torch.quantize_per_tensor(values, 0.1, 0, torch.quint8)
    yield values.clone().requires_grad_()
    yield (values.clone().requires_grad_() * 2)
    yield torch.arange(16)[::2]
    yield torch.ones(8, dtype=torch.complex64).conj()
    yield torch.ones(8, dtype=torch.complex64).conj().imag
    yield torch.zeros(1).expand(8)


BAD = [*NUMBERS, *REALS, *WORDS, *LISTS, *OTHERS, *DEVICES, *tensors()]
