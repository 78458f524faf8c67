"""``python -m hinterland_papers bfs`` (``sssp``, ``cc``, ``pagerank``): EMOGI's programs (Min 2022, chapter 2), by how they
read lists, with the results and reports of the product's commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import torch
import typer

from hinterland import graph as graphs
from hinterland.cli import parameters
from hinterland.cli.parameters import RunOptions, spread
from hinterland.cli.traversal import Job, Starts, load, say_weights_are_unused, single_source, traverse, with_weights
from hinterland.graph import Graph
from hinterland.graph.algorithms import named
from hinterland.graph.pagerank import LEAST_TOLERANCE
from hinterland.runtime import arguments
from hinterland.runtime.errors import ConfigError
from hinterland.runtime.units import parse_bytes

from .. import emogi
from ..bam import stored as bam
from ..bam.stored import ASSIGNMENTS, StoredEdges
from ..emogi import EmogiResult

Access = Annotated[str, typer.Option(help="How lists are read: naive, merged, aligned, or uvm, where pages migrate.")]
Assignment = Annotated[str, typer.Option(help=f"How warps get the work: {', '.join(ASSIGNMENTS)}.")]
_CACHE = "256MiB"  # of the device's memory, as hl.kernel has it


def register(app: typer.Typer) -> None:
    for command in (bfs, sssp, cc, pagerank):
        app.command()(spread(command))


def bfs(
    graph: parameters.GraphFile,
    *,
    start: parameters.Start,
    access: Access = "aligned",
    assignment: Assignment = "warp",
    options: RunOptions,
) -> None:
    """Find the distance of every vertex from a source by EMOGI's program, which finds no parents; or, with --placement storage,
    by BaM's."""
    job = _job("bfs", access, options, _bfs, assignment, array="values", columns={"level": "values"})
    starts = single_source(start.source, start.sources, start.runs, options.output)
    loaded = load(graph, options)
    traverse(dataclasses.replace(job, verify=_verify_levels), loaded, starts(loaded, start.seed), options)


def sssp(
    graph: parameters.GraphFile,
    *,
    start: parameters.Start,
    random_weights: parameters.RandomWeights = None,
    access: Access = "aligned",
    options: RunOptions,
) -> None:
    """Find the shortest distance of every vertex from a source by EMOGI's program."""
    job = _job("sssp", access, options, _sssp)
    starts = single_source(start.source, start.sources, start.runs, options.output)
    loaded = with_weights(load(graph, options), random_weights, start.seed)
    traverse(job, loaded, starts(loaded, start.seed), options)


def cc(
    graph: parameters.GraphFile,
    *,
    runs: parameters.Repeats = 1,
    access: Access = "aligned",
    assignment: Assignment = "warp",
    options: RunOptions,
) -> None:
    """Find the connected components of an undirected graph by EMOGI's program; or, with --placement storage, by BaM's."""
    traverse(_job("cc", access, options, _cc, assignment), load(graph, options), Starts([{}] * runs, []), options)


def pagerank(
    graph: parameters.GraphFile,
    *,
    damping: Annotated[float, typer.Option(help="The share of walks that follow an edge instead of jumping.")] = 0.85,
    tolerance: Annotated[float, typer.Option(help="Stop when the scores change by less than this altogether.")] = 1e-4,
    runs: parameters.Repeats = 1,
    access: Access = "aligned",
    options: RunOptions,
) -> None:
    """Rank vertices by how often a random walk comes by, by EMOGI's program."""
    job = _job("pagerank", access, options, _pagerank)
    loaded = load(graph, options)
    say_weights_are_unused(loaded, "pagerank")
    job = dataclasses.replace(job, settings={"damping": damping, "tolerance": tolerance})
    traverse(job, loaded, Starts([{}] * runs, []), options)


