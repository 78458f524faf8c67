"""Row numbers outside their table, as the GPU reports them.

A kernel notes the first bad position in GPU memory and raises a flag in host memory. So a launch that went well costs
the CPU one look at its own memory, and nothing crosses the link.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import torch

from .. import _core
from ..runtime.arguments import repr_of
from ..runtime.errors import HinterlandError, IndexOutOfRange
from ..runtime.params import struct

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


class FaultWatch:
    """The fault record of one stream of one GPU, for faults that ``sentence`` describes."""

    def __init__(self, device: torch.device, sentence: Sentence = out_of_range) -> None:
        self._device = device
        self._sentence = sentence
        with torch.inference_mode(False):  # it is cleared outside of what may be such a mode now
            self._record = _CLEAR.on(device)
        # Pinned memory of torch is mapped for every GPU at its own address (unified virtual addressing).
        self._flag = torch.zeros(1, dtype=torch.int64, device="cpu", pin_memory=True)
        self._word = ctypes.c_int64.from_address(self._flag.data_ptr())
        self.report = struct("memory::FaultReport")(fault=self._record.data_ptr(), flag=self._flag.data_ptr())
        torch.cuda.synchronize(device)  # the record is read on other streams than the one that cleared it

    def raised(self) -> bool:
        """Whether a kernel that has finished, or is running, met a bad row number."""
        return self._word.value != 0

    def take(self) -> HinterlandError | None:
        """The fault as an exception, for one of the threads that ask for it; the record is clear again. Waits for the GPU."""
        with _taking:
            if not self.raised():
                return None
            torch.cuda.synchronize(self._device)
            met = _IndexFault.from_buffer_copy(bytes(self._record.tolist()))
            self._record.copy_(_CLEAR.on(torch.device("cpu")))
            self._word.value = 0
            torch.cuda.synchronize(self._device)
        return self._sentence(met.first, met.value, met.table_rows, met.count)

    def check(self) -> None:
        """Raises the fault, if there is one."""
        fault = self.take() if self.raised() else None
        if fault is not None:
            try:
                raise fault
            finally:
                del fault  # a frame that holds what it raised is a cycle, and keeps the caller's tables


_watches: dict[tuple[int, int, int, Sentence], FaultWatch] = {}
_unchecked: dict[int, list[FaultWatch]] = {}
_deferring, _taking = threading.Lock(), threading.Lock()


def watch(device: torch.device, stream: int, sentence: Sentence = out_of_range) -> FaultWatch:
    """The record of a stream, given by its handle, for this thread: threads that share a stream do not take each other's."""
    key = (device.index, stream, threading.get_ident(), sentence)
    found = _watches.get(key)
    if found is None:
        found = _watches[key] = FaultWatch(device, sentence)
    return found


def defer(device: torch.device, faults: FaultWatch) -> None:
    """Leaves the check of a launch to the next ``raise_deferred`` for the same GPU."""
    with _deferring:
        pending = _unchecked.setdefault(device.index, [])
        if faults not in pending:
            pending.append(faults)


def raise_deferred(index: int) -> None:
    """Raises what launches with ``check="async"`` on GPU ``index`` have met so far."""
    for faults in _unchecked.get(index, ()):
        faults.check()


def synchronize() -> None:
    """Waits for all GPUs that have launches to be checked, and raises what they met."""
    for index in list(_unchecked):
        with _deferring:
            pending = _unchecked.pop(index, [])  # first: what other threads launch from now on is not waited for
        try:
            torch.cuda.synchronize(index)
            for faults in pending:
                faults.check()
        except BaseException:
            with _deferring:  # more than one of them may have met something
                _unchecked.setdefault(index, []).extend(pending)
            raise
