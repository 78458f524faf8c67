"""The arrays of our folders: plain ``.npy`` files, with a checksum for each MiB that is kept beside them.

What an array is (``TrailingArray``) is read from the folder's header and not from the ``.npy`` file, whose own header the first
checksum covers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..graph.formats.arrays import write_header
from ..graph.formats.files import read_into, require_memory, size_of
from ..memory.load import StoredTensor, locate
from ..runtime.checksums import BLOCK, Running
from ..runtime.errors import FormatError
from ..runtime.files import replacing
from ..runtime.repr import type_name

_TYPES = {
    type_name(dtype): dtype
    for dtype in (
        *(torch.float16, torch.float32, torch.float64, torch.bool, torch.uint8),
        *(torch.int8, torch.int16, torch.int32, torch.int64),
    )
}


@dataclass(frozen=True)
class TrailingArray(StoredTensor):
    """An array in a file, of which its elements are the end."""

    @property
    def bytes(self) -> int:
        """Of the whole file."""
        return self.offset + self.nbytes

    @property
    def blocks(self) -> int:
        """Checksums that the file has."""
        return -(-self.bytes // BLOCK)

    def to_json(self) -> dict[str, Any]:
        return {"dtype": type_name(self.dtype), "shape": list(self.shape), "offset": self.offset}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> TrailingArray:
        """Raises KeyError or TypeError where a field is missing or of the wrong kind."""
        counts = [*found["shape"], found["offset"]]
        if not all(type(count) is int and 0 <= count < 1 << 48 for count in counts):
            raise TypeError
        return cls(_TYPES[found["dtype"]], tuple(found["shape"]), found["offset"])


def located(path: str) -> TrailingArray:
    """An array as its ``.npy`` file says."""
    return TrailingArray(**vars(locate(path, None, None, 0)))


class SummedRows:
    """The array in a file, read front to back (:class:`.source.Rows`).

    What is read is checked against ``sums``, int64 [blocks]; a folder of version 1 has none.

    Raises:
        StorageError: the file is missing.
        FormatError: the file has another size; from ``read``: a checksum does not match.
    """

    def __init__(self, path: str, layout: TrailingArray, sums: torch.Tensor | None) -> None:
        size = size_of(path)
        if size != layout.bytes:
            raise FormatError(
                f"{path}: {size} bytes, but the folder's header promises {layout.bytes}; the file is "
                f"{'truncated' if size < layout.bytes else 'damaged'}: convert or generate the data set again"
            )
        self.path, self.dtype, self.in_place = path, layout.dtype, True
        self.shape: Any = layout.shape
        self._at, self._sums = layout.offset, sums

    def read(self, target: torch.Tensor) -> None:
        read_into(self.path, self._at, target, self._sums)
        self._at += target.nbytes

    def skip(self, count: int) -> None:
        self._at += count * math.prod(self.shape[1:]) * self.dtype.itemsize

    def whole(self) -> torch.Tensor:
        """All of it; for short ones."""
        require_memory(self.path, "the array", math.prod(self.shape) * self.dtype.itemsize)
        values = torch.empty(self.shape, dtype=self.dtype)
        self.read(values)
        return values


def write(
    path: Path, dtype: torch.dtype, shape: tuple[int, ...], parts: Iterable[torch.Tensor]
) -> tuple[TrailingArray, torch.Tensor]:
    """Writes a ``.npy`` file of contiguous parts that follow one another; returns its checksums."""
    sums = Running()
    with replacing(path) as output:
        write_header(output, dtype, shape)
        layout = TrailingArray(dtype, shape, output.file.tell())
        output.file.seek(0)
        sums.add(torch.frombuffer(bytearray(output.file.read(layout.offset)), dtype=torch.uint8))
        at = layout.offset
        for part in parts:
            output.write_tensor(part, at)
            sums.add(part)
            at += part.nbytes
        output.resize(at)
    return layout, sums.end()
