"""Graphs in CSR form: files, generators and traversals."""

from .bc import BetweennessResult, EdgeBetweennessResult, betweenness_centrality, edge_betweenness_centrality
from .bfs import BfsResult, bfs
from .cc import ComponentsResult, connected_components, verify_components
from .compress import compress, decompress
from .convert import from_igraph, from_networkx, from_scipy
from .cores import CoresResult, core_numbers, verify_cores
from .edges import from_edges, simplify
from .formats import load_graph, save_graph
from .generate import generate, random_weights
from .graph import Graph
from .harmonic import HarmonicResult, harmonic_centrality, verify_harmonic
from .jaccard import JaccardResult, jaccard, verify_jaccard
from .leiden import leiden, verify_leiden
from .louvain import CommunitiesResult, louvain, verify_communities
from .msbfs import MultiBfsResult, multi_source_bfs
from .pagerank import PagerankResult, pagerank, verify_pagerank
from .prepare import ResidentGraph, prepare
from .reorder import reorder
from .scan import Scan
from .scc import strongly_connected_components, verify_strong_components
from .spectral import (
    CentralityResult,
    HitsResult,
    eigenvector_centrality,
    hits,
    katz_centrality,
    verify_eigenvector,
    verify_hits,
    verify_katz,
)
from .sssp import SsspResult, sssp
from .sswp import SswpResult, sswp
from .triangles import TrianglesResult, triangles, verify_triangles
from .verify import verify_betweenness, verify_bfs, verify_multi_source_bfs
from .verify_paths import verify_sssp, verify_sswp
from .weighted_pagerank import verify_weighted_pagerank, weighted_pagerank

__all__ = [
    "BetweennessResult",
    "BfsResult",
    "CentralityResult",
    "CommunitiesResult",
    "ComponentsResult",
    "CoresResult",
    "EdgeBetweennessResult",
    "Graph",
    "HarmonicResult",
    "HitsResult",
    "JaccardResult",
    "MultiBfsResult",
    "PagerankResult",
    "ResidentGraph",
    "Scan",
    "SsspResult",
    "SswpResult",
    "TrianglesResult",
    "betweenness_centrality",
    "bfs",
    "compress",
    "connected_components",
    "core_numbers",
    "decompress",
    "edge_betweenness_centrality",
    "eigenvector_centrality",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "harmonic_centrality",
    "hits",
    "jaccard",
    "katz_centrality",
    "leiden",
    "load_graph",
    "louvain",
    "multi_source_bfs",
    "pagerank",
    "prepare",
    "random_weights",
    "reorder",
    "save_graph",
    "simplify",
    "sssp",
    "sswp",
    "strongly_connected_components",
    "triangles",
    "verify_betweenness",
    "verify_bfs",
    "verify_communities",
    "verify_components",
    "verify_cores",
    "verify_eigenvector",
    "verify_harmonic",
    "verify_hits",
    "verify_jaccard",
    "verify_katz",
    "verify_leiden",
    "verify_multi_source_bfs",
    "verify_pagerank",
    "verify_sssp",
    "verify_sswp",
    "verify_strong_components",
    "verify_triangles",
    "verify_weighted_pagerank",
    "weighted_pagerank",
]
