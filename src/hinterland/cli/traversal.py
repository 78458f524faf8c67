"""What the commands that run an algorithm do: the runs and their average, what is printed and written."""

from __future__ import annotations

import inspect
import re
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from ..graph import Graph, from_edges, load_graph, prepare, random_weights
from ..graph.algorithms import Algorithm
from ..graph.reorder import restored
from ..graph.sources import draw_sources, read_sources
from ..probe.link import copy_rates
from ..runtime import devices
from ..runtime.errors import ConfigError, GraphError
from ..runtime.files import check_place, replacing, writing
from ..runtime.units import format_bytes, format_rate
from .output import emit
from .parameters import MOST_RUNS, RunOptions


@dataclass(frozen=True)
class Job:
    """An algorithm, and how it is run.

    Attributes:
        algorithm: its record.
        verify: its verifier.
        settings: arguments that all runs share.
        prepared: whether it takes a graph that is prepared for several runs.
    """

    algorithm: Algorithm
    verify: Callable[..., None]
    settings: Mapping[str, Any]
    prepared: bool = True


@dataclass(frozen=True)
class Starts:
    """What each run begins with, as arguments by name, and the sources that are not worth a run."""

    runs: list[dict[str, Any]]
    left_out: list[int]


def single_source(source: str, sources: Path | None, runs: int, output: Path | None) -> Callable[[Graph, int], Starts]:
    """The starts that the options ask for, once the graph is there. Wrong options are refused before it is loaded."""
    if sources is not None:
        if source != "random" or runs != 1:
            raise typer.BadParameter("the file says where to begin; leave out --source and --runs", param_hint="--sources")
        one = False
    else:
        one = runs == 1 or source != "random"
    if output is not None and not one:
        raise typer.BadParameter("one file holds the result of one source; begin at a single one", param_hint="--output")

    def starts(graph: Graph, seed: int) -> Starts:
        if sources is None:
            drawn = draw_sources(graph, runs, seed) if source == "random" else [_vertex(graph, source)] * runs
            return Starts([{"source": vertex} for vertex in drawn], [])
        return _worth_a_run(sources, graph)

    return starts


def all_at_once(
    sources: Path | None, count: int | None, runs: int, output: Path | None, own_draw: bool = False
) -> Callable[[Graph, int], Starts]:
    """Runs that begin at several vertices: those of a file, ``count`` random ones, new for each run, or where neither is given
    the algorithm's own choice. With ``own_draw`` the algorithm draws the random ones itself, from the seed it is given."""
    if sources is not None and count is not None:
        raise typer.BadParameter("the file says where to begin; leave out --count", param_hint="--sources")
    if output is not None and count is not None and runs > 1:
        raise typer.BadParameter("one file holds the result of one run; leave out --runs", param_hint="--output")
    if count is not None and not own_draw and count * runs > MOST_RUNS:
        raise typer.BadParameter(f"{count * runs:,} sources in all runs; at most {MOST_RUNS:,} are drawn", param_hint="--count")

    def starts(graph: Graph, seed: int) -> Starts:
        if sources is not None:
            return Starts([{"sources": read_sources(sources, graph)}] * runs, [])
        if count is None:
            return Starts([{"sources": None}] * runs, [])
        if own_draw:
            return Starts([{"sources": count, "seed": seed + i} for i in range(runs)], [])
        drawn = draw_sources(graph, count * runs, seed)
        return Starts([{"sources": drawn[i * count : (i + 1) * count]} for i in range(runs)], [])

    return starts


def shares(file: Path, graph: Graph) -> torch.Tensor:
    """The same share for each vertex in a file, none for others: float64 ``[num_vertices]``."""
    found = torch.zeros(graph.num_vertices, dtype=torch.float64)
    found[read_sources(file, graph)] = 1
    return found


