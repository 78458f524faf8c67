"""Pages that a kernel asks for by itself: a cache in the processor's memory, queues that its threads drive, and host threads
that serve these as an NVMe device would (Mailthody 2022, chapter 5; native/storage/controller.hpp)."""

from __future__ import annotations

import bisect
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import torch

from .. import _core
from ..memory.allocator import Buffer, allocate
from ..runtime import arguments
from ..runtime.collected import is_later
from ..runtime.errors import ConfigError, HinterlandError, IndexOutOfRange, StorageError
from ..runtime.files import opening
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.params import Params, struct
from ..runtime.repr import Repr, Size
from ..runtime.thresholds import CONTROLLER_DEPTH
from ..runtime.units import parse_bytes
from ..runtime.warned import warn_once
from .driven import DrivenDevice, drivable
from .layout import Volume
from .stats import StorageStats
from .volume import MODES

_Store, _Cache = struct("storage::DeviceStore"), struct("storage::Cache<storage::ClockPolicy>")
_Channel, _Queue, _Blocks = struct("storage::Channel"), struct("storage::QueuePair"), struct("storage::BlockRange")
_Control, _Array, _Flush = struct("storage::StoreControl"), struct("memory::ArrayWords"), struct("storage::FlushParams")
_WAYS = 8  # slots of a set: include/hinterland/storage/cache.hpp
_MOST_STAGING = 1 << 30  # of host memory that is registered at once
# Of a slot's word: include/hinterland/storage/line.hpp.
_BUSY, _VALID, _DIRTY, _WRITING, _FAILED = (1 << bit for bit in range(17, 22))
_PAGE_SHIFT, _LEAST_PAGE_BITS = 23, 17  # of the page in it, and of its number; what is above them counts turns
_STAGE, _GIVEN_UP = 7, 3  # of a command's state: include/hinterland/storage/queue.hpp
_OF_WRITE = _core.STATUS_OF_WRITE
_NOT_ANSWERED, _OUT_OF_RANGE = 0x371, 0x080  # statuses: include/hinterland/storage/nvme.hpp
_LONGEST_LINE = 65536  # of which backings have whole ones
_LONG_LINE = 8192  # from which on a command needs a list of PRPs
_ALIGNED = 4096  # frames begin at a page
_ROUNDED = 1 << 20  # torch's allocator may set aside so much more than it is asked for, if that is more
_PARTS, _ALLOCATIONS = 12, 4  # of a store's memory, of no more than a page or two; and those that may be so large
_SIZES = 4  # of elements that are counted: include/hinterland/storage/page_store.hpp
_SLOT_WORDS = 12  # bytes of a slot beside its frame; a set has 4 more

# Of stores that are open: whose memory was garbage as well could not be flushed, for its finalizer comes before theirs.
_in_use: set[Buffer] = set()

KERNELS = KernelFile("storage/flush.cu", ("write_back_kernel", "flush_kernel"), separate_module=True)


class OpenFiles(Protocol):
    """A table's files, as a ``StorageArray`` has them open."""

    @property
    def volume(self) -> Volume: ...

    @property
    def origin(self) -> int: ...

    @property
    def open_paths(self) -> tuple[str, ...]: ...

    @property
    def file_position(self) -> int: ...

    @property
    def mode(self) -> str: ...


@dataclass(frozen=True)
class Backing:
    """What a store's device has: a file, or ``parts``.

    ``stripe`` bytes are dealt to each part in turn, from its byte ``base`` on; with 0 each is a copy.

    ``held``: the mode of the array that has it open, which is its writer then; a store writes it if that is ``"r+"``."""

    path: str = ""
    parts: tuple[Backing, ...] = ()
    stripe: int = 0
    base: int = 0
    held: str | None = None

    @classmethod
    def of(cls, array: OpenFiles, mode: str | None = None) -> Backing:
        """The files of an array, as they are open there; ``mode``: also by another, which may write."""
        volume, parts = array.volume, tuple(cls(path=path, held=mode or array.mode) for path in array.open_paths)
        return parts[0] if len(parts) == 1 and not volume.stripe else cls(parts=parts, stripe=volume.stripe, base=volume.base)

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        if self.parts:
            return ", ".join(part.name for part in self.parts)
        return os.path.realpath(self.path)

    def blocks(self, writable: bool, copies: list[tuple[Backing, Any]]) -> _core.Namespace:
        """For a controller. What has copies is added to ``copies``, with its blocks, which count reads that failed."""
        if not self.parts:
            writes = writable and self.held != "r"
            return _core.file_blocks(os.fspath(self.path), writes, CONTROLLER_DEPTH, claims=self.held is None)
        spread = _core.spread_blocks([part.blocks(writable, copies) for part in self.parts], self.stripe, self.base)
        if not self.stripe:
            copies.append((self, spread))
        return spread


