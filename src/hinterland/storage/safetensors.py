"""Safetensors files (https://github.com/huggingface/safetensors): where the header says that a tensor lies.

Layout, little-endian: the header's bytes (uint64); the header, JSON of ``{name: {"dtype", "shape", "data_offsets"}}`` and
perhaps spaces; then the data, from which the offsets (begin and end) count.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ..memory.load import StoredTensor, check_size
from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError
from ..runtime.files import opening
from .names import named

_LENGTH = struct.Struct("<Q")
_LONGEST = 100_000_000  # bytes of a header, as the format's own reader has it
_OPENINGS = (b'{"', b"{}", b"{ ", b"{\n", b"{\r", b"{\t")
_METADATA = "__metadata__"
TYPES = {
    "BOOL": torch.bool,
    **{f"U{bits}": getattr(torch, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"I{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
}


def matches(head: bytes) -> bool:
    """Whether a file that begins with ``head`` (10 bytes or more) looks like one of these; JSON alone is no proof."""
    return len(head) >= 10 and _LENGTH.unpack_from(head)[0] <= _LONGEST and head[8:10] in _OPENINGS


def is_one(path: str) -> bool:
    """Whether there is a file of this name that looks like one of these."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return matches(file.read(10))
    except OSError:  # who reads it says why
        return False


class SafetensorsHeader(NamedTuple):
    """What a header says of each tensor, by name; the byte at which the data begins; and what else there is to say."""

    tensors: dict[str, Any]
    begin: int
    metadata: dict[str, Any]


def read_header(path: str, size: int) -> SafetensorsHeader:
    """The header of a file of ``size`` bytes.

    Raises:
        FormatError: the header is not whole, or none of this format.
    """
    with opening(path, "read"), open(path, "rb") as file:
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size).ljust(_LENGTH.size, b"\0"))
        begin = _LENGTH.size + length
        if length > _LONGEST:
            raise FormatError(f"{path}: a safetensors header of {length} bytes; no sound one has over {_LONGEST}")
        if begin > size:
            raise FormatError(
                f"{path}: truncated: the safetensors header ends at byte {begin}, but the file holds {size} bytes"
            )
        text = file.read(length)
    try:
        held = json.loads(text.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:  # the latter from brackets in brackets without end
        raise FormatError(f"{path}: damaged safetensors header: {error}; fetch or write the file again") from error
    if not isinstance(held, dict):
        raise FormatError(f"{path}: damaged safetensors header: it is no JSON object; fetch or write the file again")
    metadata = held.pop(_METADATA, None)
    return SafetensorsHeader(held, begin, metadata if isinstance(metadata, dict) else {})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which no name may come twice: readers would not agree which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def find(path: str, size: int, name: str | None, header: SafetensorsHeader) -> StoredTensor:
    """The tensor called ``name``, or the only one.

    Raises:
        ConfigError: which one is meant is not said, or it is not there.
        FormatError: what the header says of it cannot be, or is of a type that torch lacks.
    """
    held, begin, _ = header
    name = named(path, "tensors", list(held), name)
    told = held[name]
    kind, shape, span = _told(told)
    if not (isinstance(kind, str) and _are_counts(shape) and _are_counts(span) and len(span) == 2):
        raise FormatError(
            f"{path}: damaged safetensors header: {arguments.repr_of(name)} is {arguments.repr_of(told)}, without a dtype, "
            f"shape "
            "and data_offsets that can be read; fetch or write the file again"
        )
    if kind not in TYPES:
        raise FormatError(
            f"{path}: {arguments.repr_of(name)} is of type {arguments.repr_of(kind)}, which cannot be read; save it as F32, say"
        )
    stored = StoredTensor(TYPES[kind], tuple(shape), begin + span[0])
    if span[1] - span[0] != stored.nbytes:
        raise FormatError(
            f"{path}: damaged safetensors header: {arguments.repr_of(name)} is {kind} of shape "
            f"{arguments.repr_of(stored.shape)}, "
            f"{stored.nbytes} bytes, but lies from {span[0]} to {span[1]}; fetch or write the file again"
        )
    return check_size(path, size, stored)


def _told(tensor: Any) -> tuple[Any, Any, Any]:
    """Type, shape and data_offsets, whatever they are."""
    told = tensor if isinstance(tensor, dict) else {}
    return told.get("dtype"), told.get("shape"), told.get("data_offsets")


def _are_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n <= arguments.MOST for n in value)


def kind_of(path: str | os.PathLike[str], dtype: torch.dtype) -> str:
    """What the format calls a type.

    Raises:
        ConfigError: a type that the format lacks.
    """
    kinds = [kind for kind, known in TYPES.items() if known == dtype]
    if not kinds:
        raise ConfigError(f"{path}: safetensors files have no {dtype}; use another type, or a name with another ending")
    return kinds[0]


def pack(
    path: str | os.PathLike[str],
    name: str,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    size: int,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """The header, ``size`` bytes long, of a file with one tensor.

    Raises:
        ConfigError: as :func:`kind_of`.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    told: dict[str, Any] = {} if metadata is None else {_METADATA: dict(metadata)}
    told[name] = {"dtype": kind_of(path, dtype), "shape": list(shape), "data_offsets": [0, nbytes]}
    text = json.dumps(told, separators=(",", ":")).encode()
    return _LENGTH.pack(size - _LENGTH.size) + text.ljust(size - _LENGTH.size)
