"""Verifiers: a result is checked by the properties that define it, not by computing it a second time.

Lists are read where they lie. Of a reordered graph the edges are renumbered first, in a copy in host memory, and what is
checked and named are the numbers of the user. Results may lie on any device, and other arguments are as in the call.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError, VerificationError
from .bc import BetweennessResult, scales
from .bfs import BfsResult
from .checks import require_result, require_source
from .device_graph import DeviceGraph, checked_view, edge_at
from .graph import Graph
from .msbfs import MultiBfsResult, check_sources, multi_source_bfs
from .reorder import restored


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

    Raises:
        VerificationError: names the rule, the vertex or edge, and the values.
        GraphError: the graph's offsets were changed since it was made, and are none any more.
        ConfigError: levels or parents of another type.
    """
    require_result(graph, result, BfsResult)
    source = arguments.whole_number("source", source)
    graph, vertices = restored(graph), graph.num_vertices
    levels, parents = result.levels.cpu().contiguous(), result.parents.cpu().contiguous()
    if (levels.dtype, parents.dtype) != (torch.int32, torch.int64):
        raise ConfigError(f"levels are {levels.dtype} and parents {parents.dtype}, but must be int32 and int64")
    if levels.shape != (vertices,) or parents.shape != (vertices,):
        raise VerificationError(
            f"levels have shape {tuple(levels.shape)} and parents {tuple(parents.shape)}, but the graph has {vertices} vertices"
        )
    require_source(source, graph)
    view = checked_view(graph.neighbor_lists)
    with view.reading():
        rule, at = _core.verify_bfs(view.words, source, levels.data_ptr(), parents.data_ptr())
    if rule:
        raise VerificationError(_sentence(rule, at, view, levels, parents))


def verify_multi_source_bfs(graph: Graph, sources: Iterable[int] | torch.Tensor, result: MultiBfsResult) -> None:
    """Checks searches from several sources, each row of levels in one parallel pass over the edges on the CPU.

    The rules are those of :func:`verify_bfs` for results without parents: 1 (level 0 at the source), 2 (at no other vertex, and
    none below -1), 4, 5 and 6 (each vertex but the source has an edge from one a level nearer). Then the sums: ``reached``,
    ``distance_sum`` and ``eccentricity`` are those of the row.

    Raises:
        VerificationError: names the source, the rule, the vertex or edge, and the values.
        ConfigError: a result without levels, or levels of another type.
        IndexOutOfRange: a source is no vertex.
    """
    require_result(graph, result, MultiBfsResult)
    listed = check_sources(graph, sources)
    if result.levels is None or result.levels.dtype != torch.int32:
        found = "no levels" if result.levels is None else f"{result.levels.dtype} levels"
        raise ConfigError(f"the result has {found}, but int32 levels are what is checked; search with levels=True")
    shape = (len(listed), graph.num_vertices)
    if result.levels.shape != shape:
        raise VerificationError(f"levels have shape {tuple(result.levels.shape)}, but must have {shape}")
    view = checked_view(restored(graph).neighbor_lists)
    for row, source in enumerate(listed):
        levels = result.levels[row].cpu().contiguous()
        with view.reading():
            rule, at = _core.verify_bfs(view.words, source, levels.data_ptr(), 0)
        if rule:
            raise VerificationError(f"source {row}, vertex {source}: {_sentence(rule, at, view, levels, None)}")
        distances = levels[levels >= 0]
        sums = {"reached": len(distances), "distance_sum": int(distances.sum()), "eccentricity": int(distances.max())}
        for name, expected in sums.items():
            value = int(getattr(result, name)[row])
            if value != expected:
                raise VerificationError(f"source {row}, vertex {source}: {name} is {value}, but by its levels {expected}")


def verify_betweenness(graph: Graph, result: BetweennessResult, normalized: bool = True) -> None:
    """Checks betweenness centrality against distances, which the CPU finds by a search of another kind.

    1. No score is negative, and one that is not a number is that of a lone source.
    2. A vertex without out-edges has score 0: no path leads through it.
    3. A path of d edges leads through d - 1 vertices. So all scores together, brought back to sums over the sources, are the
       sum of d - 1 over all pairs of a source and a vertex that it reaches (to nine digits).

    The third rule finds any path that was left out or counted twice, though not whose share went to the wrong vertex.

    Raises:
        VerificationError: names the rule, the vertex and the values.
        ConfigError: scores of another type or shape.
    """
    require_result(graph, result, BetweennessResult)
    normalized = arguments.switch("normalized", normalized)
    scores, sources = result.scores.cpu(), result.sources
    vertices, count = graph.num_vertices, len(sources)
    if scores.dtype != torch.float64 or scores.shape != (vertices,):
        raise ConfigError(f"scores are {scores.dtype} {tuple(scores.shape)}, but must be float64 ({vertices},)")
    own, other = scales(vertices, count, normalized, graph.directed)
    sums = scores / other
    sums[sources] = scores[sources] / own if own == own else 0.0  # NaN where nothing is known
    wrong = (~(sums >= 0)).nonzero()
    if len(wrong):
        raise VerificationError(f"rule 1: vertex {int(wrong[0])} has score {float(scores[wrong[0]])}")
    ends = graph.to_original(graph.degrees().cpu()) == 0
    wrong = ((sums > 0) & ends).nonzero()
    if len(wrong):
        raise VerificationError(f"rule 2: vertex {int(wrong[0])} has no out-edge, but score {float(scores[wrong[0]])}")
    searched = multi_source_bfs(graph, sources, levels=False, device="cpu")
    expected = int((searched.distance_sum - (searched.reached - 1)).sum())
    found = float(sums.sum())
    if abs(found - expected) > 1e-9 * max(expected, 1):
        raise VerificationError(f"rule 3: paths lead through {found} vertices by the scores, but {expected} by the distances")


def _sentence(rule: int, at: int, view: DeviceGraph, levels: torch.Tensor, parents: torch.Tensor | None) -> str:
    if rule in (_core.BFS_RULES["graph"], _core.BFS_RULES["closed"], _core.BFS_RULES["edge_level"]):
        u, v, edge = edge_at(view, at)
        if rule == _core.BFS_RULES["graph"]:
            return f"the graph is broken: {edge} leads to no vertex"
        if rule == _core.BFS_RULES["closed"]:
            return f"rule 4: {edge} leads from level {int(levels[u])} to a vertex that counts as unreachable"
        return f"rule 5: {edge} leads from level {int(levels[u])} to level {int(levels[v])}, more than one further"
    level = int(levels[at])
    if parents is None:
        if rule == _core.BFS_RULES["source"]:
            return f"rule 1: it has level {level}, but must have 0"
        if rule == _core.BFS_RULES["reached"]:
            return f"rule 2: vertex {at} has level {level}; only the source has level 0, and none is below -1"
        return f"rule 6: vertex {at} has level {level}, but no edge leads to it from level {level - 1}"
    parent = int(parents[at])
    if rule == _core.BFS_RULES["source"]:
        return f"rule 1: source {at} has level {level} and parent {parent}, but must have level 0 and itself"
    if rule == _core.BFS_RULES["reached"]:
        return f"rule 2: vertex {at} has level {level} and parent {parent}; it must have both or neither"
    if rule == _core.BFS_RULES["tree_level"]:
        return f"rule 3: vertex {at} has level {level}, but its parent {parent} has level {int(levels[parent])}"
    return f"rule 6: vertex {at} has parent {parent}, but no edge {parent} -> {at} is in the graph"
