"""``hl.map``, ``hl.filter`` and ``hl.reduce``: names of before, which go away. Their functions are of one element or row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..runtime.warned import warn
from .chunks import Array, Function, filter_chunks, map_chunks
from .reduce import reduce_chunks


def map(function: Function, *arrays: Array, out: Any = None, device: Any = None) -> Any:
    """:func:`map_chunks` of a function of an element of each array, or of a row where it has more dimensions."""
    return map_chunks(_of_chunks("map", function, arrays), *arrays, out=out, device=device)


def filter(function: Function, *arrays: Array, device: Any = None) -> torch.Tensor:
    """:func:`filter_chunks` of a function as :func:`map` takes it."""
    return filter_chunks(_of_chunks("filter", function, arrays), *arrays, device=device)


def reduce(how: str, function: Function, *arrays: Array, device: Any = None) -> torch.Tensor:
    """:func:`reduce_chunks` of a function as :func:`map` takes it."""
    return reduce_chunks(how, _of_chunks("reduce", function, arrays), *arrays, device=device)


def _of_chunks(name: str, function: Any, arrays: Sequence[Any]) -> Any:
    warn(
        f"hl.{name} goes away with the next version; use hl.kernels.{name}_chunks, whose function gets many rows at once: "
        "rows.sum(1) in place of row.sum()"
    )
    has_rows = any(len(getattr(array, "shape", ())) > 1 for array in arrays)
    return torch.vmap(function) if has_rows and callable(function) else function
