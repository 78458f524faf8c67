"""What each device of factored execution keeps: topology where it samples, rows where it trains (GNNLab, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..runtime.errors import ConfigError
from .cache import require_plannable
from .cache_budget import planned, require_sampler
from .cache_choice import Wanted, bytes_of, wanted
from .cache_plan import CachePlan
from .factored_plan import FactoredPlan
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
    Devices of one role share what they keep, as :meth:`.CachePlan.over` has it.

    Args:
        asked: has a budget.
        loader: of the batches.
        sampler: of one of the devices, where batches are sampled for the plan.
        devices: all of them. Where a GPU is named twice each keeps its own.

    Raises:
        ConfigError: something that cannot be kept, or a budget that is smaller than one batch's rows of features.
    """

    def __init__(self, asked: Wanted, loader: Loader, sampler: BatchedSampler, devices: Sequence[torch.device]) -> None:
        sampler = require_sampler(sampler)
        require_plannable(sampler.graph, loader.features, asked.policy)
        assert asked.budget is not None
        by_role = len(devices) > 1 and isinstance(asked.policy, str) and asked.policy == "auto"
        policy = "features" if by_role else asked.policy
        budget = bytes_of(asked.budget, len(loader.features), loader.features.row_bytes)
        self._loader, self._by_role = loader, by_role
        plan = planned(policy, budget, True, sampler, loader.features, loader.seeds, loader.batch_size, loader.seed)
        self._plan, self._plans = plan, {False: self._called(plan)}  # by whether they are of samplers
        if by_role:
            self._plans[True] = self._called(plan.lists_first())
        self._shared: dict[bool, Any] = {}
        self._named_twice = devices[0].type == "cuda" and len(set(devices)) < len(devices)
        if not by_role:
            self._share(False, devices)

    def _share(self, samples: bool, devices: Sequence[torch.device]) -> bool:
        """Whether devices of a role share a plan from now on."""
        if self._named_twice or len(devices) < 2:
            return False
        plan = self._plan.lists_first(devices) if samples else self._plan.over(devices)
        self._plans[samples] = self._called(plan)
        return plan.gpus > 1

    def _called(self, plan: CachePlan) -> CachePlan:
        return replace(plan, policy="auto") if self._by_role else plan

    def settle(self, roles: FactoredPlan) -> list[bool]:
        """Plans for the devices of each role, once roles are known. Gives the roles, as ``samples`` of :meth:`plan`, whose
        devices share now: what was filled to measure is not used any more."""
        sides = [(False, roles.trainers), (True, roles.samplers)] if self._by_role else []
        return [samples for samples, devices in sides if self._share(samples, devices)]

    def plan(self, samples: bool) -> CachePlan:
        """What a device keeps: one that samples, or one that only trains."""
        return self._plans[samples and self._by_role]

    def samplers(self, samplers: Sequence[BatchedSampler]) -> Sequence[BatchedSampler]:
        """Samplers of devices that share lists, or of any, over the lists that they keep."""
        return self.plan(True).keep_lists([require_sampler(sampler) for sampler in samplers])

    def reader(self, device: torch.device, samples: bool) -> Loader:
        """The loader as a device gathers its batches: through the rows that it keeps, or shares."""
        plan, role = self.plan(samples), samples and self._by_role
        table = self._shared.get(role)
        if table is None:
            table = plan.keep_rows(device)
            if plan.gpus > 1:
                self._shared[role] = table
        return self._loader.reading(table, device)
