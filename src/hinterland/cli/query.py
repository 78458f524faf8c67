"""``hinterland query``: filters, groups, aggregates and rows of a table in files."""

from __future__ import annotations

import datetime
import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from ..runtime.errors import ConfigError
from .output import emit, print_table
from .parameters import Json, named_path

_COUNT = "count()"


def query(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILES",
            help="An Arrow, Parquet, ORC or CSV file, a folder of such, or a pattern between quotes, as 'trips/*.parquet'.",
            parser=named_path,
        ),
    ],
    predicate: Annotated[
        str,
        typer.Argument(metavar="[FILTER]", help="Only rows for which it is true, as \"distance >= 10 and color == 'green'\"."),
    ] = "",
    select: Annotated[
        str, typer.Option(metavar="LIST", help=f"Aggregates, as 'mean(total), sum(fare + tip)'; {_COUNT} unless said.")
    ] = "",
    group_by: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS", help="A row for each value of these columns, as color,payment; odd names go between backquotes."
        ),
    ] = "",
    columns: Annotated[
        str, typer.Option(metavar="COLUMNS", help="The rows that match instead, of these columns; * is all that can be read.")
    ] = "",
    limit: Annotated[
        int | None, typer.Option(min=0, help="The first so many rows; with --select or --group-by, groups.")
    ] = None,
    json: Json = False,
) -> None:
    """Answer a question to a table in files: sums, means and counts of the rows that match, or these rows."""
    from ..query import query as asked
    from ..query.expression import columns as listed
    from ..query.result import read_of

    if predicate and Path(predicate).is_file():
        raise ConfigError(f"the filter {predicate!r} is a file; write a pattern between quotes, as 'trips/*.parquet'")
    if columns and (group_by or select):
        raise ConfigError("--columns shows rows, and --select and --group-by add them up; ask for one of both")
    if limit is not None and not (group_by or select):
        columns = columns or "*"  # as SQL shows what comes first
    begun = time.perf_counter()
    question = asked(file)
    if predicate:
        question = question.filter(predicate)
    if group_by:
        question = question.group_by(*listed(group_by))
    if limit is not None:
        question = question.limit(limit)
    if columns:
        rows = question.to_arrow(*([] if columns == "*" else listed(columns)))
        seconds = time.perf_counter() - begun
        try:
            shown = rows.to_pylist()
        except (OverflowError, ValueError) as error:  # of years that Python does not know
            raise ConfigError(f"{file}: a row has a value that is not shown: {error}; name other columns") from error
        _emit(file, shown, rows.schema.names, {"seconds": seconds}, f"{len(rows):,} rows; {seconds:.3g} s", json)
        return
    found = question.agg(select or _COUNT)
    seconds = time.perf_counter() - begun
    sizes = {"matched": found.matched, "bytes": found.bytes, "least_bytes": found.least_bytes, "seconds": seconds}
    title = f"{found.matched:,} rows match; {seconds:.3g} s{read_of(found.bytes, found.least_bytes)}"
    _emit(file, found.rows, list(found.rows[0]) if found.rows else [], sizes, title, json)
    if not json:
        emit({}, False, found.explain())


def _emit(file: Path, rows: list[dict[str, Any]], names: list[str], facts: dict[str, Any], title: str, json: bool) -> None:
    """Rows as one object, or as a table."""
    if json:
        plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
        emit({"path": str(file), "rows": plain, **facts}, True, "")
        return
    print_table(
        f"{file}: {title}",
        [(_repr_of(name), bool(rows) and isinstance(rows[0][name], int | float | Decimal)) for name in names],
        [[_repr_of(row[name]) for name in names] for row in rows],
    )


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
