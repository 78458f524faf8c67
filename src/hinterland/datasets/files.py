"""Data sets on disk: opened as they lie, converted once, saved."""

from __future__ import annotations

import os
import zipfile
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ..graph import Graph, arrays, load_graph
from ..graph.formats.files import size_of
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, FormatError, StorageError
from ..runtime.files import refused
from ..runtime.units import parse_bytes
from ..runtime.warned import warn_once
from ..storage import StorageCache
from ..table import StorageArray, UnifiedTensor
from . import folder, igb, mag240m, ogb, shchur
from .dataset import AnyDataset, Dataset, HeteroDataset, check_parts
from .folder import Progress, fill
from .source import HOMOGENEOUS, FeatureSource, Placement, RelationSource, Source, TensorRows, Vertices


@dataclass(frozen=True)
class DatasetFormat:
    """A kind of files: its title, whether some path has it, its reader."""

    title: str
    matches: Callable[[str], bool]
    read: Callable[[str, int | None], Source]


FORMATS = {
    "hinterland": DatasetFormat("Hinterland", folder.matches, folder.read),
    "mag240m": DatasetFormat("MAG240M", mag240m.matches, mag240m.read),
    "igbh": DatasetFormat("Illinois Graph Benchmark, all types", igb.matches_hetero, igb.read_hetero),
    "igb": DatasetFormat("Illinois Graph Benchmark, papers", igb.matches, igb.read),
    "ogb": DatasetFormat("OGB node classification", ogb.matches, ogb.read),
    "shchur": DatasetFormat("Shchur et al.", shchur.matches, shchur.read),
}
HOST_BUDGET = "1GiB"
_CHOICES = ("igb", "igbh")  # whose labels are there twice


def detect(path: str | os.PathLike[str]) -> str:
    """The name of the format of a data set's folder or file, by what is in it.

    Raises:
        StorageError: it is missing.
        FormatError: it is no data set that is known here.
    """
    path = arguments.path("path", path)
    for name, entry in FORMATS.items():
        if entry.matches(path):
            return name
    try:
        if os.path.isdir(path):
            os.stat(os.path.join(path, os.curdir))  # refused where the files in it are out of reach
        else:
            size_of(path)
    except StorageError:
        raise
    except OSError as error:
        raise refused(path, "read", error) from error
    if os.path.isfile(path) and zipfile.is_zipfile(path) and not path.endswith(".npz"):
        raise FormatError(f"{path}: this is an archive; unpack it, and name the folder that comes out")
    raise FormatError(
        f"{path}: no data set that is known; name a folder with {folder.HEADER}, raw/ or processed/ (OGB), meta.pt (MAG240M) "
        "or processed/paper__cites__paper (IGB), or an .npz of adj_, attr_ and labels"
    )


def source_of(path: str | os.PathLike[str], format: str | None, num_classes: int | None) -> Source:
    """The parts of the data set at ``path``, the small ones read and checked."""
    path = arguments.path("path", path)
    if num_classes is not None:
        num_classes = arguments.whole_number("num_classes", num_classes, 1)
    name = detect(path) if format is None else format
    if not isinstance(name, str) or name not in FORMATS:
        raise ConfigError(f"{path}: no data set's format is called {arguments.repr_of(name)}; known are {', '.join(FORMATS)}")
    if num_classes is not None and name not in _CHOICES:
        raise ConfigError(f"{path}: num_classes chooses between the labels of IGB; this data set ({name}) has one kind")
    source = FORMATS[name].read(path, num_classes)
    source.check()
    return source


def open(
    path: str | os.PathLike[str],
    placement: Placement = "host",
    *,
    symmetrize: bool = False,
    num_classes: int | None = None,
    format: str | None = None,
    progress: Progress | None = None,
    host_budget: int | str | None = None,
) -> AnyDataset:
    """A data set in memory, from a folder that ``convert`` or ``save`` made, or from the original files as they lie on disk.

    Args:
        path: the data set's folder (``ogbn_products``, ``mag240m_kddcup2021``, IGB's ``tiny``), or an ``.npz`` of Shchur et
            al. Nothing is fetched and nobody is asked.
        placement: where ``features`` and the graphs' arrays (``graph`` for all, or ``indptr``, ``indices``) go: one word for
            all, or a mapping by name; see UnifiedTensor and Graph. What it leaves out goes to ``"host"``. Features on
            ``"storage"`` stay in their file, and batches read the rows they need of it (StorageArray). So do the neighbours of
            graphs of our folders (``load_graph``); those of others are read into host memory, where ``"storage"`` is the one
            word for all, and refused, where it is said of the graph.
        symmetrize: adds the reverse of every edge and leaves out repeated ones; between two types it adds the relation
            ``(target, "rev_" + name, source)``, as PyG's ToUndirected does.
        num_classes: for IGB, which of its labels: 19 (the default) or 2983.
        format: a name in ``FORMATS`` instead of what the content says: ``"igb"`` reads only the papers of IGBH.
        progress: called with (what, bytes done, bytes in all) as features are read; a terminal shows a line in any case.
        host_budget: host memory for pages of features and graphs on storage, as in ``"4GiB"``; ``"1GiB"`` if None. It is one
            cache for both, which keeps what is read most. With graphs, half of it is for pages on their way to a GPU, where
            there is one. Refused where nothing lies on storage.

    Raises:
        FormatError: the files are damaged, truncated, or do not belong together; names the file and the value.
        StorageError: a file is missing or cannot be read.
        OutOfMemory: the data set does not fit, found before its parts are allocated.
        ConfigError: an option that cannot be used.
    """
    arguments.function("progress", progress)
    symmetrize = arguments.switch("symmetrize", symmetrize)
    home = DatasetPlacement.of(placement, host_budget)
    return placed(source_of(path, format, num_classes), home, symmetrize, home.table(progress))


