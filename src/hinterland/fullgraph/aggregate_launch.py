"""Launches fullgraph/aggregate.cu, or loops on the CPU: sums and maxima over the rows that a part's vertices name."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _core
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, address, struct
from .rates import OFTEN, cache_room, tile_bytes

# The types that rows have: their names in C++, and their numbers (native/fullgraph/element.hpp).
ELEMENTS = {
    torch.float32: ("float", 0),
    torch.float64: ("double", 1),
    torch.float16: ("Float16", 2),
    torch.bfloat16: ("Bfloat16", 3),
}
REDUCES = {"sum": ("kSum", 0), "max": ("kMax", 1), "count": ("kCount", 2), "match": ("kMatch", 3)}
PLACES = {torch.int32: "uint32_t", torch.int64: "int64_t", None: "void"}
_THREADS = _core.AGGREGATE_THREADS
_WARP = 32
_MOST_CHUNKS = 4  # vectors of a row that a lane holds: more would take more registers than let many warps run
_NARROW = 128  # bytes of a tile up to which pieces of 128 entries are quicker than of 256
_MOST_PIECES = 1024  # of a row, so that a warp can add them up
_MOST_CUTS = 4096  # of all rows, where nobody has looked at their lengths
_UNSEEN = 64  # entries of a task then. Measured: a step of GraphSAGE takes 1,248 us, of 128 1,258, of 256 1,283, of 512 1,341
_CUT_THREADS = 128
_PARAMS = struct("fullgraph::AggregateParams")
_FINISH = struct("fullgraph::Finish")
_CUT = struct("fullgraph::CutParams")
_ROWS, _ARRAY = struct("fullgraph::RowWords"), struct("fullgraph::RowArray")


def instance(kernel: str, *form: Any) -> str:
    """A kernel's C++ name with its template's arguments."""
    return f"{kernel}<{', '.join(str(part) for part in form)}>"


KERNELS = KernelFile(
    "fullgraph/aggregate.cu",
    (
        "cut_kernel",
        *(
            instance("aggregate_kernel", kind, kind, place, "HaloRows", wide, chunks, "Reduce::kSum", "true")
            for kind, wide in (("float", 4), ("Bfloat16", 8))
            for place in ("uint32_t", "int64_t")  # of a partitioned graph, and of a sample
            for chunks in (1, 2)
        ),
    ),
    separate_module=True,
)


def compute_type(dtype: torch.dtype) -> torch.dtype:
    """What rows of a type are summed in: float64 its own, all others float32.

    Raises:
        ConfigError: no type of rows.
    """
    if dtype not in ELEMENTS:
        raise ConfigError(f"rows are {', '.join(str(kind).removeprefix('torch.') for kind in ELEMENTS)}, not {dtype}")
    return torch.float64 if dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class PartRows:
    """Where the rows lie that entries name.

    Attributes:
        own: ``[n, width]``, places below n.
        halo: ``[h, width]``, the places behind them.
        owners: int64 ``[parts]``: instead of a halo, the address of each part's rows for the device that reads, which all have
            ``own``'s stride; a place is then an owner and a row (``_core.ROW_BITS``).
        reader: with owners, which of the parts ``own`` is.
        is_wide: with owners, whether places are int64.
    """

    own: Tensor
    halo: Tensor | None = None
    owners: Tensor | None = None
    reader: int = 0
    is_wide: bool = False

    @functools.cached_property
    def words(self) -> Params:
        own = _array(self.own)
        owners, bits = address(self.owners), _core.ROW_BITS[self.is_wide]
        words = _ROWS(own=own, own_rows=self.own.size(0), owners=owners, reader=self.reader, row_bits=bits)
        if self.halo is not None and self.halo.numel():
            words.halo = _array(self.halo)
        return words

    @property
    def low(self) -> int:
        """What the rows' addresses have below 16, together; others' rows lie as one's own do."""
        own, halo = self.words.own, self.words.halo  # nothing, where there is no halo
        return (own.base | own.stride | halo.base | halo.stride) & 15


def _stride(rows: Tensor) -> int:
    """Bytes from one row to the next."""
    return rows.stride(0) * rows.element_size()


def _array(rows: Tensor) -> Params:
    return _ARRAY(base=rows.data_ptr(), stride=_stride(rows))


def dense(rows: Sequence[Tensor]) -> list[Tensor]:
    """Rows one after another, from an address on from which kernels load vectors; others' rows then lie as one's own do."""
    found = (one.contiguous() for one in rows)
    # Of a single row torch may say any stride, and others are read by it.
    found = (one if one.stride(0) == math.prod(one.shape[1:]) else one.flatten().view(one.shape) for one in found)
    return [one if one.data_ptr() % 16 == 0 else one.clone() for one in found]


