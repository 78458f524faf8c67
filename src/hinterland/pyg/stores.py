"""PyG's stores over this library's tables and graphs."""

from __future__ import annotations

import copy
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import torch
import torch_geometric.data
from torch_geometric.data import EdgeAttr, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from ..graph import Graph
from ..runtime.errors import ConfigError, GraphError
from ..table import UnifiedTensor, as_table
from .lists import TargetLists
from .table_tensor import is_table, table_over


class FeatureStore(torch_geometric.data.FeatureStore):  # type: ignore[misc]
    """Tensors by group (a node type, None in a homogeneous graph) and name, in host memory that GPUs read.

    ``put_tensor`` takes a tensor or array, which is copied to ``placement``, or a UnifiedTensor, its ``ut.cpu()``, a
    TieredTensor or StorageArray, which is taken as it is. ``get_tensor`` gives rows on the device of the index: of a tensor
    (whole numbers or a mask), an array, a slice or an int; None is the whole. Several tensors asked for at once are gathered at
    once.

    Args:
        placement: as of UnifiedTensor.
    """

    def __init__(self, placement: str = "host") -> None:
        super().__init__()
        self.__dict__["placement"] = placement
        self.__dict__["_tables"] = {}

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        key = (attr.group_name, attr.attr_name)
        if isinstance(tensor, np.ndarray):
            tensor = torch.from_numpy(tensor)
        if attr.index is None:
            own = tensor if is_table(tensor) else table_over(tensor)
            self._tables[key] = UnifiedTensor.from_tensor(tensor, self.placement) if own is None else own
            return True
        table = self._tables.get(key)
        if table is None:
            raise ConfigError(f"{_named(attr)} is not there yet; put all its rows first, with index=None")
        index = torch.arange(len(table))[attr.index] if isinstance(attr.index, slice) else _index(attr.index)
        table.scatter_(index, tensor.to(table.dtype))
        return True

    def update_tensor(self, tensor: Any, *args: Any, **kwargs: Any) -> bool:
        """Writes rows where they are, as ``put_tensor`` does. (PyG's would remove all rows first.)"""
        return bool(self.put_tensor(tensor, *args, **kwargs))

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor:
        return self._multi_get_tensor([attr])[0]

    def _multi_get_tensor(self, attrs: Sequence[TensorAttr]) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for i, attr in enumerate(attrs):
            table = self._tables.get((attr.group_name, attr.attr_name))
            if table is None:
                raise ConfigError(
                    f"{_named(attr)} is not in the feature store; it has {sorted(map(_named, self.get_all_tensor_attrs()))}"
                )
            if attr.index is None:
                found.append(_whole(table))
            elif isinstance(attr.index, slice | int):
                found.append(table[attr.index])
            else:
                # A GPU gathers one after another, and is waited for once.
                found.append(table.gather(_index(attr.index), check="sync" if i + 1 == len(attrs) else "async"))
        return found

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return self._tables.pop((attr.group_name, attr.attr_name), None) is not None

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        table = self._tables.get((attr.group_name, attr.attr_name))
        return None if table is None else tuple(table.shape)

    def without(self, names: Container[str]) -> FeatureStore:
        """The same tensors, less the attributes of these names."""
        other = copy.copy(self)
        other.__dict__["_tables"] = {key: table for key, table in self._tables.items() if key[1] not in names}
        return other

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """What is stored; new objects, which the caller may fill in."""
        return [self._tensor_attr_cls(group_name=group, attr_name=name) for group, name in self._tables]


