"""Rows in host memory, with what is to be done with them: nothing is computed before values are asked for.

A layer is a function of each row by itself, a sum or maximum over neighbours, and again a function of each row. Functions of a
row are put off until a sum reads their results: then rows come from host memory in blocks, go through all functions on the GPU,
and only the sums' results are kept. Gradients compute the functions anew (as GriNNder, MLSys 2026, and checkpoints do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..runtime.errors import ConfigError
from ..runtime.thresholds import BOUNCE_BYTES
from ..table import StorageArray, as_table
from .aggregate_launch import compute_type
from .host_functions import OPERATORS, is_by_element, is_row_wise, opened
from .host_nodes import SAMPLED, InputRows, Node, Reduced, RowWise, tried
from .host_passes import Reduction
from .host_program import computed
from .partitioned import Later, PartitionedGraph


class HostRows(Later):
    """Rows of this process's parts, put off. :func:`hinterland.nn.each` and layers take and give them in place of tensors.

    Values come by ``p.each(rows)``, with gradients, on the parts' devices; or by ``p.gather(rows)``. Where the process has one
    part, torch's functions of each row by itself (activations, ``dropout``, ``linear``, ``layer_norm``, arithmetic, and modules
    made of them) put themselves off as well; any other function, and an index, is given the values.
    """

    def __init__(self, p: PartitionedGraph, node: Node) -> None:
        self.p, self.node = p, node
        self._values: dict[bool, list[Tensor]] = {}

    @classmethod
    def of(cls, p: PartitionedGraph, tensors: Sequence[Tensor]) -> HostRows:
        """Rows that lie in host memory or on the parts' devices."""
        sample = torch.zeros(SAMPLED, tensors[0].shape[1], dtype=tensors[0].dtype, device=p.world.devices[0])
        return cls(p, InputRows(sample, list(tensors)))

    @classmethod
    def of_files(cls, p: PartitionedGraph, files: Sequence[StorageArray]) -> HostRows:
        """Rows that each part has in a file."""
        sample = torch.zeros(SAMPLED, files[0].shape[1], dtype=files[0].dtype, device=p.world.devices[0])
        return cls(p, InputRows(sample, [], list(files)))

    @property
    def shape(self) -> tuple[int, int]:
        """Of the first part's rows."""
        return self.p.parts[0].rows, self.node.sample.shape[1]

    @property
    def is_away(self) -> bool:
        """Whether these rows are tensors in host memory, and the parts lie elsewhere."""
        return isinstance(self.node, InputRows) and any(
            one.device != on for one, on in zip(self.node.tensors, self.p.world.devices, strict=not self.node.files)
        )

    @property
    def dtype(self) -> torch.dtype:
        return self.node.sample.dtype

    def map(
        self, fn: Callable[..., Tensor], *others: HostRows | Sequence[Tensor], parameters: Sequence[Tensor] = ()
    ) -> HostRows:
        """``fn`` of these rows, those of ``others`` and, behind them, ``parameters``.

        Raises:
            ConfigError: it does not give a row for each row, or has parameters of its own that it does not say.
        """
        rows = [one if isinstance(one, HostRows) else HostRows.of(self.p, one) for one in others]
        if any(one.p is not self.p for one in rows):
            raise ConfigError("rows of two partitioned graphs; p.each(rows) of one of them gives tensors")
        inputs = (self.node, *(one.node for one in rows))
        names: tuple[str, ...] = ()
        if isinstance(fn, torch.nn.Module):
            named = dict(fn.named_parameters())
            names, parameters = tuple(named), tuple(named.values())
        kind = self.node.sample.device.type
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        seed = int(torch.randint(1 << 62, ()))
        node = RowWise(self.node.sample, inputs, tuple(parameters), fn, names, seed, autocast)
        tried(node)
        node.was = node.state()
        return HostRows(self.p, node)

    def reduced(
        self, reduction: Reduction, *others: HostRows, parameters: Sequence[Tensor] = (), width: int | None = None
    ) -> HostRows:
        """What a reduction makes of these rows and others, ``width`` wide; by default as these are."""
        inputs = (self.node, *(one.node for one in others))
        sample = self.node.sample if width is None else self.node.sample.new_zeros(SAMPLED, width)
        return HostRows(self.p, Reduced(sample, inputs, tuple(parameters), reduction))

    def computed(self, *, on_host: bool = False) -> list[Tensor]:
        """The rows of each part, with a gradient: on the parts' devices, or in host memory. Kept with these rows; others that
        depend on the same ones go through everything again.

        Raises:
            OutOfMemory: there is not as much memory, or ``gpu_budget`` does not allow it; before anything is computed.
        """
        known = self._values.get(on_host)
        wanted = torch.is_grad_enabled() and self.node.needs
        if known is None or (wanted and not any(one.requires_grad for one in known)):
            self._values[on_host] = known = computed(self.p.unshared, self.node, on_host)
        return known

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        first = next(one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, HostRows))
        if not first.p.is_single:
            name = getattr(func, "__name__", func)
            raise ConfigError(f"{name} of rows of several parts: use hinterland.nn.each(function, rows)")
        if is_row_wise(func, args, kwargs):
            call, rows, tensors = opened(func, args, kwargs, partial(first._are_rows, by_element=is_by_element(func)))
            others = [one if isinstance(one, HostRows) else [one] for one in rows]
            start = others[0] if isinstance(others[0], HostRows) else HostRows.of(first.p, others[0])
            return start.map(call, *others[1:], parameters=tensors)
        args, kwargs = pytree.tree_map(lambda one: one.computed()[0] if isinstance(one, HostRows) else one, (args, kwargs))
        return func(*args, **kwargs)

    def _are_rows(self, one: Any, by_element: bool) -> bool:
        """Whether an argument has a row for each of these: a tensor only where a function goes by element."""
        if isinstance(one, Tensor):
            return by_element and one.dim() == 2 and len(one) == self.p.parts[0].rows and len(one) > 1
        return isinstance(one, HostRows)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name.endswith("_") or not callable(getattr(Tensor, name, None)):
            raise AttributeError(f"rows in host memory have no {name!r}; p.each(rows) gives tensors, each(function, rows) rows")
        return partial(_method(name), self)

    @property
    def device(self) -> torch.device:
        """Where values come to lie: of the first part."""
        return self.p.world.devices[0]

    @property
    def requires_grad(self) -> bool:
        """Whether they depend on something that has a gradient."""
        return self.node.needs

    @property
    def ndim(self) -> int:
        return 2

    def dim(self) -> int:
        return 2

    def size(self, dim: int | None = None) -> Any:
        return torch.Size(self.shape) if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, index: Any) -> Tensor:
        return HostRows.__torch_function__(Tensor.__getitem__, (), (self, index))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"HostRows({list(self.shape)}, {self.dtype}); take p.each(rows) or p.gather(rows) for values"


