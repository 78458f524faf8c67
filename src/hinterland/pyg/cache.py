"""Which rows of node features a loader keeps in GPU memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch_geometric.data.storage import NodeStorage

from ..hotness.presample import until_steady
from ..runtime.errors import ConfigError
from ..runtime.units import format_bytes
from ..table import as_table
from ..training.cache_reads import crosswise, last, ratio, workplace
from ..training.cache_split import rows_within
from .table_tensor import TableTensor


def widest(read: Any, num_nodes: Mapping[Any, int]) -> dict[Any, TableTensor]:
    """Of each node type the attribute in host memory or on storage with the widest rows, in data as loaders read it."""
    found: dict[Any, TableTensor] = {}
    for store in read.stores:
        node_type = store.__dict__.get("_key")
        for rows in store.values() if isinstance(store, NodeStorage) else ():
            table = as_table(rows.table) if isinstance(rows, TableTensor) else None
            if table is not None and table.keepable:
                known = found.get(node_type, rows).table.row_bytes
                if len(rows.table) == num_nodes[node_type] and rows.table.row_bytes >= known:
                    found[node_type] = rows
    return found


def presample(
    sample: Callable[[torch.Tensor, int], Any],
    inputs: int,
    batch_size: int,
    num_nodes: Mapping[Any, int],
    rows_of: Callable[[Mapping[Any, torch.Tensor]], Mapping[Any, int]],
    device: torch.device,
) -> dict[Any, torch.Tensor]:
    """How often each node is in a mini-batch of two epochs (PreSC#2; Yang et al. 2022, "GNNLab", section 5), by node type; of
    fewer batches where more would hardly rank better. ``rows_of``: how many rows of each type are kept by such counts;
    ``device``: of the samples."""
    work = workplace(device, sum(num_nodes.values()))
    counts = {node_type: torch.zeros((2, count), dtype=torch.int32, device=work) for node_type, count in num_nodes.items()}

    def met() -> dict[Any, torch.Tensor]:
        return {node_type: halves.sum(0, dtype=torch.int32) for node_type, halves in counts.items()}

    def rate() -> float:
        read = {node_type: halves.sum(1).tolist() for node_type, halves in counts.items()}
        served = {t: last(crosswise(counts[t], counts[t], read[t], rows)) for t, rows in rows_of(met()).items()}
        return ratio(sum(share * sum(read[t]) for t, share in served.items()), sum(map(sum, read.values())))

    orders = [torch.randperm(inputs, generator=torch.Generator().manual_seed(epoch)).split(batch_size) for epoch in range(2)]
    for i, both in enumerate(until_steady(zip(*orders, strict=True), rate)):
        for half, index in enumerate(both):
            node = sample(index, half * len(orders[0]) + i).node
            for node_type, nodes in node.items() if isinstance(node, dict) else [(None, node)]:
                counts[node_type][half].index_add_(0, nodes.to(work), torch.ones(len(nodes), dtype=torch.int32, device=work))
    return met()


def split(budget: int, scores: Mapping[Any, torch.Tensor], row_bytes: Mapping[Any, int]) -> dict[Any, int]:
    """Bytes for each node type, so that the budget holds the rows with the highest scores per byte, all types together.

    Raises:
        ConfigError: the budget holds no row.
    """
    types = [node_type for node_type in scores if row_bytes.get(node_type)]
    if not types:
        return {}
    if budget < min(row_bytes[node_type] for node_type in types):
        raise ConfigError(f"gpu_budget of {format_bytes(budget)} holds no row of the features; raise it, or leave cache=None")
    if len(types) == 1:  # which has no other to leave room for
        return {t: rows_within(budget, len(scores[t]), row_bytes[t])[1] for t in types}
    worth = torch.cat([scores[t].double().cpu() / row_bytes[t] for t in types])
    size = torch.cat([torch.full((len(scores[t]),), row_bytes[t]) for t in types])
    owner = torch.cat([torch.full((len(scores[t]),), i) for i, t in enumerate(types)])
    order = worth.argsort(descending=True, stable=True)
    kept = order[size[order].cumsum(0) <= budget]
    rows = owner[kept].bincount(minlength=len(types)).tolist()
    return {node_type: count * row_bytes[node_type] for node_type, count in zip(types, rows, strict=True)}
