"""Checksums of what we write, which find damage (native/storage/checksum.hpp says how)."""

from __future__ import annotations

import torch

from .. import _core

BLOCK: int = _core.CHECKSUM_BLOCK


def checksums(content: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """A sum for each MiB of a contiguous CPU tensor, the last one of what is left: int64 [blocks].

    Block i is summed with ``seed + i``, so that blocks that changed places are found.
    """
    size = content.numel() * content.element_size()
    sums = torch.empty(-(-size // BLOCK), dtype=torch.int64)
    _core.checksums(content.data_ptr(), size, seed, sums.data_ptr())
    return sums


def checksum(content: torch.Tensor) -> str:
    """One sum for all of a contiguous CPU tensor, of 1 byte to 128 GiB, as 16 hexadecimal digits."""
    [whole] = checksums(checksums(content)).tolist()
    return f"{whole % 2**64:016x}"


class Running:
    """The sums of what is written front to back, in pieces of any size; ``seed`` as of :func:`checksums`."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._sums: list[torch.Tensor] = []
        self._rest = torch.empty(BLOCK, dtype=torch.uint8)  # the block that is not whole yet
        self._held = 0
        self._blocks = 0

    def add(self, content: torch.Tensor) -> None:
        """The next bytes: those of a contiguous CPU tensor."""
        piece = content.reshape(-1).view(torch.uint8)
        if self._held:
            taken = min(BLOCK - self._held, len(piece))
            self._rest[self._held : self._held + taken] = piece[:taken]
            self._held += taken
            if self._held < BLOCK:
                return
            self._sum(self._rest)
            piece = piece[taken:]
        whole = len(piece) // BLOCK * BLOCK
        self._sum(piece[:whole])
        self._held = len(piece) - whole
        self._rest[: self._held] = piece[whole:]

    def _sum(self, blocks: torch.Tensor) -> None:
        self._sums.append(checksums(blocks, self._seed + self._blocks))
        self._blocks += len(self._sums[-1])

    def end(self) -> torch.Tensor:
        """Those of all that was added."""
        self._sum(self._rest[: self._held])
        return torch.cat(self._sums)
