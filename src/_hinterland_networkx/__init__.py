"""What networkx reads about the backend while it is being imported itself.

It stands outside of ``hinterland`` because importing that imports torch, and nobody who merely imports networkx should wait for
that. The backend is ``hinterland.nx_backend``.
"""

from typing import Any

_TREE = "Another tree than networkx's own: a node's predecessor is the first of the graph's nodes that is one step nearer."
_PATHS = "A shortest path, but not always the one that networkx finds."
_PLAIN = "Undirected graphs only, without weights."
_WEIGHT = "The weight is an edge attribute, not a function, and never negative."
# Each function, and what is to be said of it in networkx's own documentation.
FUNCTIONS = {
    "all_pairs_bellman_ford_path": f"{_PATHS} {_WEIGHT}",
    "all_pairs_bellman_ford_path_length": _WEIGHT,
    "all_pairs_dijkstra": f"{_PATHS} {_WEIGHT}",
    "all_pairs_dijkstra_path": f"{_PATHS} {_WEIGHT}",
    "all_pairs_dijkstra_path_length": _WEIGHT,
    "all_pairs_shortest_path": _PATHS,
    "all_pairs_shortest_path_length": "",
    "ancestors": "",
    "average_clustering": _PLAIN,
    "average_shortest_path_length": _WEIGHT,
    "bellman_ford_path": f"{_PATHS} {_WEIGHT}",
    "bellman_ford_path_length": _WEIGHT,
    "betweenness_centrality": "Without edge weights, endpoints and parallel edges; k and seed choose networkx's own sources.",
    "bfs_edges": _TREE,
    "bfs_layers": "Within a layer nodes come in the graph's order.",
    "bfs_predecessors": _TREE,
    "bfs_successors": _TREE,
    "bfs_tree": _TREE,
    "bidirectional_dijkstra": f"{_PATHS} {_WEIGHT}",
    "bidirectional_shortest_path": _PATHS,
    "center": _WEIGHT,
    "closeness_centrality": "The distance is an edge attribute, not a function, and never negative.",
    "clustering": _PLAIN,
    "connected_components": "",
    "core_number": "",
    "degree_centrality": "",
    "descendants": "",
    "descendants_at_distance": "",
    "diameter": _WEIGHT,
    "dijkstra_path": f"{_PATHS} {_WEIGHT}",
    "dijkstra_path_length": _WEIGHT,
    "eccentricity": f"Without sp. {_WEIGHT}",
    "eigenvector_centrality": "",
    "generic_bfs_edges": f"Without neighbors. {_TREE}",
    "harmonic_centrality": "The distance is an edge attribute, not a function, and never negative.",
    "has_path": "",
    "hits": "Without normalized=False.",
    "in_degree_centrality": "",
    "is_arborescence": "",
    "is_branching": "",
    "is_connected": "",
    "is_forest": "",
    "is_isolate": "",
    "is_negatively_weighted": "Without edge.",
    "is_strongly_connected": "",
    "is_tree": "",
    "is_weakly_connected": "",
    "isolates": "",
    "katz_centrality": "",
    "louvain_communities": "Other communities than networkx's own, of about the same modularity; no negative weights.",
    "node_connected_component": "",
    "number_connected_components": "",
    "number_of_isolates": "",
    "number_of_selfloops": "",
    "number_strongly_connected_components": "",
    "number_weakly_connected_components": "",
    "out_degree_centrality": "",
    "overall_reciprocity": "Directed graphs without parallel edges only.",
    "pagerank": "",
    "periphery": _WEIGHT,
    "radius": _WEIGHT,
    "reciprocity": "Directed graphs without parallel edges only.",
    "shortest_path": f"{_PATHS} {_WEIGHT}",
    "shortest_path_length": _WEIGHT,
    "single_source_bellman_ford": f"{_PATHS} {_WEIGHT}",
    "single_source_bellman_ford_path": f"{_PATHS} {_WEIGHT}",
    "single_source_bellman_ford_path_length": _WEIGHT,
    "single_source_dijkstra": f"{_PATHS} {_WEIGHT}",
    "single_source_dijkstra_path": f"{_PATHS} {_WEIGHT}",
    "single_source_dijkstra_path_length": _WEIGHT,
    "single_source_shortest_path": _PATHS,
    "single_source_shortest_path_length": "",
    "single_target_shortest_path": _PATHS,
    "single_target_shortest_path_length": "",
    "strongly_connected_components": "Components come in the order of their first nodes.",
    "transitivity": "Undirected graphs only.",
    "triangles": "",
    "weakly_connected_components": "",
    "wiener_index": _WEIGHT,
}


def info() -> dict[str, Any]:
    """The entry point ``networkx.backend_info``."""
    return {
        "backend_name": "hinterland",
        "project": "hinterland",
        "package": "hinterland",
        "short_summary": "Graphs larger than GPU memory, read by GPU code where they lie; without a GPU, all CPU cores.",
        "default_config": {"device": None, "gpu_budget": None},
        "functions": {name: {"additional_docs": docs} for name, docs in FUNCTIONS.items()},
    }
