"""A file in Fortran order, written again row by row."""

from __future__ import annotations

import math
import os

import torch

from ..memory import load, transposed
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.files import replacing
from ..runtime.thresholds import TRANSPOSED_BYTES
from .layout import Layout, head_of, planned, size_of


def transpose(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> Layout:
    """Writes the table of a ``.npy`` in Fortran order row by row, so that it is read where it lies. In parts: all of it need
    not fit into memory.

    Args:
        output: as of :func:`.create`. It appears whole, or what was there before stays; it may be ``source``.

    Raises:
        ConfigError: the file is in C order, or no ``.npy``.
        StorageError, FormatError: the file cannot be read, or the other not be written.
    """
    source, output = arguments.path("the file to read", source), arguments.path("the file to write", output)
    size_of(source)  # refuses a pipe, which would be waited for
    if not head_of(source).startswith(load.NUMPY):
        raise ConfigError(
            f"{source} is no .npy file, and no other is written again row by row; StorageArray.open reads tables of other "
            "formats where they lie"
        )
    stored = load.locate(source, None, None, 0)
    if not stored.by_columns:
        raise ConfigError(f"{source} is in C order already; StorageArray.open and hl.open_table read it where it lies")
    layout, header = planned(output, stored.shape, stored.dtype)
    with replacing(output) as file:
        file.write(header)
        file.resize(len(header) + layout.nbytes)
        for row, column, rows, columns in transposed.parts(stored, TRANSPOSED_BYTES):
            part = torch.empty((rows, columns), dtype=stored.dtype)
            transposed.read_part(source, stored, row, column, part)
            at = len(header) + row * layout.row_bytes + column * stored.dtype.itemsize
            if columns == math.prod(stored.shape[1:]):
                file.write_tensor(part, at)
                continue
            for number, values in enumerate(part):
                file.write_tensor(values, at + number * layout.row_bytes)
    return layout
