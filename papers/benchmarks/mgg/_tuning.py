"""The tuner beside every shape there is (MGG, figure 11)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from benchmarks._fullgraph_shapes import shaped
from benchmarks._rows import Rows as Printed
from hinterland.fullgraph import PartitionedGraph, tuner
from hinterland.runtime.thresholds import SHAPES_TRIED

TURNS = 3  # in which the tuner's shapes are timed anew


def tuning(shapes: Sequence[str], widths: Sequence[int], where: Sequence[torch.device]) -> tuple[Printed, Printed]:
    """A part on each device."""
    grid, rows = [], Printed()
    for shape in shapes:
        graph = shaped(shape, where[0]).to_graph()
        p = PartitionedGraph.from_graph(graph, devices=where)
        for width in widths:
            if 4 * graph.num_vertices * width < 20e9 * len(where):
                found, trials = _tuned(p, p.scatter(torch.randn(graph.num_vertices, width, device=where[0])))
                grid += [{"shape": shape, "width": width, **trial} for trial in trials]
                rows.append({"shape": shape, "edges": graph.num_edges, "width": width, **found})
    return grid, rows


def _tuned(p: PartitionedGraph, x: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = tuner.tune(p, x, again=True)
    begin = time.perf_counter()
    trials = brute_force(p, x, strategy=found.strategy)
    took = time.perf_counter() - begin
    default, best = found.table[0].shape, min(trials, key=lambda trial: trial.seconds).shape
    again = brute_force(p, x, strategy=found.strategy, shapes=[default, found.shape, best] * TURNS)
    ms = {one: 1e3 * min(trial.seconds for trial in again if trial.shape == one) for one in (default, found.shape, best)}
    steps = {trial.shape: step for step, trial in enumerate(found.table, 1)}
    most = SHAPES_TRIED * min(trial.predicted for trial in trials)
    row = {"strategy": found.strategy, "default": ms[default], "tuned": ms[found.shape], "best": ms[best]}
    row |= {
        "times": ms[default] / ms[found.shape],
        "of best": ms[best] / ms[found.shape],
        "steps": len(steps),
        "grid": len(trials),
    }
    row |= {"of default": str(tuple(default)), "of tuned": str(tuple(found.shape)), "of the best": str(tuple(best))}
    row |= {"spent s": found.spent, "brute force s": took, "divided s": found.partitioned}
    return row, [
        {**trial.shape._asdict(), "ms": 1e3 * trial.seconds, "predicted": 1e3 * trial.predicted,
         "worth": trial.predicted <= most, "step": steps.get(trial.shape, "")} for trial in trials
    ]  # fmt: skip


def brute_force(
    p: PartitionedGraph, x: Any, reduce: str = "sum", *, strategy: str = "auto", shapes: Iterable[tuner.Shape] | None = None
) -> list[tuner.Trial]:
    """Shapes, by default all that launches can have, timed as :func:`hinterland.fullgraph.tune` does it; nothing is kept."""
    bench = tuner._Bench.of(p, x, reduce, strategy)
    with bench.restored():
        bench.tried(bench.space.start)  # it wakes the processor up
        return [bench.tried(shape) for shape in (bench.space.shapes() if shapes is None else shapes)]
