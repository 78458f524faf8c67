"""What a reader hands over: where the parts of a data set lie. They become a data set in memory, or a folder of ours.

Labels and splits, which are small, are read and checked before any large part is touched; features and edges are read when
they are written or placed, block by block and graph by graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from .. import _core
from ..graph import Graph, from_edges
from ..graph.formats.arrays import Archive, ArrayFile, open_npy
from ..graph.formats.content import LoadOptions
from ..graph.formats.files import read_into, require_memory, size_of
from ..graph.formats.npy import read_columns
from ..runtime.errors import FormatError, GraphError
from ..runtime.thresholds import CHUNK
from .dataset import SPLITS, EdgeType, unknown_split

FLOATS = (torch.float16, torch.float32, torch.float64)
HOMOGENEOUS = ("node", "to", "node")
_LARGEST_LABEL = 1 << 24

Placement = str | Mapping[str, str]


class FeatureSource(Protocol):
    """A table of features that is read once, front to back, whole or in part. ``path`` names its file in messages;
    ``in_place``: the file is these rows, after a header that StorageArray knows, or none."""

    path: str
    in_place: bool
    shape: tuple[int, int]
    dtype: torch.dtype

    def read(self, target: torch.Tensor) -> None:
        """Fills ``target``, ``[n, F]`` of ``dtype``, contiguous, with the next n rows."""

    def skip(self, count: int) -> None:
        """Passes over the next ``count`` rows."""


class ArrayRows:
    """Rows of an array in a ``.npy`` or ``.npz`` file."""

    def __init__(self, array: ArrayFile) -> None:
        self.path, self._array, self.dtype = array.path, array, array.torch_dtype()
        if len(array.shape) != 2 or (array.fortran and min(array.shape) > 1):
            order = " in Fortran order" if array.fortran else ""
            raise FormatError(
                f"{array.path}: {array.name} has the shape {array.shape}{order}; features are rows, [vertices, columns]: save "
                "np.ascontiguousarray(array) again"
            )
        if self.dtype not in FLOATS:
            raise FormatError(f"{array.path}: {array.name} has elements of type {array.dtype}; features are float16, 32 or 64")
        self.shape = (array.shape[0], array.shape[1])
        self.in_place = array.path.endswith(".npy")

    def read(self, target: torch.Tensor) -> None:
        self._array.read_values(target.view(-1))

    def skip(self, count: int) -> None:
        self._array.skip(count * self.shape[1])


class RawRows:
    """Rows of float32 in a file without a header."""

    dtype, in_place = torch.float32, True

    def __init__(self, path: str, columns: int) -> None:
        size, row = size_of(path), columns * 4
        if size % row:
            raise FormatError(
                f"{path}: {size} bytes are no whole number of rows of {columns} float32; the file is truncated, fetch it again"
            )
        self.path, self.shape = path, (size // row, columns)
        self._at = 0

    def read(self, target: torch.Tensor) -> None:
        read_into(self.path, self._at, target)
        self._at += target.numel() * 4

    def skip(self, count: int) -> None:
        self._at += count * self.shape[1] * 4


class TensorRows:
    """Rows of a tensor, in memory or mapped from a file."""

    in_place = False

    def __init__(self, path: str, tensor: torch.Tensor) -> None:
        if tensor.ndim != 2 or tensor.dtype not in FLOATS:
            raise FormatError(
                f"{path}: the features are {tensor.dtype} of shape {tuple(tensor.shape)}; they must be float16, 32 or 64 of "
                "[vertices, columns]"
            )
        self.path, self._tensor, self.dtype = path, tensor, tensor.dtype
        self.shape = (tensor.shape[0], tensor.shape[1])
        self._at = 0

    def read(self, target: torch.Tensor) -> None:
        target.copy_(self._tensor[self._at : self._at + len(target)])
        self._at += len(target)

    def skip(self, count: int) -> None:
        self._at += count


@dataclass
class Vertices:
    """The vertices of one type."""

    count: int
    features: FeatureSource | None = None

    def check(self, kind: str) -> None:
        """Refuses features that have another number of rows."""
        if self.features is not None and self.features.shape[0] != self.count:
            raise FormatError(
                f"{self.features.path}: {self.features.shape[0]} rows of features, but there are {self.count} vertices of type "
                f"{kind}; the file is truncated or of another data set"
            )


@dataclass
class RelationSource:
    """The edges of one type. ``read(symmetrize, placement)`` makes the graph of in-neighbours.

    ``in_place``: the file at ``path`` is that graph, in our format. ``symmetrize`` adds the reverse of every edge and leaves
    out repeated ones; only where both ends are of one type.
    """

    path: str
    read: Callable[[bool, Placement], Graph]
    in_place: bool = False


@dataclass
class Source:
    """A data set on disk, or in memory to be written."""

    path: str
    name: str
    vertices: dict[str, Vertices]
    relations: dict[EdgeType, RelationSource]
    target: str
    labels: torch.Tensor
    splits: dict[str, torch.Tensor]
    num_classes: int
    heterogeneous: bool = False
    places: dict[str, str] = field(default_factory=dict)  # files of "labels" and of each split, for messages

    @property
    def leads_one_way(self) -> bool:
        """Whether relations join types, but no two types in both directions, so that one of them hears nothing of the other."""
        joined = {(source, target) for source, _, target in self.relations if source != target}
        return bool(joined) and not any(ends[::-1] in joined for ends in joined)

    def check(self) -> None:
        """Refuses parts that do not belong together, before the large ones are read."""
        count = self.vertices[self.target].count
        for kind, vertices in self.vertices.items():
            vertices.check(kind)
        path = self.places.get("labels", self.path)
        check_label_count(path, len(self.labels), count)
        if count and int(self.labels.max()) >= self.num_classes:
            bad = int(self.labels.argmax())
            raise FormatError(
                f"{path}: the label of vertex {bad} is {int(self.labels[bad])}, but there are {self.num_classes} classes"
            )
        for name, part in self.splits.items():
            place = self.places.get(name, self.path)
            if name not in SPLITS:
                raise FormatError(f"{place}: {unknown_split(name)}")
            outside = ((part < 0) | (part >= count)).nonzero()
            if len(outside):
                raise FormatError(
                    f"{place}: position {int(outside[0])} of the split {name!r} is {int(part[outside[0]])}, but vertices are "
                    f"numbered from 0 to {count - 1}"
                )
            unlabelled = (self.labels[part] < 0).nonzero()
            if len(unlabelled) and name != "test":  # a test's labels may be held back
                bad = int(part[unlabelled[0]])
                raise FormatError(f"{path}: vertex {bad} of the split {name!r} has no label (NaN or negative)")

    def graphs(
        self, symmetrize: bool, placement: Placement, in_place: Callable[[RelationSource, bool], Graph | None] | None = None
    ) -> Iterator[tuple[EdgeType, Graph]]:
        """Each graph, checked, one after the other; with their reverses, as PyG's ToUndirected adds and names them. What
        ``in_place``, of a relation and whether it is to be symmetric, does not give is read."""
        for (source, name, target), relation in self.relations.items():
            same = source == target
            try:
                graph = None if in_place is None else in_place(relation, symmetrize and same)
                graph = relation.read(symmetrize and same, placement) if graph is None else graph
            except GraphError as error:
                raise FormatError(f"{relation.path}: {error}") from error
            self._check_graph(relation.path, graph, self.vertices[source].count, self.vertices[target].count)
            yield (source, name, target), graph
            if symmetrize and not same:
                yield (target, f"rev_{name}", source), graph.transpose()

    def _check_graph(self, path: str, graph: Graph, sources: int, targets: int) -> None:
        larger = max(sources, targets)
        if graph.num_vertices != larger:
            raise FormatError(f"{path}: a graph of {graph.num_vertices} vertices, but the data set has {larger}")
        if int(graph.indptr[targets]) != graph.num_edges:
            raise FormatError(f"{path}: a target is not below {targets}, the number of its type's vertices")
        if graph.neighbor_lists.stored:  # a sampler looks at what it reads
            return
        if sources < larger and graph.num_edges and int(graph.indices.max()) >= sources:
            raise FormatError(f"{path}: a source is {int(graph.indices.max())}, but its type has {sources} vertices")


def relation_of(path: str, layout: str, sources: int, targets: int, member: str | None = None) -> RelationSource:
    """Edges in a ``.npy`` file, or a ``member`` of an ``.npz``, of sources and targets: ``layout`` is ``"[2,E]"`` or
    ``"[E,2]"``."""

    @contextmanager
    def opened() -> Iterator[ArrayFile]:
        if member is None:
            yield open_npy(path)
        else:
            with Archive(path) as archive:
                yield archive.open(member)

    with opened():  # what is missing is found now
        pass

    def read(symmetrize: bool, placement: Placement) -> Graph:
        options = LoadOptions({}, layout=layout)
        with opened() as array:
            ends = read_columns(path, array, options, max(sources, targets))
        for what, column, count in zip(("source", "target"), ends, (sources, targets), strict=True):
            if column.numel() and int(column.max()) >= count:
                bad = int(column.argmax())
                raise FormatError(f"{path}: the {what} of edge {bad} is {int(column[bad])}, but its type has {count} vertices")
        return listed(*ends, max(sources, targets), symmetrize, placement)

    return RelationSource(path, read)


def listed(sources: torch.Tensor, targets: torch.Tensor, vertices: int, symmetrize: bool, placement: Placement) -> Graph:
    """The lists of in-neighbours of edges ``sources[i] -> targets[i]``.

    ``symmetrize``: as in Relation.
    """
    return from_edges(
        targets,
        sources,
        num_vertices=vertices,
        symmetrize=symmetrize,
        remove_duplicates=symmetrize,
        placement=placement,
    )


def as_undirected(graph: Graph) -> Graph:
    """The same graph, known as undirected if it has the reverse of every edge."""
    if graph.directed:
        indptr, indices = graph.indptr.cpu(), graph.indices.cpu()
        rows = (indptr.data_ptr(), graph.num_vertices, indices.data_ptr(), indices.element_size())
        if _core.is_mirrored(*rows, 0, 0, 0, graph.num_edges):
            return Graph.of(graph.neighbor_lists, directed=False)
    return graph


def labels_of(path: str, values: torch.Tensor) -> torch.Tensor:
    """Labels as files have them, floating with NaN for none or integers with a negative for none, as int64 with -1."""
    count = values.numel()
    require_memory(path, "the labels", 8 * count)
    values = values.reshape(-1)
    return _labels(path, count, lambda begin, end: values[begin:end])


def array_labels(array: ArrayFile, vertices: int) -> torch.Tensor:
    """All of an array as labels of ``vertices`` vertices."""
    if array.count != max(array.shape, default=0):
        raise FormatError(f"{array.path}: {array.name} has the shape {array.shape}; labels are one number for each vertex")
    check_label_count(array.path, array.count, vertices)
    require_memory(array.path, array.name, 8 * array.count)

    def part(begin: int, end: int) -> torch.Tensor:
        values = torch.empty(end - begin, dtype=array.torch_dtype())
        array.read_values(values)
        return values

    return _labels(array.path, array.count, part)


def check_label_count(path: str, labels: int, vertices: int) -> None:
    """Refuses labels that are more or fewer than the vertices."""
    if labels != vertices:
        raise FormatError(f"{path}: {labels} labels for {vertices} vertices; the file is truncated or damaged")


def _labels(path: str, count: int, part: Callable[[int, int], torch.Tensor]) -> torch.Tensor:
    """``part(begin, end)`` yields values as files have them, part after part."""
    labels = torch.empty(count, dtype=torch.int64)
    for begin in range(0, count, CHUNK):
        end = min(begin + CHUNK, count)
        values = part(begin, end)
        whole = torch.where(values.isnan(), -1, values) if values.is_floating_point() else values.to(torch.int64)
        wrong = ((whole != whole.trunc()) | (whole > _LARGEST_LABEL)).nonzero()
        if len(wrong):
            bad = int(wrong[0])
            raise FormatError(
                f"{path}: the label of vertex {begin + bad} is {values[bad].item()}, which is no class; fetch the file again"
            )
        torch.clamp(whole.to(torch.int64), min=-1, out=labels[begin:end])
    return labels


def classes_of(labels: torch.Tensor) -> int:
    """Classes where no file says how many: one more than the largest label."""
    return int(labels.max()) + 1 if labels.numel() else 0


def split_of(path: str, values: Any) -> torch.Tensor:
    """Vertex numbers of a split, an array, a tensor or a list, as int64."""
    if isinstance(values, dict):
        raise FormatError(
            f"{path}: a split holds {', '.join(map(str, values))[:60]}; only those of vertices are read, not of links"
        )
    try:
        part = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        part = torch.empty(0)
    if part.ndim != 1 or part.is_floating_point() or part.dtype == torch.bool or part.is_complex():
        raise FormatError(f"{path}: a split is {part.dtype} of shape {tuple(part.shape)}; it must be a list of vertex numbers")
    require_memory(path, "a split", 8 * part.numel())
    return part.to(torch.int64)


def random_parts(count: int, shares: tuple[float, ...], seed: int) -> dict[str, torch.Tensor]:
    """Splits of ``count`` vertices in a random order; ``shares`` of the first ones, the rest is the last's."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(count)
    ends = np.cumsum([math.floor(count * share) for share in shares])
    return {name: torch.from_numpy(part) for name, part in zip(SPLITS, np.split(order, ends), strict=True)}
