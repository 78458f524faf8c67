"""TieredTensor: rows in the memory of GPUs and of the host, behind one index (Min 2022, chapter 4)."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from ..memory.allocator import Buffer, allocate
from ..memory.count import TierCount, count_rows
from ..memory.gather import DealtRound, OneRange, SlotMap, Tiers, copy_rows
from ..memory.order import hottest_first, permutation, require_scores
from ..memory.peers import ForeignBlock, GpuBlock, unlinked
from ..memory.plan import sorts, visiting_order
from ..memory.sharing import share
from ..runtime import devices as machine
from ..runtime.arguments import repr_of
from ..runtime.capture import beside
from ..runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory, StorageError
from ..runtime.params import Params
from ..runtime.repr import table_of
from ..runtime.thresholds import BOUNCE_BYTES, CHUNK
from ..runtime.units import format_bytes, parse_bytes
from . import ops
from .columns import ColumnFile
from .host import HostTable
from .row_arguments import require_outside
from .table import Table
from .tiers import TierPlan, plan_tiers

Devices = Sequence[torch.device | str | int] | torch.device | str | int


class TieredTensor(Table):
    """The rows of a UnifiedTensor, the hottest of them in GPU memory; rows keep their numbers. ``ut.tiered(...)`` makes one.
    Of a table in a file ``array.tiered(...)`` makes one, which has a tier more (:class:`.TieredStorage`).

    ===== ============================================ ==================================================
    tier  where its rows are                           who reads them
    ===== ============================================ ==================================================
    local in every GPU                                 each GPU its own
    peers dealt out over the GPUs, one row to each     every GPU, from the one that has the row
    host  in the UnifiedTensor                         every GPU, over the link
    ===== ============================================ ==================================================

    Rows in GPU memory are copies: write through this table and not through the UnifiedTensor while there is one. What
    ``scatter_`` writes to GPU memory is written back to the UnifiedTensor by ``flush()``, by ``close()``, and before the CPU
    reads. One GPU writes at a time, and the others read when it is done; rows on the CPU go through the first one.

    Sent to another process by multiprocessing (the UnifiedTensor being pinned memory), it is the same memory there:
    the process that made it must close it last.
    """

    _AS_TENSOR = "after table.flush(), table.host.cpu() is a tensor of all rows"

    def __init__(self, tiers: _Tiers) -> None:
        super().__init__(tiers.whole.shape, tiers.whole.dtype)
        self._tiers = tiers
        self._number = ops.number(self)
        weakref.finalize(self, _close, tiers, os.getpid())

    @property
    def host(self) -> HostTable:
        """The table in host memory, where rows of GPU memory may be out of date until ``flush()``."""
        return self._tiers.host

    @property
    def placement(self) -> str:
        """That of the table below, which has all rows."""
        return self._tiers.whole.placement

    def gather_blocks(self, device: torch.device) -> int:
        """Rows of other GPUs have not been copied in bulk yet."""
        return super().gather_blocks(device) if len(self.devices) < 2 else machine.quarter(device)

    @property
    def plan(self) -> TierPlan:
        """How many rows each tier has."""
        return self._tiers.plan

    @property
    def devices(self) -> list[torch.device]:
        """The GPUs that hold tiers."""
        return [home.device for home in self._tiers.homes]

    @property
    def held(self) -> dict[str, int]:
        """Bytes of GPU memory that it holds, the id map included, by device."""
        return {str(home.device): self.plan.held_bytes for home in self._tiers.homes}

    @property
    def requires_grad(self) -> bool:
        """Whether the table in host memory does, which takes the gradients of all rows."""
        return self._tiers.host.requires_grad

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, **self.plan.tiers)

    def __getitem__(self, index: Any) -> torch.Tensor:
        """Rows as a new tensor, as of any table (Table); in a compiled function, and with gradients, by row numbers."""
        host = self._tiers.host
        numbered = isinstance(index, torch.Tensor) and index.dtype != torch.bool
        if numbered and (torch.compiler.is_compiling() or host.cpu().requires_grad):
            rows: torch.Tensor = torch.ops.hinterland.tiered_gather(host._beside(index), index, self._number)
            return rows
        return super().__getitem__(index)

    def require_writable(self) -> None:
        """ConfigError where the table below is only read."""
        self._tiers.require_open()
        self._tiers.whole.require_writable()

    def _in_memory(self) -> torch.Tensor | None:
        self.flush()
        return self.host.cpu()

    def _write(self, index: torch.Tensor, rows: torch.Tensor, max_blocks: int | None, check: str) -> None:
        gpu = self.writer(index.device)
        if gpu == index.device or not rows.is_cpu:
            super()._write(index, rows, max_blocks, check)
        else:  # the first GPU holds them meanwhile
            super()._write(index.to(gpu), rows.to(gpu), max_blocks, "sync")

    def writer(self, device: torch.device) -> torch.device:
        """The device that writes rows that are given on ``device``: for those on the CPU the first GPU with tiers. Whoever asks
        begins to write now.

        Raises:
            ConfigError: rows are replicated in GPUs that cannot reach each other's memory.
        """
        self.require_writable()
        tiers, plan = self._tiers, self.plan
        if plan.local_rows and plan.gpus > 1 and plan.unlinked:
            raise ConfigError(
                f"rows that each of {plan.gpus} GPUs holds cannot be written: {plan.unlinked}; use one GPU, devices=[...]"
            )
        if not plan.resident:
            return device
        tiers.state.written = 1
        return tiers.homes[0].device if device.type == "cpu" and tiers.home(device) is None else device

    def _count(self, rows: torch.Tensor) -> TierCount:
        tiers = self._tiers
        tiers.require_open()
        home = tiers.home(rows.device)
        table = tiers.host.cpu().data_ptr() if home is None else tiers.table(home)
        return count_rows(table, self._rows, self._row_bytes, rows)

    def flush(self) -> None:
        """Writes back to the UnifiedTensor what ``scatter_`` has written to GPU memory."""
        self._tiers.require_open()
        self._tiers.flush()

    def close(self) -> None:
        """Writes back what is not yet, and gives the GPU memory back, as soon as no gather in another thread reads it; the
        UnifiedTensor stays."""
        self._tiers.close()

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "rows of a tiered table lie in GPU memory too, and are not copied from there; copy or save table.host after "
            "table.flush(), and call tiered() of what is loaded (multiprocessing shares one over placement='pinned')"
        )

    def _source(self, index: torch.Tensor) -> int | Params:
        tiers = self._tiers
        tiers.require_open()
        home = tiers.home(index.device)
        return tiers.near(index.device).table if home is None else tiers.table(home)

    def _sorts(self, rows: int) -> bool:
        plan, host = self.plan, self.host
        from_host = rows * (plan.rows - plan.resident) // max(plan.rows, 1)  # at most: others are asked for more often
        return sorts(host.placement, from_host, self._row_bytes, host.nbytes, host.managed_bytes)

    def _require_separate(self, tensor: torch.Tensor, name: str) -> None:
        self.host._require_separate(tensor, name)
        for home in self._tiers.homes:
            if not isinstance(home.memory, ForeignBlock):  # where no tensor lies
                require_outside(tensor, name, home.address(home.device), home.memory.nbytes)


def make(host: HostTable, asked: Asked) -> TieredTensor:
    """See ``UnifiedTensor.tiered``."""
    plan = asked.plan
    for gpu in asked.gpus if plan.resident else []:
        if gpu.type == "cuda":
            host.cuda(gpu)  # refuses memory that no GPU sees
    sharing = "pinned" if host.placement == "pinned" else "pageable"
    tiers = _Tiers(host, host, plan, homes_of(plan, asked.gpus, sharing), new_state(sharing))
    tiers.fill(asked.order if plan.slot_bytes else None)
    return TieredTensor(tiers)


@dataclass
class Asked:
    """What a caller of ``tiered`` asks for.

    Attributes:
        plan: what becomes of it.
        gpus: that hold tiers.
        order: int64 ``[n]``, the hottest first, all that memory holds; None where the first rows are.
    """

    plan: TierPlan
    gpus: list[torch.device]
    order: torch.Tensor | None

    @classmethod
    def of(
        cls,
        table: Table | ColumnFile,
        sizes: Sequence[int | str | None],
        scores: torch.Tensor | None,
        order: torch.Tensor | None,
        devices: Devices | None,
        line_bytes: int = 0,
    ) -> Asked:
        """Of ``table``, whose tiers are to have ``sizes``; of a file, in pages of ``line_bytes``, also that of host memory.

        Raises:
            ConfigError, DeviceError: what cannot be used.
        """
        rows = len(table)
        budgets = [0 if size is None else parse_bytes(size) for size in sizes]
        if scores is not None and order is not None:
            raise ConfigError("rows are chosen by scores or by an order, not by both; leave one out")
        gpus = holders(devices)
        missing = unlinked_pair(gpus)
        ordered = scores is not None or order is not None
        plan = plan_tiers(rows, table.row_bytes, len(gpus), *budgets, ordered=ordered, unlinked=missing, line_bytes=line_bytes)
        held = plan.resident if plan.host is None else plan.held
        if scores is not None:
            require_scores(scores, rows)
            order = hottest_first(scores, rows, held) if held < rows else torch.arange(rows)
        elif order is not None:
            order = permutation(order, rows, held)
        return cls(plan, gpus, order)


class _State(ctypes.Structure):
    """Two words that all processes see: whether GPU memory is ahead of the host's, and whether the owner has closed it."""

    _fields_ = (("written", ctypes.c_int64), ("closed", ctypes.c_int64))
    buffer: Buffer

    @classmethod
    def over(cls, buffer: Buffer) -> _State:
        state = cls.from_address(buffer.address)
        state.buffer = buffer
        return state


