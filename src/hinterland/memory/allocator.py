"""Host memory that GPUs address: one way to ask for it, four ways to map it.

==========  =========================================================  ========================================
mapping     what it is                                                 when
==========  =========================================================  ========================================
managed     managed memory kept on the host, every GPU mapped to it    the default with CUDA: random rows at the
            in large pages                                             link's speed (docs/memory.md)
pinned      shared memory, page-locked and mapped for every GPU        tables that several processes share
split       managed from its beginning on, the rest pinned            what is more than may be mapped (mapping.py)
system      plain pages, read by page tables that GPUs share with the  where the CPU's own page tables are shared
            CPU                                                        (Grace); by name where the driver follows them
                                                                       (HMM). Not tried by us
pageable    plain pages that no GPU sees                               without CUDA
==========  =========================================================  ========================================
"""

from __future__ import annotations

import os
import weakref
from collections import Counter, deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing import reduction
from typing import Any, ClassVar

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.capture import captures
from ..runtime.errors import ConfigError, DeviceError, OutOfMemory
from ..runtime.thresholds import ALWAYS_FITS
from ..runtime.units import format_bytes
from ..runtime.warned import warn_once
from . import cuda
from .limits import require_host_memory
from .mapping import GRAIN, REMEDY, Limit, MappingPlan, managed_limit, plan_mapping, refuse
from .rate import LEAST_MEASURED, check_rate, refusal
from .registry import buffers as _held
from .registry import host_bytes, managed_bytes
from .registry import lock as _lock

_TRIES = 8  # for two mappings to lie beside each other: one, unless the address space has holes of just that size
PART_BYTES = 512  # every part of a block begins at a multiple of it, and is padded to one
MAPPINGS = ("host", "managed", "pinned", "system", "pageable")


class Buffer:
    """``nbytes`` bytes of host memory at ``address``, the first ``managed`` of them managed memory.

    Released once, when the last tensor over it is gone. What is left when the interpreter exits is the system's to release:
    until the process is gone, finalizers and daemon threads may read it.

    Attributes:
        ours: whether it was allocated here; else it is another's (existing.py), and in no limit.
        writable: whether tables over it may be written.
    """

    ours: ClassVar[bool] = True
    writable: bool = True

    def __init__(self, address: int, nbytes: int, mapping: str, release: ExitStack, fd: int = -1, managed: int = 0) -> None:
        self.address = address
        self.nbytes = nbytes
        self.mapping = mapping
        self.managed = managed
        self.name = ""
        self.plan: MappingPlan | None = None  # by which it came to lie so, where there was a choice
        self._fd = fd
        self._release = weakref.finalize(self, _close, release, os.getpid())
        self._release.atexit = False
        with _lock:
            _held.add(self)

    def tensor(self, dtype: torch.dtype, shape: torch.Size, device: torch.device | None = None) -> torch.Tensor:
        """The first bytes as a tensor of the CPU, or of the GPU ``device``: no copy. It keeps this buffer alive."""
        nbytes = shape.numel() * dtype.itemsize
        if nbytes == 0:
            return torch.empty(shape, dtype=dtype, device=device)
        index = -1 if device is None else device.index
        view = _core.byte_view(self.address, nbytes, self, index)
        return torch.utils.dlpack.from_dlpack(view).view(dtype).view(shape)

    def __reduce__(self) -> tuple[Any, ...]:
        """Passes to another process of this machine as the same memory (pinned memory only), while this one holds it."""
        self._require_shared()
        return _attach, (_Held(os.getpid(), self._fd, os.fstat(self._fd).st_ino), self.nbytes)

    def _reduce_for_multiprocessing(self) -> tuple[Any, ...]:
        """The same, and the memory lives on while it is on its way, but only multiprocessing's own processes can take it."""
        self._require_shared()
        return _attach, (reduction.DupFd(self._fd), self.nbytes)

    def require_there(self) -> None:
        """ConfigError where the memory has moved."""

    def _require_shared(self) -> None:
        if self.mapping != "pinned":
            raise ConfigError(
                f"{self.mapping} memory belongs to one process; to share a table between processes make it with "
                "placement='pinned'"
            )


reduction.register(Buffer, Buffer._reduce_for_multiprocessing)


