"""Rows of a table at given numbers: as Arrow's, and as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..runtime.errors import ConfigError
from .table import FileTable


def arrow_rows(table: FileTable, names: Sequence[str], numbers: np.ndarray[Any, Any]) -> Any:
    """Columns of some rows, a ``pyarrow.Table``, in types as the file has them; parts without any of the rows are not read.

    Args:
        numbers: ascending, int64.

    Raises:
        ConfigError: pyarrow does not read a column.
        FormatError: the file is damaged.
    """
    import pyarrow

    parts = [part for part in table.parts() if np.subtract(*np.searchsorted(numbers, [part.end, part.begin])) > 0]
    found = []
    for begin, batch in table.batches(names, parts):
        first, last = np.searchsorted(numbers, [begin, begin + batch.num_rows])
        if first < last:
            batch.validate(full=True)  # offsets and codes beyond what is there are damage
            found.append(batch.take(pyarrow.array(numbers[first:last] - begin)))
    return pyarrow.Table.from_batches(found, pyarrow.schema([table.schema.field(name) for name in names]))


def tensors_of(rows: Any, device: torch.device) -> dict[str, torch.Tensor]:
    """Columns of a table of Arrow's, each [rows], of their own types.

    Raises:
        ConfigError: one holds no numbers, or nulls.
    """
    return {name: _tensor(name, rows.column(name)).to(device) for name in rows.schema.names}


def _tensor(name: str, column: Any) -> torch.Tensor:
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    types = pyarrow.types
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
        raise ConfigError(f"the column {name!r} is {column.type}, of which torch has no tensors; take it by to_arrow()")
    if column.null_count:
        raise ConfigError(
            f"the column {name!r} has {column.null_count:,} nulls, which no tensor has; filter '{name} is not null'"
        )
    return torch.from_numpy(column.to_numpy().copy())
