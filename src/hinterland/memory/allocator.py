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
import threading
import weakref
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import reduction
from typing import Any

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, DeviceError, OutOfMemory
from ..runtime.old_words import accepted, translated
from ..runtime.thresholds import ALWAYS_FITS
from ..runtime.units import format_bytes
from ..runtime.warned import warn_once
from . import cuda
from .limits import require_host_memory
from .mapping import GRAIN, REMEDY, MappingPlan, plan_mapping
from .rate import LEAST_MEASURED, check_rate

_TRIES = 8  # for two mappings to lie beside each other: one, unless the address space has holes of just that size
PART_BYTES = 512  # every part of a block begins at a multiple of it, and is padded to one
MAPPINGS = ("host", "managed", "pinned", "system", "pageable")

_held: weakref.WeakSet[Buffer] = weakref.WeakSet()
_lock = threading.RLock()
os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]  # who had it is not in the child


class Buffer:
    """``nbytes`` bytes of host memory at ``address``, the first ``managed`` of them managed memory.

    Released once, when the last tensor over it is gone. What is left when the interpreter exits is the system's to release:
    until the process is gone, finalizers and daemon threads may read it.
    """

    def __init__(self, address: int, nbytes: int, mapping: str, release: ExitStack, fd: int = -1, managed: int = 0) -> None:
        self.address = address
        self.nbytes = nbytes
        self.mapping = mapping
        self.managed = managed
        self.name = ""
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
    mapping = accepted(mapping)
    if not isinstance(mapping, str) or mapping not in MAPPINGS:
        remedy = "GPU memory is a plain tensor: t.cuda()"
        if isinstance(mapping, str) and mapping == "storage":
            remedy = (
                "what lies on storage has a file: hl.StorageArray.create(path, shape, dtype) makes one, and "
                "UnifiedTensor.from_file(path, placement='storage') reads one where it is"
            )
        raise ConfigError(f"placement {arguments.repr_of(mapping)} is not one of {', '.join(MAPPINGS)}; {remedy}")
    with _lock:
        plan = None
        if mapping in ("host", "managed"):
            mapping, plan = _choose(nbytes, mapping)
        elif mapping == "system":
            cuda.require_system_memory()
        require_host_memory(nbytes, sum(buffer.nbytes for buffer in _held))
        made = _made(nbytes, mapping, plan, touch)
        if plan is not None and (taken := replace(plan, managed=made.managed)).is_slow:
            warn_once("mappings", f"{taken.explain()}. {REMEDY}")
    measured = made.nbytes if mapping == "system" else made.managed
    if touch and measured >= LEAST_MEASURED:
        check_rate(made.tensor(torch.uint8, torch.Size([measured]), devices.as_device("cuda")), mapping)
    return made


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
    return _managed(nbytes, touch) if mapping == "managed" else _plain(nbytes, mapping, touch)


def place_again(placement: str) -> str:
    """The placement to ask for, for other memory to lie where some does: asked for by name, managed memory is an error where no
    more is allowed, and what was saved elsewhere may have lain in memory that GPUs here do not read."""
    placement = translated(placement)
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


def require_room(nbytes: int) -> None:
    """Raises OutOfMemory unless ``nbytes`` of host memory, which torch is about to allocate, can be had.

    The system promises torch more than there is, and kills who takes it. What every machine has is not asked for.
    """
    if nbytes > ALWAYS_FITS:
        with _lock:
            require_host_memory(nbytes, sum(buffer.nbytes for buffer in _held))


def _choose(nbytes: int, mapping: str) -> tuple[str, MappingPlan | None]:
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
    plan = plan_mapping(nbytes, held)
    if mapping == "managed" and plan.mapping != "managed":
        raise OutOfMemory(
            f"{format_bytes(nbytes)} of managed memory asked for with {format_bytes(held)} held, but all of it may be "
            f"{format_bytes(plan.limit.nbytes)}, by {plan.limit.source}; use placement='host', which maps as much as is "
            "allowed and registers the rest"
        )
    return plan.mapping, plan


def managed_bytes() -> int:
    """Managed memory that is held."""
    return sum(buffer.managed for buffer in _held)


def take_managed(nbytes: int, undo: ExitStack) -> int:
    """Managed memory, which ``undo`` frees: its address. All of it comes from here, and is never more than the limit."""
    plan = plan_mapping(nbytes, managed_bytes())
    assert plan.managed == nbytes, f"{nbytes} bytes beside {plan.held} are more than {plan.limit}"
    address = cuda.allocate_managed(nbytes)
    undo.callback(cuda.free_managed, address)
    return address


def _managed(nbytes: int, touch: bool) -> Buffer:
    with ExitStack() as undo:
        address = take_managed(nbytes, undo)
        cuda.keep_on_host(address, nbytes)
        if touch:
            _core.touch(address, nbytes)
        return Buffer(address, nbytes, "managed", undo.pop_all(), managed=nbytes)


def _split(nbytes: int, plan: MappingPlan) -> Buffer | None:
    """Managed memory with pinned memory behind it, as one range of addresses; None where there was no place for both."""
    rest = nbytes - plan.managed
    with ExitStack() as undo:
        address = _beside(plan.managed, rest, undo)
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


def _beside(size: int, rest: int, undo: ExitStack) -> int | None:
    """The address of managed memory right before addresses that are reserved for ``rest`` bytes.

    The driver takes the highest addresses where ``size`` bytes are free, as the system does. So room for both is reserved
    where the system likes, and its first part given back: the driver takes that, unless there is a higher hole of just the
    right size. Then the hole is filled for the time, and it is tried again.
    """
    with ExitStack() as holes:
        for _ in range(_TRIES):
            with ExitStack() as attempt:
                base = _core.reserve_pages(size + rest, GRAIN)
                attempt.callback(_core.unmap_pages, base + size, rest)
                _core.unmap_pages(base, size)
                address = take_managed(size, attempt)
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


def _close(release: ExitStack, owner: int) -> None:
    # A forked child holds a copy of this object, but CUDA's handles are its parent's alone.
    if os.getpid() == owner:
        release.close()


@dataclass(frozen=True)
class Holding:
    """One buffer that is held: what it is for, its size and its mapping."""

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
        buffers = [Holding(buffer.name, buffer.nbytes, buffer.mapping) for buffer in _held]
    return Report(sorted(buffers, key=lambda held: -held.nbytes))


def padded(nbytes: int) -> int:
    """``nbytes``, and what is left out up to where the next part of a block begins."""
    return -(-nbytes // PART_BYTES) * PART_BYTES
