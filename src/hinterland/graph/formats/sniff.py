"""Which format a file has: the one that its ending names, which its content may not contradict, or else that of its content."""

from __future__ import annotations

import os

from ...runtime.errors import FormatError, StorageError
from ...storage import hl as ours
from . import bel, gap, gr, mtx
from .arrays import MAGIC as NPY_MAGIC
from .files import GZIP_MAGIC, open_text, read_head

_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_HEAD = 1 << 16  # bytes of text that are looked at: chosen, not measured


def sniff(path: str, by_name: str | None) -> str:
    """The format's name; ``by_name`` is the one that the ending names.

    Only an edge list's ending says nothing: texts of all kinds are called .txt.

    Raises:
        FormatError: the content is surely of another format than the ending says, or of none that is known here.
    """
    if os.path.isdir(path):
        return "ogb"  # whose reader says what is missing if it is none
    if bel.matches(path):
        return "bel"
    if by_name == "bel" and not os.path.exists(path):
        raise StorageError(f"{path}: cannot be read: {path}.col does not exist; check the path")
    head = read_head(path, _HEAD)
    if not head:
        raise FormatError(f"{path}: the file is empty")
    kind = _by_content(head, path)
    if by_name in (None, "edges"):
        if kind is not None:
            return kind
        start = head[:8].hex(" ")
        raise FormatError(f"{path}: the content (it begins with {start}) is of no graph format that is read here")
    if kind not in (by_name, "edges", None):
        raise FormatError(
            f"{path}: its ending says {by_name!r}, but its content {kind!r}; rename it, or say format={kind!r} if the content "
            "is right"
        )
    return by_name  # whose reader says what is wrong with it


def _by_content(head: bytes, path: str) -> str | None:
    """The format that the content has: "edges" for any text that has no other, None for bytes that are of none."""
    if ours.matches(head):
        return "hl"
    if head.startswith(_ZIP_MAGICS):
        return "npz"
    if head.startswith(NPY_MAGIC):
        return "npy"
    if kind := gap.matches(head, path):
        return kind
    if head.startswith(GZIP_MAGIC):
        with open_text(path)[0] as text:
            head = text.read(_HEAD)
    return _text_format(head) if _is_text(head) else None


def _is_text(head: bytes) -> bool:
    return not head.translate(None, bytes(range(32, 256)) + b"\t\n\r\f")


def _text_format(head: bytes) -> str:
    head = head.removeprefix(b"\xef\xbb\xbf")
    if mtx.matches(head):
        return "mtx"
    for line in head.splitlines():
        words = line.split()
        if not words or words[0] == b"c":
            continue
        return "gr" if gr.matches(line) else "edges"
    return "gr" if head.lstrip().startswith(b"c") else "edges"
