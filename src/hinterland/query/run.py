"""What answers a query to a table, on whatever processor: what it is given, and what it finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .bounds import ColumnKind
from .program import Program
from .result import ColumnPlan
from .table import FileTable


class ColumnMeasure(NamedTuple):
    """What is asked of a column (None: of the rows), or of its ratio to another."""

    column: str | None
    divisor: str | None = None
    adds: bool = False
    bounds: bool = False


@dataclass
class GroupMeasure:
    """A measure of each group, in lists.

    Attributes:
        count: of values.
        whole: sums of whole numbers, as they are stored.
        real: sums of floats, and of ratios.
        bounds: the least and the greatest value, as they are stored; None where there is nothing but NaN.
    """

    count: list[int]
    whole: list[int]
    real: list[float]
    bounds: list[tuple[Any, Any] | None]

    def __len__(self) -> int:
        return len(self.count)


class Answer(NamedTuple):
    """Groups in the order of their keys.

    Attributes:
        keys: the values of each key.
        found: of each measure what was found.
        matched: rows for which the filter is true.
        plans: how each column was read.
    """

    keys: list[list[Any]]
    found: list[GroupMeasure]
    matched: int
    plans: list[ColumnPlan]


@dataclass(eq=False)
class QueryRun(ABC):
    """One query to one table.

    Attributes:
        table: the table.
        kinds: of the columns that the query names.
        program: the filter; None where there is none.
        keys: columns that rows are grouped by.
        measures: what is asked of each group.
        terms: of columns that are calculated.
    """

    table: FileTable
    kinds: dict[str, ColumnKind]
    program: Program | None
    keys: tuple[str, ...]
    measures: list[ColumnMeasure]
    terms: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def answer(self) -> Answer:
        """What was asked.

        Raises:
            ConfigError: there are too many groups, or pyarrow does not read a column.
            FormatError: the file is damaged.
        """
