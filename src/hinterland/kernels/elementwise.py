"""Functions of elements over arrays wherever they lie: ``hl.map`` and ``hl.filter``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.shown import type_name
from ..table import Table, as_table
from ..table.rows import room_for
from . import text
from .arguments import device_of
from .kernel import Kernel
from .text import Written
from .traced import TYPES, Value, trace

Array = torch.Tensor | Table
_PIECE = 1 << 26  # rows whose answers a filter has in memory at a time, a byte each


@dataclass(frozen=True)
class Inputs:
    """The arrays of a call.

    Attributes:
        arrays: themselves.
        rows: of each.
        width: elements of a row, of the array that has the most.
        device: where the kernel runs.
    """

    arrays: tuple[Array, ...]
    rows: int
    width: int
    device: torch.device

    @classmethod
    def of(cls, name: str, arrays: Sequence[Any], device: Any, out: Any = None) -> Inputs:
        """Those of a call.

        Raises:
            ConfigError: none, one that is no array or has a type that is not read, or of another length than the others.
        """
        if not arrays:
            raise ConfigError(f"{name} takes a function, and then the arrays whose elements it is called with; there are none")
        for i, array in enumerate(arrays):
            _require_array(f"{name}: array_{i}", array)
        lengths = [int(array.shape[0]) for array in arrays]
        if len(set(lengths)) > 1:
            raise ConfigError(
                f"{name}: the arrays have {', '.join(str(one) for one in lengths)} rows; pass arrays of one length"
            )
        width = max(math.prod(array.shape[1:]) for array in arrays)
        return cls(tuple(arrays), lengths[0], width, device_of(name, [*arrays, out], device))

    @property
    def dtypes(self) -> list[torch.dtype]:
        return [array.dtype for array in self.arrays]

    def trace(self, name: str, function: Callable[..., Any]) -> Value:
        """What the function makes of them."""
        return trace(name, function, self.dtypes, [tuple(array.shape[1:]) for array in self.arrays])

    def values(self, value: Value) -> int:
        """How many the function gives."""
        return self.rows * (math.prod(value.shape) if value.shape else 1)


def map(function: Callable[..., Any], *arrays: Array, out: Array | None = None, device: Any = None) -> Any:
    """``function`` of the elements of arrays, wherever these lie, as one kernel: a value for each element, or for each row::

        c = hl.map(lambda a, b: torch.sqrt(a * a + b * b), a, b)
        lengths = hl.map(lambda row: (row * row).sum().sqrt(), table)      # [n, d] gives [n]

    The function is called once, as ``torch.vmap`` would call it, with what stands for an element of each array in one
    dimension, and for a row of each that has more. It may use:

    - ``+ - * / // % **``, comparisons, ``& | ^ ~ << >>``; numbers, and tensors without dimensions, whose values it takes now;
    - of torch, as functions or as methods: abs, acos, asin, atan, ceil, clamp, cos, exp, exp2, expm1, floor, fmod, isfinite,
      isinf, isnan, log, log10, log1p, log2, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, pow,
      reciprocal, relu, remainder, round, rsqrt, sigmoid, sign, sin, sqrt, square, tan, tanh, trunc, where, and the operators
      by their names;
    - ``.to(dtype)``, ``.double()``, ``.float()``, ``.long()``, ``.int()``, ``.bool()`` and their like;
    - of a row: ``row[3]``, ``len(row)``, and sum, mean, amax, amin, max, min, any and all of the whole row, which give one
      value.

    Types are torch's: what it would promote is promoted. Sums, products and quotients of floats are those of torch on the CPU
    to the bit, since each is rounded by itself; square roots are the nearest numbers, and exp and its like differ from torch's
    by a few units in the last place. A row's sum and mean of floats are computed in float64, in an order that depends on the
    row's length alone, and rounded once. Whole numbers wrap around as in torch; divided by zero they give 0. What else torch
    leaves open, docs/kernels.md says.

    Args:
        function: of as many arguments as there are arrays.
        arrays: tensors, UnifiedTensors, TieredTensors, CachedTensors or StorageArrays, of one length: bool, uint8, int8, int16,
            int32, int64, float32 or float64.
        out: a tensor or UnifiedTensor for the values; None makes a tensor where the kernel runs. It may be one of the arrays.
        device: where the kernel runs, if no tensor says so; None is the current GPU, or the CPU without one.

    Returns:
        ``out``: ``[n]`` where the function gives one value for a row, else ``[n, ...]`` as the arrays.

    Raises:
        ConfigError: the function does what no kernel can, or arrays, ``out`` and the function do not fit.
        DeviceError: the GPU refuses; or there is no GPU, and no C++ compiler either.
        StorageError: what lies on storage could not be read.
    """
    given = Inputs.of("map", arrays, device, out)
    value = given.trace("map", function)
    shape = torch.Size((given.rows, *value.shape))
    if out is None:
        out = room_for(shape, value.dtype, given.device)
    else:
        _require_out(out, value, shape, given)
    if given.values(value):
        with prepared(given, text.map_text(value, given.dtypes, given.width)) as run:
            run([out], 0, given.rows if "fold" in value.passes else given.values(value))
    return out


def filter(function: Callable[..., Any], *arrays: Array, device: Any = None) -> torch.Tensor:
    """The numbers of the rows for which ``function`` holds, in order, as ``torch.nonzero`` gives them::

        hits = hl.filter(lambda distance, fare: (distance > 30) & (fare < 10), distance, fare)

    Args:
        function: as of :func:`map`; it gives a bool for each row, as ``row[3] > 30`` or ``(row > 0).all()`` does.
        arrays, device: as of :func:`map`.

    Returns:
        int64 ``[k]``, where the kernel runs. The call waits for it.

    Raises:
        ConfigError: as of :func:`map`; or the function gives something else than a bool for each row.
        DeviceError, StorageError: as of :func:`map`.
    """
    given = Inputs.of("filter", arrays, device)
    value = given.trace("filter", function)
    if value.dtype != torch.bool:
        raise ConfigError(f"filter: the function gives {type_name(value.dtype)}, not bool; compare, as in lambda x: x != 0")
    if value.shape:
        raise ConfigError(
            f"filter: the function gives a bool for each of the {math.prod(value.shape)} elements of a row; end it with .any() "
            "or .all(), or pick one, as row[0]"
        )
    found = [torch.empty(0, dtype=torch.int64, device=given.device)]
    for begin, holds in values_in_pieces(given, value, _PIECE):
        found.append(torch.nonzero(holds).view(-1).add_(begin))
    return torch.cat(found)


def values_in_pieces(given: Inputs, value: Value, piece: int) -> Iterator[tuple[int, torch.Tensor]]:
    """The value of each row, of ``piece`` rows at a time, with the number of the first. What comes next overwrites it."""
    rows = room_for(torch.Size((min(piece, given.rows),)), value.dtype, given.device)
    with prepared(given, text.map_text(value, given.dtypes, given.width)) as run:
        for begin in range(0, given.rows, piece):
            part = rows[: given.rows - begin]
            run([part], begin, len(part))
            yield begin, part


@contextmanager
def prepared(given: Inputs, written: Written) -> Iterator[Callable[[Sequence[Array], int, int], None]]:
    """What runs a kernel over some arrays: into which outs, from which element, row or tile on, and how many."""
    made = _kernel(written.text)

    def run(outs: Sequence[Array], begin: int, count: int) -> None:
        passed = (*given.arrays, *outs, begin, count, *written.constants)
        grid, block = written.launch(count, given.device)
        made(*passed, grid=grid, block=block, device=given.device)

    try:
        yield run
    finally:
        if any(getattr(array, "file", None) is not None for array in given.arrays):
            made.release()


@functools.cache  # a text has the numbers of a function as parameters, and there are few
def _kernel(source: str) -> Kernel:
    return Kernel(source, None, "256MiB", text.OPENING)


def _require_array(what: str, array: Any) -> None:
    if as_table(array) is None:
        if not isinstance(array, torch.Tensor):
            raise ConfigError(
                f"{what} is {arguments.shown(array)}, and must be a tensor or a table; a list becomes one by torch.tensor(...)"
            )
        arguments.dense(what, array)
    if len(array.shape) == 0:
        raise ConfigError(f"{what} has no dimension; the function may use it as it is, as lambda x: x * scale")
    if array.dtype not in TYPES:
        raise ConfigError(
            f"{what} is of {type_name(array.dtype)}, which kernels from Python do not read; they read "
            f"{', '.join(type_name(one) for one in TYPES)}"
        )


def _require_out(out: Any, value: Value, shape: torch.Size, given: Inputs) -> None:
    if (held := _tensor_on(out, given.device)) is None:
        raise ConfigError(f"map: out is {arguments.shown(out)}; kernels write to tensors and UnifiedTensors")
    if isinstance(out, torch.Tensor):
        arguments.dense("map: out", out)
    if out.dtype != value.dtype:
        raise ConfigError(
            f"map: the function gives {type_name(value.dtype)}, and out is of {type_name(out.dtype)}; end the function with "
            f".to(torch.{type_name(out.dtype)})"
        )
    if out.shape != shape:
        raise ConfigError(f"map: out has the shape {tuple(out.shape)}, and the values {tuple(shape)}")
    begin, end = _span(held)
    for i, array in enumerate(given.arrays):
        if (tensor := _tensor_on(array, given.device)) is not None:
            first, last = _span(tensor)
            same = first == begin and array.shape == out.shape and array.dtype == out.dtype and "item" not in value.passes
            if first < end and begin < last and not same:
                raise ConfigError(f"map: out overlaps array_{i}, whose elements are still to be read; write to another tensor")


def _tensor_on(array: Any, device: torch.device) -> torch.Tensor | None:
    """An array as a tensor where it lies in one piece of memory."""
    if isinstance(array, torch.Tensor):
        return array
    table = as_table(array)
    return None if table is None else table.tensor_on(device)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
