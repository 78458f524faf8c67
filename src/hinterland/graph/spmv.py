"""The adjacency matrix of a graph times a vector: what walks and spectral scores are made of."""

from __future__ import annotations

import functools
import math

import torch

from .. import _core
from ..runtime.errors import ConfigError
from ..runtime.params import struct
from . import arrays, passes
from .algorithms import Algorithm, register
from .device_graph import allocated
from .edge_list import edge_list
from .graph import Graph
from .prepare import ResidentGraph, graph_of, prepared_for
from .sssp import WEIGHT_CLASSES, WEIGHTED_FORMS, require_weights
from .traversal import FORMS, ScratchLayout, clear, finish, kernel_file, original_bytes, runner, scratch_for, to_original

_EXPONENT = 900  # of weights that need no other unit: some 2^40 of them, and their reciprocals, are within the floats' range
_VECTORS = 6  # that a run keeps at once, at most, with torch's own between them
KERNELS = kernel_file("graph/spmv", (*FORMS, *WEIGHTED_FORMS))
_PARAMS = struct("graph::SpmvParams")


def _layout(graph: Graph) -> ScratchLayout:
    return ScratchLayout(*_core.frontier_layout(graph.num_vertices, graph.num_edges))


def _state_bytes(graph: Graph) -> int:
    """GPU memory of a run: vectors and scratch, or what it takes to renumber the result."""
    each = allocated(8 * graph.num_vertices)
    return max(_VECTORS * each + allocated(_layout(graph).bytes), each + original_bytes(graph, 8))


register(Algorithm("spmv", _state_bytes, incoming_only=True))


class AdjacencyMatrix:
    """The matrix A of a graph, with A(v, u) the weight of the edge from v to u, and vectors for it: float64
    ``[num_vertices]``, numbered as the graph is inside, on the device that multiplies.

    Args:
        graph: the graph, or what :func:`prepare` made of it for ``"spmv"``. Of a directed one ``transpose()`` is made.
        weighted: whether weights count; without them every edge counts 1, and parallel ones as often as they are there.
        gpu_budget, device: as for every algorithm.

    Attributes:
        unit: a power of two. Products of numbers up to ``unit`` stay within the floats' range, whatever the weights: 1 unless
            the largest weight is beyond 2^900, or below 2^-900.

    Raises:
        ConfigError: weights are asked for and there are none, or of another type than :func:`sssp` takes, or infinite ones.
    """

    def __init__(
        self,
        graph: Graph | ResidentGraph,
        weighted: bool,
        gpu_budget: int | str | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        dtype, self.unit = None, 1.0
        if weighted:
            require_weights(graph_of(graph), "a weighted product")
            dtype, self.unit = graph_of(graph).weight_type, unit_for(graph_of(graph))
        self.prepared = prepared = prepared_for(graph, "spmv", gpu_budget, device, weighted=weighted)
        if prepared.incoming is None:
            raise ConfigError("the graph was prepared without its in-neighbours; prepare it with algorithms='spmv'")
        self.device = prepared.device
        self._layout = _layout(prepared.graph)
        self._scratch = scratch_for(self._layout, self.device)
        size, order = (0, 0) if dtype is None else arrays.WEIGHT_TYPES[dtype][:2]
        on_cpu = functools.partial(_core.spmv, weight_bytes=size, weight_order=order)
        self._run = runner(prepared, on_cpu, KERNELS, weight=None if dtype is None else WEIGHT_CLASSES[dtype])

    def __len__(self) -> int:
        return self.prepared.graph.num_vertices

    def full(self, value: float) -> torch.Tensor:
        """A new vector, all ``value``."""
        return passes.full(len(self), value, torch.float64, self.device)

    def to_internal(self, values: torch.Tensor) -> torch.Tensor:
        """The user's values, a real ``[num_vertices]`` on any device, as a new vector."""
        original, found = self.prepared.graph.original_ids, values.detach().to("cpu", torch.float64, copy=True)
        return (found if original is None else found[original]).to(self.device)

    def to_original(self, values: torch.Tensor) -> torch.Tensor:
        """A vector in the order of the graph before it was reordered."""
        return to_original(self.prepared.order_on(self.device), values)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        """x times ``unit``: a new vector, or x itself where that is 1."""
        return x if self.unit == 1 else x * self.unit

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """A x, a new vector: what each vertex gets along its out-edges. GraphError where a neighbour list is broken."""
        return self._product(self.prepared.out.words, x)

    def transposed_times(self, x: torch.Tensor) -> torch.Tensor:
        """The transpose of A times x, a new vector: what each vertex gets along its in-edges."""
        assert self.prepared.incoming is not None
        return self._product(self.prepared.incoming.words, x)

    def _product(self, words: int, x: torch.Tensor) -> torch.Tensor:
        y = self.full(0)
        clear(self._scratch, self._layout)
        self._run(_PARAMS(graph=words, x=x.data_ptr(), y=y.data_ptr(), scratch=self._scratch.data_ptr()))
        finish(self.prepared, self._scratch, self._layout)
        return y


def unit_for(graph: Graph) -> float:
    """The unit of the graph's weights (:class:`AdjacencyMatrix`), 1 without any. Raises ConfigError: a weight is infinite."""
    found = graph.weight_range
    if found is None:
        return 1.0
    if math.inf in (-found.least, found.most):
        raise ConfigError(f"weights go from {found.least} to {found.most}, but scores need finite ones; replace the others")
    exponent = math.frexp(max(-found.least, found.most))[1]
    return 2.0 ** (min(max(exponent, -_EXPONENT), _EXPONENT) - exponent)


def checked_product(graph: Graph, x: torch.Tensor, weighted: bool, transposed: bool = False) -> torch.Tensor:
    """The same product without any kernel, for verifiers: float64 on the CPU, as the user numbers vertices."""
    src, dst, weights = edge_list(graph)
    into, out_of = (dst, src) if transposed else (src, dst)
    carried = x[out_of] if weights is None or not weighted else x[out_of] * weights.double()
    return torch.zeros(len(x), dtype=torch.float64).index_add_(0, into, carried)
