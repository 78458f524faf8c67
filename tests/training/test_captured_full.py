"""train_full() captures its epochs where it can, and what comes of it is what comes without."""

from __future__ import annotations

import gc
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from hinterland import datasets
from hinterland.fullgraph import PartitionedGraph, world
from hinterland.runtime import capture as runtime_capture
from hinterland.runtime.errors import ConfigError
from hinterland.training import FULL_MODELS, full, make_full_model, train_full
from hinterland.training import checkpoint as checkpoints
from hinterland.training.capture import CapturedSteps
from hinterland.training.full import FullBatch, refusal

from .captured_steps import adam, captured_without_room, sgd, stand_in_for_epochs
from .test_full import SHAPE
from .test_train import Stops, same

SMALL = {"hidden": 16, "seed": 3, "on_epoch": None}
STEPS = sys.modules[CapturedSteps.__module__]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset():
    return datasets.generate(SHAPE, seed=1, device="cpu")


@pytest.fixture
def replays(device, monkeypatch):
    """On the CPU something does again what was captured."""
    if device.type == "cuda":
        return
    stand_in_for_epochs(monkeypatch)


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", FULL_MODELS)
def test_a_run_is_that_without(dataset, device, name, parts):
    """Two epochs come before the capture, in which "auto" also tries its strategies."""
    options = {**SMALL, "device": device, "epochs": 6, "dropout": 0.0, "weight_decay": 1e-3, "parts": parts}
    found, plain = (train_full(dataset, name, **options, capture=chosen) for chosen in (True, False))
    for one, other in zip(found.history, plain.history, strict=True):
        for key in ("loss", "accuracy", "valid_loss", "valid_accuracy"):
            assert one[key] == pytest.approx(other[key], rel=1e-4)
    assert [epoch["replayed"] for epoch in found.history] == [0, 0, 1, 1, 1, 1]
    assert set(found.history[1]["stages"]) == {"forward", "backward", "step", "validate"}
    assert set(found.history[2]["stages"]) == {"launch", "wait"} and found.history[2]["seconds"] > 0
    assert (
        found.test["accuracy"] == pytest.approx(plain.test["accuracy"], abs=0.02) and found.best["epoch"] == plain.best["epoch"]
    )


class Waits(TorchDispatchMode):
    """Notes operators whose result, or its size, the CPU waits for on a GPU."""

    NAMES = frozenset(("_local_scalar_dense", "nonzero", "masked_select", "repeat_interleave", "_unique2", "bincount", "equal"))

    def __init__(self):
        super().__init__()
        self.seen, self.called = [], 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, self.called = function.overloadpacket.__name__, self.called + 1
        indices = args[1] if name.startswith(("index", "_index_put")) and isinstance(args[1], list) else []
        if name in self.NAMES or any(one is not None and one.dtype == torch.bool for one in indices):
            self.seen.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "name, parts, strategy",
    [
        *((name, 1, "auto") for name in FULL_MODELS),
        *((name, 3, "halo") for name in FULL_MODELS),
        *(("gcn", 3, strategy) for strategy in ("direct", "halo-pipelined", "halo-columns", "all-gather")),
    ],
)
def test_nothing_waits_in_what_is_captured(dataset, monkeypatch, name, parts, strategy):
    stand_in_for_epochs(monkeypatch)
    waits, step, update = Waits(), CapturedSteps._descent, torch.optim.Adam.step

    def watched(steps, batch):
        with waits if steps._steady else nullcontext():
            return step(steps, batch)

    def unwatched(optimizer, *arguments):  # on the CPU it looks at its count of steps
        with _disable_current_modes():
            return update(optimizer, *arguments)

    monkeypatch.setattr(CapturedSteps, "_descent", watched)
    monkeypatch.setattr(torch.optim.Adam, "step", unwatched)
    options = {**SMALL, "device": "cpu", "parts": parts, "strategy": strategy, "weight_decay": 1e-3}
    assert train_full(dataset, name, **options, epochs=4, capture=True).history[-1]["replayed"]
    assert waits.called > 50 and waits.seen == []


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_resumed_run_is_the_run(dataset, device, tmp_path, stop):
    """To the bit, with dropout: an epoch draws the same whether it is replayed or not."""
    options = {**SMALL, "device": device, "epochs": 7, "dropout": 0.4, "capture": True}
    whole = train_full(dataset, "gcn", **options, checkpoint=tmp_path / "whole.pt")

    def stops(epoch):
        if epoch["epoch"] == stop:
            raise Stops

    with pytest.raises(Stops):
        train_full(dataset, "gcn", **{**options, "on_epoch": stops}, checkpoint=tmp_path / "parts.pt")
    resumed = train_full(dataset, "gcn", **options, checkpoint=tmp_path / "parts.pt", resume=True)
    assert same(resumed.model.state_dict(), whole.model.state_dict())
    assert [epoch["loss"] for epoch in resumed.history] == [epoch["loss"] for epoch in whole.history]
    assert resumed.history[-1]["replayed"] == 1 and resumed.test == whole.test


