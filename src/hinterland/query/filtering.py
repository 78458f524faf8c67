"""Predicates of rows, by native code; and of a dictionary's entries, so that rows are judged by their codes.

A column that is only compared is not decoded then: a byte for each row says which tests hold, and tests look at its bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..runtime.params import struct
from .bounds import Kind
from .program import Test
from .segments import Segment

_BLOCK = _core.QUERY_BLOCK_ROWS
_MOST = 8  # tests: bits of a byte


def native_columns(columns: Iterable[tuple[Kind, Sequence[Segment]]]) -> tuple[Any, Any]:
    """query::Column of each column, and what its addresses point to."""
    columns = list(columns)
    made, keeps = (struct("query::Column") * max(len(columns), 1))(), []
    for number, (kind, found) in enumerate(columns):
        segments = np.array([one[:9] for one in found], np.int64).reshape(-1, 9)
        keeps.append(segments)
        made[number] = struct("query::Column")(
            segments=segments.ctypes.data,
            count=len(segments),
            element=_core.QUERY_ELEMENTS[found[0].element if found else kind.element],
            coded=int(kind.family == "text"),
            scale=kind.scale,
        )
    return made, keeps


def native_test(test: Test, numbers: Mapping[str, int], table: int = 0) -> dict[str, Any]:
    """A test's fields in query::Test; ``numbers`` of columns; ``table``: the address of what it holds for, of tests that have
    one."""
    given: dict[str, Any] = {"kind": _core.QUERY_TESTS[test.kind], "column": numbers[test.column], "table": table}
    given.update(negated=int(test.negated), orders=test.orders)
    if test.other is not None:
        given["other"] = numbers[test.other]
    if test.range is not None:
        given.update(low=test.range.low, high=test.range.high)
    return given


def filter_rows(
    columns: Any, tests: list[dict[str, Any]], steps: Sequence[int], depth: int, words: np.ndarray, begin: int, end: int
) -> bool:
    """Sets the bits of rows for which a program holds; whether the file is damaged.

    Args:
        columns: as ``native_columns`` makes them.
        tests: the fields of each.
        steps: the program's.
        depth: of its stack.
        words: a bit for each row of whole blocks, uint64.
        begin: the first block.
        end: the block after the last one.
    """
    made = (struct("query::Test") * max(len(tests), 1))(*(struct("query::Test")(**fields) for fields in tests))
    program = np.array(steps, np.int64)
    params = struct("query::FilterParams")(
        columns=_core.address_of(columns),
        tests=_core.address_of(made),
        program=program.ctypes.data,
        steps=len(program),
        depth=depth,
        words=words.ctypes.data,
        begin=begin,
        end=end,
    )
    return bool(_core.filter_rows(params.address))


class Verdicts:
    """Of numbers in dictionaries that are only compared: a byte for each entry, which has a bit for each test that holds.

    Args:
        kind: of the column.
        tests: of its values, up to eight.
    """

    def __init__(self, kind: Kind, tests: Sequence[Test]) -> None:
        self._kind, self._tests = kind, list(tests)

    @classmethod
    def of(cls, kind: Kind, tests: Iterable[Test]) -> Verdicts | None:
        """For a column's tests; None where bytes would save nothing, or cannot say all."""
        compared = [test for test in tests if test.kind != "null"]
        if kind.family == "text" or kind.bits <= 8 or not all(test.kind in ("range", "set") for test in compared):
            return None
        return cls(kind, compared) if 0 < len(compared) <= _MOST else None

    def of_entries(self, address: int, count: int) -> np.ndarray | None:
        """The byte of each of ``count`` entries that lie there, uint8; None where some are no values, as wide decimals are."""
        found = np.zeros(count, np.uint8)
        nothing = dict.fromkeys(("value_at", "valid", "valid_at", "codes", "entries", "kept"), 0)
        element, bits = self._kind.element, self._kind.bits
        entries = Segment(begin=0, end=count, values=address, element=element, bits=bits, keeps=None, **nothing)
        columns, held = native_columns([(self._kind, [entries])])
        blocks = -(-count // _BLOCK)
        for number, test in enumerate(self._tests):
            words, table = np.zeros(blocks * _BLOCK // 64, np.uint64), np.array(test.numbers, np.int64)
            holds = native_test(test._replace(negated=False), {test.column: 0}, table.ctypes.data)
            if filter_rows(columns, [holds], [0], 1, words, 0, blocks):
                return None
            found |= np.unpackbits(words.view(np.uint8), count=count, bitorder="little") << np.uint8(number)
        del held
        return found

    def native_tests(self, column: int) -> dict[Test, dict[str, Any]]:
        """The fields in query::Test of those that look at bytes, where they stand for a column's values."""
        return {
            test: {"kind": _core.QUERY_TESTS["bits"], "column": column, "low": 1 << number, "negated": int(test.negated)}
            for number, test in enumerate(self._tests)
        }
