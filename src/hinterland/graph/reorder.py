"""Other vertex numbers for the same graph, that put the neighbours of a vertex near each other.

Small gaps between neighbours compress better, and what a traversal touches together lies together. Degree order (hubs first)
helps skewed graphs; Cuthill and McKee's order (1969; reversed: George 1971) helps graphs with locality, as roads are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from .. import _core
from ..runtime.arguments import repr_of
from ..runtime.errors import ConfigError
from . import arrays
from .edges import simplify
from .graph import Graph, require_graph
from .order import Order, checked, reordered

ORDERS = ("degree", "bfs", "rcm")


def reorder(
    graph: Graph, by: str | None = None, placement: str | Mapping[str, str] | None = None, *, order: torch.Tensor | None = None
) -> Graph:
    """The graph with its vertices renumbered, which remembers the old numbers in ``.order``.

    Args:
        graph: any graph; a compressed one becomes a plain one (``compress`` it again).
        by: ``"degree"``: most neighbours first, ties in the old order. ``"bfs"``: as a queue meets them along edges of both
            directions, from the vertex with most neighbours; further components follow. ``"rcm"``: reverse Cuthill-McKee:
            each component from a vertex with fewest neighbours, those of small degree first, everything reversed at the end.
        placement: where the arrays go; by default where the old ones are.
        order: int64 ``[num_vertices]`` instead of ``by``: vertex i becomes what ``order[i]`` is in ``graph`` as it is numbered
            now, as ``hinterland.memory.hottest_first(scores, num_vertices)`` gives it (Min 2022, section 4.2.2).

    Returns:
        A new graph with sorted neighbours, weights carried along. Vertex i is vertex ``order[i]`` of the graph that the user
        knows; a graph that was reordered twice remembers the first numbers.

    Raises:
        ConfigError: an unknown order, or both ``by`` and ``order``.
        GraphError: ``order`` does not hold every vertex once; the graph's arrays were changed since it was made.
        OutOfMemory: the new graph does not fit beside the old one.
    """
    require_graph(graph)
    if order is not None:
        if by is not None:
            raise ConfigError(f"reorder by {by!r} and by an order at once; leave one out")
        own = arrays.tensor_of(arrays.integers("order", order)).to("cpu", torch.int64, copy=True)
        chosen = checked(own, graph.num_vertices)
    elif not isinstance(by, str) or by not in ORDERS:
        raise ConfigError(f"reorder by {repr_of(by)} is none of {', '.join(ORDERS)}")
    else:
        by_degree = by == "degree"
        chosen = Order(_by_length(graph.indptr.cpu(), descending=True) if by_degree else _by_queue(graph, by == "rcm"))
    return Graph.of(
        reordered(graph.neighbor_lists, chosen, placement), graph.directed, chosen.after(graph.numbering), graph.labels
    )


def renumbered(graph: Graph, order: torch.Tensor) -> Graph:
    """The graph in which vertex i is what the user knows as ``order[i]`` of ``graph``, int64 ``[num_vertices]`` on the CPU, and
    which knows of no other numbers: for who renumbers all that belongs to the graph. ``reorder`` leads results back."""
    chosen = checked(order, graph.num_vertices)
    labels = None if graph.labels is None else [graph.labels[v] for v in chosen.original_ids.tolist()]
    return Graph.of(reordered(graph.neighbor_lists, Order(graph.to_internal(order)), None), graph.directed, None, labels)


def restored(graph: Graph) -> Graph:
    """The graph under the numbers that it had before it was reordered, with sorted neighbours, in pageable memory; a graph that
    was not reordered as it is."""
    return graph if graph.numbering is None else Graph.of(graph.original_lists(), graph.directed, None, graph.labels)


def _by_length(indptr: torch.Tensor, descending: bool) -> torch.Tensor:
    """The lists in the order of their lengths, equal ones by number; by numpy, which wakes no threads."""
    lengths = np.diff(indptr.numpy())
    return torch.from_numpy((-lengths if descending else lengths).argsort(kind="stable"))


def _by_queue(graph: Graph, cuthill_mckee: bool) -> torch.Tensor:
    both_ways = simplify(graph, symmetrize=True, sort_neighbors=False, placement="pageable") if graph.directed else graph
    indptr, indices, _ = both_ways.checked_rows()
    roots = _by_length(indptr, descending=not cuthill_mckee)
    order = torch.empty(graph.num_vertices, dtype=torch.int64)
    rows = arrays.rows_of(indptr, indices)
    _core.queue_order(*rows, both_ways.num_edges, roots.data_ptr(), cuthill_mckee, order.data_ptr())
    return torch.from_numpy(order.numpy()[::-1].copy()) if cuthill_mckee else order
