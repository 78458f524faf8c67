"""cuSPARSE as benchmarks call it, against torch.sparse in float64."""

from __future__ import annotations

import pytest
import torch

from benchmarks._cusparse import SpMM
from benchmarks._libcusparse import ALG2, DEFAULT
from hinterland.runtime.errors import DeviceError

ROWS, COLUMNS = 500, 300


def matrix(device):
    """Rows of 0 to 40 edges, every third empty, one with 5000; a column may be there twice."""
    random = torch.Generator().manual_seed(7)
    degrees = torch.randint(41, (ROWS,), generator=random)
    degrees[::3], degrees[7] = 0, 5000
    begins = torch.cat((torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)))
    columns = torch.randint(COLUMNS, (int(begins[-1]),), generator=random).int()
    return begins.to(device), columns.to(device), torch.rand(len(columns), generator=random).to(device)


def test_without_a_gpu_it_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="needs an NVIDIA GPU"):
        SpMM(*matrix("cpu"), COLUMNS)


@pytest.mark.gpu
@pytest.mark.parametrize("algorithm", [DEFAULT, ALG2])  # ALG3 loses the context with matrices as small as this
@pytest.mark.parametrize("width", [16, 64, 256])
def test_equals_torch_in_float64(width, algorithm):
    offsets, places, weights = matrix("cuda")
    x = torch.randn(COLUMNS, width, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    size = (ROWS, COLUMNS)
    wanted = torch.sparse_csr_tensor(offsets, places.long(), weights.double(), size) @ x.double()
    product, out = SpMM(offsets, places, weights, COLUMNS), torch.zeros(ROWS, width, device="cuda")
    for _ in range(2):  # the kept buffer again
        product.run(x, out, algorithm=algorithm)
        assert ((out.double() - wanted).abs() <= 1e-5 * wanted.abs().max()).all()
