"""What a traversal keeps on the GPU of a graph that lies in host memory, chosen within a budget.

In the order in which memory is given out:

1. the state of the largest of the algorithms, which is left free;
2. the offsets, which every list that is read needs: 4 bytes a vertex, or 8 where the last is 2^32 or more;
   And of a reordered graph the order (8 bytes a vertex), for the results of many runs;
3. *heads*, the first neighbours of each vertex: an algorithm that looks for one neighbour among many (bottom-up search,
   Afforest) finds it there most of the time, and reads no list;
4. *hot pages* of the edge array, with their weights: those whose lists are longest, because hubs are reached first, in every
   search, and again whenever a distance improves. Or by scores that say how often lists are read, as counts of mini-batch
   sampling do. Where all edges fit, all of them.

Everything else is read where it lies.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, GraphError, OutOfMemory
from ..runtime.shown import Shown, Size
from ..runtime.units import format_bytes, parse_bytes
from . import arrays
from .arrays import index_dtype
from .compress import first_neighbors
from .graph import Graph

PAGE_EDGES = 1024  # kPageEdges of adjacency.hpp
MOST_HEADS = 4
WORDS_BYTES = 17 * 8  # sizeof(GraphWords)
_CLOSED = "the prepared graph has been closed; prepare it again"
_AT_ONCE = 1 << 12, 1 << 22  # the fewest and the most vertices whose offsets are looked at together

# What each algorithm takes on the GPU besides the graph, its result included: bytes for a graph. Each adds itself.
STATE_BYTES: dict[str, Callable[[Graph], int]] = {}
# Algorithms that look for one neighbour in the lists of in-neighbours.
SEARCHING = {"bfs", "msbfs", "cc"}
# Algorithms that read the lists of in-neighbours only.
INCOMING_ONLY = {"pagerank", "pagerank-float64"}


def checked_view(graph: Graph) -> View:
    """The arrays as the CPU reads them, for verifiers, which go through all lists.

    Raises:
        GraphError: the arrays were changed since the graph was made, and its offsets are wrong by now.
    """
    graph.checked_rows()
    return View(graph, torch.device("cpu"))


class View:
    """The arrays of one graph as a device reads them, and their addresses in the order of ``GraphWords`` (adjacency.hpp)."""

    def __init__(self, graph: Graph, device: torch.device) -> None:
        self.graph, self.device = graph, device
        offsets, edges = graph.array("indptr", device), graph.array("packed" if graph.is_compressed else "indices", device)
        assert offsets is not None and edges is not None
        self.offsets, self.edges = offsets, edges
        self.packed_offsets = graph.array("packed_offsets", device)
        self.edge_type = index_dtype(graph.num_vertices) if graph.is_compressed else edges.dtype
        # Elements of a page: edges, or the bytes of as many 32-bit words of packed lists.
        self.page = PAGE_EDGES * (4 if graph.is_compressed else 1)
        self.weights = graph.array("weights", device)
        self.slots: torch.Tensor | None = None
        self.hot_edges: torch.Tensor | None = None
        self.hot_weights: torch.Tensor | None = None
        self.heads: torch.Tensor | None = None
        self.held = 0
        if device.type == "cuda":  # arrays that lie on another GPU come over whole
            homes = [arrays.tensor_of(array) for array in graph._arrays.values()]
            self.held = sum(allocated(a.nbytes) for a in homes if a.is_cuda and a.device != device)
        self._whole = False  # all edges are kept
        self._words: torch.Tensor | None = None
        self._making = threading.Lock()

    @property
    def over_link(self) -> bool:
        """Whether edges are read over the link between host and GPU."""
        return self.device.type == "cuda" and not self.graph.lists.is_cuda and not self._whole

    @property
    def words(self) -> int:
        """The address of the graph's words, in memory of the device, as long as this view lives."""
        words = self._words
        if words is None:
            with self._making:  # once: a second array would replace the one that another thread has the address of
                words = self._words = self._made_words() if self._words is None else self._words
        return words.data_ptr()

    def _made_words(self) -> torch.Tensor:
        graph = self.graph
        edges, packed = (None, self.edges) if graph.is_compressed else (self.edges, None)
        numbers = [graph.num_vertices, graph.num_edges, self.edge_type.itemsize, *_offsets(self.offsets)]
        numbers += [_address(array) for array in (edges, self.weights)]
        numbers += [_address(array) for array in (self.slots, self.hot_edges, self.hot_weights, self.heads)]
        numbers += [0 if self.heads is None else self.heads.shape[0], graph.num_isolated]
        numbers += [_address(packed), *_offsets(self.packed_offsets)]
        numbers += [0 if packed is None else packed.numel() - _core.packed_bytes(0)]
        return torch.tensor(numbers, dtype=torch.int64).to(self.device)

    def _kept_offset_types(self) -> list[torch.dtype]:
        last = [self.graph.num_edges] if self.packed_offsets is None else [self.graph.num_edges, self.edges.nbytes]
        return [_offset_type(number) for number in last]

    @property
    def offsets_bytes(self) -> int:
        """What keeping the offsets takes; 0 where they lie on the GPU anyway."""
        if self.graph.indptr.is_cuda:
            return 0
        return sum(allocated(self.offsets.numel() * dtype.itemsize) for dtype in self._kept_offset_types())

    def keep_offsets(self, room: int) -> int:
        """Copies offsets that lie in host memory to the GPU, as uint32 where they fit, if there is room. Returns what is left
        of it."""
        types, size = self._kept_offset_types(), self.offsets_bytes
        if size == 0 or size > room:
            return room
        self.offsets = self.offsets.to(types[0], copy=True)
        if self.packed_offsets is not None:
            self.packed_offsets = self.packed_offsets.to(types[1], copy=True)
        return self._took(size, room)

    def keep_heads(self, room: int) -> int:
        """Copies the first neighbours of every vertex, as many as there is room for."""
        vertices = self.graph.num_vertices
        each = vertices * self.edge_type.itemsize
        count = max(k for k in range(MOST_HEADS + 1) if allocated(k * each) <= room)
        if count == 0 or vertices == 0:
            return room
        if self.graph.is_compressed:
            self.heads = first_neighbors(self.graph, count).to(self.device)
            return self._took(allocated(count * each), room)
        heads = self.heads = torch.full((count, vertices), -1, dtype=self.edges.dtype, device=self.device)
        wrong = torch.zeros((), dtype=torch.bool, device=self.device)
        for begin, end, offsets in self._parts():
            for j in range(count):
                at = offsets[:-1] + j
                there = (at < offsets[1:]) & (offsets[:-1] >= 0) & (offsets[1:] <= self.graph.num_edges)
                part = heads[j, begin:end]
                found = self.edges[at[there]]
                part[there] = found
                wrong |= ((found < 0) | (found >= vertices)).any()  # kernels take heads as they are
        if bool(wrong):
            raise GraphError(
                f"a neighbour is no vertex: among the first {count} of each list is one outside [0, {vertices}); the "
                "arrays were changed after the graph was made, so make it again"
            )
        return self._took(allocated(count * each), room)

    def degrees(self, out: torch.Tensor) -> torch.Tensor:
        """Writes how long each vertex's list is to ``out``, ``[num_vertices]`` of any type on the view's device."""
        for begin, end, offsets in self._parts():
            torch.sub(offsets[1:], offsets[:-1], out=out[begin:end])
        return out

    def _parts(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Ranges of vertices with their offsets as int64. What is made of a range takes some 40 bytes for each of its vertices,
        less than any algorithm's state."""
        fewest, most = _AT_ONCE
        step = max(fewest, min(self.graph.num_vertices // 8, most))
        for begin in range(0, self.graph.num_vertices, step):
            end = min(begin + step, self.graph.num_vertices)
            yield begin, end, self.offsets[begin : end + 1].to(self.device, torch.int64)

    def edge_bytes(self, weighted: bool) -> int:
        """What keeping all edges takes."""
        return sum(allocated(a.nbytes) for a in self._edge_arrays(weighted))

    def _edge_arrays(self, weighted: bool) -> list[torch.Tensor]:
        return [self.edges, self.weights] if weighted and self.weights is not None else [self.edges]

    def pages_bytes(self, count: int, weighted: bool) -> int:
        """What keeping ``count`` pages of the edges takes, the table that finds them included."""
        return allocated(4 * (self.num_pages + 1)) + sum(allocated(count * size) for size in self.page_sizes(weighted))

    def page_sizes(self, weighted: bool) -> list[int]:
        """Bytes of a page of each array that pages are kept of."""
        return [self.page * a.element_size() for a in self._paged_arrays(weighted)]

    @property
    def num_pages(self) -> int:
        """Whole pages of the edge array; a last one that is not full is never kept alone."""
        return self.edges.numel() // self.page

    def _paged_arrays(self, weighted: bool) -> list[torch.Tensor]:
        # Pages of packed lists are not those of the weights.
        return [self.edges] if self.graph.is_compressed else self._edge_arrays(weighted)

    def pages_within(self, room: int, weighted: bool) -> int:
        """How many pages there is room for."""
        return max(0, bisect.bisect_right(range(self.num_pages + 1), room, key=lambda n: self.pages_bytes(n, weighted)) - 1)

    def keeps(self, edges: torch.Tensor) -> torch.Tensor:
        """Of positions in the edge array (int64), whether they are read from what is kept: bool, of the same shape."""
        if self.slots is None:
            return torch.full_like(edges, self._whole, dtype=torch.bool)
        return self.slots[edges // self.page] >= 0

    def keep_edges(self, room: int, weighted: bool, scores: torch.Tensor | None = None) -> int:
        """Copies all edges, or the hottest pages, as many as there is room for.

        Args:
            room: bytes.
            weighted: keep weights along with the edges.
            scores: float64 ``[V]`` on the CPU, as the graph itself numbers vertices: how often an element of each list is
                read. None is the length of the list.

        Returns:
            What is left of ``room``.
        """
        held, whole = self._edge_arrays(weighted), self.edge_bytes(weighted)
        if self.graph.lists.is_cuda or not self.graph.num_edges:
            return room
        if whole <= room:
            self._whole = True
            self.edges = self.edges.clone()
            if len(held) > 1:
                self.weights = held[1].clone()
            return self._took(whole, room)
        held, pages = self._paged_arrays(weighted), self.num_pages
        count = self.pages_within(room, weighted)
        if count == 0:
            return room
        chosen = torch.topk(self.page_scores(scores), count, sorted=False).indices.sort().values
        slots = torch.full((pages + 1,), -1, dtype=torch.int32)
        slots[chosen] = torch.arange(count, dtype=torch.int32)
        self.slots = slots.to(self.device)
        chosen = chosen.to(self.device)
        kept = [a[: pages * self.page].view(pages, self.page).index_select(0, chosen) for a in held]
        self.hot_edges, self.hot_weights = kept[0], kept[1] if len(kept) > 1 else None
        return self._took(self.pages_bytes(count, weighted), room)

    def page_scores(self, scores: torch.Tensor | None = None) -> torch.Tensor:
        """The sum over the elements of each page of the scores of their lists (see :meth:`keep_edges`): float64 on the CPU."""
        starts = self.graph.array("packed_offsets" if self.graph.is_compressed else "indptr", "cpu")
        assert starts is not None
        return page_sums(starts, self.page, self.num_pages, scores)

    def _took(self, size: int, room: int) -> int:
        self.held += size
        self._words = None
        return room - size


class Prepared(Shown):
    """A graph with what a device keeps of it, for many runs of the algorithms that it was prepared for (:func:`prepare`).

    Attributes:
        graph: the graph.
        device: where the algorithms run: the CPU where the budget has no room for their state.
    """

    def __init__(
        self,
        graph: Graph,
        device: torch.device,
        budget: int | None,
        algorithms: Iterable[str],
        weighted: bool,
        many_runs: bool,
        scores: torch.Tensor | None = None,
    ) -> None:
        algorithms = set(algorithms)
        if unknown := algorithms - STATE_BYTES.keys():
            raise ConfigError(f"{', '.join(sorted(unknown))}: not among the algorithms, {', '.join(sorted(STATE_BYTES))}")
        self.graph, self.device, self.budget = graph, device, budget
        reserved = max((STATE_BYTES[a](graph) for a in algorithms), default=0)
        reserved += 2 * allocated(WORDS_BYTES)
        if device.type == "cuda" and budget is not None and reserved > budget:
            self.device = device = torch.device("cpu")
        room = self._room(reserved)
        needs_incoming = bool(algorithms & INCOMING_ONLY)
        known = graph.transpose() if needs_incoming or not graph.directed else graph._transposed()
        self.out = View(graph, device)
        self.incoming = self.out if known is graph else None
        self._order: torch.Tensor | None = None
        if (
            known is not None
            and known is not graph
            and known.is_compressed == graph.is_compressed
            and known.lists.dtype == graph.lists.dtype
        ):
            self.incoming = View(known, device)
        if device.type == "cpu":
            return
        with torch.cuda.device(device):
            views = [self.incoming] if algorithms <= INCOMING_ONLY and self.incoming else [self.out]
            if self.incoming is not None and algorithms & SEARCHING and self.incoming not in views:
                views.append(self.incoming)
            for view in dict.fromkeys([*views, self.out]):  # degrees are asked for even where no list is read
                room = view.keep_offsets(room)
            if many_runs and graph._outer is not None and allocated(graph._outer.nbytes) <= room:
                self._order = graph._outer.to(device)
                room -= allocated(graph._outer.nbytes)
            if many_runs or algorithms & INCOMING_ONLY:
                fits = allocated(graph.lists.nbytes) + (
                    allocated(graph.weights.nbytes) if weighted and graph.weights is not None else 0
                )
                if algorithms & SEARCHING and self.incoming is not None and room < fits:
                    room = self.incoming.keep_heads(room)
                for view in views:
                    room = view.keep_edges(room, weighted, scores)

    def _facts(self) -> dict[str, Any]:
        return {"graph": self.graph, "device": str(self.device), "held": Size(self.held)}

    @property
    def held(self) -> int:
        """Bytes of GPU memory kept until :meth:`close`."""
        views, order = {id(v): v for v in (self.out, self.incoming) if v is not None}.values(), self._order
        return sum(view.held for view in views) + (0 if order is None else allocated(order.nbytes))

    def order_on(self, device: torch.device) -> torch.Tensor | None:
        """``graph.order`` on ``device``; the one that is kept there, if there is one."""
        order, kept, device = self.graph._outer, self._order, devices.as_device(device)
        if order is None or device.type == "cpu":
            return order
        return order.to(device) if kept is None else kept

    def order_for(self, lookups: int) -> torch.Tensor | None:
        """``graph.order`` for ``lookups`` of its numbers on the prepared device; what is not kept there as of
        :meth:`.Order.outer_on`."""
        order, kept = self.graph._order, self._order
        if order is None or kept is not None:
            return kept
        return order.outer_on(self.device, lookups)

    def _room(self, reserved: int) -> int:
        if self.device.type == "cpu":
            return 0
        free = devices.free_bytes(self.device)
        limit = free if self.budget is None else min(self.budget, free)
        if reserved > limit:
            raise OutOfMemory(
                f"traversing {self.graph.num_vertices} vertices needs {format_bytes(reserved)} on {self.device} and "
                f"{format_bytes(free)} are free; free some, or run it with device='cpu'"
            )
        return limit - reserved

    def explain(self) -> str:
        """What is kept where, for people."""
        out, incoming, held = self.out, self.incoming, self.held
        if out is None:
            return "closed"
        lines = [f"runs on {self.device}, keeps {format_bytes(held)} there"]
        for name, view in (("lists", out), ("in-neighbours' lists", incoming)):
            if view is None or (name != "lists" and view is out):
                continue
            kept: list[str] = []
            if view.heads is not None:
                kept.append(f"{view.heads.shape[0]} heads a vertex")
            if view.hot_edges is not None:
                share, unit = view.hot_edges.numel() / view.edges.numel(), "bytes" if view.graph.is_compressed else "edges"
                kept.append(f"{view.hot_edges.shape[0]} pages of {view.page} {unit} ({share:.0%})")
            lines.append(f"{name}: {', '.join(kept) or 'read where they lie'}")
        return "\n".join(lines)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self.out is None

    def opened(self) -> Prepared:
        """This as it is now, for one run: :meth:`close` takes nothing from it.

        Raises:
            ConfigError: it has been closed.
        """
        run = Prepared.__new__(Prepared)
        run.__dict__ = self.__dict__.copy()  # in one step, as other threads see it
        if run.out is None:
            raise ConfigError(_CLOSED)
        return run

    def close(self) -> None:
        """Gives the GPU memory back, as soon as no run in another thread reads it. Runs that begin from now on are refused."""
        self.out = self.incoming = self._order = None  # type: ignore[assignment]  # out first: then it is closed

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def prepare(
    graph: Graph,
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    algorithms: str | Iterable[str] = ("bfs",),
    weighted: bool = False,
    scores: torch.Tensor | None = None,
) -> Prepared:
    """Copies to the GPU what saves the most traffic over the link, for many runs of ``algorithms`` on ``graph``.

    Args:
        graph: the graph; a directed one is searched bottom-up only if ``graph.transpose()`` has been called.
        gpu_budget: most bytes of GPU memory for what is kept and the algorithms' state together; None is what is free.
        device: where to run; None is the current GPU, or the CPU on a machine without one.
        algorithms: the names of what will run: ``"bfs"``, ``"cc"``, ...; the largest one's state is left free.
        weighted: keep weights along with the edges.
        scores: ``[V]``, how often an element of each vertex's list is read, where that is known; pages are kept by it. None
            keeps the longest lists.

    Returns:
        A :class:`Prepared`, which every algorithm takes in place of the graph. It is a context manager.

    Raises:
        GraphError: arrays that were changed since the graph was made: a neighbour to be kept is no vertex.
        OutOfMemory: the state exceeds the free GPU memory. (Where it exceeds ``gpu_budget``, the CPU does the work.)
        ConfigError: an unknown algorithm, a budget that is no size, scores that are not one number for each vertex.
    """
    if not isinstance(graph, Graph):
        raise ConfigError(f"prepare() takes a Graph, not a {type(graph).__name__}")
    try:
        names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
    except (TypeError, RuntimeError):  # the last is a tensor's
        raise ConfigError(
            f"algorithms is a name or several, such as ('bfs', 'cc'), not {arguments.shown(algorithms)}"
        ) from None
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"algorithms are named by words, as 'bfs', not by {arguments.shown(algorithms)}")
    inner = None if scores is None else list_scores(graph, scores)
    return Prepared(graph, devices.as_device(device), _budget(gpu_budget), names, weighted, many_runs=True, scores=inner)


def list_scores(graph: Graph, scores: torch.Tensor) -> torch.Tensor:
    """Scores of the vertices that a user knows as :meth:`View.keep_edges` takes them; ConfigError if they cannot be used."""
    if tuple(arguments.dense("scores", scores).shape) != (graph.num_vertices,) or scores.is_complex():
        raise ConfigError(
            f"scores are {arguments.shown(scores)}, but must be a tensor with one number for each of {graph.num_vertices} "
            "vertices"
        )
    found = scores.to("cpu", torch.float64)
    if not bool(found.isfinite().all()):
        at = int((~found.isfinite()).nonzero()[0])
        raise ConfigError(f"scores[{at}] is {float(found[at])}; replace it, as in scores.nan_to_num(0)")
    return found if graph._outer is None else found[graph._outer]


def graph_of(graph: Graph | Prepared) -> Graph:
    """The graph that an algorithm was given, prepared or not.

    Raises:
        ConfigError: it is neither, or was prepared and closed.
    """
    if isinstance(graph, Prepared):
        if graph.closed:
            raise ConfigError(_CLOSED)
        return graph.graph
    if not isinstance(graph, Graph):
        raise ConfigError(f"graph is a {type(graph).__name__}, but must be a Graph or what prepare() made of one")
    return graph


def prepared_for(
    graph: Graph | Prepared,
    algorithm: str,
    gpu_budget: int | str | None,
    device: torch.device | str | int | None,
    weighted: bool = False,
) -> Prepared:
    """``graph`` for one run of ``algorithm``, prepared for it if it is not yet."""
    return kept_for(graph, algorithm, gpu_budget, device, weighted).opened()


def kept_for(
    graph: Graph | Prepared,
    algorithm: str,
    gpu_budget: int | str | None,
    device: torch.device | str | int | None,
    weighted: bool = False,
) -> Prepared:
    """``graph`` itself if it is prepared, or prepared for ``algorithm``; each run takes it ``opened()``."""
    graph_of(graph)
    if isinstance(graph, Prepared):
        if gpu_budget is not None or (device is not None and devices.as_device(device) != graph.device):
            raise ConfigError("the graph is prepared, with a budget and a device of its own; leave out gpu_budget and device")
        return graph
    return Prepared(graph, devices.as_device(device), _budget(gpu_budget), (algorithm,), weighted, many_runs=False)


def _budget(gpu_budget: int | str | None) -> int | None:
    return None if gpu_budget is None else parse_bytes(gpu_budget)


def allocated(size: int) -> int:
    """What torch's caching allocator may set aside for ``size`` bytes: multiples of 512 B, and from large blocks up to 1 MiB
    that is not worth splitting off."""
    rounded = -(-size // 512) * 512
    return rounded if rounded <= 1 << 20 else rounded + (1 << 20)


def _address(array: torch.Tensor | None) -> int:
    return 0 if array is None else array.data_ptr()


def _offsets(array: torch.Tensor | None) -> tuple[int, int]:
    """``Offsets`` of adjacency.hpp: where they lie, and bytes of each."""
    return (0, 0) if array is None else (array.data_ptr(), array.element_size())


def _offset_type(last: int) -> torch.dtype:
    """The type of offsets up to ``last`` that are kept."""
    return torch.uint32 if last < 2**32 else torch.int64


def page_sums(offsets: torch.Tensor, page: int, pages: int, scores: torch.Tensor | None = None) -> torch.Tensor:
    """For each page of ``page`` elements the sum over its elements of the score of the list that each is in: float64
    ``[pages]``. None scores each list by its length."""
    degrees = offsets.diff()
    each = degrees.double() if scores is None else scores
    before = torch.zeros(len(offsets), dtype=torch.float64)  # sum over the elements before a list
    torch.cumsum(degrees * each, 0, out=before[1:])
    at = torch.arange(pages + 1, dtype=torch.int64) * page
    owner = (torch.searchsorted(offsets, at, right=True) - 1).clamp_(max=len(degrees) - 1)
    return (before[owner] + (at - offsets[owner]) * each[owner]).diff()
