"""Bare NVMe devices that a store's kernels drive by themselves: they write the doorbells, and no host thread serves the queues
(Mailthody 2022, section 5.3.1; native/storage/driven_queues.hpp)."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, ClassVar

import torch

from .. import _core
from ..machine import cache as machine
from ..memory import cuda
from ..memory.allocator import Buffer
from ..runtime import arguments
from ..runtime.errors import ConfigError, DeviceError
from ..runtime.repr import Repr
from ..runtime.warned import warn_once

_PAGE = 4096


def drivable(name: str, line_bytes: int) -> _core.NvmeDevice | None:
    """The bare device of this name, if whoever drives its queues can have lines of this size by single commands.

    Raises:
        StorageError: it cannot be had.
    """
    device = _core.bare_device(name)
    if not isinstance(device, _core.NvmeDevice) or device.free_queues == 0:
        return None
    whole = line_bytes % device.block_bytes == 0 and device.bytes % line_bytes == 0
    return device if whole and line_bytes <= device.most_bytes else None


class DrivenDevice(Repr):
    """A device in the place of a ``Controller``, of one store.

    Args:
        backing: its only part, which sentences name.
        device: as :func:`drivable` has it.
        mode: ``"r"`` or ``"r+"``.
        forwards: whether a host thread writes the doorbells for the kernels. None: where they cannot be mapped for a GPU.
    """

    begins: ClassVar[list[int]] = [0]

    def __init__(self, backing: Any, device: _core.NvmeDevice, mode: str = "r", forwards: bool | None = None) -> None:
        self.backings, self.forwards = [backing], forwards
        self.mode = arguments.one_of("mode", mode, ("r", "r+"))
        self.block_bytes, self.namespace_id = device.block_bytes, device.namespace_number
        self.blocks = device.bytes // device.block_bytes
        self.most_channels, self.most_entries = device.free_queues, device.most_entries
        self._device: _core.NvmeDevice | None = device
        self._native: _core.DrivenQueues | None = None
        self._registers: _Registers | None = None

    def join(
        self, memory: Buffer, queues: tuple[int, int, int, int], region: tuple[int, int], gpu: torch.device
    ) -> tuple[int, list[dict[str, int]]]:
        """Makes a store's queues in ``memory``, which the device reaches from now on: where it begins for the device, and where
        a kernel of ``gpu`` finds doorbells that are not beside the rings."""
        if self._device is None or self._native is not None:
            raise ConfigError("a bare device's queues belong to one store; make another DrivenDevice")
        if gpu.type == "cuda" and not self.forwards:
            self._registers = _Registers.of(self._device, self.name)
        self.forwards = bool(self.forwards) or (gpu.type == "cuda" and self._registers is None)
        nbytes = region[0] + region[1] - memory.address
        self._native = _core.DrivenQueues(self._device, queues, -(-nbytes // _PAGE) * _PAGE, self.forwards, memory)
        if self.forwards:
            return self._native.address, []
        shift = 0 if self._registers is None else self._registers.shift
        names = ("submission_doorbell", "completion_doorbell")
        found = [dict(zip(names, (at + shift for at in each), strict=True)) for each in self._native.doorbells]
        return self._native.address, found

    @property
    def aborted(self) -> int:
        """Commands that the device has aborted, since they were overdue; kernels began them anew."""
        return self._queues.aborted

    @property
    def lost(self) -> bool:
        """Whether the device was switched off and on, and the queues are gone."""
        return self._queues.lost

    def reopen(self) -> None:
        """Ends what the device has not answered, and makes the queues anew, empty. No kernel may run.

        Raises:
            StorageError: the device does not come back.
        """
        self._queues.reopen()

    def leave(self) -> None:
        """The store is closed: the queues are deleted."""
        self._native = self._registers = self._device = None

    def start(self) -> None:
        """The device serves already."""

    def acquire(self) -> None:
        """Doorbells are forwarded, where they are, and overdue commands aborted until as many :meth:`release`."""
        self._queues.acquire()

    def release(self) -> None:
        self._queues.release()

    def served(self) -> list[dict[str, int]]:
        """The processor time of the thread that forwards. What failed the device does not count."""
        return [{"cpu_ns": self._queues.cpu_ns, "failed": 0}] if self.forwards and self._native is not None else []

    def failed_reads(self) -> int:
        """There are no copies."""
        return 0

    @property
    def name(self) -> str:
        return str(self.backings[0].path)

    names = name

    def place_of(self, byte: int) -> tuple[str, int]:
        """What lies at a byte, for sentences, and the byte there."""
        return self.name, byte

    @property
    def _queues(self) -> _core.DrivenQueues:
        assert self._native is not None
        return self._native

    def _facts(self) -> dict[str, Any]:
        return {"device": self.name, "doorbells": "forwarded by a host thread" if self.forwards else "written by kernels"}


class _Registers:
    """A device's doorbells, mapped for all GPUs while anybody has this."""

    _all: ClassVar[weakref.WeakValueDictionary[int, _Registers]] = weakref.WeakValueDictionary()

    def __init__(self, device: _core.NvmeDevice) -> None:
        self._device = device  # which has them mapped
        address, nbytes = device.doorbells
        for at in range(address, address + nbytes, _PAGE):
            ctypes.c_uint32.from_address(at).value  # noqa: B018 (a page that nobody touched has no address to be found)
        self.shift = cuda.register_registers(address, nbytes) - address
        weakref.finalize(self, cuda.unregister, address).atexit = False

    @classmethod
    def of(cls, device: _core.NvmeDevice, name: str) -> _Registers | None:
        """None where the driver does not map them, as those since 550.54.14 do not map memory of ``remap_pfn_range``
        (NVIDIA/open-gpu-kernel-modules#732); a warning says so."""
        address = device.doorbells[0]
        try:
            return cls._all.get(address) or cls._all.setdefault(address, cls(device))
        except DeviceError as error:
            sentence = (
                f"{name}: NVIDIA's driver {machine.driver()} does not map its doorbells for a GPU ({error}; "
                "NVIDIA/open-gpu-kernel-modules#732), so a host thread forwards them"
            )
            warn_once(sentence, sentence)
            return None
