"""A file's table, and where its rows are to lie: in GPUs, host memory and the file, the hottest nearest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import torch

from ..runtime.arguments import one_of, shown
from ..runtime.errors import ConfigError
from ..runtime.shown import Shown
from ..runtime.units import parse_bytes
from .array import StorageArray
from .table import Table
from .tiered import Devices
from .unified import UnifiedTensor


@dataclass(frozen=True, repr=False, eq=False)
class OpenTable(Shown):
    """A table of which nothing has been read yet. ``hl.open_table(path)`` makes one.

    Attributes:
        array: the table where it lies, in its file.
    """

    array: StorageArray

    def place(
        self,
        *,
        gpu: int | str | None = None,
        peers: int | str | None = None,
        host: int | str | None = None,
        hot: torch.Tensor | Literal["recent"] | None = None,
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
        array, whole = self.array, host is None or parse_bytes(host) >= self.array.nbytes
        if isinstance(hot, str):
            one_of("hot", hot, ("recent",))
            if gpu is None or peers is not None or not whole:
                raise ConfigError(
                    "rows that were asked for lately are kept in one GPU, of a table that is whole in host memory: say gpu=, "
                    "leave out peers= and host=, or give scores instead of hot='recent'"
                )
            try:
                listed = [devices] if devices is None or isinstance(devices, str | int | torch.device) else list(devices)
            except (TypeError, RuntimeError):
                raise ConfigError(f"devices are GPUs, as ['cuda:0', 'cuda:1'], not {shown(devices)}") from None
            if len(listed) != 1:
                raise ConfigError(f"hot='recent' keeps rows in one GPU, and devices names {len(listed)}; name one")
            return UnifiedTensor.holding(array).cached(gpu, listed[0])
        if whole:
            table = UnifiedTensor.holding(array)
            return table if gpu is None and peers is None else table.tiered(gpu, peers, hot, devices=devices)
        return array.tiered(gpu, peers, host, hot, devices=devices)


def open_table(path: str | os.PathLike[str], *, name: str | None = None) -> OpenTable:
    """The table of a ``.npy``, safetensors, Arrow, torch or ``.hl`` file, told apart by its content; nothing is read.

    Args:
        name: of the tensor or column, in files that hold several.

    Raises:
        StorageError, FormatError: as of ``StorageArray.open``, which also opens raw binary, several files, and to write.
    """
    return OpenTable(StorageArray.open(path, name=name))