def _vertex(graph: Graph, source: str) -> int:
    """The vertex that is called so, or has this number where vertices have no names."""
    number = int(source) if re.fullmatch("-?[0-9]{1,20}", source) else None
    if graph.labels is None and number is not None:
        return number
    for name in (source, number):
        if graph.labels is not None and name in graph.labels:
            return graph.labels.index(name)
    what = "a vertex number" if graph.labels is None else "the name of a vertex"
    raise typer.BadParameter(f"{source!r} is neither {what} nor random", param_hint="--source")


def _worth_a_run(path: Path, graph: Graph) -> Starts:
    """The sources of a file, but for those without neighbours, which the paper leaves out of its averages too (Min 2022,
    section 2.5.2)."""
    listed = read_sources(path, graph)
    degrees = graph.degrees().cpu()[graph.to_internal(torch.tensor(listed))].tolist()
    kept = [vertex for vertex, degree in zip(listed, degrees, strict=True) if degree]
    left_out = [vertex for vertex, degree in zip(listed, degrees, strict=True) if not degree]
    if not kept:
        raise GraphError(f"{path}: none of its {len(listed)} vertices has a neighbour; list others")
    if left_out:
        print(f"hinterland: left out {len(left_out)} of {len(listed)} sources, which have no neighbours", file=sys.stderr)
    return Starts([{"source": vertex} for vertex in kept], left_out)


def with_weights(graph: Graph, drawn: str | None, seed: int) -> Graph:
    """``graph`` with its weights, or with random ones of the type that ``--random-weights`` names."""
    if drawn is not None:
        return random_weights(graph, drawn, seed % 2**64)
    if graph.weight_type is None:
        raise GraphError("the graph has no weights; add --random-weights int32, or choose a file that has some")
    return graph


def load(file: Path, options: RunOptions) -> Graph:
    """The graph in ``file``, placed as the options say, once they are known to be right. Of one on storage it is said what the
    budget bounds, and what not."""
    _check_output(options.output)
    graph = load_graph(file, options.placement, host_budget=options.host_budget, ids=options.ids)
    found = _on_storage(graph)
    if found is not None:
        print(
            f"hinterland: {format_bytes(found['stored'])} stay in {file}; their pages take at most "
            f"{format_bytes(found['host_budget'])}, and offsets {format_bytes(found['offsets'])} besides",
            file=sys.stderr,
        )
    return graph


def say_weights_are_unused(graph: Graph, name: str) -> None:
    """Tells who has weights that every edge counts the same, where weights could be expected to count."""
    if graph.weight_type is not None:
        print(f"hinterland: {name} counts every edge the same; the weights in the file are not used", file=sys.stderr)


def _on_storage(graph: Graph) -> dict[str, int] | None:
    """Of a graph on storage: bytes that stay in the file, those that bound their pages, and those of arrays in memory."""
    caches = graph.neighbor_lists.stored.caches
    if not caches:
        return None
    transpose = graph.known_transpose
    both = [graph.neighbor_lists, *(() if transpose is None or transpose is graph else (transpose.neighbor_lists,))]
    stored = sum(lists.arrays[name].nbytes for lists in both for name, place in lists.placement.items() if place == "storage")
    in_memory = sum(lists.nbytes for lists in both) - stored
    budget = sum(cache.host_budget for cache in caches) * (2 if devices.cuda_available() else 1)
    return {"stored": stored, "host_budget": budget, "offsets": in_memory}