class RowPieces(NamedTuple):
    """Neighbour partitions: the rows with more than so many entries, cut."""

    rows: Tensor  # int64 [pieces]
    begins: Tensor
    ends: Tensor
    long: Tensor  # int64 [k]: the rows that were cut; -1: none
    joined: RowEntries  # each one's pieces


@dataclass
class RowEntries:
    """The entries of some rows: those of row r are ``places[begins[r]:ends[r]]``.

    Attributes:
        begins, ends: int64 ``[rows]``.
        places: int32 or int64; None where an entry's place is its own number.
        weights: in the type that is computed in, as many; None counts all once.
        most: how many entries there are at most, where nobody is to wait for their rows' lengths. Rows then lie one behind
            another.
        is_cut: whether long rows are cut into pieces.
        tuned: what tuner.py found better than the default: numbers of a :class:`LaunchShape`, by reduction, width and type of
            rows.
    """

    begins: Tensor
    ends: Tensor
    places: Tensor | None
    weights: Tensor | None = None
    most: int | None = None
    is_cut: bool = True
    tuned: dict[tuple[str, int, torch.dtype], dict[str, int]] = field(default_factory=dict)
    _pieces: dict[int, RowPieces | None] = field(default_factory=dict)
    _shapes: dict[tuple[int, int], LaunchShape] = field(default_factory=dict)
    _ranges: dict[tuple[int, int], RowEntries] = field(default_factory=dict)

    def between(self, first: int, last: int) -> RowEntries:
        """Those of rows ``[first, last)``; kept, since finding the long ones waits for the GPU."""
        if (first, last) not in self._ranges:
            begins, ends = self.begins[first:last], self.ends[first:last]
            self._ranges[first, last] = RowEntries(begins, ends, self.places, self.weights, self.most, self.is_cut, self.tuned)
        return self._ranges[first, last]

    @property
    def rows(self) -> int:
        return self.begins.size(0)

    def params(self) -> Params:
        """Those of a launch, with what concerns entries alone."""
        return _PARAMS.from_buffer_copy(self._words)

    @functools.cached_property
    def _words(self) -> Params:
        return _PARAMS(
            begins=self.begins.data_ptr(),
            ends=self.ends.data_ptr(),
            rows=self.rows,
            places=address(self.places),
            place_bytes=0 if self.places is None else self.places.element_size(),
            weights=address(self.weights),
        )

    @functools.cached_property
    def mean_length(self) -> float:
        """Entries of a row that has any; counted once. At most so many of a row, where nobody is to count."""
        if self.most is not None:
            return self.most / max(self.rows, 1)
        lengths = self.ends - self.begins
        return float(lengths.sum()) / max(int((lengths > 0).sum()), 1)

    def longest(self, asked: int) -> int:
        """How many entries of a row are not cut yet, where ``asked`` would be best."""
        if self.most is None:
            return asked
        return max(min(asked, _UNSEEN), -(-self.most // _MOST_CUTS)) if self.is_cut else max(self.most, 1)

    def pieces(self, longest: int) -> RowPieces | None:
        """The rows of more than ``longest`` entries in pieces of as many, or of a row in _MOST_PIECES; None without any."""
        if longest not in self._pieces:
            self._pieces[longest] = self._cut(longest) if self.most is None else self._cut_unseen(longest, self.most)
        return self._pieces[longest]

    def forget_pieces(self, needed: Collection[int]) -> None:
        """Lets go of all pieces but those of so many entries."""
        self._pieces = {longest: pieces for longest, pieces in self._pieces.items() if longest in needed}

    @property
    def cuts(self) -> tuple[int, ...]:
        """Of how many entries the pieces are that were made so far."""
        return tuple(self._pieces)

    def _cut(self, longest: int) -> RowPieces | None:
        lengths = self.ends - self.begins
        long = (lengths > longest).nonzero().view(-1)
        if not len(long):
            return None
        lengths = lengths[long]
        each = (-(-lengths // _MOST_PIECES)).clamp(min=longest)
        counts = -(-lengths // each)
        firsts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        of = torch.repeat_interleave(torch.arange(len(long), device=long.device), counts)
        number = torch.arange(len(of), device=long.device) - firsts[of]
        begins = self.begins[long][of] + number * each[of]
        ends = torch.minimum(begins + each[of], self.ends[long][of])
        return RowPieces(long[of], begins, ends, long, RowEntries(firsts[:-1], firsts[1:], None))

    def _cut_unseen(self, longest: int, most: int) -> RowPieces | None:
        """As many pieces as there can be, of which most are empty."""
        count = -(-most // longest)
        if count < 2:
            return None
        found = self.begins.new_empty(9 * count)
        rows, begins, ends, *of_long = found.split([2 * count] * 3 + [count] * 3)
        given = (self.begins, self.ends, rows, begins, ends, *of_long)
        names = ("begins", "ends", "piece_rows", "piece_begins", "piece_ends", "long_rows", "long_begins", "long_ends")
        params = _CUT(
            rows=self.rows, longest=longest, count=count, **{n: t.data_ptr() for n, t in zip(names, given, strict=True)}
        )
        if found.is_cuda:
            launch(KERNELS, "cut_kernel", found.device, -(-count // _CUT_THREADS), _CUT_THREADS, params)
        else:
            _core.cut_rows(params.address)
        long, firsts, lasts = of_long
        return RowPieces(rows, begins, ends, long, RowEntries(firsts, lasts, None, most=2 * count, is_cut=False))


class LaunchShape(NamedTuple):
    """How a launch divides its work (MGG's parameters: section 6)."""

    longest: int  # entries of a task at most: ps
    entries: int  # of a task at a time: lanes that share a vector
    tile: int  # bytes of a row that are read in one go through the entries
    threads: int = _THREADS  # of a block: 32 wpb


@dataclass(frozen=True)
class _Form:
    """What an instance is compiled for, and lanes."""

    wide: int
    chunks: int
    across: int
    tiles: int
    whole: bool


@functools.lru_cache(maxsize=4096)
def _form(width: int, size: int, low: int, tile: int) -> _Form:
    wide = widest(width, size, low)
    vectors = width // wide
    of_tile = max(min(vectors, tile // (wide * size)), 1)
    across = 1 << min((of_tile - 1).bit_length(), 5)
    chunks = min(-(-of_tile // across), _MOST_CHUNKS)
    tiles = -(-vectors // (across * chunks))
    chunks = -(-vectors // (across * tiles))
    return _Form(wide, chunks, across, tiles, vectors == across * chunks * tiles)


@functools.lru_cache(maxsize=4096)
def widest(width: int, size: int, low: int) -> int:
    """Elements of the widest vectors that ``width`` elements of ``size`` bytes are whole numbers of, at addresses that end in
    ``low``."""
    return next(wide for wide in (16 // size, 8 // size, 1) if wide and width % wide == 0 and low % (wide * size) == 0)


def default_shape(entries: RowEntries, rows: PartRows, row_bytes: int) -> LaunchShape:
    """What was quickest on an H200 (docs/notes/fullgraph-on-h200.md)."""
    held = len(rows.own) + (0 if rows.halo is None else len(rows.halo))
    known = entries._shapes.get((row_bytes, held))
    if known is None:
        known = entries._shapes[row_bytes, held] = _shape(entries, rows, row_bytes, held)
    return known


def tuned_shape(entries: RowEntries, rows: PartRows, reduce: str, width: int) -> LaunchShape:
    """The default shape, but for what was found to be quicker for these entries, rows of that width, and their type."""
    shape = default_shape(entries, rows, width * rows.own.element_size())
    changed = entries.tuned.get((reduce, width, rows.own.dtype))
    return shape if changed is None else shape._replace(**changed)


def _shape(entries: RowEntries, rows: PartRows, row_bytes: int, held: int) -> LaunchShape:
    tile = _tile(entries, rows, row_bytes, held)
    at_once = 2 if 2 * tile <= _NARROW and entries.mean_length >= 2 else 1
    return LaunchShape(128 if tile <= _NARROW else 256, at_once, tile)


def _tile(entries: RowEntries, rows: PartRows, row_bytes: int, held: int) -> int:
    """So much of each row that these of all rows fit into the L2 cache, where rows are read often; else a row."""
    device = rows.own.device
    if device.type != "cuda" or rows.owners is not None or entries.mean_length < OFTEN:
        return row_bytes
    return tile_bytes(row_bytes, held, cache_room(device))


def aggregate_rows(
    entries: RowEntries,
    rows: PartRows,
    out: Tensor,
    reduce: str = "sum",
    *,
    mine: Tensor | None = None,
    own: Tensor | None = None,
    first_row: int = 0,
    row_numbers: Tensor | None = None,
    shape: LaunchShape | None = None,
    **finish: Tensor | None,
) -> Tensor:
    """Writes ``out`` ``[rows, width]``: for each row the sum or the maximum over the rows that its entries name.

    Args:
        out: of the rows' type, or of the type that is computed in; columns of wider rows, or rows one after another.
        reduce: a key of REDUCES.
        mine: with ``"count"`` and ``"match"``, see aggregate.hpp: ``[rows, width]``.
        row_numbers: int64 ``[rows]``: where in ``out`` each row is written.
        shape: how work is divided; by default :func:`tuned_shape`.
        own: how often each row counts itself in its sum, ``[rows]`` in the type that is computed in.
        first_row: which of ``rows.own`` the first row is that counts itself.
        finish: ``before``, ``scale``, ``degrees``: see ``Finish`` in aggregate.hpp.
    """
    width, size = out.shape[1], rows.own.element_size()
    if width == 0 or entries.rows == 0:
        return out
    shape = shape or tuned_shape(entries, rows, reduce, width)
    low = rows.low if out.is_contiguous() else rows.low | (out.data_ptr() | _stride(out)) & 15
    form = _form(width, size, low, shape.tile)
    longest = entries.longest(shape.longest)
    pieces = entries.pieces(longest)
    done = _FINISH(out=out.data_ptr())
    for name, array in finish.items():
        setattr(done, name, address(array))
    params = entries.params()
    params.mine, params.own, params.row_numbers = address(mine), address(own), address(row_numbers)
    params.out_stride, params.first_row, params.width, params.longest = out.stride(0), first_row, width, longest
    params.finish, params.lanes, params.across = done, min(form.across * shape.entries, _WARP), form.across
    params.__setattr__("from", rows.words)
    if pieces is not None:
        partial = out.new_empty(len(pieces.rows), width, dtype=compute_type(rows.own.dtype))
        params.piece_rows, params.piece_begins = pieces.rows.data_ptr(), pieces.begins.data_ptr()
        params.piece_ends, params.pieces, params.partial = pieces.ends.data_ptr(), len(pieces.rows), partial.data_ptr()
    _run(params, entries, rows, out, reduce, form, shape.threads)
    if pieces is not None:
        numbers = pieces.long if row_numbers is None else row_numbers[pieces.long]
        _join(pieces.joined, partial, out, "max" if reduce == "max" else "sum", numbers, done)
    return out


def _join(added: RowEntries, partial: Tensor, out: Tensor, reduce: str, numbers: Tensor, done: Params) -> None:
    """The sums of long rows from those of their pieces, in order."""
    rows, width = PartRows(partial), out.shape[1]
    form = _form(width, partial.element_size(), rows.low, width * partial.element_size())
    params = added.params()
    params.out_stride, params.width, params.longest = out.stride(0), width, max(_MOST_PIECES, 2 * _MOST_CUTS)
    params.row_numbers, params.finish, params.lanes, params.across = numbers.data_ptr(), done, form.across, form.across
    params.__setattr__("from", rows.words)
    _run(params, added, rows, out, reduce, form, _THREADS)


def _run(params: Params, entries: RowEntries, rows: PartRows, out: Tensor, reduce: str, form: _Form, threads: int) -> None:
    if not out.is_cuda:
        params.lanes = params.across = 1
        _core.aggregate_rows(params.address, ELEMENTS[rows.own.dtype][1], ELEMENTS[out.dtype][1], REDUCES[reduce][1])
        return
    called = _called(rows.own.dtype, out.dtype, place_name(entries), source_name(rows), reduce, form)
    params.blocks = -(-(params.pieces + params.rows) * params.lanes // threads)
    launch(KERNELS, called, out.device, params.blocks * form.tiles, threads, params)


@functools.lru_cache(maxsize=4096)
def _called(dtype: torch.dtype, to: torch.dtype, places: str, source: str, reduce: str, form: _Form) -> str:
    """The kernel's name."""
    whole = str(form.whole).lower()
    of = (ELEMENTS[dtype][0], ELEMENTS[to][0], places, source, form.wide, form.chunks, f"Reduce::{REDUCES[reduce][0]}", whole)
    return instance("aggregate_kernel", *of)


def place_name(entries: RowEntries) -> str:
    """The type of the entries' places, as kernels know it."""
    return PLACES[None if entries.places is None else entries.places.dtype]


def source_name(rows: PartRows) -> str:
    """The source of the rows, as kernels know it."""
    return "HaloRows" if rows.owners is None else f"OwnersRows<{_core.ROW_BITS[rows.is_wide]}>"
