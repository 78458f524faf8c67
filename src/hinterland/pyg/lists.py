"""What a sampler reads of PyG's edges: for each node the nodes that it gets messages from, and where the user has each edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..graph import Graph, arrays, from_edges
from ..runtime.errors import GraphError
from ..sampling import Adjacency
from .once import once


@dataclass(frozen=True)
class TargetLists:
    """Edges by target (CSC).

    Attributes:
        graph: the list of v holds the sources of the edges to v. Between nodes of two types it has as many vertices as the type
            with more nodes.
        places: a graph with the same lists whose weights are the places of the edges in the user's order (COO), or None where
            the order is the same. (As weights they are carried along by the builder, and read by any device where they lie.)
    """

    graph: Graph
    places: Graph | None = None

    @classmethod
    def from_coo(
        cls, row: torch.Tensor, col: torch.Tensor, sizes: tuple[int, int], placement: str, is_sorted: bool = False
    ) -> TargetLists:
        """From the edges ``row[i] -> col[i]``; ``is_sorted`` promises that ``col`` ascends.

        Raises:
            GraphError: an edge names a node that does not exist, or ``col`` does not ascend.
        """
        _check(row, sizes[0])
        _check(col, sizes[1])
        if is_sorted:
            falls = (col[1:] < col[:-1]).nonzero()
            if len(falls):
                i = int(falls[0]) + 1
                raise GraphError(
                    f"is_sorted=True promises that targets ascend, but edge {i} goes to {int(col[i])} and the one before to "
                    f"{int(col[i - 1])}; leave is_sorted away"
                )
            return cls(from_edges(col, row, num_vertices=max(sizes), sort_neighbors=False, placement=placement))
        places = from_edges(col, row, torch.arange(col.numel()), num_vertices=max(sizes), placement=placement)
        return cls(places.without_weights(), places)

    @classmethod
    def from_csc(cls, colptr: torch.Tensor, row: torch.Tensor, sizes: tuple[int, int], placement: str) -> TargetLists:
        """From PyG's CSC: the sources of the edges to v are ``row[colptr[v]:colptr[v + 1]]``."""
        _check(row, sizes[0])
        missing = max(sizes) + 1 - len(colptr)
        if missing < 0:
            raise GraphError(f"colptr has {len(colptr)} elements, but {sizes[1]} target nodes need {sizes[1] + 1}")
        return cls(Graph(torch.cat([colptr.cpu(), colptr[-1:].cpu().expand(missing)]), row.cpu(), placement=placement))

    @classmethod
    def of(
        cls, store: Any, sizes: tuple[int, int], placement: str, is_sorted: bool = False, backward: bool = False
    ) -> TargetLists:
        """From a Data object or an edge type of a HeteroData; made once for each ``edge_index``. ``backward``: edges are turned
        round, so that the list of v holds the targets of the edges from v."""
        edge_index = store.get("edge_index") if hasattr(store, "get") else store.edge_index
        if edge_index is None:
            for key in ("adj", "adj_t"):
                if key in store:
                    raise GraphError(f"the edges are in {key}; give them as edge_index, [2, edges], as without ToSparseTensor")
            edge_index = torch.empty(2, 0, dtype=torch.int64)
        tensor = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
        gpu = torch.cuda.current_device() if placement == "gpu" else None

        def make() -> TargetLists:
            row, col = tensor.cpu()
            return (
                cls.from_coo(col, row, sizes[::-1], placement)
                if backward
                else cls.from_coo(row, col, sizes, placement, is_sorted)
            )

        return once(edge_index, ("lists", sizes, placement, gpu, is_sorted, backward), make)

    def permutation(self, device: torch.device) -> torch.Tensor | None:
        """Where the user has each edge, int64 ``[edges]`` as ``device`` addresses it; None where the order is the same."""
        return None if self.places is None else self.places.array("weights", device)

    def by_target(self, values: torch.Tensor) -> arrays.Array:
        """Values of edges, in the user's order, in that of the lists, and where these lie."""
        order = self.permutation(torch.device("cpu"))
        values = values.cpu() if order is None else values.cpu()[order]
        return arrays.placed(values, values.dtype, self.graph.neighbor_lists.places["indices"])

    def sampled(self, sizes: tuple[int, int], typed: bool, weights: torch.Tensor | None = None) -> Graph | Adjacency:
        """The lists as samplers take them, over the same memory; ``weights``: one for each edge in the user's order."""
        graph = self.graph
        if weights is not None:
            if weights.dtype in (torch.float16, torch.bfloat16):
                weights = weights.float()
            graph = graph.with_weights(self.by_target(weights))
        return Adjacency.of(graph, sizes[1], sizes[0]) if typed else graph


def _check(nodes: torch.Tensor, count: int) -> None:
    if not nodes.numel():
        return
    least, most = int(nodes.min()), int(nodes.max())
    if least < 0 or most >= count:
        raise GraphError(
            f"an edge names node {least if least < 0 else most}, but there are {count} nodes, numbered from 0; features need "
            "one row for each node, and num_nodes= must count them all"
        )
