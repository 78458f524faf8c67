"""Launches fullgraph/attention.cu, or loops on the CPU: sums of neighbours' rows weighted by attention, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .. import _core
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, address, struct
from .aggregate_launch import (
    ELEMENTS,
    PartRows,
    RowEntries,
    aggregate_rows,
    compute_type,
    instance,
    place_name,
    source_name,
    widest,
)

SCORES = {"gat": ("kGat", 0), "gatv2": ("kGatv2", 1), "dot": ("kDot", 2)}
PASSES = {"forward": ("kForward", 0), "target": ("kTarget", 1), "source": ("kSource", 2)}
_THREADS = _core.AGGREGATE_THREADS
_PARAMS = struct("fullgraph::AttentionParams")


KERNELS = KernelFile(
    "fullgraph/attention.cu",
    tuple(
        instance("attention_kernel", "float", "uint32_t", "HaloRows", 4, 1, f"Score::{score}", f"AttentionPass::{way}")
        for score, _ in SCORES.values()
        for way, _ in PASSES.values()
    ),
    separate_module=True,
)


@dataclass(frozen=True)
class Scores:
    """How edges are scored: see attention.hpp.

    Attributes:
        kind: a key of SCORES.
        heads: of each row, which are side by side.
        slope: of the leaky ReLU below 0.
        scale: of a dot product.
        loops: whether every row is its own neighbour once, whatever its list says.
    """

    kind: str
    heads: int
    slope: float = 0.2
    scale: float = 1.0
    loops: bool = False


class AttentionSums(NamedTuple):
    """What a pass gives for each row, in the type that is computed in; None where it has no such result."""

    out: Tensor  # [rows, width]
    second: Tensor | None  # [rows, width]
    number: Tensor  # [rows, heads]


def attend(
    scores: Scores,
    way: str,
    entries: RowEntries,
    rows: PartRows,
    numbers: PartRows | None,
    width: int,
    *,
    skipped: Tensor | None = None,
    first_row: int = 0,
    **mine: Tensor | None,
) -> AttentionSums:
    """One pass over the entries.

    Args:
        way: a key of PASSES.
        rows, numbers: where the entries' rows and numbers lie, as ``AttentionParams`` has them.
        width: of a result's rows.
        skipped: int64 ``[rows]``: a place that does not count for each row, or -1. With it no row is its own neighbour.
        first_row: which of ``rows.own`` the first row is.
        mine: ``row``, ``gradient``, ``number``, ``logarithm``, ``delta``, ``vector``: as ``AttentionParams`` has them.

    Raises:
        ConfigError: a head has more channels than there is room for.
    """
    kind = compute_type(rows.own.dtype)
    channels = width // scores.heads
    if channels > _core.MOST_CHANNELS:
        raise ConfigError(f"a head of {channels} channels; attention takes {_core.MOST_CHANNELS} at most: use more heads")
    has_second = (scores.kind, way) in (("gatv2", "target"), ("dot", "source"))
    found = _empty(entries.rows, width, scores.heads, kind, rows.own.device, has_second)
    if width and entries.rows:
        given = {"loops": scores.loops and skipped is None, "skipped": address(skipped), "first_row": first_row}
        given |= {name: address(array) for name, array in mine.items()}
        _fill(found, None, scores, way, entries, rows, numbers, given)
    return found


def _fill(
    found: AttentionSums,
    row_numbers: Tensor | None,
    scores: Scores,
    way: str,
    entries: RowEntries,
    rows: PartRows,
    numbers: PartRows | None,
    given: dict[str, int],
) -> None:
    """One pass, whose results are written to ``found``, at the row's numbers if there are any; -1: nowhere.

    Args:
        given: fields of AttentionParams.
    """
    width, kind, has_second = found.out.shape[1], found.out.dtype, found.second is not None
    channels = width // scores.heads
    wide, chunks, across = _form(channels, rows)
    longest, at_once = _shape(entries, across, scores.heads)
    longest = entries.longest(longest)
    pieces = entries.pieces(longest)
    params = _params(scores, entries, rows, numbers, channels, (longest, across * at_once, across), found)
    params.row_numbers = address(row_numbers)
    for name, value in given.items():
        setattr(params, name, value)
    parts = None
    if pieces is not None:
        parts = _empty(len(pieces.rows), width, scores.heads, kind, rows.own.device, has_second)
        params.piece_rows, params.piece_begins = pieces.rows.data_ptr(), pieces.begins.data_ptr()
        params.piece_ends, params.pieces = pieces.ends.data_ptr(), len(pieces.rows)
        params.piece_out, params.piece_second = parts.out.data_ptr(), address(parts.second)
        params.piece_number = parts.number.data_ptr()
    _run(params, scores.kind, way, entries, rows, (wide, chunks))
    if pieces is not None and parts is not None:
        numbers_of_long = pieces.long if row_numbers is None else row_numbers[pieces.long]
        _join_pieces(pieces.joined, numbers_of_long, parts, found, way, scores.heads)


def joined(found: Tensor, logarithms: Tensor) -> tuple[Tensor, Tensor]:
    """Several results for the same rows, each over some of their entries, as one.

    Args:
        found: ``[k, rows, width]``.
        logarithms: ``[k, rows, heads]``; minus infinity where there was no entry.
    """
    total = logarithms.logsumexp(0)
    share = (logarithms - total.masked_fill(total == -torch.inf, 0)).exp()
    k, rows, heads = share.shape
    out = (found.view(k, rows, heads, found.shape[2] // heads) * share[..., None]).sum(0).flatten(1)
    return out, total


def _empty(rows: int, width: int, heads: int, kind: torch.dtype, device: torch.device, has_second: bool) -> AttentionSums:
    out, number = (torch.empty(rows, size, dtype=kind, device=device) for size in (width, heads))
    return AttentionSums(out, torch.empty_like(out) if has_second else None, number)


def _form(channels: int, rows: PartRows) -> tuple[int, int, int]:
    """Elements of a vector, vectors of a lane, and lanes across a head."""
    size = rows.own.element_size()
    wide = widest(channels, size, rows.low)
    vectors = channels // wide
    across = 1 << min((vectors - 1).bit_length(), 5)
    return wide, 1 << (-(-vectors // across) - 1).bit_length(), across


def _shape(entries: RowEntries, across: int, heads: int) -> tuple[int, int]:
    """Entries of a task at most, and at a time."""
    at_once = 2 if across <= 4 and entries.mean_length >= 2 else 1
    return (64 if across * heads <= 8 else 256) * at_once, at_once


def _params(
    scores: Scores,
    entries: RowEntries,
    rows: PartRows,
    numbers: PartRows | None,
    channels: int,
    shape: tuple[int, int, int],
    found: AttentionSums,
) -> Params:
    longest, lanes, across = shape
    params = _PARAMS(
        begins=entries.begins.data_ptr(),
        ends=entries.ends.data_ptr(),
        rows=entries.rows,
        places=address(entries.places),
        place_bytes=0 if entries.places is None else entries.places.element_size(),
        slope=scores.slope,
        scale=scores.scale,
        heads=scores.heads,
        channels=channels,
        longest=longest,
        out=found.out.data_ptr(),
        second=address(found.second),
        out_number=found.number.data_ptr(),
        lanes=lanes,
        across=across,
    )
    params.__setattr__("from", rows.words)
    if numbers is not None:
        params.numbers = numbers.words
    return params


def _join_pieces(
    of_rows: RowEntries, numbers: Tensor, parts: AttentionSums, found: AttentionSums, way: str, heads: int
) -> None:
    """The results of long rows, which have these numbers, from those of their pieces."""
    if way == "forward":
        zero, of = parts.number.new_zeros(of_rows.rows, heads), (PartRows(parts.out), PartRows(parts.number))
        as_scores = Scores("gat", heads, slope=1.0)
        _fill(found, numbers, as_scores, "forward", of_rows, *of, {"number": zero.data_ptr()})
        return
    for part, to in zip(parts, found, strict=True):
        if part is not None and to is not None:
            aggregate_rows(of_rows, PartRows(part), to, row_numbers=numbers)


def _run(params: Params, kind: str, way: str, entries: RowEntries, rows: PartRows, form: tuple[int, int]) -> None:
    name, number = ELEMENTS[rows.own.dtype]
    (score, score_code), (called_pass, pass_code) = SCORES[kind], PASSES[way]
    if not rows.own.is_cuda:
        params.lanes = params.across = 1
        _core.attend(params.address, number, score_code, pass_code)
        return
    of = (name, place_name(entries), source_name(rows), *form, f"Score::{score}", f"AttentionPass::{called_pass}")
    called = instance("attention_kernel", *of)
    blocks = -(-(params.pieces + params.rows) * params.heads * params.lanes // _THREADS)
    launch(KERNELS, called, rows.own.device, blocks, _THREADS, params)
