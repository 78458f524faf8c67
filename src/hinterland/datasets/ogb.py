"""OGB's data sets for the classification of vertices (ogbn-products, ogbn-papers100M, ogbn-arxiv), after download, and those
that OGB's DatasetSaver makes, of one type or several.

Layout (OGB 1.3)::

    raw/edge.csv.gz, node-feat.csv.gz, node-label.csv.gz, num-node-list.csv.gz    products, arxiv: text
    raw/data.npz (edge_index, node_feat, num_nodes_list), node-label.npz          papers100M: compressed arrays, NaN: no label
    processed/geometric_data_processed.pt                                         what OGB made of raw/ for PyG, if it did
    split/<how>/{train,valid,test}.csv.gz, or split_dict.pt                       the latter by DatasetSaver
    raw/edge_index_dict.npz, num_nodes_dict.npz, node_feat_dict.npz, node-label.npz    several types, by DatasetSaver

The processed file is read where it is there. OGB adds the reverse of every edge of ogbn-products; so does this reader. A self
loop is stored once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..graph import Graph
from ..graph.edges import from_runs
from ..graph.formats import ogb as raw
from ..graph.formats.arrays import Archive
from ..graph.formats.content import LoadOptions
from ..runtime.errors import FormatError, StorageError
from ..runtime.files import refused
from . import csv, pickles
from .dataset import SPLITS
from .source import (
    HOMOGENEOUS,
    ArrayRows,
    Placement,
    RelationSource,
    Source,
    TensorRows,
    Vertices,
    array_labels,
    as_undirected,
    classes_of,
    labels_of,
    listed,
    relation_of,
    split_of,
)

_PROCESSED = os.path.join("processed", "geometric_data_processed.pt")
_DICT = "split_dict.pt"
_SEVERAL = os.path.join("raw", "edge_index_dict.npz")
_RANKING = "sales_ranking"  # how ogbn-products is split, and no other data set
_LIST = LoadOptions({})


def matches(path: str) -> bool:
    """Whether ``path`` is a folder with the files of one of these data sets."""
    names = (_PROCESSED, os.path.join("raw", "edge.csv.gz"), os.path.join("raw", "data.npz"), _SEVERAL)
    return any(os.path.exists(os.path.join(path, name)) for name in names)


def read(path: str, num_classes: int | None) -> Source:
    """The data set in the folder ``path``."""
    split, held, places = _splits(path)
    name = os.path.basename(os.path.abspath(path)).replace("_", "-")
    if os.path.exists(os.path.join(path, _SEVERAL)):
        return _several(path, name, held, places)
    splits = {part: split_of(places[part], numbers) for part, numbers in held.items()}
    processed, packed = os.path.join(path, _PROCESSED), os.path.join(path, "raw", "data.npz")
    if os.path.exists(processed):
        parts = _processed(processed)
    elif os.path.exists(packed):
        parts = _packed(packed)
    else:
        parts = _text(os.path.join(path, "raw"), mirrored=split == _RANKING)
    vertices, edges = {HOMOGENEOUS[0]: parts.vertices}, {HOMOGENEOUS: parts.edges}
    places["labels"] = parts.label_path
    return Source(path, name, vertices, edges, HOMOGENEOUS[0], parts.labels, splits, classes_of(parts.labels), places=places)


@dataclass
class _Parts:
    vertices: Vertices
    edges: RelationSource
    labels: torch.Tensor
    label_path: str


def _splits(path: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    """How vertices are split, the parts as they are stored, and the files of these."""
    folder = os.path.join(path, "split")
    try:
        ways = [entry.name for entry in os.scandir(folder) if entry.is_dir()] if os.path.isdir(folder) else []
    except OSError as error:
        raise refused(folder, "read", error) from error
    if len(ways) != 1:
        found = f"the folders {', '.join(sorted(ways))}" if ways else "no folder"
        raise StorageError(f"{folder}: has {found} where one folder of splits is expected; fetch the data set again")
    place = os.path.join(folder, ways[0], _DICT)
    if os.path.exists(place):
        held = pickles.load_dict(place)
        missing = [name for name in SPLITS if name not in held]
        if missing:
            raise FormatError(f"{place}: has no split {missing[0]!r}, only {', '.join(map(str, held))}; save it again")
        return ways[0], {name: held[name] for name in SPLITS}, dict.fromkeys(SPLITS, place)
    places = {name: os.path.join(folder, ways[0], f"{name}.csv.gz") for name in SPLITS}
    return ways[0], {name: csv.whole_column(place) for name, place in places.items()}, places


def _text(folder: str, mirrored: bool) -> _Parts:
    count = raw.count_vertices(folder)
    place = os.path.join(folder, "node-label.csv.gz")
    labels = labels_of(place, csv.column(place))
    features = csv.CsvRows(os.path.join(folder, "node-feat.csv.gz"), count)

    def edges(symmetrize: bool, placement: Placement) -> Graph:
        undirected = symmetrize or mirrored
        rules = _core.EdgeRules(mirror=undirected, flip=True)  # lists of in-neighbours
        parser, _ = raw.parse_text(folder, rules)
        return from_runs(parser, count, directed=not undirected, remove_duplicates=symmetrize, placement=placement)

    return _Parts(Vertices(count, features), RelationSource(os.path.join(folder, "edge.csv.gz"), edges), labels, place)


def _packed(path: str) -> _Parts:
    archive = Archive(path)  # open as long as features are read
    count = raw.count_packed_vertices(archive)
    place = os.path.join(os.path.dirname(path), "node-label.npz")
    with Archive(place) as held:
        labels = array_labels(held.open("node_label"), count)

    def edges(symmetrize: bool, placement: Placement) -> Graph:
        held = raw.read_packed(path, _LIST)
        return listed(held.sources, held.targets, count, symmetrize, placement)

    return _Parts(Vertices(count, ArrayRows(archive.open("node_feat"))), RelationSource(path, edges), labels, place)


def _processed(path: str) -> _Parts:
    """The file holds both directions of an edge that stands for both."""
    held = pickles.load_data(path)
    parts = [part for part in map(held.get, ("edge_index", "x", "y")) if isinstance(part, torch.Tensor)]
    if len(parts) < 3:
        raise FormatError(f"{path}: has no tensors edge_index, x and y; remove the file, and the raw ones are read")
    ends, table, labels = parts
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype not in (torch.int32, torch.int64):
        raise FormatError(f"{path}: edge_index is {ends.dtype} of shape {tuple(ends.shape)}; it must be integers of [2, E]")
    features = TensorRows(path, table)

    def edges(symmetrize: bool, placement: Placement) -> Graph:
        return as_undirected(listed(ends[0], ends[1], features.shape[0], symmetrize, placement))

    return _Parts(Vertices(features.shape[0], features), RelationSource(path, edges), labels_of(path, labels), path)


def _several(path: str, name: str, splits: dict[str, Any], places: dict[str, str]) -> Source:
    """A data set of several types; those of vertices with labels are the target's."""
    folder = os.path.join(path, "raw")
    with Archive(os.path.join(folder, "num_nodes_dict.npz")) as sizes:
        vertices = {kind: Vertices(raw.one_count(sizes.open(kind))) for kind in sorted(sizes.names)}
    rows = os.path.join(folder, "node_feat_dict.npz")
    if os.path.exists(rows):
        features = Archive(rows)  # open as long as features are read
        for kind in features.names & set(vertices):
            vertices[kind].features = ArrayRows(features.open(kind))
    edges = os.path.join(path, _SEVERAL)
    with Archive(edges) as archive:
        kinds = [(*ends, "", "")[:3] for ends in (key.split("___") for key in sorted(archive.names))]
    relations = {}
    for source, relation, target in kinds:
        if not {source, target} <= set(vertices):
            raise FormatError(
                f"{edges}: edges {source}___{relation}___{target}, but the types of vertices are {', '.join(vertices)}"
            )
        key = "___".join((source, relation, target))
        counts = vertices[source].count, vertices[target].count
        relations[source, relation, target] = relation_of(edges, "[2,E]", *counts, member=key)
    places["labels"] = os.path.join(folder, "node-label.npz")
    with Archive(places["labels"]) as held:
        [target, *others] = sorted(held.names)
        if others or target not in vertices:
            raise FormatError(f"{held.path}: labels of {', '.join(sorted(held.names))}; read are those of one type of vertices")
        labels = array_labels(held.open(target), vertices[target].count)
    parts = {part: split_of(places[part], _of_type(places[part], numbers, target)) for part, numbers in splits.items()}
    return Source(path, name, vertices, relations, target, labels, parts, classes_of(labels), heterogeneous=True, places=places)


def _of_type(path: str, numbers: Any, kind: str) -> Any:
    if not isinstance(numbers, dict) or set(numbers) != {kind}:
        held = ", ".join(map(str, numbers)) if isinstance(numbers, dict) else type(numbers).__name__
        raise FormatError(f"{path}: a split holds {held}, but the labels are of {kind}; save it again")
    return numbers[kind]
