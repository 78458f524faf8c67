"""``hinterland query``: filters, groups and aggregates over a table in a file."""

from __future__ import annotations

import datetime
import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, print_table
from .parameters import Json, named_path


def query(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An Arrow, Parquet, ORC or CSV file.", parser=named_path)],
    predicate: Annotated[
        str,
        typer.Argument(metavar="[FILTER]", help="Only rows for which it is true, as \"distance >= 10 and color == 'green'\"."),
    ] = "",
    select: Annotated[str, typer.Option(metavar="LIST", help="Aggregates, as 'mean(total), sum(fare), count()'.")] = "count()",
    group_by: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS", help="A row for each value of these columns, as color,payment; odd names go between backquotes."
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Answer a question to a table in a file: sums, means and counts of the rows that match."""
    from ..query import query as asked
    from ..query.expression import columns
    from ..query.result import read_of

    begun = time.perf_counter()
    question = asked(file)
    if predicate:
        question = question.filter(predicate)
    if group_by:
        question = question.group_by(*columns(group_by))
    found = question.agg(select)
    seconds = time.perf_counter() - begun
    if json:
        rows = [{name: _plain(value) for name, value in row.items()} for row in found.rows]
        sizes = {"matched": found.matched, "bytes": found.bytes, "least_bytes": found.least_bytes, "seconds": seconds}
        emit({"path": str(file), "rows": rows, **sizes}, True, "")
        return
    names = list(found.rows[0]) if found.rows else []
    print_table(
        f"{file}: {found.matched:,} rows match; {seconds:.3g} s{read_of(found.bytes, found.least_bytes)}",
        [(_repr_of(name), isinstance(found.rows[0][name], int | float | Decimal)) for name in names],
        [[_repr_of(row[name]) for name in names] for row in found.rows],
    )
    emit({}, False, found.explain())


def _repr_of(value: Any) -> str:
    """As a table has it: texts between quotes, as Python writes them, where they could be taken for others or for null."""
    if value is None:
        return "null"
    if isinstance(value, str) and (value in ("", "null") or value[0] in "'\"" or value != value.strip()):
        return repr(value)
    return str(value)


def _plain(value: Any) -> Any:
    """As JSON has it: dates by ISO 8601, decimals as text, which keeps their digits."""
    if isinstance(value, str | int | float | None):
        return value
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
