"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

from .graph import (
    BfsResult,
    ComponentsResult,
    Graph,
    Prepared,
    bfs,
    connected_components,
    from_edges,
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
    "ComponentsResult",
    "Graph",
    "Machine",
    "Prepared",
    "UnifiedTensor",
    "__version__",
    "bfs",
    "connected_components",
    "from_edges",
    "generate",
    "load_graph",
    "prepare",
    "probe",
    "random_weights",
    "save_graph",
]
