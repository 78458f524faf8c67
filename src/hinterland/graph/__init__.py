"""Graphs in CSR form: files, generators and traversals."""

from .bc import BetweennessResult, betweenness_centrality
from .bfs import BfsResult, bfs
from .build import from_edges, simplify
from .formats import load_graph, save_graph
from .generate import generate, random_weights
from .graph import Graph
from .msbfs import MultiBfsResult, multi_source_bfs
from .prepare import Prepared, prepare
from .verify import verify_betweenness, verify_bfs, verify_multi_source_bfs

__all__ = [
    "BetweennessResult",
    "BfsResult",
    "Graph",
    "MultiBfsResult",
    "Prepared",
    "betweenness_centrality",
    "bfs",
    "from_edges",
    "generate",
    "load_graph",
    "multi_source_bfs",
    "prepare",
    "random_weights",
    "save_graph",
    "simplify",
    "verify_betweenness",
    "verify_bfs",
    "verify_multi_source_bfs",
]
