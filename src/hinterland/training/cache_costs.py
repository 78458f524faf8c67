"""What reading a row, a sampled edge or a list's offsets costs from host memory, from GPU memory and from another GPU's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..graph.device_graph import DeviceGraph
from ..machine import load, measured_link
from ..memory import plan_sort
from ..runtime.devices import idle_at
from ..sampling import NeighborSampler
from ..table import Table

_SECTOR = 32  # bytes of the least read over the link or of GPU memory
_GPU_RATE = 2.0e12  # bytes a second, random reads of an H200's memory
_PEER_RATE = 331e9  # bytes a second, random rows of 64 bytes of another H200's memory over NVLink
_REPEATS = 3
_LEAST = 1e-12  # seconds


@dataclass(frozen=True)
class Costs:
    """Seconds, and where they come from.

    Attributes:
        row_host, row_gpu: of a fetched row.
        edge_host, edge_gpu: of a sampled edge.
        list_host, list_gpu: of a vertex that draws from its list, whose offsets are read.
        source: for people.
        row_peer, edge_peer: of one in another GPU's memory; None: nothing is kept there.
    """

    row_host: float
    row_gpu: float
    edge_host: float
    edge_gpu: float
    list_host: float
    list_gpu: float
    source: str = "given"
    row_peer: float | None = None
    edge_peer: float | None = None

    def dealt(self, gpus: int) -> tuple[float, float]:
        """What a row and an edge that are dealt over so many GPUs save, of what they save where each GPU has them."""
        row = self.row_host, self.row_gpu, self.row_peer
        edge = self.edge_host, self.edge_gpu, self.edge_peer
        return _dealt(*row, gpus), _dealt(*edge, gpus)

    def of_lists(self) -> Costs:
        """The same, where an edge and a list save something each: what was measured of a small graph may be nothing."""
        edge, at_list = max(self.edge_host, self.edge_gpu + _LEAST), max(self.list_host, self.list_gpu + _LEAST)
        return replace(self, edge_host=edge, list_host=at_list)


def _dealt(host: float, gpu: float, peer: float | None, gpus: int) -> float:
    if peer is None or gpus == 1 or host <= gpu:
        return 0.0
    mean = gpu + max(0.0, peer - gpu) * (1 - 1 / gpus)  # one in so many lies in the reader's own memory
    return max(0.0, (host - mean) / (host - gpu))


def rated(row_bytes: int, table_bytes: int, rows: int, lists_bytes: int, placement: str, managed_bytes: int = 0) -> Costs:
    """Costs by the rates of the machine's probe, or by those of an H200 that are built in. ``placement`` and ``managed_bytes``
    are those of the features, and lists are taken to lie alike."""
    mapping = placement if placement in ("pinned", "split") else "managed"

    def host(size: int, whole: int) -> float:
        plan = plan_sort(mapping, max(rows, 1), size, whole, whole * managed_bytes // max(table_bytes, 1))
        return (plan.sorted + plan.sorting if plan.sort else plan.as_given) / max(rows, 1)

    machine = load()
    pairs = () if machine is None else machine.peers
    peer = min((pair.random64 for pair in pairs), default=_PEER_RATE)
    link = "an H200 by built-in rates" if measured_link() is None else "the link by the probe"
    sector = host(_SECTOR, lists_bytes)
    return Costs(
        host(row_bytes, table_bytes),
        max(row_bytes, _SECTOR) / _GPU_RATE,
        sector,
        _SECTOR / _GPU_RATE,
        sector,
        _SECTOR / _GPU_RATE,
        f"not measured: {link}, GPU memory at 2 TB/s",
        max(row_bytes, _SECTOR) / peer,
        _SECTOR / peer,
    )


def measured(
    costs: Costs,
    sampler: NeighborSampler,
    bare: DeviceGraph,
    trial: tuple[NeighborSampler, DeviceGraph] | None,
    features: Table,
    batches: Sequence[tuple[int, torch.Tensor]],
    row_room: int,
) -> Costs:
    """``costs`` with what can be measured in place of the rates, on the sampler's GPU.

    DUCATI's slopes: sampling is timed with nothing kept and with a trial cache; what each hit saves is the difference over the
    hits. Rows are gathered from the table and from rows on the GPU.

    Args:
        costs: by rates.
        sampler, bare: the sampler with nothing kept, and its lists.
        trial: the same with a cache of lists.
        features: the table. Of one on storage the costs stay as they are: the first time has its pages read. Those of a
            ShardedTensor all ranks measure at once.
        batches: numbers and seeds of those to measure with, at least one.
        row_room: bytes that rows on the GPU may take meanwhile.
    """
    device = sampler.device
    samples = [sampler.sample(part, batch=number) for number, part in batches]
    nodes = [sample.node for sample in samples]
    source = f"rows {costs.source}"
    if features.file is None:
        row_host, row_gpu = _rows(costs, features, nodes, row_room, device)
        costs = replace(costs, row_host=row_host, row_gpu=row_gpu)
        source = f"rows measured on {device}"
    edges = max(1, sum(len(sample.edge) for sample in samples))
    lists = max(1, sum(len(s.node) - s.num_sampled_nodes[-1] for s in samples))
    if trial is None:
        return replace(costs, source=f"{source}; lists {costs.source}")
    cached, view = trial
    hits = int(sum(int(view.keeps(sample.edge).sum()) for sample in samples))
    plain, kept = _sampling(sampler, batches), _sampling(cached, batches)
    found = lists if view.offsets.data_ptr() != bare.offsets.data_ptr() else 0
    # A hit saves one read over the link, whichever array it is of.
    slope = max(0.0, plain - kept) / max(hits + found, 1)
    gpu = max(0.0, plain - slope * (edges + lists)) / (edges + lists)
    source = f"measured on {device}" if features.file is None else f"lists measured on {device}; {source}"
    host = gpu + slope
    return replace(costs, edge_host=host, edge_gpu=gpu, list_host=host, list_gpu=gpu, source=source)


def _rows(
    costs: Costs, features: Table, nodes: Sequence[torch.Tensor], row_room: int, device: torch.device
) -> tuple[float, float]:
    """Seconds of a row from the table and from GPU memory."""
    fetched = sum(map(len, nodes))
    row_host = _seconds(lambda: [features.gather(node) for node in nodes], device) / max(fetched, 1)
    few = max(1, min(len(features), row_room // max(features.row_bytes, 1)))
    row_gpu = costs.row_gpu
    if few * features.row_bytes <= row_room:
        rows = torch.zeros((few, *features.shape[1:]), dtype=features.dtype, device=device)
        there = [node % few for node in nodes]
        row_gpu = _seconds(lambda: [rows[node] for node in there], device) / max(fetched, 1)
    return row_host, min(row_gpu, row_host)


def _sampling(sampler: NeighborSampler, batches: Sequence[tuple[int, torch.Tensor]]) -> float:
    return _seconds(lambda: [sampler.sample(part, batch=number) for number, part in batches], sampler.device)


def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    """The median time of some repeats, after one that does not count."""
    times = []
    for _ in range(1 + _REPEATS):
        begin = idle_at(device)
        work()
        times.append(idle_at(device) - begin)
    return statistics.median(times[1:])
