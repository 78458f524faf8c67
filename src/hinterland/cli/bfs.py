"""``hinterland bfs``: breadth-first search over a graph file."""

from __future__ import annotations

import typer

from .. import graph as graphs
from . import traversal
from .traversal import Algorithm, by_vertex


def register(app: typer.Typer) -> None:
    app.command("bfs")(bfs)


BFS = Algorithm(
    name="bfs",
    call=graphs.bfs,
    array=lambda result: result.levels,
    table=lambda result: by_vertex(level=result.levels, parent=result.parents),
    found=lambda run: f"{run['reached']:,} vertices in {run['levels']} levels",
    verify=graphs.verify_bfs,
)


def bfs(
    graph: traversal.GraphFile,
    source: traversal.Source = "random",
    sources: traversal.Sources = None,
    runs: traversal.Runs = 1,
    seed: traversal.Seed = 1,
    mode: traversal.Mode = "auto",
    gpu_budget: traversal.GpuBudget = None,
    device: traversal.Device = None,
    verify: traversal.Verify = False,
    output: traversal.Output = None,
    stats: traversal.Stats = False,
    json: traversal.Json = False,
) -> None:
    """Find the distance of every vertex from a source, and how fast that went.

    Edges per second (TEPS) are the out-edges of all reached vertices, divided by the time of the search. Bytes are what was
    read from the edge array, in whole 32-byte sectors. The array of --output is the levels (int32, -1 where unreachable).
    """
    starts = traversal.single_source(source, sources, runs, output)
    loaded = graphs.load_graph(graph)
    options = traversal.Options(mode, gpu_budget, device, verify, output, stats, json)
    traversal.traverse(BFS, loaded, starts(loaded, seed), options)
