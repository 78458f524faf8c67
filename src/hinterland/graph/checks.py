"""What several verifiers ask of a result, on the CPU."""

from __future__ import annotations

import torch

from ..runtime import arguments
from ..runtime.errors import VerificationError
from .graph import Graph, require_graph


def require_result(graph: Graph, result: object, kind: type) -> None:
    """ConfigError unless these are a graph and what the algorithm gives whose results are checked."""
    require_graph(graph)
    arguments.instance("result", result, kind, "pass what the algorithm returned")


def require_each(what: str, values: torch.Tensor, graph: Graph) -> None:
    """VerificationError unless there is a value for each vertex."""
    if values.shape != (graph.num_vertices,):
        raise VerificationError(f"{what} have shape {tuple(values.shape)}, but the graph has {graph.num_vertices} vertices")


def require_source(source: int, graph: Graph) -> None:
    """VerificationError unless a search could begin there."""
    if not 0 <= source < graph.num_vertices:
        raise VerificationError(
            f"source {source} is not a vertex: the graph has {graph.num_vertices} vertices, numbered from 0"
        )


def require_smallest(labels: torch.Tensor, count: int) -> torch.Tensor:
    """The vertices that are their own labels; VerificationError unless each label is the smallest vertex that has it, and there
    are ``count``."""
    everyone = torch.arange(len(labels))
    wrong = ((labels < 0) | (labels > everyone)).nonzero()[:, 0]
    wrong = wrong if len(wrong) else (labels[labels] != labels).nonzero()[:, 0]
    if len(wrong):
        raise VerificationError(f"rule 1: vertex {int(wrong[0])} has label {int(labels[wrong[0]])}, not its smallest vertex")
    roots = (labels == everyone).nonzero()[:, 0]
    if len(roots) != count:
        raise VerificationError(f"rule 1: there are {len(roots)} labels, but count is {count}")
    return roots


def require_close(what: str, was: torch.Tensor, now: torch.Tensor, tolerance: float, rounding: float = 0.0) -> None:
    """VerificationError where scores change by ``tolerance`` or more, summed over all vertices, and by what rounding does."""
    change = (now - was).abs()
    if not float(change.sum()) < tolerance + rounding:
        at = int(change.argmax())
        raise VerificationError(
            f"{what} by {float(change.sum()):.3g}, not less than {tolerance:.3g}; vertex {at} most, from "
            f"{float(was[at]):.6g} to {float(now[at]):.6g}"
        )
