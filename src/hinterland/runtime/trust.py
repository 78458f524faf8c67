"""Whose files are trusted as our own, and whose links are followed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from .errors import StorageError

_MOST_LINKS = 40  # as the system has it


def is_ours(info: os.stat_result) -> bool:
    """Whether nobody but us and root could have written a file, or into a folder."""
    return info.st_uid in (0, os.geteuid()) and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def followed(path: str | os.PathLike[str]) -> Path:
    """The place that ``path`` leads to through its links, as ``os.path.realpath`` finds it. Nothing needs to be there.

    In a folder where everybody may write (sticky, as /tmp) another user's link is not followed: whoever writes there would
    write where that user wants. This is the kernel's rule for opening a file (protected_symlinks), which knows nothing of
    names that are looked up first and used later.

    Raises:
        StorageError: another user's link in such a folder, or links in a loop.
    """
    at, links = os.path.sep, 0
    todo = os.path.join(os.getcwd(), path).split(os.path.sep)[::-1]
    while todo:
        name = todo.pop()
        if name == os.pardir:
            at = os.path.dirname(at)
        elif name not in ("", os.curdir):
            at = os.path.join(at, name)
            target = _target(path, at)
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise StorageError(f"{path}: {os.strerror(errno.ELOOP)}; correct the link {at}")
                at = os.path.sep if target.startswith(os.path.sep) else os.path.dirname(at)
                todo += target.split(os.path.sep)[::-1]
    return Path(at)


def _target(path: str | os.PathLike[str], at: str) -> str | None:
    """Where the link ``at`` points to; None where there is no link."""
    try:
        info = os.lstat(at)
        if not stat.S_ISLNK(info.st_mode):
            return None
        folder = os.lstat(os.path.dirname(at))
        target = os.readlink(at)
    except OSError:
        return None
    everybody = stat.S_ISVTX | stat.S_IWOTH
    if folder.st_mode & everybody == everybody and info.st_uid not in (os.geteuid(), folder.st_uid):
        raise StorageError(
            f"{path}: leads through {at}, a link that another user (number {info.st_uid}) put into a folder where everybody "
            f"may; it is not followed: write elsewhere, or name {target} itself"
        )
    return target
