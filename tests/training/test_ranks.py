"""Ranks that were given different data or options: each is told in a sentence, and none waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from hinterland import datasets
from hinterland.memory.ranks import Ranks
from hinterland.runtime.errors import OutOfMemory

from ..ranks import run_ranks

SAID = {
    "train labels": "ConfigError: rank {odd} has checksum of labels=",
    "train features": "ConfigError: rank {odd} has checksum of features=",
    "train type": "ConfigError: rank {odd} has type of features=torch.float64, but rank 0 has torch.float32; start",
    "train columns": "ConfigError: rank {odd} has features=(300, 15), but rank 0 has (300, 16); start",
    "train split": "ConfigError: rank {odd} has checksum of the test split=",
    "train neighbours": "ConfigError: rank {odd} has checksum of neighbours=",
    "train lr": "ConfigError: rank {odd} has lr=0.1, but rank 0 has 0.2; start every rank with the same dataset and arguments",
    "train fanouts": "ConfigError: rank {odd} has fanouts=(3, 3), but rank 0 has (3, 2); start",
    "train wrong": "ConfigError: hidden=0 ",
    "train resume": "ConfigError: rank {odd} has resume=True, but rank 0 has False; start",
    "train capture": "ConfigError: rank {odd} has capture=True, but rank 0 has False; start",
    "train captures nothing": "ConfigError: capture=True: CUDA graphs are captured on a GPU, and batches are made on the CPU",
    "train cache": "ConfigError: a cache of 100 B is smaller than one batch, whose ",
    "train plan": "OutOfMemory: no room for a plan",
    "train plan later": "OutOfMemory: no room for a plan",
    "train plan of one": "ConfigError: rank {odd} has a cache of what training leaves=True, but rank 0 has False; start",
    "train goes on": "nothing",
    "full labels": "ConfigError: rank {odd} has checksum of labels=",
    "full strategy": "ConfigError: rank {odd} has strategy='halo', but rank 0 has 'auto'; start",
    "types labels": "ConfigError: rank {odd} has checksum of labels=",
    "types features": "ConfigError: rank {odd} has checksum of features of author=",
    "types neighbours": "ConfigError: rank {odd} has checksum of neighbours of author writes paper=",
    "types degrees": "ConfigError: rank {odd} has checksum of degrees of author writes paper=",
    "types relations": "ConfigError: rank {odd} has edges=",
    "types lr": "ConfigError: rank {odd} has lr=0.1, but rank 0 has 0.2; start",
    "types whole": "GraphError: the dataset has several graphs, ",
    "types same": "nothing",
    "aggregate width": "ConfigError: rank {odd} has width of rows=3, but rank 0 has 2; start",
    "aggregate reduce": "ConfigError: rank {odd} has reduce='sum, scale', but rank 0 has 'sum'; start",
    "gather type": "ConfigError: rank {odd} has type of rows=torch.float64, but rank 0 has torch.float32; start",
    "sharded type": "ConfigError: rank {odd} has dtype=torch.float64, but rank 0 has torch.float32; start",
    "sharded plan": "OutOfMemory: no room for a plan",
    "agreed": "OutOfMemory: no room",
    "loader seeds": "ConfigError: rank {odd} has batches of an epoch=4, but rank 0 has 6; start",
    "loader": "nothing",
    "open placement": "ConfigError: rank {odd} has placement='storage', but rank 0 has 'host'; start",
    "open missing": "StorageError: ",
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_ranks_that_differ_are_told(count, tmp_path):
    shape = datasets.Shape({"node": 200}, {"node": 8}, {("node", "to", "node"): 900}, (80, 40, 80), 3, undirected=True)
    datasets.save(datasets.generate(shape, seed=1, device="cpu"), tmp_path / "data")
    run_ranks(count, Path(__file__).parent / "differing_ranks.py", tmp_path, tmp_path / "data")
    for name, said in SAID.items():
        heard = [(tmp_path / f"{name}.{rank}").read_text() for rank in range(count)]
        assert all(text.startswith(said.format(odd=count - 1)) for text in heard), (name, heard)
        assert len(set(heard)) == 1 and "\n" not in heard[0], name


def test_a_rank_without_an_answer_raises_its_own_error(monkeypatch):
    def refuses():
        raise OutOfMemory("no room")

    def closed(*_):
        raise RuntimeError("gloo: connection closed by peer")

    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    monkeypatch.setattr(dist, "all_gather_object", closed)
    ranks = Ranks(1, 2, torch.device("cpu"), 2, 1.0)
    with pytest.raises(OutOfMemory, match="no room"):
        ranks.agreed(refuses)
    with pytest.raises(RuntimeError, match="closed by peer"):
        ranks.agreed(list)
