"""Rows of a benchmark."""

from __future__ import annotations

import sys
from typing import Any


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row, printed to the error stream as soon as it is there: a run that is ended early leaves what it had measured."""
    said = (f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items())
    print("  " + ", ".join(said), file=sys.stderr, flush=True)
    return row


class Rows(list[dict[str, Any]]):
    """Each is printed as it comes."""

    def append(self, row: dict[str, Any]) -> None:
        super().append(told(row))
