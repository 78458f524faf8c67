"""What the processes do that test_launch.py starts."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import hinterland as hl
from hinterland.runtime.errors import GraphError


def sums(rank: int, folder: Path, x: torch.Tensor) -> None:
    """Writes the whole sums, and who this was."""
    from hinterland.fullgraph import PartitionedGraph, aggregate  # here: what only fails or waits starts sooner without
    from tests.fullgraph.test_aggregate import hub

    p = PartitionedGraph.from_graph(hub())
    whole = p.gather(aggregate(p, p.scatter(x), strategy="direct"))
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST")
    torch.save(
        (whole.cpu(), p.parts[0].rank, str(p.world.devices[0]), [os.environ[name] for name in names]), folder / f"{rank}.pt"
    )
    assert rank == dist.get_rank() and (dist.get_world_size() == 1 or p.world.ranks.timeout == 30)


def fails(rank: int, how: str) -> None:
    """Rank 1 in its way, while the others wait for it: with an error of the network that is not the cause."""
    if rank != 1:
        dist.barrier()
    elif how == "ours":
        raise GraphError("a sentence")
    elif how == "theirs":
        raise ValueError("many words " * 20_000)  # more than a pipe holds
    elif how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        sys.exit(3)


def waits(rank: int, folder: Path) -> None:
    (folder / str(rank)).write_text(str(os.getpid()))
    time.sleep(100)


if __name__ == "__main__":
    hl.launch(waits, Path(sys.argv[1]), cpus=int(sys.argv[2]))
