"""Backend for networkx: ``nx.pagerank(G, backend="hinterland")`` runs here, with networkx's arguments, results and errors.

networkx finds this module by the entry point ``networkx.backends`` and calls its functions by their names, with graphs that
``convert_from_nx`` made; so every public name below ``should_run`` is a promise to do what networkx's function of that name
does. What a function here cannot do, ``can_run`` refuses with a sentence, and networkx does it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import networkx as nx
import torch

import hinterland as hl

from .runtime.errors import GraphError

_LINEAR = {
    "single_source_shortest_path_length",
    "connected_components",
    "number_connected_components",
    "is_connected",
    "node_connected_component",
    "weakly_connected_components",
    "number_weakly_connected_components",
    "is_weakly_connected",
}


class BackendGraph:
    """A networkx graph, converted: the edges with the weights of at most one attribute, and the nodes' names.

    ``graph`` has no weights where ``attribute`` is None or 1 at every edge.
    """

    __networkx_backend__ = "hinterland"

    def __init__(self, graph: hl.Graph, nodes: list[Hashable], attribute: str | None, multigraph: bool) -> None:
        self.graph, self.nodes, self.attribute = graph, nodes, attribute
        self.number = {node: i for i, node in enumerate(nodes)}
        self._multigraph = multigraph

    def is_directed(self) -> bool:
        return self.graph.directed

    def is_multigraph(self) -> bool:
        return self._multigraph

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.nodes)

    def __contains__(self, node: Hashable) -> bool:
        return node in self.number

    def of(self, values: torch.Tensor) -> dict[Hashable, Any]:
        """Each node's value."""
        return dict(zip(self.nodes, values.tolist(), strict=True))


def convert_from_nx(
    graph: nx.Graph,
    edge_attrs: dict[str, Any] | None = None,
    preserve_edge_attrs: bool = False,
    **_: Any,
) -> BackendGraph:
    """The graph as the functions below take it. At most one attribute of its edges comes along, and must be a number."""
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


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Whether the function called ``name`` takes these arguments; a sentence if it does not."""
    given = inspect.signature(globals()[name]).bind(*args, **kwargs)
    given.apply_defaults()
    return _REFUSALS.get(name, lambda _: None)(given.arguments) or True


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Whether to run where nobody asked for this backend by name; networkx does not ask for graphs that it need not convert."""
    if name in ("bfs_edges", "bfs_predecessors"):
        return "its trees are other ones than networkx's; ask for them with backend='hinterland'"
    if name in _LINEAR:
        graph = args[0] if args else kwargs["G"]
        if not (getattr(graph, "__networkx_cache__", None) or {}).get("backends", {}).get("hinterland"):
            return "converting the graph takes longer than networkx itself, which looks at every edge once"
    return True


def single_source_shortest_path_length(G: BackendGraph, source: Hashable, cutoff: float | None = None) -> dict[Hashable, int]:
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} is not in G")
    levels = hl.bfs(G.graph, G.number[source], **_options()).levels
    return _within(G, levels, levels >= 0, None if cutoff is None else max(math.ceil(cutoff), 0))


def single_source_dijkstra_path_length(
    G: BackendGraph, source: Hashable, cutoff: float | None = None, weight: str | None = "weight"
) -> dict[Hashable, Any]:
    if source not in G:
        raise nx.NodeNotFound(f"Node {source} not found in graph")
    graph = _weighted_by(G, weight)
    if graph.weights is None:
        distances = hl.bfs(graph, G.number[source], **_options()).levels
    else:
        distances = hl.sssp(graph, G.number[source], **_options()).distances
    reached = distances < math.inf if distances.is_floating_point() else distances >= 0
    return _within(G, distances, reached, None if cutoff is None else max(cutoff, 0))


