"""What each of two processes does for test_captured_ranks.py: trains captured and not, with gloo. Results go to a folder.

Both may have the same GPU; on a CPU something stands for graphs.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hinterland import datasets
from hinterland.runtime.errors import RankLost
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope
from hinterland.training import Loader, capture, joined, train
from hinterland.training.gradients import GradientAllReduce
from tests.training.captured_steps import SHAPE, SMALL, Net, loss_of, sgd, stand_in, stand_in_for_adam, stand_in_for_batches

FOLDER, DEVICE, RANK = Path(sys.argv[1]), torch.device(sys.argv[2]), int(os.environ["RANK"])
OPTIONS: dict[str, Any] = {**SMALL, "dropout": 0.0, "device": DEVICE, "timeout": 60.0, "on_epoch": None}
module = sys.modules[capture.__module__]
collectives: list[str] = []


def heard(patch: pytest.MonkeyPatch) -> None:
    """Writes down each collective that this rank calls."""
    for name in ("all_reduce", "all_gather_object", "broadcast_object_list"):

        def called(first: Any, *more: Any, name: str = name, call: Any = getattr(dist, name), **options: Any) -> Any:
            collectives.append(f"{name} {first.numel()}" if isinstance(first, torch.Tensor) else name)
            return call(first, *more, **options)

        patch.setattr(dist, name, called)


def overflowing(patch: pytest.MonkeyPatch) -> None:
    """In the second rank every third batch does not fit."""
    asked, holds = [0], Envelope.holds

    def fits(self: Envelope, *counts: Any) -> bool:
        asked[0] += 1
        return holds(self, *counts) and not (RANK == 1 and asked[0] % 3 == 0)

    patch.setattr(Envelope, "holds", fits)


def failing(patch: pytest.MonkeyPatch) -> None:
    """In the second rank no step can be captured."""

    def fails(*_: Any) -> None:
        raise RuntimeError("no memory for it")

    if RANK == 1:
        patch.setattr(module, "captured", fails)
        warnings.filterwarnings("ignore", message=".*are not captured.*no memory for it")


def dying(patch: pytest.MonkeyPatch) -> None:
    """The second rank dies in its 15th step, where the first replays."""
    steps, step = [0], module.CapturedSteps.step

    def last(self: Any, batch: Any) -> Any:
        steps[0] += 1
        if RANK == 1 and steps[0] == 15:
            os._exit(0)
        return step(self, batch)

    patch.setattr(module.CapturedSteps, "step", last)


def trained(name: str, *ways: Any, **options: Any) -> None:
    collectives.clear()
    with pytest.MonkeyPatch.context() as patch:
        heard(patch)
        for way in ways:
            way(patch)
        found = train(dataset, **{**OPTIONS, "epochs": 6, "capture": True, **options})
    held = {"model": found.model.state_dict(), "history": found.history, "test": found.test, "collectives": list(collectives)}
    torch.save(held, FOLDER / f"{name}.{RANK}.pt")


class Drift(nn.Module):
    """Multiplies by buffers that follow the rows of seeds, which differ from rank to rank: of several dtypes, the first of odd
    length."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("met", torch.zeros(3, dtype=torch.bool))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = x * (1 + self.mean).to(x.dtype)
        self.mean.mul_(0.9).add_(x[:8].detach().mean())
        self.count.add_((x[:8].detach() * 2**40).long().sum())
        self.met.copy_(x[:3].detach().sum(1) > 0)
        return out


def by_hand(name: str, *ways: Any, captures: bool = True, between: Any = None) -> None:
    """A loop of the user's: captured, or with DistributedDataParallel."""
    torch.manual_seed(7)
    net: Any = Net(between).to(DEVICE)
    with joined(DEVICE, 60.0) as ranks, pytest.MonkeyPatch.context() as patch:
        for way in ways:
            way(patch)
        loader = Loader(
            NeighborSampler(dataset.graph, [4, 3], seed=1, device=DEVICE),
            dataset.splits["train"],
            32,
            features=dataset.features,
            labels=dataset.labels,
            shuffle=True,
            device=DEVICE,
            capture=captures,
            rank=ranks.rank,
            world_size=ranks.world_size,
        )
        model = net if captures else DistributedDataParallel(net)
        optimizer = sgd(net.parameters())
        steps = capture(model, loss_of, optimizer, loader, ranks=ranks) if captures else None
        for _ in range(6):
            for one in loader if steps is None else steps:
                if steps is None:
                    optimizer.zero_grad()
                    F.cross_entropy(model(one.x, one.edge_index)[: one.batch_size], one.y).backward()
                    optimizer.step()
        gradients = [one.grad.clone() for one in net.parameters()]
        replayed = 0 if steps is None else steps.replayed
    torch.save({"model": net.state_dict(), "gradients": gradients, "replayed": replayed}, FOLDER / f"{name}.{RANK}.pt")


def gradients(mean: bool) -> None:
    """Parameters of two dtypes: only the second rank has a gradient of the second, nobody of the third; the last learns not."""
    held = [nn.Parameter(torch.zeros(*shape)) for shape in ((2,), (1, 1), (3,), (2,))]
    held[1].data = held[1].data.double()
    held[3].requires_grad_(False)
    held[0].grad = torch.tensor([[1.0, 1.0], [0.0, 2.0]][RANK])
    held[1].grad = torch.tensor([[2.0]], dtype=torch.float64) if RANK else None
    all_reduce = GradientAllReduce(torch.optim.SGD(held), mean)
    all_reduce.pack(), all_reduce.reduce(), all_reduce.unpack()
    torch.save([one.grad for one in held], FOLDER / f"gradients {mean}.{RANK}.pt")


torch.set_num_threads(1)
dist.init_process_group("gloo")
dataset = datasets.generate(SHAPE, seed=1, device="cpu")
stands_in = pytest.MonkeyPatch()
if DEVICE.type == "cpu":
    stand_in(stands_in)
    stand_in_for_batches(stands_in)
gradients(True)
gradients(False)
by_hand("DDP", captures=False)
by_hand("captured by hand", overflowing)
for between in (Drift, lambda: nn.BatchNorm1d(32)):
    kind = type(between()).__name__
    by_hand(f"{kind}, DDP", captures=False, between=between())
    by_hand(f"{kind}, by hand", overflowing, between=between())
if DEVICE.type == "cpu":
    stand_in_for_adam(stands_in)
trained("eager", capture=False)
trained("overflowing", overflowing)
trained("failing", failing)
trained("whole", checkpoint=FOLDER / "whole.c")
trained("part", epochs=4, checkpoint=FOLDER / "c.pt")
trained("resumed", checkpoint=FOLDER / "c.pt", resume=True)
try:
    trained("lost", dying)
except RankLost as error:
    print(f"lost: {error}", flush=True)
