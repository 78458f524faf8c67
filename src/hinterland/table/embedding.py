"""UnifiedEmbeddingBag: torch.nn.EmbeddingBag over a table in host memory that a GPU reads and updates over the link."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

import torch
from torch.autograd.function import once_differentiable
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..memory.allocator import place_again
from ..runtime import arguments
from ..runtime.errors import ConfigError
from .embedding_launch import DTYPES, Bags, Gradient, check_type, note, pool, weigh
from .table import Table
from .unified import UnifiedTensor
from .whole import fill_all, read_all, write_all

MODES = ("sum", "mean", "max")


class TableParameter(torch.nn.Parameter):
    """What autograd and optimizers hold in place of a table: a parameter without elements.

    ``requires_grad`` says whether the table learns, and ``grad`` is None while no gradients wait for an optimizer. The table
    itself is no parameter, since whatever moves, copies or clips parameters would move, copy or read all of it.

    Attributes:
        rows: the table, of any kind.
        gradients: what ``backward()`` has left since ``zero_grad()``.
        states: what optimizers keep of its rows.
        has_optimizer: whether SparseSGD or SparseAdagrad was given it.
    """

    rows: Table
    gradients: list[Gradient]
    states: WeakSet[Table]
    has_optimizer: bool

    def __new__(cls, rows: Table) -> TableParameter:
        _watch_optimizers()
        made = super().__new__(cls, torch.empty(0))
        made.rows = rows
        made.gradients = []
        made.states = WeakSet()
        made.has_optimizer = False
        made._pass = -1
        made._written = None
        return made

    def __init__(self, rows: Table) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> TableParameter:
        """A table of its own in host memory, with the same rows."""
        placement = self.placement_beside() if self.rows.file is None else "host"
        made = memo[id(self)] = TableParameter(UnifiedTensor.from_tensor(self.on_cpu(), placement))
        made.requires_grad_(self.requires_grad)
        return made

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """With the table: its rows, or for multiprocessing the table itself (UnifiedTensor); ``state_dict()`` is lighter."""
        self.ready(torch.device("cpu"))
        return _parameter, (self.rows, self.requires_grad)

    def collect(self, gradient: Gradient) -> None:
        """Keeps a gradient. The first of a backward pass that finds no ``grad`` drops the old ones: they were zeroed."""
        now = torch._C._current_graph_task_id()
        if self.grad is None and now != self._pass:
            self.gradients.clear()
        self._pass = now
        self.gradients.append(gradient)

    def placement_beside(self) -> str:
        """Where another array of the table's size is to lie: managed memory may have no room for it."""
        rows = self.rows
        return place_again(rows.placement) if rows.in_reach or rows.file is not None else "host"

    def beside(self, shape: tuple[int, int], dtype: torch.dtype, placement: str | None, purpose: str) -> Table:
        """A new table for what an optimizer keeps of the rows. Nobody knows what it holds.

        Args:
            placement: None is where this table lies, which on storage is a file that goes with the new table.
            purpose: what error messages call that file.

        Raises:
            ConfigError: a placement that there is not, or ``"storage"`` beside a table that lies in memory.
            OutOfMemory, StorageError: it does not fit, or its file cannot be made.
        """
        placement = self.placement_beside() if placement is None else placement
        if self.rows.file is not None and isinstance(placement, str) and placement == "storage":
            made: Table = self.rows.file.beside(shape, dtype, purpose)
        else:
            made = UnifiedTensor.empty(shape, dtype, placement)
        self.states.add(made)
        return made

    def prefetch(self, index: torch.Tensor) -> None:
        """Has these rows read in the background, and what optimizers keep of them, where they lie on storage."""
        for table in (self.rows, *self.states):
            if table.file is not None:
                table.prefetch(index)

    def on_cpu(self) -> torch.Tensor:
        """All rows in host memory, after waiting for steps under way: the table's own, or a copy of what lies in a file."""
        self.ready(torch.device("cpu"))
        return read_all(self.rows)

    def fill(self, values: torch.Tensor) -> None:
        """Has the table hold ``values``, wherever its rows are."""
        self.ready(torch.device("cpu"))
        write_all(self.rows, values)

    def written_on(self, device: torch.device) -> None:
        """Notes that work is queued on the current stream of ``device`` that writes rows."""
        if device.type == "cuda":
            if self._written is None or self._written.device != device:
                self._written = torch.cuda.Event(external=True)  # graphs wait for it, and record it, at each replay
            self._written.record(torch.cuda.current_stream(device))

    def ready(self, device: torch.device) -> None:
        """Has ``device``, on its current stream, wait for the last writer."""
        if self._written is None:
            return
        if device.type == "cuda":
            torch.cuda.current_stream(device).wait_event(self._written)
        else:
            self._written.synchronize()

    _pass: int
    _written: torch.cuda.Event | None


