"""Training in bfloat16, and on features that are kept in shorter numbers: nearly what float32 gives."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.sampling import NeighborSampler
from hinterland.training import ConvertedRows, Loader, train
from hinterland.training import checkpoint as checkpoints
from hinterland.training.models import SAGEConv

SMALL = {"fanouts": (4, 3), "hidden": 32, "batch_size": 32, "lr": 0.02, "dropout": 0.0, "seed": 3}
CLOSE = 0.02  # of losses. bfloat16 has 8 bits: a step's scores are off by less than a hundredth

pytestmark = pytest.mark.usefixtures("one_thread")


def over(dataset, rows, dtype=None, scales=None):
    """The data set with these features, converted to a type if there is one."""
    table = hl.UnifiedTensor.from_tensor(rows)
    return dataclasses.replace(dataset, features=table if dtype is None else ConvertedRows(table, dtype, scales))


def quantized(rows):
    """As float8_e4m3fn, and the scale of each row."""
    scales = rows.abs().amax(1).clamp(min=1e-12) / torch.finfo(torch.float8_e4m3fn).max
    return (rows / scales[:, None]).to(torch.float8_e4m3fn), scales


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "pinsage"])
def test_bfloat16_learns_as_float32_does(dataset, device, model):
    one, other = (train(dataset, model, **SMALL, device=device, epochs=4, precision=kind) for kind in ("float32", "bfloat16"))
    losses, nearly = ([epoch["loss"] for epoch in found.history] for found in (one, other))
    assert losses != nearly and nearly[0] == pytest.approx(losses[0], rel=CLOSE)
    assert nearly[-1] < nearly[0] and abs(one.test["accuracy"] - other.test["accuracy"]) < 0.2
    assert {p.dtype for p in other.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_layers_get_rows_in_the_models_precision(dataset, monkeypatch, precision):
    """And so the second layer, from the first."""
    seen, forward = [], SAGEConv.forward

    def watched(self, x, block):
        seen.append(x.dtype)
        return forward(self, x, block)

    monkeypatch.setattr(SAGEConv, "forward", watched)
    train(dataset, **SMALL, device="cpu", epochs=1, precision=precision)
    assert len(seen) >= 16 and set(seen) == {getattr(torch, precision)}


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_features_of_two_bytes(dataset, device, kind, precision):
    rows = dataset.features.cpu()
    whole, short = (
        train(over(dataset, one), **SMALL, device=device, epochs=2, precision=precision) for one in (rows, rows.to(kind))
    )
    assert [e["loss"] for e in short.history] == pytest.approx([e["loss"] for e in whole.history], rel=CLOSE)
    assert whole.history[0]["bytes"] == 2 * short.history[0]["bytes"]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_features_of_fp8_with_a_scale_a_row(dataset, device, precision):
    rows = dataset.features.cpu() * torch.logspace(-6, 6, 600)[:, None]  # no scale of all rows would do
    short, scales = quantized(rows)
    kept = over(dataset, short, getattr(torch, precision), scales)
    exact = over(dataset, short.float() * scales[:, None])
    found, same = (train(one, **SMALL, device=device, epochs=2, precision=precision) for one in (kept, exact))
    assert [e["loss"] for e in found.history] == pytest.approx([e["loss"] for e in same.history], rel=CLOSE)


def test_a_run_of_another_precision_is_not_gone_on_with(dataset, tmp_path):
    options = {**SMALL, "device": "cpu", "checkpoint": tmp_path / "c.pt"}
    train(dataset, **options, epochs=1, precision="bfloat16")
    with pytest.raises(ConfigError, match="saved with precision='bfloat16', but this run has 'float32'"):
        train(dataset, **options, epochs=2, resume=True)
    longer = train(dataset, **options, epochs=2, resume=True, precision="bfloat16")
    whole = train(dataset, **{**options, "checkpoint": None}, epochs=2, precision="bfloat16")
    assert longer.history[1]["loss"] == whole.history[1]["loss"]


def test_a_checkpoint_from_before_there_was_a_precision_is_of_float32(dataset, tmp_path):
    options = {**SMALL, "device": "cpu", "checkpoint": tmp_path / "c.pt", "resume": True}
    train(dataset, **{**options, "resume": False}, epochs=1)
    state = {name: value for name, value in checkpoints.load(tmp_path / "c.pt").items() if name != "version"}
    assert state["config"].pop("precision") == "float32"
    checkpoints.save(tmp_path / "c.pt", state)
    with pytest.raises(ConfigError, match="saved with precision='float32'"):
        train(dataset, **options, epochs=2, precision="bfloat16")
    assert len(train(dataset, **options, epochs=2).history) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scaled", [False, True])
def test_converted_rows_are_those_of_torch(device, dtype, scaled):
    rows, scales = torch.randn(50, 3, 16).to(torch.float8_e4m3fn), torch.rand(50)
    table = ConvertedRows(hl.UnifiedTensor.from_tensor(rows), dtype, scales if scaled else None)
    index = torch.tensor([[4, -1, 4], [0, 49, -50]], device=device)
    expected = rows.float() * (scales[:, None, None] if scaled else 1)
    assert torch.equal(table.gather(index).cpu(), expected.to(dtype)[index.cpu()])
    assert (len(table), tuple(table.shape), table.dtype, table.row_bytes) == (50, (50, 3, 16), dtype, 48)
    assert table.gather(index[:, :0]).shape == (2, 0, 3, 16)
    assert repr(table).startswith("ConvertedRows(table=UnifiedTensor(shape=(50, 3, 16), dtype=float8_e4m3fn")


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_rows_are_scaled_before_they_are_rounded(device, kind):
    rows, scales = (torch.randn(50, 16) * 1e6).to(kind), torch.full((50,), 1e-6)  # of which float16 has none unscaled
    table = ConvertedRows(hl.UnifiedTensor.from_tensor(rows), torch.float16, scales)
    found = table.gather(torch.arange(50, device=device)).cpu()
    assert torch.equal(found, (rows.float() * scales[:, None]).half()) and found.isfinite().all()


def test_a_row_that_is_not_there_is_named(device):
    """Whatever its scale would be."""
    table = ConvertedRows(hl.UnifiedTensor.from_tensor(torch.ones(50, 16).bfloat16()), scales=torch.rand(50))
    with pytest.raises(IndexOutOfRange, match="index 50 at position 1 is outside a table of 50 rows"):
        table.gather(torch.tensor([0, 50], device=device))
    assert table.gather(torch.tensor([0], device=device)).isfinite().all()  # nothing of the GPU is spoilt


def test_a_loader_counts_what_is_kept(dataset, device):
    """Of converted rows the bytes that are read, which are a quarter."""
    rows, scales = quantized(dataset.features.cpu())
    features, stats = over(dataset, rows, torch.float32, scales).features, {}
    sampler = NeighborSampler(dataset.graph, [4, 3], device=device)
    batch = next(iter(Loader(sampler, dataset.splits["train"], 64, features=features, stats=stats, device=device)))
    assert torch.equal(batch.x.cpu(), rows.float()[batch.sample.node.cpu()] * scales[batch.sample.node.cpu(), None])
    assert batch.stats["features"]["rows"] == len(batch.x) and batch.stats["features"]["useful_bytes"] == len(batch.x) * 64
    loader, wide = (
        Loader(sampler, dataset.splits["train"], 64, features=one, device=device) for one in (features, dataset.features)
    )
    served, of_wide = next(iter(loader)).served, next(iter(wide)).served
    assert served.host == of_wide.host == len(batch.x)
    assert of_wide.link - served.link == (0 if device.type == "cpu" else len(batch.x) * (256 - 64))
    assert loader._only_launches() == (device.type == "cuda")


@pytest.mark.parametrize(
    "dtype, options, match",
    [
        (None, {}, "give a table, as hl.UnifiedTensor.from_tensor"),
        (torch.int32, {}, "table has torch.int32"),
        (torch.float32, {"dtype": torch.int64}, "dtype=torch.int64 is none of"),
        (torch.float32, {"scales": torch.ones(3)}, r"scales are torch.float32 of the shape \[3\]"),
        (torch.float32, {"scales": torch.ones(4).double()}, "scales are torch.float64"),
        (torch.float32, {"scales": [1.0] * 4}, "scales"),
    ],
)
def test_what_is_not_converted_is_refused(dtype, options, match):
    rows = torch.ones(4, 2)
    table = rows if dtype is None else hl.UnifiedTensor.from_tensor(rows.to(dtype))
    with pytest.raises(ConfigError, match=match):
        ConvertedRows(table, **options)


@pytest.mark.gpu
def test_converted_rows_are_gathered_by_graphs(dataset):
    rows, scales = quantized(dataset.features.cpu())
    sampler = NeighborSampler(dataset.graph, [4, 3], device="cuda")
    features = over(dataset, rows, torch.bfloat16, scales).features
    loader = Loader(sampler, dataset.splits["train"], 8, features=features, labels=dataset.labels, capture=True, device="cuda")
    expected, replayed = (rows.float() * scales[:, None]).bfloat16(), 0
    for batch in loader:
        replayed += batch.buffer is not None
        assert torch.equal(batch.x.cpu(), expected[batch.sample.node.cpu()])
    assert replayed > 10
