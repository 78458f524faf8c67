"""What a table in a file is, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from .program import Program


class RowRange(NamedTuple):
    """Rows [begin, end) of a table; ``group``: the row group that holds them, ``file``: the number of its file of several."""

    begin: int
    end: int
    group: int
    file: int = 0


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
