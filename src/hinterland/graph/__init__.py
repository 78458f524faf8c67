"""Graphs in CSR form: files, generators and traversals."""

from .bfs import BfsResult, bfs
from .build import from_edges, simplify
from .compress import compress, decompress
from .formats import load_graph, save_graph
from .generate import generate
from .graph import Graph
from .reorder import reorder
from .verify import verify_bfs

__all__ = [
    "BfsResult",
    "Graph",
    "bfs",
    "compress",
    "decompress",
    "from_edges",
    "generate",
    "load_graph",
    "reorder",
    "save_graph",
    "simplify",
    "verify_bfs",
]
