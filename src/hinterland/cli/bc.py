"""``hinterland bc``: betweenness centrality of a graph file."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import graph as graphs
from . import traversal
from .traversal import Algorithm, by_vertex


def register(app: typer.Typer) -> None:
    app.command("bc")(bc)


def bc(
    graph: traversal.GraphFile,
    sources: traversal.Sources = None,
    count: Annotated[int | None, typer.Option(min=1, help="Estimate from so many random vertices, not from all.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not divide by the number of pairs of vertices.")] = False,
    runs: traversal.Repeats = 1,
    seed: traversal.Seed = 1,
    gpu_budget: traversal.GpuBudget = None,
    device: traversal.Device = None,
    verify: traversal.Verify = False,
    output: traversal.Output = None,
    stats: traversal.Stats = False,
    json: traversal.Json = False,
) -> None:
    """Find how many shortest paths lead through each vertex, and how fast that went.

    The array of --output is the scores (float64).
    """
    starts = traversal.all_at_once(sources, count, runs, output)
    loaded = graphs.load_graph(graph)
    algorithm = Algorithm(
        name="bc",
        call=graphs.betweenness_centrality,
        array=lambda result: result.scores,
        table=lambda result: by_vertex(score=result.scores),
        found=lambda run: f"from {loaded.num_vertices if run['sources'] is None else len(run['sources']):,} sources",
        verify=lambda graph, sources, result: graphs.verify_betweenness(graph, result, not raw),
        settings={"normalized": not raw},
    )
    options = traversal.Options(None, gpu_budget, device, verify, output, stats, json)
    traversal.traverse(algorithm, loaded, starts(loaded, seed), options)
