"""Graphs prepared for a device: with what it keeps of them (:mod:`.plan`), as it sees them (:mod:`.view`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import torch

from ..memory.copies import copied, moved
from ..runtime import arguments, devices
from ..runtime.capture import require_running
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr, Size
from ..runtime.thresholds import BESIDE
from ..runtime.units import format_bytes, parse_bytes
from ..runtime.warned import warn_once
from ..table.device import Through
from .algorithms import named
from .arrays import index_dtype
from .device_graph import WORDS_BYTES, DeviceGraph, all_through, allocated
from .graph import Graph, require_graph
from .lists import NeighborLists
from .plan import GraphPlan, plan_graph, room_within
from .spare_memory import is_little

_CLOSED = "the prepared graph has been closed; prepare it again"
_CONVERT = "hinterland convert IN.hl OUT.hl --placement storage writes lists of in-neighbours into a file"


class ResidentGraph(Repr):
    """A graph with what a device keeps of it, for many runs of the algorithms that it was prepared for (:func:`prepare`).

    Attributes:
        graph: the graph.
        device: where the algorithms run: the CPU where the budget has no room for their state.
        reserved: bytes of the device's memory that are left free for one run.
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
        wanted = named(algorithms)
        words = 2 * allocated(WORDS_BYTES)
        least = words + max((algorithm.state_bytes(graph) for algorithm in wanted), default=0)
        ample = words + max((algorithm.ample(graph) for algorithm in wanted), default=0)
        if budget is not None and least > budget:
            device = _without_gpu(device, budget, least, algorithms)
        self.graph, self.device, self.budget = graph, device, budget
        room = room_within(device, budget, least, graph.num_vertices)
        reserved = ample if ample - least <= room else least
        room -= min(room, reserved - least)
        self.reserved = reserved - words
        incoming_only = any(algorithm.incoming_only for algorithm in wanted)
        on_storage = bool(graph.neighbor_lists.stored)
        if incoming_only and on_storage:
            _require_transpose(graph)
        known = graph.transpose() if incoming_only or not graph.directed else graph.known_transpose
        said = []
        if known is None and on_storage and any(algorithm.searching for algorithm in wanted):
            said.append(f"a directed graph without its transpose is searched along out-edges only; {_CONVERT}")
        elif known is None and any(algorithm.searching for algorithm in wanted):
            taken = _transpose_bytes(graph)
            on_gpu = taken if graph.neighbor_lists.on_gpu else 0
            if many_runs and on_gpu <= room and is_little(taken, "pageable"):
                known, room = graph.transpose(), room - on_gpu
                said.append(f"in-neighbours' lists of {format_bytes(taken)} were built, to search in both directions")
            else:
                lacks = " where there is memory for it" if many_runs else ""
                said.append(
                    f"a directed graph without its transpose is searched along out-edges only; graph.transpose() builds it, "
                    f"{format_bytes(taken)}{lacks}, and a search then looks at a fraction of the edges"
                )
        self.out = DeviceGraph(graph.neighbor_lists, device)
        self.incoming = self.out if known is graph else None
        if known is not None and known is not graph:
            lists, other = known.neighbor_lists, graph.neighbor_lists
            if (lists.is_compressed, lists.listed_type) == (other.is_compressed, other.listed_type):  # a kernel reads both
                self.incoming = DeviceGraph(lists, device, "in-neighbours' lists")
        room = max(0, room - sum(view.held for view in self._views))  # arrays that lie on another GPU have come over whole
        lines = room // BESIDE if any(algorithm.beside for algorithm in wanted) else room
        most = lines if budget is None else None
        self.plan = plan_graph(room, self.out, self.incoming, graph.original_ids, wanted, weighted, many_runs, most)
        self.plan.said += said
        with devices.on(device):
            self._order = copied(graph.original_ids, device) if self.plan.order and graph.original_ids is not None else None
            self.plan.apply(scores)

    def _facts(self) -> dict[str, Any]:
        return {"graph": self.graph, "device": str(self.device), "held": Size(self.held)}

    @property
    def _views(self) -> set[DeviceGraph]:
        return {view for view in (self.out, self.incoming) if view is not None}

    @property
    def through(self) -> list[Through]:
        """Through which a run reads what lies on storage, each once."""
        return all_through(self._views)

    @property
    def held(self) -> int:
        """Bytes of GPU memory kept until :meth:`close`."""
        order = self._order
        return sum(view.held for view in self._views) + (0 if order is None else allocated(order.nbytes))

    def order_on(self, device: torch.device) -> torch.Tensor | None:
        """``graph.order`` on ``device``; the one that is kept there, if there is one."""
        order, kept, device = self.graph.original_ids, self._order, devices.as_device(device)
        if order is None or device.type == "cpu":
            return order
        return moved(order, device) if kept is None else kept

    @property
    def order(self) -> torch.Tensor | None:
        """``graph.order`` where it lies: on the device if it is kept there, or else on the CPU."""
        return self.graph.original_ids if self._order is None else self._order

    def order_for(self, lookups: int) -> torch.Tensor | None:
        """``graph.order`` on the prepared device, for ``lookups`` of its numbers: the one that is kept there, or what
        :meth:`.Order.original_ids_on` gives."""
        order, kept = self.graph.numbering, self._order
        return kept if order is None or kept is not None else order.original_ids_on(self.device, lookups)

    def explain(self) -> str:
        """What is kept where, for people."""
        plan = self.plan
        if plan is None:
            return "closed"
        return f"runs on {self.device}, keeps {format_bytes(self.held)} there\n{plan.explain()}"

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self.out is None

    def opened(self) -> ResidentGraph:
        """This as it is now, for one run: :meth:`close` takes nothing from it. ConfigError if it has been closed."""
        run = ResidentGraph.__new__(ResidentGraph)
        run.__dict__ = self.__dict__.copy()  # in one step, as other threads see it
        if run.out is None:
            raise ConfigError(_CLOSED)
        return run

    def close(self) -> None:
        """Gives the GPU memory back, as soon as no run in another thread reads it. Runs that begin from now on are refused."""
        self.out = self.incoming = self._order = self.plan = None  # type: ignore[assignment]  # out first: then it is closed

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "what a device keeps of a graph belongs to one process; send or copy its .graph, and prepare that there"
        )

    def __enter__(self) -> ResidentGraph:
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
) -> ResidentGraph:
    """Copies to the GPU what saves the most traffic over the link, for many runs of ``algorithms`` on ``graph``.

    Args:
        graph: the graph. To search a directed one in both directions its transpose is built, as by ``graph.transpose()``,
            where that takes at most a quarter of the free memory and, of a graph on the GPU, fits in the budget;
            ``explain()`` says so.
        gpu_budget: most bytes of GPU memory for what is kept and the algorithms' state together; None is what is free. Pages of
            files are beside it: a GPU keeps them for all that reads the file (``StorageCache(device_budget=)``).
        device: where to run; None is the current GPU, or the CPU on a machine without one.
        algorithms: the names of what will run: ``"bfs"``, ``"cc"``, ...; the largest one's state is left free.
        weighted: keep weights along with the edges.
        scores: ``[V]``, how often an element of each vertex's list is read, where that is known; pages are kept by it. None
            keeps the longest lists.

    Returns:
        A :class:`ResidentGraph`, which every algorithm takes in place of the graph. It is a context manager.

    Raises:
        GraphError: arrays that were changed since the graph was made: a neighbour to be kept is no vertex.
        OutOfMemory: the state exceeds the free GPU memory. (Where it exceeds ``gpu_budget``, the CPU does the work, and a
            warning says how much it would take; a budget of 0 asks for the CPU.)
        ConfigError: an unknown algorithm, a budget that is no size, scores that are not one number for each vertex.
    """
    require_graph(graph)
    try:
        names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
    except (TypeError, RuntimeError):  # the last is a tensor's
        what = arguments.repr_of(algorithms)
        raise ConfigError(f"algorithms is a name or several, such as ('bfs', 'cc'), not {what}") from None
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"algorithms are named by words, as 'bfs', not by {arguments.repr_of(algorithms)}")
    internal = None if scores is None else list_scores(graph, scores)
    return ResidentGraph(
        graph, devices.as_device(device), _budget(gpu_budget), names, weighted, many_runs=True, scores=internal
    )


