"""Which strategy is the quickest, by how often a part needs a remote row, and by the rows' width.

A family of directed graphs of as many edges, whose lists have one length and name vertices at random: the longer they are, the
fewer vertices there are, and the more often a part names each of them. Milliseconds of a sum over all parts of one process;
``predicted``: the strategy that should be the quickest by the bytes that each moves (``plan.costs``), and ``of best`` what the
quickest takes of its time. MGG reads a row for every entry (``direct``), and compares with nothing that reads it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

import hinterland as hl
from benchmarks._rows import Rows as Printed
from benchmarks._timing import milliseconds
from hinterland.fullgraph import STRATEGIES, PartitionedGraph, plan
from hinterland.fullgraph.reduce import Operation, summed

from ._ablation import Case

EDGES = 1 << 24
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTHS = (16, 64, 256, 1024)
ROOM = 9e9  # bytes of rows on each device, at most: results are as large again, and all rows may come to each


def crossover(where: Sequence[torch.device], edges: int = EDGES, widths: Sequence[int] = WIDTHS) -> Printed:
    found = Printed()
    for length in LENGTHS:
        vertices = edges // length
        indices = torch.randint(vertices, (vertices * length,), dtype=torch.int32, device=where[0]).cpu()
        graph = hl.Graph(torch.arange(vertices + 1) * length, indices, directed=True)
        p = PartitionedGraph.from_graph(graph, devices=where)
        most = max(plan.loads(p), key=lambda part: part.halo)
        for width in widths:
            if 4 * vertices * width > ROOM * len(set(where)):
                continue
            by = partial(summed, p, Operation(), Case.of(p, width).x)
            took = {name: milliseconds(partial(by, name), where) for name in STRATEGIES if name != "replicate"}
            expected = [cost for cost in plan.costs(p, width, torch.float32) if cost.strategy in took]
            best, predicted = min(took, key=took.__getitem__), min(expected, key=lambda cost: cost.predicted).strategy
            row = {"length": length, "vertices": vertices, "reuse": most.remote / max(most.halo, 1), "width": width, **took}
            found.append({**row, "best": best, "predicted": predicted, "of best": took[best] / took[predicted]})
    return found
