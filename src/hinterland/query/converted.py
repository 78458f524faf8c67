"""ORC and CSV files as Arrow files in the cache folder: converted once, part by part, and again when they change."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..machine import cache
from ..runtime.errors import ConfigError, FormatError, StorageError
from ..runtime.files import replacing, writing

_UNREAD = b"hinterland.unread"  # metadata of a column that no copy has: why; and of a copy that is without some
_VERSION = 3  # of copies: those that other versions made are made again
_MOST_TEXTS = 1 << 16  # of a dictionary; columns that have more hold their texts as they are
_LONGEST_LINE = 1 << 29  # bytes of a CSV file's; pyarrow takes no more than 2^31 together
# What CSV files begin with, whatever their names are: compressed ones, and those whose first mark is that of an encoding.
_COMPRESSED = {
    "gzip": rb"\x1f\x8b", "bz2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "zstd": rb"\x28\xb5\x2f\xfd", "lz4": rb"\x04\x22\x4d\x18"
}  # fmt: skip
_ENCODINGS = {b"\xff\xfe\0\0": "utf32", b"\0\0\xfe\xff": "utf32", b"\xff\xfe": "utf16", b"\xfe\xff": "utf16"}
_BAD_VALUE = re.compile(r"In CSV column #(\d+): .*conversion error to ", re.DOTALL)


def arrow_copy(path: str, is_orc: bool) -> str:
    """The Arrow copy of an ORC or CSV file, made unless it is there. Former ones are removed.

    Raises:
        ConfigError: the heading of a CSV file is no UTF-8.
        FormatError: there is none.
        StorageError: the copy cannot be written.
    """
    stamp = os.stat(path)
    name = hashlib.sha256(os.path.realpath(path).encode(errors="surrogateescape")).hexdigest()[:32]
    made = f"{_VERSION}-{_pyarrow_major()}"  # another pyarrow may find other types, or read what this one does not
    copy = cache.path("tables") / f"{name}-{stamp.st_size:x}-{stamp.st_mtime_ns:x}-{made}.arrow"
    try:
        with writing(copy):
            if copy.exists():
                return str(copy)
            copy.parent.mkdir(parents=True, exist_ok=True)
        print(f"{path}: converting it, once, to {copy}", file=sys.stderr)
        _convert(path, copy, _Orc(path) if is_orc else _Csv(path))
    except StorageError as error:
        raise StorageError(f"the Arrow copy of {path}: {error}; or set HINTERLAND_CACHE_DIR to another folder") from error
    for former in copy.parent.glob(f"{name}-*.arrow"):
        if former != copy:
            with suppress(OSError):  # another process has removed it
                former.unlink()
    return str(copy)


def unread(schema: Any) -> dict[str, str]:
    """Of an Arrow file's columns those that a copy is without, and why."""
    if not schema.metadata or _UNREAD not in schema.metadata:
        return {}
    return {field.name: why.decode() for field in schema if (why := (field.metadata or {}).get(_UNREAD)) is not None}


def _pyarrow_major() -> int:
    import pyarrow

    return int(pyarrow.__version__.split(".")[0])


class _Orc:
    """Parts of an ORC file: its stripes. Columns that pyarrow does not read are left out of them."""

    def __init__(self, path: str) -> None:
        import pyarrow
        import pyarrow.orc

        self._file = pyarrow.orc.ORCFile(pyarrow.OSFile(os.fsencode(path)))
        self._fields = list(self._file.schema)
        self._left_out: dict[int, str] = {}  # by number, for several may have a name
        if _pyarrow_major() < 25:
            for number, field in enumerate(self._fields):
                if pyarrow.types.is_timestamp(field.type):
                    why = "takes times outside of 1677 to 2262 for others; pip install -U 'pyarrow>=25'"
                    self._left_out[number] = f"holds an ORC file's times, and pyarrow {pyarrow.__version__} {why}"

    @property
    def schema(self) -> Any:
        import pyarrow

        return pyarrow.schema(
            [
                pyarrow.field(field.name, pyarrow.null(), metadata={_UNREAD: self._left_out[number]})
                if number in self._left_out
                else field
                for number, field in enumerate(self._fields)
            ]
        )

    def parts(self) -> Iterator[Any]:
        """Record batches."""
        import pyarrow

        names = [field.name for number, field in enumerate(self._fields) if number not in self._left_out]
        for stripe in range(self._file.nstripes if names else 0):
            read = self._file.read_stripe(stripe, names if self._left_out else None)
            if read.schema.names != names:  # pyarrow asks liborc by names alone
                raise pyarrow.ArrowInvalid("names that several columns have")
            columns, nothing = iter(read.columns), pyarrow.nulls(read.num_rows)
            every = range(len(self._fields))
            yield pyarrow.record_batch(
                [nothing if number in self._left_out else next(columns) for number in every], schema=self.schema
            )
        if not names:
            yield pyarrow.record_batch([pyarrow.nulls(self._file.nrows)] * len(self._fields), schema=self.schema)

    def widened(self, error: Exception) -> bool:
        """Whether columns were left out so that what raised ``error`` may work."""
        found = {number: why for number in range(len(self._fields)) if (why := self._why_not(number)) is not None}
        self._left_out |= found
        return bool(found)

    def _why_not(self, number: int) -> str | None:
        """Why a column is not read."""
        import pyarrow

        if number in self._left_out:
            return None
        name = self._fields[number].name
        alike = (
            "has the name of another column, or of a part of one, and beside unread columns pyarrow reads by name; rename it"
        )
        if sum(field.name == name for field in self._fields) > 1:
            return alike
        try:
            for stripe in range(self._file.nstripes):
                read = self._file.read_stripe(stripe, [name])
                if read.schema.names != [name]:
                    return alike
                read.validate(full=True)
        except pyarrow.ArrowInvalid as error:
            return f"is not read by pyarrow: {error}; ask for other columns, or write it as another type"
        return None