@dataclass(frozen=True)
class _Held:
    """Shared memory as the process that holds it knows it. Nothing has a name, so nothing is left when processes die."""

    pid: int
    fd: int
    inode: int

    def detach(self) -> int:
        """A descriptor of this process for the same memory."""
        place = f"/proc/{self.pid}/fd/{self.fd}"
        try:
            if os.stat(place).st_ino == self.inode:
                return os.open(place, os.O_RDWR | os.O_CLOEXEC)
            reason = "it is something else"
        except OSError as error:
            reason = str(error.strerror)
        raise ConfigError(
            f"the shared memory of process {self.pid} cannot be opened ({reason}): that process must run on this machine, "
            "as the same user, and still hold its table"
        )


def allocate(nbytes: int, mapping: str = "host", touch: bool = True) -> Buffer:
    """``nbytes`` bytes of host memory, their content undefined.

    Args:
        mapping: ``managed``, ``pinned``, ``system`` or ``pageable`` (see the module); ``host`` is ``managed`` with CUDA, as
            far as managed memory is allowed (:func:`.set_managed_limit`), ``split`` or ``pinned`` past that, ``pinned`` where
            GPUs and CPU cannot share managed memory, ``system`` where GPUs use the CPU's page tables, and ``pageable`` without
            CUDA.
        touch: has all CPU threads touch every page, and measures the mapping's rate; leave it out only where memory is given
            back while this is filled.

    Raises:
        OutOfMemory: before anything is allocated, if the memory cannot be had.
        DeviceError: ``managed`` without CUDA, ``system`` where a GPU cannot read it, or the driver refused.
        ConfigError: an unknown ``mapping``.
    """
    nbytes, touch = arguments.whole_number("a size in bytes", nbytes, 0), arguments.switch("touch", touch)
    if not isinstance(mapping, str) or mapping not in MAPPINGS:
        remedy = "GPU memory is a plain tensor: t.cuda()"
        if isinstance(mapping, str) and mapping == "storage":
            remedy = (
                "what lies on storage has a file: hl.StorageArray.create(path, shape, dtype) makes one, and "
                "UnifiedTensor.from_file(path, placement='storage') reads one where it is"
            )
        raise ConfigError(f"placement {arguments.repr_of(mapping)} is not one of {', '.join(MAPPINGS)}; {remedy}")
    _release()
    with _lock:
        if mapping == "system":
            cuda.require_system_memory()
        require_host_memory(nbytes, host_bytes())
        made = _placed(nbytes, mapping, touch)
    if touch and _large_pages(made) >= LEAST_MEASURED and not (made.plan and made.plan.is_trial):
        check_rate(_seen_by_gpu(made), made.mapping)
    return made


def _placed(nbytes: int, asked: str, touch: bool, refused: str = "") -> Buffer:
    """Memory where it is asked for. What is tried in vain is given back before other memory is taken."""
    if asked not in ("host", "managed"):
        return _made(nbytes, asked, None, touch)
    mapping, plan = _choose(nbytes, asked, touch)
    if plan is None:
        return _made(nbytes, mapping, None, touch)
    made = _tried(plan) if plan.is_trial else _made(nbytes, mapping, plan, touch)
    if isinstance(made, str):
        refuse(f"{format_bytes(plan.managed)} were tried and given back: {made}")
        return _placed(nbytes, asked, touch, refused=made)
    made.plan = replace(plan, managed=made.managed)
    if refused or made.plan.is_slow:
        warn_once(refused or "mappings", f"{made.plan.explain()}. {REMEDY}")
    return made


def _tried(plan: MappingPlan) -> Buffer | str:
    """More managed memory than the GPU has free, or why that is no good."""
    free = devices.free_bytes(devices.as_device("cuda"))
    try:
        made = _made(plan.nbytes, plan.mapping, plan, touch=True)
        return (refusal(_seen_by_gpu(made), free) if made.managed > ALWAYS_FITS else "") or made
    except (DeviceError, OutOfMemory) as error:
        return str(error)


def _large_pages(buffer: Buffer) -> int:
    """How many bytes of a buffer GPUs should read in large pages."""
    return buffer.nbytes if buffer.mapping == "system" else buffer.managed


def _seen_by_gpu(buffer: Buffer) -> torch.Tensor:
    """Those bytes, for the current GPU."""
    return buffer.tensor(torch.uint8, torch.Size([_large_pages(buffer)]), devices.as_device("cuda"))


