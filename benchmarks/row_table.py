"""Row tables as serving engines have them, against the link, against kernels over pinned memory and against GPU memory.

GB/s are 10^9 bytes of rows a second, without scales and row numbers. The GPU is filled until 32 GiB are free, of which the
table may take 24. ``pinned``: one warp a row, that loads from pinned memory, as engines describe theirs. Calls are captured in
one CUDA graph, each with row numbers of its own; times are of the best of some replays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import hinterland as hl
from hinterland.nn import RowTable
from hinterland.probe.link import sequence_rate
from hinterland.runtime import devices

from ._timing import milliseconds

GIB = 1 << 30
PREFILL = 8192 * 48  # rows that 8,192 tokens ask for
DECODE = 4 * 48
PINNED = """
__global__ void rows(const int64_t* table, const int64_t* index, int64_t* out, int64_t words, int64_t count) {
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (row >= count) return;
  for (int64_t i = threadIdx.x % 32; i < words; i += 32) out[row * words + i] = table[index[row] * words + i];
}
"""


def run(small: bool) -> dict[str, Any]:
    """All figures; ``small`` takes a small table, and does without a GPU where there is none."""
    if not devices.cuda_available():
        return _on_cpu(1 << 14 if small else 1 << 22)
    device = devices.as_device("cuda")
    filler = torch.empty(max(0, torch.cuda.mem_get_info(device)[0] - 32 * GIB), dtype=torch.uint8, device=device)
    size, calls = (2 * GIB, 4) if small else (24 * GIB, 12)
    table = hl.UnifiedTensor.empty((size // 8,), torch.int64, "managed")
    torch.arange(size // 8, out=table.cpu())
    link = sequence_rate(device, table.cpu().data_ptr(), min(size, 4 * GIB), 16, 64)
    results: dict[str, Any] = {"table_gib": size / GIB, "kernels_read_gbs": link / 1e9, "filler_gib": filler.nbytes / GIB}
    ours = [_prefill(table, row_bytes, row_bytes == 256, calls, link) for row_bytes in (256, 576, 656)]
    results["decode"] = [_decode(table, slots) for slots in (0, 1 << 14)]
    results["hits"] = [_hits(table, eviction, link) for eviction in ("clock", "lru")]
    results["writes"] = [_writes(table, row_bytes, calls) for row_bytes in (576, 656)]
    del table
    table = hl.UnifiedTensor.empty((size // 8,), torch.int64, "pinned")
    torch.arange(size // 8, out=table.cpu())
    for row in ours:
        row["pinned_gbs"] = _pinned(table, row["row_bytes"], calls)
        row["over_pinned"] = row["gbs"] / row["pinned_gbs"]
    return results | {"prefill": ours}


def _numbers(rows: int, count: int, calls: int, seed: int = 1) -> list[torch.Tensor]:
    random = torch.Generator("cuda").manual_seed(seed)
    return list(torch.randint(0, rows, (calls, count), generator=random, device="cuda"))


def replayed(calls: list[Callable[[], Any]], replays: int = 4, before: Callable[[], Any] | None = None) -> float:
    """Seconds of a call, of all captured in one graph. ``before``, or the first, is called once before, on the same stream."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        (before or calls[0])()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(replays + 1)]
    marks[0].record()
    for mark in marks[1:]:
        graph.replay()
        mark.record()
    torch.cuda.synchronize()
    return min(marks[i].elapsed_time(marks[i + 1]) for i in range(replays)) / 1e3 / len(calls)


