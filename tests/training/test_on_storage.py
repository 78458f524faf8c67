"""Features that stay in their file: the same batches, and the same training, as from memory."""

import pytest
import torch

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import ConfigError
from hinterland.training import Loader, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "products"
    datasets.save(datasets.generate("products", scale=0.004, seed=1), path)
    return path


def test_training_is_the_same(folder, device):
    held = datasets.open(folder)
    stored = datasets.open(folder, placement="storage", host_budget="1MiB")
    assert isinstance(stored.features, hl.StorageArray) and stored.features.cache.host_budget == 1 << 20
    results = [train(ds, "sage", [5, 5], epochs=1, hidden=16, device=device, seed=3) for ds in (held, stored)]
    assert results[0].test["loss"] == pytest.approx(results[1].test["loss"], rel=1e-4)
    assert results[0].history[0]["loss"] == pytest.approx(results[1].history[0]["loss"], rel=1e-4)
    assert stored.features.stats().bytes_read > 0


def test_batches_are_the_same(folder, device):
    held = datasets.open(folder)
    stored = datasets.open(folder, placement={"features": "storage"})
    sampler = hl.sampling.NeighborSampler(held.graph, [5, 5], device=device, seed=1)
    loaders = [Loader(sampler, held.splits["train"], 32, features=ds.features, device=device) for ds in (held, stored)]
    for one, other in zip(*loaders, strict=True):
        assert one.x.device == other.x.device and torch.equal(one.x, other.x)


def test_pyg_reads_it(folder, device):
    pyg = pytest.importorskip("torch_geometric")
    from hinterland.pyg import NeighborLoader

    held = datasets.open(folder)
    indptr, indices, _ = held.graph.checked_rows()
    targets = torch.repeat_interleave(indptr.diff())
    data = pyg.data.Data(edge_index=torch.stack([indices.long(), targets]), num_nodes=held.num_vertices)
    data.x = datasets.open(folder, placement="storage").features
    loader = NeighborLoader(data, [5, 5], input_nodes=held.splits["train"][:64], batch_size=32, device=device)
    x = held.features.cpu()
    for batch in loader:
        assert torch.equal(batch.x.cpu(), x[batch.n_id.cpu()])


def test_a_cache_of_a_gpu_is_not_for_it_yet(folder):
    with pytest.raises(ConfigError, match="plan_cache|UnifiedTensor"):
        Loader(
            hl.sampling.NeighborSampler(datasets.open(folder).graph, [5], device="cpu"),
            torch.arange(10),
            5,
            features=datasets.open(folder, placement="storage").features,
            cache="features",
            gpu_budget="1MiB",
            device="cpu",
        )
