"""Features that several processes hold together: every row comes as from a whole table, and nobody waits for ever."""

from __future__ import annotations

import json
import zipfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hinterland import datasets
from hinterland.datasets.source import ArrayRows, TensorRows
from hinterland.graph.formats.arrays import Archive
from hinterland.runtime import devices
from hinterland.runtime.errors import FormatError
from hinterland.training import Shards
from hinterland.training.shared import PartOfRows

from ..ranks import run_ranks
from .test_train import same

# 161 vertices validate and 193 are tested: in batches of 16, the first of two ranks has a batch more than the second.
SHAPE = datasets.Shape({"node": 600}, {"node": 64}, {("node", "to", "node"): 6000}, (240, 161, 193), 4, undirected=True)
# Few journals, so that some batches have none: ranks gather from every table in every batch all the same.
TYPES = datasets.Shape(
    {"paper": 300, "author": 200, "journal": 5},
    {"paper": 16, "journal": 8},
    {("paper", "cites", "paper"): 900, ("author", "writes", "paper"): 900, ("paper", "published", "journal"): 20},
    (96, 81, 113),
    4,
    target="paper",
)


@given(st.integers(0, 400), st.integers(1, 5), st.lists(st.integers(1, 90), min_size=1, max_size=5))
def test_the_part_of_a_file(rows, nodes, steps):
    """Read piece by piece, of whatever lengths."""
    table = torch.arange(rows * 3.0).view(rows, 3)
    shards = Shards(rows, nodes)
    owner, _ = shards.find(torch.arange(rows))
    for node in range(nodes):
        part = PartOfRows(TensorRows("table", table), shards, node)
        found = torch.empty(part.shape)
        done, turn = 0, 0
        while done < len(found):
            step = steps[turn % len(steps)]
            part.read(found[done : done + step])
            done, turn = done + step, turn + 1
        assert torch.equal(found, table[owner == node])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_in_the_part_of_another_node(tmp_path, save):
    """Each node reads an archive's member to its end, where its checksum is known."""
    path = tmp_path / "x.npz"
    table = np.random.default_rng(1).random((6000, 3), np.float32)
    save(path, rows=table)
    with zipfile.ZipFile(path) as archive:
        end = archive.start_dir
    for damage in (False, True):
        if damage:
            content = bytearray(path.read_bytes())
            content[end - 40] ^= 1
            path.write_bytes(content)
        for node in range(2):
            with Archive(str(path)) as archive:
                part = PartOfRows(ArrayRows(archive.open("rows")), Shards(6000, 2), node)
                found = torch.empty(part.shape)
                with pytest.raises(FormatError) if damage else nullcontext():
                    part.read(found)
                    part.read(found[:0])


