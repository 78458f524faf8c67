import math
import numpy as np
from dataclasses import dataclass
from ..memory import load


@dataclass(frozen=True)
class Extent:
    rows: int
    offset: int


@dataclass(frozen=True)
class Layout:
    path: str
    dtype: object
    shape: tuple
    extents: tuple

    @property
    def row_bytes(self):
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def locate(path, *, dtype=None, shape=None, offset=0, name=None):
    s = load.locate(path, dtype, shape, offset)
    return Layout(str(path), s.dtype, s.shape, (Extent(s.shape[0], s.offset),))


def create(path, shape, dtype):
    a = np.lib.format.open_memmap(path, mode="w+", dtype=str(dtype)[6:], shape=tuple(shape))
    a.flush()
    del a
    return locate(path)
