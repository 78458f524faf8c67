"""Who holds the parts of a partitioned graph, and how rows go from one to another.

A world is asked for the same few things whatever lies between its parts: rows that a part reads of others (a halo), all rows, a
sum over all parts, and where the others' rows lie for a kernel that reads them itself. ``Together`` is one process with all
parts, on CPUs or on GPUs that read each other's memory; several parts on one device are virtual ranks. ``processes.py`` has one
part in each process.

In one process every part works on a stream of its own. Between what one part writes and another reads stands a fence:
every stream waits for all others (MGG's code has none; the paper's section 4.2 needs it).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..memory.peers import copy_from, enable_access, unlinked
from ..runtime.capture import beside_capture, capturing
from ..runtime.devices import on as on_device
from ..runtime.devices import torch_stream
from ..runtime.errors import ConfigError, DeviceError
from .aggregate_launch import PartRows
from .take import fetch_rows, take

T = TypeVar("T")

Lists = Sequence[Sequence[Tensor]]
FEW = 64  # blocks of 512 threads that bring rows beside other work (docs/notes/fullgraph-on-h200.md)
SMALL = 256 << 20  # bytes of a halo that all come by one launch: rounds of launches and events would take longer
_TABLES = 256  # of addresses that are kept


@dataclass(frozen=True)
class Halos:
    """Which rows parts read of others.

    Attributes:
        wanted: for each part of this process and each of all parts, numbers of that part's rows: int64 on its own device.
        served: what :meth:`World.traded` made of that: which of its rows each of all parts wants.
        places: for each part of this process, what it wants as owners and rows (``OwnersRows`` in fullgraph/part_rows.hpp).
        ranks: which parts this process's are.
        sizes: rows of each of all parts.
    """

    wanted: Lists
    served: Lists
    places: Sequence[Tensor]
    ranks: Sequence[int]
    sizes: Sequence[int]

    @functools.cached_property
    def turns(self) -> list[list[tuple[int, slice, Tensor]]]:
        """For each part of this process what it wants of the part behind it, of the next, and so on round: the owner, which
        slots of the halo, and their places. Parts that all began with the first one's rows would share its link, and leave
        those of the others idle."""
        found = []
        for rank, wanted, places in zip(self.ranks, self.wanted, self.places, strict=True):
            ends = [0, *accumulate(map(len, wanted))]
            slots = [slice(*range_) for range_ in pairwise(ends)]
            owners = [(rank + turn) % len(wanted) for turn in range(1, len(wanted))]
            found.append([(owner, slots[owner], places[slots[owner]]) for owner in owners])
        return found

    @functools.cached_property
    def begins(self) -> list[int]:
        """For each part of this process the slot with which :attr:`turns` begin."""
        return [next((some.start for _, some, places in turns if len(places)), 0) for turns in self.turns]

    def brought(self, i: int, own: Tensor, table: Tensor) -> Tensor:
        """The halo of this process's i-th part, by one launch.

        Args:
            own: its own rows, where others read them.
            table: the addresses of all parts' rows, as ``PartRows`` takes them.
        """
        places = self.places[i]
        rows = PartRows(own, None, table, self.ranks[i], places.dtype == torch.int64)
        return take(rows, places, own.new_empty(len(places), own.shape[1]), begin=self.begins[i])

    @functools.cached_property
    def largest(self) -> int:
        """Rows of a halo of this process, at most."""
        return max(map(len, self.places))

    def is_small(self, x: Tensor) -> bool:
        """Whether halos of rows like those of ``x`` come by one launch each."""
        return self.largest * x.shape[1] * x.element_size() <= SMALL


class World(ABC):
    """Parts ``mine`` of ``parts``, part ``mine[i]`` on ``devices[i]``. Lists of tensors have one for each of ``mine``."""

    parts: int
    mine: tuple[int, ...]
    devices: tuple[torch.device, ...]
    reads_others: bool  # whether kernels can read the rows of other parts where they are

    def on(self, i: int) -> AbstractContextManager[Any]:
        """Where ``mine[i]``'s work is queued."""
        return nullcontext()

    @contextmanager
    def turn(self, results: list[Tensor]) -> Iterator[None]:
        """Around what is queued by :meth:`on`, which adds what it makes to ``results``: it comes after what the caller had
        queued before, and before what it queues then. Autocast is off: it would make sums of other types than kernels read."""
        with torch.autocast(self.devices[0].type, enabled=False), self._joined(results):
            yield

    def _joined(self, results: list[Tensor]) -> AbstractContextManager[Any]:
        """The part of :meth:`turn` that is about streams."""
        return nullcontext()

    def check_same(self, mine: Mapping[str, Any]) -> None:
        """Refuses processes that do not all have the same values.

        Raises:
            ConfigError: in all of them alike.
        """
        return None  # there is one

    def agreed(self, make: Callable[[], T]) -> T:
        """What ``make()`` gives; an error of ours in one process is raised in all."""
        return make()

    def all(self, flag: bool) -> bool:
        """Whether ``flag`` is so in all processes."""
        return flag

    def shared_bytes(self, nbytes: int) -> int:
        """What a part keeps on its device so that others can read ``nbytes`` of rows there."""
        return 0

    @abstractmethod
    def gathered(self, mine: Sequence[Any]) -> list[Any]:
        """What all parts have, given what those of this process do; in order."""

    @abstractmethod
    def traded(self, wanted: Lists) -> list[list[Tensor]]:
        """For each of ``mine`` what every part wants of it, given what it wants of every part; int64, in the order of parts."""

    @abstractmethod
    def fetch_in_turns(self, x: Sequence[Tensor], halos: Halos, blocks: int | None = FEW) -> Iterator[list[Tensor]]:
        """For each of ``mine`` the rows that it wants of ``x``, ``[n, width]`` each, one part's after another's, beside what is
        queued meanwhile: given once all is asked for, and again each time that those of one more owner are there, in the order
        of :meth:`Halos.turns`. A GPU's multiprocessors take part with so many blocks, or all."""

    def fetch(self, x: Sequence[Tensor], halos: Halos) -> list[Tensor]:
        """The same, all at once; where parts read each other's rows, small halos come by one launch each."""
        if self.reads_others and halos.is_small(x[0]):
            return self._brought(x, halos)
        *_, found = self.fetch_in_turns(x, halos, None)
        return found

    @abstractmethod
    def _brought(self, x: Sequence[Tensor], halos: Halos) -> list[Tensor]:
        """The halo of each of ``mine``, by one launch each. Some ranks may do so while others fetch in turns."""

    def fetch_ahead(self, x: Sequence[Tensor], halos: Halos) -> Callable[[], list[Tensor]]:
        """The same, beside what is queued until the function is called that this gives, which gives the rows."""
        coming = self.fetch_in_turns(x, halos)
        asked = next(coming)
        return lambda: [asked, *coming][-1]

    @abstractmethod
    def whole(self, x: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """All parts' rows, one part's after another's, for each of ``mine``; ``sizes``: how many each part has."""

    def stacked(self, x: Sequence[Tensor]) -> list[Tensor]:
        """All parts' tensors of one shape, ``[parts, ...]``, for each of ``mine``."""
        stacks = self.whole([part.reshape(1, -1) for part in x], [1] * self.parts)
        return [stack.view(self.parts, *part.shape) for stack, part in zip(stacks, x, strict=True)]

    def combined(self, x: Sequence[Tensor], reduce: str) -> list[Tensor]:
        """The sums, or with ``"max"`` the maxima, over all parts, for each of ``mine``; in the order of parts."""
        found = []
        for i, stack in enumerate(self.stacked(x)):
            with self.on(i):
                found.append(stack.amax(0) if reduce == "max" else stack.sum(0))
        return found

    @abstractmethod
    def reachable(self, x: Sequence[Tensor]) -> AbstractContextManager[list[Tensor]]:
        """A with-block in which kernels may read all parts' rows where they are. Gives the addresses of every part's rows as
        each of ``mine`` reads them, int64 ``[parts]`` on its device.

        Raises:
            DeviceError: parts cannot read each other's memory, and why.
        """


class Together(World):
    """All parts in one process."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self.parts = len(devices)
        self.mine = tuple(range(self.parts))
        self.devices = tuple(devices)
        gpus = sorted({device for device in devices if device.type == "cuda"}, key=str)
        if gpus and len({device.type for device in devices}) > 1:
            raise ConfigError("parts lie on GPUs or on CPUs, not on both; name devices of one type")
        self.linked = bool(gpus) and unlinked(gpus) is None
        if self.linked:
            for reader in gpus:
                for owner in gpus:
                    if reader != owner:
                        enable_access(reader, owner)
        self.reads_others = self.linked or len(gpus) < 2
        # Virtual ranks share a GPU: each has a stream of its own, as if it had a GPU of its own.
        self._virtual = len(gpus) < self.parts and bool(gpus)
        self._own = [torch.cuda.Stream(device) for device in devices] if self._virtual else []
        self._sides: dict[int, torch.cuda.Stream] = {}
        self._addresses: dict[tuple[int, ...], list[Tensor]] = {}
        self._of_graphs: dict[tuple[int, ...], list[Tensor]] = {}  # which replays read: they stay

    def _stream(self, i: int) -> torch.cuda.Stream:
        return self._own[i] if self._virtual else torch_stream(self.devices[i])

    def on(self, i: int) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self._own[i]) if self._virtual else on_device(self.devices[i])

    @contextmanager
    def _joined(self, results: list[Tensor]) -> Iterator[None]:
        if not self._virtual:
            yield
            return
        outside = [torch_stream(device) for device in self.devices]
        for own, stream in zip(self._own, outside, strict=True):
            own.wait_stream(stream)
        try:
            yield
        finally:
            for own, stream in zip(self._own, outside, strict=True):
                stream.wait_stream(own)
            for made in results:
                made.record_stream(torch_stream(made.device))

    def fence(self) -> None:
        """What each part does from now on comes after what all have done so far."""
        if self.devices[0].type != "cuda" or self.parts == 1:
            return
        first, *others = map(self._stream, self.mine)
        for stream in others:
            first.wait_stream(stream)
        all_have = first.record_event()
        for stream in others:
            stream.wait_event(all_have)

    def gathered(self, mine: Sequence[Any]) -> list[Any]:
        return list(mine)

    def traded(self, wanted: Lists) -> list[list[Tensor]]:
        return [[theirs[i].to(self.devices[i]) for theirs in wanted] for i in self.mine]

    def _brought(self, x: Sequence[Tensor], halos: Halos) -> list[Tensor]:
        self.fence()
        found, tables = [], self._tables(x)
        try:
            for i in self.mine:
                with self.on(i):
                    found.append(halos.brought(i, x[i], tables[i]))
        finally:
            self.fence()  # what owners do to their rows, if only let go of them, comes after others have read them
        return found

    def fetch_in_turns(self, x: Sequence[Tensor], halos: Halos, blocks: int | None = FEW) -> Iterator[list[Tensor]]:
        self.fence()
        found = []
        for i in self.mine:
            with self.on(i):
                found.append(x[i].new_empty(len(halos.places[i]), x[i].shape[1]))
        tables = self._tables(x)
        bringers = [self._bringer(i, x, halos, tables[i], found[i], blocks) for i in self.mine]
        arrived = self._rounds(self.parts - 1, lambda turn, i: bringers[i](turn))
        try:
            yield found
            for events in arrived:
                self._after(events, everywhere=False)
                yield found
        finally:  # also where a stage fails: what comes must not come to memory that has been let go of
            for events in arrived[-1:]:
                self._after(events, everywhere=True)

    def _bringer(
        self, i: int, x: Sequence[Tensor], halos: Halos, table: Tensor, to: Tensor, blocks: int | None
    ) -> Callable[[int], None]:
        """What brings a part's halo, an owner's rows in each turn: read where they are where the reader can, else packed."""
        places = halos.places[i]
        rows = PartRows(x[i], owners=table, reader=i, is_wide=places.dtype == torch.int64)

        def turn(number: int) -> None:
            owner, some, wanted = halos.turns[i][number]
            if self.reads_others:
                fetch_rows(rows, wanted, to[some], x[owner].data_ptr(), halos.sizes[owner], blocks)
            elif wanted.numel():
                here, there = torch_stream(self.devices[i]), self._stream(owner)
                there.wait_stream(here)
                with self.on(owner):
                    to[some].copy_(x[owner].index_select(0, halos.served[owner][i]))
                here.wait_stream(there)

        return turn

    def _rounds(self, count: int, bring_to: Callable[[int, int], None]) -> list[list[torch.cuda.Event]]:
        """Queues what comes beside what the parts do, in rounds: one for all parts, then the next. Part by part, copies between
        four H100 took three times as long, and as long on the default streams. Gives for each round when each part is done.

        Args:
            bring_to: queues a round, 0 to ``count - 1``, of a part.
        """
        sides = [self._side(i) for i in self.mine] if count else []  # a graph's streams all end in others
        arrived = []
        for turn in range(count):
            for i, side in enumerate(sides):
                with nullcontext() if side is None else torch.cuda.stream(side):
                    bring_to(turn, i)
            arrived.append([side.record_event() for side in sides if side is not None])
        return arrived

    def _after(self, events: Sequence[torch.cuda.Event], everywhere: bool) -> None:
        """Has each part wait for what came to it, or ``everywhere`` to all: until then others read what owners have."""
        for i in self.mine:
            for event in events if everywhere else events[i : i + 1]:
                self._stream(i).wait_event(event)

    def _side(self, i: int) -> torch.cuda.Stream | None:
        """A second stream of a part on a GPU, which has waited for the first."""
        if self.devices[i].type != "cuda":
            return None
        if i not in self._sides:
            self._sides[i] = torch.cuda.Stream(self.devices[i])
        self._sides[i].wait_stream(self._stream(i))
        return self._sides[i]

    def _tables(self, x: Sequence[Tensor]) -> list[Tensor]:
        """The addresses of all parts' rows on each part's device; kept, as the same ones come again."""
        addresses = tuple(part.data_ptr() for part in x)
        tables = self._of_graphs.get(addresses) or self._addresses.pop(addresses, None)
        if tables is None:
            tables = []
            for device in self.devices:
                with beside_capture(device):
                    tables.append(torch.tensor(addresses, device=device))
        if capturing():
            self._of_graphs[addresses] = tables
            return tables
        self._addresses[addresses] = tables  # behind those that were asked for earlier
        if len(self._addresses) > _TABLES:  # the one that was asked for longest ago: streams may yet read the others
            self._addresses.pop(next(iter(self._addresses)), None)
        return tables

    def whole(self, x: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        self.fence()
        found = []
        for i in self.mine:
            with self.on(i):
                found.append(x[i].new_empty(sum(sizes), x[i].shape[1]))
        places = [of.split(list(sizes)) for of in found]

        def copied(turn: int, i: int) -> None:  # in each turn every part is read by one other
            owner = (i + turn) % self.parts
            if self.linked and x[owner].is_contiguous():
                copy_from(places[i][owner], x[owner].data_ptr())
            else:
                places[i][owner].copy_(x[owner], non_blocking=True)

        arrived = self._rounds(self.parts, copied)
        self._after(arrived[-1], everywhere=True)
        return found

    @contextmanager
    def reachable(self, x: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        if not self.reads_others:
            raise DeviceError("strategy='direct' reads other parts' memory, and these GPUs cannot; use strategy='halo'")
        self.fence()
        try:
            yield self._tables(x)
        finally:  # as of what is brought
            self.fence()
