"""What each device of factored execution keeps: topology where it samples, rows where it trains (GNNLab, section 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..runtime.errors import ConfigError
from .cache import CachePlan, require_plannable
from .cache_budget import planned, require_sampler
from .cache_choice import Wanted, bytes_of, wanted
from .loader import BatchedSampler, Loader


def wanted_on_devices(cache: Any, gpu_budget: int | str | None) -> Wanted | None:
    """What ``cache=`` and ``gpu_budget=`` ask of several devices; None where that is nothing.

    Raises:
        ConfigError: as of :func:`wanted`; a cache without a size.
    """
    asked = wanted(cache, gpu_budget)
    if asked is not None and asked.budget is None:
        raise ConfigError(
            "what a training step leaves is measured where one device samples and trains; name the cache's size for each of "
            "devices=, as in gpu_budget='4GiB'"
        )
    return asked


class DeviceCaches:
    """The caches of the devices, each within the same budget, by one plan of what batches read.

    A trainer keeps rows. A sampler keeps lists under the policy ``"auto"``, and rows in what they leave, since it trains while
    its samples are ahead; else rows as a trainer does. A device that does both keeps both as ``plan_cache`` splits them.

    Args:
        asked: has a budget.
        loader: of the batches.
        sampler: of one of the devices, where batches are sampled for the plan.
        alone: whether there is no other device.

    Raises:
        ConfigError: something that cannot be kept, or a budget that is smaller than one batch's rows of features.
    """

    def __init__(self, asked: Wanted, loader: Loader, sampler: BatchedSampler, alone: bool) -> None:
        sampler = require_sampler(sampler)
        require_plannable(sampler.graph, loader.features, asked.policy)
        assert asked.budget is not None
        by_role = not alone and isinstance(asked.policy, str) and asked.policy == "auto"
        policy = "features" if by_role else asked.policy
        budget = bytes_of(asked.budget, len(loader.features), loader.features.row_bytes)
        self._loader = loader
        self._rows = planned(policy, budget, True, sampler, loader.features, loader.seeds, loader.batch_size, loader.seed)
        if by_role:
            self._rows = replace(self._rows, policy="auto")
        self._lists = self._rows.lists_first() if by_role else self._rows

    def plan(self, samples: bool) -> CachePlan:
        """What a device keeps: one that samples, or one that only trains."""
        return self._lists if samples else self._rows

    def sampler(self, sampler: BatchedSampler) -> BatchedSampler:
        """A device's sampler over the lists that it keeps."""
        return self._lists.keep_lists(require_sampler(sampler))

    def reader(self, device: torch.device, samples: bool) -> Loader:
        """The loader as a device gathers its batches: through the rows that it keeps."""
        return self._loader.reading(self.plan(samples).keep_rows(device), device)
