"""Neighbour lists as NetworkX, SciPy and igraph have graphs: what ``Graph.to_networkx()`` and its like do."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch

from ..runtime.errors import ConfigError
from . import arrays
from .lists import NeighborLists

Labels = Sequence[Hashable] | None


def to_networkx(lists: NeighborLists, directed: bool, labels: Labels, weight: str) -> Any:
    """See :meth:`.Graph.to_networkx`."""
    networkx = module_of("networkx")
    src, dst, weights = _edges(lists, directed)
    parallel = len(np.unique(np.stack([src, dst]), axis=1)[0]) < len(src)
    kinds = (networkx.Graph, networkx.MultiGraph, networkx.DiGraph, networkx.MultiDiGraph)
    made = kinds[2 * directed + parallel]()
    nodes = range(lists.num_lists) if labels is None else labels
    made.add_nodes_from(nodes)
    ends = [[nodes[i] for i in side.tolist()] for side in (src, dst)]
    if weights is None:
        made.add_edges_from(zip(*ends, strict=True))
    else:
        made.add_weighted_edges_from(zip(*ends, weights.tolist(), strict=True), weight=weight)
    return made


def to_scipy(lists: NeighborLists) -> Any:
    """See :meth:`.Graph.to_scipy`."""
    sparse = module_of("scipy.sparse")
    indptr, indices, weights = _checked(lists)
    if weights is None:
        weights = torch.ones(lists.num_edges, dtype=torch.int64)
    elif weights.dtype in (torch.bfloat16, torch.float16):  # scipy knows neither
        weights = weights.float()
    shape = (lists.num_lists, lists.num_lists)
    return sparse.csr_array((weights.numpy(), indices.numpy(), indptr.numpy()), shape=shape, copy=True)


def to_igraph(lists: NeighborLists, directed: bool, labels: Labels, weight: str) -> Any:
    """See :meth:`.Graph.to_igraph`."""
    igraph = module_of("igraph")
    src, dst, weights = _edges(lists, directed)
    made = igraph.Graph(lists.num_lists, np.stack([src, dst], axis=1), directed=directed)
    if weights is not None:
        made.es[weight] = weights.tolist()
    if labels is not None:
        made.vs["name"] = list(labels)
    return made


def module_of(name: str) -> Any:
    """The other library's module; ConfigError where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError(f"converting graphs of {package} needs it: pip install {package}") from error


def _edges(lists: NeighborLists, directed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Both ends and the weights of every edge; an undirected graph stores each twice, but a self loop once."""
    indptr, indices, weights = _checked(lists)
    src, dst = torch.repeat_interleave(indptr.diff()).numpy(), indices.numpy()
    once = slice(None) if directed else src <= dst
    if weights is not None and weights.dtype == torch.bfloat16:
        weights = weights.float()
    return src[once], dst[once], None if weights is None else weights.numpy()[once]


def _checked(lists: NeighborLists) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The rows on the CPU, once every neighbour is known to be a vertex."""
    rows = lists.checked_rows()
    arrays.check_neighbors(rows[1], lists.num_lists)
    return rows
