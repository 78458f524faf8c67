"""Embedding bags over a table in host memory, against the link's copy engine and against torch.nn.EmbeddingBag on the CPU.

A lookup is one row in one bag. GB/s are 10^9 bytes of rows a second: read for bags; for a step read, and as much written, each
row with its state once. ``ratio`` is the share of what this run's copy engine moves, of its slower way for a step. Row
numbers are fresh in every repetition, times are medians, and a sample of the bags is checked.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import torch

from hinterland import TieredTensor, UnifiedEmbeddingBag, UnifiedTensor
from hinterland.memory.limits import host_memory
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices
from hinterland.training import SparseAdagrad, SparseSGD

from ._timing import each_of

GIB = 1 << 30
REPEATS = 7
SHAPES = [(torch.float32, 16), (torch.float32, 32), (torch.float32, 64), (torch.float32, 128), (torch.bfloat16, 128)]
OPTIMIZERS = {"sgd": (SparseSGD, 1), "adagrad": (SparseAdagrad, 2)}  # and how often the row's bytes are touched, state included


def run(small: bool) -> dict[str, Any]:
    """All figures; ``small`` takes a small table, and does without a GPU where there is none."""
    if not devices.cuda_available():
        size, bags = (64 << 20, 4096) if small else (8 * GIB, 1 << 16)
        here = torch.device("cpu")
        table = filled(size, 128, torch.float32, "pageable")
        ours = [_step(table, bags, 20, kind, here) for kind in OPTIMIZERS]
        return {"table_gib": size / GIB, "bags": bags, "each": 20, "ours": ours, "torch": [_torch(table, bags, 20, here)]}
    device = devices.as_device("cuda")
    # The sums of Adagrad are as large as the table, and both stay below the GPU's memory together.
    room = min(host_memory(0)[0], torch.cuda.mem_get_info()[0])
    size, bags = (GIB, 1 << 13) if small else (min(12 * GIB, room // 3), 1 << 16)
    down, up = copy_rates(device, GIB)
    results: dict[str, Any] = {
        "to_device_gbs": down / 1e9,
        "to_host_gbs": up / 1e9,
        "table_gib": size / GIB,
        "bags": bags,
        "each": 20,
        "pooling": [],
    }
    for dtype, dim in SHAPES:
        table = filled(size, dim, dtype, "managed")
        results["pooling"].append({"skew": 0, **_pool(table, bags, 20, down, device)})
        if (dtype, dim) == (torch.float32, 128):
            results["pooling"].append({"skew": 3, **_pool(table, bags, 20, down, device, skew=3)})
            results["gather_then_sum"] = _gather_then_sum(table, bags, 20, device)
            results["steps"] = [_step(table, bags, 20, kind, device, (down, up)) for kind in OPTIMIZERS]
            results["torch"] = _torch(table, bags, 20, device)
            results["tiered"] = [_tiered(table, share, bags, 20, down, device) for share in (0.01, 0.1)]
        del table
    table = filled(size, 128, torch.float32, "pinned")
    results["pinned"] = _pool(table, bags, 20, down, device)
    del table
    ours = next(step for step in results["steps"] if step["optimizer"] == "adagrad")
    results["pooling_over_torch"] = results["torch"]["forward_ms"] / ours["forward_ms"]
    results["training_over_torch"] = results["torch"]["all_ms"] / ours["all_ms"]
    return results


def filled(size: int, dim: int, dtype: torch.dtype, placement: str) -> UnifiedTensor:
    """A table of ``size`` bytes whose rows are all different."""
    rows = size // (dim * dtype.itemsize)
    table = UnifiedTensor.empty((rows, dim), dtype, placement)
    for first in range(0, rows, 1 << 22):
        part = table.cpu()[first : first + (1 << 22)]
        part.copy_((torch.arange(first, first + len(part)) % 4099).float().div_(4099)[:, None].expand(part.shape))
    return table


def _indices(rows: int, bags: int, each: int, device: torch.device, skew: int = 0) -> list[torch.Tensor]:
    """Uniform row numbers, or such that the share x of the first rows is asked for with probability x ** (1 / (1 + skew))."""
    random = torch.Generator(device).manual_seed(1)
    shape = (REPEATS + 1, bags, each)
    uniform = torch.rand(shape, generator=random, device=device, dtype=torch.float64)
    return list((uniform ** (1 + skew) * rows).long().clamp_(max=rows - 1))


def _pool(
    table: UnifiedTensor | TieredTensor, bags: int, each: int, ceiling: float, device: torch.device, skew: int = 0
) -> dict[str, Any]:
    bag = UnifiedEmbeddingBag.from_pretrained(table, mode="sum", check="async")
    indices = _indices(len(table), bags, each, device, skew)
    made: list[torch.Tensor] = []
    with torch.no_grad():
        times = [seconds for index in indices for seconds in each_of([partial(_into, made, bag, index)], device)]
    host = table.host if isinstance(table, TieredTensor) else table
    want = torch.nn.functional.embedding_bag(indices[-1][:100].cpu(), host.cpu(), mode="sum")
    torch.testing.assert_close(made[0][:100].cpu(), want, rtol=2e-2 if table.dtype != torch.float32 else 1e-4, atol=1e-4)
    seconds = median(times[1:])
    rate = bags * each / seconds
    return {
        "dtype": str(table.dtype).removeprefix("torch."),
        "dim": table.shape[1],
        "row_bytes": table.row_bytes,
        "mlookups": rate / 1e6,
        "gbs": rate * table.row_bytes / 1e9,
        "ratio": rate * table.row_bytes / ceiling,
    }


def _tiered(table: UnifiedTensor, share: float, bags: int, each: int, ceiling: float, device: torch.device) -> dict[str, Any]:
    """The same with the first rows, which skewed row numbers ask for most, in GPU memory."""
    with table.tiered(local=int(share * table.nbytes), devices=[device]) as tiered:
        index = _indices(len(table), bags, each, device, 3)[0]
        hits = 1 - tiered.count(index).rows["host"] / index.numel()
        return {"share": share, "skew": 3, "hit_rate": hits, **_pool(tiered, bags, each, ceiling, device, skew=3)}


def _gather_then_sum(table: UnifiedTensor, bags: int, each: int, device: torch.device) -> dict[str, Any]:
    """What bags cost without a kernel of their own: all rows, and then their sum."""

    def work(index: torch.Tensor) -> None:
        table.gather(index, check="async", sort=False).sum(dim=1)

    indices = _indices(len(table), bags, each, device)
    times = [seconds for index in indices for seconds in each_of([partial(work, index)], device)]
    return {"mlookups": bags * each / median(times[1:]) / 1e6, "intermediate_gib": bags * each * table.row_bytes / GIB}


def _step(
    table: UnifiedTensor, bags: int, each: int, kind: str, device: torch.device, ceilings: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Bags, their gradient, and a step: milliseconds of each, and the step's rate."""
    make, touched = OPTIMIZERS[kind]
    bag = UnifiedEmbeddingBag.from_pretrained(table, freeze=False, mode="sum", check="async")
    optimizer = make(bag.parameters(), lr=1e-6)
    indices = _indices(len(table), bags, each, device)
    slope = torch.full((bags, table.shape[1]), 1e-6, device=device)
    times = []
    for index in indices:
        optimizer.zero_grad()
        made: list[torch.Tensor] = []
        calls = [partial(_into, made, bag, index), lambda made=made: made[0].backward(slope), optimizer.step]
        times.append(each_of(calls, device))
    forward, backward, step = (median(column) for column in zip(*times[1:], strict=True))
    rows = int(torch.unique(indices[-1]).numel())
    moved = rows * table.row_bytes * touched
    found = {
        "optimizer": kind,
        "forward_ms": forward * 1e3,
        "backward_ms": backward * 1e3,
        "step_ms": step * 1e3,
        "all_ms": (forward + backward + step) * 1e3,
        "mlookups": bags * each / forward / 1e6,
        "mrows_updated": rows / step / 1e6,
        "step_gbs_each_way": moved / step / 1e9,
    }
    if ceilings is not None:
        found["step_ratio"] = moved / min(ceilings) / step
    return found


