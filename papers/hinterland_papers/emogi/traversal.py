"""EMOGI's traversals as published, and BaM's work assignments: the ablation that the fast algorithms are compared with.

Min 2022, chapter 2, and Mailthody 2022, section 6.3. Every level looks at all vertices, in one launch; the CPU decides after
each whether there is another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from hinterland._core import NO_VERTEX
from hinterland.graph import arrays
from hinterland.graph.bfs import check_source
from hinterland.graph.graph import Graph, require_graph
from hinterland.graph.sssp import WEIGHT_CLASSES, distances_of, negative_weight, require_weights, unset_key
from hinterland.graph.traversal import Stopwatch, smallest_original
from hinterland.memory.copies import copied
from hinterland.runtime import arguments, devices
from hinterland.runtime.errors import ConfigError, GraphError
from hinterland.runtime.launch import launch
from hinterland.runtime.params import Params, address, struct
from hinterland.runtime.repr import Repr, type_name

from .. import _core, kernel_file
from .migrating import migrating

ACCESSES = ("naive", "merged", "aligned")
UVM = "uvm"  # aligned, over lists whose pages migrate
ASSIGNMENTS = ("warp", "chunked", "transposed", "coarsened", "odt", "odt-active")
ALGORITHMS = ("bfs", "sssp", "cc", "pagerank")

LINE_BYTES = 4096  # a cache line of BaM: a tile, and what coarsening fills
CHUNK = 8  # vertices of a warp in EMOGI's chunked form
STRIDE = 128  # of the transposed assignment; the best for most graphs (Mailthody 2022, section 7.1.6)

_POLICIES = {"vertices": "ConsecutiveVertices", "transposed": "TransposedVertices", "tiles": "EdgeTiles"}
WEIGHTS = (torch.int32, torch.float32, torch.float64)  # that shortest paths add up
_APPS = {"bfs": "EmogiBfs", "cc": "EmogiComponents", "pagerank": "EmogiPagerank"}
_SSSP = {weight: f"EmogiSssp<{WEIGHT_CLASSES[weight]}>" for weight in WEIGHTS}


def _instance(app: str, access: str, policy: str, edge_bytes: int) -> str:
    return f"emogi_level<{app}, {access.capitalize()}Access, {_POLICIES[policy]}, int{8 * edge_bytes}_t>"


KERNELS = kernel_file(
    "emogi/traversal.cu",
    tuple(_instance(*case) for case in product([*_APPS.values(), *_SSSP.values()], ACCESSES, _POLICIES, (4, 8))),
    separate_module=True,
)
_TILES = kernel_file("emogi/tiles.cu", ("mark_active_tiles",))
_PARAMS, _DIVISION, _STATE, _ACTIVE = (
    struct(f"emogi::{name}") for name in ("EmogiParams", "Division", "EmogiState", "ActiveTiles")
)


@dataclass(frozen=True, repr=False)
class EmogiResult(Repr):
    """What a traversal found, on the device that ran it.

    Attributes:
        values: BFS: levels, int32 ``[num_vertices]``, -1 where unreachable. Shortest paths: distances, int64, -1 where
            unreachable, or of the weights' float type, inf where unreachable. Components: int64, the smallest vertex of each
            vertex's component. PageRank: float32.
        stats: ``device``, ``seconds``, ``launches``, ``edges`` of the lists that were read, as often as they were, and
            ``bytes``: whole sectors of these lists, weights included, each list for itself. Of PageRank also ``kept``: what
            vertices have not passed on, in all.
    """

    values: torch.Tensor
    stats: dict[str, Any]


def bfs(
    graph: Graph,
    source: int,
    access: str = "aligned",
    assignment: str = "warp",
    size: int | None = None,
    device: torch.device | str | int | None = None,
) -> EmogiResult:
    """Levels of the vertices that ``source`` reaches.

    Args:
        graph: the graph; the edges are read where they lie, 4 or 8 bytes each; offsets are copied to the GPU.
        source: a vertex number.
        access: ``"naive"`` (a thread walks a list), ``"merged"`` (a warp reads it), ``"aligned"`` (from its first line on);
            ``"uvm"``: aligned, over a copy of the lists in managed memory whose pages move to the GPU as they are read, and are
            all at home when the run begins. On the CPU, which has them at home, that is aligned.
        assignment: ``"warp"`` (a worker for each vertex), ``"chunked"`` (8 vertices), ``"transposed"`` (workers that follow
            each other serve vertices 128 apart), ``"coarsened"`` (the vertices whose lists fill 4 KiB), ``"odt"`` (tiles of
            4 KiB of the edge array), ``"odt-active"`` (tiles with active vertices only). A worker is a warp, or a thread if
            the access is naive.
        size: the assignment's number, instead of the one that is named above: vertices, stride, or elements of a tile.
        device: where to run; None is the current GPU, or the CPU on a machine without one.

    Returns:
        ``EmogiResult(levels int32 [V], stats)``.

    Raises:
        ConfigError: an unknown access or assignment, or a size that cannot be used.
        IndexOutOfRange: ``source`` is no vertex.
        GraphError: a neighbour met on the way is out of range.
        OutOfMemory: lists for ``"uvm"`` exceed what managed memory may take.
    """
    require_graph(graph)
    source = check_source(graph, source)
    return search(Traversal(graph, "bfs", access, assignment, size, device), source)


def search(run: Traversal, source: int) -> EmogiResult:
    """What :func:`bfs` does in a run."""
    graph = run.graph
    with run.timed():
        levels = torch.full((graph.num_vertices,), -1, dtype=torch.int32, device=run.device)
        levels[graph.to_internal(source)] = 0
        while run.level(levels, depth=run.launches):
            pass
    return EmogiResult(graph.to_original(levels), run.stats(levels >= 0))


def sssp(
    graph: Graph,
    source: int,
    access: str = "aligned",
    assignment: str = "warp",
    size: int | None = None,
    device: torch.device | str | int | None = None,
    observe: Any = None,
) -> EmogiResult:
    """Shortest distances from ``source``, by relaxing the edges of all vertices whose distance has fallen, level by level.

    Distances are those of :func:`hinterland.sssp`, to the last bit.

    Args:
        graph, source, access, assignment, size, device: as for :func:`bfs`; weights are int32, float32 or float64, and not
            negative. An edge of weight inf leads nowhere.
        observe: called with the active vertices (bool ``[V]``, as ``indptr`` numbers them) before each level.

    Returns:
        ``EmogiResult(distances int64, float32 or float64 [V], stats)``.

    Raises:
        ConfigError: no weights, or of another type; otherwise as for :func:`bfs`.
        GraphError: a negative weight; otherwise as for :func:`bfs`.
    """
    require_graph(graph)
    arguments.function("observe", observe)
    source = check_source(graph, source)
    run = Traversal(graph, "sssp", access, assignment, size, device)
    assert run.weights is not None
    summed = run.weights.dtype if run.weights.is_floating_point() else torch.int64
    with run.timed():
        cost = torch.full(
            (graph.num_vertices,),
            unset_key(summed),
            dtype=torch.int32 if summed.itemsize == 4 else torch.int64,
            device=run.device,
        )
        settled = cost.clone()
        cost[graph.to_internal(source)] = 0
        begun = cost != settled

    def level(active: torch.Tensor) -> torch.Tensor:
        settled.copy_(cost)
        run.level(cost, active)
        return torch.ne(cost, settled, out=active)

    read = run.levels(level, begun, observe)
    return EmogiResult(distances_of(graph.to_original(cost), summed), run.stats(read))


def cc(
    graph: Graph,
    access: str = "aligned",
    assignment: str = "warp",
    size: int | None = None,
    device: torch.device | str | int | None = None,
    observe: Any = None,
) -> EmogiResult:
    """Connected components of an undirected graph: the smaller label of two neighbours wins, until none falls.

    Args:
        graph, access, assignment, size, device: as for :func:`bfs`.
        observe: called with the active vertices (bool ``[V]``, as ``indptr`` numbers them) before each level.

    Returns:
        ``EmogiResult(labels int64 [V], stats)``.

    Raises:
        GraphError: the graph is directed; otherwise as for :func:`bfs`.
    """
    require_graph(graph)
    arguments.function("observe", observe)
    if graph.directed:
        raise GraphError("EMOGI finds components of undirected graphs; make the graph with directed=False or symmetrize=True")
    return label(Traversal(graph, "cc", access, assignment, size, device), observe)


def label(run: Traversal, observe: Any = None) -> EmogiResult:
    """What :func:`cc` does in a run."""
    graph = run.graph
    with run.timed():
        labels = torch.arange(graph.num_vertices, device=run.device)
        begun = torch.ones(graph.num_vertices, dtype=torch.bool, device=run.device)

    def level(active: torch.Tensor) -> torch.Tensor:
        fallen = torch.zeros_like(active)
        run.level(labels, active, fallen)
        return fallen

    read = run.levels(level, begun, observe)
    order = None if graph.original_ids is None else graph.original_ids.to(labels.device)
    return EmogiResult(smallest_original(order, labels), run.stats(read))


def pagerank(
    graph: Graph,
    damping: float = 0.85,
    tolerance: float = 0.001,
    access: str = "aligned",
    assignment: str = "warp",
    size: int | None = None,
    device: torch.device | str | int | None = None,
    observe: Any = None,
) -> EmogiResult:
    """PageRank by pushing: a vertex with more than ``tolerance`` yet to pass on gives each neighbour its part of it.

    As published, scores begin at ``1 - damping``, so they add up to about the number of vertices, and what reaches a vertex
    without neighbours is lost.

    Args:
        graph, access, assignment, size, device: as for :func:`bfs`.
        damping: the part that is passed on, from 0 to below 1.
        tolerance: what a vertex may keep back, above 0.
        observe: called with the active vertices (bool ``[V]``, as ``indptr`` numbers them) before each level.

    Returns:
        ``EmogiResult(scores float32 [V], stats)``.

    Raises:
        ConfigError: a damping or tolerance out of range; otherwise as for :func:`bfs`.
        GraphError: as for :func:`bfs`.
    """
    require_graph(graph)
    arguments.function("observe", observe)
    damping, tolerance = arguments.number("damping", damping), arguments.number("tolerance", tolerance)
    if not 0 <= damping < 1 or not tolerance > 0:
        raise ConfigError(f"damping={damping:g} lies in [0, 1) and tolerance={tolerance:g} above 0; 0.85 and 0.001 are usual")
    run = Traversal(graph, "pagerank", access, assignment, size, device)
    with run.timed():
        share = damping / run.offsets.diff().clamp(min=1)
        waiting = torch.full((graph.num_vertices,), 1 - damping, dtype=torch.float32, device=run.device)
        scores = torch.zeros_like(waiting)

    def level(active: torch.Tensor) -> torch.Tensor:
        scores.add_(torch.where(active, waiting, 0))
        part = waiting * share
        waiting.masked_fill_(active, 0)
        run.level(waiting, active, part)
        return waiting > tolerance

    read = run.levels(level, waiting > tolerance, observe)
    kept = {"kept": float(waiting.sum(dtype=torch.float64))}
    return EmogiResult(graph.to_original(scores + waiting), {**run.stats(read), **kept})


class Traversal:
    """One run: the division of the work, and its levels."""

    kernels = KERNELS

    def __init__(self, graph: Graph, algorithm: str, access: str, assignment: str, size: int | None, device: Any) -> None:
        arguments.one_of("access", access, (*ACCESSES, UVM))
        self.device = devices.as_device(device)
        self.launches = 0
        self.clock = Stopwatch(self.device)
        if algorithm == "sssp":
            _check_weights(graph)
        if access == UVM:
            access = "aligned"
            if self.device.type == "cuda":
                graph, come_home = migrating(graph)
                come_home()
        self.graph, self.algorithm = graph, algorithm
        offsets, self.edges = graph.array("indptr", self.device), self._edge_array(graph)
        assert offsets is not None
        on_host = self.device.type == "cuda" and not graph.indptr.is_cuda
        self.offsets = copied(offsets, self.device) if on_host else offsets
        self.weights = graph.array("weights", self.device) if algorithm == "sssp" else None
        self.division = self._division(assignment, access, size)
        self._report = torch.tensor([0, NO_VERTEX], device=self.device)
        if self.device.type == "cuda":
            self._compile()  # before any clock runs

    def _edge_array(self, graph: Graph) -> torch.Tensor:
        edges = graph.array("indices", self.device)
        assert edges is not None
        return edges

    @contextmanager
    def timed(self) -> Iterator[None]:
        """A with-block on the run's device whose time counts."""
        with devices.on(self.device), self.clock:
            yield

    def levels(self, level: Callable[[torch.Tensor], torch.Tensor], active: torch.Tensor, observe: Any) -> torch.Tensor:
        """Calls ``level`` with the active vertices until it returns none for the next level. Gives how often each vertex's list
        was read: int32 ``[V]``."""
        read = torch.zeros(len(active), dtype=torch.int32, device=self.device)
        goes_on = bool(active.any())
        while goes_on:
            if observe is not None:
                observe(active)
            read += active
            with self.timed():
                active = level(active)
                goes_on = bool(active.any())
        return read

    def level(
        self, values: torch.Tensor, active: torch.Tensor | None = None, beside: torch.Tensor | None = None, depth: int = 0
    ) -> bool:
        """Serves the active vertices (bool ``[V]``; for BFS those of level ``depth``). Whether BFS found any."""
        tiles = None
        if self.division.only_active:
            tiles = self.division.active_tiles(values == depth if active is None else active)
        self._report[0] = 0
        self._serve(self._params(values, active, beside, depth, tiles))
        self.launches += 1
        return self._check()

    def _params(
        self,
        values: torch.Tensor,
        active: torch.Tensor | None = None,
        beside: torch.Tensor | None = None,
        depth: int = 0,
        tiles: torch.Tensor | None = None,
    ) -> Params:
        state = _STATE(
            num_vertices=self.graph.num_vertices,
            values=values.data_ptr(),
            active=address(active),
            beside=address(beside),
            weights=address(self.weights),
            level=depth,
            report=self._report.data_ptr(),
        )
        return _PARAMS(division=self.division.params(tiles), edges=self.edges.data_ptr(), state=state)

    def _check(self) -> bool:
        """Whether BFS found any in the last launch."""
        found, bad = self._report.tolist()
        if bad != NO_VERTEX:
            raise GraphError(
                f"the neighbour list of vertex {bad} names a vertex outside [0, {self.graph.num_vertices}); check the file "
                "it came from"
            )
        return bool(found)

    def _compile(self) -> None:
        self.kernels.kernel(self._instance(), self.device)
        if self.division.only_active:
            _TILES.kernel("mark_active_tiles", self.device)

    def _division(self, assignment: str, access: str, size: int | None) -> Division:
        return Division(self.graph, self.offsets, access, assignment, size, self.edges.element_size())

    def _serve(self, params: Params) -> None:
        """A level."""
        case = self.division.case(params)
        if self.device.type == "cpu":
            _core.emogi_level(case, self._app)
        elif case.blocks() > 0:
            launch(KERNELS, self._instance(), self.device, case.blocks(), _core.EMOGI_BLOCK, params)

    def list_bytes(self) -> torch.Tensor:
        """Bytes that reading each vertex's list moves, in whole sectors: int64 ``[V]``."""
        sizes = [array.element_size() for array in (self.edges, self.weights) if array is not None]
        begin, end = self.offsets[:-1], self.offsets[1:]
        sectors = sum((end * size + 31) // 32 - begin * size // 32 for size in sizes)
        return torch.where(begin < end, 32 * sectors, 0)

    def stats(self, read: torch.Tensor) -> dict[str, Any]:
        """``read``: how often each vertex's list was, ``[V]``."""
        edges, moved = (int((each * read).sum()) for each in (self.offsets.diff(), self.list_bytes()))
        seconds = self.clock.seconds()
        return {"device": str(self.device), "seconds": seconds, "bytes": moved, "edges": edges, "launches": self.launches}

    @property
    def _app(self) -> str:
        return _APPS[self.algorithm] if self.weights is None else _SSSP[self.weights.dtype]

    def _instance(self) -> str:
        return _instance(self._app, self.division.access, self.division.policy, self.edges.element_size())


class Division:
    """How the work of a level is divided among workers. ``offsets`` may lie anywhere that the run reads them from."""

    assignments: tuple[str, ...] = ASSIGNMENTS

    def __init__(
        self,
        graph: Graph,
        offsets: torch.Tensor,
        access: str,
        assignment: str,
        size: int | None,
        edge_bytes: int,
        line_bytes: int = LINE_BYTES,
    ) -> None:
        arguments.one_of("access", access, ACCESSES)
        arguments.one_of("assignment", assignment, self.assignments)
        line = line_bytes // edge_bytes
        mean = max(graph.num_edges / max(graph.num_vertices, 1), 1)
        self.policy, usual = {
            "warp": ("vertices", 1),
            "chunked": ("vertices", CHUNK),
            "coarsened": ("vertices", max(round(line / mean), 1)),
            "far": ("far", max(round(line / mean), 1)),
            "transposed": ("transposed", STRIDE),
            "odt-copied": ("copied", line),
        }.get(assignment, ("tiles", line))
        self.size = usual if size is None else size
        if not isinstance(self.size, int) or self.size < 1:
            raise ConfigError(f"size={size!r} of the {assignment} assignment is not a number from 1 on")
        # Beyond all there is, a larger number changes nothing but the turns in vain.
        self.size = min(self.size, max(graph.num_edges if self.policy in ("tiles", "copied") else graph.num_vertices, 1))
        self.graph, self.offsets, self.access, self.edge_bytes = graph, offsets, access, edge_bytes
        self.only_active = assignment == "odt-active"
        arrays.check_offsets(offsets, graph.num_edges)  # all vertices are looked at in every level
        self._firsts = first_vertices(offsets, graph.num_edges, self.size) if self.policy in ("tiles", "copied") else None

    def case(self, params: Params) -> _core.EmogiCase:
        """A level, for native code."""
        return _core.EmogiCase(params.address, self.edge_bytes, self.access, self.policy)

    def without_arrays(self) -> _core.EmogiCase:
        """A level of which only the division is looked at."""
        return self.case(_PARAMS(division=self.params(None)))

    def params(self, tiles: torch.Tensor | None) -> Params:
        """The header's Division; ``tiles`` to serve, int64 ``[n]``, or None: all."""
        firsts = self._firsts
        return _DIVISION(
            offsets=self.offsets.data_ptr(),
            num_vertices=self.graph.num_vertices,
            num_edges=self.graph.num_edges,
            size=self.size,
            first_vertices=address(firsts),
            tiles=address(tiles),
            num_tiles=self.num_tiles if tiles is None else len(tiles),
        )

    @property
    def num_tiles(self) -> int:
        """That the edge array has; 0 where the work is divided otherwise."""
        return 0 if self._firsts is None else len(self._firsts) - 1

    def active_tiles(self, active: torch.Tensor) -> torch.Tensor:
        """The tiles with elements of active vertices' lists, in order: BaM's active lines (Mailthody 2022, section 8.2)."""
        assert self._firsts is not None
        marks = torch.zeros(self.num_tiles, dtype=torch.uint8, device=active.device)
        params = _ACTIVE(division=self.params(None), active=active.data_ptr(), marks=marks.data_ptr())
        if active.device.type == "cpu":
            _core.mark_active_tiles(params.address)
        elif len(active):
            launch(_TILES, "mark_active_tiles", active.device, -(-len(active) // _core.EMOGI_BLOCK), _core.EMOGI_BLOCK, params)
        return marks.nonzero()[:, 0]


def first_vertices(offsets: torch.Tensor, num_edges: int, size: int) -> torch.Tensor:
    """The vertex that owns the first element of each tile of ``size`` elements, and the last vertex: BaM's first-vertex list,
    by a binary search for each tile.

    Args:
        offsets: int64 ``[V + 1]``.
        num_edges: of the edge array.
        size: elements of a tile.

    Returns:
        int64 ``[tiles + 1]`` on the device of the offsets.
    """
    last = max(len(offsets) - 2, 0)
    begins = torch.arange(0, num_edges, size, device=offsets.device)
    firsts = (torch.searchsorted(offsets, begins, right=True) - 1).clamp_(0, last)
    return torch.cat([firsts, torch.tensor([last], device=offsets.device)])


def _check_weights(graph: Graph) -> None:
    """Raises unless the graph has weights that :func:`sssp` adds up."""
    least = require_weights(graph, "sssp").least
    if graph.weight_type not in WEIGHTS:
        assert graph.weight_type is not None
        raise ConfigError(
            f"the weights are {type_name(graph.weight_type)}, but EMOGI's shortest paths take int32, float32 and float64; "
            "convert them, or use hinterland.sssp"
        )
    if least < 0:
        raise negative_weight(graph)
