"""Training of a graph neural network on sampled neighbourhoods, on one device or data-parallel on several.

Everything random depends on the seed, the step and the rank alone, so that a run that was stopped goes on from its checkpoint
exactly as if it had not been.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
import torch.nn.functional as F

from ..memory.ranks import Ranks, joined
from ..runtime import arguments, devices
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError
from ..runtime.progress import progress
from ..runtime.repr import Repr
from ..sampling import Adjacency, HeteroSampler, NeighborSampler, PinSAGESampler
from ..sampling.envelope import PaddedSample
from ..storage import StorageStats
from .binding import IdleSteps, binds
from .cache_choice import wanted
from .cache_plan import CachePlan
from .capture import CapturedSteps
from .epoch_line import show_epoch
from .epoch_totals import COUNTED, SUMMED, EpochTotals, add_to, counts_of
from .factored import Factored
from .factored_cache import wanted_on_devices
from .factored_plan import FactoredPlan
from .gradients import GradientAllReduce
from .hetero_models import HeteroGNN, TypedLayer, check_hetero_model, make_hetero_model, typed_fanouts, typed_layers
from .loader import BatchedSampler, Loader
from .mini_batch import Batch
from .models import GNN, make_model
from .precision import PRECISIONS, autocast
from .reads_by_tier import FIELDS as SERVED
from .reads_by_tier import rates
from .replayed_batches import capture_choice
from .row_gather import by_type, each_of, rows_of
from .run import TrainingRun
from .settings import (
    Settings,
    TrainOptions,
    check_checkpoint,
    check_dataset,
    check_patience,
    check_ranks,
    fingerprint,
    has_types,
    several_devices,
    split_options,
)
from .trace import span, tracing

_FULL_BELOW = 1 << 20  # edges of a graph that is validated with full neighbourhoods


@dataclass(repr=False)
class Trained(Repr):
    """What :func:`train` made.

    Attributes:
        model: a GNN, or of several types a HeteroGNN, with the parameters of the best epoch by validation loss (of the last one
            without validation), for evaluation.
        history: an object for each epoch: ``loss``, ``accuracy`` (of training batches), ``valid_loss`` (with the weight decay's
            term, weight_decay / 2 times the sum of the decayed weights' squares), ``valid_accuracy``,
            ``seconds``, ``seeds``, ``vertices``, ``edges`` and ``bytes`` (of gathered rows), over all ranks; ``stages``, this
            rank's seconds in each; ``seeds_per_second`` and ``edges_per_second``. Of one batch in 256 (``batches`` says of how
            many): ``served``, the shares of ``rows`` from the GPU's own memory (``local``), other GPUs' (``peers``) and the
            ``host``, and of ``edges`` that were read from GPU memory; ``link``, None where nothing crosses one: ``bytes`` that
            came over it at least, of a GPU on average ``bandwidth`` in bytes a second, the probe's ``ceiling`` and the
            ``share`` of it (None without a probe). ``storage``, of features there, this rank's: ``bytes`` and ``requests`` that
            were read, ``hits`` and ``misses`` of pages in its cache, ``cpu_seconds`` and ``cpu_us_per_request``. ``replayed``,
            of ``batches``: steps that CUDA graphs made; ``overflowed``: batches that did not fit their shape; ``padding``: the
            share of rows that were only there to fill it. ``binds`` says what this rank waited for, and why: GPU, link, disk or
            CPU (None with ``devices``).
        best: of the best epoch: ``epoch``, ``loss``, ``accuracy``; None without validation.
        test: ``loss`` and ``accuracy`` on the test split; None without one. The loss is NaN where a neighbour has features that
            are not finite.
        cache: what was kept in GPU memory, in this rank; with ``devices`` in the first of them; None without a cache.
        roles: which devices sampled and which trained; None without ``devices``.
    """

    model: GNN | Any  # who trains knows which, as of datasets.open
    history: list[dict[str, Any]]
    best: IfRequested[dict[str, Any]]
    test: IfRequested[dict[str, float]]
    cache: IfRequested[CachePlan] = None
    roles: IfRequested[FactoredPlan] = None


def train(
    dataset: Any,
    model: str = "sage",
    fanouts: Sequence[int] = (15, 10, 5),
    *,
    device: torch.device | str | int | None = None,
    devices: Sequence[torch.device | str | int] | None = None,
    round: int | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] | None = show_epoch,
    **options: Unpack[TrainOptions],
) -> Trained:
    """Trains a model to classify vertices, with cross entropy and Adam.

    Started by ``torchrun``, every process trains on its share of each epoch's seeds, gradients are averaged, and rank 0 writes
    the checkpoint. ``batch_size`` is that of one process.

    Args:
        dataset: a hinterland.datasets.Dataset, or what has its ``graph``, ``features``, ``labels``, ``splits`` and
            ``num_classes``. A vertex samples from its list in ``graph``. Or a HeteroDataset, with relations in both directions
            (``symmetrize=True``) if types are to hear each other; a hop samples along each relation, and types without features
            are heard from the layer on that has made rows of them (:mod:`.hetero_models`).
        model: "sage", "gcn", "gat" or "pinsage" (:mod:`.models`); of several types "sage" or "gat" (:mod:`.hetero_models`).
        fanouts: neighbours to sample in each hop, nearest to the seeds first; -1 takes all. As many as the model has layers.
            Graphs of at most 2^20 edges are validated and tested with full neighbourhoods, larger ones with ``fanouts``.
            For "pinsage" they are the most visited vertices of random walks, always, and count by their visits
            (hinterland.sampling.PinSAGESampler).
        device: None is the current GPU, or the CPU without one. Several ranks take a GPU each.
        devices: in place of ``device``: some of them sample, others train (:class:`.Factored`), and the first validates.
        round: with ``devices``, batches whose gradients each step averages; None is as many as devices. Devices change no
            result, the round does.
        checkpoint: file to write after each epoch, and after every ``checkpoint_every`` batches inside one.
        resume: goes on from ``checkpoint`` if it is there.
        on_epoch: gets each epoch's object of the history, in rank 0; by default a line of it is printed where standard error is
            a terminal; None says only how far an epoch has come, there too.
        options: ``epochs``, ``hidden``, ``batch_size``, ``lr``, ``weight_decay``, ``dropout``, ``patience``, ``seed`` and
            ``precision`` are those of :class:`.Settings`, and decide the result. ``gather_blocks``, ``cache`` and
            ``gpu_budget`` (each rank plans for its own GPU) are those of Loader, with ``devices`` of each as Factored has them,
            and change none: a run may go on with others. So is ``timeout``: seconds without a batch, or an answer of another
            rank, after which the run ends with an error.
            ``capture`` replays steps (docs/captured.md): "auto", by default, on one device where each rank can; True insists.
            ``trace`` is a file for a timeline of steps of the first epoch (:mod:`.trace`), which rank 0 writes.

    Raises:
        ConfigError: arguments that make no run, ranks that differ, a checkpoint of another run or one that would be lost,
            a loss that is not finite (the checkpoint stays the one before).
        GraphError: features or labels that do not fit the graph, labels that are no classes, features of a split's vertices
            that are not finite (found before the first epoch) or of what these hear from (found at its end).
        PipelineStalled, RankLost: a stage or a rank gave nothing for too long.
    """
    several = several_devices(device, devices, round)
    capture, trace = options.pop("capture", "auto"), options.pop("trace", None)

    def checked() -> tuple[Settings, dict[str, Any]]:
        arguments.function("on_epoch", on_epoch)
        split = split_options(model, fanouts, options)
        split[1]["capture"] = capture_choice(capture)
        check_checkpoint(checkpoint, checkpoint_every, resume, trace)
        (wanted_on_devices if several else wanted)(split[1].get("cache"), split[1].get("gpu_budget"))
        check_dataset(dataset)
        check_patience(split[0].patience, dataset.splits)
        if has_types(dataset):
            check_hetero_model(model)
        return split

    with joined(several[0] if several else device, arguments.seconds("timeout", options.get("timeout", 300.0))) as ranks:
        settings, reading = ranks.agreed(checked)
        rounds = (len(several) if round is None else round) if several else 1
        same = {"round": rounds, "checkpoint_every": checkpoint_every, "resume": resume, "capture": reading["capture"]}
        check_ranks(ranks, dataset, **vars(settings), **same)
        config = {**settings.fixed, "ranks": ranks.world_size, "round": rounds, **fingerprint(dataset)}
        if several and ranks.world_size > 1:
            raise ConfigError("devices= are of one process, and torchrun started several; leave out one of the two")
        with torch.random.fork_rng(sorted({where.index for where in several or [ranks.device] if where.type == "cuda"})):
            run = ranks.agreed(lambda: _Run(dataset, config, ranks, several, checkpoint, checkpoint_every, reading, trace))
            ranks.check_same({"a cache of what training leaves": run.loader.cache_comes})
            run.go(settings, resume, on_epoch)
            return run.finish()


def _samplers(dataset: Any, config: Mapping[str, Any], device: torch.device) -> tuple[BatchedSampler, BatchedSampler]:
    """What training and what validation draws with."""
    fanouts, seed = list(config["fanouts"]), config["seed"]
    if config["model"] == "pinsage":  # visits enough to rank neighbours by, most of them near
        visits = PinSAGESampler(dataset.graph, fanouts, walks=30, restart=0.5, seed=seed, device=device)
        return visits, visits
    read = _layers(dataset, config)

    def sampler(fanouts: list[int]) -> BatchedSampler:
        if read is None:
            return NeighborSampler(dataset.graph, fanouts, seed=seed, device=device)
        drawn = typed_fanouts(read, fanouts)
        count = dataset.num_vertices
        lists = {kind: Adjacency.of(dataset.graphs[kind], count[kind[2]], count[kind[0]]) for kind in drawn}
        return HeteroSampler(lists, drawn, target=dataset.target, seed=seed, device=device)

    drawn = sampler(fanouts)
    graphs = each_of(dataset.graph if read is None else dataset.graphs)
    if sum(graph.num_edges for graph in graphs) > _FULL_BELOW:
        return drawn, drawn
    return drawn, sampler([-1] * len(fanouts))


def _layers(dataset: Any, config: Mapping[str, Any]) -> tuple[TypedLayer, ...] | None:
    """What the layers read of vertices of several types; None of one type."""
    if not has_types(dataset):
        return None
    return typed_layers(dataset.graphs, dataset.features, dataset.target, len(config["fanouts"]))


def _make(dataset: Any, config: Mapping[str, Any]) -> GNN | HeteroGNN:
    name, hidden, dropout, layers = config["model"], config["hidden"], config["dropout"], _layers(dataset, config)
    if layers is None:
        return make_model(name, dataset.features.shape[1], hidden, dataset.num_classes, len(config["fanouts"]), dropout)
    widths = {kind: table.shape[1] for kind, table in dataset.features.items()}
    return make_hetero_model(name, layers, widths, hidden, dataset.num_classes, dropout)


class _Run(TrainingRun[GNN | HeteroGNN]):
    """A training run between two batches."""

    def __init__(
        self,
        dataset: Any,
        config: dict[str, Any],
        ranks: Ranks,
        several: list[torch.device],
        checkpoint: str | Path | None,
        checkpoint_every: int | None,
        reading: dict[str, Any],
        trace: str | Path | None,
    ) -> None:
        super().__init__(dataset, config, ranks, checkpoint, lambda: _make(dataset, config))
        self.checkpoint_every, device = checkpoint_every, ranks.device
        sampler, tester = _samplers(dataset, config, device)
        self.tester = None if tester is sampler else tester  # None: what the loader samples with, which a cache exchanges
        kept = {name: reading.pop(name, None) for name in ("cache", "gpu_budget")}  # of training alone
        capture = reading.pop("capture")  # over several devices where that is asked for, until it has been measured
        own: dict[str, Any] = {"capture": capture is True} if several else {"capture": capture, **kept}
        self.reading = reading
        share = {"rank": ranks.rank, "world_size": ranks.world_size}
        layers = _layers(dataset, config)
        self.features = dataset.features if layers is None else {k: dataset.features[k] for k in layers[0].inputs}
        self.loader = self._loader(sampler, self.splits["train"], self.features, shuffle=True, **share, **own)
        self.loader._agreed = ranks.agreed
        self.degree: dict[torch.device, torch.Tensor] = {}
        if config["model"] == "gcn":
            degree = dataset.graph.to_original(dataset.graph.degrees()).to(torch.float32)
            self.degree = {where: degree.to(where) for where in {device, *several}}
        me = weakref.proxy(self)  # what is let go gives its GPU memory back then, not when cycles are collected
        self.factored: Factored | None = None
        if several:
            self.factored = Factored(
                self.loader,
                lambda where: _samplers(dataset, config, where)[0],
                self.model,
                lambda model, batch: me._counted_loss(model, batch),
                several,
                round=config["round"],
                **kept,
            )
        self.loss_sum, self.correct = torch.zeros(2, dtype=torch.float64, device=device).unbind()
        all_reduce = GradientAllReduce(self.optimizer, True, self.model) if ranks.world_size > 1 else None
        self.steps = CapturedSteps(
            self.model,
            lambda model, batch: me._summed_loss(model, batch),
            self.optimizer,
            self.loader,
            all_reduce=all_reduce,
        )
        self.trace = Path(trace) if trace is not None and ranks.is_first else None  # of the epoch that comes
        self.idle = IdleSteps(ranks.device)
        self.working = 0.0  # seconds in which the caller's thread did not wait for batches
        self.totals = EpochTotals()
        self.shapes: list[Any] = []  # of replayed batches, by rank

    def _loader(self, sampler: BatchedSampler, seeds: torch.Tensor, features: Any, **options: Any) -> Loader:
        return Loader(
            sampler,
            seeds,
            self.config["batch_size"],
            features=features,
            labels=self.dataset.labels,
            seed=self.config["seed"],
            device=self.ranks.device,
            **self.reading,
            **options,
        )

    def epoch(self) -> None:
        """Trains for an epoch, or what is left of one; validates; writes the checkpoint."""
        self.model.train()
        device = self.ranks.device
        before, moved_before, captured = self._stage_seconds(), self.loader.storage, self._captured()
        number, self.working, began = len(self.history) + 1, 0.0, time.perf_counter()

        def settle() -> None:
            """Adds what was done since the epoch or its last settlement began to the totals."""
            nonlocal before, began, moved_before, captured
            summed = self.totals.summed
            summed["loss"] += float(self.loss_sum)  # waits for the GPU
            summed["correct"] += float(self.correct)
            now, after = time.perf_counter(), self._stage_seconds()
            spent = {name: seconds - before[name] for name, seconds in after.items()}
            spent["train"] = spent.get("train", 0.0) + self.working
            spent["wait"] = now - began - self.working  # for the stages that make batches
            before = after
            add_to(self.totals.stages, spent)
            earlier, captured = captured, self._captured()
            add_to(summed, {name: count - earlier[name] for name, count in captured.items()})
            if moved_before is not None and (moved := self.loader.storage) is not None:
                add_to(self.totals.storage, asdict(moved.since(moved_before)))
                moved_before = moved
            self.totals.seconds += now - began
            self.loss_sum.zero_()
            self.correct.zero_()
            self.working, began = 0.0, now

        position = self.loader.state_dict()["delivered"]
        left = len(self.loader) - position
        steps = -(-left // self.config["round"])
        with progress(f"epoch {number}", left, "batches") as shown, tracing(self.trace, device, steps) as traced:
            for seen in self._steps(number, position):
                for counts in seen:
                    add_to(self.totals.summed, counts)
                self.idle.count()
                shown(len(seen))
                traced()
                before_it, position = position, position + len(seen)
                every = self.checkpoint_every
                if every and position // every > before_it // every and position < len(self.loader):
                    settle()
                    self._collect()
                    self.save()
        self.trace = None
        settle()
        self._collect()
        self._conclude(number)
        self.save()

    def _steps(self, number: int, position: int) -> Iterator[list[dict[str, int]]]:
        """Takes the steps of an epoch from a batch on, and gives what was counted of the batches."""
        if self.factored is not None:
            for averaged in self.factored:
                start = time.perf_counter()
                with span("train"):
                    self.optimizer.step()
                for seen in averaged.seen:
                    self._sum(seen)
                self.working += time.perf_counter() - start
                yield [seen["counts"] for seen in averaged.seen]
            return
        for i, batch in enumerate(self.steps.batches(), position):
            start = time.perf_counter()
            devices.seed([self.ranks.device], self.loader.seed_of(number - 1, i))
            with span("train"):
                self.steps.step(batch)
            self.working += time.perf_counter() - start
            yield [counts_of(batch)]

    def _summed_loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """The loss of a batch, which is added up where it is, as all that a replay does not tell the CPU."""
        loss, seen = self._loss(model, batch)
        self._sum(seen)
        return loss

    def _sum(self, seen: Mapping[str, Any]) -> None:
        self.loss_sum += seen["loss"]
        self.correct += seen["correct"]

    def _loss(self, model: torch.nn.Module, batch: Batch) -> tuple[torch.Tensor, dict[str, Any]]:
        """The loss of a batch, and what the history sums."""
        scores, target = self._scores(model, batch)
        loss = F.cross_entropy(scores, target)
        correct = (scores.detach().argmax(1) == target).sum()
        count = batch.sample.seeds if isinstance(batch.sample, PaddedSample) else len(target)  # padded labels are ignored
        return loss, {"loss": loss.detach() * count, "correct": correct}

    def _counted_loss(self, model: torch.nn.Module, batch: Batch) -> tuple[torch.Tensor, dict[str, Any]]:
        """The same, with what was counted of the batch."""
        loss, seen = self._loss(model, batch)
        return loss, {**seen, "counts": counts_of(batch)}

    def _stage_seconds(self) -> dict[str, float]:
        """What sampling and gathering took so far: seconds of a GPU, or of the threads that do it."""
        if self.factored is not None:
            return self.factored.seconds
        return {stage.name: stage.seconds for stage in self.loader.stages}

    def _captured(self) -> dict[str, int]:
        """What came of captured steps so far, and what their batches held."""
        found = self.loader.captured
        row_bytes = sum(table.dtype.itemsize * math.prod(table.shape[1:]) for table in each_of(self.features))
        drawn = {"seeds": found.seeds, "vertices": found.vertices, "edges": found.edges, "bytes": found.vertices * row_bytes}
        replayed = (self.factored or self.steps).replayed
        steps = {"replayed": replayed, "overflowed": found.overflowed}
        return {**drawn, **steps, "rows": found.rows, "real_rows": found.vertices}

    def _scores(self, model: torch.nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the seeds: the scores of each class, float32, and the class."""
        assert batch.x is not None and batch.y is not None
        precision = self.config["precision"]
        more: tuple[Any, ...] = ()
        x, target = by_type(lambda rows: rows.to(PRECISIONS[precision]), batch.x), batch.y.long()
        if not isinstance(x, Mapping):
            degree = rows_of(self.degree[x.device], batch.sample.node) if self.degree else None
            more = (degree, batch.sample.weight)
        with autocast(precision, target.device):
            scores = model(x, batch.sample, *more)
        return scores.float(), target

    def _collect(self) -> None:
        """Sums the totals over the ranks; rank 0 keeps them, and what each loader knows of the shape of its batches."""
        summed = self.ranks.sum(list(self.totals.summed.values()))
        keep = summed if self.ranks.is_first else [0.0] * len(summed)
        self.totals.summed = dict(zip(SUMMED, keep, strict=True))
        self.shapes = self.ranks.gathered(self.loader.state_dict()["capture"])

    def _conclude(self, number: int) -> None:
        """Makes the totals an epoch of the history, and validates."""
        summed = self.ranks.from_first(lambda: self.totals.summed)
        seeds, seconds = summed["seeds"], self.totals.seconds
        found: dict[str, Any] = {
            "epoch": number,
            "loss": summed["loss"] / seeds,
            "accuracy": summed["correct"] / seeds,
            "seconds": seconds,
            **{name: int(summed[name]) for name in COUNTED},
            "seeds_per_second": seeds / seconds,
            "edges_per_second": summed["edges"] / seconds,
            "stages": self.totals.stages,
            **{name: int(summed[name]) for name in ("batches", "replayed", "overflowed")},
            "padding": 1 - summed["real_rows"] / summed["rows"] if summed["rows"] else 0.0,
            "storage": StorageStats(**self.totals.storage).report() if self.totals.storage else None,
            **rates(
                {name: summed[f"served_{name}"] for name in SERVED},
                summed["counted"],
                summed["batches"],
                seconds,
                self.ranks.world_size,
            ),
        }
        alone, launched = self.factored is None, self.loader._only_launches()
        found["binds"] = binds(found, launched=launched, idle=self.idle.share()) if alone else None
        self.totals = EpochTotals()
        self.conclude(found, self.evaluate("valid"))

    @torch.no_grad()
    def evaluate(self, split: str) -> dict[str, float] | None:
        """Loss and accuracy on a split, with the same samples each time; None where it is empty."""
        if not len(self.splits.get(split, ())):
            return None
        self.model.eval()
        loss, correct, count = torch.zeros(3, dtype=torch.float64, device=self.ranks.device).unbind()
        for batch in self._batches(split):
            scores, target = self._scores(self.model, batch)
            loss += F.cross_entropy(scores, target, reduction="sum")
            correct += (scores.argmax(1) == target).sum()
            count += len(target)
        total_loss, total_correct, total = self.ranks.sum([float(loss), float(correct), float(count)])
        return {"loss": total_loss / total, "accuracy": total_correct / total}

    def _batches(self, split: str) -> Iterator[Batch]:
        """This rank's batches of a split, with the same samples each time."""
        # No vertex twice: ranks may have different numbers of batches. A new loader begins with the same samples again.
        mine = self.splits[split][self.ranks.rank :: self.ranks.world_size]
        loader = self._loader(self.tester or self.loader.sampler, mine, self.loader.features)
        yield from loader
        most = -(-len(self.splits[split]) // self.ranks.world_size)  # seeds of the first rank
        nothing = mine[:0].to(self.ranks.device)
        for _ in range(-(-most // loader.batch_size) - len(loader)):  # from sharded tables all ranks gather at once
            by_type(lambda table: rows_of(table, nothing), self.features)

    def read(self, split: str) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        for batch in self._batches(split):
            if isinstance(batch.x, Mapping):
                yield from ((kind, batch.sample.node[kind], x) for kind, x in batch.x.items())
            elif batch.x is not None:
                yield "", batch.sample.node, batch.x

    def position(self) -> dict[str, Any]:
        return {"loader": self.loader.state_dict(), "shapes": self.shapes, "totals": vars(self.totals)}

    def go_to(self, state: Mapping[str, Any]) -> None:
        shapes = state.get("shapes")  # a checkpoint may be older
        mine = {} if shapes is None else {"capture": shapes[self.ranks.rank]}
        self.loader.load_state_dict({**state["loader"], **mine})
        if self.ranks.is_first:
            self.totals = EpochTotals(**{**state["totals"], "summed": {**EpochTotals().summed, **state["totals"]["summed"]}})

    def finish(self) -> Trained:
        best = self.take_best()
        test = self.evaluate("test")
        self.optimizer.zero_grad()  # what graphs made of gradients is theirs
        if self.factored is None:
            return Trained(self.model.eval(), self.history, best, test, self.loader.cache_plan)
        kept = next(iter(self.factored.cache_plans), None)
        return Trained(self.model.eval(), self.history, best, test, kept, self.factored.plan)
