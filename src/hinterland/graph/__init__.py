"""Graphs in CSR form: files, generators and traversals."""

from . import emogi
from .bfs import BfsResult, bfs
from .build import from_edges, simplify
from .convert import from_igraph, from_networkx, from_scipy
from .formats import load_graph, save_graph
from .generate import generate, random_weights
from .graph import Graph
from .prepare import Prepared, prepare
from .verify import verify_bfs

__all__ = [
    "BfsResult",
    "Graph",
    "Prepared",
    "bfs",
    "emogi",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "load_graph",
    "prepare",
    "random_weights",
    "save_graph",
    "simplify",
    "verify_bfs",
]
