"""Numbers in gzip-compressed CSV files, as OGB's smaller data sets have them: no heading, one vertex a line."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from ..graph.formats.files import open_text
from ..runtime.errors import FormatError
from ..runtime.files import refused

_LINES = 1 << 16


class CsvRows:
    """Rows of float32, parsed as they are read."""

    dtype = torch.float32

    def __init__(self, path: str, rows: int) -> None:
        self.path = path
        self._text: Any = open_text(path)[0]
        first = _lines(path, self._text, 1)
        self.shape = (rows, first[0].count(b",") + 1 if first else 0)
        self._ahead = first
        self._at = 0

    def read(self, target: torch.Tensor) -> None:
        for begin in range(0, len(target), _LINES):
            part = target[begin : begin + _LINES]
            lines = self._ahead + _lines(self.path, self._text, len(part) - len(self._ahead))
            self._ahead = []
            if len(lines) < len(part):
                raise FormatError(
                    f"{self.path}: truncated: it ends after {self._at + len(lines)} of {self.shape[0]} rows; fetch it again"
                )
            part.copy_(torch.from_numpy(_numbers(self.path, lines, self._at, self.shape[1])))
            self._at += len(part)
        if self._at == self.shape[0] and _lines(self.path, self._text, 1):
            raise FormatError(f"{self.path}: more rows than the {self.shape[0]} vertices; the file is of another data set")

    def skip(self, count: int) -> None:
        for begin in range(0, count, _LINES):
            self.read(torch.empty(min(_LINES, count - begin), self.shape[1]))


def column(path: str) -> torch.Tensor:
    """A file with one number a line, as float64."""
    parts = [np.empty(0)]
    done = 0
    with open_text(path)[0] as text:
        while lines := _lines(path, text, _LINES):
            parts.append(_numbers(path, lines, done, 1).reshape(-1))
            done += len(lines)
    return torch.from_numpy(np.concatenate(parts))


def whole_column(path: str) -> torch.Tensor:
    """A file with one whole number a line, as int64."""
    values = column(path)
    wrong = (values != values.trunc()).nonzero()
    if len(wrong):
        bad = int(wrong[0])
        raise FormatError(f"{path}: line {bad + 1} is {float(values[bad])}, which is no vertex number; fetch the file again")
    return values.to(torch.int64)


def _lines(path: str, text: Any, count: int) -> list[bytes]:
    try:
        return list(itertools.islice(text, count))
    except OSError as error:
        raise refused(path, "read", error) from error


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
