"""From where the rows of a gather come, and what that takes of each tier: launches memory/count.cu, or loops on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .. import _core
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, leaves, struct
from .gather import _THREADS, row_copy

TIERS: tuple[str, ...] = _core.TIERS  # the reader's own memory, other GPUs', and the CPU's
COUNTS = leaves("memory::TierCount")

_PLACEMENTS = ("OneRange", "Tiers")
_PARAMS = {name: struct(f"memory::CountParams<memory::{name}>") for name in _PLACEMENTS}
KERNELS = KernelFile("memory/count.cu", tuple(f"count_kernel<{name}>" for name in _PLACEMENTS))


@dataclass(frozen=True)
class TierCount:
    """Rows of a gather by where they come from: the reader's own memory, other GPUs' (``peers``), or the host's.

    Attributes:
        tiers: by tier, in the words of a traversal's ``stats``: ``bytes`` in whole 32-byte sectors, ``requests`` for cache
            lines of 128 bytes, each row on its own, and ``hits``, the rows.
        row_bytes: of a row.
    """

    tiers: dict[str, dict[str, int]]
    row_bytes: int

    @property
    def rows(self) -> dict[str, int]:
        """How many come from each tier."""
        return {tier: counts["hits"] for tier, counts in self.tiers.items()}

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of those rows themselves; ``tiers`` has those of all sectors that they lie in."""
        return {tier: rows * self.row_bytes for tier, rows in self.rows.items()}


def count_rows(table: int | Params, rows: int, row_bytes: int, index: torch.Tensor) -> TierCount:
    """What copying the rows at ``index`` out of the table would read.

    Args:
        table: address of ``rows`` rows in host memory, of which none is read, or their Tiers.
        index: contiguous int64 row numbers on the reader, all of them rows of the table.
    """
    device = index.device
    found = torch.zeros((len(TIERS), len(COUNTS)), dtype=torch.int64, device=device)
    placement = _PLACEMENTS[not isinstance(table, int)]
    copy = row_copy(table, rows, row_bytes, 0, index, index.element_size(), False)
    params = _PARAMS[placement](rows=copy, tiers=found.data_ptr())
    if device.type == "cpu":
        count = _core.count_rows if isinstance(table, int) else _core.count_tiered_rows
        count(params.address)
    elif index.numel():
        grid = min(devices.sm_count(device), -(-index.numel() // _THREADS))
        launch(KERNELS, f"count_kernel<{placement}>", device, grid, _THREADS, params)
    counts = [dict(zip(COUNTS, row, strict=True)) for row in found.tolist()]
    return TierCount(dict(zip(TIERS, counts, strict=True)), row_bytes)
