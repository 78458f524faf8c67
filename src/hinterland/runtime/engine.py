"""By what files on storage are read: io_uring, or threads where there is none."""

from __future__ import annotations

from .. import _core
from .warned import warn_once


def why_threads() -> str:
    """A sentence, with the remedy, where there is no io_uring; empty where there is."""
    refused = _core.uring_refusal()
    return (
        f"files on storage are read by threads, which takes more of the processor, and not by io_uring: {refused}"
        if refused
        else ""
    )


def warn_of_threads() -> None:
    """Warns once in a process where files are read by threads though nobody asked for them."""
    if why := why_threads():
        warn_once("io_uring", why)
