"""Pools bags of rows and updates rows: launches memory/embedding.cu, or runs its loops on the CPU.

Everything here is queued on the current stream of the GPU that the arguments are on, and knows nothing of autograd.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import torch

from .. import _core
from ..memory import faults
from ..memory.gather import index_bytes
from ..runtime import devices
from ..runtime.arguments import dense
from ..runtime.capture import capturing, require_running
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, address, struct
from .placement import Placement
from .table import Table

_ELEMENTS = {torch.float32: "float", torch.float16: "Float16", torch.bfloat16: "Bfloat16"}  # of tables, and their C++ names
DTYPES = tuple(_ELEMENTS)
_UNIT = _core.UNIT_BYTES  # of the widest load
_THREADS = _core.BAG_THREADS
_Bags, _PoolParams, _WeighParams, _NoteParams, _UpdateParams = (
    struct(f"memory::{name}") for name in ("Bags", "PoolParams", "WeighParams", "NoteParams", "UpdateParams")
)
_BLOCKS_PER_SM = 8
_NOTE = "note_kernel"
_RULES = ("SgdRule", "AdagradRule", "RowwiseAdagradRule")
_WIDTHS = [(name, wide) for dtype, name in _ELEMENTS.items() for wide in (_UNIT // dtype.itemsize, 1)]


def _pool(name: str, wide: int, largest: bool) -> str:
    return f"pool_kernel<{name}, {wide}, {str(largest).lower()}>"


def _weigh(name: str, wide: int) -> str:
    return f"weigh_kernel<{name}, {wide}>"


def _update(name: str, wide: int, rule: str) -> str:
    return f"update_kernel<{name}, {wide}, {rule}>"


KERNELS = KernelFile(
    "memory/embedding.cu",
    (
        _NOTE,
        *(_pool(*width, largest) for width in _WIDTHS for largest in (False, True)),
        *(_weigh(*width) for width in _WIDTHS),
        *(_update(*width, rule) for width in _WIDTHS for rule in _RULES),
    ),
    separate_module=True,
)


row_out_of_range = functools.partial(faults.out_of_range, from_end=False)  # as torch has it, -1 is no row of a bag


def bad_offset(first: int, value: int, entries: int, count: int) -> ConfigError:
    """The sentence for offsets that are no bags; ``first`` is the position of the first bad one."""
    return ConfigError(
        f"offset {value} at position {first} does not fit {entries} row numbers: offsets begin with 0 and never decrease or "
        f"pass {entries}, and with include_last_offset the last one is {entries}"
    )


@dataclass(frozen=True)
class Bags:
    """Bags of row numbers, all on one device.

    Attributes:
        index: int32 or int64 ``[n]``, contiguous: the rows of the first bag, then those of the second, ...
        offsets: int32 or int64, contiguous: where each bag begins; None where each has ``each`` entries.
        closed: whether ``offsets`` has the end of the last bag as well.
        each: entries of a bag, without ``offsets``.
        count: how many bags there are.
        padding: a row that counts for nothing, or -1.
    """

    index: torch.Tensor
    offsets: torch.Tensor | None
    closed: bool
    each: int
    count: int
    padding: int

    def over(self, rows: torch.Tensor) -> Bags:
        """These bags over a table of ``rows`` (int64 ``[m]``, rising) alone, which has all of theirs."""
        index = torch.searchsorted(rows, self.index.to(torch.int64))
        padding = (rows == self.padding).nonzero()
        return dataclasses.replace(self, index=index, padding=int(padding) if len(padding) else -1)

    def of(self, rows: int) -> Params:
        """These bags for C++, of a table of ``rows`` rows."""
        bags = _Bags()
        index, offsets = self.index, self.offsets
        bags.indices, bags.index_bytes, bags.count = index.data_ptr(), index.element_size(), index.numel()
        if offsets is not None:
            bags.offsets, bags.offset_bytes = offsets.data_ptr(), offsets.element_size()
        bags.closed, bags.each, bags.bags, bags.rows, bags.padding = self.closed, self.each, self.count, rows, self.padding
        return bags


def pool(
    table: Table, bags: Bags, mode: str, weights: torch.Tensor | None, check: str
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Sum, mean or maximum of each bag ``[bags, dim]``, of the table's type; zeros for an empty one.

    Args:
        table: ``[rows, dim]`` of one of DTYPES.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        weights: float32 ``[n]`` that entries are multiplied with, or None.
        check: ``"sync"`` waits for a GPU and raises; ``"async"``, and any in a CUDA graph, leaves that to the next call on it,
            or to ``memory.synchronize()``. Entries that are no rows count for nothing then.

    Returns:
        The bags; of maxima, the entry that each is of, -1 in empty bags (int64 ``[bags, dim]``); of means, how many entries of
        each bag count (int64 ``[bags]``).

    Raises:
        IndexOutOfRange: an entry is no row of the table.
        ConfigError: offsets that are no bags.
    """
    near, bags = _in_reach(table, bags)
    device, dim = bags.index.device, table.shape[1]
    shape = (bags.count, dim)
    rows = torch.empty(shape, dtype=table.dtype, device=device)
    best = torch.empty(shape, dtype=torch.int64, device=device) if mode == "max" else None
    counts = torch.empty(bags.count, dtype=torch.int64, device=device) if mode == "mean" else None
    name = _ELEMENTS[table.dtype]
    source, params = near.reach(bags.index), _PoolParams()  # `source` keeps the memory of tiers
    params.placement, params.dim, params.bags = source, dim, bags.of(len(near))
    params.weights, params.pooled = address(weights), rows.data_ptr()
    params.best, params.counts = address(best), address(counts)
    if device.type == "cpu":
        broken, outside = _core.pool_bags(params.address, _core.ELEMENTS[name])
        if broken is not None:
            raise bad_offset(*broken)
        if outside is not None:
            raise row_out_of_range(*outside)
        return rows, best, counts
    faults.raise_deferred(device.index)
    if bags.count == 0:
        return rows, best, counts
    with devices.on(device):
        wide, params.lanes, params.steps = _cut(source, rows)
        stream = torch._C._cuda_getCurrentRawStream(device.index)
        watches = [faults.watch(device, stream, sentence) for sentence in (bad_offset, row_out_of_range)]
        params.offsets, params.entries = (watch.report for watch in watches)
        _launch(device, _pool(name, wide, mode == "max"), bags.count * params.steps * params.lanes, params)
        if check == "async" or watches[0].replayed:
            for watch in watches:
                faults.defer(device, watch)
        else:
            devices.current_stream(device).sync()
            met = [fault for watch in watches if watch.raised() and (fault := watch.take()) is not None]
            if met:
                raise met[0]
    return rows, best, counts


