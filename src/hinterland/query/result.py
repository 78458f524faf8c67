"""What a query found, and what it read for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..runtime import arguments
from ..runtime.shown import Shown
from ..runtime.units import format_bytes


@dataclass(repr=False)
class ColumnPlan(Shown):
    """How a column was read.

    Attributes:
        name: the column.
        how: ``streamed`` (whole), ``gathered`` (single values), or both by turns, and ``not read`` where nothing asked for it.
        why: the reason, in words.
        bytes: what was read of it.
        least_bytes: what any plan reads of it.
    """

    name: str
    how: str
    why: str
    bytes: int
    least_bytes: int


@dataclass(repr=False)
class QueryResult(Shown):
    """The answer to a query.

    Attributes:
        rows: for each group a dict of its keys and of its aggregates, these by the text that asked for them; sorted by the
            keys, nulls last. One row where there are no groups.
        matched: rows of the file for which the filter is true.
        bytes: what was read of all columns. Of Parquet as it is stored, with the indexes or headers by which pages were found;
            where a GPU answers, of the copies that it reads, which are codes of one or two bytes where few values differ.
        least_bytes: the filter's columns, where statistics leave them, and what holds the values of other columns in rows that
            match: sectors of 32 bytes, and of Parquet, unless a GPU answers, pages as they are stored.
        plans: one for each column that the query names.
    """

    rows: list[dict[str, Any]]
    matched: int
    bytes: int
    least_bytes: int
    plans: list[ColumnPlan] = field(default_factory=list)

    def explain(self) -> str:
        """How each column was read, and why; one line each."""
        return "\n".join(
            f"{arguments.one_line(plan.name)}: {plan.how}, {format_bytes(plan.bytes)} read of at least "
            f"{format_bytes(plan.least_bytes)}: {plan.why}"
            for plan in self.plans
        )
