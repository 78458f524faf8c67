"""Full-graph message passing on one device: sums beside cuSPARSE or torch.sparse, layers beside PyG's.

Milliseconds. ``one gpu``: rows of float32; ``cusparse`` is its quickest algorithm, with buffers and preprocessing kept; ``gbs``
counts every entry's row and number as read. ``one cpu``: the same beside torch.sparse (MKL), at a tenth of the shape's scale;
``copy gbs``: what a copy of all rows reads and writes (rows that caches hold come faster). ``layers``: a forward and backward
step, and the most memory that it takes beyond its arguments; at a tenth of the shape's scale, where PyG's layers fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

import hinterland as hl
from hinterland.fullgraph import PartitionedGraph
from hinterland.fullgraph.aggregate_launch import PartRows, RowEntries, aggregate_rows

from ._cusparse import ALGORITHMS, SpMM
from ._fullgraph_shapes import shaped
from ._rows import told
from ._timing import milliseconds

TENTH = 0.1
LAYERS = (
    ("GAT 4 x 16", "GATConv", {"heads": 4}, 16),
    ("GATv2 4 x 16", "GATv2Conv", {"heads": 4}, 16),
    ("SAGE mean", "SAGEConv", {}, 64),
    ("SAGE max", "SAGEConv", {"aggr": "max"}, 64),
    ("GCN", "GCNConv", {}, 64),
    ("dot products 4 x 16", "TransformerConv", {"heads": 4}, 16),
)


def one_gpu(shape: str, widths: Sequence[int]) -> list[dict[str, Any]]:
    here = torch.device("cuda", 0)
    drawn = shaped(shape, here)
    entries = RowEntries(drawn.indptr[:-1], drawn.indptr[1:], drawn.indices)
    n, count = entries.rows, len(drawn.indices)
    product = SpMM(drawn.indptr, drawn.indices, None, n)

    def of(width: int) -> dict[str, Any]:
        x = torch.randn(n, width, device=here)
        out, wanted = torch.empty_like(x), torch.empty_like(x)
        ours = milliseconds(partial(aggregate_rows, entries, PartRows(x), out), [here])
        best = min(milliseconds(partial(product.run, x, wanted, algorithm=one), [here]) for one in ALGORITHMS)
        differs = float((out - wanted).abs().max() / wanted.abs().max())
        short = milliseconds(partial(aggregate_rows, entries, PartRows(x.bfloat16()), out.bfloat16()), [here])
        gbs = count * (4 * width + 4) / ours / 1e6
        found = {"shape": shape, "vertices": n, "edges": count, "width": width, "ours": ours, "cusparse": best}
        return {**found, "times": best / ours, "gbs": gbs, "differs": differs, "bfloat16": short}

    return [of(width) for width in widths if 8 * n * width < 40e9]


def one_cpu(shape: str, widths: Sequence[int]) -> list[dict[str, Any]]:
    here = torch.device("cpu")
    drawn = shaped(shape, here, TENTH)
    n, count = len(drawn.indptr) - 1, len(drawn.indices)
    entries = RowEntries(drawn.indptr[:-1], drawn.indptr[1:], drawn.indices)
    ones = torch.ones(count)
    matrix = torch.sparse_csr_tensor(drawn.indptr.int(), drawn.indices.int(), ones, (n, n), check_invariants=False)

    def of(width: int) -> dict[str, Any]:
        x = torch.randn(n, width)
        out = torch.empty_like(x)
        ours = milliseconds(partial(aggregate_rows, entries, PartRows(x), out), [here])
        theirs = milliseconds(partial(torch.mm, matrix, x), [here])
        differs = float((out - matrix @ x).abs().max() / out.abs().max())
        copy = 8 * n * width / milliseconds(partial(out.copy_, x), [here]) / 1e6
        found = {"shape": shape, "vertices": n, "edges": count, "width": width, "ours": ours, "torch.sparse": theirs}
        gbs = count * (4 * width + 4) / ours / 1e6
        return told({**found, "times": theirs / ours, "gbs": gbs, "copy gbs": copy, "differs": differs})

    return [of(width) for width in widths]


def layers(shape: str, here: torch.device) -> list[dict[str, Any]]:
    """A CPU has no statistics of memory."""
    try:
        from torch_geometric import nn as pyg
    except ImportError:
        return []
    drawn = shaped(shape, here, TENTH)
    n = len(drawn.indptr) - 1
    p = PartitionedGraph.from_graph(drawn.to_graph(), devices=here)
    edges = torch.stack([drawn.indices.long(), torch.repeat_interleave(torch.arange(n, device=here), drawn.indptr.diff())])
    x, rows = torch.randn(n, 64, device=here), []
    for label, kind, given, outputs in LAYERS:
        row: dict[str, Any] = {"shape": shape, "vertices": n, "edges": len(drawn.indices), "layer": label}
        for who, module, graph in (("ours", hl.nn, p), ("pyg", pyg, edges)):
            layer = getattr(module, kind)(64, outputs, **given).to(here)

            def step(layer: Any = layer, graph: Any = graph) -> None:
                layer(x.detach().requires_grad_(), graph).sum().backward()

            row[who] = milliseconds(step, [here])
            if here.type == "cuda":
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                step()
                row[f"{who} mb"] = (torch.cuda.max_memory_allocated() - before) / 1e6
        if here.type == "cuda":
            row["of its memory"] = row["ours mb"] / row["pyg mb"]
        rows.append(told({**row, "times": row["pyg"] / row["ours"]}))
    return rows
