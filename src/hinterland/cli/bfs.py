"""``hinterland bfs``: breadth-first search over a graph file."""

from __future__ import annotations

import typer

from . import parameters


def register(app: typer.Typer) -> None:
    app.command("bfs")(bfs)


def bfs(
    graph: parameters.GraphFile,
    source: parameters.Source = "random",
    sources: parameters.Sources = None,
    runs: parameters.Runs = 1,
    seed: parameters.Seed = 1,
    mode: parameters.Mode = "auto",
    gpu_budget: parameters.GpuBudget = None,
    device: parameters.Device = None,
    verify: parameters.Verify = False,
    output: parameters.Output = None,
    stats: parameters.Stats = False,
    json: parameters.Json = False,
) -> None:
    """Find the distance of every vertex from a source, and how fast that went.

    Edges per second (TEPS) are the out-edges of all reached vertices, divided by the time of the search. Bytes are what was
    read from the edge array, in whole 32-byte sectors. The array of --output is the levels (int32, -1 where unreachable).
    """
    from .. import graph as graphs
    from . import traversal
    from .traversal import Algorithm, by_vertex

    starts = traversal.single_source(source, sources, runs, output)
    loaded = graphs.load_graph(graph)
    algorithm = Algorithm(
        name="bfs",
        call=graphs.bfs,
        array=lambda result: result.levels,
        table=lambda result: by_vertex(level=result.levels, parent=result.parents),
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} levels",
        verify=graphs.verify_bfs,
    )
    options = parameters.Options(mode, gpu_budget, device, verify, output, stats, json)
    traversal.traverse(algorithm, loaded, starts(loaded, seed), options)