def weigh(table: Table, bags: Bags, gradient: torch.Tensor) -> torch.Tensor:
    """The products of each entry's row with the gradient of its bag: float32 ``[n]``; 0 for padding.

    ``gradient``: ``[bags, dim]`` of the table's type, contiguous.
    """
    near, bags = _in_reach(table, bags)
    device, dim = bags.index.device, table.shape[1]
    found = torch.empty(bags.index.numel(), dtype=torch.float32, device=device)
    name = _ELEMENTS[table.dtype]
    source, params = near.reach(bags.index), _WeighParams()
    params.placement, params.dim, params.bags = source, dim, bags.of(len(near))
    params.gradient, params.found = gradient.data_ptr(), found.data_ptr()
    if device.type == "cpu":
        _core.weigh_entries(params.address, _core.ELEMENTS[name])
    elif len(found):
        with devices.on(device):
            wide, params.lanes, _ = _cut(source, gradient)
            _launch(device, _weigh(name, wide), len(found) * params.lanes, params)
    return found


@dataclass
class Gradient:
    """The gradient of a table's rows, as bags' gradients and who shares in them. It refers to no tensor of the caller.

    Attributes:
        keys: int32 or int64 ``[n]``: the row of each entry; ``rows`` (past the last) for entries that count for nothing.
        bag: int64 ``[n]``: each entry's bag.
        factor: float32 ``[n]``: how much of the bag's gradient is the entry's; None where it is all of it.
        best: int64 ``[bags, dim]``: the one entry that has the gradient, for maxima; else None.
        rows: ``[bags, dim]`` of the table's type: the bags' gradients.
        bad: int64 ``[1]``, not 0 if an entry was no row or offsets no bags; then no row is to change.
    """

    keys: torch.Tensor
    bag: torch.Tensor
    factor: torch.Tensor | None
    best: torch.Tensor | None
    rows: torch.Tensor
    bad: torch.Tensor


