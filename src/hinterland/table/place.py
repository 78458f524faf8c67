"""A file's table, and where its rows are to lie: in GPUs, host memory and the file, the hottest nearest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import torch

from ..memory.clock import SlotPlan, plan_slots
from ..runtime.arguments import one_of, repr_of
from ..runtime.devices import as_device
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.units import parse_bytes
from ..storage.layout import ByColumns
from . import tiered, tiered_storage
from .array import StorageArray
from .cached import CachedTensor
from .columns import ColumnFile
from .table import Table
from .tiered import Asked, Devices, listed_devices
from .tiers import TierPlan
from .unified import UnifiedTensor

Size = int | str | None
Hot = torch.Tensor | Literal["recent"] | None


@dataclass(frozen=True, repr=False, eq=False)
class OpenTable(Repr):
    """A table of which nothing has been read yet. ``hl.open_table(path)`` makes one.

    Attributes:
        array: the table where it lies, in its file. One in Fortran order is whole in host memory once it is placed.
    """

    array: StorageArray | ColumnFile

    def place(
        self,
        *,
        gpu: Size = None,
        peers: Size = None,
        host: Size = None,
        hot: Hot = None,
        devices: Devices | None = None,
    ) -> Table:
        """The table with its rows as near as there is room; ``explain()`` of what is returned says where they are.

        Args:
            gpu: bytes in *each* GPU for copies of the hottest rows, as in ``"4GiB"``.
            peers: bytes in *all GPUs together* for the next hottest, which are dealt out over them.
            host: bytes of host memory for rows behind these. What it has no room for stays in the file. None takes all rows.
            hot: scores ``[rows]``, higher for hotter; ``"recent"``: one GPU keeps what was asked for lately, of a table that is
                whole in host memory; None: the first rows.
            devices: the GPUs, as of ``UnifiedTensor.tiered``.

        Raises:
            ConfigError: sizes, scores or devices that cannot be used, or not together.
            OutOfMemory: a GPU, or the host, has less free.
            StorageError: the file cannot be read.
        """
        array, asked = self.array, self._asked(gpu, peers, host, hot, devices)
        if isinstance(asked, SlotPlan):
            return CachedTensor(UnifiedTensor.holding(array), asked, as_device(_only(devices)))
        if asked.plan.host is not None and isinstance(array, StorageArray):
            return tiered_storage.make(array, asked)
        table = UnifiedTensor.holding(array)
        return table if gpu is None and peers is None else tiered.make(table, asked)

    def plan(
        self,
        *,
        gpu: Size = None,
        peers: Size = None,
        host: Size = None,
        hot: Hot = None,
        devices: Devices | None = None,
    ) -> TierPlan | SlotPlan:
        """What :meth:`place` would do, which explains itself; nothing is allocated, and no row is read.

        Raises:
            ConfigError: as ``place``, of which it takes all arguments.
        """
        asked = self._asked(gpu, peers, host, hot, devices)
        return asked if isinstance(asked, SlotPlan) else asked.plan

    def _asked(self, gpu: Size, peers: Size, host: Size, hot: Hot, devices: Devices | None) -> Asked | SlotPlan:
        """What the arguments ask for."""
        array, whole = self.array, host is None or parse_bytes(host) >= self.array.nbytes
        if not whole and isinstance(array, ColumnFile):
            raise ConfigError(f"host={repr_of(host)} leaves rows in the file, and {ByColumns(array.path, array.stored)}")
        if isinstance(hot, str):
            one_of("hot", hot, ("recent",))
            if gpu is None or peers is not None or not whole:
                raise ConfigError(
                    "rows that were asked for lately are kept in one GPU, of a table that is whole in host memory: say gpu=, "
                    "leave out peers= and host=, or give scores instead of hot='recent'"
                )
            _only(devices)
            return plan_slots(len(array), array.row_bytes, parse_bytes(gpu))
        if gpu is None and peers is None and devices is not None:
            raise ConfigError(
                f"devices={repr_of(devices)} are GPUs that keep rows, and none is to keep any; say gpu= or peers="
            )
        if gpu is None and peers is None and hot is not None and whole:
            raise ConfigError(
                "hot= says which rows lie nearest, but host memory takes all of them, and no GPU any; say gpu= or peers=, or a "
                "host= below the table's size"
            )
        sizes = (gpu, peers) if whole else (gpu, peers, host)
        return Asked.of(array, sizes, hot, None, devices, array.line_bytes)


def _only(devices: Devices | None) -> torch.device | str | int | None:
    """The GPU of ``hot="recent"``; None is the current one."""
    listed = [None] if devices is None else listed_devices(devices)
    if len(listed) != 1:
        raise ConfigError(f"hot='recent' keeps rows in one GPU, and devices names {len(listed)}; name one")
    return listed[0]


def open_table(path: str | os.PathLike[str], *, name: str | None = None) -> OpenTable:
    """The table of a ``.npy``, safetensors, Arrow, torch or ``.hl`` file, told apart by its content; nothing is read.

    A ``.npy`` in Fortran order is transposed as ``place`` reads it into host memory, in parts.

    Args:
        name: of the tensor or column, in files that hold several.

    Raises:
        StorageError, FormatError: as of ``StorageArray.open``, which also opens raw binary, several files, and to write.
    """
    try:
        return OpenTable(StorageArray.open(path, name=name))
    except ByColumns as found:
        return OpenTable(ColumnFile(found.path, found.stored))