def _made(nbytes: int, mapping: str, plan: MappingPlan | None, touch: bool) -> Buffer:
    if mapping == "split" and plan is not None:
        made = _split(nbytes, plan)
        if made is not None:
            return made
        mapping = "pinned"
    if mapping == "pinned":
        return _pinned(_core.shared_pages(max(nbytes, 1)), nbytes)
    if nbytes == 0:
        return Buffer(0, 0, mapping, ExitStack())
    return _plain(nbytes, mapping, touch) if plan is None else _managed(nbytes, plan, touch)


def place_again(placement: str) -> str:
    """The placement to ask for, for other memory to lie where some does: asked for by name, managed memory is an error where no
    more is allowed, and what was saved elsewhere may have lain in memory that GPUs here do not read."""
    elsewhere = placement == "system" and not cuda.system_memory_works()
    return "host" if placement in ("managed", "split") or elsewhere else placement


def boundaries() -> list[int]:
    """The addresses at which the second mapping of memory that is held begins."""
    with _lock:
        return [buffer.address + buffer.managed for buffer in _held if buffer.mapping == "split"]


def buffer_at(address: int) -> Buffer | None:
    """The memory that is held and begins there."""
    with _lock:
        return next((buffer for buffer in _held if buffer.address == address), None)


def holding(address: int, nbytes: int) -> Buffer | None:
    """The memory that was allocated here for GPUs to see, and has all of these bytes."""
    with _lock:
        seen = (buffer for buffer in _held if buffer.ours and buffer.mapping != "pageable")
        return next((b for b in seen if b.address <= address and address + nbytes <= b.address + b.nbytes), None)


def require_room(nbytes: int) -> None:
    """Raises OutOfMemory unless ``nbytes`` of host memory, which torch is about to allocate, can be had.

    The system promises torch more than there is, and kills who takes it. What every machine has is not asked for.
    """
    if nbytes > ALWAYS_FITS:
        with _lock:
            require_host_memory(nbytes, host_bytes())


def _choose(nbytes: int, mapping: str, touch: bool) -> tuple[str, MappingPlan | None]:
    """``managed`` where its rule allows it (docs/memory.md), else what ``host`` falls back to; and the plan, if there is
    one."""
    if mapping == "managed":
        devices.require_cuda("placement='managed'")
    elif not devices.cuda_available():
        return "pageable", None
    if mapping == "host" and cuda.shares_page_tables():
        return "system", None
    if not cuda.managed_memory_works():
        if mapping == "managed":
            raise DeviceError("this system's GPUs cannot share managed memory with the CPU; use placement='pinned'")
        return "pinned", None
    held = managed_bytes()
    plan = plan_mapping(nbytes, held, checked=touch)
    if mapping == "managed" and plan.mapping != "managed":
        raise OutOfMemory(
            f"{format_bytes(nbytes)} of managed memory asked for with {format_bytes(held)} held, but all of it may be "
            f"{plan.limit.explain()}; use placement='host', which maps as much as is "
            "allowed and registers the rest"
        )
    return plan.mapping, plan


def take_managed(nbytes: int, undo: ExitStack, limit: Limit | None = None) -> int:
    """Managed memory, which ``undo`` frees: its address. All of it comes from here, and is never more than the limit: what it
    was planned with, or what holds of memory that nobody checks."""
    limit, held = limit or managed_limit(checked=False), managed_bytes()
    assert held + nbytes <= limit.nbytes, f"{nbytes} bytes beside {held} are more than {limit}"
    address = cuda.allocate_managed(nbytes)
    undo.callback(cuda.free_managed, address)
    return address


def _managed(nbytes: int, plan: MappingPlan, touch: bool) -> Buffer:
    with ExitStack() as undo:
        address = take_managed(nbytes, undo, plan.limit)
        cuda.keep_on_host(address, nbytes)
        if touch:
            _core.touch(address, nbytes)
        return Buffer(address, nbytes, "managed", undo.pop_all(), managed=nbytes)


def _split(nbytes: int, plan: MappingPlan) -> Buffer | None:
    """Managed memory with pinned memory behind it, as one range of addresses; None where there was no place for both."""
    rest = nbytes - plan.managed
    with ExitStack() as undo:
        address = _beside(plan, rest, undo)
        if address is None:
            return None
        cuda.keep_on_host(address, plan.managed)
        fd = _core.shared_pages(rest)
        undo.callback(os.close, fd)
        _core.map_pages(fd, rest, address + plan.managed)
        _core.touch(address, nbytes)
        cuda.register(address + plan.managed, rest)
        undo.callback(cuda.unregister, address + plan.managed)
        return Buffer(address, nbytes, "split", undo.pop_all(), managed=plan.managed)


