"""NumPy arrays inside ``.npy`` and ``.npz`` files, read front to back without pickle and without trusting their headers."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import torch

from ...runtime.errors import FormatError, HinterlandError
from ...runtime.files import refusal
from ...runtime.thresholds import COPIED_BYTES, LONG_CHUNK, NPY_HEADER, SMALL_ARRAY
from .content import LARGEST_VERTEX, store_ids
from .files import read_into, size_of

MAGIC = b"\x93NUMPY"
_LARGEST_RATIO = 1032  # deflate cannot compress better (zlib's manual: "a factor of 1032:1")
_TORCH_TYPES = {
    "b1": torch.bool, "i1": torch.int8, "i2": torch.int16, "i4": torch.int32, "i8": torch.int64,
    "u1": torch.uint8, "u2": torch.int32, "u4": torch.int64, "u8": torch.int64,
    "f2": torch.float16, "f4": torch.float32, "f8": torch.float64,
}  # fmt: skip


@contextmanager
def damaged(path: str, what: str) -> Iterator[None]:
    """Whatever NumPy's and zipfile's parsers raise on bad bytes (many kinds) as a FormatError."""
    try:
        yield
    except (HinterlandError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]  # NumPy's may quote a whole header
        raise refusal(path, error) or FormatError(
            f"{path}: {what} cannot be read ({type(error).__name__}: {reason}); the file is damaged"
        ) from error


class ArrayFile:
    """One array of a file: its shape and type, and its elements in their order on disk.

    ``offset`` is where the array lies in ``path`` if it is stored as it is; otherwise ``head`` yields all of it. ``crc`` is
    its CRC-32 where the file says so, compared when the last element is read; zipfile compares that of a compressed one.
    """

    def __init__(self, path: str, name: str, head: IO[bytes], held: int, offset: int | None, crc: int | None = None) -> None:
        self.path, self.name = path, name
        with damaged(path, f"the header of {name}"):
            version = np.lib.format.read_magic(head)
            reader: Any = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if reader is None:
                raise FormatError(f"{path}: {name} has version {version} of NumPy's format; known are 1.0 and 2.0")
            self.shape, self.fortran, self.dtype = reader(head, max_header_size=NPY_HEADER)
        if any(extent < 0 for extent in self.shape):
            raise FormatError(f"{path}: {name} has the shape {self.shape}; the file is damaged")
        self.count = math.prod(self.shape)
        header = head.tell()
        if self.dtype.hasobject:
            raise FormatError(f"{path}: {name} holds Python objects, which are not read; store it as a plain array")
        if header + self.count * self.dtype.itemsize > held:
            raise FormatError(
                f"{path}: {name} promises {self.count} elements of {self.dtype.itemsize} bytes (shape {self.shape}), "
                f"but the file holds {held - header} bytes of them; it is truncated"
            )
        if crc is not None and header + self.count * self.dtype.itemsize < held:
            raise FormatError(
                f"{path}: {name} is an array of the shape {self.shape} and {held - header} bytes, more than it needs; "
                "the file is damaged"
            )
        self._stream = head
        self._next, self._taken = offset, 0
        self._promised, self._sum = crc, 0
        if offset is not None:
            self._read(torch.empty(header, dtype=torch.uint8))
            self._pass(0)

    def _read(self, target: torch.Tensor) -> None:
        """Fills ``target`` with the next bytes of a stored array. A block of a member is summed while the next is read."""
        assert self._next is not None
        if self._promised is None:
            read_into(self.path, self._next, target)
        else:
            bytes_, begin = target.view(-1).view(torch.uint8), self._next
            with ThreadPoolExecutor(1) as pool:
                for part in bytes_.split(COPIED_BYTES):
                    read_into(self.path, begin, part)
                    pool.submit(self._add, part)
                    begin += part.numel()
        self._next += target.numel() * target.element_size()

    def _add(self, part: torch.Tensor) -> None:
        self._sum = zlib.crc32(part.numpy().data, self._sum)

    def _pass(self, count: int) -> None:
        """Notes that ``count`` elements more are read; with the last, the sum is known."""
        self._taken += count
        if self._next is not None and self._taken == self.count and self._promised not in (None, self._sum):
            raise FormatError(
                f"{self.path}: damaged: the checksum (CRC-32) of {self.name} does not match; fetch or write the file again"
            )

    def take(self, count: int) -> np.ndarray:
        """The next ``count`` elements, in native byte order."""
        part = np.empty(count, self.dtype)
        bytes_ = torch.from_numpy(part.view(np.uint8)) if count else torch.empty(0, dtype=torch.uint8)
        if self._next is not None:
            self._read(bytes_)
        else:
            view, done = memoryview(bytes_.numpy().data), 0
            with damaged(self.path, self.name):
                while done < len(view):
                    got = self._stream.readinto(view[done:])  # type: ignore[attr-defined]
                    if not got:
                        raise FormatError(f"{self.path}: truncated: {self.name} ends after {self._taken} elements")
                    done += got
        self._pass(count)
        return part if self.dtype.isnative else part.byteswap().view(self.dtype.newbyteorder("="))

    def skip(self, count: int) -> None:
        """Passes over the next ``count`` elements; those of an archive have to be read for that, and are summed."""
        if self._next is not None and self._promised is None:
            self._next += count * self.dtype.itemsize
            self._taken += count
            return
        for begin in range(0, count, LONG_CHUNK):
            self.take(min(LONG_CHUNK, count - begin))

    def small(self) -> np.ndarray:
        """A short array as a whole, in its shape."""
        if self.count * max(self.dtype.itemsize, 1) > SMALL_ARRAY:
            raise FormatError(
                f"{self.path}: {self.name} has {self.count} elements of {self.dtype.itemsize} bytes where a few are expected"
            )
        return self.take(self.count).reshape(self.shape)

    def integers(self, count: int) -> torch.Tensor:
        """The next ``count`` elements as int32 or int64."""
        if self.dtype.kind not in "iu":
            raise FormatError(f"{self.path}: {self.name} has elements of type {self.dtype}; vertex numbers are integers")
        part = self.take(count)
        if part.dtype == np.uint64 and count and int(part.max()) >> 63:
            raise FormatError(f"{self.path}: {self.name} holds {part.max()}, which is no vertex number")
        return torch.from_numpy(part if part.dtype in (np.int32, np.int64) else part.astype(np.int64))

    def read_ids(self, target: torch.Tensor, limit: int = LARGEST_VERTEX) -> int:
        """Fills ``target`` (int32 or int64) with the next elements; returns the largest."""
        largest = -1
        for begin in range(0, target.numel(), LONG_CHUNK):
            part = self.integers(min(LONG_CHUNK, target.numel() - begin))
            position = self._taken - part.numel()
            largest = max(largest, store_ids(self.path, self.name, part, target[begin : begin + len(part)], limit, position))
        return largest

    def torch_dtype(self) -> torch.dtype:
        """The torch type that holds the elements; unsigned ones take the next larger signed type."""
        dtype = _TORCH_TYPES.get(f"{self.dtype.kind}{self.dtype.itemsize}")
        if dtype is None:
            hint = "; complex values cannot be weights" if self.dtype.kind == "c" else ""
            raise FormatError(f"{self.path}: {self.name} has elements of type {self.dtype}, which no weight can have{hint}")
        return dtype

    def read_values(self, target: torch.Tensor) -> None:
        """Fills ``target``, of type ``torch_dtype()``, with the next elements."""
        as_stored = self.dtype.isnative and self.dtype.itemsize == target.element_size() and self.dtype != np.uint64
        if self._next is not None and as_stored:
            self._read(target)
            self._pass(target.numel())
            return
        for begin in range(0, target.numel(), LONG_CHUNK):
            part = self.take(min(LONG_CHUNK, target.numel() - begin))
            if part.dtype == np.uint64 and int(part.max()) >> 63:
                raise FormatError(f"{self.path}: {self.name} holds {part.max()}, which exceeds 64-bit signed integers")
            if part.dtype.kind == "u" and part.dtype.itemsize > 1:
                part = part.astype(np.int64)
            target[begin : begin + len(part)].copy_(torch.from_numpy(part))


def write_header(file: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Begins an array of this type and shape in ``.npy`` form; its elements follow, row by row."""
    descr = np.lib.format.dtype_to_descr(torch.empty(0, dtype=dtype).numpy().dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def open_npy(path: str) -> ArrayFile:
    """The array of a ``.npy`` file."""
    size = size_of(path)
    with open(path, "rb") as file:
        head = io.BytesIO(file.read(min(size, 2 * NPY_HEADER)))
    return ArrayFile(path, "the array", head, size, 0)


class Archive:
    """A ``.npz`` file: named arrays."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._size = size_of(path)
        with damaged(path, "the archive"):
            self._zip = zipfile.ZipFile(path)
        self.names = {name.removesuffix(".npy") for name in self._zip.namelist()}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def open(self, name: str) -> ArrayFile:
        """One member. Its promised size is checked against the bytes that the file has for it."""
        if name not in self.names:
            raise FormatError(f"{self.path}: the archive has no array {name!r}; it has {', '.join(sorted(self.names))[:200]}")
        with damaged(self.path, name):
            info = self._zip.getinfo(name + ".npy")
            stream = self._zip.open(info)
            packed = info.compress_type != zipfile.ZIP_STORED
            if info.compress_size > self._size or info.file_size > info.compress_size * (_LARGEST_RATIO if packed else 1):
                raise FormatError(
                    f"{self.path}: {name} promises {info.file_size} bytes, but the archive holds {info.compress_size} for it; "
                    "it is truncated or damaged"
                )
            offset = None if packed else self._data_offset(info)
        return ArrayFile(self.path, name, stream, info.file_size, offset, info.CRC)

    def _data_offset(self, info: zipfile.ZipInfo) -> int:
        """Where a stored member's bytes begin: behind its local header, whose name and extra field vary in length."""
        with open(self.path, "rb") as file:
            file.seek(info.header_offset + 26)
            name, extra = struct.unpack("<HH", file.read(4))
        return info.header_offset + 30 + name + extra
