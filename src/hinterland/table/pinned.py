"""Rows of a table on storage that stay in memory."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from .. import _core
from ..runtime.repr import Repr
from .table import Table


class Pinned(Repr):
    """Pages of a ``StorageArray`` that stay in its cache: what ``StorageArray.pin`` returns, and a context manager.

    Attributes:
        array: the table.
    """

    def __init__(self, array: Table, native: _core.PinnedPages) -> None:
        self.array, self._native = array, native

    @property
    def pages(self) -> int:
        """Pages that stay; 0 once they were unpinned."""
        return self._native.pages

    @property
    def left_out(self) -> int:
        """Pages of its rows for which there was no room among those that stay: they come and go as others do."""
        return self._native.left_out

    def unpin(self) -> None:
        """Lets the pages come and go as others do; once is enough."""
        self._native.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.unpin()

    def _facts(self) -> dict[str, Any]:
        return {"pages": self.pages, "left out": self.left_out}
