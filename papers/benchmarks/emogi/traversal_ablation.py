"""EMOGI's evaluation on this machine (``python -m hinterland_papers ablation``), beside the times of EMOGI's own programs.

Without ``--small``: scale-25 graphs on a GPU. With it: scale 12 on the CPU. ``--uvm-budget 2GiB`` leaves UVM so much GPU
memory: edges of 4 GiB do not fit, which is EMOGI's case.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch

from hinterland.probe.link import copy_rates
from hinterland_papers.emogi.ablation import ablation

# Milliseconds of EMOGI's BFS on one H200, by bytes of an edge.
EMOGI = {"kronecker": {4: 144, 8: 224}, "uniform": {4: 123, 8: 193}}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--uvm-budget", metavar="SIZE", help="GPU memory left to UVM, as 2GiB; by default all, and edges fit")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The tables of the ablation, and ours against EMOGI's programs where a GPU ran them."""
    if options.small:
        return dict(ablation(scale=12, sources=2, device="cpu"))
    tables: dict[str, Any] = dict(
        ablation(uvm_budget=options.uvm_budget, progress=lambda phrase: print(phrase, file=sys.stderr))
    )
    against = []
    for row in tables["figure_9_bfs_speed"]:
        published = EMOGI[row["graph"]][row["edge_bytes"]]
        against.append({**{key: row[key] for key in ("graph", "edge_bytes", "aligned")}, "emogi": published})
    return {"copy_engine": copy_rates(torch.device("cuda", 0), 1 << 30)[0], "against_emogi": against, **tables}