@pytest.mark.usefixtures("replays")
def test_patience_sees_replayed_epochs(dataset, device):
    options = {**SMALL, "device": device, "dropout": 0.0, "lr": 0.05, "epochs": 300, "patience": 3}
    found = train_full(dataset, "sage", **options, capture=True)
    assert 5 < len(found.history) == found.best["epoch"] + 4 < 300 and found.history[-1]["replayed"]


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize("optimizer", [sgd, adam])
def test_a_scheduler_is_followed(dataset, device, optimizer):
    """In a loop of the user's own over a whole graph: each rate is that of the epoch."""
    p = PartitionedGraph.from_graph(dataset.graph, devices=device)
    x, y = p.scatter(dataset.features), p.scatter(dataset.labels.to(torch.float32)).long()
    ended = []
    for buffer in (0, None):
        torch.manual_seed(4)
        net = make_full_model("gcn", 16, 16, 4, 2).to(device)
        how = optimizer(net.parameters())
        scheduler = torch.optim.lr_scheduler.ExponentialLR(how, 0.7)
        batch = FullBatch(x, {"train": [(y, y)]}, y, buffer)
        steps = CapturedSteps(net, lambda net, batch: F.cross_entropy(net(batch.x, p), batch.seeds), how, [])
        losses = []
        for _ in range(8):
            losses.append(steps.step(batch)[1])
            scheduler.step()
        ended.append(torch.stack(losses).cpu())
        assert steps.replayed == (6 if buffer == 0 else 0)
    torch.testing.assert_close(*ended, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("replays")
def test_a_capture_that_fails_leaves_the_run_as_it_was(dataset, device, monkeypatch):
    monkeypatch.setattr(STEPS, "captured", captured_without_room)
    options = {**SMALL, "device": device, "epochs": 5, "dropout": 0.3}
    with pytest.warns(UserWarning, match="not captured, and run as usual: RuntimeError: no room for it"):
        found = train_full(dataset, "gcn", **options, capture=True)
    plain = train_full(dataset, "gcn", **options, capture=False)
    assert [epoch["replayed"] for epoch in found.history] == [0] * 5
    for one, other in zip(found.history, plain.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_on_a_cpu_it_trains_eagerly(dataset):
    plain, found = (train_full(dataset, **SMALL, device="cpu", epochs=4, capture=chosen) for chosen in (False, "auto"))
    assert same(plain.model.state_dict(), found.model.state_dict())
    assert not any(epoch["replayed"] for epoch in found.history)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"capture": "yes"}, "capture='yes' is none of False, True and 'auto'"),
        ({"capture": True}, "capture=True: CUDA graphs are captured on a GPU, and this run trains on the CPU; or leave it out"),
        (
            {"capture": True, "gpu_budget": "1MiB"},
            "rows in host memory or files are sent by the CPU between kernels; leave out gpu_budget=",
        ),
        ({"capture": True, "strategy": "host"}, "rows in host memory or files are sent by the CPU between kernels"),
        ({"capture": True, "strategy": "replicate"}, "strategy='replicate' keeps rows from call to call"),
    ],
)
def test_what_cannot_be(dataset, options, said):
    with pytest.raises(ConfigError, match=said):
        train_full(dataset, **{**SMALL, "device": "cpu", "epochs": 1, **options})


