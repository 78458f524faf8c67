"""Verifiers of shortest and widest paths: results are checked by the properties that define them."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError, VerificationError
from . import arrays
from .checks import require_each, require_result, require_source
from .device_graph import DeviceGraph, checked_view, edge_at
from .graph import Graph
from .reorder import restored
from .sssp import SsspResult, require_weights
from .sswp import SswpResult


def verify_sssp(graph: Graph, source: int, result: SsspResult) -> None:
    """Checks distances, in parallel on the CPU, in one pass over the edges and a search along some of them.

    1. The source has distance 0.
    2. A distance is not negative (nor NaN), or the value for unreachable vertices.
    3. No edge leads to a vertex that is farther than the edge's start and weight together.
    4. Every reached vertex has a path from the source, each edge of which leads exactly as far as its weight says.

    Together they make the distances shortest: by 3 none is too large, by 4 none too small. Floats are compared exactly, each
    sum rounded to their type.

    Raises:
        VerificationError: names the rule, the vertex or edge, and the values.
        ConfigError: distances of another type; a graph without weights.
    """
    require_result(graph, result, SsspResult)
    _verify(graph, source, result.distances, False)


def verify_sswp(graph: Graph, source: int, result: SswpResult) -> None:
    """Checks widths, as :func:`verify_sssp` does distances.

    1. The source has the largest number of the weights' type, or inf.
    2. No width is more than that (nor NaN).
    3. No edge leads to a vertex that is less wide than both the edge's start and its weight.
    4. Every reached vertex has a path from the source, each edge of which leads to the lesser of its start's width and its
       weight.

    Raises:
        VerificationError: names the rule, the vertex or edge, and the values.
        ConfigError: widths of another type; a graph without weights.
    """
    require_result(graph, result, SswpResult)
    _verify(graph, source, result.widths, True)


def _verify(graph: Graph, source: int, found: torch.Tensor, widest: bool) -> None:
    name = "width" if widest else "distance"
    source = arguments.whole_number("source", source)
    require_weights(graph, "verifying paths")
    dtype = graph.weight_type
    assert dtype is not None
    expected = dtype if dtype.is_floating_point else torch.int64
    found = found.cpu().contiguous()
    if found.dtype != expected:
        raise ConfigError(f"{name}s are {found.dtype}, but must be {expected} for {dtype} weights")
    require_each(f"{name}s", found, graph)
    require_source(source, graph)
    graph = restored(graph)
    view, kind = checked_view(graph.neighbor_lists), arrays.WEIGHT_TYPES[dtype]
    with view.reading():
        rule, at = _core.verify_paths(view.words, kind.bytes, kind.order, widest, source, found.data_ptr())
    if rule:
        raise VerificationError(_sentence(rule, at, view, found, name))


def _sentence(rule: int, at: int, view: DeviceGraph, found: torch.Tensor, name: str) -> str:
    rules = _core.PATH_RULES
    if rule in (rules["graph"], rules["edge"]):
        u, v, edge = edge_at(view, at)
        if rule == rules["graph"]:
            return f"the graph is broken: {edge} leads to no vertex"
        return (
            f"rule 3: {edge} of weight {_weight_at(view, at)} leads from {name} {found[u].item()} to {name} "
            f"{found[v].item()}, which it would improve"
        )
    value = found[at].item()
    if rule == rules["source"]:
        return f"rule 1: source {at} has {name} {value}"
    if rule == rules["range"]:
        return f"rule 2: vertex {at} has {name} {value}, which no path has"
    return f"rule 4: vertex {at} has {name} {value}, but no path from the source has it"


def _weight_at(view: DeviceGraph, at: int) -> float | int:
    weights = view.lists.arrays["weights"]
    if (file := arrays.file_of(weights)) is None:
        return arrays.tensor_of(weights)[at].item()
    found = torch.empty(1, dtype=weights.dtype)
    file.read_into(found, at)
    return found.item()
