"""Graphs in CSR form: files, generators and traversals."""

from . import emogi
from .bfs import BfsResult, bfs
from .build import from_edges, simplify
from .formats import load_graph, save_graph
from .generate import generate
from .graph import Graph
from .verify import verify_bfs

__all__ = ["BfsResult", "Graph", "bfs", "emogi", "from_edges", "generate", "load_graph", "save_graph", "simplify", "verify_bfs"]
