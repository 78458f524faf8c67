"""Files that have one column after the other (Fortran order), read in parts into rows."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np
import torch

from .. import _core
from .load import StoredTensor

_COLUMNS = 1 << 20  # whose numbers are made at a time


def read_part(path: str | os.PathLike[str], stored: StoredTensor, row: int, column: int, out: torch.Tensor) -> None:
    """Fills ``out`` from (``row``, ``column``) of the file's table on, a matrix: what lies behind its rows counts as columns.

    Args:
        out: ``[rows, columns]`` on the CPU, of the table's type; each row lies in one piece.

    Raises:
        StorageError, FormatError: the file cannot be read, or is shorter than it was.
    """
    size, dims = stored.dtype.itemsize, stored.shape[1:]
    for begin in range(0, out.shape[1], _COLUMNS):
        there = np.arange(column + begin, column + min(out.shape[1], begin + _COLUMNS))
        if len(dims) > 1:  # the first of them counts fastest in the file, the last in a row
            there = np.ravel_multi_index(np.unravel_index(there, dims), dims, order="F")
        _core.read_columns(
            os.fspath(path), stored.offset + row * size, stored.shape[0] * size, there.ctypes.data, len(there), len(out), size,
            out.data_ptr() + begin * size, out.stride(0) * size,
        )  # fmt: skip


def read_all(path: str | os.PathLike[str], stored: StoredTensor, out: torch.Tensor) -> None:
    """Fills ``out``, a contiguous CPU tensor, with all rows."""
    read_part(path, stored, 0, 0, out.view(stored.shape[0], math.prod(stored.shape[1:])))


def parts(stored: StoredTensor, most: int) -> Iterator[tuple[int, int, int, int]]:
    """Parts of the matrix of at most ``most`` bytes: first row, first column, rows, columns. They have whole rows, unless
    columns would be read in small pieces then."""
    rows, columns = stored.shape[0], math.prod(stored.shape[1:])
    elements = most // stored.dtype.itemsize
    tall = min(rows, max(math.isqrt(elements), elements // columns))
    wide = min(columns, elements // tall)
    for row in range(0, rows, tall):
        for column in range(0, columns, wide):
            yield row, column, min(tall, rows - row), min(wide, columns - column)
