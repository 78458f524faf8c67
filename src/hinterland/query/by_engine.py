"""Runs a query on a CPU: pyarrow reads, and DuckDB filters, groups and adds up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..runtime.errors import ConfigError
from ..runtime.thresholds import ENGINE_ROWS
from . import engine
from .arrays import taken, type_of
from .bounds import ColumnKind
from .result import ColumnPlan
from .run import Answer, ColumnMeasure, GroupMeasure, QueryRun
from .sql import Columns
from .table import RowRange

MOST_GROUPS = 1 << 16
_ASKED = 64  # batches that are calculated at once: 8 million rows at most
_NUMBER = "row_number"


@dataclass(eq=False)
class ByEngine(QueryRun):
    """One query to one table.

    Attributes:
        refusal: why no GPU answers, which was asked; empty where none was.
    """

    refusal: str = field(default="", kw_only=True)

    def answer(self) -> Answer:
        """What was asked."""
        said = None if self.program is not None or self.keys else [self._values_said(one) for one in self.measures]
        if said is not None and None not in said:
            plans = [ColumnPlan(name, "not read", "the file says how many values it has", None, None) for name in self._read]
            return Answer([], [GroupMeasure([count or 0], [0], [0.0], [None]) for count in said], self.table.rows, plans)
        parts = self.table.parts(self.program)
        columns = Columns(self.kinds, self.terms)
        keys = [columns.name(name) for name in self.keys]
        asked = [*keys, "count(*)", *(part for one in self.measures for part in columns.measures(one))]
        sql = f"select {', '.join(asked)} from {engine.ROWS}"
        if self.program is not None:
            sql += f" where {columns.condition(self.program)}"
        if keys:
            sql += f" group by {', '.join(keys)} order by {', '.join(keys)} limit {MOST_GROUPS + 1}"
        rows = engine.ask(self.table.path, sql, columns.values, self._schema(), self._batches(parts))
        if len(rows) > MOST_GROUPS:
            raise ConfigError(f"{', '.join(self.keys)} have more than {MOST_GROUPS:,} values; group by others, or filter")
        found = list(zip(*rows, strict=True)) or [()] * len(asked)
        shown = [_values(self.kinds[name], stored) for name, stored in zip(self.keys, found, strict=False)]
        at = len(keys) + 1
        measures = [_found(found[at + 6 * number :][:6]) for number in range(len(self.measures))]
        return Answer(shown, measures, sum(found[len(keys)]), self._plans(parts))

    def row_numbers(self, most: int | None) -> np.ndarray[Any, Any]:
        """Of rows for which the filter is true, in their order, the first ``most``; int64."""
        columns, limit = Columns(self.kinds, self.terms), "" if most is None else f" limit {most}"
        if self.program is None:
            return np.arange(self.table.rows if most is None else min(most, self.table.rows))
        sql = f"select {_NUMBER} from {engine.ROWS} where {columns.condition(self.program)}{limit}"
        batches = self._batches(self.table.parts(self.program), numbered=True)
        found = engine.ask(self.table.path, sql, columns.values, self._schema(numbered=True), batches, "fetchnumpy")
        return np.asarray(found[_NUMBER], np.int64)

    def calculated(self) -> Iterator[tuple[int, Any]]:
        """The columns that are calculated, of all rows: the first row of each record batch, and the batch."""
        import pyarrow

        columns, begin = Columns(self.kinds, self.terms), 0
        asked = ", ".join(f"{columns.name(name)} t{number}" for number, name in enumerate(self.terms))
        sql, coming = f"select {asked} from {engine.ROWS}", self._batches(self.table.parts())
        while some := list(islice(coming, _ASKED)):
            found = engine.ask(self.table.path, sql, columns.values, self._schema(), iter(some), "fetchnumpy").values()
            arrays = [pyarrow.array(np.ma.getdata(one), mask=np.ma.getmaskarray(one)) for one in found]
            yield begin, pyarrow.record_batch(arrays, names=list(self.terms))
            begin += len(arrays[0])

    def _values_said(self, one: ColumnMeasure) -> int | None:
        """How many values of all its rows the file says that there are; None where more is asked, or it does not say."""
        if one.column is None:
            return self.table.rows
        more = one.adds or one.bounds or one.divisor is not None or one.column in self.terms
        return None if more else self.table.values_of(one.column)

    @property
    def _read(self) -> dict[str, ColumnKind]:
        """The columns of the file."""
        return {name: kind for name, kind in self.kinds.items() if name not in self.terms}

    def _schema(self, numbered: bool = False) -> Any:
        import pyarrow

        types = [type_of(self.table.schema.field(name).type, kind) for name, kind in self._read.items()]
        fields = [(f"c{number}", type_) for number, type_ in enumerate(types)]
        return pyarrow.schema([*fields, *([(_NUMBER, pyarrow.int64())] if numbered else [])])

    def _batches(self, parts: list[RowRange], numbered: bool = False) -> Iterator[Any]:
        """Of the file's columns; ``numbered``: and the number of each row."""
        import pyarrow

        schema = self._schema(numbered)
        for first, batch in self.table.batches(list(self._read), parts):
            arrays = [
                taken(f"{self.table.path}: the column {name!r}", array, kind)
                for (name, kind), array in zip(self._read.items(), batch.columns, strict=True)
            ]
            if numbered:
                arrays.append(pyarrow.array(np.arange(first, first + batch.num_rows)))
            made = pyarrow.record_batch(arrays, schema=schema)
            yield from (made.slice(begin, ENGINE_ROWS) for begin in range(0, max(made.num_rows, 1), ENGINE_ROWS))

    def _plans(self, parts: list[RowRange]) -> list[ColumnPlan]:
        why = "pyarrow reads it, and DuckDB answers"
        if left_out := self.table.groups - len(parts):
            why += f", but for {left_out:,} of {self.table.groups:,} row groups that statistics leave out"
        if self.refusal:
            why += f"; no GPU does, for {self.refusal}"
        return [ColumnPlan(name, "streamed" if parts else "not read", why, None, None) for name in self._read]


def _values(kind: ColumnKind, stored: Sequence[Any]) -> list[Any]:
    """What is shown of a key's values, None being a null."""
    if kind.family == "text":
        return list(stored)
    shown = iter(kind.values([one for one in stored if one is not None]))
    return [None if one is None else next(shown) for one in stored]


def _found(columns: Sequence[Sequence[Any]]) -> GroupMeasure:
    """Of each group what ``Columns.measures`` asked for."""
    counts, wholes, compensated, sums, least, greatest = columns
    reals = [
        0.0 if total is None else total if one is None or one - one != 0 else one  # of infinities there is no rest
        for one, total in zip(compensated, sums, strict=True)
    ]
    bounds = [None if low is None else (low, high) for low, high in zip(least, greatest, strict=True)]
    return GroupMeasure(list(counts), [one or 0 for one in wholes], reals, bounds)
