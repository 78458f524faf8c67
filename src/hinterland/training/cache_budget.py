"""The cache of a loader: how much GPU memory training leaves for it, and when it is filled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ..runtime import devices
from ..runtime.errors import ConfigError
from ..runtime.units import format_bytes
from ..sampling import NeighborSampler
from .cache import plan_cache
from .cache_plan import CachePlan
from .cache_reads import Keepable

_SPARE = 20, 4  # left free: a 20th of the GPU's memory, and a 4th of what comes and goes with batches, which differ in size
_BATCHES = 2048  # of an epoch, that a plan looks at


def room(device: torch.device, steps: int = 1) -> int:
    """Bytes that are free on a GPU beside the most that was allocated at a time since torch's peak was reset. What came and
    went then is one training step's; so many ``steps`` have memory at a time."""
    total = torch.cuda.get_device_properties(device).total_memory
    allocated, peak = torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
    step = peak - allocated
    return max(0, devices.free_bytes(device) - steps * step - total // _SPARE[0] - step // _SPARE[1])


def after_a_step(
    source: Iterator[Any],
    run: Callable[[Iterator[Any]], Iterable[Any]],
    first: int,
    device: torch.device,
    then: Callable[[int], None],
    steps: int = 1,
) -> Iterator[Any]:
    """The items of ``source`` through ``run``, in two parts; between them ``then`` learns how much memory training leaves.

    Whoever takes items one after another has launched the work on one when the next is asked for. So the GPU is waited for
    once, when all of the first part were worked on and nothing is under way.

    Args:
        source: what ``run`` takes.
        run: leads items through a pipeline.
        first: items of the first part: as many as the pipeline holds at a time, so that its memory is measured too.
        device: a GPU, whose peak of allocated memory (torch.cuda.max_memory_allocated) is reset.
        then: gets :func:`room`.
        steps: that have memory at a time. A captured one keeps its own, beside that of one whose batch was too large.
    """
    torch.cuda.reset_peak_memory_stats(device)
    yield from run(itertools.islice(source, first))
    torch.cuda.synchronize(device)
    left = room(device, steps)
    torch.cuda.empty_cache()  # blocks that batches are cut from would lie between what is kept
    then(left)
    yield from run(source)


def require_sampler(sampler: Any) -> NeighborSampler:
    """``sampler``, if a cache can be planned for what it reads; ConfigError otherwise."""
    if not isinstance(sampler, NeighborSampler):
        raise ConfigError(
            f"a cache is planned for a NeighborSampler, not for a {type(sampler).__name__}; leave out cache= and gpu_budget="
        )
    return sampler


def planned(
    policy: Any,
    budget: int,
    promised: bool,
    sampler: NeighborSampler,
    features: Keepable,
    seeds: torch.Tensor,
    batch_size: int,
    seed: int = 0,
) -> CachePlan:
    """A plan for what batches of ``seeds`` read.

    Args:
        promised: whether the user has named the budget. If one that was measured is smaller than the rows of one batch,
            nothing is kept.
        policy, budget, sampler, features, seeds, batch_size, seed: as of ``plan_cache``. Of many seeds some are looked at.

    Raises:
        ConfigError: a promised budget is smaller than that; and as ``plan_cache``.
    """
    rows = len(sampler.sample(seeds[:batch_size]).node)
    if budget < rows * features.row_bytes:
        if promised:
            raise ConfigError(
                f"a cache of {format_bytes(budget)} is smaller than one batch, whose {rows:,} rows of features take "
                f"{format_bytes(rows * features.row_bytes)}; raise the budget, or leave out the cache"
            )
        policy = "none"
    some = _BATCHES * batch_size
    if len(seeds) > some:
        seeds = seeds[torch.randint(len(seeds), (some,), generator=torch.Generator().manual_seed(seed))]
    return plan_cache(sampler.graph, features, sampler, seeds, batch_size, budget, policy, seed=seed)


def filled(plan: CachePlan, sampler: NeighborSampler, features: Any) -> tuple[NeighborSampler, Any]:
    """The sampler and the table over what a plan for them keeps; those that were given, where it keeps nothing."""
    if plan.policy == "none" and not features.collective:  # of which other ranks may keep rows: all fill at once
        return sampler, features
    return plan.apply()
