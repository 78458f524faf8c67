"""Graphs in CSR form: files, generators and traversals."""

from .bfs import BfsResult, bfs
from .build import from_edges, simplify
from .formats import load_graph, save_graph
from .generate import generate, random_weights
from .graph import Graph
from .prepare import Prepared, prepare
from .sssp import SsspResult, sssp
from .sswp import SswpResult, sswp
from .verify import verify_bfs
from .verify_paths import verify_sssp, verify_sswp

__all__ = [
    "BfsResult",
    "Graph",
    "Prepared",
    "SsspResult",
    "SswpResult",
    "bfs",
    "from_edges",
    "generate",
    "load_graph",
    "prepare",
    "random_weights",
    "save_graph",
    "simplify",
    "sssp",
    "sswp",
    "verify_bfs",
    "verify_sssp",
    "verify_sswp",
]
