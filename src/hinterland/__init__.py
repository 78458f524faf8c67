"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

from . import traffic
from .graph import (
    BfsResult,
    Graph,
    Prepared,
    SsspResult,
    SswpResult,
    bfs,
    compress,
    decompress,
    from_edges,
    from_igraph,
    from_networkx,
    from_scipy,
    generate,
    load_graph,
    prepare,
    random_weights,
    reorder,
    save_graph,
    sssp,
    sswp,
)
from .machine import Machine
from .memory import UnifiedTensor
from .probe.measure import probe

__version__ = "0.1.0"
__all__ = [
    "BfsResult",
    "Graph",
    "Machine",
    "Prepared",
    "SsspResult",
    "SswpResult",
    "UnifiedTensor",
    "__version__",
    "bfs",
    "compress",
    "decompress",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "load_graph",
    "prepare",
    "probe",
    "random_weights",
    "reorder",
    "save_graph",
    "sssp",
    "sswp",
    "traffic",
]
