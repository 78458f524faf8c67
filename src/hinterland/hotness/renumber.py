"""A data set under numbers that put hot vertices first, once and for all (Min 2022, section 4.2.2).

Then the hottest rows of its tables are the first, so that a tiered table needs no id map, and hot rows share pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ..graph import Graph
from ..graph.graph import require_graph
from ..graph.reorder import renumbered
from ..memory import hottest_first
from ..memory.order import permutation
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..table import UnifiedTensor, as_table, reorder_rows

Table = UnifiedTensor | torch.Tensor


@dataclass(frozen=True)
class Renumbered:
    """What :func:`renumber` returns: its arguments under new numbers.

    Attributes:
        graph: neighbours sorted; its vertices have the new numbers and no others (``graph.order`` is None).
        features, labels, splits: as given, or None.
        order: int64 ``[V]``: the old number of each vertex.
    """

    graph: Graph
    features: Table | None
    labels: Table | None
    splits: dict[str, torch.Tensor] | None
    order: torch.Tensor


def renumber(
    graph: Graph,
    features: Table | None = None,
    labels: Table | None = None,
    splits: Mapping[str, torch.Tensor] | None = None,
    *,
    scores: torch.Tensor | None = None,
    order: torch.Tensor | None = None,
) -> Renumbered:
    """Gives the hottest vertex number 0, the next number 1 and so on, in everything that belongs to the graph.

    All threads copy; new arrays lie where the old ones do, beside them until the caller lets the old ones go.

    Args:
        graph: any graph; a compressed one becomes a plain one.
        features, labels: ``[V, ...]``.
        splits: by name, vertex numbers (int32 or int64, their sequence is kept) or a mask (bool ``[V]``).
        scores: ``[V]``, higher for hotter; ties by vertex number.
        order: int64 ``[V]`` instead of scores, every vertex once, the hottest first.

    Raises:
        ConfigError: not one of scores and order; a table, mask or vertex number that does not fit the graph.
        OutOfMemory: a new array does not fit beside the old one.
    """
    require_graph(graph)
    vertices = graph.num_vertices
    if scores is not None and order is None:
        first = hottest_first(scores, vertices)
    elif order is not None and scores is None:
        first = permutation(order, vertices)
    else:
        raise ConfigError("vertices are renumbered by scores or by an order; give one of them")
    for name, table in (("features", features), ("labels", labels)):
        if table is not None and as_table(table) is None:
            arguments.dense(name, table)
        if table is not None and (table.ndim == 0 or len(table) != vertices):
            raise ConfigError(f"{name} have shape {tuple(table.shape)}, but the graph has {vertices} vertices")
    numbers = torch.empty(vertices, dtype=torch.int64)
    numbers[first] = torch.arange(vertices)
    if splits is not None and not isinstance(splits, Mapping):
        raise ConfigError(f"splits are a dictionary, as {{'train': vertices}}, not {arguments.repr_of(splits)}")
    moved = None if splits is None else {name: _split(name, part, first, numbers) for name, part in splits.items()}
    return Renumbered(renumbered(graph, first), _rows(features, first), _rows(labels, first), moved, first)


def _rows(table: Table | None, order: torch.Tensor) -> Table | None:
    if table is None or isinstance(table, torch.Tensor):
        return None if table is None else table[order.to(table.device)]
    return reorder_rows(table, order)


def _split(name: str, part: torch.Tensor, order: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    vertices = len(order)
    if arguments.dense(f"the split {name!r}", part).dtype == torch.bool:
        if tuple(part.shape) != (vertices,):
            raise ConfigError(f"the mask {name!r} has shape {tuple(part.shape)}, but the graph has {vertices} vertices")
        return part[order.to(part.device)]
    if part.dtype not in (torch.int32, torch.int64):
        raise ConfigError(f"the split {name!r} holds {part.dtype}, but vertex numbers are int32 or int64, and masks bool")
    wrong = (part < 0) | (part >= vertices)
    if bool(wrong.any()):
        raise ConfigError(f"the split {name!r} holds {int(part[wrong][0])}, but vertices are numbered from 0 to {vertices - 1}")
    return numbers.to(part.device)[part.long()].to(part.dtype)
