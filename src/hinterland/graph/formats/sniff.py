"""Which format a file has, by its content; its ending is asked only where two formats look alike, or none fits."""

from __future__ import annotations

import os

from ...runtime.errors import FormatError, StorageError
from . import bel, gap, gr, hl, mtx
from .arrays import MAGIC as NPY_MAGIC
from .files import GZIP_MAGIC, open_text, read_head

_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_HEAD = 1 << 16
_TEXT_FORMATS = ("mtx", "edges", "gr")


def sniff(path: str, by_name: str | None) -> str:
    """The format's name; ``by_name`` is the one that the ending suggests."""
    if os.path.isdir(path):
        return "ogb"  # whose reader says what is missing if it is none
    if bel.matches(path):
        return "bel"
    if by_name == "bel" and not os.path.exists(path):
        raise StorageError(f"{path}: cannot be read: {path}.col does not exist; check the path")
    head = read_head(path, _HEAD)
    if not head:
        raise FormatError(f"{path}: the file is empty")
    if hl.matches(head):
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
    if _is_text(head):
        return _text_format(head)
    if by_name is not None and by_name not in _TEXT_FORMATS:
        return by_name  # whose reader says what is wrong with it
    start = head[:8].hex(" ")
    raise FormatError(f"{path}: the content (it begins with {start}) is of no graph format that is read here")


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
