"""Training code of PyG as it is: GraphSAGE with trimming, and what Lightning needs of a loader."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.loader
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from hinterland.pyg import LinkNeighborLoader, NeighborLoader, Sampler

from .. import forked


@pytest.fixture
def cora(real_data):
    held = np.load(real_data / "cora.npz", allow_pickle=True)
    indptr = torch.from_numpy(held["adj_indptr"]).long()
    source = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    target = torch.from_numpy(held["adj_indices"]).long()
    x = torch.zeros(tuple(held["attr_shape"]))
    pointers = torch.from_numpy(held["attr_indptr"]).long()
    rows = torch.repeat_interleave(torch.arange(len(pointers) - 1), pointers.diff())
    x[rows, torch.from_numpy(held["attr_indices"]).long()] = torch.from_numpy(held["attr_data"]).float()
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])]).unique(dim=1)
    return Data(x=x, edge_index=edge_index, y=torch.from_numpy(held["labels"]).long())


def test_graphsage_learns(cora, device):
    torch.manual_seed(1)
    model = GraphSAGE(cora.num_features, 32, num_layers=2, out_channels=int(cora.y.max()) + 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = NeighborLoader(cora, [10, 5], batch_size=256, shuffle=True, device=device)
    losses = []
    for _ in range(3):
        total = 0.0
        for batch in loader:
            trimmed = {
                "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
                "num_sampled_edges_per_hop": batch.num_sampled_edges,
            }
            found = model(batch.x, batch.edge_index, **trimmed)[: batch.batch_size]
            if not losses and not total:  # trimming leaves out what the seeds do not need
                model.eval()
                whole = model(batch.x, batch.edge_index)[: batch.batch_size]
                assert torch.allclose(whole, model(batch.x, batch.edge_index, **trimmed)[: batch.batch_size], atol=1e-5)
                model.train()
            loss = cross_entropy(found, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * batch.batch_size
        losses.append(total / cora.num_nodes)
    assert losses[2] < 0.6 * losses[0]


@pytest.mark.parametrize("ours", [NeighborLoader, LinkNeighborLoader])
def test_arguments_are_pygs(ours):
    theirs = getattr(torch_geometric.loader, ours.__name__)
    assert issubclass(ours, theirs)
    mine = list(inspect.signature(ours).parameters.values())
    for position, parameter in enumerate(inspect.signature(theirs).parameters.values()):
        if parameter.kind != parameter.VAR_KEYWORD:
            assert mine[position].name == parameter.name and mine[position].default == parameter.default
    own = ["placement", "cache", "gpu_budget", "device", "stats", "time_window", "kwargs"]
    assert [p.name for p in mine[len(mine) - len(own) :]] == own


@pytest.mark.parametrize("link", [False, True])
def test_a_loader_can_be_made_again_from_its_attributes(data, link):
    """As Lightning does to share the inputs among processes: with another sampler of inputs, and the rest as it was."""
    if link:
        labels = torch.arange(data.num_edges) % 2
        loader = LinkNeighborLoader(data, [3], edge_label=labels, neg_sampling="binary", batch_size=16, device="cpu")
    else:
        loader = NeighborLoader(
            data, [3], data.train_mask, weight_attr="weight", batch_size=16, placement="pageable", device="cpu"
        )
    known = {name: value for name, value in vars(loader).items() if not name.startswith("_")}
    wanted = (
        inspect.signature(type(loader)).parameters.keys() | inspect.signature(torch.utils.data.DataLoader).parameters.keys()
    )
    options = {name: known[name] for name in wanted & known.keys()}
    assert {"data", "num_neighbors", "placement", "cache", "device", "neighbor_sampler"} <= options.keys()
    options |= {"sampler": range(0, len(loader.dataset), 2), "shuffle": False, "batch_sampler": None}
    half = type(loader)(**{key: value for key, value in options.items() if key not in ("dataset", "collate_fn")})
    batches = list(half)
    ids = torch.cat([batch.input_id for batch in batches])
    if link:
        assert torch.equal(ids, torch.arange(0, data.num_edges, 2))
        assert torch.equal(batches[0].edge_label[:16], labels[:32:2] + 1)
    else:
        assert torch.equal(ids, data.train_mask.nonzero().view(-1)[::2])
        assert half.neighbor_sampler is loader.neighbor_sampler


def test_lightning(data):
    """PyG's data module with our loader, as docs/pyg.md has it."""
    lightning = pytest.importorskip("pytorch_lightning")
    from torch_geometric.data.lightning import LightningNodeData

    class NodeData(LightningNodeData):
        def dataloader(self, input_nodes, input_time=None, input_id=None, node_sampler=None, **kwargs):
            fanouts = node_sampler.num_neighbors
            return NeighborLoader(
                self.data, fanouts, input_nodes, input_time, neighbor_sampler=node_sampler, input_id=input_id, **kwargs
            )

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = GraphSAGE(6, 8, 1, 4)
            self.seen = []

        def training_step(self, batch, _):
            self.seen.append(batch.input_id)
            return cross_entropy(self.model(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    model = Model()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(model, datamodule=NodeData(data, node_sampler=Sampler(data, [3]), batch_size=16))
    assert torch.equal(torch.cat(model.seen).sort().values, data.train_mask.nonzero().view(-1))


@pytest.mark.parametrize("strategy", ["ddp_fork", pytest.param("ddp_spawn", marks=pytest.mark.nightly)])
def test_lightnings_processes_share_out_the_inputs(tmp_path, strategy):
    """Each of two processes gets the loader, and sees its half of the inputs. (What is spawned imports all once more.)"""
    pytest.importorskip("pytorch_lightning")
    program = Path(__file__).with_name("spawned.py")
    done = subprocess.run([sys.executable, program, tmp_path, strategy], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)]
    assert [len(one) for one in seen] == [100, 100]
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(200))


def test_without_pyg_the_import_says_how_to_get_it():
    code = "import sys; sys.modules['torch_geometric'] = None; import hinterland; import hinterland.pyg"
    found = forked.run("-c", code)
    assert found.returncode != 0
    assert "hinterland.pyg needs PyTorch Geometric" in found.stderr and "pip install 'hinterland[pyg]'" in found.stderr
