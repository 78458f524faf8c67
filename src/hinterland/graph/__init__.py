"""Graphs in CSR form: files, generators and traversals."""

from .bfs import BfsResult, bfs
from .build import from_edges, simplify
from .graph import Graph
from .verify import verify_bfs

__all__ = ["BfsResult", "Graph", "bfs", "from_edges", "simplify", "verify_bfs"]
