"""MGG's kernel (kernel.hpp) over the parts of a partitioned graph, as its sections 4.1, 5 and 6 describe it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hinterland.fullgraph import PartitionedGraph
from hinterland.fullgraph.aggregate_launch import PartRows, RowEntries, instance
from hinterland.runtime import devices
from hinterland.runtime.launch import launch
from hinterland.runtime.params import Params, address, struct

from .. import kernel_file

WARP = 32
VECTOR = 16  # bytes
_MOST_CHUNKS = 2  # vectors of a row that a lane holds
_LOADS = {"plain": "kPlain", "staged": "kStaged", "common": "kCommon"}


KERNELS = kernel_file(
    "mgg/kernel.cu",
    tuple(f"mgg_kernel<{form}>" for form in ("2, 4, Loads::kPlain", "1, 1, Loads::kStaged", "1, 1, Loads::kCommon")),
    separate_module=True,
)


@dataclass(frozen=True)
class Setting:
    """MGG's parameters (section 6), and what its ablations change.

        Attributes:
            ps: entries of a partition at most; None: a row's local ones are one, and so are its remote ones.
            dist: pairs of a worker.
            wpb: warps of a block, at most 16.
            loads: ``"plain"``, ``"staged"`` or ``"common"`` (``Loads`` in kernel.hpp).
            ahead: plain: remote rows that a lane asks for before it adds the first;
    staged : that it has in shared memory at most.lanes : of a worker : 1(a thread),
        32(a warp) or 256(a block).order : ``"pairs"`` of a local and a remote partition;
    ``"apart"``: workers with local ones, and behind them workers with remote ones;
    ``"launches"``: local ones in one launch, and then remote ones; ``"mixed"``: a row's local and remote
                entries are one list (figure 3(b)).
    """

    ps: int | None = 16
    dist: int = 1
    wpb: int = 8
    loads: str = "plain"
    ahead: int = 4
    lanes: int = WARP
    order: str = "pairs"


class NoRoom(Exception):
    """What a block stages is more than the shared memory that it can have."""


def whole_lists(p: PartitionedGraph) -> PartitionedGraph:
    """The same parts where no list is a hub's, of which parts share the work: partitions cut them all."""
    return p.unshared if len(p.split.hubs) else p


class NeighborPartitions(NamedTuple):
    """Neighbour partitions, int32 ``[count]`` each: of which rows, and which entries."""

    rows: Tensor
    begins: Tensor
    ends: Tensor


class Common(NamedTuple):
    """The places that each block's remote partitions name, each once: ``Loads::kCommon`` in kernel.hpp."""

    begins: Tensor
    places: Tensor
    slots: Tensor


def cut(entries: RowEntries, ps: int | None) -> NeighborPartitions:
    """Partitions of at most ``ps`` entries, in the order of rows."""
    lengths = entries.ends - entries.begins
    counts = (lengths > 0).long() if ps is None else -(-lengths // ps)
    of = torch.repeat_interleave(counts)
    skipped = torch.arange(len(of), device=of.device) - (counts.cumsum(0) - counts)[of]
    begins = entries.begins[of] + skipped * (ps or 0)
    ends = entries.ends[of] if ps is None else torch.minimum(begins + ps, entries.ends[of])
    return NeighborPartitions(of.int(), begins.int(), ends.int())


def common(remote: NeighborPartitions, places: Tensor, blocks: Tensor) -> Common:
    """``blocks``: int64, ascending: of which block each remote partition is."""
    lengths = (remote.ends - remote.begins).long()
    of = torch.repeat_interleave(lengths)
    entry = torch.arange(len(of), device=of.device) - (lengths.cumsum(0) - lengths)[of] + remote.begins[of]
    known, which = torch.unique(blocks[of] << 32 | places[entry].long() & 0xFFFFFFFF, return_inverse=True)
    count = int(blocks[-1]) + 1 if len(blocks) else 0
    begins = torch.searchsorted(known >> 32, torch.arange(count + 1, device=known.device))
    slots = torch.zeros(len(places), dtype=torch.int32, device=places.device)
    slots[entry] = (which - begins[blocks[of]]).int()
    return Common(begins, (known & 0xFFFFFFFF).int(), slots)


class _Partitions(Params):
    __slots__ = ()
    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "begins", "ends", "count")]  # noqa: RUF012


class MggParams(Params):
    """``MggParams`` of kernel.hpp."""

    __slots__ = ()
    _fields_ = [  # noqa: RUF012
        ("local", _Partitions),
        ("remote", _Partitions),
        ("from", struct("fullgraph::RowWords")),
        *(
            (name, ctypes.c_int64)
            for name in "places out width lanes across dist remote_from depth common_begins common slots".split()
        ),
    ]


