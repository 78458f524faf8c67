"""What a user asks to be kept in GPU memory: by which policy or scores, and how many bytes or what share of the rows."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..memory.order import require_scores
from ..runtime import arguments
from ..runtime.arguments import repr_of
from ..runtime.errors import ConfigError
from ..runtime.units import Share, parse_bytes, parse_share
from .cache_split import rows_within

POLICIES = ("auto", "features", "degree", "presample", "clock", "none")
_MAP = 16  # bytes a row and besides, that its place in a map and the allocator take at most
_BESIDES = 8 << 20


@dataclass(frozen=True)
class Wanted:
    """A cache as asked for.

    Attributes:
        policy: of ``plan_cache``: its name, or scores; of several types of nodes a dictionary of scores by type.
        budget: bytes, or a share of the rows; None is what a training step leaves.
    """

    policy: Any
    budget: int | Share | None


def wanted(cache: Any, gpu_budget: int | str | None) -> Wanted | None:
    """What ``cache=`` and ``gpu_budget=`` ask for; None where that is nothing.

    Args:
        cache: a policy of ``plan_cache``, by name or as scores; or a size, which is ``"auto"`` within that budget; None is
            ``"auto"`` where there is a budget, and else ``"none"``.
        gpu_budget: most bytes of GPU memory that the cache takes, as ``"4GiB"``, or what a share of the rows takes, as
            ``"10%"``; None is what a training step leaves.

    Raises:
        ConfigError: neither a policy, scores nor a size; two budgets.
    """
    budget = None if gpu_budget is None else parse_budget(gpu_budget)
    if cache is None:
        return None if budget is None else Wanted("auto", budget)
    if not isinstance(cache, str | int):
        return Wanted(_scores(cache), budget)
    if cache in POLICIES:
        return None if cache == "none" else Wanted(cache, budget)
    try:
        size = parse_budget(cache)
    except ConfigError:
        raise _no_choice(cache) from None
    if budget is not None:
        raise ConfigError(
            f"cache={cache!r} is a budget, and gpu_budget={gpu_budget!r} another; write cache='auto' for one of them"
        )
    return Wanted("auto", size)


def _no_choice(cache: Any) -> ConfigError:
    return ConfigError(
        f"cache={repr_of(cache)} is neither one of {', '.join(POLICIES)} nor a size, such as '4GiB' or '10%', nor a tensor of "
        "scores"
    )


def parse_budget(size: int | str) -> int | Share:
    """Bytes, as of ``parse_bytes``, or a share, as ``"10%"``.

    Raises:
        ConfigError: neither.
    """
    share = parse_share(size) if isinstance(size, str) else None
    return parse_bytes(size) if share is None else share


def bytes_of(budget: int | Share, rows: int, row_bytes: int) -> int:
    """A budget in bytes: a share is of the rows as they lie in GPU memory, with their map and the allocator's rounding."""
    if isinstance(budget, int):
        return budget
    count = budget.of(rows)
    most = rows * (row_bytes + _MAP) + _BESIDES
    return bisect.bisect_left(range(most), count, key=lambda room: rows_within(room, rows, row_bytes)[0])


def _scores(cache: Any) -> Any:
    """Tensors of what the user gave."""
    if isinstance(cache, Mapping) and cache:
        return {kind: _scores(values) for kind, values in cache.items()}
    try:
        return arguments.dense("cache", torch.as_tensor(cache))
    except (TypeError, ValueError, RuntimeError):
        raise _no_choice(cache) from None


def checked_scores(scores: Any, counts: Mapping[Any, int]) -> dict[Any, torch.Tensor]:
    """Scores by type, from what the user gave.

    Args:
        scores: a tensor, or tensors by type.
        counts: vertices by type; of one type by None.

    Raises:
        ConfigError: they are not one number for each vertex, or name a type that does not exist.
    """
    given = _scores(scores)
    by_type = given if isinstance(given, dict) else {None: given}
    for kind, values in by_type.items():
        if kind not in counts:
            there = ", ".join(map(repr, counts)) if None not in counts else "one without a name, so give a tensor"
            raise ConfigError(f"cache has scores for node type {kind!r}; there are {there}")
        if tuple(values.shape) != (counts[kind],):
            raise ConfigError(f"cache has scores of shape {tuple(values.shape)} for {counts[kind]} nodes; give one for each")
        require_scores(values, counts[kind])
    return by_type
