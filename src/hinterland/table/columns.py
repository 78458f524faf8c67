"""A file in Fortran order, in the part of a table that is to be read into host memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from ..memory import load, transposed
from ..memory.load import StoredTensor
from ..runtime.errors import FormatError
from ..runtime.repr import Repr


@dataclass(frozen=True, repr=False)
class ColumnFile(Repr):
    """A ``.npy`` whose columns lie one after the other: its rows are transposed as all of them are read.

    Attributes:
        path: the file.
        stored: what it holds.
    """

    line_bytes: ClassVar[int] = 0  # of a cache: none reads it

    path: str
    stored: StoredTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions; the first counts the rows."""
        return self.stored.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of its elements."""
        return self.stored.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.stored.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def read_into(self, out: torch.Tensor) -> None:
        """Fills ``out``, a contiguous CPU tensor of its shape and type.

        Raises:
            StorageError, FormatError: the file cannot be read, or is another than it was.
        """
        if load.locate(self.path, None, None, 0) != self.stored:
            raise FormatError(f"{self.path} holds another table than when it was opened; open it again")
        transposed.read_all(self.path, self.stored, out)
