"""Rows of a benchmark."""

from __future__ import annotations

import sys
from typing import Any


class Rows(list[dict[str, Any]]):
    """Each is printed as it comes, to the error stream: a run that is ended early leaves what it had measured."""

    def append(self, row: dict[str, Any]) -> None:
        super().append(row)
        said = (f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items())
        print("  " + ", ".join(said), file=sys.stderr, flush=True)
