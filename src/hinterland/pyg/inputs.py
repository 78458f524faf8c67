"""The input nodes and edges of a loader, in any of the forms that PyG takes, as those that all of its versions take."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

from ..runtime.errors import ConfigError, GraphError
from .user_data import UserData


def input_nodes_of(given: UserData, nodes: Any) -> Any:
    """The inputs as PyG takes them from any kind of data: numbers for a whole type, which PyG cannot count in every store."""
    if not given.is_hetero:
        return _numbers(given, None, nodes)
    node_type, chosen = (nodes, None) if isinstance(nodes, str) else nodes if _is_pair(nodes) else (None, None)
    if not isinstance(node_type, str):
        raise ConfigError(f"input_nodes of a heterogeneous graph is a node type, or (node type, nodes), not {nodes!r:.80}")
    return node_type, _numbers(given, node_type, chosen)


def _numbers(given: UserData, node_type: Any, nodes: Any) -> Any:
    given.check_node_type(node_type)
    count = given.num_nodes[node_type]
    if nodes is None:
        return torch.arange(count)
    nodes = torch.as_tensor(nodes)
    if nodes.dtype == torch.bool and nodes.shape != (count,):
        raise GraphError(f"the mask of input_nodes has shape {tuple(nodes.shape)}, but there are {count} nodes")
    return nodes


def edge_label_index_of(given: UserData, edges: Any) -> Any:
    """The input edges as PyG takes them from any kind of data."""
    if not given.is_hetero:
        if isinstance(given.data, Data):
            return edges
        if _is_pair(edges) and edges[0] is None:
            edges = edges[1]
        if edges is None:
            row, col, _ = given.data[1].coo()
            edges = torch.stack([row, col])
        return None, edges
    edge_type, chosen = edges if _is_pair(edges) and not isinstance(edges[0], str) else (edges, None)
    if not (isinstance(edge_type, list | tuple) and edge_type and all(isinstance(part, str) for part in edge_type)):
        raise ConfigError(
            f"edge_label_index of a heterogeneous graph is an edge type, or (edge type, edges), not {edges!r:.80}"
        )
    edge_type = tuple(edge_type)
    if isinstance(given.data, HeteroData):
        edge_type = given.data._to_canonical(*edge_type)
    if chosen is None:
        given.check_edge_type(edge_type)
    return edge_type, chosen


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2
