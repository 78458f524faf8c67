"""What vertices are called, as ``Graph.labels`` has it, as parsers find it, and as ``.hl`` files hold it.

Integers take 8 bytes each: an ``array.array`` is a sequence of Python's. Texts in files have a line end between two of them.
"""

from __future__ import annotations

import array
from collections.abc import Hashable, Sequence
from numbers import Integral

import numpy as np
import torch

from ...runtime.errors import FormatError


def of_integers(names: np.ndarray) -> Sequence[int]:
    """Labels of int64 or, where some exceed these, of uint64."""
    signed = names.dtype.kind == "i" or not names.size or int(names.max()) <= torch.iinfo(torch.int64).max
    return array.array("q" if signed else "Q", names.astype(np.int64 if signed else np.uint64).tobytes())


def of_texts(path: str, names: bytes, count: int) -> Sequence[str]:
    """Labels of so many texts in UTF-8. Raises FormatError: they are not in UTF-8, or not so many."""
    try:
        labels = names.decode().split("\n") if count else []
    except UnicodeDecodeError as error:
        begin, end = names.rfind(b"\n", 0, error.start) + 1, names.find(b"\n", error.start)
        raise FormatError(
            f"{path}: the name {names[begin : end if end >= 0 else None][:60]!r} is no UTF-8; convert the file, as in iconv -f "
            f"latin1 -t utf-8 {path}"
        ) from None
    if len(labels) != count:
        raise FormatError(f"{path}: {len(labels)} names for {count} vertices; the file is damaged")
    return labels


def stored(labels: Sequence[Hashable] | None) -> torch.Tensor | None:
    """Labels as ``.hl`` holds them: int64 or uint64 ``[V]``, or the bytes of texts. None where there are none, or others."""
    if not labels:
        return None
    kinds = {type(label) for label in labels}
    if all(issubclass(kind, Integral) and kind is not bool for kind in kinds):  # NumPy's are of this kind, too
        values: list[int] = [int(label) for label in labels]  # type: ignore[call-overload]
        low, high = min(values), max(values)
        kind = next((kind for kind in (np.int64, np.uint64) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max), None)
        return None if kind is None else torch.from_numpy(np.array(values, kind))
    if not all(issubclass(kind, str) for kind in kinds):
        return None
    text = "\n".join(labels)  # type: ignore[arg-type]
    try:
        encoded = text.encode() if text.count("\n") == len(labels) - 1 else None
    except UnicodeEncodeError:  # half of a surrogate pair
        encoded = None
    return None if encoded is None else torch.frombuffer(bytearray(encoded or b"\0"), dtype=torch.uint8)[: len(encoded)]


def held(path: str, names: torch.Tensor, count: int) -> Sequence[Hashable]:
    """The labels of ``count`` vertices that an ``.hl`` file holds as ``names``."""
    return of_texts(path, names.numpy().tobytes(), count) if names.dtype == torch.uint8 else of_integers(names.numpy())
