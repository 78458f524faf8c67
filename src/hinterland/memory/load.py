"""Where a file keeps its tensor: ``.npy``, torch files and raw binary, told apart by content."""

from __future__ import annotations

import io
import math
import os
import stat
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError, StorageError
from ..runtime.files import refusal, refused, why_unsafe

_HEADER = 1 << 16  # bytes of a .npy header that are looked at; real ones have about 100
NUMPY = b"\x93NUMPY"
ZIP = b"PK\x03\x04"
_LOCAL = 30  # bytes of a zip file's local header before the name


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, from byte ``offset`` on: row-major, unless it lies ``by_columns`` (Fortran order)."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    by_columns: bool = False

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def locate(path: str | os.PathLike[str], dtype: torch.dtype | None, shape: tuple[int, ...] | None, offset: int) -> StoredTensor:
    """The tensor of a file, its size checked against the file's before anybody allocates it.

    Args:
        dtype, shape: of raw binary, where one dimension may be -1; otherwise None, or what the file must hold.
        offset: where the content begins, in bytes.

    Raises:
        FormatError: the header is damaged, of a kind that cannot be read, or promises more than the file holds.
        ConfigError: raw binary without dtype and shape, or a file that holds another type or shape than asked for.
    """
    path = os.fspath(path)
    offset = asked_offset(path, offset)
    check_dtype(path, dtype)
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode) and not stat.S_ISDIR(info.st_mode):
            raise StorageError(f"cannot read {path}: it is no regular file; a table is read from one")
        size = info.st_size
        with open(path, "rb") as file:
            file.seek(offset)
            head = file.read(_HEADER)
    except StorageError:
        raise
    except OSError as error:
        raise refused(path, "read", error) from error
    if head.startswith(NUMPY):
        stored = _numpy(path, head, offset)
    elif head.startswith(ZIP) and offset == 0 and dtype is None:
        stored = _torch(path)
    else:
        return check_size(path, size, raw(path, size, dtype, shape, offset))
    check_asked(path, dtype, shape, stored.dtype, stored.shape)
    return check_size(path, size, stored)


def asked_offset(path: str, offset: int) -> int:
    """Where a caller says that the content begins, in bytes."""
    offset = arguments.whole_number("offset", offset, -(2**1023), 2**1023)
    if not 0 <= offset < 1 << 62:
        what = "negative" if offset < 0 else "larger than any file"
        raise ConfigError(f"{path}: offset={offset} is {what}; count bytes from the beginning")
    return offset


def check_dtype(path: str, dtype: torch.dtype | None) -> None:
    """Refuses what is no type of a tensor's elements; None is what the file says."""
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise ConfigError(f"{path}: dtype is a torch type such as torch.float32, not {arguments.repr_of(dtype)}")


def check_asked(
    path: str, dtype: torch.dtype | None, shape: tuple[int, ...] | None, held: torch.dtype, sizes: tuple[int, ...]
) -> None:
    """Refuses a file that holds another type or shape (``held``, ``sizes``) than was asked for."""
    if dtype not in (None, held) or not _agrees(shape, sizes):
        raise ConfigError(f"{path} holds {held} of shape {sizes}, not dtype={dtype}, shape={shape}; leave both out")


def asked_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape that a caller gave, with -1 for one dimension at most that the file's size decides."""
    try:
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        return tuple(arguments.whole_number("a dimension of shape", n, -1) for n in sizes)
    except (TypeError, RuntimeError):  # the last is a tensor's
        raise ConfigError(f"shape={arguments.repr_of(shape)}: dimensions are whole numbers") from None


def _agrees(asked: tuple[int, ...] | None, shape: tuple[int, ...]) -> bool:
    if asked is None:
        return True
    return len(asked) == len(shape) and all(a in (-1, b) for a, b in zip(asked, shape, strict=True))


def check_size(path: str, size: int, stored: StoredTensor) -> StoredTensor:
    """Refuses a tensor that does not lie within the file's ``size`` bytes."""
    if not stored.shape:
        raise FormatError(f"{path} holds one number and no table; give it a dimension")
    if stored.offset + stored.nbytes > size:
        raise FormatError(
            f"{path}: truncated: {stored.dtype} of shape {stored.shape} needs {stored.nbytes} bytes from offset "
            f"{stored.offset} on, but the file holds {size} bytes"
        )
    return check_shape(path, stored)


