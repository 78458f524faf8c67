"""Tables in files of all formats: Arrow's and Parquet's, ORC and CSV once they are Arrow files."""

from __future__ import annotations

import os
import signal
import stat
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError, HinterlandError, OutOfMemory
from ..runtime.files import refused
from .arrow import ArrowFile
from .converted import arrow_copy
from .parquet import ParquetFile
from .table import FileTable

# What files begin with, and where the same stands at their end.
_MAGICS = {
    b"ARROW1": slice(-6, None), b"PAR1": slice(-4, None), b"PARE": slice(-4, None), b"ORC": slice(-4, -1),
    b"FEA1": slice(-4, None)
}  # fmt: skip
_STREAM = b"\xff\xff\xff\xff"
_CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".csv.lz4")
ENDINGS = (".parquet", ".arrow", ".feather", ".orc", *_CSV)  # of files that are tables, in a folder


@contextmanager
def sentences(path: str) -> Iterator[None]:
    """Turns what pyarrow raises over a damaged file into a FormatError, and leaves what a signal's handler raises as it is."""
    try:
        yield
    except HinterlandError:
        raise
    except Exception as error:  # of many kinds: pyarrow's own, and what damaged metadata provokes
        if _is_of_a_handler(error):
            raise
        if isinstance(error, MemoryError):
            raise OutOfMemory(f"{path}: what it says it holds does not fit this machine's memory: {error}") from error
        if isinstance(error, OSError) and error.errno is not None:  # else pyarrow's, over what it reads, not over how
            raise refused(path, "read", error) from error
        raise _unreadable(path, error) from error


def _is_of_a_handler(error: Exception) -> bool:
    """Whether a handler of Python's for a signal, which runs between any two of its instructions, is among what raised it."""
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = [
        getattr(one, "__code__", None) or getattr(type(one).__call__, "__code__", None) for one in handlers if callable(one)
    ]
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _unreadable(path: str, error: Exception) -> HinterlandError:
    reason = " ".join(str(error).split())[:200]
    if "Time zone file" in reason:  # liborc's, of files whose times are good
        return ConfigError(f"{path}: this machine has no time zones, by which an ORC file's times are read: {reason}")
    if "CSV parse error: Expected 1 columns" in reason:  # as of fields between semicolons, whose numbers have commas
        return ConfigError(f"{path}: its heading has no comma, and a line has: {reason}; write fields between commas")
    if isinstance(error, NotImplementedError) or "not yet implemented" in reason.lower():
        return ConfigError(f"{path}: pyarrow does not read it: {reason}; write it with other encodings")
    return FormatError(f"{path}: damaged: {type(error).__name__}: {reason}; fetch or write it again")


def open_table(path: str) -> FileTable:
    """The table in a file, by its content; ORC and CSV files by their Arrow copies.

    Raises:
        ConfigError: pyarrow is missing, or it is no file of these.
        FormatError: the file is damaged.
        StorageError: it cannot be read, or its copy not written.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"{path}: queries need pyarrow: pip install 'hinterland[query]'") from error
    with sentences(path):
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ConfigError(f"{path} is a pipe or a device, and a file is read more than once; write one, and name it")
        head, magic = _begin_of(path)
        if magic == b"ARROW1":
            return ArrowFile(path)
        if magic == b"PAR1":
            return ParquetFile(path)
        if magic == b"PARE":
            raise ConfigError(f"{path} is an encrypted Parquet file, and queries take no keys; write it without encryption")
        if magic == b"FEA1":
            raise ConfigError(f"{path} is a Feather file of version 1; write it again by pyarrow.feather.write_feather")
        if head.startswith(_STREAM):
            raise ConfigError(f"{path} is an Arrow stream, which has no index; write an Arrow file by pyarrow.ipc.new_file")
        if magic == b"ORC" or _is_named_csv(path):
            return ArrowFile(path, arrow_copy(path, magic == b"ORC"))
    if not head:
        raise ConfigError(f"{path} is empty; it is no Arrow, Parquet or ORC file; write it again, or name another")
    raise ConfigError(f"{path}: no Arrow, Parquet, ORC or .csv file, by its first bytes {head!r}; convert it to one")


def _is_named_csv(path: str) -> bool:
    return path.lower().endswith(_CSV)


def _begin_of(path: str) -> tuple[bytes, bytes]:
    """A file's first bytes, and those that say what it is, if any do. The heading of a CSV file may begin as other files do,
    which end so as well."""
    with open(path, "rb") as file:
        head = file.read(8)
        magic = next((one for one in _MAGICS if head.startswith(one)), b"")
        if magic and _is_named_csv(path):
            file.seek(-len(head), os.SEEK_END)
            magic = magic if file.read()[_MAGICS[magic]] == magic else b""
    return head, magic


def named_type(table: FileTable, name: str) -> Any:
    """The type of a column.

    Raises:
        ConfigError: there is no such column, and the nearest is suggested; or one that is not read.
        FormatError: there are several.
    """
    import difflib

    names = table.schema.names
    if names.count(name) > 1:
        raise FormatError(f"{table.path} has several columns called {name!r}; rename them")
    if name in table.unread:
        raise ConfigError(f"{table.path}: the column {name!r} {table.unread[name]}")
    if name in names:
        return table.schema.field(name).type
    near = difflib.get_close_matches(name, names, 1)
    shown = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(arguments.repr_of, names[:8])) or 'none'}"
    raise ConfigError(f"{Path(table.path).name} has no column {name!r}; {shown}")
