"""``hinterland sswp``: widest paths over a weighted graph file."""

from __future__ import annotations

from . import parameters


def sswp(
    graph: parameters.GraphFile,
    *,
    start: parameters.Start,
    random_weights: parameters.RandomWeights = None,
    mode: parameters.Mode = "auto",
    options: parameters.Options,
) -> None:
    """Find the widest path to every vertex from a source: its narrowest edge is as wide as can be.

    The array of --output is the widths (-2^63, or -inf for float weights, where unreachable).
    """
    from .. import graph as graphs
    from .traversal import Algorithm, by_vertex, search

    algorithm = Algorithm(
        name="sswp",
        call=graphs.sswp,
        mode=mode,
        weighted=True,
        array=lambda result: result.widths,
        table=lambda result: by_vertex(width=result.widths),
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} steps",
        verify=graphs.verify_sswp,
    )
    search(algorithm, graph, start, options, random_weights)
