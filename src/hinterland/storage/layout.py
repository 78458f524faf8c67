"""Where the rows of a table lie in a file that is there already, or is made: read in place, nothing is converted."""

from __future__ import annotations

import math
import os
import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .. import _core
from ..memory import hl, load
from ..memory.load import StoredTensor
from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError, StorageError
from ..runtime.files import opening, replacing
from . import arrow, safetensors
from .names import named

PART = "hinterland.part"  # in the metadata of a file of a striped table: which one it is
_HEADER = 4096  # bytes before the data of files that are made: rows begin with a page
OPEN_INSTEAD = "open it with mode='r+' to write to it"
_TENSOR = "data"  # the name of the tensor in a safetensors file that is made
# What is known and cannot be read in place, by its first bytes.
_OTHERS = {
    b"PAR1": "Parquet, whose columns are encoded: write it as an Arrow file without compression",
    b"FEA1": "Feather of version 1: write it again, as version 2 without compression",
    b"\xff\xff\xff\xff": "perhaps an Arrow stream: write it as an Arrow file (pyarrow.ipc.new_file)",
    b"\x89HDF": "HDF5: write the array as .npy",
    b"\x1f\x8b": "gzip: decompress it first",
}


class ByColumns(FormatError):
    """A file in Fortran order, as ``np.save(frame.to_numpy())`` writes it: no row of it lies in one piece."""

    def __init__(self, path: str, stored: StoredTensor) -> None:
        super().__init__(
            f"{path} is in Fortran order, and rows are read where they lie from files in C order: write one by `hinterland "
            f"storage transpose {shlex.quote(path)} rows.npy`, or read it into memory by UnifiedTensor.from_file or "
            "hl.open_table(...).place()"
        )
        self.path, self.stored = path, stored


@dataclass(frozen=True)
class Extent:
    """Rows that lie one after the other, without gaps.

    Attributes:
        rows: how many; at least one.
        offset: byte of the file where the first one begins. It need not be a multiple of the size of an element.
    """

    rows: int
    offset: int


@dataclass(frozen=True)
class Volume:
    """Files as one space of bytes (native/storage/volume.hpp).

    Attributes:
        paths: of the files, as they were given.
        stripe: bytes that are dealt to each file in turn; 0: each has a copy of all.
        base: bytes of each file that lie before the first stripe.
    """

    paths: tuple[str, ...]
    stripe: int = 0
    base: int = 0


@dataclass(frozen=True)
class Layout:
    """A table in a file, row-major: what its rows are, and where each of them lies.

    Attributes:
        path: the file, as it was given; of several the first.
        dtype: of the elements.
        shape: at least one dimension; the first counts rows.
        extents: in the order of the rows, ``shape[0]`` rows together; none where there are no rows. They need not lie in the
            file in this order. All of them end within the file.
        spread: over which files, where there are several: offsets are those of their space.
    """

    path: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    extents: tuple[Extent, ...]
    spread: Volume | None = None

    @property
    def volume(self) -> Volume:
        """The files."""
        return Volume((self.path,)) if self.spread is None else self.spread

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.shape[0] * self.row_bytes


