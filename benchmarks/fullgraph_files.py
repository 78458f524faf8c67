"""Epochs of GCN-256 whose rows lie in files (hinterland train --full-graph --placement storage), beside what the disk could do.

``ceiling s``: bytes that the plan says an epoch reads and writes, over the disk's rates, which are measured here, before and
after. ``of ceiling``: the epoch over that. ``in host s``: the same with rows in host memory. Losses are compared.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland.fullgraph import PartitionedGraph
from hinterland.fullgraph.host import in_files
from hinterland.fullgraph.host_program import plans
from hinterland.probe import disk
from hinterland.runtime import devices
from hinterland.training.full_models import make_full_model

EPOCHS = 2  # the first reserves the files


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=int, default=22, help="vertices are two to the power of it")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--gpu-budget", default=None)
    parser.add_argument("--host-budget", default="4GiB")
    parser.add_argument("--folder", default=".", help="on whose disk the files lie")
    parser.add_argument("--no-host", action="store_true", help="leaves out rows in host memory")


def run(options: argparse.Namespace) -> dict[str, Any]:
    scale, budget = (12, "16MiB") if options.small else (options.scale, options.host_budget)
    device = devices.as_device()
    graph = hl.generate("kronecker", scale=scale, edge_factor=4, seed=1)
    x = torch.randn(graph.num_vertices, 256, generator=torch.Generator().manual_seed(1))
    y = torch.randint(16, (graph.num_vertices,), generator=torch.Generator().manual_seed(2)).to(device)
    found: dict[str, Any] = {"vertices": graph.num_vertices, "edges": graph.num_edges, "losses": {}}

    def epochs(name: str, **budgets: Any) -> PartitionedGraph:
        torch.manual_seed(3)
        p = PartitionedGraph.from_graph(graph, devices=device, **budgets)
        model = make_full_model("gcn", 256, 256, 16, options.layers).to(device)
        rows = p.scatter(x) if p.files is None else in_files(p, x, x.dtype)
        adam, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
        for _ in range(EPOCHS):
            begin = time.perf_counter()
            adam.zero_grad()
            loss = F.cross_entropy(p.each(model(rows, p))[0], y)
            loss.backward()
            adam.step()
            losses.append(float(loss.detach()))
            found[f"{name} s"] = time.perf_counter() - begin
        found["losses"][name] = losses
        return p

    before, _ = disk.measure(Path(options.folder))
    p = epochs("files", gpu_budget=options.gpu_budget, host_budget=budget, folder=options.folder)
    after, _ = disk.measure(Path(options.folder))
    assert before is not None and after is not None and p.files is not None
    plan = plans(p)[-1]
    moved = plan.in_files
    assert moved is not None
    read, write = max(before.sequential, after.sequential), max(before.write, after.write)
    found |= {
        "read gb": moved.read / 1e9,
        "written gb": moved.written / 1e9,
        "gbs read": read / 1e9,
        "gbs written": write / 1e9,
    }
    found["ceiling s"] = moved.read / read + moved.written / write
    found["of ceiling"] = found["files s"] / found["ceiling s"]
    found["plan"] = plan.explain()
    found["peak rss gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    if not options.no_host:
        epochs("in host", gpu_budget=options.gpu_budget or budget)
    return found
