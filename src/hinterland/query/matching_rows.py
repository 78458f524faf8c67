"""Rows of a table at given numbers: as Arrow's, and as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..runtime.errors import ConfigError
from .files import named_type
from .table import FileTable


def taken_columns(table: FileTable, names: Sequence[str]) -> list[str]:
    """Columns, of which rows can be taken: those that are named, or all.

    Raises:
        ConfigError: of one that is named they cannot.
    """
    import pyarrow

    whole = [field.name for field in table.schema if not pyarrow.types.is_nested(field.type) and field.name not in table.unread]
    for name in names or whole:
        if pyarrow.types.is_nested(found := named_type(table, name)):
            raise ConfigError(f"the column {name!r} is {found}, of which no rows are taken; name columns without parts")
    return list(names) or whole


def arrow_rows(table: FileTable, names: Sequence[str], numbers: np.ndarray[Any, Any]) -> Any:
    """Columns of some rows, a ``pyarrow.Table``, in types as the file has them, but for views; parts without any of
    the rows are not read.

    Args:
        numbers: ascending, int64.

    Raises:
        ConfigError: pyarrow does not read a column.
        FormatError: the file is damaged.
    """
    import pyarrow

    parts = [part for part in table.parts() if np.subtract(*np.searchsorted(numbers, [part.end, part.begin])) > 0]
    schema = pyarrow.schema([(name, _taken_type(table.schema.field(name).type)) for name in names])
    found = []
    for begin, batch in table.batches(names, parts):
        first, last = np.searchsorted(numbers, [begin, begin + batch.num_rows])
        if first < last:
            batch.validate(full=True)  # offsets and codes beyond what is there are damage
            at = pyarrow.array(numbers[first:last] - begin)
            columns = [column.cast(type_).take(at) for column, type_ in zip(batch.columns, schema.types, strict=True)]
            found.append(pyarrow.record_batch(columns, schema=schema))
    return pyarrow.Table.from_batches(found, schema)


def _taken_type(type_: Any) -> Any:
    """Of an array whose elements pyarrow takes: of views it takes none."""
    import pyarrow

    return {pyarrow.string_view(): pyarrow.large_string(), pyarrow.binary_view(): pyarrow.large_binary()}.get(type_, type_)


def tensors_of(rows: Any, device: torch.device) -> dict[str, torch.Tensor]:
    """Columns of a table of Arrow's, each [rows], of their own types.

    Raises:
        ConfigError: one holds no numbers, or nulls.
    """
    named = zip(rows.schema.names, rows.columns, strict=True)  # a column that is named twice has one tensor
    return {name: _tensor(name, column).to(device) for name, column in named}


def _tensor(name: str, column: Any) -> torch.Tensor:
    import pyarrow

    types = pyarrow.types
    type_ = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)):
        raise ConfigError(f"the column {name!r} is {type_}, of which torch has no tensors; take it by to_arrow()")
    column = column.cast(type_)
    if column.null_count:
        raise ConfigError(
            f"the column {name!r} has {column.null_count:,} nulls, which no tensor has; filter '{name} is not null'"
        )
    return torch.from_numpy(column.to_numpy().copy())
