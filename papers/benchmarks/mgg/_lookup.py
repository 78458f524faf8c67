"""Bags of random rows of a table that is spread over all GPUs, as recommendation models look them up (MGG, section 7.3).

Milliseconds for bags of 64 rows, as many for each GPU, all GPUs at once, in one process. ``ours``: UnifiedEmbeddingBag, whose
kernel reads rows where they are. ``once``: each row that a GPU's bags name is read once, then torch sums. ``owners``: each GPU
sums up the rows that it owns for the bags of every other, and sends these partial sums (DLRM's way). ``copied``: torch's bags,
once every GPU has the whole table, which takes ``copying``. ``reuse``: entries for each row that a GPU's bags name. Row numbers
are uniform, or ``skewed``: the first 6 % of the rows are half of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from benchmarks._rows import Rows as Printed
from benchmarks._timing import milliseconds
from hinterland import UnifiedEmbeddingBag, UnifiedTensor
from hinterland.runtime import devices

EACH = 64  # rows of a bag
BESIDE = 1 << 10  # bytes that a GPU's tier takes beside its rows, at most
SKEWS = {"uniform": 1, "skewed": 4}  # the share x of the first rows is named with probability x ** (1 / skew)


def lookup(widths: Sequence[int], where: Sequence[torch.device], rows: int = 1 << 23, bags: int = 1 << 16) -> Printed:
    """``rows`` of the table, ``bags`` of each device."""
    found = Printed()
    for width in widths:
        spread = _Spread(rows, width, where)
        for name, skew in SKEWS.items():
            index = [_numbers(rows, bags, skew, seed, on) for seed, on in enumerate(where)]
            found.append({"rows": rows, "width": width, "bags": bags, "numbers": name, **spread.timed(index)})
    return found


def _numbers(rows: int, bags: int, skew: int, seed: int, device: torch.device) -> Tensor:
    random = torch.Generator(device).manual_seed(seed)
    uniform = torch.rand(bags, EACH, generator=random, device=device, dtype=torch.float64)
    return (uniform**skew * rows).long().clamp_(max=rows - 1)


class _Spread:
    """A table of small whole numbers, whose sums are exact in any order: row r is the (r mod P)-th device's."""

    def __init__(self, rows: int, width: int, where: Sequence[torch.device]) -> None:
        assert rows % len(where) == 0, "each device has as many rows"
        self._where = where
        random = torch.Generator(where[0]).manual_seed(0)
        drawn = torch.randint(-8, 9, (rows, width), device=where[0], generator=random, dtype=torch.float32)
        self._shards = [drawn[i :: len(where)].to(on) for i, on in enumerate(where)]
        self._table: Any = UnifiedTensor.from_tensor(drawn.cpu(), "pageable" if where[0].type == "cpu" else "host")
        if where[0].type == "cuda":
            self._table = self._table.tiered(peers=self._table.nbytes + BESIDE * len(where), devices=list(where))
            assert self._table.plan.resident == rows, self._table.explain()
        self._bag = UnifiedEmbeddingBag.from_pretrained(self._table, mode="sum", check="async")

    def timed(self, index: Sequence[Tensor]) -> dict[str, Any]:
        """Of each way, once its sums were found to be the same."""
        whole, count = self._copied(), len(index)
        places = [one % count * len(self._shards[0]) + one // count for one in index]
        ways: dict[str, Callable[[], list[Tensor]]] = {
            "ours": partial(self._each, index, self._bag),
            "once": partial(self._each, index, self._once),
            "owners": partial(self._owners, index),
            "copied": lambda: [embedding_bag(one, of, mode="sum") for one, of in zip(places, whole, strict=True)],
        }
        wanted = ways["copied"]()
        for name, way in ways.items():
            torch.testing.assert_close(way(), wanted, rtol=0, atol=0, msg=name)
        found = {name: milliseconds(way, self._where) for name, way in ways.items()}
        found["copying"] = milliseconds(self._copied, self._where)
        entries, named = index[0].numel(), len(index[0].unique())
        remote = (1 - 1 / count) * entries * whole[0].shape[1] * 4
        return {"reuse": entries / named, **found, "remote gbs": remote / found["ours"] / 1e6}

    @torch.no_grad()
    def _each(self, index: Sequence[Tensor], of: Callable[[Tensor], Tensor]) -> list[Tensor]:
        found = []
        for one in index:
            with devices.on(one.device):
                found.append(of(one))
        return found

    def _once(self, index: Tensor) -> Tensor:
        named, which = torch.unique(index, return_inverse=True)
        return embedding_bag(which, self._table[named], mode="sum")

    def _owners(self, index: Sequence[Tensor]) -> list[Tensor]:
        found, count = [], len(self._where)
        for one in index:
            mine = [one % count == owner for owner in range(count)]
            asked = [(one[taken] // count, taken.sum(1)) for taken in mine]
            parts = [self._partial(owner, *of) for owner, of in enumerate(asked)]
            found.append(torch.stack([part.to(one.device, non_blocking=True) for part in parts]).sum(0))
        return found

    def _partial(self, owner: int, rows: Tensor, lengths: Tensor) -> Tensor:
        """The sums of bags over those rows that one device owns."""
        on = self._where[owner]
        offsets = (lengths.cumsum(0) - lengths).to(on, non_blocking=True)
        return embedding_bag(rows.to(on, non_blocking=True), self._shards[owner], offsets, mode="sum")

    def _copied(self) -> list[Tensor]:
        """All shards on each device, one after another."""
        count, (rows, width) = len(self._where), self._shards[0].shape
        wholes = [torch.empty(count, rows, width, device=on) for on in self._where]
        for turn in range(count):  # no two take the same owner's at a time
            for reader, whole in enumerate(wholes):
                owner = (reader + turn) % count
                whole[owner].copy_(self._shards[owner], non_blocking=True)
        return [whole.flatten(0, 1) for whole in wholes]
