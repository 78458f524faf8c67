"""Graphs from NetworkX, SciPy and igraph; :mod:`.export` is the way back.

Vertices there may have any names. Here they are numbers, in the order in which the other library lists them; ``Graph.labels``
keeps the names, so that the way back gives the graph that came.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch

from ..runtime.arguments import repr_of
from ..runtime.errors import ConfigError, GraphError
from .edges import from_edges
from .export import module_of
from .graph import Graph


def from_networkx(graph: Any, weight: str | None = None, placement: str | Mapping[str, str] = "host") -> Graph:
    """A networkx graph, directed or not, with or without parallel edges; vertex ``i`` is the i-th node of ``list(graph)``.

    Args:
        graph: a ``networkx.Graph``, ``DiGraph``, ``MultiGraph`` or ``MultiDiGraph``.
        weight: the edge attribute that gives the weights, 1 where an edge has none; None leaves weights out. They are int32
            or, where that is too small, int64; float64 if any is no integer or beyond that.
        placement: where each array goes; see Graph.

    Returns:
        A graph with sorted neighbours whose ``labels`` are the nodes, or None where node ``i`` is ``i``.

    Raises:
        GraphError: a weight is no number, NaN, or an integer beyond what float64 takes.
        ConfigError: ``graph`` is no networkx graph.
    """
    networkx = module_of("networkx")
    if weight is not None and not isinstance(weight, Hashable):
        raise ConfigError(f"weight is the name of an edge attribute, not {repr_of(weight)}")
    if not isinstance(graph, networkx.Graph):
        raise ConfigError(f"from_networkx takes a networkx graph, not {type(graph).__name__}")
    nodes = list(graph)
    named = any(type(node) is not int or node != i for i, node in enumerate(nodes))
    lists = _adjacency(graph)  # of a DiGraph: the successors
    if graph.is_multigraph():
        # A neighbour stands as often as there are edges to it.
        ends: Iterable[Any] = (node for row in lists for node, edges in row.items() for _ in edges)
        degrees = [sum(map(len, row.values())) for row in lists]
    else:
        ends, degrees = chain.from_iterable(lists), [len(row) for row in lists]
    if named:
        number = {node: i for i, node in enumerate(nodes)}
        ends = map(number.__getitem__, ends)
    dst = np.fromiter(ends, np.int64, sum(degrees))
    src = np.repeat(np.arange(len(nodes)), degrees)
    weights = None if weight is None else _weights(edge_values(graph, weight), weight, lambda i: (nodes[src[i]], nodes[dst[i]]))
    made = from_edges(
        torch.from_numpy(src),
        torch.from_numpy(dst),
        weights,
        num_vertices=len(nodes),
        directed=graph.is_directed(),
        placement=placement,
    )
    made.labels = nodes if named else None
    return made


def edge_values(graph: Any, attribute: str) -> list[Any]:
    """An attribute of every stored edge of a networkx graph, 1 where it has none, in the order of its adjacency."""
    lists = _adjacency(graph)
    if graph.is_multigraph():
        return [data.get(attribute, 1) for row in lists for edges in row.values() for data in edges.values()]
    return [data.get(attribute, 1) for row in lists for data in row.values()]


def _adjacency(graph: Any) -> Collection[Any]:
    """The neighbours of each node, and the edges there. A class may have its own, as networkx's sparse complement does."""
    own = type(graph).adjacency is not module_of("networkx").Graph.adjacency
    return (graph.adj if own else graph._adj).values()