def _torch(table: UnifiedTensor, bags: int, each: int, device: torch.device) -> dict[str, Any]:
    """What a torch user has: bags, sparse gradients and Adagrad on all CPU cores, and copies of bags and of their gradients."""
    bag = torch.nn.EmbeddingBag.from_pretrained(table.cpu(), freeze=False, mode="sum", sparse=True)
    optimizer = torch.optim.Adagrad(bag.parameters(), lr=1e-6)
    slope = torch.full((bags, table.shape[1]), 1e-6, device=device)
    times = []
    for index in _indices(len(table), bags, each, torch.device("cpu")):
        optimizer.zero_grad()
        start = devices.idle_at(device)
        made = bag(index)
        made.to(device)
        pooled = devices.idle_at(device)
        made.backward(slope.cpu())
        optimizer.step()
        times.append((pooled - start, devices.idle_at(device) - start))
    forward, whole = (median(column) for column in zip(*times[1:], strict=True))
    rates = {"mlookups": bags * each / forward / 1e6, "threads": torch.get_num_threads()}
    return {"optimizer": "adagrad", "forward_ms": forward * 1e3, "all_ms": whole * 1e3, **rates}


def _into(made: list[torch.Tensor], bag: UnifiedEmbeddingBag, index: torch.Tensor) -> None:
    """Leaves the bags of an index in a list, in place of others."""
    made[:] = [bag(index)]