def countable(shape: Sequence[int]) -> bool:
    """Whether 64 bits count the bytes of a tensor of this shape. Of empty ones too: torch counts what lies between their rows.
    16 bytes are the widest element."""
    return math.prod(max(n, 1) for n in shape) <= arguments.MOST // 16


def check_shape(path: str, stored: StoredTensor) -> StoredTensor:
    """Refuses a shape that no tensor has."""
    if not countable(stored.shape):
        raise FormatError(
            f"{path}: shape {arguments.repr_of(stored.shape)} has more elements than 64 bits count the bytes of; correct the "
            "shape, or write the file again if it says so itself"
        )
    return stored


def raw(path: str, size: int, dtype: torch.dtype | None, shape: tuple[int, ...] | None, offset: int) -> StoredTensor:
    """What ``size`` bytes without a header hold, as the caller says."""
    if dtype is None or shape is None:
        raise ConfigError(
            f"{path} begins with no header that is known (.npy or a torch file): for raw binary give dtype and shape"
        )
    if shape.count(-1) > 1 or any(n < -1 for n in shape):
        raise ConfigError(f"shape={shape}: dimensions are 0 or more, and one of them may be -1")
    if -1 in shape:
        row = math.prod(n for n in shape if n != -1) * dtype.itemsize
        left = size - offset
        if row == 0 or left < 0 or left % row:
            raise FormatError(
                f"{path}: {left} bytes from offset {offset} on are no whole number of rows of {row} bytes "
                f"({dtype}, shape {shape})"
            )
        shape = tuple(left // row if n == -1 else n for n in shape)
    return StoredTensor(dtype, shape, offset)


def _numpy(path: str, head: bytes, offset: int) -> StoredTensor:
    file = io.BytesIO(head)  # so that no length in the header is believed beyond these bytes
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version[0]}.{version[1]}; 1.0 and 2.0 can be read")
    except Exception as error:  # numpy's parser leaks whatever a garbage header provokes
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"{path}: damaged .npy header at offset {offset}: {reason}") from error
    if dtype.hasobject or dtype.fields is not None:
        raise FormatError(f"{path} holds Python objects or records ({dtype}), which are no tensor; save plain numbers")
    if any(n < 0 for n in shape):
        raise FormatError(f"{path}: damaged .npy header: the shape {shape} has a negative dimension")
    try:
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
    except (TypeError, ValueError) as error:
        remedy = f"save it as array.astype('{dtype.newbyteorder('=')}')" if not dtype.isnative else "save plain numbers"
        raise FormatError(f"{path} holds {dtype.str!r}, which torch has no type for; {remedy}") from error
    by_columns = bool(fortran) and sum(n > 1 for n in shape) > 1 and 0 not in shape
    return StoredTensor(kind, tuple(int(n) for n in shape), offset + file.tell(), by_columns)


def _torch(path: str) -> StoredTensor:
    try:
        tensor = torch.load(path, mmap=True, weights_only=True, map_location="cpu")
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            records = [entry for entry in archive.infolist() if Path(entry.filename).parent.name == "data"]
            file.seek(records[0].header_offset if records else 0)
            header = file.read(_LOCAL)
    except Exception as error:
        raise refusal(path, error) or FormatError(
            f"{path} is no torch file that can be read safely: {why_unsafe(error)}; save the tensor alone, by torch.save"
        ) from error
    if not isinstance(tensor, torch.Tensor):
        raise FormatError(f"{path} holds a {type(tensor).__name__} and not one tensor; save the tensor alone")
    if not tensor.is_contiguous() or tensor.is_sparse or tensor.is_quantized:
        raise FormatError(f"{path} holds a tensor that is not contiguous; save tensor.contiguous()")
    if tensor.is_conj() or tensor.is_neg():
        raise FormatError(f"{path} holds a lazily conjugated or negated view; save tensor.resolve_conj().resolve_neg()")
    if len(records) != 1 or records[0].compress_type != zipfile.ZIP_STORED:
        raise FormatError(f"{path} keeps its tensor in {len(records)} records or compressed; save it again by torch.save")
    if len(header) != _LOCAL or not header.startswith(ZIP):
        raise FormatError(f"{path}: damaged record header at offset {records[0].header_offset}")
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    start = records[0].header_offset + _LOCAL + name + extra
    offset = start + int(tensor.storage_offset()) * tensor.dtype.itemsize
    return StoredTensor(tensor.dtype, tuple(int(n) for n in tensor.shape), offset)
