"""A graph as compressed sparse rows (CSR), each of its arrays in a place of its own."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

from ..runtime import arguments
from ..runtime.annotations import IfRequested
from ..runtime.repr import Repr, Size, type_name
from ..runtime.units import format_bytes
from . import arrays, export
from .arrays import Array
from .build import transposed
from .lists import NeighborLists, OverLists
from .order import Order, renumber, reordered

_turning = threading.Lock()  # two threads that ask for a transpose get the same one, and its memory is taken once
os.register_at_fork(after_in_child=_turning._at_fork_reinit)  # type: ignore[attr-defined]  # who had it is not in the child


class Graph(OverLists, Repr):
    """A graph in CSR form: the neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``.

    An undirected graph stores each edge in the rows of both its ends (a self loop once), and ``num_edges`` counts what is
    stored.

    Args:
        indptr: offsets, ``[num_vertices + 1]``, any integer type; kept as int64.
        indices: neighbours, ``[num_edges]``, any integer type; kept as int32 while ``num_vertices < 2**31``, else int64.
        weights: one for each neighbour, ``[num_edges]``, any integer or floating type; kept as it is.
        directed: False promises that every edge is there in both directions, with the same weight.
        placement: where the arrays go, one word for all or a mapping by array name: ``"gpu"`` (a CUDA tensor; on a machine
            without a GPU ``"pageable"``, so that the same program runs there), or ``"host"``, ``"managed"``, ``"pinned"``,
            ``"system"`` or ``"pageable"`` (host memory; see UnifiedTensor). Tensors are copied there. A UnifiedTensor whose
            type fits is taken as it is, wherever it lies.

    Attributes:
        directed: as given.
        labels: what the vertices are called elsewhere, ``[num_vertices]``, or None where their numbers are their names;
            :mod:`.convert` and files with names set it, :mod:`.export` and ``.hl`` files take it.
        neighbor_lists: the arrays, where they lie and what is known of them, for who needs no more of a graph.
        numbering: what a reordered graph remembers, else None.

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
        directed = arguments.switch("directed", directed)
        self.neighbor_lists = NeighborLists.checked(indptr, indices, weights, placement, mirrored=not directed)
        self.directed = directed
        self.numbering: Order | None = None
        self.labels: IfRequested[Sequence[Hashable]] = None
        self._transposed: Callable[[], Graph | None] = _no_graph

    @classmethod
    def of(
        cls, lists: NeighborLists, directed: bool, numbering: Order | None = None, labels: Sequence[Hashable] | None = None
    ) -> Graph:
        """A graph of lists that are known to be right, whose neighbours are vertices, with what it remembers."""
        graph = cls.__new__(cls)
        graph.neighbor_lists, graph.directed, graph.numbering, graph.labels = lists, directed, numbering, labels
        graph._transposed = _no_graph
        return graph

    def over(self, lists: NeighborLists) -> Graph:
        """A graph with the same edges, and all that this one remembers, over other lists."""
        return Graph.of(lists, self.directed, self.numbering, self.labels)

    def with_weights(self, weights: Array) -> Graph:
        """This graph's arrays and ``weights``, which are known to be right."""
        return self.over(self.neighbor_lists.over({**self.neighbor_lists.arrays, "weights": weights}))

    def without_weights(self) -> Graph:
        """This graph's other arrays alone; itself where it has no weights."""
        held = self.neighbor_lists.arrays
        if "weights" not in held:
            return self
        return self.over(self.neighbor_lists.over({name: array for name, array in held.items() if name != "weights"}))

    @property
    def num_vertices(self) -> int:
        """Vertices, numbered from 0."""
        return self.neighbor_lists.num_lists

    @property
    def num_isolated(self) -> int:
        """Vertices without neighbours in their lists; counted once and kept."""
        return self.neighbor_lists.num_isolated

    @property
    def weight_range(self) -> arrays.WeightRange | None:
        """The least and the largest weight and about their mean, or None without weights; looked at once and kept."""
        return self.neighbor_lists.weight_range

    @property
    def weight_type(self) -> torch.dtype | None:
        """The type of the weights, or None without any."""
        return self.neighbor_lists.weight_type

    @property
    def lists(self) -> torch.Tensor:
        """The array that holds the neighbours, in either form: ``indices``, or ``packed`` of a compressed graph."""
        return self.neighbor_lists.listed

    @property
    def is_compressed(self) -> bool:
        """Whether the neighbours are held as packed lists (see ``compress``)."""
        return self.neighbor_lists.is_compressed

    @property
    def order(self) -> IfRequested[torch.Tensor]:
        """int64 ``[num_vertices]`` on the CPU: each vertex's number before the graph was reordered; None if it was not.

        A copy, made at the first call and kept: changing it changes nothing here.
        """
        return None if self.numbering is None else self.numbering.copied

    @property
    def original_ids(self) -> torch.Tensor | None:
        """``order`` itself, for those who only read it."""
        return None if self.numbering is None else self.numbering.original_ids

    def original_lists(self) -> NeighborLists:
        """The lists under the numbers that users know; those of a reordered graph are made at each call, in pageable memory."""
        if self.numbering is None:
            return self.neighbor_lists
        return reordered(self.neighbor_lists, Order(self.numbering.internal_ids), "pageable")

    def to_internal(self, vertices: torch.Tensor | int) -> torch.Tensor:
        """Vertices of the graph before it was reordered as this graph numbers them: int64, of the same shape and device.

        Raises:
            IndexOutOfRange: one of them is no vertex.
        """
        return renumber(vertices, None if self.numbering is None else self.numbering.internal_ids, self.num_vertices)

    def to_original(self, values: torch.Tensor, *, vertices: bool = False) -> torch.Tensor:
        """Per-vertex values ``[..., num_vertices]`` of this graph in the order of the graph before it was reordered.

        With ``vertices=True`` the values are themselves vertex numbers (parents, labels) and are renumbered too; negative
        ones, which stand for none, stay. Where the graph was not reordered, the result is ``values`` itself.
        """
        return values if self.numbering is None else self.numbering.to_original(values, vertices)

    @property
    def placement(self) -> dict[str, str]:
        """Where each array lies, by its name."""
        return self.neighbor_lists.placement

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together, without ``order``, which no traversal reads."""
        return self.neighbor_lists.nbytes

    def array(self, name: str, device: torch.device | str | int | None = "cpu") -> IfRequested[torch.Tensor]:
        """``indptr``, ``indices`` or ``weights`` as ``device`` addresses it; None where there are no weights.

        Host memory is not copied, whatever the device. An array that lies on a GPU is copied for any other device, and one on
        storage is read whole into host memory at each call, as ``indices`` and ``weights`` then are. A compressed graph also
        has ``packed`` and ``packed_offsets``; its ``indices`` are decoded at each call.
        """
        return self.neighbor_lists.array(name, device)

    def checked_rows(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Offsets, neighbours and weights on the CPU, for who goes through all lists. Those of a compressed graph are decoded.

        The arrays are the user's too, who may have changed them since the graph was made, so the offsets are looked at again.

        Raises:
            GraphError: names the offset that is wrong by now, or the vertex whose packed list is.
        """
        return self.neighbor_lists.checked_rows()

    def degrees(self) -> torch.Tensor:
        """Neighbours of each vertex: int64 ``[num_vertices]``, on the device of ``indptr``."""
        return self.indptr.diff()

    @property
    def has_sorted_lists(self) -> bool:
        """Whether the neighbours of every vertex ascend; equal ones, parallel edges, may follow each other.

        Looked at once, by all threads or by the GPU that holds them, and then known; builders that sort know it already.
        """
        return self.neighbor_lists.is_sorted

    @property
    def known_transpose(self) -> Graph | None:
        """What ``transpose()`` has made and still is, or the graph that this is the transpose of; None if there is none."""
        return self._transposed()

    def transpose(self) -> Graph:
        """The graph with every edge turned round, weights carried along, neighbours sorted by (number, weight).

        An undirected graph is its own. Otherwise it is built once, with the same placement, or in host memory where this graph
        lies on storage, and kept with this graph; that of a file which carries it (``load_graph``) lists neighbours as the file
        does.
        """
        if not self.directed:
            return self
        known = self._transposed()
        if known is not None:
            return known
        with _turning:
            known = self._transposed()
            if known is None:
                turned = transposed(self.neighbor_lists)
                packed = turned.packed(arrays.placements(turned.places)) if self.is_compressed else turned
                assert packed is not None  # what is built is sorted
                known = self.over(packed)
                self._keep_transpose(known)
            return known

    def join(self, other: Graph, check: bool = True) -> None:
        """Takes a graph whose edges are said to be this one's turned round as the transpose.

        Raises:
            GraphError: they are others, which ``check`` looks for where the lists are plain.
        """
        require_graph(other)
        if arguments.switch("check", check) and not self.is_compressed:
            arrays.check_inverse(self.neighbor_lists.arrays, other.neighbor_lists.arrays)
        self._keep_transpose(other)

    def __getstate__(self) -> dict[str, Any]:
        """Its arrays, those on storage by their paths, and what it remembers, but no transpose in memory: it is built anew."""
        turned = None if isinstance(self._transposed, weakref.ref) else self._transposed()
        return {**self.__dict__, "_transposed": turned if turned is not None and turned.neighbor_lists.stored else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _transposed=_no_graph)
        if state["_transposed"] is not None:
            self._keep_transpose(state["_transposed"])

    def __copy__(self) -> Graph:
        """The same arrays, and the same transpose."""
        made = Graph.__new__(Graph)
        made.__dict__.update(self.__dict__)
        return made

    def _keep_transpose(self, turned: Graph) -> None:
        turned._transposed = weakref.ref(self)  # weak, so that no cycle keeps large arrays from being released
        self._transposed = lambda: turned

    def to_networkx(self, weight: str = "weight") -> Any:
        """A networkx graph: ``Graph`` or ``DiGraph``, or its multigraph where there are parallel edges.

        Its nodes are ``labels``, or the vertex numbers; the edge attribute ``weight`` takes the weights, if there are any.
        """
        return export.to_networkx(self.original_lists(), self.directed, self.labels, weight)

    def to_scipy(self) -> Any:
        """The adjacency matrix as a ``scipy.sparse.csr_array`` of its own memory; an edge without a weight is an int64 1."""
        return export.to_scipy(self.original_lists())

    def to_igraph(self, weight: str = "weight") -> Any:
        """An ``igraph.Graph``; weights become the edge attribute ``weight``, ``labels`` the vertex attribute ``name``."""
        return export.to_igraph(self.original_lists(), self.directed, self.labels, weight)

    def _form(self) -> str:
        return ", compressed" * self.is_compressed + ", reordered" * (self.numbering is not None)

    def _facts(self) -> dict[str, Any]:
        kind = ("directed" if self.directed else "undirected") + self._form()
        sizes = {"vertices": f"{self.num_vertices:,}", "stored edges": f"{self.num_edges:,}", "kind": kind}
        held = self.neighbor_lists.arrays
        places = {name: f"{type_name(held[name].dtype)}, {place}" for name, place in self.placement.items()}
        return {**sizes, "size": Size(self.nbytes), **places}

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        held = self.neighbor_lists.arrays
        places = ", ".join(f"{name}: {held[name].dtype} {place}" for name, place in self.placement.items())
        return (
            f"Graph({self.num_vertices:,} vertices, {self.num_edges:,} stored edges, {kind}{self._form()}, "
            f"{format_bytes(self.nbytes)}; {places})"
        )


def _no_graph() -> None:
    """Of a graph whose transpose is not known."""


def require_graph(graph: object) -> None:
    """ConfigError unless ``graph`` is a Graph."""
    remedy = "make one with Graph(indptr, indices), from_edges or load_graph"
    arguments.instance("graph", graph, Graph, "pass its .graph" if hasattr(graph, "graph") else remedy)
