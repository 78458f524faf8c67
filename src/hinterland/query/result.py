"""What a query found, and what it read for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.units import format_bytes
from .bounds import real


@dataclass(repr=False)
class ColumnPlan(Repr):
    """How a column was read.

    Attributes:
        name: the column.
        how: ``streamed`` (whole), ``gathered`` (single values), or both by turns, and ``not read`` where nothing asked for it;
            of columns that do not fit host memory ``on demand`` (pages that hold a match), of others beside them ``held``.
        why: the reason, in words.
        bytes: what was read of it; None where a CPU answers.
        least_bytes: what any plan reads of it; None where a CPU answers.
    """

    name: str
    how: str
    why: str
    bytes: int | None
    least_bytes: int | None


@dataclass(repr=False)
class QueryResult(Repr):
    """The answer to a query.

    Attributes:
        rows: for each group a dict of its keys and of its aggregates, these by the text that asked for them; sorted by the
            keys, nulls last. One row where there are no groups.
        matched: rows of the file for which the filter is true.
        bytes: where a GPU answers, what was read of all columns: of the copies, which are codes of one or two bytes where few
            values differ; or of the file, where columns do not fit host memory. None where a CPU answers.
        least_bytes: the filter's columns, where statistics leave them, and sectors of 32 bytes that hold the values of other
            columns in rows that match; or of the file the pages that hold these. None where a CPU answers.
        plans: one for each column that the query names.
    """

    rows: list[dict[str, Any]]
    matched: int
    bytes: int | None
    least_bytes: int | None
    plans: list[ColumnPlan] = field(default_factory=list)

    def explain(self) -> str:
        """How each column was read, and why; one line each."""
        return "\n".join(
            f"{arguments.one_line(plan.name)}: {plan.how}{read_of(plan.bytes, plan.least_bytes)}: {plan.why}"
            for plan in self.plans
        )

    def to_arrow(self) -> Any:
        """The rows, a ``pyarrow.Table``, of no columns where there is none; whole numbers beyond int64 are decimals.

        Raises:
            ConfigError: a number has more digits than Arrow's decimals.
        """
        import pyarrow

        names = self.rows[0] if self.rows else ()
        return pyarrow.table({name: _array(name, [row[name] for row in self.rows]) for name in names})

    def to_pandas(self) -> Any:
        """The same as a ``pandas.DataFrame``.

        Raises:
            ConfigError: pandas is missing.
        """
        return frame_of(self.to_arrow())


def frame_of(table: Any) -> Any:
    """A table of Arrow's as a ``pandas.DataFrame``.

    Raises:
        ConfigError: pandas is missing, or has no such values.
    """
    try:
        import pandas  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise ConfigError("a DataFrame needs pandas: pip install pandas; or take the rows by to_arrow()") from error
    try:
        return table.to_pandas()
    except (ValueError, OverflowError) as error:  # an unknown time zone, a year that Python does not know
        raise ConfigError(f"pandas does not take it: {error}; take it by to_arrow()") from error


def _array(name: str, values: list[Any]) -> Any:
    """Arrow's array of an answer's column. pyarrow by itself refuses whole numbers beyond int64, those beyond float64 beside
    floats, and NumPy's dates."""
    import pyarrow

    types = set(map(type, values))
    if np.datetime64 in types:
        return pyarrow.array(np.array(values, "datetime64"))
    if {int, float} <= types:
        values = [None if one is None else real(one) for one in values]
    elif any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in values):
        values = [None if one is None else Decimal(one) for one in values]
    try:
        return pyarrow.array(values)
    except pyarrow.ArrowInvalid as error:
        raise ConfigError(f"{name}: Arrow's decimals have at most 76 digits; take the answer's .rows: {error}") from error


def read_of(read: int | None, least: int | None) -> str:
    """How much was read, in words; nothing where that is not known."""
    return "" if read is None or least is None else f", {format_bytes(read)} read of at least {format_bytes(least)}"
