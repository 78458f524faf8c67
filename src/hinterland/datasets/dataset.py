"""What a data set is in memory: graphs as lists of in-neighbours, features, labels and splits."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np
import torch

from ..graph import Graph, connected_components, from_edges
from ..memory import UnifiedTensor
from ..runtime.errors import ConfigError
from ..runtime.units import format_bytes

EdgeType = tuple[str, str, str]
SPLITS = ("train", "valid", "test")


@dataclass
class Dataset:
    """Vertices of one type, to be classified.

    Attributes:
        graph: the list of v holds the *in-neighbours* of v: the sources of the edges into v, from which v hears in a graph
            neural network and which a sampler draws from. In PyG's terms: the columns of ``edge_index``, by target (CSC).
            For an undirected graph that is the same as its out-neighbours; ``graph.transpose()`` has those of a directed one.
        features: ``[num_vertices, F]``, float16, float32 or float64, in host memory.
        labels: int64 ``[num_vertices]``, from 0 to ``num_classes - 1``; -1 for a vertex without a label.
        splits: ``"train"``, ``"valid"`` and ``"test"``: int64 vertex numbers. Empty where the files have none
            (:func:`random_splits` draws some).
        num_classes: how many classes there are.
        name: what it is called.
    """

    graph: Graph
    features: UnifiedTensor
    labels: torch.Tensor
    splits: dict[str, torch.Tensor]
    num_classes: int
    name: str = "dataset"

    @property
    def num_vertices(self) -> int:
        """Vertices, numbered from 0."""
        return self.graph.num_vertices

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.num_vertices:,} vertices, {self.graph.num_edges:,} stored edges, features "
            f"{_table(self.features)}, {self.num_classes} classes, {_sizes(self.splits)})"
        )


@dataclass
class HeteroDataset:
    """Vertices of several types; those of ``target`` are to be classified.

    Attributes:
        graphs: by edge type ``(source, relation, target)``: the list of v, a vertex of the type ``target``, holds its
            in-neighbours, vertices of the type ``source``. A Graph has one number of vertices, so it is the larger of both
            types'; lists beyond the target type's number are empty.
        features: ``[V, F]`` by vertex type; types without features are left out.
        num_vertices: by vertex type.
        labels: int64 of the type ``target``, as in Dataset.
        splits: as in Dataset: vertices of the type ``target``.
        num_classes, name: as in Dataset.
        target: the vertex type that has labels.
    """

    graphs: dict[EdgeType, Graph]
    features: dict[str, UnifiedTensor]
    num_vertices: dict[str, int]
    labels: torch.Tensor
    splits: dict[str, torch.Tensor]
    num_classes: int
    target: str
    name: str = "dataset"
    vertex_types: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.vertex_types = list(self.num_vertices)

    @property
    def edge_types(self) -> list[EdgeType]:
        """The keys of ``graphs``."""
        return list(self.graphs)

    def __repr__(self) -> str:
        lines = [f"HeteroDataset({self.name!r}: {self.num_classes} classes of {self.target}, {_sizes(self.splits)}"]
        for kind, count in self.num_vertices.items():
            held = self.features.get(kind)
            lines.append(f"  {kind}: {count:,} vertices, " + ("no features" if held is None else f"features {_table(held)}"))
        lines += [f"  {' '.join(kind)}: {graph.num_edges:,} stored edges" for kind, graph in self.graphs.items()]
        return "\n".join(lines) + ")"


def _table(features: UnifiedTensor) -> str:
    dtype = str(features.dtype).removeprefix("torch.")
    return f"{tuple(features.shape)} {dtype} ({format_bytes(features.nbytes)})"


def _sizes(splits: dict[str, torch.Tensor]) -> str:
    return ", ".join(f"{name} {len(part):,}" for name, part in splits.items()) or "no splits"


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
    if not 0 <= seed < 2**64:
        raise ConfigError(f"seed {seed} is not from 0 to 2^64 - 1")
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
    """The data set's largest connected component alone, its vertices renumbered in their order.

    Shchur et al. evaluate on it: 2,485 of Cora's vertices, 2,110 of CiteSeer's.
    """
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
    features = UnifiedTensor.from_tensor(dataset.features.cpu()[kept], dataset.features.placement)
    return dataclasses.replace(dataset, graph=graph, features=features, labels=dataset.labels[kept], splits=splits)
