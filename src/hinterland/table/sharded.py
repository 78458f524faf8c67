"""Tables that the processes of a torchrun job hold together over several machines, a part on each.

A rank asks those with its own local rank on the other nodes for rows, by all-to-all. The ranks of one node may hold its part in
pinned memory, where they map the same pages (allocator.py).
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ..memory.count import TierCount
from ..memory.faults import out_of_range
from ..memory.gather_stats import require_dict
from ..memory.ranks import Ranks, naming_lost_ranks
from ..runtime import devices
from ..runtime.capture import require_running
from ..runtime.errors import ConfigError, HinterlandError
from ..runtime.repr import table_of
from .placement import Sort
from .row_arguments import Index, as_index, place_rows, resolved, room_for, row_numbers
from .table import Table

REMOTE = "remote"  # the tier of rows that another machine has

_LARGEST_BLOCK = 8192  # rows: some megabytes, which files are read in as fast as in one piece
_BLOCKS = 64  # of each node at least, where there are rows enough: no node has all of the hottest


class Collective(Table):
    """A table whose gathers all ranks of a group make at once. It is read only."""

    _AS_TENSOR = "every machine has a part of its rows, table.part"
    in_reach = False
    collective = True

    @property
    def placement(self) -> str:
        """That of this machine's part."""
        return self.part.placement

    @abstractmethod
    def check_same(self, mine: Mapping[str, Any]) -> None:
        """Refuses ranks of the group that do not all have the same values; all of them call it at once.

        Raises:
            ConfigError: in all of them alike; names what differs, and two ranks.
            RankLost: as ``gather``.
        """

    @abstractmethod
    def _take(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, stats: dict[str, Any] | None) -> None:
        """Copies rows at ``index`` (int64 ``[n]``) to ``out``, and says in ``stats`` what that took of whom: others' row
        numbers are not known before."""

    def _read(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort) -> None:
        self._take(index.view(-1).to(torch.int64), out.view(index.numel(), *self._row_shape), max_blocks, None)

    def _measured(self, stats: dict[str, Any], index: Index, out: torch.Tensor | None, stream: Any, *how: Any) -> torch.Tensor:
        require_dict(stats)
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            index = as_index(index)
            shape = index.shape + self._row_shape
            rows = room_for(shape, self._dtype, index.device) if out is None else self._room(index, out)
            self._take(index.view(-1).to(torch.int64), rows.view(index.numel(), *self._row_shape), how[0], stats)
        return rows

    def require_writable(self) -> None:
        """Refuses."""
        raise ConfigError("a table over several machines is read only; write to the parts of which it is made")


