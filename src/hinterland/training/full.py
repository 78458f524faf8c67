"""Training of a graph neural network on a whole graph at once, in one part or in several: virtual ranks, GPUs, processes.

What training draws depends on the seed, the epoch and the rank alone, as in :mod:`.train`.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from ..datasets.files import HOST_BUDGET
from ..fullgraph import PartitionedGraph, tuner
from ..fullgraph.aggregate import WAYS
from ..fullgraph.host import in_files
from ..fullgraph.host_plan import HostPlan
from ..fullgraph.host_program import plans
from ..fullgraph.plan import Choice, choices
from ..fullgraph.world import Together
from ..memory.ranks import Ranks, joined
from ..runtime import arguments, devices
from ..runtime.annotations import IfRequested
from ..runtime.capture import capturing
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..table import as_table
from .capture import CapturedSteps
from .epoch_line import show_epoch
from .finite import rows_at_once
from .full_models import FULL_MODELS, SUMMED, FullGNN, make_full_model, sums
from .gradients import GradientAllReduce
from .loader import step_seed
from .models import check_model
from .precision import PRECISIONS, autocast
from .replayed_batches import capture_choice
from .row_gather import rows_of
from .run import TrainingRun
from .settings import (
    Learning,
    LearningOptions,
    check_checkpoint,
    check_dataset,
    check_patience,
    check_ranks,
    fingerprint,
    several_devices,
)

FULL_PRECISIONS = {**PRECISIONS, "float64": torch.float64}


class FullOptions(LearningOptions, total=False):
    """What :func:`train_full` takes by name besides: the fields of FullSettings, ``capture``, and where rows lie."""

    capture: bool | str
    placement: str
    host_budget: int | str | None
    folder: str | Path | None
    layers: int
    precision: str
    tune: bool


@dataclass(frozen=True, kw_only=True)
class FullSettings(Learning):
    """What decides the result of a run of :func:`train_full`, together with the partition.

    Attributes:
        model, layers: as of train_full.
        precision: ``"float32"``; ``"float64"``; or ``"bfloat16"``: rows are kept and sent in it, parameters and sums in
            float32.
        tune: whether to find first how launches of the model's sums best divide their work, by timing them
            (``fullgraph.tune``); that took 0.3 to 1.9 s for each width on an H100, and is kept on disk. Not of attention, nor
            of rows in host memory. It changes the order of sums.
        epochs, lr: as of Learning.
    """

    model: str = "gcn"
    layers: int = 2
    precision: str = "float32"
    tune: bool = False
    epochs: int = 200
    lr: float = 0.01

    def __post_init__(self) -> None:
        check_model(self.model, self.hidden, self.layers, self.dropout, FULL_MODELS)
        arguments.one_of("precision", self.precision, FULL_PRECISIONS)
        super().__post_init__()

    @property
    def fixed(self) -> dict[str, Any]:
        return {name: value for name, value in super().fixed.items() if name != "tune"}


@dataclass(repr=False)
class TrainedFull(Repr):
    """What :func:`train_full` made.

    Attributes:
        model: with the parameters of the best epoch by validation loss (of the last one without validation), for evaluation.
        history: an object for each epoch: ``loss``, ``accuracy`` (of the training vertices, with dropout), ``valid_loss`` (with
            the weight decay's term, as of ``train``), ``valid_accuracy``; ``seconds`` of the step; ``stages``, this process's
            seconds in ``forward``, ``backward``, ``step`` and ``validate``; ``replayed``, 1 if a CUDA graph made the epoch: its
            ``seconds`` are also of the validation, and its ``stages`` are ``launch``, until the graph was launched, and
            ``wait``, until it had ended; ``seeds`` (training vertices), ``vertices``, ``edges`` (that the sums of all layers go
            over), ``seeds_per_second`` and ``edges_per_second``.
        best: of the best epoch: ``epoch``, ``loss``, ``accuracy``; None without validation.
        test: ``loss`` and ``accuracy`` on the test split; None without one.
        partition: the graph in parts, for ``model(partition.scatter(x), partition)``; in ranks while their group lives.
        choices: what ``strategy="auto"`` chose for each operation, and why (``explain()``); none with one part. Those of
            gradients are among them where the graph is undirected, and else chosen by themselves.
        plans: where rows of host memory lay, and what crossed the link, in training and in evaluation.
        tuned: with ``tune=True`` what was found for each width of sums, and on directed graphs of their gradients.
    """

    model: FullGNN
    history: list[dict[str, Any]]
    best: IfRequested[dict[str, Any]]
    test: IfRequested[dict[str, float]]
    partition: PartitionedGraph
    choices: list[Choice]
    plans: list[HostPlan]
    tuned: list[tuner.Tuned]


def train_full(
    dataset: Any,
    model: str = "gcn",
    *,
    device: torch.device | str | int | None = None,
    devices: Sequence[torch.device | str | int] | None = None,
    parts: int | None = None,
    strategy: str = "auto",
    gpu_budget: int | str | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] | None = show_epoch,
    timeout: float = 300.0,
    **options: Unpack[FullOptions],
) -> TrainedFull:
    """Trains a model to classify vertices, with cross entropy and Adam: every epoch is one step on all training vertices.

    Started by ``torchrun`` or ``hl.launch``, or where ``torch.distributed`` is initialized, every process has one part; the
    loss is the mean over the training vertices of all parts, gradients are added up, and rank 0 writes the checkpoint.

    Args:
        dataset: as of ``train``. A vertex hears from its list in ``graph``, whose weights count for "gcn".
        model: "gcn", "sage", "gin", "gat" or "gatv2" (:mod:`.full_models`).
        device: where all parts lie; None is the current GPU, or the CPU without one. Several ranks take a GPU each.
        devices: in place of ``device``, those of this process over which the parts are divided.
        parts: into how many parts this process divides the graph; by default one for each device.
        strategy: how rows of other parts are read: a key of ``hinterland.fullgraph.STRATEGIES``, or ``"auto"``, which tries
            those that are likely to be quick; ``"host"`` sends rows through host memory as far as GPUs have no room.
        gpu_budget: bytes that the graph and its rows may take of each GPU, as ``"24GiB"``; the model's parameters, and scores
            in the loss, come on top. Rows then lie in host memory and go through the GPU in blocks; functions of rows are
            computed anew for gradients, sums stay on the GPU as far as there is room (``TrainedFull.plans``).
        checkpoint: file to write after each epoch.
        resume: goes on from ``checkpoint`` if it is there.
        on_epoch: as of ``train``.
        timeout: seconds without an answer of another rank, after which the run ends with an error.
        options: those of :class:`FullSettings`. What is dropped out depends on the partition, too. ``capture`` replays epochs
            as CUDA graphs (docs/captured.md): "auto", by default, on one GPU, where it can; True also on several, and refuses
            where it cannot; False does not. ``placement="storage"`` keeps rows in files of ``folder`` where ``host_budget``
            bytes have no room for them (docs/full_training.md).

    Raises:
        ConfigError, GraphError, RankLost: as of ``train``.
        OutOfMemory: a part, or what a layer makes of it, does not fit.
        StorageError: the disk is full, or the folder cannot be written.
    """
    several = several_devices(device, devices, None)
    named: dict[str, Any] = dict(options)
    capture, placement = named.pop("capture", "auto"), named.pop("placement", "host")
    files = {name: named.pop(name, None) for name in ("host_budget", "folder")}

    def checked() -> FullSettings:
        arguments.function("on_epoch", on_epoch)
        settings = FullSettings(model=model, **named)
        arguments.one_of("strategy", strategy, WAYS)
        check_placement(placement, strategy, gpu_budget, **files)
        capture_choice(capture)
        if settings.tune:
            check_tunable(model, strategy == "host" or gpu_budget is not None or placement == "storage")
        check_checkpoint(checkpoint, None, resume)
        check_dataset(dataset, whole=True)
        check_patience(settings.patience, dataset.splits)
        return settings

    with joined(several[0] if several else device, arguments.seconds("timeout", timeout)) as ranks:
        settings = ranks.agreed(checked)
        if several and ranks.world_size > 1:
            raise ConfigError("devices= are of one process, and torchrun started several; leave out one of the two")
        check_ranks(ranks, dataset, **vars(settings), strategy=strategy, parts=parts, resume=resume, capture=capture)
        where, budgets = several or ranks.device, {"gpu_budget": gpu_budget, **_in_files(dataset, placement, **files)}
        p = PartitionedGraph.from_graph(dataset.graph, parts, devices=where, **budgets)
        captures = captured_epochs(capture, p, strategy, settings.dropout)
        config = {**settings.fixed, "parts": p.world.parts, **fingerprint(dataset)}
        cuda = sorted({where.index for where in p.world.devices if where.type == "cuda"})
        with torch.random.fork_rng(cuda):
            run = _FullRun(dataset, config, ranks, checkpoint, p, strategy, captures)
            if settings.tune:
                run.tune(strategy)
            run.go(settings, resume, on_epoch)
            return run.finish()


def check_placement(placement: str, strategy: str, gpu_budget: Any, host_budget: Any, folder: Any) -> None:
    """Raises:
    ConfigError: there is no such placement, or it does not go with the strategy; what is of files was given to another.
    """
    arguments.one_of("placement", placement, ("host", "storage"))
    for name, value in (("host_budget", host_budget), ("folder", folder)):
        if value is not None and placement != "storage":
            raise ConfigError(f"{name}={arguments.repr_of(value)} is of rows in files; give placement='storage', too")
    if (gpu_budget is not None or placement == "storage") and strategy not in ("auto", "host"):
        lie = "placement='storage' rows lie in files" if placement == "storage" else "a gpu_budget rows lie in host memory"
        raise ConfigError(f"strategy={strategy!r}, but with {lie}, and parts send each other halos; leave out one of the two")


def _in_files(dataset: Any, placement: str, host_budget: Any, folder: Any) -> dict[str, Any]:
    """What a partitioned graph is told of files: they lie beside the features', unless a folder is named."""
    if placement != "storage":
        return {}
    file = getattr(as_table(dataset.features), "file", None)
    beside = None if file is None else os.path.dirname(file.path) or os.curdir
    return {
        "host_budget": HOST_BUDGET if host_budget is None else host_budget,
        "folder": beside if folder is None else folder,
    }


def check_tunable(model: str, in_blocks: bool) -> None:
    """Refuses to tune what has nothing to tune.

    Raises:
        ConfigError: names it.
    """
    if model not in SUMMED:
        raise ConfigError(
            f"tune=True, but {model} attends, and sums alone are tuned: those of {', '.join(SUMMED)}; leave it out"
        )
    if in_blocks:
        raise ConfigError(
            "tune=True, but with strategy='host', a gpu_budget or placement='storage' rows go through the GPU in blocks, whose "
            "launches are not tuned; leave out one of the two"
        )


def captured_epochs(capture: bool | str, p: PartitionedGraph, strategy: str, dropout: float) -> bool:
    """Whether epochs are captured.

    Raises:
        ConfigError: ``capture=True``, and they cannot be.
    """
    why_not = refusal(p, strategy, dropout)
    if capture is True and why_not is not None:
        raise ConfigError(f"capture=True: {why_not}; or leave it out")
    return bool(capture) and why_not is None and (capture is True or len(set(p.world.devices)) == 1)


def refusal(p: PartitionedGraph, strategy: str, dropout: float) -> str | None:
    """Why epochs over these parts cannot be captured, a sentence; None where they can."""
    gpus = set(p.world.devices)
    if p.in_blocks or strategy == "host":
        said = "gpu_budget=, placement='storage' and strategy='host'"
        return f"rows in host memory or files are sent by the CPU between kernels; leave out {said}"
    if not isinstance(p.world, Together):
        return "processes wait for each other on their CPUs; give one process all GPUs, as devices="
    if strategy == "replicate":
        return "strategy='replicate' keeps rows from call to call, which a replay would not see change; use 'all-gather'"
    if p.world.devices[0].type == "cpu":
        return "CUDA graphs are captured on a GPU, and this run trains on the CPU"
    if len(gpus) > 1 and not p.world.reads_others:
        return "these GPUs cannot read each other's memory; train on one"
    if len(gpus) > 1 and dropout:
        return f"dropout={dropout} draws on each GPU, and torch's graphs draw on one; use dropout=0, or one GPU"
    return None


@dataclass
class FullBatch:
    """What every epoch trains on, as a batch of :class:`.CapturedSteps`.

    Attributes:
        x: rows of features, as the model takes them.
        targets: by split, for each of this process's parts: which of its rows are of the split, and their classes.
        seeds: the training vertices, where the parameters are.
        buffer: 0, where it always lies; None if steps on it are not to be captured.
    """

    x: Any
    targets: dict[str, list[tuple[Tensor, Tensor]]]
    seeds: Tensor
    buffer: int | None


class _FullRun(TrainingRun[FullGNN]):
    """A training run between two epochs."""

    def __init__(
        self,
        dataset: Any,
        config: dict[str, Any],
        ranks: Ranks,
        checkpoint: str | Path | None,
        p: PartitionedGraph,
        strategy: str,
        captures: bool,
    ) -> None:
        self.p, self.kind = p, FULL_PRECISIONS[config["precision"]]
        self.mixed = self.kind == torch.bfloat16
        width, classes = dataset.features.shape[1], dataset.num_classes
        shape = (width, config["hidden"], classes, config["layers"], config["dropout"])

        def make() -> FullGNN:
            return make_full_model(config["model"], *shape, strategy).to(torch.float32 if self.mixed else self.kind)

        super().__init__(dataset, config, ranks, checkpoint, make)
        self.owned = [vertices.to(on) for vertices, on in zip(p.vertices, p.world.devices, strict=True)]
        x = self._rows()
        targets = {name: self._targets(vertices.cpu()) for name, vertices in self.splits.items()}
        home = ranks.device
        self.batch = FullBatch(x, targets, self.splits["train"].to(home), 0 if captures else None)
        self.seen = torch.zeros(2, 2, dtype=torch.float64, device=home)  # of "train" and "valid": loss, and how many are right
        self.times: list[float] = []  # when each stage of an epoch ended, unless it is replayed
        self.tuned: list[tuner.Tuned] = []
        me = weakref.proxy(self)  # as in train.py
        self.steps = CapturedSteps(
            self.model,
            lambda model, batch: me._loss(),
            self.optimizer,
            [],
            lambda model: me._ends(),
            all_reduce=None if ranks.world_size == 1 else GradientAllReduce(self.optimizer),  # a rank has its vertices' losses
            after_step=lambda model: me._validate(),
            others=sorted({on for on in p.world.devices if on != home}, key=str) if captures else (),
        )

    def _rows(self) -> Any:
        """Features, where they are to lie."""
        features = self.dataset.features
        if self.p.files is not None:
            return in_files(self.p, features, self.kind)
        where = self.p.vertices if self.p.in_blocks else self.owned  # rows that are to lie in host memory are not sent round
        return self.p.placed([rows_of(features, vertices).to(self.kind) for vertices in where])

    def tune(self, strategy: str) -> None:
        """Finds the best shapes of the layers' sums, and of their gradients, which have the same on undirected graphs."""
        c = self.config
        widths = (self.dataset.features.shape[1], *[c["hidden"]] * (c["layers"] - 1), self.dataset.num_classes)
        for width, has_gradient in sums(c["model"], widths):
            x = [torch.randn(len(rows), width, dtype=self.kind, device=rows.device) for rows in self.owned]
            for p in [self.p, self.p.transposed] if has_gradient and self.p.directed else [self.p]:
                found = tuner.tune(p, p.as_given(x), SUMMED[c["model"]], strategy=strategy)
                if all(found is not one for one in self.tuned):
                    self.tuned.append(found)

    def _targets(self, vertices: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Of each of this process's parts: which rows are of these vertices, and their classes."""
        numbers, found = self.p.split.numbers, []
        rows = vertices if numbers is None else numbers[vertices]
        for part, on in zip(self.p.parts, self.p.world.devices, strict=True):
            first, last = self.p.bounds[part.rank : part.rank + 2]
            mine = (rows >= first) & (rows < last)
            found.append(((rows[mine] - first).to(on), rows_of(self.dataset.labels, vertices[mine].to(on)).long()))
        return found

    def epoch(self) -> None:
        """Trains for an epoch, validates, and writes the checkpoint."""
        self.model.train()
        number, count = len(self.history) + 1, len(self.splits["train"])
        devices.seed(self.p.world.devices, step_seed(self.config["seed"], number - 1, 0, self.ranks.rank))
        self.times = []
        begin, before = self._now(), self.steps.replayed
        self.steps.step(self.batch)
        launched = time.perf_counter()
        seen = self.seen.flatten().tolist()  # waits for the GPU
        replayed = self.steps.replayed - before
        ends = [begin, launched, time.perf_counter()] if replayed else [begin, *self.times]
        names = ("launch", "wait") if replayed else ("forward", "backward", "step", "validate")
        stages = dict(zip(names, (end - start for start, end in pairwise(ends)), strict=True))
        total, right, *valid = self.ranks.sum(seen)
        seconds, edges = sum(stages.values()) - stages.get("validate", 0.0), self.p.num_edges * len(self.model.convs)
        self.conclude(
            {
                "epoch": number,
                "loss": total / count,
                "accuracy": right / count,
                "seconds": seconds,
                "seeds": count,
                "vertices": self.p.num_vertices,
                "edges": edges,
                "seeds_per_second": count / seconds,
                "edges_per_second": edges / seconds,
                "replayed": replayed,
                "stages": stages,
            },
            self._scores("valid", *valid),
        )
        self.save()

    def _now(self) -> float:
        return max(map(devices.idle_at, self.p.world.devices))

    def _ends(self) -> None:
        """A stage ends, which nobody can wait for while it is captured."""
        if not capturing():
            self.times.append(self._now())

    def _loss(self) -> Tensor:
        loss, correct = self._summed("train")
        self.seen[0].copy_(torch.stack([loss.detach().double(), correct.double()]))
        self._ends()
        return loss / len(self.splits["train"])

    @torch.no_grad()
    def _validate(self) -> None:
        self._ends()
        if "valid" in self.splits:
            self.model.eval()
            self.seen[1].copy_(torch.stack([one.double() for one in self._summed("valid")]))
            self.model.train()
        self._ends()

    def _summed(self, split: str) -> tuple[Tensor, Tensor]:
        """Of this process's vertices of a split: the sum of losses, and how many are right."""
        home = self.ranks.device
        with autocast(self.config["precision"], home):
            given = self.model(self.batch.x, self.p)
        loss = correct = torch.zeros((), device=home)
        for rows, (at, classes) in zip(self.p.each(given), self.batch.targets[split], strict=True):
            scores = rows[at].float() if self.mixed else rows[at]
            loss = loss + F.cross_entropy(scores, classes, reduction="sum").to(home)
            correct = correct + (scores.detach().argmax(1) == classes).sum().to(home)
        return loss, correct

    def _scores(self, split: str, loss: float, correct: float) -> dict[str, float] | None:
        """Means over a split's vertices; None where it is empty."""
        count = len(self.splits.get(split, ()))
        return {"loss": loss / count, "accuracy": correct / count} if count else None

    @torch.no_grad()
    def evaluate(self, split: str) -> dict[str, float] | None:
        if split not in self.splits:
            return None
        self.model.eval()
        return self._scores(split, *self.ranks.sum([float(one) for one in self._summed(split)]))

    def read(self, split: str) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Vertices of this process, whatever the split, and their rows of features."""
        step = rows_at_once(self.dataset.features.shape[1])
        if self.p.files is not None:
            for some in (piece for vertices in self.p.vertices for piece in vertices.split(step)):
                yield "", some, rows_of(self.dataset.features, some).to(self.kind)
            return
        for vertices, rows in zip(self.owned, self.p.each(self.batch.x, anywhere=True), strict=True):
            for some, theirs in zip(vertices.split(step), rows.split(step), strict=True):
                yield "", some, theirs

    def finish(self) -> TrainedFull:
        best = self.take_best()
        self.optimizer.zero_grad()  # as in train.py
        del self.steps  # a graph keeps what an epoch takes, and the test may need that
        test = self.evaluate("test")
        made = choices(self.p), plans(self.p.unshared), self.tuned
        return TrainedFull(self.model.eval(), self.history, best, test, self.p, *made)
