"""Tables that the processes of a torchrun job hold together over several machines, a part on each.

A rank asks those with its own local rank on the other nodes for rows, by all-to-all. The ranks of one node may hold its part in
registered memory, where they map the same pages (allocator.py).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ..memory.count import TierCount
from ..memory.faults import out_of_range
from ..memory.gather_stats import require_dict
from ..memory.ranks import Ranks, naming_lost_ranks
from ..runtime import devices
from ..runtime.errors import ConfigError, HinterlandError
from ..runtime.shown import Shown, table_of
from .rows import Index, RowTable, as_words, resolved, room_for, row_numbers

REMOTE = "remote"  # the tier of rows that another machine has

_LARGEST_BLOCK = 8192  # rows: some megabytes, which files are read in as fast as in one piece
_BLOCKS = 64  # of each node at least, where there are rows enough: no node has all of the hottest


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


class ShardedTensor(Shown):
    """A table of which every node holds a part (Shards says which), and whose rows every rank gathers.

    ``gather`` is collective: the ranks with the same local rank call it equally often, with an empty index if they need
    nothing. It has a process group of its own, so that it can run in a thread beside a model that trains in parallel.

    Args:
        part: this node's rows. The ranks of a node may share one registered table.
        rows: of the whole table.
        ranks: who takes part (:func:`.joined`).

    Raises:
        ConfigError: in every rank alike: the ranks do not have parts of one table.
    """

    def __init__(self, part: RowTable, rows: int, ranks: Ranks) -> None:
        ranks.check_nodes()
        ranks.check_same({"rows": rows, "shape of a row": tuple(part.shape[1:]), "dtype": part.dtype})
        self.part, self.shards, self.ranks = part, Shards(rows, ranks.nodes), ranks
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
    def dtype(self) -> torch.dtype:
        """The type of its elements."""
        return self.part.dtype

    @property
    def shape(self) -> torch.Size:
        """Of the whole table; the first dimension counts the rows."""
        return torch.Size((self.shards.rows, *self.part.shape[1:]))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.part.row_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, on all nodes."""
        return self.shards.rows * self.row_bytes

    def __len__(self) -> int:
        return self.shards.rows

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, part=self.part)

    def gather(self, index: Index, max_blocks: int | None = None, *, stats: dict[str, Any] | None = None) -> torch.Tensor:
        """Rows at ``index``: shape ``index.shape + shape[1:]``, on the index's device. All ranks of the group at once.

        Row numbers go to the nodes that have the rows, which gather them as UnifiedTensor does; the rows come back. That is
        three all-to-alls: of how many, of which, and of rows.

        Args:
            index: int32 or int64, any shape; -1 is the last row. May be empty.
            max_blocks: blocks that the GPU may use, as for UnifiedTensor.
            stats: a dict that is filled, as of UnifiedTensor, with what this node read of its own part, for all of the group;
                and ``network``: ``rows`` and ``bytes`` that came from other nodes.

        Raises:
            IndexOutOfRange: in all ranks of the group: names the rank that asked, the first bad position and its value.
            RankLost: another rank died, or did not take part in time.
        """
        if stats is not None:
            require_dict(stats)
        index = RowTable._index(index)
        if self._group is None:
            if stats is not None:
                stats["network"] = {"rows": 0, "bytes": 0}
            return self.part.gather(index, max_blocks=max_blocks, stats=stats)
        rows = room_for(index.shape + self.shape[1:], self.dtype, index.device)
        out = rows.view(index.numel(), *self.shape[1:])
        self.fetch(index.view(-1).to(torch.int64), out, max_blocks=max_blocks, stats=stats)
        return rows

    def fetch(
        self,
        index: torch.Tensor,
        out: torch.Tensor,
        here: torch.Tensor | None = None,
        max_blocks: int | None = None,
        stats: dict[str, Any] | None = None,
    ) -> None:
        """Copies row ``index[i]`` (int64 ``[n]``) to ``out[i]``, but for those that are ``here`` already (bool ``[n]``, False
        where an index is bad). All ranks of the group at once; ``stats`` and errors are those of :meth:`gather`."""
        if self._group is not None:
            with naming_lost_ranks(self.ranks.timeout):
                self._exchange(index, out, here, max_blocks, stats)
            return
        index = row_numbers(index, len(self))
        away = torch.arange(len(index), device=index.device) if here is None else (~here).nonzero().view(-1)
        _place(self.gather(index[away], max_blocks, stats=stats), away, out)

    def check_same(self, mine: Mapping[str, Any]) -> None:
        """Refuses ranks of the group that do not all have the same values; all of them call it at once.

        Raises:
            ConfigError: in all of them alike; names what differs, and two ranks.
            RankLost: as ``gather``.
        """
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
            self._refuse(index, bad)
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
            _place(taken, order, out)

    def _trade(
        self, got: torch.Tensor, given: torch.Tensor, gets: list[int] | None = None, gives: list[int] | None = None
    ) -> None:
        """An all-to-all, which is over when it returns: until then this thread must not be in the driver.

        The driver may wait with its lock for what is on a GPU. If that is this collective, the thread that trains cannot
        launch its own, for which another rank's may wait with the lock that this collective's part there needs.
        """
        dist.all_to_all_single(got, given, gets, gives, self._group)
        devices.wait_for(got.device)

    def count(self, index: Index) -> TierCount:
        """From where the rows of a gather come: by tier those of this machine's part, and ``remote`` those that another machine
        has, a request each. Asks nobody.

        Raises:
            IndexOutOfRange: naming the first bad position.
        """
        owner, number = self.shards.find(row_numbers(index, len(self)))
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

    def _refuse(self, index: torch.Tensor, bad: torch.Tensor) -> None:
        """Raises the error of a rank that asked for rows that there are not, in all ranks of the group."""
        error: HinterlandError | None = None
        positions = bad.nonzero().view(-1)
        if len(positions):
            first = int(positions[0])
            sentence = out_of_range(first, int(index[first]), self.shards.rows, len(positions))
            error = type(sentence)(f"rank {self.ranks.rank}: {sentence}")
        self.ranks.raise_together(error, self._group)


def _place(rows: torch.Tensor, at: torch.Tensor, out: torch.Tensor) -> None:
    """Copies ``rows[i]`` to ``out[at[i]]``, whatever their type."""
    if len(rows):
        as_words(out).index_copy_(0, at, as_words(rows))
