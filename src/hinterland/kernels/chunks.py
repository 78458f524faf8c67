"""Functions in Python over arrays wherever they lie, chunk by chunk: ``map_chunks`` and ``filter_chunks``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from ..memory.copies import copied, copy, cuts
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.repr import type_name
from ..runtime.units import parse_bytes
from ..table import Table, as_table
from ..table.row_arguments import overlaps, room_for
from .arguments import device_of
from .compiled import Function, compiled

Array = torch.Tensor | Table
CACHE = "256MiB"
TILE = 4096  # values; a chunk has whole tiles where it has so many rows


@dataclass(frozen=True)
class ChunkedCall:
    """The arrays of a call, and what is made of them.

    Attributes:
        name: what sentences begin with.
        function: the user's.
        arrays: of one length.
        whole: each as a tensor that the device reads where it lies; None of what is gathered.
        rows: of each.
        step: rows of a chunk.
        device: where the function runs.
    """

    name: str
    function: Function
    arrays: tuple[Array, ...]
    whole: tuple[torch.Tensor | None, ...]
    rows: int
    step: int
    device: torch.device

    @classmethod
    def of(cls, name: str, function: Any, arrays: Sequence[Any], cache: int | str, device: Any, out: Any = None) -> ChunkedCall:
        """Those of a call.

        Raises:
            ConfigError: no function or no array, one that is none, or one of another length than the others.
        """
        if not callable(function):
            raise ConfigError(
                f"{name} takes a function first, as lambda rows: rows + 1, and then arrays; not {arguments.repr_of(function)}"
            )
        if not arrays:
            raise ConfigError(f"{name} takes a function, and then the arrays that it is called with; there are none")
        for i, array in enumerate(arrays):
            if as_table(array) is None and arguments.dense(f"{name}: array_{i}", array).dim() == 0:
                raise ConfigError(
                    f"{name}: array_{i} has no dimension; the function may use it as it is, as lambda x: x * scale"
                )
        if len({len(array) for array in arrays}) > 1:
            lengths = ", ".join(str(len(array)) for array in arrays)
            raise ConfigError(f"{name}: the arrays have {lengths} rows; pass arrays of one length")
        row_bytes = sum(math.prod(array.shape[1:]) * array.dtype.itemsize for array in arrays)
        step = max(parse_bytes(cache) // max(row_bytes, 1), 1)
        where = device_of(name, [*arrays, out], device)
        whole = tuple(_tensor_on(array, where) for array in arrays)
        for i, tensor in enumerate(whole):
            if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
                raise ConfigError(f"{name}: array_{i} requires a gradient, and none goes through chunks; pass .detach()")
        return cls(name, function, tuple(arrays), whole, len(arrays[0]), step // TILE * TILE or step, where)

    def values(self, out: torch.Tensor | None = None) -> Iterator[tuple[int, torch.Tensor]]:
        """What the function makes of each chunk, and the number of its first row: of no rows one chunk without any."""
        run, first = self.function, ""
        readers = [self._reader(*both) for both in zip(self.arrays, self.whole, strict=True)]
        for number, (begin, end) in enumerate(pairwise(self._edges(out))):
            run = compiled(run) if number == 1 else run  # one chunk compiles nothing
            try:
                with devices.on(self.device), torch.no_grad():
                    made = run(*(read(begin, end) for read in readers))
            except NotImplementedError as error:
                raise ConfigError(
                    f"{self.name}: torch has no such function of this type: {error}; cast, as x.float()"
                ) from error
            if not _is_dense(made) or made.shape[:1] != (end - begin,) or made.device != self.device:
                raise ConfigError(
                    f"{self.name}: of {end - begin} rows the function gives {arguments.repr_of(made)}, and must give a tensor "
                    f"on {self.device}, dense and with an entry for each row, as rows.sum(1) does"
                )
            kind = f"{type_name(made.dtype)} {list(made.shape[1:])}"
            first = first or kind
            if kind != first:
                raise ConfigError(
                    f"{self.name}: from row {begin} on the function gives {kind} for each row, and gave {first} before; all "
                    "must be alike"
                )
            yield begin, made

    def _edges(self, out: torch.Tensor | None) -> list[int]:
        """Where chunks begin, and where the last one ends. A row in which two mappings meet is a chunk of its own."""
        edges = {0, *range(0, self.rows, self.step)}
        for tensor in (*self.whole, out):
            if tensor is not None:
                row = math.prod(tensor.shape[1:])
                edges |= {edge for at in cuts(tensor) for edge in (at // row, -(-at // row))}
        return [*sorted(edges - {self.rows}), self.rows] if self.rows else [0, 0]

    def _reader(self, array: Any, whole: torch.Tensor | None) -> Callable[[int, int], torch.Tensor]:
        """What gives rows from one number to another, on the device. What it gathers the next call overwrites."""
        if whole is not None:

            def view(begin: int, end: int) -> torch.Tensor:
                part = whole[begin:end].detach()
                return copied(part, self.device) if cuts(part) else part  # what torch copies must be of one mapping

            return view
        room = room_for(torch.Size((min(self.step, self.rows), *array.shape[1:])), array.dtype, self.device)

        def gathered(begin: int, end: int) -> torch.Tensor:
            rows: torch.Tensor = array.gather(torch.arange(begin, end, device=self.device), room[: end - begin])
            if array.file is not None:
                array.prefetch(torch.arange(end, min(end + self.step, self.rows)))
            return rows

        return gathered


def map_chunks(function: Function, *arrays: Array, out: Any = None, cache: int | str = CACHE, device: Any = None) -> Any:
    """``function`` of arrays wherever they lie, chunk by chunk::

        c = hl.kernels.map_chunks(lambda a, b: torch.sqrt(a * a + b * b), a, b)
        lengths = hl.kernels.map_chunks(lambda rows: (rows * rows).sum(1).sqrt(), table)      # [n, d] gives [n]

    The function gets tensors ``[k, ...]`` with the same k rows of each array, and gives a tensor of k rows. It may use all of
    torch. Each row must depend on its own rows alone: how many come together is not promised. No gradient goes through it.

    Rows that the device addresses are read where they lie. Others, of tables in tiers and files, are gathered, and a file's
    next chunk is read meanwhile. The first chunk is computed operation by operation. For others torch.compile makes one kernel,
    which takes seconds the first time, and on a CPU g++; without a compiler all are computed as the first. So are, on a CPU,
    functions that look up by number, as ``prices[codes]`` does.

    Args:
        function: of as many arguments as there are arrays.
        arrays: tensors and tables of one length, of any type.
        out: a tensor or table for the values, and may be one of the arrays; None makes a tensor on the device.
        cache: bytes of a chunk's rows, of all arrays together.
        device: where the function runs, if no tensor says so; None is the current GPU, or the CPU without one.

    Returns:
        ``out``: ``[n, ...]``, where the function gives ``[k, ...]``.

    Raises:
        ConfigError: arrays, ``out`` and what the function gives do not fit.
        StorageError: what lies on storage could not be read or written.
    """
    if out is not None and as_table(out) is None and not arguments.dense("map_chunks: out", out).is_contiguous():
        raise ConfigError("map_chunks: out does not lie in one piece; pass one that does, and copy it where it shall be")
    chunks = ChunkedCall.of("map_chunks", function, arrays, cache, device, out)
    made = _tensor_on(out, chunks.device)
    for begin, values in chunks.values(made):
        if begin == 0:
            shape = torch.Size((chunks.rows, *values.shape[1:]))
            if out is None:
                out = made = room_for(shape, values.dtype, chunks.device)
            else:
                _require_out(out, made, values.dtype, shape, chunks)
        if made is not None:
            part = made[begin : begin + len(values)]
            copy(part, values.clone() if overlaps(values, part.data_ptr(), part.nbytes) else values)  # as of rows.mT in place
        else:
            out.scatter_(torch.arange(begin, begin + len(values), device=values.device), values)
    return out


def filter_chunks(function: Function, *arrays: Array, cache: int | str = CACHE, device: Any = None) -> torch.Tensor:
    """The numbers of the rows for which ``function`` holds, in order, as ``torch.nonzero`` gives them::

        hits = hl.kernels.filter_chunks(lambda distance, fare: (distance > 30) & (fare < 10), distance, fare)

    Args:
        function: as of :func:`map_chunks`; it gives a bool for each row, as ``rows[:, 3] > 30`` or ``(rows > 0).all(1)`` does.
        arrays, cache, device: as of :func:`map_chunks`.

    Returns:
        int64 ``[k]``, where the function runs. The call waits for it.

    Raises:
        ConfigError: as of :func:`map_chunks`; or the function gives something else than a bool for each row.
        StorageError: as of :func:`map_chunks`.
    """
    found = []
    for begin, holds in ChunkedCall.of("filter_chunks", function, arrays, cache, device).values():
        if holds.dtype != torch.bool:
            raise ConfigError(
                f"filter_chunks: the function gives {type_name(holds.dtype)}, not bool; compare, as in lambda x: x != 0"
            )
        if holds.dim() > 1:
            raise ConfigError(
                f"filter_chunks: the function gives {math.prod(holds.shape[1:])} bools for each row; end it with .any(1) or "
                ".all(1), or pick one, as rows[:, 0]"
            )
        found.append(torch.nonzero(holds).view(-1).add_(begin))
    return torch.cat(found)


def _is_dense(made: Any) -> bool:
    return isinstance(made, torch.Tensor) and made.layout == torch.strided and not (made.is_nested or made.is_quantized)


def _tensor_on(array: Any, device: torch.device) -> torch.Tensor | None:
    table = as_table(array)
    return array if isinstance(array, torch.Tensor) else None if table is None else table.tensor_on(device)


def _require_out(out: Any, tensor: torch.Tensor | None, dtype: torch.dtype, shape: torch.Size, chunks: ChunkedCall) -> None:
    if (table := as_table(out)) is not None:
        table.require_writable()
    if out.dtype != dtype or out.shape != shape:
        raise ConfigError(
            f"map_chunks: values are {type_name(dtype)} {list(shape)}, and out is {type_name(out.dtype)} {list(out.shape)}; "
            f"make it so, or end the function with .to(torch.{type_name(out.dtype)})"
        )
    if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
        raise ConfigError("map_chunks: out requires a gradient, and none goes through chunks; pass .detach()")
    for i, array in enumerate(chunks.whole):
        if tensor is None or array is None or not overlaps(array, tensor.data_ptr(), tensor.nbytes):
            continue
        if array.data_ptr() != tensor.data_ptr() or array.stride(0) * array.itemsize != tensor[:1].nbytes:
            raise ConfigError(f"map_chunks: out overlaps array_{i}, whose rows are still to be read; write to another tensor")
