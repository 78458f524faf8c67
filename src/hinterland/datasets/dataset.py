"""What a data set is in memory: graphs as lists of in-neighbours, features, labels and splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch

from ..graph import Graph, connected_components, from_edges
from ..graph.graph import require_graph
from ..memory.allocator import place_again
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr, type_name
from ..runtime.units import format_bytes
from ..table import UnifiedTensor

EdgeType = tuple[str, str, str]
SPLITS = ("train", "valid", "test")
MESSAGES = ("in", "out")


@dataclass
class Dataset(Repr):
    """Vertices of one type, to be classified.

    Attributes:
        graph: the list of v holds the *in-neighbours* of v: the sources of the edges into v, from which v hears in a graph
            neural network and which a sampler draws from. In PyG's terms: the columns of ``edge_index``, by target (CSC).
            For an undirected graph that is the same as its out-neighbours; ``graph.transpose()`` has those of a directed one.
            What ``load_graph`` and ``from_edges`` make of directed edges are lists of out-neighbours: see ``messages``.
        features: ``[num_vertices, F]``, float16, float32 or float64, in host memory; or on storage, as a StorageArray.
        labels: int64 ``[num_vertices]``, from 0 to ``num_classes - 1``; -1 for a vertex without a label.
        splits: ``"train"``, ``"valid"`` and ``"test"``: int64 vertex numbers. Empty where the files have none
            (:func:`random_splits` draws some). No other names.
        num_classes: how many classes there are.
        name: what it is called.
        messages: which way messages go in the lists of the ``graph`` that is given; needed where it is directed. ``"in"``: a
            vertex hears from those in its list. ``"out"``: its messages go out to those in its list, as they go along the edges
            of a graph that ``load_graph`` has read; the attribute ``graph`` is then ``graph.transpose()``, and this one
            ``"in"``.

    Raises:
        ConfigError: a part is none of a data set, a split has another name, or ``messages`` lacks where ``graph`` is directed.
    """

    graph: Graph
    features: UnifiedTensor
    labels: torch.Tensor
    splits: dict[str, torch.Tensor]
    num_classes: int
    name: str = "dataset"
    messages: str | None = None

    def __post_init__(self) -> None:
        require_graph(self.graph)
        if _go_out(self.messages):
            self.graph, self.messages = self.graph.transpose(), "in"
        check_parts(self)

    @property
    def num_vertices(self) -> int:
        """Vertices, numbered from 0."""
        return self.graph.num_vertices

    def _facts(self) -> dict[str, Any]:
        sizes = {"name": self.name, "vertices": f"{self.num_vertices:,}", "stored edges": f"{self.graph.num_edges:,}"}
        return {
            **sizes,
            "features": self.features,
            "classes": self.num_classes,
            "splits": _lengths(self.splits),
        }

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.num_vertices:,} vertices, {self.graph.num_edges:,} stored edges, features "
            f"{_table(self.features)}, {self.num_classes} classes, {_sizes(self.splits)})"
        )


@dataclass
class HeteroDataset(Repr):
    """Vertices of several types; those of ``target`` are to be classified.

    Attributes:
        graphs: by edge type ``(source, relation, target)``: the list of v, a vertex of the type ``target``, holds its
            in-neighbours, vertices of the type ``source``. A Graph has one number of vertices, so it is the larger of both
            types'; lists beyond the target type's number are empty. ``from_edges(targets, sources)`` makes such lists.
        features: ``[V, F]`` by vertex type; types without features are left out.
        num_vertices: by vertex type.
        labels: int64 of the type ``target``, as in Dataset.
        splits: as in Dataset: vertices of the type ``target``.
        num_classes, name: as in Dataset.
        target: the vertex type that has labels.
        messages: as in Dataset, of all graphs; needed where one is directed, as each is that joins two types.

    Raises:
        ConfigError: as of Dataset.
    """

    graphs: dict[EdgeType, Graph]
    features: dict[str, UnifiedTensor]
    num_vertices: dict[str, int]
    labels: torch.Tensor
    splits: dict[str, torch.Tensor]
    num_classes: int
    target: str
    name: str = "dataset"
    messages: str | None = None
    vertex_types: list[str] = field(init=False)

    def __post_init__(self) -> None:
        arguments.instance("num_vertices", self.num_vertices, Mapping, "counts by type")
        self.vertex_types = list(self.num_vertices)
        if _go_out(self.messages):
            _require_graphs(self)
            self.graphs, self.messages = {kind: graph.transpose() for kind, graph in self.graphs.items()}, "in"
        check_parts(self)

    @property
    def edge_types(self) -> list[EdgeType]:
        """The keys of ``graphs``."""
        return list(self.graphs)

    def _facts(self) -> dict[str, Any]:
        vertices = {f"{kind} vertices": f"{count:,}" for kind, count in self.num_vertices.items()}
        edges = {f"{' '.join(kind)} edges": f"{graph.num_edges:,}" for kind, graph in self.graphs.items()}
        return {
            "name": self.name,
            **vertices,
            **edges,
            "target": self.target,
            "splits": _lengths(self.splits),
        }

    def __repr__(self) -> str:
        lines = [f"HeteroDataset({self.name!r}: {self.num_classes} classes of {self.target}, {_sizes(self.splits)}"]
        for kind, count in self.num_vertices.items():
            held = self.features.get(kind)
            features = "no features" if held is None else f"features {_table(held)}"
            lines.append(f"  {arguments.one_line(kind)}: {count:,} vertices, {features}")
        kinds = {arguments.one_line(" ".join(kind)): graph for kind, graph in self.graphs.items()}
        lines += [f"  {kind}: {graph.num_edges:,} stored edges" for kind, graph in kinds.items()]
        return "\n".join(lines) + ")"


# What opening or making one gives: a Dataset, or of several types of vertices a HeteroDataset. Who opens it knows which, so a
# type checker takes it for a Dataset and lets pass what else a HeteroDataset has.
AnyDataset: TypeAlias = Dataset | Any


def _table(features: UnifiedTensor) -> str:
    dtype = type_name(features.dtype)
    return f"{tuple(features.shape)} {dtype} ({format_bytes(features.nbytes)})"


def _lengths(splits: dict[str, torch.Tensor]) -> dict[str, int]:
    return {name: len(part) for name, part in splits.items()}


def _sizes(splits: dict[str, torch.Tensor]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in _lengths(splits).items()) or "no splits"


def check_parts(dataset: Dataset | HeteroDataset) -> None:
    """Refuses a data set that was put together of what is no part of one, before anything reads it.

    Raises:
        ConfigError: names the part, what it is, and what it must be.
    """
    messages = getattr(dataset, "messages", None)
    if isinstance(dataset, HeteroDataset):
        _require_graphs(dataset)
        arguments.instance("features", dataset.features, Mapping, "by type, as HeteroDataset says")
        for relation, graph in dataset.graphs.items():
            _require_messages(f"the graph of {arguments.repr_of(relation)}", graph, messages)
        for kind, count in dataset.num_vertices.items():
            arguments.whole_number(f"num_vertices[{kind!r}]", count, 0)
        tables = {f"features of {kind!r}": table for kind, table in dataset.features.items()}
        arguments.one_of("target", dataset.target, list(map(str, dataset.num_vertices)))
    else:
        require_graph(dataset.graph)
        _require_messages("the graph", dataset.graph, messages)
        tables = {"features": dataset.features}
    for name, table in {**tables, "labels": dataset.labels}.items():
        if isinstance(table, torch.Tensor) and arguments.dense(name, table).ndim == 0:
            raise ConfigError(f"{name} are one number; give a tensor with a row for each vertex")
    arguments.whole_number("num_classes", dataset.num_classes, 0)
    arguments.instance("splits", dataset.splits, Mapping, "as {'train': vertices} is")
    for name, part in dataset.splits.items():
        what = f"split {arguments.repr_of(name)}"
        if name not in SPLITS:
            raise ConfigError(unknown_split(name))
        if arguments.dense(what, part).ndim != 1 or part.dtype not in (torch.int32, torch.int64):
            raise ConfigError(
                f"{what} is {arguments.repr_of(part)}; it must be a list of vertex numbers, int64 [n]; of a mask, give "
                "mask.nonzero()[:, 0]"
            )


def _go_out(messages: str | None) -> bool:
    """Whether lists hold whom a vertex's messages go to."""
    return messages is not None and arguments.one_of("messages", messages, MESSAGES) == "out"


