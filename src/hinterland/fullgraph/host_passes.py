"""Sums, maxima and attention over rows that come in blocks: what tables each needs, and what it makes of them block by block.

A reduction goes through a graph's rows twice: first rows of neighbours fill tables on the GPU, then each block's results are
made of the tables and of the block's own rows. Gradients go along the edges turned round in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .aggregate_launch import PartRows, RowEntries, aggregate_rows, compute_type
from .attend import Scores, attend
from .partitioned import PartitionedGraph
from .reduce import Operation

Name = int | str  # of a block's rows: the number of an input, or "out" and "extra" (the results), or "grad" (of "out")


@dataclass
class RowBlock:
    """Rows ``[first, last)`` of a part.

    Attributes:
        part: which of this process's parts.
        rows: by name.
        kept: of the part, what a pass leaves for the next: ``[n, ...]`` tensors by name.
        tables: in the second half of a pass, where neighbours' rows lie.
        parameters: of the reduction, on the part's device.
    """

    part: int
    first: int
    last: int
    size: int
    rows: dict[Name, Tensor]
    kept: dict[str, Tensor]
    parameters: Sequence[Tensor] = ()
    tables: list[PartRows] = field(default_factory=list)

    def __getitem__(self, name: Name) -> Tensor:
        return self.rows[name]

    def of(self, array: Tensor) -> Tensor:
        """The block's part of what belongs to all rows."""
        return array[self.first : self.last]

    def entries(self, p: PartitionedGraph, weights: torch.dtype | None = None) -> RowEntries:
        """Of the block's rows, with the graph's weights in a type or without."""
        return p.entries("all", weights)[self.part].between(self.first, self.last)

    def keep(self, name: str, rows: Tensor) -> None:
        """Leaves rows for the next pass."""
        if name not in self.kept:
            self.kept[name] = rows.new_empty(self.size, *rows.shape[1:])
        self.of(self.kept[name]).copy_(rows)


@dataclass(frozen=True)
class HostPass:
    """Once through all rows of a part.

    Attributes:
        turned: whether it goes along the edges turned round.
        fills: which rows of a block ``fill`` makes the tables' rows of; none where there are no tables.
        needs: which rows of a block ``step`` takes.
        step: gives the block's results by name, or gradients by input (an int) or of the parameter (``"parameter"``).
        gives: of which inputs it gives gradients.
        table, kept, made: bytes that a row takes of tables, of what passes leave for each other, and of what ``step`` makes.
        splits: whether columns can be gone through one after another.
    """

    turned: bool
    fills: tuple[Name, ...]
    fill: Callable[[RowBlock], list[Tensor]]
    needs: tuple[Name, ...]
    step: Callable[[RowBlock], dict[Name, Tensor]]
    gives: tuple[int, ...] = ()
    table: int = 0
    kept: int = 0
    made: int = 0
    splits: bool = False


class Reduction(ABC):
    """What is made of the neighbours' rows of a partitioned graph."""

    def __init__(self, p: PartitionedGraph) -> None:
        self.p = p

    def extra(self, out: Tensor) -> tuple[int, torch.dtype] | None:
        """Width and type of what the gradient needs besides results like ``out``."""
        return None

    @abstractmethod
    def forward(self, inputs: Sequence[Tensor], out: Tensor) -> HostPass:
        """The pass that makes rows like ``out`` of rows like ``inputs``."""

    @abstractmethod
    def backward(self, inputs: Sequence[Tensor], out: Tensor) -> list[HostPass]:
        """Those that make gradients by the inputs."""


class Sums(Reduction):
    """The rows of an operation ``"sum"``."""

    def __init__(self, p: PartitionedGraph, operation: Operation) -> None:
        super().__init__(p)
        self.operation = operation

    def forward(self, inputs: Sequence[Tensor], out: Tensor) -> HostPass:
        size = _bytes(out)
        return HostPass(False, (0,), lambda b: [b[0]], (), self._summed, table=size, made=size, splits=True)

    def backward(self, inputs: Sequence[Tensor], out: Tensor) -> list[HostPass]:
        size = _bytes(out)
        return [HostPass(True, ("grad",), self._scaled, (), self._pulled, (0,), table=size, made=2 * size, splits=True)]

    def _summed(self, b: RowBlock) -> dict[Name, Tensor]:
        return {"out": self._over(self.p, b, self.operation.scale)}

    def _scaled(self, b: RowBlock) -> list[Tensor]:
        scale = self.operation.scale
        return [b["grad"] if scale is None else b["grad"] * b.of(scale[b.part])[:, None].to(b["grad"].dtype)]

    def _pulled(self, b: RowBlock) -> dict[Name, Tensor]:
        return {0: self._over(self.p.transposed, b, None)}

    def _over(self, p: PartitionedGraph, b: RowBlock, scale: Sequence[Tensor] | None) -> Tensor:
        rows, own = b.tables[0], self.operation.own
        return aggregate_rows(
            b.entries(p, compute_type(rows.own.dtype) if self.operation.weighted else None),
            rows,
            rows.own.new_empty(b.last - b.first, rows.own.shape[1]),
            own=None if own is None else b.of(own[b.part]),
            first_row=b.first,
            scale=None if scale is None else b.of(scale[b.part]),
        )


