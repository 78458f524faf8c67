"""One value of all elements: ``hl.reduce``, in an order that depends on nothing but how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from . import text
from .elementwise import Array, Inputs, prepared, values_in_pieces
from .traced import FLOATS, Value, cast

HOW = ("sum", "mean", "min", "max", "count", "any", "all")
_PIECE = 1 << 22  # rows whose values are in memory at a time, where each is put together of a row: whole tiles


def reduce(how: str, function: Callable[..., Any], *arrays: Array, device: Any = None) -> torch.Tensor:
    """One value of all that ``function`` gives of the elements of arrays, wherever these lie; each is read once::

        revenue = hl.reduce("sum", lambda price, volume: price * volume, prices, volumes)

    Floats are added in float64, by tiles of 4096 values: 32 lanes, each of every 32nd value in their order, and then the lanes
    as a tree; and so again the tiles' sums, until there is one. The sum is the same on every processor, for any number of
    threads and in every tier. But for terms of u^2 its error is at most 132 u of the sum of the absolute values for each of
    these rounds, which are log(n) to the base 4096, rounded up; u is 2^-53. Whole numbers are added exactly.

    Args:
        how: ``"sum"``, ``"mean"``, ``"min"``, ``"max"``; ``"count"`` of the values that are not zero or False; ``"any"``,
            ``"all"``.
        function: as of :func:`map`; all values of a row take part.
        arrays, device: as of :func:`map`.

    Returns:
        A tensor without dimensions, where the kernel runs. A sum is float64, or int64 of whole numbers and bools; a mean
        float64; a count int64; the others as torch has them. NaN is the least and the greatest of all values, as in torch. Of
        no values the sum is 0, the mean NaN. Of whole numbers the call waits for it.

    Raises:
        ConfigError: as of :func:`map`; the least or the greatest of no values; a sum of whole numbers that 64 bits do not hold.
        DeviceError, StorageError: as of :func:`map`.
    """
    arguments.one_of("how", how, HOW)
    given = Inputs.of("reduce", arrays, device)
    value = given.trace("reduce", function)
    count = given.values(value)
    if how in ("min", "max"):
        if count == 0:
            raise ConfigError(f"reduce: there is no {how} of no values")
        parts = torch.cat(
            list(_tiles(given, value, lambda one, dtypes: text.bound_text(f"a{how}", one, dtypes), [value.dtype])), 1
        )
        return parts[0].amin() if how == "min" else parts[0].amax()
    if how in ("count", "any", "all"):
        value = cast(value, torch.bool)
    if value.dtype in FLOATS:
        total = _sum(given, value)
        return total / count if how == "mean" else total
    return _of_whole(how, _exact(given, value), count, given.device)


def _of_whole(how: str, total: int, count: int, device: torch.device) -> torch.Tensor:
    if how == "mean":
        return torch.tensor(total / count if count else float("nan"), dtype=torch.float64, device=device)
    if how in ("any", "all"):
        return torch.tensor(total > 0 if how == "any" else total == count, device=device)
    if not -(1 << 63) <= total < 1 << 63:
        raise ConfigError(f"reduce: the sum {total} does not fit into int64; add floats, as lambda x: x.double()")
    return torch.tensor(total, dtype=torch.int64, device=device)


def _sum(given: Inputs, value: Value) -> torch.Tensor:
    """Of floats: tiles, and tiles of tiles, until there is one."""
    parts = list(_tiles(given, value, text.sum_text, [torch.float64]))
    sums = torch.cat([one[0] for one in parts]) if parts else torch.zeros(1, dtype=torch.float64, device=given.device)
    while len(sums) > 1:
        again = Inputs.of("reduce", [sums], given.device)
        ((sums,),) = _tiles(again, again.trace("reduce", _itself), text.sum_text, [torch.float64])
    return sums[0]


def _exact(given: Inputs, value: Value) -> int:
    """Of whole numbers: tiles' halves, of which 2^31 do not overflow these sums."""
    total = 0
    for high, low in _tiles(given, value, text.sum_text, [torch.int64, torch.int64]):
        top, middle, bottom = torch.stack(((high >> 32).sum(), (high & 0xFFFFFFFF).sum(), low.sum())).tolist()
        total += (top << 64) + (middle << 32) + bottom
    return total


def _tiles(
    given: Inputs, value: Value, write: Callable[[Value, list[torch.dtype]], text.Written], dtypes: list[torch.dtype]
) -> Iterator[torch.Tensor]:
    """What a kernel makes of each tile: ``[len(dtypes), tiles]``, in as many pieces as there are."""
    if "fold" not in value.passes:
        if given.values(value):
            yield _launched(given, write(value, given.dtypes), given.values(value), dtypes)
        return
    for _, rows in values_in_pieces(given, value, _PIECE):
        piece = Inputs.of("reduce", [rows], given.device)
        yield _launched(piece, write(piece.trace("reduce", _itself), piece.dtypes), len(rows), dtypes)


def _launched(given: Inputs, written: text.Written, count: int, dtypes: list[torch.dtype]) -> torch.Tensor:
    made = torch.empty((len(dtypes), -(-count // text.TILE)), dtype=dtypes[0], device=given.device)
    with prepared(given, written) as run:
        run(list(made), 0, count)
    return made


def _itself(value: Any) -> Any:
    return value