class Mgg:
    """Sums of float32 rows over the parts of one process by one setting, prepared once and called with each part's rows.

    Raises:
        NoRoom: see there.
        AssertionError: rows of another width than a multiple of 4, or parts too large for places of 32 bits.
    """

    def __init__(self, p: PartitionedGraph, width: int, setting: Setting) -> None:
        assert width % 4 == 0, "rows are of vectors of 16 bytes"
        self._p, self._setting = whole_lists(p), setting
        vectors = width // 4
        self._across = min(1 << (vectors - 1).bit_length(), setting.lanes, WARP)
        many = setting.loads == "common" or (setting.loads == "plain" and setting.ahead > 4)  # rows of a block, or in registers
        self._chunks = min(-(-vectors // self._across), 1 if many else _MOST_CHUNKS)
        self._threads = max(WARP * setting.wpb, setting.lanes)
        self._parts = [self._prepared(i, width) for i in range(len(self._p.parts))]

    def __call__(self, x: Sequence[Tensor]) -> list[Tensor]:
        world = self._p.world
        out: list[Tensor] = []
        with world.turn(out), world.reachable(x) as owners:
            for i, (rows, table) in enumerate(zip(x, owners, strict=True)):
                with world.on(i):
                    out.append(torch.zeros_like(rows))
                    for params, shared in self._parts[i]:
                        params.out = out[i].data_ptr()
                        setattr(params, "from", PartRows(rows, None, table, world.mine[i]).words)
                        self._launch(params, shared, rows.device)
        return out

    @property
    def instance(self) -> str:
        ahead = self._setting.ahead if self._setting.loads == "plain" else 1
        return instance("mgg_kernel", self._chunks, ahead, f"Loads::{_LOADS[self._setting.loads]}")

    @property
    def rows_once(self) -> float:
        """Of remote entries, the share whose rows are read, of the part where it is the largest: below 1 by ``"common"``."""
        held = [params.keeps for launches in self._parts for params, _ in launches]
        shares = [len(one.places) / max(int((remote.ends - remote.begins).sum()), 1) for remote, one in held if one is not None]
        return max(shares, default=1.0)

    def warps_of_sm(self) -> int:
        """That run at once on a multiprocessor, once the kernel was launched."""
        device = self._p.world.devices[0]
        kernel, shared = KERNELS.kernel(self.instance, device), max(shared for one in self._parts for _, shared in one)
        with torch.cuda.device(device):
            blocks: int = kernel.occupancy.max_active_blocks_per_multiprocessor(self._threads, shared)
        return blocks * self._threads // WARP

    def _prepared(self, i: int, width: int) -> list[tuple[MggParams, int]]:
        """The launches of a part: parameters without rows, and bytes of shared memory."""
        with self._p.world.on(i):
            direct = self._p.entries("direct", None)[i]
            assert direct.places is not None and direct.places.dtype == torch.int32 and len(direct.places) < 1 << 31
            if self._setting.order == "mixed":
                local = self._pieces(i, "all")
                remote = NeighborPartitions(*(one[:0] for one in local))
            else:
                local, remote = (self._pieces(i, kind) for kind in ("local", "remote"))
            none = NeighborPartitions(*(one[:0] for one in local))
            pairs = [(local, none), (none, remote)] if self._setting.order == "launches" else [(local, remote)]
            return [self._params(*pair, direct.places, width) for pair in pairs]

    def _pieces(self, i: int, kind: str) -> NeighborPartitions:
        ps = self._setting.ps
        return self._p.kept(("mgg", kind, ps, i), lambda: cut(self._p.entries(kind, None)[i], ps))

    def _params(
        self, local: NeighborPartitions, remote: NeighborPartitions, places: Tensor, width: int
    ) -> tuple[MggParams, int]:
        setting, row = self._setting, self._chunks * self._across * VECTOR
        entries = setting.lanes // self._across
        longest = int((remote.ends - remote.begins).max()) if len(remote.rows) else 0
        remote_from = -(-len(local.rows) // setting.dist) if setting.order == "apart" else 0
        params = MggParams(
            local=_view(local),
            remote=_view(remote),
            places=places.data_ptr(),
            width=width,
            lanes=setting.lanes,
            across=self._across,
            dist=setting.dist,
            remote_from=remote_from,
            depth=max(min(setting.ahead, -(-longest // entries)), 1),
        )
        shared, found = 0, None
        if setting.loads == "staged":
            shared = self._threads * params.depth * self._chunks * VECTOR
        if setting.loads == "common":
            number = torch.arange(len(remote.rows), device=places.device)
            found = common(remote, places, (remote_from + number // setting.dist) // (self._threads // setting.lanes))
            # Blocks behind the last with remote partitions name nothing.
            missing = self._blocks(params) + 1 - len(found.begins)
            found = found._replace(begins=torch.nn.functional.pad(found.begins, (0, max(missing, 0)), value=len(found.places)))
            shared = int(found.begins.diff().max()) * row if len(found.begins) > 1 else 0
            params.common_begins, params.common, params.slots = map(address, found)
        if shared > devices.shared_bytes(places.device):
            raise NoRoom(f"{shared} bytes of shared memory")
        params.keeps = (remote, found)
        return params, shared

    def _blocks(self, params: Any) -> int:
        local, remote = (-(-one.count // params.dist) for one in (params.local, params.remote))
        workers = max(local, params.remote_from + remote if remote else 0)
        return -(-workers * params.lanes // self._threads)

    def _launch(self, params: MggParams, shared: int, device: torch.device) -> None:
        if blocks := self._blocks(params):
            launch(KERNELS, self.instance, device, blocks, self._threads, params, shared=shared)


def _view(pieces: NeighborPartitions) -> _Partitions:
    return _Partitions(*map(address, pieces), count=len(pieces.rows))