def list_scores(graph: Graph, scores: torch.Tensor) -> torch.Tensor:
    """Scores of the vertices that a user knows, as :meth:`DeviceGraph.page_scores` takes them; ConfigError if they cannot be
    used."""
    if tuple(arguments.dense("scores", scores).shape) != (graph.num_vertices,) or scores.is_complex():
        raise ConfigError(
            f"scores are {arguments.repr_of(scores)}, but must be a tensor with one number for each of {graph.num_vertices} "
            "vertices"
        )
    found = scores.to("cpu", torch.float64)
    if not bool(found.isfinite().all()):
        at = int((~found.isfinite()).nonzero()[0])
        raise ConfigError(f"scores[{at}] is {float(found[at])}; replace it, as in scores.nan_to_num(0)")
    return found if graph.original_ids is None else found[graph.original_ids]


def graph_of(graph: Graph | ResidentGraph) -> Graph:
    """The graph that an algorithm was given, prepared or not. ConfigError if it is neither, or was prepared and closed."""
    if isinstance(graph, ResidentGraph):
        if graph.closed:
            raise ConfigError(_CLOSED)
        return graph.graph
    if not isinstance(graph, Graph):
        raise ConfigError(f"graph is a {type(graph).__name__}, but must be a Graph or what prepare() made of one")
    return graph


