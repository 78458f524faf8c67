"""Numbers in gzip-compressed CSV files, as OGB's smaller data sets have them: no heading, one vertex a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..graph.formats.files import open_text, require_memory
from ..graph.formats.text import LONGEST_LINE
from ..runtime.errors import FormatError
from ..runtime.files import refused
from ..runtime.thresholds import CSV_LINES, TEXT_BYTES


class CsvRows:
    """Rows of float32, parsed as they are read."""

    dtype, in_place = torch.float32, False

    def __init__(self, path: str, rows: int) -> None:
        self.path = path
        self._text: Any = open_text(path)[0]
        self._ahead = _lines(path, self._text, 0, 1)
        self.shape = (rows, self._ahead[0].count(b",") + 1 if self._ahead else 0)
        self._at = 0

    def read(self, target: torch.Tensor) -> None:
        done = 0
        while done < len(target):
            wanted = min(len(target) - done, CSV_LINES)
            lines = self._ahead or _lines(self.path, self._text, self._at, wanted)
            self._ahead = []
            if not lines:
                raise FormatError(f"{self.path}: truncated: it ends after {self._at} of {self.shape[0]} rows; fetch it again")
            values = _numbers(self.path, lines, self._at, self.shape[1])
            target[done : done + len(lines)].copy_(torch.from_numpy(values))
            done += len(lines)
            self._at += len(lines)
        if self._at == self.shape[0] and _lines(self.path, self._text, self._at, 1):
            raise FormatError(f"{self.path}: more rows than the {self.shape[0]} vertices; the file is of another data set")

    def skip(self, count: int) -> None:
        step = max(TEXT_BYTES // max(4 * self.shape[1], 1), 1)
        for begin in range(0, count, step):
            self.read(torch.empty(min(step, count - begin), self.shape[1]))


def column(path: str) -> torch.Tensor:
    """A file with one number a line, as float64."""
    parts = [np.empty(0)]
    done = 0
    with open_text(path)[0] as text:
        while lines := _lines(path, text, done, CSV_LINES):
            done += len(lines)
            require_memory(path, f"{done} lines", 8 * (done + len(lines)))  # all in one array, at the end; and these
            parts.append(_numbers(path, lines, done - len(lines), 1).reshape(-1))
    return torch.from_numpy(np.concatenate(parts))


def whole_column(path: str) -> torch.Tensor:
    """A file with one whole number a line, as int64."""
    values = column(path)
    wrong = (values != values.trunc()).nonzero()
    if len(wrong):
        bad = int(wrong[0])
        raise FormatError(f"{path}: line {bad + 1} is {float(values[bad])}, which is no vertex number; fetch the file again")
    return values.to(torch.int64)


def _lines(path: str, text: Any, done: int, count: int) -> list[bytes]:
    """At most ``count`` lines, and no more than fill a block; ``done`` lines came before them."""
    lines: list[bytes] = []
    held = 0
    while len(lines) < count and held < TEXT_BYTES:
        try:
            line = text.readline(LONGEST_LINE + 1)
        except OSError as error:
            raise refused(path, "read", error) from error
        if len(line) > LONGEST_LINE:
            raise FormatError(
                f"{path}: line {done + len(lines) + 1}: longer than {LONGEST_LINE} bytes; this is no table of numbers, fetch "
                "the file again"
            )
        if not line:
            break
        lines.append(line)
        held += len(line)
    return lines


def _numbers(path: str, lines: list[bytes], done: int, columns: int) -> np.ndarray:
    """Lines as an array ``[lines, columns]``; ``done`` lines came before them."""
    try:
        values = np.loadtxt(lines, np.float64 if columns == 1 else np.float32, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        reason = " ".join(str(error).split())[:200]
        raise FormatError(
            f"{path}: between lines {done + 1} and {done + len(lines)}: {reason}; fetch the file again"
        ) from error
    if values.shape != (len(lines), columns):
        raise FormatError(
            f"{path}: lines {done + 1} to {done + len(lines)}: numbers of the shape {values.shape}, but {len(lines)} lines of "
            f"{columns} are expected; fetch the file again"
        )
    return values
