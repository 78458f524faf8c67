"""Graphs in CSR form: files, generators and traversals."""

from . import emogi
from .bc import BetweennessResult, betweenness_centrality
from .bfs import BfsResult, bfs
from .build import from_edges, simplify
from .compress import compress, decompress
from .convert import from_igraph, from_networkx, from_scipy
from .formats import load_graph, save_graph
from .generate import generate, random_weights
from .graph import Graph
from .msbfs import MultiBfsResult, multi_source_bfs
from .prepare import Prepared, prepare
from .reorder import reorder
from .scan import Scan
from .verify import verify_betweenness, verify_bfs, verify_multi_source_bfs

__all__ = [
    "BetweennessResult",
    "BfsResult",
    "Graph",
    "MultiBfsResult",
    "Prepared",
    "Scan",
    "betweenness_centrality",
    "bfs",
    "compress",
    "decompress",
    "emogi",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "load_graph",
    "multi_source_bfs",
    "prepare",
    "random_weights",
    "reorder",
    "save_graph",
    "simplify",
    "verify_betweenness",
    "verify_bfs",
    "verify_multi_source_bfs",
]
