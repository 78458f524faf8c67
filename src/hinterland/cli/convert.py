"""``hinterland convert IN OUT``: a graph from one file format to another."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..runtime.errors import ConfigError
from ..runtime.units import format_rate
from .output import emit
from .parameters import Json


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="The graph to read; its content tells the format.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending tells the format.")],
    symmetrize: Annotated[bool, typer.Option("--symmetrize", help="Add the reverse of every edge.")] = False,
    remove_self_loops: Annotated[
        bool, typer.Option("--remove-self-loops", help="Leave out edges from a vertex to itself.")
    ] = False,
    remove_duplicates: Annotated[
        bool, typer.Option("--remove-duplicates", help="Keep one of several edges with the same ends.")
    ] = False,
    packed: Annotated[bool, typer.Option("--compress", help="Pack the neighbour lists; only .hl holds them.")] = False,
    reorder: Annotated[
        str | None, typer.Option(help="Renumber the vertices first: degree, bfs or rcm; .hl keeps their old numbers.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Format to write, whatever the ending: hl, mtx, edges, gr, sg, wsg, bel, npz, npy.")
    ] = None,
    json: Json = False,
) -> None:
    """Convert a graph file, for example to .hl, which loads fastest."""
    from ..graph import compress, formats, load_graph, save_graph
    from ..graph import reorder as reordered
    from ..graph.compress import bits_per_edge

    write = formats.check_target(target, format)
    if (packed or reorder) and write is not formats.FORMATS["hl"].write:
        raise ConfigError(f"{target}: only .hl holds packed lists and vertex orders; let the name end with .hl")
    start = time.perf_counter()
    graph = load_graph(
        source,
        "heap",
        symmetrize=symmetrize,
        remove_self_loops=remove_self_loops,
        remove_duplicates=remove_duplicates,
        transpose=False,
    )
    loaded = time.perf_counter()
    print(f"read {source} in {loaded - start:.2f} s: {graph}", file=sys.stderr)
    if reorder:
        graph = reordered(graph, reorder)
    if packed:
        graph = compress(graph)
    changed = time.perf_counter()
    save_graph(graph, target, format)
    saved = time.perf_counter()
    written = sum(Path(path).stat().st_size for path in formats.files_of(target))
    result: dict[str, Any] = {
        "input": source,
        "output": target,
        "format": formats.detect(target),
        "graph": {"vertices": graph.num_vertices, "edges": graph.num_edges},
        "bytes": written,
        "seconds": {"read": round(loaded - start, 4), "write": round(saved - changed, 4)},
    }
    if packed or reorder:
        result["seconds"]["compress"] = round(changed - loaded, 4)
    if graph.is_compressed:
        result["bits_per_edge"] = round(bits_per_edge(graph), 3)
    text = (
        f"{target}: {graph.num_vertices:,} vertices, {graph.num_edges:,} stored edges, {written:,} bytes "
        f"at {format_rate(written / max(saved - changed, 1e-9))}"
    )
    emit(result, json, text)
