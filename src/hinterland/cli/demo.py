"""``hinterland demo``: the library's main job in one short run, on whatever this machine has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..runtime.units import format_bytes, format_rate
from .output import emit
from .parameters import Json


def demo(
    graph: Annotated[
        Path | None, typer.Option(help="A graph file of any format; without it a Kronecker graph is generated.")
    ] = None,
    scale: Annotated[
        int | None, typer.Option(min=1, max=30, help="Two to this power is the number of generated vertices.")
    ] = None,
    json: Json = False,
) -> None:
    """Put a graph and a feature table in host memory, traverse one, gather from the other, and say what moved."""
    from ..demo import run

    if graph is not None and scale is not None:
        raise typer.BadParameter("a graph file has its own size; leave out --scale", param_hint="--scale")
    found = run(graph, scale, say=lambda phrase: print(f"... {phrase}", file=sys.stderr))
    emit(found, json, "" if json else _text(found))


def _text(found: dict[str, Any]) -> str:
    from ..probe.report import format_count, format_seconds

    graph, gather = found["graph"], found["gather"]
    origin = graph.get("file") or f"Kronecker graph of scale {graph.get('scale')}"
    lines = [
        f"Hinterland on {found['machine']}",
        "",
        f"Graph     {origin}: {graph['vertices']:,} vertices, {graph['edges']:,} edges, "
        f"ready in {format_seconds(graph['seconds'])}",
        "",
        "Tiers     what lies where",
    ]
    for tier in found["tiers"]:
        where = "GPU memory" if tier["placement"] == "gpu" else f"host memory, {tier['placement']}"
        lines.append(f"          {tier['what']:<10}{format_bytes(tier['bytes']):>12}   {where}")
    lines += ["", "Search    breadth-first, every run verified by Graph500's rules"]
    for run_ in found["runs"]:
        levels = len(run_["levels"])
        lines.append(
            f"          from {run_['source']:,}: {_plural(run_['reached'], 'vertex', 'vertices')} in "
            f"{_plural(levels, 'level', 'levels')}, "
            f"{format_seconds(run_['seconds'])}, {format_count(run_['teps'])} edges/s"
        )
        lines.append(f"          {_moved(run_)}")
    lines += [
        "",
        f"Gather    {gather['rows']:,} random rows of {gather['row_bytes']} B in {format_seconds(gather['seconds'])}, "
        "equal to torch's",
        f"          {_moved(gather)}",
        "",
    ]
    if found["link"]:
        lines += [f"Link      the copy engine moves {format_rate(found['link']['h2d'])} from host to GPU", ""]
    lines += [f"Storage   {found['storage']['why'] or 'files would be read by io_uring'}", ""]
    lines += ["Python    the same in five lines", *(f"          {line}" for line in found["python"].splitlines())]
    return "\n".join(lines)


def _plural(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def _moved(part: dict[str, Any]) -> str:
    share = f", {part['share']:.0%} of the link" if part["share"] is not None else ""
    return f"{format_bytes(part['bytes'])} read, {format_rate(part['bandwidth'])}{share}"