def new_state(sharing: str) -> _State:
    """That of new tiers, in memory of this placement."""
    return _State.over(allocate(ctypes.sizeof(_State), sharing))


@dataclass(eq=False)
class _Home:
    """One GPU that holds tiers (or ``cpu:i``, host memory in the part of a GPU): its memory, and what it reads through."""

    device: torch.device
    memory: Buffer | GpuBlock | ForeignBlock
    table: Params | None = None

    def address(self, reader: torch.device) -> int:
        return self.memory.address if isinstance(self.memory, Buffer) else self.memory.address(reader)

    def part(self, offset: int, nbytes: int) -> torch.Tensor:
        """Bytes from ``offset`` on as a tensor: no copy."""
        if isinstance(self.memory, GpuBlock):
            return self.memory.part(offset, nbytes)
        assert isinstance(self.memory, Buffer)
        return self.memory.tensor(torch.uint8, torch.Size((self.memory.nbytes,)))[offset : offset + nbytes]

    def id_map(self, plan: TierPlan) -> torch.Tensor:
        """The slot of each row, int32 or int64 ``[rows]``: no copy. Of a plan with one."""
        number = torch.int32 if plan.slot_bytes == 4 else torch.int64
        return self.part(plan.slots_offset, plan.rows * plan.slot_bytes).view(number)


