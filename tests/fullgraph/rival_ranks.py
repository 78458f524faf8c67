"""What each process does for test_rivals.py: the rivals that exchange rows by torch.distributed. Results go to a folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks._fullgraph_rivals import AllGather, Halo, Ring, cut

FOLDER, RANK = Path(sys.argv[1]), int(os.environ["RANK"])

torch.set_num_threads(1)
given = torch.load(FOLDER / "given.pt")
dist.init_process_group("gloo")
found = {}
for name, bounds in given["bounds"].items():
    for weighted in (False, True):
        weights = given["weights"] if weighted else None
        shard = cut(given["indptr"], given["indices"], weights, bounds, RANK, "cpu")
        x = given["x"][bounds[RANK] : bounds[RANK + 1]]
        ways = {
            "all-gather": AllGather(shard, x.dtype),
            "halo": Halo(shard),
            "ring": Ring(shard),
        }
        for way, run in ways.items():
            run(x)
            found[name, weighted, way] = run(x)  # again: what is kept may be used again
torch.save(found, FOLDER / f"{RANK}.pt")
dist.destroy_process_group()
