"""A model that was trained on mini-batches, applied to all vertices: one layer after another, each for all vertices.

A batch's neighbourhood grows with every layer, and batches compute the same vertices again. Here each layer is computed once
for every vertex, from the rows that the layer before made of all (Hamilton et al. 2017, Algorithm 1), which lie in host memory.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from ..datasets.summed import write
from ..graph import Graph
from ..graph.graph import require_graph
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, OutOfMemory
from ..runtime.files import check_place
from ..runtime.progress import progress
from ..runtime.thresholds import STEP_BYTES
from ..runtime.units import format_bytes, parse_bytes
from ..sampling import NeighborSampler
from ..table import UnifiedTensor
from .blocks import Block, blocks
from .models import GNN, PinSAGEConv
from .row_gather import rows_of

_DRAWN = (64, 80, 64)  # bytes that sampling and sums take of an edge, a source and a target, whatever the rows; at most
_OF_A_HEAD = 24  # bytes that attention takes of an edge


def infer(
    model: GNN,
    data: Any,
    *,
    out: torch.Tensor | str | Path | None = None,
    device: torch.device | str | int | None = None,
    batch_size: int | None = None,
    gpu_budget: int | str | None = None,
) -> torch.Tensor:
    """What a model makes of every vertex and all its neighbours, which are read in host memory: scores, or embeddings.

    The result is that of ``model(x, sample)`` on samples of whole lists (fanouts of -1), up to the rounding of sums.

    Args:
        model: a GNN, as ``train`` and ``make_model`` make it, but for "pinsage".
        data: what has ``graph`` and ``features``, as a Dataset; or a pair of them, whose graph lists whom a vertex hears from,
            as a Dataset's does (of one that ``load_graph`` has read ``graph.transpose()``, if messages go along its edges).
            Features are ``[num_vertices, width]``, a tensor or a table with ``gather``.
        out: where the result goes: a tensor ``[num_vertices, outputs]`` of the parameters' type; or the path of a ``.npy``
            file, which is written in blocks and appears when it is whole. None makes a tensor in host memory.
        device: where layers are computed; by default where the model lies. Elsewhere a copy of the model is.
        batch_size: most vertices that are computed together; None takes as many as fit.
        gpu_budget: bytes that computing may take besides the model, as ``"4GiB"``; by default half of what the GPU has free, or
            on the CPU 1 GiB, which a vertex with very many neighbours may exceed there.

    Returns:
        The result, by vertex, on the CPU: ``out`` if that is a tensor; of a file its mapping, in which changes are not written.

    Raises:
        ConfigError: a model, data or an ``out`` of another kind, type or shape.
        GraphError: the graph's lists are broken.
        OutOfMemory: the neighbours of one vertex do not fit in the budget; or results between layers do not fit in host memory,
            and there is no ``out`` beside which they can be written.
        StorageError: the file cannot be written.
    """
    graph, x = _parts(data)
    where = _check_model(model, device)
    if batch_size is not None:
        arguments.at_least_one("batch_size", batch_size, "computes nothing; use 1 or more")
    budget = None if gpu_budget is None else parse_bytes(gpu_budget)
    if isinstance(out, torch.Tensor):
        arguments.dense("out", out)
    elif out is not None:
        check_place(out := Path(arguments.path("out", out)))
    held = next(model.parameters())
    there = model if held.device == where else copy.deepcopy(model).to(where)
    was = there.training
    there.eval()
    try:
        with torch.no_grad(), devices.on(where):
            return _Layers(there, graph, held.dtype, where, batch_size, budget).all_of(x, out)
    finally:
        there.train(was)


def _parts(data: Any) -> tuple[Graph, Any]:
    is_pair = isinstance(data, tuple) and len(data) == 2
    graph, x = data if is_pair else (getattr(data, "graph", None), getattr(data, "features", None))
    if graph is None or x is None:
        raise ConfigError(f"data={arguments.repr_of(data)} has no graph and features; give a Dataset, or a pair of both")
    require_graph(graph)
    if not isinstance(x, torch.Tensor) and not hasattr(x, "gather"):
        raise ConfigError(f"features are a {type(x).__name__}; give a tensor, or a UnifiedTensor of it")
    if isinstance(x, torch.Tensor):
        arguments.dense("features", x)
    if len(x.shape) != 2 or len(x) != graph.num_vertices or x.dtype.is_complex:
        raise ConfigError(
            f"features are {x.dtype} of the shape {list(x.shape)}; they must be real, [{graph.num_vertices}, columns]: "
            "a row for each vertex"
        )
    return graph, x


def _check_model(model: Any, device: Any) -> torch.device:
    arguments.instance("model", model, GNN, "as make_model makes it; of one over a partitioned graph call model(x, p)")
    if any(isinstance(conv, PinSAGEConv) for conv in model.convs):
        raise ConfigError(
            "the neighbours of pinsage are those that random walks met most, not whole lists; apply it to batches"
        )
    return next(model.parameters()).device if device is None else devices.as_device(device)


class _Layers:
    """All layers of a model for all vertices of a graph."""

    def __init__(
        self, model: GNN, graph: Graph, dtype: torch.dtype, device: torch.device, most: int | None, budget: int | None
    ) -> None:
        self.model, self.dtype, self.device, self.most = model, dtype, device, most
        before = self._taken()
        self.sampler = NeighborSampler(graph, [-1], device=device)
        degrees = graph.to_original(graph.degrees()).cpu()
        self.degree = UnifiedTensor.from_tensor(degrees.to(torch.float32))
        self.ends = torch.zeros(graph.num_vertices + 1, dtype=torch.int64)
        torch.cumsum(degrees, 0, out=self.ends[1:])
        self.is_bound = budget is not None or device.type == "cuda"
        free = devices.free_bytes(device) // 2 if device.type == "cuda" else STEP_BYTES
        self.room = free if budget is None else budget - (self._taken() - before)

    def _taken(self) -> int:
        return torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0

    def all_of(self, x: Any, out: torch.Tensor | Path | None) -> torch.Tensor:
        """The last layer's rows; see :func:`infer`."""
        last, vertices = len(self.model.convs) - 1, len(self.ends) - 1
        with ExitStack() as beside:
            for i in range(last):
                x = self._between(i, x, out, beside)
            shape = (vertices, self._made_of(last, x))
            if out is None:
                out = torch.empty(shape, dtype=self.dtype)
            if isinstance(out, torch.Tensor):
                if tuple(out.shape) != shape or out.dtype != self.dtype or not out.is_cpu:
                    raise ConfigError(
                        f"out is {out.dtype} of the shape {list(out.shape)} on {out.device}; the result is {self.dtype} of "
                        f"{list(shape)} on the CPU"
                    )
                return self._filled(out, self._rows(last, x))
            if self.dtype == torch.bfloat16:
                raise ConfigError(f"{out}: a .npy file has no bfloat16; use model.float(), or leave out out=")
            self._write(out, shape, self._rows(last, x))
        return torch.from_numpy(np.load(out, mmap_mode="c" if shape[0] * shape[1] else None))

    def _between(self, i: int, x: Any, out: torch.Tensor | Path | None, beside: ExitStack) -> Any:
        """The table that layer ``i`` makes of ``x``: in host memory, or where that has no room beside ``out``."""
        shape = (len(self.ends) - 1, self._made_of(i, x))
        try:
            table = UnifiedTensor.empty(shape, self.dtype)
        except OutOfMemory:
            if not isinstance(out, Path):
                raise
            path = Path(beside.enter_context(TemporaryDirectory(prefix=".layer-", dir=out.absolute().parent)), f"{i}.npy")
            self._write(path, shape, self._rows(i, x))
            stored: Any = UnifiedTensor.from_file(path, placement="storage")
            beside.callback(stored.close)
            return stored
        self._filled(table.to(self.device), self._rows(i, x))
        return table

    def _filled(self, table: torch.Tensor, made: Iterator[torch.Tensor]) -> torch.Tensor:
        begin = 0
        for rows in made:
            table[begin : begin + len(rows)] = rows
            begin += len(rows)
        devices.idle_at(self.device)  # the next layer reads it, perhaps by another processor
        return table

    def _write(self, path: Path, shape: tuple[int, int], made: Iterator[torch.Tensor]) -> None:
        write(path, self.dtype, shape, (rows.cpu().contiguous() for rows in made))

    def _made_of(self, i: int, x: Any) -> int:
        """How wide the rows are that layer ``i`` makes of ``x``: seen at one vertex without neighbours."""
        none = torch.zeros(0, dtype=torch.int64, device=self.device)
        alone = Block(none, none, none.new_zeros(2), torch.zeros(1, device=self.device))
        try:
            return self.model.layer(i, torch.zeros(1, x.shape[1], dtype=self.dtype, device=self.device), alone).shape[1]
        except RuntimeError as error:
            raise ConfigError(
                f"layer {i + 1} of the model does not take rows {x.shape[1]} wide: {str(error).splitlines()[0]}"
            ) from error

    def _rows(self, i: int, x: Any) -> Iterator[torch.Tensor]:
        """The rows of layer ``i``, made of all rows of ``x``: of as many vertices at once as there is room for."""
        vertices = len(self.ends) - 1
        with progress(f"layer {i + 1} of {len(self.model.convs)}", vertices, "vertices") as shown:
            begin = 0
            reach = self._reach(i, x)
            while begin < vertices:
                end = reach(begin)
                sample = self.sampler.sample(torch.arange(begin, end, device=self.device))
                (block,) = blocks(sample, rows_of(self.degree, sample.node))
                yield self.model.layer(i, rows_of(x, sample.node).to(self.dtype), block)
                del sample, block
                shown(end - begin)
                begin = end

    def _reach(self, i: int, x: Any) -> Callable[[int], int]:
        """A function of a vertex: the end of those from it on of which there is room for rows of layer ``i``, one at least."""
        ends, vertices, room = self.ends, len(self.ends) - 1, self.room
        both = sum(max(self.dtype.itemsize, 4) * width for width in (x.shape[1], self._made_of(i, x)))
        edge, source, target = _DRAWN
        edge += _OF_A_HEAD * getattr(self.model.convs[i], "heads", 1)
        source, target = source + 2 * both, target + 4 * both
        of_all, an_edge = source * vertices, edge + source
        if 2 * of_all <= room:  # no matter which are read, and how many edges name them
            room, an_edge = room - of_all, edge
        a_target = target + source

        def taken(end: int) -> int:
            return a_target * end + an_edge * int(ends[end])

        def reach(begin: int) -> int:
            most = vertices if self.most is None else min(begin + self.most, vertices)
            end = begin + bisect_right(range(begin + 1, most + 1), taken(begin) + room, key=taken)
            if end == begin and self.is_bound:
                raise OutOfMemory(
                    f"vertex {begin} and its {int(ends[begin + 1] - ends[begin]):,} neighbours take up to "
                    f"{format_bytes(taken(begin + 1) - taken(begin))} at once, and {format_bytes(max(room, 0))} may be taken; "
                    "raise gpu_budget, or leave it out with device='cpu'"
                )
            return max(end, begin + 1)

        return reach
