"""Verifiers: a result is checked by the properties that define it, not by computing it a second time."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime.errors import ConfigError, VerificationError
from .bfs import BfsResult
from .graph import Graph
from .prepare import View


def verify_bfs(graph: Graph, source: int, result: BfsResult) -> None:
    """Checks a breadth-first search by Graph500's rules, in parallel on the CPU, in one pass over the edges.

    1. The source has level 0 and is its own parent.
    2. A vertex has a level if and only if it has a parent.
    3. A vertex's level is its parent's plus one.
    4. No edge leads from a reached vertex to an unreached one.
    5. No edge leads down more than one level. (In an undirected graph each edge is stored both ways, so this is the rule
       that an edge's ends differ by at most one level.)
    6. Every vertex but the source has an edge from its parent.

    Together they make the levels shortest distances: by 5 none is too large, by 3 and 6 none too small.

    Args:
        graph: the graph that was searched.
        source: the vertex that the search began at.
        result: ``levels`` int32 and ``parents`` int64 ``[num_vertices]``, on any device.

    Raises:
        VerificationError: names the rule, the vertex or edge, and the values.
        ConfigError: levels or parents of another type.
    """
    vertices = graph.num_vertices
    levels, parents = result.levels.cpu().contiguous(), result.parents.cpu().contiguous()
    if (levels.dtype, parents.dtype) != (torch.int32, torch.int64):
        raise ConfigError(f"levels are {levels.dtype} and parents {parents.dtype}, but must be int32 and int64")
    if levels.shape != (vertices,) or parents.shape != (vertices,):
        raise VerificationError(
            f"levels have shape {tuple(levels.shape)} and parents {tuple(parents.shape)}, but the graph has {vertices} vertices"
        )
    if not 0 <= source < vertices:
        raise VerificationError(f"source {source} is not a vertex: the graph has {vertices} vertices, numbered from 0")
    view = View(graph, torch.device("cpu"))
    indptr, indices = view.offsets, view.edges
    rule, at = _core.verify_bfs(view.words, source, levels.data_ptr(), parents.data_ptr())
    if rule:
        raise VerificationError(_sentence(rule, at, indptr, indices, levels, parents))


def _sentence(
    rule: int, at: int, indptr: torch.Tensor, indices: torch.Tensor, levels: torch.Tensor, parents: torch.Tensor
) -> str:
    if rule in (_core.BFS_RULES["graph"], _core.BFS_RULES["closed"], _core.BFS_RULES["edge_level"]):
        v = int(indices[at])
        u = int(torch.searchsorted(indptr, at, right=True)) - 1
        edge = f"edge {u} -> {v} (position {at})"
        if rule == _core.BFS_RULES["graph"]:
            return f"the graph is broken: {edge} leads to no vertex"
        if rule == _core.BFS_RULES["closed"]:
            return f"rule 4: {edge} leads from level {int(levels[u])} to a vertex that counts as unreachable"
        return f"rule 5: {edge} leads from level {int(levels[u])} to level {int(levels[v])}, more than one further"
    level, parent = int(levels[at]), int(parents[at])
    if rule == _core.BFS_RULES["source"]:
        return f"rule 1: source {at} has level {level} and parent {parent}, but must have level 0 and itself"
    if rule == _core.BFS_RULES["reached"]:
        return f"rule 2: vertex {at} has level {level} and parent {parent}; it must have both or neither"
    if rule == _core.BFS_RULES["tree_level"]:
        return f"rule 3: vertex {at} has level {level}, but its parent {parent} has level {int(levels[parent])}"
    return f"rule 6: vertex {at} has parent {parent}, but no edge {parent} -> {at} is in the graph"