def test_what_cannot_be_on_several_gpus():
    """Nor is it tried there unless it is asked for."""
    gpus = [torch.device("cuda", i) for i in range(2)]
    joined = world.Together([torch.device("cpu")])
    joined.devices, joined.reads_others = tuple(gpus), True
    p = SimpleNamespace(world=joined, in_blocks=False)
    assert refusal(p, "auto", 0.0) is None
    assert full.captured_epochs(True, p, "auto", 0.0) and not full.captured_epochs("auto", p, "auto", 0.0)
    assert "dropout=0.5 draws on each GPU, and torch's graphs draw on one; use dropout=0" in refusal(p, "auto", 0.5)
    joined.reads_others = False
    assert "these GPUs cannot read each other's memory" in refusal(p, "auto", 0.0)
    p.world = SimpleNamespace(devices=tuple(gpus[:1]))
    assert "processes wait for each other on their CPUs; give one process all GPUs" in refusal(p, "auto", 0.0)


def test_a_checkpoint_of_before_says_its_precision(dataset, tmp_path):
    """It called that dtype."""
    path, options = tmp_path / "c.pt", {**SMALL, "device": "cpu", "precision": "float64"}
    train_full(dataset, **options, epochs=1, checkpoint=path)
    state = checkpoints.load(path)
    state["config"]["dtype"] = state["config"].pop("precision")
    checkpoints.save(path, {name: value for name, value in state.items() if name != "version"})
    with pytest.raises(ConfigError, match="was saved with precision='float64', but this run has 'float32'"):
        train_full(dataset, **{**options, "precision": "float32"}, epochs=2, checkpoint=path, resume=True)
    assert len(train_full(dataset, **options, epochs=2, checkpoint=path, resume=True).history) == 2


def test_addresses_that_a_graph_reads_stay(monkeypatch):
    """Others are let go of, once there are many."""
    parts = world.Together([torch.device("cpu")] * 2)
    rows = [[torch.zeros(1), torch.zeros(1)] for _ in range(world._TABLES + 2)]
    with monkeypatch.context() as patched:
        patched.setattr(world, "capturing", lambda: True)
        kept = parts._tables(rows[0])
    seen = parts._tables(rows[1])
    for one in rows[2:]:
        parts._tables(one)
    assert parts._tables(rows[0]) is kept and parts._tables(rows[1]) is not seen
    assert [table.tolist() for table in kept] == [[one.data_ptr() for one in rows[0]]] * 2


def test_a_graph_of_several_gpus_forks_and_joins(monkeypatch):
    """The other GPU's stream waits for the captured one, allocates for the graph, is waited for; its memory goes with that."""
    said = []

    class Stream(SimpleNamespace):
        def wait_stream(self, other):
            said.append(f"{self.device.index} waits for {other.device.index}")

    class Graph:
        pass

    for name in ("beginAllocateCurrentThreadToPool", "endAllocateToPool", "releasePool"):
        monkeypatch.setattr(torch._C, f"_cuda_{name}", lambda index, pool, name=name: said.append(f"{name} {index}"))
    streams, graph = [Stream(device=torch.device("cuda", i)) for i in range(2)], Graph()
    with runtime_capture._forked(graph, (0, 1), streams[0], streams[1:]):
        said.append("work")
    assert said == ["1 waits for 0", "beginAllocateCurrentThreadToPool 1", "work", "endAllocateToPool 1", "0 waits for 1"]
    del graph
    gc.collect()
    assert said[-1] == "releasePool 1"


@pytest.mark.gpu
class TestOnAGPU:
    @pytest.mark.parametrize("precision", ["float32", "bfloat16", "float64"])
    def test_by_default(self, dataset, precision):
        found = train_full(dataset, "gcn", **SMALL, device="cuda:0", epochs=5, precision=precision)
        assert [epoch["replayed"] for epoch in found.history] == [0, 0, 1, 1, 1]

    @pytest.mark.parametrize("strategy", ["auto", "direct", "halo", "halo-pipelined", "halo-columns", "all-gather"])
    @pytest.mark.parametrize("name", FULL_MODELS)
    def test_all_gpus_of_a_process(self, dataset, name, strategy):
        options = {**SMALL, "epochs": 6, "dropout": 0.0, "precision": "float64", "strategy": strategy}
        for count in range(2, torch.cuda.device_count() + 1):
            options["devices"] = [f"cuda:{i}" for i in range(count)]
            found, plain = (train_full(dataset, name, **options, capture=chosen) for chosen in (True, False))
            assert [epoch["replayed"] for epoch in found.history] == [0, 0, 1, 1, 1, 1]
            for one, other in zip(found.history, plain.history, strict=True):
                assert one["loss"] == pytest.approx(other["loss"], abs=1e-9)
                assert one["valid_loss"] == pytest.approx(other["valid_loss"], abs=1e-9)
