"""Other vertex numbers for the same graph, that put the neighbours of a vertex near each other.

Small gaps between neighbours compress better, and what a traversal touches together lies together. Degree order (hubs first)
helps skewed graphs; Cuthill and McKee's order (1969; reversed: George 1971) helps graphs with locality, as roads are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import _core
from ..memory import UnifiedTensor
from ..runtime.arguments import shown
from ..runtime.errors import ConfigError
from . import arrays
from .build import places_like, simplify
from .graph import Graph, require_graph
from .order import Order, checked

ORDERS = ("degree", "bfs", "rcm")


def reorder(
    graph: Graph,
    by: str | None = None,
    placement: str | Mapping[str, str] | None = None,
    *,
    order: torch.Tensor | None = None,
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
        raise ConfigError(f"reorder by {shown(by)} is none of {', '.join(ORDERS)}")
    else:
        chosen = Order(_by_degree(graph) if by == "degree" else _by_queue(graph, by == "rcm"))
    return _renumbered(graph, chosen, chosen.after(graph._order), placement)


def renumbered(graph: Graph, order: torch.Tensor, placement: str | Mapping[str, str] | None = None) -> Graph:
    """The graph in which vertex i is what the user knows as ``order[i]`` of ``graph``, and which knows of no other numbers.

    For who renumbers everything that belongs to the graph as well; ``reorder`` leads results back to the old numbers.

    Args:
        order: int64 ``[num_vertices]`` on the CPU, every vertex once.
        placement: as in ``reorder``.
    """
    chosen = checked(order, graph.num_vertices)
    made = _renumbered(graph, Order(graph.to_inner(order)), None, placement)
    if graph.labels is not None:
        made.labels = [graph.labels[v] for v in chosen.outer.tolist()]
    return made


def restored(graph: Graph) -> Graph:
    """The graph under the numbers that it had before it was reordered, with sorted neighbours, in pageable memory; a graph that
    was not reordered as it is."""
    if graph._order is None:
        return graph
    return _renumbered(graph, Order(graph._order.inner), None, "heap")


def _renumbered(graph: Graph, order: Order, known: Order | None, placement: str | Mapping[str, str] | None) -> Graph:
    """Vertex i of the result is vertex ``order.outer[i]`` of ``graph``; ``known`` is what it remembers."""
    indptr, indices, weights = graph.checked_rows()
    places = arrays.placements(places_like(graph) if placement is None else placement)
    # What goes to a GPU is made in host memory first.
    host = {name: "heap" if place == "gpu" else place for name, place in places.items()}
    vertices, edges, dtype = graph.num_vertices, graph.num_edges, arrays.index_dtype(graph.num_vertices)
    held = {
        "indptr": UnifiedTensor.empty((vertices + 1,), torch.int64, placement=host["indptr"]),
        "indices": UnifiedTensor.empty((edges,), dtype, placement=host["indices"]),
    }
    starts = held["indptr"].cpu()
    starts[0] = 0
    torch.cumsum(indptr.diff()[order.outer], 0, out=starts[1:])
    arrays.check_offsets(starts, edges)  # wrong if others are changing the graph's just now
    kind, weights_from, weights_to = arrays.WeightType(0, 0), 0, 0
    if weights is not None:
        held["weights"] = UnifiedTensor.empty((edges,), weights.dtype, placement=host["weights"])
        kind = arrays.WEIGHT_TYPES[weights.dtype]
        weights_from, weights_to = weights.data_ptr(), held["weights"].cpu().data_ptr()
    rows = (starts.data_ptr(), vertices, held["indices"].cpu().data_ptr(), dtype.itemsize)
    all_are_vertices = _core.renumber_rows(
        indptr.data_ptr(),
        indices.data_ptr(),
        indices.element_size(),
        weights_from,
        kind.bytes,
        edges,
        order.outer.data_ptr(),
        order.inner.data_ptr(),
        *rows,
        weights_to,
    )
    if not all_are_vertices:
        arrays.check_neighbors(indices, vertices)
    _core.sort_rows(*rows, weights_to, kind.bytes, kind.order, 0)
    moved = {n: arrays.placed(a.cpu(), a.dtype, "gpu") if places[n] == "gpu" else a for n, a in held.items()}
    made = Graph._of(moved, graph.directed, sorted_lists=True, order=known)
    made.labels = graph.labels
    return made


def _by_degree(graph: Graph) -> torch.Tensor:
    return torch.sort(graph.degrees().cpu(), descending=True, stable=True).indices


def _by_queue(graph: Graph, cuthill_mckee: bool) -> torch.Tensor:
    both_ways = simplify(graph, symmetrize=True, sort_neighbors=False, placement="heap") if graph.directed else graph
    indptr, indices, _ = both_ways.checked_rows()
    roots = torch.sort(indptr.diff(), descending=not cuthill_mckee, stable=True).indices
    order = torch.empty(graph.num_vertices, dtype=torch.int64)
    _core.queue_order(
        indptr.data_ptr(),
        graph.num_vertices,
        indices.data_ptr(),
        indices.element_size(),
        both_ways.num_edges,
        roots.data_ptr(),
        cuthill_mckee,
        order.data_ptr(),
    )
    return order.flip(0) if cuthill_mckee else order
