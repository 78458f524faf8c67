"""MAG240M (OGB-LSC) after download: papers, authors and institutions; papers have features and labels.

Layout::

    meta.pt                  counts of paper, author and institution, and num_classes
    split_dict.pt            vertex numbers of train, valid and test (or test-dev, test-challenge, test-whole)
    processed/paper/         node_feat.npy float16 [V, 768], node_label.npy (NaN: no label)
    processed/<source>___<relation>___<target>/edge_index.npy    [2, E]
"""

from __future__ import annotations

import operator
import os
from typing import Any

import torch

from ..graph.formats.arrays import open_npy
from ..graph.formats.content import check_counts
from ..runtime.errors import FormatError
from . import pickles
from .source import ArrayRows, Source, Vertices, array_labels, relation_of, split_of

TYPES = ("paper", "author", "institution")
RELATIONS = (("author", "affiliated_with", "institution"), ("author", "writes", "paper"), ("paper", "cites", "paper"))


def matches(path: str) -> bool:
    """Whether ``path`` is the folder of MAG240M."""
    return all(os.path.exists(os.path.join(path, name)) for name in ("meta.pt", "split_dict.pt"))


def read(path: str, num_classes: int | None) -> Source:
    """The data set in the folder ``path``."""
    place = os.path.join(path, "meta.pt")
    meta = pickles.load_dict(place)
    counts = {kind: _count(place, meta, kind) for kind in TYPES}
    papers = os.path.join(path, "processed", "paper")
    vertices = {kind: Vertices(count) for kind, count in counts.items()}
    vertices["paper"].features = ArrayRows(open_npy(os.path.join(papers, "node_feat.npy")))
    relations = {}
    for source, name, target in RELATIONS:
        file = os.path.join(path, "processed", f"{source}___{name}___{target}", "edge_index.npy")
        relations[source, name, target] = relation_of(file, "[2,E]", counts[source], counts[target])
    labels = array_labels(open_npy(os.path.join(papers, "node_label.npy")), counts["paper"])
    parts = os.path.join(path, "split_dict.pt")
    return Source(
        path,
        "mag240m",
        vertices,
        relations,
        "paper",
        labels,
        _splits(parts),
        _count(place, meta, "num_classes"),
        heterogeneous=True,
        places={"labels": os.path.join(papers, "node_label.npy"), "train": parts, "valid": parts, "test": parts},
    )


def _count(path: str, meta: dict[Any, Any], name: str) -> int:
    try:
        count = operator.index(meta[name])
    except (KeyError, TypeError):
        raise FormatError(f"{path}: has no number {name}, only {', '.join(map(str, meta))}; fetch the file again") from None
    check_counts(path, count, 0)
    return count


def _splits(path: str) -> dict[str, torch.Tensor]:
    held = pickles.load_dict(path)
    test = next((name for name in ("test", "test-whole", "test-dev") if name in held), "test")
    missing = [name for name in ("train", "valid", test) if name not in held]
    if missing:
        raise FormatError(f"{path}: has no split {missing[0]!r}, only {', '.join(map(str, held))}; fetch the file again")
    return {name: split_of(path, held[key]) for name, key in (("train", "train"), ("valid", "valid"), ("test", test))}
