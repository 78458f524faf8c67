"""``hinterland bfs``: breadth-first search over a graph file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from ..graph import BfsResult, from_edges, load_graph, verify_bfs
from ..graph import bfs as search
from ..graph.sources import draw_sources
from ..probe.link import copy_rates
from ..runtime import devices
from ..runtime.files import replacing, writing
from ..runtime.units import format_bytes, format_rate
from .output import emit


def register(app: typer.Typer) -> None:
    app.command("bfs")(bfs)


def bfs(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="A graph file of any format that convert reads.")],
    source: Annotated[str, typer.Option(help="The vertex to begin at, or random.")] = "random",
    runs: Annotated[int, typer.Option(min=1, help="Searches; each from a new vertex if the source is random.")] = 1,
    seed: Annotated[int, typer.Option(help="Draws the random sources, among vertices that have neighbours.")] = 1,
    verify: Annotated[bool, typer.Option("--verify", help="Check every result by Graph500's rules.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write the levels (int32, -1 where unreachable) as .npy.")] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Also report each level.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default the GPU, if there is one.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Find the distance of every vertex from a source, and how fast that went.

    Edges per second (TEPS) are the out-edges of all reached vertices, divided by the time of the search. Bytes are what was
    read from the edge array, in whole 32-byte sectors.
    """
    vertex = _source(source)
    if output is not None and vertex is None and runs > 1:
        raise typer.BadParameter("one file holds the levels of one source; leave out --runs", param_hint="--output")
    loaded = load_graph(graph)
    sources = [vertex] * runs if vertex is not None else draw_sources(loaded, runs, seed)
    ceiling = _prepare(device)
    done: list[dict[str, Any]] = []
    for number in sources:
        result = search(loaded, number, device=device, stats=True)
        done.append(_run(number, result, ceiling))
        if verify:
            verify_bfs(loaded, number, result)
            done[-1]["verified"] = True
            print(f"hinterland: the search from {number} obeys Graph500's rules", file=sys.stderr)
        if not stats:
            del done[-1]["per_level"]
    if output is not None:
        _write_npy(output, result.levels)
    counts = {"vertices": loaded.num_vertices, "edges": loaded.num_edges}
    moved = sum(run["bytes"] for run in done)
    emit({"graph": counts, "runs": done, "bytes": moved, "link": _link(done)}, json, "" if json else _text(counts, done))


def _source(text: str) -> int | None:
    if text == "random":
        return None
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a vertex number nor random", param_hint="--source") from None


def _prepare(device: str | None) -> float | None:
    """What the copy engine moves now, in bytes a second; None on the CPU. Loads the kernels, so that no run's time has that."""
    where = devices.as_device(device)
    if where.type == "cpu":
        return None
    one_edge = from_edges(torch.tensor([0]), torch.tensor([1]))
    search(one_edge, 0, device=where, stats=True)
    return copy_rates(where)[0]


def _run(source: int, result: BfsResult, ceiling: float | None) -> dict[str, Any]:
    stats = result.stats
    assert stats is not None
    if ceiling is not None and stats["link"] is not None:
        stats["link"]["ceiling"] = ceiling
        for part in (stats["link"], stats["link"]["heavy"]):
            part["share"] = part["bandwidth"] / ceiling
    kept = ("device", "seconds", "levels", "reached", "edges", "bytes", "link", "per_level")
    return {"source": source, **{key: stats[key] for key in kept}, "teps": stats["edges"] / stats["seconds"]}


def _link(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What crossed the link between host and GPU over all runs; None where nothing did."""
    if any(run["link"] is None for run in runs):
        return None
    ceiling = runs[0]["link"]["ceiling"]
    bandwidth = sum(run["bytes"] for run in runs) / sum(run["seconds"] for run in runs)
    return {"bandwidth": bandwidth, "ceiling": ceiling, "share": bandwidth / ceiling if ceiling else None}


def _text(counts: dict[str, int], runs: list[dict[str, Any]]) -> str:
    lines = [f"{counts['vertices']:,} vertices, {counts['edges']:,} stored edges, on {runs[0]['device']}"]
    for run in runs:
        lines.append(
            f"source {run['source']:,}: {run['reached']:,} vertices in {run['levels']} levels, {run['seconds'] * 1e3:.2f} ms, "
            f"{run['teps'] / 1e6:,.1f} M edges/s, {format_bytes(run['bytes'])} read{_share(run)}"
            + (", verified" if run.get("verified") else "")
        )
        lines += [_level_text(level) for level in run.get("per_level", ())]
    return "\n".join(lines)


def _share(run: dict[str, Any]) -> str:
    link = run["link"]
    if link is None:
        return ""
    share = "" if link["share"] is None else f" ({link['share']:.0%} of the link)"
    return f" over the link at {format_rate(link['bandwidth'])}{share}"


def _level_text(level: dict[str, Any]) -> str:
    return (
        f"  level {level['level']:>4}: {level['vertices']:>12,} vertices {level['edges']:>14,} edges "
        f"{format_bytes(level['bytes']):>12} {level['seconds'] * 1e3:>10.3f} ms"
    )


def _write_npy(path: Path, tensor: torch.Tensor) -> None:
    """Writes the array under its name whole or not at all."""
    with replacing(path) as output, writing(path):
        np.lib.format.write_array(output.file, tensor.cpu().numpy(), allow_pickle=False)
