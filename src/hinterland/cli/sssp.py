"""``hinterland sssp``: shortest paths over a weighted graph file."""

from __future__ import annotations

from . import parameters


def sssp(
    graph: parameters.GraphFile,
    *,
    start: parameters.Start,
    random_weights: parameters.RandomWeights = None,
    mode: parameters.Mode = "auto",
    access: parameters.Access = None,
    options: parameters.Options,
) -> None:
    """Find the shortest distance of every vertex from a source by edge weights, and how fast that went.

    The array of --output is the distances (-1, or inf for float weights, where unreachable).
    """
    from .. import graph as graphs
    from .traversal import Algorithm, by_vertex, search

    algorithm = Algorithm(
        name="sssp",
        call=graphs.sssp,
        mode=mode,
        weighted=True,
        array=lambda result: result.distances,
        table=lambda result: by_vertex(distance=result.distances),
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} steps",
        verify=graphs.verify_sssp,
    )
    search(algorithm, graph, start, options, random_weights)
