"""Parquet files, row group by row group, as pyarrow reads them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError
from ..runtime.files import opening
from ..runtime.thresholds import ENGINE_ROWS
from . import int96
from .arrays import taken_rows
from .bounds import ColumnKind, kind_of
from .footer import chunk_statistics, footer_of, footer_range, null_counts
from .page_cache import MappedFile
from .parquet_pages import PageIndex, PagesOfRows, dictionary_range, page_index, some_pages
from .program import Outcomes, Program, may_hold, outcomes_of
from .schema import FileSchema, metadata_of, without_int96
from .statistics import Statistics
from .table import ColumnValues, KeptGroups, Pages, RowRange
from .threads import ahead

# Bytes of a text, decompressed, below which a chunk is read as a dictionary: where texts differ, that takes six times as long.
_REPEATED = 4
# As parquet.thrift numbers and names them.
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_ENCODINGS = (
    "PLAIN", "encoding 1", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT",
)  # fmt: skip
_DAMAGED = sum(1 << number for number in (0, 2, 3, 4, 8))  # encodings that pyarrow reads, unless they are damaged
_NO_CODEC = 3


class ParquetFile:
    """A Parquet file."""

    def __init__(self, path: str) -> None:
        self.path = path
        with opening(path, "read"):
            self._file = MappedFile(path)
        self._buffer = self._file.buffer
        self._file.ask_for(self._buffer.address + footer_range(self._buffer))
        self._metadata, self.unread = metadata_of(self._buffer)
        groups, columns = self._metadata.num_row_groups, self._metadata.num_columns
        self._footer = footer_of(path, self._buffer, self._metadata)
        if columns and len(self._footer.chunks) != groups:
            raise FormatError(f"{path}: its footer is damaged: not all row groups have {columns} columns")
        leaves = [self._metadata.schema.column(leaf) for leaf in range(columns)]
        self._leaves = {column.name: leaf for leaf, column in enumerate(leaves) if column.name == column.path}
        self._readers = threading.local()
        self.schema = self._reader.schema_arrow
        self._physical = [one.physical_type for one in leaves]
        self._times = {one.name for one in leaves if one.physical_type == "INT96"}
        if self._times:
            self._metadata, self._readers = without_int96(self._buffer), threading.local()
        rows = np.array([self._metadata.row_group(number).num_rows for number in range(groups)], np.int64)
        for number in np.flatnonzero(rows < 0):
            raise FormatError(f"{path}: row group {number} has {rows[number]} rows; it is damaged")
        self._cuts = np.append(0, np.cumsum(rows))
        if (self._cuts < 0).any():
            raise FormatError(f"{path}: its row groups have more rows than can be counted; it is damaged")
        self.rows, self.groups = int(self._cuts[-1]), int((rows > 0).sum())
        self._file.read_around(True)
        self._indexes: dict[tuple[str, int], PageIndex] = {}
        self._bounds: dict[str, tuple[ColumnKind, Statistics | None]] = {}

    def parts(self, program: Program | None = None) -> list[RowRange]:
        """The row groups that their statistics leave."""
        left = np.diff(self._cuts) > 0
        if program is not None:
            outcomes = [
                outcomes_of(test, *self._statistics(test.column), len(left))
                if test.column in self._leaves
                else Outcomes.any_of(len(left))  # of what is calculated, or a folder's name says
                for test in program.tests
            ]
            left &= may_hold(program, outcomes)
        cuts = self._cuts.tolist()
        return [RowRange(cuts[group], cuts[group + 1], group) for group in np.flatnonzero(left).tolist()]

    def values_of(self, name: str) -> int | None:
        """How many values a column has, nulls left out, where the file's end says so."""
        self._require(name, self.parts())
        rows, leaf = np.diff(self._cuts), self._leaves[name]
        nulls = null_counts(self._footer, self._metadata.schema.column(leaf), self._footer.chunks[:, leaf], rows)
        return int((rows - nulls).sum()) if (nulls >= 0).all() else None

    def batches(self, names: Sequence[str], parts: Sequence[RowRange]) -> Iterator[tuple[int, Any]]:
        """The first row of each record batch of some row groups, and the batch, which has columns ``names`` alone."""
        for name in names:
            self._require(name, parts)
        runs = list(self._runs(names, parts))
        alone = len(runs) < _core.num_threads()  # whose columns threads share out
        for run, table in zip(runs, ahead(partial(self._read, run, list(names), alone) for run in runs), strict=True):
            begin = run[0].begin
            for batch in table.to_batches():
                yield begin, batch
                begin += batch.num_rows

    def read_as_asked(self) -> None:
        self._file.read_around(False)

    def pages(self, name: str, begin: int, end: int) -> Pages:
        """Those that offset indexes tell of, else chunks."""
        begins, sizes = [], [np.zeros(0, np.int64)]
        for part in self._parts_of(begin, end):
            index = self._index(name, part)
            low = int(np.searchsorted(index.rows, begin - part.begin, "right")) - 1
            some = slice(max(low, 0), int(np.searchsorted(index.rows, end - part.begin)))
            begins.append(part.begin + index.rows[some])
            sizes.append(index.bytes[some])
        return Pages(np.concatenate([*begins, [end]]), np.concatenate(sizes))

    def values_at(self, name: str, rows: np.ndarray, kept: KeptGroups) -> Iterator[ColumnValues]:
        """A column in some rows; threads decompress pages of several row groups."""
        parts = self._parts_of(int(rows[0]), int(rows[-1]) + 1) if len(rows) else []
        self._require(name, parts)
        last, there = kept.get((self.path, name), (-1, None))
        wanted = []
        for part in parts:
            low, high = np.searchsorted(rows, [part.begin, part.end]).tolist()
            if low < high:
                pages = PagesOfRows.of(self._index(name, part), rows[low:high] - part.begin, whole=part.group == last)
                read = self._ranges(name, part, pages) if part.group != last else np.zeros((0, 2), np.int64)
                wanted.append((low, part, pages, read))
        self._file.ask_for(self._buffer.address + np.concatenate([np.zeros((0, 2), np.int64), *(one[-1] for one in wanted)]))
        columns = ahead(
            partial(self._values, name, part, pages) if part.group != last else lambda: there for _, part, pages, _ in wanted
        )
        for (low, part, pages, read), column in zip(wanted, columns, strict=True):
            if pages.are_all:
                kept[self.path, name] = part.group, column
            yield ColumnValues(low, taken_rows(column, pages.at), int(np.diff(read).sum()))

    def _values(self, name: str, part: RowRange, pages: PagesOfRows) -> Any:
        """Those of some pages, one after another."""
        if pages.are_all:
            column = self._read([part], [name], False).column(0)
        else:
            assert self._elements[name] is not None
            chunk = self._chunk(name, part.group)
            try:
                column = some_pages(self._buffer, name, self._elements[name], chunk, pages)
            except OSError as error:
                raise self._refusal(part, [name], error) from error
            if len(column) != pages.rows:
                raise FormatError(f"{self._what(name, part.group)} has other rows than its offset index says; write it again")
            column = column.cast(self._plain_type(name))
        return column.combine_chunks()

    def _ranges(self, name: str, part: RowRange, pages: PagesOfRows) -> np.ndarray:
        """Where pages, and their dictionary, begin and end in the file, [n, 2]."""
        chunk = self._chunk(name, part.group)
        begins, sizes = pages.places.at[pages.numbers], pages.places.bytes[pages.numbers]
        return np.concatenate([[dictionary_range(chunk)], np.stack([begins, begins + sizes], axis=1)])

    def _index(self, name: str, part: RowRange) -> PageIndex:
        """Where the pages of a chunk lie; where nothing says it, all of it is one."""
        chunk = self._chunk(name, part.group)
        key = name, part.group
        if key not in self._indexes:
            at, size = int(chunk["index_at"]), int(chunk["index_bytes"])
            found = None
            if at > 0 and 0 < size <= self._buffer.size - at and self._elements.get(name) and name not in self._times:
                self._file.ask_for(self._buffer.address + np.array([[at, at + size]]))
                found = page_index(self._buffer.slice(at, size).to_pybytes(), chunk, part.end - part.begin)
            if found is None:
                begin, data = int(self._begins(chunk)), dictionary_range(chunk)[1]
                size = int(chunk["bytes"]) - (data - begin)
                found = PageIndex(np.array([data]), np.array([size]), np.array([0]), part.end - part.begin)
            self._indexes[key] = found
        return self._indexes[key]

    @cached_property
    def _elements(self) -> dict[str, bytes]:
        """What the footer says of each column that is no list or struct."""
        return FileSchema(self._buffer).plain_columns

    def _plain_type(self, name: str) -> Any:
        """Of a column, without a dictionary, which Arrow's own metadata may say that there is."""
        import pyarrow.types

        type_ = self.schema.field(name).type
        return type_.value_type if pyarrow.types.is_dictionary(type_) else type_

    def _parts_of(self, begin: int, end: int) -> list[RowRange]:
        """Row groups with any of the rows [begin, end)."""
        first, last = np.searchsorted(self._cuts, begin, "right") - 1, np.searchsorted(self._cuts, end)
        cuts = self._cuts.tolist()[first : last + 1]
        ranges = zip(cuts, cuts[1:], range(first, last), strict=False)
        return [RowRange(*one) for one in ranges if one[0] < one[1]]

    def stored_bytes(self, name: str, parts: Sequence[RowRange]) -> int:
        return int(self._footer.chunks[[part.group for part in parts], self._leaves[name]]["bytes"].sum())

    def _runs(self, names: Sequence[str], parts: Sequence[RowRange]) -> Iterator[list[RowRange]]:
        """Row groups that pyarrow reads in one call: small ones that follow each other, for each call has its price."""
        most = 0 if self._times.intersection(names) else ENGINE_ROWS
        run: list[RowRange] = []
        for part in parts:
            if run and (run[-1].end != part.begin or part.end - run[0].begin > most):
                yield run
                run = []
            run.append(part)
        if run:
            yield run

    def _read(self, run: list[RowRange], names: list[str], threads: bool) -> Any:
        import pyarrow

        self._ask_for(run, names)
        groups = [part.group for part in run]
        try:
            # A name with a dot is also that of a field of a struct.
            table = self._reader.read_row_groups(groups, columns=names, use_threads=threads).select(names)
        except OSError as error:
            if len(run) == 1:
                raise self._refusal(run[0], names, error) from error
            table = None
        rows = run[-1].end - run[0].begin
        if len(run) > 1 and (table is None or table.num_rows != rows):  # which of them it is
            return pyarrow.concat_tables([self._read([part], names, threads) for part in run])
        if table.num_rows != rows:
            raise FormatError(f"{self.path}: row group {groups[0]} has {table.num_rows} of {rows} rows")
        for place, name in enumerate(names):
            if name in self._times:
                times = int96.times_of(self._what(name, groups[0]), table.column(name), self.schema.field(name).type)
                table = table.set_column(place, name, times)
        return table

    def _ask_for(self, run: list[RowRange], names: list[str]) -> None:
        chunks = self._footer.chunks[np.ix_([part.group for part in run], [self._leaves[name] for name in names])].ravel()
        begins = self._buffer.address + self._begins(chunks)
        self._file.ask_for(np.stack([begins, begins + chunks["bytes"]], axis=1))

    @staticmethod
    def _begins(chunks: np.ndarray) -> np.ndarray:
        begins, dictionaries = chunks["data_at"], chunks["dictionary_at"]
        return np.where(dictionaries > 0, np.minimum(dictionaries, begins), begins)

    @property
    def _reader(self) -> Any:
        """Pyarrow's, of this thread."""
        import pyarrow
        import pyarrow.parquet

        if not hasattr(self._readers, "reader"):
            self._readers.reader = pyarrow.parquet.ParquetFile(
                pyarrow.BufferReader(self._buffer), metadata=self._metadata, read_dictionary=self._dictionaries,
                coerce_int96_timestamp_unit="us",
            )  # fmt: skip
        return self._readers.reader

    @cached_property
    def _dictionaries(self) -> list[str]:
        """The columns of texts that repeat."""
        kinds = {field.name: kind_of(field.type) for field in self._metadata.schema.to_arrow_schema()}
        texts = [name for name, kind in kinds.items() if kind is not None and kind.family == "text"]
        chunks = self._footer.chunks
        few = (chunks["dictionary_at"] > 0).all(0)
        few &= chunks["full"].sum(0) < _REPEATED * np.maximum(chunks["values"].sum(0), 1)
        return [name for name in texts if few[self._leaves[name]]]

    def _statistics(self, name: str) -> tuple[ColumnKind, Statistics | None]:
        """A column's kind, and statistics of each row group."""
        if name not in self._bounds:
            kind, leaf = kind_of(self.schema.field(name).type), self._leaves[name]
            assert kind is not None
            descriptor, rows = self._metadata.schema.column(leaf), np.diff(self._cuts)
            self._bounds[name] = kind, chunk_statistics(kind, descriptor, self._buffer, self._footer, leaf, rows)
        return self._bounds[name]

    def _require(self, name: str, parts: Sequence[RowRange]) -> None:
        """That a column's chunks lie in this file, can be read without a key, and may be what they are said to be: over others
        pyarrow would end the process."""
        chunks = self._footer.chunks[[part.group for part in parts], self._leaves[name]]
        for at in np.flatnonzero((chunks["encrypted"] != 0) | (chunks["path_bytes"] > 0)).tolist():
            encrypted, path_at, path_bytes = chunks[at][["encrypted", "path_at", "path_bytes"]].tolist()
            what = self._what(name, parts[at].group)
            if encrypted:
                raise ConfigError(f"{what} is encrypted, and queries take no keys; write it without encryption")
            path = os.fsdecode(self._buffer.slice(self._footer.at + path_at, path_bytes).to_pybytes()) if path_bytes else ""
            other = os.path.join(os.path.dirname(self.path), path)
            if path and not (os.path.exists(other) and os.path.samefile(other, self.path)):
                shown = arguments.repr_of(path)
                raise ConfigError(f"{what} lies in another file, {shown}; query the files that hold the data")
        begins, sizes = self._begins(chunks), chunks["bytes"]
        rows = np.array([part.end - part.begin for part in parts], np.int64)
        physical = self._physical[self._leaves[name]]
        there = (begins >= 0) & (sizes >= 0) & (sizes <= self._buffer.size - begins) & (chunks["values"] == rows)
        for good, found in (
            (chunks["physical"] == _PHYSICAL.index(physical), f"values that are no {physical}"),
            ((chunks["full"] >= 0) & (chunks["codec"] >= 0), "a size or a codec below 0"),
            (there, "other rows than its row group, or bytes beyond the file's end"),
            (np.cumsum(np.where(there, sizes, 0)) <= self._buffer.size, "chunks that lie over each other"),
        ):
            for at in np.flatnonzero(~good)[:1]:
                what = self._what(name, parts[at].group)
                raise FormatError(f"{what} has {found}; the file is damaged, fetch or write it again")

    def _refusal(self, part: RowRange, names: list[str], error: OSError) -> Exception:
        """What to raise over the one of these columns that pyarrow does not read: whether it may not know how to."""
        for name in names:
            try:
                self._reader.read_row_group(part.group, columns=[name])
            except OSError as own:
                chunk = self._chunk(name, part.group)
                codec, bits = int(chunk["codec"]), int(chunk["encodings"])
                known = 0 <= codec < len(_CODECS) and codec != _NO_CODEC
                if own.errno is not None or (known and not bits & ~_DAMAGED):
                    return own
                encodings = (name for at, name in enumerate((*_ENCODINGS, *map(str, range(10, 63)))) if bits >> at & 1)
                compressed = _CODECS[codec] if 0 <= codec < len(_CODECS) else f"codec {codec}"
                stored = f"{self._physical[self._leaves[name]]} in {' and '.join(encodings)}"
                reason = " ".join(str(own).split())[:200]
                remedy = "write it with other encodings, or again if it is damaged"
                return ConfigError(
                    f"{self._what(name, part.group)} is {stored} ({compressed}); pyarrow does not read it: {reason}; {remedy}"
                )
        return error

    def _chunk(self, name: str, group: int) -> Any:
        return self._footer.chunks[group, self._leaves[name]]

    def _what(self, name: str, group: int) -> str:
        return f"{self.path}: the column {name!r} in row group {group}"