def _job(
    name: str, access: str, options: RunOptions, run: Callable[..., Any], assignment: str | None = None, **more: Any
) -> Job:
    """EMOGI's program with an access, in the place of the product's; refused is what it does not have. With an assignment it is
    BaM's where the graph lies on storage."""
    arguments.one_of("access", access, (*emogi.ACCESSES, emogi.UVM))
    stored = assignment is not None and options.placement == "storage"
    given = {
        "--gpu-budget": options.gpu_budget is not None and not stored,
        "--placement storage": options.placement == "storage" and not stored,
    }
    for option in (option for option, is_given in given.items() if is_given):
        raise typer.BadParameter(f"EMOGI's programs do not have {option}; leave it out", param_hint=option.split()[0])
    if stored and access != "aligned":
        raise typer.BadParameter("BaM's programs read lines: leave it out", param_hint="--access")
    (record,) = named([name])

    def call(graph: Graph, *, gpu_budget: int | str | None = None, stats: bool = True, **given: Any) -> Any:
        if assignment is None:
            return run(graph, access=access, **given)
        if not stored:
            return run(graph, access=access, assignment=assignment, **given)
        edges = StoredEdges.of(graph, given.get("device"), parse_bytes(gpu_budget or _CACHE))
        try:
            return run(graph, access=access, assignment=assignment, edges=edges, **given)
        finally:
            edges.store.close()

    def found(run: Mapping[str, Any]) -> str:
        return f"{record.found(run)} (bytes are of lists, whatever the access)"

    algorithm = dataclasses.replace(record, run=call, found=found, **more)
    return Job(algorithm, getattr(graphs, record.verify), {}, prepared=False)


def _bfs(graph: Graph, source: int, **given: Any) -> EmogiResult:
    edges = given.get("edges")
    found = emogi.bfs(graph, source, **given) if edges is None else bam.bfs(graph, source, edges, given["assignment"])
    return dataclasses.replace(found, stats=_report(graph, found, int((found.values >= 0).sum()), **given))


def _sssp(graph: Graph, source: int, **given: Any) -> graphs.SsspResult:
    found = emogi.sssp(graph, source, **given)
    reached = (found.values >= 0) & (found.values != float("inf"))
    return graphs.SsspResult(found.values, _report(graph, found, int(reached.sum()), **given))


def _cc(graph: Graph, **given: Any) -> graphs.ComponentsResult:
    edges = given.get("edges")
    found = emogi.cc(graph, **given) if edges is None else bam.cc(graph, edges, given["assignment"])
    count = int((found.values == torch.arange(len(found.values), device=found.values.device)).sum())
    return graphs.ComponentsResult(found.values, count, _report(graph, found, graph.num_vertices, **given))


def _pagerank(graph: Graph, damping: float = 0.85, tolerance: float = 1e-4, **given: Any) -> graphs.PagerankResult:
    """Scores that add up to 1. EMOGI's lack what vertices without neighbours would pass to all, which changes each by the same
    factor: dividing by their sum brings it back.

    With r the rank that is not passed on, d the damping and S >= (1 - d) V the sum, a step of the walk changes the scores by at
    most 2 d |r| / S: less than the tolerance, where each of V vertices keeps at most half of (1 - d) times that.
    """
    least = LEAST_TOLERANCE[torch.float32]
    if tolerance < least:
        raise ConfigError(
            f"tolerance {tolerance} is below {least}, the least that EMOGI's float32 resolves; use hinterland pagerank"
        )
    found = emogi.pagerank(graph, damping, tolerance * (1 - damping) / 2, **given)
    total = float(found.values.sum(dtype=torch.float64)) or 1.0  # of no vertices
    error = 2 * damping * found.stats["kept"] / total
    report = _report(graph, found, graph.num_vertices, **given)
    return graphs.PagerankResult(found.values / total, found.stats["launches"], error, True, report)


def _report(
    graph: Graph, found: EmogiResult, reached: int, access: str, edges: StoredEdges | None = None, **_: Any
) -> dict[str, Any]:
    """The stats that commands print. Bytes are those of the lists, whatever the access asks of the link for them: ``counted``
    says so. Of ``"uvm"`` no rate is given, since its pages may be on the GPU already, and of storage none of the link."""
    stats, seconds = found.stats, found.stats["seconds"]
    link = None
    if stats["device"] != "cpu" and access != emogi.UVM and edges is None and not graph.neighbor_lists.on_gpu:
        bandwidth = stats["bytes"] / seconds if seconds > 0 else 0.0
        link = {"bytes": stats["bytes"], "bandwidth": bandwidth, "ceiling": None, "share": None}
    return {
        "access": access,
        "counted": "lists",
        **stats,
        "levels": stats["launches"],
        "reached": reached,
        "link": link,
        "storage": None if edges is None else edges.store.stats().report(),
    }


def _verify_levels(graph: Graph, source: int, result: EmogiResult) -> None:
    """By the rules that speak of levels alone."""
    levels = result.values
    distances = levels[levels >= 0].long()
    sums = [torch.stack([of]) for of in (torch.tensor(len(distances)), distances.sum(), distances.amax())]
    graphs.verify_multi_source_bfs(graph, [source], graphs.MultiBfsResult(levels[None], *sums))
