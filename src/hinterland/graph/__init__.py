"""Graphs in CSR form: files, generators and traversals."""

from . import emogi, registered  # noqa: F401  (the second makes algorithms known to prepare())
from .bc import BetweennessResult, betweenness_centrality
from .bfs import BfsResult, bfs
from .cc import ComponentsResult, connected_components, verify_components
from .compress import compress, decompress
from .convert import from_igraph, from_networkx, from_scipy
from .edges import from_edges, simplify
from .formats import load_graph, save_graph
from .generate import generate, random_weights
from .graph import Graph
from .msbfs import MultiBfsResult, multi_source_bfs
from .pagerank import PagerankResult, pagerank, verify_pagerank
from .prepare import Prepared, prepare
from .reorder import reorder
from .scan import Scan
from .sssp import SsspResult, sssp
from .sswp import SswpResult, sswp
from .verify import verify_betweenness, verify_bfs, verify_multi_source_bfs
from .verify_paths import verify_sssp, verify_sswp

__all__ = [
    "BetweennessResult",
    "BfsResult",
    "ComponentsResult",
    "Graph",
    "MultiBfsResult",
    "PagerankResult",
    "Prepared",
    "Scan",
    "SsspResult",
    "SswpResult",
    "betweenness_centrality",
    "bfs",
    "compress",
    "connected_components",
    "decompress",
    "emogi",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "load_graph",
    "multi_source_bfs",
    "pagerank",
    "prepare",
    "random_weights",
    "reorder",
    "save_graph",
    "simplify",
    "sssp",
    "sswp",
    "verify_betweenness",
    "verify_bfs",
    "verify_components",
    "verify_multi_source_bfs",
    "verify_pagerank",
    "verify_sssp",
    "verify_sswp",
]
