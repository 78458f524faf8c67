"""``hinterland sswp``: widest paths over a weighted graph file."""

from __future__ import annotations

import typer

from .. import graph as graphs
from . import traversal
from .traversal import Algorithm, by_vertex


def register(app: typer.Typer) -> None:
    app.command("sswp")(sswp)


def sswp(
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
    """Find the widest path to every vertex from a source: its narrowest edge is as wide as can be.

    The array of --output is the widths (-2^63, or -inf for float weights, where unreachable).
    """
    starts = traversal.single_source(source, sources, runs, output)
    loaded = traversal.with_weights(graphs.load_graph(graph), random_weights, seed)
    algorithm = Algorithm(
        name="sswp",
        call=graphs.sswp,
        array=lambda result: result.widths,
        table=lambda result: by_vertex(width=result.widths),
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} steps",
        verify=graphs.verify_sswp,
    )
    options = traversal.Options(mode, gpu_budget, device, verify, output, stats, json)
    traversal.traverse(algorithm, loaded, starts(loaded, seed), options)
