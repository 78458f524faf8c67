"""EMOGI's evaluation on this machine (``hinterland bench traversal --ablation``), beside the times of EMOGI's own programs.

Without ``small``: scale-25 graphs on a GPU. With it: scale 12 on the CPU.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from hinterland.probe.link import copy_rates
from hinterland.traffic.ablation import ablation

# Milliseconds of EMOGI's BFS on one H200, by bytes of an edge.
EMOGI = {"kronecker": {4: 144, 8: 224}, "uniform": {4: 123, 8: 193}}


def run(small: bool) -> dict[str, Any]:
    """The tables of the ablation, and ours against EMOGI's programs where a GPU ran them."""
    if small:
        return dict(ablation(scale=12, sources=2, device="cpu"))
    tables: dict[str, Any] = dict(ablation(progress=lambda phrase: print(phrase, file=sys.stderr)))
    against = []
    for row in tables["figure_9_bfs_speed"]:
        published = EMOGI[row["graph"]][row["edge_bytes"]]
        against.append({**{key: row[key] for key in ("graph", "edge_bytes", "aligned")}, "emogi": published})
    return {"copy_engine": copy_rates(torch.device("cuda", 0), 1 << 30)[0], "against_emogi": against, **tables}
