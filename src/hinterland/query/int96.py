"""Parquet's times of 96 bits, by their bytes: pyarrow takes negative nanoseconds and far years for other times."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.errors import ConfigError

BYTES = 12  # nanoseconds of the day, int64, which Arrow wrote as negative ones before 1970; and the Julian day, int32
_DAY_OF_1970 = 2440588  # Julian
_DAY = 86_400 * 10**6  # microseconds
_FIRST, _LAST = divmod(-(2**63), _DAY), divmod(2**63 - 1, _DAY)  # days and microseconds that 64 bits hold


def times_of(what: str, column: Any, kind: Any) -> Any:
    """A column of such bytes as times of microseconds; what they have of nanoseconds is cut off.

    Args:
        what: names the column.
        column: chunks of pyarrow's, fixed_size_binary(12).
        kind: timestamp("us"), with the zone.

    Raises:
        ConfigError: 64 bits do not hold one.
    """
    import pyarrow

    return pyarrow.chunked_array([_times(what, array, kind) for array in column.chunks], kind)


def _times(what: str, array: Any, kind: Any) -> Any:
    import pyarrow

    valid = array.is_valid().to_numpy(zero_copy_only=False)
    stored = np.frombuffer(array.buffers()[1] or b"", np.dtype([("rest", "<i8"), ("day", "<i4")]))
    stored = stored[array.offset :][: len(array)]
    days, micros = np.divmod(stored["rest"] // 1000, _DAY)
    days += stored["day"].astype(np.int64) - _DAY_OF_1970
    far = (days < _FIRST[0]) | ((days == _FIRST[0]) & (micros < _FIRST[1]))
    far |= (days > _LAST[0]) | ((days == _LAST[0]) & (micros > _LAST[1]))
    for row in np.flatnonzero(far & valid)[:1]:
        day = int(stored["day"][row])
        year = 1970 + int((day - _DAY_OF_1970) // 365.2425)
        why = "which 64 bits of microseconds do not hold; write another time, or null, in its place"
        raise ConfigError(f"{what} has a time of the Julian day {day} (about the year {year}), {why}")
    return pyarrow.array(days * _DAY + micros, mask=~valid).view(kind)