def homes_of(plan: TierPlan, gpus: Sequence[torch.device], sharing: str) -> list[_Home]:
    """The memory that a plan takes of each GPU; none where it takes none. That of ``cpu:i`` is of the placement ``sharing``.

    Raises:
        OutOfMemory: a GPU has less free; nothing is allocated then.
    """
    if plan.resident == 0:
        return []
    for gpu in gpus:
        if gpu.type == "cuda":
            _require_free(plan, gpu)
    return [_Home(gpu, _block(plan, gpu, sharing)) for gpu in gpus]


@dataclass
class NearRows:
    """What a reader has in reach.

    Attributes:
        table: an address, or Tiers.
        first: the number of the row that comes first there.
        rows: how many there are.
        keeps: their memory.
    """

    table: int | Params
    first: int
    rows: int
    keeps: HostTable


class _Tiers:
    """The memory of a TieredTensor, which outlives it until it is given back: above ``whole``, which has all rows."""

    def __init__(
        self, whole: Table, host: HostTable, plan: TierPlan, homes: list[_Home], state: _State, owner: bool = True
    ) -> None:
        self.whole, self.host, self.plan, self.homes, self.state, self.owner = whole, host, plan, homes, state, owner
        self.open, self.flushing = True, threading.RLock()
        self.reader = 0  # whose part the CPU takes where homes are on it

    def require_open(self) -> None:
        if not self.open or self.state.closed:
            whose = "" if self.owner else " by the process that made it"
            raise ConfigError(f"this tiered table has been closed{whose}; make another with ut.tiered(...)")

    def home(self, device: torch.device) -> _Home | None:
        """The home that rows on ``device`` are read through."""
        for home in self.homes:
            if home.device == device:
                return home
        return self.homes[self.reader] if device.type == "cpu" and self.homes and self.homes[0].device.type == "cpu" else None

    def table(self, home: _Home) -> Params:
        """What ``home`` reads through, made when it first does."""
        if home.table is None:
            plan, reader, homes = self.plan, home.device, self.homes
            self.require_open()  # another thread may have closed it before the homes were looked up
            with beside(reader) if reader.type == "cuda" else nullcontext():  # a graph may be captured now
                shards = [h.address(reader) + plan.shard_offset for h in homes] if plan.peer_rows else []
                others = [h.address(reader) for h in homes if h is not home] if plan.local_rows and not plan.unlinked else []
                pointers = torch.tensor([*shards, *others], dtype=torch.int64)
                if pointers.numel() and reader.type == "cuda":
                    pointers = pointers.to(reader)
            own, at = home.address(reader), pointers.data_ptr() if pointers.numel() else 0
            reciprocal = (1 << 63) // plan.gpus + 1 if plan.gpus > 1 else 0
            table = Tiers(
                **self._lookup(own),
                local=own,
                local_rows=plan.local_rows,
                resident=plan.resident,
                dealt=DealtRound(memories=at, count=plan.gpus, reciprocal=reciprocal),
                reader=homes.index(home),
                replicas=at + 8 * len(shards),
                others=len(others),
            )
            table.keeps = [pointers, *(h.memory for h in homes)]
            home.table = table
        return home.table

    def _lookup(self, own: int) -> dict[str, Params]:
        """Where rows of the host lie, and which rows have slots; ``own``: address of the reader's memory."""
        plan = self.plan
        return {
            "host": OneRange(base=self.host.cpu().data_ptr(), rows=plan.rows),
            "map": SlotMap(slots=own + plan.slots_offset if plan.slot_bytes else 0, slot_bytes=plan.slot_bytes),
        }

    def slots_of(self, home: _Home, rows: torch.Tensor) -> torch.Tensor:
        """The slots of ``rows`` (int64, from 0 on), negative for rows on the host."""
        plan = self.plan
        if not plan.slot_bytes:
            return torch.where(rows < plan.resident, rows, -1)
        dtype = torch.int32 if plan.slot_bytes == 4 else torch.int64
        slots = torch.empty(rows.shape, dtype=dtype, device=rows.device)
        copy_rows(home.address(home.device) + plan.slots_offset, plan.rows, plan.slot_bytes, slots, rows)
        return slots

    def near(self, device: torch.device) -> NearRows:
        """What ``device`` reads itself. What the CPU does not, of what GPUs hold, is written back for it."""
        home, host = self.home(device), self.host
        if home is not None:
            return self.through(home)
        if self.homes and device.type == "cuda":
            held = ", ".join(str(home.device) for home in self.homes)
            raise ConfigError(f"row numbers are on {device}, but the tiers are on {held}; name it in devices=")
        if self.homes:
            self.flush()
        self.require_open()  # another thread may have closed it before `host` was looked up
        rows = host.cpu() if device.type == "cpu" else host.cuda(device)
        return NearRows(rows.data_ptr(), self.plan.held - len(host), len(host), host)

    def through(self, home: _Home) -> NearRows:
        """What ``home`` reads."""
        host, table = self.host, self.table(home)
        self.require_open()  # as above; a home's table is made once, and keeps no memory of the host
        return NearRows(table, 0, self.plan.held, host)

    def fill(self, order: torch.Tensor | None) -> None:
        """Copies each row to where it will live; ``order``: hottest first, or None where the first rows are."""
        plan = self.plan
        for i, home in enumerate(self.homes):
            if plan.slot_bytes:
                hottest = torch.arange(plan.resident) if order is None else order[: plan.resident]
                map_slots(home.id_map(plan), hottest)  # first: copies are waited for, and so it is
            self._copy(order, range(plan.local_rows), home, 0)
            self._copy(order, range(plan.local_rows + i, plan.resident, plan.gpus), home, plan.shard_offset)

    def _copy(self, order: torch.Tensor | None, places: range, home: _Home, offset: int) -> None:
        """Packs the rows at ``places`` of the order at ``offset`` of the memory of ``home``: its GPU gathers them, at the
        link's rate, and needs no more memory than for the numbers of a chunk."""
        plan, device = self.plan, home.device if home.device.type == "cuda" else torch.device("cpu")
        table = self.host.cuda(device) if device.type == "cuda" else self.host.cpu()
        for first in range(0, len(places), CHUNK):
            part = places[first : first + CHUNK]
            if order is None:
                rows = torch.arange(part.start, part.stop, part.step, device=device)
            else:
                rows = order[part.start : part.stop : part.step].to(device).contiguous()
            packed, host = home.part(offset + first * plan.row_bytes, len(part) * plan.row_bytes), self.host
            scattered = order is not None and device.type == "cuda"
            sort = scattered and sorts(host.placement, len(part), plan.row_bytes, host.nbytes, host.managed_bytes)
            visit = visiting_order(rows, plan.row_bytes, host.nbytes) if sort else None
            copy_rows(table.data_ptr(), plan.rows, plan.row_bytes, packed, rows, visit=visit)

    def worker(self, home: _Home) -> tuple[torch.device, NearRows]:
        """Who copies rows from or to the memory of ``home``, and by what: its GPU, or the CPU."""
        return home.device if home.device.type == "cuda" else torch.device("cpu"), self.through(home)

    def flush(self) -> None:
        """Writes rows that are ahead of the table below to it, in parts of bounded size."""
        with self.flushing:  # whoever reads that table next waits for it
            if not self.state.written:
                return
            self._wait()
            self.state.written = 0  # first: what is written meanwhile is not written back
            try:
                self._write_back()
            except BaseException:
                self.state.written = 1
                raise

    def _write_back(self) -> None:
        """Copies the rows of GPU memory to the host's table."""
        plan, (device, near) = self.plan, self.worker(self.homes[0])
        step = max(1, BOUNCE_BYTES // max(plan.row_bytes, 8))
        for begin in range(0, plan.rows, step):
            rows = torch.arange(begin, min(begin + step, plan.rows), device=device)
            rows = rows[self.slots_of(self.homes[0], rows) >= 0]
            packed = torch.empty((len(rows), plan.row_bytes), dtype=torch.uint8, device=device)
            copy_rows(near.table, near.rows, plan.row_bytes, packed, rows)
            copy_rows(self.host.cpu().data_ptr(), plan.rows, plan.row_bytes, packed, rows, into_table=True)

    def _wait(self) -> None:
        """Until no kernel of this process can still write to the tiers, or read them."""
        for home in self.homes:
            if home.device.type == "cuda" and (home.table is not None or isinstance(home.memory, GpuBlock)):
                torch.cuda.synchronize(home.device)

    def close(self) -> None:
        if not self.open:
            return
        if self.owner:
            self.flush()
            self.state.closed = 1
        self.open = False
        self._wait()
        for home in self.homes:
            if isinstance(home.memory, ForeignBlock):
                home.memory.close()
        self.homes = []


def _close(tiers: _Tiers, process: int) -> None:
    if os.getpid() != process:  # a forked child holds a copy, but CUDA's handles are its parent's alone
        return
    try:
        tiers.close()
    except StorageError as error:  # of a table below that was closed, or whose disk is full: nobody is there to catch it
        warnings.warn(f"rows that were written last are lost: {error}", ResourceWarning, stacklevel=2)
    except IndexOutOfRange:  # of an earlier call with a deferred check, told only now; it is no reason to lose rows
        tiers.close()
        raise


def attach(host: HostTable, plan: TierPlan, homes: list[tuple[torch.device, Any]], state: Buffer) -> TieredTensor:
    """A table over tiers that another process made."""
    return TieredTensor(_Tiers(host, host, plan, [_Home(*home) for home in homes], _State.over(state), owner=False))


def _attached(table: TieredTensor) -> tuple[Any, ...]:
    tiers = table._tiers
    tiers.require_open()
    return attach, (tiers.host, tiers.plan, [(home.device, home.memory) for home in tiers.homes], tiers.state.buffer)


share(TieredTensor, _attached)


def listed_devices(devices: Devices) -> list[torch.device | str | int]:
    """One or several as a list; ConfigError for what is none."""
    try:
        return [devices] if isinstance(devices, str | int | torch.device) else list(devices)
    except (TypeError, RuntimeError):  # the last is a tensor's
        raise ConfigError(f"devices are GPUs, as ['cuda:0', 'cuda:1'], not {repr_of(devices)}") from None


def unlinked_pair(gpus: Sequence[torch.device]) -> str:
    """Which GPU cannot read which, in words; empty where all can."""
    pair = unlinked([gpu for gpu in gpus if gpu.type == "cuda"])
    return "" if pair is None else f"{pair[0]} cannot read the memory of {pair[1]}"


def holders(devices: Devices | None) -> list[torch.device]:
    """The GPUs that hold tiers. CPUs are numbered: each stands for a GPU, with host memory for its own."""
    if devices is None:
        return machine.gpus()
    found = [machine.as_device(device) for device in listed_devices(devices)]
    kinds = {device.type for device in found}
    if len(kinds) > 1:
        raise ConfigError(
            f"tiers are in GPUs or in host memory that stands for them, not in both: {', '.join(map(str, found))}"
        )
    if kinds == {"cpu"}:
        return [torch.device("cpu", i) for i in range(len(found))]
    if len(set(found)) < len(found):
        raise ConfigError(f"a GPU holds tiers of a table once, but devices names {', '.join(map(str, found))}")
    return found


def _require_free(plan: TierPlan, gpu: torch.device) -> None:
    free = machine.free_bytes(gpu)
    if plan.held_bytes > free:
        raise OutOfMemory(
            f"the tiers take {format_bytes(plan.held_bytes)} on {gpu} ({plan.local_rows:,} local rows, {plan.shard_rows:,} of "
            f"{plan.peer_rows:,} dealt out, id map {format_bytes(plan.rows * plan.slot_bytes)}), but {format_bytes(free)} is "
            "free; ask for a smaller local= or peers="
        )


def _block(plan: TierPlan, gpu: torch.device, sharing: str) -> Buffer | GpuBlock:
    if gpu.type == "cpu":
        return allocate(plan.block_bytes, sharing)
    try:
        return GpuBlock(plan.block_bytes, gpu)
    except torch.OutOfMemoryError as error:
        asked = f"{format_bytes(plan.block_bytes)} asked for on {gpu}"
        raise OutOfMemory(f"{asked}: {error}; ask for a smaller local= or peers=") from error


def map_slots(slots: torch.Tensor, hottest: torch.Tensor) -> torch.Tensor:
    """Writes an id map, int32 or int64 ``[rows]``: the slot of each row, -1 for none. ``hottest`` (int64 ``[n]`` on any device)
    have the first ones."""
    slots.fill_(-1)
    first = 0
    for part in hottest.split(CHUNK):
        slots[part.to(slots.device)] = torch.arange(first, first + len(part), dtype=slots.dtype, device=slots.device)
        first += len(part)
    return slots
