"""What a Parquet file says at its end of its chunks, and statistics of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..runtime.errors import FormatError
from ..runtime.params import struct
from .bounds import ColumnKind
from .statistics import Statistics, statistics_of
from .writer import Writer

_CHUNK = np.dtype(struct("ParquetChunk"))


class Footer(NamedTuple):
    """What a file says of its chunks, row group by row group; pyarrow tells less, and ends the process over damage.

    Attributes:
        chunks: [row groups, columns], as ParquetChunk.
        at: the footer's first byte.
        ordered: whether bounds are ordered as their types are.
        writer: the program that wrote it.
    """

    chunks: np.ndarray
    at: int
    ordered: bool
    writer: Writer


def footer_of(path: str, file: Any, metadata: Any) -> Footer:
    """The footer of a file of which pyarrow has these metadata.

    Raises:
        FormatError: it is damaged.
    """
    columns = metadata.num_columns
    begin, end = footer_range(file)[0].tolist()
    found: Any = _core.parquet_footer(file.address + begin, end - begin) if begin >= 0 else None
    chunks = np.frombuffer(found[0], _CHUNK) if found is not None else None
    if chunks is None or len(chunks) % max(columns, 1):
        raise FormatError(f"{path}: its footer is damaged; fetch or write it again")
    return Footer(chunks.reshape(-1, max(columns, 1)), begin, found[1], Writer.of(metadata.created_by))


def footer_range(file: Any) -> np.ndarray:
    """Its bytes in a file, [1, 2], by what its end says."""
    end = file.size - 8
    length = int.from_bytes(file.slice(end, 4).to_pybytes(), "little") if end >= 0 else 0
    return np.array([[end - length, end]])


def null_counts(footer: Footer, descriptor: Any, chunks: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How many nulls chunks of a column have, of so many ``rows`` each: as their writer counted them, if it is known to do that
    right, and none where the column is required; -1: not known, as of what has bounds, but no value."""
    if descriptor.max_definition_level == 0:
        return np.zeros(len(rows), np.int64)
    if not footer.writer.counts_nulls:
        return np.full(len(rows), -1)
    nulls = chunks["nulls"]
    return np.where((nulls >= 0) & (nulls <= rows - (chunks["least_at"] >= 0)), nulls, -1)


def chunk_statistics(
    kind: ColumnKind, descriptor: Any, file: Any, footer: Footer, number: int, rows: np.ndarray
) -> Statistics | None:  # fmt: skip
    """Of a column's chunk in each row group, of so many ``rows``; None where nothing is known of any."""
    if not footer.ordered:
        return None
    chunks, end = footer.chunks[:, number], file.size - 8
    believed = kind.family != "text" or footer.writer.bounds_texts
    sides = []
    for side in ("least", "greatest"):
        at, size = chunks[f"{side}_at"], chunks[f"{side}_bytes"]
        there = (at >= 0) & (size >= 0) & (size <= end - footer.at - at) & believed
        places = np.empty((len(at), 2), np.int64)
        places[:, 0], places[:, 1] = np.where(there, footer.at + at, -1), size
        sides.append(places)
    return statistics_of(kind, descriptor, file, sides[0], sides[1], null_counts(footer, descriptor, chunks, rows), rows)
