"""Tables that several files or block devices hold together: a copy in each, or dealt round in stripes.

Files of a striped table that :func:`create` makes are safetensors files with one tensor of bytes, whose metadata says which
part they are of how many, of which table (a number drawn for it), its dtype and shape, and the bytes of a stripe. The tensor
begins at byte 65536, so that pages of any cache do.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from .. import _core
from ..memory import load
from ..memory.load import StoredTensor
from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError
from ..runtime.files import replacing_all
from ..runtime.units import parse_bytes
from . import layout, safetensors
from .layout import OPEN_INSTEAD, PART, Layout, Volume, head_of, of_one, planned, refuse_names, size_of

MODES = ("r", "r+")
SPREADS = ("striped", "replicated")
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_BASE = 65536  # where stripes begin in files that are made: at a page of any cache
_STRIPE = 65536  # by default: the largest page
_BLOCK, _MOST_STRIPE = 512, 1 << 30
_MOST_FILES = 64  # native/storage/volume.hpp
_TABLE, _KEPT = "hinterland.table", ("hinterland.stripe", "hinterland.dtype", "hinterland.shape")


class _Part(NamedTuple):
    """What a file of a striped table says of itself."""

    number: int
    parts: int
    table: str
    stripe: int
    dtype: torch.dtype
    shape: tuple[int, ...]


def locate(
    paths: Paths,
    spread: str | None = None,
    stripe: int | str | None = None,
    *,
    dtype: torch.dtype | None = None,
    shape: int | Sequence[int] | None = None,
    offset: int = 0,
    name: str | None = None,
) -> Layout:
    """Where the rows of a table lie that one file holds, or several together.

    Args:
        paths: one or more.
        spread: ``"striped"`` or ``"replicated"`` for several.
        stripe: bytes that are dealt to each file in turn, where the files do not say themselves.
        dtype, shape, offset, name: as of :func:`.layout.locate`; of raw stripes dtype and shape have to be given, and offset
            counts in the bytes of all.

    Raises:
        ConfigError, FormatError, StorageError: as :func:`.layout.locate`; copies that are not alike; stripes in another order
            than they were made in, of several tables, or of which one is missing.
    """
    names = _names(paths, spread)
    asked: dict[str, Any] = {"dtype": dtype, "shape": shape, "offset": offset, "name": name}
    if spread == "striped":
        return _of_stripes(names, stripe, **asked)
    if stripe is not None:
        raise ConfigError(f"stripe={arguments.repr_of(stripe)} is of spread='striped'; leave it out")
    return _of_copies([layout.locate(path, **asked) for path in names])


def create(
    paths: Paths, shape: int | Sequence[int], dtype: torch.dtype, spread: str | None, stripe: int | str | None, line_bytes: int
) -> Layout:
    """Makes a file of zeros for a table, or several: copies, or, ending in ``.safetensors``, the parts of a striped one.

    Raises:
        ConfigError, StorageError: as :func:`.layout.create`; a path that comes twice, copies whose names end differently,
            stripes that are no whole pages of the cache's ``line_bytes``.
    """
    names = _names(paths, spread)
    if len({os.path.realpath(path) for path in names}) != len(names):
        raise ConfigError(f"{_listed(names)}: a file comes twice; name each once")
    if spread == "striped":
        unit = _bytes_of(_STRIPE if stripe is None else stripe)
        if unit % line_bytes != 0:
            raise ConfigError(
                f"stripe={arguments.repr_of(stripe)}: stripes are whole pages of the cache, of {line_bytes} bytes; give a "
                "multiple, or a cache of smaller pages"
            )
        return _create_stripes(names, shape, dtype, unit)
    if stripe is not None:
        raise ConfigError(f"stripe={arguments.repr_of(stripe)} is of spread='striped'; leave it out")
    if spread is None:
        return layout.create(names[0], shape, dtype)
    plans = [planned(path, shape, dtype) for path in names]
    found, header = plans[0]
    for other, begin in plans:
        if begin != header:
            raise ConfigError(f"{other.path} would be no copy of {found.path}: end both names alike")
    with replacing_all(names, new=OPEN_INSTEAD) as outputs:
        for output in outputs:
            output.write(header)
            output.resize(len(header) + found.nbytes)
    return _over(found, Volume(names))


def bare_devices(paths: Paths, spread: str | None) -> list[_core.BlockDevice]:
    """Those among the files that are devices of this process, which stay open as long as anybody has them."""
    opened = [_core.bare_device(path) for path in _names(paths, spread)]
    return [device for device in opened if device is not None]


def _names(paths: Paths, spread: str | None) -> tuple[str, ...]:
    """The files' names, of which there may be several only where it is said how they belong together."""
    if isinstance(paths, list | tuple):
        names = tuple(arguments.path("a file of a table", path) for path in paths)
    else:
        names = (arguments.path("the file of a table", paths),)
    if not 1 <= len(names) <= _MOST_FILES:
        raise ConfigError(f"{len(names)} files for one table; name 1 to {_MOST_FILES}")
    if spread is not None:
        arguments.one_of("spread", spread, SPREADS)
    elif len(names) > 1:
        raise ConfigError(f"{_listed(names)}: say whether each is a copy, spread='replicated', or a part, spread='striped'")
    return names


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _over(found: Layout, volume: Volume) -> Layout:
    return replace(found, path=volume.paths[0], spread=volume)


