"""Warnings that point at the caller's line."""

from __future__ import annotations

import sys
import warnings

_BETWEEN = ("hinterland", "torch", "torch_geometric")  # packages that call one another; the caller is above them
_told: set[str] = set()


def warn_once(about: str, message: str) -> None:
    """Warns of ``message``, unless this process has been warned about ``about`` before."""
    if about not in _told:
        _told.add(about)
        warn(message)


def warn(message: str) -> None:
    """Warns of ``message`` each time; Python shows it once for each line of the caller's."""
    warnings.warn(message, stacklevel=_depth())


def _depth() -> int:
    """How far up the first frame is of none of these packages, as warnings.warn() counts from :func:`warn`."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        depth, frame = depth + 1, frame.f_back
    return depth
