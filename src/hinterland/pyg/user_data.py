"""What users give a loader: Data, HeteroData or a pair of stores, checked and read alike."""

from __future__ import annotations

import copy
from collections.abc import Container
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch_geometric.sampler.base import DataType, NumNeighbors

from ..runtime.errors import ConfigError, GraphError, IndexOutOfRange
from .lists import TargetLists
from .stores import GraphStore, count_edges, lists_of_store
from .table_tensor import is_table

ONE_ROW_PER_NODE = ("x", "feat", "pos", "n_id")  # what PyG counts nodes by, if nothing says num_nodes


class UserData:
    """The graph and node counts of ``data``.

    In a homogeneous graph the only node type and the only edge type are None, as PyG's stores have it.

    Attributes:
        data: as given.
        num_nodes: by node type.
        edge_types: all that hold edges.

    Raises:
        ConfigError: data of another kind, or nothing says how many nodes there are.
        GraphError: features whose first dimension is not the node count.
    """

    def __init__(self, data: Any) -> None:
        try:
            self.kind = DataType.from_data(data)
        except ValueError as error:
            raise ConfigError(f"a loader takes Data, HeteroData or (FeatureStore, GraphStore): {error}") from None
        self.data = data
        if self.kind == DataType.homogeneous:
            self.edge_types: list[Any] = [None]
            self.num_nodes: dict[Any, int] = {None: count_nodes(data._store, None)}
        elif self.kind == DataType.heterogeneous:
            self.edge_types = [t for t in data.edge_types if "edge_index" in data[t] or "adj_t" in data[t]]
            self.num_nodes = {t: count_nodes(data[t], t) for t in data.node_types}
        else:
            self.edge_types = list(dict.fromkeys(attr.edge_type for attr in data[1].get_all_edge_attrs()))
            self.num_nodes = _count_in_stores(*data)
            if not self.edge_types:
                raise ConfigError("the graph store is empty; put_edge_index(...) the edges first")
        for edge_type in self.edge_types:
            for end in ends(edge_type):
                if end not in self.num_nodes:
                    raise ConfigError(
                        f"the edges {edge_type} join nodes of type {end!r}, about which the data says nothing; set "
                        f"data[{end!r}].num_nodes"
                    )

    @property
    def is_hetero(self) -> bool:
        """Whether nodes and edges have types."""
        return self.edge_types != [None] or self.kind == DataType.heterogeneous

    def sizes(self, edge_type: Any) -> tuple[int, int]:
        """How many source and target nodes an edge type has."""
        source, target = ends(edge_type)
        return self.num_nodes[source], self.num_nodes[target]

    def lists(self, edge_type: Any, placement: str, is_sorted: bool, backward: bool) -> TargetLists:
        """The edges of a type by target, or ``backward`` by source."""
        sizes = self.sizes(edge_type)
        if self.kind == DataType.remote:
            store = self.data[1]
            if isinstance(store, GraphStore):
                return store.lists(edge_type, sizes, backward)
            return lists_of_store(store, edge_type, sizes, placement, backward)
        store = self.data._store if edge_type is None else self.data[edge_type]
        return TargetLists.of(store, sizes, placement, is_sorted, backward)

    def node_values(self, name: str) -> dict[Any, torch.Tensor]:
        """A node attribute by node type, of those types that have it."""
        if self.kind == DataType.remote:
            values = self._stored(name, of_edges=False)
        elif self.is_hetero:
            values = {t: self.data[t][name] for t in self.data.node_types if name in self.data[t]}
        else:
            store = self.data._store
            values = {None: store[name]} if name in store and not self._is_of_edges(name) else {}
        return {t: _tensor(v) for t, v in values.items()}

    def edge_values(self, name: str) -> dict[Any, torch.Tensor]:
        """An edge attribute by edge type, of those types that have it, in the user's order."""
        if self.kind == DataType.remote:
            return {t: _tensor(v) for t, v in self._stored(name, of_edges=True).items()}
        if self.is_hetero:
            return {t: _tensor(self.data[t][name]) for t in self.edge_types if name in self.data[t]}
        store = self.data._store
        return {None: _tensor(store[name])} if name in store and self._is_of_edges(name) else {}

    def _stored(self, name: str, of_edges: bool) -> dict[Any, Any]:
        types: Container[Any] = self.edge_types if of_edges else self.num_nodes
        attrs = [attr for attr in self.data[0].get_all_tensor_attrs() if attr.attr_name == name]
        attrs = [attr for attr in attrs if self.is_of_edges(attr) == of_edges and self._type_of(attr) in types]
        for attr in attrs:
            attr.index = None
        return dict(zip(map(self._type_of, attrs), self.data[0].multi_get_tensor(attrs), strict=True))

    def _type_of(self, attr: Any) -> Any:
        """The node or edge type of what a feature store has; without types a group may have any name, as in PyG."""
        return attr.group_name if self.is_hetero else None

    def is_of_edges(self, attr: Any) -> bool:
        """Whether a tensor of a feature store is an attribute of edges."""
        if self.is_hetero:
            return isinstance(attr.group_name, tuple)
        size = self.data[0].get_tensor_size(attr)
        return self._looks_of_edges(attr.attr_name, size[0] if size else -1, self._stored_edges)

    @cached_property
    def _stored_edges(self) -> int:
        return count_edges(self.data[1], None)

    def _looks_of_edges(self, name: str, rows: int, edges: int) -> bool:
        return rows == edges and (rows != self.num_nodes[None] or "edge" in name)

    def _is_of_edges(self, name: str) -> bool:
        """Whether an attribute of a Data object, which holds nodes and edges in one store, is one of edges."""
        store = self.data._store
        value = _tensor(store[name])
        return self._looks_of_edges(name, len(value) if value.ndim else -1, self.data.num_edges)

    def check_nodes(self, node_type: Any, nodes: torch.Tensor, what: str) -> None:
        """Raises IndexOutOfRange unless all are nodes of the type, and ConfigError if there is no such type."""
        self.check_node_type(node_type)
        if nodes.numel() == 0:
            return
        count, (least, most) = self.num_nodes[node_type], map(int, nodes.aminmax())
        if least < 0 or most >= count:
            kind = "nodes" if node_type is None else f"nodes of type {node_type!r}"
            raise IndexOutOfRange(
                f"{what} names {least if least < 0 else most}, but there are {count} {kind}, numbered from 0; for a mask use "
                "torch.bool"
            )

    def check_node_type(self, node_type: Any) -> None:
        """Raises ConfigError if there is no such node type."""
        if node_type not in self.num_nodes:
            raise ConfigError(f"there is no node type {node_type!r}; there are {sorted(map(str, self.num_nodes))}")

    def check_edge_type(self, edge_type: Any) -> None:
        """Raises ConfigError if there is no such edge type."""
        if edge_type not in self.edge_types:
            raise ConfigError(f"there is no edge type {edge_type!r}; there are {sorted(map(str, self.edge_types))}")


