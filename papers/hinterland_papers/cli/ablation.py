"""``python -m hinterland_papers ablation``: EMOGI's evaluation on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hinterland.cli.output import emit, print_table
from hinterland.cli.parameters import Device, Json


def ablation(
    graph: Annotated[Path | None, typer.Option(help="A graph file, in place of generated graphs.", exists=True)] = None,
    kind: Annotated[list[str] | None, typer.Option(help="kronecker or uniform; by default both.")] = None,
    scale: Annotated[int | None, typer.Option(min=1, help="2^scale vertices; by default 25 on a GPU, 14 without.")] = None,
    edge_factor: Annotated[int, typer.Option(min=1, help="Edges a vertex, before mirroring.")] = 16,
    sources: Annotated[int, typer.Option(min=1, help="Searches, each from another vertex.")] = 4,
    seed: Annotated[int, typer.Option(help="Of graphs, weights and sources.")] = 1,
    uvm_budget: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="GPU memory that UVM has, as 8GiB; by default all. HINTERLAND_MANAGED_LIMIT=unlimited: edges may exceed it.",
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Make EMOGI's figures of accesses, UVM, widths of edges and work assignments, of generated graphs or of one in a file."""
    from hinterland.graph import load_graph
    from hinterland.runtime import devices

    from ..emogi.ablation import KINDS, ablation_of
    from ..emogi.ablation import ablation as generated

    if graph is not None and (kind or scale is not None):
        raise typer.BadParameter("the file is the graph; leave out --kind and --scale", param_hint="--graph")
    where = devices.as_device(device)
    options: dict[str, Any] = {"sources": sources, "seed": seed, "uvm_budget": uvm_budget}
    told: dict[str, Any] = {**options, "progress": lambda phrase: print(phrase, file=sys.stderr)}
    if graph is not None:
        options["graph"] = str(graph)
        tables = ablation_of([(graph.name, load_graph(graph))], device=where, **told)
    else:
        chosen = scale if scale is not None else 25 if where.type == "cuda" else 14
        sizes: dict[str, Any] = {"scale": chosen, "edge_factor": edge_factor}
        options |= sizes
        tables = generated(kind or KINDS, device=where, **sizes, **told)
    if json:
        emit({"device": str(where), **options, "tables": tables}, True, "")
        return
    for name, rows in tables.items():
        _print(name, rows)


def _print(name: str, rows: list[dict[str, Any]]) -> None:
    from ..emogi.ablation import title

    print_table(
        f"{name.replace('_', ' ').capitalize()}: {title(name)}",
        [(column.replace("_", " "), column != "graph") for column in rows[0]],
        [map(_plain, row.values()) for row in rows],
    )


def _plain(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.3g}" if cell < 100 else f"{cell:,.0f}"
    return str(cell)
