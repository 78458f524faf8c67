"""What Parquet files say of row groups of a column: the least and greatest value, and how many nulls."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from .bounds import ColumnKind

_FORMATS = {"BOOLEAN": "u1", "INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8", "FIXED_LEN_BYTE_ARRAY": "<f2"}
_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


class Statistics(NamedTuple):
    """An entry for each row group.

    Attributes:
        known: bool; whether the bounds are.
        least, greatest: int64, uint64, float64, or of texts UTF-8 as objects. NaN is left out of them, which zero it is is not
            told, and values need not be there: no value is beyond.
        nulls: int64; -1 where it is not known.
        rows: int64.
    """

    known: np.ndarray
    least: np.ndarray
    greatest: np.ndarray
    nulls: np.ndarray
    rows: np.ndarray


def statistics_of(
    kind: ColumnKind, descriptor: Any, file: Any, least: np.ndarray, greatest: np.ndarray, nulls: np.ndarray, rows: np.ndarray
) -> Statistics:  # fmt: skip
    """From where bounds are stored in a file, a buffer of pyarrow's: [n, 2], their first bytes and sizes; -1: there is none."""
    physical = descriptor.physical_type if _is_plain(kind, descriptor) else None
    (lows, first), (highs, second) = (_values(kind, physical, file, places) for places in (least, greatest))
    known = first & second & (lows <= highs).astype(bool)
    nothing = b"" if kind.family == "text" else 0
    made = [np.where(known, values, nothing).astype(values.dtype) for values in (lows, highs)]
    return Statistics(known, made[0], made[1], nulls.astype(np.int64), rows.astype(np.int64))


def _is_plain(kind: ColumnKind, descriptor: Any) -> bool:
    """Whether values are stored as what they are, or narrower."""
    physical, family = descriptor.physical_type, kind.family
    if family == "decimal":
        return physical in ("INT32", "INT64") or (physical == "FIXED_LEN_BYTE_ARRAY" and 0 < descriptor.length <= 16)
    if family == "float" and kind.bits == 16:
        return physical == "FIXED_LEN_BYTE_ARRAY" and descriptor.length == 2
    if family == "time" and kind.bits == 64:
        logical = json.loads(descriptor.logical_type.to_json())
        return physical == "INT64" and logical.get("timeUnit") == _UNITS.get(getattr(kind.arrow, "unit", ""))
    wanted = {
        "text": "BYTE_ARRAY",
        "bool": "BOOLEAN",
        "float": "DOUBLE" if kind.bits == 64 else "FLOAT",
        "integer": "INT64" if kind.bits == 64 else "INT32",
        "time": "INT32",
    }[family]
    return physical == wanted


def _values(kind: ColumnKind, physical: str | None, file: Any, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds as the column's values are taken, and which of them there are."""
    at, sizes = places[:, 0], places[:, 1]
    if kind.family == "text" or (kind.family == "decimal" and physical == "FIXED_LEN_BYTE_ARRAY"):
        raw = [file.slice(first, size).to_pybytes() if first >= 0 else None for first, size in places.tolist()]
        if kind.family == "text":
            there = np.array([one is not None and physical is not None for one in raw], bool)
            return np.array([one or b"" for one in raw], object), there
        wholes = [int.from_bytes(one, "big", signed=True) if one is not None else 2**63 for one in raw]
        there = np.array([-(2**63) <= whole < 2**63 for whole in wholes], bool)
        return np.where(there, np.array(wholes, object), 0).astype(np.int64), there
    form = np.dtype(_FORMATS.get(physical or "", "u1"))
    there = (at >= 0) & (sizes == form.itemsize) & (physical is not None)
    stored = np.zeros((len(at), form.itemsize), np.uint8)
    stored[there] = np.frombuffer(file, np.uint8)[at[there, None] + np.arange(form.itemsize)]
    values = stored.view(form)[:, 0]
    if kind.family == "float":
        with np.errstate(invalid="ignore"):  # of NaNs that signal
            return values.astype(np.float64), there & ~np.isnan(values)
    wide = (values != 0 if kind.family == "bool" else values).astype(np.int64)
    return wide.view(np.uint64) & np.uint64(2**kind.bits - 1) if kind.element.startswith("uint") else wide, there
