"""Files as readers and writers see them: sizes checked before memory is taken, and results that appear whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import torch

from ... import _core
from ...runtime.errors import ConfigError, FormatError, StorageError

GZIP_MAGIC = b"\x1f\x8b"


def refused(path: str | Path, doing: str, error: OSError) -> StorageError:
    """The operating system's refusal in a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "the disk or the quota is full: free space or write elsewhere; nothing was left under this name"
    elif error.errno == errno.ENOENT:
        remedy = "check the path"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "check the permissions"
    else:
        remedy = "check the disk"
    return StorageError(f"{path}: cannot be {doing}: {error.strerror or error}; {remedy}")


def size_of(path: str | Path) -> int:
    """Bytes in a regular file.

    Raises:
        StorageError: it is missing, cannot be read, or is no regular file.
    """
    try:
        info = os.stat(path)
    except OSError as error:
        raise refused(path, "read", error) from error
    if not stat.S_ISREG(info.st_mode):
        kind = "a folder" if stat.S_ISDIR(info.st_mode) else "no regular file"
        raise StorageError(f"{path}: this is {kind}; a graph is read from a file, or from an OGB data set's folder")
    return info.st_size


def read_head(path: str | Path, count: int) -> bytes:
    """The first bytes of a file, at most ``count``."""
    size_of(path)
    try:
        with open(path, "rb") as file:
            return file.read(count)
    except OSError as error:
        raise refused(path, "read", error) from error


def read_into(path: str | Path, offset: int, target: torch.Tensor) -> None:
    """Fills the contiguous CPU tensor ``target`` with the file's bytes at ``offset``, by several threads."""
    _core.read_file(str(path), offset, target.data_ptr(), target.numel() * target.element_size())


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
    try:
        if head == GZIP_MAGIC:
            raw = _Gunzip(str(path))
            return io.BufferedReader(raw, 1 << 20), raw.tell_compressed
        file = open(path, "rb", buffering=1 << 20)  # noqa: SIM115  the caller closes it
        return file, file.tell
    except OSError as error:
        raise refused(path, "read", error) from error


class Output:
    """A file being written beside its final place. Every refused write is a StorageError that names the final file."""

    def __init__(self, final: Path, aside: Path, file: io.RawIOBase) -> None:
        self.final, self.aside, self._file = final, aside, file

    def write(self, content: Any) -> None:
        """Appends bytes."""
        try:
            self._file.write(content)
        except OSError as error:
            raise refused(self.final, "written", error) from error

    def write_tensor(self, tensor: torch.Tensor, offset: int) -> None:
        """Writes a contiguous CPU tensor's bytes at ``offset``, by several threads."""
        try:
            _core.write_file(str(self.aside), offset, tensor.data_ptr(), tensor.numel() * tensor.element_size())
        except StorageError as error:
            raise StorageError(f"{self.final}: cannot be written: {error}; nothing was left under this name") from error

    def resize(self, size: int) -> None:
        """Gives the file exactly ``size`` bytes; what was not written reads as zeros."""
        with writing(self.final):
            os.truncate(self.aside, size)

    @property
    def file(self) -> Any:
        """For libraries that write to a file object; wrap their calls in ``writing``."""
        return self._file


@contextmanager
def writing(final: str | Path) -> Iterator[None]:
    """Turns an OSError of the enclosed writes into a StorageError that names ``final``."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise refused(final, "written", error) from error


class replacing:
    """``with replacing(path) as output``: the file appears under ``path`` whole, or what was there stays.

    Written under another name in the same folder, synced, then renamed. After any error the aside file is removed.
    """

    def __init__(self, path: str | Path) -> None:
        # A link keeps pointing where it did: its target is what is replaced.
        self._final = Path(os.path.realpath(path))
        with writing(path):
            regular = self._final.is_file() or not self._final.exists()
        if not regular:
            raise ConfigError(f"{path}: exists and is no regular file; choose another name to write to")
        self._aside = self._final.with_name(f".{self._final.name}.{secrets.token_hex(4)}.part")

    def __enter__(self) -> Output:
        try:
            handle = os.open(self._aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise refused(self._final, "written", error) from error
        self._file = os.fdopen(handle, "w+b", buffering=0)
        return Output(self._final, self._aside, _Whole(self._file))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                with writing(self._final):
                    os.fsync(self._file.fileno())
                    self._file.close()
                    os.replace(self._aside, self._final)
                    _sync_folder(self._final.parent)
        finally:
            self._file.close()
            self._aside.unlink(missing_ok=True)


class _Whole(io.RawIOBase):
    """An unbuffered file whose ``write`` writes everything: the system may take less than it is given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        done = 0
        while done < len(view):
            done += self._file.write(view[done : done + (1 << 30)])
        return done

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)  # type: ignore[attr-defined]

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some file systems cannot sync a folder; the file itself is safe
    finally:
        os.close(handle)
