"""``hinterland pagerank``: PageRank of a graph file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import parameters

MOST_ITERATIONS = 100


def pagerank(
    graph: parameters.GraphFile,
    *,
    damping: Annotated[float, typer.Option(help="The share of walks that follow an edge instead of jumping.")] = 0.85,
    tolerance: Annotated[float, typer.Option(help="Stop when the scores change by less than this altogether.")] = 1e-4,
    max_iterations: Annotated[int, typer.Option(min=1, help="Stop after so many iterations at the latest.")] = MOST_ITERATIONS,
    sources: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Jump only to the vertices in this file: one number or name a line, or .npy."),
    ] = None,
    runs: parameters.Repeats = 1,
    mode: parameters.Mode = "auto",
    access: parameters.Access = None,
    options: parameters.Options,
) -> None:
    """Rank vertices by how often a random walk comes by, and say how fast that went.

    The walk follows every out-edge as often as any other: weights in the file are not used, and a line says so.
    The array of --output is the scores, which add up to 1.
    """
    import torch

    from .. import graph as graphs
    from ..graph.sources import read_sources
    from .traversal import Algorithm, Starts, by_vertex, load, say_weights_are_unused, traverse

    loaded = load(graph, options)
    say_weights_are_unused(loaded, "pagerank")
    jumps = None
    if sources is not None:
        jumps = torch.zeros(loaded.num_vertices, dtype=torch.float64)
        jumps[read_sources(sources, loaded)] = 1
    settings: dict[str, Any] = {
        "damping": damping,
        "tolerance": tolerance,
        "max_iterations": max_iterations,
        "personalization": jumps,
    }
    algorithm = Algorithm(
        name="pagerank",
        call=graphs.pagerank,
        mode=mode,
        array=lambda result: result.scores,
        table=lambda result: by_vertex(score=result.scores),
        found=lambda run: (
            f"{run['iterations']} iterations, error {run['error']:.2e}" + ("" if run["converged"] else ", did not converge")
        ),
        verify=lambda graph, result: graphs.verify_pagerank(graph, result, damping, tolerance, jumps),
        settings=settings,
        fields=lambda result: {"iterations": result.iterations, "error": result.error, "converged": result.converged},
    )
    traverse(algorithm, loaded, Starts([{}] * runs, []), options)
