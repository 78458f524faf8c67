"""What a cache of the hottest rows serves."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError


def hit_rate(scores: torch.Tensor, counts: torch.Tensor, shares: Sequence[float]) -> list[float]:
    """The share of the counted fetches that a cache of the hottest rows serves (Min 2022, figures 4.8 and 4.10).

    Args:
        scores: what the cache is filled by, highest first, any number type ``[num_vertices]``; of equal ones the vertex with
            the smaller number comes first.
        counts: fetches of each vertex, not negative, ``[num_vertices]``, as :func:`presample` counts them. With ``scores`` the
            same tensor the result is the oracle's: no cache that stays as it is serves more.
        shares: of all rows that are in the cache, each from 0 to 1; rows are whole, the nearest number of them.

    Returns:
        One number from 0 to 1 for each share.

    Raises:
        ConfigError: scores and counts of different shapes, counts that are negative or all 0, a score that is no number, a
            share out of range.
    """
    for name, given in (("scores", scores), ("counts", counts)):
        if arguments.dense(name, given).is_complex():
            raise ConfigError(f"{name} are {given.dtype}, but must be real numbers")
    try:
        shares = [arguments.number("a share", share) for share in shares]
    except (TypeError, RuntimeError):  # the last is a tensor's
        raise ConfigError(f"shares are a list of numbers from 0 to 1, not {arguments.repr_of(shares)}") from None
    scores = scores.double() if scores.is_floating_point() else scores
    if scores.ndim != 1 or scores.shape != counts.shape:
        raise ConfigError(
            f"scores have shape {tuple(scores.shape)} and counts {tuple(counts.shape)}, but both are one number for each vertex"
        )
    for share in shares:
        if not 0 <= share <= 1:
            raise ConfigError(f"share {share} is not from 0 to 1")
    if scores.is_floating_point() and bool(scores.isnan().any()):
        raise ConfigError(f"the score of vertex {int(scores.isnan().nonzero()[0])} is nan; it has no rank")
    fetched = counts.to(scores.device, torch.float64)
    if not bool((fetched >= 0).all()) or not float(fetched.sum()) > 0:
        raise ConfigError("counts are negative or all 0; count at least one epoch, as presample() does")
    served = fetched[scores.argsort(descending=True, stable=True)].cumsum(0)
    rows = [round(share * len(served)) for share in shares]
    return [float(served[count - 1] / served[-1]) if count else 0.0 for count in rows]
