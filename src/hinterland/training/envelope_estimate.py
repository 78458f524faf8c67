"""How large the batches of a loader are, and the envelope that follows: the shape of its replayed batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..runtime.errors import ConfigError
from ..runtime.thresholds import COUNTS_KEPT, ENVELOPE_BATCHES, OVERFLOW_SHARE
from ..sampling.envelope import Envelope

Counts = list[list[int]]  # vertices up to each hop, the seeds' first, and edges, which begin with 0: PaddedSample.ends


@dataclass
class ReplayCounts:
    """What came of batches that were replayed, from the beginning on.

    Attributes:
        replayed: batches that graphs made.
        overflowed: those that had more vertices or edges than there was place for, and were made without a graph.
        seeds, vertices, edges: of replayed batches, without padding.
        rows: of replayed batches, with padding.
    """

    replayed: int = 0
    overflowed: int = 0
    seeds: int = 0
    vertices: int = 0
    edges: int = 0
    rows: int = 0

    @property
    def padding(self) -> float:
        """The share of rows that were padding."""
        return 1 - self.vertices / self.rows if self.rows else 0.0


class EnvelopeEstimate:
    """What full batches came to, and the envelope: that of the first ones, and at the end of an epoch in which too many did not
    fit another one.

    Attributes:
        envelope: None until enough batches were met.
        replayed, overflowed: batches since it is this one.
    """

    def __init__(self, most: Envelope) -> None:
        self._most = most
        self._met = deque[Counts](maxlen=COUNTS_KEPT)
        self.envelope: Envelope | None = None
        self.replayed = self.overflowed = 0

    @property
    def missing(self) -> int:
        """How many batches more an envelope takes."""
        return 0 if self.envelope is not None else ENVELOPE_BATCHES - len(self._met)

    def note(self, counts: Counts) -> None:
        """Takes in a batch; one of fewer seeds than the others says nothing of them."""
        if counts[0][0] < self._most.vertices[0]:
            return
        self._met.append(counts)
        if self.envelope is None and self.missing == 0:
            self._settle()

    def end_epoch(self) -> None:
        """Another envelope, if this one was too small too often."""
        if self.overflowed > OVERFLOW_SHARE * (self.replayed + self.overflowed):
            self._settle()

    def _settle(self) -> None:
        self.envelope = Envelope.of(torch.tensor(list(self._met)), self._most)
        self.replayed = self.overflowed = 0

    def state(self) -> dict[str, Any]:
        """All that it knows, in plain numbers."""
        envelope = None if self.envelope is None else [list(self.envelope.vertices), list(self.envelope.edges)]
        return {
            "envelope": envelope,
            "counts": list(self._met),
            "replayed": self.replayed,
            "overflowed": self.overflowed,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on from what :meth:`state` gave. ConfigError: it is of samples of other seeds or hops."""
        envelope = None if state["envelope"] is None else Envelope(*(tuple(sizes) for sizes in state["envelope"]))
        mine, theirs = self._most, envelope or self._most
        if theirs.vertices[0] != mine.vertices[0] or len(theirs.edges) != len(mine.edges):
            raise ConfigError(
                f"the state was saved with batches of {theirs.vertices[0]} seeds and {len(theirs.edges)} hops, but this loader "
                f"has {mine.vertices[0]} and {len(mine.edges)}; make it with the same batch_size and fanouts"
            )
        self.envelope, self.replayed, self.overflowed = envelope, int(state["replayed"]), int(state["overflowed"])
        self._met.clear()
        self._met.extend(state["counts"])
