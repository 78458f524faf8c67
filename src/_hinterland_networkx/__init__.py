"""What networkx reads about the backend while it is being imported itself.

It stands outside of ``hinterland`` because importing that imports torch, and nobody who merely imports networkx should wait for
that. The backend is ``hinterland.nx_backend``.
"""

from typing import Any

_TREE = "Another tree than networkx's own: a node's predecessor is the first of the graph's nodes that is one step nearer."
_FUNCTIONS = {
    "betweenness_centrality": "Without edge weights, endpoints and parallel edges; k and seed choose networkx's own sources.",
    "bfs_edges": _TREE,
    "bfs_predecessors": _TREE,
    "connected_components": "",
    "is_connected": "",
    "is_weakly_connected": "",
    "node_connected_component": "",
    "number_connected_components": "",
    "number_weakly_connected_components": "",
    "pagerank": "Without nstart and dangling.",
    "single_source_dijkstra_path_length": "The weight is an edge attribute, not a function, and never negative.",
    "single_source_shortest_path_length": "",
    "weakly_connected_components": "",
}


def info() -> dict[str, Any]:
    """The entry point ``networkx.backend_info``."""
    return {
        "backend_name": "hinterland",
        "project": "hinterland",
        "package": "hinterland",
        "short_summary": "Graphs larger than GPU memory, read by GPU code where they lie; without a GPU, all CPU cores.",
        "default_config": {"device": None, "gpu_budget": None},
        "functions": {name: {"additional_docs": docs} for name, docs in _FUNCTIONS.items()},
    }
