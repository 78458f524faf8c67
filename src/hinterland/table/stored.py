"""Tables whose rows lie in a file: what tables above them, with rows in memory, stand on."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import torch

from ..runtime.errors import ConfigError
from .table import Table
from .tiered import Devices, TieredTensor


class StoredTable(Table):
    """A table in a file, which the CPU reads and writes. There is one, StorageArray (array.py)."""

    in_reach = False

    @property
    @abstractmethod
    def path(self) -> str:
        """The file."""

    @property
    @abstractmethod
    def mode(self) -> str:
        """``"r"``, or ``"r+"`` if it may be written to."""

    @property
    def placement(self) -> str:
        """``"storage"``."""
        return "storage"

    @property
    @abstractmethod
    def line_bytes(self) -> int:
        """Bytes of a page, the least that is read."""

    @abstractmethod
    def fetch(self, rows: torch.Tensor, out: torch.Tensor, places: torch.Tensor | None = None) -> None:
        """Copies row ``rows[i]`` (int64 ``[n]``, from 0 on) to ``out[places[i]]``, or to ``out[i]``.

        Args:
            out: contiguous ``[m, ...]`` of the table's type, on the CPU or a GPU.
            places: int64 ``[n]``, ascending, each once.
        """

    @abstractmethod
    def flush(self) -> None:
        """Everything that was written before is in the file, on the disk, when this returns."""

    @abstractmethod
    def beside(self, dtype: torch.dtype, purpose: str) -> Self:
        """A table of zeros of the same shape, in a file of its own that goes with it."""

    @abstractmethod
    def tiered(
        self,
        local: int | str | None = None,
        peers: int | str | None = None,
        host: int | str | None = None,
        scores: torch.Tensor | None = None,
        order: torch.Tensor | None = None,
        devices: Devices | None = None,
    ) -> TieredTensor:
        """This table with its hottest rows in memory."""

    def require_writable(self) -> None:
        """ConfigError where it was opened for reading."""
        if self.mode == "r":
            raise ConfigError(f"{self.path} is open for reading; open it with mode='r+' to write")
