"""``hinterland bc``: betweenness centrality of a graph file."""

from __future__ import annotations

from typing import Annotated

import typer

from . import parameters


def bc(
    graph: parameters.GraphFile,
    *,
    sources: parameters.Sources = None,
    count: Annotated[int | None, typer.Option(min=1, help="Estimate from so many random vertices, not from all.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not divide by the number of pairs of vertices.")] = False,
    runs: parameters.Repeats = 1,
    seed: parameters.Seed = 1,
    options: parameters.Options,
) -> None:
    """Find how many shortest paths lead through each vertex, and how fast that went.

    Paths are as long as they have edges: weights in the file are not used, and a line says so.
    The array of --output is the scores (float64).
    """
    from .. import graph as graphs
    from .traversal import Algorithm, all_at_once, by_vertex, load, say_weights_are_unused, traverse

    # Drawn among all vertices, each once: anything else would bias the estimate.
    starts = all_at_once(sources, count, runs, options.output, own_draw=True)
    loaded = load(graph, options)
    say_weights_are_unused(loaded, "bc")
    algorithm = Algorithm(
        name="bc",
        call=graphs.betweenness_centrality,
        array=lambda result: result.scores,
        table=lambda result: by_vertex(score=result.scores),
        found=lambda run: f"from {run['count']:,} sources",
        verify=lambda graph, *rest: graphs.verify_betweenness(graph, rest[-1], not raw),
        settings={"normalized": not raw},
        fields=lambda result: {"count": len(result.sources)},
    )
    traverse(algorithm, loaded, starts(loaded, seed), options)