def _beside(plan: MappingPlan, rest: int, undo: ExitStack) -> int | None:
    """The address of managed memory right before addresses that are reserved for ``rest`` bytes.

    The driver takes the highest addresses where so many bytes are free, as the system does. So room for both is reserved
    where the system likes, and its first part given back: the driver takes that, unless there is a higher hole of just the
    right size. Then the hole is filled for the time, and it is tried again.
    """
    size = plan.managed
    with ExitStack() as holes:
        for _ in range(_TRIES):
            with ExitStack() as attempt:
                base = _core.reserve_pages(size + rest, GRAIN)
                attempt.callback(_core.unmap_pages, base + size, rest)
                _core.unmap_pages(base, size)
                address = take_managed(size, attempt, plan.limit)
                if address == base:
                    undo.push(attempt.pop_all())
                    return address
            if _core.reserve_pages_at(address, size):
                holes.callback(_core.unmap_pages, address, size)
    return None


def _pinned(fd: int, nbytes: int) -> Buffer:
    """Maps shared memory and registers it; owns ``fd`` from now on."""
    with ExitStack() as undo:
        undo.callback(os.close, fd)
        if nbytes == 0:
            return Buffer(0, 0, "pinned", undo.pop_all(), fd)
        address = _core.map_pages(fd, nbytes)
        undo.callback(_core.unmap_pages, address, nbytes)
        _core.touch(address, nbytes)  # page-locking would fetch the pages one by one
        if devices.cuda_available():
            cuda.register(address, nbytes)
            undo.callback(cuda.unregister, address)
        return Buffer(address, nbytes, "pinned", undo.pop_all(), fd)


def _plain(nbytes: int, mapping: str, touch: bool) -> Buffer:
    with ExitStack() as undo:
        address = _core.map_pages(-1, nbytes)
        undo.callback(_core.unmap_pages, address, nbytes)
        if mapping == "system":
            undo.callback(cuda.wait_for_gpus)
            cuda.keep_on_host(address, nbytes)
        if touch:
            _core.touch(address, nbytes)
        return Buffer(address, nbytes, mapping, undo.pop_all())


def _attach(shared: Any, nbytes: int) -> Buffer:
    """A buffer over memory that another process shares; it exists already, so there is no limit to check."""
    return _pinned(shared.detach(), nbytes)


_releases: deque[ExitStack] = deque()


def _close(release: ExitStack, owner: int) -> None:
    # A forked child holds a copy of this object, but CUDA's handles are its parent's alone.
    if os.getpid() == owner:
        _releases.append(release)
        _release()


def _release() -> None:
    """Gives back what is over: not while a CUDA graph is captured, which ends where somebody waits for its GPU."""
    while _releases and not captures():
        with suppress(IndexError):  # another thread took it
            _releases.popleft().close()


@dataclass(frozen=True)
class Holding:
    """One buffer that is held: what it is for, its size and its mapping; or ``over``, where it was not allocated here."""

    name: str
    nbytes: int
    mapping: str


@dataclass(frozen=True)
class Report:
    """Host memory held by this library in this process, largest buffer first."""

    buffers: list[Holding]

    @property
    def totals(self) -> dict[str, int]:
        """Bytes by mapping."""
        totals: Counter[str] = Counter()
        for held in self.buffers:
            totals[held.mapping] += held.nbytes
        return dict(totals)

    @property
    def nbytes(self) -> int:
        """All of it, in bytes."""
        return sum(held.nbytes for held in self.buffers)

    def __str__(self) -> str:
        lines = [f"{format_bytes(held.nbytes):>12}  {held.mapping:<10}  {held.name}" for held in self.buffers]
        totals = ", ".join(f"{format_bytes(total)} {mapping}" for mapping, total in sorted(self.totals.items()))
        return "\n".join([*lines, f"{format_bytes(self.nbytes):>12}  in all" + (f": {totals}" if totals else "")])


def report() -> Report:
    """What host memory this library holds now; ``print(report())`` shows it as a table."""
    with _lock:
        buffers = [Holding(b.name, b.nbytes, b.mapping if b.ours else "over") for b in _held]
    return Report(sorted(buffers, key=lambda held: -held.nbytes))


def padded(nbytes: int) -> int:
    """``nbytes``, and what is left out up to where the next part of a block begins."""
    return -(-nbytes // PART_BYTES) * PART_BYTES
