"""Backend for networkx: ``nx.pagerank(G, backend="hinterland")`` runs here, with networkx's arguments, results and errors.

networkx finds this package by the entry point ``networkx.backends`` and calls its functions by their names, with graphs that
``convert_from_nx`` made. The names are those that ``_hinterland_networkx`` announces; each is a promise to do what networkx's
function of that name does. What a function here cannot do, ``can_run`` refuses with a sentence, and networkx does it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from _hinterland_networkx import FUNCTIONS, PATHS, TREE

from . import clusters, components, distances, edges, graphs, paths, ranks, searches
from .converted import BackendGraph, convert_from_nx, convert_to_nx

__all__ = ["BackendGraph", "can_run", "convert_from_nx", "convert_to_nx", "should_run"]

_MODULES = (clusters, components, distances, edges, graphs, paths, ranks, searches)
globals().update({name: vars(module)[name] for module in _MODULES for name in FUNCTIONS if name in vars(module)})
_SIGNATURES = {name: inspect.signature(globals()[name]) for name in FUNCTIONS}

# What networkx does itself while it looks at every edge once, or less.
_LINEAR = set(
    """
    ancestors bellman_ford_path_length complement connected_components core_number degree_centrality descendants
    descendants_at_distance dijkstra_path_length ego_graph has_path in_degree_centrality is_arborescence is_branching
    is_connected is_forest is_isolate is_negatively_weighted is_strongly_connected is_tree is_weakly_connected isolates
    node_connected_component number_connected_components number_of_isolates number_of_selfloops
    number_strongly_connected_components number_weakly_connected_components out_degree_centrality overall_reciprocity
    reciprocity reverse shortest_path_length single_source_bellman_ford_path_length single_source_dijkstra_path_length
    single_source_shortest_path_length single_target_shortest_path_length strongly_connected_components
    weakly_connected_components
    """.split()
)
# By function: the argument with which it is one search, or a few, of such ones.
_SEARCHES = {"closeness_centrality": "u", "eccentricity": "v", "harmonic_centrality": "nbunch"}
# What is right in several ways, of which networkx finds another one.
_CHOICES = {name for name, said in FUNCTIONS.items() if TREE in said or PATHS in said}
_CHOICES |= {"bfs_layers", "louvain_communities", "lowest_common_ancestor"}
# By function: the argument that asks for a part of an answer, all of which is found here.
_PARTS = {
    "all_pairs_dijkstra_path_length": "cutoff",
    "all_pairs_shortest_path_length": "cutoff",
    "center": "usebounds",
    "clustering": "nodes",
    "diameter": "usebounds",
    "jaccard_coefficient": "ebunch",
    "periphery": "usebounds",
    "radius": "usebounds",
    "triangles": "nodes",
}


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Whether the function called ``name`` takes these arguments; a sentence if it does not."""
    arguments = _bound(name, args, kwargs)
    of_each = {key: arguments.get(key) for key in ("sort_neighbors", "neighbors", "sp")}
    weighing = {key: callable(arguments.get(key)) for key in ("weight", "distance") if key in arguments}
    own = _REFUSED.get(name, lambda _: {})(arguments)
    return _refuse(**of_each, **{**weighing, **own}) or True


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Whether to run where nobody asked for this backend by name; networkx does not ask for graphs that it need not convert."""
    if name in _CHOICES:
        return "its choice among what is right is another one than networkx's; ask for it with backend='hinterland'"
    given = _given(_bound(name, args, kwargs))
    if _PARTS.get(name) in given:
        return "networkx does a part of the work for a part of the answer"
    if name in _LINEAR or _SEARCHES.get(name) in given:
        graph = args[0] if args else kwargs["G"]
        if not (getattr(graph, "__networkx_cache__", None) or {}).get("backends", {}).get("hinterland"):
            return "converting the graph takes longer than networkx itself, which looks at every edge once"
    return True


def _bound(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A function's arguments by their names, with the defaults."""
    bound = _SIGNATURES[name].bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _given(arguments: dict[str, Any]) -> list[str]:
    """The names of those that say something."""
    return [name for name, value in arguments.items() if value is not None and value is not False]


def _refuse(**arguments: Any) -> str | None:
    """A sentence if any of the arguments is given."""
    refused = _given(arguments)
    return f"hinterland has no {' and no '.join(refused)} here" if refused else None


def _turned_both_ways(given: dict[str, Any]) -> bool:
    return bool(given["undirected"] and given["distance"] is not None and given["G"].is_directed())


def _undirected_or_parallel(graph: Any) -> dict[str, bool]:
    return {"undirected graph": not graph.is_directed(), "multigraph": graph.is_multigraph()}


# By function: from its arguments, those of them that it has nothing for, besides functions in place of attributes.
_REFUSED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "betweenness_centrality": lambda given: {
        "weight": given["weight"],
        "endpoints": given["endpoints"],
        "multigraph": given["G"].is_multigraph(),
    },
    "average_clustering": lambda given: {"weight": given["weight"], "directed graph": given["G"].is_directed()},
    "clustering": lambda given: {"weight": given["weight"], "directed graph": given["G"].is_directed()},
    "edge_betweenness_centrality": lambda given: {"weight": given["weight"], "multigraph": given["G"].is_multigraph()},
    "ego_graph": lambda given: {"directed graph without directions and with distances": _turned_both_ways(given)},
    "is_negatively_weighted": lambda given: {"edge": given["edge"]},
    "overall_reciprocity": lambda given: _undirected_or_parallel(given["G"]),
    "reciprocity": lambda given: _undirected_or_parallel(given["G"]),
    "transitivity": lambda given: {"directed graph": given["G"].is_directed()},
}
