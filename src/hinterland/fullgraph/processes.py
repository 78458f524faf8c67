"""The parts of a partitioned graph in the processes of a torch.distributed group, one in each.

All ranks call what is here together, as often and in the same order, in the backward pass as well. A rank that dies ends the
others with RankLost: gloo hears of a death at once, and gives up on who is stuck after the timeout that init_process_group was
given, half an hour unless one asks for less. NCCL ends a process after that timeout, ten minutes by default.
``hinterland.launch`` gives 30 s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..memory.ranks import Ranks, naming_lost_ranks
from ..runtime import devices
from ..runtime.errors import ConfigError, DeviceError, HinterlandError, RankLost
from .aggregate_launch import PartRows
from .arena import ArenaBlock, arena
from .take import fetch_rows, take
from .world import FEW, Halos, Lists, World

T = TypeVar("T")

# What was on its way when a rank was lost. gloo's thread holds it, too, and would end the process with SIGABRT if it were the
# last to let go while Python ends.
_lost: list[Any] = []

# torch 2.13 has renamed it.
_all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class Processes(World):
    """Part r in rank r of the default process group. No group is made, so it does not matter in which order others are."""

    def __init__(self, device: torch.device | str | int | None = None) -> None:
        rank = dist.get_rank()
        self.parts, self.mine = dist.get_world_size(), (rank,)
        self.devices: tuple[torch.device, ...] = (torch.device("cpu"),)
        error = None
        try:
            self.devices = (_device(device),)
        except HinterlandError as raised:
            error = raised
        local = int(os.environ.get("LOCAL_WORLD_SIZE", self.parts))
        self.ranks = Ranks(rank, self.parts, self.devices[0], local, _timeout())
        with self._talking():
            self.ranks.raise_together(error)
            self.ranks.check_same({"device": self.devices[0].type})
            self._arena = arena(self.ranks)
        self.reads_others = self._arena.refusal is None
        self._most: int | None = None
        self._beside: torch.cuda.Stream | None = None

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Around collectives: errors of the network become RankLost, and NCCL sends objects from this rank's own GPU."""
        with naming_lost_ranks(self.ranks.timeout), devices.on(self.devices[0]):
            yield

    def on(self, i: int) -> AbstractContextManager[Any]:
        return devices.on(self.devices[i])

    def check_same(self, mine: Mapping[str, Any]) -> None:
        with self._talking():
            self.ranks.check_same(mine)

    def agreed(self, make: Callable[[], T]) -> T:
        with self._talking():
            return self.ranks.agreed(make)

    def all(self, flag: bool) -> bool:
        found = torch.tensor([int(flag)], dtype=torch.int32, device=self.devices[0])
        with self._talking():
            dist.all_reduce(found, dist.ReduceOp.MIN)
        return bool(found)

    def gathered(self, mine: Sequence[Any]) -> list[Any]:
        with self._talking():
            return self.ranks.gathered(mine[0])

    def traded(self, wanted: Lists) -> list[list[Tensor]]:
        asked = [len(rows) for rows in wanted[0]]
        served = [counts[self.mine[0]] for counts in self.gathered([asked])]
        flat = torch.cat(list(wanted[0]))
        got = flat.new_empty(sum(served))
        with self._talking():
            dist.all_to_all_single(got, flat, served, asked)
        return [list(got.split(served))]

    def _brought(self, x: Sequence[Tensor], halos: Halos) -> list[Tensor]:
        with self._placed(x) as block:
            return [halos.brought(0, block.held, block.table)]

    def fetch_in_turns(self, x: Sequence[Tensor], halos: Halos, blocks: int | None = FEW) -> Iterator[list[Tensor]]:
        halo = x[0].new_empty(len(halos.places[0]), x[0].shape[1])
        if self.reads_others:
            yield from self._read(x, halos, halo, blocks)
            return
        arrived = self._sent(x, halos, halo)
        yield [halo]
        arrived()
        for _ in range(self.parts - 1):
            yield [halo]

    def _read(self, x: Sequence[Tensor], halos: Halos, halo: Tensor, blocks: int | None) -> Iterator[list[Tensor]]:
        """This rank reads rows where their owners have them."""
        with self._placed(x) as block:
            side = self._side()
            rows = PartRows(block.held, None, block.table, self.mine[0], halos.places[0].dtype == torch.int64)
            arrived = []
            for owner, some, wanted in halos.turns[0]:
                with nullcontext() if side is None else torch.cuda.stream(side):
                    fetch_rows(rows, wanted, halo[some], block.addresses[owner], halos.sizes[owner], blocks)
                arrived.append(None if side is None else side.record_event())
            try:
                yield [halo]
                for event in arrived:
                    if event is not None:
                        devices.torch_stream(self.devices[0]).wait_event(event)
                    yield [halo]
            finally:  # as in Together
                if side is not None:
                    devices.torch_stream(self.devices[0]).wait_stream(side)

    def _sent(self, x: Sequence[Tensor], halos: Halos, halo: Tensor) -> Callable[[], None]:
        """Owners pack the rows that are wanted of them, and send them beside what is queued until the function is called that
        this gives."""
        counts, asked = ([len(rows) for rows in of[0]] for of in (halos.served, halos.wanted))
        packed = x[0].new_empty(sum(counts), x[0].shape[1])
        take(PartRows(x[0]), torch.cat(list(halos.served[0])), packed)
        with self._talking():
            sent = dist.all_to_all_single(_bytes(halo), _bytes(packed), asked, counts, async_op=True)

        def arrived() -> None:
            try:
                with self._talking():
                    sent.wait()
            except RankLost:
                _lost.append((sent, halo, packed))
                raise

        return arrived

    def shared_bytes(self, nbytes: int) -> int:
        return 2 * nbytes if self.devices[0].type == "cuda" and self.reads_others else 0  # arena.py

    def whole(self, x: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        found = x[0].new_empty(sum(sizes), x[0].shape[1])
        if found.numel() == 0:
            return [found]
        mine, parts = _bytes(x[0].contiguous()), _bytes(found).split(list(sizes))
        with self._talking():
            if len(set(sizes)) == 1:
                _all_gather_single(_bytes(found), mine)
            elif mine.is_cuda:
                dist.all_gather(list(parts), mine)
            else:  # gloo gathers equal parts alone
                parts[self.mine[0]].copy_(mine)
                for rank, part in enumerate(parts):
                    if len(part):
                        dist.broadcast(part, rank)
        return [found]

    @contextmanager
    def reachable(self, x: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        if not self.reads_others:
            raise DeviceError(
                "the ranks cannot read each other's rows where they are, as strategy='direct' does; use strategy='halo' "
                f"({self._arena.refusal})"
            )
        with self._placed(x) as block:
            yield [block.table]

    @contextmanager
    def _placed(self, x: Sequence[Tensor]) -> Iterator[ArenaBlock]:
        """A with-block in which all ranks may read this one's rows, and this one theirs."""
        if self._most is None:
            self._most = max(self.gathered([len(x[0])]))
        with self._talking():
            block = self._arena.place(x[0], self._most)
        yield block
        self._arena.was_read(block)

    def _side(self) -> torch.cuda.Stream | None:
        """A second stream of a GPU, which has waited for the current one."""
        if self.devices[0].type != "cuda":
            return None
        if self._beside is None:
            self._beside = torch.cuda.Stream(self.devices[0])
        self._beside.wait_stream(devices.torch_stream(self.devices[0]))
        return self._beside


def _device(asked: torch.device | str | int | None) -> torch.device:
    """Where this rank's part lies.

    Raises:
        ConfigError: the process group does not connect such devices.
    """
    if asked is None:
        asked = "cpu"
        if devices.cuda_available() and _backend("cuda") == "nccl":
            local = int(os.environ.get("LOCAL_RANK", -1))
            here = 0 <= local < torch.cuda.device_count()  # not where each process sees a GPU of its own alone
            asked = torch.device("cuda", local if here else torch.cuda.current_device())
    on = devices.as_device(asked)
    by = _backend(on.type)
    if by is None or (by == "nccl") != (on.type == "cuda"):
        raise ConfigError(
            f"parts on {on} with a process group that has {by or 'nothing'} for such devices; init_process_group('nccl') "
            "connects GPUs, 'gloo' CPUs, and 'cpu:gloo,cuda:nccl' both"
        )
    return on


def _backend(kind: str) -> str | None:
    """What the default group has for devices of a type."""
    try:
        return str(_group()._get_backend(torch.device(kind)).name())
    except RuntimeError:
        return None


def _timeout() -> float:
    """Seconds after which the default group gives up on a rank."""
    group = _group()
    return float(group._get_backend(group._device_types[0]).options._timeout.total_seconds())


def _group() -> Any:
    return dist.group.WORLD


def _bytes(x: Tensor) -> Tensor:
    """Rows as bytes, ``[rows, bytes]``: every backend takes those."""
    return x.view(torch.uint8) if x.numel() else x.new_empty(len(x), x.shape[1] * x.element_size(), dtype=torch.uint8)