@dataclass(frozen=True)
class Shards:
    """Which node has which rows: blocks of rows are dealt out in turn.

    Single rows would make every node read the whole file; one range for each would leave the first node alone with the
    hottest rows of a table that is in the order of hotness.
    """

    rows: int
    nodes: int

    @property
    def block(self) -> int:
        """Rows of a block."""
        return max(1, min(_LARGEST_BLOCK, self.rows // (self.nodes * _BLOCKS)))

    def count(self, node: int) -> int:
        """Rows of a node."""
        turns, rest = divmod(self.rows, self.nodes * self.block)
        return turns * self.block + max(0, min(self.block, rest - node * self.block))

    def find(self, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The nodes that have rows (int64, from 0), and the rows' numbers there."""
        block = row // self.block
        return block % self.nodes, block // self.nodes * self.block + row % self.block

    def row(self, node: int, number: int) -> int:
        """The row that is number ``number`` of a node."""
        turn, within = divmod(number, self.block)
        return (turn * self.nodes + node) * self.block + within


class ShardedTensor(Collective):
    """A table of which every node holds a part (Shards says which), and whose rows every rank gathers.

    ``gather`` is collective: the ranks with the same local rank call it equally often, with an empty index if they need
    nothing. Row numbers go to the nodes that have the rows, which gather them as of their own tables; the rows come back. That
    is three all-to-alls: of how many, of which, and of rows. It has a process group of its own, so that it can run in a thread
    beside a model that trains in parallel. In its ``stats`` is what this node read of its own part, for all of the group, and
    ``network``: ``rows`` and ``bytes`` that came from other nodes. A bad row number raises IndexOutOfRange in all ranks of the
    group, and a rank that died or did not take part in time RankLost.

    Args:
        part: this node's rows. The ranks of a node may share one pinned table.
        rows: of the whole table.
        ranks: who takes part (:func:`.joined`).

    Raises:
        ConfigError: in every rank alike: the ranks do not have parts of one table.
    """

    keepable = True

    def __init__(self, part: Table, rows: int, ranks: Ranks) -> None:
        ranks.check_nodes()
        ranks.check_same({"rows": rows, "shape of a row": tuple(part.shape[1:]), "dtype": part.dtype})
        self._part, self.shards, self.ranks = part, Shards(rows, ranks.nodes), ranks
        super().__init__((rows, *part.shape[1:]), part.dtype)
        mine = self.shards.count(ranks.node)
        error = None
        if len(part) != mine:
            error = ConfigError(
                f"rank {ranks.rank}: the part of node {ranks.node} has {len(part)} rows, but of {rows} rows over {ranks.nodes} "
                f"nodes it holds {mine}; Shards({rows}, {ranks.nodes}) says which"
            )
        ranks.raise_together(error)
        self._group: Any = None
        backend = "cpu:gloo,cuda:nccl" if ranks.device.type == "cuda" else "gloo"
        for local in range(ranks.local_world_size if ranks.nodes > 1 else 0):  # every rank takes part in making every group
            members = list(range(local, ranks.world_size, ranks.local_world_size))
            group = dist.new_group(members, datetime.timedelta(seconds=ranks.timeout), backend)
            if local == ranks.local_rank:
                self._group = group

    @property
    def part(self) -> Table:
        """This node's rows."""
        return self._part

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, part=self.part)

    def _take(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, stats: dict[str, Any] | None) -> None:
        self.ask(index, out, None, max_blocks, stats)

    def ask(
        self,
        index: torch.Tensor,
        out: torch.Tensor,
        here: torch.Tensor | None,
        max_blocks: int | None,
        stats: dict[str, Any] | None,
    ) -> None:
        """Copies row ``index[i]`` (int64 ``[n]``) to ``out[i]``, but for those that are ``here`` already (bool ``[n]``, False
        where an index is bad). All ranks of the group at once; ``stats`` and errors are those of :meth:`gather`."""
        if self._group is not None or here is not None:
            require_running("the CPU counts rows before machines exchange them, which it cannot", "gather outside of it")
        if self._group is not None:
            with naming_lost_ranks(self.ranks.timeout):
                self._exchange(index, out, here, max_blocks, stats)
            return
        if stats is not None:
            stats["network"] = {"rows": 0, "bytes": 0}
        if here is None:
            self.part.gather(index, out, max_blocks=max_blocks, stats=stats)
            return
        away = (~here).nonzero().view(-1)
        place_rows(self.part.gather(row_numbers(index, len(self))[away], max_blocks=max_blocks, stats=stats), away, out)

    def check_same(self, mine: Mapping[str, Any]) -> None:
        if self._group is not None:
            with naming_lost_ranks(self.ranks.timeout):
                self.ranks.check_same(mine, self._group)

    def _exchange(
        self,
        index: torch.Tensor,
        out: torch.Tensor,
        here: torch.Tensor | None,
        max_blocks: int | None,
        stats: dict[str, Any] | None,
    ) -> None:
        rows, nodes = self.shards.rows, self.shards.nodes
        found, bad = resolved(index, rows)
        owner, number = self.shards.find(found)
        if here is not None:
            owner.masked_fill_(here, nodes)  # asked of nobody
        owner, order = owner.sort(stable=True)
        counts = torch.searchsorted(owner, torch.arange(nodes + 1, device=index.device)).diff()
        mine = torch.stack([counts, bad.sum().expand(nodes)], 1)
        theirs = torch.empty_like(mine)
        self._trade(theirs, mine)
        # Two rows of numbers that the CPU needs, in one copy.
        (sent, asked), (_, wrong) = torch.stack([mine, theirs]).permute(2, 0, 1).tolist()
        if any(wrong):
            self._raise_for(index, bad)
        order = order[: sum(sent)]
        wanted = number.new_empty(sum(asked))
        self._trade(wanted, number[order], asked, sent)
        given = self.part.gather(wanted, max_blocks=max_blocks, check="async", stats=stats)
        width = self.row_bytes
        if stats is not None:
            away = sum(sent) - sent[self.ranks.node]
            stats["network"] = {"rows": away, "bytes": away * width}
        if width:
            taken = given.new_empty(len(order), *given.shape[1:])
            as_bytes = (taken.view(-1).view(torch.uint8), given.view(-1).view(torch.uint8))
            self._trade(*as_bytes, [n * width for n in sent], [n * width for n in asked])
            place_rows(taken, order, out)

    def _trade(
        self, got: torch.Tensor, given: torch.Tensor, gets: list[int] | None = None, gives: list[int] | None = None
    ) -> None:
        """An all-to-all, which is over when it returns: until then this thread must not be in the driver.

        The driver may wait with its lock for what is on a GPU. If that is this collective, the thread that trains cannot
        launch its own, for which another rank's may wait with the lock that this collective's part there needs.
        """
        dist.all_to_all_single(got, given, gets, gives, self._group)
        devices.wait_for(got.device)

    def _count(self, rows: torch.Tensor) -> TierCount:
        """Rows that another machine has are ``remote``, a request each. Asks nobody."""
        owner, number = self.shards.find(rows)
        mine = owner == self.ranks.node
        near, away = self.part.count(number[mine]), int((~mine).sum())
        remote = {"bytes": away * self.row_bytes, "requests": away, "hits": away}
        return TierCount({**near.tiers, REMOTE: remote}, self.row_bytes, near.requests)

    def most(self, number: int) -> int:
        """The largest of the numbers that the ranks of the group give. All of them at once."""
        if self._group is None:
            return number
        found = torch.tensor(number, device=self.ranks.device)
        with naming_lost_ranks(self.ranks.timeout):
            dist.all_reduce(found, dist.ReduceOp.MAX, self._group)
            devices.wait_for(found.device)  # as after _trade
        return int(found)

    def _raise_for(self, index: torch.Tensor, bad: torch.Tensor) -> None:
        """Raises the error of a rank that asked for rows that there are not, in all ranks of the group."""
        error: HinterlandError | None = None
        positions = bad.nonzero().view(-1)
        if len(positions):
            first = int(positions[0])
            sentence = out_of_range(first, int(index[first]), self.shards.rows, len(positions))
            error = type(sentence)(f"rank {self.ranks.rank}: {sentence}")
        self.ranks.raise_together(error, self._group)
