"""Neighbour lists as a device sees them: their arrays, what it keeps of them, and the words that native code reads."""

from __future__ import annotations

import bisect
import ctypes
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .. import _core
from ..memory.copies import copied
from ..memory.peers import GpuBlock
from ..runtime.capture import beside_capture
from ..runtime.errors import GraphError
from ..runtime.params import Params, address, struct
from ..runtime.thresholds import FEWEST_OFFSETS, LONG_CHUNK
from ..table.device import Through, reading
from . import arrays
from .arrays import index_dtype
from .lists import NeighborLists

_WORDS, _OFFSETS, _ARRAY = struct("graph::GraphWords"), struct("graph::Offsets"), struct("memory::ArrayWords")
WORDS_BYTES = 2 * ctypes.sizeof(_WORDS)  # with reads counted, and without


@dataclass
class Kept:
    """What a device keeps of lists that lie elsewhere."""

    offsets: bool = False  # all of them, as narrow as they can be
    prefix_length: int = 0  # first neighbours of each vertex
    pages: int = 0  # of the edges
    dealt: int = 0  # further pages, of which each of the GPUs has its share
    gpus: int = 1
    whole: bool = False  # all edges
    weighted: bool = False  # weights along with the edges
    nbytes: int = 0  # that all of this takes


class DealtPages(NamedTuple):
    """Pages that several devices keep together, as one of them finds them (:func:`.dealt_pages.deal_pages`).

    Attributes:
        slots: int32 ``[pages + 1]`` on the device: which page of ``first`` each is, or -1. Those of other devices are counted
            from there as well.
        first: the pages of the device whose address is lowest.
        blocks: the memory of all devices.
    """

    slots: torch.Tensor
    first: torch.Tensor
    blocks: list[GpuBlock]


def checked_view(lists: NeighborLists) -> DeviceGraph:
    """The arrays as the CPU reads them, for those who go through all lists. GraphError where they were changed since they were
    checked, and their offsets are wrong by now."""
    lists.checked_offsets()
    return DeviceGraph(lists, torch.device("cpu"))