class Job:
    """A run of shared_ranks.py: ``nodes`` times ``local`` processes, as torchrun would tell them who they are."""

    def __init__(self, nodes, local, folder, device="cpu"):
        self.nodes, self.local, self.folder = nodes, local, folder
        datasets.save(datasets.generate(SHAPE, seed=1, device="cpu"), folder / "set")
        datasets.save(datasets.generate(TYPES, seed=1, symmetrize=True, device="cpu"), folder / "types")
        program = Path(__file__).with_name("shared_ranks.py")
        self.said = run_ranks(nodes * local, program, folder, device, own=self.environment)

    def environment(self, rank):
        """Machines that are only told apart have GPUs of their own."""
        gpu = {"CUDA_VISIBLE_DEVICES": str(rank)} if self.local == 1 and torch.cuda.device_count() > rank else {}
        return {"LOCAL_WORLD_SIZE": str(self.local), "LOCAL_RANK": str(rank % self.local), **gpu}

    def check(self):
        """All that one run has to show."""
        size = self.nodes * self.local
        for rank, text in enumerate(self.said):
            lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            if self.nodes > 1:
                assert lines["gathers"] == "as from the whole table"
                asker = self.local + rank % self.local  # on node 1, in the same group
                table = "is outside a table of 1000 rows; row numbers go from -1000 to 999"
                assert f"outside: rank {asker}: index 1000 at position 1 {table}\n" in text
                assert f"outside: rank {asker}: index -1001 at position 0 {table}\n" in text
                assert lines["keeps"] == "as from the whole table"
                assert f"outside tiers: rank {asker}: index 1000 at position 1 {table}\n" in text
                assert "refused tiers: not a size in bytes: 'lots'" in text
                last = f"rank {size - 1}"
                assert f"refused dtype: {last} has dtype=torch.int64, but rank 0 has torch.int32; start" in text
                assert f"refused width: {last} has shape of a row=(3,), but rank 0 has (2,); start" in text
                assert f"refused rows: {last} has rows=11, but rank 0 has 10; start" in text
                assert f"refused counts: {last} has LOCAL_WORLD_SIZE=1, but rank 0 has 2; start" in text
                order = f"{last} of {size} has LOCAL_RANK=9 and LOCAL_WORLD_SIZE={self.local}; ranks are numbered node by node"
                assert f"refused order: {order}, as torchrun does" in text
                assert f"refused part: {last}: the part of node 1 has 4 rows, but of 10 rows over 2 nodes it holds 5" in text
            kind = "ShardedTensor" if self.nodes > 1 else "UnifiedTensor"
            place = "pinned" if self.local > 1 else "managed" if devices.cuda_available() else "pageable"
            assert lines["shares"] == f"{kind}, {Shards(600, self.nodes).count(rank // self.local)} rows, {place}"
            assert lines["unreadable"] == "the disk of the last machine is broken"
            assert len([line for line in text.splitlines() if line.startswith("{")]) == (rank == 0)
            if rank < size - 1:
                assert lines["lost"].startswith("RankLost: another rank died, or gave no answer for 60 s")

    def printed(self):
        """The result of the command."""
        return json.loads(next(line for line in self.said[0].splitlines() if line.startswith("{")))

    def trained(self, name):
        return [torch.load(self.folder / f"{name}.{rank}.pt", map_location="cpu") for rank in range(self.nodes * self.local)]


# Two machines with two processes each go over what two with one do.
@pytest.mark.parametrize("nodes, local", [pytest.param(2, 1, marks=pytest.mark.nightly), (1, 2), (2, 2)])
def test_ranks_hold_a_table_together(tmp_path, nodes, local):
    """So many machines with so many processes each, all on this one: rows, refusals, training and loss."""
    job = Job(nodes, local, tmp_path)
    job.check()
    for whole, together in zip(job.trained("types_whole"), job.trained("types_together"), strict=True):
        for epoch in (*whole["history"], *together["history"]):
            assert sum(epoch.pop("served")["rows"].values()) == pytest.approx(1)
        assert same(whole, together)
    for name in ("together", "auto", "features", "degree"):
        for whole, together in zip(job.trained("whole"), job.trained(name), strict=True):
            whole_reads, reads = (epochs["history"][-1].pop("served")["rows"] for epochs in (whole, together))
            assert whole["history"][0].pop("served") and together["history"][0].pop("served")
            assert sum(whole_reads.values()) == pytest.approx(sum(reads.values())) == pytest.approx(1)
            assert ("remote" in reads) == (nodes > 1) and (reads["local"] > 0) == (name != "together")
            policy, rows, predicted = together.pop("plan", (name, 0, 0))
            assert (
                policy == name and (rows > 0) == (name != "together") and reads["local"] == pytest.approx(predicted, abs=0.15)
            )
            assert same(whole, together)
    found, history = job.printed(), job.trained("whole")[0]["history"]
    assert found["ranks"] == nodes * local and found["dataset"]["features"] == [600, 64]
    assert found["cache"]["policy"] == "auto" and found["epochs"][-1]["served"]["rows"]["local"] > 0
    losses = [[(epoch["loss"], epoch["valid_loss"]) for epoch in epochs] for epochs in (found["epochs"], history)]
    assert losses[0] == losses[1]


@pytest.mark.gpu
@pytest.mark.parametrize("nodes, local", [(1, 2), (2, 1)])
def test_two_gpus_hold_a_table_together(tmp_path, nodes, local):
    """NCCL: both GPUs read one pinned table, or each has half of it. Sums on GPUs are in any order."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    job = Job(nodes, local, tmp_path, "cuda")
    assert all("trained" in text for text in job.said), job.said
    for kind in ("", "types_"):
        names = (f"{kind}whole", f"{kind}together")
        whole, together = ([epoch["loss"] for epoch in job.trained(name)[0]["history"]] for name in names)
        assert whole == pytest.approx(together, rel=1e-3)
