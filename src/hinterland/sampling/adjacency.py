"""Lists that name vertices of another type than those that have them."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.arrays import Array
from ..graph.graph import Graph, require_graph
from ..graph.lists import NeighborLists, OverLists
from ..runtime import arguments
from ..runtime.errors import ConfigError, GraphError


class Adjacency(OverLists):
    """Lists of vertices of one type for vertices of another: vertex t has ``indices[indptr[t]:indptr[t + 1]]``.

    As samplers use it, the lists of relation ``(src, rel, dst)`` belong to vertices of ``dst`` and name vertices of ``src``:
    the columns of the adjacency matrix, in CSC form.

    Args:
        indptr: offsets, ``[num_targets + 1]``, any integer type; kept as int64.
        indices: listed vertices, ``[num_edges]``, below ``num_sources``; kept as int32 where that is wide enough, else int64.
        num_sources: vertices that can be listed.
        weights: one for each edge, or None.
        placement: where the arrays go, as for :class:`Graph`.

    Attributes:
        num_targets: vertices that have lists.
        num_sources: vertices that can be listed.
        neighbor_lists: the arrays.

    Raises:
        GraphError: the arrays are no such lists: names the array, the position and the value.
        ConfigError, DeviceError, OutOfMemory: as for :class:`Graph`.
    """

    def __init__(
        self,
        indptr: Array,
        indices: Array,
        num_sources: int,
        weights: Array | None = None,
        *,
        placement: str | Mapping[str, str] = "host",
    ) -> None:
        num_sources = arguments.whole_number("num_sources", num_sources, 0)
        self.neighbor_lists = NeighborLists.checked(indptr, indices, weights, placement, num_sources)
        self.num_targets, self.num_sources = self.neighbor_lists.num_lists, num_sources

    @classmethod
    def of(cls, graph: Graph, num_targets: int, num_sources: int) -> Adjacency:
        """The lists of a graph's first ``num_targets`` vertices, which name its first ``num_sources`` ones; no copy is made.

        Raises:
            GraphError: the graph has fewer vertices. (A neighbour from ``num_sources`` on is reported when a sample meets it.)
            ConfigError: the graph was reordered, so that its first vertices are not those of the user.
        """
        require_graph(graph)
        if graph.original_ids is not None:
            raise ConfigError("lists of a graph that was reordered name its own numbers; take those of the graph as it was")
        num_targets = arguments.whole_number("num_targets", num_targets, 0)
        num_sources = arguments.whole_number("num_sources", num_sources, 0)
        if max(num_targets, num_sources) > graph.num_vertices:
            raise GraphError(
                f"lists of {num_targets} vertices that name {num_sources} are more than a graph of {graph.num_vertices}"
            )
        adjacency = cls.__new__(cls)
        adjacency.neighbor_lists, adjacency.num_targets, adjacency.num_sources = graph.neighbor_lists, num_targets, num_sources
        return adjacency

    def __repr__(self) -> str:
        return (
            f"Adjacency({self.num_targets:,} x {self.num_sources:,}, {self.num_edges:,} edges; {self.neighbor_lists.placement})"
        )
