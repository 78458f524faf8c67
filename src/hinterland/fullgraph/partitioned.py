"""A graph in parts, one for each device or process, and rows that belong to its vertices in the same parts."""

from __future__ import annotations

import functools
import math
import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..graph.graph import Graph, require_graph
from ..memory.copies import copy
from ..runtime import arguments, devices
from ..runtime.capture import capturing
from ..runtime.checksums import checksum
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.thresholds import CALLS_COMPARED
from ..runtime.units import parse_bytes
from ..table import UnifiedTensor, as_table
from .aggregate_launch import RowEntries
from .host_files import FileRoom
from .part import build_part, owned_places, served, translated
from .processes import Processes
from .split import Balance, Split, imbalance, over_mean, split, turned
from .world import Halos, Together, World

T = TypeVar("T")

_MOST_PARTS = 1024  # of one process: every part has a list of what it reads of every other one


class Later(ABC):
    """Rows of a partitioned graph that are computed when they are asked for (:mod:`.host`)."""

    @abstractmethod
    def computed(self) -> list[Tensor]:
        """The rows of each of this process's parts, on its device."""


class PartitionedGraph(Repr):
    """A graph whose vertices, with their neighbours and their rows, are divided among several parts.

    Made by :meth:`from_graph`. Where a process has one part, its rows are one tensor; where it has several, a list with one for
    each part. Rows of a part are in an order that only :meth:`scatter` and :meth:`gather` know.

    Attributes:
        num_vertices, num_edges: of the whole graph.
        split: which part owns which vertices.
        world: who holds the parts.
        parts: those that this process holds.
        gpu_budget: bytes that the graph and what is computed over it may take of each GPU; None: no matter.
        files: where rows lie that host memory has no room for; None: it has.
        seconds: what it took this process to make its parts, and the split.
    """

    def __init__(self, graph: Graph, found: Split, world: World, gpu_budget: int | None = None, hubs: bool = True) -> None:
        begin = time.perf_counter()
        self.split, self.world, self.gpu_budget, self._shares = found, world, gpu_budget, hubs
        self.num_vertices, self.num_edges, self.directed = graph.num_vertices, graph.num_edges, graph.directed
        self.files: FileRoom | None = None
        self._graph = graph
        self._reverse: Callable[[], PartitionedGraph | None] = lambda: None
        self._kept: dict[Hashable, Any] = {}
        self._replicas: tuple[list[Any], list[Any], list[Tensor]] | None = None
        self._compared = 0
        where = list(zip(world.mine, world.devices, strict=True))
        self.parts = world.agreed(lambda: [build_part(graph, found, rank).to(on) for rank, on in where])
        self._halos = self._made_halos()
        self._served = over_mean(served(world.gathered([part.halo_offsets for part in self.parts])))  # here all are together
        self.seconds = max(map(devices.idle_at, world.devices)) - begin

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        parts: int | None = None,
        *,
        devices: Sequence[torch.device | str | int] | torch.device | str | int | None = None,
        balance: str = "auto",
        gpu_budget: int | str | None = None,
        host_budget: int | str | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> PartitionedGraph:
        """Divides a graph.

        In every process of an initialised process group: each calls this with the same graph, and gets the part of its rank.
        How long a rank waits for one that is stuck is the group's timeout, which ``init_process_group`` takes and which is many
        minutes by default; ``hinterland.launch`` gives 30 s. Alone: this process gets all parts.

        Args:
            graph: row v of a sum is over the rows of ``indices[indptr[v]:indptr[v + 1]]``. It stays where it is, and is needed
                again for the first gradient where it is directed.
            parts: alone: how many; by default one for each device. More than devices share them, as virtual ranks.
            devices: where the parts lie, one for each; a single one holds all. By default the current GPU, or in a process
                group that of ``LOCAL_RANK``; the CPU on a machine without one.
            balance: see ``hinterland.fullgraph.split.split``.
            gpu_budget: bytes of each GPU that the graph and what is computed over it may take, as ``"24GiB"``; a model's
                parameters, and what is done with results, come on top. Rows then lie in host memory, and go through the GPU in
                blocks (:class:`.host.HostRows`). Lists of hubs are not shared among parts. On a CPU, rows are in blocks alike.
                Too small a budget is refused where values are first asked for, which says how much is needed.
            host_budget: bytes of host memory that rows between passes may take in this process, and blocks of them on their
                way; the others lie in files. On a CPU without a gpu_budget it bounds the graph and all computed over it.
            folder: on whose disk the files lie, which have no name; by default the system's folder for temporary files.

        Raises:
            ConfigError: in a process group, in all ranks alike: they have different graphs or arguments.
            OutOfMemory: a part does not fit; in a process group in all ranks alike.
            RankLost: another rank died, or gave no answer within the timeout.
        """
        require_graph(graph)
        world = _world(parts, devices)
        if isinstance(world, Processes):
            budgets = {"gpu_budget": gpu_budget, "host_budget": host_budget}
            world.check_same({**world.agreed(lambda: identity(graph)), "balance": balance, **budgets})
        budget = None if gpu_budget is None else parse_bytes(gpu_budget)
        files = None if host_budget is None else FileRoom(parse_bytes(host_budget), folder)
        if files is not None and budget is None and world.devices[0].type == "cpu":  # where all memory is the host's
            budget, files.host_budget = files.host_budget // len(world.devices), 0
        whole = budget is not None or files is not None
        begin = time.perf_counter()
        found = world.agreed(lambda: split(graph, world.parts, balance, hubs=not whole))
        took = time.perf_counter() - begin
        made = cls(graph, found, world, budget, not whole)
        made.files = files
        made.seconds += took
        return made

    @property
    def in_blocks(self) -> bool:
        """Whether rows lie in host memory or in files, and go through the devices in blocks."""
        return self.gpu_budget is not None or self.files is not None

    @property
    def bounds(self) -> tuple[int, ...]:
        return self.split.bounds

    @property
    def sizes(self) -> list[int]:
        """How many rows each part has, of other processes too."""
        return [end - begin for begin, end in pairwise(self.bounds)]

    @functools.cached_property
    def balance(self) -> Balance:
        """How even the parts are, those of other processes too, which are not asked: each may look when it likes."""
        return replace(imbalance(self.split, self._graph), served=self._served)

    @property
    def is_single(self) -> bool:
        """Whether this process has one part, whose rows are one tensor."""
        return len(self.parts) == 1

    @property
    def has_weights(self) -> bool:
        return self._graph.weight_type is not None

    @functools.cached_property
    def vertices(self) -> list[Tensor]:
        """The vertices that each of this process's parts owns, in the order of its rows: int64 on the CPU."""
        bounds, order = [self.bounds[part.rank : part.rank + 2] for part in self.parts], self.split.order
        return [torch.arange(*ends) if order is None else order[slice(*ends)] for ends in bounds]

    def each(self, rows: Tensor | Sequence[Tensor] | Later, *, anywhere: bool = False) -> list[Tensor]:
        """A user's rows as a list with one tensor for each of this process's parts.

        Args:
            rows: tensors; or rows that were put off, which are computed now, on the parts' devices.
            anywhere: takes rows in host memory, too.

        Raises:
            ConfigError: as many as there are not, or not of the parts' sizes, devices and one type and width.
        """
        given = self._tensors(rows)
        for part, one, on in zip(self.parts, given, self.world.devices, strict=True):
            if one.dim() != 2 or len(one) != part.rows:
                raise ConfigError(
                    f"part {part.rank} has rows [{part.rows}, width], not {list(one.shape)}; pass what scatter() gave"
                )
            if one.device != on and not (anywhere and one.is_cpu):
                raise ConfigError(f"part {part.rank} lies on {on}, but its rows on {one.device}; move them there")
            if one.dtype != given[0].dtype or one.shape[1] != given[0].shape[1]:
                raise ConfigError(
                    f"rows of part {part.rank} are {one.dtype} and {one.shape[1]} wide, those of part {self.parts[0].rank} "
                    f"{given[0].dtype} and {given[0].shape[1]}; they have one type and width"
                )
        return given

    def _tensors(self, rows: Any) -> list[Tensor]:
        """A user's tensors, one for each of this process's parts."""
        if as_table(rows) is not None:
            raise ConfigError(f"rows are a {type(rows).__name__} of all vertices; pass scatter() of it")
        given = rows.computed() if isinstance(rows, Later) else list(rows) if isinstance(rows, list | tuple) else [rows]
        if len(given) != len(self.parts):
            raise ConfigError(f"rows of {len(given)} parts, but this process has {len(self.parts)}; pass what scatter() gave")
        return [arguments.dense("rows", one) for one in given]

    def compare(self, call: str, rows: Any, **options: Any) -> None:
        """Refuses ranks whose calls over the graph differ; the first ones are compared, as a model's next steps repeat them.

        Args:
            call: what is called.
            rows: what it is called for: a list with a tensor for each part, or HostRows.
            options: how.

        Raises:
            ConfigError: in all ranks alike; names what differs, and two ranks.
        """
        if self._compared < CALLS_COMPARED and not capturing():  # steps are compared before they are captured
            self._compared += 1
            one = rows[0] if isinstance(rows, list | tuple) else rows
            self.world.check_same({"call": call, **options, "type of rows": one.dtype, "width of rows": one.shape[1]})

    def as_given(self, rows: Sequence[Tensor] | Later) -> Any:
        """The opposite of :meth:`each`; rows that were put off stay so."""
        if isinstance(rows, Later):
            return rows
        return rows[0] if self.is_single else list(rows)

    def scatter(self, x: Any) -> Any:
        """A tensor's rows, ``[num_vertices, ...]`` by vertex, as this process's parts have them: on their devices, or with a
        ``gpu_budget`` in host memory.

        Args:
            x: a tensor on any device, or a table of this library's: each rank has the whole, and takes its rows.

        Raises:
            ConfigError: in all ranks alike: it is neither, has another number of rows, or they have different types or shapes.
        """
        table = as_table(x) is not None
        self.world.agreed(lambda: x if table else arguments.dense("x", x))
        self.world.check_same({"dtype": x.dtype, "shape": tuple(x.shape)})
        if not x.shape or len(x) != self.num_vertices:
            raise ConfigError(
                f"x of shape {list(x.shape)} for {self.num_vertices} vertices; scatter takes a row for each vertex"
            )
        taken = []
        for part, vertices, on in zip(self.parts, self.vertices, self.world.devices, strict=True):
            if not table and self.split.order is None:
                rows = x[slice(*self.bounds[part.rank : part.rank + 2])]
            else:
                rows = x[vertices if table else vertices.to(x.device)]
            taken.append(rows.clone() if rows.device == on and not self.in_blocks else rows)
        return self.placed(taken)

    def placed(self, rows: Sequence[Tensor]) -> Any:
        """Rows of this process's parts, wherever they are, where they are to lie: on the parts' devices, or with a
        ``gpu_budget`` in host memory."""
        place = _in_host if self.in_blocks else Tensor.to
        return self.as_given([place(one, on) for one, on in zip(rows, self.world.devices, strict=True)])

    def gather(self, rows: Any) -> Tensor:
        """What :meth:`scatter` took apart: ``[num_vertices, ...]`` by vertex, on the first part's device, in every rank;
        without a gradient. Rows in host memory, of all parts in one process, are put together there.

        Raises:
            ConfigError: in all ranks alike: they have rows of different types or shapes.
        """
        with torch.no_grad():
            given = [one.detach() for one in self._tensors(rows)]
        self.world.check_same({"type of rows": given[0].dtype, "shape of a row": tuple(given[0].shape[1:])})
        if any(one.device != on for one, on in zip(given, self.world.devices, strict=True)):
            return self._gathered_in_host(given)
        flat = [one.reshape(len(one), math.prod(one.shape[1:])) for one in given]
        found: list[Tensor] = []
        with self.world.turn(found):
            found += self.world.whole(self.each(flat), self.sizes)
        whole = found[0].view(self.num_vertices, *given[0].shape[1:])
        numbers = self.split.numbers
        return whole if numbers is None else whole[numbers.to(whole.device)]

    def _gathered_in_host(self, given: list[Tensor]) -> Tensor:
        if len(given) < self.world.parts:
            given = [one.to(on) for one, on in zip(given, self.world.devices, strict=True)]
            return self.gather(self.as_given(given)).cpu()
        whole = torch.cat([one.cpu() for one in given])
        return whole if self.split.numbers is None else whole[self.split.numbers]

    @property
    def transposed(self) -> PartitionedGraph:
        """The same parts of the graph with its edges turned round; itself where the graph is undirected. Made once and kept."""
        if not self.directed:
            return self
        known = self._reverse()
        if known is None:
            other = self._graph.transpose()
            found = turned(self.split, other, hubs=self._shares)
            known = PartitionedGraph(other, found, self.world, self.gpu_budget, self._shares)
            known._reverse = weakref.ref(self)  # weak, as a graph's is
            self._reverse = lambda: known
        return known

    @functools.cached_property
    def unshared(self) -> PartitionedGraph:
        """The same parts, but hubs' lists whole where their owners are; itself where there are no hubs."""
        if not self._shares or (not len(self.split.hubs) and (not self.directed or not len(self.transposed.split.hubs))):
            return self
        found = replace(self.split, hubs=self.split.hubs[:0])
        return PartitionedGraph(self._graph, found, self.world, self.gpu_budget, hubs=False)

    def _made_halos(self) -> Halos:
        wanted: list[list[Tensor]] = []
        places: list[Tensor] = []
        made: list[Tensor] = []
        with self.world.turn(made):  # each part's stream waits until its halo is there
            for i, part in enumerate(self.parts):
                with self.world.on(i):
                    ranges = zip(pairwise(part.halo_offsets), self.bounds, strict=False)
                    wanted.append([part.halo[a:b] - first for (a, b), first in ranges])
                    places.append(owned_places(list(enumerate(wanted[i])), max(self.sizes), self.world.parts))
                    made += [*wanted[i], places[i]]
        return Halos(wanted, self.world.traded(wanted), places, self.world.mine, self.sizes)

    def fetch(self, x: Sequence[Tensor]) -> list[Tensor]:
        """The halo of each of this process's parts: the rows of others that it reads, once each."""
        return self.world.fetch(x, self._halos)

    def fetch_ahead(self, x: Sequence[Tensor]) -> Callable[[], list[Tensor]]:
        """:meth:`fetch`, beside what is queued until the function is called that this gives, which gives the halos."""
        return self.world.fetch_ahead(x, self._halos)

    def fetch_in_turns(self, x: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        """:meth:`fetch`, owner by owner: the halos once all is asked for, and then again each time that more is there."""
        return self.world.fetch_in_turns(x, self._halos)

    def replicas(self, x: Sequence[Tensor]) -> list[Tensor]:
        """All rows for each of this process's parts; those of the last call where ``x`` is the same, not written since."""
        seen = [(one.data_ptr(), one._version, one.shape, one.dtype) for one in x]
        known = self._replicas
        same = known is not None and known[0] == seen and all(ref() is one for ref, one in zip(known[1], x, strict=True))
        if not self.world.all(same) or known is None:  # all ranks gather, or none
            self._replicas = known = (seen, [weakref.ref(one) for one in x], self.world.whole(x, self.sizes))
        return known[2]

    def kept(self, name: Hashable, make: Callable[[], T]) -> T:
        """What ``make()`` gave when this name was first asked for."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    def all_kept(self) -> list[Any]:
        """Everything that :meth:`kept` has."""
        return list(self._kept.values())

    def entries(self, kind: str | int, weights: torch.dtype | None) -> list[RowEntries]:
        """The entries of this process's parts.

        Args:
            kind: of their own rows ``"local"`` or ``"remote"`` ones, those of the k-th part behind (from 1 on), or ``"all"``,
                whose places are own rows and slots of the halo; ``"whole"``: all, of own rows and, behind them, of all the
                graph's; ``"direct"``: all, by owner and row; ``"hubs"``: local ones of the partial rows of hubs.
            weights: with the graph's weights, in this type; None: without.
        """

        def made() -> list[RowEntries]:
            found = []
            for i in range(len(self.parts)):
                with self.world.on(i):
                    found.append(self._entries(i, kind, weights))
            return found

        return self.kept(("entries", kind, weights), made)

    def _entries(self, i: int, kind: str | int, weights: torch.dtype | None) -> RowEntries:
        part, n = self.parts[i], self.parts[i].rows
        if isinstance(kind, int):
            begins, ends = self.kept((kind, i), lambda: part.entries_of((part.rank + kind) % self.world.parts))
            return RowEntries(begins, ends, part.places, self._carried(i, weights))
        begins = part.split[:n] if kind == "remote" else part.offsets[n:-1] if kind == "hubs" else part.offsets[:n]
        ends = part.split[:n] if kind == "local" else part.offsets[n + 1 :] if kind == "hubs" else part.offsets[1 : n + 1]
        places = part.places
        if kind in ("whole", "direct"):
            places = self.kept((kind, i), lambda: translated(part, self.bounds, kind))
        return RowEntries(begins, ends, places, self._carried(i, weights))

    def _carried(self, i: int, weights: torch.dtype | None) -> Tensor | None:
        """The weights of a part's entries in a type, or None."""
        held = self.parts[i].weights
        return None if weights is None or held is None else self.kept(("weights", i, weights), lambda: held.to(weights))

    def of_hubs(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """The hubs' own rows, ``[H, width]``, for each of this process's parts."""
        held = []
        for i, (one, (which, at)) in enumerate(zip(rows, self.hubs, strict=True)):
            with self.world.on(i):
                held.append(one.new_zeros(len(self.split.hubs), one.shape[1]).index_copy(0, which, one[at]))
        return self.world.combined(held, "sum")

    @functools.cached_property
    def hubs(self) -> list[tuple[Tensor, Tensor]]:
        """For each of this process's parts: which hubs it owns, and which of its rows they are."""
        found = []
        for part in self.parts:
            first, last = self.bounds[part.rank : part.rank + 2]
            mine = ((self.split.hubs >= first) & (self.split.hubs < last)).nonzero().view(-1)
            found.append((mine.to(part.places.device), (self.split.hubs[mine] - first).to(part.places.device)))
        return found

    def _facts(self) -> dict[str, Any]:
        even = self.balance
        return {
            "vertices": f"{self.num_vertices:,}",
            "edges": f"{self.num_edges:,}",
            "parts": len(self.split.bounds) - 1,
            "held here": [f"{part.rank} on {on}" for part, on in zip(self.parts, self.world.devices, strict=True)],
            "largest over mean": f"edges {even.edges:.3f}, rows {even.rows:.3f}, bytes served {even.served:.3f}",
        }


def _in_host(rows: Tensor, device: torch.device) -> Tensor:
    """A copy in host memory, page-locked where a GPU is to read it."""
    table = UnifiedTensor.empty(rows.shape, rows.dtype, "pinned" if device.type == "cuda" else "pageable")
    held: Tensor = table.cpu()
    copy(held, rows.contiguous())
    return held


def _world(parts: int | None, on: Any) -> World:
    if dist.is_initialized() and dist.get_world_size() > 1:
        if parts is not None and parts != dist.get_world_size():
            raise ConfigError(
                f"parts={parts}, but the process group has {dist.get_world_size()} ranks, each of which has one part"
            )
        if isinstance(on, list | tuple):
            raise ConfigError("devices of a process group's part is one device, not several; leave it out, or name this rank's")
        return Processes(on)
    listed = [on] if on is None or not isinstance(on, list | tuple) else list(on)
    found = [devices.as_device(one) for one in listed]
    count = len(found) if parts is None else arguments.at_least_one("parts", parts, "leaves no part; use 1 or more")
    if count > _MOST_PARTS:
        raise ConfigError(
            f"parts={count} are more than the {_MOST_PARTS:,} that a process can have; use about one for each device"
        )
    return Together([found[i * len(found) // count] for i in range(count)])


def identity(graph: Graph) -> dict[str, Any]:
    """What two ranks' graphs have in common if they are the same: sizes, types, and checksums of all arrays."""
    indptr, indices, weights = graph.checked_rows()
    sums = {"offsets": indptr, "neighbors": indices, "weights": weights}
    return {
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "directed": graph.directed,
        "type of neighbors": indices.dtype,
        "type of weights": graph.weight_type,
        **{f"checksum of {name}": checksum(array) for name, array in sums.items() if array is not None and array.numel()},
    }
