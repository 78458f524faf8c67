"""What full-graph message passing is measured against: others' ways of it, each as short as torch allows.

All make ``A @ x`` for the rows of one part, ``[rows, D]``, of the rows of x that this part owns. They are prepared once, and
called many times. Over P processes with a GPU each, or with gloo on CPUs: ``AllGather``, ``Halo`` and ``Ring``.
``_fullgraph_in_process`` has GPUs of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor

from ._cusparse import SpMM

Multiply = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Shard:
    """One part's rows of a graph whose rows are cut at ``bounds``: the arrays of hinterland.fullgraph's Part, without hubs.

    Attributes:
        offsets: int64 ``[rows + 1]``.
        places: ``[edges]``: below ``rows`` a row of this part, else rows + slot in ``halo``.
        weights: ``[edges]``, or None.
        halo: int64 ``[h]``, ascending: rows of other parts, by their numbers in the whole.
    """

    rank: int
    bounds: tuple[int, ...]
    offsets: Tensor
    places: Tensor
    weights: Tensor | None
    halo: Tensor

    @property
    def rows(self) -> int:
        return self.bounds[self.rank + 1] - self.bounds[self.rank]

    @property
    def halo_counts(self) -> list[int]:
        """How many rows of each part are in the halo."""
        ends = torch.searchsorted(self.halo, torch.tensor(self.bounds, device=self.halo.device))
        return ends.diff().tolist()

    def columns(self) -> Tensor:
        """The places by their numbers in the whole, int64."""
        begin = self.bounds[self.rank]
        return torch.cat((torch.arange(begin, begin + self.rows, device=self.halo.device), self.halo))[self.places]

    def only(self, taken: Tensor) -> tuple[Tensor, Tensor | None]:
        """Offsets and weights of those edges for which ``taken`` ``[edges]`` is true."""
        before = taken.new_zeros(len(taken) + 1, dtype=torch.int64)
        torch.cumsum(taken, 0, out=before[1:])
        return before[self.offsets], None if self.weights is None else self.weights[taken]


def cut(
    indptr: Tensor, indices: Tensor, weights: Tensor | None, bounds: Sequence[int], rank: int, device: torch.device | str
) -> Shard:
    """The shard of rows ``bounds[rank]`` to ``bounds[rank + 1]``, made on ``device`` and kept there."""
    begin, end = bounds[rank], bounds[rank + 1]
    first, last = indptr[[begin, end]].tolist()
    columns = indices[first:last].to(device, torch.int64)
    own = (columns >= begin) & (columns < end)
    halo = columns[~own].unique()
    places = torch.where(own, columns - begin, torch.searchsorted(halo, columns) + (end - begin))
    return Shard(
        rank,
        tuple(bounds),
        (indptr[begin : end + 1] - first).to(device),
        places.to(torch.int32 if end - begin + len(halo) < 2**31 else torch.int64),
        None if weights is None else weights[first:last].to(device),
        halo,
    )


def even_bounds(indptr: Tensor, parts: int) -> tuple[int, ...]:
    """Where rows are cut so that each part has as many edges as any."""
    vertices, edges = len(indptr) - 1, int(indptr[-1])
    ends = torch.tensor([edges * part // parts for part in range(1, parts)], device=indptr.device, dtype=torch.int64)
    return (0, *torch.searchsorted(indptr, ends).clamp(max=vertices).tolist(), vertices)


def torch_sparse(offsets: Tensor, places: Tensor, weights: Tensor | None, columns: int, dtype: torch.dtype) -> Multiply:
    """torch.sparse's CSR ``@``, with ids of 32 bits where they fit."""
    index = torch.int32 if max(columns, len(places)) < 2**31 else torch.int64
    values = torch.ones(len(places), dtype=dtype, device=places.device) if weights is None else weights.to(dtype)
    size = (len(offsets) - 1, columns)
    matrix = torch.sparse_csr_tensor(offsets.to(index), places.to(index), values, size, check_invariants=False)
    return lambda x: matrix @ x