class Maxima(Reduction):
    """Maxima by element; its gradient is shared by all that reach it."""

    def extra(self, out: Tensor) -> tuple[int, torch.dtype]:
        return out.shape[1], compute_type(out.dtype)

    def forward(self, inputs: Sequence[Tensor], out: Tensor) -> HostPass:
        size = _bytes(out)
        return HostPass(False, (0,), lambda b: [b[0]], (), self._highest, table=size, made=size + _computed(out))

    def backward(self, inputs: Sequence[Tensor], out: Tensor) -> list[HostPass]:
        size = _bytes(out)
        return [HostPass(True, ("out", "extra", "grad"), self._shares, (0,), self._matched, (0,), 2 * size, 0, 5 * size)]

    def _highest(self, b: RowBlock) -> dict[Name, Tensor]:
        rows = b.tables[0]
        entries = b.entries(self.p)
        out = rows.own.new_empty(b.last - b.first, rows.own.shape[1])
        aggregate_rows(entries, rows, out, "max", degrees=b.of(self.p.parts[b.part].degrees))
        counts = torch.empty_like(out, dtype=compute_type(out.dtype))
        return {"out": out, "extra": aggregate_rows(entries, rows, counts, "count", mine=out)}

    def _shares(self, b: RowBlock) -> list[Tensor]:
        return [torch.cat([b["out"], b["grad"] / b["extra"].clamp(min=1).to(b["grad"].dtype)], 1)]

    def _matched(self, b: RowBlock) -> dict[Name, Tensor]:
        mine = b[0].contiguous()
        entries = b.entries(self.p.transposed)
        return {0: aggregate_rows(entries, b.tables[0], torch.empty_like(mine), "match", mine=mine)}


