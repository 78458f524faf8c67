"""Rivals of full-graph message passing whose parts are GPUs of one process: rows go by ``copy_``, beside the products.

torch copies between GPUs on the current stream of the one that is read, and has that of the other wait. So each device has a
stream for what leaves it and one for what comes.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ._fullgraph_rivals import Shard, blocks, own_and_others


class PeerHalo:
    """Each remote row once: gathered by its owner, copied by the copy engine while cuSPARSE multiplies by the own rows."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards, self._streams = shards, _Streams([shard.halo.device for shard in shards])
        self._products = [own_and_others(shard) for shard in shards]
        self._ends = [[0, *itertools.accumulate(shard.halo_counts)] for shard in shards]
        self._serves = [
            [
                (rows - begin).to(owner.halo.device)
                for rows, begin, owner in zip(shard.halo.split(shard.halo_counts), shard.bounds[:-1], shards, strict=True)
            ]
            for shard in shards
        ]

    def __call__(self, xs: Sequence[Tensor]) -> list[Tensor]:
        parts, width = range(len(xs)), xs[0].shape[1]
        halos = [x.new_empty(len(shard.halo), width) for x, shard in zip(xs, self._shards, strict=True)]
        self._streams.begin()
        for step in parts[1:]:  # each link carries one pair's rows at a time
            for reader in parts:
                owner = (reader + step) % len(xs)
                with self._streams.between(owner, reader):
                    rows = xs[owner][self._serves[reader][owner]]
                    begin, end = self._ends[reader][owner : owner + 2]
                    halos[reader][begin:end].copy_(rows, non_blocking=True)
        outs = [x.new_empty(x.shape) for x in xs]
        for (own, _), x, out in zip(self._products, xs, outs, strict=True):
            own(x, out)
        self._streams.end()
        for (_, others), halo, out in zip(self._products, halos, outs, strict=True):
            others(halo, out, 1.0)
        return outs


class PeerRing:
    """Whole parts through two buffers, each copied while the one before is multiplied: MG-GCN's pipeline. Each GPU begins with
    its own rows and goes on to its neighbour's, so that no part's link carries the rows of all readers at once."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards, self._streams = shards, _Streams([shard.halo.device for shard in shards])
        self._blocks = [blocks(shard) for shard in shards]

    def __call__(self, xs: Sequence[Tensor]) -> list[Tensor]:
        parts, most, width = range(len(xs)), max(map(len, xs)), xs[0].shape[1]
        buffers = [[x.new_empty(most, width) for _ in range(2)] for x in xs]
        outs = [x.new_empty(x.shape) for x in xs]
        self._streams.begin()
        there = list(xs)
        for step in parts:
            coming = []
            for reader in parts if step + 1 < len(xs) else ():
                owner = (reader + step + 1) % len(xs)
                self._streams.come_after(reader)  # after the product that read this buffer, not the one below
                with self._streams.between(owner, reader):
                    coming.append(buffers[reader][step % 2][: len(xs[owner])].copy_(xs[owner], non_blocking=True))
            for reader in parts:
                self._blocks[reader][(reader + step) % len(xs)](there[reader], outs[reader], 1.0 if step else 0.0)
            self._streams.arrive()
            there = coming
        self._streams.end()
        return outs


class _Streams:
    """The streams of what leaves and of what comes, beside the current one of each device; on CPUs there are none."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = [device if device.type == "cuda" else None for device in devices]
        self._leaving, self._coming = ([d and torch.cuda.Stream(d) for d in self._devices] for _ in range(2))

    def begin(self) -> None:
        """What leaves and comes from here on is after all that was asked for."""
        for device, leaving, coming in self._each():
            leaving.wait_stream(torch.cuda.current_stream(device))
            coming.wait_stream(torch.cuda.current_stream(device))

    def come_after(self, part: int) -> None:
        """What comes to ``part`` from here on is after all that it was asked for."""
        if (coming := self._coming[part]) is not None:
            coming.wait_stream(torch.cuda.current_stream(self._devices[part]))

    @contextlib.contextmanager
    def between(self, owner: int, reader: int) -> Iterator[None]:
        """Copies go beside all else from ``owner`` to ``reader``."""
        leaving, coming = self._leaving[owner], self._coming[reader]
        on_one = leaving is not None and coming is not None and leaving.device == coming.device  # torch does not order these
        if on_one:
            leaving.wait_stream(coming)
        with torch.cuda.stream(coming), torch.cuda.stream(leaving):
            yield
        if on_one:
            coming.wait_stream(leaving)

    def arrive(self) -> None:
        """What is asked for from here on is after what came."""
        for device, _, coming in self._each():
            torch.cuda.current_stream(device).wait_stream(coming)

    def end(self) -> None:
        """And after what left."""
        self.arrive()
        for device, leaving, _ in self._each():
            torch.cuda.current_stream(device).wait_stream(leaving)

    def _each(self) -> Iterator[tuple[torch.device, torch.cuda.Stream, torch.cuda.Stream]]:
        for device, leaving, coming in zip(self._devices, self._leaving, self._coming, strict=True):
            if device is not None and leaving is not None and coming is not None:
                yield device, leaving, coming
