"""Arrow files (IPC files, which Feather version 2 is): where the buffers of a column lie. Nothing of them is read.

pyarrow reads the metadata, out of a map of the file that it takes for memory: through a map of its own it has the system fetch
every batch that it looks at. Nor does the system read ahead in ours (MADV_RANDOM). A buffer's address less the map's is its
place in the file.
"""

from __future__ import annotations

import math
import mmap
import struct
from typing import Any, NamedTuple

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError, HinterlandError
from ..runtime.files import opening
from .names import named

_MAGIC = b"ARROW1"
_BATCH = "record batch"
_FIRST_MESSAGE = 8  # byte of the file
_TYPES = {
    "halffloat": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
    **{f"int{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(torch, f"uint{bits}") for bits in (8, 16, 32, 64)},
}


class Column(NamedTuple):
    """A column's rows: their type, the shape of one, and (rows, byte in the file) of each record batch that has any."""

    dtype: torch.dtype
    row: tuple[int, ...]
    batches: list[tuple[int, int]]


def matches(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is one of these."""
    return head.startswith(_MAGIC)


def find(path: str, size: int, name: str | None, field: str | None) -> Column:
    """The column ``name`` of a file of ``size`` bytes, or the only one; of a struct its part ``field``.

    Raises:
        ConfigError: pyarrow is missing; a column or field that is not there.
        FormatError: the file is damaged or compressed, or the column is none of numbers without nulls.
    """
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise ConfigError(f"{path}: reading Arrow files needs pyarrow: pip install 'hinterland[arrow]'") from error
    with opening(path, "read"), open(path, "rb") as file:
        file.seek(max(size - len(_MAGIC), 0))
        if size < 2 * len(_MAGIC) or file.read(len(_MAGIC)) != _MAGIC:
            raise FormatError(f"{path}: truncated: an Arrow file ends with {_MAGIC.decode()}, and these {size} bytes do not")
        mapped = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        mapped.madvise(mmap.MADV_RANDOM)
    try:
        return _column(path, pyarrow, pyarrow.py_buffer(mapped), name, field)
    except (HinterlandError, MemoryError):
        raise
    except Exception as error:  # of many kinds: pyarrow's own, and what damaged metadata provokes
        reason = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: damaged Arrow file: {type(error).__name__}: {reason}; fetch or write it again") from error


def _column(path: str, pyarrow: Any, file: Any, name: str | None, field: str | None) -> Column:
    options = pyarrow.ipc.IpcReadOptions(use_threads=False)  # included_fields= would read the field, and copy it
    reader = pyarrow.ipc.open_file(pyarrow.BufferReader(file), options=options)
    name = named(path, "columns", reader.schema.names, name)
    if reader.schema.names.count(name) > 1:
        raise FormatError(f"{path} has several columns called {name!r}; rename them")
    at = reader.schema.names.index(name)
    whole, what = reader.schema.types[at], f"{path}: the column {name!r}"
    dtype, row = _kind(what, pyarrow, whole, field)
    if _is_compressed(pyarrow, file):
        raise _compressed(path)
    batches: list[tuple[int, int]] = []
    for number in range(reader.num_record_batches):
        array = reader.get_batch(number).column(at)
        array.validate()  # lengths: pyarrow ends the process over parts that are shorter than the whole. Reads no numbers
        rows, values = len(array), _values(f"{what} in batch {number}", pyarrow, array, field)
        if not rows:
            continue
        offset, length = (values.address - file.address, values.size) if values is not None else (0, 0)
        if not 0 <= offset <= offset + length <= file.size:
            raise _compressed(path)
        nbytes = rows * math.prod(row) * dtype.itemsize
        if length < nbytes:
            raise FormatError(
                f"{what} in batch {number} has {length} bytes for {rows} rows, which take {nbytes}; it is damaged"
            )
        batches.append((rows, offset))
    return Column(dtype, row, batches)


def _kind(what: str, pyarrow: Any, kind: Any, field: str | None) -> tuple[torch.dtype, tuple[int, ...]]:
    """The type of a column's numbers, and the shape of a row."""
    types, given, row = pyarrow.types, kind, []
    if types.is_struct(kind):
        parts = [kind.field(number) for number in range(kind.num_fields)]
        wanted = named(what, "fields", [part.name for part in parts], field, "field")
        kind = next(part.type for part in parts if part.name == wanted)
    elif field is not None:
        raise ConfigError(f"{what} is {kind} and has no fields; leave field={arguments.repr_of(field)} out")
    while isinstance(kind, pyarrow.BaseExtensionType) or types.is_fixed_size_list(kind):
        if types.is_fixed_size_list(kind):
            row.append(kind.list_size)
            kind = kind.value_type
        else:
            kind = kind.storage_type
    if types.is_fixed_size_binary(kind):
        return torch.uint8, (*row, kind.byte_width)
    if str(kind) not in _TYPES:
        raise FormatError(
            f"{what} is of type {given}, which is no table of numbers; write it as a column of numbers, or of "
            "FixedSizeList or fixed_size_binary rows"
        )
    return _TYPES[str(kind)], tuple(row)


def _values(what: str, pyarrow: Any, array: Any, field: str | None) -> Any:
    """The buffer of a batch's numbers; None where it has none."""
    types = pyarrow.types
    while True:
        if array.null_count:
            raise FormatError(f"{what} has {array.null_count} nulls, which are no numbers; fill them and write it again")
        if types.is_struct(array.type):
            names = [array.type.field(number).name for number in range(array.type.num_fields)]
            array = array.field(names.index(field) if field is not None else 0)
        elif isinstance(array.type, pyarrow.BaseExtensionType):
            array = array.storage
        elif types.is_fixed_size_list(array.type):
            array = array.values
        else:
            return array.buffers()[1]


def _is_compressed(pyarrow: Any, file: Any) -> bool:
    """Whether a batch is, as its metadata say; to ask pyarrow for it would decompress it."""
    messages = pyarrow.ipc.MessageReader.open_stream(pyarrow.BufferReader(file.slice(_FIRST_MESSAGE)))
    return any(message.type == _BATCH and _batch_has_codec(message.metadata.to_pybytes()) for message in messages)


def _batch_has_codec(metadata: bytes) -> bool:
    """Whether ``Message.header.compression`` is there (Arrow's Message.fbs), in a flatbuffer
    (https://flatbuffers.dev/internals)."""
    message = _unsigned(metadata, 0)
    header = message + _slot(metadata, message, 2)
    return bool(_slot(metadata, header + _unsigned(metadata, header), 3))


def _slot(metadata: bytes, table: int, field: int) -> int:
    """Where a field lies, from its table's begin; 0 where it is left out."""
    fields = table - struct.unpack_from("<i", metadata, table)[0]
    at = 4 + 2 * field
    if fields < 0 or at >= struct.unpack_from("<H", metadata, fields)[0]:
        return 0
    return int(struct.unpack_from("<H", metadata, fields + at)[0])


def _unsigned(metadata: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", metadata, at)[0])


def _compressed(path: str) -> FormatError:
    return FormatError(
        f"{path} is compressed, so its rows cannot be read where they lie; write it without, as "
        "pyarrow.feather.write_feather(table, path, compression='uncompressed')"
    )
