"""DuckDB, which answers queries on a CPU: one instance for the process, that fetches nothing and writes no files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from .. import _core
from ..runtime.errors import ConfigError

ROWS = "rows"  # what SQL calls the batches that it is given
_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # names in SQL are never variables of Python's
    "temp_directory": "",
}
_lock = threading.Lock()
_opened: Any = None
_of_parents: list[Any] = []  # whose threads are not in this process: to close one would wait for them


def _anew_in_child() -> None:
    global _lock, _opened
    _of_parents.append(_opened)
    _lock, _opened = threading.Lock(), None


os.register_at_fork(after_in_child=_anew_in_child)


def ask(path: str, sql: str, values: Sequence[str], schema: Any, batches: Iterator[Any]) -> list[tuple[Any, ...]]:
    """The rows that SQL finds in batches of pyarrow's, which it calls ``ROWS``; by as many threads as ``_core`` takes.

    Args:
        path: what the batches are of, for sentences.
        sql: the question.
        values: of its parameters.
        schema: of the batches.
        batches: what they raise comes out as it is.

    Raises:
        ConfigError: DuckDB is missing.
        MemoryError: there is not enough.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(f"{path}: queries on a CPU need DuckDB: pip install 'hinterland[query]'") from error
    import pyarrow

    raised: list[BaseException] = []

    def taken() -> Iterator[Any]:
        try:
            yield from batches
        except BaseException as error:
            raised.append(error)
            raise

    cursor = _cursor(duckdb)
    try:
        cursor.execute(f"set threads = {_core.num_threads()}")
        cursor.register(ROWS, pyarrow.RecordBatchReader.from_batches(schema, taken()))
        found: list[tuple[Any, ...]] = cursor.execute(sql, list(values)).fetchall()
        return found
    except duckdb.Error as error:
        if raised:
            raise raised[0] from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise MemoryError(str(error)) from error
        raise
    finally:
        cursor.close()


def _cursor(duckdb: Any) -> Any:
    """A connection of its own, for threads may ask together."""
    global _opened
    with _lock:
        if _opened is None:
            _opened = duckdb.connect(config=_CONFIG)
        return _opened.cursor()
