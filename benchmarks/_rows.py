"""Rows of a benchmark: printed and kept as they come, within a run's seconds."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class _Run:
    """What this process has measured so far, in a file once it has one: a run that is ended early leaves that."""

    def __init__(self) -> None:
        self.begin({}, None, None)

    def begin(self, record: dict[str, Any], path: Path | None, seconds: float | None) -> None:
        """From now on ``path`` has the rows, and ``record`` besides; after ``seconds`` no case is begun."""
        self.record, self.path, self.rows = record, path, list[dict[str, Any]]()
        self.began = self._before = time.monotonic()
        self._end = None if seconds is None else self.began + seconds

    def is_over(self) -> bool:
        """Whether the seconds are."""
        return self._end is not None and time.monotonic() > self._end

    def tell(self, row: dict[str, Any]) -> None:
        """Prints a row, with the seconds since the one before, and keeps it."""
        now = time.monotonic()
        said = (f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items())
        print(f"  {now - self.began:.0f} s (+{now - self._before:.1f}): " + ", ".join(said), file=sys.stderr, flush=True)
        self._before = now
        self.rows.append(row)
        if self.path is not None:
            self.keep({"so far": self.rows})

    def keep(self, results: dict[str, Any]) -> None:
        """Writes the file; a run that is killed meanwhile leaves the one before."""
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temp = self.path.with_suffix(".tmp")
        seconds = round(time.monotonic() - self.began, 1)
        temp.write_text(json.dumps({**self.record, "seconds": seconds, "results": results}, indent=1) + "\n")
        temp.replace(self.path)


RUN = _Run()


def add_seconds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, help="begin nothing more after so many: what matters most comes first")


def in_time(cases: Iterable[T], least: int = 0) -> Iterator[T]:
    """The cases, or rounds, but for those that the run has no seconds left for; ``least`` so many."""
    for number, case in enumerate(cases):
        if number >= least and RUN.is_over():
            print(f"  no time was left for {case} and what follows", file=sys.stderr, flush=True)
            return
        yield case


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row, which is printed and kept as soon as it is there."""
    RUN.tell(row)
    return row


class Rows(list[dict[str, Any]]):
    """Each is told as it comes."""

    def append(self, row: dict[str, Any]) -> None:
        super().append(told(row))

    def extend(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            self.append(row)