@functools.cache
def _watch_optimizers() -> None:
    """From now on, before any optimizer's step, one that was given a table and cannot change it is refused."""
    register_optimizer_step_pre_hook(_refuse_tables)


def _refuse_tables(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    for group in optimizer.param_groups:
        for param in group["params"]:
            if isinstance(param, TableParameter) and param.requires_grad and not param.has_optimizer:
                name = type(optimizer).__name__
                raise ConfigError(
                    f"{name} was given a table of shape {tuple(param.rows.shape)}, whose rows it never changes; give tables to "
                    "hinterland.training.SparseSGD or SparseAdagrad, [p for p in model.parameters() if isinstance(p, "
                    f"hinterland.training.TableParameter)], and {name} the other parameters"
                )


class UnifiedEmbeddingBag(torch.nn.Module):
    """Sums, means or maxima of bags of rows, of a table that may be larger than any GPU's memory.

    The interface is torch.nn.EmbeddingBag's. Bags are made on the device of ``input``: a GPU reads their rows over the link, in
    one kernel, with no copy of them. The table learns through :class:`SparseSGD` or :class:`SparseAdagrad` over
    ``parameters()``, which change exactly the rows that were in bags, where they lie.

    Args:
        num_embeddings: rows of the table, at least 1.
        embedding_dim: elements of a row, at least 1.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        include_last_offset: whether ``offsets`` has the end of the last bag as well.
        padding_idx: a row that counts for nothing in bags and never learns; -1 is the last. It starts as zeros.
        dtype: of the table: float32, or float16 or bfloat16, of which float32 sums are made.
        placement: where the table lies, as in :class:`UnifiedTensor`.
        sparse: True, as gradients always are; taken so that calls of torch.nn.EmbeddingBag stay as they are.
        check: ``"sync"`` has ``forward`` wait for the GPU and raise; ``"async"`` leaves the raise to the next call on that
            GPU or to ``hinterland.memory.synchronize()``.

    Raises:
        ConfigError: sizes, a mode, a padding or a type that cannot be.
        OutOfMemory: the table does not fit; nothing has been allocated then.

    Source: Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", 2019; reading
    rows over the link: Min 2022, chapter 3.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: torch.dtype = torch.float32,
        placement: str = "host",
        sparse: bool = True,
        check: Literal["sync", "async"] = "sync",
    ) -> None:
        _check_sparse(sparse)
        num_embeddings = arguments.whole_number("num_embeddings", num_embeddings)
        embedding_dim = arguments.whole_number("embedding_dim", embedding_dim)
        if num_embeddings < 1 or embedding_dim < 1:
            raise ConfigError(f"a table has at least one row of one element, not {num_embeddings} of {embedding_dim}")
        _check_dtype(dtype)
        padding = _padding(padding_idx, num_embeddings)
        table = UnifiedTensor.empty((num_embeddings, embedding_dim), dtype, placement)
        self._begin(table, mode, include_last_offset, padding, check)
        self.reset_parameters()

    def _begin(self, table: Table, mode: str, include_last_offset: bool, padding: int | None, check: str) -> None:
        arguments.one_of("mode", mode, MODES)
        if not isinstance(check, str) or check not in ("sync", "async"):
            raise ConfigError(f"check={arguments.repr_of(check)} is neither 'sync' nor 'async'")
        super().__init__()
        self.num_embeddings, self.embedding_dim = table.shape
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = padding
        self.check = check
        self.table = TableParameter(table)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: torch.Tensor | Table,
        freeze: bool = True,
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        placement: str = "host",
        sparse: bool = True,
        check: Literal["sync", "async"] = "sync",
    ) -> UnifiedEmbeddingBag:
        """Bags over rows that are there: a table as it is, or a copy of a tensor; ``[rows, dim]``.

        Args:
            freeze: whether the table is not to learn: ``requires_grad_(True)`` changes that later.

        Raises:
            ConfigError: rows of another shape or type; a table that is to learn, and is only read.
        """
        _check_sparse(sparse)
        freeze, include_last_offset = arguments.switches(freeze=freeze, include_last_offset=include_last_offset)
        known = isinstance(embeddings, torch.Tensor | Table)
        if isinstance(embeddings, torch.Tensor):
            arguments.dense("embeddings", embeddings)
        if not known or embeddings.ndim != 2 or 0 in embeddings.shape:
            found = tuple(embeddings.shape) if known else type(embeddings).__name__
            raise ConfigError(
                f"embeddings are a tensor, UnifiedTensor, TieredTensor or StorageArray of shape [rows, dim], not {found}"
            )
        _check_dtype(embeddings.dtype)
        padding = _padding(padding_idx, embeddings.shape[0])
        if isinstance(embeddings, torch.Tensor):
            embeddings = UnifiedTensor.from_tensor(embeddings, placement)
        if not freeze:
            embeddings.require_writable()
        made = cls.__new__(cls)
        made._begin(embeddings, mode, include_last_offset, padding, check)
        made.requires_grad_(not freeze)
        return made

    @property
    def weight(self) -> Table:
        """The table ``[num_embeddings, embedding_dim]``, after waiting for updates under way."""
        self.table.ready(torch.device("cpu"))
        return self.table.rows

    def reset_parameters(self) -> None:
        """Draws the table from the normal distribution, as torch.nn.EmbeddingBag does: equal seeds give equal tables."""
        table = self.weight
        fill_all(table, torch.nn.init.normal_)
        if self.padding_idx is not None:
            table.scatter_([self.padding_idx], torch.zeros((1, *table.shape[1:]), dtype=table.dtype))

    def forward(
        self, input: torch.Tensor, offsets: torch.Tensor | None = None, per_sample_weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The bags ``[B, embedding_dim]``, of the table's type, on the device of ``input``; zeros for an empty bag.

        Args:
            input: int32 or int64 row numbers: ``[B, N]`` for B bags of N entries, or ``[n]`` with ``offsets``.
            offsets: int32 or int64 ``[B]``: where each bag begins in ``input``, the first at 0; with ``include_last_offset``
                ``[B + 1]``, the last of them ``n``.
            per_sample_weights: what rows are multiplied with, in mode ``"sum"``: float32 or the table's type, of the shape of
                ``input``. It may require a gradient.

        Raises:
            IndexOutOfRange: naming the first entry that is no row (negative ones are none), and its value.
            ConfigError: tensors of other shapes, types or devices; offsets that decrease or exceed ``n``.
        """
        bags = self._bags(input, offsets)
        weights = None if per_sample_weights is None else self._weights(per_sample_weights, input)
        lookup = _Lookup(self.table, bags, self.mode, weights, self.check)
        ticket = _Ticket.apply(self.table, lookup)
        return _Pool.apply(ticket, per_sample_weights, lookup)

    def prefetch(self, input: torch.Tensor) -> None:
        """Has the rows of a batch to come read in the background, with what optimizers keep of them, as far as they lie on
        storage. Returns once the row numbers are known.

        Args:
            input: int32 or int64 row numbers of any shape, as of ``forward``, on the CPU or a GPU, which is waited for.

        Raises:
            IndexOutOfRange, ConfigError: as the table's ``prefetch``. Pages that cannot be read are met when they are needed.
        """
        check_type(input, "input")
        self.table.prefetch(input.unique())

    def _bags(self, input: torch.Tensor, offsets: torch.Tensor | None) -> Bags:
        check_type(input, "input")
        padding = -1 if self.padding_idx is None else self.padding_idx
        if input.dim() == 2:
            if offsets is not None:
                raise ConfigError("offsets are for 1-D input; the rows of a 2-D input are its bags")
            return Bags(input.contiguous().view(-1), None, False, input.shape[1], input.shape[0], padding)
        if input.dim() != 1:
            raise ConfigError(f"input is [B, N], or [n] with offsets, not of shape {tuple(input.shape)}")
        if offsets is None:
            raise ConfigError("1-D input needs offsets, which say where each bag begins; 2-D input [B, N] does without")
        check_type(offsets, "offsets")
        if offsets.dim() != 1 or offsets.device != input.device:
            raise ConfigError(
                f"offsets are 1-D and on {input.device} as the input is, not of shape {tuple(offsets.shape)} on "
                f"{offsets.device}"
            )
        count = len(offsets) - int(self.include_last_offset)
        if count < 0:
            raise ConfigError("with include_last_offset, offsets have at least one entry: the end of the last bag")
        if count == 0 and len(input):
            raise ConfigError(f"{len(input)} row numbers, but no bag for them: offsets has {len(offsets)} entries")
        return Bags(input.contiguous(), offsets.contiguous(), self.include_last_offset, 0, count, padding)

    def _weights(self, weights: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
        """Weights of entries as the kernels take them: float32, contiguous."""
        if self.mode != "sum":
            raise ConfigError(f"per_sample_weights are for mode='sum', not {self.mode!r}")
        allowed = {torch.float32, self.table.rows.dtype}
        if not isinstance(weights, torch.Tensor) or weights.dtype not in allowed:
            found = weights.dtype if isinstance(weights, torch.Tensor) else type(weights).__name__
            raise ConfigError(f"per_sample_weights are of type {' or '.join(sorted(map(str, allowed)))}, not {found}")
        if arguments.dense("per_sample_weights", weights).shape != input.shape or weights.device != input.device:
            raise ConfigError(
                f"per_sample_weights are of the input's shape {tuple(input.shape)} and on {input.device}, not of shape "
                f"{tuple(weights.shape)} on {weights.device}"
            )
        return weights.detach().to(torch.float32).contiguous().view(-1)

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        place = f"dtype={self.table.rows.dtype}, placement={self.table.rows.placement!r}"
        text = f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}, {place}"
        text += ", include_last_offset=True" if self.include_last_offset else ""
        return text + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")

    # A checkpoint is that of torch.nn.EmbeddingBag: one entry, "weight". It is the table's own memory, as torch's are, or a
    # copy where that lies in a file.

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self.table.on_cpu()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        name = prefix + "weight"
        if strict:
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key != name]
        if name not in state_dict:
            if strict:
                missing_keys.append(name)
            return
        loaded, rows = state_dict[name], self.table.rows
        if loaded.shape != rows.shape:
            error_msgs.append(
                f"size mismatch for {name}: the checkpoint has {tuple(loaded.shape)}, the table {tuple(rows.shape)}"
            )
        elif not rows.in_reach or loaded.data_ptr() != self.table.on_cpu().data_ptr():
            self.table.fill(loaded)


