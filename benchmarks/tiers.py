"""Rows of 512 bytes from GPU memory, from peers and from the host: the rate by share, against what each path gives alone.

GB/s are 10^9 bytes of rows a second. ``ideal`` is the time that the busier of the link (the copy engine's rate) and the peers
(their measured rate at random 64-byte rows, the slowest pair) needs for its share at least; ``ratio`` is the share of it that
the gather reaches, where anything crosses either. Row numbers are fresh in every repetition, times are medians, and a sample
of each result is checked. Without a GPU, host memory plays all parts, and only the cost of the address map shows.
"""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

import torch

from hinterland import TieredTensor, UnifiedTensor
from hinterland.memory import hottest_first
from hinterland.memory.limits import host_memory
from hinterland.probe import peers
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices
from hinterland.table import reorder_rows

from ._timing import each_of

GIB = 1 << 30
ROW_BYTES = 512
REPEATS = 7
SHARES = (  # of the rows: local, peers; the rest on the host
    (1.0, 0.0),
    (0.0, 1.0),
    (0.0, 0.0),
    (0.1, 0.0),
    (0.5, 0.0),
    (0.9, 0.0),
    (0.0, 0.5),
    (0.1, 0.4),
    (0.2, 0.8),
    (0.1, 0.8),
)


def run(small: bool) -> dict[str, Any]:
    """All figures; ``small`` takes a small table."""
    gpus = devices.gpus()
    size = 64 << 20 if small else min(16 * GIB, host_memory(0)[0] // 4)
    rows = size // ROW_BYTES
    asked = min(1 << (14 if small else 20), rows)
    host = UnifiedTensor.empty((rows, ROW_BYTES // 8), torch.int64)
    host.cpu().copy_(torch.arange(rows)[:, None])
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(1))
    link = copy_rates(gpus[0], GIB)[0] if gpus else 0.0
    pairs, left_out = peers.measure() if len(gpus) > 1 else ((), [])
    peer = min((pair.random64 for pair in pairs), default=0.0)
    results: dict[str, Any] = {
        "table_gib": size / GIB,
        "rows": asked,
        "gpus": len(gpus),
        "copy_engine_gbs": link / 1e9,
        "peers_random_gbs": peer / 1e9,
        "left_out": "; ".join(left_out),
    }
    results["shares"] = [
        _share(host, order, *share, asked, link, peer) for share in SHARES if share[1] == 0 or peer or not gpus
    ]
    results["without_map"] = [_share(host, None, 0.5, 0.0, asked, link, peer)]
    results["reorder"] = _reorder(host, order)
    return results


def _share(
    host: UnifiedTensor, order: torch.Tensor | None, local: float, shared: float, asked: int, link: float, peer: float
) -> dict[str, Any]:
    """One split of the rows: what one GPU gets, and what all get that read at once."""
    gpus = devices.gpus()
    homes: list[Any] = list(gpus) if gpus else ["cpu"] * (2 if shared else 1)
    count = len(homes)
    id_map = 4 * len(host) + 1024
    table = host.tiered(
        int(local * host.nbytes) + id_map if local else 0,
        int(shared * host.nbytes) + count * (1024 + (0 if local else id_map)) if shared else 0,
        order=order,
        devices=homes,
    )
    with table:
        readers = gpus or [torch.device("cpu")]
        one = [_seconds([table], [readers[0]], asked)]
        every = [_seconds([table] * len(readers), readers, asked)] if len(readers) > 1 else []
        counted = table.count(_index(table, readers[0], asked, 0)).bytes
        ideal = max(counted["host"] / link if link else 0, counted["peers"] / peer if peer else 0)
        nbytes = asked * ROW_BYTES
        found: dict[str, Any] = {f"{tier}_share": part / nbytes for tier, part in counted.items()}
        found |= {"gbs": nbytes / one[0] / 1e9}
        if ideal:
            found["ratio"] = ideal / one[0]
        if every:
            found["each_of_all_gbs"] = nbytes / every[0] / 1e9
        found["held_mib"] = max(table.held.values(), default=0) / (1 << 20)
    return found


def _seconds(tables: list[TieredTensor], readers: list[torch.device], asked: int) -> float:
    """The median time of a gather by every reader at once, from the first start to the last end."""
    indices = [[_index(tables[0], reader, asked, seed) for reader in readers] for seed in range(REPEATS + 1)]
    outs = [torch.empty((asked, ROW_BYTES // 8), dtype=torch.int64, device=reader) for reader in readers]
    times = []
    for sets in indices:
        start = max(map(devices.idle_at, readers))
        calls = [
            partial(table.gather, index, out=out, check="async") for table, index, out in zip(tables, sets, outs, strict=True)
        ]
        if len(readers) == 1:
            times += each_of(calls, readers[0])
            continue
        for call in calls:
            call()
        times.append(max(map(devices.idle_at, readers)) - start)
    for index, out in zip(indices[-1], outs, strict=True):
        sample = torch.randint(0, asked, (1000,), device=index.device)
        assert torch.equal(out[sample, 0], index[sample]), "the gather returned other rows"
    return median(times[1:])


def _index(table: TieredTensor, reader: torch.device, asked: int, seed: int) -> torch.Tensor:
    random = torch.Generator(reader).manual_seed(seed)
    return torch.randint(0, len(table), (asked,), generator=random, device=reader)


def _reorder(host: UnifiedTensor, order: torch.Tensor) -> dict[str, Any]:
    """Putting the rows of a table into another order, and finding it from scores, on all cores."""
    scores = torch.rand(len(host))
    start = time.perf_counter()
    hottest_first(scores, len(host))
    sorted_ = time.perf_counter()
    made = reorder_rows(host, order)
    end = time.perf_counter()
    assert torch.equal(made.cpu()[:1000, 0], order[:1000])
    return {
        "rows": len(host),
        "threads": torch.get_num_threads(),
        "sort_seconds": sorted_ - start,
        "rows_seconds": end - sorted_,
        "rows_gbs": host.nbytes / (end - sorted_) / 1e9,
    }
