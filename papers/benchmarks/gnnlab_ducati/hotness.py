"""Which score foretells best what sampling fetches, and what each takes to make: the gap to the oracle with a tenth of the rows
cached.

Without ``small``: a Kronecker graph of scale 26 in host memory, sampled and scored on a GPU. With it: scale 16 on the CPU.
Fanout 15, 10, 5; a hundredth of the vertices are seeds, as in papers100M.
"""

from __future__ import annotations

from typing import Any

import torch

import hinterland as hl
from hinterland import hotness, sampling
from hinterland.runtime.shuffle import shuffled

FANOUTS = [15, 10, 5]
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
TARGET = 0.02  # from the oracle, with a tenth of the rows cached
SEED = 1


def run(small: bool) -> dict[str, Any]:
    """One row for each score."""
    scale, batch_size, device = (16, 64, "cpu") if small else (26, 1024, "cuda")
    graph = hl.generate("kronecker", scale=scale, edge_factor=16, seed=SEED, placement="host", device=device)
    candidates = graph.degrees().cpu().nonzero()[:, 0]
    seeds = shuffled(candidates, SEED, 0)[: graph.num_vertices // 100]
    neighbors = sampling.NeighborSampler(graph, FANOUTS, seed=SEED, device=device)
    hotness.degree(hl.from_edges(torch.tensor([0]), torch.tensor([1])), device=device)  # compiles the kernels
    hotness.presample(neighbors, seeds[:1], 1, epochs=1)
    found = hotness.compare(graph, neighbors, seeds, FANOUTS, batch_size, epochs=5, seed=SEED, device=device)
    rates = found.hit_rates(SHARES)
    tenth = SHARES.index(0.1)
    return {
        "graph": {"kind": "kronecker", "scale": scale, "vertices": graph.num_vertices, "edges": graph.num_edges},
        "batches": {"seeds": len(seeds), "batch_size": batch_size, "fetches": int(found.counts.sum())},
        "target": TARGET,
        "cases": [
            {
                "score": name,
                "ms": 1e3 * found.seconds[name],
                **{f"at_{share:.0%}": rate for share, rate in zip(SHARES, of, strict=True)},
                "gap_at_10%": rates["oracle"][tenth] - of[tenth],
            }
            for name, of in rates.items()
        ],
    }