def _parameter(rows: Table, requires_grad: bool) -> TableParameter:
    """A parameter that was copied or saved."""
    made = TableParameter(rows)
    made.requires_grad_(requires_grad)
    return made


@dataclass
class _Lookup:
    """One call of ``forward``, for its backward pass. It holds no part of the graph, so nothing keeps itself alive."""

    table: TableParameter
    bags: Bags
    mode: str
    weights: torch.Tensor | None
    check: str
    best: torch.Tensor | None = None
    counts: torch.Tensor | None = None

    def given(self) -> tuple[torch.Tensor, ...]:
        """The caller's tensors, which must not have changed when the backward pass reads them."""
        return tuple(t for t in (self.bags.index, self.bags.offsets, self.weights) if t is not None)


class _Ticket(torch.autograd.Function):
    """The table's place in the graph, apart from the bags': its backward runs only where the table's own gradient is asked for.

    It stands for the bags' rows, without having any memory of their size, and so receives their gradient.
    """

    @staticmethod
    def forward(ctx: Any, table: TableParameter, lookup: _Lookup) -> torch.Tensor:
        ctx.lookup = lookup
        ctx.save_for_backward(*lookup.given())
        rows, bags = table.rows, lookup.bags
        return torch.empty(1, dtype=rows.dtype, device=bags.index.device).expand(bags.count, rows.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        _ = ctx.saved_tensors  # raises where a tensor has been changed in place since
        call: _Lookup = ctx.lookup
        call.table.collect(note(call.table.rows, call.bags, call.weights, call.best, call.counts, gradient))
        return torch.zeros_like(call.table), None


class _Pool(torch.autograd.Function):
    """The bags."""

    @staticmethod
    def forward(ctx: Any, ticket: torch.Tensor, weights: torch.Tensor | None, lookup: _Lookup) -> torch.Tensor:
        ctx.lookup = lookup
        ctx.save_for_backward(*lookup.given())
        if weights is not None:
            ctx.weights = weights.shape, weights.dtype
        table = lookup.table
        table.ready(lookup.bags.index.device)
        bags, lookup.best, lookup.counts = pool(table.rows, lookup.bags, lookup.mode, lookup.weights, lookup.check)
        return bags

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        _ = ctx.saved_tensors
        call: _Lookup = ctx.lookup
        slopes = None
        if ctx.needs_input_grad[1]:
            call.table.ready(gradient.device)
            shape, dtype = ctx.weights
            slopes = weigh(call.table.rows, call.bags, gradient.contiguous()).view(shape).to(dtype)
        return (gradient if ctx.needs_input_grad[0] else None), slopes, None


def _check_dtype(dtype: torch.dtype) -> None:
    if not isinstance(dtype, torch.dtype) or dtype not in DTYPES:
        known = ", ".join(map(str, DTYPES))
        raise ConfigError(f"a table of embeddings is of type {known}, not {arguments.repr_of(dtype)}")


def _check_sparse(sparse: bool) -> None:
    if sparse is not True:
        raise ConfigError(
            f"sparse={arguments.repr_of(sparse)}: gradients of tables are of the rows in bags alone; leave it out"
        )


def _padding(padding: int | None, rows: int) -> int | None:
    if padding is None:
        return None
    padding = arguments.whole_number("padding_idx", padding)
    if not -rows <= padding < rows:
        raise ConfigError(f"padding_idx={padding} is no row of {rows}; row numbers go from {-rows} to {rows - 1}")
    return padding % rows
