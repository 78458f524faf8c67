"""``hinterland cc``: connected components of a graph file."""

from __future__ import annotations

from typing import Any

from . import parameters


def cc(
    graph: parameters.GraphFile,
    *,
    runs: parameters.Repeats = 1,
    mode: parameters.Mode = "auto",
    access: parameters.Access = None,
    options: parameters.Options,
) -> None:
    """Find the connected components, whatever the directions of the edges, and how fast that went.

    The array of --output is each vertex's component, named by its smallest vertex (int64).
    """
    from .. import graph as graphs
    from .traversal import Algorithm, Starts, by_vertex, load, traverse

    loaded = load(graph, options)
    algorithm = Algorithm(
        name="cc",
        call=graphs.connected_components,
        mode=mode,
        array=lambda result: result.labels,
        table=lambda result: by_vertex(component=result.labels),
        found=lambda run: f"{run['components']:,} components, the largest of {run['largest']:,} vertices",
        fields=_sizes,
        verify=graphs.verify_components,
    )
    traverse(algorithm, loaded, Starts([{}] * runs, []), options)


def _sizes(result: Any) -> dict[str, int]:
    return {"components": result.count, "largest": int(result.labels.cpu().bincount(minlength=1).max())}
