"""How busy strategies keep multiprocessors, as Nsight Compute counts (MGG, section 6.2), and what it looks at.

``occupancy``: warps that run, of those that a multiprocessor has room for, while it has any; ``active``: of the time that
kernels take, that in which a multiprocessor has warps; ``sm`` and ``dram``: of the most that it, and the GPU's memory, can do.
Per cent, means over the launches of a sum on all parts by the time that each takes. ``ms``: a part's launches one after
another, so that nothing hides anything; what the copy engine does is no launch. ``mgg`` and ``mgg staged``: its kernel with
remote rows in registers and in shared memory. ``host``, ``uvm``: as in _baselines.py.

Arguments of what is looked at: shape, width, way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import _ncu
from benchmarks._fullgraph_shapes import shaped
from benchmarks._rows import told
from hinterland.fullgraph import STRATEGIES, PartitionedGraph
from hinterland.fullgraph.reduce import Operation, summed
from hinterland.runtime import devices
from hinterland_papers.mgg.kernel import Mgg, Setting

from ._ablation import Case
from ._baselines import mapped, paged

WAYS = (*(name for name in STRATEGIES if name != "replicate"), "mgg", "mgg staged", "host", "uvm")
KERNELS = "aggregate_kernel|take_kernel|mgg_kernel"
TIME = "gpu__time_duration.sum"
CYCLES = {"active": "sm__cycles_active.avg", "elapsed": "gpc__cycles_elapsed.max"}
SHARES = {
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
}


def sm_use(shapes: Sequence[str], widths: Sequence[int], parts: int) -> Iterator[dict[str, Any]]:
    """A row for each shape, width and way; none of managed memory that has no room."""
    metrics = (TIME, *CYCLES.values(), *SHARES.values())
    for shape in shapes:
        for width in widths:
            for way in WAYS:
                replay = "application" if way == "uvm" else "kernel"  # a launch anew would find its pages there
                launches = _ncu.counted("papers.benchmarks.mgg._sm", (shape, width, way), KERNELS, metrics, replay)
                if launches:
                    yield told({"shape": shape, "width": width, "way": way, **mean(launches, parts)})


def mean(launches: Sequence[dict[str, str]], parts: int) -> dict[str, float]:
    times = [_ncu.number(launch[TIME]) for launch in launches]  # nanoseconds
    shares = {name: [_ncu.number(launch[metric]) for launch in launches] for name, metric in SHARES.items()}
    active, elapsed = ([_ncu.number(launch[metric]) for launch in launches] for metric in CYCLES.values())
    shares["active"] = [100 * one / all_of_it for one, all_of_it in zip(active, elapsed, strict=True)]
    means = {name: sum(map(float.__mul__, times, of)) / sum(times) for name, of in shares.items()}
    return {"launches": len(launches), "ms": sum(times) / 1e6 / parts, **means}


def once(shape: str, width: int, way: str) -> None:
    """A sum, and nothing else of its kernels."""
    where = devices.gpus() or [devices.as_device()]
    where = where if len(where) > 1 else where * 2
    case = Case.of(PartitionedGraph.from_graph(shaped(shape, where[0]).to_graph(), devices=where), width)
    if way in STRATEGIES:
        summed(case.p, Operation(), case.x, way)
    elif way.startswith("mgg"):
        Mgg(case.p, width, Setting(loads="staged" if "staged" in way else "plain"))(case.x)
    elif way == "host":
        mapped(case)(case.x)
    elif (pages := paged(case)) is not None:
        sums, at_home = pages
        at_home()
        sums(case.x)
    for device in where:
        devices.idle_at(device)


if __name__ == "__main__":
    once(sys.argv[1], int(sys.argv[2]), sys.argv[3])
