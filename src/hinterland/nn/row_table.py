"""RowTable: rows of tables in host memory for models that are served, as operators that are captured and compiled.

An operator takes tensors and numbers. Tables, slots and their state lie in no tensor of torch's, so row tables are numbered,
and each has a tensor of one element, its *token*, that every operator says it changes: so torch keeps their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import torch

from ..memory.row_table import GATHER, RESOLVE, WRITE, RowSlots, way_of_gather
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..table import Table, as_table

_numbered: WeakValueDictionary[int, RowTable] = WeakValueDictionary()
_numbers = count()


class RowTable(torch.nn.Module):
    """Rows of tables in host memory, with a buffer of a fixed number of slots in GPU memory for those asked for lately.

    What serving engines do with embeddings of layers or n-grams, and with KV rows outside GPU memory. ``table(rows)`` gathers,
    ``resolve`` says in which slots rows lie, ``write`` changes rows, and ``flush`` has the tables hold what was written.
    Each is an operator of fixed shapes and launches, without the CPU: CUDA graphs capture it and read the row numbers that are
    there at a replay, ``torch.compile`` keeps it whole. The same calls keep the same rows in the same slots, on a GPU and on
    the CPU. Row numbers outside their table give zero rows, and slot -1, and are not written; on a GPU the next call raises.

    A row that is asked for and has no slot crosses the link, to the output and to a slot, in place of one that was not asked
    for lately. No slot of a row of the same batch is taken, so a batch of more rows than slots leaves some without. Without
    slots rows are read and written where they lie.

    Args:
        tables: a UnifiedTensor ``[rows, ...]``, or several with rows of one type and shape, of a multiple of 16 bytes.
        slots: of the buffer. State takes 8 bytes a slot, with ``"lru"`` 21, and 4 for each row of the tables.
        device: where the buffer and results are; by default the current GPU, or the CPU on a machine without one.
        eviction: which rows give way: ``"clock"``, or ``"lru"``, those of the oldest batch.
        write: whether written rows go to their tables at once (``"through"``) or when they leave their slots (``"back"``).
        dtype: of what is gathered: the tables' own; or float32, float16 or bfloat16 of float8_e4m3fn; or float32 of bfloat16.
        scales: float32 of each row of a table, or of each table such a tensor: gathered elements are multiplied with it, in
            float32 before they are rounded. They are kept on the device.

    Raises:
        ConfigError: tables, sizes or types that do not go together, or memory that the GPU does not see.
        OutOfMemory: the buffer does not fit.

    Source: vLLM's and SGLang's Engram and HiSparse. docs/row_table.md says what the link gives.
    """

    def __init__(
        self,
        tables: Table | Sequence[Table],
        slots: int = 0,
        *,
        device: torch.device | str | int | None = None,
        eviction: str = "clock",
        write: str = "back",
        dtype: torch.dtype | None = None,
        scales: torch.Tensor | Sequence[torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.device = devices.as_device(device)
        parts = _each(tables)
        self.tables = tuple(table for table in map(as_table, parts) if table is not None)
        kinds = {(table.dtype, tuple(table.shape[1:])) for table in self.tables}
        if len(kinds) != 1 or len(self.tables) < len(parts):
            raise ConfigError(
                f"a row table has UnifiedTensors with rows of one type and shape, not {arguments.repr_of(tables)}"
            )
        ((self.dtype, self._shape),) = kinds
        held = [memory for table in self.tables if (memory := table.tensor_on(self.device)) is not None]
        if len(held) < len(parts):
            raise ConfigError("rows of a row table lie in one piece of memory; read them there with UnifiedTensor.holding()")
        self.out_dtype = self.dtype if dtype is None else dtype
        arguments.instance("dtype", self.out_dtype, torch.dtype, "as torch.bfloat16 is")
        self._way = way_of_gather(self.dtype, self.out_dtype)
        rows = sum(len(table) for table in self.tables)
        row_bytes = math.prod(self._shape) * self.dtype.itemsize
        slots = min(arguments.whole_number("slots", slots, 0), rows)
        self._rows = RowSlots(
            [(memory.data_ptr(), len(memory)) for memory in held],
            row_bytes,
            slots,
            self.device,
            lru=arguments.one_of("eviction", eviction, ("clock", "lru")) == "lru",
            write_back=arguments.one_of("write", write, ("back", "through")) == "back",
            scales=self._scales(scales),
        )
        self.token = torch.zeros(1, dtype=torch.int32, device=self.device)
        self._number = next(_numbers)
        _numbered[self._number] = self

    def _scales(self, scales: torch.Tensor | Sequence[torch.Tensor] | None) -> torch.Tensor | None:
        if scales is None:
            return None
        if self._way == GATHER:
            raise ConfigError(f"scales are for rows that are gathered as another type than {self.dtype}; give dtype=")
        parts = _each(scales)
        if [arguments.dense("scales", part).numel() for part in parts] != [len(table) for table in self.tables]:
            raise ConfigError(f"{[part.numel() for part in parts]} scales for {[len(table) for table in self.tables]} rows")
        return torch.cat([part.detach().reshape(-1).to(self.device, torch.float32) for part in parts])

    @property
    def buffer(self) -> torch.Tensor:
        """The slots ``[slots, ...]``, as rows of the tables' type: what ``resolve`` counts. Its memory, not a copy."""
        plan, block = self._rows.clock.plan, self._rows.clock.block
        return block[: plan.capacity * plan.row_bytes].view(self.dtype).view(plan.capacity, *self._shape)

    @property
    def held_bytes(self) -> int:
        """Bytes on the device: the slots and their state, without scales."""
        return self._rows.held

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The rows ``[*rows.shape, ...]`` of type ``dtype``.

        Args:
            rows: int32 or int64 row numbers on the device; of several tables ``[tables, ...]``. -1 is a table's last row.
        """
        return torch.ops.hinterland.row_table_gather(self.token, _tensor("rows", rows), self._number)

    def resolve(self, rows: torch.Tensor) -> torch.Tensor:
        """The slot of each row, int32, after those that had none have been given some; -1 where none was left."""
        return torch.ops.hinterland.row_table_resolve(self.token, _tensor("rows", rows), self._number)

    def write(self, rows: torch.Tensor, values: torch.Tensor) -> None:
        """Has ``rows`` hold ``values``, ``[*rows.shape, ...]`` of the tables' type. A row that is named more than once holds
        one of its values, or parts of 16 bytes of several."""
        rows, values = _tensor("rows", rows), _tensor("values", values)
        torch.ops.hinterland.row_table_write(self.token, rows, values, self._number)

    def flush(self) -> None:
        """Has the tables hold all that was written, for those who read them otherwise; on a GPU when it has come so far."""
        torch.ops.hinterland.row_table_flush(self.token, self._number)

    def refresh(self) -> None:
        """Has slots hold what the tables hold now, after others wrote to them. Rows keep their slots; those written here since
        the last ``flush`` stay as they are."""
        torch.ops.hinterland.row_table_refresh(self.token, self._number)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ConfigError("a row table is not copied: its slots are one device's; make another over the same tables")


def _tensor(name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        return value
    return arguments.dense(name, value)  # which refuses it in a sentence


def _each(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _of(number: int, rows: torch.Tensor | None = None) -> RowTable:
    found = _numbered.get(number)
    if found is None:
        raise ConfigError(f"row table {number} is gone; keep the RowTable for as long as its operators run")
    if rows is not None:
        if rows.device != found.device:
            raise ConfigError(f"row numbers are on {rows.device}, and the row table is on {found.device}; move them there")
        tables = len(found.tables)
        if tables > 1 and (rows.dim() == 0 or len(rows) != tables):
            raise ConfigError(f"row numbers of {tables} tables are [{tables}, ...], not of shape {tuple(rows.shape)}")
    return found


def _gather(token: torch.Tensor, rows: torch.Tensor, number: int) -> torch.Tensor:
    table = _of(number, rows)
    out = _like_gather(token, rows, number)
    table._rows.move(table._way, rows.contiguous(), out)
    return out


def _resolve(token: torch.Tensor, rows: torch.Tensor, number: int) -> torch.Tensor:
    out = _like_resolve(token, rows, number)
    _of(number, rows)._rows.move(RESOLVE, rows.contiguous(), out)
    return out


def _write(token: torch.Tensor, rows: torch.Tensor, values: torch.Tensor, number: int) -> None:
    table = _of(number, rows)
    shape = rows.shape + table._shape
    if values.shape != shape or values.dtype != table.dtype or values.device != table.device:
        raise ConfigError(
            f"values are {table.dtype} of shape {tuple(shape)} on {table.device}, not {arguments.repr_of(values)}"
        )
    for written in table.tables:
        written.require_writable()
    table._rows.move(WRITE, rows.contiguous(), values=values.contiguous())


def _flush(token: torch.Tensor, number: int) -> None:
    _of(number)._rows.flush()


def _refresh(token: torch.Tensor, number: int) -> None:
    _of(number)._rows.refresh()


def _like_gather(token: torch.Tensor, rows: torch.Tensor, number: int) -> torch.Tensor:
    table = _of(number)
    return rows.new_empty(rows.shape + table._shape, dtype=table.out_dtype)


def _like_resolve(token: torch.Tensor, rows: torch.Tensor, number: int) -> torch.Tensor:
    return rows.new_empty(rows.shape, dtype=torch.int32)


_library = torch.library.Library("hinterland", "FRAGMENT")
for _name, _takes, _gives, _run, _like in (
    ("row_table_gather", "Tensor rows, int table", "Tensor", _gather, _like_gather),
    ("row_table_resolve", "Tensor rows, int table", "Tensor", _resolve, _like_resolve),
    ("row_table_write", "Tensor rows, Tensor values, int table", "()", _write, lambda *_: None),
    ("row_table_flush", "int table", "()", _flush, lambda *_: None),
    ("row_table_refresh", "int table", "()", _refresh, lambda *_: None),
):
    _library.define(f"{_name}(Tensor(a!) token, {_takes}) -> {_gives}", tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(_name, _run, "CPU")
    _library.impl(_name, _run, "CUDA")
    torch.library.register_fake(f"hinterland::{_name}", _like, lib=_library)
