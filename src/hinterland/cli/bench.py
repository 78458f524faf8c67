"""``hinterland bench``: measurements of this library on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, print_table
from .parameters import Device, Json


def bench(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="traversal.")],
    ablated: Annotated[bool, typer.Option("--ablation", help="EMOGI's figures: accesses, UVM, widths, assignments.")] = False,
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
            help="GPU memory that UVM has, as 8GiB; by default all. HINTERLAND_MAPPED_LIMIT=unlimited: edges may exceed it.",
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Measure traversals in the terms of EMOGI's paper, on generated graphs or on one from a file."""
    from ..graph import load_graph
    from ..runtime import devices
    from ..traffic.ablation import KINDS, ablation, ablation_of

    if what != "traversal":
        raise typer.BadParameter(f"{what!r} is nothing that can be measured; write traversal", param_hint="WHAT")
    if not ablated:
        raise typer.BadParameter("say what to measure: --ablation", param_hint="traversal")
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
        tables = ablation(kind or KINDS, device=where, **sizes, **told)
    if json:
        emit({"device": str(where), **options, "tables": tables}, True, "")
        return
    for name, rows in tables.items():
        _print(name, rows)


def _print(name: str, rows: list[dict[str, Any]]) -> None:
    from ..traffic.ablation import title

    print_table(
        f"{name.replace('_', ' ').capitalize()}: {title(name)}",
        [(column.replace("_", " "), column != "graph") for column in rows[0]],
        [map(_plain, row.values()) for row in rows],
    )


def _plain(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.3g}" if cell < 100 else f"{cell:,.0f}"
    return str(cell)
