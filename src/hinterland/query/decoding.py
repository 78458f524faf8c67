"""Decodes pages of Parquet's columns, by native code, which decompresses Snappy, too.

That is values of fixed width, PLAIN or in a dictionary, texts in dictionaries, and PLAIN ones that are compared or counted, of
which nothing is kept but their places; pyarrow reads whole chunks of all else, and its codecs decompress what is compressed
otherwise than by Snappy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .. import _core
from ..runtime.params import struct
from .crew import Crew, Task
from .filtering import Verdicts
from .pages import PHYSICAL, PLAIN, Column
from .rows import Matching, Wanted
from .segments import Kept, is_valid
from .texts import Places

_OF_PAGES = np.dtype(struct("ChunkOfPages"))
_DECODED, _BLOCK = _core.PARQUET_DECODED, _core.QUERY_BLOCK_ROWS
Instead = Places | Verdicts  # what stands for values that are only compared
_PAGES_OF_TASK = 4  # where pyarrow decompresses: chosen, not measured


def decodable(column: Column, instead: Instead | None) -> bool:
    """Whether pages of a column are decoded here; ``instead``: what stands for its values, if they are not asked for."""
    return column.decoded_here and (not column.plain_texts or instead is not None)


def decoding(column: Column, wanted: Wanted, instead: Instead | None) -> Decoding | None:
    """What decodes pages that hold wanted rows, perhaps these rows alone; None where that must be left to pyarrow."""
    found = column.pages_with(wanted) if decodable(column, instead) else None
    if found is None:
        return None
    keeps = isinstance(wanted, Matching) and wanted.few and column.kind.family != "bool"
    return Decoding(column, *found, wanted if isinstance(wanted, Matching) and keeps else None, instead)


def decode(columns: list[Decoding], crew: Crew) -> None:
    """All their pages, dictionaries first, by all threads.

    Raises:
        FormatError: they are damaged.
    """
    _decode([one.dictionary for one in columns if one.dictionary is not None], crew)
    for one in columns:
        one.judge()
    _decode([one for one in columns if not one.left_to_pyarrow], crew)


def _decode(all_pages: Sequence[_Pages], crew: Crew) -> None:
    addresses, outcomes = np.array([one.params.address for one in all_pages]), np.zeros(len(all_pages), np.int64)
    _core.parquet_decode_all(addresses.ctypes.data, len(all_pages), outcomes.ctypes.data)
    compressed: list[Task] = []
    for pages, outcome in zip(all_pages, outcomes.tolist(), strict=True):
        if outcome == _DECODED["compressed"]:
            compressed += pages.tasks()
        else:
            pages.end(outcome)
    crew.do(compressed)


class _Pages:
    """Pages while native code decodes them; tasks may run in several threads."""

    def __init__(self, column: Column, pages: np.ndarray, params: Any) -> None:
        self._column, self.pages, self.params = column, np.ascontiguousarray(pages), params
        self._chunks = np.zeros(len(column.codecs), _OF_PAGES)
        self._chunks["codec"] = column.codecs
        self.at = np.concatenate([[0], np.cumsum(pages["values"])])
        self.nulls = np.zeros(max(len(pages), 1), np.int64)
        self.other = False  # whether a page must be left to pyarrow
        params.pages, params.count, params.chunks = self.pages.ctypes.data, len(pages), self._chunks.ctypes.data
        self._far = np.zeros(1, np.int64)
        params.rows, params.nulls, params.far = self.at.ctypes.data, self.nulls.ctypes.data, self._far.ctypes.data

    def tasks(self) -> list[Task]:
        """What is to be done where pyarrow decompresses, in any order."""
        return [partial(self._some, first) for first in range(0, len(self.pages), _PAGES_OF_TASK)]

    def _some(self, first: int) -> None:
        data = [self._column.page_bytes(page) for page in self.pages[first : first + _PAGES_OF_TASK]]
        places = np.array([(one.address, one.size) for one in data])
        self.end(_core.parquet_decode(self.params.address, first, len(data), places.ctypes.data))

    def end(self, outcome: int) -> None:
        """Of some pages, or all."""
        if outcome == _DECODED["damaged"]:
            raise self._column.damaged("values that are cut short, or codes that its dictionary does not have")
        if outcome == _DECODED["far"]:
            raise self._column.too_far(int(self._far[0]))
        self.other = self.other or outcome == _DECODED["other"]


class Decoding(_Pages):
    """A column's pages while they are decoded.

    Attributes:
        dictionary: what is to be decoded before them; None where nothing is.
    """

    def __init__(
        self, column: Column, numbers: np.ndarray, pages: np.ndarray, wanted: Matching | None, instead: Instead | None
    ) -> None:
        import pyarrow

        super().__init__(column, pages, _params(column))
        self._numbers, self._wanted = numbers, wanted
        is_text, in_dictionaries = column.kind.family == "text", bool((pages["encoding"] != PLAIN).all())
        self._places = instead if is_text and isinstance(instead, Places) else None
        self._verdicts = instead if not is_text and in_dictionaries and isinstance(instead, Verdicts) else None
        if self._verdicts is not None:
            self.params.width = 1
        params, rows, room = self.params, int(self.at[-1]), int(self.at[-1])
        if wanted is not None:  # values one after another, bits where all rows would have theirs
            rows, first = column.rows, wanted.before(np.array([column.begin]))
            self._kept = wanted.before(column.begin + pages["row"]) - first
            room = int((wanted.before(np.array([column.begin + rows])) - first)[0])
            params.wanted, params.wanted_at = wanted.words.ctypes.data, column.begin - wanted.begin
            self._rows = np.ascontiguousarray(pages["row"])
            params.kept, params.rows = self._kept.ctypes.data, self._rows.ctypes.data
        if column.kind.family == "bool":
            self._values = pyarrow.py_buffer(np.zeros(-(-rows // 8), np.uint8))
        else:
            self._values = pyarrow.allocate_buffer(room * params.width)
        self._valid = pyarrow.py_buffer(np.zeros(-(-rows // 8), np.uint8)) if params.optional else None
        params.values, params.valid = self._values.address, self._valid.address if self._valid is not None else 0
        self.dictionary: _Pages | None = None
        self._texts: dict[int, Any] = {}
        found = column.dictionaries(np.unique(pages["chunk"]))
        if column.kind.family == "text":
            self._texts = {int(page["chunk"]): _texts(column, page) for page in found}
            self._chunks["entries"][list(self._texts)] = [len(texts) for texts in self._texts.values()]
            if self._places is not None:
                self._place_entries(self._places)
        elif len(found):
            self.dictionary = self._decoded_first(found)

    def _place_entries(self, places: Places) -> None:
        """Of dictionaries; what is no UTF-8 is left to pyarrow, which says what is wrong."""
        self.other = not all(map(is_valid, self._texts.values()))
        if self.other:
            return
        self._entries = {chunk: places.of_dictionary(texts) for chunk, texts in self._texts.items()}
        self._chunks["dictionary"][list(self._entries)] = [entries.ctypes.data for entries in self._entries.values()]
        self.params.literals, self.params.literal_count = _core.address_of(places.literals), places.count

    def _decoded_first(self, pages: np.ndarray) -> _Pages:
        params = _params(self._column)
        params.optional = 0
        first = _Pages(self._column, pages, params)
        self._dictionary = np.empty(max(int(first.at[-1]), 1) * params.width, np.uint8)
        params.values = self._dictionary.ctypes.data
        self._chunks["entries"][pages["chunk"]] = pages["values"]
        self._chunks["dictionary"][pages["chunk"]] = params.values + first.at[:-1] * params.width
        return first

    def judge(self) -> None:
        """Takes verdicts for a dictionary's entries, once it was decoded, if they are asked for."""
        if self._verdicts is None or self.dictionary is None or self.left_to_pyarrow:
            return
        entries = self._verdicts.of_entries(self._dictionary.ctypes.data, int(self.dictionary.at[-1]))
        if entries is None:
            self.other = True
            return
        first = self._chunks["dictionary"].astype(np.int64) - self._dictionary.ctypes.data
        self._dictionary, width = entries, self.dictionary.params.width
        self._chunks["dictionary"] = entries.ctypes.data + first // width

    @property
    def left_to_pyarrow(self) -> bool:
        """Whether, as was found out while they were decoded, pages are of an encoding that is not decoded here."""
        return self.other or (self.dictionary is not None and self.dictionary.other)

    @property
    def _has_dictionaries(self) -> bool:
        """Whether each chunk has one of its own, for whose entries codes stand."""
        return self._column.kind.family == "text" and self._places is None

    def arrays(self) -> list[tuple[int, Any]]:
        """(first row, array) of pages that follow one another, or of what was kept; once they are decoded."""
        if self._wanted is not None:
            return list(self._kept_arrays(self._wanted))
        column, valid = self._column, self._valid if self.nulls.any() else None
        apart = np.diff(self._numbers) > 1
        if self._has_dictionaries:
            apart |= np.diff(self.pages["chunk"]) > 0
        breaks = (np.flatnonzero(apart) + 1).tolist()
        starts, found = self.at.tolist(), []
        for first, last in pairwise([0, *breaks, len(self._numbers)]):
            at, rows = starts[first], starts[last] - starts[first]
            if rows:
                array = self._array(rows, valid, at, int(self.pages["chunk"][first]))
                found.append((int(column.starts[self._numbers[first]]), array))
        return found

    def _kept_arrays(self, wanted: Matching) -> Iterator[tuple[int, Kept]]:
        """Of the column, or of each chunk where it has a dictionary of its own."""
        column = self._column
        cuts = column.cuts if self._has_dictionaries else column.cuts[[0, -1]]
        counts = wanted.before(cuts) - wanted.before(cuts[:1])
        for chunk, (begin, end) in enumerate(pairwise(cuts.tolist())):
            first, count = int(counts[chunk]), int(counts[chunk + 1] - counts[chunk])
            if count:
                blocks = np.arange(begin // _BLOCK, -(-end // _BLOCK)) * _BLOCK
                before = wanted.before(np.maximum(blocks, begin)) - wanted.before(cuts[chunk : chunk + 1])
                valid = self._valid if self.nulls.any() else None
                yield begin, Kept(self._array(count, None, first, chunk), end, before, valid, begin - column.begin)

    def _array(self, count: int, valid: Any, at: int, chunk: int) -> Any:
        """Values from one on, with bits of nulls; of texts codes of a chunk's dictionary, or places."""
        import pyarrow

        buffers, kind = [valid, self._values], self._column.kind
        if not self._has_dictionaries:
            arrow = pyarrow.int32() if self._places is not None else kind.arrow
            arrow = pyarrow.uint8() if self._verdicts is not None else arrow
            return pyarrow.Array.from_buffers(arrow, count, buffers, offset=at)
        entries = self._texts.get(chunk)
        entries = pyarrow.array([], pyarrow.string()) if entries is None else entries
        made = pyarrow.dictionary(pyarrow.int32(), entries.type)
        if not len(entries):  # no row has a value, or it had been found damaged
            return pyarrow.nulls(count, made)
        return pyarrow.DictionaryArray.from_buffers(made, count, buffers, entries, offset=at)


def _params(column: Column) -> Any:
    """What native code needs to know of a column."""
    return struct("DecodeParams")(
        file=column.file.address,
        physical=PHYSICAL.index(column.descriptor.physical_type),
        length=max(column.descriptor.length or 0, 0),
        width=column.width,
        decimal=int(column.kind.family == "decimal"),
        optional=int(column.descriptor.max_definition_level > 0),
    )


def _texts(column: Column, page: np.void) -> Any:
    """A dictionary's entries, an array of pyarrow's."""
    import pyarrow

    data, entries = column.page_bytes(page), int(page["values"])
    offsets, texts = np.zeros(entries + 1, np.int32), pyarrow.allocate_buffer(data.size)
    outcome = _core.parquet_texts(data.address, data.size, entries, offsets.ctypes.data, texts.address)
    if outcome != _DECODED["done"]:
        raise column.damaged("a dictionary that is cut short", page["chunk"])
    return pyarrow.Array.from_buffers(pyarrow.string(), entries, [None, pyarrow.py_buffer(offsets), texts])
