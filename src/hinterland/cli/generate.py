"""``hinterland generate``: makes a random graph or a grid and writes it to a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .output import emit
from .parameters import Device, Json


def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="kronecker (Graph500's), uniform, web, ring or grid.")],
    output: Annotated[Path, typer.Option(help="The file to write; its ending names the format, as in g.hl or g.mtx.")],
    scale: Annotated[int | None, typer.Option(help="2^SCALE vertices.")] = None,
    edge_factor: Annotated[int, typer.Option(help="Edges drawn for each vertex; a grid has its own.")] = 16,
    vertices: Annotated[int | None, typer.Option(help="Vertices of a uniform graph, web or ring, instead of --scale.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a grid, with --cols instead of --scale.")] = None,
    cols: Annotated[int | None, typer.Option(help="Columns of a grid.")] = None,
    missing: Annotated[float | None, typer.Option(help="The part of a grid's edges that are left out.")] = None,
    rewired: Annotated[
        float | None, typer.Option(help="The part of a ring's edges that lead anywhere; 0.02 by default.")
    ] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Keep only the direction in which an edge is drawn.")] = False,
    permute: Annotated[
        bool | None, typer.Option(help="Random vertex numbers, or those of rows, ring or host; by default as the kind has it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same graph on every machine.")] = 1,
    weights: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Add random weights: uint8 or int32 from 1 to 255, or float32 below 1.")
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Make a random graph or a grid without self loops and duplicates, undirected by default."""
    from ..graph import formats, save_graph
    from ..graph import generate as generate_graph

    formats.check_target(output)
    start = time.perf_counter()
    graph = generate_graph(
        kind,
        scale=scale,
        edge_factor=edge_factor,
        vertices=vertices,
        rows=rows,
        cols=cols,
        missing=missing,
        rewired=rewired,
        directed=directed,
        permute=permute,
        seed=seed,
        weights=weights,
        device=device,
    )
    made = time.perf_counter() - start
    save_graph(graph, output)
    written = time.perf_counter() - start - made
    result = {
        "graph": {"vertices": graph.num_vertices, "edges": graph.num_edges},
        "kind": kind,
        "seed": seed,
        "seconds": made,
        "write_seconds": written,
        "file": str(output),
    }
    emit(
        result,
        json,
        f"{output}: {graph.num_vertices:,} vertices, {graph.num_edges:,} stored edges, "
        f"made in {made:.2f} s, written in {written:.2f} s",
    )
