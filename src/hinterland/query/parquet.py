"""Parquet files, row group by row group: pages are decoded here where they can be, elsewhere whole column chunks by pyarrow."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import _core
from ..runtime.errors import FormatError
from ..storage.names import reading
from .bounds import Kind, kind_of
from .crew import Crew
from .decoding import Instead, decodable, decode, decoding
from .footer import chunk_statistics, footer_of, footer_range, null_counts
from .page_cache import MappedFile, Pages
from .pages import Column
from .program import Outcomes, Program, may_hold, outcomes_of
from .rows import Part, Wanted, between
from .schema import metadata_of
from .statistics import Statistics

_DELTA_TEXTS = 1 << 6 | 1 << 7  # encodings of texts that pyarrow reads into no dictionaries, as parquet.thrift numbers them
_SLICES = 64  # of a row group, of which those with wanted rows are counted: chosen, not measured
_ROWS_OF_THREAD = 1 << 21  # of row groups that are read together, lest Python takes longer than all threads: chosen
# How many times as many each time after the first, while the disk brings the next ones: a part takes Python as long whatever it
# has. 8 was quicker than 2 and 4 on 16 cores, and as quick on two (docs/notes/queries-on-h200.md).
_GROWTH = 8
_KEPT = 1024  # parts; a column takes some kilobytes. Chosen, not measured


class ParquetFile:
    """A Parquet file: pages are decoded here where they can be, and whole column chunks by pyarrow elsewhere."""

    chunked = True

    def __init__(self, path: str) -> None:
        import pyarrow

        self.path = path
        with reading(path), open(path, "rb") as file:
            self._mapped = MappedFile(file.fileno())
        self._buffer = pyarrow.py_buffer(self._mapped.map)
        self._mapped.ask_for_bytes(self._buffer.address + footer_range(self._buffer))
        self._metadata, self.unread = metadata_of(self._buffer)
        schema = self._metadata.schema.to_arrow_schema()
        groups, columns = self._metadata.num_row_groups, self._metadata.num_columns
        self._footer = footer_of(path, self._buffer, self._metadata)
        if columns and len(self._footer.chunks) != groups:
            raise FormatError(f"{path}: its footer is damaged: not all row groups have {columns} columns")
        leaves = [self._metadata.schema.column(leaf) for leaf in range(columns)]
        self._leaves = {column.name: leaf for leaf, column in enumerate(leaves) if column.name == column.path}
        delta = np.any(self._footer.chunks["encodings"] & _DELTA_TEXTS, axis=0)
        kinds = {field.name: kind for field in schema if (kind := kind_of(field.type)) is not None}
        texts = (name for name, kind in kinds.items() if kind.family == "text")
        self._dictionaries = [name for name in texts if not delta[self._leaves[name]]]
        self._readers = _Readers()
        self.schema = self._reader(plain=False).schema_arrow
        self._kinds = {field.name: kind_of(field.type) for field in self.schema}
        rows = np.array([self._metadata.row_group(number).num_rows for number in range(groups)], np.int64)
        for number in np.flatnonzero(rows < 0):
            raise FormatError(f"{path}: row group {number} has {rows[number]} rows; it is damaged")
        self._cuts = np.append(0, np.cumsum(rows))
        if (self._cuts < 0).any():
            raise FormatError(f"{path}: its row groups have more rows than can be counted; it is damaged")
        self.rows = int(self._cuts[-1])
        self.groups = int((rows > 0).sum())
        self._columns: dict[Part, dict[str, Column]] = {}
        self._bounds: dict[str, Statistics | None] = {}
        self._spent: dict[str, Pages] = {}
        self._crew = Crew()

    def parts_left(
        self, program: Program | None = None, names: Collection[str] = (), first_rows: int | None = None
    ) -> list[Part]:
        """The row groups that statistics of them as a whole leave; those that follow one another together, of up to
        ``first_rows`` at first, and of twice as many each time after. None: of as many as keep all threads busy. Where the disk
        has to bring columns ``names`` these begin with those of the largest row group, and have eight times as many each time
        after, so that the disk brings the next ones meanwhile."""
        rows = np.diff(self._cuts)
        left = rows > 0
        if program is not None:
            outcomes = [outcomes_of(test, *self._of_groups(test.column), len(rows)) for test in program.tests]
            left &= may_hold(program, outcomes)
        begin, groups = 0, np.flatnonzero(left).tolist()
        limit = self.rows if first_rows is not None else _ROWS_OF_THREAD * _core.num_threads()
        most = first_rows or (int(rows[groups].max()) if self._is_on_disk(groups, names) else limit)
        parts = []
        for place, group in enumerate(groups):
            last = place + 1 == len(groups)
            if last or groups[place + 1] != group + 1 or self._cuts[groups[place + 1] + 1] - self._cuts[groups[begin]] > most:
                parts.append(Part(int(self._cuts[groups[begin]]), int(self._cuts[group + 1]), tuple(groups[begin : place + 1])))
                begin = place + 1
                most = min((2 if first_rows is not None else _GROWTH) * most, limit)
        return parts

    def _is_on_disk(self, groups: list[int], names: Collection[str]) -> bool:
        """Whether the page cache lacks some of the chunks of columns."""
        chunks = self._footer.chunks[np.ix_(groups, [self._leaves[name] for name in names])].ravel()
        begins = self._buffer.address + chunks["data_at"]
        return self._mapped.lacks(np.stack([begins, begins + 1], axis=1))

    def read(
        self, part: Part, names: Mapping[str, Instead | None], wanted: Wanted | None = None, after: Part | None = None
    ) -> Iterator[tuple[str, int, Any]]:
        """(column, first row, array) of each piece of a part: of what holds ``wanted`` rows, or all of it.

        Of texts whose column's name has Places the array may be of these, int32, and of numbers whose has Verdicts of those,
        uint8. The disk is asked for what the page cache has not, and where most of the part is read for ``after`` as well, the
        one that will be read next.
        """
        wanted = wanted or between(np.array([[part.begin, part.end]]))
        cuts = np.linspace(part.begin, part.end, _SLICES + 1).astype(np.int64)
        most = bool(wanted(cuts[:-1], cuts[1:]).mean() > 0.5)
        columns = self._opened(part, names, most, after)
        if columns:
            pages = [column.ranges(wanted if decodable(column, names[name]) else None) for name, column in columns.items()]
            self._mapped.ask_for_bytes(np.concatenate(pages))
        decodings = {name: decoding(column, wanted, names[name]) for name, column in columns.items()}
        decode([one for one in decodings.values() if one is not None], self._crew)
        whole = [name for name, made in decodings.items() if made is None or made.left_to_pyarrow]
        for name, made in decodings.items():
            column, left = columns[name], name in whole
            least = column.least_bytes(wanted)
            read = column.bytes if left else column.read_bytes(wanted)
            self._spent[name] = Pages(read, min(least, read))
            if made is not None and not left:
                yield from ((name, begin, array) for begin, array in made.arrays())
        for plain in (False, True):
            if some := [name for name in whole if columns[name].plain_texts == plain]:
                yield from self._whole(part, some, plain)

    def _whole(self, part: Part, names: list[str], plain: bool) -> Iterator[tuple[str, int, Any]]:
        """As pyarrow reads them, a thread a row group."""
        for column in self._of(part, names).values():
            column.require_own()
        tables: list[Any] = [None] * len(part.at)

        def read(place: int) -> None:
            threads = len(part.at) == 1
            try:
                tables[place] = self._reader(plain).read_row_group(part.at[place], columns=names, use_threads=threads)
            except OSError as error:
                raise self._refusal(part, place, names, plain, error) from error

        self._crew.do([partial(read, place) for place in range(len(part.at))])
        for group, table in zip(part.at, tables, strict=True):
            begin, rows = int(self._cuts[group]), self._cuts[group + 1] - self._cuts[group]
            if table.num_rows != rows:
                raise FormatError(f"{self.path}: row group {group} has {table.num_rows} of {rows} rows")
            for name in names:
                at = begin
                for array in table.column(name).chunks:
                    if len(array):
                        yield name, at, array
                    at += len(array)

    def _refusal(self, part: Part, place: int, names: list[str], plain: bool, error: OSError) -> Exception:
        """What to raise over the one of these columns that pyarrow does not read."""
        for name, column in self._of(part, names).items():
            try:
                self._reader(plain).read_row_group(part.at[place], columns=[name])
            except OSError as own:
                return column.unread(place, own) if own.errno is None else own
        return error

    def _reader(self, plain: bool) -> Any:
        """Pyarrow's, of this thread; ``plain``: for texts of which most are different, which take it six times as long where
        it makes dictionaries of them."""
        import pyarrow.parquet

        found = self._readers.by_kind
        if plain not in found:
            source, dictionaries = pyarrow.BufferReader(self._buffer), None if plain else self._dictionaries
            found[plain] = pyarrow.parquet.ParquetFile(
                source, metadata=self._metadata, read_dictionary=dictionaries, coerce_int96_timestamp_unit="us"
            )
        return found[plain]

    def values_of(self, name: str) -> int | None:
        """How many values a column has, nulls left out, where the file's end says so."""
        for part in self.parts_left():
            self._of(part, [name])  # refuses chunks that cannot be what the file says they are
        rows = np.diff(self._cuts)
        nulls = null_counts(self._footer, self._descriptor(name), self._footer.chunks[:, self._leaves[name]], rows)
        return int((rows - nulls).sum()) if (nulls >= 0).all() else None

    def spent(self, name: str) -> Pages:
        """Bytes of a column that were last read, and of its pages that any plan reads; as they are stored, compressed."""
        return self._spent[name]

    def rows_left(self, part: Part, program: Program, after: Part | None = None) -> tuple[np.ndarray, int]:
        """Rows of a part that statistics of its pages cannot rule out, as ranges, [n, 2], in order; and how many of its row
        groups have none. The disk is asked for what the filter reads of the part, and of ``after``, the one that will be read
        next."""
        columns = self._opened(part, program.columns, True, after)
        pages = {name: column.page_statistics for name, column in columns.items()}
        if all(one is None for one in pages.values()):
            return np.array([[part.begin, part.end]]), 0
        cuts = np.sort(np.concatenate([columns[name].starts for name, one in pages.items() if one is not None]))
        cuts = cuts[np.append(True, cuts[1:] > cuts[:-1])]  # as np.unique() has them, which takes several times as long
        outcomes = []
        for test in program.tests:
            column, known = columns[test.column], pages[test.column]
            if known is None:
                outcomes.append(Outcomes.any_of(len(cuts) - 1))
                continue
            of_page = outcomes_of(test, column.kind, known, len(known.known))
            page = np.searchsorted(column.starts, cuts[:-1], "right") - 1
            outcomes.append(Outcomes(*(outcome[page] for outcome in of_page)))
        may = np.concatenate([[False], may_hold(program, outcomes), [False]])
        left, groups = cuts[np.flatnonzero(may[1:] != may[:-1])].reshape(-1, 2), np.array(part.at)
        return left, int((~between(left)(self._cuts[groups], self._cuts[groups + 1])).sum())

    def _opened(self, part: Part, names: Collection[str], most: bool, after: Part | None) -> dict[str, Column]:
        """Columns whose pages are known; the disk is asked at once for those of which ``most`` will be read, which takes no
        longer than to go from header to header, and for those of the part ``after``, so that it is at work while headers come.
        Where an index tells of pages these are asked for once they are known."""
        columns = self._of(part, names)
        if most:
            coming = self._of(after, names) if after is not None else {}
            both = [*columns.values(), *coming.values()]
            if whole := [column.ranges() for column in both if not column.is_open and not column.indexed]:
                self._mapped.ask_for_bytes(np.concatenate(whole))
        return {name: column.opened() for name, column in columns.items()}

    def _of(self, part: Part, names: Collection[str]) -> dict[str, Column]:
        """Columns of a part. What is known of their pages is kept for the next query."""
        if len(self._columns) > _KEPT:
            self._columns.clear()
        columns = self._columns.setdefault(part, {})
        for name in names:
            if name not in columns:
                cuts, what = self._cuts[part.at[0] : part.at[-1] + 2], (self._kind(name), self._descriptor(name))
                groups, leaf = np.array(part.at), self._leaves[name]
                columns[name] = Column(self.path, self._buffer, self._footer, groups, cuts, *what, leaf)
        return {name: columns[name] for name in names}

    def _of_groups(self, name: str) -> tuple[Kind, Statistics | None]:
        """A column's kind, and statistics of each row group."""
        kind, descriptor = self._kind(name), self._descriptor(name)
        if name not in self._bounds:
            rows = np.diff(self._cuts)
            found = chunk_statistics(kind, descriptor, self._buffer, self._footer, self._leaves[name], rows)
            self._bounds[name] = found
        return kind, self._bounds[name]

    def _kind(self, name: str) -> Kind:
        kind = self._kinds[name]
        assert kind is not None
        return kind

    def _descriptor(self, name: str) -> Any:
        return self._metadata.schema.column(self._leaves[name])


class _Readers(threading.local):
    """Of each thread: pyarrow's, by whether texts are plain."""

    def __init__(self) -> None:
        self.by_kind: dict[bool, Any] = {}
