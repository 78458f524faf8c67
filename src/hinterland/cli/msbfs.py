"""``hinterland msbfs``: breadth-first search from many sources at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import parameters


def msbfs(
    graph: parameters.GraphFile,
    *,
    sources: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Begin at all vertices in this file: one number or name a line, or .npy."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Begin at so many random vertices; 64 without --sources.")] = None,
    runs: parameters.Repeats = 1,
    seed: parameters.Seed = 1,
    mode: parameters.Mode = "auto",
    options: parameters.Options,
) -> None:
    """Find the distance of every vertex from each of many sources, reading the edges for all of them together.

    The array of --output is the levels (int32, a row for each source, -1 where unreachable); the table says what each reached.
    """
    import torch

    from .. import graph as graphs
    from .traversal import Algorithm, all_at_once, load, traverse

    output = options.output
    starts = all_at_once(sources, 64 if sources is None and count is None else count, runs, output)
    loaded = load(graph, options)
    drawn = starts(loaded, seed)
    algorithm = Algorithm(
        name="msbfs",
        call=graphs.multi_source_bfs,
        mode=mode,
        array=lambda result: result.levels,
        table=lambda result: {
            "source": torch.tensor(drawn.runs[-1]["sources"]),
            "reached": result.reached,
            "distance_sum": result.distance_sum,
            "eccentricity": result.eccentricity,
        },
        found=lambda run: f"{len(run['sources'])} sources reach {run['reached_by_all']:,} vertices together",
        settings={"levels": options.verify or (output is not None and output.suffix != ".parquet")},
        fields=_totals,
        verify=graphs.verify_multi_source_bfs,
    )
    traverse(algorithm, loaded, drawn, options)


def _totals(result: Any) -> dict[str, int]:
    return {"reached_by_all": int(result.reached.sum())}
