"""What one part of a graph that is divided among several devices holds: its lists, translated to where rows lie.

MGG (OSDI 2023, section 4.1) keeps two CSRs for each device, of local and of remote neighbours. Here they are one, whose rows
have the local neighbours first, then those of one owner after those of another; remote rows are read once each, into the halo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import torch

from .. import _core
from ..graph import arrays
from ..graph.graph import Graph, require_graph
from ..memory.copies import moved
from ..runtime import arguments, devices
from ..runtime.errors import GraphError
from ..runtime.params import Params, address, struct
from ..runtime.repr import Repr
from ..table import UnifiedTensor
from .split import Split

_PARAMS = struct("fullgraph::PartParams")
_PIECE = 1 << 16  # neighbours of a hub that a thread takes at once, as native/graph/row_loops.hpp has it


@dataclass(frozen=True, repr=False, eq=False)
class Part(Repr):
    """The share of one part: n rows that it owns, and H partial rows, one for each hub of the whole graph.

    Attributes:
        rank: which part it is.
        rows: n.
        offsets: int64 ``[n + H + 1]``; row i has entries ``[offsets[i], offsets[i + 1])``. The row of a hub that is owned is
            empty, since row ``n + k`` has what this part owns of the neighbours of hub k.
        split: int64 ``[n + H]``; entries ``[offsets[i], split[i])`` of row i are local, ``[split[i], offsets[i + 1])`` remote.
            Local ones are in the order of the graph's list, remote ones by their slots; a hub's are local alone.
        places: int32 or, where ``n + h >= 2**31``, int64 ``[edges]``; where an entry's row lies: below n the number of an own
            row, from n on n + its slot in ``halo``.
        weights: ``[edges]``, the graph's, of its type, or None.
        halo: int64 ``[h]``, ascending and so grouped by owner; the partition's numbers of the rows of others that are read,
            and of all rows of a part of which most are.
        halo_offsets: ``parts + 1`` numbers; slots ``[halo_offsets[p], halo_offsets[p + 1])`` are rows of part p.
        degrees: int64 ``[n]``; neighbours of each own row in the whole graph, those of hubs as well.
    """

    rank: int
    rows: int
    offsets: torch.Tensor
    split: torch.Tensor
    places: torch.Tensor
    weights: torch.Tensor | None
    halo: torch.Tensor
    halo_offsets: tuple[int, ...]
    degrees: torch.Tensor

    def entries_of(self, owner: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each own row's entries begin and end that name rows of another part: int64 ``[n]`` each."""
        first, last = self.halo_offsets[owner : owner + 2]
        return self._first_at_least(self.rows + first), self._first_at_least(self.rows + last)

    def _first_at_least(self, place: int) -> torch.Tensor:
        """Of each own row's remote entries the first whose place is not below ``place``, by halving."""
        low, high = self.split[: self.rows].clone(), self.offsets[1 : self.rows + 1].clone()
        steps = int((high - low).max()).bit_length() if self.rows and len(self.places) else 0
        for _ in range(steps):
            middle = (low + high) >> 1
            below = (low < high) & (self.places[middle.clamp(max=len(self.places) - 1)] < place)
            low, high = torch.where(below, middle + 1, low), torch.where(below, high, middle)
        return low

    def to(self, device: torch.device | str | int) -> Part:
        """The part with its arrays on ``device``; those that lie there already are shared.

        Raises:
            DeviceError: the device is not there.
        """
        device = devices.as_device(device)
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        there: dict[str, Any] = {name: moved(a, device) for name, a in held.items() if isinstance(a, torch.Tensor)}
        return replace(self, **there)