def note(
    table: Table,
    bags: Bags,
    weights: torch.Tensor | None,
    best: torch.Tensor | None,
    counts: torch.Tensor | None,
    gradient: torch.Tensor,
) -> Gradient:
    """Keeps what an update needs of ``pool``'s arguments and results, and of the gradient ``[bags, dim]`` of the bags."""
    device, rows, n = bags.index.device, len(table), bags.index.numel()
    shares = weights is not None or counts is not None
    made = Gradient(
        torch.empty(n, dtype=torch.int32 if rows < (1 << 31) - 1 else torch.int64, device=device),
        torch.empty(n, dtype=torch.int64, device=device),
        torch.empty(n, dtype=torch.float32, device=device) if shares else None,
        best,
        gradient.to(table.dtype, memory_format=torch.contiguous_format, copy=True),
        torch.zeros(1, dtype=torch.int64, device=device),
    )
    params = _NoteParams()
    params.bags = bags.of(rows)
    params.weights, params.counts = address(weights), address(counts)
    params.keys, params.key_bytes = made.keys.data_ptr(), made.keys.element_size()
    params.bag, params.factor, params.bad = made.bag.data_ptr(), address(made.factor), made.bad.data_ptr()
    if device.type == "cpu":
        _core.note_entries(params.address)
    elif n or bags.count:
        with devices.on(device):
            _launch(device, _NOTE, max(n, bags.count), params)
    return made


def joined(gradients: list[Gradient], device: torch.device) -> Gradient:
    """One gradient on ``device`` in place of some of the same table."""
    if len(gradients) == 1 and gradients[0].rows.device == device:
        return gradients[0]
    entries = [0, *torch.tensor([len(g.keys) for g in gradients]).cumsum(0).tolist()]
    bags = [0, *torch.tensor([len(g.rows) for g in gradients]).cumsum(0).tolist()]
    factor = best = None
    if any(g.factor is not None for g in gradients):
        factors = [torch.ones_like(g.bag, dtype=torch.float32) if g.factor is None else g.factor for g in gradients]
        factor = torch.cat([f.to(device) for f in factors])
    if gradients[0].best is not None:
        # Where a bag is empty, -1 becomes the last entry of the gradient before, and none of that looks into this bag.
        best = torch.cat(
            [g.best.to(device) + first for g, first in zip(gradients, entries, strict=False) if g.best is not None]
        )
    return Gradient(
        torch.cat([g.keys.to(device) for g in gradients]),
        torch.cat([g.bag.to(device) + first for g, first in zip(gradients, bags, strict=False)]),
        factor,
        best,
        torch.cat([g.rows.to(device) for g in gradients]),
        torch.cat([g.bad.to(device) for g in gradients]).sum(dim=0, keepdim=True),
    )


