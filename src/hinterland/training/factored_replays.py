"""Factored execution of captured parts: one thread launches the graphs of all devices (Yang et al. 2022, "GNNLab").

A sampler's graph makes a sample in one allocation, and one copy brings that to its trainer. There a graph gathers the rows and
another makes the gradients of the batch. Each graph is of one device. Streams of two devices wait for each other by events
between graphs. The CPU looks at one thing: how large the sample became.
"""

from __future__ import annotations

import itertools
import statistics
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from ..memory import faults
from ..runtime import devices
from ..runtime.errors import HinterlandError
from ..runtime.thresholds import BATCH_BUFFERS
from ..runtime.watch import StageWork, Watch
from ..sampling.envelope import Envelope, ends_of
from .capture import CapturedSteps, StepGraph, unfit
from .factored_plan import FactoredPlan
from .factored_queue import BatchResult, loss_and_seen
from .gradients import flattened
from .loader import BatchedSampler, Loader
from .mini_batch import Batch
from .pipeline import Stage, in_one, moved, replaced, watching
from .prefetch import StreamedStage, settling, stage_stream
from .replayed_batches import (
    NAPS,
    BatchBuffer,
    CapturedInputs,
    EpochOrder,
    HandedOut,
    Numbered,
    SampleBuffer,
    gather_nothing,
    looked_at,
    until_sampled,
)
from .replica import Replica

# Of a model and a batch the loss to descend, or it and whatever the caller wants to see of the batch.
TrainStep = Callable[[nn.Module, Batch], Any]


class _Gradients(CapturedSteps):
    """A trainer's part of a step, captured: the loss of a batch and its gradients, one behind the other.

    Attributes:
        made: of the last batch what ``step`` gave besides the loss, the gradients, and which parameters have one. Where it was
            replayed the next batch overwrites them.
    """

    made: tuple[Any, torch.Tensor, tuple[bool, ...]]

    def __init__(self, replica: Replica, learning: Sequence[int], step: TrainStep, loader: Loader) -> None:
        parameters, me = list(replica.model.parameters()), weakref.proxy(self)
        self._learning, self._seen = [parameters[n] for n in learning], None

        def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
            loss, me._seen = loss_and_seen(step(model, batch))
            return loss

        # This optimizer only names the parameters that learn: the caller's makes the step, when a round is over.
        super().__init__(replica.model, loss, torch.optim.SGD(self._learning, lr=0.0), loader)

    def _update(self) -> None:
        gradients = [parameter.grad for parameter in self._learning]
        learned = tuple(gradient is not None for gradient in gradients)
        self.made = self._seen, flattened(self._learning, gradients), learned

    def _captured(self, batch: Any, inputs: tuple[Any, ...]) -> StepGraph | None:
        found = super()._captured(batch, inputs)
        if found is not None:
            found.made = self.made
        return found

    def _replay(self, graph: StepGraph) -> torch.Tensor:
        self.made = graph.made
        return super()._replay(graph)


@dataclass
class _Sample:
    """Where a sampler makes a sample, and when it was copied from there."""

    buffer: SampleBuffer
    taken: torch.cuda.Event | None = None


@dataclass
class _Rows:
    """Where a trainer has a batch, the sample's part of that, and when the trainer was done with it."""

    buffer: BatchBuffer
    memory: torch.Tensor
    trained: torch.cuda.Event | None = None