def locate(
    path: str | os.PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    shape: int | Sequence[int] | None = None,
    offset: int = 0,
    name: str | None = None,
    field: str | None = None,
) -> Layout:
    """Where the rows of a file's table lie, told by its content; of the rows themselves nothing is read.

    ``.npy`` (C order), torch files of one tensor, safetensors, Arrow files and Feather of version 2 (without compression and
    nulls; numbers, FixedSizeList and fixed_size_binary), ``.hl`` graphs, and raw binary, which may be on a block device,
    also on one that this process drives by itself (``nvme:0000:01:00.0``).

    Offsets are kept as the file has them, also where they are no multiples of the size of an element. Such rows have to be
    moved as bytes: no pointer to an element may be made.

    Args:
        path: the file.
        dtype, shape: of raw binary, where one dimension may be -1; otherwise None, or what the file must hold. With both, a
            torch file is taken for raw binary.
        offset: where raw binary or a ``.npy`` begins, in bytes.
        name: the tensor of a safetensors file, the column of an Arrow file, or ``"indptr"``, ``"indices"``, ``"weights"`` and
            so on of a graph. May be left out where there is one only.
        field: the part of an Arrow column that is a struct.

    Raises:
        StorageError: the file is missing, cannot be read, or is none that can hold a table.
        FormatError: its content is damaged, cannot be read in place, or promises more bytes than there are.
        ConfigError: raw binary without dtype and shape, a name that is not there, or Arrow without pyarrow.
    """
    path = arguments.path("the file of a table", path)
    offset = load.asked_offset(path, offset)
    load.check_dtype(path, dtype)
    sizes = None if shape is None else load.asked_shape(shape)
    size, is_device = size_of(path)
    head = b"" if is_device else head_of(path, offset)
    if offset == 0 and arrow.matches(head):
        found = _of_arrow(path, size, name, field)
    elif stored := _of_several(path, size, head, name, dtype is not None and sizes is not None) if offset == 0 else None:
        refuse_names(path, None, field)
        found = of_one(path, stored)
    else:
        return of_one(path, _plain(path, size, head, (dtype, sizes, offset), is_device), name, field)
    load.check_asked(path, dtype, sizes, found.dtype, found.shape)
    return found


def _of_arrow(path: str, size: int, name: str | None, field: str | None) -> Layout:
    column = arrow.find(path, size, name, field)
    extents = tuple(Extent(rows, at) for rows, at in column.batches)
    return Layout(path, column.dtype, (sum(extent.rows for extent in extents), *column.row), extents)


def _of_several(path: str, size: int, head: bytes, name: str | None, may_be_raw: bool) -> StoredTensor | None:
    """The array of a graph or a safetensors file; None of what is neither."""
    if hl.matches(head):
        return _of_graph(path, size, name)
    if not safetensors.matches(head):
        return None
    try:
        header = safetensors.read_header(path, size)
    except FormatError:
        if may_be_raw and name is None:  # numbers may begin as such a header does
            return None
        raise
    if PART in header.metadata:
        raise ConfigError(
            f"{path}: is part {header.metadata[PART]} of a striped table; open all of its files, in their order, with "
            "spread='striped'"
        )
    return safetensors.find(path, size, name, header)


def _of_graph(path: str, size: int, name: str | None) -> StoredTensor:
    with opening(path, "read"), open(path, "rb") as file:
        header = hl.parse(path, file.read(hl.PAGE), size)
    names, types, counts = zip(*header.arrays(), strict=True)
    at = names.index(named(path, "arrays", names, name))
    return StoredTensor(types[at], (counts[at],), header.sections()[at][0])


def _plain(
    path: str, size: int, head: bytes, asked: tuple[torch.dtype | None, tuple[int, ...] | None, int], is_device: bool
) -> StoredTensor:
    """The array of a ``.npy``, a torch file or raw binary. ``asked``: dtype, shape and offset."""
    if is_device:
        return load.check_size(path, size, load.raw(path, size, *asked))
    if (asked[0] is None or asked[1] is None) and not head.startswith((load.NUMPY, load.ZIP)):
        known = next((f"it is {what}; " for magic, what in _OTHERS.items() if head.startswith(magic)), "")
        raise ConfigError(
            f"{path} begins with no header that is known (.npy, torch, safetensors, Arrow, .hl): {known}for raw binary "
            "give dtype and shape, as in hl.StorageArray.open(path, dtype=torch.float32, shape=(-1, 128))"
        )
    return load.locate(path, *asked)


def of_one(path: str, stored: StoredTensor, name: str | None = None, field: str | None = None) -> Layout:
    """The layout of a tensor that lies in one piece, row by row."""
    refuse_names(path, name, field)
    if stored.by_columns:
        raise ByColumns(path, stored)
    rows = load.check_shape(path, stored).shape[0]
    return Layout(path, stored.dtype, stored.shape, (Extent(rows, stored.offset),) if rows else ())


