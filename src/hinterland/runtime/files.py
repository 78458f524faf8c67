"""Files that appear whole or not at all, and refusals of the system as sentences."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import torch

from .. import _core
from . import arguments, temp_files
from .errors import ConfigError, StorageError
from .signals import deferred
from .trust import followed

# A file system that gives no file a second name.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NONE_LEFT = (errno.EMFILE, errno.ENFILE)  # the process, or the system, may open no more files


def refused(path: str | Path, doing: str, error: OSError) -> StorageError:
    """The operating system's refusal in a sentence."""
    if error.errno in _FULL:
        remedy = "the disk or the quota is full: free space or write elsewhere; nothing was left under this name"
    elif error.errno in NONE_LEFT:
        remedy = "close some, or raise the limit (ulimit -n)"
    elif error.errno == errno.ENOMEM:
        remedy = "the system has no memory for it: end other programs, or raise the limit (ulimit -v)"
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


def refusal(path: str | Path, error: Exception) -> StorageError | None:
    """The operating system's refusal to let a library read a file, where that is what ``error`` of the library means; None
    where the content is wrong."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # a place before the file's begin is content
        return refused(path, "read", error)
    if (words := os.strerror(errno.EMFILE)) in str(error):  # of torch's reader, which has no numbers
        return refused(path, "read", OSError(errno.EMFILE, words))
    return None


@contextmanager
def opening(what: str | Path, doing: str) -> Iterator[None]:
    """Turns an OSError of what opens files into a StorageError that says for what."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        if (words := os.strerror(errno.EMFILE)) in str(error):  # the system's loader of libraries has no numbers
            error = OSError(errno.EMFILE, words)
        raise refused(what, doing, error) from error


def why_unsafe(error: Exception) -> str:
    """What torch's safe reader says of a file, without its advice to run what the file asks for."""
    text = " ".join(str(error).split())
    if unknown := re.search(r"nsupported (?:\w+: )?GLOBAL (\S+)", text):
        return f"it holds {unknown[1]}, which is neither a number, a tensor nor an array"
    inner = re.search(r"WeightsUnpickler error: (.{1,200})", text)
    return f"{type(error).__name__}: {(inner[1] if inner else text)[:200]}"


class Output:
    """A file being written beside its final place. Every refused write is a StorageError that names the final file.

    ``file`` is for libraries that write to a file object; wrap their calls in ``writing``.
    """

    def __init__(self, final: Path, temp: Path, file: Any) -> None:
        self.final, self.temp, self.file = final, temp, file

    def write(self, content: Any) -> None:
        """Appends bytes."""
        try:
            self.file.write(content)
        except OSError as error:
            raise refused(self.final, "written", error) from error

    def write_tensor(self, tensor: torch.Tensor, offset: int) -> None:
        """Writes a contiguous CPU tensor's bytes at ``offset``, by several threads."""
        try:
            _core.write_file(str(self.temp), offset, tensor.data_ptr(), tensor.numel() * tensor.element_size())
        except StorageError as error:
            code = error.errno or errno.EIO
            raise refused(self.final, "written", OSError(code, os.strerror(code))) from error

    def resize(self, size: int) -> None:
        """Gives the file exactly ``size`` bytes; what was not written reads as zeros."""
        with writing(self.final):
            os.truncate(self.temp, size)

    def sync(self) -> None:
        """Waits until what was written lies on the disk."""
        with writing(self.final):
            os.fsync(self.file.fileno())


