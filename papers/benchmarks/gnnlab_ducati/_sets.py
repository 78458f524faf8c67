"""The sets of GNNLab and DUCATI: OGB's by their shapes, Twitter as a Kronecker graph, web graphs as generated ones of as many
vertices and about as many edges, both ways. Features and labels are random, as those papers made them for the last two."""

from __future__ import annotations

import torch

import hinterland as hl
from benchmarks.gnn import random_seeds
from hinterland.datasets import SHAPES

from .._figures import graph_bytes, narrow

SIZES = {"PA": (111_059_956, 1_615_685_872), "TW": (1 << 25, 41 << 25), "PR": (2_449_029, 123_718_280)}
SIZES |= {"UK": (77_700_000, 3_000_000_000), "UU": (134_000_000, 5_500_000_000)}
_SHAPES = {"PA": "papers100M", "PR": "products"}
_WEBS = {"UK": 24, "UU": 26}  # links drawn for each page
SMALL = {"PA": 1e-4, "PR": 1e-3, "UK": 1e-4, "UU": 1e-4}


def bytes_of(name: str, columns: int) -> tuple[int, int]:
    """Of the graph, and of float32 features, at full size."""
    vertices, edges = SIZES[name]
    return graph_bytes(vertices, edges), 4 * vertices * columns


def make(name: str, small: bool, placement: str, by_degree: bool = False) -> tuple[hl.Graph, torch.Tensor]:
    """The graph, and the seeds: OGB's share of the vertices, else a hundredth, drawn ``by_degree`` or evenly."""
    if name in _SHAPES:
        scale = SMALL[name] if small else 1.0
        made = hl.datasets.generate(narrow(SHAPES[_SHAPES[name]]), scale=scale, placement={"graph": placement})
        return made.graph, made.splits["train"]
    if name == "TW":
        graph = hl.generate("kronecker", scale=12 if small else 25, edge_factor=25, placement=placement)
    else:
        vertices = round(SIZES[name][0] * (SMALL[name] if small else 1))
        graph = hl.generate("web", vertices=vertices, edge_factor=_WEBS[name], placement=placement)
    count = graph.num_vertices // 100
    if not by_degree:
        return graph, random_seeds(graph, count)
    generator = torch.Generator().manual_seed(3)
    # A list names a vertex in proportion to its degree; those that are drawn twice count once.
    drawn = torch.randint(graph.num_edges, (4 * count,), generator=generator)
    ends = graph.indices[drawn.to(graph.indices.device)].cpu().to(torch.int64).unique()
    return graph, ends[torch.randperm(len(ends), generator=generator)[:count]]
