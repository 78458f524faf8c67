"""Tables whose rows lie in a file: what tables above them, with rows in memory, stand on."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import torch

from ..memory.count import TierCount
from ..runtime.errors import ConfigError
from ..runtime.params import Params
from .rows import Index, RowTable
from .tiered import Devices, TieredTensor


class StoredTable(RowTable):
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
    def count(self, index: Index) -> TierCount:
        """What a gather asks of the file."""

    @abstractmethod
    def prefetch(self, index: Index) -> None:
        """Has the pages of these rows read in the background."""

    @abstractmethod
    def flush(self) -> None:
        """Everything that was written before is in the file, on the disk, when this returns."""

    @abstractmethod
    def stats(self) -> Any:
        """What has been moved."""

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

    def _storage_stats(self) -> Any:
        return self.stats()

    def require_writable(self) -> None:
        """ConfigError where it was opened for reading."""
        if self.mode == "r":
            raise ConfigError(f"{self.path} is open for reading; open it with mode='r+' to write")

    def _source(self, index: torch.Tensor) -> int | Params:
        raise ConfigError(f"{self.path}: kernels do not read rows of this table; gather them first")

    def _sorts(self, rows: int) -> bool:
        return False  # for a GPU: rows come from the file in its order anyway

    def _require_apart(self, tensor: torch.Tensor, name: str) -> None:
        """No tensor lies in a file."""
