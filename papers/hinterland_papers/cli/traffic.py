"""``python -m hinterland_papers traffic``: what a traversal asks of the link between GPU and host, counted without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hinterland.cli.output import emit
from hinterland.cli.parameters import GraphFile, Json
from hinterland.runtime.units import format_bytes, format_rate

if TYPE_CHECKING:
    from ..emogi.traffic import LinkModel, Traffic


def traffic(
    graph: GraphFile,
    algorithm: Annotated[str, typer.Option(help="bfs, sssp, cc or pagerank.")] = "bfs",
    access: Annotated[str, typer.Option(help="naive, merged or aligned.")] = "aligned",
    assignment: Annotated[str, typer.Option(help="warp, chunked, transposed, coarsened, odt or odt-active.")] = "warp",
    size: Annotated[int | None, typer.Option(help="Vertices of a worker, stride, or elements of a tile.")] = None,
    edge_bytes: Annotated[int | None, typer.Option(help="4 or 8; by default what the graph has.")] = None,
    source: Annotated[int | None, typer.Option(help="The vertex to begin at; by default one drawn at random.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the source, among vertices that have neighbours.")] = 1,
    rate: Annotated[float | None, typer.Option(help="The link's GB/s, overhead included; by default as measured.")] = None,
    latency: Annotated[float | None, typer.Option(help="The link's microseconds a request; by default as measured.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture (.png, .svg or .pdf).")] = None,
    json: Json = False,
) -> None:
    """Count the link requests of a traversal by size, as EMOGI's FPGA did, and estimate bandwidth and requests in flight."""
    from hinterland.graph import load_graph
    from hinterland.graph.sources import draw_sources
    from hinterland.runtime.files import check_place
    from hinterland.runtime.pictures import check_plot

    from ..emogi.traffic import analyse
    from ..emogi.traffic.plot import plot as write_plot

    link = _link(rate, latency)
    if plot is not None:
        check_plot(plot)
        check_place(plot)
    loaded = load_graph(graph)
    if source is None and algorithm in ("bfs", "sssp"):
        source = draw_sources(loaded, 1, seed)[0]
    found = analyse(loaded, algorithm, source, access, assignment, edge_bytes, size, link)
    if plot is not None:
        write_plot(found, plot)
        print(f"wrote {plot}", file=sys.stderr)
    emit(found.to_json(), json, "" if json else _text(found))


def _link(rate: float | None, latency: float | None) -> LinkModel:
    from ..emogi.traffic import LinkModel

    here = LinkModel.here()
    if rate is None and latency is None:
        return here
    return LinkModel.of(here.rate if rate is None else rate * 1e9, here.latency if latency is None else latency * 1e-6)


def _text(found: Traffic) -> str:
    from hinterland.memory.count import SIZES

    run, link, total = found.run, found.link, found.total
    where = "" if run["source"] is None else f" from {run['source']:,}"
    policies = f"access {run['access']}, assignment {run['assignment']}, edges of {run['edge_bytes']} bytes"
    origin = "measured here" if link.measured else "not measured here"
    moved, useful = format_bytes(total["bytes"]), format_bytes(total["useful_bytes"])
    columns = " ".join(f"{f'{size} B':>12}" for size in SIZES)
    lines = [
        f"{run['algorithm']}{where}, {policies}",
        f"link: {format_rate(link.rate)}, {link.latency * 1e6:.2f} us, {link.overhead} bytes a request besides ({origin})",
        f"{moved} for {useful} of lists: amplification {total['amplification']:.3f}, {total['over_dataset']:.3f} of all arrays",
        f"{total['seconds'] * 1e3:.2f} ms, {format_rate(total['bandwidth'])}, {total['in_flight']:.0f} requests in flight",
        "",
        f"{'level':>5} {'vertices':>12} {columns} {'bytes':>11} {'GB/s':>6} {'flight':>7}",
    ]
    for level in found.levels:
        counts = " ".join(f"{level['requests'][str(size)]:>12,}" for size in SIZES)
        lines.append(
            f"{level['level']:>5} {level['vertices']:>12,} {counts} {format_bytes(level['bytes']):>11} "
            f"{level['bandwidth'] / 1e9:>6.1f} {level['in_flight']:>7.0f}"
        )
    return "\n".join(lines)
