"""Files as readers see them: sizes are checked before memory is taken."""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ... import _core
from ...memory import report
from ...memory.limits import require_host_memory
from ...runtime.errors import FormatError, OutOfMemory, StorageError
from ...runtime.files import opening

GZIP_MAGIC = b"\x1f\x8b"


def size_of(path: str | Path) -> int:
    """Bytes in a regular file. Raises StorageError: it is missing, cannot be read, or is no regular file."""
    with opening(path, "read"):
        info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        kind = "a folder" if stat.S_ISDIR(info.st_mode) else "no regular file"
        raise StorageError(f"{path}: this is {kind}; a graph is read from a file, or from an OGB data set's folder")
    with opening(path, "read"):
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))  # so that whoever reads it next need not ask
    return info.st_size


def require_memory(path: str | Path, what: str, nbytes: int) -> None:
    """Raises OutOfMemory, which names the file, unless ``what`` of it, ``nbytes``, can be had."""
    try:
        require_host_memory(nbytes, report().nbytes)
    except OutOfMemory as error:
        raise OutOfMemory(f"{path}: {what}: {error}") from None


def read_head(path: str | Path, count: int) -> bytes:
    """The first bytes of a file, at most ``count``."""
    size_of(path)
    with opening(path, "read"), open(path, "rb") as file:
        return file.read(count)


def read_into(path: str | Path, offset: int, target: torch.Tensor, sums: torch.Tensor | None = None) -> None:
    """Fills the contiguous CPU tensor ``target`` with the file's bytes at ``offset``, by several threads.

    ``sums``: the checksums of the whole file (:mod:`...runtime.checksums`), against which what is read is checked.
    """
    known = {} if sums is None else {"sums": sums.data_ptr(), "blocks": len(sums)}
    _core.read_file(str(path), offset, target.data_ptr(), target.numel() * target.element_size(), **known)


class _Gunzip(io.RawIOBase):
    """The content of a gzip file with any number of members, decompressed as it is asked for."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115  closed by close()
        self._inflate = zlib.decompressobj(31)
        self._pending = b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def tell_compressed(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if not len(view):
            return 0
        while True:
            if self._inflate.eof and not self._next_member():
                return 0
            at_end = not self._pending and not self._refill()
            try:
                content = self._inflate.decompress(self._pending, len(view))
            except zlib.error as error:
                raise FormatError(
                    f"{self._path}: damaged gzip data before offset {self._file.tell()} ({error}); fetch the file again"
                ) from error
            self._pending = self._inflate.unconsumed_tail
            if content:
                view[: len(content)] = content
                return len(content)
            if at_end and not self._inflate.eof:
                raise FormatError(
                    f"{self._path}: truncated: the gzip data stops at offset {self._file.tell()} before its end; "
                    "fetch the file again"
                )

    def _refill(self) -> bool:
        self._pending = self._file.read(1 << 20)
        return bool(self._pending)

    def _next_member(self) -> bool:
        """Whether another member follows; zero bytes between members and at the end are padding."""
        rest = self._inflate.unused_data
        while not (rest := rest.lstrip(b"\0")):
            if not (rest := self._file.read(1 << 20)):
                return False
        self._inflate = zlib.decompressobj(31)
        self._pending = rest
        return True


def open_text(path: str | Path) -> tuple[Any, Callable[[], int]]:
    """A file's text, decompressed if it is gzip, and a function that says how many of its bytes were read."""
    head = read_head(path, 2)
    with opening(path, "read"):
        if head == GZIP_MAGIC:
            raw = _Gunzip(str(path))
            return io.BufferedReader(raw, 1 << 20), raw.tell_compressed
        file = open(path, "rb", buffering=1 << 20)  # noqa: SIM115  the caller closes it
        return file, file.tell