def bfs_edges(
    G: BackendGraph,
    source: Hashable,
    reverse: bool = False,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> Iterator[tuple[Hashable, Hashable]]:
    if source not in G:
        raise nx.NetworkXError(f"The node {source} is not in the graph.")
    graph = G.graph.transpose() if reverse else G.graph
    found = hl.bfs(graph, G.number[source], **_options())
    limit = None if depth_limit is None else max(math.ceil(depth_limit), 0)
    parents = G.of(found.parents)
    for node in _within(G, found.levels, found.levels >= 0, limit):
        if node != source:
            yield G.nodes[parents[node]], node


def bfs_predecessors(
    G: BackendGraph,
    source: Hashable,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> Iterator[tuple[Hashable, Hashable]]:
    for parent, node in bfs_edges(G, source, depth_limit=depth_limit):
        yield node, parent


def connected_components(G: BackendGraph) -> Iterator[set[Hashable]]:
    members: dict[int, set[Hashable]] = {}
    # Labels are the components' first nodes, so the components come in networkx's order.
    for node, label in G.of(_labels(G)).items():
        members.setdefault(label, set()).add(node)
    yield from members.values()


def number_connected_components(G: BackendGraph) -> int:
    return len(_labels(G).unique())


def is_connected(G: BackendGraph) -> bool:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    return not bool(_labels(G).any())


def node_connected_component(G: BackendGraph, n: Hashable) -> set[Hashable]:
    labels = _labels(G)
    return {G.nodes[i] for i in (labels == labels[G.number[n]]).nonzero()[:, 0].tolist()}


weakly_connected_components = connected_components
number_weakly_connected_components = number_connected_components
is_weakly_connected = is_connected


def pagerank(
    G: BackendGraph,
    alpha: float = 0.85,
    personalization: dict[Hashable, float] | None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: dict[Hashable, float] | None = None,
    weight: str | None = "weight",
    dangling: dict[Hashable, float] | None = None,
) -> dict[Hashable, float]:
    if len(G) == 0:
        return {}
    share = None
    if personalization is not None:
        share = torch.tensor([float(personalization.get(node, 0)) for node in G], dtype=torch.float64)
        if share.sum() == 0:
            raise ZeroDivisionError
    if max_iter < 1:
        raise nx.PowerIterationFailedConvergence(max_iter)
    tolerance = len(G) * tol
    graph = _weighted_by(G, weight)
    if graph.weights is not None:
        raise NotImplementedError("hinterland's pagerank does not weigh edges: pass weight=None, or leave it to networkx")
    found = hl.pagerank(
        graph,
        damping=alpha,
        tolerance=tolerance,
        max_iterations=max_iter,
        personalization=share,
        **_options(),
    )
    if found.error >= tolerance:
        raise nx.PowerIterationFailedConvergence(max_iter)
    return G.of(found.scores)


def betweenness_centrality(
    G: BackendGraph,
    k: int | None = None,
    normalized: bool = True,
    weight: str | None = None,
    endpoints: bool = False,
    seed: Any = None,
) -> dict[Hashable, float]:
    if k == 0 and len(G) > 2:
        raise ZeroDivisionError("k is 0: no source to estimate from")
    # networkx makes seed a random.Random before it calls; its sample is the one that networkx would draw.
    sources = None if k is None else [G.number[node] for node in seed.sample(G.nodes, k)]
    return G.of(hl.betweenness_centrality(G.graph, sources=sources, normalized=normalized, **_options()).scores)


def _options() -> dict[str, Any]:
    """Where to run, as ``nx.config.backends.hinterland`` says."""
    config = nx.config.backends["hinterland"]
    return {"device": config["device"], "gpu_budget": config["gpu_budget"]}


def _within(G: BackendGraph, distances: torch.Tensor, reached: torch.Tensor, limit: float | None) -> dict[Hashable, Any]:
    """The distances of reached nodes that are not beyond ``limit``, nearest first."""
    if limit is not None:
        reached = reached & (distances <= limit)
    numbers = reached.nonzero()[:, 0]
    near = distances[numbers].sort(stable=True)
    nodes = (G.nodes[i] for i in numbers[near.indices].tolist())
    return dict(zip(nodes, near.values.tolist(), strict=True))


def _labels(G: BackendGraph) -> torch.Tensor:
    return hl.connected_components(G.graph, **_options()).labels


def _weighted_by(G: BackendGraph, weight: str | None) -> hl.Graph:
    """The graph with the weights that are asked for."""
    if weight is None:
        return G.graph.without_weights()
    if weight != G.attribute:
        raise NotImplementedError(
            f"the graph was converted with the attribute {G.attribute!r}, not {weight!r}: pass the networkx graph itself, "
            f"or convert it with edge_attrs={{{weight!r}: 1}}"
        )
    return G.graph


def _refuse(**arguments: Any) -> str | None:
    """A sentence if any of the arguments is given."""
    refused = [name for name, value in arguments.items() if value is not None and value is not False]
    return f"hinterland has no {' and no '.join(refused)} here" if refused else None


# By function: from its arguments, why it cannot run.
_REFUSALS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "bfs_edges": lambda given: _refuse(sort_neighbors=given["sort_neighbors"]),
    "bfs_predecessors": lambda given: _refuse(sort_neighbors=given["sort_neighbors"]),
    "single_source_dijkstra_path_length": lambda given: _refuse(weight=callable(given["weight"])),
    "pagerank": lambda given: _refuse(nstart=given["nstart"], dangling=given["dangling"], weight=callable(given["weight"])),
    "betweenness_centrality": lambda given: _refuse(
        weight=given["weight"], endpoints=given["endpoints"], multigraph=given["G"].is_multigraph()
    ),
}
