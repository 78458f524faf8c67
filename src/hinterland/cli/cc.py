"""``hinterland cc``: connected components of a graph file."""

from __future__ import annotations

from typing import Any

import typer

from .. import graph as graphs
from . import traversal
from .traversal import Algorithm, by_vertex


def register(app: typer.Typer) -> None:
    app.command("cc")(cc)


def cc(
    graph: traversal.GraphFile,
    runs: traversal.Repeats = 1,
    mode: traversal.Mode = "auto",
    gpu_budget: traversal.GpuBudget = None,
    device: traversal.Device = None,
    verify: traversal.Verify = False,
    output: traversal.Output = None,
    stats: traversal.Stats = False,
    json: traversal.Json = False,
) -> None:
    """Find the connected components, whatever the directions of the edges, and how fast that went.

    The array of --output is each vertex's component, named by its smallest vertex (int64).
    """
    loaded = graphs.load_graph(graph)
    algorithm = Algorithm(
        name="cc",
        call=graphs.connected_components,
        array=lambda result: result.labels,
        table=lambda result: by_vertex(component=result.labels),
        found=lambda run: f"{run['components']:,} components, the largest of {run['largest']:,} vertices",
        fields=_sizes,
        verify=graphs.verify_components,
    )
    options = traversal.Options(mode, gpu_budget, device, verify, output, stats, json)
    traversal.traverse(algorithm, loaded, traversal.Starts([{}] * runs, []), options)


def _sizes(result: Any) -> dict[str, int]:
    return {"components": result.count, "largest": int(result.labels.cpu().bincount(minlength=1).max())}