def ends(edge_type: Any) -> tuple[Any, Any]:
    """The source and target node types of an edge type."""
    return (None, None) if edge_type is None else (edge_type[0], edge_type[-1])


def count_nodes(store: Any, node_type: Any) -> int:
    """Nodes of a node store, a table in host memory counted as PyG counts a tensor's rows."""
    name = store_name(node_type)
    rows = {
        key: int(value.shape[0])
        for key, value in store.items()
        if key in ONE_ROW_PER_NODE and (is_table(value) or (isinstance(value, torch.Tensor | np.ndarray) and value.ndim))
    }
    if "num_nodes" in store:
        count = store["num_nodes"]
    elif rows:
        count = next(iter(rows.values()))
    else:
        count = store.num_nodes
    if count is None:
        raise ConfigError(f"nothing says how many nodes {name} has; set {name}.num_nodes")
    for key in rows:
        require_rows(name, key, store[key], int(count))
    return int(count)


def store_name(node_type: Any) -> str:
    """A node store as users write it."""
    return "data" if node_type is None else f"data[{node_type!r}]"


def require_rows(name: str, key: str, value: Any, count: int) -> None:
    """Raises GraphError unless an attribute has a row for each of ``count`` nodes."""
    rows = int(value.shape[0]) if len(value.shape) else 1
    if rows != count:
        raise GraphError(f"{name}.{key} has {rows} rows, but there are {count} nodes; it needs one row for each node")


