"""What stands in for a device behind a store: memory as slow as one, and faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hinterland import _core as library
from hinterland.storage.on_device import Backing

from .. import _core


@dataclass(frozen=True)
class Device(Backing):
    """A file, or ``bytes`` bytes at ``address`` that are as slow as ``timing`` says (``_core.TIMINGS``). ``faults``, drawn by
    ``seed``: how many commands of a thousand fail, by name."""

    address: int = 0
    bytes: int = 0
    timing: str = "none"
    faults: tuple[tuple[str, int], ...] = ()
    seed: int = 0

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return super().name if self.path else "memory"

    def blocks(self, writable: bool, copies: list[tuple[Backing, Any]]) -> library.Namespace:
        """For a controller."""
        if self.path:
            blocks = super().blocks(writable, copies)
        else:
            blocks = _core.memory_blocks(self.address, self.bytes, _core.TIMINGS[self.timing])
        return _core.faulty_blocks(blocks, dict(self.faults), self.seed) if self.faults else blocks