def _method(name: str) -> Callable[..., Any]:
    def call(self: HostRows, *args: Any, **kwargs: Any) -> Any:
        return HostRows.__torch_function__(getattr(Tensor, name), (), (self, *args), kwargs)

    return call


for _name in OPERATORS:  # Python looks for these in the class
    setattr(HostRows, _name, _method(_name))
setattr(HostRows, "__hash__", object.__hash__)  # noqa: B010  (it went with __eq__)


def through_host(p: PartitionedGraph, rows: Any, strategy: str) -> HostRows | None:
    """Rows as they are put off, where they are to go through host memory: as ``strategy`` or the graph's budgets say,
    or because they lie there; None where they are not.

    Raises:
        ConfigError: they are not of this graph's parts.
    """
    if isinstance(rows, HostRows):
        if rows.p is not p:
            raise ConfigError("these rows belong to another partitioned graph; call the layer with that one")
        return rows
    held = rows if isinstance(rows, list | tuple) else [rows]
    away = any(isinstance(one, Tensor) and one.is_cpu for one in held) and p.world.devices[0].type != "cpu"
    if strategy != "host" and not p.in_blocks and not away:
        return None
    given = p.each(rows, anywhere=True)
    compute_type(given[0].dtype)  # refuses others
    return HostRows.of(p, given)


def in_files(p: PartitionedGraph, x: Any, dtype: torch.dtype) -> HostRows:
    """A tensor's or table's rows, ``[num_vertices, width]`` by vertex, as rows of a type that each part has in a file of the
    graph's folder. They are copied in pieces, and read in place where a file has them as its only part does.

    Raises:
        StorageError: the folder has not as much room, or a file cannot be read or written.
    """
    table, room = as_table(x), p.files
    assert room is not None
    known = None if table is None else table.file
    if known is not None and known.dtype == dtype and p.world.parts == 1 and p.split.order is None:
        return HostRows.of_files(p, [known])
    width = x.shape[1]
    room.require(sum(part.rows for part in p.parts) * width * dtype.itemsize)
    files = [room.lease(part.rows, width, dtype) for part in p.parts]
    step = max(BOUNCE_BYTES // max(width * dtype.itemsize, 1), 1)
    for vertices, file in zip(p.vertices, files, strict=True):
        for first in range(0, len(vertices), step):
            numbers = vertices[first : first + step]
            rows = x[numbers] if table is None else table[numbers]
            file.write_from(rows.to("cpu", dtype).contiguous(), first)
    return HostRows.of_files(p, files)


RowsOf = Any  # a list with a tensor for each part, or HostRows: what functions of rows take and give


def row_type(rows: RowsOf) -> torch.dtype:
    """The type of rows."""
    found: torch.dtype = rows.dtype if isinstance(rows, HostRows) else rows[0].dtype
    return found
