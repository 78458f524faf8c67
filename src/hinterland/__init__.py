"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line.

Importing this imports next to nothing yet: torch alone takes seconds, of which ``hinterland --help`` needs nothing. What a name
stands for is imported when the name is first used, from where the imports that type checkers see say.
"""

# ruff: noqa: I001  a module's names stand in one line

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # not from .graph or .fullgraph, whose functions and modules share names: mypy would take the modules
    from . import (
        datasets as datasets,
        fullgraph as fullgraph,
        hotness as hotness,
        kernels as kernels,
        nn as nn,
        sampling as sampling,
        training as training,
    )
    from .fullgraph.aggregate import aggregate as aggregate
    from .fullgraph.launch import launch as launch
    from .fullgraph.partitioned import PartitionedGraph as PartitionedGraph
    from .graph.bc import BetweennessResult as BetweennessResult, betweenness_centrality as betweenness_centrality
    from .graph.bfs import BfsResult as BfsResult, bfs as bfs
    from .graph.cc import ComponentsResult as ComponentsResult, connected_components as connected_components
    from .graph.compress import compress as compress, decompress as decompress
    from .graph.convert import from_igraph as from_igraph, from_networkx as from_networkx, from_scipy as from_scipy
    from .graph.edges import from_edges as from_edges
    from .graph.formats import load_graph as load_graph, save_graph as save_graph
    from .graph.generate import generate as generate, random_weights as random_weights
    from .graph.graph import Graph as Graph
    from .graph.msbfs import MultiBfsResult as MultiBfsResult, multi_source_bfs as multi_source_bfs
    from .graph.pagerank import PagerankResult as PagerankResult, pagerank as pagerank
    from .graph.prepare import ResidentGraph as ResidentGraph, prepare as prepare
    from .graph.reorder import reorder as reorder
    from .graph.sssp import SsspResult as SsspResult, sssp as sssp
    from .graph.sswp import SswpResult as SswpResult, sswp as sswp
    from .kernels.by_row import filter as filter, map as map, reduce as reduce
    from .kernels.kernel import kernel as kernel
    from .machine import Machine as Machine
    from .probe.measure import probe as probe
    from .query.ask import Query as Query, query as query
    from .query.result import QueryResult as QueryResult
    from .runtime.include import get_cmake_dir as get_cmake_dir, get_include as get_include
    from .storage import StorageCache as StorageCache
    from .table import (
        CachedTensor as CachedTensor,
        StorageArray as StorageArray,
        TieredTensor as TieredTensor,
        UnifiedEmbeddingBag as UnifiedEmbeddingBag,
        UnifiedTensor as UnifiedTensor,
        open_table as open_table,
    )

__version__ = "0.1.0"
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


@functools.cache
def _homes() -> dict[str, str]:
    """The module that each public name is imported from. What type checkers read is the only list."""
    import ast  # not before a name is used

    with open(__file__, encoding="utf-8") as file:
        (block,) = (node for node in ast.parse(file.read()).body if isinstance(node, ast.If))
    lines = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: f".{line.module or ''}" for line in lines for alias in line.names}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)  # which also makes it an attribute of this module
    if name == "__all__":
        return sorted([*_homes(), "__version__"])
    if name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_homes()[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes(), *_PACKAGES})


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
