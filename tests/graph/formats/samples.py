"""Random graphs for the tests of graph files, and graphs as plain lists of edges."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

import hinterland as hl

few = settings(max_examples=20)  # each example writes and syncs a file


def listed(graph: hl.Graph) -> list[tuple]:
    """The stored edges as sorted tuples: what two equal graphs have in common, whatever the order of neighbours."""
    sources = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr.numpy()))
    columns = [sources.tolist(), graph.indices.tolist()]
    if graph.weights is not None:
        columns.append(graph.weights.tolist())
    return sorted(zip(*columns, strict=True))


@st.composite
def graphs(draw, weights=("none", "int", "float"), largest=30):
    """A directed graph with repeated edges, self loops and vertices without edges."""
    n = draw(st.integers(1, largest))
    ends = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    source, target = (torch.tensor([edge[i] for edge in ends], dtype=torch.int64) for i in (0, 1))
    values = {
        "none": None,
        "int": (st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9), torch.int32),
        "length": (st.integers(0, 2**31 - 1), torch.int32),
        "float": (st.floats(-1e6, 1e6, width=32), torch.float32),
    }[draw(st.sampled_from(weights))]
    column = None if values is None else torch.tensor([draw(values[0]) for _ in ends], dtype=values[1])
    return hl.from_edges(source, target, column, num_vertices=n)


def memory_folder() -> Iterator[Path]:
    """A folder in memory, where there is one: each file is synced, which on a disk takes longer than all else."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        yield Path(name)