def _of_copies(found: Sequence[Layout]) -> Layout:
    """The layout of files that have to be alike as far as that can be told without reading them."""
    first, size = found[0], size_of(found[0].path)[0]
    for other in found[1:]:
        if replace(other, path=first.path) != first:
            raise ConfigError(
                f"{other.path} is no copy of {first.path}: it holds {other.dtype} of shape {other.shape}, and that "
                f"{first.dtype} of shape {first.shape}, or at other offsets; copy one over the other"
            )
        if (another := size_of(other.path)[0]) != size:
            raise ConfigError(
                f"{other.path} is no copy of {first.path}: it has {another} bytes, and that {size}; copy one over the other"
            )
    return first if len(found) == 1 else _over(first, Volume(tuple(one.path for one in found)))


def _of_stripes(
    names: tuple[str, ...],
    stripe: int | str | None,
    dtype: torch.dtype | None,
    shape: int | Sequence[int] | None,
    offset: int,
    name: str | None,
) -> Layout:
    label, sizes = _listed(names), None if shape is None else load.asked_shape(shape)
    offset = load.asked_offset(label, offset)
    load.check_dtype(label, dtype)
    refuse_names(label, name, None)
    parts = [_part(path) for path in names]
    unit = None if stripe is None else _bytes_of(stripe)
    if all(part is None for part in parts):
        return _of_raw_stripes(names, unit, dtype, sizes, offset)
    first = _checked(names, parts)
    if offset != 0 or unit not in (None, first.stripe):
        raise ConfigError(
            f"{label}: the files say themselves where stripes of {first.stripe} bytes lie; leave stripe= and offset= out"
        )
    load.check_asked(label, dtype, sizes, first.dtype, first.shape)
    return _over(of_one(names[0], StoredTensor(first.dtype, first.shape, 0)), Volume(names, first.stripe, _BASE))


def _of_raw_stripes(
    names: tuple[str, ...], unit: int | None, dtype: torch.dtype | None, shape: tuple[int, ...] | None, offset: int
) -> Layout:
    label = _listed(names)
    if unit is None or dtype is None or shape is None:
        raise ConfigError(f"{label}: the files do not say that they are parts of a table; give dtype, shape and stripe")
    sizes = [size_of(path) for path in names]
    held, there = _core.striped_bytes([size for size, _ in sizes], unit), sum(size for size, _ in sizes)
    if held != there and not any(is_device for _, is_device in sizes):
        raise ConfigError(
            f"{label}: files of {', '.join(str(size) for size, _ in sizes)} bytes are not what {there} bytes become that are "
            f"dealt round by {unit}; check the stripe, the files' order, and whether one is missing"
        )
    stored = load.check_size(label, held, load.raw(label, held, dtype, shape, offset))
    return _over(of_one(label, stored), Volume(names, unit))


