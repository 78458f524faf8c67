"""Files that appear whole or not at all, and refusals of the system as sentences."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import torch

from .. import _core
from . import arguments
from .errors import ConfigError, StorageError


def refused(path: str | Path, doing: str, error: OSError) -> StorageError:
    """The operating system's refusal in a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "the disk or the quota is full: free space or write elsewhere; nothing was left under this name"
    elif error.errno == errno.ENOENT:
        remedy = "check the path"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "check the permissions"
    elif error.errno == errno.ELOOP:
        remedy = "a link leads back to itself: remove it, or name the file that it should lead to"
    elif error.errno == errno.ENAMETOOLONG:
        remedy = "use a shorter name"
    elif error.errno == errno.EISDIR:
        remedy = "it is a folder: name a file"
    elif error.errno == errno.ENOTDIR:
        remedy = "a part of the path is a file and no folder: check the path"
    else:
        remedy = "check the disk"
    return StorageError(f"{path}: cannot be {doing}: {error.strerror or error}; {remedy}")


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


def check_place(path: str | Path) -> None:
    """Refuses a place where no file can be written, before a long run is for nothing."""
    final = Path(os.path.realpath(arguments.path("the file to write", path)))
    with writing(path):
        if final.exists() and not final.is_file():
            raise ConfigError(f"{path}: exists and is no regular file; choose another name to write to")
        if not final.parent.is_dir():
            raise StorageError(f"{path}: cannot be written: No such file or directory; make the folder {final.parent} first")


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
        self._final = Path(os.path.realpath(arguments.path("the file to write", path)))
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


@contextmanager
def replacing_folder(path: str | Path, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """``with replacing_folder(path, replaceable) as aside``: the folder appears under ``path`` whole, or not at all.

    What is written to ``aside``, a folder beside it, is there under ``path`` at the end. After any error it is removed, and
    what was there before stays. ``replaceable`` says whether a folder that is there may be replaced; an empty one always may.

    Raises:
        ConfigError: something is there that may not be replaced.
        StorageError: the place cannot be written; refusals inside the block that name ``aside`` name ``path`` instead.
    """
    final = Path(os.path.realpath(path))
    check_folder_place(path, replaceable)
    aside, old = (final.with_name(f".{final.name}.{secrets.token_hex(4)}.{end}") for end in ("part", "old"))
    try:
        with writing(path):
            aside.mkdir()
        yield aside
        with writing(path):
            _sync_folder(aside)
            if final.exists():
                os.replace(final, old)
            try:
                os.replace(aside, final)
            except BaseException:
                if old.exists():
                    os.replace(old, final)
                raise
            _sync_folder(final.parent)
    except StorageError as error:
        if str(aside) not in str(error):
            raise
        raise StorageError(str(error).replace(str(aside), str(path))) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_folder_place(path: str | Path, replaceable: Callable[[Path], bool]) -> None:
    """Refuses what ``replacing_folder`` will refuse, before a long run is for nothing."""
    final = Path(os.path.realpath(arguments.path("the folder to write", path)))
    with writing(path):
        if not final.parent.is_dir():
            raise StorageError(f"{path}: cannot be written: No such file or directory; make the folder {final.parent} first")
        if not final.exists() or (final.is_dir() and not any(final.iterdir())):
            return
    if not replaceable(final):
        raise ConfigError(f"{path}: is there already; choose another name, or remove it first")


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