def _require_graphs(dataset: HeteroDataset) -> None:
    arguments.instance("graphs", dataset.graphs, Mapping, "by type, as HeteroDataset says")
    for graph in dataset.graphs.values():
        require_graph(graph)


def _require_messages(what: str, graph: Graph, messages: str | None) -> None:
    """Refuses a directed graph of which nobody has said which way messages go."""
    if graph.directed and messages is None:
        raise ConfigError(
            f"{what} is directed; say which way messages go: messages='in' if a vertex hears from those in its list, or "
            "messages='out' if they go along the edges that load_graph and from_edges list by their sources"
        )


def unknown_split(name: object) -> str:
    """What is said of a split that nothing would read, as "val"."""
    meant = [split for split in SPLITS if str(name).lower().startswith(split[:2])]
    remedy = f"call it {meant[0]!r}" if meant else f"the splits of a data set are {', '.join(map(repr, SPLITS))}"
    return f"split {arguments.repr_of(name)} is none that is known; {remedy}"


def require_one_type(dataset: Dataset) -> None:
    """ConfigError unless ``dataset`` is a Dataset whose parts are what they must be."""
    arguments.instance("dataset", dataset, Dataset, "open one with hinterland.datasets.open(path)")
    check_parts(dataset)


def random_splits(
    dataset: Dataset, seed: int = 0, *, train_per_class: int = 20, valid_per_class: int = 30
) -> dict[str, torch.Tensor]:
    """Splits as Shchur et al. draw them (Pitfalls of graph neural network evaluation, 2018, section 3).

    Of each class ``train_per_class`` random vertices for training and ``valid_per_class`` others for validation; all other
    vertices that have a label for the test. Use ``dataclasses.replace(dataset, splits=random_splits(dataset, seed))``.

    Returns:
        ``{"train", "valid", "test"}``: ascending int64 vertex numbers. The same seed gives the same splits.

    Raises:
        ConfigError: a class has too few vertices.
    """
    require_one_type(dataset)
    seed = arguments.whole_number("seed", seed, 0, 2**64 - 1)
    train_per_class = arguments.whole_number("train_per_class", train_per_class, 0)
    valid_per_class = arguments.whole_number("valid_per_class", valid_per_class, 0)
    random = np.random.Generator(np.random.Philox(seed))
    labels = dataset.labels.numpy()
    parts: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    for kind in range(dataset.num_classes):
        members = random.permutation(np.flatnonzero(labels == kind))
        if len(members) < train_per_class + valid_per_class:
            raise ConfigError(
                f"{dataset.name}: class {kind} has {len(members)} vertices, fewer than the {train_per_class} for training and "
                f"{valid_per_class} for validation; ask for fewer"
            )
        ends = [train_per_class, train_per_class + valid_per_class]
        for name, part in zip(SPLITS, np.split(members, ends), strict=True):
            parts[name].append(part)
    return {name: torch.from_numpy(np.sort(np.concatenate(part))) for name, part in parts.items()}


