"""What a table in a file is, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from .program import Program


class RowRange(NamedTuple):
    """Rows [begin, end) of a table; ``group``: the row group that holds them, ``file``: the number of its file of several."""

    begin: int
    end: int
    group: int
    file: int = 0


class Pages(NamedTuple):
    """Parts of a column that a file is asked for by themselves: 4 KiB where it lies as it is used, Parquet's data pages where
    an offset index says where they are, else all that a record batch or a row group has.

    Attributes:
        begins: the first row of each in ascending order, and the row after the last one, int64, [n + 1].
        bytes: of each in the file, int64, [n].
    """

    begins: np.ndarray
    bytes: np.ndarray


class ColumnValues(NamedTuple):
    """Values of a column in some of the rows that were asked for.

    Attributes:
        at: how many of these rows come before.
        values: an array of Arrow's.
        bytes: what of the file was read for it.
    """

    at: int
    values: Any
    bytes: int


# Of each column, by its file and name, the row group that was decompressed last: what is asked next may lie in it, too.
KeptGroups = dict[tuple[str, str], tuple[int, Any]]


class FileTable(Protocol):
    """A table in a file, of which pyarrow reads batches.

    Attributes:
        path: of the file.
        schema: Arrow's.
        unread: columns that are not read, and why.
        rows: how many there are.
        groups: row groups with rows, of which statistics may leave some out.
    """

    path: str
    schema: Any
    unread: dict[str, str]
    rows: int
    groups: int

    def parts(self, program: Program | None = None) -> list[RowRange]:
        """The parts with rows for which the program may hold, by their statistics."""
        ...

    def values_of(self, name: str) -> int | None:
        """How many values a column has, where the file says so without being read."""
        ...

    def batches(self, names: Sequence[str], parts: Sequence[RowRange]) -> Iterator[tuple[int, Any]]:
        """The first row of each record batch of some parts, in their order, and the batch, which has columns ``names`` alone.

        Raises:
            ConfigError: pyarrow does not read a column.
            FormatError: it is damaged.
        """
        ...

    def read_as_asked(self) -> None:
        """From now on as few bytes as can be come from the disk, where it is asked for what it is to bring."""
        ...

    def pages(self, name: str, begin: int, end: int) -> Pages:
        """Those of a column that hold any of the rows [begin, end)."""
        ...

    def values_at(self, name: str, rows: np.ndarray, kept: KeptGroups) -> Iterator[ColumnValues]:
        """A column in some rows, ascending, int64, of which only the pages that hold them are read; in their order.

        Raises:
            As ``batches``.
        """
        ...

    def stored_bytes(self, name: str, parts: Sequence[RowRange]) -> int:
        """What a column takes in the file, in some parts; decompressed where the file does not say."""
        ...
