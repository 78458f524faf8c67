"""What full-graph message passing is measured against: others' ways of it, each as short as torch allows.

All make ``A @ x`` for the rows of one part, ``[rows, D]``, of the rows of x that this part owns. They are prepared once, and
called many times. On one GPU: torch.sparse, cuSPARSE by ourselves, and PyG's layers. Over P processes with a GPU each, or with
gloo on CPUs: ``AllGather``, ``Halo`` and ``Ring``. ``Tiles`` reads memory that its GPU can address: that of other GPUs of the
process, that which ``shared_by_all`` opens, or pinned host memory. ``_fullgraph_in_process`` has GPUs of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._cusparse import SpMM

Multiply = Callable[[Tensor], Tensor]
PYG_LAYERS = ("gcn", "sage-mean", "sage-max", "gat", "gatv2")


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


def even_bounds(indptr: Tensor, parts: int, by: str) -> tuple[int, ...]:
    """Where rows are cut so that each part has as many rows as any (``by="rows"``), or as many edges (``"edges"``)."""
    vertices, edges = len(indptr) - 1, int(indptr[-1])
    if by == "rows":
        return tuple(vertices * part // parts for part in range(parts + 1))
    ends = torch.tensor([edges * part // parts for part in range(1, parts)], device=indptr.device, dtype=torch.int64)
    return (0, *torch.searchsorted(indptr, ends).clamp(max=vertices).tolist(), vertices)


def torch_sparse(offsets: Tensor, places: Tensor, weights: Tensor | None, columns: int, dtype: torch.dtype) -> Multiply:
    """torch.sparse's CSR ``@``, with ids of 32 bits where they fit."""
    index = torch.int32 if max(columns, len(places)) < 2**31 else torch.int64
    values = torch.ones(len(places), dtype=dtype, device=places.device) if weights is None else weights.to(dtype)
    size = (len(offsets) - 1, columns)
    matrix = torch.sparse_csr_tensor(offsets.to(index), places.to(index), values, size, check_invariants=False)
    return lambda x: matrix @ x


def cusparse(offsets: Tensor, places: Tensor, weights: Tensor | None, columns: int, algorithm: int | None = None) -> Multiply:
    """cuSPARSE by ourselves: one algorithm, or for None the fastest at the first call with a type and width."""
    product = Product(offsets, places, weights, columns, algorithm)
    return lambda x: product(x, x.new_empty(len(offsets) - 1, x.shape[1]))


class Product:
    """``out = A @ x + beta * out``: by cuSPARSE on a GPU, by torch.sparse on a CPU."""

    def __init__(
        self, offsets: Tensor, places: Tensor, weights: Tensor | None, columns: int, algorithm: int | None = None
    ) -> None:
        self._given, self._algorithm = (offsets, places, weights, columns), algorithm
        self._spmm = SpMM(*self._given) if offsets.device.type == "cuda" else None
        self._tuned: set[tuple[torch.dtype, int]] = set()

    def __call__(self, x: Tensor, out: Tensor, beta: float = 0.0) -> Tensor:
        if not len(self._given[1]):
            return out.mul_(beta) if beta else out.zero_()
        if self._spmm is None:
            made = torch_sparse(*self._given, x.dtype)(x)
            return out.mul_(beta).add_(made) if beta else out.copy_(made)
        if self._algorithm is None and (x.dtype, x.shape[1]) not in self._tuned:
            self._tuned.add((x.dtype, x.shape[1]))
            self._spmm.best(x)
        return self._spmm.run(x, out, beta, self._algorithm)


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


