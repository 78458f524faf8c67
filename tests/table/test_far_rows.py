"""A placement that is not the library's (far_rows.py) is a table like others: it is gathered, learns, and is trained on."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import IndexOutOfRange
from hinterland.table import tiered_storage
from hinterland.table.tiered import Asked
from hinterland.training import Loader, SparseAdagrad, SparseSGD, train

from .far_rows import FarRows


def test_rows_come_and_go(device):
    rows = torch.randn(50, 3)
    table = FarRows(rows)
    index = torch.tensor([[4, -1], [0, 4]], dtype=torch.int32, device=device)
    stats = {}
    assert torch.equal(table.gather(index, stats=stats).cpu(), rows[index.long().cpu()])
    assert stats["rows"] == 4 and stats["tiers"]["storage"] == {"bytes": 48, "requests": 4, "hits": 4}
    out = torch.empty(2, 2, 3, device=device)
    assert table.gather(index, out) is out and torch.equal(out.cpu(), rows[index.long().cpu()])
    table.scatter_(torch.tensor([7], device=device), torch.ones(1, 3))
    assert table[7].tolist() == [1, 1, 1] and table.count([7]).rows["storage"] == 1
    with pytest.raises(IndexOutOfRange, match="50"):
        table.gather(torch.tensor([50], device=device))
    assert "50 rows" in table.explain() and "FarRows(" in repr(table)


def test_tiers_lie_above_it(device):
    rows = torch.randn(300, 16)
    below, homes = FarRows(rows), ["cpu", "cpu"] if device.type == "cpu" else [device]
    asked = Asked.of(below, (8000, None, 3200), torch.rand(300), None, homes, 4096)
    with tiered_storage.make(below, asked) as table:
        index = torch.randint(-300, 300, (500,), device=device)
        assert torch.equal(table[index].cpu(), rows[index.cpu()])
        found = table.count(index).rows
        assert found["local"] and found["host"] and found["storage"] and sum(found.values()) == 500
        table[::3] = 7
    rows[::3] = 7
    assert torch.equal(below[:], rows)


@pytest.mark.parametrize("optimizer", [SparseSGD, SparseAdagrad])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embeddings_learn_as_in_memory(device, mode, optimizer):
    torch.manual_seed(1)
    weight = torch.randn(40, 8)
    bags = [hl.UnifiedEmbeddingBag.from_pretrained(rows, freeze=False, mode=mode) for rows in (FarRows(weight), weight)]
    optimizers = [optimizer(bag.parameters(), lr=0.1) for bag in bags]
    for _ in range(3):
        index = torch.randint(0, 40, (6, 5), device=device)
        for bag, steps in zip(bags, optimizers, strict=True):
            (bag(index) ** 2).sum().backward()
            steps.step()
            steps.zero_grad()
    assert torch.equal(bags[0].state_dict()["weight"], bags[1].weight.cpu())
    bags[0].load_state_dict(bags[1].state_dict())


def test_training_is_the_same(device):
    held = datasets.generate("products", scale=0.002, seed=1)
    far = dataclasses.replace(held, features=FarRows(held.features.cpu()))
    losses = [train(ds, "sage", [5, 5], epochs=1, hidden=16, device=device, seed=3).test["loss"] for ds in (held, far)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    loaders = [
        Loader(
            hl.sampling.NeighborSampler(held.graph, [5, 5], device=device, seed=1),
            held.splits["train"],
            32,
            features=ds.features,
            device=device,
        )
        for ds in (held, far)
    ]
    for one, other in zip(*loaders, strict=True):
        assert one.x.device == other.x.device and torch.equal(one.x, other.x)


def test_loaders_of_pyg_take_it(device):
    pytest.importorskip("torch_geometric")
    from hinterland.pyg import FeatureStore, NeighborLoader

    from ..pyg.conftest import make_data

    data, given = make_data(), make_data()
    given.x = FarRows(data.x)
    for batch in NeighborLoader(given, [4, 4], batch_size=50, device=device, shuffle=True):
        assert torch.equal(batch.x.cpu(), data.x[batch.n_id.cpu()])
    store = FeatureStore()
    store.put_tensor(given.x, group_name=None, attr_name="x", index=None)
    assert torch.equal(store[None, "x", None], data.x) and torch.equal(store[None, "x", slice(2, 5)], data.x[2:5])
