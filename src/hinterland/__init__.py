"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

from .graph import BfsResult, Graph, bfs, from_edges, generate, load_graph, save_graph
from .memory import UnifiedTensor

__version__ = "0.1.0"
__all__ = [
    "BfsResult",
    "Graph",
    "UnifiedTensor",
    "__version__",
    "bfs",
    "from_edges",
    "generate",
    "load_graph",
    "save_graph",
]
