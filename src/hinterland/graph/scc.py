"""Strongly connected components, by scipy's search on the CPU (Pearce 2005), wherever the graph lies."""

from __future__ import annotations

import torch

from ..runtime.errors import ConfigError, VerificationError
from .bfs import bfs
from .cc import ComponentsResult
from .checks import require_each, require_result, require_smallest
from .edge_list import edge_list
from .edges import from_edges
from .export import module_of
from .graph import Graph, require_graph

_MOST = 2**31 - 1  # vertices and edges that scipy's graph functions count


def strongly_connected_components(graph: Graph) -> ComponentsResult:
    """Labels of the vertices, equal where ways lead both from one to the other and back. The CPU does the work, by scipy.

    Args:
        graph: the graph, in any place and form; about 50 bytes an edge of host memory are taken besides.

    Raises:
        ConfigError: scipy is missing, or there are 2^31 edges or more.
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    require_graph(graph)
    if graph.num_edges > _MOST or graph.num_vertices > _MOST:
        raise ConfigError(f"strong components are found of up to {_MOST} edges, and the graph has {graph.num_edges}")
    src, dst, _ = edge_list(graph)
    entries = (torch.ones(len(src), dtype=torch.float64).numpy(), (src.numpy(), dst.numpy()))
    matrix = module_of("scipy.sparse").csr_array(entries, shape=(graph.num_vertices,) * 2)
    count, numbers = module_of("scipy.sparse.csgraph").connected_components(matrix, connection="strong")
    of = torch.from_numpy(numbers).long()
    smallest = torch.full((int(count),), graph.num_vertices).scatter_reduce_(0, of, torch.arange(len(of)), "amin")
    return ComponentsResult(smallest[of], int(count))


def verify_strong_components(graph: Graph, result: ComponentsResult) -> None:
    """Checks strong components on the CPU.

    1. A label is the smallest vertex that has it; ``count`` is the number of labels.
    2. Within each component ways lead from that vertex to all others.
    3. And from all others back to it.
    4. No circle leads through several components.

    Raises:
        VerificationError: names the rule and a vertex.
    """
    require_result(graph, result, ComponentsResult)
    vertices, labels = graph.num_vertices, result.labels.cpu()
    require_each("labels", labels, graph)
    if vertices == 0:
        return
    roots = require_smallest(labels, result.count)
    src, dst, _ = edge_list(graph)
    inside = labels[src] == labels[dst]
    for rule, ends in ((2, (src[inside], dst[inside])), (3, (dst[inside], src[inside]))):
        # One search from all of them: from a vertex more, with an edge to each.
        begins = torch.cat([ends[0], torch.full_like(roots, vertices)])
        levels = bfs(from_edges(begins, torch.cat([ends[1], roots])), vertices, device="cpu").levels
        if bool((levels[:vertices] < 0).any()):
            at = int((levels[:vertices] < 0).nonzero()[0])
            raise VerificationError(f"rule {rule}: vertex {at} and {int(labels[at])} have one label, but not ways both ways")
    _require_no_circle(labels[src[~inside]], labels[dst[~inside]], vertices)


def _require_no_circle(src: torch.Tensor, dst: torch.Tensor, vertices: int) -> None:
    """Takes away what no edge leads to, as long as there are edges."""
    while len(src):
        entered = torch.zeros(vertices, dtype=torch.bool).index_fill_(0, dst, True)
        stays = entered[src]
        if bool(stays.all()):
            raise VerificationError(f"rule 4: a circle leads through the component of vertex {int(src[0])} and others")
        src, dst = src[stays], dst[stays]
