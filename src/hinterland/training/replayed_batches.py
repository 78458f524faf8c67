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
from typing import Any, NamedTuple, Protocol, TypeVar

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
from .pipeline import Stage, in_one, tensors_of, watching
from .prefetch import StreamedStage, settling, stage_stream, wait_for
from .row_gather import kept_table, rows_of
from .trace import span

NAPS = (4e-4, 5e-3)  # seconds between looks at the GPU, at least and at most: each look takes some of the CPU
_IGNORED = -100  # torch's ignore_index: losses leave out seeds with this label

R = TypeVar("R", bound="CapturedRing")
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


class Sampled(NamedTuple):
    """What sampling makes of a batch; ``seeds`` are int64 ``[batch_size]``, ``y`` their labels, None where there are none."""

    sample: PaddedSample
    seeds: torch.Tensor
    y: torch.Tensor | None


class EpochOrder:
    """The batches of an epoch in GPU memory, which graphs find by a counter there.

    Attributes:
        order: int64 ``[batches, batch_size + 2]``: of each batch its seeds, with zeros behind them, its number and their count.
        labels: of those seeds, ``[batches, batch_size, ...]``; None without labels.
        next: int64 ``[1]``, the batch that the next replay makes; then it is ``stride`` more.
    """

    def __init__(self, inputs: CapturedInputs, device: torch.device, stride: int = 1) -> None:
        self.inputs, self.device, self.stride = inputs, device, stride
        shape = (inputs.batches, inputs.batch_size)
        with torch.inference_mode(False), torch.no_grad():
            self.order = torch.zeros((shape[0], shape[1] + 2), dtype=torch.int64, device=device)
            self.next = torch.zeros(1, dtype=torch.int64, device=device)
            self.labels: torch.Tensor | None = None
            if inputs.labels is not None:
                of_none = self._labels_of(torch.zeros(0, dtype=torch.int64))
                self.labels = torch.zeros((*shape, *of_none.shape[1:]), dtype=of_none.dtype, device=device)

    def _labels_of(self, seeds: torch.Tensor) -> torch.Tensor:
        labels = self.inputs.labels
        if isinstance(labels, torch.Tensor) and labels.is_cpu:
            return labels[seeds]
        return rows_of(labels, seeds.to(self.device))

    def holds(self, seeds: torch.Tensor) -> bool:
        """Whether a batch of these seeds can be replayed: it is full, or a loss can leave out seeds by their label."""
        return len(seeds) == self.inputs.batch_size or self._pads_labels()

    def _pads_labels(self) -> bool:
        labels = self.labels
        if labels is None or labels.ndim != 2 or labels.is_floating_point() or labels.is_complex():
            return False
        return labels.dtype.is_signed

    def begin(self, seeds: torch.Tensor, numbers: torch.Tensor, first: int) -> None:
        """Brings an epoch to the GPU: its ``seeds`` in order, the ``numbers`` of its batches (int64, on the CPU), of which
        ``first`` is made next."""
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


class SampleBuffer:
    """Where a sample lies, and the graph that makes it.

    Attributes:
        sampling: the graph.
        memory: all that it makes, in one allocation, uint8; None unless ``packs``.
        made: its arrays.
        counts: as ``sample.ends``, on the CPU.
    """

    def __init__(self, order: EpochOrder, envelope: Envelope, packs: bool = False) -> None:
        hops, on_gpu = len(order.inputs.fanouts), order.device.type == "cuda"
        self.counts = torch.zeros((2, hops + 1), dtype=torch.int64, pin_memory=on_gpu)
        self.memory: torch.Tensor | None
        self.made: Sampled
        self.sampling, (self.memory, self.made) = captured(
            order.device, lambda: self._packed(order, envelope) if packs else (None, self._sample(order, envelope))
        )

    def _sample(self, order: EpochOrder, envelope: Envelope) -> Sampled:
        row = order.order.index_select(0, order.next)[0]
        y = None if order.labels is None else order.labels.index_select(0, order.next)[0]
        order.next.add_(order.stride)
        seeds, given = row[:-2], row[-2:]
        sample = order.inputs.sampler.captured(seeds, given, envelope)
        self.counts.copy_(sample.ends, non_blocking=True)
        return Sampled(sample, seeds, y)

    def _packed(self, order: EpochOrder, envelope: Envelope) -> tuple[torch.Tensor, Sampled]:
        made = self._sample(order, envelope)
        memory, places = in_one(made, order.device)
        torch._foreach_copy_(list(tensors_of(places)), list(tensors_of(made)))
        return memory, places


class BatchBuffer:
    """Where every third batch lies, and the graph that gathers its rows.

    Attributes:
        number: its :attr:`Batch.buffer`.
        gathering: the graph; None where there are no features.
        sample, seeds, x, y: what a batch in it has.
    """

    def __init__(self, number: int, made: Sampled, inputs: CapturedInputs) -> None:
        self.number = number
        self.sample, self.seeds, self.y = made
        self.gathering: torch.cuda.CUDAGraph | None = None
        self.x: torch.Tensor | None = None
        if inputs.features is not None:
            table = kept_table(inputs.features)
            self._padding = None if table is None else table.gather(self.seeds.new_zeros(1))  # which a sample's padding names
            self.gathering, self.x = captured(self.seeds.device, lambda: self._gather(inputs))

    def batch(self) -> Batch:
        """The batch that lies in it."""
        return Batch(self.sample, self.x, self.y, self.seeds, buffer=self.number)

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


