"""What may be believed of what a program wrote into a Parquet file: what it is known to do right, and to have done wrong."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAMED = re.compile(r"(.+?) version v?(\d+)")
# Programs that count nulls right, from these versions on, by their source. Of dictionaries Arrow counted none before 5, and
# before 12 those of the first batch alone.
_COUNT_NULLS = {"parquet-cpp-arrow": 12, "parquet-mr": 1, "parquet-rs": 1, "DuckDB": 0}


class Writer(NamedTuple):
    """A program, by the name that it gives itself, and the first number of its version; -1: it does not say."""

    name: str
    version: int

    @classmethod
    def of(cls, created_by: str | None) -> Writer:
        """By what a file's footer says."""
        found = _NAMED.match(created_by or "")
        return cls(found[1], int(found[2])) if found else cls("", -1)

    @property
    def counts_nulls(self) -> bool:
        """Whether it is known to count them right."""
        return self.name in _COUNT_NULLS and self.version >= _COUNT_NULLS[self.name]

    @property
    def bounds_texts(self) -> bool:
        """Whether bounds of texts are of all of them: Arrow's were of the first batch alone."""
        return self.name != "parquet-cpp-arrow" or not 5 <= self.version < 12