def traverse(job: Job, graph: Graph, starts: Starts, options: RunOptions) -> None:
    """Runs the algorithm from each start, then prints and writes what was found."""
    algorithm = job.algorithm
    assert algorithm.run is not None
    ceiling = _ceiling(job, graph, starts, options)
    many = len(starts.runs) > 1 and job.prepared
    began = time.perf_counter()
    # Several runs are worth keeping on the GPU what they all read.
    kept = prepare(graph, options.gpu_budget, options.device, algorithm.name, graph.weight_type is not None) if many else None
    prepared_in = time.perf_counter() - began
    where: dict[str, Any] = {} if many else {"gpu_budget": options.gpu_budget, "device": options.device}
    done: list[dict[str, Any]] = []
    known = restored(graph) if options.verify else graph  # once, not for each run
    with kept or nullcontext():
        for start in starts.runs:
            result = algorithm.run(kept or graph, **start, **job.settings, **where, stats=True)
            run = _run(_called(graph, start), algorithm.fields(result), result.stats, ceiling, options.stats)
            if options.verify:
                _verify(job, known, start, result)
                run["verified"] = True
                print(f"hinterland: {_where(run)}the result is right", file=sys.stderr)
            done.append(run)
    found: dict[str, Any] = {
        "graph": {"vertices": graph.num_vertices, "edges": graph.num_edges},
        "storage": _on_storage(graph),
        "runs": done,
        "average_seconds": sum(run["seconds"] for run in done) / len(done),
        "bytes": sum(run["bytes"] for run in done),
        "link": _link(done),
    }
    if many:
        found["prepare_seconds"] = prepared_in
    if starts.left_out:
        found["left_out"] = _called(graph, {"sources": starts.left_out})["sources"]
    try:
        emit(found, options.json, "" if options.json else _text(algorithm, found))
    finally:  # a full disk does not cost the report, nor a closed pipe the file
        if options.output is not None:
            _write(options.output, algorithm, starts.runs[-1], result, graph.labels)


def _verify(job: Job, graph: Graph, start: Mapping[str, Any], result: Any) -> None:
    takes, given = inspect.signature(job.verify).parameters, {**job.settings, **start}
    job.verify(graph, result=result, **{name: value for name, value in given.items() if name in takes})


def _ceiling(job: Job, graph: Graph, starts: Starts, options: RunOptions) -> float | None:
    """What the copy engine moves now, in bytes a second; None on the CPU. Loads the kernels, so that no run's time has that."""
    where = devices.as_device(options.device)
    if where.type == "cpu":
        return None
    weights = None if graph.weight_type is None else torch.ones(2, dtype=graph.weight_type)
    one_edge = from_edges(torch.tensor([0, 1]), torch.tensor([1, 0]), weights, directed=graph.directed)
    start = {"source": 0} if "source" in starts.runs[0] else {"sources": [0]} if "sources" in starts.runs[0] else {}
    mode = {name: value for name, value in job.settings.items() if name == "mode"}
    assert job.algorithm.run is not None
    job.algorithm.run(one_edge, **start, **mode, device=where, stats=True)
    return copy_rates(where)[0]


def _run(
    start: dict[str, Any], fields: dict[str, Any], stats: dict[str, Any], ceiling: float | None, details: bool
) -> dict[str, Any]:
    run = {**start, **fields, **stats}
    searches = run.get("searches", [])  # what a run of many sources was done in
    if ceiling is not None:
        for link in (part["link"] for part in (run, *searches) if part.get("link") is not None):
            link["ceiling"] = ceiling
            for part in (link, *([link["heavy"]] if "heavy" in link else [])):
                part["share"] = part["bandwidth"] / ceiling
    if "link" not in run:
        run["link"] = _link(searches)
    if not details:
        run = {key: value for key, value in run.items() if key not in ("per_level", "searches")}
    # Of an algorithm that is no search, the edges that it looked at say nothing about its pace.
    return {**run, "teps": run["edges"] / run["seconds"]} if "source" in run else run


