"""What a training run needs to go on, in one file that is whole at every moment.

It is what ``torch.save`` writes, a zip archive, with a checksum of everything before it as the archive's comment. So
``torch.load`` reads it too, but does not notice a damaged bit.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..runtime.checksums import checksum
from ..runtime.errors import ConfigError, FormatError
from ..runtime.files import refused, replacing, why_unsafe

_VERSION = 3
_SUM = 16  # characters of the checksum


def save(path: str | Path, state: Mapping[str, Any]) -> None:
    """Writes tensors and plain values under ``path`` whole, or leaves what was there.

    Raises:
        StorageError: the disk refused; what was there is still there.
    """
    content = io.BytesIO()
    torch.save({"version": _VERSION, **state}, content)
    content.seek(-2, io.SEEK_END)  # the length of the archive's comment
    content.write(struct.pack("<H", _SUM))
    with content.getbuffer() as view:
        sum_ = _checksum(view)
    content.write(sum_)
    with replacing(path) as output:
        output.write(content.getbuffer())


def load(path: str | Path) -> dict[str, Any]:
    """Reads what :func:`save` wrote, to CPU tensors. No code in the file is run.

    Raises:
        StorageError: it cannot be read.
        FormatError: it is no checkpoint of this library, or damaged.
    """
    try:
        content = bytearray(Path(path).read_bytes())
    except OSError as error:
        raise refused(path, "read", error) from error
    whole, found = memoryview(content)[:-_SUM], content[-_SUM:]
    if not len(whole) or found != _checksum(whole):
        raise FormatError(
            f"{path}: is no checkpoint of this version of hinterland, or is damaged: its checksum does not match; remove it to "
            "begin anew, or restore it"
        )
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch promises no exceptions in particular
        raise no_checkpoint(path, error) from error
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise FormatError(f"{path}: is no checkpoint of this version of hinterland; remove it to begin anew")
    return state


def _checksum(content: memoryview) -> bytes:
    return checksum(torch.frombuffer(content, dtype=torch.uint8)).encode()


def no_checkpoint(path: str | Path, error: Exception) -> FormatError:
    """What to raise for a file that cannot be gone on from."""
    said = str(error).splitlines()[0][:100] if str(error) else "it is cut off"  # an empty file's error has no words
    reason = f"it has no {said}" if isinstance(error, KeyError) else said
    if isinstance(error, pickle.UnpicklingError):
        reason = why_unsafe(error)
    return FormatError(f"{path}: is no checkpoint ({reason}); remove it to begin anew")


def check_same_run(path: str | Path, saved: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """Refuses to go on with a run of other arguments or data.

    Raises:
        ConfigError: names what differs.
    """
    for key, value in mine.items():
        if saved.get(key) != value:
            raise ConfigError(
                f"{path} was saved with {key}={saved.get(key)!r}, but this run has {value!r}; use that, or another checkpoint"
            )
