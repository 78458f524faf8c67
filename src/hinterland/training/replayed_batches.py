"""Batches of fixed shape, which CUDA graphs sample and gather: for a batch the CPU replays two graphs and looks at its counts.

Three buffers go round. While a model trains on one, the rows of the next are gathered and the one after it is sampled, each on
a stream of its own. Which seeds a batch has a graph finds by a counter in GPU memory, where the order of the epoch lies. Rows
are gathered before the CPU knows the counts: whatever a sample of fixed shape holds can be gathered. A batch with more vertices
or edges than there is place for is left to the caller, who makes it without a graph.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from ..memory import faults
from ..memory.gather import Padding
from ..runtime import arguments, devices
from ..runtime.capture import captured
from ..runtime.errors import ConfigError
from ..runtime.thresholds import BATCH_BUFFERS
from ..runtime.watch import Watch
from ..sampling import NeighborSampler, Sample
from ..sampling.envelope import Envelope, PaddedSample, ends_of
from .envelope_estimate import Counts, EnvelopeEstimate, ReplayCounts
from .mini_batch import Batch
from .pipeline import Stage, watching
from .prefetch import StreamedStage, settling, stage_stream, wait_for
from .row_gather import kept_table, rows_of
from .trace import span

_NAPS = (4e-4, 5e-3)  # seconds between looks at the GPU, at least and at most: each look takes some of the CPU
_IGNORED = -100  # torch's ignore_index: losses leave out seeds with this label

Numbered = tuple[int, torch.Tensor]  # a batch's number, and its seeds on the CPU


class CapturedInputs(NamedTuple):
    """What graphs of a loader are captured of: where one of these is another, they are captured anew.

    Attributes:
        sampler, fanouts, seed, replace: the sampler, and how it draws.
        batch_size: seeds of a full batch.
        batches: of an epoch.
        features, labels: as of a Loader.
        blocks: multiprocessors for a gather.
    """

    sampler: NeighborSampler
    fanouts: tuple[int, ...]
    seed: int
    replace: bool
    batch_size: int
    batches: int
    features: Any
    labels: Any
    blocks: Any

    @property
    def shape(self) -> tuple[Any, ...]:
        """What decides how large batches are."""
        return (self.sampler.graph, self.fanouts, self.replace, self.batch_size)


def capture_choice(capture: Any) -> bool | str:
    """``capture`` of a Loader and of train. ConfigError: it is none of the three."""
    if isinstance(capture, bool) or (isinstance(capture, str) and capture == "auto"):
        return capture
    raise ConfigError(f"capture={arguments.repr_of(capture)} is none of False, True and 'auto'")


def refusal(inputs: CapturedInputs, device: torch.device, host_threads: int, counted: bool) -> str | None:
    """Why batches of these cannot be captured on ``device``, a sentence; None where they can. ``host_threads``: cores that help
    to gather; ``counted``: whether each batch is waited for and counted."""
    sampler, features, labels = inputs.sampler, inputs.features, inputs.labels
    if device.type == "cpu":
        return "CUDA graphs are captured on a GPU, and batches are made on the CPU"
    if counted:
        return "batches that stats= counts are waited for one by one; leave out stats="
    if host_threads:
        return "rows that the CPU helps to gather are no part of a CUDA graph; leave out host_threads="
    if not isinstance(sampler, NeighborSampler):
        return f"batches of a {type(sampler).__name__} are not captured; use a NeighborSampler"
    if sampler.device != device:
        return f"the sampler is on {sampler.device}, and batches are made on {device}; make both there"
    if refused := sampler.refuses_capture(inputs.batch_size):
        return refused
    for name, table in (("features", features), ("labels", labels)):
        if getattr(table, "collective", False):
            return f"{name} are dealt out over machines, whose gathers wait for each other"
        if getattr(table, "requires_grad", False):
            return f"{name} learn, and rows that a CUDA graph gathers have no gradients; gather them in the model"
    if features is None:
        return None
    if isinstance(features, Mapping):
        return "features are those of several types; give a table of one"
    if len(features) < sampler.graph.num_vertices:
        return (
            f"features have {len(features)} rows, but the graph has {sampler.graph.num_vertices} vertices; give a row for each"
        )
    if isinstance(features, torch.Tensor):
        moved = "make a table of them, UnifiedTensor.from_tensor(features)"
        return None if features.device == device else f"features are a tensor on {features.device}; {moved}"
    known = kept_table(features)
    if known is None or not known.in_reach:
        return f"rows of a {type(features).__name__} are fetched by the CPU; use a table in memory that the GPU reads"
    if known.placement == "pageable":
        return "features lie in pageable memory, which no GPU reads; make the table with placement='host'"
    return None


class BatchBuffer:
    """Where every third batch lies, and the graphs that make it.

    Attributes:
        number: its :attr:`Batch.buffer`.
        sampling, gathering: the graphs; None where there are no features.
        sample, seeds, x, y: what a batch in it has.
        counts: as ``sample.ends``, on the CPU.
    """

    def __init__(self, number: int, ring: BatchRing) -> None:
        self.number = number
        inputs, device = ring.inputs, ring.device
        hops, on_gpu = len(inputs.fanouts), device.type == "cuda"
        self.counts = torch.zeros((2, hops + 1), dtype=torch.int64, pin_memory=on_gpu)
        self.sampling, made = captured(device, lambda: self._sample(ring))
        self.sample: PaddedSample
        self.sample, self.seeds, self.y = made
        self.gathering: torch.cuda.CUDAGraph | None = None
        self.x: torch.Tensor | None = None
        if inputs.features is not None:
            table = kept_table(inputs.features)
            self._padding = None if table is None else table.gather(self.seeds.new_zeros(1))  # which a sample's padding names
            self.gathering, self.x = captured(device, lambda: self._gather(inputs))

    def _sample(self, ring: BatchRing) -> tuple[PaddedSample, torch.Tensor, torch.Tensor | None]:
        row = ring.order.index_select(0, ring.next)[0]
        y = None if ring.labels is None else ring.labels.index_select(0, ring.next)[0]
        ring.next.add_(1)
        seeds, given = row[:-2], row[-2:]
        sample = ring.inputs.sampler.captured(seeds, given, ring.envelope)
        self.counts.copy_(sample.ends, non_blocking=True)
        return sample, seeds, y

    def _gather(self, inputs: CapturedInputs) -> torch.Tensor:
        features, sample = inputs.features, self.sample
        if self._padding is None:
            return rows_of(features, sample.node)
        rows: torch.Tensor = features.gather_padded(sample.node, Padding(sample.ends[0, -1], self._padding), inputs.blocks)
        return rows


class HandedOut(NamedTuple):
    """A batch: its number and seeds; the buffer it lies in, or None where it is left to the caller; and its counts."""

    numbered: Numbered
    buffer: BatchBuffer | None
    counts: Counts | None


# A batch whose graphs were launched, and when they have sampled and gathered it.
_Ahead = tuple[HandedOut, torch.cuda.Event | None, torch.cuda.Event | None]


class BatchRing:
    """Three buffers, and the order of an epoch in GPU memory.

    Attributes:
        order: int64 ``[batches, batch_size + 2]``: of each batch its seeds, with zeros behind them, its number and their count.
        labels: of those seeds, ``[batches, batch_size, ...]``; None without labels.
        next: int64 ``[1]``, the batch that the next replay makes.
    """

    def __init__(self, inputs: CapturedInputs, envelope: Envelope, device: torch.device, first_number: int) -> None:
        self.inputs, self.envelope, self.device = inputs, envelope, device
        shape = (inputs.batches, inputs.batch_size)
        with torch.inference_mode(False), torch.no_grad():
            self.order = torch.zeros((shape[0], shape[1] + 2), dtype=torch.int64, device=device)
            self.next = torch.zeros(1, dtype=torch.int64, device=device)
            self.labels: torch.Tensor | None = None
            if inputs.labels is not None:
                of_none = self._labels_of(torch.zeros(0, dtype=torch.int64))
                self.labels = torch.zeros((*shape, *of_none.shape[1:]), dtype=of_none.dtype, device=device)
            self._gather_nothing()
            self._buffers = [BatchBuffer(first_number + n, self) for n in range(BATCH_BUFFERS)]
        self._user: object | None = None

    def _gather_nothing(self) -> None:
        """Has the table bring to the GPU what it does once, as scales. Raises where it was closed, which replays do not see."""
        if self.inputs.features is not None:
            rows_of(self.inputs.features, self.next[:0])

    def _labels_of(self, seeds: torch.Tensor) -> torch.Tensor:
        labels = self.inputs.labels
        if isinstance(labels, torch.Tensor) and labels.is_cpu:
            return labels[seeds]
        return rows_of(labels, seeds.to(self.device))

    def _pads_labels(self) -> bool:
        """Whether a loss can leave out seeds by their label."""
        labels = self.labels
        if labels is None or labels.ndim != 2 or labels.is_floating_point() or labels.is_complex():
            return False
        return labels.dtype.is_signed

    def begin(self, seeds: torch.Tensor, numbers: torch.Tensor, first: int) -> None:
        """Brings an epoch to the GPU: its ``seeds`` in order, the ``numbers`` of its batches (int64, on the CPU), of which
        ``first`` is made next. ConfigError: the table of features was closed."""
        if self._user is not None:  # another run has launched replays, and nobody has waited for them
            self._user = None  # before the wait, in which another thread would launch more of them
            devices.idle_at(self.device)
        self._gather_nothing()
        batches, size = self.inputs.batches, self.inputs.batch_size
        seeds = seeds[: batches * size]
        counts = (len(seeds) - size * torch.arange(batches)).clamp(max=size)
        behind = seeds.new_zeros(batches * size - len(seeds))
        order = torch.cat([torch.cat([seeds, behind]).view(batches, size), numbers[:, None], counts[:, None]], dim=1)
        self.order.copy_(order)
        if self.labels is not None:
            flat = self.labels.view(batches * size, *self.labels.shape[2:])
            flat[: len(seeds)] = self._labels_of(seeds).to(self.device)
            flat[len(seeds) :] = _IGNORED if self._pads_labels() else 0
        self.next.fill_(first)

    def run(
        self,
        source: Iterator[Numbered],
        stages: list[Stage],
        timeout: float,
        made: Callable[[HandedOut], Batch],
        goes_on: Callable[[], bool],
    ) -> Generator[Batch, None, list[Numbered]]:
        """Hands out the batches of ``source``, which are those from the ``first`` of :meth:`begin` on.

        A batch's buffer is made anew once the next one is asked for, after what was launched before on the current stream.

        Args:
            stages: two, whose seconds and items are counted.
            timeout: as of a Pipeline.
            made: gives the batch.
            goes_on: asked before each batch.

        Returns:
            What was taken from ``source`` and not handed out, where it did not go on or the ring was taken for another run.
        """
        sampling, gathering = (_ReplayedStage(stage, stage_stream(self.device, n)) for n, stage in enumerate(stages))
        watch = Watch(timeout, under_way=lambda: sampling.under_way() or gathering.under_way())
        buffers, ahead, nap = itertools.cycle(self._buffers), deque[_Ahead](), _NAPS[0]
        with self._taken() as user, watching(watch, self.device), settling([sampling, gathering], watch):
            while goes_on() and self._user is user:
                caller = None if self.device.type == "cpu" else torch.cuda.current_stream(self.device)
                sampling.follow(caller, None if caller is None else caller.record_event())
                gathering.follow(caller, None)
                for numbered in itertools.islice(source, BATCH_BUFFERS - len(ahead)):
                    ahead.append(self._launched(numbered, next(buffers), sampling, gathering, watch))
                if not ahead:
                    break
                handed, sampled, gathered = ahead.popleft()
                if sampled is not None:
                    since = time.monotonic()
                    wait_for(sampled.query, watch, nap)
                    # The GPU has two batches more to make: that the CPU comes half a batch late costs nothing.
                    nap = min(max((time.monotonic() - since) / 2, _NAPS[0]), _NAPS[1])
                    faults.raise_deferred(self.device.index)
                if caller is not None and gathered is not None:  # also of one that does not fit: its buffer is made anew then
                    caller.wait_event(gathered)
                batch = made(self._looked_at(handed))
                watch.leaves()
                yield batch
                watch.came()
        return [handed.numbered for handed, *_ in ahead]

    @contextmanager
    def _taken(self) -> Iterator[object]:
        """Around a run, which ends where another one begins."""
        user = self._user = object()
        try:
            yield user
        finally:
            if self._user is user:
                self._user = None

    def _launched(
        self, numbered: Numbered, buffer: BatchBuffer, sampling: _ReplayedStage, gathering: _ReplayedStage, watch: Watch
    ) -> _Ahead:
        if len(numbered[1]) < self.inputs.batch_size and not self._pads_labels():
            return HandedOut(numbered, None, None), None, None
        sampled = gathered = sampling.replay(buffer.sampling, None, watch)
        if buffer.gathering is not None:
            gathered = gathering.replay(buffer.gathering, sampled, watch)
        return HandedOut(numbered, buffer, None), sampled, gathered

    def _looked_at(self, handed: HandedOut) -> HandedOut:
        """With its counts, and without a buffer that was too small."""
        if handed.buffer is None:
            return handed
        counts = handed.buffer.counts.tolist()
        fits = self.envelope.holds(counts[0], counts[1][1:])
        return HandedOut(handed.numbered, handed.buffer if fits else None, counts)


class Replays:
    """What a loader knows of batches that are replayed, and the graphs that make them.

    Attributes:
        counts: what came of them.
        estimate: of the envelope.
    """

    def __init__(self, inputs: CapturedInputs) -> None:
        self.counts = ReplayCounts()
        self._buffers = 0  # numbers that were given
        self._ring: BatchRing | None = None
        self._inputs = inputs
        self.estimate = self._no_estimate()

    def _no_estimate(self) -> EnvelopeEstimate:
        inputs = self._inputs
        return EnvelopeEstimate(Envelope.largest(inputs.batch_size, inputs.fanouts, inputs.sampler.graph.num_vertices))

    def take(self, inputs: CapturedInputs) -> None:
        """Captures these from now on. Of batches of another shape nothing is known."""
        before, self._inputs = self._inputs, inputs
        if not _same(before.shape, inputs.shape):
            self._ring, self.estimate = None, self._no_estimate()

    def noted(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Batches, whose counts are taken in as they are handed out."""
        for batch in batches:
            self.estimate.note(ends_of(batch.sample).tolist())
            yield batch

    def note(self, handed: HandedOut) -> None:
        """Takes in what became of a batch."""
        if handed.counts is None:
            return
        self.estimate.note(handed.counts)
        if handed.buffer is None:
            self.estimate.overflowed += 1
            self.counts.overflowed += 1
            return
        self.estimate.replayed += 1
        self.counts.replayed += 1
        self.counts.seeds += handed.counts[0][0]
        self.counts.vertices += handed.counts[0][-1]
        self.counts.edges += handed.counts[1][-1]
        self.counts.rows += len(handed.buffer.sample.node)

    def ring(self, device: torch.device) -> BatchRing | None:
        """The graphs of these inputs and this envelope, captured if they are not yet; None where there is no envelope. Raises
        what a capture does."""
        envelope, ring = self.estimate.envelope, self._ring
        if envelope is None:
            return None
        if ring is None or ring.envelope != envelope or not _same(ring.inputs, self._inputs):
            self._ring = ring = None  # its memory first
            self._ring = ring = BatchRing(self._inputs, envelope, device, self._buffers)
            self._buffers += BATCH_BUFFERS
        return ring


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether all are the same objects, or equal numbers."""
    return all(a is b or (isinstance(a, int | tuple) and a == b) for a, b in zip(one, other, strict=True))


def unpadded(sample: PaddedSample, counts: Counts) -> Sample:
    """What was drawn, where ``counts`` are those of ``sample.ends``."""
    vertices, edges = counts[0][-1], counts[1][-1]
    steps = [[after - before for before, after in itertools.pairwise(ends)] for ends in counts]
    row, col, edge = (array[:edges] for array in (sample.row, sample.col, sample.edge))
    return Sample(sample.node[:vertices], row, col, edge, [counts[0][0], *steps[0]], steps[1])


class _ReplayedStage(StreamedStage):
    """A stage whose work is a replay."""

    def replay(self, graph: torch.cuda.CUDAGraph, ready: torch.cuda.Event | None, watch: Watch) -> torch.cuda.Event | None:
        self.launch(graph, ready, watch)
        return self.made.pop()[1]

    def _work(self, item: torch.cuda.CUDAGraph) -> None:
        with span(self.stage.name):
            item.replay()
