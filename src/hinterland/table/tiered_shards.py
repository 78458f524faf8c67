"""The hottest rows of a ShardedTensor in the GPU memory of each rank: the last tier is another machine.

Which rows a rank keeps is its own affair. A gather reads what is kept, and asks for the rest as ``ShardedTensor.gather`` does,
in every rank once, also where nothing is left to ask for: so ranks that keep different rows never wait for each other in vain.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NoReturn

import torch

from ..memory.count import TierCount, count_rows
from ..memory.gather import copy_rows
from ..memory.gather_stats import add, report, timed
from ..memory.order import hottest_first
from ..runtime import devices
from ..runtime.errors import ConfigError
from ..runtime.repr import table_of
from ..runtime.thresholds import BOUNCE_BYTES
from ..runtime.units import parse_bytes
from .row_arguments import resolved
from .sharded import Collective, ShardedTensor
from .table import Table
from .tiered import _Home, homes_of, map_slots
from .tiers import TierPlan, plan_tiers


class TieredShards(Collective):
    """The rows of a ShardedTensor, the hottest of them in this rank's GPU, under the same numbers.

    ``local`` rows lie in a rank's GPU, which alone reads them; ``host`` rows in the part of the rank's node, over the link;
    ``remote`` rows in the part of another node, where a GPU reads and sends them.

    All ranks make one at once; each may keep others, and as many as it has room for. ``gather`` is collective, as that of the
    table below, and its results are those of the table below; in its ``stats`` rows that were kept are ``local``. Rows in GPU
    memory are copies.

    Args:
        below: the table.
        local: bytes of GPU memory, the id map included (4 bytes for each row of the table, 8 from 2**31 rows on).
        scores: ``[rows]``, higher for hotter; ties by row number.
        device: the GPU; None is the rank's own. ``"cpu"`` stands for a GPU whose memory is the host's, to try it out.

    Raises:
        ConfigError, OutOfMemory: in all ranks alike: a size or scores that cannot be used, less free than the rows take.
        RankLost: another rank died, or did not take part in time.
    """

    def __init__(
        self,
        below: ShardedTensor,
        local: int | str,
        scores: torch.Tensor,
        device: torch.device | str | int | None = None,
    ) -> None:
        def made() -> tuple[TierPlan, list[_Home], torch.Tensor]:
            gpu = below.ranks.device if device is None else devices.as_device(device)
            plan = plan_tiers(len(below), below.row_bytes, 1, parse_bytes(local), ordered=True)
            hottest = hottest_first(scores, len(below), plan.resident) if plan.slot_bytes else torch.arange(plan.resident)
            return plan, homes_of(plan, [gpu], "pageable"), hottest

        self.below = below
        super().__init__(below.shape, below.dtype)
        self.plan, homes, hottest = below.ranks.agreed(made)
        self._home = homes[0] if homes else None
        self._fill(hottest)

    def _fill(self, hottest: torch.Tensor) -> None:
        below, plan, home = self.below, self.plan, self._home
        step = max(1, BOUNCE_BYTES // max(plan.row_bytes, 1))
        for turn in range(below.most(-(-len(hottest) // step))):
            part = hottest[turn * step : (turn + 1) * step].to(below.ranks.device)
            rows = below.gather(part)
            if home is not None:
                packed = rows.view(-1).view(torch.uint8)
                home.part(turn * step * plan.row_bytes, packed.numel()).copy_(packed)
        if home is not None and plan.slot_bytes:
            map_slots(home.id_map(plan), hottest)
            devices.idle_at(home.device)  # others read on streams of their own

    @property
    def part(self) -> Table:
        """The rows of this node, as of the table below."""
        return self.below.part

    @property
    def held(self) -> dict[str, int]:
        """Bytes of GPU memory that this rank holds, the id map included, by device."""
        return {} if self._home is None else {str(self._home.device): self.plan.held_bytes}

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, local=self.plan.resident, part=self.part)

    def _take(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, stats: dict[str, Any] | None) -> None:
        home, slots = self._home_of(index), self._slots_of(index)
        below: dict[str, Any] | None = None if stats is None else {}
        with nullcontext([0.0]) if stats is None else timed(index.device) as took:
            if home is not None:  # rows that are not kept are any row first, as in TieredStorage
                copy_rows(*self._kept(home), out, slots.clamp(min=0), max_blocks=max_blocks, check="async")
        self.below.ask(index, out, slots >= 0, max_blocks, below)
        if stats is not None and below is not None:
            kept = TierCount.of({}, self.below.row_bytes) if home is None else self._count_kept(home, slots)
            near = {"rows": kept.rows["local"], **report(index.device, took[0], kept, 0, None)}
            add(near, below)
            stats.update(near)

    def _count(self, rows: torch.Tensor) -> TierCount:
        home, slots = self._home_of(rows), self._slots_of(rows)
        found = self.below.count(rows[slots < 0])
        if home is None:
            return found
        local = self._count_kept(home, slots).tiers["local"]
        return TierCount({**found.tiers, "local": local}, self.below.row_bytes, found.requests)

    def check_same(self, mine: Mapping[str, Any]) -> None:
        self.below.check_same(mine)

    def close(self) -> None:
        """Gives this rank's GPU memory back; the table below stays, and other ranks keep theirs."""
        if self._home is not None and self._home.device.type == "cuda":
            torch.cuda.synchronize(self._home.device)
        self._home = None

    def __reduce__(self) -> NoReturn:
        raise ConfigError("rows of tiers over several machines lie in one process's GPU; save the parts, table.below.part")

    def _home_of(self, index: torch.Tensor) -> _Home | None:
        """The memory that rows on the device of ``index`` are read from."""
        home = self._home
        if home is None or home.device == index.device or home.device.type == index.device.type == "cpu":
            return home
        return None

    def _kept(self, home: _Home) -> tuple[int, int, int]:
        """Address, number and bytes of the rows that are kept."""
        return home.address(home.device), self.plan.resident, self.plan.row_bytes

    def _count_kept(self, home: _Home, slots: torch.Tensor) -> TierCount:
        """Of those of these places that hold a row."""
        return count_rows(*self._kept(home), slots[slots >= 0]).on_gpu

    def _slots_of(self, index: torch.Tensor) -> torch.Tensor:
        """Of row numbers (int64 ``[n]``), where they are kept: int64, -1 where they are not, or are no rows."""
        home, plan = self._home_of(index), self.plan
        if home is None:
            return torch.full_like(index, -1)
        rows, bad = resolved(index, plan.rows)
        slots = rows if not plan.slot_bytes else home.id_map(plan)[rows.clamp(0, plan.rows - 1)].to(torch.int64)
        return torch.where(bad | (slots >= plan.resident), -1, slots)