def build_part(graph: Graph, split: Split, rank: int) -> Part:
    """The share of part ``rank`` of ``graph``, by all threads, in memory for it and two bits for each vertex of the graph.

    The graph's lists are read where they lie, twice. Those of a compressed graph are decoded, and those on storage read, at
    each call: ``decompress`` a graph of which several parts are made in one process.

    Args:
        graph: directed CSR; the row of v is summed over ``indices[indptr[v]:indptr[v + 1]]``. Vertices are the user's.
        split: what :func:`.split` gave for this graph.
        rank: 0 to ``split.parts - 1``.

    Returns:
        The part, on the CPU.

    Raises:
        ConfigError: ``rank`` is no part, or the split is one of a graph with another number of vertices.
        GraphError: the graph's arrays were changed since it was made.
    """
    require_graph(graph)
    rank = arguments.whole_number("rank", rank, 0, split.parts - 1)
    own, numbers = split.graph_numbers(graph)
    indptr, indices, weights = graph.checked_rows()
    first, last = split.bounds[rank : rank + 2]
    rows = torch.arange(first, last) if own is None else own[first:last]
    degrees = indptr[rows + 1] - indptr[rows]
    mine = split.hubs[(split.hubs >= first) & (split.hubs < last)] - first
    lists = _Lists.of(indptr, rows, degrees.index_fill(0, mine, 0), split.hubs if own is None else own[split.hubs])
    if bool((lists.counts < 0).any()) or int(lists.counts.sum()) > graph.num_edges:
        raise _changed()
    before, local = _sums(lists.counts), torch.zeros_like(lists.counts)
    words = -(-graph.num_vertices // 64)
    marks, ranks = torch.zeros(words, dtype=torch.int64), torch.zeros(words + 1, dtype=torch.int64)
    bounds = torch.tensor(split.bounds)
    params = _PARAMS(
        begins=address(lists.begins),
        before=address(before),
        lists=len(lists.begins),
        neighbors=address(indices),
        neighbor_bytes=indices.itemsize,
        edges=graph.num_edges,
        vertices=graph.num_vertices,
        numbers=address(numbers),
        first=first,
        last=last,
        bounds=address(bounds),
        parts=split.parts,
        marks=address(marks),
        ranks=address(ranks),
        local=address(local),
    )
    if _core.survey_part(params.address) >= 0:
        arrays.check_neighbors(indices, graph.num_vertices)  # says which one is wrong
        raise _changed()
    n = last - first
    to = _sums(torch.cat([lists.counts[:n], local[n:]]))
    offsets = torch.cat([to[: n + 1], to[lists.hub_ends]])
    halo, places, carried = _fill(params, to, n, int(ranks[-1]), weights)
    return Part(
        rank=rank,
        rows=n,
        offsets=offsets,
        split=torch.cat([to[:n] + local[:n], offsets[n + 1 :]]),
        places=places,
        weights=carried,
        halo=halo,
        halo_offsets=tuple(torch.searchsorted(halo, bounds).tolist()),
        degrees=degrees,
    )


def translated(part: Part, bounds: Sequence[int], kind: str) -> torch.Tensor:
    """A part's places for rows that lie elsewhere than in a halo, on the part's device.

    Args:
        kind: ``"whole"``: a remote row is, behind the own ones, the row of its number among all. ``"direct"``: every row is its
            owner's number above the row's number there (``OwnersRows`` in fullgraph/part_rows.hpp).
    """
    parts, device = len(bounds) - 1, part.halo.device
    own = torch.arange(part.rows, device=device)
    if kind == "whole":
        table = torch.cat([own, part.rows + part.halo])
        return table.to(arrays.index_dtype(part.rows + bounds[-1]))[part.places]
    most = max(end - begin for begin, end in pairwise(bounds))
    first = torch.tensor(bounds, device=device)
    halo = [(p, part.halo[a:b] - first[p]) for p, (a, b) in enumerate(pairwise(part.halo_offsets))]
    return owned_places([(part.rank, own), *halo], most, parts)[part.places]


def owned_places(rows: Sequence[tuple[int, torch.Tensor]], most: int, parts: int) -> torch.Tensor:
    """Owners' numbers and their rows' as places, as OwnersRows reads them (fullgraph/part_rows.hpp); int32 where that has room
    for ``most`` rows of ``parts`` owners, else int64."""
    bits, wide = _core.ROW_BITS
    is_short = most < 1 << bits and parts <= 1 << 32 - bits
    places = torch.cat([numbers | owner << (bits if is_short else wide) for owner, numbers in rows])
    return places.to(torch.int32) if is_short else places


def served(halo_offsets: Sequence[Sequence[int]]) -> torch.Tensor:
    """How many rows others read from each part, each reader counted: what its link sends, in rows; int64 ``[parts]``.

    Args:
        halo_offsets: of all parts of one split, in the order of their ranks.
    """
    return torch.tensor(halo_offsets).diff(dim=1).sum(0)


@dataclass(frozen=True)
class _Lists:
    """Lists that a part reads: where each begins among the graph's edges, and how many entries it has.

    First those of its own rows, then the pieces of the hubs' lists, those of hub k up to list ``hub_ends[k]``.
    """

    begins: torch.Tensor
    counts: torch.Tensor
    hub_ends: torch.Tensor

    @classmethod
    def of(cls, indptr: torch.Tensor, rows: torch.Tensor, counts: torch.Tensor, hubs: torch.Tensor) -> _Lists:
        """The lists of ``rows``, so many entries of each, and of all ``hubs``, by the graph's own numbers."""
        begins = indptr[hubs]
        degrees = indptr[hubs + 1] - begins
        pieces = (degrees + _PIECE - 1).div(_PIECE, rounding_mode="floor").clamp(min=0)
        ends = pieces.cumsum(0)
        hub = torch.repeat_interleave(pieces)
        skipped = (torch.arange(len(hub)) - (ends - pieces)[hub]) * _PIECE
        return cls(
            torch.cat([indptr[rows], begins[hub] + skipped]),
            torch.cat([counts, (degrees[hub] - skipped).clamp(max=_PIECE)]),
            len(rows) + ends,
        )


def _fill(
    params: Params, to: torch.Tensor, rows: int, remote: int, weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The halo, of ``remote`` rows, the places and the weights of lists that were surveyed, whose entries ``to`` counts."""
    entries = int(to[-1])
    halo = torch.empty(remote, dtype=torch.int64)
    places = UnifiedTensor.empty(entries, arrays.index_dtype(rows + remote), "pageable").cpu()
    carried = None if weights is None else UnifiedTensor.empty(entries, weights.dtype, "pageable").cpu()
    params.to, params.halo, params.places, params.place_bytes = address(to), address(halo), address(places), places.itemsize
    if weights is not None:
        params.weights, params.to_weights, params.weight_bytes = address(weights), address(carried), weights.itemsize
    if not _core.fill_part(params.address):
        raise _changed()
    return halo, places, carried


def _sums(counts: torch.Tensor) -> torch.Tensor:
    """What comes before each, and the total."""
    sums = torch.zeros(len(counts) + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=sums[1:])
    return sums


def _changed() -> GraphError:
    return GraphError("the graph changed while a part was being made of it; make parts when nobody writes to its arrays")
