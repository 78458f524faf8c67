"""Several files as one table, of which folders may say columns: Hive's partitions, as ``year=2024/month=1/trips.parquet``."""

from __future__ import annotations

import datetime
import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Any
from urllib.parse import unquote

import numpy as np

from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.thresholds import ENGINE_ROWS
from .bounds import ColumnKind, kind_of
from .files import ENDINGS, open_table, sentences
from .parquet import ParquetFile
from .program import Outcomes, Program, may_hold, outcomes_of
from .statistics import Statistics
from .table import ColumnValues, FileTable, KeptGroups, Pages, RowRange
from .threads import ahead

_NULL = "__HIVE_DEFAULT_PARTITION__"  # Hive's name of a folder for rows without a value
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_WHOLE = re.compile(r"[+-]?\d{1,18}")


def files_of(paths: Sequence[str]) -> list[str]:
    """The files that paths name, in the order of their names for each: patterns as shells have them, also ``**``, and folders,
    of which all files count whose ending says that they are tables, but for those that begin with ``_`` or ``.``.

    Raises:
        ConfigError: one names no file.
    """
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            some = sorted(_within(path))
            if not some:
                raise ConfigError(f"{path}: this folder has no file that ends in {', '.join(ENDINGS)}; name files")
        elif glob.has_magic(path) and not os.path.lexists(path):
            some = sorted(filter(os.path.isfile, _matching(path)))
            if not some:
                raise ConfigError(f"{path}: no file has such a name; name files that are there")
        else:
            some = [path]
        found += some
    return found


def _matching(pattern: str) -> set[str]:
    """What a pattern names. As in DuckDB ``**`` follows no links: those that lead back would make names without end."""
    parts = pattern.split(os.sep)
    if "**" not in parts:
        return set(glob.glob(pattern))
    at, found = parts.index("**"), set[str]()
    tops = glob.glob(os.sep.join(parts[:at])) if any(parts[:at]) else [os.sep if at else os.curdir]
    for top in tops:
        for where, folders, _ in os.walk(top):
            folders[:] = [name for name in folders if name[0] != "."]
            found |= _matching(os.path.join(glob.escape(where), *(parts[at + 1 :] or "*")))
    return found


def _within(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "_."]
        yield from (os.path.join(where, name) for name in names if name[0] not in "_." and name.lower().endswith(ENDINGS))


def open_files(files: Sequence[str], path: str) -> FileTable:
    """The table in some files; ``path``: what all of them together are called.

    Raises:
        As ``open_table``.
    """
    tables = [open_table(file) for file in files]
    said = [dict(found) for found in map(_said_of, files)]
    return tables[0] if len(tables) == 1 and not said[0] else FileSet(path, tables, said)


def _said_of(file: str) -> Iterator[tuple[str, str | None]]:
    """What the folders that a file lies in say: columns, and their values as texts."""
    for part in os.path.dirname(file).split(os.sep):
        name, equals, value = part.partition("=")
        if name and equals:
            try:
                name, value = (os.fsencode(unquote(text, errors="surrogateescape")).decode() for text in (name, value))
            except UnicodeDecodeError as error:
                shown = arguments.repr_of(part)
                raise ConfigError(f"the folder {shown} says a column, and is no UTF-8 as texts are; rename it") from error
            yield name, None if value == _NULL else value