class FetchedTable(Placement):
    """Rows of a table that kernels do not reach, copied to the device where they are worked on."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows
        super().__init__(rows.shape, rows.dtype)

    @property
    def placement(self) -> str:
        """Where they are worked on."""
        return self.rows.device.type

    def _source(self, index: torch.Tensor) -> int:
        return self.rows.data_ptr()


def _in_reach(table: Table, bags: Bags) -> tuple[Placement, Bags]:
    """The table and bags of it as kernels take them: of a table that they do not reach the rows that are in bags, each once.

    Raises:
        IndexOutOfRange: an entry is no row of such a table.
    """
    if table.in_reach:
        return table, bags
    if bags.index.is_cuda and capturing():
        return _captured(table, bags)
    rows = bags.index.to(torch.int64).unique()
    if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < len(table):
        outside = ((bags.index < 0) | (bags.index >= len(table))).nonzero()
        raise row_out_of_range(int(outside[0]), int(bags.index[outside[0]]), len(table), len(outside))
    return FetchedTable(table.gather(rows)), bags.over(rows)


def _captured(table: Table, bags: Bags) -> tuple[Placement, Bags]:
    """The same in a graph, which does not know how many rows are in bags: a row for each entry, and one for the padding."""
    device, entries = bags.index.device, bags.index.numel()
    rows = torch.empty((entries + 1, *table.shape[1:]), dtype=table.dtype, device=device)
    table.captured(bags.index, rows[:entries], from_end=False)
    index = torch.arange(entries, device=device).masked_fill_(bags.index == bags.padding, entries)
    return FetchedTable(rows), dataclasses.replace(bags, index=index, padding=entries)


def update(table: Table, state: Table | None, given: Gradient, rate: float, eps: float = 0.0) -> None:
    """One step of every row that has a gradient: by Adagrad where there is a ``state``, else by SGD.

    The state is float32 and of the table's shape, or row-wise ``[rows, 1]``. Each row's gradients are added in the order of
    their entries. Queued on a GPU, and not waited for. Rows of a table that kernels do not reach are fetched, and put back.

    Raises:
        ConfigError: a rate or an eps that float32 does not hold.
    """
    most = torch.finfo(torch.float32).max
    for what, value in (("rate", rate), ("eps", eps)):
        if not abs(value) <= most:
            raise ConfigError(f"the {what} of a step is {value}, but steps are made in float32, up to {most:.4g}")
    if len(given.keys) == 0:
        return
    if table.in_reach:
        _step(table, None if state is None else state.tensor_on(given.rows.device), given, rate, eps)
        return
    require_running(f"the CPU puts rows of a {type(table).__name__} back after a step, which it cannot", "take steps after it")
    keys = given.keys.to(torch.int64)
    rows = keys.unique()
    rows = rows[rows < len(table)]
    here, sums = FetchedTable(table.gather(rows)), None if state is None else state.gather(rows)
    _step(here, sums, dataclasses.replace(given, keys=torch.searchsorted(rows, keys)), rate, eps)
    table.scatter_(rows, here.rows)
    if state is not None and sums is not None:
        state.scatter_(rows, sums)


def _step(table: Placement, state: torch.Tensor | None, given: Gradient, rate: float, eps: float) -> None:
    n, dim, device = len(given.keys), table.shape[1], given.rows.device
    ordered, order = torch.sort(given.keys, stable=True)
    name = _ELEMENTS[table.dtype]
    source, params = table.reach(given.keys), _UpdateParams()
    params.placement, params.dim = source, dim
    params.state, params.state_dim = address(state), 0 if state is None else state.shape[1]
    params.keys, params.key_bytes = ordered.data_ptr(), ordered.element_size()
    params.order, params.count = order.data_ptr(), n
    params.bag, params.factor, params.best = given.bag.data_ptr(), address(given.factor), address(given.best)
    params.gradient, params.bad = given.rows.data_ptr(), given.bad.data_ptr()
    params.rate, params.eps = rate, eps
    if device.type == "cpu":
        _core.update_rows(params.address, _core.ELEMENTS[name])
        return
    with devices.on(device):
        wide, params.lanes, params.steps = _cut(source, given.rows)
        rule = _RULES[0 if state is None else 1 + (params.state_dim < dim)]
        _launch(device, _update(name, wide, rule), n * params.steps * params.lanes, params)


def check_type(tensor: torch.Tensor, name: str) -> None:
    """ConfigError unless ``tensor`` holds row numbers or offsets."""
    if not (dense(name, tensor).is_cpu or tensor.is_cuda):
        raise ConfigError(f"{name} is on {tensor.device}; use a CPU or CUDA tensor")
    index_bytes(tensor)


def _cut(table: Params, rows: torch.Tensor) -> tuple[int, int, int]:
    """Elements of a piece, lanes of a row, and pieces a lane takes of it; ``rows`` are of the table's type and length."""
    dim, size = rows.shape[1], rows.dtype.itemsize
    aligned = (dim * size) % _UNIT == 0 and not (table.host.base | rows.data_ptr()) % _UNIT
    wide = _UNIT // size if aligned else 1
    pieces = -(-dim // wide)
    lanes = min(_core.WARP_LANES, 1 << (pieces - 1).bit_length())
    return wide, lanes, -(-pieces // lanes)


def _launch(device: torch.device, instance: str, threads: int, params: Params) -> None:
    grid = min(-(-threads // _THREADS), _BLOCKS_PER_SM * devices.sm_count(device))
    launch(KERNELS, instance, device, grid, _THREADS, params)