def largest_component(dataset: Dataset) -> Dataset:
    """The data set's largest connected component alone, its vertices renumbered in their order, its features in host memory.

    Shchur et al. evaluate on it: 2,485 of Cora's vertices, 2,110 of CiteSeer's.
    """
    require_one_type(dataset)
    labels = connected_components(dataset.graph, device="cpu").labels.cpu()
    ids, sizes = labels.unique(return_counts=True)
    kept = labels == ids[sizes.argmax()]
    renumbered = torch.where(kept, kept.cumsum(0) - 1, -1)
    indptr, indices, _ = dataset.graph.checked_rows()
    rows = torch.repeat_interleave(indptr.diff())
    edges = kept[rows]  # a component holds both ends of an edge or none
    graph = from_edges(
        renumbered[rows[edges]],
        renumbered[indices.long()[edges]],
        num_vertices=int(kept.sum()),
        directed=dataset.graph.directed,
    )
    splits = {name: renumbered[part][kept[part]] for name, part in dataset.splits.items()}
    in_memory = dataset.features.file is None
    rows = dataset.features.gather(kept.nonzero().view(-1))
    features = UnifiedTensor.from_tensor(rows, place_again(dataset.features.placement) if in_memory else "host")
    return dataclasses.replace(dataset, graph=graph, features=features, labels=dataset.labels[kept], splits=splits)
