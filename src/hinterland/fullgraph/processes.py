"""The parts of a partitioned graph in the processes of a torch.distributed group, one in each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..memory.ranks import Ranks, naming_lost_ranks
from ..runtime import devices
from .world import Lists, World, take_rows


class Processes(World):
    """Part r in rank r of the default process group. No group is made, so it does not matter in which order others are."""

    def __init__(self, device: torch.device | str | int | None = None) -> None:
        rank = dist.get_rank()
        self.parts, self.mine = dist.get_world_size(), (rank,)
        if device is None and devices.cuda_available() and dist.get_backend() == "nccl":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device())))
        on = devices.as_device("cpu" if device is None else device)
        self.devices = (on,)
        self.reads_others = False
        local = int(os.environ.get("LOCAL_WORLD_SIZE", self.parts))
        self.ranks = Ranks(rank, self.parts, on, local, 0.0)

    def check_same(self, mine: Mapping[str, Any]) -> None:
        with naming_lost_ranks(self.timeout):
            self.ranks.check_same(mine)

    @property
    def timeout(self) -> float:
        """Seconds after which the group gives up on a rank."""
        return dist.distributed_c10d._get_default_timeout(dist.get_backend()).total_seconds()

    def gathered(self, mine: Sequence[Any]) -> list[Any]:
        found: list[Any] = [None] * self.parts
        with naming_lost_ranks(self.timeout):
            dist.all_gather_object(found, mine[0])
        return found

    def traded(self, wanted: Lists) -> list[list[Tensor]]:
        asked = [len(rows) for rows in wanted[0]]
        served = [counts[self.mine[0]] for counts in self.gathered([asked])]
        with naming_lost_ranks(self.timeout):
            flat = torch.cat(list(wanted[0])) if sum(asked) else torch.empty(0, dtype=torch.int64, device=self.devices[0])
            got = flat.new_empty(sum(served))
            dist.all_to_all_single(got, flat, served, asked)
        return [list(got.split(served))]

    def fetch(self, x: Sequence[Tensor], wanted: Lists, served: Lists) -> list[Tensor]:
        counts, asked = [len(rows) for rows in served[0]], [len(rows) for rows in wanted[0]]
        packed = x[0].new_empty(sum(counts), x[0].shape[1])
        if len(packed):
            take_rows(x[0], torch.cat(list(served[0])), packed)
        halo = packed.new_empty(sum(asked), x[0].shape[1])
        with naming_lost_ranks(self.timeout):
            dist.all_to_all_single(_bytes(halo), _bytes(packed), asked, counts)
        return [halo]

    def whole(self, x: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        found = x[0].new_empty(sum(sizes), x[0].shape[1])
        with naming_lost_ranks(self.timeout):
            if len(set(sizes)) == 1:
                dist.all_gather_into_tensor(_bytes(found), _bytes(x[0].contiguous()))
            else:
                dist.all_gather(list(_bytes(found).split(list(sizes))), _bytes(x[0].contiguous()))
        return [found]

    @contextmanager
    def reachable(self, x: Sequence[Tensor]) -> Iterator[list[Tensor] | None]:
        yield None


def _bytes(x: Tensor) -> Tensor:
    """Rows as bytes, ``[rows, bytes]``: every backend takes those."""
    return x.view(torch.uint8) if x.numel() else x.new_empty(x.shape[0], 0, dtype=torch.uint8)