def from_scipy(matrix: Any, *, directed: bool = True, placement: str | Mapping[str, str] = "host") -> Graph:
    """A square sparse matrix of scipy, in any of its forms: a stored entry (u, v) is an edge from u to v, its value the weight.

    Entries stored as zero are edges too, with weight 0; of boolean matrices only the pattern is taken.

    Args:
        matrix: a scipy sparse array or matrix ``[n, n]``.
        directed: False promises that the matrix is symmetric.
        placement: where each array goes; see Graph.

    Raises:
        GraphError: it is not square, or holds complex numbers or NaN.
        ConfigError: it is no sparse matrix.
    """
    sparse = module_of("scipy.sparse")
    if not sparse.issparse(matrix):
        raise ConfigError(f"from_scipy takes a sparse matrix of scipy, not {type(matrix).__name__}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"the matrix has shape {matrix.shape}, but only a square one is a graph")
    # In coordinates and not as rows: tocsr() would add up entries that stand for parallel edges.
    entries = matrix.tocoo()
    row, col = (torch.from_numpy(np.ascontiguousarray(side)) for side in (entries.row, entries.col))
    weights = None if entries.data.dtype == bool else _tensor(entries.data)
    return from_edges(row, col, weights, num_vertices=matrix.shape[0], directed=directed, placement=placement)


def from_igraph(graph: Any, weight: str | None = None, placement: str | Mapping[str, str] = "host") -> Graph:
    """An igraph graph; ``labels`` are the vertex attribute ``name``, if there is one.

    Args:
        graph: an ``igraph.Graph``.
        weight: the edge attribute that gives the weights; None leaves weights out.
        placement: where each array goes; see Graph.

    Raises:
        GraphError: a weight is no number, NaN, or an integer beyond what float64 takes.
        ConfigError: ``graph`` is no igraph graph, or its edges have no such attribute.
    """
    igraph = module_of("igraph")
    if not isinstance(graph, igraph.Graph):
        raise ConfigError(f"from_igraph takes an igraph.Graph, not {type(graph).__name__}")
    ends = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    weights = None
    if weight is not None:
        if not isinstance(weight, str) or weight not in graph.es.attributes():
            raise ConfigError(
                f"the edges have no attribute {repr_of(weight)}; they have {', '.join(graph.es.attributes()) or 'none'}"
            )
        weights = _weights(graph.es[weight], weight, lambda i: tuple(ends[i].tolist()))
    src, dst = (torch.from_numpy(np.ascontiguousarray(side)) for side in ends.T)
    made = from_edges(src, dst, weights, num_vertices=graph.vcount(), symmetrize=not graph.is_directed(), placement=placement)
    made.labels = graph.vs["name"] if "name" in graph.vs.attributes() else None
    return made


def _weights(values: list[Any], name: str, edge: Any) -> torch.Tensor:
    """Python's numbers as weights; ``edge(i)`` is what to call the i-th one's edge."""
    try:
        array = np.array(values, dtype=None if values else np.int64)
    except ValueError:  # lists of different lengths
        array = np.array(values, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        array = np.array([_real(i, value, name, edge) for i, value in enumerate(values)])  # integers beyond 64 bits
    if array.dtype.kind == "f":
        return _tensor(array.astype(np.float64))
    low, high = (int(array.min()), int(array.max())) if values else (0, 0)
    fits = [t for t in (np.int32, np.int64) if np.iinfo(t).min <= low and high <= np.iinfo(t).max]
    return _tensor(array.astype([*fits, np.float64][0]))


def _real(i: int, value: Any, name: str, edge: Any) -> float:
    """The i-th weight as a float; GraphError where there is no such float."""
    fault = "is no real number; correct or remove it"
    if isinstance(value, int | float | np.number) and not isinstance(value, complex | np.complexfloating):
        try:
            return float(value)
        except OverflowError:
            fault = "is beyond 1.8e308, the most for float64; make weights smaller"
    u, v = edge(i)
    raise GraphError(f"edge ({repr_of(u)}, {repr_of(v)}) has {name} {repr_of(value)}, which {fault}")


def _tensor(array: np.ndarray) -> torch.Tensor:
    """The values as torch has them, which lacks long doubles and refuses the other byte order."""
    if array.dtype.kind not in "iuf":
        raise GraphError(f"weights of type {array.dtype} are no real numbers; convert them, as in matrix.astype(float)")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    return torch.from_numpy(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))