class Product:
    """``out = A @ x + beta * out``: on a GPU by the algorithm of cuSPARSE that is the fastest at the first call with a type and
    a width, on a CPU by torch.sparse."""

    def __init__(self, offsets: Tensor, places: Tensor, weights: Tensor | None, columns: int) -> None:
        self._given = (offsets, places, weights, columns)
        self._spmm = SpMM(*self._given) if offsets.device.type == "cuda" else None
        self._fastest: dict[tuple[torch.dtype, int], int] = {}

    def __call__(self, x: Tensor, out: Tensor, beta: float = 0.0) -> Tensor:
        if not len(self._given[1]):
            return out.mul_(beta) if beta else out.zero_()
        if self._spmm is None:
            made = torch_sparse(*self._given, x.dtype)(x)
            return out.mul_(beta).add_(made) if beta else out.copy_(made)
        kind = x.dtype, x.shape[1]
        if kind not in self._fastest:
            self._fastest[kind] = self._spmm.fastest(x)
        return self._spmm.run(x, out, beta, self._fastest[kind])


def blocks(shard: Shard) -> list[Product]:
    """For each part the product with its rows, ``[rows of that part, D]``."""
    columns, found = shard.columns(), []
    for begin, end in pairwise(shard.bounds):
        taken = (columns >= begin) & (columns < end)
        offsets, weights = shard.only(taken)
        found.append(Product(offsets, (columns[taken] - begin).to(shard.places.dtype), weights, end - begin))
    return found


def own_and_others(shard: Shard) -> tuple[Product, Product]:
    """The product with the part's own rows, and that with the halo."""
    own = shard.places < shard.rows
    (offsets, weights), (others, their) = shard.only(own), shard.only(~own)
    return (
        Product(offsets, shard.places[own], weights, shard.rows),
        Product(others, shard.places[~own] - shard.rows, their, len(shard.halo)),
    )


class AllGather:
    """``all_gather_into_tensor`` of all rows, and torch.sparse. Parts are padded to the largest, as that collective wants."""

    def __init__(self, shard: Shard, dtype: torch.dtype) -> None:
        bounds = torch.tensor(shard.bounds, device=shard.halo.device)
        self._parts, self._most = len(bounds) - 1, int(bounds.diff().max())
        columns = shard.columns()
        owners = torch.searchsorted(bounds, columns, right=True) - 1
        padded = columns - bounds[owners] + owners * self._most
        self._multiply = torch_sparse(shard.offsets, padded, shard.weights, self._parts * self._most, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        whole = x.new_empty(self._parts * self._most, x.shape[1])
        if len(x) < self._most:
            x = torch.nn.functional.pad(x, (0, 0, 0, self._most - len(x)))
        dist.all_gather_into_tensor(whole, x.contiguous())
        return self._multiply(whole)


class Halo:
    """Each remote row once by ``all_to_all_single``, and cuSPARSE: of the own rows meanwhile, and of the others then."""

    def __init__(self, shard: Shard) -> None:
        self._receives, self._products = shard.halo_counts, own_and_others(shard)
        device = shard.halo.device
        wanted = torch.tensor(self._receives, device=device)
        asked = torch.empty_like(wanted)
        dist.all_to_all_single(asked, wanted)
        self._sends = asked.tolist()
        self._serves = torch.empty(sum(self._sends), dtype=torch.int64, device=device)
        dist.all_to_all_single(self._serves, shard.halo, self._sends, self._receives)
        self._serves -= shard.bounds[shard.rank]

    def __call__(self, x: Tensor) -> Tensor:
        out, halo = x.new_empty(x.shape), x.new_empty(sum(self._receives), x.shape[1])
        work = dist.all_to_all_single(halo, x[self._serves], self._receives, self._sends, async_op=True)
        self._products[0](x, out)
        work.wait()
        return self._products[1](halo, out, 1.0)


class Ring:
    """MG-GCN's way: each part's rows are broadcast in turn, into one of two buffers, while the block before is multiplied."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self._blocks = shard, blocks(shard)
        self._sizes = [end - begin for begin, end in pairwise(shard.bounds)]

    def __call__(self, x: Tensor) -> Tensor:
        buffers = [x.new_empty(max(self._sizes), x.shape[1]) for _ in range(2)]
        out, x = x.new_empty(self._shard.rows, x.shape[1]), x.contiguous()
        # A broadcast waits for what the stream has at its call: for the product that read its buffer, not for the one after.
        coming = self._broadcast(0, x, buffers)
        for part, block in enumerate(self._blocks):
            rows, work = coming
            work.wait()
            if part + 1 < len(self._blocks):
                coming = self._broadcast(part + 1, x, buffers)
            block(rows, out, 1.0 if part else 0.0)
        return out

    def _broadcast(self, part: int, x: Tensor, buffers: list[Tensor]) -> tuple[Tensor, dist.Work]:
        rows = x if part == self._shard.rank else buffers[part % 2][: self._sizes[part]]
        return rows, dist.broadcast(rows, part, async_op=True)
