"""Tables in files, part by part: Arrow's where they lie, Parquet's by row groups, ORC and CSV once they are Arrow files."""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..machine import cache
from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError, HinterlandError, OutOfMemory
from ..runtime.files import replacing
from ..storage import arrow
from ..storage.names import reading
from .bounds import kind_of

_PART_ROWS = 1 << 22  # of Arrow files, whose batches may be small: chosen, not measured


class Part(NamedTuple):
    """Rows [begin, end) of a file; ``at``: its record batches or row group."""

    begin: int
    end: int
    at: tuple[int, ...]


class ArrowFile:
    """An Arrow file. Its buffers are not copied, unless they are compressed."""

    chunked = False

    def __init__(self, path: str, copy: str | None = None) -> None:
        """``copy``: the file of that name is read, and ``path`` is what it was made from."""
        import pyarrow.ipc

        self.path = path
        with reading(path), open(copy or path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._buffer = pyarrow.py_buffer(mapped)
        options = pyarrow.ipc.IpcReadOptions(use_threads=False)
        self._reader = pyarrow.ipc.open_file(pyarrow.BufferReader(self._buffer), options=options)
        self.schema = self._reader.schema
        self.parts: list[Part] = []
        begin = end = 0
        batches: list[int] = []
        for number in range(self._reader.num_record_batches):
            end += self._reader.get_batch(number).num_rows
            batches.append(number)
            if end - begin >= _PART_ROWS or number + 1 == self._reader.num_record_batches:
                self.parts.append(Part(begin, end, tuple(batches)))
                begin, batches = end, []
        self.rows = end

    def read(self, part: Part, names: list[str]) -> Iterator[tuple[str, int, Any]]:
        """(column, first row, array) of each batch."""
        begin = part.begin
        for number in part.at:
            batch = self._reader.get_batch(number)
            for name in names:
                array = batch.column(self.schema.get_field_index(name))
                if len(array) != batch.num_rows:
                    raise FormatError(
                        f"{self.path}: the column {name!r} has {len(array)} of {batch.num_rows} rows; it is damaged"
                    )
                yield name, begin, array
            begin += batch.num_rows


class ParquetFile:
    """A Parquet file, decoded by pyarrow."""

    chunked = True

    def __init__(self, path: str) -> None:
        import pyarrow
        import pyarrow.parquet

        self.path = path
        schema = pyarrow.parquet.read_schema(path)
        texts = [field.name for field in schema if (kind := kind_of(field.type)) is not None and kind.family == "text"]
        self._file = pyarrow.parquet.ParquetFile(path, read_dictionary=texts)
        self._groups = self._file.metadata
        self.schema = self._file.schema_arrow
        self.rows, self.parts = 0, []
        self._leaves = {self._groups.schema.column(leaf).path: leaf for leaf in range(self._groups.num_columns)}
        for number in range(self._groups.num_row_groups):
            rows = self._groups.row_group(number).num_rows
            if rows < 0:
                raise FormatError(f"{path}: row group {number} has {rows} rows; it is damaged")
            if rows:
                self.parts.append(Part(self.rows, self.rows + rows, (number,)))
            self.rows += rows

    def read(self, part: Part, names: list[str]) -> Iterator[tuple[str, int, Any]]:
        """(column, first row, array) of each piece of a row group."""
        if not names:
            return
        table = self._file.read_row_group(part.at[0], columns=names)
        if table.num_rows != part.end - part.begin:
            raise FormatError(f"{self.path}: row group {part.at[0]} has {table.num_rows} of {part.end - part.begin} rows")
        for name in names:
            begin = part.begin
            for array in table.column(name).chunks:
                if len(array):
                    yield name, begin, array
                begin += len(array)

    def chunk_bytes(self, part: Part, name: str) -> int:
        """Compressed bytes of a column chunk."""
        return int(self._groups.row_group(part.at[0]).column(self._leaves[name]).total_compressed_size)

    def statistics(self, part: Part, name: str) -> Any:
        """What the file says of a column chunk, as pyarrow has it; None where it says nothing."""
        chunk = self._groups.row_group(part.at[0]).column(self._leaves[name])
        wanted = self._groups.schema.column(self._leaves[name]).physical_type
        if chunk.physical_type != wanted:  # over which pyarrow would end the process
            raise FormatError(f"{self.path}: the column {name!r} is {chunk.physical_type}, not {wanted}; the file is damaged")
        return chunk.statistics


@contextmanager
def sentences(path: str) -> Iterator[None]:
    """Turns what pyarrow raises over a damaged file into a FormatError."""
    try:
        with reading(path):
            yield
    except HinterlandError:
        raise
    except MemoryError as error:
        raise OutOfMemory(f"{path}: what it says it holds does not fit this machine's memory: {error}") from error
    except Exception as error:  # of many kinds: pyarrow's own, and what damaged metadata provokes
        reason = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: damaged: {type(error).__name__}: {reason}; fetch or write it again") from error


def open_table(path: str) -> ArrowFile | ParquetFile:
    """The table in a file, by its content; ORC and CSV files by their Arrow copies.

    Raises:
        ConfigError: pyarrow is missing, or it is no file of these.
        FormatError: the file is damaged.
        StorageError: it cannot be read, or its copy not written.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"{path}: queries need pyarrow: pip install 'hinterland[arrow]'") from error
    with sentences(path):
        with open(path, "rb") as file:
            head = file.read(8)
        if arrow.matches(head):
            return ArrowFile(path)
        if head.startswith(b"PAR1"):
            return ParquetFile(path)
        if head.startswith(b"ORC") or path.lower().endswith(".csv"):
            return ArrowFile(path, _converted(path, head))
    raise ConfigError(f"{path}: no Arrow, Parquet, ORC or .csv file, by its first bytes {head!r}; convert it to one")


def _converted(path: str, head: bytes) -> str:
    """The Arrow copy of an ORC or CSV file in the cache folder, made unless it is there."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.ipc

    stamp = os.stat(path)
    key = f"{os.path.realpath(path)}\0{stamp.st_size}\0{stamp.st_mtime_ns}".encode(errors="surrogateescape")
    copy = cache.path("tables") / f"{hashlib.sha256(key).hexdigest()[:32]}.arrow"
    if copy.exists():
        return str(copy)
    copy.parent.mkdir(parents=True, exist_ok=True)
    print(f"{path}: converted once, to {copy}", file=sys.stderr)
    if head.startswith(b"ORC"):
        import pyarrow.orc

        table = pyarrow.orc.read_table(path)
    else:
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False, auto_dict_encode=True)
        options.auto_dict_max_cardinality = 1 << 16
        table = pyarrow.csv.read_csv(path, convert_options=options)
    table = table.unify_dictionaries().combine_chunks()
    with replacing(copy) as output, pyarrow.ipc.new_file(pyarrow.PythonFile(output.file, "w"), table.schema) as writer:
        writer.write_table(table)
    return str(copy)


def named_type(table: ArrowFile | ParquetFile, name: str) -> Any:
    """The type of a column.

    Raises:
        ConfigError: there is no such column; suggests the nearest.
        FormatError: there are several.
    """
    import difflib

    names = table.schema.names
    if names.count(name) > 1:
        raise FormatError(f"{table.path} has several columns called {name!r}; rename them")
    if name in names:
        return table.schema.field(name).type
    near = difflib.get_close_matches(name, names, 1)
    shown = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(arguments.shown, names[:8]))}"
    raise ConfigError(f"{Path(table.path).name} has no column {name!r}; {shown}")
