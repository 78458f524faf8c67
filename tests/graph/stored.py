"""Graphs of tests on storage."""

from __future__ import annotations

from pathlib import Path

import hinterland as hl

SET = 8 * (512 + 64)  # holds one set of the smallest lines


def on_storage(
    graph: hl.Graph,
    path: Path,
    budget: int,
    line_bytes: int = 512,
    placement="storage",
    transpose: bool = False,
    device_budget: int | None = None,
) -> hl.Graph:
    """``graph`` by way of a file, with pages of ``line_bytes``; ``transpose``: and its lists of in-neighbours."""
    hl.save_graph(graph, path, transpose=transpose)
    return hl.load_graph(path, placement, cache=hl.StorageCache(budget, line_bytes, device_budget=device_budget))
