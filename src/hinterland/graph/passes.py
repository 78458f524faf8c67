"""Passes over arrays with a number for each vertex, before, between and after runs.

On the CPU the native module's threads make them. PyTorch's would go on spinning when they are through, on the cores that the
run, or the next call, needs (docs/notes/gap-on-16-cores.md).
"""

from __future__ import annotations

import math

import torch

from .. import _core
from . import arrays

_OVERFLOW = -2  # Shortest::kOverflow, as a signed number
_ALONE = 1 << 15  # PyTorch takes shorter arrays by one thread (at::internal::GRAIN_SIZE)
_LEAST_LENGTH = 2.0**-480  # the squares of a shorter vector's numbers are rounded, or 0
_HALVINGS = 4  # in which a GPU widens labels; the sixteenth that is left goes by way of other memory


def empty(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``[count]`` elements of any content; on the CPU in huge pages, where the system has them, which are read at random sooner
    and come sooner."""
    made = torch.empty(count, dtype=dtype, device=device)
    if not made.is_cuda:
        _core.prefer_huge_pages(made.data_ptr(), made.nbytes)
    return made


def full(count: int, value: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``[count]`` elements of four or eight bytes, all ``value``."""
    return fill(empty(count, dtype, device), value)


def fill(array: torch.Tensor, value: float) -> torch.Tensor:
    """``array`` itself, contiguous, once each of its elements, which have four or eight bytes, is ``value``."""
    if array.is_cuda:
        return array.fill_(value)
    if array.is_floating_point() and value != 0:
        value = torch.tensor(value, dtype=array.dtype).view(torch.int64 if array.itemsize == 8 else torch.int32).item()
    _core.fill(array.data_ptr(), array.itemsize, array.numel(), int(value))
    return array


def _by_torch(vector: torch.Tensor) -> bool:
    return vector.is_cuda or vector.numel() < _ALONE


# Of float64 vectors, contiguous and of one length.


def scale(values: torch.Tensor, factor: float) -> None:
    """Multiplies ``values`` by ``factor``."""
    if _by_torch(values):
        values *= factor
    else:
        _core.scale(values.data_ptr(), values.numel(), factor)


def divide(values: torch.Tensor, by: float) -> torch.Tensor:
    """``values`` themselves, once they are divided."""
    if _by_torch(values):
        return values.div_(by)
    _core.divide(values.data_ptr(), values.numel(), by)
    return values


def add(to: torch.Tensor, factor: float, values: torch.Tensor) -> torch.Tensor:
    """``to`` itself, once ``factor`` times ``values`` is added."""
    if _by_torch(to):
        return to.add_(factor * values)
    _core.add(to.data_ptr(), to.numel(), factor, values.data_ptr())
    return to


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Element by element."""
    if _by_torch(left):
        return left * right
    found = empty(len(left), left.dtype, left.device)
    _core.multiply(left.data_ptr(), right.data_ptr(), len(left), found.data_ptr())
    return found


def shares(number: float, values: torch.Tensor) -> torch.Tensor:
    """``number`` over each value, and 0 where that is 0."""
    if _by_torch(values):
        return torch.where(values == 0, 0.0, number / values)
    found = empty(len(values), values.dtype, values.device)
    _core.shares(number, values.data_ptr(), len(values), found.data_ptr())
    return found


def total(values: torch.Tensor, where: torch.Tensor | None = None) -> float:
    """The sum of ``values``; with ``where`` of those alone for which that is 0."""
    if _by_torch(values):
        return float((values if where is None else values[where == 0]).sum())
    return _core.total(values.data_ptr(), len(values), 0 if where is None else where.data_ptr())


def length(values: torch.Tensor) -> float:
    """The square root of the sum of squares, of finite numbers of any size."""
    found = _root_of_squares(values)
    if _LEAST_LENGTH < found < math.inf:
        return found
    factor = 2.0**600 if found < 1 else 2.0**-600  # squares had left the floats' range
    return _root_of_squares(values * factor) / factor


def _root_of_squares(values: torch.Tensor) -> float:
    return float(values.norm()) if _by_torch(values) else _core.length(values.data_ptr(), len(values))


def distance(left: torch.Tensor, right: torch.Tensor) -> float:
    """The sum of the differences without their signs."""
    if _by_torch(left):
        return float((left - right).abs().sum())
    return _core.distance(left.data_ptr(), right.data_ptr(), len(left))


def copied(array: torch.Tensor) -> torch.Tensor:
    """A copy in the CPU's memory of a short array, by one thread."""
    return array.cpu() if array.is_cuda else torch.from_numpy(array.numpy().copy())


def widened_bytes(vertices: int) -> int:
    """What widening labels takes on a GPU besides the result."""
    return 8 * (vertices >> _HALVINGS)


def widened(labels: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """``result``, int64, to which ``labels``, int32, the first half of its memory, are copied: from the end, half of those that
    are left each time, which are written where nothing is to be read any more."""
    if not labels.is_cuda:
        _core.widen_labels(result.data_ptr(), len(labels))
        return result
    end = len(labels)
    for _ in range(_HALVINGS):
        begin = -(-end // 2)
        result[begin:end] = labels[begin:end]
        end = begin
    result[:end] = labels[:end].to(torch.int64)
    return result


def distances(keys: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Keys of shortest paths, int32 or int64 ``[V]``, as distances, int64, and a vertex whose distance is more than keys can
    say, or -1. Keys of eight bytes are the result."""
    wide = keys.dtype == torch.int64
    if not keys.is_cuda:
        found = keys if wide else empty(len(keys), torch.int64, keys.device)
        return found, _core.distances(keys.data_ptr(), keys.itemsize, len(keys), found.data_ptr())
    # -1 stays, others are unsigned.
    found = keys if wide else keys.to(torch.int64).add_(1).bitwise_and_(2**32 - 1).sub_(1)
    at = int(found.argmin() if wide else found.argmax())
    return found, at if int(found[at]) == (_OVERFLOW if wide else 2**32 + _OVERFLOW) else -1


def widths(keys: torch.Tensor, weights: torch.dtype) -> torch.Tensor:
    """Keys of widest paths, signed numbers ``[V]``, as widths, in place as far as that goes."""
    floats, least = weights.is_floating_point, torch.iinfo(keys.dtype).min
    if not keys.is_cuda:
        found = keys if floats or keys.dtype == torch.int64 else empty(len(keys), torch.int64, keys.device)
        kind = arrays.WEIGHT_TYPES[weights]
        _core.widths(keys.data_ptr(), kind.bytes, kind.order, len(keys), found.data_ptr())
        return found.view(weights) if floats else found
    if floats:
        # Keys of negative widths are their bits; those of others, whose sign bit is clear, the complement of the rest.
        flips = keys.bitwise_not().bitwise_right_shift_(8 * weights.itemsize - 1).bitwise_and_(-least - 1)
        return keys.bitwise_xor_(flips).view(weights)
    found = keys.bitwise_xor_(-least - 1).to(torch.int64)
    return found if keys.dtype == torch.int64 else found.masked_fill_(found == least, torch.iinfo(torch.int64).min)
