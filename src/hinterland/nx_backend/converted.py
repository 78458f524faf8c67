"""networkx graphs as this backend holds them, and what all of its functions do with one."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable, Iterator
from numbers import Integral
from typing import Any

import networkx as nx
import numpy as np
import torch

import hinterland as hl

from ..runtime.errors import GraphError

WITH_ALL = ("ego_graph", "k_truss")  # functions of which networkx wants all attributes back: they look at the original graph
_MOST_EXACT = 2**53  # up to which float64 has every integer
_Keys = dict[tuple[Hashable, Hashable], list[Hashable]]


class BackendGraph:
    """A networkx graph, converted: the edges with the weights of at most one attribute, and the nodes' names.

    ``graph`` has no weights where ``attribute`` is None or 1 at every edge. What networkx had converted knows the original as
    long as that lives, for what is not here; what a user had converted knows the ``keys`` of parallel edges, by their ends and
    in the order of their weights.
    """

    __networkx_backend__ = "hinterland"

    def __init__(self, graph: hl.Graph, nodes: list[Hashable], attribute: str | None, multigraph: bool) -> None:
        self.graph, self.nodes, self.attribute = graph, nodes, attribute
        self.number = {node: i for i, node in enumerate(nodes)}
        self._adj = self.number  # whose keys networkx's nbunch_iter looks at
        self._multigraph = multigraph
        self._original: Callable[[], nx.Graph | None] = lambda: None
        self._is_turned = False
        self._weighted: dict[str, hl.Graph] = {}  # by other attributes
        self.keys: _Keys = {}

    @property
    def original(self) -> nx.Graph | None:
        """The networkx graph that this is of; None of one that the user converted, and of one that is turned round."""
        return None if self._is_turned else self._original()

    def empty(self) -> nx.Graph:
        """A networkx graph of the same kind, without nodes."""
        original = self._original()
        if original is not None:
            return type(original)()
        kinds = (nx.Graph, nx.MultiGraph, nx.DiGraph, nx.MultiDiGraph)
        return kinds[2 * self.is_directed() + self.is_multigraph()]()

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
        """float64 ``[nodes]`` of values by node, which numpy takes for numbers or refuses, as in networkx."""
        return torch.from_numpy(np.array([values.get(node, default) for node in self.nodes], dtype=float))

    def some(self, nbunch: Any) -> list[Any]:
        """The nodes that networkx means by ``nbunch``: all, one, or those of several that are there."""
        return list(nx.Graph.nbunch_iter(self, nbunch))

    def turned(self) -> BackendGraph:
        """The same with every edge turned round."""
        made = BackendGraph(self.graph.transpose(), self.nodes, self.attribute, self._multigraph)
        made._original, made._is_turned = self._original, not self._is_turned
        made.keys = {(v, u): keys for (u, v), keys in self.keys.items()}
        return made

    def weighted_by(self, weight: str | None) -> hl.Graph:
        """The graph with the weights that are asked for."""
        if weight is None:
            return self.graph.without_weights()
        original = self._original()
        if weight != self.attribute and original is not None:  # converted for a function that asks for all attributes
            if weight not in self._weighted:
                self._weighted[weight] = convert_from_nx(original, {weight: 1}).graph
            return self._weighted[weight].transpose() if self._is_turned else self._weighted[weight]
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
    name: str | None = None,
    **_: Any,
) -> BackendGraph:
    """The graph as the functions here take it. At most one attribute of its edges comes along, and must be a number.

    ``name``: of the function that networkx converts it for.
    """
    if (preserve_edge_attrs and name not in WITH_ALL) or len(edge_attrs or ()) > 1:
        raise NotImplementedError("hinterland's graphs keep one attribute of their edges")
    attribute = next(iter(edge_attrs or ()), None)
    try:
        converted = hl.from_networkx(graph, attribute)
    except GraphError as error:
        raise NotImplementedError(str(error)) from error
    if converted.weights is not None and _rounds(converted.weights, graph, attribute):
        raise NotImplementedError(
            f"some {attribute!r} are integers whose sums hinterland would round, in 64 bits or beside floats"
        )
    if converted.weights is not None and bool((converted.weights == 1).all()):
        converted = converted.without_weights()
    made = BackendGraph(converted, list(graph), attribute, graph.is_multigraph())
    if name is not None:
        made._original = weakref.ref(graph)
        if hasattr(graph, "_graph"):  # a view, which networkx does not tell that its graph has changed: nothing is kept for it
            graph.__networkx_cache__ = None
    elif graph.is_multigraph():
        made.keys = _keys(graph, attribute)
    return made


def _rounds(weights: torch.Tensor, graph: nx.Graph, attribute: str | None) -> bool:
    """Whether integers became float64, and those of a path may sum to one that float64 has not."""
    most = _MOST_EXACT // max(len(graph), 1)
    if not weights.is_floating_point() or not bool((weights.abs() > most).any()):
        return False
    values = (value for *_, value in graph.edges(data=attribute, default=1))
    return any(isinstance(value, Integral) and abs(int(value)) > most for value in values)


def _keys(graph: nx.Graph, attribute: str | None) -> _Keys:
    """Those of parallel edges that are others than 0, 1 and so on in the order of their weights."""
    found: _Keys = {}
    for u, near in graph.adjacency():
        for v, edges in near.items():
            keys = sorted(edges, key=lambda key: edges[key].get(attribute, 1)) if attribute is not None else list(edges)
            if keys != list(range(len(keys))):
                found[u, v] = keys
    return found


def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
    """The networkx graph of a converted one; any other result is what it should be already."""
    if not isinstance(result, BackendGraph):
        return result
    graph = result.graph
    if graph.weights is None and result.attribute is not None:
        graph = graph.with_weights(torch.ones(graph.num_edges, dtype=torch.int32))
    made = type(result.empty())(graph.to_networkx(result.attribute or "weight"))
    if not result.keys:
        return made
    named = result.empty()
    named.add_nodes_from(made)
    named.add_edges_from(
        (u, v, result.keys[u, v][key] if (u, v) in result.keys else key, data)
        for u, v, key, data in made.edges(keys=True, data=True)
    )
    return named


def options() -> dict[str, Any]:
    """Where to run, as ``nx.config.backends.hinterland`` says."""
    config = nx.config.backends["hinterland"]
    return {"device": config["device"], "gpu_budget": config["gpu_budget"]}


def steps(limit: float | None) -> float:
    """A ``cutoff`` or ``depth_limit`` in whole edges; 0 of what is no number, as networkx has it."""
    if limit is None or limit == math.inf:
        return math.inf
    return math.ceil(limit) if limit > 0 else 0
