"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

from . import traffic
from .graph import (
    BetweennessResult,
    BfsResult,
    Graph,
    MultiBfsResult,
    Prepared,
    betweenness_centrality,
    bfs,
    compress,
    decompress,
    from_edges,
    from_igraph,
    from_networkx,
    from_scipy,
    generate,
    load_graph,
    multi_source_bfs,
    prepare,
    random_weights,
    reorder,
    save_graph,
)
from .machine import Machine
from .memory import UnifiedTensor
from .probe.measure import probe

__version__ = "0.1.0"
__all__ = [
    "BetweennessResult",
    "BfsResult",
    "Graph",
    "Machine",
    "MultiBfsResult",
    "Prepared",
    "UnifiedTensor",
    "__version__",
    "betweenness_centrality",
    "bfs",
    "compress",
    "decompress",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "load_graph",
    "multi_source_bfs",
    "prepare",
    "probe",
    "random_weights",
    "reorder",
    "save_graph",
    "traffic",
]
