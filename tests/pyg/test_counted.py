"""``stats=`` of the loaders: PyG's code lies between, and what is read below it is counted."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import HeteroData

import hinterland as hl
from hinterland.pyg import LinkNeighborLoader, NeighborLoader
from hinterland.runtime.errors import ConfigError

from .conftest import make_data


@pytest.mark.parametrize("links", [False, True])
def test_batches_say_what_they_took(links, device):
    data, total = make_data(), {}
    data.x = hl.UnifiedTensor.from_tensor(data.x)
    kind = LinkNeighborLoader if links else NeighborLoader
    loader = kind(data, [4, 3], batch_size=32, device=device, stats=total)
    batches = list(loader)
    assert total["batches"] == len(batches) == len(loader)
    for batch in batches:
        drawn, gathered = batch.stats["sampling"], batch.stats["features"]
        assert sum(drawn["vertices"]) == len(batch.n_id) and sum(drawn["edges"]) == len(batch.e_id)
        assert gathered["rows"] >= len(batch.n_id) and gathered["bytes"] > 0
        assert device.type == "cuda" or gathered["rows"] == len(batch.n_id)  # other attributes stay where they are
    for part in ("sampling", "features"):
        for name in ("bytes", "useful_bytes"):
            assert total[part][name] == sum(batch.stats[part][name] for batch in batches)
    del total["batches"]
    list(loader)
    assert total["batches"] == len(loader)  # added to what is there


def test_several_types():
    data, total = HeteroData(), {}
    data["paper"].x = hl.UnifiedTensor.from_tensor(torch.randn(50, 4))
    data["author"].x = hl.UnifiedTensor.from_tensor(torch.randn(20, 8))
    data["author", "writes", "paper"].edge_index = torch.stack([torch.arange(200) % 20, torch.arange(200) % 50])
    loader = NeighborLoader(data, [3], input_nodes="paper", batch_size=10, device="cpu", stats=total)
    batches = list(loader)
    assert total["sampling"]["edges"] == {
        "author__writes__paper": [sum(batch["author", "writes", "paper"].num_edges for batch in batches)]
    }
    assert total["features"]["rows"] == sum(batch.num_nodes for batch in batches)


def test_without_it_nothing_is_counted():
    data = make_data()
    assert all("stats" not in batch for batch in NeighborLoader(data, [4], batch_size=100, device="cpu"))
    with pytest.raises(ConfigError, match="is no dict, which is filled"):
        NeighborLoader(data, [4], device="cpu", stats=True)
