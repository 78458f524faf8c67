"""``hinterland sssp``: shortest paths over a weighted graph file."""

from __future__ import annotations

import typer

from .. import graph as graphs
from . import traversal
from .traversal import Algorithm, by_vertex


def register(app: typer.Typer) -> None:
    app.command("sssp")(sssp)


def sssp(
    graph: traversal.GraphFile,
    source: traversal.Source = "random",
    sources: traversal.Sources = None,
    runs: traversal.Runs = 1,
    seed: traversal.Seed = 1,
    random_weights: traversal.RandomWeights = None,
    mode: traversal.Mode = "auto",
    gpu_budget: traversal.GpuBudget = None,
    device: traversal.Device = None,
    verify: traversal.Verify = False,
    output: traversal.Output = None,
    stats: traversal.Stats = False,
    json: traversal.Json = False,
) -> None:
    """Find the shortest distance of every vertex from a source by edge weights, and how fast that went.

    The array of --output is the distances (-1, or inf for float weights, where unreachable).
    """
    starts = traversal.single_source(source, sources, runs, output)
    loaded = traversal.with_weights(graphs.load_graph(graph), random_weights, seed)
    algorithm = Algorithm(
        name="sssp",
        call=graphs.sssp,
        array=lambda result: result.distances,
        table=lambda result: by_vertex(distance=result.distances),
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} steps",
        verify=graphs.verify_sssp,
    )
    options = traversal.Options(mode, gpu_budget, device, verify, output, stats, json)
    traversal.traverse(algorithm, loaded, starts(loaded, seed), options)
