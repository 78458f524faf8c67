"""One table, several GPUs of one process: each reads the same host memory, whichever GPU is the current one."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import IndexOutOfRange

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU"),
]


@pytest.mark.parametrize("placement", ["mapped", "registered"])
@pytest.mark.parametrize("columns", [3, 32, 257])
def test_each_gpu_reads_the_same_rows(placement, columns):
    source = torch.randn(5000, columns)
    table = hl.UnifiedTensor.from_tensor(source, placement=placement)
    rows = torch.randint(-5000, 5000, (2000,))
    for gpu in range(torch.cuda.device_count()):
        device = torch.device("cuda", gpu)
        found = table[rows.to(device)]
        assert found.device == device and torch.equal(found.cpu(), source[rows])
        assert table.cuda(device).device == device
        assert torch.equal((table.cuda(device) + 1).cpu(), source + 1)


def test_a_bad_index_is_told_of_the_gpu_that_met_it():
    table = hl.UnifiedTensor.from_tensor(torch.randn(10, 4))
    for gpu in (1, 0):
        with pytest.raises(IndexOutOfRange, match="10"):
            table[torch.tensor([0, 10], device=f"cuda:{gpu}")]
        assert torch.equal(table[torch.tensor([3], device=f"cuda:{gpu}")].cpu(), table.cpu()[3:4])


def test_the_second_gpu_searches_as_the_first():
    graph = hl.generate("kronecker", scale=12, seed=3, device="cpu")
    source = int(graph.degrees().argmax())
    first, second = (hl.bfs(graph, source, device=f"cuda:{gpu}") for gpu in (0, 1))
    assert second.levels.device == torch.device("cuda", 1)
    assert torch.equal(first.levels.cpu(), second.levels.cpu())
    assert torch.equal(first.parents.cpu(), second.parents.cpu())


def test_a_graph_is_made_on_either_gpu():
    first, second = (hl.generate("uniform", scale=10, seed=5, device=f"cuda:{gpu}") for gpu in (0, 1))
    assert torch.equal(first.indices, second.indices)
