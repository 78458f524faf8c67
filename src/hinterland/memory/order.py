"""Orders of rows: by score, or as they are given."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError


def hottest_first(scores: torch.Tensor, rows: int, most: int | None = None) -> torch.Tensor:
    """Row numbers by falling score, ties by rising number: int64 ``[rows]`` on the CPU, sorted by all threads.

    Args:
        scores: ``[rows]``, any real type, on any device; a GPU sorts those that it holds.
        most: gives the first ones alone, so many; None is all.

    Raises:
        ConfigError: scores of another shape or type, or one that is NaN.
    """
    rows = arguments.whole_number("rows", rows, 0)
    most = rows if most is None else arguments.whole_number("most", most, 0)
    require_scores(scores, rows)
    exact = scores.is_floating_point() and scores.dtype != torch.float64  # as 32 bits
    if scores.is_cuda or not exact or rows >= 1 << 32:
        return torch.sort(scores, descending=True, stable=True).indices[:most].cpu()
    scores = scores.detach().to("cpu", torch.float32).contiguous()
    order = torch.empty(rows, dtype=torch.int64)
    _core.hottest_first(scores.data_ptr(), rows, order.data_ptr())
    return order[:most]


def require_scores(scores: torch.Tensor, rows: int) -> None:
    """ConfigError unless these are real numbers, one for each row, of which none is NaN."""
    if arguments.dense("scores", scores).is_complex() or scores.dtype == torch.bool:
        raise ConfigError(f"scores are a tensor of numbers, not {scores.dtype}")
    if tuple(scores.shape) != (rows,):
        raise ConfigError(f"scores have shape {tuple(scores.shape)}, but the table has {rows} rows; give one for each")
    if scores.is_floating_point() and bool((wrong := scores.isnan()).any()):
        raise ConfigError(f"scores[{int(wrong.nonzero()[0])}] is NaN; replace it, as in scores.nan_to_num(0)")


def permutation(order: torch.Tensor, rows: int, least: int | None = None) -> torch.Tensor:
    """``order`` as int64 on the CPU, once it is known to name every row once, or ``least`` rows or more; ConfigError
    otherwise."""
    if arguments.dense("order", order).dtype not in (torch.int64, torch.int32):
        raise ConfigError(f"an order is an int64 tensor, not {order.dtype}")
    if order.ndim != 1 or not (rows if least is None else least) <= len(order) <= rows:
        raise ConfigError(f"the order has shape {tuple(order.shape)}, but there are {rows} rows; it names every row once")
    order = order.detach().to(torch.int64).contiguous()
    if len(order) and not 0 <= int(order.min()) <= int(order.max()) < rows:
        at = int(((order < 0) | (order >= rows)).nonzero()[0])
        raise ConfigError(f"order[{at}] is {int(order[at])}, but rows are numbered from 0 to {rows - 1}")
    seen = torch.zeros(rows, dtype=torch.bool, device=order.device)  # a GPU looks at what it holds
    seen[order] = True
    if int(seen.sum()) < len(order):
        raise ConfigError(f"the order is no permutation: it leaves out row {int((~seen).nonzero()[0])}")
    return order.cpu()
