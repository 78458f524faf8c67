"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

from . import traffic
from .graph import (
    BfsResult,
    ComponentsResult,
    Graph,
    PagerankResult,
    Prepared,
    bfs,
    compress,
    connected_components,
    decompress,
    from_edges,
    from_igraph,
    from_networkx,
    from_scipy,
    generate,
    load_graph,
    pagerank,
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
    "BfsResult",
    "ComponentsResult",
    "Graph",
    "Machine",
    "PagerankResult",
    "Prepared",
    "UnifiedTensor",
    "__version__",
    "bfs",
    "compress",
    "connected_components",
    "decompress",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "load_graph",
    "pagerank",
    "prepare",
    "probe",
    "random_weights",
    "reorder",
    "save_graph",
    "traffic",
]
