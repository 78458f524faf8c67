"""DuckDB, which answers queries on a CPU: one instance for the process, that fetches nothing and writes no files."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from .. import _core
from ..runtime.errors import ConfigError

ROWS = "rows"  # what SQL calls the batches that it is given
_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # names in SQL are never variables of Python's
    "temp_directory": "",
    "preserve_insertion_order": "true",  # rows come in the order of the file
    "allocator_background_threads": "true",  # gives back what many groups took
}
_lock = threading.Lock()
_opened: Any = None


def _anew_in_child() -> None:
    """What the parent opened is never closed here, not even as the process ends: its threads are not in it."""
    global _lock, _opened
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_opened))
    _lock, _opened = threading.Lock(), None


os.register_at_fork(after_in_child=_anew_in_child)


def ask(path: str, sql: str, values: Sequence[str], schema: Any, batches: Iterator[Any], fetch: str = "fetchall") -> Any:
    """The rows that SQL finds in batches of pyarrow's, which it calls ``ROWS``; by as many threads as ``_core`` takes.

    Args:
        path: what the batches are of, for sentences.
        sql: the question.
        values: of its parameters.
        schema: of the batches.
        batches: what they raise comes out as it is.
        fetch: the method of DuckDB's that gives the rows.

    Raises:
        ConfigError: DuckDB is missing, or whole numbers overflow.
        MemoryError: there is not enough.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(f"{path}: queries on a CPU need DuckDB: pip install 'hinterland[query]'") from error
    import pyarrow

    raised: list[BaseException] = []

    def taken() -> Iterator[Any]:
        _core.set_num_threads(threads)  # of whichever thread reads
        try:
            yield from batches
        except BaseException as error:
            raised.append(error)
            raise

    def answer() -> Any:
        cursor.execute(f"set threads = {threads}")
        cursor.register(ROWS, pyarrow.RecordBatchReader.from_batches(schema, taken()))
        return getattr(cursor.execute(sql, list(values)), fetch)()

    cursor, threads = _cursor(duckdb), _core.num_threads()
    try:
        with ThreadPoolExecutor(1) as beside:  # DuckDB sees signals seconds late, and makes an error of its own of them
            coming = beside.submit(answer)
            try:
                wait([coming])
            except BaseException:
                while not coming.done():  # an interrupt before the question has begun ends nothing
                    cursor.interrupt()
                    wait([coming], 0.05)
                raise
            return coming.result()
    except duckdb.Error as error:
        if raised:
            raise raised[0] from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise MemoryError(str(error).partition("\n")[0]) from error
        if isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException):
            reason = " ".join(str(error).partition("\n")[0].split())
            raise ConfigError(f"{path}: {reason}; divide a number by 1: quotients are floats, which do not overflow") from error
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