def _link(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What crossed the link between host and GPU over all runs; None where nothing did."""
    if not runs or any(run["link"] is None for run in runs):
        return None
    ceiling = runs[0]["link"]["ceiling"]
    bandwidth = sum(run["bytes"] for run in runs) / sum(run["seconds"] for run in runs)
    return {"bandwidth": bandwidth, "ceiling": ceiling, "share": bandwidth / ceiling if ceiling else None}


def _text(algorithm: Algorithm, found: dict[str, Any]) -> str:
    counts, runs = found["graph"], found["runs"]
    lines = [f"{counts['vertices']:,} vertices, {counts['edges']:,} stored edges, on {runs[0]['device']}"]
    for run in runs:
        lines.append(
            f"{_where(run)}{algorithm.found(run)}, {run['seconds'] * 1e3:.2f} ms, "
            + (f"{run['teps'] / 1e6:,.1f} M edges/s, " if "teps" in run else "")
            + f"{format_bytes(run['bytes'])} read"
            + f"{_share(run)}{_from_storage(run)}"
            + (", verified" if run.get("verified") else "")
        )
        for search in run.get("searches", [run]):
            if "per_level" in search:
                lines += [*map(_level_text, search["per_level"]), _requests(search)]
    if len(runs) > 1:
        lines.append(f"average of {len(runs)} runs: {found['average_seconds'] * 1e3:.2f} ms")
    return "\n".join(lines)


def _called(graph: Graph, start: dict[str, Any]) -> dict[str, Any]:
    """What a run begins with, its vertices by their names, where they have some."""
    labels = graph.labels
    if labels is None:
        return start
    found = {**start}
    if "source" in start:
        found["source"] = labels[start["source"]]
    if isinstance(start.get("sources"), list):
        found["sources"] = [labels[vertex] for vertex in start["sources"]]
    return found


def _where(run: Mapping[str, Any]) -> str:
    return f"source {run['source']}: " if "source" in run else ""


def _share(run: dict[str, Any]) -> str:
    link = run["link"]
    if link is None:
        return ""
    share = "" if link["share"] is None else f" ({link['share']:.0%} of the link)"
    return f" over the link at {format_rate(link['bandwidth'])}{share}"


def _from_storage(run: dict[str, Any]) -> str:
    storage = run["storage"]
    if storage is None:
        return ""
    moved, requests, each = format_bytes(storage["bytes"]), storage["requests"], storage["cpu_us_per_request"]
    return f", {moved} from storage in {requests:,} requests, {each:.1f} us of CPU time each"


def _level_text(level: dict[str, Any]) -> str:
    return (
        f"  level {level['level']:>4}: {level['vertices']:>12,} vertices {level['edges']:>14,} edges "
        f"{format_bytes(level['bytes']):>12} {level['seconds'] * 1e3:>10.3f} ms"
    )


def _requests(search: dict[str, Any]) -> str:
    by_size = ", ".join(f"{count:,} of {size} B" for size, count in search["requests"].items())
    return f"  requests: {by_size}; amplification {search['amplification']:.3f}"


def _check_output(path: Path | None) -> None:
    """Refuses a place that cannot be written, a kind of file that is not, and a table where pyarrow is missing."""
    if path is None:
        return
    check_place(path)
    if path.suffix not in (".npy", ".parquet"):
        raise ConfigError(f"{path}: results are written as .npy, one array, or as .parquet, a table; name a file that ends so")
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                f"{path}: writing .parquet needs pyarrow: pip install 'hinterland[arrow]'; or write .npy"
            ) from error


def _write(path: Path, algorithm: Algorithm, start: Mapping[str, Any], result: Any, labels: Sequence[Hashable] | None) -> None:
    """Writes the result under its name whole or not at all; a table with the ``labels`` of the vertices in its first column."""
    if labels is not None and path.suffix != ".parquet":
        print(f"hinterland: {path} is in the order of the vertices' names; a .parquet has them as a column", file=sys.stderr)
    with replacing(path) as output, writing(path):
        if path.suffix == ".parquet":
            import pyarrow
            import pyarrow.parquet

            found = {name: getattr(result, of).cpu().numpy() for name, of in algorithm.columns.items()}
            vertices = np.array(start["sources"]) if algorithm.rows == "source" else np.arange(len(next(iter(found.values()))))
            columns: dict[str, Any] = {algorithm.rows: vertices, **found}
            if labels is not None:
                columns["name"] = [labels[vertex] for vertex in vertices.tolist()]
            pyarrow.parquet.write_table(pyarrow.table(columns), output.file)
        else:
            np.lib.format.write_array(output.file, getattr(result, algorithm.array).cpu().numpy(), allow_pickle=False)
