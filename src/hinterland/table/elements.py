"""What torch's indexing gives of a table in host memory, and writes to it: over the same bytes."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from ..memory.copies import copy
from ..runtime.errors import ConfigError, IndexOutOfRange
from .indexing import device_of, is_rows, parts_of, rows_of
from .rows import expanded

# Types of as many bytes, which torch's functions all know.
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Host(Protocol):
    """A UnifiedTensor, as far as it matters here."""

    @property
    def shape(self) -> torch.Size: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def requires_grad(self) -> bool: ...

    def to(self, device: torch.device) -> torch.Tensor: ...

    def scatter_(self, index: torch.Tensor, rows: torch.Tensor) -> Any: ...

    def _apart(self, given: torch.Tensor) -> torch.Tensor:
        """``given``, or a copy where it lies in the table's own memory."""

    def __getitem__(self, index: Any) -> torch.Tensor: ...


def read(table: Host, index: Any) -> torch.Tensor:
    """``table[index]``, of an index that is no tensor of row numbers."""
    parts = parts_of(index, table.shape)
    if is_rows(parts):
        return table[rows_of(parts[0])]
    try:
        return table.to(device_of(parts))[tuple(parts)]
    except IndexError as error:  # all parts are within the table
        raise _do_not_fit(error) from None


def write(table: Host, index: Any, value: Any) -> None:
    """``table[index] = value``."""
    parts = parts_of(index, table.shape)
    if table.requires_grad and torch.is_grad_enabled():
        raise ConfigError("rows of a table that requires grad are written under torch.no_grad(), as those of any leaf are")
    whole = table.to(device_of(parts)).detach()
    if is_rows(parts):
        rows = rows_of(parts[0])
        given = expanded(value, rows.shape + table.shape[1:], table.dtype, rows.device)
        table.scatter_(rows, table._apart(given))
    elif any(isinstance(part, torch.Tensor | bool) for part in parts):
        _put(whole, parts, table._apart(expanded(value, None, table.dtype, whole.device)))
    else:
        part = whole[tuple(parts)]
        given = table._apart(expanded(value, part.shape, table.dtype))
        copy(part, given if part.is_contiguous() else given.cpu())


def _put(whole: torch.Tensor, parts: list[Any], given: torch.Tensor) -> None:
    """As words, since torch does not put elements of every type in places."""
    word = WORDS.get(whole.itemsize, whole.dtype)
    try:
        whole.view(word)[tuple(parts)] = given.resolve_conj().resolve_neg().contiguous().view(word)
    except IndexError as error:
        raise _do_not_fit(error) from None
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"what is written has another shape than what is selected: {error}") from None
    if whole.is_cuda:  # as scatter_ waits: the CPU may read it next
        torch.cuda.current_stream(whole.device).synchronize()


def _do_not_fit(error: IndexError) -> IndexOutOfRange:
    return IndexOutOfRange(f"parts of the index have shapes that do not go together: {error}")
