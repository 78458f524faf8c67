"""ORC and CSV files as Arrow files in the cache folder: converted once, part by part, and again when they change."""

from __future__ import annotations

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
from ..runtime.files import replacing

_MOST_TEXTS = 1 << 16  # of a dictionary; columns that have more hold their texts as they are
_LONGEST_LINE = 1 << 29  # bytes of a CSV file's; pyarrow takes no more than 2^31 together
_BAD_VALUE = re.compile(r"In CSV column #(\d+): .*conversion error to ", re.DOTALL)


def arrow_copy(path: str, head: bytes) -> str:
    """The Arrow copy of an ORC or CSV file that begins with ``head``, made unless it is there. Former ones are removed."""
    stamp = os.stat(path)
    name = hashlib.sha256(os.path.realpath(path).encode(errors="surrogateescape")).hexdigest()[:32]
    copy = cache.path("tables") / f"{name}-{stamp.st_size:x}-{stamp.st_mtime_ns:x}.arrow"
    if copy.exists():
        return str(copy)
    copy.parent.mkdir(parents=True, exist_ok=True)
    print(f"{path}: converted once, to {copy}", file=sys.stderr)
    _convert(path, copy, _Orc(path) if head.startswith(b"ORC") else _Csv(path))
    for former in copy.parent.glob(f"{name}-*.arrow"):
        if former != copy:
            with suppress(OSError):  # another process has removed it
                former.unlink()
    return str(copy)


class _Orc:
    """Parts of an ORC file: its stripes."""

    def __init__(self, path: str) -> None:
        import pyarrow.orc

        self._file = pyarrow.orc.ORCFile(path)
        self.schema = self._file.schema

    def parts(self) -> Iterator[Any]:
        """Record batches."""
        return (self._file.read_stripe(number) for number in range(self._file.nstripes))

    def widened(self, error: Exception) -> bool:
        """Whether types were changed so that what raised ``error`` may work."""
        return False


class _Csv:
    """Parts of a CSV file. Types are its first part's, until a value says otherwise: then the next of pyarrow's that fits."""

    def __init__(self, path: str) -> None:
        import pyarrow

        self._path, self._types = path, {}  # type: ignore[var-annotated]
        self._block = 1 << 20  # bytes that are read together, pyarrow's own choice: no line is longer
        order = [
            pyarrow.null(),
            pyarrow.int64(),
            pyarrow.bool_(),
            pyarrow.date32(),
            pyarrow.time32("s"),
            pyarrow.timestamp("s"),
        ]
        order += [pyarrow.timestamp("ns"), pyarrow.float64(), pyarrow.string()]
        self._next = dict(pairwise(order))
        self.schema = self._open().schema

    def _open(self, column: str | None = None) -> Any:
        """A reader of all columns, or one."""
        import pyarrow.csv

        options = pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=self._types
        )
        if column is not None:
            options.include_columns = [column]
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        while True:
            read = pyarrow.csv.ReadOptions(block_size=self._block)
            try:
                return pyarrow.csv.open_csv(self._path, read_options=read, convert_options=options, parse_options=parse)
            except pyarrow.ArrowInvalid as error:
                if not self._lengthened(error):
                    raise

    def _lengthened(self, error: Exception) -> bool:
        """Whether a line that raised ``error`` may fit now."""
        if "straddling object" not in str(error) or self._block >= _LONGEST_LINE:
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
        import pyarrow

        if self._lengthened(error):
            return True
        found = _BAD_VALUE.search(str(error))
        if found is None or int(found[1]) >= len(self.schema):
            return False
        field = self.schema.field(int(found[1]))
        name, kind = field.name, self._next.get(field.type)
        while kind is not None:
            self._types[name] = kind
            try:
                for _ in self._open(name):
                    pass
                return True
            except pyarrow.ArrowInvalid:
                kind = self._next.get(kind)
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
        except pyarrow.ArrowInvalid as error:
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
    schema = pyarrow.schema(
        [pyarrow.field(field.name, coded if number in texts else field.type) for number, field in enumerate(table.schema)]
    )
    options = pyarrow.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with (
        replacing(copy) as output,
        pyarrow.ipc.new_file(pyarrow.PythonFile(output.file, "w"), schema, options=options) as writer,
    ):
        for batch in parts:
            columns = [texts[n].encoded(column) if n in texts else column for n, column in enumerate(batch.columns)]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))