def pyg_layer(name: str, columns: int, width: int) -> torch.nn.Module | None:
    """One of PYG_LAYERS as PyG has it, called with (x, edge_index); attention with four heads of ``width // 4``. It adds no
    self loops, as ours do not. None where torch_geometric is not installed."""
    try:
        from torch_geometric import nn
    except ImportError:
        return None
    heads: dict[str, Any] = {"heads": 4, "add_self_loops": False}
    makes: dict[str, Callable[[], torch.nn.Module]] = {
        "gcn": lambda: nn.GCNConv(columns, width, cached=True, add_self_loops=False),
        "sage-mean": lambda: nn.SAGEConv(columns, width, aggr="mean"),
        "sage-max": lambda: nn.SAGEConv(columns, width, aggr="max"),
        "gat": lambda: nn.GATConv(columns, width // 4, **heads),
        "gatv2": lambda: nn.GATv2Conv(columns, width // 4, **heads),
    }
    return makes[name]()


def pyg_edges(offsets: Tensor, places: Tensor) -> Tensor:
    """The ``edge_index`` int64 ``[2, edges]`` of a CSR, ordered by target, as PyG has it."""
    targets = torch.repeat_interleave(torch.arange(len(offsets) - 1, device=offsets.device), offsets.diff())
    return torch.stack((places.long(), targets))


def pyg_matrix(offsets: Tensor, places: Tensor, columns: int, dtype: torch.dtype) -> Tensor:
    """The same for layers that multiply by a matrix (gcn, sage-mean): PyG takes torch.sparse's CSR in the place of edges."""
    values = torch.ones(len(places), dtype=dtype, device=places.device)
    return torch.sparse_csr_tensor(offsets.long(), places.long(), values, (len(offsets) - 1, columns), check_invariants=False)


class AllGather:
    """``all_gather_into_tensor`` of all rows, and torch.sparse. Parts are padded to the largest, as that collective wants."""

    def __init__(self, shard: Shard, dtype: torch.dtype, group: dist.ProcessGroup | None = None) -> None:
        bounds = torch.tensor(shard.bounds, device=shard.halo.device)
        self._group, self._parts, self._most = group, len(bounds) - 1, int(bounds.diff().max())
        columns = shard.columns()
        owners = torch.searchsorted(bounds, columns, right=True) - 1
        padded = columns - bounds[owners] + owners * self._most
        self._multiply = torch_sparse(shard.offsets, padded, shard.weights, self._parts * self._most, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        whole = x.new_empty(self._parts * self._most, x.shape[1])
        if len(x) < self._most:
            x = torch.nn.functional.pad(x, (0, 0, 0, self._most - len(x)))
        dist.all_gather_into_tensor(whole, x.contiguous(), group=self._group)
        return self._multiply(whole)


class Halo:
    """Each remote row once by ``all_to_all_single``, and cuSPARSE: when all are there, or with ``overlap`` of the own rows
    meanwhile and of the others then."""

    def __init__(self, shard: Shard, overlap: bool = False, group: dist.ProcessGroup | None = None) -> None:
        self._shard, self._group, self._receives = shard, group, shard.halo_counts
        device = shard.halo.device
        wanted = torch.tensor(self._receives, device=device)
        asked = torch.empty_like(wanted)
        dist.all_to_all_single(asked, wanted, group=group)
        self._sends = asked.tolist()
        self._serves = torch.empty(sum(self._sends), dtype=torch.int64, device=device)
        dist.all_to_all_single(self._serves, shard.halo, self._sends, self._receives, group=group)
        self._serves -= shard.bounds[shard.rank]
        if overlap:
            self._products: tuple[Product, ...] = own_and_others(shard)
        else:
            self._products = (Product(shard.offsets, shard.places, shard.weights, shard.rows + len(shard.halo)),)
        self._table: Tensor | None = None

    def rows(self, width: int, dtype: torch.dtype) -> Tensor:
        """``[rows, width]``, where x lies best: x from elsewhere is copied there first."""
        height = self._shard.rows + len(self._shard.halo)
        if self._table is None or (self._table.shape[1], self._table.dtype) != (width, dtype):
            self._table = torch.empty(height, width, dtype=dtype, device=self._shard.halo.device)
        return self._table[: self._shard.rows]

    def __call__(self, x: Tensor) -> Tensor:
        own = self.rows(x.shape[1], x.dtype)
        assert self._table is not None
        if x.data_ptr() != own.data_ptr():
            own.copy_(x)
        out, halo = own.new_empty(own.shape), self._table[self._shard.rows :]
        work = dist.all_to_all_single(halo, own[self._serves], self._receives, self._sends, group=self._group, async_op=True)
        if len(self._products) == 1:
            work.wait()
            return self._products[0](self._table, out)
        self._products[0](own, out)
        work.wait()
        return self._products[1](halo, out, 1.0)


class Ring:
    """MG-GCN's way: each part's rows are broadcast in turn, into one of two buffers, while the block before is multiplied."""

    def __init__(self, shard: Shard, group: dist.ProcessGroup | None = None) -> None:
        self._shard, self._group, self._blocks = shard, group, blocks(shard)
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
        source = part if self._group is None else dist.get_global_rank(self._group, part)
        return rows, dist.broadcast(rows, source, group=self._group, async_op=True)


class Tiles:
    """ROC's way: the copy engine brings one part's rows after the other, and each is multiplied when it is there: no overlap.

    ``tables[p]``: where part p's rows lie, in another GPU's memory or in pinned host memory; this part's own may be its GPU's.
    The caller sees to it that they are written before, and not again until all have read them. ``home``: host memory to which
    the result is copied at the end, as ROC does.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard, self._blocks = shard, blocks(shard)

    def __call__(self, tables: Sequence[Tensor], home: Tensor | None = None) -> Tensor:
        device, width = self._shard.halo.device, tables[0].shape[1]
        out = torch.empty(self._shard.rows, width, dtype=tables[0].dtype, device=device)
        tile = out.new_empty(max(map(len, tables)), width)
        for part, (table, block) in enumerate(zip(tables, self._blocks, strict=True)):
            rows = table if table.device == device else tile[: len(table)].copy_(table, non_blocking=True)
            block(rows, out, 1.0 if part else 0.0)
        if home is not None:
            home.copy_(out, non_blocking=True)
        return out


def shared_by_all(x: Tensor, group: dist.ProcessGroup | None = None) -> list[Tensor]:
    """Each process's ``x``, through CUDA IPC: every process must see all GPUs, and every x outlive the others' use of it."""
    from torch.multiprocessing.reductions import reduce_tensor

    handles: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(handles, reduce_tensor(x), group=group)
    own = dist.get_rank(group)
    return [x if part == own else make(*arguments) for part, (make, arguments) in enumerate(handles)]
