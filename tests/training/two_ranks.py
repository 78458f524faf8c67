"""What each of two processes does for test_train.py: trains, resumes, has another graph, dies. Results go to a folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from hinterland import datasets
from hinterland.runtime.errors import ConfigError, RankLost
from hinterland.training import train
from tests.training.captured_steps import SHAPE

OPTIONS = {"hidden": 32, "batch_size": 32, "lr": 0.02, "device": "cpu", "seed": 3, "timeout": 20.0}
FOLDER, RANK, PORTS = Path(sys.argv[1]), int(os.environ["RANK"]), iter(os.environ["PORTS"].split(","))


def trained(name: str, dataset: datasets.Dataset, **options: object) -> None:
    found = train(dataset, **{**OPTIONS, **options})
    torch.save({"model": found.model.state_dict(), "history": found.history, "test": found.test}, FOLDER / f"{name}.{RANK}.pt")


torch.set_num_threads(1)
dataset = datasets.generate(SHAPE, seed=1, device="cpu")
trained("equal", dataset, fanouts=(-1, -1), dropout=0.0, epochs=3)

# From here on torch.distributed is ours to begin and end.
os.environ["MASTER_PORT"] = next(PORTS)
torch.distributed.init_process_group("gloo")
sampled = {"fanouts": (4, 3), "dropout": 0.3}
trained("whole", dataset, **sampled, epochs=2)
trained("kept", dataset, **sampled, epochs=2, cache="auto", gpu_budget="90KiB")
trained("part", dataset, **sampled, epochs=1, checkpoint=FOLDER / "c.pt")
trained("resumed", dataset, **sampled, epochs=2, checkpoint=FOLDER / "c.pt", resume=True)
try:
    train(dataset if RANK == 0 else datasets.generate(SHAPE, seed=2, device="cpu"), **OPTIONS, epochs=1)
except ConfigError as error:
    print(f"different: ConfigError: {error}", flush=True)
torch.distributed.destroy_process_group()

os.environ["MASTER_PORT"] = next(PORTS)
step = torch.optim.Adam.step


def dying_step(self, *arguments, **options):  # type: ignore[no-untyped-def]
    if RANK == 1:
        os._exit(0)
    return step(self, *arguments, **options)


torch.optim.Adam.step = dying_step  # type: ignore[method-assign]
try:
    train(dataset, **OPTIONS, epochs=2)
except RankLost as error:
    print(f"lost: RankLost: {error}", flush=True)
