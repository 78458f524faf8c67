"""What each of two processes does for test_full.py: trains on its part, resumes, has another graph. Results go to a folder."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import torch

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import ConfigError
from hinterland.training import train_full

SHAPE = datasets.Shape({"node": 300}, {"node": 16}, {("node", "to", "node"): 2500}, (120, 60, 120), 4)
OPTIONS = {"hidden": 16, "precision": "float64", "device": "cpu", "seed": 3, "on_epoch": None, "timeout": 20.0}
FOLDER, RANK = Path(sys.argv[1]), int(os.environ["RANK"])
os.environ["HINTERLAND_CACHE_DIR"] = str(FOLDER / f"cache of {RANK}")


def trained(name: str, model: str, dataset: datasets.Dataset, **options: object) -> None:
    found = train_full(dataset, model, **{**OPTIONS, **options})
    held = {"model": found.model.state_dict(), "history": found.history, "test": found.test, "best": found.best}
    held["tuned"] = [(one.what, tuple(one.shape)) for one in found.tuned]
    torch.save(held, FOLDER / f"{name}.{RANK}.pt")


torch.set_num_threads(1)
dataset = datasets.generate(SHAPE, seed=1, device="cpu")
torch.distributed.init_process_group("gloo")
for model in ("gcn", "gat"):
    trained(model, model, dataset, epochs=5, dropout=0.0, weight_decay=0.01)
same_sums = {"dropout": 0.3, "strategy": "halo"}
trained("whole", "sage", dataset, epochs=4, **same_sums)
trained("part", "sage", dataset, epochs=2, checkpoint=FOLDER / "c.pt", **same_sums)
trained("resumed", "sage", dataset, epochs=4, checkpoint=FOLDER / "c.pt", resume=True, **same_sums)
places = torch.randint(0, 300, (300 * 300,), generator=torch.Generator().manual_seed(4))
longer = dataclasses.replace(dataset, graph=hl.Graph(torch.arange(301) * 300, places))
for name in ("plain", "tuned"):
    trained(name, "gcn", longer, epochs=2, dropout=0.0, strategy="halo", tune=name == "tuned")
for options in ({"seed": 4 + RANK}, {"parts": 3}, {"device": None, "devices": ["cpu", "cpu"]}):
    try:
        train_full(dataset, "gcn", **{**OPTIONS, "epochs": 1, **options})
    except ConfigError as error:
        print(f"refused: {error}", flush=True)
torch.distributed.destroy_process_group()
