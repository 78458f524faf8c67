"""Row numbers outside their table, as the GPU reports them.

A kernel notes the first bad position in GPU memory and raises a flag in host memory. So a launch that went well costs
the CPU one look at its own memory, and nothing crosses the link.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Protocol

import torch

from .. import _core
from ..runtime.arguments import repr_of
from ..runtime.capture import beside, capturing
from ..runtime.errors import HinterlandError, IndexOutOfRange
from ..runtime.params import Params, struct
from . import cuda

_IndexFault = struct("memory::IndexFault")
_CLEAR = _IndexFault(first=_core.NO_FAULT)

# The exception for a fault: from its first position, what was there, the rows of the table, and how many such positions.
Sentence = Callable[[int, int, int, int], HinterlandError]


def out_of_range(first: int, value: int, rows: int, count: int, from_end: bool = True) -> IndexOutOfRange:
    """The sentence for ``count`` bad row numbers, of which ``value`` at position ``first`` is the first; ``from_end``: negative
    ones count from the end."""
    more = f" ({count} such positions)" if count > 1 else ""
    return IndexOutOfRange(
        f"index {repr_of(value)} at position {first} is outside a table of {rows} rows{more}; row numbers go from "
        f"{-rows if from_end else 0} to {rows - 1}"
        if rows
        else f"index {repr_of(value)} at position {first}: the table has no rows{more}"
    )


def located(error: HinterlandError, *where: str) -> HinterlandError:
    """``error``, which also says in which batch or replay."""
    return type(error)(f"{error} (in {', '.join(where)})")


def replay(number: int) -> str:
    """What sentences call a replay; the first is 1."""
    return f"replay {number} of a CUDA graph"


class Deferred(Protocol):
    """What launches have met, for a later call to raise.

    Attributes:
        replayed: whether launches of graphs may meet more.
    """

    replayed: bool

    def raised(self) -> bool: ...

    def check(self) -> None: ...


class FaultWatch:
    """The fault record of one stream of one GPU, for faults that ``sentence`` describes; or, if it is ``replayed``, that of all
    CUDA graphs with launches on this GPU, which are replayed on any stream."""

    replayed = False

    def __init__(self, device: torch.device, sentence: Sentence = out_of_range, replayed: bool = False) -> None:
        self._device, self._sentence, self.replayed = device, sentence, replayed
        # Not by torch, which while a graph is captured or a compiled function warms up gives what belongs to that. It is there
        # as long as the process, as watches are.
        with beside(device) as stream:
            self._record = cuda.allocate_on_gpu(ctypes.sizeof(_IndexFault))
            self._clear(stream)
            flag = cuda.allocate_word()
        self._word = ctypes.c_int64.from_address(flag)
        self._report = struct("memory::FaultReport")(fault=self._record, flag=flag)

    @property
    def report(self) -> Params:
        """Where a launch that comes now reports; one of a graph also the number of the replay."""
        if not self.replayed:
            return self._report
        return type(self._report)(fault=self._record, flag=self._report.flag, replay=_replays(self._device).data_ptr())

    def _clear(self, stream: torch.cuda.Stream) -> None:
        cuda.copy_to_gpu(self._record, _CLEAR, stream)

    def raised(self) -> bool:
        """Whether a kernel that has finished, or is running, met a bad row number."""
        return self._word.value != 0

    def take(self) -> HinterlandError | None:
        """The fault as an exception, for one of the threads that ask for it; the record is clear again. Waits for the GPU."""
        with _taking:
            if not self.raised():
                return None
            torch.cuda.synchronize(self._device)
            met = _IndexFault()
            with beside(self._device) as stream:
                cuda.copy_from_gpu(met, self._record, stream)
                self._clear(stream)
            self._word.value = 0
        error = self._sentence(met.first, met.value, met.table_rows, met.count)
        return located(error, replay(met.replay)) if self.replayed else error

    def check(self) -> None:
        """Raises the fault, if there is one."""
        fault = self.take() if self.raised() else None
        if fault is not None:
            try:
                raise fault
            finally:
                del fault  # a frame that holds what it raised is a cycle, and keeps the caller's tables


_watches: dict[tuple[int, int, int, Sentence], FaultWatch] = {}
_unchecked: dict[int, list[Deferred]] = {}
_deferring, _taking = threading.Lock(), threading.Lock()
_REPLAYED = -1  # where other watches have their stream
_counted: dict[tuple[int, int], tuple[int, torch.Tensor]] = {}  # of each stream the capture that was its last, and its replays
_kept: list[torch.Tensor] = []  # those of all captures, since nobody knows when the last replay is over


def _replays(device: torch.device) -> torch.Tensor:
    """The number of the replay under way, int64 on the GPU, which the graph that is captured counts. Each stream of a capture
    has one of its own, ahead of what else is captured there."""
    stream = torch._C._cuda_getCurrentRawStream(device.index)
    capture, known = _core.capture_id(stream), _counted.get((device.index, stream))
    if known is not None and known[0] == capture:
        return known[1]
    with torch.inference_mode(False), beside(device):
        count = torch.zeros((), dtype=torch.int64, device=device)
    count.add_(1)
    _kept.append(count)
    _counted[device.index, stream] = capture, count
    return count


def watch(device: torch.device, stream: int, sentence: Sentence = out_of_range) -> FaultWatch:
    """The record of a stream, given by its handle, for this thread: threads that share a stream do not take each other's. While
    a graph is captured on the current stream, that of graphs."""
    replayed = capturing()
    key = (device.index, _REPLAYED, 0, sentence) if replayed else (device.index, stream, threading.get_ident(), sentence)
    found = _watches.get(key)
    if found is None:
        found = _watches[key] = FaultWatch(device, sentence, replayed)
    return found


def defer(device: torch.device, faults: Deferred) -> None:
    """Leaves the check of a launch to the next ``raise_deferred`` for the same GPU."""
    with _deferring:
        pending = _unchecked.setdefault(device.index, [])
        if faults not in pending:
            pending.append(faults)


def raise_deferred(index: int) -> None:
    """Raises what launches with ``check="async"``, and those of graphs, on GPU ``index`` have met so far. While a graph is
    captured that is left to a later call."""
    for faults in _unchecked.get(index, ()):
        if faults.raised() and not capturing():
            faults.check()


def synchronize() -> None:
    """Waits for all GPUs that have launches to be checked, and raises what they met."""
    for index in list(_unchecked):
        with _deferring:
            # First: what other threads launch from now on is not waited for. Graphs may be replayed again.
            pending = _unchecked.pop(index, [])
            if again := [faults for faults in pending if faults.replayed]:
                _unchecked[index] = again
        try:
            torch.cuda.synchronize(index)
            for faults in pending:
                faults.check()
        except BaseException:
            with _deferring:  # more than one of them may have met something
                left = _unchecked.setdefault(index, [])
                left.extend(faults for faults in pending if faults not in left)
            raise
