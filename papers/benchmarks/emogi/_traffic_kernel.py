"""What traffic.py has Nsight Compute look at: one search of EMOGI, with edges in host memory.

Arguments: kind of graph, scale, bytes of an edge, access, assignment, source.
"""

from __future__ import annotations

import sys

from hinterland_papers import emogi

from .traffic import graph_of

if __name__ == "__main__":
    kind, scale, edge_bytes, access, assignment, source = sys.argv[1:]
    emogi.bfs(graph_of(kind, int(scale), int(edge_bytes)), int(source), access, assignment, device="cuda")
