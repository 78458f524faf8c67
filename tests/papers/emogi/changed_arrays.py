"""EMOGI's programs and their traffic on graphs whose arrays were changed, as ``tests/graph/changed_arrays.py``: a program of
its own."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))

import hinterland as hl
from hinterland_papers import emogi
from hinterland_papers.emogi.traffic import analyse
from tests.graph.changed_arrays import Operation, after, main


def traversed(algorithm: str, access: str, assignment: str) -> Operation:
    def run(graph: hl.Graph, device: str) -> None:
        start = (3,) if algorithm in ("bfs", "sssp") else ()
        getattr(emogi, algorithm)(graph, *start, access=access, assignment=assignment, device=device)

    return after(run)


def traffic(algorithm: str, assignment: str) -> Operation:
    source = 3 if algorithm in ("bfs", "sssp") else None
    return after(lambda graph, device: analyse(graph, algorithm, source, assignment=assignment))


OPERATIONS = {
    f"emogi {algorithm}, {access}, {assignment}": traversed(algorithm, access, assignment)
    for algorithm in emogi.ALGORITHMS
    for access in emogi.ACCESSES
    for assignment in emogi.ASSIGNMENTS
}
OPERATIONS |= {f"traffic {a}, {s}": traffic(a, s) for a in emogi.ALGORITHMS for s in ("warp", "transposed", "odt")}

if __name__ == "__main__":
    device, every, *form = sys.argv[1:]
    sys.exit(main(OPERATIONS, device, int(every), *form[:1], *map(int, form[1:])))
