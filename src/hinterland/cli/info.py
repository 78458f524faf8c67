"""``hinterland info FILE``: what a graph file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..runtime.arguments import one_line
from .output import emit
from .parameters import Ids, Json


def info(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A graph in any format that is read.")],
    placement: Annotated[
        str, typer.Option(help="pageable, or storage: an .hl file is read and checked a piece at a time, and not held.")
    ] = "pageable",
    host_budget: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --placement storage: most host memory for its pages, as 32MiB.")
    ] = None,
    ids: Ids = None,
    json: Json = False,
) -> None:
    """Describe a graph: the whole file is read and checked, so what it prints is what a traversal would see."""
    from ..graph import formats, load_graph
    from ..graph.arrays import index_dtype
    from ..graph.compress import bits_per_edge

    kind = formats.detect(file)
    graph = load_graph(file, placement, transpose=False, host_budget=host_budget, ids=ids)
    if placement == "storage":
        formats.hl.check(file)
    degrees, weights = graph.degrees(), graph.weight_type
    loops, _, ascending = formats.survey(graph)
    result: dict[str, Any] = {
        "file": file,
        "format": kind,
        "file_bytes": sum(Path(path).stat().st_size for path in formats.files_of(file)),
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "directed": graph.directed,
        "weighted": weights is not None,
        "max_degree": int(degrees.max()) if graph.num_vertices else 0,
        "mean_degree": round(graph.num_edges / graph.num_vertices, 4) if graph.num_vertices else 0.0,
        "isolated": int((degrees == 0).sum()),
        "self_loops": loops,
        "sorted": ascending,
        "index_bytes": index_dtype(graph.num_vertices).itemsize,
        "compressed": graph.is_compressed,
        "reordered": graph.original_ids is not None,
        "named": graph.labels is not None,
        "in_neighbours": formats.hl.has_incoming(file) if kind == "hl" else graph.directed and kind in ("sg", "wsg"),
        "bits_per_edge": round(bits_per_edge(graph), 3),
        "memory_bytes": graph.nbytes,
    }
    if weights is not None:
        result["weight_type"] = str(weights).removeprefix("torch.")
        spread = graph.weight_range
        if graph.num_edges and spread is not None:
            result["weights"] = [spread.least, spread.most]
    width = max(map(len, result))
    emit(result, json, "\n".join(f"{key.replace('_', ' '):{width}}  {_repr_of(value)}" for key, value in result.items()))


def _repr_of(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))
