"""Graphs of tests on storage."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.table import device

SET = 8 * (512 + 64)  # holds one set of the smallest lines


def on_storage(
    graph: hl.Graph, path: Path, budget: int, line_bytes: int = 512, placement="storage", transpose: bool = False
) -> hl.Graph:
    """``graph`` by way of a file, with pages of ``line_bytes``; ``transpose``: and its lists of in-neighbours."""
    hl.save_graph(graph, path, transpose=transpose)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_LINES", ((0, line_bytes),))
        return hl.load_graph(path, placement, host_budget=budget << torch.cuda.is_available())  # half is for the way to a GPU
