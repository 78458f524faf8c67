"""Some data pages of a column chunk in a Parquet file, found by its offset index: a file of their own, which pyarrow decodes.

Pyarrow reads row groups whole. A page is copied as it is stored, and metadata are written that know of nothing else
(apache/parquet-format, parquet.thrift).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .schema import MAGIC
from .thrift import BINARY, INT32, INT64, LIST, STRUCT, fields_of, list_at, list_of, number_at, number_of, struct_of, text_of

_PAGES, _AT, _BYTES, _ROW = 1, 1, 2, 3  # fields of OffsetIndex, and of PageLocation
_CODED = 62  # encodings that a footer's bits have


class PageIndex(NamedTuple):
    """Where the data pages of a chunk lie, int64, [n] each.

    Attributes:
        at: their first bytes in the file.
        bytes: of each.
        rows: the first row of each in the row group.
        end: the rows of that.
    """

    at: np.ndarray
    bytes: np.ndarray
    rows: np.ndarray
    end: int


class PagesOfRows(NamedTuple):
    """Pages that hold some rows.

    Attributes:
        places: where they lie.
        numbers: of the pages, ascending.
        at: where each row is among the values of these pages.
        rows: that they have together.
        are_all: whether the chunk has no others.
    """

    places: PageIndex
    numbers: np.ndarray
    at: np.ndarray
    rows: int
    are_all: bool

    @classmethod
    def of(cls, index: PageIndex, rows: np.ndarray, whole: bool) -> PagesOfRows:
        """Those of some rows of the row group, ascending, int64; or the ``whole`` chunk."""
        page = np.searchsorted(index.rows, rows, "right") - 1
        numbers = np.arange(len(index.at)) if whole else np.unique(page)
        lengths = np.diff(index.rows, append=index.end)[numbers]
        before = index.rows - np.insert(np.cumsum(lengths), 0, 0)[np.searchsorted(numbers, np.arange(len(index.at)))]
        return cls(index, numbers, rows - before[page], int(lengths.sum()), len(numbers) == len(index.at))


def page_index(data: bytes, chunk: Any, rows: int) -> PageIndex | None:
    """What an offset index says of a chunk of so many rows; None where that cannot be."""
    try:
        first = next(first for number, _, first, _ in fields_of(data, 0) if number == _PAGES)
        count, _, at = list_at(data, first)
        found = np.zeros((min(count, len(data)), 3), np.int64)
        for page in found:
            for number, _, first, end in fields_of(data, at):
                if number in (_AT, _BYTES, _ROW):
                    page[number - 1] = number_at(data, first)[0] >> 1
                at = end
            at += 1
    except (IndexError, StopIteration, ValueError, OverflowError, RecursionError):
        return None
    begin, pages = dictionary_range(chunk)
    at, sizes, firsts = np.ascontiguousarray(found.T)
    index = PageIndex(at, sizes, firsts, rows)
    end = begin + int(chunk["bytes"])
    if not count or index.rows[0] != 0 or index.at[0] != pages or found[:, :2].max() > end or at[-1] + sizes[-1] > end:
        return None
    apart = index.at[1:] >= index.at[:-1] + index.bytes[:-1]
    good = apart.all() and (index.bytes > 0).all() and (np.diff(index.rows, append=rows) > 0).all()
    return index if good else None


def dictionary_range(chunk: Any) -> tuple[int, int]:
    """Where a chunk's dictionary begins and ends in the file; nothing where there is none."""
    begin, data = int(chunk["dictionary_at"]), int(chunk["data_at"])
    return (begin, data) if 0 < begin < data else (data, data)


def some_pages(file: Any, name: str, element: bytes, chunk: Any, pages: PagesOfRows) -> Any:
    """The values of some pages of a chunk one after another, a chunked array of pyarrow's.

    Args:
        file: a buffer of pyarrow's.
        element: what the file's schema says of the column ``name``.
    """
    import pyarrow
    import pyarrow.parquet

    begin, end = dictionary_range(chunk)
    stored = [file.slice(begin, end - begin)]
    index, rows = pages.places, pages.rows
    stored += [file.slice(int(index.at[page]), int(index.bytes[page])) for page in pages.numbers]
    body = b"".join(map(memoryview, [MAGIC, *stored]))
    bits, size = int(chunk["encodings"]), len(body) - len(MAGIC)
    encodings = [number_of(number) for number in range(_CODED) if bits >> number & 1]
    metadata = [
        (1, INT32, number_of(int(chunk["physical"]))),
        (2, LIST, list_of(INT32, encodings)),
        (3, LIST, list_of(BINARY, [text_of(name)])),
        (4, INT32, number_of(int(chunk["codec"]))),
        (5, INT64, number_of(rows)),
        (6, INT64, number_of(int(chunk["full"]))),
        (7, INT64, number_of(size)),
        (9, INT64, number_of(len(MAGIC) + end - begin)),
        (11, INT64, number_of(len(MAGIC))),
    ]
    column = struct_of([(2, INT64, number_of(0)), (3, STRUCT, struct_of(metadata if end > begin else metadata[:-1]))])
    group = struct_of([(1, LIST, list_of(STRUCT, [column])), (2, INT64, number_of(size)), (3, INT64, number_of(rows))])
    root = struct_of([(4, BINARY, text_of("schema")), (5, INT32, number_of(1))])
    schema, groups = list_of(STRUCT, [root, element]), list_of(STRUCT, [group])
    footer = struct_of([(1, INT32, number_of(1)), (2, LIST, schema), (3, INT64, number_of(rows)), (4, LIST, groups)])
    made = b"".join([body, footer, len(footer).to_bytes(4, "little"), MAGIC])
    return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(made)).read(use_threads=False).column(0)
