"""Rows where the processes of one machine read each other's: shared pages on the host, blocks opened by CUDA IPC on GPUs."""

from __future__ import annotations

import os
import pickle
import weakref
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..memory import pickle_shared
from ..memory.peers import ForeignBlock, GpuBlock, unlinked
from ..memory.ranks import Ranks
from ..runtime import devices
from ..runtime.errors import DeviceError, HinterlandError
from ..table import UnifiedTensor

_GRAIN = 1 << 16  # bytes: blocks are multiples of this, so that few calls find one a little too small


class ArenaBlock:
    """Memory of every rank, equally much of each, as this rank addresses it.

    Attributes:
        nbytes: of each rank's.
        addresses: of each rank's, for this one.
        table: the same for kernels: int64 ``[ranks]`` on this rank's device.
        held: the rows that :meth:`hold` has copied there.
        read: how many barriers all had passed when this rank last read it.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.nbytes, self.read = 0, -1
        self.addresses = [0] * ranks.world_size
        self.table = torch.zeros(ranks.world_size, dtype=torch.int64, device=ranks.device)
        self.held = torch.empty(0)
        self._ranks = ranks
        self._mine: Any = None
        self._theirs: list[Any] = []

    def grow(self, nbytes: int) -> None:
        """At least so many bytes of every rank, whose content is undefined. All ranks do it together.

        Raises:
            HinterlandError: in all of them alike, when one has no room or cannot open another's; then there is no memory.
        """
        nbytes = -(-nbytes // _GRAIN) * _GRAIN
        self.nbytes = 0
        self._let_go()
        self.held = torch.empty(0)
        self._ranks.raise_together(None)  # all have let go of this rank's, which it may free now
        self._mine = None
        self._mine = self._ranks.agreed(lambda: self._made(nbytes))
        packed = self._ranks.agreed(lambda: pickle_shared(self._mine))
        from_all = self._ranks.gathered(packed)
        self.addresses = self._ranks.agreed(lambda: [self._opened(rank, one) for rank, one in enumerate(from_all)])
        self.table.copy_(torch.tensor(self.addresses))
        self.nbytes = nbytes

    def acquire(self, x: Tensor) -> None:
        """Copies ``x`` to the beginning of this rank's memory, rows one after another."""
        held = self._mine.part(0, self.nbytes) if isinstance(self._mine, GpuBlock) else self._mine.cpu()
        self.held = held[: x.numel() * x.itemsize].view(x.dtype).view(x.shape)
        self.held.copy_(x)

    def _made(self, nbytes: int) -> UnifiedTensor | GpuBlock:
        device = self._ranks.device
        return GpuBlock(nbytes, device) if device.type == "cuda" else UnifiedTensor.empty(nbytes, torch.uint8, "pinned")

    def _opened(self, rank: int, packed: bytes) -> int:
        """Where a rank's memory lies for this one."""
        device = self._ranks.device
        one = self._mine if rank == self._ranks.rank else pickle.loads(packed)
        if one is not self._mine:
            self._theirs.append(one)
        if not isinstance(one, GpuBlock | ForeignBlock):
            return one.cpu().data_ptr()
        apart = unlinked([device, one.device])
        if apart is not None:
            raise DeviceError(f"{apart[0]} cannot read the memory of {apart[1]}: no link joins them")
        return int(one.address(device))

    def _let_go(self) -> None:
        """Of the others' memory, once this rank's GPU has read it: before they may free it."""
        for one in self._theirs:
            if isinstance(one, ForeignBlock):
                one.close()
        self._theirs.clear()


class Arena:
    """Two blocks that take turns, kept for as long as the process group is there.

    No rank may overwrite rows that another still reads. With one block there would have to be two barriers for a call: one
    between the copy and the reads of others, and one between these and the next copy. With two, the next copy goes into the
    other block, and by the time that the first one's turn comes again, all have passed the barrier between, which they reached
    after they had read it. Only where two arrays are read at once (attention's rows and numbers) did they read after that
    barrier; then there is one more.

    They are not a graph's: one that goes in this process may be read yet by others, and its memory must stay.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._blocks = (ArenaBlock(ranks), ArenaBlock(ranks))
        self._turns = self._barriers = 0
        self._token = torch.zeros(1, dtype=torch.int32, device=ranks.device)
        self._has_read: torch.cuda.Event | None = None
        self.refusal: HinterlandError | None = None  # why there is none
        try:
            ranks.check_same({"machine": _machine()})
            for block in self._blocks:
                block.grow(1)
        except HinterlandError as error:
            self.refusal = error

    def place(self, x: Tensor, most: int) -> ArenaBlock:
        """Copies rows to where all ranks read them, until :meth:`was_read`. All do it together, with one type and width.

        Args:
            x: ``[n, width]``, contiguous.
            most: the largest n of all ranks.
        """
        block = self._blocks[self._turns % 2]
        self._turns += 1
        nbytes = most * x.shape[1] * x.element_size()
        if nbytes > block.nbytes:
            block.grow(nbytes)
        elif block.read == self._barriers:
            self._barrier()
        block.acquire(x)
        self._barrier()
        block.read = self._barriers
        return block

    def was_read(self, block: ArenaBlock) -> None:
        """After the reads of a block were queued. Not where a call has raised: all ranks count alike what stands between."""
        block.read = self._barriers
        if self._token.is_cuda:
            self._has_read = devices.torch_stream(self._ranks.device).record_event()

    def _barrier(self) -> None:
        """What a rank does after it comes after what all did before it. GPUs wait for each other, and no CPU for its GPU."""
        if self._has_read is not None:  # on another stream, if the user has changed it
            devices.torch_stream(self._ranks.device).wait_event(self._has_read)
        dist.all_reduce(self._token)
        self._barriers += 1


_arenas: weakref.WeakKeyDictionary[Any, dict[torch.device, Arena]] = weakref.WeakKeyDictionary()


def arena(ranks: Ranks) -> Arena:
    """That of the default process group and this rank's device. All ranks ask for it together."""
    known = _arenas.setdefault(dist.group.WORLD, {})
    if ranks.device not in known:
        known[ranks.device] = Arena(ranks)
    return known[ranks.device]


def _machine() -> str:
    """The same for processes that may find each other's memory: shared pages are found by a process's number."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{os.uname().nodename} {boot.read_text().strip() if boot.exists() else ''} {os.readlink('/proc/self/ns/pid')}"