class _Csv:
    """Parts of a CSV file. Types are its first part's, until a value says otherwise: then the next of pyarrow's that fits.

    Whole numbers that 64 bits do not hold are texts: floats would be other numbers.
    """

    def __init__(self, path: str) -> None:
        import pyarrow

        self._path, self._types = path, {}  # type: ignore[var-annotated]
        with open(path, "rb") as file:
            head = file.read(16)
        self._codec = next((codec for codec, form in _COMPRESSED.items() if re.match(form, head)), None)
        with self._bytes() as file:
            head = file.read(4)
        self._encoding = next((name for mark, name in _ENCODINGS.items() if head.startswith(mark)), "utf8")
        self._block = 1 << 20  # bytes that are read together, pyarrow's own choice: no line is longer
        moments = [pyarrow.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("s", "ns")]
        order = [pyarrow.null(), pyarrow.int64(), pyarrow.uint64(), pyarrow.bool_(), pyarrow.date32(), pyarrow.time32("s")]
        order += [*moments, pyarrow.float64(), pyarrow.string(), pyarrow.binary()]
        self._next = dict(pairwise(order))
        self.schema = self._open().schema
        try:
            names = self.schema.names
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: the names of its columns are no UTF-8: {error}; write the file as UTF-8") from error
        floats = [name for name, kind in zip(names, self.schema.types, strict=True) if kind == pyarrow.float64()]
        for name in self._long_of(floats):
            self._fits(name, pyarrow.uint64())

    def _open(self, some: dict[str, Any] | None = None) -> Any:
        """A reader of all columns, or of some as of these types."""
        import pyarrow.csv

        types = self._types if some is None else some
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=types)
        if some is not None:
            options.include_columns = list(some)
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        lacks_an_end = False
        while True:
            source = self._heading() if lacks_an_end else self._bytes()
            read = pyarrow.csv.ReadOptions(block_size=self._block, encoding=self._encoding)
            try:
                return pyarrow.csv.open_csv(source, read_options=read, convert_options=options, parse_options=parse)
            except pyarrow.ArrowInvalid as error:
                if not lacks_an_end and "Empty CSV file" in str(error):
                    with self._bytes() as file:
                        lacks_an_end = len(file.read(self._block + 1)) <= self._block or not self._lengthen()
                elif not self._lengthened(error):
                    raise

    def _bytes(self) -> Any:
        """What the file holds, decompressed, as a stream. Python's gzip passes over zeros at the end, as gzip does, and is as
        quick as pyarrow's."""
        import pyarrow

        if self._codec == "gzip":
            return pyarrow.PythonFile(gzip.open(self._path), "r")
        return pyarrow.input_stream(pyarrow.OSFile(os.fsencode(self._path)), compression=self._codec)

    def _heading(self) -> Any:
        """The heading of a file that has nothing else, with the line's end that it lacks."""
        import pyarrow

        with self._bytes() as file:
            text = file.read().decode(self._encoding)
        if not text.strip("\ufeff\r\n "):
            raise FormatError(f"{self._path} is empty; the first line of a CSV file names its columns")
        return pyarrow.BufferReader(f"{text}\n".encode(self._encoding))

    def _lengthened(self, error: Exception) -> bool:
        """Whether a line that raised ``error`` may fit now."""
        return "straddling object" in str(error) and self._lengthen()

    def _lengthen(self) -> bool:
        """Whether longer lines are read now."""
        if self._block >= _LONGEST_LINE:
            return False
        self._block *= 8
        return True

    def parts(self) -> Iterator[Any]:
        """Record batches."""
        reader = self._open()
        self.schema = reader.schema
        return iter(reader)

    def widened(self, error: Exception) -> bool:
        """Whether types were changed so that what raised ``error`` may work."""
        if self._lengthened(error):
            return True
        found = _BAD_VALUE.search(str(error))
        if found is None or int(found[1]) >= len(self.schema):
            return False
        field = self.schema.field(int(found[1]))
        return self._fits(field.name, self._next.get(field.type))

    def _fits(self, name: str, kind: Any) -> bool:
        """Gives a column the first type from ``kind`` on that holds all its values; whether there is one."""
        import pyarrow

        while kind is not None:
            if kind == pyarrow.float64() and self._long_of([name]):
                print(f"{self._path}: {name!r} has whole numbers that 64 bits do not hold: taken as texts", file=sys.stderr)
                kind = pyarrow.string()
            if self._holds(name, kind):
                self._types[name] = kind
                return True
            kind = self._next.get(kind)
        return False

    def _long_of(self, names: list[str]) -> list[str]:
        """Those of some columns whose values are whole numbers, of which any has more digits than float64s have."""
        import pyarrow
        from pyarrow import compute

        while True:
            whole, long = dict.fromkeys(names), set()
            try:
                for batch in self._open(dict.fromkeys(names, pyarrow.binary())) if names else ():
                    for name in list(whole):
                        texts = batch.column(name)
                        if compute.all(compute.match_substring_regex(texts, r"^\s*[+-]?\d+\s*$")).as_py() is False:
                            del whole[name]
                        elif compute.any(compute.match_substring_regex(texts, r"\d{16}")).as_py():
                            long.add(name)
                    if not whole:
                        break
                return [name for name in whole if name in long]
            except pyarrow.ArrowInvalid as error:
                if not self._lengthened(error):
                    raise

    def _holds(self, name: str, kind: Any) -> bool:
        """Whether a column's values can be read as of a type."""
        import pyarrow

        while True:
            try:
                for _ in self._open({name: kind}):
                    pass
                return True
            except pyarrow.ArrowInvalid as error:
                if not self._lengthened(error):
                    return False


