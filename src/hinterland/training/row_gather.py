"""Rows of a table of any kind, gathered beside training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from ..memory.count import TierCount, count_rows
from ..memory.gather_stats import measured
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, IndexOutOfRange
from ..runtime.thresholds import LOAD_BLOCKS
from ..table import Table, as_table
from .converted_rows import ConvertedRows


def by_type(work: Callable[..., Any], tables: Any, *others: Any) -> Any:
    """What ``work`` makes of a table and what goes with it; of a mapping of tables by type a dictionary of that."""
    if not isinstance(tables, Mapping):
        return work(tables, *others)
    return {kind: work(table, *(other[kind] for other in others)) for kind, table in tables.items()}


def each_of(held: Any) -> list[Any]:
    """What a mapping by type has; of anything else that alone."""
    return list(held.values()) if isinstance(held, Mapping) else [held]


def rows_of(
    table: Any, index: torch.Tensor, blocks: int | None = None, waits: bool = True, stats: dict[str, Any] | None = None
) -> torch.Tensor:
    """Rows of a table of any kind, on the index's device.

    Args:
        table: a tensor, or a table with ``gather``, as UnifiedTensor and ShardedTensor are.
        index: int64 ``[n]``.
        blocks: as ``max_blocks`` of ``gather``.
        waits: for the rows of a table, and raises here what is wrong; False is for a Table.
        stats: a dict that is filled, as of ``gather``; of somebody else's table it stays empty.
    """
    if isinstance(table, torch.Tensor):
        with nullcontext() if stats is None else measured(_PlainRows(table), index, stats):
            return table[index.to(table.device)].to(index.device)
    if stats is not None and kept_table(table) is not None:
        return table.gather(index, max_blocks=blocks, stats=stats)
    rows: torch.Tensor = (
        table.gather(index, max_blocks=blocks) if waits else table.gather(index, max_blocks=blocks, check="async")
    )
    return rows


@dataclass
class HelpedGathers:
    """Gathers under way of one batch, which at most ``threads`` cores help the GPU with."""

    threads: int
    under_way: list[Future[None]] = field(default_factory=list)

    def rows_of(self, table: Any, index: torch.Tensor, blocks: int | None) -> torch.Tensor:
        """As the function of that name, which does not wait; not all rows may be there before :meth:`finish`."""
        known = as_table(table)
        if known is None:
            return rows_of(table, index, blocks, waits=False)
        rows, packed = known.begin_gather(index, self.threads, blocks)
        if packed is not None:
            self.under_way.append(packed)
        return rows

    def is_ready(self) -> bool:
        """Whether the CPU is done."""
        return all(packed.done() for packed in self.under_way)

    def finish(self) -> None:
        """Waits for the CPU, and raises what went wrong."""
        for packed in self.under_way:
            packed.result()


class _PlainRows:
    """A tensor as something whose gathers are counted."""

    def __init__(self, table: torch.Tensor) -> None:
        self._table, self.row_bytes = table, table[:1].nbytes

    def count(self, index: torch.Tensor) -> TierCount:
        """As that of a UnifiedTensor; rows in GPU memory are ``local``."""
        table = self._table
        at = torch.where(index < 0, index + len(table), index).to(table.device, torch.int64).reshape(-1).contiguous()
        found = count_rows(table.data_ptr(), len(table), self.row_bytes, at)
        return found if table.is_cpu else found.on_gpu

    def stats(self) -> None:
        return None


def kept_table(table: Any) -> Table | None:
    """The table of this library in which rows are kept; None where they are not in one."""
    return as_table(table.table if isinstance(table, ConvertedRows) else table)


def gather_blocks_for(table: Any, device: torch.device, replayed: bool = False) -> int | None:
    """Blocks that gather as fast as the link allows and leave the rest of the GPU to training; None on the CPU. Beside a
    ``replayed`` step, which waits for nothing but its rows, those of loads: they are faster, and cost it more."""
    if device.type == "cpu":
        return None
    known = kept_table(table)
    if known is None:
        return devices.quarter(device)
    blocks = known.part.gather_blocks(device)
    return max(blocks, LOAD_BLOCKS) if replayed and known.plan is None else blocks


def check_rows(name: str, table: Any, seeds: torch.Tensor) -> None:
    """ConfigError unless this is a table, or None; IndexOutOfRange: it has no row for one of ``seeds``."""
    if table is None:
        return
    if not isinstance(table, torch.Tensor) and not hasattr(table, "gather"):
        raise ConfigError(
            f"{name} are a {type(table).__name__}; give a tensor, as torch.as_tensor(...), or a UnifiedTensor of it"
        )
    if isinstance(table, torch.Tensor) and arguments.dense(name, table).ndim == 0:
        raise ConfigError(f"{name} are one number; give a tensor with a row for each vertex")
    if not len(seeds):
        return
    least, most = int(seeds.min()), int(seeds.max())
    if least < 0 or most >= len(table):
        wrong = least if least < 0 else most
        raise IndexOutOfRange(f"seed {wrong} is not a vertex: {name} has {len(table)} rows, numbered from 0")
