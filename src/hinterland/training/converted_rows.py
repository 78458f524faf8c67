"""Rows that are kept in one type of numbers and given in another, each by a scale of its own."""

from __future__ import annotations

from typing import Any

import torch

from ..memory.gather import Padding
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..table import Table, as_table

_GIVEN = (torch.float32, torch.bfloat16, torch.float16)


class ConvertedRows(Repr):
    """Features of a type that models do not compute in, as FP8, in one that they do: a quarter of the bytes of float32 cross
    the link, and rows are converted where they arrive. ``Loader`` and ``train`` take it as ``features``.

    Args:
        table: UnifiedTensor, TieredTensor, CachedTensor, StorageArray or ShardedTensor ``[rows, ...]`` of floating point
            numbers, as float8_e4m3fn.
        dtype: of what ``gather`` gives.
        scales: float32 ``[rows]``, which rows are multiplied with, in float32 before they are rounded to ``dtype``. A copy of
            4 bytes a row lies on each device that gathers. None: rows are as they are.

    Raises:
        ConfigError: no table of such numbers, a ``dtype`` of others, or scales of other rows.
    """

    def __init__(self, table: Table, dtype: torch.dtype = torch.float32, scales: torch.Tensor | None = None) -> None:
        if as_table(table) is None:
            raise ConfigError(f"table is {arguments.repr_of(table)}; give a table, as hl.UnifiedTensor.from_tensor(rows) makes")
        if not table.dtype.is_floating_point:
            raise ConfigError(f"table has {table.dtype}; give floating point numbers, as torch.float8_e4m3fn")
        if dtype not in _GIVEN:
            raise ConfigError(f"dtype={arguments.repr_of(dtype)} is none of {', '.join(map(str, _GIVEN))}; use one of them")
        if scales is not None:
            arguments.dense("scales", scales)
            if scales.dtype != torch.float32 or tuple(scales.shape) != (len(table),):
                raise ConfigError(
                    f"scales are {scales.dtype} of the shape {list(scales.shape)}; give float32 [{len(table)}], one a row"
                )
        self.table, self.dtype, self.scales = table, dtype, scales
        self._held = {} if scales is None else {scales.device: scales}
        self.shape, self.row_bytes, self.in_reach = table.shape, table.row_bytes, table.in_reach

    def _facts(self) -> dict[str, Any]:
        return {"table": self.table, "dtype": self.dtype, "scales": self.scales}

    def __len__(self) -> int:
        return len(self.table)

    @property
    def collective(self) -> bool:
        """As of the table: whether all ranks gather at once."""
        return self.table.collective

    def gather(self, index: torch.Tensor, **options: Any) -> torch.Tensor:
        """Rows at ``index``, ``[*index.shape, ...]`` of ``dtype``, on its device.

        Args:
            options: as of the table's ``gather``.
        """
        return self._converted(self.table.gather(index, **options), index)

    def gather_padded(self, index: torch.Tensor, padding: Padding, max_blocks: int | None = None) -> torch.Tensor:
        """As of the table, whose ``padding`` it takes; of ``dtype``."""
        return self._converted(self.table.gather_padded(index, padding, max_blocks), index)

    def _converted(self, rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        if self.scales is None:
            return rows.to(self.dtype)
        # What is outside the table, which the gather tells, takes any scale.
        if index.device not in self._held:
            self._held[index.device] = self.scales.to(index.device)
        scale = self._held[index.device][index.remainder(max(len(self), 1))]
        # A number of one byte is the same in any of these types. A longer one may be outside of it before it is scaled.
        wide = rows.to(self.dtype if self.table.dtype.itemsize == 1 else torch.float32)
        return wide.mul_(scale[(..., *[None] * (rows.dim() - scale.dim()))]).to(self.dtype)

    def tiers_of(self, index: torch.Tensor) -> dict[str, int]:
        """How many rows of a gather come from each tier."""
        return self.table.tiers_of(index)