def check_place(path: str | Path) -> None:
    """Refuses a place where no file can be written, before a long run is for nothing."""
    final = _file_place(path)
    with writing(path):
        if not final.parent.is_dir():
            raise StorageError(f"{path}: cannot be written: No such file or directory; make the folder {final.parent} first")
        if not os.access(final.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _file_place(path: str | Path) -> Path:
    """Where a file of this name is written. A link keeps pointing where it did: its target is what is replaced."""
    with writing(path):
        final = followed(arguments.path("the file to write", path))
        try:  # one look: others may be making it
            regular = stat.S_ISREG(final.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            regular = True
    if not regular:
        raise ConfigError(f"{path}: exists and is no regular file; choose another name to write to")
    return final


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

    Written under another name in the same folder (:mod:`.temp_files`), synced, then renamed. After any error, Ctrl-C included,
    the temporary file is removed; what a killed process left is removed by the next that writes the same file.

    Args:
        path: the file. Links are followed, but for those of other users in folders where everybody may write.
        mode: the permissions, of which the process's umask takes away. None: those of the file that is replaced, or 0o666 of
            a new one.
        new: the file must not be there, neither before nor at the end. The text is a remedy, which ends the refusal.
    """

    def __init__(self, path: str | Path, mode: int | None = None, new: str | None = None) -> None:
        self._final, self._mode, self._new = _file_place(path), mode, new
        self._temp: Path | None = None
        self._file: Any = None
        self._before: os.stat_result | None = None  # of the file whose permissions are kept

    def __enter__(self) -> Output:
        try:
            self._require_nothing_there()
            with writing(self._final), deferred():
                self._before = _found(self._final) if self._mode is None else None
                self._temp, handle = temp_files.file_beside(self._final, _meanwhile(self._before, self._mode or 0o666))
                self._file = os.fdopen(handle, "w+b", buffering=0)
        except BaseException:
            self._discard()
            raise
        return Output(self._final, self._temp, _Whole(self._file))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                assert self._temp is not None
                with writing(self._final):
                    _keep_permissions(self._before, self._temp)
                    os.fsync(self._file.fileno())
                    self._appear(self._temp)
                    _sync_folder(self._final.parent)
        finally:
            self._discard()

    def _appear(self, temp: Path) -> None:
        """Gives the file its name."""
        if self._new is not None:
            try:
                os.link(temp, self._final)  # unlike a rename, it takes no other file's name
                return
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise self._is_there() if error.errno == errno.EEXIST else error from None
            self._require_nothing_there()
        os.replace(temp, self._final)

    def _require_nothing_there(self) -> None:
        if self._new is not None and os.path.lexists(self._final):
            raise self._is_there()

    def _is_there(self) -> StorageError:
        return StorageError(f"{self._final}: is there already; choose another name, or {self._new}")

    def _discard(self) -> None:
        """Ends the writing: the temporary file goes, if it is there still."""
        with deferred():
            if self._temp is not None:
                temp_files.remove(self._temp)
            if self._file is not None:
                self._file.close()


@contextmanager
def replacing_all(
    paths: Sequence[str | Path], unwanted: Sequence[str | Path] = (), new: str | None = None
) -> Iterator[list[Output]]:
    """``with replacing_all(paths) as outputs``: files that belong together, all of them on the disk before the first appears.

    They appear in the order of ``paths``; then the files ``unwanted`` go. A failure before leaves what was there. Ctrl-C waits
    for the last, so that only the end of the process or a refused rename leaves some of them. ``new``: as of ``replacing``.
    """
    with ExitStack() as stack:
        # The stack leaves the last first.
        outputs = [stack.enter_context(replacing(path, new=new)) for path in reversed(paths)][::-1]
        yield outputs
        for output in outputs:
            output.sync()
        with deferred():
            stack.close()
            for path in unwanted:
                with writing(path):
                    Path(path).unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """``with replacing_folder(path, replaceable) as temp``: the folder appears under ``path`` whole, or not at all, with the
    permissions of the one that it replaces.

    What is written to ``temp``, a folder beside it, is there under ``path`` at the end. After any error it is removed, and
    what was there before stays. ``replaceable`` says whether a folder that is there may be replaced; an empty one always may.
    It is asked before and once more about what was found in the folder's place at the end: meanwhile somebody may have made it
    or filled it.

    Raises:
        ConfigError: something is there that may not be replaced.
        StorageError: the place cannot be written; refusals inside the block that name ``temp`` name ``path`` instead.
    """
    check_folder_place(path, replaceable)
    final = followed(path)
    temp: Path | None = None
    lock: int | None = None
    try:
        with writing(path), deferred():
            before = _found(final)
            temp, lock = temp_files.folder_beside(final, _meanwhile(before, 0o777))
        try:
            yield temp
        except StorageError as error:
            if str(temp) not in str(error):
                raise
            raise StorageError(str(error).replace(str(temp), str(path))) from error
        with writing(path):
            _keep_permissions(before, temp)
            _sync_folder(temp)
            with deferred():
                (temp / temp_files.MARK).unlink()
                temp = _put_in_place(temp, final, partial(_check_replaceable, path, replaceable))
            _sync_folder(final.parent)
    finally:
        with deferred():
            if temp is not None:
                temp_files.remove(temp)
            if lock is not None:
                os.close(lock)


def _found(final: Path) -> os.stat_result | None:
    """What is there under this name, if something is."""
    with suppress(FileNotFoundError):
        return os.stat(final)
    return None


def _meanwhile(before: os.stat_result | None, mode: int) -> int:
    """The permissions of what is being written: nobody sees it who did not see what it replaces."""
    return mode if before is None else stat.S_IMODE(before.st_mode) & 0o777 | 0o600 | mode & 0o100


def _keep_permissions(before: os.stat_result | None, temp: Path) -> None:
    """Gives ``temp`` the owner, the group and the permissions of what it replaces, as far as the system lets this process."""
    if before is None:
        return
    mode = stat.S_IMODE(before.st_mode) & 0o777
    for owner in (before.st_uid, -1):
        with suppress(OSError):
            os.chown(temp, owner, before.st_gid)
            break
    else:  # another group: it may do what everybody may
        mode = mode & 0o707 | mode << 3 & 0o070
    with suppress(OSError):
        os.chmod(temp, mode)


def _put_in_place(temp: Path, final: Path, check: Callable[[Path], None]) -> Path:
    """Renames a folder to ``final``. Returns where the folder is now that was there, if there was one: it may be removed.

    ``check`` raises for a folder that may not be replaced; it keeps its place. Nothing is removed here.
    """
    try:
        os.rename(temp, final)  # an empty folder gives way, nothing else does
        return temp
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    check(final)
    code = _core.exchange(str(temp), str(final))
    if code == 0:
        try:
            check(temp)
        except BaseException as error:
            if _core.exchange(str(temp), str(final)):
                temp_files.keep(temp)
                raise StorageError(f"{final}: changed while it was replaced; what was there before is in {temp}") from error
            raise
        with suppress(OSError):  # if this process is killed now, the next writer removes it
            (temp / temp_files.MARK).touch()
        return temp
    if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise OSError(code, os.strerror(code))
    # A file system that cannot exchange two names: for a moment there is nothing under this one.
    old = temp_files.name_beside(final, "old")
    os.rename(final, old)
    try:
        check(old)
        os.rename(temp, final)
    except BaseException:
        try:
            os.rename(old, final)
        except OSError as error:
            raise StorageError(f"{final}: changed while it was replaced; what was there before is in {old}") from error
        raise
    temp_files.take(old)
    return old


def check_folder_place(path: str | Path, replaceable: Callable[[Path], bool]) -> None:
    """Refuses what ``replacing_folder`` will refuse, before a long run is for nothing."""
    with writing(path):
        final = followed(arguments.path("the folder to write", path))
        if not final.parent.is_dir():
            raise StorageError(f"{path}: cannot be written: No such file or directory; make the folder {final.parent} first")
        if final.exists():
            _check_replaceable(path, replaceable, final)


def _check_replaceable(path: str | Path, replaceable: Callable[[Path], bool], folder: Path) -> None:
    """Refuses a folder that may not be replaced; ``path``: the name that the caller gave it."""
    try:
        may = (folder.is_dir() and not any(folder.iterdir())) or replaceable(folder)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(folder), str(path))) from None
    if not may:
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

    def fileno(self) -> int:
        return self._file.fileno()

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