class DeviceGraph:
    """Neighbour lists as a device reads them, and their addresses (``GraphWords`` of adjacency.hpp).

    ``name`` is what a plan calls them.
    """

    def __init__(self, lists: NeighborLists, device: torch.device, name: str = "lists") -> None:
        self.lists, self.device, self.name = lists, device, name
        self.stored = lists.stored
        self.through: list[Through] = list(self.stored.caches)  # what lies on storage
        offsets, edges = lists.array("indptr", device), self._array("packed" if lists.is_compressed else "indices")
        assert offsets is not None and edges is not None
        self.offsets, self.edges = offsets, edges
        self.packed_offsets = lists.array("packed_offsets", device)
        self.edge_type = index_dtype(lists.num_lists) if lists.is_compressed else edges.dtype
        # Elements of a page: edges, or the bytes of as many 32-bit words of packed lists.
        self.page = _core.PAGE_ELEMENTS * (4 if lists.is_compressed else 1)
        self.weights = self._array("weights")
        self.slots: torch.Tensor | None = None
        self.hot_edges: torch.Tensor | None = None
        self.hot_weights: torch.Tensor | None = None
        self.adjacency_prefix: torch.Tensor | None = None
        self.held = 0
        if device.type == "cuda":  # arrays that lie on another GPU come over whole
            homes = [arrays.tensor_of(array) for array in lists.arrays.values() if arrays.file_of(array) is None]
            self.held = sum(allocated(a.nbytes) for a in homes if a.is_cuda and a.device != device)
        self._whole = False  # all edges are kept
        self._dealt: list[GpuBlock] = []  # memory of all devices that pages are dealt over
        self._words: torch.Tensor | None = None
        self._making = threading.Lock()

    def _array(self, name: str) -> torch.Tensor | None:
        """An array as the device addresses it; of one on storage only what it is like, since nobody addresses it."""
        held = self.lists.arrays.get(name)
        if held is not None and arrays.file_of(held) is not None:
            return torch.empty(held.shape, dtype=held.dtype, device="meta")
        return self.lists.array(name, self.device)

    @property
    def over_link(self) -> bool:
        """Whether edges are read over the link between host and GPU."""
        return self.device.type == "cuda" and not self.lists.on_gpu and not self._whole

    @property
    def home(self) -> str:
        """The tier that the edges lie in: ``storage``, ``host``, or ``local`` in the device's own memory."""
        if self.stored:
            return "storage"
        return "host" if self.device.type == "cpu" or self.over_link else "local"

    def reading(self) -> AbstractContextManager[None]:
        """A with-block in which native code reads the lists. StorageError at its end where a page could not be read."""
        return reading(self.through)

    def slow_places(self) -> list[str]:
        """What to know of arrays that a GPU reads over the link and that are not all mapped in large pages."""
        if not self.over_link:
            return []
        held = {name: array for name, array in self.lists.arrays.items() if not isinstance(array, torch.Tensor)}
        slow = {name: array for name, array in held.items() if array.placement in ("split", "pinned")}
        return [f"{name} of {self.name}: {array.explain()}" for name, array in slow.items()]

    @property
    def words(self) -> int:
        """The address of the graph's words, in memory of the device, as long as this view lives."""
        return self.words_for(metered=False)

    def words_for(self, metered: bool) -> int:
        """The same; ``metered``: of words that have reads counted."""
        words = self._words
        if words is None:
            with self._making:  # once: a second array would replace the one that another thread has the address of
                words = self._words = self._made_words() if self._words is None else self._words
        return words.data_ptr() + (ctypes.sizeof(_WORDS) if metered else 0)

    def _made_words(self) -> torch.Tensor:
        lists = self.lists
        edges = self._words_of("packed" if lists.is_compressed else "indices", self.edges, self.hot_edges)
        words = _WORDS(
            num_vertices=lists.num_lists,
            num_edges=lists.num_edges,
            edge_bytes=self.edge_type.itemsize,
            offsets=_offsets(self.offsets),
            edges=_ARRAY() if lists.is_compressed else edges,
            weights=self._words_of("weights", self.weights, self.hot_weights),
            adjacency_prefix=address(self.adjacency_prefix),
            prefix_length=0 if self.adjacency_prefix is None else self.adjacency_prefix.shape[0],
            num_isolated=lists.num_isolated,
            packed=edges if lists.is_compressed else _ARRAY(),
            packed_offsets=_offsets(self.packed_offsets),
            packed_end=self.edges.numel() - _core.packed_bytes(0) if lists.is_compressed else 0,
        )
        both = bytearray(words)
        words.metered = 1
        with beside_capture(self.device):
            return torch.frombuffer(both + bytearray(words), dtype=torch.uint8).to(self.device)

    def _words_of(self, name: str, home: torch.Tensor | None, kept: torch.Tensor | None) -> Params:
        held = self.lists.arrays.get(name)
        file = None if held is None else arrays.file_of(held)
        return array_words(home, kept, self.slots) if file is None else self.stored.words(file, self.through)

    def _kept_offset_types(self) -> list[torch.dtype]:
        last = [self.lists.num_edges] if self.packed_offsets is None else [self.lists.num_edges, self.edges.nbytes]
        return [_offset_type(number) for number in last]

    @property
    def offsets_bytes(self) -> int:
        """What keeping the offsets takes; 0 where they lie on the GPU anyway."""
        if self.lists.indptr.is_cuda:
            return 0
        return sum(allocated(self.offsets.numel() * dtype.itemsize) for dtype in self._kept_offset_types())

    def prefix_bytes(self, count: int) -> int:
        """What keeping ``count`` first neighbours of each vertex takes."""
        return allocated(count * self.lists.num_lists * self.edge_type.itemsize)

    def kept_bytes(self, kept: Kept) -> int:
        """What keeping so much takes."""
        offsets = self.offsets_bytes if kept.offsets else 0
        adjacency_prefix = self.prefix_bytes(kept.prefix_length) if kept.prefix_length else 0
        if kept.whole:
            return offsets + adjacency_prefix + self.edge_bytes(kept.weighted)
        pages = kept.pages + (-(-kept.dealt // kept.gpus) + 1 if kept.dealt else 0)  # one is left out, where a share begins
        return offsets + adjacency_prefix + (self.pages_bytes(pages, kept.weighted) if pages else 0)

    def keep(self, kept: Kept, page_scores: torch.Tensor | None = None, dealt: DealtPages | None = None) -> None:
        """Copies to the device what a plan found room for. GraphError where a neighbour among the prefixes is no vertex: the
        arrays were changed.

        ``page_scores``: as of :meth:`page_scores`, by which pages are chosen, if some are. ``dealt``: the pages, where several
        devices have them.
        """
        self._words = None
        if kept.offsets:
            types = self._kept_offset_types()
            self.offsets = copied(self.offsets, self.device, types[0])
            if self.packed_offsets is not None:
                self.packed_offsets = copied(self.packed_offsets, self.device, types[1])
        if kept.prefix_length:
            self.adjacency_prefix = self._first_neighbors(kept.prefix_length)
        if kept.whole:
            self._whole = True
            self.edges, *weights = (copied(array, self.device) for array in self._edge_arrays(kept.weighted))
            self.weights = weights[0] if weights else self.weights
        elif dealt is not None:
            self.slots, self.hot_edges, self._dealt = dealt.slots, dealt.first, dealt.blocks
        elif kept.pages:
            assert page_scores is not None
            self._keep_pages(kept.pages, kept.weighted, page_scores)
        self.held += kept.nbytes

    def read_on_device(self, budget: int | None) -> None:
        """Reads what lies on storage through what the device keeps of its files. ``budget``: as of
        :meth:`.StoredArrays.on_device`."""
        self.through = self.stored.on_device(self.device, budget)
        self._words = self._made_words()  # and what is kept, while there is the room that was planned

    def _first_neighbors(self, count: int) -> torch.Tensor:
        """The prefixes: ``[count, num_lists]`` on the device, -1 for none."""
        lists, vertices = self.lists, self.lists.num_lists
        if lists.is_compressed:
            return lists.packed_lists().first_neighbors(count).to(self.device)
        adjacency_prefix = torch.full((count, vertices), -1, dtype=self.edges.dtype, device=self.device)
        wrong = torch.zeros((), dtype=torch.bool, device=self.device)
        for begin, end, offsets in self._parts():
            for j in range(count):
                at = offsets[:-1] + j
                there = (at < offsets[1:]) & (offsets[:-1] >= 0) & (offsets[1:] <= lists.num_edges)
                part = adjacency_prefix[j, begin:end]
                found = self.edges[at[there]]
                part[there] = found
                wrong |= ((found < 0) | (found >= vertices)).any()  # kernels take prefixes as they are
        if bool(wrong):
            raise GraphError(
                f"a neighbour is no vertex: among the first {count} of each list is one outside [0, {vertices}); the "
                "arrays were changed after the graph was made, so make it again"
            )
        return adjacency_prefix

    def _keep_pages(self, count: int, weighted: bool, scores: torch.Tensor) -> None:
        pages = self.num_pages
        chosen = torch.topk(scores.cpu(), count, sorted=False).indices.sort().values
        slots = torch.full((pages + 1,), -1, dtype=torch.int32)
        slots[chosen] = torch.arange(count, dtype=torch.int32)
        self.slots = slots.to(self.device)
        chosen = chosen.to(self.device)
        held = self._paged_arrays(weighted)
        kept = [a[: pages * self.page].view(pages, self.page).index_select(0, chosen) for a in held]
        self.hot_edges, self.hot_weights = kept[0], kept[1] if len(kept) > 1 else None

    def degrees(self, out: torch.Tensor) -> torch.Tensor:
        """Writes how long each vertex's list is to ``out``, ``[num_vertices]`` of any type on the view's device."""
        for begin, end, offsets in self._parts():
            torch.sub(offsets[1:], offsets[:-1], out=out[begin:end])
        return out

    def _parts(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Ranges of vertices with their offsets as int64. What is made of a range takes some 40 bytes for each of its vertices,
        less than any algorithm's state."""
        fewest, most = FEWEST_OFFSETS, LONG_CHUNK
        step = max(fewest, min(self.lists.num_lists // 8, most))
        for begin in range(0, self.lists.num_lists, step):
            end = min(begin + step, self.lists.num_lists)
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
        return [self.edges] if self.lists.is_compressed else self._edge_arrays(weighted)

    def pages_within(self, room: int, weighted: bool) -> int:
        """How many pages there is room for."""
        return max(0, bisect.bisect_right(range(self.num_pages + 1), room, key=lambda n: self.pages_bytes(n, weighted)) - 1)

    def keeps(self, edges: torch.Tensor) -> torch.Tensor:
        """Of positions in the edge array (int64), whether they are read from what is kept: bool, of the same shape."""
        if self.slots is None:
            return torch.full_like(edges, self._whole, dtype=torch.bool)
        return self.slots[self._elements_of(edges) // self.page] >= 0

    def _elements_of(self, edges: torch.Tensor) -> torch.Tensor:
        """Where in the array that pages are cut from edges are read. In packed lists, where an edge is bits at several places,
        in proportion to its place in the list: lists that lie in one page, nearly all, are right."""
        if not self.lists.is_compressed:
            return edges
        offsets, starts = (self.lists.array(name, self.device) for name in ("indptr", "packed_offsets"))
        assert offsets is not None and starts is not None
        owner = torch.searchsorted(offsets, edges, right=True) - 1
        begin, first = starts[owner], offsets[owner]
        return begin + (edges - first) * (starts[owner + 1] - begin) // (offsets[owner + 1] - first)

    def page_scores(self, scores: torch.Tensor | None = None) -> torch.Tensor:
        """The sum over the elements of each page of the scores of their lists: float64 ``[num_pages]``, where those are.

        ``scores``: ``[V]`` on any device, as the lists themselves are numbered: how often an element of each list is read. None
        is the length of the list, on the CPU.
        """
        return page_sums(self._starts(None if scores is None else scores.device), self.page, self.num_pages, scores)

    def page_reads(self, drawn: torch.Tensor) -> torch.Tensor:
        """The same of what was drawn from each list, ``[V]``: spread evenly over its elements."""
        return self.page_scores(drawn / self._starts(drawn.device).diff().clamp(min=1)).clamp_(min=0)

    def _starts(self, device: torch.device | None) -> torch.Tensor:
        """Where each list begins in the array that pages are cut from, on a device; None is the CPU."""
        device = device or torch.device("cpu")
        starts = self.lists.array("packed_offsets" if self.lists.is_compressed else "indptr", device)
        assert starts is not None
        return starts if device.type == "cpu" else copied(starts, device)


def all_through(views: Iterable[DeviceGraph]) -> list[Through]:
    """What several are read through, each once."""
    return list(dict.fromkeys(one for view in views for one in view.through))


def edge_at(view: DeviceGraph, at: int) -> tuple[int, int, str]:
    """The ends of the edge at a position of the lists of a graph, which the CPU reads, and what a sentence calls it."""
    u = int(torch.searchsorted(view.offsets, at, right=True)) - 1
    with view.reading():
        v = _core.entry_of(view.words, u, at)
    return u, v, f"edge {u} -> {v} (position {at})"


def allocated(size: int) -> int:
    """What torch's caching allocator may set aside for ``size`` bytes: multiples of 512 B, and from large blocks up to 1 MiB
    that is not worth splitting off."""
    rounded = -(-size // 512) * 512
    return rounded if rounded <= 1 << 20 else rounded + (1 << 20)


def array_words(home: torch.Tensor | None, kept: torch.Tensor | None = None, slots: torch.Tensor | None = None) -> Params:
    """An array as native code reads it; ``slots``: where in ``kept`` its pages are, if some are kept."""
    width = 0 if home is None else home.element_size()
    return _ARRAY(home=address(home), kept=address(kept), slots=0 if kept is None else address(slots), bytes=width)


def _offsets(array: torch.Tensor | None) -> Params:
    return _OFFSETS() if array is None else _OFFSETS(at=array.data_ptr(), bytes=array.element_size())


def _offset_type(last: int) -> torch.dtype:
    return torch.uint32 if last < 2**32 else torch.int64


def page_sums(offsets: torch.Tensor, page: int, pages: int, scores: torch.Tensor | None = None) -> torch.Tensor:
    """For each page of ``page`` elements the sum over its elements of the score of the list that each is in: float64
    ``[pages]``. None scores each list by its length."""
    degrees = offsets.diff()
    each = degrees.double() if scores is None else scores
    before = torch.zeros(len(offsets), dtype=torch.float64, device=offsets.device)  # sum over the elements before a list
    torch.cumsum(degrees * each, 0, dtype=torch.float64, out=before[1:])
    at = torch.arange(pages + 1, dtype=torch.int64, device=offsets.device) * page
    owner = (torch.searchsorted(offsets, at, right=True) - 1).clamp_(max=len(degrees) - 1)
    return (before[owner] + (at - offsets[owner]) * each[owner]).diff()
