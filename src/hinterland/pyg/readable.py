"""The user's data as PyG's code reads it to make a batch on a device: tensors where they are, or tables that give rows."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import EdgeStorage, NodeStorage
from torch_geometric.sampler import HeteroSamplerOutput

from ..graph import arrays
from ..runtime import devices
from ..runtime.errors import GraphError
from .once import once
from .others import ForeignFeatureStore
from .stores import FeatureStore
from .table_tensor import TableTensor, is_table, table_of
from .user_data import ONE_ROW_PER_NODE, UserData, require_rows, store_name

Known: TypeAlias = dict[tuple[Any, str], tuple[Any, int, Any]]  # by type and name: what was given, its version, what is read


def readable(given: UserData, data: Any, device: torch.device, placement: str, known: Known | None = None) -> tuple[Any, Known]:
    """The data as PyG's code reads it for batches on ``device``, and what was made of each attribute.

    Args:
        given: what the sampler was made of.
        data: the same graph; attributes may have come, gone or changed since.
        known: what this gave before: of attributes that are the same, the same is read.

    Raises:
        GraphError: features, or a table, without a row for each node or edge.
    """
    if not isinstance(data, Data | HeteroData):
        features, graphs = data
        # Without types PyG reads all that a feature store has by the numbers of nodes.
        hidden = set() if given.is_hetero else {a.attr_name for a in features.get_all_tensor_attrs() if given.is_of_edges(a)}
        if isinstance(features, FeatureStore):
            features = features.without(hidden) if hidden else features
        elif hidden or device.type != "cpu":
            features = ForeignFeatureStore(features, device, hidden)
        return (features, graphs), {}
    read, made = copy.copy(data), {}
    for store, out in zip(data.stores, read.stores, strict=True):
        node_type, counts = store.__dict__.get("_key"), row_counts(given, store)
        for key, value in list(store.items()):
            if key != "edge_index" and not is_table(value) and not isinstance(value, torch.Tensor | np.ndarray):
                continue
            version = value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0
            before, its_version, found = (known or {}).get((node_type, key), (None, -1, None))
            if before is not value or its_version != version:
                if key == "edge_index":
                    found = TableTensor(value, device)  # PyG asks for its device and counts edges by its shape, no more
                else:
                    if isinstance(store, NodeStorage) and key in ONE_ROW_PER_NODE:
                        require_rows(store_name(node_type), key, value, counts[0])
                    found = attribute(key, value, data.__cat_dim__(key, value, store), counts, device, placement)
            out[key] = found
            made[node_type, key] = value, version, found
        if isinstance(store, NodeStorage) and "num_nodes" not in store and not any(key in store for key in ONE_ROW_PER_NODE):
            out["num_nodes"] = counts[0]  # which PyG would guess from the edges
    return read, made


def row_counts(given: UserData, store: Any) -> tuple[int, ...]:
    """How many rows an attribute of nodes, or of edges, of this store has."""
    key = store.__dict__.get("_key")
    nodes = (given.num_nodes[key],) if isinstance(store, NodeStorage) else ()
    return (*nodes, store.num_edges) if isinstance(store, EdgeStorage) else nodes


def attribute(key: str, value: Any, dim: Any, counts: tuple[int, ...], device: torch.device, placement: str) -> Any:
    """An attribute with a row for each node or edge is read where it lies; any other, or all on demand, goes to the device."""
    if is_table(value):
        if value.shape[0] not in counts:
            raise GraphError(
                f"{key} is a table of {value.shape[0]} rows in host memory, but there are "
                f"{' nodes and '.join(map(str, counts))} to have one each; give it a row for each node (or edge)"
            )
        return TableTensor(value, device)
    if placement == "gpu":
        return in_gpu_memory(value, device)
    if device.type == "cpu" or (isinstance(value, torch.Tensor) and value.is_cuda):
        return value
    if not isinstance(dim, int) or value.ndim == 0 or value.shape[dim] not in counts:
        return value.to(device) if isinstance(value, torch.Tensor) else value
    dim %= value.ndim
    return TableTensor(table_of(value, placement, dim), device, dim)


def in_gpu_memory(value: torch.Tensor | np.ndarray, device: torch.device) -> torch.Tensor:
    """A whole attribute on a GPU, copied once however many loaders read it.

    Raises:
        OutOfMemory: it does not fit.
    """
    tensor = torch.as_tensor(value)
    if tensor.device == device:
        return tensor

    def copied() -> torch.Tensor:
        with devices.on(device):
            return arrays.tensor_of(arrays.placed(tensor.cpu(), tensor.dtype, "gpu"))

    return once(value, ("gpu", device), copied) if isinstance(value, torch.Tensor) else copied()


def add_missing_types(out: HeteroSamplerOutput, data: Any, device: torch.device) -> None:
    """What PyG adds for types that no sample reached, on the device of the rest."""
    if not isinstance(data, HeteroData):
        return
    empty = torch.empty(0, dtype=torch.int64, device=device)
    for node_type in data.node_types:
        out.node.setdefault(node_type, empty)
    for edge_type in data.edge_types:
        for found in (out.row, out.col, out.edge):
            if found is not None:
                found.setdefault(edge_type, empty)