@dataclass(frozen=True)
class DatasetPlacement:
    """Where the arrays of a data set go.

    Attributes:
        places: by the name of each array.
        cache: of the pages of what stays in its file; None where nothing does.
        strict: a graph that cannot stay in its file is refused, and not read into host memory.
    """

    places: Mapping[str, str]
    cache: StorageCache | None
    strict: bool

    @classmethod
    def of(cls, placement: Placement, host_budget: int | str | None) -> DatasetPlacement:
        places, cache = placements(placement), None
        if any(isinstance(place, str) and place == "storage" for place in places.values()):
            budget = parse_bytes(HOST_BUDGET if host_budget is None else host_budget)
            shared = places["indices"] == "storage" and devices.cuda_available()
            cache = StorageCache(budget // 2 if shared else budget)
        elif host_budget is not None:
            raise ConfigError(
                f"host_budget={arguments.repr_of(host_budget)} bounds the pages of a data set on storage; give "
                "placement='storage', or leave it out"
            )
        return cls(places, cache, not isinstance(placement, str))

    def table(self, progress: Progress | None = None) -> Callable[[FeatureSource, str], Any]:
        """What makes a table of rows and what they are called: in host memory, or in their file."""
        place, cache = self.places["features"], self.cache
        if isinstance(place, str) and place == "storage" and cache is not None:
            return lambda rows, what: _in_place(rows, cache)
        return lambda rows, what: read_rows(rows, what, place, progress)

    def graph_places(self, in_place: bool) -> dict[str, str]:
        """Those of the arrays of graphs; ``in_place``: of one that stays in its file, or of another."""
        places = {name: self.places[name] for name in arrays.NAMES}
        return places if in_place else {name: "host" if place == "storage" else place for name, place in places.items()}

    def graph_in_place(self, relation: RelationSource, symmetrize: bool, converted: str = "") -> Graph | None:
        """The graph of a relation that stays in its file, or None if it is to be read; ``converted``: the options with which
        the data set is converted to one whose graphs stay."""
        if self.places["indices"] != "storage":
            return None
        why = "its edges are no .hl file"
        if relation.in_place:
            graph = load_graph(relation.path, self.graph_places(in_place=True), cache=self.cache)
            if not (symmetrize and graph.directed):
                return graph
            why = "symmetrize=True makes another graph of it"
        remedy = f"hinterland dataset convert{converted} makes a folder whose graph can be read in place"
        if self.strict:
            raise ConfigError(f"{relation.path}: its graph cannot stay there, since {why}; {remedy}")
        warn_once(f"graph of {relation.path}", f"{relation.path}: the graph is read into host memory, since {why}; {remedy}")
        return None


def placed(source: Source, home: DatasetPlacement, symmetrize: bool, table: Callable[[FeatureSource, str], Any]) -> AnyDataset:
    """A data set in its place; ``table`` makes each type's features of its rows and what they are called."""
    features = {
        kind: table(vertices.features, f"reading features of {kind}")
        for kind, vertices in source.vertices.items()
        if vertices.features is not None
    }
    in_place = partial(home.graph_in_place, converted=" --symmetrize" if symmetrize else "")
    graphs = dict(source.graphs(symmetrize, home.graph_places(in_place=False), in_place))
    rest = (source.labels, source.splits, source.num_classes)
    if not source.heterogeneous:
        [graph] = graphs.values()
        return Dataset(graph, features[source.target], *rest, source.name, messages="in")
    counts = {kind: vertices.count for kind, vertices in source.vertices.items()}
    return HeteroDataset(graphs, features, counts, *rest, source.target, source.name, messages="in")


def convert(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    symmetrize: bool = False,
    num_classes: int | None = None,
    format: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Writes a data set to a folder in Hinterland's format, which opens fastest. Done once.

    Features pass through 64 MiB of memory, also from a compressed archive; of a graph, its list of edges (8 bytes an edge)
    and the graph itself are in memory. The folder appears under its name when it is whole.

    Args:
        target: the folder to make.
        overwrite: replaces a data set of ours that is there. Anything else is never replaced.
        path, symmetrize, num_classes, format, progress: as in ``open``.

    Raises:
        StorageError: also if the disk is full; nothing is left under the name then.
        ConfigError: also if ``target`` is there.
        FormatError, OutOfMemory: as in ``open``.
    """
    arguments.function("progress", progress)
    target, symmetrize = arguments.path("target", target), arguments.switch("symmetrize", symmetrize)
    check_target(target, overwrite)
    source = source_of(path, format, num_classes)
    folder.write(source, target, symmetrize=symmetrize, overwrite=overwrite, progress=progress)


def check_target(target: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Refuses a folder that ``convert`` and ``save`` will refuse, before a long run is for nothing."""
    folder.check_place(arguments.path("target", target), arguments.switch("overwrite", overwrite))


def save(
    dataset: Dataset | HeteroDataset,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Writes a data set to a folder in Hinterland's format.

    Args:
        dataset: its parts must belong together, as Dataset says.
        target, overwrite, progress: as in ``convert``.

    Raises:
        ConfigError: the parts do not belong together, or ``target`` is there.
        StorageError: as in ``convert``.
    """
    arguments.function("progress", progress)
    target, overwrite = arguments.path("target", target), arguments.switch("overwrite", overwrite)
    arguments.instance("dataset", dataset, (Dataset, HeteroDataset), "open or make one with hinterland.datasets")
    check_parts(dataset)
    try:
        source = _source_in_memory(dataset)
        source.check()
        folder.write(source, target, symmetrize=False, overwrite=overwrite, progress=progress)
    except FormatError as error:  # no reader would take it
        raise ConfigError(str(error)) from None


def _source_in_memory(dataset: Dataset | HeteroDataset) -> Source:
    several = isinstance(dataset, HeteroDataset)
    if isinstance(dataset, HeteroDataset):
        target, counts, tables, graphs = dataset.target, dataset.num_vertices, dataset.features, dataset.graphs
    else:
        target = HOMOGENEOUS[0]
        counts, tables, graphs = {target: dataset.num_vertices}, {target: dataset.features}, {HOMOGENEOUS: dataset.graph}
    arguments.instance("name", dataset.name, str, "as 'cora' is")
    name, labels = dataset.name, arguments.dense("labels", dataset.labels)
    if labels.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        raise ConfigError(f"labels are {labels.dtype}; they must be classes, whole numbers from 0 on, as in labels.long()")
    for kind, table in tables.items():
        arguments.instance(
            f"features of {kind!r}", table, (UnifiedTensor, torch.Tensor), "make one with UnifiedTensor.from_tensor"
        )
    rows = {kind: TensorRows(name, table.cpu()) for kind, table in tables.items()}
    vertices = {kind: Vertices(count, rows.get(kind)) for kind, count in counts.items()}
    relations = {kind: RelationSource(name, partial(_held, graph)) for kind, graph in graphs.items()}
    return Source(name, name, vertices, relations, target, labels, dataset.splits, int(dataset.num_classes), several)


def _held(graph: Graph, symmetrize: bool, placement: Placement) -> Graph:
    return graph


def placements(placement: Placement) -> dict[str, str]:
    """Where each array goes, by its name; ``graph`` stands for those of graphs that are not named."""
    features: Any = placement
    if isinstance(placement, Mapping):
        features, graph = placement.get("features", "host"), placement.get("graph", "host")
        stays = isinstance(graph, str) and graph == "storage"
        of_graph = dict.fromkeys(arrays.NAMES, graph) | ({"indptr": "host"} if stays else {})
        placement = of_graph | {name: place for name, place in placement.items() if name not in ("features", "graph")}
    if isinstance(features, str) and features == "gpu":
        raise ConfigError("features are placed in host memory, not on 'gpu'; UnifiedTensor.tiered() keeps rows of them on GPUs")
    return {**arrays.placements(placement, in_place=True), "features": features}


def _in_place(rows: FeatureSource, cache: StorageCache) -> StorageArray:
    """All rows where they lie."""
    if not rows.in_place:
        raise ConfigError(
            f"{rows.path}: these features are not rows that can be read in place; convert the data set first, as in "
            "hinterland dataset convert PATH FOLDER"
        )
    return StorageArray.open(rows.path, dtype=rows.dtype, shape=rows.shape, cache=cache)


def read_rows(rows: FeatureSource, what: str, placement: str, progress: Progress | None = None) -> UnifiedTensor:
    """All rows as a table in host memory."""
    table = UnifiedTensor._allocate(rows.shape, rows.dtype, placement)
    deque(fill(rows, what, progress, lambda begin, end: table.cpu()[begin:end]), maxlen=0)
    return table
