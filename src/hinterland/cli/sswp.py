"""``hinterland sswp``: widest paths over a weighted graph file."""

from __future__ import annotations

import typer

from . import parameters


def register(app: typer.Typer) -> None:
    app.command("sswp")(sswp)


def sswp(
    graph: parameters.GraphFile,
    source: parameters.Source = "random",
    sources: parameters.Sources = None,
    runs: parameters.Runs = 1,
    seed: parameters.Seed = 1,
    random_weights: parameters.RandomWeights = None,
    mode: parameters.Mode = "auto",
    gpu_budget: parameters.GpuBudget = None,
    device: parameters.Device = None,
    verify: parameters.Verify = False,
    output: parameters.Output = None,
    stats: parameters.Stats = False,
    json: parameters.Json = False,
) -> None:
    """Find the widest path to every vertex from a source: its narrowest edge is as wide as can be.

    The array of --output is the widths (-2^63, or -inf for float weights, where unreachable).
    """
    from .. import graph as graphs
    from . import traversal
    from .traversal import Algorithm, by_vertex

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
    options = parameters.Options(mode, gpu_budget, device, verify, output, stats, json)
    traversal.traverse(algorithm, loaded, starts(loaded, seed), options)
