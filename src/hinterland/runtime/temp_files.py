"""Where the next content of a file or folder is written: beside it, under a name that no other writer has.

What is there is locked (flock) for as long as its writer lives, whatever ends it. So the next writer of the same file can tell
what a killed one left, and removes it. A folder's lock is a file in it, the mark. A folder without a mark is nobody's to
remove: it may hold what was found under the final name.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from .signals import deferred

MARK = ".hinterland-writes-here"

_made: set[Path] = set()  # by this process, and not removed yet


def file_beside(final: Path, mode: int) -> tuple[Path, int]:
    """An empty file beside ``final`` and its handle, which holds the lock."""
    _remove_abandoned(final)
    while True:
        temp = name_beside(final, "part")
        _made.add(temp)
        handle = _locked(temp, mode)
        if handle is not None:
            return temp, handle


def folder_beside(final: Path, mode: int) -> tuple[Path, int]:
    """A folder beside ``final`` with nothing but the mark, and the mark's handle, which holds the lock."""
    _remove_abandoned(final)
    while True:
        temp = name_beside(final, "part")
        _made.add(temp)
        temp.mkdir(mode)
        handle = _locked(temp / MARK, 0o666)
        if handle is not None:
            return temp, handle


def name_beside(final: Path, ending: str) -> Path:
    """A hidden name in the same folder."""
    return final.with_name(f".{final.name}.{secrets.token_hex(4)}.{ending}")


def remove(temp: Path) -> None:
    """Removes a file or folder that is this process's to remove, if it is there."""
    if temp in _made:
        _delete(temp)
        _made.discard(temp)


def take(path: Path) -> None:
    """From now on ``path`` is this process's to remove."""
    _made.add(path)


def keep(path: Path) -> None:
    """From now on ``path`` is not this process's to remove."""
    _made.discard(path)


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder
        shutil.rmtree(path, ignore_errors=True)


def _locked(path: Path, mode: int) -> int | None:
    """A new file's handle with its lock; None if another writer took the file for abandoned before it was locked."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    with suppress(OSError):  # a file system without locks, where nobody else gets one either
        fcntl.flock(handle, fcntl.LOCK_EX)
    if os.fstat(handle).st_nlink:
        return handle
    os.close(handle)
    return None


def _remove_abandoned(final: Path) -> None:
    """Removes what killed writers of ``final`` left beside it."""
    pattern = re.compile(rf"\.{re.escape(final.name)}\.[0-9a-f]{{8}}\.part")
    try:
        left = [final.with_name(name) for name in os.listdir(final.parent) if pattern.fullmatch(name)]
    except OSError:
        return  # a folder where we may write, but not look
    for temp in left:
        try:
            info = os.lstat(temp)
            if info.st_uid != os.geteuid():
                continue
            lock = temp / MARK if stat.S_ISDIR(info.st_mode) else temp
            handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its writer lives
        else:
            _delete(temp)
        finally:
            os.close(handle)


@atexit.register
def remove_all() -> None:
    """Removes what this process has not finished: a signal at the wrong moment may keep a ``with`` block from doing so."""
    with deferred():
        for temp in list(_made):
            remove(temp)


os.register_at_fork(after_in_child=_made.clear)
