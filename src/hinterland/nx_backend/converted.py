"""networkx graphs as this backend holds them, and what all of its functions do with one."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any

import networkx as nx
import torch

import hinterland as hl

from ..runtime.errors import GraphError


class BackendGraph:
    """A networkx graph, converted: the edges with the weights of at most one attribute, and the nodes' names.

    ``graph`` has no weights where ``attribute`` is None or 1 at every edge.
    """

    __networkx_backend__ = "hinterland"

    def __init__(self, graph: hl.Graph, nodes: list[Hashable], attribute: str | None, multigraph: bool) -> None:
        self.graph, self.nodes, self.attribute = graph, nodes, attribute
        self.number = {node: i for i, node in enumerate(nodes)}
        self._adj = self.number  # whose keys networkx's nbunch_iter looks at
        self._multigraph = multigraph

    def is_directed(self) -> bool:
        return self.graph.directed

    def is_multigraph(self) -> bool:
        return self._multigraph

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.nodes)

    def __contains__(self, node: Any) -> bool:
        try:
            return node in self.number
        except TypeError:  # as networkx has it of what cannot be hashed
            return False

    def of(self, values: torch.Tensor) -> dict[Hashable, Any]:
        """Each node's value."""
        return dict(zip(self.nodes, values.tolist(), strict=True))

    def vector(self, values: dict[Hashable, Any], default: float = 0) -> torch.Tensor:
        """float64 ``[nodes]`` of values by node."""
        return torch.tensor([float(values.get(node, default)) for node in self.nodes], dtype=torch.float64)

    def some(self, nbunch: Any) -> list[Any]:
        """The nodes that networkx means by ``nbunch``: all, one, or those of several that are there."""
        return list(nx.Graph.nbunch_iter(self, nbunch))

    def turned(self) -> BackendGraph:
        """The same with every edge turned round."""
        return BackendGraph(self.graph.transpose(), self.nodes, self.attribute, self._multigraph)

    def weighted_by(self, weight: str | None) -> hl.Graph:
        """The graph with the weights that are asked for."""
        if weight is None:
            return self.graph.without_weights()
        if weight != self.attribute:
            raise NotImplementedError(
                f"the graph was converted with the attribute {self.attribute!r}, not {weight!r}: pass the networkx graph "
                f"itself, or convert it with edge_attrs={{{weight!r}: 1}}"
            )
        return self.graph


def convert_from_nx(
    graph: nx.Graph,
    edge_attrs: dict[str, Any] | None = None,
    preserve_edge_attrs: bool = False,
    **_: Any,
) -> BackendGraph:
    """The graph as the functions here take it. At most one attribute of its edges comes along, and must be a number."""
    if preserve_edge_attrs or len(edge_attrs or ()) > 1:
        raise NotImplementedError("hinterland's graphs keep one attribute of their edges")
    attribute = next(iter(edge_attrs or ()), None)
    try:
        converted = hl.from_networkx(graph, attribute)
    except GraphError as error:
        raise NotImplementedError(str(error)) from error
    if converted.weights is not None and bool((converted.weights == 1).all()):
        converted = converted.without_weights()
    return BackendGraph(converted, list(graph), attribute, graph.is_multigraph())


def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
    """The networkx graph of a converted one; any other result is what it should be already."""
    if not isinstance(result, BackendGraph):
        return result
    made = result.graph.to_networkx(result.attribute or "weight")
    kinds = (nx.Graph, nx.MultiGraph, nx.DiGraph, nx.MultiDiGraph)
    return kinds[2 * result.is_directed() + result.is_multigraph()](made)


def options() -> dict[str, Any]:
    """Where to run, as ``nx.config.backends.hinterland`` says."""
    config = nx.config.backends["hinterland"]
    return {"device": config["device"], "gpu_budget": config["gpu_budget"]}


def steps(limit: float | None) -> float:
    """A ``cutoff`` or ``depth_limit`` in whole edges."""
    return math.inf if limit is None else max(math.ceil(limit) if limit < math.inf else limit, 0)