class GraphStore(torch_geometric.data.GraphStore):  # type: ignore[misc]
    """Edges by type (None in a homogeneous graph) and layout.

    ``put_edge_index`` takes PyG's pair of tensors, or a Graph: with ``layout="csc"`` its list of v holds the nodes with an edge
    to v (``graph.transpose()`` of the graph of messages), with ``layout="csr"`` those that v has an edge to. Samplers read a
    CSC graph where it lies; other layouts are sorted once, when first sampled.

    Args:
        placement: where the lists for sampling go; as of UnifiedTensor.
    """

    def __init__(self, placement: str = "host") -> None:
        super().__init__()
        self.__dict__["placement"] = placement
        self.__dict__["_edges"] = {}
        self.__dict__["_lists"] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without lists for sampling, which a copy, or another process, makes anew: their memory belongs to one process."""
        return self.__dict__ | {"_lists": {}}

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        if isinstance(edge_index, Graph):
            if edge_attr.layout == EdgeLayout.COO:
                raise ConfigError("a Graph is stored by rows: put it with layout='csc' or layout='csr'")
            size = (edge_index.num_vertices, edge_index.num_vertices)
            if edge_attr.size is not None and max(edge_attr.size) > size[0]:
                raise GraphError(f"size={tuple(edge_attr.size)} does not fit a graph of {size[0]} vertices; leave size away")
            edge_attr = EdgeAttr(edge_attr.edge_type, edge_attr.layout, edge_attr.is_sorted, edge_attr.size or size)
        else:
            edge_index = tuple(edge_index)
        self._edges[_key(edge_attr)] = (edge_attr, edge_index)
        self._lists.pop(edge_attr.edge_type, None)
        return True

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[torch.Tensor, torch.Tensor] | None:
        held = self._edges.get(_key(edge_attr))
        if held is None:
            return None
        edges = held[1]
        if isinstance(edges, Graph):
            pair = (edges.indptr.long(), edges.indices.long())
            return pair if edge_attr.layout == EdgeLayout.CSR else (pair[1], pair[0])
        found: tuple[torch.Tensor, torch.Tensor] = edges
        return found

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        self._lists.pop(edge_attr.edge_type, None)
        return self._edges.pop(_key(edge_attr), None) is not None

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """What is stored; new objects."""
        return [EdgeAttr(attr.edge_type, attr.layout, attr.is_sorted, attr.size) for attr, _ in self._edges.values()]

    def lists(self, edge_type: Any, sizes: tuple[int, int], backward: bool = False) -> TargetLists:
        """The lists that a sampler reads for an edge type, between ``sizes`` source and target nodes; made once and kept."""
        known = self._lists.setdefault(edge_type, {})
        key = (sizes, backward)
        if key not in known:
            known[key] = lists_of_store(self, edge_type, sizes, self.placement, backward)
        return known[key]


def lists_of_store(store: Any, edge_type: Any, sizes: tuple[int, int], placement: str, backward: bool = False) -> TargetLists:
    """The lists of an edge type of any store, from the layout that costs the least; ``backward`` as of
    :meth:`TargetLists.of`."""
    attr, held = _edges_of(store, edge_type)
    if attr.layout == EdgeLayout.CSC and not backward:
        if held is not None:
            return TargetLists(held)
        row, colptr = store.get_edge_index(attr)
        return TargetLists.from_csc(colptr, row, sizes, placement)
    row, col = store.get_edge_index(attr)
    if attr.layout == EdgeLayout.CSR:
        if backward:
            return TargetLists.from_csc(row, col, sizes[::-1], placement)
        row = _expanded(row)
    elif attr.layout == EdgeLayout.CSC:
        col = _expanded(col)
    if backward:
        return TargetLists.from_coo(col, row, sizes[::-1], placement)
    return TargetLists.from_coo(row, col, sizes, placement, is_sorted=attr.is_sorted)


def count_edges(store: Any, edge_type: Any) -> int:
    """How many edges of a type there are in any store."""
    attr, held = _edges_of(store, edge_type)
    if held is not None:
        return held.num_edges
    row, col = store.get_edge_index(attr)
    return len(col) if attr.layout == EdgeLayout.CSR else len(row)


def _edges_of(store: Any, edge_type: Any) -> tuple[EdgeAttr, Graph | None]:
    """The layout in which edges of a type are read and numbered, and the Graph where there is one."""
    attrs = {attr.layout: attr for attr in store.get_all_edge_attrs() if attr.edge_type == edge_type}
    for layout in (EdgeLayout.CSC, EdgeLayout.COO, EdgeLayout.CSR):
        if layout in attrs:
            held = getattr(store, "_edges", {}).get(_key(attrs[layout]))
            return attrs[layout], held[1] if held is not None and isinstance(held[1], Graph) else None
    raise ConfigError(f"the graph store has no edges of type {edge_type!r}; it has {sorted(map(str, _types(store)))}")


def _expanded(pointers: torch.Tensor) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(pointers) - 1), pointers.cpu().diff())


def _types(store: Any) -> set[Any]:
    return {attr.edge_type for attr in store.get_all_edge_attrs()}


def _key(attr: EdgeAttr) -> tuple[Any, EdgeLayout]:
    return attr.edge_type, attr.layout


def _named(attr: TensorAttr) -> str:
    return repr(attr.attr_name) if attr.group_name is None else f"{attr.attr_name!r} of {attr.group_name!r}"


def _index(index: Any) -> torch.Tensor:
    index = torch.as_tensor(index)
    return index.nonzero().view(-1) if index.dtype == torch.bool else index


def _whole(table: Any) -> torch.Tensor:
    known = as_table(table)
    whole: torch.Tensor | None = None if known is None else known.tensor_on(torch.device("cpu"))
    return table.gather(torch.arange(len(table))) if whole is None else whole
