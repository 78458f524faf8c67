"""Warnings that point at the caller's line, each once."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"
_told: set[str] = set()


def warn_once(about: str, message: str) -> None:
    """Warns of ``message``, unless this process has been warned about ``about`` before."""
    if about not in _told:
        _told.add(about)
        warnings.warn(message, stacklevel=_depth())


def _depth() -> int:
    """How far up the first frame is that is not of this package, as warn() counts from :func:`warn_once`."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        depth, frame = depth + 1, frame.f_back
    return depth