def refuse_names(path: str, name: str | None, field: str | None) -> None:
    for option, given in (("name", name), ("field", field)):
        if given is not None:
            raise ConfigError(f"{path} holds nothing that has a {option}; leave {option}={arguments.repr_of(given)} out")


def head_of(path: str, offset: int = 0) -> bytes:
    """The first bytes of what a file holds, by which formats are told apart."""
    with opening(path, "read"), open(path, "rb") as file:
        file.seek(offset)
        return file.read(16)


def is_bare(path: str) -> bool:
    """Whether this names a device that the process drives by itself, and no file (native/storage/block_device.hpp)."""
    return path.startswith("nvme:")


def size_of(path: str) -> tuple[int, bool]:
    """Bytes of a regular file or a device, and whether it is the latter."""
    if (bare := _core.bare_device(path)) is not None:
        return bare.bytes, True
    with opening(path, "read"):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise StorageError(f"{path}: this is a folder; name a file in it, as features.npy of a data set")
        if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
            raise StorageError(f"{path}: this is no regular file and no block device; a table is read from one")
        with open(path, "rb") as file:
            return file.seek(0, os.SEEK_END), stat.S_ISBLK(mode)


def create(path: str | os.PathLike[str], shape: int | Sequence[int], dtype: torch.dtype) -> Layout:
    """Makes a file of zeros for a table. It is sparse: it has its full length at once, and takes room as it is written.

    Args:
        path: ending in ``.npy`` it becomes a numpy file, in ``.safetensors`` one with the tensor ``"data"``, both with the data
            from byte 4096 on; otherwise raw binary. The folder has to be there.
        shape: at least one dimension, each 0 or more.
        dtype: of the elements.

    Raises:
        ConfigError: a shape that no table has, or a type that the file's format lacks.
        StorageError: a file is there already, the place cannot be written, or the table is larger than a file can be. Nothing
            is left under the name then.
    """
    layout, header = planned(arguments.path("the file of a table", path), shape, dtype)
    with replacing(layout.path, new=OPEN_INSTEAD) as output:
        output.write(header)
        output.resize(len(header) + layout.nbytes)
    return layout


def planned(path: str, shape: int | Sequence[int], dtype: torch.dtype) -> tuple[Layout, bytes]:
    """What :func:`create` makes, and what comes before the data."""
    if is_bare(path):
        raise ConfigError(f"{path} is a device, which is there already: open it with mode='r+', dtype and shape")
    arguments.instance("dtype", dtype, torch.dtype, "as torch.float32 is")
    sizes = load.asked_shape(shape)
    if not sizes or any(n < 0 for n in sizes):
        raise ConfigError(
            f"{path}: shape={arguments.repr_of(sizes)}: a table has at least one dimension, and each is 0 or more"
        )
    if math.prod(sizes[1:]) * dtype.itemsize > arguments.MOST:
        raise ConfigError(f"{path}: shape={arguments.repr_of(sizes)}: a row is larger than a file can be; use a smaller shape")
    header = _made_header(path, sizes, dtype)
    stored = StoredTensor(dtype, sizes, len(header))
    size = len(header) + stored.nbytes
    if size > arguments.MOST:
        raise StorageError(f"{path}: cannot be written: {size} bytes are more than a file can have; use a smaller shape")
    return of_one(path, stored), header


def _made_header(path: str, shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    if path.endswith(".safetensors"):
        return safetensors.pack(path, _TENSOR, dtype, shape, _HEADER)
    return _numpy_header(path, shape, dtype) if path.endswith(".npy") else b""


def _numpy_header(path: str, shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    """A header of version 1.0, padded with spaces (numpy.lib.format)."""
    try:
        kind = np.lib.format.dtype_to_descr(torch.empty(0, dtype=dtype).numpy().dtype)
    except (TypeError, RuntimeError):
        raise ConfigError(f"{path}: numpy has no {dtype}; use a name that ends in .safetensors") from None
    begin = load.NUMPY + bytes((1, 0))
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    room = _HEADER - len(begin) - 2
    return begin + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"
