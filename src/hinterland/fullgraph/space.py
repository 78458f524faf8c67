"""Which shapes an aggregation's launches can have, and how long each should take (MGG, OSDI 2023, section 6).

MGG models the work of a warp, 2 ps D dist, and the shared memory of a block, and tries what a multiprocessor has room for. Here
sums stay in registers, so that those are what bounds the warps of a multiprocessor, and a shape has four numbers: ``longest``
(MGG's ps), ``entries`` at a time (dist: how much of a task is under way at once), ``tile`` (MGG has none: its warps take whole
rows) and ``threads`` of a block (32 wpb). The model counts what is read and written, the vectors of idle lanes and the partial
sums between pieces included, and divides by what the warps that fit keep under way; no launch is shorter than its longest task.
It does not know how many rows are found in the L2 cache, which is why it only says what is not worth trying, and which way to
look first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch

from ..runtime.thresholds import SHAPES_TRIED
from .aggregate_launch import _MOST_PIECES, _WARP, LaunchShape, PartRows, RowEntries, _Form, _form, compute_type, default_shape
from .rates import LEAST_TILE

ORDER = ("tile", "longest", "entries", "threads")  # from coarse to fine, as MGG's ps, dist and wpb
LONGEST = (32, 64, 128, 256, 512, 1024)  # below, a partial sum is written for few entries; above, tasks are uneven
AT_ONCE = (1, 2, 4, 8)
THREADS = (64, 128, 256)  # of 32 a multiprocessor's 32 blocks are half its warps; above 256 nothing is shared in a block
_PARTIALS = 4  # partial sums may take this fraction of the free memory, unless the default takes more
_OWN, _LATENCY = 1.5e12, 1e-6  # bytes a second at random rows, and seconds of two reads, of which the second needs the first
_BLOCKS = 32  # of a multiprocessor
_NO_GPU = "loops on the CPU take a row at a time and have no tiles, lanes or blocks"


@dataclass(frozen=True)
class WarpLimits:
    """What bounds the warps of a GPU: its multiprocessors, and the threads and registers of one."""

    sms: int
    threads: int
    registers: int


@dataclass(frozen=True)
class LaunchWork:
    """What one launch does, as the model sees it.

    Attributes:
        rows, entries: how many.
        longest: entries of the longest row.
        pieces: how many there are where tasks have so many entries at most.
        issued: entries, idle lanes included, where so many are taken at a time.
        default: its shape by default.
        gpu: of the device, None on a CPU.
    """

    rows: int
    entries: int
    longest: int
    pieces: Mapping[int, int]
    issued: Mapping[int, int]
    default: LaunchShape
    gpu: WarpLimits | None

    @classmethod
    def of(cls, entries: RowEntries, rows: PartRows, width: int) -> LaunchWork:
        """That of entries of ``rows``."""
        lengths = entries.ends - entries.begins
        default = default_shape(entries, rows, width * rows.own.element_size())
        cuts = sorted({*LONGEST, default.longest})
        counts = [lengths.sum(), lengths.max() if len(lengths) else lengths.sum()]
        counts += [_pieces(lengths, longest) for longest in cuts]
        counts += [(-(-lengths // each) * each).sum() for each in AT_ONCE]
        total, longest, *found = torch.stack(counts).tolist()
        pieces, issued = dict(zip(cuts, found, strict=False)), dict(zip(AT_ONCE, found[len(cuts) :], strict=True))
        return cls(len(lengths), total, longest, pieces, issued, default, _gpu(rows.own.device))


def _pieces(lengths: torch.Tensor, longest: int) -> torch.Tensor:
    """How many pieces rows are cut into, as ``RowEntries`` does it."""
    each = (-(-lengths // _MOST_PIECES)).clamp(min=longest)
    return torch.where(lengths > longest, -(-lengths // each), 0).sum()


def _gpu(device: torch.device) -> WarpLimits | None:
    if device.type != "cuda":
        return None
    known = torch.cuda.get_device_properties(device)
    registers = int(getattr(known, "regs_per_multiprocessor", 1 << 16))
    return WarpLimits(known.multi_processor_count, known.max_threads_per_multi_processor, registers)


@dataclass(frozen=True)
class Space:
    """The shapes that an operation can have: those of its default with some numbers changed, for all its launches alike.

    Attributes:
        start: the default of the launch with most entries.
        values: what each number can be, ascending.
        works: the launches of each part, of other processes too.
        width, dtype: of rows.
        room: bytes that partial sums may take.
        left_out: sentences about numbers that have one value.
    """

    start: LaunchShape
    values: Mapping[str, Sequence[int]]
    works: Sequence[Sequence[LaunchWork]]
    width: int
    dtype: torch.dtype
    room: float
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, works: Sequence[Sequence[LaunchWork]], width: int, dtype: torch.dtype, free: float) -> Space:
        """That of launches on devices of which each has ``free`` bytes."""
        main = max((work for part in works for work in part), key=lambda work: work.entries)
        longest = max(work.longest for part in works for work in part)
        start, on_gpu = main.default, main.gpu is not None
        values = {
            "tile": _tiles(width, dtype, start.tile) if on_gpu else (start.tile,),
            "longest": _cuts(longest, start.longest),
            "entries": AT_ONCE if on_gpu else (start.entries,),
            "threads": THREADS if on_gpu else (start.threads,),
        }
        said = [] if on_gpu else [_NO_GPU]
        if on_gpu and len(values["tile"]) == 1:
            said.append(f"rows of {width * dtype.itemsize} bytes have no tiles of {LEAST_TILE} bytes or more")
        if not width:
            values, said = {name: (value,) for name, value in start._asdict().items()}, ["rows have no columns"]
        elif len(values["longest"]) == 1:
            said.append(f"no list has more than {longest} entries, so that none is cut")
        return cls(start, values, works, width, dtype, free / _PARTIALS, tuple(said))

    def allows(self, shape: LaunchShape) -> bool:
        """Whether launches can have it: a task's lanes are in one warp, and partial sums fit."""
        if shape == self.start:
            return True
        if self._form(shape).across * shape.entries > _WARP:
            return False
        held = self._partials(shape)
        return held <= self.room or held <= self._partials(self.start)

    def shapes(self) -> Iterator[LaunchShape]:
        """All that launches can have."""
        for of in product(*(self.values[name] for name in ORDER)):
            shape = self.start._replace(**dict(zip(ORDER, of, strict=True)))
            if self.allows(shape):
                yield shape

    def worth(self, shape: LaunchShape) -> bool:
        """Whether a shape is allowed and not predicted poor."""
        return shape == self.start or (self.allows(shape) and self.predicted(shape) <= self.most_predicted)

    def line(self, shape: LaunchShape, name: str) -> list[LaunchShape]:
        """A shape with each value of one number for which it is worth trying. Where a task's lanes would be more than a warp's,
        there are fewer entries at a time, or a narrower tile: the two share the lanes."""
        found = [self._fitting(shape._replace(**{name: value}), name) for value in self.values[name]]
        return [one for one in found if one is not None and (one == shape or self.worth(one))]

    def _fitting(self, shape: LaunchShape, name: str) -> LaunchShape | None:
        """The shape with the most lanes that are a warp's at most, and that number as it is."""
        other = {"tile": "entries", "entries": "tile"}.get(name)
        fewer = self.values[other][::-1] if other else ()
        for one in (shape, *(shape._replace(**{other: value}) for value in fewer if other and value < getattr(shape, other))):
            if self.allows(one):
                return one
        return None

    @functools.cached_property
    def most_predicted(self) -> float:
        """Seconds above which a shape is not tried."""
        return SHAPES_TRIED * min(map(self.predicted, self.shapes()))

    def changes(self, shape: LaunchShape) -> dict[str, int]:
        """In what it is not the default, which each launch has of its own."""
        return {name: value for name, value in shape._asdict().items() if value != getattr(self.start, name)}

    def predicted(self, shape: LaunchShape) -> float:
        """Seconds of the part that has most to do; 0 on a CPU, which has no model."""
        changed = self.changes(shape)
        return max(sum(self._seconds(work, work.default._replace(**changed)) for work in part) for part in self.works)

    def _form(self, shape: LaunchShape) -> _Form:
        size = self.dtype.itemsize
        return _form(self.width, size, self.width * size & 15, shape.tile)

    def _partials(self, shape: LaunchShape) -> int:
        """Bytes of partial sums and of what says where pieces lie, of the launch that has most."""
        changed, row = self.changes(shape), compute_type(self.dtype).itemsize * self.width + 64
        return max(work.pieces[work.default._replace(**changed).longest] for part in self.works for work in part) * row

    def _seconds(self, work: LaunchWork, shape: LaunchShape) -> float:
        if work.gpu is None:
            return 0.0
        form, size = self._form(shape), self.dtype.itemsize
        ahead = 2 if form.chunks >= 4 else 4  # entries whose rows are under way: Aggregation::kAtOnce
        at_once = max(min(shape.entries, _WARP // form.across), 1)
        tasks = (work.rows + work.pieces[shape.longest]) * form.tiles
        of_lane = form.chunks * form.wide * size  # bytes of an entry
        read = work.issued[at_once] * form.across * form.tiles * of_lane + 4 * work.entries * form.tiles + 16 * tasks
        between = 2 * work.pieces[shape.longest] * self.width * compute_type(self.dtype).itemsize
        running = work.gpu.sms * self._warps(work.gpu, form, ahead, shape.threads)
        under_way = max(min(running * _WARP, tasks * form.across * at_once), 1) * ahead * of_lane
        path = min(shape.longest, work.longest) / (at_once * ahead) * _LATENCY
        return max((read + between + work.rows * self.width * size) / min(_OWN, under_way / _LATENCY), path)

    def _warps(self, gpu: WarpLimits, form: _Form, ahead: int, threads: int) -> int:
        """Of a multiprocessor, by a thread's registers: some, its sums', and half of what is under way (so ptxas has it)."""
        sums = form.wide * form.chunks * compute_type(self.dtype).itemsize // 4
        of_warp = (28 + sums + ahead * form.chunks * form.wide * self.dtype.itemsize // 8) * _WARP
        warps = threads // _WARP
        return max(min(gpu.threads // threads, gpu.registers // (of_warp * warps), _BLOCKS), 1) * warps


def _tiles(width: int, dtype: torch.dtype, start: int) -> tuple[int, ...]:
    """A row, its half, and so on down to a line; of those by which launches do the same the default, or the largest."""
    size, tile = dtype.itemsize, width * dtype.itemsize
    low = tile & 15
    found = {_form(width, size, low, start): start}
    found.setdefault(_form(width, size, low, tile), tile)
    while tile % 2 == 0 and tile >= 2 * LEAST_TILE:
        tile //= 2
        found.setdefault(_form(width, size, low, tile), tile)
    return tuple(sorted(found.values()))


def _cuts(longest: int, start: int) -> tuple[int, ...]:
    """Those that cut any list, and one that cuts none: the default if it is one."""
    cutting = {each for each in (*LONGEST, start) if each < longest}
    whole = {start} if start >= longest else {each for each in LONGEST if each >= longest and each // 2 < longest}
    return tuple(sorted(cutting | whole))
