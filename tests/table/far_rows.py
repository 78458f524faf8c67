"""A placement in one file: rows in a dictionary, each of which takes a while to come. Tests of gathers, embeddings, training
and PyG's loaders take it beside those of the library."""

from __future__ import annotations

import time

import torch

from hinterland.memory.count import TierCount
from hinterland.table import Table
from hinterland.table.row_arguments import row_numbers

DELAY = 1e-6  # seconds a row


class FarRows(Table):
    """A copy of ``rows``."""

    in_reach = False
    placement = "far"

    def __init__(self, rows: torch.Tensor) -> None:
        super().__init__(rows.shape, rows.dtype)
        self.held = dict(enumerate(rows.clone()))

    def _read(self, index, out, max_blocks, check, sort):
        wanted = row_list(index, self._rows)
        time.sleep(DELAY * len(wanted))
        if wanted:
            out.copy_(torch.stack([self.held[row] for row in wanted]).view(out.shape))

    def _write(self, index, rows, max_blocks, check):
        for row, one in zip(row_list(index, self._rows), rows.view(-1, *self._row_shape).cpu(), strict=True):
            self.held[row] = one.clone()

    def _count(self, rows):
        far = {"bytes": rows.numel() * self._row_bytes, "requests": rows.numel(), "hits": rows.numel()}
        counted = TierCount.of({}, self._row_bytes)
        return TierCount({**counted.tiers, "storage": far}, self._row_bytes)


def row_list(index: torch.Tensor, rows: int) -> list[int]:
    return row_numbers(index, rows).tolist()