def _parts(depth: int) -> list[int]:
    """Bytes of what a queue pair of so many entries has in the device's memory, in order: whole lines."""
    sizes = (_core.QUEUE_CONTROL_BYTES, 4 * depth, 4 * depth, _core.COMMAND_BYTES * depth)
    return [-(-size // 128) * 128 for size in sizes]


class Queues(NamedTuple):
    """How many queue pairs there are, and entries of each ring, each with a line of pinned host memory."""

    channels: int
    depth: int

    @classmethod
    def within(cls, host_bytes: int, line_bytes: int, needed: int = 0, device_bytes: int | None = None) -> Queues:
        """As many as ``host_bytes`` have room for, and ``device_bytes`` of the device's memory; at least one of four entries.
        Where what lies behind them is known to need no more than ``needed`` requests under way (``Roofline.needed``), as few as
        these take."""
        shallow = [cls(4, 32), cls(2, 32), cls(1, 32), cls(1, 16), cls(1, 8)]
        deep = [cls(8, 64), cls(16, 64), *(cls(32, 1 << shift) for shift in range(6, 9))]
        enough = next((i for i, queues in enumerate(deep) if 0 < needed <= queues.lines), len(deep) - 1)
        most = min(host_bytes, _MOST_STAGING)
        fit = (queues for queues in (*deep[enough::-1], *shallow) if queues.host_bytes(line_bytes) <= most)
        return next((queues for queues in fit if device_bytes is None or queues.words_bytes <= device_bytes), cls(1, 4))

    def host_bytes(self, line_bytes: int) -> int:
        """Of pinned memory: rings and doorbells, lines, and lists of PRPs where a line is longer than two memory pages."""
        lists = _core.PRP_LIST_BYTES if line_bytes > _LONG_LINE else 0
        return int(_core.queue_layout(self.channels, self.depth, self.depth)["bytes"]) + self.lines * (line_bytes + lists)

    @property
    def lines(self) -> int:
        """That can be on their way at once."""
        return self.channels * self.depth

    @property
    def words_bytes(self) -> int:
        """What lies of them in the device's memory."""
        return self.channels * sum(_parts(self.depth))

    @property
    def device_bytes(self) -> int:
        """At most, of the device's memory, beside the cache: what lies there of the queues, and what torch sets aside."""
        return self.words_bytes + _ALIGNED + _ROUNDED * _ALLOCATIONS

    def rest_of(self, budget: int) -> int:
        """Of a device's memory, what they leave for lines. Torch sets aside up to a MiB more for each allocation that is larger
        than that, of which 2n MiB have room for n; or there is none so large."""
        large = min(_ALLOCATIONS, -(-budget // (2 * _ROUNDED)))
        return max(budget - large * _ROUNDED, min(budget, _ROUNDED)) - self.words_bytes - _PARTS * _ALIGNED


MOST_QUEUES = Queues(32, 256)


class Controller(Repr):
    """Host threads that serve the queues of one store, or of several, perhaps on several GPUs.

    Args:
        backing: what is read. Several lie one after the other in one space of bytes: see ``begins``.
        threads: that serve the queues.
        mode: ``"r"``; or ``"r+"``, where one store alone may join, since caches of several would differ.

    Raises:
        StorageError: a file cannot be opened, or is open for writing elsewhere.
    """

    block_bytes, namespace_id = _core.CONTROLLER_BLOCK_BYTES, _core.CONTROLLER_NAMESPACE
    most_channels = most_entries = 65536

    def __init__(self, backing: Backing | Sequence[Backing], threads: int = 4, mode: str = "r") -> None:
        self.backings = [backing] if isinstance(backing, Backing) else list(backing)
        self.threads, self.mode = threads, arguments.one_of("mode", mode, MODES)
        self._copies: list[tuple[Backing, Any]] = []
        each = [one.blocks(mode == "r+", self._copies) for one in self.backings]
        row = _core.blocks_in_a_row(each)
        self._blocks = each[0] if len(each) == 1 else row
        self.blocks = int(self._blocks.blocks)
        self.begins: list[int] = row.begins
        self._queues: list[tuple[int, int, int, int]] = []
        self._regions: list[tuple[int, int]] = []
        self._memory: list[Buffer] = []  # that commands name
        self._native: _core.Controller | None = None
        self._ended: list[dict[str, int]] | None = None  # with what its threads had done
        self._stores = self._failed_reads = 0
        self._starting = threading.Lock()

    def join(
        self, memory: Buffer, queues: tuple[int, int, int, int], region: tuple[int, int], _gpu: torch.device
    ) -> tuple[int, list[dict[str, int]]]:
        """Serves a store's queues, too: where they lie in ``memory`` (``_core.Controller``), and what their commands may name.
        Returns where the memory begins for the threads, and no doorbells but those beside the rings.

        Raises:
            ConfigError: a store was live already: a device's queues are there before its threads. Or this one would be a second
                writer, or all have left.
        """
        with self._starting:
            if self._ended is not None:
                raise ConfigError("this controller has ended with its last store; make another")
            if self.mode == "r+" and self._stores:
                raise ConfigError("what one store's cache has written another's would not see; give the controller mode 'r'")
            if self._native is not None:
                raise ConfigError("this controller is at work already; make all stores before the first of them is live")
            self._stores += 1
            self._memory.append(memory)
            self._queues.append(queues)
            self._regions.append(region)
            return memory.address, []

    def leave(self) -> None:
        """A store is closed. With the last the threads end, and files are closed."""
        with self._starting:
            self._stores -= 1
            if self._stores == 0:
                if self._native is not None:
                    self._native.stop()
                self._ended = self.served()
                self._failed_reads = self.failed_reads()
                self._copies, self._native = [], None
                del self._blocks

    def start(self) -> None:
        """Begins to serve, if it has not: all stores have joined."""
        with self._starting:
            if self._native is None:
                self._native = _core.Controller(self._queues, self._regions, self._blocks, self.threads)
                self._native.start()

    def acquire(self) -> None:
        """The threads are awake until as many :meth:`release`."""
        self.start()
        assert self._native is not None
        self._native.acquire()

    def release(self) -> None:
        """The threads may sleep again. Warns of copies that could not be read, so that others were."""
        assert self._native is not None
        self._native.release()
        for backing, blocks in self._copies:
            for part, failed in zip(backing.parts, blocks.failed_reads, strict=True):
                if failed:
                    sentence = f"{part.name} could not be read everywhere; another copy is read in its place: replace this one"
                    warn_once(sentence, sentence)

    def failed_reads(self) -> int:
        """Of one copy, so that another was asked."""
        return self._failed_reads + sum(sum(blocks.failed_reads) for _, blocks in self._copies)

    def served(self) -> list[dict[str, int]]:
        """What each thread has done."""
        if self._ended is not None:
            return self._ended
        return [] if self._native is None else list(self._native.stats())

    @property
    def names(self) -> str:
        """Of all that is read, for sentences."""
        return ", ".join(one.name for one in self.backings)

    def place_of(self, byte: int) -> tuple[str, int]:
        """What lies at a byte, for sentences, and the byte there."""
        number = bisect.bisect_right(self.begins, byte) - 1
        return self.backings[number].name, byte - self.begins[number]

    def _facts(self) -> dict[str, Any]:
        return {"backings": [one.name for one in self.backings], "threads": self.threads, "stores": self._stores}


class DeviceStore(Repr):
    """A cache on a device, and the queues behind it, which the threads of a controller serve.

    Args:
        backing: what is read, and written, also several; or a controller that serves other stores as well. A bare device
            alone serves the queues itself (driven.py), if its commands are as long as a line, and it ends with a whole one.
        device: a GPU; or the CPU, where the same code runs for tests.
        budget: bytes of the device's memory for lines and what finds them.
        line_bytes: a power of two from 512 to 65536.
        channels: queue pairs; more let more multiprocessors ask at once.
        depth: entries of each ring, a power of two; fewer, down to four, if all together were more than half of the lines. Each
            has a line of pinned host memory for what comes from the device.
        threads: of the host that serve the queues, if the controller is this store's own; else its threads and ``mode`` hold.
        timeout: seconds that a command may take.
        mode: ``"r"``, or ``"r+"`` where kernels write as well. A file has one writer at a time, and any number of readers.
        hole: ``(number, first, end)``: bytes of the backing of this number that are zeros, and that nobody else writes
            (:func:`hole_of`). Their lines are not read before they were written; a bit for each is within the budget, of
            which the bits take a sixteenth at the most: what lies behind is read.

    Raises:
        ConfigError: a budget that holds no set of lines, more pinned memory than a gibibyte, or another mode.
        OutOfMemory: as allocating does.
        StorageError: the file cannot be opened, or is open for writing elsewhere.
    """

    def __init__(
        self,
        backing: Backing | Sequence[Backing] | Controller | DrivenDevice,
        device: torch.device,
        budget: int | str = "256MiB",
        line_bytes: int = 4096,
        *,
        channels: int = MOST_QUEUES.channels,
        depth: int = MOST_QUEUES.depth,
        threads: int = 4,
        timeout: float = 30.0,
        mode: Literal["r", "r+"] = "r",
        hole: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self.device, self.line_bytes, self.budget = device, line_bytes, parse_bytes(budget)
        bits = (
            min(-(-(hole[2] - hole[1]) // line_bytes // 32), self.budget // 64) * 4
        )  # of the hole's lines: whole words of them
        sets = (self.budget - bits) // set_bytes(line_bytes)
        if sets == 0:
            raise ConfigError(f"{self.budget} bytes hold no set of {_WAYS} lines of {line_bytes} bytes; give more")
        self.num_slots = sets * _WAYS
        if channels * depth * line_bytes > _MOST_STAGING:
            raise ConfigError(f"{channels} queues of {depth} lines of {line_bytes} bytes are more than a gibibyte; give fewer")
        # With more than half of the lines on their way, those that have come would give way before who wants them comes by.
        self.controller = _controller(backing, threads, mode, line_bytes)
        self.mode = self.controller.mode
        channels = min(channels, max(self.num_slots // 8, 1), self.controller.most_channels)
        depth = min(depth, 1 << max((self.num_slots // (2 * channels)).bit_length() - 1, 2), self.controller.most_entries)
        staging = channels * depth * line_bytes
        layout = _core.queue_layout(channels, depth, depth)
        lists = channels * depth * _core.PRP_LIST_BYTES if line_bytes > _LONG_LINE else 0
        nbytes = -(-(layout["bytes"] + staging + lists) // _ALIGNED) * _ALIGNED
        self._shared = _pinned(nbytes, device)  # rings and doorbells, lines, lists of PRPs
        base = self._shared.address
        self._shared.tensor(torch.uint8, torch.Size([self._shared.nbytes])).zero_()
        self.held: list[torch.Tensor] = []
        self._control = self._zeros(_size(_Control))
        region = (base + layout["bytes"], staging + lists)
        there, doorbells = self.controller.join(self._shared, (base, channels, depth, depth), region, device)
        queues = [{name: base + offset for name, offset in at.items()} for at in layout["queues"]]
        for at, own in zip(queues, doorbells, strict=False):
            at.update(own)
        channel_words = self._channels(queues, depth, region[0], there - base, bool(lists))
        per_line = line_bytes // self.controller.block_bytes
        self._pages = (1 << max((self.controller.blocks // per_line).bit_length(), _LEAST_PAGE_BITS)) - 1
        frames = self._memory(self.num_slots * line_bytes)
        lines = self.num_slots + 1  # and a word that says how a flush goes
        self._slots = self._zeros(8 * lines).view(torch.int64)
        self._statuses = self._zeros(4 * lines).view(torch.int32)
        cache = _Cache(
            words=self._slots.data_ptr(),
            statuses=self._statuses.data_ptr(),
            sets=self._zeros(4 * sets).data_ptr(),
            frames=frames.data_ptr(),
            num_sets=sets,
            line_bytes=line_bytes,
            pages=self._pages,
        )
        blocks = _Blocks(
            namespace_id=self.controller.namespace_id,
            block_bytes=self.controller.block_bytes,
            blocks=self.controller.blocks // per_line * per_line,
        )
        store = _Store(
            cache=cache,
            blocks=blocks,
            channels=channel_words.data_ptr(),
            num_channels=channels,
            control=self._control.data_ptr(),
            timeout_ns=int(timeout * 1e9),
            **self._hole(hole, bits),
        )
        self.words = store.on(device)
        self._running, self._runs, self._has_failed, self._failed_commands = threading.Condition(), 0, False, 0
        self._open, self._process = True, os.getpid()
        _in_use.add(self._shared)
        if self.controller is not backing:
            self.controller.start()

    def _hole(self, hole: tuple[int, int, int], bits: int) -> dict[str, int]:
        """What kernels know of it, by pages that lie in it whole."""
        number, first, end = hole
        begin = self.controller.begins[number]
        first = -(-(begin + first) // self.line_bytes)
        end = min((begin + end) // self.line_bytes, first + 8 * bits)
        return {"hole_first": first, "hole_end": end, "hole_met": self._zeros(bits).data_ptr()} if first < end else {}

    def _channels(self, queues: list[dict[str, int]], depth: int, lines: int, shift: int, lists: bool) -> torch.Tensor:
        """The words of all channels, in memory of the device. ``shift``: from addresses of this process to those of who serves
        them."""
        staged, words = depth * self.line_bytes, b""
        first_list = lines + len(queues) * staged
        sizes = _parts(depth)
        here = torch.zeros(len(queues) * sum(sizes), dtype=torch.uint8)
        there = self._memory(len(here))
        for number, rings in enumerate(queues):
            list_at = first_list + number * depth * _core.PRP_LIST_BYTES if lists else 0
            own = ("control", "marks", "free_identifiers", "commands")

            def channel(memory: torch.Tensor) -> Params:
                first = number * sum(sizes)  # noqa: B023
                parts = {name: memory[first + sum(sizes[:i]) :].data_ptr() for i, name in enumerate(own)}  # noqa: B023
                queue = _Queue(**rings, **parts, submission_size=depth, completion_size=depth)  # noqa: B023
                line = lines + number * staged  # noqa: B023
                seen = {"address": line + shift, "lists_address": list_at + shift}  # noqa: B023
                return _Channel(queue=queue, lines=line, lists=list_at, **seen)  # noqa: B023

            prepared = channel(here)
            _core.prepare_channel(_core.address_of(prepared), self.line_bytes)  # it has a field called address
            words += bytes(channel(there))
        self._queues = there.copy_(here), here, sizes
        held = torch.frombuffer(bytearray(words), dtype=torch.uint8).to(self.device)
        self.held.append(held)
        return held

    def _memory(self, nbytes: int) -> torch.Tensor:
        made = torch.empty(nbytes + _ALIGNED, dtype=torch.uint8, device=self.device)
        at = -made.data_ptr() % _ALIGNED
        self.held.append(made)
        return made[at : at + nbytes]

    def _zeros(self, nbytes: int) -> torch.Tensor:
        return self._memory(nbytes).zero_()

    @property
    def address(self) -> int:
        """Of the store's :attr:`words`, in the device's memory: ``ArrayWords::store``."""
        return self.words.data_ptr()

    def move_to(self, words: torch.Tensor) -> None:
        """Kernels of all streams find it there from now on (:func:`store_words`)."""
        self.words = words.copy_(self.words)
        self._wait()

    @property
    def line_words(self) -> torch.Tensor:
        """What kernels know of each line (include/hinterland/storage/line.hpp): int64 ``[num_slots]`` on the device."""
        return self._slots[:-1]

    @property
    def nbytes(self) -> int:
        """Bytes of the device's memory that it takes."""
        return sum(part.nbytes for part in self.held) + self.words.nbytes

    @contextmanager
    def live(self) -> Iterator[None]:
        """A with-block in which kernels on the current stream use the store: the controller's threads are awake. Its end waits
        for that stream.

        Raises:
            StorageError: it was closed; or a page could not be read, and what kernels found there was zeros; or written, as
                :meth:`flush` says.
            IndexOutOfRange: a page that is none of the backing's was to be read.
        """
        self._begin_run()
        try:
            self.controller.acquire()
            try:
                yield
            except BaseException:
                self._has_failed = True  # perhaps, and nobody looks
                raise
            finally:
                try:
                    self._wait()
                finally:
                    self.controller.release()
            self._check()
        finally:
            with self._running:
                self._runs -= 1
                self._running.notify_all()

    def _begin_run(self) -> None:
        """What has failed is read anew by the next run that begins alone: of several nobody knows whose it was."""
        with self._running:
            if not self._open:
                raise StorageError(f"{self.controller.names} was closed; open it again with StorageArray.open")
            if self._runs == 0 and self._has_failed:
                self._settle()
                self._control[:8].zero_()
                lines = self.line_words
                lines[(lines & (_BUSY | _VALID | _FAILED)) == _FAILED] = 0
                self._wait()
                self._has_failed = False
            self._runs += 1

    def _settle(self) -> None:
        """What a device that is driven from here was given up on keeps its line and its identifier as long as it may answer: it
        is told to end that, and the queues are empty then."""
        there, prepared, sizes = self._queues
        if not isinstance(self.controller, DrivenDevice):
            return
        commands = there.view(-1, sum(sizes))[:, sum(sizes[:3]) :].contiguous().view(torch.int64)
        states = commands[:, :: _core.COMMAND_BYTES // 8] & _STAGE
        if not (self.controller.lost or bool((states == _GIVEN_UP).any())):
            return
        self.controller.reopen()
        there.copy_(prepared)
        lines = self._slots
        lines[lines & _BUSY != 0] &= ~(_BUSY | _FAILED)
        unwritten = lines & _WRITING != 0
        lines[unwritten] = lines[unwritten] & ~_WRITING | _DIRTY

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def flush(self) -> None:
        """What kernels wrote before is in the file, on the disk, when this returns. Kernels that run meanwhile are waited for.

        Raises:
            StorageError: the first page that could not be written, or that the device could not make it durable. What was not
                written is still held, and the next flush tries again.
        """
        if self.mode != "r+":
            return
        params = _Flush(store=self.address)
        with self.live():
            if self.device.type == "cpu":
                _core.flush_stored(params.address)
                return
            torch.cuda.synchronize(self.device)  # other streams as well
            block = _core.FLUSH_THREADS
            blocks = min(resident_blocks(KERNELS, "write_back_kernel", self.device, block), -(-self.num_slots // block))
            launch(KERNELS, "write_back_kernel", self.device, blocks, block, params)
            launch(KERNELS, "flush_kernel", self.device, 1, 1, params)

    def _check(self) -> None:
        """StorageError if a page could not be read or written since a run began alone."""
        control = _Control.read(self._control)
        failed = sum(one["failed"] for one in self.controller.served())
        uncounted = isinstance(self.controller, DrivenDevice)
        # Of what was asked for ahead, perhaps, and nobody wanted it.
        self._has_failed |= uncounted or failed != self._failed_commands
        self._failed_commands = failed
        status = control.status
        if status == 0:
            return
        self._has_failed = True
        page, code, writes = status >> 16 & (1 << 48) - 1, status & _OF_WRITE - 1, bool(status & _OF_WRITE)
        lines = self.line_words
        unwritten = ((lines & (_DIRTY | _FAILED)) == _DIRTY | _FAILED).nonzero()[:, 0]
        if len(unwritten) and code == _NOT_ANSWERED and not writes:  # who waited for room waited for these
            page, code, writes = int(lines[unwritten[0]]) >> _PAGE_SHIFT & self._pages, int(self._statuses[unwritten[0]]), True
        if code & 0x7FF == _OUT_OF_RANGE and not writes:
            raise IndexOutOfRange(
                f"a kernel has read what lies before or behind {self.controller.names}; look for an index below 0 or beyond "
                "the end of its array"
            )
        raise StorageError(self._failure(page, code, writes))

    def _failure(self, page: int, code: int, writes: bool) -> str:
        name, at = self.controller.place_of(page * self.line_bytes)
        where = f"{name}: the bytes from {at} on could not be {'written' if writes else 'read'}"
        if page == _core.WHOLE_DEVICE:
            where = f"{self.controller.names}: what was written could not be made durable"
        late = ", it was not answered in time" if code == _NOT_ANSWERED else ""
        kept = ""
        if writes:
            kept = "; what was not written is kept, and the next flush() tries again"
        return f"{where}: NVMe status {code & 0x7FF:#05x} (type {code >> 8 & 7}, code {code & 0xFF:#04x}){late}{kept}"

    def stats(self) -> StorageStats:
        """What was moved since it was made: lines, elements that kernels of the user's own asked for, and, of all stores of the
        controller, the processor time of its threads and the reads that copies failed."""
        counts = self.counts()
        reads, writes = counts["reads"], counts["writes"]
        begin = _Control.asked.offset
        asked = self._control[begin : begin + _Control.asked.size].view(torch.int64).view(-1, _core.ASKED_WORDS).sum(0).tolist()
        elements, waited = asked[:_SIZES], asked[_SIZES]
        cpu_seconds = sum(one["cpu_ns"] for one in self.controller.served()) / 1e9
        moved = (reads, writes, reads * self.line_bytes, writes * self.line_bytes, sum(elements) - waited, reads)
        wanted = sum(count << shift for shift, count in enumerate(elements))
        failed = self.controller.failed_reads()
        return StorageStats(*moved, cpu_seconds, failed, waited=waited, wanted_bytes=wanted)

    def counts(self) -> dict[str, int]:
        """Lines that were asked for since it was made, by ``reads`` and ``writes``."""
        control = _Control.read(self._control)
        return {"reads": control.reads, "writes": control.writes}

    def array(self, position: int, number: int = 0) -> Params:
        """The words of an array that begins at this byte of the backing of this number, a multiple of its elements' size, not
        0."""
        return _Array(home=self.controller.begins[number] + position, store=self.address)

    def close(self) -> None:
        """Flushes what was written, and leaves the controller, whose threads end with its last store. No kernel may use the
        store any more. In a forked process it is let go alone: threads and files are the parent's.

        Raises:
            StorageError: as :meth:`flush`; the store stays open then.
        """
        if os.getpid() != self._process:
            self._open = False
        if self._open:
            self.flush()
            self.discard()

    def drain(self) -> None:
        """Waits for kernels of other threads that use the store."""
        with self._running:
            self._running.wait_for(lambda: self._runs == 0)

    def discard(self) -> None:
        """As :meth:`close`, and what was not flushed is lost. It waits for kernels of other threads that use the store."""
        with self._running:
            self._running.wait_for(lambda: self._runs == 0)
            if not self._open:
                return
            self._open = False
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.controller.leave()
        _in_use.discard(self._shared)

    def __del__(self) -> None:
        if not getattr(self, "_open", False) or is_later(self.__del__):
            return
        try:
            self.close()
        except HinterlandError as error:  # nobody is there to catch it
            warnings.warn(f"what kernels wrote last is lost: {error}", ResourceWarning, stacklevel=2)
            self.discard()

    def _facts(self) -> dict[str, Any]:
        return {"device": self.device, "budget": Size(self.budget), "line_bytes": self.line_bytes, "served_by": self.controller}


def set_bytes(line_bytes: int) -> int:
    """What a set of lines takes with what finds them, the least that a store holds."""
    return _WAYS * (line_bytes + _SLOT_WORDS) + 4


def store_words(device: torch.device) -> torch.Tensor:
    """Memory for the words of a store, or of several one after the other: uint8 on the device."""
    return torch.zeros(_size(_Store), dtype=torch.uint8, device=device)


def hole_of(path: str, begin: int) -> tuple[int, int]:
    """The bytes from ``first`` to ``end`` of a file, from byte ``begin`` on, where nothing was ever written, so that they are
    zeros, as in a new array's. ``end`` is behind the file's where all the rest is so. None if the file system does not say.

    Raises:
        StorageError: it cannot be opened.
    """
    with opening(path, "read"), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
        if first >= size:
            return 0, 0
        try:
            return first, os.lseek(file.fileno(), first, os.SEEK_DATA)
        except OSError:  # there is none
            return first, -(-size // _LONGEST_LINE) * _LONGEST_LINE


def _controller(
    backing: Backing | Sequence[Backing] | Controller | DrivenDevice, threads: int, mode: str, line_bytes: int
) -> Controller | DrivenDevice:
    """Who serves a store's queues: a bare device by itself, if it can."""
    if isinstance(backing, Controller | DrivenDevice):
        return backing
    backings = [backing] if isinstance(backing, Backing) else list(backing)
    device = drivable(backings[0].path, line_bytes) if len(backings) == 1 else None
    return Controller(backings, threads, mode) if device is None else DrivenDevice(backings[0], device, mode)


def _pinned(nbytes: int, device: torch.device) -> Buffer:
    return allocate(nbytes, "pinned" if device.type == "cuda" else "pageable")


def _size(of: type[Params]) -> int:
    return len(bytes(of()))
