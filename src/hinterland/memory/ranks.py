"""The processes of a torchrun job: who they are, what they agree on, and what happens when one is lost."""

from __future__ import annotations

import datetime
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..runtime import devices
from ..runtime.errors import ConfigError, HinterlandError, OutOfMemory, RankLost
from .sharing import pickle_shared

T = TypeVar("T")

_LOADING = datetime.timedelta(days=1)  # one rank may read a table while the others wait; should it die, they hear of it at once


@dataclass(frozen=True)
class Ranks:
    """This process, ``rank`` of ``world_size`` that work together, on ``device``.

    The processes of one machine (a node) follow one another: torchrun numbers them so. Each has ``local_world_size`` of them.
    ``timeout``: seconds after which a rank that gives no answer is lost.
    """

    rank: int
    world_size: int
    device: torch.device
    local_world_size: int
    timeout: float

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def local_rank(self) -> int:
        """This process among those of its node."""
        return self.rank % self.local_world_size

    @property
    def node(self) -> int:
        """The number of this process's machine."""
        return self.rank // self.local_world_size

    @property
    def nodes(self) -> int:
        """How many machines there are."""
        return self.world_size // self.local_world_size

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each value's sum over all ranks."""
        if self.world_size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def gathered(self, mine: T, group: dist.ProcessGroup | None = None) -> list[T]:
        """What each rank has, in all of them; ``group``: who they are, by default all.

        An error of ours is raised in all, so that no rank goes on where another has failed. One that only lost another rank
        counts where there is no other. Where no answer comes, a rank raises its own.
        """
        found: list[Any] = [mine]
        if self.world_size > 1:
            found = [None] * dist.get_world_size(group)
            try:
                dist.all_gather_object(found, mine, group)
            except RuntimeError:
                if isinstance(mine, HinterlandError):
                    raise mine from None
                raise
        errors = [one for one in found if isinstance(one, HinterlandError)]
        for error in sorted(errors, key=lambda one: isinstance(one, RankLost)):
            error.in_all_ranks = len(found) == self.world_size
            raise error
        return found

    def from_first(self, make: Callable[[], T]) -> T:
        """What ``make()`` gives in rank 0, in all of them; an error of ours too."""
        if self.world_size == 1:
            return make()
        made: list[Any] = [None]
        if self.is_first:
            try:
                made = [make()]
            except HinterlandError as error:
                made = [error]
        dist.broadcast_object_list(made, 0)
        if isinstance(made[0], HinterlandError):
            raise made[0]
        return made[0]

    def from_node(self, make: Callable[[], T]) -> T:
        """What ``make()`` gives in the first rank of each node, in all ranks of that node.

        It is pickled: a pinned table is then the same memory, held once. An error of ours in one rank is raised in all.
        """
        if self.world_size == 1:
            return make()
        self.check_nodes()
        group = dist.new_group(backend="gloo", timeout=_LOADING)
        try:
            made: Any = None
            error: HinterlandError | None = None
            if self.local_rank == 0:
                try:
                    made = make()
                except HinterlandError as raised:
                    error = raised
            self.raise_together(error, group)
            shared = self.local_rank == 0 and self.local_world_size > 1
            packed = self.gathered(pickle_shared(made) if shared else b"", group)
            if self.local_rank:
                try:
                    made = pickle.loads(packed[self.rank - self.local_rank])
                except HinterlandError as raised:
                    error = raised
            self.raise_together(error, group)  # until all have it, the first rank holds it
            found: T = made
            return found
        finally:
            dist.destroy_process_group(group)

    def check_nodes(self) -> None:
        """Refuses nodes that do not have equally many ranks, one after another.

        Raises:
            ConfigError: in every rank alike.
        """
        self.check_same({"LOCAL_WORLD_SIZE": self.local_world_size})
        local = os.environ.get("LOCAL_RANK", str(self.local_rank))
        error = None
        if self.world_size % self.local_world_size or local != str(self.local_rank):
            error = ConfigError(
                f"rank {self.rank} of {self.world_size} has LOCAL_RANK={local} and LOCAL_WORLD_SIZE={self.local_world_size}; "
                "ranks are numbered node by node, as torchrun does, and every node has as many"
            )
        self.raise_together(error)

    def agreed(self, make: Callable[[], T]) -> T:
        """What ``make()`` gives in each rank. An error of ours in one, or too little GPU memory, is raised in all."""
        made: Any = None
        error: HinterlandError | None = None
        try:
            made = make()
        except HinterlandError as raised:
            if raised.in_all_ranks:  # who does not make it here hears of it inside of make()
                raise
            error = raised
        except torch.OutOfMemoryError as raised:
            error = OutOfMemory(f"rank {self.rank}: {str(raised).splitlines()[0]} Use more ranks, or a smaller type")
        self.raise_together(error)
        found: T = made
        return found

    def raise_together(self, error: HinterlandError | None, group: dist.ProcessGroup | None = None) -> None:
        """Raises the error of the first rank that has one, in all of them; ``group``: who they are, by default all."""
        self.gathered(error, group)

    def check_same(self, mine: Mapping[str, Any], group: dist.ProcessGroup | None = None) -> None:
        """Refuses ranks that do not all have the same values; ``group``: who they are, by default all.

        Raises:
            ConfigError: in every rank alike; names the first value that differs, and the rank.
        """
        if self.world_size == 1:
            return
        members = list(range(self.world_size)) if group is None else dist.get_process_group_ranks(group)
        all_of_them = self.gathered(dict(mine), group)
        first = all_of_them[0]
        for rank, other in zip(members, all_of_them, strict=True):
            for key in {**first, **other}:
                if other.get(key) != first.get(key):
                    raise ConfigError(
                        f"rank {rank} has {key}={other.get(key)!r}, but rank {members[0]} has {first.get(key)!r}; "
                        "start every rank with the same dataset and arguments"
                    )


@contextmanager
def joined(device: torch.device | str | int | None = None, timeout: float = 300.0) -> Iterator[Ranks]:
    """This process among those that torchrun started, or that torch.distributed already connects; alone without either.

    Several ranks use gloo between CPUs and NCCL between GPUs; each takes the GPU that ``LOCAL_RANK`` numbers. A rank that does
    not answer for ``timeout`` seconds ends the others.

    Raises:
        RankLost: another rank died or is stuck.
    """
    ours = not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1
    try:
        where = _device(device, ours or dist.is_initialized())
        with naming_lost_ranks(timeout):
            if ours:
                backend = "nccl" if where.type == "cuda" else "gloo"
                dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout))
            rank, count = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
            local = int(os.environ.get("LOCAL_WORLD_SIZE", count)) if count > 1 else 1
            with devices.on(where):
                yield Ranks(rank, count, where, local, timeout)
    finally:
        if ours and dist.is_initialized():
            dist.destroy_process_group()


@contextmanager
def naming_lost_ranks(timeout: float) -> Iterator[None]:
    """Turns what torch.distributed raises when another rank is silent into RankLost."""
    try:
        yield
    except RuntimeError as error:
        if not _is_of_the_network(error):
            raise
        what = str(error).splitlines()[0]
        raise RankLost(f"another rank died, or gave no answer for {timeout:g} s; its own message says why ({what})") from error


def _device(device: torch.device | str | int | None, several: bool) -> torch.device:
    where = devices.as_device(device)
    if several and where.type == "cuda":
        where = devices.as_device(torch.device("cuda", int(os.environ.get("LOCAL_RANK", where.index))))
    return where


def _is_of_the_network(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()  # gloo has no exception of its own
