"""``--access``: the commands' algorithms as EMOGI published them (Min 2022, chapter 2), by how they read lists."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
import typer

from .. import graph as graphs
from ..graph import Graph, emogi
from ..graph.emogi import EmogiResult
from ..graph.pagerank import LEAST_TOLERANCE
from ..runtime import arguments
from ..runtime.errors import ConfigError
from .parameters import Options
from .traversal import Job


def check_access(name: str, access: str | None, options: Options, given: Iterable[str]) -> None:
    """Refuses an access that is none, and beside one what EMOGI's program of a name does not have: a budget, edges on storage,
    and what else is ``given`` that it does not take."""
    if access is None:
        return
    arguments.one_of("access", access, (*emogi.ACCESSES, emogi.UVM))
    takes = inspect.signature(getattr(emogi, name)).parameters
    others = {"gpu_budget": options.gpu_budget is not None, "placement storage": options.placement == "storage"}
    for name in (*(one for one in given if one not in takes), *(one for one, is_given in others.items() if is_given)):
        option = f"--{name.replace('_', '-')}"
        raise typer.BadParameter(f"EMOGI's programs do not have {option}; leave one of them out", param_hint="--access")


def published(job: Job, access: str | None) -> Job:
    """``job``, or with an access EMOGI's program in its place, whose results and reports are like its own."""
    if access is None:
        return job
    run = _PROGRAMS[job.algorithm.name]

    def call(graph: Graph, *, mode: str = "auto", gpu_budget: None = None, stats: bool = True, **given: Any) -> Any:
        return run(graph, access=access, **given)

    algorithm, verify = dataclasses.replace(job.algorithm, run=call), job.verify
    if algorithm.name == "bfs":  # EMOGI's finds no parents
        algorithm = dataclasses.replace(algorithm, array="values", columns={"level": "values"})
        verify = _verify_levels
    return dataclasses.replace(job, algorithm=algorithm, verify=verify, prepared=False)


def _bfs(graph: Graph, source: int, **given: Any) -> EmogiResult:
    found = emogi.bfs(graph, source, **given)
    return dataclasses.replace(found, stats=_report(graph, found, int((found.values >= 0).sum()), **given))


def _sssp(graph: Graph, source: int, **given: Any) -> graphs.SsspResult:
    found = emogi.sssp(graph, source, **given)
    reached = (found.values >= 0) & (found.values != float("inf"))
    return graphs.SsspResult(found.values, _report(graph, found, int(reached.sum()), **given))


def _cc(graph: Graph, **given: Any) -> graphs.ComponentsResult:
    found = emogi.cc(graph, **given)
    count = int((found.values == torch.arange(len(found.values), device=found.values.device)).sum())
    return graphs.ComponentsResult(found.values, count, _report(graph, found, graph.num_vertices, **given))


def _pagerank(
    graph: Graph,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    max_iterations: int = 0,
    **given: Any,
) -> graphs.PagerankResult:
    """Scores that add up to 1. EMOGI's lack what vertices without neighbours would pass to all, which changes each by the same
    factor: dividing by their sum brings it back.

    With r the rank that is not passed on, d the damping and S >= (1 - d) V the sum, a step of the walk changes the scores by at
    most 2 d |r| / S: less than the tolerance, where each of V vertices keeps at most half of (1 - d) times that.
    """
    least = LEAST_TOLERANCE[torch.float32]
    if tolerance < least:
        raise ConfigError(
            f"tolerance {tolerance} is below {least}, the least that EMOGI's float32 resolves; leave out --access"
        )
    found = emogi.pagerank(graph, damping, tolerance * (1 - damping) / 2, **given)
    total = float(found.values.sum(dtype=torch.float64)) or 1.0  # of no vertices
    error = 2 * damping * found.stats["kept"] / total
    report = _report(graph, found, graph.num_vertices, **given)
    return graphs.PagerankResult(found.values / total, found.stats["launches"], error, True, report)


def _report(graph: Graph, found: EmogiResult, reached: int, access: str, **_: Any) -> dict[str, Any]:
    """The stats that commands print. Bytes are those of the lists, whatever the access asks of the link for them: ``counted``
    says so. Of ``"uvm"`` no rate is given, since its pages may be on the GPU already."""
    stats, seconds = found.stats, found.stats["seconds"]
    link = None
    if stats["device"] != "cpu" and access != emogi.UVM and not graph.neighbor_lists.on_gpu:
        bandwidth = stats["bytes"] / seconds if seconds > 0 else 0.0
        link = {"bytes": stats["bytes"], "bandwidth": bandwidth, "ceiling": None, "share": None}
    return {
        "access": access,
        "counted": "lists",
        **stats,
        "levels": stats["launches"],
        "reached": reached,
        "link": link,
        "storage": None,
    }


def _verify_levels(graph: Graph, source: int, result: EmogiResult) -> None:
    """By the rules that speak of levels alone."""
    levels = result.values
    distances = levels[levels >= 0].long()
    sums = [torch.stack([of]) for of in (torch.tensor(len(distances)), distances.sum(), distances.amax())]
    graphs.verify_multi_source_bfs(graph, [source], graphs.MultiBfsResult(levels[None], *sums))


_PROGRAMS: dict[str, Callable[..., Any]] = {"bfs": _bfs, "sssp": _sssp, "cc": _cc, "pagerank": _pagerank}