class FileSet:
    """Files of one schema, one after another.

    A column that some lack, or have of another type, is unread. Texts may lie in dictionaries in some of them.
    """

    def __init__(self, path: str, tables: list[FileTable], said: list[dict[str, str | None]]) -> None:
        """``said``: of each file the columns that its folders say, which count where no file has them."""
        import pyarrow

        self.path, self._tables = path, tables
        self._begins = [0, *accumulate(table.rows for table in tables)]
        self.rows, self.groups = self._begins[-1], sum(table.groups for table in tables)
        self.unread: dict[str, str] = {}
        types = {
            name: self._common_type(name) for name in dict.fromkeys(name for table in tables for name in table.schema.names)
        }
        self._partitions = {
            name: _values([one.get(name) for one in said])
            for name in dict.fromkeys(name for one in said for name in one)
            if name not in types
        }
        for name in self._partitions:
            if lacking := [table for table, one in zip(tables, said, strict=True) if name not in one]:
                self.unread[name] = f"is not said by the folders of {lacking[0].path}; query such files apart"
        types |= {name: values.type for name, values in self._partitions.items()}
        self.schema = pyarrow.schema(list(types.items()))

    def _common_type(self, name: str) -> Any:
        """Of a column in all files; where there is none the column is unread."""
        import pyarrow

        first: tuple[Any, str] | None = None
        for table in self._tables:
            count = table.schema.names.count(name)
            if name in table.unread or count != 1:
                why = f"is {'several times' if count else 'not'} in {table.path}; query such files apart"
                self.unread[name] = table.unread.get(name) or why
                return pyarrow.null()
            found = table.schema.field(name).type
            if first is None or pyarrow.types.is_null(first[0]):
                first = found, table.path
            elif not pyarrow.types.is_null(found) and found != first[0]:
                if (common := _plain(first[0], found)) is None:
                    self.unread[name] = f"is {first[0]} in {first[1]}, and {found} in {table.path}; write them as one type"
                    return pyarrow.null()
                first = common, table.path
        assert first is not None
        return first[0]

    def parts(self, program: Program | None = None) -> list[RowRange]:
        """Those of files that the values of their folders, and their own statistics, leave."""
        left = np.ones(len(self._tables), bool)
        if program is not None:
            left = may_hold(program, [self._outcomes(test) for test in program.tests])
        return [
            part._replace(begin=begin + part.begin, end=begin + part.end, file=number)
            for number, (table, begin) in enumerate(zip(self._tables, self._begins, strict=False))
            if left[number]
            for part in table.parts(program)
        ]

    def _outcomes(self, test: Any) -> Outcomes:
        values = self._partitions.get(test.column)
        if values is None:
            return Outcomes.any_of(len(self._tables))
        kind, rows = kind_of(values.type), np.diff(self._begins)
        assert kind is not None
        return outcomes_of(test, kind, _statistics(kind, values, rows), len(rows))

    def values_of(self, name: str) -> int | None:
        """How many values a column has, where all files say so."""
        if name in self._partitions:
            values = self._partitions[name].is_valid().to_numpy(zero_copy_only=False)
            return int(np.diff(self._begins)[values].sum())
        found = [table.values_of(name) for table in self._tables]
        return None if None in found else sum(one for one in found if one is not None)

    def read_as_asked(self) -> None:
        for table in self._tables:
            table.read_as_asked()

    def pages(self, name: str, begin: int, end: int) -> Pages:
        """Those of all files; what a folder's name says takes nothing."""
        begins, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number, first, low, high in self._files(begin, end):
            if name in self._partitions:
                found = Pages(np.array([low, high]), np.zeros(1, np.int64))
            else:
                found = self._tables[number].pages(name, low, high)
            begins.append(first + found.begins[:-1])
            sizes.append(found.bytes)
        return Pages(np.append(np.concatenate(begins), end), np.concatenate(sizes))

    def values_at(self, name: str, rows: np.ndarray, kept: KeptGroups) -> Iterator[ColumnValues]:
        """A column in some rows, file by file."""
        type_ = self.schema.field(name).type
        for number, first, low, high in self._files(int(rows[0]), int(rows[-1]) + 1) if len(rows) else ():
            begin, end = np.searchsorted(rows, [first + low, first + high]).tolist()
            table = self._tables[number]
            if begin == end:
                continue
            if name in self._partitions:
                yield ColumnValues(begin, _repeated(self._partitions[name], number, end - begin), 0)
                continue
            with sentences(table.path):
                for piece in table.values_at(name, rows[begin:end] - first, kept):
                    yield ColumnValues(begin + piece.at, _as(piece.values, type_), piece.bytes)

    def stored_bytes(self, name: str, parts: Sequence[RowRange]) -> int:
        if name in self._partitions:
            return 0
        some = groupby(parts, lambda part: part.file)
        return sum(self._tables[number].stored_bytes(name, self._own(number, list(own))) for number, own in some)

    def _files(self, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Of each file with any of the rows [begin, end) its number, its first row, and which of its own rows these are."""
        for number, (first, last) in enumerate(pairwise(self._begins)):
            low, high = max(begin, first) - first, min(end, last) - first
            if low < high:
                yield number, first, low, high

    def _own(self, number: int, parts: list[RowRange]) -> list[RowRange]:
        """Parts as a file counts their rows."""
        first = self._begins[number]
        return [part._replace(begin=part.begin - first, end=part.end - first) for part in parts]

    def batches(self, names: Sequence[str], parts: Sequence[RowRange]) -> Iterator[tuple[int, Any]]:
        """The first row of each record batch of some parts, in their order, and the batch. Files of which one row group is left
        are read side by side; others do so with their own parts."""
        files = [(number, list(own)) for number, own in groupby(parts, lambda part: part.file)]
        for side_by_side, some in groupby(
            files, lambda one: len(one[1]) == 1 and isinstance(self._tables[one[0]], ParquetFile)
        ):
            if side_by_side:
                for found in ahead(partial(list, self._batches_of(names, *one)) for one in some):
                    yield from found
            else:
                for one in some:
                    yield from self._batches_of(names, *one)

    def _batches_of(self, names: Sequence[str], number: int, parts: list[RowRange]) -> Iterator[tuple[int, Any]]:
        """The same of one file."""
        import pyarrow

        schema = pyarrow.schema([self.schema.field(name) for name in names])
        table, first = self._tables[number], self._begins[number]
        own = self._own(number, parts)
        stored = [name for name in names if name not in self._partitions]
        with sentences(table.path):
            for begin, rows, columns in _columns(table, stored, own):
                arrays = [
                    _repeated(self._partitions[name], number, rows)
                    if name in self._partitions
                    else _as(next(columns), self.schema.field(name).type)
                    for name in names
                ]
                yield first + begin, pyarrow.record_batch(arrays, schema=schema)


def _columns(table: FileTable, names: list[str], parts: list[RowRange]) -> Iterator[tuple[int, int, Iterator[Any]]]:
    """Of each batch the first row, how many there are, and the columns; of no columns nothing is read."""
    if names:
        for begin, batch in table.batches(names, parts):
            yield begin, batch.num_rows, iter(batch.columns)
    else:
        for part in parts:
            for begin in range(part.begin, part.end, ENGINE_ROWS):
                yield begin, min(part.end - begin, ENGINE_ROWS), iter(())


def _plain(*types: Any) -> Any:
    """The type, without dictionaries, of what is stored as these; None where that is not one."""
    import pyarrow

    values = {one.value_type if pyarrow.types.is_dictionary(one) else one for one in types}
    texts = {pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()}
    return values.pop() if len(values) == 1 else pyarrow.large_string() if values <= texts else None


def _as(array: Any, type_: Any) -> Any:
    """An array as of the type that its column has in all files together."""
    import pyarrow

    if array.type == type_:
        return array
    if pyarrow.types.is_null(array.type):
        return pyarrow.nulls(len(array), type_)
    array.validate(full=True)  # codes that the dictionary does not have are damage
    return array.cast(type_)


def _values(texts: list[str | None]) -> Any:
    """What folders' names say, an array: whole numbers where all are, dates where all are, else texts."""
    import pyarrow

    some = [text for text in texts if text is not None]
    if some and all(map(_WHOLE.fullmatch, some)):
        return pyarrow.array([None if text is None else int(text) for text in texts], pyarrow.int64())
    if some and all(map(_DATE.fullmatch, some)):
        with suppress(ValueError):
            dates = [None if text is None else datetime.date.fromisoformat(text) for text in texts]
            return pyarrow.array(dates, pyarrow.date32())
    return pyarrow.array(texts, pyarrow.string()).dictionary_encode()


def _repeated(values: Any, number: int, rows: int) -> Any:
    """One of the values for so many rows."""
    import pyarrow

    if not values[number].is_valid:
        return pyarrow.nulls(rows, values.type)
    if pyarrow.types.is_dictionary(values.type):
        codes = pyarrow.repeat(values.indices[number], rows)
        return pyarrow.DictionaryArray.from_arrays(codes, values.dictionary)
    return pyarrow.repeat(values[number], rows)


def _statistics(kind: ColumnKind, values: Any, rows: np.ndarray) -> Statistics:
    """Of each file, whose rows have one value."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if kind.family == "text":
        bounds = np.array([(text or "").encode() for text in values.to_pylist()], object)
    else:
        bounds = values.view(f"int{kind.bits}").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return Statistics(valid, bounds, bounds, np.where(valid, 0, rows), rows)