class FactoredRing:
    """The graphs of samplers and of gathers: three buffers of each trainer, and as many places for samples.

    Args:
        inputs: of the loader.
        first_number: of the first buffer.
        samplers, trainers: the inputs of each device, and the device.
    """

    def __init__(
        self,
        inputs: CapturedInputs,
        envelope: Envelope,
        first_number: int,
        samplers: Sequence[tuple[CapturedInputs, torch.device]],
        trainers: Sequence[tuple[CapturedInputs, torch.device]],
    ) -> None:
        self.inputs, self.envelope, self._trainers = inputs, envelope, trainers
        each = -(-BATCH_BUFFERS * len(trainers) // len(samplers))
        self.orders = [EpochOrder(of, device, len(samplers)) for of, device in samplers]
        with torch.inference_mode(False), torch.no_grad():
            self._require_open()
            self.samples = [[_Sample(SampleBuffer(order, envelope, packs=True)) for _ in range(each)] for order in self.orders]
            numbers = itertools.count(first_number)
            self.rows = [[self._rows(next(numbers), *of) for _ in range(BATCH_BUFFERS)] for of in trainers]
        self.buffers = [one.buffer for rows in self.rows for one in rows]

    def _rows(self, number: int, inputs: CapturedInputs, device: torch.device) -> _Rows:
        memory, made = in_one(self.samples[0][0].buffer.made, device)
        return _Rows(BatchBuffer(number, made, inputs), memory)

    def _require_open(self) -> None:
        for of in self._trainers:
            gather_nothing(*of)

    def begin(self, seeds: torch.Tensor, numbers: torch.Tensor, first: int) -> None:
        """As of an EpochOrder; the samplers take turns from ``first`` on. ConfigError: a table of features was closed."""
        self._require_open()
        for sampler, order in enumerate(self.orders):
            order.begin(seeds, numbers, first + sampler)


class _Ahead(NamedTuple):
    """A batch whose graphs were launched, or one that is left to the trainer; and when they have sampled and gathered it."""

    numbered: Numbered
    who: int
    sample: _Sample | None = None
    rows: _Rows | None = None
    sampled: torch.cuda.Event | None = None
    gathered: torch.cuda.Event | None = None


class _Streams:
    """The stages of all devices in one iteration, each on a stream of its own; a trainer's steps are on its current one."""

    def __init__(self, plan: FactoredPlan, stages: Sequence[Sequence[Stage]]) -> None:
        sampling, gathering, training = stages
        number, trainers = itertools.count(), plan.devices
        self.sampling = [
            StreamedStage(one, stage_stream(on, next(number))) for one, on in zip(sampling, plan.samplers, strict=True)
        ]
        self.gathering = [
            StreamedStage(one, stage_stream(on, next(number))) for one, on in zip(gathering, trainers, strict=True)
        ]
        self.training = [StreamedStage(one, _current(on)) for one, on in zip(training, trainers, strict=True)]
        # Of each trainer and sampler: a copy waits for both streams, and a sampler is not to wait for a gather.
        self.copying = [[stage_stream(by, next(number)) for by in plan.samplers] for _ in trainers]

    @property
    def all(self) -> list[StreamedStage]:
        return [*self.sampling, *self.gathering, *self.training]

    def under_way(self) -> StageWork | None:
        """What a device has begun and not ended."""
        return next(filter(None, map(StreamedStage.under_way, self.all)), None)


def _current(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


class FactoredReplays:
    """The rounds of a :class:`.Factored`, by graphs.

    Args:
        loader: made with ``capture=``. Its ``capture`` becomes False where graphs cannot be had.
        samplers: those of ``plan.samplers``.
        readers, replicas: of ``plan.devices``.
        learning: which of the model's parameters learn.
        step: as of Factored.

    Attributes:
        stages: of each sampler one that samples, and of each of ``plan.devices`` one that gathers and one that trains.

    Raises:
        ConfigError: the loader has ``capture=True``, and a device's part cannot be captured.
    """

    def __init__(
        self,
        loader: Loader,
        plan: FactoredPlan,
        samplers: Sequence[BatchedSampler],
        readers: Sequence[Loader],
        replicas: Sequence[Replica],
        learning: Sequence[int],
        step: TrainStep,
    ) -> None:
        self._loader, self._plan, self._samplers, self._readers, self._replicas = loader, plan, samplers, readers, replicas
        self._steps = [_Gradients(replica, learning, step, loader) for replica in replicas]
        me = weakref.proxy(self)
        self.stages: list[list[Stage]] = [
            [Stage("sample", lambda graph: graph.replay()) for _ in samplers],
            [Stage("gather", lambda item: me._gather(*item)) for _ in replicas],
            [Stage("train", lambda item: me._train(*item)) for _ in replicas],
        ]
        every = [
            loader.reading(one.features, on, by) for one in readers for on, by in zip(plan.samplers, samplers, strict=True)
        ]
        loader.capture = all(one.captures() for one in every)

    @property
    def replayed(self) -> int:
        """Batches so far whose gradients were made by replays."""
        return sum(steps.replayed for steps in self._steps)

    def rounds(self, number: int, first: int) -> Generator[list[BatchResult]]:
        """What the batches of each round gave, from batch ``first`` of epoch ``number`` on, as long as the loader captures.
        The model's parameters are read when a round is asked for.

        Raises:
            PipelineStalled: no batch for the loader's timeout; names the stage that is stuck.
        """
        loader, total, home = self._loader, len(self._loader), self._replicas[0].home
        self._known = loader.replays()
        self._steps[0].refuse(unfit(self._replicas[0].origin))
        self._number, self._begin, self._order = number, first, loader.order(number)
        self._numbered = list(loader.numbered(number, first, self._order))
        self._ring: FactoredRing | None = None
        self._turns: list[Iterator[_Rows]] = []
        self._ahead, self._owners, self._nap = deque[_Ahead](), dict[int, int](), NAPS[0]
        self._streams = streams = _Streams(self._plan, self.stages)
        self._watch = watch = Watch(loader.timeout, "batch", streams.under_way)
        with watching(watch, home), settling(streams.all, watch):
            while first < total and loader.capture:
                end = self._plan.end_of_round(first, total)
                # What crosses to or from the model's device has its stream wait: so before all steps, and behind them.
                for who in {self._owner(i) for i in range(first, end)}:
                    self._replicas[who].follow(self._plan.round_of(first), None)
                made = [self._made(i, i == first) for i in range(first, end)]
                watch.leaves()
                yield [moved(one, home) for one in made]
                watch.came()
                first = end

    def _made(self, i: int, keeps_buffers: bool) -> BatchResult:
        """What a batch gives, once its step is launched."""
        loader, estimate = self._loader, self._known.estimate
        if loader.capture:
            self._launch_ahead(i)
        one = self._ahead.popleft() if self._ahead else _Ahead(self._numbered[i - self._begin], self._owner(i))
        handed = HandedOut(one.numbered, None, None)
        if one.sample is not None and one.rows is not None and self._ring is not None:
            self._nap = until_sampled(one.sampled, self._watch, self._nap)
            if one.gathered is not None:
                faults.raise_deferred(one.gathered.device.index)
            handed = looked_at(one.numbered, one.sample.buffer, one.rows.buffer, self._ring.envelope)
        train = self._streams.training[one.who]
        if handed.buffer is None:
            batch = self._ordinary(i, one)
            if estimate.missing:
                estimate.note(ends_of(batch.sample).tolist())
        else:
            batch = handed.buffer.batch()
        (replayable, made), trained = train.launched((i, one.who, batch, keeps_buffers), one.gathered, self._watch)
        if one.rows is not None:
            one.rows.trained = trained
        if handed.buffer is None or replayable:  # what its step could not bear is counted as an ordinary one
            self._known.note(handed)
        self._watch.came()
        return made

    def _launch_ahead(self, i: int) -> None:
        """Launches what makes batches from ``i`` on, as many as trainers have buffers for."""
        ring = self._ring or self._begun(i)
        if ring is None:
            return
        for j in range(i + len(self._ahead), len(self._loader)):
            who, numbered = self._owner(j), self._numbered[j - self._begin]
            if sum(one.who == who for one in self._ahead) == BATCH_BUFFERS:
                return
            holds = ring.orders[0].holds(numbered[1])
            self._ahead.append(self._launched(ring, j, who, numbered) if holds else _Ahead(numbered, who))

    def _begun(self, i: int) -> FactoredRing | None:
        """The graphs, which make batch ``i`` next; None before a shape is known, and where they cannot be captured."""
        loader, plan = self._loader, self._plan
        samplers = [
            (loader.reading(None, on, by).captured_inputs(), on) for on, by in zip(plan.samplers, self._samplers, strict=True)
        ]
        trainers = [
            (one.reading(one.features, on).captured_inputs(), on) for on, one in zip(plan.devices, self._readers, strict=True)
        ]
        try:
            ring = self._known.ring(lambda inputs, shape, number: FactoredRing(inputs, shape, number, samplers, trainers))
        except (HinterlandError, RuntimeError) as error:
            loader.capture_failed(error)
            return None
        if ring is not None:
            ring.begin(self._order, loader.batch_numbers(self._number), i)
            for stage in (*self._streams.sampling, *self._streams.gathering):
                if stage.stream is not None:  # which reads what was written on the current one
                    stage.wait(torch.cuda.current_stream(stage.stream.device).record_event())
            self._ring, self._ring_begin, self._turns = ring, i, [itertools.cycle(rows) for rows in ring.rows]
        return ring

    def _launched(self, ring: FactoredRing, j: int, who: int, numbered: Numbered) -> _Ahead:
        """Batch ``j``, once its sample and its gather are launched."""
        turn, by = divmod(j - self._ring_begin, len(ring.samples))
        sample, rows = ring.samples[by][turn % len(ring.samples[by])], next(self._turns[who])
        _, sampled = self._streams.sampling[by].launched(sample.buffer.sampling, sample.taken, self._watch)
        gathering = self._streams.gathering[who]
        gathering.wait(rows.trained)
        item = sample, rows, self._streams.copying[who][by]
        sample.taken, gathered = gathering.launched(item, sampled, self._watch)
        return _Ahead(numbered, who, sample, rows, sampled, gathered)

    def _owner(self, j: int) -> int:
        """Who trains batch ``j``. The first batch of a round deals out all of them."""
        if j not in self._owners:
            ahead = bool(self._ahead) and all(one.sampled is None or one.sampled.query() for one in self._ahead)
            batches = range(j, self._plan.end_of_round(j, len(self._loader)))
            paces = [self._pace(*stages) for stages in zip(*self.stages[1:], strict=True)]
            self._owners |= zip(batches, self._plan.deal(len(batches), paces, ahead), strict=True)
        return self._owners[j]

    @staticmethod
    def _pace(gathering: Stage, training: Stage) -> float | None:
        """Seconds that a batch takes a trainer, T_t; None before the second."""
        both = (gathering.recent, training.recent)
        return max(map(statistics.median, both)) if min(map(len, both)) > 1 else None

    def _ordinary(self, i: int, one: _Ahead) -> Batch:
        """A batch that no graph makes, sampled where its lists are kept."""
        number, seeds = one.numbered
        by = (i - self._begin) % len(self._samplers)
        device, to = self._plan.samplers[by], self._plan.devices[one.who]
        with self._watch.over(f"'sample' on {device}", i):
            there = seeds.to(device)
            sampled = self._samplers[by].sample(there, batch=number), there
        with self._watch.over(f"'gather' on {to}", i):
            return self._readers[one.who].batch_of(*moved(sampled, to))

    def _gather(self, sample: _Sample, rows: _Rows, copying: torch.cuda.Stream | None) -> torch.cuda.Event | None:
        """On the stream of a gather. Gives when the sample was copied."""
        device, memory = rows.memory.device, sample.buffer.memory
        assert memory is not None
        # Between GPUs a copy is on the current stream of the one it reads, and both current streams wait for each other.
        with torch.cuda.stream(copying) if memory.device != device else nullcontext():
            rows.memory.copy_(memory, non_blocking=True)
        stream = _current(device)
        taken = None if stream is None else stream.record_event()
        if rows.buffer.gathering is not None:
            rows.buffer.gathering.replay()
        return taken

    def _train(self, i: int, who: int, batch: Batch, keeps_buffers: bool) -> tuple[bool, BatchResult]:
        """On a trainer's current stream. Gives whether the step was on the batch as it is, and what came of it."""
        replica, steps = self._replicas[who], self._steps[who]
        replica.follow(self._plan.round_of(i), None)
        devices.generator(replica.device).manual_seed(self._loader.seed_of(self._number, i))
        trained, loss = steps.step(batch)
        seen, gradients, learned = steps.made
        buffers = list(replica.model.buffers()) if keeps_buffers else []
        made = BatchResult(loss.view(()), gradients, learned, buffers, seen)
        # Copies, for the next batch overwrites what this one made.
        return trained is batch, replaced(made, lambda one: one.detach().clone())
