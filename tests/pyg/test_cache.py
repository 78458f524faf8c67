"""Which rows a loader would keep in GPU memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.pyg import FeatureStore, GraphStore, NeighborLoader
from hinterland.pyg.cache import presample, split, widest
from hinterland.runtime.errors import ConfigError


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(3, 99),
)
def test_the_budget_holds_what_is_worth_most(papers, authors, budget):
    scores = {"paper": torch.tensor(papers), "author": torch.tensor(authors)}
    row_bytes = {"paper": 3, "author": 2, "venue": 5}
    sizes = split(budget, scores, row_bytes)
    assert sum(sizes.values()) <= budget
    kept, left = [], []
    for node_type, size in sizes.items():
        worth = (scores[node_type] / row_bytes[node_type]).sort(descending=True).values.tolist()
        rows = size // row_bytes[node_type]
        kept += worth[:rows]
        left += worth[rows:]
    if kept and left:
        assert min(kept) >= max(left)


def test_presampling_counts_what_samples_meet(data):
    loader = NeighborLoader(data, [3, 2], data.train_mask, batch_size=20, device="cpu")
    (counts,) = presample(loader._sample, len(loader.dataset), 20, {None: data.num_nodes}).values()
    assert (counts[data.train_mask] >= 1).all()
    met = torch.zeros(data.num_nodes)
    for _ in range(10):
        for batch in loader:
            met[batch.n_id] += 1
    assert torch.corrcoef(torch.stack([counts.float(), met]))[0, 1] > 0.6


def test_without_a_gpu_there_is_nothing_to_fill(data):
    scores = torch.rand(data.num_nodes)
    for cache in ("presample", scores, {None: scores}):
        (batch,) = NeighborLoader(data, [2], batch_size=300, cache=cache, gpu_budget="1KiB", device="cpu")
        assert torch.equal(batch.x, data.x[batch.n_id])


@pytest.mark.parametrize("scored", [False, True])
def test_the_widest_table_goes_to_tiers(data, scored):
    """A CPU can stand for a GPU whose memory is the host's."""
    given = data.clone()
    given.x, given.y = hl.UnifiedTensor.from_tensor(data.x), hl.UnifiedTensor.from_tensor(data.y)
    loader = NeighborLoader(given, [3, 2], batch_size=32, device="cpu", cache="presample", gpu_budget="4KiB")
    if scored:
        loader.cache = torch.arange(data.num_nodes)
    loader._keep_hot_rows(widest(loader._read, loader._given.num_nodes), scored, 4096)
    table = loader._read.x.table
    assert isinstance(table, hl.TieredTensor) and table.plan.local_rows > 0 and table.plan.held_bytes <= 4096
    assert loader._read.y.table is given.y
    for batch in loader:
        assert torch.equal(batch.x, data.x[batch.n_id]) and torch.equal(batch.y, data.y[batch.n_id])


@pytest.mark.gpu
@pytest.mark.parametrize("cache", ["presample", "scores"])
def test_rows_come_from_tiers(data, cache):
    scores = torch.rand(data.num_nodes) if cache == "scores" else cache
    loader = NeighborLoader(data, [3, 2], batch_size=32, cache=scores, gpu_budget=100 * 24, device="cuda")
    assert type(loader._read.x.table).__name__ == "TieredTensor"
    for batch in loader:
        assert torch.equal(batch.x.cpu(), data.x[batch.n_id.cpu()])


def test_bad_caches(data):
    def refused(match, **options):
        with pytest.raises(ConfigError, match=match):
            NeighborLoader(data, [2], device="cpu", **options)

    refused("belong together", cache="presample")
    refused("belong together", gpu_budget="1GiB")
    refused("cache='lru' is neither one of auto, .*, none nor a size", cache="lru", gpu_budget=9)
    refused("cache='4GiB' is a budget, and gpu_budget=9 another", cache="4GiB", gpu_budget=9)
    refused("not a size in bytes", cache="presample", gpu_budget="much")
    refused(r"cache has scores of shape \(3,\) for 300 nodes", cache=torch.ones(3), gpu_budget=9)
    refused("cache has scores for node type 'paper'", cache={"paper": torch.ones(3)}, gpu_budget=9)
    with pytest.raises(ConfigError, match="holds no row of the features"):
        split(1, {None: torch.ones(3)}, {None: 4})
    features, graphs = FeatureStore(), GraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(300, 300))
    with pytest.raises(ConfigError, match=r"put ut.tiered\(...\) in the feature store instead"):
        NeighborLoader((features, graphs), [2], torch.arange(3), cache="presample", gpu_budget=9)