def fanouts_of(num_neighbors: Any, given: UserData) -> Any:
    """Neighbours for each hop: a list, empty for the seeds alone, or in a heterogeneous graph a list for each edge type.

    Raises:
        ConfigError: a number below -1, edge types with different hops, left out, or that do not exist.
    """
    if not isinstance(num_neighbors, NumNeighbors):
        if not isinstance(num_neighbors, list | tuple | dict):
            raise ConfigError(f"num_neighbors is a list with a number for each hop, as [15, 10, 5], not {num_neighbors!r}")
        num_neighbors = NumNeighbors(num_neighbors)
    num_neighbors = copy.copy(num_neighbors)
    num_neighbors.__dict__.pop("_values", None)  # what it remembers of another graph
    if not given.is_hetero and isinstance(num_neighbors.values, dict):
        raise ConfigError("num_neighbors by edge type is for heterogeneous graphs; give a list, as [15, 10, 5]")
    named = ", ".join(sorted(map(str, given.edge_types)))
    if isinstance(num_neighbors.values, dict):
        for key in (name.to_tuple() for name in num_neighbors.values):
            if key not in given.edge_types:  # PyG 2.6 would pass over it
                raise ConfigError(f"num_neighbors names the edge type {key!r}, which does not exist; there are {named}")
    try:
        chosen = num_neighbors.get_values(given.edge_types if given.is_hetero else None)
    except ValueError as error:
        raise ConfigError(f"num_neighbors: {error}; the edge types are {named}, each needs as many hops") from None
    for hops in chosen.values() if isinstance(chosen, dict) else [chosen]:
        for fanout in hops:
            if not isinstance(fanout, int) or fanout < -1:
                raise ConfigError(f"num_neighbors holds {fanout!r}; use whole numbers, with -1 for all neighbours")
    return {key: list(hops) for key, hops in chosen.items()} if isinstance(chosen, dict) else list(chosen)


def _count_in_stores(features: Any, graphs: Any) -> dict[Any, int]:
    attrs = graphs.get_all_edge_attrs()
    typed = any(attr.edge_type is not None for attr in attrs)
    rows: dict[Any, tuple[str, int]] = {}
    for attr in features.get_all_tensor_attrs():
        size = features.get_tensor_size(attr)
        if not isinstance(attr.group_name, tuple) and size:
            group = attr.group_name if typed else None
            name, _ = rows.setdefault(group, (attr.attr_name, size[0]))
            if attr.attr_name in ONE_ROW_PER_NODE and name not in ONE_ROW_PER_NODE:
                rows[group] = (attr.attr_name, size[0])
    counts: dict[Any, int] = {}
    for attr in attrs:
        for i, end in enumerate(ends(attr.edge_type)):
            if attr.size is not None and attr.size[i] is not None:
                counts[end] = max(counts.get(end, 0), int(attr.size[i]))
    for group, (name, count) in rows.items():
        known = counts.setdefault(group, count)
        if name in ONE_ROW_PER_NODE and count < known:
            kind = "" if group is None else f" of {group!r}"
            raise GraphError(
                f"{name!r}{kind} has {count} rows, but the edges were put with a size of {known} nodes; features "
                "need one row for each node"
            )
        if name in ONE_ROW_PER_NODE:
            counts[group] = count  # the size is of nodes that have edges
    missing = {end for attr in attrs for end in ends(attr.edge_type)} - counts.keys()
    if missing:
        raise ConfigError(
            f"nothing says how many nodes of type {sorted(map(str, missing))} there are; put their features, or put the edges "
            "with size=(sources, targets)"
        )
    return counts


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if is_table(value):
        whole: torch.Tensor = value.cpu() if hasattr(value, "cpu") else value.gather(torch.arange(len(value)))
        return whole
    if not isinstance(value, torch.Tensor):
        raise ConfigError(f"expected a tensor, not {type(value).__name__}")
    return value