class _TooManyTexts(Exception):
    pass


class _Dictionary:
    """Texts of a column, numbered as they come: what each part adds is all that is written of it."""

    def __init__(self, column: str) -> None:
        import pyarrow

        self._column, self._codes, self._texts = column, {}, pyarrow.array([], pyarrow.string())  # type: ignore[var-annotated]

    def encoded(self, array: Any) -> Any:
        """An array of codes."""
        import pyarrow

        own = array.cast(pyarrow.string()).dictionary_encode()
        texts = own.dictionary.to_pylist()
        added = [text for text in texts if text not in self._codes]
        if added:
            if len(self._codes) + len(added) > _MOST_TEXTS:
                raise _TooManyTexts(self._column)
            self._codes.update(zip(added, range(len(self._codes), len(self._codes) + len(added)), strict=True))
            self._texts = pyarrow.concat_arrays([self._texts, pyarrow.array(added, pyarrow.string())])
        codes = pyarrow.array(np.array([self._codes[text] for text in texts], np.int32))
        return pyarrow.DictionaryArray.from_arrays(codes.take(own.indices), self._texts)


def _convert(path: str, copy: Path, table: _Orc | _Csv) -> None:
    """Writes the copy, again and again while types turn out to be too narrow."""
    import pyarrow

    plain: set[str] = set()
    while True:
        try:
            return _write(copy, table, plain)
        except _TooManyTexts as error:
            plain.add(str(error))
        except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
            if not table.widened(error):
                raise


def _write(copy: Path, table: _Orc | _Csv, plain: set[str]) -> None:
    import pyarrow
    import pyarrow.ipc

    parts = table.parts()
    texts = {
        number: _Dictionary(field.name)
        for number, field in enumerate(table.schema)
        if (pyarrow.types.is_string(field.type) or pyarrow.types.is_large_string(field.type)) and field.name not in plain
    }
    coded = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    fields = [field.with_type(coded) if number in texts else field for number, field in enumerate(table.schema)]
    lacks = any(_UNREAD in (field.metadata or {}) for field in fields)
    schema = pyarrow.schema(fields, {_UNREAD: b""} if lacks else None)
    options = pyarrow.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with replacing(copy) as output:
        with writing(copy):
            writer = pyarrow.ipc.new_file(pyarrow.PythonFile(output.file, "w"), schema, options=options)
        for batch in parts:
            columns = [texts[n].encoded(column) if n in texts else column for n, column in enumerate(batch.columns)]
            with writing(copy):
                writer.write_batch(pyarrow.record_batch(columns, schema=schema))
        with writing(copy):
            writer.close()
