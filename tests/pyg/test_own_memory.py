"""``data.x = ut.cpu()``: a tensor for all of PyG, and for the loaders the table itself."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.transforms import NormalizeFeatures

import hinterland as hl
from hinterland.memory import allocator
from hinterland.pyg import FeatureStore, NeighborLoader
from hinterland.pyg.table_tensor import table_of


@pytest.fixture
def held(data):
    """The data over a table's memory, and the table."""
    table = hl.UnifiedTensor.from_tensor(data.x)
    given = copy.copy(data)
    given.x = table.cpu()
    return given, table


def test_pyg_sees_a_tensor(data, held):
    given, _ = held
    assert given.num_features == 6 and given.num_node_features == 6 and given.num_nodes == 300
    nodes = torch.tensor([3, 5, 90])
    assert torch.equal(given.subgraph(nodes).x, data.x[nodes])
    assert torch.allclose(NormalizeFeatures()(copy.copy(given)).x, NormalizeFeatures()(data.clone()).x)


@pytest.mark.parametrize("cache", [None, "presample"])
def test_batches_come_from_the_tables_memory(data, held, device, cache):
    given, table = held

    def buffers():
        return sum(holding.nbytes == table.nbytes for holding in allocator.report().buffers)

    before = buffers()
    options = {} if cache is None else {"cache": cache, "gpu_budget": "4KiB"}
    loader = NeighborLoader(given, [3, 2], batch_size=50, device=device, **options)
    if device.type == "cuda":
        read = loader._read.x.table
        assert cache or read.cpu().data_ptr() == table.cpu().data_ptr()
        assert cache is None or isinstance(read, hl.TieredTensor)
    else:
        assert loader._read.x is given.x
    assert buffers() == before >= 1  # nothing was copied
    for batch in loader:
        assert torch.equal(batch.x.cpu(), data.x[batch.n_id.cpu()])


@pytest.mark.parametrize("placement", ["pinned", "host"])
def test_memory_is_recognised(data, placement):
    """On a machine without a GPU this is as a loader for a GPU asks."""
    table = hl.UnifiedTensor.from_tensor(data.x, placement)
    own = table_of(table.cpu(), "host")
    assert own.cpu().data_ptr() == table.cpu().data_ptr() and own.shape == table.shape and own.placement == table.placement
    table.cpu()[7] = 1
    assert (own[torch.tensor([7])] == 1).all()
    features = FeatureStore()
    features.put_tensor(table.cpu(), group_name=None, attr_name="x", index=None)
    assert features[None, "x", None].data_ptr() == table.cpu().data_ptr()
    view = own.cpu()
    del table, own, features
    assert torch.equal(view[:7], data.x[:7])  # whoever reads it keeps the memory


def test_other_tensors_are_copied(data):
    table = hl.UnifiedTensor.from_tensor(data.x, "pinned")
    for other in (data.x, table.cpu()[1:], table.cpu()[:, :3], table.cpu().t(), table.cpu().clone()):
        made = table_of(other, "pinned")
        assert made.cpu().data_ptr() != table.cpu().data_ptr() and torch.equal(made.cpu(), other)
    part = table_of(table.cpu()[:100], "host")
    assert part.cpu().data_ptr() == table.cpu().data_ptr() and part.shape == (100, 6)
