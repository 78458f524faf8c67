"""What each process does for test_processes.py: trains models of one part each, and saves the losses."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

import hinterland as hl
from hinterland import nn
from tests.nn.nets import VERTICES, Net, graph, rows

FOLDER, EPOCHS = Path(sys.argv[1]), int(sys.argv[2])

torch.set_num_threads(1)
dist.init_process_group("gloo")
given = torch.load(FOLDER / "given.pt")
p = hl.PartitionedGraph.from_graph(graph(), devices="cpu")
x, labels = p.scatter(rows()), p.scatter(given["labels"])
found = {}
for kind, weights in given["weights"].items():
    model = Net(nn, kind).double()
    model.load_state_dict(weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found[kind] = []
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, p), labels, reduction="sum") / VERTICES
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        found[kind].append(loss.detach())
    found[kind] = torch.stack(found[kind])
    dist.all_reduce(found[kind])
torch.save(found, FOLDER / f"{dist.get_rank()}.pt")
dist.destroy_process_group()
