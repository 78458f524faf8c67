"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

from . import traffic
from .graph import (
    BfsResult,
    Graph,
    Prepared,
    bfs,
    from_edges,
    from_igraph,
    from_networkx,
    from_scipy,
    generate,
    load_graph,
    prepare,
    random_weights,
    save_graph,
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
    "UnifiedTensor",
    "__version__",
    "bfs",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "generate",
    "load_graph",
    "prepare",
    "probe",
    "random_weights",
    "save_graph",
    "traffic",
]
