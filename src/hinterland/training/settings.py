"""What ``train`` is given: refused where it makes no run, and told apart from that of other runs."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch

from ..datasets.dataset import HeteroDataset, check_parts
from ..memory.ranks import Ranks
from ..runtime import arguments
from ..runtime.errors import ConfigError, GraphError
from ..runtime.files import check_place
from ..sampling import NeighborSampler
from ..sampling.neighbor import check_fanouts
from .factored import as_devices
from .loader import ReadingOptions
from .models import check_model
from .precision import PRECISIONS
from .row_gather import rows_of

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # torch compares and gathers no others
_LARGEST = torch.finfo(torch.float32).max  # what parameters are made of
_TOO_SMALL = "is too small; use 1 or more"
_PARTS = ("graph", "features", "labels", "splits", "num_classes")
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
    capture: bool | str
    precision: str
    trace: str | Path | None


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
        precision: "float32"; or "bfloat16", in which rows and what layers make of them are kept and multiplied, by torch's
            autocast. Parameters, their optimizer and losses stay float32.
    """

    model: str
    fanouts: Sequence[int]
    batch_size: int = 1024
    precision: str = "float32"

    def __post_init__(self) -> None:
        if not len(self.fanouts) or 0 in check_fanouts(self.fanouts):
            raise ConfigError(
                f"fanouts={list(self.fanouts)} sample nothing; use 1 or more for each hop, or -1 for all neighbours"
            )
        check_model(self.model, self.hidden, len(self.fanouts), self.dropout)
        arguments.at_least_one("batch_size", self.batch_size, _TOO_SMALL)
        arguments.one_of("precision", self.precision, PRECISIONS)
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


def check_checkpoint(
    checkpoint: str | Path | None, checkpoint_every: int | None, resume: bool, trace: str | Path | None = None
) -> None:
    """Refuses places that cannot be written, and to write over a run that may be wanted."""
    resume = arguments.switch("resume", resume)
    if trace is not None:
        check_place(trace)
    if checkpoint_every is not None:
        arguments.at_least_one("checkpoint_every", checkpoint_every, _TOO_SMALL)
    if checkpoint is None:
        if resume or checkpoint_every is not None:
            raise ConfigError("there is no checkpoint to write or to go on from; name its file")
        return
    check_place(checkpoint)
    if trace is not None and os.path.realpath(trace) == os.path.realpath(checkpoint):
        raise ConfigError(f"{checkpoint}: is the place of the checkpoint and of the trace; name another file for one of them")
    if os.path.exists(checkpoint) and not resume:
        raise ConfigError(f"{checkpoint}: holds a run already; resume it, or remove the file to begin anew")


def check_patience(patience: int | None, splits: Mapping[str, Any]) -> None:
    """Refuses to wait for a validation loss where nothing is validated."""
    if patience is not None and not len(splits.get("valid", ())):
        raise ConfigError(
            f"patience={patience} waits for a lower validation loss, and the data set has no validation vertices; give it a "
            "split 'valid', or leave out patience"
        )


def several_devices(
    device: torch.device | str | int | None, devices: Sequence[torch.device | str | int] | None, round: int | None
) -> list[torch.device]:
    """The devices of factored execution; none where it is not asked for."""
    if devices is None:
        if round is not None:
            raise ConfigError(f"round={arguments.repr_of(round)} is of several devices; name them in devices=")
        return []
    if device is not None:
        raise ConfigError(f"device={device!r} and devices= say both where to train; leave out one")
    return as_devices(devices)


def has_types(dataset: Any) -> bool:
    """Whether it is a data set of several types of vertices and edges."""
    return isinstance(dataset, HeteroDataset)


def check_dataset(dataset: Any, whole: bool = False) -> None:
    """Refuses what is no data set to train on; ``whole``: on whole graphs."""
    if whole and has_types(dataset):
        raise GraphError(
            "the dataset has several graphs, and whole graphs that are trained on have vertices and edges of one type; train "
            "on mini-batches"
        )
    if not has_types(dataset) and not all(hasattr(dataset, name) for name in _PARTS):
        given = arguments.repr_of(dataset)
        raise ConfigError(f"dataset={given} is no data set; open one with hinterland.datasets.open(path)")
    check_parts(dataset)
    if has_types(dataset):
        _check_types(dataset)
        vertices = dataset.num_vertices[dataset.target]
    else:
        vertices = dataset.graph.num_vertices
        _check_features("features", dataset.features, vertices)
        if whole and not dataset.features.shape[1]:
            raise GraphError("features have no columns; give one at least, as torch.ones(vertices, 1) has")
    _check_rows("labels", dataset.labels, vertices)
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


def _check_rows(name: str, table: Any, vertices: int) -> None:
    if table is None:
        raise GraphError(f"the dataset has no {name}; training needs both features and labels")
    if not isinstance(table, torch.Tensor) and not hasattr(table, "gather"):
        raise ConfigError(f"{name} are a {type(table).__name__}; give a tensor, or a UnifiedTensor of it")
    if len(table) != vertices:
        raise GraphError(f"{name} have {len(table)} rows, but the graph has {vertices} vertices; they must be as many")


