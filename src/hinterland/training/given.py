"""What ``train`` is given: refused where it makes no run, and told apart from that of other runs."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch

from ..datasets.dataset import check_parts
from ..memory.ranks import Ranks
from ..runtime import arguments
from ..runtime.errors import ConfigError, GraphError
from ..runtime.files import check_place
from ..sampling import NeighborSampler
from ..sampling.neighbor import check_fanouts
from .factored import as_devices
from .loader import ReadingOptions
from .models import check_model
from .rows import rows_of

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # torch compares and gathers no others
_LARGEST = torch.finfo(torch.float32).max  # what parameters are made of
_TOO_SMALL = "is too small; use 1 or more"
_PROBED = 1024  # vertices that a dataset's fingerprint looks at


class LearningOptions(TypedDict, total=False):
    """The fields of Learning, by name."""

    epochs: int
    hidden: int
    lr: float
    weight_decay: float
    dropout: float
    patience: int | None
    seed: int


class TrainOptions(ReadingOptions, LearningOptions, total=False):
    """What :func:`train` takes by name besides."""

    batch_size: int


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What decides the result of training, by mini-batches or by whole graphs; refused where no run can use it.

    Attributes:
        epochs: how many in all, those before a resumption included.
        hidden: width of the inner layers.
        lr, weight_decay: Adam's. The decay is that of the first layer's matrices (Kipf and Welling 2017, section 5.2).
        dropout: share of each layer's inputs that training drops.
        patience: ends training after so many epochs without a lower validation loss; None trains all epochs.
        seed: of parameters, shuffling, sampling and dropout.
    """

    epochs: int = 10
    hidden: int = 256
    lr: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.5
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        arguments.at_least_one("epochs", self.epochs, _TOO_SMALL)
        if self.patience is not None:
            arguments.at_least_one("patience", self.patience, _TOO_SMALL)
        lr, weight_decay = arguments.number("lr", self.lr), arguments.number("weight_decay", self.weight_decay)
        if not 0 < lr <= _LARGEST:
            raise ConfigError(f"lr={lr} is no learning rate; use a number above 0, as 0.001")
        if not 0 <= weight_decay <= _LARGEST:
            raise ConfigError(f"weight_decay={weight_decay} is no decay; use 0 or more")
        arguments.whole_number("seed", self.seed, 0, 2**64 - 1)

    @property
    def fixed(self) -> dict[str, Any]:
        """Those that a run which goes on from a checkpoint must have in common with the one that wrote it."""
        free = ("epochs", "patience")
        found = {name: value for name, value in vars(self).items() if name not in free}
        return {**found, "lr": float(self.lr), "weight_decay": float(self.weight_decay)}


@dataclass(frozen=True)
class Settings(Learning):
    """Those of :func:`train`, whatever the dataset.

    Attributes:
        model, fanouts: as of train.
        batch_size: seeds of a batch, in each process.
    """

    model: str
    fanouts: Sequence[int]
    batch_size: int = 1024

    def __post_init__(self) -> None:
        if not len(self.fanouts) or 0 in check_fanouts(self.fanouts):
            raise ConfigError(
                f"fanouts={list(self.fanouts)} sample nothing; use 1 or more for each hop, or -1 for all neighbours"
            )
        check_model(self.model, self.hidden, len(self.fanouts), self.dropout)
        arguments.at_least_one("batch_size", self.batch_size, _TOO_SMALL)
        super().__post_init__()

    @property
    def fixed(self) -> dict[str, Any]:
        return {**super().fixed, "fanouts": tuple(self.fanouts)}


def split_options(model: str, fanouts: Sequence[int], options: TrainOptions) -> tuple[Settings, dict[str, Any]]:
    """The options that decide the result, with model and fanouts; and those of how batches are read.

    Raises:
        ConfigError: as of Settings.
        TypeError: an option that there is not.
    """
    named: dict[str, Any] = dict(options)
    reading = {name: named.pop(name) for name in ReadingOptions.__annotations__ if name in named}
    return Settings(model, tuple(fanouts) if isinstance(fanouts, Sequence) else tuple(check_fanouts(fanouts)), **named), reading


def check_checkpoint(checkpoint: str | Path | None, checkpoint_every: int | None, resume: bool) -> None:
    """Refuses a place that cannot be written, and to write over a run that may be wanted."""
    if checkpoint_every is not None:
        arguments.at_least_one("checkpoint_every", checkpoint_every, _TOO_SMALL)
    if checkpoint is None:
        if resume or checkpoint_every is not None:
            raise ConfigError("there is no checkpoint to write or to go on from; name its file")
        return
    check_place(checkpoint)
    if os.path.exists(checkpoint) and not resume:
        raise ConfigError(f"{checkpoint}: holds a run already; resume it, or remove the file to begin anew")