def _rows(table: hl.UnifiedTensor, row_bytes: int, dtype: torch.dtype = torch.int64) -> hl.UnifiedTensor:
    return table.view(table.nbytes // row_bytes, row_bytes // dtype.itemsize, dtype=dtype)


def _prefill(table: hl.UnifiedTensor, row_bytes: int, float8: bool, calls: int, link: float) -> dict[str, Any]:
    rows = _rows(table, row_bytes, torch.float8_e4m3fn if float8 else torch.int64)
    made = RowTable(rows, dtype=torch.bfloat16, scales=torch.rand(len(rows))) if float8 else RowTable(rows)
    numbers = _numbers(len(rows), PREFILL, calls)
    seconds = replayed([partial(made, index) for index in numbers])
    assert float8 or torch.equal(made(numbers[0][:64]).cpu(), rows.cpu()[numbers[0][:64].cpu()])
    rate = PREFILL * row_bytes / seconds
    return {"row_bytes": row_bytes, "float8": float8, "ms": seconds * 1e3, "gbs": rate / 1e9, "of_link": rate / link}


def _pinned(table: hl.UnifiedTensor, row_bytes: int, calls: int) -> float:
    rows, words = _rows(table, row_bytes), row_bytes // 8
    kernel, out = hl.kernel(PINNED), torch.empty(PREFILL, words, dtype=torch.int64, device="cuda")
    numbers = _numbers(len(rows), PREFILL, calls)
    seconds = replayed([partial(kernel, rows, index, out, words, PREFILL, grid=PREFILL // 8) for index in numbers])
    assert torch.equal(out[:64].cpu(), rows.cpu()[numbers[-1][:64].cpu()])
    return PREFILL * row_bytes / seconds / 1e9


def _decode(table: hl.UnifiedTensor, slots: int) -> dict[str, Any]:
    """Few rows, all misses: of one call in a graph of many, and of a graph of one."""
    rows = _rows(table, 256, torch.float8_e4m3fn)
    made = RowTable(rows, slots, dtype=torch.bfloat16, scales=torch.rand(len(rows)))
    numbers = _numbers(len(rows), DECODE, 200)
    each, replay = replayed([partial(made, index) for index in numbers]), replayed([partial(made, numbers[0])], 50)
    return {"rows": DECODE, "slots": slots, "us": each * 1e6, "direct_replay_us": None if slots else replay * 1e6}


def _hits(table: hl.UnifiedTensor, eviction: str, link: float) -> dict[str, Any]:
    """19 of 20 rows in slots, which are full: each batch has others give way, some of which are asked for again."""
    rows = _rows(table, 256)
    hot = min(1 << 21, len(rows) // 8)
    misses, slots = PREFILL // 22, hot + hot // 4
    made = RowTable(rows, slots, eviction=eviction)
    cold = _numbers(len(rows) - hot, misses, 81, 2)
    warm = _numbers(hot, PREFILL - misses, 81, 3)
    batches = [torch.cat([a, b + hot])[torch.randperm(PREFILL, device="cuda")] for a, b in zip(warm, cold, strict=True)]
    for first in range(hot, hot + slots, PREFILL):
        made.resolve(torch.arange(first, min(first + PREFILL, len(rows)), device="cuda"))
    for first in range(0, hot, PREFILL):
        made.resolve(torch.arange(first, min(first + PREFILL, hot), device="cuda"))
    for index in batches[:59]:
        made.resolve(index)
    before = partial(made, batches[59])
    seconds = replayed([partial(made, index) for index in batches[60:80]], 1, before)
    missed = int((made._rows.clock.slots[batches[80]] < 0).sum())
    assert abs(missed / PREFILL - 1 / 20) < 1 / 100, f"{missed} of {PREFILL} rows were in no slot, in place of one of 20"
    near, blocks, gather = rows.cpu()[:hot].cuda(), devices.sm_count(torch.device("cuda", 0)), torch.ops.hinterland.gather
    ways = partial(near.index_select, 0), lambda index: gather(near, index, blocks)
    in_memory = min(replayed([partial(way, index % hot) for index in batches[60:80]]) for way in ways)
    found = {"eviction": eviction, "slots": slots, "hit_rate": 1 - missed / PREFILL, "ms": seconds * 1e3}
    least = in_memory + missed * 256 / link
    return found | {"in_memory_ms": in_memory * 1e3, "with_misses_ms": least * 1e3, "ratio": seconds / least}


def _writes(table: hl.UnifiedTensor, row_bytes: int, calls: int) -> dict[str, Any]:
    """Rows written where they lie, and by way of slots that are all taken by rows that were written before."""
    rows = _rows(table, row_bytes)
    numbers = [index.unique()[: PREFILL // 2] for index in _numbers(len(rows), PREFILL, calls)]
    values = rows.cpu()[: PREFILL // 2].cuda()
    found: dict[str, Any] = {"row_bytes": row_bytes}
    for name, slots in (("direct", 0), ("write_back", PREFILL)):
        made = RowTable(rows, slots)
        seconds = replayed([partial(made.write, index, values) for index in numbers])
        found[f"{name}_gbs"] = PREFILL // 2 * row_bytes / seconds / 1e9
    return found


def _on_cpu(rows: int) -> dict[str, Any]:
    """What a machine without a GPU does: rows of 256 bytes, all from the table, and with slots for a sixteenth."""
    table = hl.UnifiedTensor.from_tensor(torch.randint(0, 256, (rows, 256), dtype=torch.uint8).view(torch.float8_e4m3fn))
    index, here = torch.randint(0, rows, (min(rows, PREFILL),)), torch.device("cpu")
    made = {slots: RowTable(table, slots, device=here, dtype=torch.float32) for slots in (0, rows // 16)}
    ours = [{"slots": slots, "ms": milliseconds(partial(one, index), [here])} for slots, one in made.items()]
    return {"rows": len(index), "ours": ours}
