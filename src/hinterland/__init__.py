"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line.

Importing this imports next to nothing yet: torch alone takes seconds, of which ``hinterland --help`` needs nothing. What a name
stands for is imported when the name is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # not from .graph or .fullgraph, whose functions and modules share names: mypy would take the modules
    from . import datasets, fullgraph, hotness, kernels, nn, sampling, training
    from .fullgraph.aggregate import aggregate
    from .fullgraph.launch import launch
    from .fullgraph.partitioned import PartitionedGraph
    from .graph.bc import BetweennessResult, betweenness_centrality
    from .graph.bfs import BfsResult, bfs
    from .graph.cc import ComponentsResult, connected_components
    from .graph.compress import compress, decompress
    from .graph.convert import from_igraph, from_networkx, from_scipy
    from .graph.edges import from_edges
    from .graph.formats import load_graph, save_graph
    from .graph.generate import generate, random_weights
    from .graph.graph import Graph
    from .graph.msbfs import MultiBfsResult, multi_source_bfs
    from .graph.pagerank import PagerankResult, pagerank
    from .graph.prepare import Prepared, prepare
    from .graph.reorder import reorder
    from .graph.sssp import SsspResult, sssp
    from .graph.sswp import SswpResult, sswp
    from .kernels.by_row import filter, map, reduce
    from .kernels.kernel import kernel
    from .machine import Machine
    from .probe.measure import probe
    from .query.ask import Query, query
    from .query.result import QueryResult
    from .runtime.include import get_cmake_dir, get_include
    from .storage import StorageCache
    from .table import CachedTensor, StorageArray, TieredTensor, UnifiedEmbeddingBag, UnifiedTensor, open_table

__version__ = "0.1.0"
__all__ = [
    "BetweennessResult",
    "BfsResult",
    "CachedTensor",
    "ComponentsResult",
    "Graph",
    "Machine",
    "MultiBfsResult",
    "PagerankResult",
    "PartitionedGraph",
    "Prepared",
    "Query",
    "QueryResult",
    "SsspResult",
    "SswpResult",
    "StorageArray",
    "StorageCache",
    "TieredTensor",
    "UnifiedEmbeddingBag",
    "UnifiedTensor",
    "__version__",
    "aggregate",
    "betweenness_centrality",
    "bfs",
    "compress",
    "connected_components",
    "datasets",
    "decompress",
    "filter",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "from_scipy",
    "fullgraph",
    "generate",
    "get_cmake_dir",
    "get_include",
    "hotness",
    "kernel",
    "kernels",
    "launch",
    "load_graph",
    "map",
    "multi_source_bfs",
    "nn",
    "open_table",
    "pagerank",
    "prepare",
    "probe",
    "query",
    "random_weights",
    "reduce",
    "reorder",
    "sampling",
    "save_graph",
    "sssp",
    "sswp",
    "training",
]

_PACKAGES = (
    "datasets",
    "fullgraph",
    "graph",
    "hotness",
    "kernels",
    "machine",
    "memory",
    "nn",
    "sampling",
    "storage",
    "table",
    "training",
)
# Where the other names are defined; those that are not here, in graph.
_HOMES = {
    "CachedTensor": "table",
    "Machine": "machine",
    "PartitionedGraph": "fullgraph",
    "Query": "query.ask",
    "QueryResult": "query.result",
    "StorageArray": "table",
    "StorageCache": "storage",
    "TieredTensor": "table",
    "UnifiedEmbeddingBag": "table",
    "UnifiedTensor": "table",
    "aggregate": "fullgraph",
    "filter": "kernels",
    "get_cmake_dir": "runtime.include",
    "get_include": "runtime.include",
    "kernel": "kernels",
    "launch": "fullgraph.launch",
    "open_table": "table",
    "map": "kernels",
    "probe": "probe.measure",
    "query": "query.ask",
    "reduce": "kernels",
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)  # which also makes it an attribute of this module
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_HOMES.get(name, 'graph')}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})


# Where what makes tables was when files that were saved before named it.
_MOVED = {
    f"{__name__}.{old}": f"{__name__}.table.{new}"
    for old, new in (("memory.embedding", "embedding"), ("memory.unified", "unified"), ("storage.array", "array"))
}


class _Moved(ModuleType):
    """A module by the name that it had."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # who looks through all modules imports none
            raise AttributeError(name)
        return getattr(importlib.import_module(_MOVED[self.__name__]), name)


sys.modules.update({name: _Moved(name) for name in _MOVED})


class _Package(ModuleType):
    """``hinterland.probe`` and ``query`` are functions. Imports of the packages of these names would make them these."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("probe", "query") or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