class AttentionReduction(Reduction):
    """Sums weighted by a softmax of scores: inputs are, as of :func:`.attention.attention`, what is summed and what is the
    summing vertex's own, with ``"gat"`` s and t behind it; the parameter of ``"gatv2"`` is a."""

    def __init__(self, p: PartitionedGraph, scores: Scores, width: int) -> None:
        super().__init__(p)
        self.scores, self.width, self.is_gat = scores, width, scores.kind == "gat"

    def extra(self, out: Tensor) -> tuple[int, torch.dtype]:
        return self.scores.heads, compute_type(out.dtype)

    def forward(self, inputs: Sequence[Tensor], out: Tensor) -> HostPass:
        number = _numbers(self.scores.heads, out)
        table, kept = (_bytes(inputs[0]) + number, number) if self.is_gat else (_bytes(inputs[0]), 0)
        made = _bytes(out) + _computed(out) + number
        return HostPass(False, self._read, self._tables, self._own, self._attended, (), table, kept, made)

    def backward(self, inputs: Sequence[Tensor], out: Tensor) -> list[HostPass]:
        number, wide = _numbers(self.scores.heads, out), _computed(out)
        kept = (4 if self.is_gat else 2) * number  # logarithms, deltas, t and its gradient
        read, table = (*self._own, "grad", "out", "extra"), _bytes(inputs[0]) + (number if self.is_gat else 0)
        by_target = HostPass(
            False,
            self._read,
            self._tables,
            read,
            self._by_target,
            () if self.is_gat else (1,),
            table,
            kept,
            4 * wide + 3 * number,
        )
        fills, needs, gives = (("grad",), (0, 1), (0, 1, 2)) if self.is_gat else (("grad", 1), (0,), (0,))
        table = _bytes(out) + (0 if self.is_gat else _bytes(inputs[1])) + 3 * number
        by_source = HostPass(True, fills, self._gradients, needs, self._by_source, gives, table, kept, 6 * wide + 4 * number)
        return [by_target, by_source]

    @property
    def _read(self) -> tuple[Name, ...]:
        return (0, 1, 2) if self.is_gat else (0,)

    @property
    def _own(self) -> tuple[Name, ...]:
        return () if self.is_gat else (1,)

    def _tables(self, b: RowBlock) -> list[Tensor]:
        if self.is_gat:  # t is narrow, and is kept: rows need not come again for it
            b.keep("t", b[2].to(compute_type(b[0].dtype)))
            return [b[0], b[1].to(compute_type(b[0].dtype))]
        return [b[0]]

    def _given(self, b: RowBlock) -> dict[str, Tensor]:
        if self.is_gat:
            return {"number": b.of(b.kept["t"])}
        return {"row": b[1].contiguous(), **self._vector(b, b[1])}

    def _vector(self, b: RowBlock, rows: Tensor) -> dict[str, Tensor]:
        """The parameter of ``"gatv2"``, in the type that is computed in."""
        return {"vector": b.parameters[0].to(compute_type(rows.dtype))} if self.scores.kind == "gatv2" else {}

    def _attended(self, b: RowBlock) -> dict[Name, Tensor]:
        entries = b.entries(self.p)
        rows, numbers = b.tables[0], b.tables[1] if self.is_gat else None
        found = attend(self.scores, "forward", entries, rows, numbers, self.width, first_row=b.first, **self._given(b))
        return {"out": found.out.to(rows.own.dtype), "extra": found.number}

    def _by_target(self, b: RowBlock) -> dict[Name, Tensor]:
        kind, heads = compute_type(b["out"].dtype), self.scores.heads
        grad = b["grad"].contiguous()
        delta = (grad.to(kind) * b["out"]).view(len(grad), heads, self.width // heads).sum(2)
        logarithm = b["extra"].contiguous()
        b.keep("logarithm", logarithm)
        b.keep("delta", delta)
        entries = b.entries(self.p)
        rows, numbers = b.tables[0], b.tables[1] if self.is_gat else None
        own = {**self._given(b), "gradient": grad, "logarithm": logarithm, "delta": delta}
        found = attend(self.scores, "target", entries, rows, numbers, self.width, first_row=b.first, **own)
        if self.is_gat:
            b.keep("of t", found.number)
            return {}
        summed: dict[Name, Tensor] = {} if found.second is None else {"parameter": found.second.sum(0)}
        return {1: found.out, **summed}

    def _gradients(self, b: RowBlock) -> list[Tensor]:
        first = b.of(b.kept["t"]) if self.is_gat else torch.zeros_like(b.of(b.kept["delta"]))
        numbers = torch.cat([first, b.of(b.kept["logarithm"]), b.of(b.kept["delta"])], 1)
        return [b["grad"] if self.is_gat else torch.cat([b["grad"], b[1]], 1), numbers]

    def _by_source(self, b: RowBlock) -> dict[Name, Tensor]:
        entries = b.entries(self.p.transposed)
        own = {"row": b[0].contiguous()}
        if self.is_gat:
            own["number"] = b[1].to(compute_type(b[0].dtype)).contiguous()
        rows, numbers = b.tables
        found = attend(
            self.scores, "source", entries, rows, numbers, self.width, first_row=b.first, **own, **self._vector(b, b[0])
        )
        if self.is_gat:
            return {0: found.out, 1: found.number, 2: b.of(b.kept["of t"])}
        if found.second is not None:
            return {0: torch.cat([found.second, found.out], 1)}
        return {0: found.out}


class Same(Reduction):
    """The rows themselves: the end of a computation, whose functions of rows nothing else would ask for."""

    def forward(self, inputs: Sequence[Tensor], out: Tensor) -> HostPass:
        return HostPass(False, (), lambda b: [], (0,), lambda b: {"out": b[0]}, made=_bytes(out))

    def backward(self, inputs: Sequence[Tensor], out: Tensor) -> list[HostPass]:
        return [HostPass(True, (), lambda b: [], ("grad",), lambda b: {0: b["grad"]}, (0,), made=_bytes(out))]


def _bytes(rows: Tensor) -> int:
    """Of a row."""
    return rows.shape[1] * rows.element_size()


def _computed(rows: Tensor) -> int:
    """Of a row in the type that is computed in."""
    return rows.shape[1] * compute_type(rows.dtype).itemsize


def _numbers(heads: int, rows: Tensor) -> int:
    """Of a row's number for each head."""
    return heads * compute_type(rows.dtype).itemsize
