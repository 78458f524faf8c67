"""What entries of a cache save in three tiers: copied to each of several GPUs, dealt over them, or left on the host."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

_TRIED = 4096  # numbers of copies: what they save is a concave function, flat at its best


@dataclass(frozen=True)
class TierGains:
    """What the hottest entries of one kind save where several GPUs keep them.

    Attributes:
        gains: float64 ``[entries]``, seconds that each saves if all GPUs hold it, falling.
        gpus: how many they are. They read each other's memory.
        dealt: of a gain, what is left if only one of them holds the entry.
    """

    gains: torch.Tensor
    gpus: int = 1
    dealt: float = 0.0

    @property
    def deals(self) -> bool:
        """Whether dealing an entry saves more per byte than copying it: where a peer is read faster than the host."""
        return self.gpus * self.dealt > 1

    @functools.cached_property
    def _sums(self) -> torch.Tensor:
        return torch.cat([self.gains.new_zeros(1), self.gains.cumsum(0)])

    def saved(self, local: int, dealt: int) -> float:
        """Seconds that the hottest ``local`` entries save as copies, and the next ``dealt`` as dealt out."""
        copies, both = float(self._sums[local]), float(self._sums[local + dealt])
        return copies + self.dealt * (both - copies)

    def best(self, in_each: int) -> tuple[int, int]:
        """How many entries to copy, and how many to deal, where each GPU has room for so many."""
        in_each = max(0, min(in_each, len(self.gains)))
        if not self.deals:
            return in_each, 0
        local = torch.linspace(0, in_each, min(in_each, _TRIED) + 1, dtype=torch.float64).long()
        kept = (local + self.gpus * (in_each - local)).clamp(max=len(self.gains))
        copies = self._sums[local]
        at = torch.argmax(copies + self.dealt * (self._sums[kept] - copies))
        return int(local[at]), int(kept[at] - local[at])

    def steps(self, nbytes: int) -> list[tuple[torch.Tensor, float]]:
        """By what entries of ``nbytes`` are taken: gains per byte of each step, falling, and the step's bytes of a GPU.

        The first step of an entry deals it, the second copies it. Each saves more per byte than the one after.
        """
        if not self.deals:
            return [(self.gains / nbytes, nbytes)]
        share = nbytes / self.gpus
        return [
            (self.gains * (self.dealt / share), share),
            (self.gains * ((1 - self.dealt) / (nbytes - share)), nbytes - share),
        ]