def _check_features(name: str, table: Any, vertices: int) -> None:
    _check_rows(name, table, vertices)
    if len(table.shape) != 2:
        raise GraphError(f"{name} have the shape {tuple(table.shape)}; they must be [vertices, columns]")
    if table.dtype.is_complex:
        raise GraphError(f"{name} are {table.dtype}; models take real numbers, as torch.view_as_real(features) has")


def _check_types(dataset: Any) -> None:
    """Refuses graphs and features that are not of the types that are counted, and types that no features can reach."""
    counts = dataset.num_vertices
    for relation, graph in dataset.graphs.items():
        if not (isinstance(relation, tuple) and len(relation) == 3) or {relation[0], relation[2]} - counts.keys():
            raise GraphError(
                f"relation {arguments.repr_of(relation)} does not join types that num_vertices counts, {', '.join(counts)}; "
                f"name "
                "it (source, relation, target)"
            )
        if graph.num_vertices < max(counts[relation[0]], counts[relation[2]]):
            raise GraphError(f"the graph of {relation} has {graph.num_vertices} vertices, fewer than one of its types has")
    for kind, table in dataset.features.items():
        if kind not in counts:
            raise GraphError(f"features of {kind!r}, which num_vertices does not count; it counts {', '.join(counts)}")
        _check_features(f"features of {kind!r}", table, counts[kind])
    reached, before = set(dataset.features), -1
    while len(reached) > before:
        before = len(reached)
        reached |= {target for source, _, target in dataset.graphs if source in reached}
    if lost := [source for source, _, _ in dataset.graphs if source not in reached]:
        raise GraphError(
            f"vertices of type {lost[0]!r} have no features, and hear from no type that has; give them features, or open the "
            "data set with symmetrize=True, so that both ends of an edge hear each other"
        )


def fingerprint(dataset: Any) -> dict[str, Any]:
    """What tells datasets apart: sizes, and a checksum of some vertices' degrees, features and labels."""
    if has_types(dataset):
        sizes = {
            "vertices": dict(dataset.num_vertices),
            "edges": {" ".join(relation): graph.num_edges for relation, graph in dataset.graphs.items()},
            "features": {kind: tuple(table.shape) for kind, table in dataset.features.items()},
            "target": dataset.target,
        }
    else:
        sizes = {
            "vertices": dataset.graph.num_vertices,
            "edges": dataset.graph.num_edges,
            "features": tuple(dataset.features.shape),
        }
    checksum = 0
    for tensor in _looked_at(dataset).values():
        checksum = _checksum(tensor, checksum)
    return {
        **sizes,
        "classes": dataset.num_classes,
        "splits": {name: len(part) for name, part in sorted(dataset.splits.items())},
        "checksum": checksum,
    }


def check_ranks(ranks: Ranks, dataset: Any, **options: Any) -> None:
    """Refuses ranks with other options, or another data set (docs/notes/training-details.md says what is compared).

    Raises:
        ConfigError: in all ranks alike; names what differs, and two ranks.
    """
    if ranks.world_size == 1:
        return

    def content() -> dict[str, Any]:
        parts, told = _looked_at(dataset), {name: value for name, value in fingerprint(dataset).items() if name != "checksum"}
        for of, graph in _graphs(dataset).items():
            drawn = NeighborSampler(graph, [1]).sample(_some(graph.num_vertices))
            parts["neighbours" + of] = drawn.node[drawn.row]
            told |= {"directed" + of: graph.directed, "type of weights" + of: graph.weight_type}
        parts |= {f"the {name} split": part for name, part in sorted(dataset.splits.items())}
        told |= {f"type of {name}": table.dtype for name, table in _tables(dataset).items()}
        return {**told, **{f"checksum of {name}": _checksum(part) for name, part in parts.items()}}

    ranks.check_same({**options, "device": ranks.device.type})
    ranks.check_same(ranks.agreed(content))


def _graphs(dataset: Any) -> dict[str, Any]:
    """Its graphs, by what is said behind the name of something that one has."""
    if not has_types(dataset):
        return {"": dataset.graph}
    return {f" of {' '.join(relation)}": graph for relation, graph in dataset.graphs.items()}


def _tables(dataset: Any) -> dict[str, Any]:
    """Its tables of rows, by their names."""
    features = {"features": dataset.features}
    if has_types(dataset):
        features = {f"features of {kind}": table for kind, table in dataset.features.items()}
    return {**features, "labels": dataset.labels}


def _some(count: int) -> torch.Tensor:
    return torch.linspace(0, count - 1, min(_PROBED, count), dtype=torch.float64).long()


def _looked_at(dataset: Any) -> dict[str, torch.Tensor]:
    """What some vertices have."""
    found = {}
    for of, graph in _graphs(dataset).items():
        indptr = graph.indptr
        some = _some(graph.num_vertices).to(indptr.device)
        found["degrees" + of] = indptr[some + 1] - indptr[some]
    return found | {name: rows_of(table, _some(len(table))) for name, table in _tables(dataset).items()}


def _checksum(tensor: torch.Tensor, before: int = 0) -> int:
    return zlib.crc32(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes(), before)
