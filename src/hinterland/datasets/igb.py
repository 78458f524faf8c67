"""The Illinois Graph Benchmark after download: papers alone (IGB), or with authors, institutes and fields (IGBH).

Layout of ``<size>/processed`` (tiny, small, medium, large, full)::

    paper/node_feat.npy                   float32 [V, 1024]
    paper/node_label_19.npy, node_label_2K.npy
    paper__cites__paper/edge_index.npy    [E, 2]
    author/, institute/, fos/, journal/, conference/node_feat.npy, and the edges of each relation    IGBH

Of the sizes large and full, features of papers and authors, and labels, are float32 without a header, whatever the name says.
Splits are 60, 20 and 20 parts of a hundred: of the size full, in their order, of the papers that have labels, which come
first; of others at random, from a seed of their own.
"""

from __future__ import annotations

import os

import torch

from ..graph.formats.arrays import MAGIC, open_npy
from ..graph.formats.files import read_head, read_into, require_memory, size_of
from ..runtime.errors import ConfigError, FormatError
from .dataset import SPLITS
from .source import ArrayRows, FeatureSource, RawRows, Source, Vertices, array_labels, labels_of, random_parts, relation_of

COLUMNS = 1024
_LABELS = {19: "node_label_19.npy", 2983: "node_label_2K.npy"}
_FULL = {19: 227_130_858, 2983: 157_675_969}  # labelled papers, which come first, of the size full
_FULL_PAPERS = 269_346_174
_SHARES = (0.6, 0.2)
CITES = ("paper", "cites", "paper")
RELATIONS = (
    CITES,
    ("paper", "written_by", "author"),
    ("author", "affiliated_to", "institute"),
    ("paper", "topic", "fos"),
    ("paper", "published", "journal"),
    ("paper", "venue", "conference"),
)


def _folder(path: str) -> str | None:
    """``<size>/processed`` of a path that names it or ``<size>``."""
    for folder in (os.path.join(path, "processed"), path):
        if os.path.exists(os.path.join(folder, "paper__cites__paper", "edge_index.npy")):
            return folder
    return None


def matches(path: str) -> bool:
    """Whether ``path`` is the folder of one size of IGB."""
    return _folder(path) is not None


def matches_hetero(path: str) -> bool:
    """Whether more than papers lie there."""
    folder = _folder(path)
    return folder is not None and os.path.isdir(os.path.join(folder, "paper__written_by__author"))


def read(path: str, num_classes: int | None) -> Source:
    """The papers and their citations."""
    return _read(path, num_classes, (CITES,), heterogeneous=False)


def read_hetero(path: str, num_classes: int | None) -> Source:
    """All vertex types and relations that are there (journals and conferences only in the sizes large and full)."""
    folder = _folder(path) or path
    found = tuple(kind for kind in RELATIONS if os.path.isdir(os.path.join(folder, "__".join(kind))))
    return _read(path, num_classes, found, heterogeneous=True)


def _read(path: str, num_classes: int | None, kinds: tuple[tuple[str, str, str], ...], heterogeneous: bool) -> Source:
    classes = 19 if num_classes is None else num_classes
    if classes not in _LABELS:
        raise ConfigError(f"{path}: IGB's labels have 19 or 2983 classes, not {classes}")
    folder = _folder(path) or os.path.join(path, "processed")
    types = dict.fromkeys(end for source, _, target in kinds for end in (source, target))
    tables = {kind: _features(os.path.join(folder, kind, "node_feat.npy")) for kind in types}
    relations = {}
    for source, name, target in kinds:
        file = os.path.join(folder, f"{source}__{name}__{target}", "edge_index.npy")
        relations[source, name, target] = relation_of(file, "[E,2]", tables[source].shape[0], tables[target].shape[0])
    place = os.path.join(folder, "paper", _LABELS[classes])
    papers = tables["paper"].shape[0]
    require_memory(place, "labels and splits", 16 * papers)
    if papers == _FULL_PAPERS:
        labelled = _FULL[classes]
        train, valid = (int(labelled * share) for share in _SHARES)
        splits = dict(zip(SPLITS, torch.arange(labelled).tensor_split([train, train + valid]), strict=True))
    else:
        labelled, splits = papers, random_parts(papers, _SHARES, seed=0)
    size = os.path.basename(os.path.dirname(os.path.abspath(folder)))
    return Source(
        path,
        f"igbh-{size}" if heterogeneous else f"igb-{size}",
        {kind: Vertices(table.shape[0], table) for kind, table in tables.items()},
        relations,
        "paper",
        _labels(place, papers, labelled),
        splits,
        classes,
        heterogeneous,
        {"labels": place},
    )


def _features(path: str) -> FeatureSource:
    if read_head(path, len(MAGIC)) == MAGIC:
        return ArrayRows(open_npy(path))
    return RawRows(path, COLUMNS)


def _labels(path: str, papers: int, labelled: int) -> torch.Tensor:
    """Labels of all papers, of which those from ``labelled`` on mean nothing."""
    if read_head(path, len(MAGIC)) == MAGIC:
        return array_labels(open_npy(path), papers)
    size = size_of(path)
    if size != 4 * papers:
        raise FormatError(f"{path}: {size} bytes, but {papers} papers have {4 * papers} of float32; the file is truncated")
    require_memory(path, "the labels", 12 * papers)  # as stored and as they become
    values = torch.full((papers,), torch.nan)
    read_into(path, 0, values[:labelled])
    return labels_of(path, values)
