"""One value of all elements: ``reduce_chunks``, in an order that depends on nothing but how many there are."""

from __future__ import annotations

from typing import Any

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.repr import type_name
from .chunks import CACHE, TILE, Array, ChunkedCall, Function

HOW = ("sum", "mean", "min", "max", "count", "any", "all")
_LANES = 32  # of a tile
_AT_ONCE = 1024 * TILE  # values, of whose tiles a CPU's caches keep a line until its neighbours are added: ten times as quick


def reduce_chunks(how: str, function: Function, *arrays: Array, cache: int | str = CACHE, device: Any = None) -> torch.Tensor:
    """One value of all that ``function`` gives of arrays wherever they lie, chunk by chunk; each row is read once::

        revenue = hl.kernels.reduce_chunks("sum", lambda price, volume: price * volume, prices, volumes)

    Floats are added in float64, by tiles of 4096 values: 32 lanes, each of every 32nd value in their order, and then the lanes
    as a tree; and so again the tiles' sums, until there is one. The sum is the same on every processor, for any number of
    threads, for any chunks and in every tier. But for terms of u^2 its error is at most 132 u of the sum of the absolute values
    for each of these rounds, which are log(n) to the base 4096, rounded up; u is 2^-53. Whole numbers are added exactly.

    Args:
        how: ``"sum"``, ``"mean"``, ``"min"``, ``"max"``; ``"count"`` of the values that are not zero or False; ``"any"``,
            ``"all"``.
        function: as of :func:`map_chunks`; all values of a row take part.
        arrays, cache, device: as of :func:`map_chunks`.

    Returns:
        A tensor without dimensions, where the function runs. A sum is float64, or int64 of whole numbers and bools; a mean
        float64; a count int64; the others as torch has them. NaN is the least and the greatest of all values, as in torch. Of
        no values the sum is 0, the mean NaN. Of whole numbers the call waits for it.

    Raises:
        ConfigError: as of :func:`map_chunks`; the least or the greatest of no values; a sum of whole numbers that 64 bits do
            not hold; a sum of complex numbers or of uint64.
        StorageError: as of :func:`map_chunks`.
    """
    arguments.one_of("how", how, HOW)
    chunks = ChunkedCall.of("reduce_chunks", function, arrays, cache, device)
    count, kind = 0, torch.bool
    floats, whole, bounds = _FloatSum(chunks.device), 0, []
    for _, values in chunks.values():
        values, kind = values.reshape(-1), values.dtype
        count += len(values)
        if how in ("min", "max"):
            bounds += [_bound(how, values)] if len(values) else []
        elif how in ("count", "any", "all"):
            whole += int(torch.count_nonzero(values != 0))
        elif kind.is_floating_point:
            floats.add(values.float() if kind.itemsize == 1 else values)  # torch adds none of one byte
        else:
            whole += _exact(values)
    if how in ("min", "max"):
        if count == 0:
            raise ConfigError(f"reduce_chunks: there is no {how} of no values")
        return torch.stack(bounds).amin() if how == "min" else torch.stack(bounds).amax()
    if how in ("any", "all"):
        return torch.tensor(whole > 0 if how == "any" else whole == count, device=chunks.device)
    if how != "count" and kind.is_floating_point:
        return floats.total() / count if how == "mean" else floats.total()
    if how == "mean":
        return torch.tensor(whole / count if count else float("nan"), dtype=torch.float64, device=chunks.device)
    if not -(1 << 63) <= whole < 1 << 63:
        raise ConfigError(f"reduce_chunks: the sum {whole} does not fit into int64; add floats, as lambda x: x.double()")
    return torch.tensor(whole, dtype=torch.int64, device=chunks.device)


class _FloatSum:
    """The sum of values that come in parts, wherever these are cut."""

    def __init__(self, device: torch.device) -> None:
        self._sums = [torch.zeros(0, dtype=torch.float64, device=device)]  # of tiles
        self._rest = torch.zeros(0, device=device)

    def add(self, values: torch.Tensor) -> None:
        values = torch.cat([self._rest, values]) if len(self._rest) else values
        whole = len(values) // TILE * TILE
        for part in values[:whole].split(_AT_ONCE if values.is_cpu else max(whole, 1)):
            self._sums.append(_of_tiles(part))
        self._rest = values[whole:].clone()

    def total(self) -> torch.Tensor:
        """Tiles, and tiles of tiles, until there is one."""
        sums = torch.cat([*self._sums, _of_tiles(self._rest)])
        while len(sums) > 1:
            sums = _of_tiles(sums)
        return sums.sum()  # which is 0 of none


def _of_tiles(values: torch.Tensor) -> torch.Tensor:
    """The sum of each tile: of lanes in the order of their values, and then of lanes."""
    if short := -len(values) % TILE:
        values = torch.nn.functional.pad(values, (0, short))
    turns = values.view(-1, TILE // _LANES, _LANES)
    lanes = torch.zeros(len(turns), _LANES, dtype=torch.float64, device=values.device)
    for turn in range(TILE // _LANES):
        lanes += turns[:, turn]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def _bound(how: str, values: torch.Tensor) -> torch.Tensor:
    try:
        return values.amin() if how == "min" else values.amax()
    except NotImplementedError:
        raise ConfigError(f"reduce_chunks: torch has no {how} of {type_name(values.dtype)}; cast, as x.double()") from None


def _exact(values: torch.Tensor) -> int:
    """Of whole numbers: of halves, of which 2^31 do not overflow 64 bits."""
    if values.dtype.is_complex or values.dtype == torch.uint64:
        raise ConfigError(f"reduce_chunks adds floats, whole numbers and bools, not {type_name(values.dtype)}; cast to double")
    long = values.long()
    high, low = torch.stack(((long >> 32).sum(), (long & 0xFFFFFFFF).sum())).tolist()
    return (high << 32) + low