def _part(path: str) -> _Part | None:
    """What a file says of itself that is a part; None of any other.

    Raises:
        FormatError: it says something that cannot be.
    """
    size, is_device = size_of(path)
    if is_device or not safetensors.matches(head_of(path)):
        return None
    try:
        said = safetensors.read_header(path, size).metadata
    except FormatError:
        return None  # numbers may begin as such a header does
    if PART not in said:
        return None
    try:
        number, parts = (int(word) for word in said[PART].split(" of "))
        stripe, kind, shape = (said[key] for key in _KEPT)
        sizes = load.asked_shape(json.loads(shape))
        part = _Part(number, parts, said[_TABLE], _bytes_of(int(stripe)), safetensors.TYPES[kind], sizes)
        if not 1 <= number <= parts <= _MOST_FILES or not sizes or min(sizes) < 0 or _nbytes(part) > arguments.MOST:
            raise ValueError("its numbers do not fit together")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, ConfigError) as error:
        raise FormatError(f"{path}: damaged header of a part of a striped table: {error}; restore the file") from error
    needed = _BASE + _core.striped_share(parts, part.stripe, _nbytes(part), number - 1)
    if size < needed:
        raise FormatError(f"{path}: truncated: its part takes {needed} bytes, but the file holds {size}; restore it")
    return part


def _nbytes(part: _Part) -> int:
    return Layout("", part.dtype, part.shape, ()).nbytes


def _checked(names: Sequence[str], parts: Sequence[_Part | None]) -> _Part:
    """The first part, if the files are all of one table, in order."""
    found = [part for part in parts if part is not None]
    if len(found) != len(names):
        stranger = names[parts.index(None)]
        raise ConfigError(f"{stranger} is no part of a striped table, as the other files are; leave it out")
    first = found[0]
    for name, part in zip(names, found, strict=True):
        if part.table != first.table:
            raise ConfigError(f"{name} is a part of another table than {names[0]}; name the parts of one")
        if part._replace(number=first.number) != first:
            raise FormatError(f"{name} and {names[0]} say that they are of one table, but not the same of it; restore them")
    numbers = [part.number for part in found]
    if sorted(numbers) != list(range(1, first.parts + 1)):
        missing = [i for i in range(1, first.parts + 1) if i not in numbers]
        what = f"part {missing[0]} is missing" if missing else "one is named twice"
        raise ConfigError(f"{_listed(names)}: the table has {first.parts} files, and {what}; name each once, in their order")
    if numbers != sorted(numbers):
        order = ", ".join(names[numbers.index(i)] for i in sorted(numbers))
        raise ConfigError(f"the files of this table are in another order: {order}")
    return first


def _create_stripes(names: tuple[str, ...], shape: int | Sequence[int], dtype: torch.dtype, unit: int) -> Layout:
    for path in names:
        if not path.endswith(".safetensors"):
            raise ConfigError(f"{path}: the files of a striped table say which part they are; end their names in .safetensors")
    found, _ = planned(names[0], shape, dtype)
    found = of_one(names[0], StoredTensor(dtype, found.shape, 0))
    said = dict(zip(_KEPT, (str(unit), safetensors.kind_of(names[0], dtype), json.dumps(found.shape)), strict=True))
    said[_TABLE] = secrets.token_hex(16)
    with replacing_all(names, new=OPEN_INSTEAD) as outputs:
        for i, (path, output) in enumerate(zip(names, outputs, strict=True)):
            size = _core.striped_share(len(names), unit, found.nbytes, i)
            metadata = {PART: f"{i + 1} of {len(names)}", **said}
            output.write(safetensors.pack(path, "stripes", torch.uint8, (size,), _BASE, metadata))
            output.resize(_BASE + size)
    return _over(found, Volume(names, unit, _BASE))


def _bytes_of(stripe: int | str) -> int:
    unit = parse_bytes(stripe)
    if not 0 < unit <= _MOST_STRIPE or unit % _BLOCK != 0:
        raise ConfigError(f"stripe={arguments.repr_of(stripe)}: a stripe is a whole number of pages, as 64KiB, up to 1GiB")
    return unit
