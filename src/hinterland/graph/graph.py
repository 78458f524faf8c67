"""A graph as compressed sparse rows (CSR), each of its arrays in a place of its own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

from ..memory import UnifiedTensor
from ..runtime import arguments, devices
from ..runtime.asked import Asked
from ..runtime.shown import Shown, Size, type_name
from ..runtime.units import format_bytes
from . import arrays
from .arrays import Array
from .order import Order, renumber

_ARRAYS = (*arrays.NAMES, "packed", "packed_offsets")
_turning = threading.Lock()  # two threads that ask for a transpose get the same one, and its memory is taken once


class Graph(Shown):
    """A graph in CSR form: the neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``.

    An undirected graph stores each edge in the rows of both its ends (a self loop once), and ``num_edges`` counts what is
    stored.

    Args:
        indptr: offsets, ``[num_vertices + 1]``, any integer type; kept as int64.
        indices: neighbours, ``[num_edges]``, any integer type; kept as int32 while ``num_vertices < 2**31``, else int64.
        weights: one for each neighbour, ``[num_edges]``, any integer or floating type; kept as it is.
        directed: False promises that every edge is there in both directions, with the same weight.
        placement: where the arrays go, one word for all or a mapping by array name: ``"gpu"`` (a CUDA tensor; on a machine
            without a GPU ``"heap"``, so that the same program runs there), or ``"host"``, ``"mapped"``, ``"registered"`` or
            ``"heap"`` (host memory; see UnifiedTensor). Tensors are copied there. A UnifiedTensor whose type fits is taken as
            it is, wherever it lies.

    Attributes:
        directed: as given.
        labels: what the vertices are called elsewhere, ``[num_vertices]``, or None where their numbers are their names;
            :mod:`.convert` sets and reads it.

    Raises:
        GraphError: the arrays are no graph: names the array, the position and the value. An edge of an undirected graph has no
            reverse.
        ConfigError: an unknown placement.
        DeviceError: placement ``"gpu"`` where torch sees a GPU and cuda-core is missing.
        OutOfMemory: the arrays do not fit where they should go.
    """

    def __init__(
        self,
        indptr: Array,
        indices: Array,
        weights: Array | None = None,
        *,
        directed: bool = True,
        placement: str | Mapping[str, str] = "host",
    ) -> None:
        places = arrays.placements(placement)
        indptr, indices = arrays.integers("indptr", indptr), arrays.integers("indices", indices)
        offsets, neighbors = arrays.tensor_of(indptr), arrays.tensor_of(indices)
        on_cpu = offsets.to("cpu", torch.int64)
        arrays.check_offsets(on_cpu, neighbors.numel())
        num_vertices = offsets.numel() - 1
        ascend = arrays.check_lists(on_cpu, neighbors, num_vertices)
        if weights is not None:
            arrays.require_array("weights", weights)
            if not isinstance(weights, UnifiedTensor):
                weights = weights.contiguous()
            arrays.check_weights(arrays.tensor_of(weights), neighbors.numel())
        if not directed:
            arrays.check_mirrored(offsets, neighbors, None if weights is None else arrays.tensor_of(weights))
        self.directed = directed
        self._arrays = {
            "indptr": arrays.placed(indptr, torch.int64, places["indptr"]),
            "indices": arrays.placed(indices, arrays.index_dtype(num_vertices), places["indices"]),
        }
        if weights is not None:
            self._arrays["weights"] = arrays.placed(weights, weights.dtype, places["weights"])
        self._order: Order | None = None
        self.labels: Asked[Sequence[Hashable]] = None
        self._sorted_lists = ascend
        self._transposed: Callable[[], Graph | None] = lambda: None
        self._num_isolated: int | None = None
        self._weight_range: arrays.WeightRange | None = None
        self._packed_edges = 0  # of a compressed graph, whose offsets alone say it

    @classmethod
    def _of(
        cls, held: Mapping[str, Array], directed: bool, sorted_lists: bool | None = None, order: Order | None = None
    ) -> Graph:
        """A graph of arrays that are known to be right, of the right types and in their places.

        ``sorted_lists``: whether each vertex's neighbours ascend, if that is known.
        """
        graph = cls.__new__(cls)
        graph.directed = directed
        graph._arrays = dict(held)
        graph._order = order
        graph.labels = None
        graph._sorted_lists = sorted_lists
        graph._transposed = lambda: None
        graph._num_isolated = None
        graph._weight_range = None
        graph._packed_edges = int(arrays.tensor_of(held["indptr"])[-1]) if "packed" in held else 0
        return graph

    def _with_weights(self, weights: Array) -> Graph:
        """This graph's arrays and ``weights``, which are known to be right."""
        return self._of_arrays({**self._arrays, "weights": weights})

    def without_weights(self) -> Graph:
        """This graph's other arrays alone; itself where it has no weights."""
        if "weights" not in self._arrays:
            return self
        return self._of_arrays({name: array for name, array in self._arrays.items() if name != "weights"})

    def _of_arrays(self, held: Mapping[str, Array], sorted_lists: bool | None = None) -> Graph:
        """A graph with the same edges as this one; ``sorted_lists`` as in ``_of``, by default what this one knows."""
        graph = Graph._of(held, self.directed, self._sorted_lists if sorted_lists is None else sorted_lists, self._order)
        graph.labels = self.labels
        if graph.is_compressed:
            graph._packed_edges = self.num_edges
        return graph

    @property
    def num_vertices(self) -> int:
        """Vertices, numbered from 0."""
        return int(self._arrays["indptr"].shape[0]) - 1

    @property
    def num_edges(self) -> int:
        """Stored edges: those of an undirected graph count once for each direction."""
        held = self._arrays.get("indices")
        return self._packed_edges if held is None else int(held.shape[0])

    @property
    def num_isolated(self) -> int:
        """Vertices without neighbours in their lists; counted once and kept."""
        if self._num_isolated is None:
            self._num_isolated = arrays.count_empty_lists(self.indptr)
        return self._num_isolated

    @property
    def indptr(self) -> torch.Tensor:
        """Offsets, int64 ``[num_vertices + 1]``: a view, on the CPU unless they are placed on a GPU."""
        return arrays.tensor_of(self._arrays["indptr"])

    @property
    def indices(self) -> torch.Tensor:
        """Neighbours, int32 or int64 ``[num_edges]``: a view, on the CPU unless they are placed on a GPU.

        Those of a compressed graph are decoded at each call, on the CPU: ``decompress`` once where they are needed often.
        """
        held = self._arrays.get("indices")
        return self._decoded() if held is None else arrays.tensor_of(held)

    @property
    def weights(self) -> Asked[torch.Tensor]:
        """Edge weights ``[num_edges]`` or None: a view, on the CPU unless they are placed on a GPU."""
        held = self._arrays.get("weights")
        return None if held is None else arrays.tensor_of(held)

    @property
    def weight_range(self) -> arrays.WeightRange | None:
        """The least and the largest weight and about their mean, or None without weights; looked at once and kept."""
        if self._weight_range is None and self.weights is not None:
            self._weight_range = arrays.weight_range(self.weights)
        return self._weight_range

    @property
    def lists(self) -> torch.Tensor:
        """The array that holds the neighbours, in either form: ``indices``, or ``packed`` of a compressed graph."""
        return arrays.tensor_of(self._arrays["packed" if self.is_compressed else "indices"])

    @property
    def is_compressed(self) -> bool:
        """Whether the neighbours are held as packed lists (see ``compress``)."""
        return "packed" in self._arrays

    @property
    def order(self) -> Asked[torch.Tensor]:
        """int64 ``[num_vertices]`` on the CPU: each vertex's number before the graph was reordered; None if it was not.

        A copy, made at the first call and kept: changing it changes nothing here.
        """
        return None if self._order is None else self._order.shown

    @property
    def _outer(self) -> torch.Tensor | None:
        """``order`` itself."""
        return None if self._order is None else self._order.outer

    def to_inner(self, vertices: torch.Tensor | int) -> torch.Tensor:
        """Vertices of the graph before it was reordered as this graph numbers them: int64, of the same shape and device.

        Raises:
            IndexOutOfRange: one of them is no vertex.
        """
        return renumber(vertices, None if self._order is None else self._order.inner, self.num_vertices)

    def to_outer(self, values: torch.Tensor, *, vertices: bool = False) -> torch.Tensor:
        """Per-vertex values ``[..., num_vertices]`` of this graph in the order of the graph before it was reordered.

        With ``vertices=True`` the values are themselves vertex numbers (parents, labels) and are renumbered too; negative
        ones, which stand for none, stay. Where the graph was not reordered, the
        result is ``values`` itself.
        """
        return values if self._order is None else self._order.to_outer(values, vertices)

    @property
    def placement(self) -> dict[str, str]:
        """Where each array lies, by its name."""
        return {n: a.placement if isinstance(a, UnifiedTensor) else "gpu" for n, a in self._arrays.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together, without ``order``, which no traversal reads."""
        held = (arrays.tensor_of(array) for array in self._arrays.values())
        return sum(tensor.numel() * tensor.element_size() for tensor in held)

    def array(self, name: str, device: torch.device | str | int | None = "cpu") -> Asked[torch.Tensor]:
        """``indptr``, ``indices`` or ``weights`` as ``device`` addresses it; None where there are no weights.

        Host memory is not copied, whatever the device. An array that lies on a GPU is copied for any other device. A
        compressed graph also has ``packed`` and ``packed_offsets``; its ``indices`` are decoded at each call.
        """
        device = devices.as_device(device)
        arguments.one_of("array", name, _ARRAYS)
        if name == "indices" and self.is_compressed:
            return self._decoded().to(device)
        held = self._arrays.get(name)
        return None if held is None else held.to(device)

    def checked_rows(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Offsets, neighbours and weights on the CPU, for who goes through all lists. Those of a compressed graph are decoded.

        The arrays are the user's too, who may have changed them since the graph was made, so the offsets are looked at again.

        Raises:
            GraphError: names the offset that is wrong by now, or the vertex whose packed list is.
        """
        indptr, weights = self.array("indptr", "cpu"), self.array("weights", "cpu")
        assert indptr is not None
        arrays.check_offsets(indptr, self.num_edges)
        indices = self.array("indices", "cpu")
        assert indices is not None
        return indptr, indices, weights

    def _decoded(self) -> torch.Tensor:
        from .compress import unpacked

        return unpacked(self).cpu()

    def degrees(self) -> torch.Tensor:
        """Neighbours of each vertex: int64 ``[num_vertices]``, on the device of ``indptr``."""
        return self.indptr.diff()

    @property
    def has_sorted_lists(self) -> bool:
        """Whether the neighbours of every vertex ascend; equal ones, parallel edges, may follow each other.

        Looked at once, by all threads or by the GPU that holds them, and then known; builders that sort know it already.
        """
        if self._sorted_lists is None:
            self._sorted_lists = arrays.lists_ascend(self.indptr, self.indices)
        return self._sorted_lists

    def transpose(self) -> Graph:
        """The graph with every edge turned round, weights carried along, neighbours sorted by (number, weight).

        An undirected graph is its own. Otherwise it is built once, with the same placement, and kept with this graph.
        """
        if not self.directed:
            return self
        known = self._transposed()
        if known is not None:
            return known
        with _turning:
            known = self._transposed()
            if known is None:
                known = self._turned()
            return known

    def _turned(self) -> Graph:
        from .build import transposed
        from .compress import compress

        turned = transposed(self)
        built = compress(turned) if self.is_compressed else turned
        built._transposed = weakref.ref(self)  # weak, so that no cycle keeps large arrays from being released
        self._transposed = lambda: built
        return built

    def to_networkx(self, weight: str = "weight") -> Any:
        """This graph as networkx has it; see :func:`.convert.to_networkx`."""
        from .convert import to_networkx

        return to_networkx(self, weight)

    def to_scipy(self) -> Any:
        """The adjacency matrix as a ``scipy.sparse.csr_array``; see :func:`.convert.to_scipy`."""
        from .convert import to_scipy

        return to_scipy(self)

    def to_igraph(self, weight: str = "weight") -> Any:
        """This graph as igraph has it; see :func:`.convert.to_igraph`."""
        from .convert import to_igraph

        return to_igraph(self, weight)

    def _form(self) -> str:
        return ", compressed" * self.is_compressed + ", reordered" * (self._order is not None)

    def _facts(self) -> dict[str, Any]:
        kind = ("directed" if self.directed else "undirected") + self._form()
        sizes = {"vertices": f"{self.num_vertices:,}", "stored edges": f"{self.num_edges:,}", "kind": kind}
        places = {name: f"{type_name(self._arrays[name].dtype)}, {place}" for name, place in self.placement.items()}
        return {**sizes, "size": Size(self.nbytes), **places}

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        places = ", ".join(f"{name}: {self._arrays[name].dtype} {place}" for name, place in self.placement.items())
        return (
            f"Graph({self.num_vertices:,} vertices, {self.num_edges:,} stored edges, {kind}{self._form()}, "
            f"{format_bytes(self.nbytes)}; {places})"
        )


def require_graph(graph: object) -> None:
    """ConfigError unless ``graph`` is a Graph."""
    remedy = "make one with Graph(indptr, indices), from_edges or load_graph"
    arguments.instance("graph", graph, Graph, "pass its .graph" if hasattr(graph, "graph") else remedy)


def require_result(result: object, kind: type) -> None:
    """ConfigError unless ``result`` is what the algorithm gives whose results a verifier checks."""
    arguments.instance("result", result, kind, "pass what the algorithm returned")
