"""Factored execution: some devices sample, others train, linked by one queue of samples (Yang et al. 2022, "GNNLab").

A step averages the gradients of a fixed number of consecutive batches, its *round*, in their order. Which device computes a
gradient changes none of its operands, so parameters do not depend on the number of devices, their roles, or the time.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..runtime import arguments
from ..runtime import devices as machine
from ..runtime.arguments import repr_of
from ..runtime.errors import ConfigError, PipelineStalled
from ..runtime.units import format_bytes
from ..table.embedding import TableParameter
from .cache_plan import CachePlan
from .factored_cache import DeviceCaches, wanted_on_devices
from .factored_plan import FactoredPlan, StageTimes, plan_roles
from .factored_queue import BatchResult, Epoch, SampleTask, Tally, TrainerPace, loss_and_seen
from .factored_replays import FactoredReplays, TrainStep
from .gradients import flattened, parted
from .loader import BatchedSampler, Loader
from .mini_batch import Batch
from .pipeline import PATIENCE, Pipeline, Stage, moved, own_stream, receive, tensors_of, watching
from .replica import Replica

_MEASURED = 3  # batches, after one that loads kernels and fills the allocator's cache


@dataclass(frozen=True)
class Averaged:
    """A step that is ready to be made: ``model``'s parameters have their gradients.

    Attributes:
        losses: float64 ``[batches]``, of each batch of the round, on the model's device.
        seen: what ``step`` gave besides, of each batch.
    """

    losses: torch.Tensor
    seen: list[Any]


class Factored:
    """Trains a model on several devices of this process; each ``iter()`` is one epoch of the loader, or the rest of one.

    ::

        for averaged in factored:
            optimizer.step()

    Each trainer has a replica of ``model``. Before every step the replicas take its parameters; ``averaged`` comes when the
    mean of the round's gradients is in ``model``. Buffers, as batch normalisation's, become what the round's first batch made
    of them.

    Sampling runs ahead of training by up to ``depth`` batches. Where a round begins with so many samples ready, a sampler's
    device trains in it, too, if that is profitable (:func:`.factored_plan.assign`), and then samples again. On one device both
    alternate.

    Whatever a thread raises is raised where steps are taken, with its own traceback. However iteration ends, its threads do.
    There is one iteration at a time, since replicas belong to it.

    Args:
        loader: of the batches: their seeds, order, rows, labels and timeout. Its position advances with each step. It has no
            ``cache=`` and no ``gpu_budget=``, which are given here, and no ``stats=``. With ``capture=`` CUDA graphs sample,
            gather and make gradients, launched by one thread, where they can (:mod:`.factored_replays`).
        sampler_on: makes the sampler of a device, as ``lambda device: NeighborSampler(graph, [15, 10, 5], device=device)``.
            All must give the same samples.
        model: whose parameters are trained, on any device; best on the first.
        step: from a replica and a Batch on its device, the loss, a tensor of one number, or a pair of it and anything else. It
            runs in several threads, also to measure and to be captured, so it has no other effect. The device's default
            generator is seeded for each batch.
        devices: where to sample and train; the last ones sample. A device may be named more than once.
        round: batches of one step, fewer in an epoch's last; None is as many as devices, as data parallel training has it.
        samplers: how many devices sample; None measures a few batches and takes GNNLab's rule (:func:`.plan_roles`).
        depth: samples that may wait, without graphs; None is two rounds.
        cache, gpu_budget: what each of ``devices`` keeps in its own memory, and how much of it, as of :class:`.Loader`; filled
            when roles are known. Trainers keep rows, and with ``"auto"`` samplers lists (:class:`.DeviceCaches`); devices of a
            role share rows as saves most. A cache needs a size. No sample and no row changes.

    Raises:
        ConfigError: arguments that do not go together, a sampler on another device, a step that returns no loss, an iteration
            that begins inside another; a cache without a size, or of something that cannot be kept;
            a loader with ``capture=True`` where a device's part cannot be captured.
        OutOfMemory: less of a device's memory is free than ``gpu_budget``.
        PipelineStalled: no batch for the loader's ``timeout`` seconds; names the stage that is stuck.
    """

    def __init__(
        self,
        loader: Loader,
        sampler_on: Callable[[torch.device], BatchedSampler],
        model: nn.Module,
        step: TrainStep,
        devices: Sequence[torch.device | str | int],
        *,
        round: int | None = None,
        samplers: int | None = None,
        depth: int | None = None,
        cache: Any = None,
        gpu_budget: int | str | None = None,
    ) -> None:
        self._devices = as_devices(devices)
        arguments.instance("loader", loader, Loader, "as Loader(sampler, seeds, batch_size) is")
        arguments.instance("model", model, nn.Module, "as make_model() gives")
        if loader.stats is not None:
            raise ConfigError("the loader's stats= are of batches that one device makes; leave them out for several")
        if loader.asked_cache is not None:
            raise ConfigError(
                "the loader's cache is of one device, and several gather; give cache= and gpu_budget= to Factored, and leave "
                "them out of the loader"
            )
        self._asked = wanted_on_devices(cache, gpu_budget)
        round = len(self._devices) if round is None else round
        self.round = arguments.at_least_one("round", round, "averages no batch; use 1 or more")
        depth = 2 * self.round if depth is None else depth
        self.depth = arguments.at_least_one("depth", depth, "leaves samples no room; use 1 or more")
        self._learning = [n for n, p in enumerate(model.parameters()) if p.requires_grad]
        if not self._learning:
            raise ConfigError("the model has no parameter that requires a gradient; there is nothing to train")
        if any(isinstance(p, TableParameter) for p in model.parameters()):
            raise ConfigError("the model has embedding tables in host memory, of which replicas are not made; use one device")
        for name, given in (("sampler_on", sampler_on), ("step", step)):
            if not callable(given):
                raise ConfigError(f"{name} is a {type(given).__name__}, but must be a function; see Factored")
        plan_roles(self._devices, self.round, samplers=samplers)  # refuses what leaves no trainer before anything is measured
        self.loader, self.model, self.step = loader, model, step
        self._sampler_on, self._samplers = sampler_on, samplers
        self._home = next(model.parameters()).device
        self._drawing = {device: threading.Lock() for device in self._devices}
        self._tally = Tally([0] * len(self._devices), [TrainerPace() for _ in self._devices])
        self._kept_samplers: dict[int, BatchedSampler] = {}
        self._kept_readers: dict[int, Loader] = {}
        self._iterated = False
        self._replays: FactoredReplays | None = None
        self._threads: list[threading.Thread] = []  # of the last iteration

    @property
    def seconds(self) -> dict[str, float]:
        """What each stage took so far, all devices together; of what is replayed the GPUs' time."""
        seconds = dict(self._tally.seconds)
        for stage in itertools.chain(*(self._replays.stages if self._replays is not None else ())):
            seconds[stage.name] += stage.seconds
        return seconds

    @property
    def replayed(self) -> int:
        """Batches so far whose gradients CUDA graphs made."""
        return 0 if self._replays is None else self._replays.replayed

    @property
    def trained(self) -> list[int]:
        """Batches that each device of ``plan.devices`` has trained on so far."""
        replays = [0] * len(self._devices) if self._replays is None else [stage.items for stage in self._replays.stages[-1]]
        return [sum(counts) for counts in zip(self._tally.trained, replays, strict=True)]

    @functools.cached_property
    def plan(self) -> FactoredPlan:
        """Who samples and who trains; made, and the stages measured for it, when first asked for."""
        given = self._samplers is not None or len(self._devices) == 1
        plan = plan_roles(self._devices, self.round, None if given else self._measure(), self._samplers)
        for samples in [] if self._caches is None else self._caches.settle(plan):
            (self._kept_samplers if samples else self._kept_readers).clear()
        return plan

    @property
    def cache_plans(self) -> list[CachePlan]:
        """What each device of ``plan.devices`` keeps; none without a cache."""
        return [] if self._caches is None else [self._caches.plan(self._samples(who)) for who in range(len(self._devices))]

    def explain(self) -> str:
        """The plan, what each device keeps, and how many batches each has trained on."""
        lines = [self.plan.explain()]
        for device, kept in zip(self.plan.devices, self.cache_plans, strict=False):
            s = kept.split
            dealt = f" and its part of {s.dealt_rows:,}" if s.dealt_rows else ""
            rows = f"{s.rows - s.dealt_rows:,} rows{dealt} ({format_bytes(s.feature_bytes)})"
            lines.append(f"{device} keeps {rows} and {format_bytes(s.adjacency_bytes)} of the lists")
        counts = ", ".join(f"{device} {count}" for device, count in zip(self.plan.devices, self.trained, strict=True))
        if self.replayed:
            seconds = self.seconds
            shares = ", ".join(f"{name} {took / sum(seconds.values()):.0%}" for name, took in seconds.items())
            lines.append(f"replayed {self.replayed:,} of {sum(self.trained):,} batches; time of all devices by stage: {shares}")
        return "\n".join([*lines, f"batches trained so far: {counts}"])

    def __iter__(self) -> Iterator[Averaged]:
        number, first = self.loader.position
        if first == len(self.loader):  # no batches at all
            return
        self._require_replicas()
        for replica in self._replicas:
            replica.begin()
        self._iterated = True
        try:
            if self.loader.capture:
                yield from self._by_graphs(number)
            if self.loader.position[0] == number:
                yield from self._by_threads(number)
        finally:
            self._iterated = False

    def _by_graphs(self, number: int) -> Iterator[Averaged]:
        """The rounds of an epoch, as far as they are captured."""
        if self._replays is None:
            self._replays = FactoredReplays(
                self.loader,
                self.plan,
                [sampler for _, sampler in self._samplers_made],
                self._readers,
                self._replicas,
                self._learning,
                self.step,
            )
        with closing(self._replays.rounds(*self.loader.position)) as rounds:
            for made in rounds:
                averaged = self._average(made)
                self.loader.advance(len(made))
                if self.loader.position[0] != number:
                    self.loader.replays().estimate.end_epoch()
                yield averaged

    def _by_threads(self, number: int) -> Iterator[Averaged]:
        """The rounds that are left of an epoch."""
        first, total = self.loader.position[1], len(self.loader)
        epoch = Epoch(
            self.plan, self.depth, self.loader.timeout, self._tally, self.loader.numbered(number, first), first, total
        )
        works = [
            *(functools.partial(self._train, epoch, who, number, reader) for who, reader in enumerate(self._readers)),
            *(functools.partial(self._sample, epoch, sampler) for sampler in self._samplers_made),
        ]
        names = [*(f"train {device}" for device in self.plan.devices), *(f"sample {device}" for device in self.plan.samplers)]
        self._threads = threads = [
            threading.Thread(target=epoch.guarded, args=(work,), name=f"hinterland {name}", daemon=True)
            for work, name in zip(works, names, strict=True)
        ]
        try:
            for thread in threads:
                thread.start()
            with watching(epoch.watch, self._home):
                while first < total:
                    epoch.watch.require_own()
                    end = epoch.end_of_round(first)
                    epoch.publish(first, self._ready())
                    averaged = self._average(epoch.gradients(first, end))
                    self.loader.advance(end - first)
                    first = end
                    yield averaged
        finally:
            if epoch.watch.is_own:
                epoch.close()
                _join(threads, PATIENCE)

    def _require_replicas(self) -> None:
        """Waits for threads that were still at work when the iteration before was left."""
        if self._iterated:
            raise ConfigError("an iteration of this Factored is under way; end it before another begins")
        _join(self._threads, self.loader.timeout)
        for thread in filter(threading.Thread.is_alive, self._threads):
            raise PipelineStalled(
                f"the iteration before was left, and its thread {thread.name!r} is at work still after "
                f"{self.loader.timeout:g} s; raise timeout= if it may take that long"
            )

    @functools.cached_property
    def _samplers_made(self) -> list[tuple[torch.device, BatchedSampler]]:
        first = len(self.plan.trainers)
        return list(zip(self.plan.samplers, self._samplers_of(range(first, len(self._devices))), strict=True))

    def _plain_sampler(self, device: torch.device) -> BatchedSampler:
        sampler = self._sampler_on(device)
        its = getattr(sampler, "device", device)
        if its != device:
            raise ConfigError(f"sampler_on({device}) gave a sampler on {its}; make it with device=device")
        return sampler

    @functools.cached_property
    def _caches(self) -> DeviceCaches | None:
        if self._asked is None:
            return None
        # The last device samples, whatever the plan.
        return DeviceCaches(self._asked, self.loader, self._plain_sampler(self._devices[-1]), self._devices)

    def _samples(self, who: int) -> bool:
        return who >= len(self.plan.trainers)

    def _samplers_of(self, devices: Sequence[int]) -> list[BatchedSampler]:
        """Samplers of devices, over the lists that these keep. What is made to measure stays."""
        missing = [who for who in devices if who not in self._kept_samplers]
        made: Sequence[BatchedSampler] = [self._plain_sampler(self._devices[who]) for who in missing]
        if self._caches is not None:
            made = self._caches.samplers(made)
        self._kept_samplers.update(zip(missing, made, strict=True))
        return [self._kept_samplers[who] for who in devices]

    def _reader_of(self, who: int, samples: bool) -> Loader:
        """The loader as a device gathers batches, through the rows that it keeps."""
        if self._caches is None:
            return self.loader
        if who not in self._kept_readers:
            self._kept_readers[who] = self._caches.reader(self._devices[who], samples)
        return self._kept_readers[who]

    @functools.cached_property
    def _replicas(self) -> list[Replica]:
        return [Replica(self.model, device) for device in self.plan.devices]

    @functools.cached_property
    def _readers(self) -> list[Loader]:
        return [self._reader_of(who, self._samples(who)) for who in range(len(self._devices))]

    def _ready(self) -> torch.cuda.Event | None:
        """When the model's parameters are what the next round begins with."""
        return torch.cuda.current_stream(self._home).record_event() if self._home.type == "cuda" else None

    def _average(self, made: list[BatchResult]) -> Averaged:
        """Leaves the mean of the gradients in the model, summed in the order of the batches."""
        if self._home.type == "cuda":
            for tensor in tensors_of(made):
                if tensor.is_cuda:
                    tensor.record_stream(torch.cuda.current_stream(tensor.device))
        parameters = list(self.model.parameters())
        learning = [parameters[n] for n in self._learning]
        mean = functools.reduce(torch.add, (batch.gradients for batch in made)) / len(made)
        learned = (any(have) for have in zip(*(batch.learned for batch in made), strict=True))
        for parameter, gradient, has in zip(learning, parted(mean, learning), learned, strict=True):
            parameter.grad = gradient if has else None
        for buffer, left in zip(self.model.buffers(), made[0].buffers, strict=True):
            buffer.copy_(left)
        return Averaged(torch.stack([batch.loss.double() for batch in made]), [batch.seen for batch in made])

    def _sample(self, epoch: Epoch, made: tuple[torch.device, BatchedSampler]) -> None:
        """The thread of a sampler."""
        device, sampler = made
        with own_stream(device) as stream:
            while (wanted := epoch.wanted()) is not None:
                i, number, seeds = wanted
                with epoch.doing("sample", device, i):
                    there = seeds.to(device)
                    sample = sampler.sample(there, batch=number)
                    ready = _done(stream)
                epoch.put(SampleTask(i, (sample, there), device, ready))

    def _train(self, epoch: Epoch, who: int, number: int, reader: Loader) -> None:
        """The thread of a trainer; another one gathers the rows of its next batch meanwhile."""
        replica = self._replicas[who]
        device = replica.device
        gather = Stage("gather", functools.partial(self._gather, epoch, who, reader))
        batches = Pipeline(epoch.tasks_of(who), [gather], device, depth=1, timeout=math.inf)  # the epoch has the watch
        with own_stream(device) as stream, closing(iter(batches)) as gathered:
            for i, batch in gathered:
                if not epoch.begun(i):
                    return
                with epoch.doing("train", device, i, who):
                    replica.follow(self.plan.round_of(i), epoch.ready)
                    made = self._gradients(replica, batch, self.loader.seed_of(number, i), epoch.begins_round(i))
                    _done(stream)
                epoch.give(i, who, made)

    def _gather(self, epoch: Epoch, who: int, reader: Loader, task: SampleTask) -> tuple[int, Batch]:
        device = self.plan.devices[who]
        with epoch.doing("gather", device, task.i, who):
            receive(task.sampled, task.ready, task.device)  # on the stream of that device that copies from it
            batch = reader.batch_of(*moved(task.sampled, device))
            _done(torch.cuda.current_stream(device) if device.type == "cuda" else None)
        return task.i, batch

    def _gradients(self, replica: Replica, batch: Batch, seed: int, keeps_buffers: bool) -> BatchResult:
        with self._drawing[replica.device]:  # replicas of one device share its generator
            machine.generator(replica.device).manual_seed(seed)
            loss = self.step(replica.model, batch)
        loss, seen = loss_and_seen(loss)
        parameters = list(replica.model.parameters())
        learning = [parameters[n] for n in self._learning]
        gradients = torch.autograd.grad(loss, learning, allow_unused=True)
        learned = tuple(gradient is not None for gradient in gradients)
        buffers = [buffer.clone() for buffer in replica.model.buffers()] if keeps_buffers else []
        flat = flattened(learning, gradients)
        made: BatchResult = moved(BatchResult(loss.detach().view(()), flat, learned, buffers, seen), self._home)
        return made

    def _measure(self) -> StageTimes:
        """Times each stage on a device that does nothing else; the model stays as it is."""
        to, by = self._devices[0], self._devices[-1]  # which train and sample, whatever the plan
        (sampler,) = self._samplers_of([len(self._devices) - 1])
        reader, replica = self._reader_of(0, False), Replica(self.model, to)
        number, first = self.loader.position
        times = []
        for i, (batch_number, seeds) in enumerate(itertools.islice(self.loader.numbered(number, first), 1 + _MEASURED)):
            replica.follow(i, self._ready())
            marks = [machine.idle_at(by)]
            sampled = sampler.sample(seeds.to(by), batch=batch_number), seeds.to(by)
            marks.append(machine.idle_at(by))
            batch = reader.batch_of(*moved(sampled, to))
            marks.append(machine.idle_at(to))
            self._gradients(replica, batch, self.loader.seed_of(number, first + i), False)
            marks.append(machine.idle_at(to))
            times.append([after - before for before, after in itertools.pairwise(marks)])
        return StageTimes(*(statistics.median(stage) for stage in zip(*(times[1:] or times), strict=True)))


def as_devices(devices: Sequence[torch.device | str | int]) -> list[torch.device]:
    """``devices`` with their indices filled in.

    Raises:
        ConfigError: they are no list.
        DeviceError: one does not exist.
    """
    if isinstance(devices, str) or not isinstance(devices, Sequence):
        raise ConfigError(f"devices={repr_of(devices)} is no list of devices; write ['cuda:0', 'cuda:1']")
    if not len(devices):
        raise ConfigError("devices=[] names none to train on; name at least one, as in ['cuda:0', 'cuda:1']")
    return [machine.as_device(device) for device in devices]


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    """Waits for threads, but no longer than that."""
    deadline = time.monotonic() + seconds
    for thread in filter(threading.Thread.is_alive, threads):  # Ctrl-C may come before all are started
        thread.join(max(0.0, deadline - time.monotonic()))


def _done(stream: torch.cuda.Stream | None) -> torch.cuda.Event | None:
    """Waits until a stream's work is done: times are true and nothing piles up on a GPU. An event for streams that read it."""
    if stream is None:
        return None
    event: torch.cuda.Event = stream.record_event()
    event.synchronize()
    return event
