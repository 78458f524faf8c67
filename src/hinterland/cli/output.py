"""What a command prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..runtime.arguments import one_line
from ..runtime.errors import StorageError

_WIDEST = 1 << 40  # of a table, in characters: no line is as long
_NARROWEST = 16  # of a column: tables of many are wider than a terminal, which folds their lines


def emit(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Prints ``result`` as one JSON object, and nothing else, with ``--json``; otherwise ``text`` for people.

    JSON has no NaN and no infinity: they become null.
    """
    _take_any_text()
    try:
        print(json.dumps(_finite(result), allow_nan=False) if as_json else text, flush=True)
    except BrokenPipeError:
        raise  # whoever read the output has enough; the command line ends quietly
    except OSError as error:
        raise lost(error) from error


def _take_any_text() -> None:
    """A file name that is no UTF-8 comes out of UTF-8 as it is; of other encodings what they lack, as Python writes it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        whole = sys.stdout.encoding.lower().replace("-", "") == "utf8"
        sys.stdout.reconfigure(errors="surrogateescape" if whole else "backslashreplace")


def lost(error: OSError) -> StorageError:
    """The sentence where standard output refused. What is left in its buffer goes nowhere from now on: it would be refused once
    more when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return StorageError(f"standard output cannot be written: {error.strerror or error}; the result is lost")


def flush() -> None:
    """Writes what is left in the buffer, as the interpreter would at its end, when nobody can say that it was refused."""
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        lost(error)
        sys.exit(1)


def say(sentence: str) -> None:
    """Prints on standard error, if that can be."""
    try:
        print(sentence, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def print_table(title: str, columns: Sequence[tuple[str, bool]], rows: Iterable[Iterable[str]]) -> None:
    """Prints a table for people, each column with a heading (empty ones: none at all) and whether it is aligned right.

    Texts are shown whole, and as they are: a terminal folds what is too wide for it, and what is piped has lines of any length.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    _take_any_text()
    console = Console(highlight=False)
    least = _NARROWEST * len(columns) if console.is_terminal else _WIDEST
    console = Console(highlight=False, width=max(console.width, least))
    headed = any(heading for heading, _ in columns)
    table = Table(show_header=headed, box=box.SIMPLE_HEAD if console.is_terminal else None)
    for heading, right in columns:
        table.add_column(Text(one_line(heading)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console.print(Text(one_line(title), style="bold"))
    console.print(table)
    console.print()


def require_open() -> None:
    """Refuses a closed standard output (``>&-``) before a command works for nothing, and lives with a closed standard error."""
    if sys.stderr is None:  # print() would take standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  open until the end
    if sys.stdout is None:
        raise StorageError("standard output is closed, and the result would be lost; send it to a file, or to /dev/null")


def _finite(value: Any) -> Any:
    """The same with None for each number that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