def several_devices(
    device: torch.device | str | int | None, devices: Sequence[torch.device | str | int] | None, round: int | None
) -> list[torch.device]:
    """The devices of factored execution; none where it is not asked for."""
    if devices is None:
        if round is not None:
            raise ConfigError(f"round={arguments.shown(round)} is of several devices; name them in devices=")
        return []
    if device is not None:
        raise ConfigError(f"device={device!r} and devices= say both where to train; leave out one")
    return as_devices(devices)


def check_dataset(dataset: Any) -> None:
    """Refuses what is no data set to train on."""
    if hasattr(dataset, "graphs"):
        raise GraphError("the dataset has several graphs; train takes vertices and edges of one type")
    if not hasattr(dataset, "graph"):
        given = arguments.shown(dataset)
        raise ConfigError(f"dataset={given} is no data set; open one with hinterland.datasets.open(path)")
    check_parts(dataset)
    vertices = dataset.graph.num_vertices
    for name in ("features", "labels"):
        table = getattr(dataset, name)
        if table is None:
            raise GraphError(f"the dataset has no {name}; training needs both features and labels")
        if not isinstance(table, torch.Tensor) and not hasattr(table, "gather"):
            raise ConfigError(f"{name} are a {type(table).__name__}; give a tensor, or a UnifiedTensor of it")
        if len(table) != vertices:
            raise GraphError(f"{name} have {len(table)} rows, but the graph has {vertices} vertices; they must be as many")
    if len(dataset.features.shape) != 2:
        raise GraphError(f"features have the shape {tuple(dataset.features.shape)}; they must be [vertices, columns]")
    if dataset.features.dtype.is_complex:
        raise GraphError(
            f"features are {dataset.features.dtype}; models take real numbers, as torch.view_as_real(features) has"
        )
    if dataset.labels.dtype not in _WHOLE:
        raise GraphError(
            f"labels are {dataset.labels.dtype}; they must be classes, whole numbers from 0 on, as in labels.long()"
        )
    if not len(dataset.splits.get("train", ())):
        raise GraphError("the dataset has no training vertices; give it a split 'train'")
    classes = dataset.num_classes
    for name, seeds in dataset.splits.items():
        if bool((outside := (seeds < 0) | (seeds >= vertices)).any()):
            raise GraphError(f"split {name!r} names vertex {int(seeds[outside][0])}, but there are {vertices}, numbered from 0")
        labels = rows_of(dataset.labels, seeds)
        if name == "test":
            labels = labels[labels != -1]  # may be held back
        if bool(((labels < 0) | (labels >= classes)).any()):
            raise GraphError(f"split {name!r} has vertices whose label is none of the {classes} classes; leave them out")


def fingerprint(dataset: Any) -> dict[str, Any]:
    """What tells datasets apart: sizes, and a checksum of some vertices' degrees, features and labels."""
    graph, checksum = dataset.graph, 0
    for tensor in _looked_at(dataset).values():
        checksum = _checksum(tensor, checksum)
    return {
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "features": tuple(dataset.features.shape),
        "classes": dataset.num_classes,
        "splits": {name: len(part) for name, part in sorted(dataset.splits.items())},
        "checksum": checksum,
    }


def check_ranks(ranks: Ranks, dataset: Any, **options: Any) -> None:
    """Refuses ranks with other options, or another data set: other sizes, types, splits, or other degrees, neighbours, features
    or labels of the vertices that are looked at.

    Raises:
        ConfigError: in all ranks alike; names what differs, and two ranks.
    """
    if ranks.world_size == 1:
        return

    def content() -> dict[str, Any]:
        graph, looked_at = dataset.graph, _looked_at(dataset)
        drawn = NeighborSampler(graph, [1]).sample(_some(graph))
        looked_at["neighbours"] = drawn.node[drawn.row]
        parts = {**looked_at, **{f"the {name} split": part for name, part in sorted(dataset.splits.items())}}
        told = {name: value for name, value in fingerprint(dataset).items() if name != "checksum"}
        types = {"directed": graph.directed, "type of weights": graph.weight_type}
        types |= {f"type of {name}": getattr(dataset, name).dtype for name in ("features", "labels")}
        return {**told, **types, **{f"checksum of {name}": _checksum(part) for name, part in parts.items()}}

    ranks.check_same({**options, "device": ranks.device.type})
    ranks.check_same(ranks.agreed(content))


def _some(graph: Any) -> torch.Tensor:
    return torch.linspace(0, graph.num_vertices - 1, min(_PROBED, graph.num_vertices), dtype=torch.float64).long()


def _looked_at(dataset: Any) -> dict[str, torch.Tensor]:
    """What some vertices have."""
    some, indptr = _some(dataset.graph), dataset.graph.indptr
    there = some.to(indptr.device)
    tables = {name: rows_of(getattr(dataset, name), some) for name in ("features", "labels")}
    return {"degrees": indptr[there + 1] - indptr[there], **tables}


def _checksum(tensor: torch.Tensor, before: int = 0) -> int:
    return zlib.crc32(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes(), before)