class _Ahead(NamedTuple):
    """A batch whose graphs were launched, or that is left to the caller; and when they have sampled and gathered it."""

    numbered: Numbered
    sample: SampleBuffer | None
    buffer: BatchBuffer | None
    sampled: torch.cuda.Event | None
    gathered: torch.cuda.Event | None


def gather_nothing(inputs: CapturedInputs, device: torch.device) -> None:
    """Has the table bring to the GPU what it does once, as scales. Raises where it was closed, which replays do not see."""
    if inputs.features is not None:
        rows_of(inputs.features, torch.zeros(0, dtype=torch.int64, device=device))


class BatchRing:
    """Three buffers, and the order of an epoch."""

    def __init__(self, inputs: CapturedInputs, envelope: Envelope, device: torch.device, first_number: int) -> None:
        self.inputs, self.envelope, self.device = inputs, envelope, device
        self._order = EpochOrder(inputs, device)
        with torch.inference_mode(False), torch.no_grad():
            gather_nothing(inputs, device)
            samples = [SampleBuffer(self._order, envelope) for _ in range(BATCH_BUFFERS)]
            self.buffers = [BatchBuffer(first_number + n, one.made, inputs) for n, one in enumerate(samples)]
        self._samples = samples
        self._user: object | None = None

    def begin(self, seeds: torch.Tensor, numbers: torch.Tensor, first: int) -> None:
        """As of an EpochOrder. ConfigError: the table of features was closed."""
        if self._user is not None:  # another run has launched replays, and nobody has waited for them
            self._user = None  # before the wait, in which another thread would launch more of them
            devices.idle_at(self.device)
        gather_nothing(self.inputs, self.device)
        self._order.begin(seeds, numbers, first)

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
        buffers = itertools.cycle(zip(self._samples, self.buffers, strict=True))
        ahead, nap = deque[_Ahead](), NAPS[0]
        with self._taken() as user, watching(watch, self.device), settling([sampling, gathering], watch):
            while goes_on() and self._user is user:
                caller = None if self.device.type == "cpu" else torch.cuda.current_stream(self.device)
                sampling.follow(caller, None if caller is None else caller.record_event())
                gathering.follow(caller, None)
                for numbered in itertools.islice(source, BATCH_BUFFERS - len(ahead)):
                    ahead.append(self._launched(numbered, *next(buffers), sampling, gathering, watch))
                if not ahead:
                    break
                numbered, sample, buffer, sampled, gathered = ahead.popleft()
                nap = until_sampled(sampled, watch, nap)
                if caller is not None and gathered is not None:  # also of one that does not fit: its buffer is made anew then
                    caller.wait_event(gathered)
                batch = made(looked_at(numbered, sample, buffer, self.envelope))
                watch.leaves()
                yield batch
                watch.came()
        return [one.numbered for one in ahead]

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
        self,
        numbered: Numbered,
        sample: SampleBuffer,
        buffer: BatchBuffer,
        sampling: _ReplayedStage,
        gathering: _ReplayedStage,
        watch: Watch,
    ) -> _Ahead:
        if not self._order.holds(numbered[1]):
            return _Ahead(numbered, None, None, None, None)
        sampled = gathered = sampling.replay(sample.sampling, None, watch)
        if buffer.gathering is not None:
            gathered = gathering.replay(buffer.gathering, sampled, watch)
        return _Ahead(numbered, sample, buffer, sampled, gathered)


def until_sampled(sampled: torch.cuda.Event | None, watch: Watch, nap: float = NAPS[0]) -> float:
    """Waits for the sample of a batch, between looks for ``nap`` seconds, and raises what went wrong on its GPU. Gives the nap
    for the next one."""
    if sampled is None:
        return nap
    since = time.monotonic()
    wait_for(sampled.query, watch, nap)
    faults.raise_deferred(sampled.device.index)
    # The GPU has two batches more to make: that the CPU comes half a batch late costs nothing.
    return min(max((time.monotonic() - since) / 2, NAPS[0]), NAPS[1])


def looked_at(numbered: Numbered, sample: SampleBuffer | None, buffer: BatchBuffer | None, envelope: Envelope) -> HandedOut:
    """A batch that was sampled, with its counts, and without a buffer that was too small."""
    if sample is None:
        return HandedOut(numbered, None, None)
    counts = sample.counts.tolist()
    return HandedOut(numbered, buffer if envelope.holds(counts[0], counts[1][1:]) else None, counts)


class CapturedRing(Protocol):
    """Graphs that make batches, of these inputs and this envelope."""

    inputs: CapturedInputs
    envelope: Envelope
    buffers: list[BatchBuffer]


class Replays:
    """What a loader knows of batches that are replayed, and the graphs that make them.

    Attributes:
        counts: what came of them.
        estimate: of the envelope.
    """

    def __init__(self, inputs: CapturedInputs) -> None:
        self.counts = ReplayCounts()
        self._buffers = 0  # numbers that were given
        self._ring: Any = None  # of one kind
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

    def ring(self, make: Callable[[CapturedInputs, Envelope, int], R]) -> R | None:
        """The graphs of these inputs and this envelope, which ``make`` captures if they are not yet, with buffers numbered from
        the third argument on; None where there is no envelope. Raises what a capture does."""
        envelope, ring = self.estimate.envelope, self._ring
        if envelope is None:
            return None
        if ring is None or ring.envelope != envelope or not _same(ring.inputs, self._inputs):
            self._ring = ring = None  # its memory first
            self._ring = ring = make(self._inputs, envelope, self._buffers)
            self._buffers += len(ring.buffers)
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
        return self.launched(graph, ready, watch)[1]

    def _work(self, item: torch.cuda.CUDAGraph) -> None:
        with span(self.stage.name):
            item.replay()
