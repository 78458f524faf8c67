"""Attention over neighbours by torch, edge by edge, differentiable."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import leaky_relu

from .test_aggregate import edges


def attended(graph, scores, x, mine, vector):
    """What ``hinterland.fullgraph.attention.attention`` gives for the whole graph."""
    row, col, _ = edges(graph)
    n, heads = graph.num_vertices, scores.heads
    if scores.loops:
        every = torch.arange(n)
        row, col = torch.cat([row[row != col], every]), torch.cat([col[row != col], every])
    value = x
    if scores.kind == "gat":
        found = leaky_relu(vector[col] + mine[row], scores.slope)
    elif scores.kind == "gatv2":
        found = by_heads(leaky_relu(x[col] + mine[row], scores.slope) * vector, heads).sum(2)
    else:
        key, value = x.chunk(2, 1)
        found = scores.scale * by_heads(mine[row] * key[col], heads).sum(2)
    index = row[:, None].expand(-1, heads)
    top = found.new_full((n, heads), -math.inf).scatter_reduce(0, index, found.detach(), "amax")
    weight = (found - top[row]).exp()
    share = weight / weight.new_zeros(n, heads).index_add(0, row, weight)[row]
    parts = by_heads(value[col], heads) * share[:, :, None]
    return parts.new_zeros(n, *parts.shape[1:]).index_add(0, row, parts).flatten(1)


def by_heads(rows, heads):
    return rows.view(len(rows), heads, rows.shape[1] // heads)
