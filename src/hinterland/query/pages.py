"""Where the pages of Parquet's columns lie, and what is known of them before they are decoded (decoding.py)."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError
from ..runtime.params import struct
from .bounds import Kind
from .footer import Footer, null_counts, statistics_at
from .rows import Wanted
from .statistics import Statistics, width_of

_PAGE = np.dtype(struct("ParquetPage"))
_KINDS = _core.PARQUET_PAGES
_CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}  # as parquet.thrift numbers them
_CODEC_NAMES = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")  # in its order
_ENCODING_NAMES = ("PLAIN", "1", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY",
                   "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT")  # fmt: skip
PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")  # in its order
PLAIN = 0
_DAY_OF_1970 = 2440588  # Julian
_ENCODINGS = sum(1 << number for number in (0, 2, 3, 4, 8))  # as parquet.thrift numbers them; the fourth of levels alone


class Column:
    """A column's values in row groups that follow one another: a chunk of each.

    Args:
        path: of the file.
        file: the file's bytes, a buffer of pyarrow's.
        footer: the file's.
        groups: the row groups, by their numbers.
        cuts: [groups + 1] the row of the file that each begins with, and where the last one ends.
        kind: what it holds.
        descriptor: the column's, as pyarrow has it.
        number: of the column in the footer.

    Attributes:
        width: bytes of a value in memory, of columns that are decoded here.
        cuts: [groups + 1] as given.
        begin: the first of them.
        codecs: [groups] as parquet.thrift numbers them.
        starts: [pages + 1] the row of the file that each page begins with.
        decoded_here: whether pages are read, and not chunks by pyarrow.
        plain_texts: whether there are texts in no dictionary, as a writer leaves them that met many different ones. These three
            are known once it is :meth:`opened`.

    Raises:
        ConfigError: a chunk is encrypted, or lies in another file.
        FormatError: a chunk cannot be what the file says it is.
    """

    def __init__(
        self,
        path: str,
        file: Any,
        footer: Footer,
        groups: np.ndarray,
        cuts: np.ndarray,
        kind: Kind,
        descriptor: Any,
        number: int,
    ) -> None:
        self.kind, self._path, self.file, self.descriptor, self._footer = kind, path, file, descriptor, footer
        self._groups, self.cuts, self._entries = groups, cuts, footer.chunks[groups, number]
        entries, physical = self._entries, descriptor.physical_type
        self._require_here()
        # Over which pyarrow would end the process.
        self._require(entries["physical"] == PHYSICAL.index(physical), f"values that are no {physical}")
        has_dictionary = entries["dictionary_at"] > 0
        self._at = np.where(has_dictionary, np.minimum(entries["data_at"], entries["dictionary_at"]), entries["data_at"])
        self._bytes, self.codecs, self.begin = entries["bytes"], entries["codec"], int(cuts[0])
        self._require(
            (self._at >= 0) & (self._bytes >= 0) & (self._bytes <= file.size - self._at) & (entries["values"] == np.diff(cuts)),
            "other rows than its row group, or bytes beyond the file's end",
        )
        self.width = width_of(kind, descriptor)
        self._known = np.isin(self.codecs, list(_CODECS)) & (entries["encodings"] & ~_ENCODINGS == 0)
        self.decoded_here = self.width is not None and bool(self._known.all())
        self.plain_texts = False
        self._walked: np.ndarray | None = None
        self._records: np.ndarray | None = None  # of pages, as ParquetPage, once they were looked for
        self._indexes = 0  # bytes of those that were read
        self._masked: tuple[Wanted, np.ndarray] | None = None

    @property
    def rows(self) -> int:
        """Of all its chunks."""
        return int(self.cuts[-1] - self.cuts[0])

    @property
    def bytes(self) -> int:
        """Of all its chunks."""
        return int(self._bytes.sum())

    @property
    def is_open(self) -> bool:
        """Whether it is known where its pages lie, if they are to be read."""
        return self._records is not None or not self.decoded_here

    def opened(self) -> Column:
        """Itself, once it has looked where its pages lie: in an index, or from header to header, each of which is read.

        Raises:
            FormatError: they lie outside, or are other rows'.
        """
        if not self.is_open:
            self._find_pages()
        return self

    def ranges(self, wanted: Wanted | None = None) -> np.ndarray:
        """Addresses of the pages with wanted rows, and of their chunks' dictionaries, [n, 2]; or of all of it."""
        if wanted is None or self._records is None or not self.decoded_here:
            begins, sizes = self._at, self._bytes
        else:
            mask = self._mask(wanted)
            chunks = np.unique(self._records["chunk"][mask])
            begins = np.concatenate([self._at[chunks], self._places[mask]])
            sizes = np.concatenate([self._dictionary_sizes[chunks], self._sizes[mask]])
        return self.file.address + np.stack([begins, begins + sizes], axis=1)

    @property
    def indexed(self) -> bool:
        """Whether there are indexes of pages that are used."""
        there = (self._entries["offsets_at"] > 0) & (self._entries["offsets_bytes"] > 0)
        return bool(there.all()) and self.kind.family != "text"

    def _find_pages(self) -> None:
        """Where pages lie: by offset indexes, but of texts, whose pages may be of any encoding; or by their headers."""
        pages = self._of_index("offsets", _core.parquet_offsets) if self.indexed else None
        ends = self._at + self._bytes
        if pages is not None and (np.bincount(pages["chunk"], minlength=len(self._at)) > 0).all():
            self._places, self._sizes, self._records = pages["at"], pages["bytes"], pages
            first = self._places[np.searchsorted(pages["chunk"], np.arange(len(self._at)))]
            self._dictionary_sizes = np.maximum(first - self._at, 0)
        else:
            every, damaged = np.arange(len(self._at)), "headers of pages that end nowhere"
            pages = self._read(_core.parquet_pages, every, self._at, self._bytes, damaged)
            first = pages["kind"] == _KINDS["dictionary"]
            first[1:] &= pages["chunk"][1:] != pages["chunk"][:-1]
            self._dictionary_sizes = np.zeros(len(self._at), np.int64)
            self._dictionary_sizes[pages["chunk"][first]] = (pages["head"] + pages["bytes"])[first]
            self._walked = self._records = pages = pages[~first]
            self._places, self._sizes = pages["at"], pages["head"] + pages["bytes"]
            self.plain_texts = self.kind.family == "text" and bool((pages["encoding"] == PLAIN).any())
            self.decoded_here = _hold_data(pages)
        chunk = pages["chunk"]
        self.starts = np.append(self.cuts[chunk] + pages["row"], self.cuts[-1])
        self._counts = np.diff(self.starts)
        if not self.decoded_here:
            self._records = None  # of which nothing was looked into, and nothing is needed
            return
        if self._walked is not None:
            self._require(np.bincount(chunk, pages["values"], len(self._at)) == np.diff(self.cuts), "pages of other rows")
        is_first = np.append(True, chunk[1:] != chunk[:-1])[: len(chunk)]
        good = (self._counts >= 0) & ((pages["row"] == 0) | ~is_first) & (self._sizes >= 0)
        good &= (pages["row"] >= 0) & (pages["row"] <= np.diff(self.cuts)[chunk])  # or sums of them would overflow
        good &= (self._places >= self._at[chunk]) & (self._places <= ends[chunk]) & (self._sizes <= ends[chunk] - self._places)
        outside = np.bincount(chunk[is_first], minlength=len(self._at)) != 1  # there are none
        outside[chunk[~good]] = True
        self._require(~outside, "pages that lie outside")

    def _read(
        self, read: Callable[[int, int, int], Any], chunks: np.ndarray, places: np.ndarray, sizes: np.ndarray, found: str
    ) -> np.ndarray:
        """Metadata of ``chunks`` that lie there, one place after another; ``found``: what one has where they are damaged."""
        if sizes.sum() > self.file.size:  # or a small file would take much memory
            raise self.damaged("chunks or pages that lie over each other")
        ranges = np.ascontiguousarray(np.stack([places, sizes], axis=1), np.int64)
        pages = read(self.file.address, ranges.ctypes.data, len(ranges))
        if isinstance(pages, int):
            raise self.damaged(found, chunks[pages])
        return np.frombuffer(bytearray(pages), _PAGE)

    def _of_index(self, name: str, read: Callable[[int, int, int], Any]) -> np.ndarray | None:
        """Pages as indexes have them; None where a chunk has no index."""
        places, sizes = self._entries[f"{name}_at"], self._entries[f"{name}_bytes"]
        if not ((places > 0) & (sizes > 0)).all():
            return None
        damaged = "an index of pages that cannot be read"
        self._require((places <= self.file.size) & (sizes <= self.file.size - places), damaged)
        found = self._read(read, np.arange(len(places)), places, sizes, damaged)
        self._indexes += int(sizes.sum())
        return found

    @cached_property
    def page_statistics(self) -> Statistics | None:
        """Of each page; None where nothing is known of any."""
        if not self.decoded_here or self._records is None:
            return None
        pages = index = self._of_index("bounds", _core.parquet_bounds)
        if index is None:
            pages = self._walked
        if pages is None or not np.array_equal(pages["chunk"], self._records["chunk"]) or not self._footer.ordered:
            return None
        empty = self._null_pages(pages) if index is not None else None
        within = 0, self.file.size
        return statistics_at(self.kind, self.descriptor, self.file, self._footer, pages, within, self._counts, empty)

    def _null_pages(self, index: np.ndarray) -> np.ndarray:
        """Whether each page has no value, as an index says. Where what it says of a chunk cannot be true nothing of it is left:
        that a page has none, but bounds or other nulls than rows, or the reverse; any null in a required column; and other
        nulls together than the footer counts, where that is believed."""
        empty, nulls, rows, chunk = index["values"] == 0, index["nulls"], self._counts, index["chunk"]
        false = (empty != (nulls == rows)) & (rows > 0)
        false |= empty & ((index["least_bytes"] > 0) | (index["greatest_bytes"] > 0))
        if self.descriptor.max_definition_level == 0:
            false |= empty | (nulls > 0)
        counted = null_counts(self._footer, self.descriptor, self._entries, np.diff(self.cuts))
        together = np.bincount(chunk, nulls, len(counted))
        unknown = (counted < 0) | (np.bincount(chunk, nulls < 0, len(counted)) > 0)
        false = (~unknown & (together != counted) | (np.bincount(chunk, false, len(counted)) > 0))[chunk]
        for name in ("nulls", "least_at", "greatest_at"):
            index[name][false] = -1
        return empty & ~false

    def least_bytes(self, wanted: Wanted) -> int:
        """Bytes of the pages that hold wanted rows, their headers and their chunks' dictionaries."""
        if self._records is None:
            return self.bytes
        mask = self._mask(wanted)
        chunks = np.bincount(self._records["chunk"][mask], minlength=len(self._at)) > 0
        return int(self._sizes[mask].sum() + self._dictionary_sizes[chunks].sum())

    def read_bytes(self, wanted: Wanted) -> int:
        """``least_bytes``, and the headers or indexes by which pages were found."""
        headers = int(self._walked["head"][~self._mask(wanted)].sum()) if self._walked is not None else 0
        return self.least_bytes(wanted) + headers + self._indexes

    def _mask(self, wanted: Wanted) -> np.ndarray:
        """Whether each page holds a wanted row. What was last found is kept."""
        if self._masked is None or self._masked[0] is not wanted:
            self._masked = wanted, wanted(self.starts[:-1], self.starts[1:]) & (self._counts > 0)
        return self._masked[1]

    def pages_with(self, wanted: Wanted) -> tuple[np.ndarray, np.ndarray] | None:
        """The pages that hold wanted rows: their numbers, and what is known of them, with the first row of the column that
        each holds. None where they must be left to pyarrow."""
        assert self._records is not None
        numbers = np.flatnonzero(self._mask(wanted))
        pages, chunk = self._records[numbers], self._records["chunk"][numbers]
        if self._walked is None:
            damaged = "a header of a page that ends nowhere"
            pages = self._read(_core.parquet_page, chunk, self._places[numbers], self._sizes[numbers], damaged)
            pages["chunk"] = chunk
        if not _hold_data(pages):
            return None
        sized = pages["full"] <= 32 * pages["values"] + 1024
        if self.kind.family == "text":
            sized |= pages["encoding"] == PLAIN
        if (pages["values"] != self._counts[numbers]).any() or not sized.all():
            raise self.damaged("pages of other sizes than their rows take")
        levels, most = pages["levels"], np.minimum(pages["bytes"], pages["full"])
        if ((pages["kind"] == _KINDS["data v2"]) & ((levels < 0) | (levels > most))).any():
            raise self.damaged("levels that are longer than their page")
        if self._footer.writer.compresses_all:
            pages["compressed"] = 1
        pages["row"] = self.starts[numbers] - self.begin
        return numbers, pages

    def dictionaries(self, chunks: np.ndarray) -> np.ndarray:
        """Headers of the dictionaries that some chunks have, with their chunks' numbers."""
        chunks = chunks[self._dictionary_sizes[chunks] > 0]
        damaged = "a dictionary that ends nowhere"
        pages = self._read(_core.parquet_page, chunks, self._at[chunks], self._dictionary_sizes[chunks], damaged)
        pages["chunk"] = chunks
        if (pages["kind"] != _KINDS["dictionary"]).any():
            raise self.damaged(damaged)
        # Of bits there are no dictionaries. A page's size is an int32, so sums of them do not overflow.
        if ((pages["values"] > pages["full"]) | (pages["full"] >= 1 << 31)).any():
            raise self.damaged("a dictionary of more entries than bytes")
        pages["encoding"] = PLAIN
        return pages

    def page_bytes(self, page: np.void) -> Any:
        """What follows a page's header, and the levels of version 2, as a buffer that pyarrow decompressed."""
        import pyarrow

        levels = int(page["levels"]) if page["kind"] == _KINDS["data v2"] else 0
        at, size, full = (int(page[name]) for name in ("at", "bytes", "full"))
        stored = self.file.slice(at + int(page["head"]) + levels, size - levels)
        number = int(self.codecs[page["chunk"]])
        codec = _CODECS[number]
        if not page["compressed"] or codec is None or (full == levels and size == levels):
            return stored
        if _core.decompressed_bytes(number, stored.address, stored.size) in (full - levels, -1):
            return pyarrow.Codec(codec).decompress(stored, full - levels)
        found = _of_members(stored, full - levels) if codec == "gzip" else b""
        if len(found) != full - levels:
            raise self.damaged("a page that holds more or less than its header says", page["chunk"])
        return pyarrow.py_buffer(found)

    def _require_here(self) -> None:
        """That chunks lie in this file, and can be read without a key."""
        for chunk in self._entries["encrypted"].nonzero()[0].tolist():
            raise ConfigError(f"{self._what(chunk)} is encrypted, and queries take no keys; write it without encryption")
        for chunk in self._entries["path_bytes"].nonzero()[0].tolist():
            entry = self._entries[chunk]
            path = self.file.slice(self._footer.at + int(entry["path_at"]), int(entry["path_bytes"])).to_pybytes()
            other = os.path.join(os.path.dirname(self._path), os.fsdecode(path))
            if not (os.path.exists(other) and os.path.samefile(other, self._path)):
                shown = arguments.shown(os.fsdecode(path))
                raise ConfigError(f"{self._what(chunk)} lies in another file, {shown}; query the files that hold the data")

    def _require(self, good: np.ndarray, found: str) -> None:
        """Of each chunk; ``found``: what those have of which it is not so."""
        for chunk in np.flatnonzero(~good).tolist():
            raise self.damaged(found, chunk)

    def unread(self, chunk: int, why: Exception) -> Exception:
        """What to raise where pyarrow does not read a chunk: that it may not know how to, where it is not decoded here."""
        if self._known[chunk]:
            return why
        reason = " ".join(str(why).split())[:200]
        remedy = "write it with other encodings, or again if it is damaged"
        return ConfigError(f"{self._stored(chunk)}; pyarrow does not read it: {reason}; {remedy}")

    def require_own(self) -> None:
        """That it holds no times of 96 bits. Pyarrow takes some, as of negative nanoseconds or far years, for others.

        Raises:
            ConfigError: it does.
        """
        if self.descriptor.physical_type == "INT96":
            remedy = "write it as TIMESTAMP, or with another codec"
            raise ConfigError(f"{self._stored(0)}, of which pyarrow takes some times for others; {remedy}")

    def too_far(self, day: int) -> ConfigError:
        """Of a time of 96 bits, by its Julian day."""
        year = 1970 + int((day - _DAY_OF_1970) // 365.2425)
        why = "which 64 bits of microseconds do not hold; write another time, or null, in its place"
        return ConfigError(f"{self._what()} has a time of the Julian day {day} (about the year {year}), {why}")

    def _stored(self, chunk: int) -> str:
        """The column, and how a chunk holds it."""
        codec, bits = int(self.codecs[chunk]), int(self._entries["encodings"][chunk])
        encodings = (name for number, name in enumerate((*_ENCODING_NAMES, *map(str, range(10, 63)))) if bits >> number & 1)
        compressed = _CODEC_NAMES[codec] if 0 <= codec < len(_CODEC_NAMES) else f"codec {codec}"
        return f"{self._what(chunk)} is {self.descriptor.physical_type} in {' and '.join(encodings)} ({compressed})"

    def damaged(self, found: str, chunk: int | None = None) -> FormatError:
        return FormatError(f"{self._what(chunk)} has {found}; the file is damaged, fetch or write it again")

    def _what(self, chunk: int | None = None) -> str:
        """The column, and a row group of it, or all."""
        groups = self._groups if chunk is None else self._groups[[chunk]]
        where = f"row group {groups[0]}" if len(groups) == 1 else f"row groups {groups[0]} to {groups[-1]}"
        return f"{self._path}: the column {self.descriptor.name!r} in {where}"


def _of_members(stored: Any, most: int) -> bytes:
    """What a page of several members of gzip holds, of which the trailer tells the last one's size alone, or one of zlib. Of
    more than ``most`` bytes there is one too many; of damaged ones none."""
    try:
        if stored.slice(0, 2).to_pybytes() == b"\x1f\x8b":
            return gzip.GzipFile(fileobj=io.BytesIO(stored)).read(most + 1)
        return zlib.decompressobj().decompress(stored, most + 1)
    except (OSError, EOFError, zlib.error):
        return b""


def _hold_data(pages: np.ndarray) -> bool:
    return bool(((pages["kind"] == _KINDS["data"]) | (pages["kind"] == _KINDS["data v2"])).all())