def prepared_for(
    graph: Graph | ResidentGraph,
    algorithm: str,
    gpu_budget: int | str | None,
    device: torch.device | str | int | None,
    weighted: bool = False,
) -> ResidentGraph:
    """``graph`` for one run of ``algorithm``, prepared for it if it is not yet."""
    if not isinstance(graph, ResidentGraph):
        require_running("a graph is not prepared for one run", "give what prepare(graph, algorithms=...) made before")
    return kept_for(graph, algorithm, gpu_budget, device, weighted).opened()


def kept_for(
    graph: Graph | ResidentGraph,
    algorithm: str,
    gpu_budget: int | str | None,
    device: torch.device | str | int | None,
    weighted: bool = False,
) -> ResidentGraph:
    """``graph`` itself if it is prepared, or prepared for ``algorithm``; each run takes it ``opened()``."""
    graph_of(graph)
    if isinstance(graph, ResidentGraph):
        if gpu_budget is not None or (device is not None and devices.as_device(device) != graph.device):
            raise ConfigError("the graph is prepared, with a budget and a device of its own; leave out gpu_budget and device")
        return graph
    return ResidentGraph(graph, devices.as_device(device), _budget(gpu_budget), (algorithm,), weighted, many_runs=False)


def view_for(lists: NeighborLists, device: torch.device, state_bytes: int, shares: int = 1) -> DeviceGraph:
    """Lists of no graph for one run that takes so much GPU memory: their offsets are kept where there is room for them, too.
    OutOfMemory where the state exceeds the free GPU memory.

    ``shares``: as many lists are read in the run. What is kept of each one's file has its part of the free GPU memory.
    """
    room = room_within(device, None, state_bytes + 2 * allocated(WORDS_BYTES), lists.num_lists)
    view = DeviceGraph(lists, device)
    plan = GraphPlan(max(0, room - view.held))
    plan.of(view)
    if plan.budget:
        plan.keep_lines([view], plan.left // (BESIDE * shares))
        plan.keep_offsets(view)
    with devices.on(device):
        plan.apply()
    return view


def _without_gpu(device: torch.device, budget: int, least: int, algorithms: Iterable[str]) -> torch.device:
    """The CPU, where a budget is too small for what runs; the user is told once, unless the budget is 0."""
    if device.type == "cuda" and budget > 0:
        names = ", ".join(sorted(algorithms))
        warn_once(
            f"gpu_budget of {names}",
            f"gpu_budget={format_bytes(budget)} has no room for the state of {names}, so the CPU does the work; the smallest "
            f"budget that runs on {device} is {least} bytes ({format_bytes(least)})",
        )
    return torch.device("cpu")


def _transpose_bytes(graph: Graph) -> int:
    """What the transpose of a graph takes, and of a compressed one while it is built."""
    lists = graph.neighbor_lists
    of_edge = index_dtype(lists.num_lists).itemsize + (0 if lists.weight_type is None else lists.weight_type.itemsize)
    return 8 * (lists.num_lists + 1) + of_edge * lists.num_edges


def _require_transpose(graph: Graph) -> None:
    """ConfigError where building the lists of in-neighbours would take memory that ``host_budget`` says nothing of."""
    if graph.directed and graph.known_transpose is None:
        raise ConfigError(
            f"this reads lists of in-neighbours, and the file of this directed graph has none; {_CONVERT}, or "
            f"graph.transpose() builds them in host memory, where they take {format_bytes(_transpose_bytes(graph))} beside "
            "host_budget"
        )


def _budget(gpu_budget: int | str | None) -> int | None:
    return None if gpu_budget is None else parse_bytes(gpu_budget)
