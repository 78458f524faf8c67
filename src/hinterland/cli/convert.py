"""``hinterland convert IN OUT``: a graph from one file format to another."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.errors import ConfigError
from ..runtime.units import format_bytes, format_rate, parse_bytes
from .output import emit
from .parameters import Ids, Json

if TYPE_CHECKING:
    from ..graph import Graph


@dataclass(frozen=True)
class EdgeChanges:
    """What becomes of the edges on the way."""

    symmetrize: Annotated[bool, typer.Option("--symmetrize", help="Add the reverse of every edge.")] = False
    remove_self_loops: Annotated[bool, typer.Option("--remove-self-loops", help="Leave out edges from a vertex to itself.")] = (
        False
    )
    remove_duplicates: Annotated[
        bool, typer.Option("--remove-duplicates", help="Keep one of several edges with the same ends.")
    ] = False
    ids: Ids = None


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="The graph to read; its content tells the format.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending tells the format.")],
    *,
    changes: EdgeChanges,
    packed: Annotated[bool, typer.Option("--compress", help="Pack the neighbour lists; only .hl holds them.")] = False,
    reorder: Annotated[
        str | None, typer.Option(help="Renumber the vertices first: degree, bfs or rcm; .hl keeps their old numbers.")
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(help="storage: write for being read in place: an .hl with lists of in-neighbours, if it is directed."),
    ] = None,
    host_budget: Annotated[
        str, typer.Option(metavar="SIZE", help="With --placement storage: memory in which lists are turned round.")
    ] = "1GiB",
    format: Annotated[
        str | None, typer.Option(help="Format to write, whatever the ending: hl, mtx, edges, gr, sg, wsg, bel, npz, npy.")
    ] = None,
    json: Json = False,
) -> None:
    """Convert a graph file, for example to .hl, which loads fastest."""
    from ..graph import compress, formats, save_graph
    from ..graph import reorder as reordered
    from ..graph.compress import bits_per_edge

    write = formats.check_target(target, format)
    is_ours = write is formats.FORMATS["hl"].write
    if (packed or reorder) and not is_ours:
        raise ConfigError(f"{target}: only .hl holds packed lists and vertex orders; let the name end with .hl")
    if placement not in (None, "storage") or (placement and not is_ours):
        raise ConfigError(f"--placement {placement}: only storage says how a file is written, and only .hl is read in place")
    budget = parse_bytes(host_budget)
    start = time.perf_counter()
    graph = _loaded(source, changes, budget if placement and not (packed or reorder) else None)
    loaded = time.perf_counter()
    print(f"read {source} in {loaded - start:.2f} s: {graph}", file=sys.stderr)
    if graph.labels is not None and not is_ours:
        print(
            f"hinterland: {target} has vertices by number, in the order of their names, which only .hl holds", file=sys.stderr
        )
    if reorder:
        graph = reordered(graph, reorder)
    if packed:
        graph = compress(graph)
    changed = time.perf_counter()
    if placement and graph.directed:
        what = "whole, in memory" if graph.is_compressed else f"within {format_bytes(budget)}"
        print(f"hinterland: lists of in-neighbours are built {what}, and written beside the others", file=sys.stderr)
    taken = sum(cache.host_budget for cache in graph.neighbor_lists.stored.caches)
    save_graph(graph, target, format, transpose=placement is not None, host_budget=max(budget - taken, 0))
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


def _loaded(source: str, changes: EdgeChanges, budget: int | None) -> Graph:
    """The graph of a file, in pageable memory. With a ``budget`` the edges of one of ours stay in it, if they are written as
    they are."""
    from ..graph import formats, load_graph

    if budget is not None and not any(vars(changes).values()) and formats.detect(source) == "hl":
        formats.hl.check(source)
        graph = load_graph(source, "storage", transpose=False, host_budget=max(budget // 4, 1 << 16))
        if not graph.is_compressed:  # those are turned round whole
            return graph
    return load_graph(source, "pageable", transpose=False, **vars(changes))
