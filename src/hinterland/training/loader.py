"""Mini-batches of a graph: seeds are shuffled, their neighbourhoods sampled, the rows gathered, while the model trains.

What a batch holds depends on the seed, the epoch and the batch's number alone, so a run that is stopped goes on exactly
where it was.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np
import torch

from .. import _core
from ..machine.cache import cores
from ..memory.gather_stats import add, require_dict
from ..runtime import arguments, devices
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError, HinterlandError
from ..runtime.shuffle import shuffled
from ..runtime.warned import warn
from ..sampling import HeteroSampler, NeighborSampler
from ..sampling.neighbor import PendingSample
from ..storage import StorageStats
from .cache import require_plannable
from .cache_budget import after_a_step, filled, planned, require_sampler
from .cache_choice import bytes_of, wanted
from .cache_plan import CachePlan
from .envelope_estimate import ReplayCounts
from .mini_batch import Batch, PackedBatch, SampledBatch, packed
from .pipeline import Pipeline, Stage, at_a_time
from .prefetch import Prefetcher
from .reads_by_tier import fetched, moved, served
from .replayed_batches import BatchRing, CapturedInputs, HandedOut, Numbered, Replays, capture_choice, refusal, unpadded
from .row_gather import HelpedGathers, by_type, check_rows, each_of, gather_blocks_for, kept_table, rows_of

_STATE_VERSION = 1
_MOST_RANKS = 1 << 24
_COUNTED_EVERY = 256  # batches: counting one waits for the GPU, for up to 8 ms


class BatchedSampler(Protocol):
    """What samples the neighbourhood of seeds; ``batch`` numbers the mini-batch, so that each has draws of its own."""

    def sample(self, seeds: torch.Tensor, batch: int = 0) -> Any: ...


class ReadingOptions(TypedDict, total=False):
    """How batches are read; what each means, and what it is by default, stands at :class:`Loader`."""

    gather_blocks: int | None
    timeout: float
    cache: Any
    gpu_budget: int | str | None


class LoaderOptions(ReadingOptions, total=False):
    """As ReadingOptions."""

    prefetch: int
    host_threads: int
    stats: dict[str, Any] | None
    capture: bool | str


class Loader:
    """Epoch after epoch of mini-batches; each ``iter()`` is one epoch, or the rest of one that was left or loaded.

    Args:
        sampler: a NeighborSampler of hinterland.sampling, a HeteroSampler that has the seeds' type as its ``target``, or
            anything with such a ``sample``.
        seeds: int64 ``[S]``, the vertices to train on.
        batch_size: seeds of a batch; the last may be smaller.
        features: the table of vertex features (UnifiedTensor, TieredTensor, CachedTensor, ShardedTensor, StorageArray or a
            tensor), or None; of several types a dictionary of tables by type. Rows on storage are gathered by a thread beside
            training.
        labels: the labels of all vertices, or None.
        shuffle: a new order each epoch, from ``seed`` and the epoch's number.
        drop_last: leaves out a last, smaller batch.
        seed: of the order, not negative. (The sampler has its own.)
        prefetch: batches that may wait between sampling and gathering, and before training.
        gather_blocks: multiprocessors for the gather: few, so that training finds room beside it (Min 2022, section 3.3.2). By
            default, of a table in host memory, as many as fill the link: on an H100 or newer 2 for rows of 512 bytes to about
            14 KiB that are whole lines of 128, and 4 for those of 384; else 8, or what the probe measured on other GPUs
            (``hinterland probe``); at least 8 of pinned and split tables beyond 1 GiB, and with ``capture``. 8 for a
            CachedTensor; 4 if some rows lie in GPU memory and can be copied in bulk (256 bytes to about 14 KiB, a multiple of
            16); of other tables, and of rows that are no multiple of 4 bytes, one for every fourth multiprocessor.
        host_threads: cores that may help the GPU to gather features that lie in pinned host memory, where that is predicted to
            be faster (``by`` of ``gather``). 0 leaves the features to the GPU alone.
        rank, world_size: this process's share of every epoch: all ranks shuffle alike and get the same number of batches; seeds
            are repeated to make them even, or left out with ``drop_last``.
        device: where batches are made; None is the current GPU, or the CPU without one.
        timeout: seconds without a batch after which PipelineStalled is raised.
        stats: a dict to which each batch's ``stats`` are added as it is given out, and their number (docs/training.md). Batches
            are then counted and waited for one by one.
        cache: what to keep in GPU memory of the lists and the features: a policy of :func:`plan_cache`, as ``"auto"``; scores
            of the vertices, by which rows are kept; or a size, which is ``"auto"`` within it. Batches are the same with and
            without. It takes a NeighborSampler and a UnifiedTensor or StorageArray. None is ``"auto"`` with a ``gpu_budget``,
            and without one ``"none"``, which reads through ``sampler`` and ``features`` as they are.
        gpu_budget: most bytes of GPU memory that the cache takes, filled when the loader is made; or, as ``"10%"``, those that
            this share of the rows takes. None is what training leaves: it is measured after the first batches, the cache filled
            then, and torch's peak of allocated memory is reset. There is nothing to measure on the CPU, where nothing is kept
            without a budget; with one, host memory stands for a GPU's.
        capture: has CUDA graphs make batches of one shape, with padding (docs/captured.md): :attr:`Batch.buffer` says what
            that means for a batch. Draws and rows are the same. The first 8 are ordinary ones and give the shape; one that it
            does not hold is ordinary, too. True refuses what cannot be captured, ``"auto"`` makes ordinary batches of it.

    Attributes:
        capture: whether batches are replayed, as far as they can be; False from the next batch on where it is set so.
        sampler, features: what batches are read through; with a cache those over what is kept.
        cache_plan: what is kept (CachePlan); None before it is filled, and without a cache.

    Raises:
        ConfigError: an argument that makes no batches; features or labels that are no table; a cache that is none, of
            something that cannot be kept, or smaller than one batch's rows of features; ``capture=True`` of what cannot be
            captured.
        IndexOutOfRange: a seed is no vertex.
        OutOfMemory: less GPU memory is free than ``gpu_budget``.
    """

    def __init__(
        self,
        sampler: BatchedSampler,
        seeds: torch.Tensor,
        batch_size: int,
        *,
        features: Any = None,
        labels: Any = None,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | int | None = None,
        **reading: Unpack[LoaderOptions],
    ) -> None:
        if not callable(getattr(sampler, "sample", None)):
            raise ConfigError(f"sampler is a {type(sampler).__name__}; pass a NeighborSampler, or what has its sample()")
        is_tensor = isinstance(seeds, torch.Tensor)
        if not is_tensor or seeds.dtype not in (torch.int32, torch.int64) or arguments.dense("seeds", seeds).dim() != 1:
            raise ConfigError(
                "seeds are a one-dimensional int32 or int64 tensor of vertex numbers; for a mask use mask.nonzero().view(-1)"
            )
        batch_size = arguments.at_least_one("batch_size", batch_size, "makes no batch; use 1 or more")
        # Repeated, seeds make the ranks even: no more ranks than can be counted so.
        rank = arguments.whole_number("rank", rank)
        world_size = arguments.whole_number("world_size", world_size, most=_MOST_RANKS)
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank={rank} is not one of {world_size} ranks, numbered from 0")
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise ConfigError(f"seed={arguments.repr_of(seed)} is not a whole number from 0 on")
        target = getattr(sampler, "target", None)
        if isinstance(sampler, HeteroSampler) and target is None:
            raise ConfigError("the sampler does not know the type of the seeds; make it with target=, as HeteroSampler says")
        for name, table in (("features", features), ("labels", labels)):
            for kind, one in table.items() if isinstance(table, Mapping) else ((target, table),):
                check_rows(name if one is table else f"{name} of {kind!r}", one, seeds if kind == target else seeds[:0])
        self.sampler, self.seeds, self.batch_size = sampler, seeds.to("cpu", torch.int64), batch_size
        self.features, self.labels = features, labels
        self.shuffle, self.drop_last = arguments.switches(shuffle=shuffle, drop_last=drop_last)
        self.seed = int(seed)
        self.device, self.rank, self.world_size = devices.as_device(device), rank, world_size
        # Through a weak reference: a loader that is let go gives its GPU memory back then, not when cycles are collected.
        me = weakref.proxy(self)
        self.stages = [Stage("sample", lambda item: me._sample(item)), Stage("gather", lambda item: me._gather(item))]
        self._epoch = 0
        self._delivered = 0  # batches of the epoch that the caller has been given
        self.cache_plan: IfRequested[CachePlan] = None
        self._agreed: Callable[[Callable[[], None]], None] = lambda fill: fill()  # of ranks: raises what one raises in all
        self._reads(**reading)

    def _reads(
        self,
        *,
        prefetch: int = 2,
        host_threads: int = 0,
        gather_blocks: int | None = None,
        timeout: float = 300.0,
        cache: Any = None,
        gpu_budget: int | str | None = None,
        stats: dict[str, Any] | None = None,
        capture: bool | str = False,
    ) -> None:
        """Takes the options that say how batches are read, and fills a cache whose size is known."""
        self.prefetch = arguments.at_least_one("prefetch", prefetch, "leaves no room between stages; use 1 or more")
        self.host_threads = arguments.whole_number("host_threads", host_threads, 0)
        self.timeout = arguments.seconds("timeout", timeout)
        if stats is not None:
            require_dict(stats)
        self.stats = stats
        self._own_blocks = gather_blocks is None
        if gather_blocks is None:
            self.gather_blocks = by_type(lambda table: gather_blocks_for(table, self.device), self.features)
        else:
            fault = "leaves no block to run; use 1 or more, or None for the default"
            blocks = arguments.at_least_one("gather_blocks", gather_blocks, fault)
            self.gather_blocks = by_type(lambda table: blocks, self.features)
        self.asked_cache = asked = wanted(cache, gpu_budget)
        self._wanted = asked if len(self) else None
        if self.host_threads and self._only_launches():
            self.stages.append(Stage("pack", packed))
        capture = capture_choice(capture)
        self._needs_capture, self.capture = capture is True, bool(capture) and len(self) > 0
        self._replays = Replays(self.captured_inputs()) if self.captures() else None
        self._takes_cache()

    @property
    def cache_comes(self) -> bool:
        """Whether a cache is filled once a training step has shown what it leaves."""
        return self._wanted is not None

    def _takes_cache(self) -> None:
        if self._wanted is None:
            return
        require_plannable(require_sampler(self.sampler).graph, self.features, self._wanted.policy)
        if self._wanted.budget is not None:
            self._fill(bytes_of(self._wanted.budget, len(self.features), self.features.row_bytes))
        elif self.device.type == "cpu":
            self._wanted = None

    def _fill(self, budget: int) -> None:
        """Plans a cache for what this rank's batches read, fills it, and reads through it from now on."""
        asked, self._wanted = self._wanted, None
        if asked is None:  # another thread's iterator has filled it
            return
        assert isinstance(self.sampler, NeighborSampler)
        seeds = self.seeds if self.world_size == 1 else self.order(self._epoch)
        promised = asked.budget is not None
        plan = planned(asked.policy, budget, promised, self.sampler, self.features, seeds, self.batch_size, self.seed)
        self.sampler, self.features = filled(plan, self.sampler, self.features)
        self.cache_plan = plan
        if self._own_blocks:
            self.gather_blocks = gather_blocks_for(self.features, self.device)

    def reading(self, features: Any, device: torch.device, sampler: BatchedSampler | None = None) -> Loader:
        """This loader as batches are made on another device: through another table of the same rows, by another sampler."""
        other = copy.copy(self)
        other.features, other.device, other.sampler = features, device, sampler or self.sampler
        if self._own_blocks:
            other.gather_blocks = gather_blocks_for(features, device)
        return other

    def __len__(self) -> int:
        share = self._share()
        return share // self.batch_size if self.drop_last else -(-share // self.batch_size)

    def _share(self) -> int:
        """Seeds of one rank in one epoch."""
        count = len(self.seeds)
        return count // self.world_size if self.drop_last else -(-count // self.world_size)

    def __iter__(self) -> Iterator[Batch]:
        (epoch, done), total = self.position, len(self)
        shared = [table for table in each_of(self.features) if getattr(table, "collective", False)]
        if self.world_size > 1 and shared:  # whose gathers wait for each other
            shared[0].check_same({"batches of an epoch": total, "batches given out": done})
        for batch in self._batches(epoch, done):
            done += 1
            if self.stats is not None and batch.stats is not None:
                add(self.stats, {"batches": 1, **batch.stats})
            self._epoch, self._delivered = (epoch, done) if done < total else (epoch + 1, 0)
            if self._replays is not None and done == total:
                self._replays.estimate.end_epoch()
            yield batch

    def _batches(self, epoch: int, first: int) -> Iterator[Batch]:
        order = self.order(epoch)
        source = self.numbered(epoch, first, order)
        kind = Prefetcher if self._only_launches() else Pipeline
        run = partial(kind, stages=self.stages, device=self.device, depth=self.prefetch, timeout=self.timeout)
        if not self.captures():
            yield from run(source) if self._wanted is None else self._measured(source, run)
            return
        replays = self.replays()
        if self._wanted is not None:
            yield from replays.noted(self._measured(itertools.islice(source, at_a_time(len(self.stages), self.prefetch)), run))
            replays.take(self.captured_inputs())
        yield from replays.noted(run(itertools.islice(source, replays.estimate.missing)))
        left = yield from self._replayed(source, epoch, order)
        yield from run(itertools.chain(left, source))

    def replays(self) -> Replays:
        """What is known of replayed batches, of what is captured now."""
        self._replays = self._replays or Replays(self.captured_inputs())
        self._replays.take(self.captured_inputs())
        return self._replays

    def _measured(self, source: Iterator[Any], run: Callable[[Iterator[Any]], Pipeline]) -> Iterator[Any]:
        # A captured step keeps its memory, and an ordinary one beside it needs as much.
        steps, first = 2 if self.capture else 1, at_a_time(len(self.stages), self.prefetch)
        return after_a_step(source, run, first, self.device, lambda left: self._agreed(lambda: self._fill(left)), steps)

    def _replayed(self, source: Iterator[Numbered], epoch: int, order: torch.Tensor) -> Generator[Batch, None, list[Numbered]]:
        """The batches of ``source``, as far as graphs make them; gives those that were taken from it and not made."""
        first = next(source, None)
        if first is None or self._replays is None:
            return []
        try:
            ring = self._replays.ring(lambda inputs, shape, number: BatchRing(inputs, shape, self.device, number))
        except (HinterlandError, RuntimeError) as error:
            self.capture_failed(error)
            return [first]
        if ring is None:
            return [first]
        ring.begin(order, self.batch_numbers(epoch), self._in_epoch(first[0]))
        replayed = ring.run(itertools.chain([first], source), self.stages, self.timeout, self._handed, lambda: self.capture)
        return (yield from replayed)

    def capture_failed(self, error: Exception) -> None:
        """Batches are ordinary ones from now on, with a warning."""
        self.capture = False
        warn(f"batches are made without CUDA graphs, whose capture failed: {arguments.one_line(str(error))}")

    def batch_numbers(self, epoch: int) -> torch.Tensor:
        """int64 ``[batches]``: those of :meth:`numbered`."""
        return (epoch * len(self) + torch.arange(len(self))) * self.world_size + self.rank

    def _in_epoch(self, number: int) -> int:
        """Which of its epoch's a batch is."""
        return number // self.world_size % len(self)

    def _handed(self, handed: HandedOut) -> Batch:
        """A batch as graphs made it, or, where it did not fit, as it is made without."""
        buffer = handed.buffer
        if self._replays is not None:
            self._replays.note(handed)
        if buffer is None or handed.counts is None:
            with torch.inference_mode(False):
                return packed(self._gather(self._sample(handed.numbered)))
        batch = buffer.batch()
        sampler, table = self.sampler, kept_table(self.features)
        moved_rows = table is not None and table.follows_reads  # and where they came from is not known any more
        if moved_rows or not self._is_counted(handed.numbered[0]) or not isinstance(sampler, NeighborSampler):
            return batch
        sample = unpadded(buffer.sample, handed.counts)
        return replace(batch, served=served(sample, sampler, [fetched(self.features, sample.node)]))

    def captures(self) -> bool:
        """Whether batches are to be replayed. ConfigError: they must be, and cannot."""
        if not self.capture:
            return False
        refused = refusal(self.captured_inputs(), self.device, self.host_threads, self.stats is not None)
        if refused is not None and self._needs_capture:
            raise ConfigError(f"capture=True: {refused}; or leave it out")
        self.capture = refused is None
        return self.capture

    def captured_inputs(self) -> CapturedInputs:
        sampler: Any = self.sampler
        drawn = tuple(getattr(sampler, "fanouts", ())), getattr(sampler, "seed", 0), getattr(sampler, "replace", False)
        shape = min(self.batch_size, self._share()), len(self)
        blocks = gather_blocks_for(self.features, self.device, replayed=True) if self._own_blocks else self.gather_blocks
        return CapturedInputs(sampler, *drawn, *shape, self.features, self.labels, blocks)

    @property
    def captured(self) -> ReplayCounts:
        """What came of batches that were replayed: how many, how many did not fit, and how much of them was padding."""
        return ReplayCounts() if self._replays is None else replace(self._replays.counts)

    @property
    def position(self) -> tuple[int, int]:
        """The epoch, and how many of its batches were given out."""
        return self._epoch, self._delivered

    def advance(self, batches: int = 1) -> None:
        """Counts batches as given out."""
        self._delivered += arguments.whole_number("batches", batches, 0)
        if self._delivered == len(self):
            self._epoch, self._delivered = self._epoch + 1, 0

    def numbered(self, epoch: int, first: int, order: torch.Tensor | None = None) -> Iterator[Numbered]:
        """The seeds of an epoch's batches from ``first`` on, with numbers that no other batch of any rank or epoch has.
        ``order``: as of :meth:`order`, where that is known."""
        order = self.order(epoch) if order is None else order
        for i in range(first, len(self)):
            yield (epoch * len(self) + i) * self.world_size + self.rank, order[i * self.batch_size : (i + 1) * self.batch_size]

    def order(self, epoch: int) -> torch.Tensor:
        """This rank's seeds of one epoch, in order."""
        seeds = self.seeds
        if self.shuffle:
            seeds = shuffled(seeds, self.seed, epoch)
        share = self._share()
        missing = share * self.world_size - len(seeds)
        if missing > 0:
            seeds = torch.cat([seeds, seeds.repeat(-(-missing // len(seeds)))[:missing]])
        return seeds[self.rank :: self.world_size][:share]

    def _only_launches(self) -> bool:
        """Whether batches can be launched ahead: sampled by this library, from tables that the GPU reads."""
        if self.device.type == "cpu" or not isinstance(self.sampler, NeighborSampler) or -1 in self.sampler.fanouts:
            return False  # whole lists are taken hop by hop, and each hop is waited for
        if self.sampler.lists.stored or (self.host_threads and self.stats is not None):
            return False  # reads of a disk, and rows that the CPU packs and that are counted, are waited for
        on_gpu = self.features.is_cuda if isinstance(self.features, torch.Tensor) else getattr(self.features, "in_reach", False)
        # A row that is not there is found too late to say so where it is asked for.
        return self.features is None or (on_gpu and len(self.features) >= self.sampler.graph.num_vertices)

    @property
    def storage(self) -> StorageStats | None:
        """What the cache of features on storage has moved since it was made, for a graph that shares it, too; None where
        features lie elsewhere."""
        return moved(self.features)

    def _sample(self, numbered: tuple[int, torch.Tensor]) -> SampledBatch:
        number, seeds = numbered
        here = devices.sent(seeds, self.device)
        if self.stats is not None:
            read: dict[str, Any] = {}
            takes = {"stats": read} if "stats" in inspect.signature(self.sampler.sample).parameters else {}
            return SampledBatch(number, self.sampler.sample(here, batch=number, **takes), seeds, here, read)
        if isinstance(self.sampler, NeighborSampler) and self._only_launches():
            return SampledBatch(number, self.sampler.begin(here, batch=number), seeds, here)
        return SampledBatch(number, self.sampler.sample(here, batch=number), seeds, here)

    def _gather(self, sampled: SampledBatch) -> Batch | PackedBatch:
        sample, waits = sampled.sample, True
        if isinstance(sample, PendingSample):
            sample, waits = sample.finish(), False
        elif self.host_threads:
            _core.set_num_threads(min(self.host_threads, cores()))  # of this stage's thread
        helped = HelpedGathers(min(self.host_threads, cores())) if len(self.stages) > 2 and not waits else None
        counts = self._is_counted(sampled.number)
        rows = each_of(by_type(fetched, self.features, sample.node)) if counts else []  # before the gather, which may move rows
        read: dict[str, Any] = {}
        asked = None if sampled.stats is None else read
        batch = self.batch_of(sample, sampled.here, sampled.seeds, waits, asked, helped)
        if asked is not None:
            batch = replace(batch, stats={"sampling": sampled.stats, "features": read})
        if counts and isinstance(self.sampler, NeighborSampler | HeteroSampler):
            batch = replace(batch, served=served(sample, self.sampler, rows))
        return batch if helped is None else PackedBatch(batch, helped)

    def _is_counted(self, number: int) -> bool:
        known = self.features is not None and isinstance(self.sampler, NeighborSampler | HeteroSampler)
        return known and self._in_epoch(number) % _COUNTED_EVERY == 0

    def batch_of(
        self,
        sample: Any,
        seeds: torch.Tensor,
        on_cpu: torch.Tensor | None = None,
        waits: bool = True,
        stats: dict[str, Any] | None = None,
        helped: HelpedGathers | None = None,
    ) -> Batch:
        """The batch of a sample, its rows gathered to the device where it is.

        Args:
            sample: what the sampler gave.
            seeds: int64 ``[batch_size]``, on the sample's device.
            on_cpu: the same seeds on the CPU, where labels that lie there are then found without waiting for the device.
            waits: for the rows of tables, and raises here what is wrong with them.
            stats: a dict that is filled with what gathering its features did, of several types that of all tables.
            helped: has the CPU help with them; the rows are there once it is finished.
        """

        def gathered(table: Any, index: torch.Tensor, blocks: int | None) -> torch.Tensor:
            if helped is not None:
                return helped.rows_of(table, index, blocks)
            if stats is None:
                return rows_of(table, index, blocks, waits)
            read: dict[str, Any] = {}
            rows = rows_of(table, index, blocks, waits, read)
            add(stats, read)
            return rows

        x = None if self.features is None else by_type(gathered, self.features, sample.node, self.gather_blocks)
        y = None
        if on_cpu is not None and isinstance(self.labels, torch.Tensor) and self.labels.is_cpu:
            y = devices.sent(self.labels[on_cpu], seeds.device)
        elif self.labels is not None:
            y = rows_of(self.labels, seeds, waits=waits)
        return Batch(sample, x, y, seeds)

    def seed_of(self, epoch: int, i: int) -> int:
        """Of what a model draws, as in dropout, when it trains on batch ``i`` of an epoch; each rank's is another one."""
        return step_seed(self.seed, epoch, i, self.rank)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: after the last batch that it gave out. Plain numbers, for a checkpoint."""
        return {
            "version": _STATE_VERSION,
            "epoch": self._epoch,
            "delivered": self._delivered,
            "seed": self.seed,
            "batches": len(self),
            "world_size": self.world_size,
            "capture": None if self._replays is None else self._replays.estimate.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the loader that made ``state`` was; the next ``iter()`` gives the rest of its epoch.

        Raises:
            ConfigError: the state is that of a loader with another seed, other batches or another number of ranks; of replayed
                batches also with another batch_size or number of hops; or it names no batch.
        """
        mine = self.state_dict()
        if not isinstance(state, Mapping) or not mine.keys() - {"capture"} <= state.keys():
            raise ConfigError(f"the state is {arguments.repr_of(state)}; pass what state_dict() of a loader gave")
        for key in ("version", "seed", "batches", "world_size"):
            if state.get(key) != mine[key]:
                raise ConfigError(
                    f"the state was saved with {key}={state.get(key)!r}, but this loader has {mine[key]!r}; "
                    "make it with the same seeds, batch_size, seed and ranks"
                )
        epoch = arguments.whole_number("epoch of the state", state["epoch"], 0)
        delivered = arguments.whole_number("delivered of the state", state["delivered"], 0, len(self))
        if self._replays is not None and state.get("capture") is not None:
            self._replays.estimate.load(state["capture"])
        self._epoch, self._delivered = epoch, delivered


def step_seed(seed: int, epoch: int, step: int, rank: int) -> int:
    """Of what a model draws, as in dropout, in one step of training."""
    parts = [seed % 2**64, epoch + 1, step + 1, rank]
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))
