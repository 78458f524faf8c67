"""How much host memory can still be had.

Asked before anything is allocated: a machine that swaps, or kills the process, is worse than an exception.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ..machine import machine_kind
from ..runtime.errors import OutOfMemory
from ..runtime.files import refused
from ..runtime.thresholds import KEPT_SHARE
from ..runtime.units import format_bytes, parse_bytes

_UNLIMITED = 1 << 60  # what version 1 control groups say when there is no limit is near 2^63

_returning: ContextVar[int] = ContextVar("returning", default=0)


@contextmanager
def returning(nbytes: int) -> Iterator[None]:
    """Counts ``nbytes`` that the caller holds as free: it gives them back while it fills what is asked for here."""
    token = _returning.set(nbytes)
    try:
        yield
    finally:
        _returning.reset(token)


def host_memory(held: int) -> tuple[int, str]:
    """Bytes that this process may still allocate, and whose figure that is. ``held``: what this library holds."""
    setting = os.environ.get("HINTERLAND_HOST_MEMORY")
    if setting:
        return max(0, parse_bytes(setting) - held), "HINTERLAND_HOST_MEMORY"
    free, source = _control_group(), "the control group's memory limit"
    if free is None or not machine_kind().is_virtual:
        available = meminfo("MemAvailable")
        if free is None or available < free:
            free, source = available, "the system's available memory"
    free += _returning.get()
    return max(0, free - free // KEPT_SHARE), source


def require_host_memory(asked: int, held: int) -> None:
    """Raises OutOfMemory unless ``asked`` bytes of host memory can be had."""
    free, source = host_memory(held)
    if asked > free:
        raise OutOfMemory(
            f"{format_bytes(asked)} of host memory asked for, but {format_bytes(free)} can be had by {source}"
            f" ({format_bytes(held)} is held by tensors of this library); release some (hinterland.memory.report() "
            "lists them), use a smaller table or type, or set HINTERLAND_HOST_MEMORY if the figure is wrong"
        )


def _control_group() -> int | None:
    """Bytes left below the tightest memory limit of this process's control groups; None where none is set.

    Of a virtual machine it says more than the system's free memory does: such a machine may be given its memory as it is
    touched.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            left += _limits(Path("/sys/fs/cgroup"), path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup/memory")
            left += _limits(root, path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    return min(left, default=None)


def _limits(root: Path, path: str, limit_name: str, usage_name: str, cache_name: str) -> list[int]:
    """What is left below each limit from the process's own group up to the root."""
    left = []
    group = root / path.lstrip("/")
    while group == root or root in group.parents:
        try:
            limit = int((group / limit_name).read_text())
            if limit < _UNLIMITED:
                usage = int((group / usage_name).read_text())
                stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                left.append(max(0, limit - usage + int(stat.get(cache_name, 0))))
        except (OSError, ValueError):
            pass  # no limit here ("max"), or a group that this process cannot see
        group = group.parent
    return left


def meminfo(name: str) -> int:
    """Bytes that the system reports under ``name``, for example ``MemTotal``; larger than any memory if it has no such line.

    Raises:
        StorageError: it cannot be asked: no descriptor is left.
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError as error:
        raise refused("/proc/meminfo", "read", error) from error
    for line in lines:
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return _UNLIMITED
