"""``hinterland bfs``: breadth-first search over a graph file."""

from __future__ import annotations

from . import parameters


def bfs(
    graph: parameters.GraphFile,
    *,
    start: parameters.Start,
    mode: parameters.Mode = "auto",
    access: parameters.Access = None,
    options: parameters.Options,
) -> None:
    """Find the distance of every vertex from a source, and how fast that went.

    Edges per second (TEPS) are the out-edges of all reached vertices, divided by the time of the search. Bytes are what was
    read from the edge array, in whole 32-byte sectors. The array of --output is the levels (int32, -1 where unreachable).
    """
    from .. import graph as graphs
    from .traversal import Algorithm, by_vertex, search

    algorithm = Algorithm(
        name="bfs",
        call=graphs.bfs,
        mode=mode,
        array=lambda result: result.levels,
        table=lambda result: by_vertex(level=result.levels, parent=result.parents),
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} levels",
        verify=graphs.verify_bfs,
    )
    search(algorithm, graph, start, options)
