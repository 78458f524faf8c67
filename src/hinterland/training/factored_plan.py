"""Which devices sample and which train, from measured times: GNNLab's flexible scheduling (Yang et al. 2022, section 5)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..runtime.arguments import whole_number
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr


@dataclass(frozen=True)
class StageTimes:
    """Seconds that one batch takes in each stage, on a device that does nothing else."""

    sample: float
    gather: float
    train: float

    @property
    def trainer(self) -> float:
        """T_t: a trainer gathers one batch while it trains on another, so the longer of the two decides."""
        return max(self.gather, self.train)

    @property
    def served(self) -> float:
        """K = T_t / T_s: the trainers that one sampler keeps busy."""
        return self.trainer / self.sample


@dataclass(frozen=True, repr=False)
class FactoredPlan(Repr):
    """The role of each device.

    Attributes:
        trainers: those that only train; none where there is one device.
        samplers: those that sample, and train as standby trainers while their samples are ahead.
        round: batches whose gradients one step averages.
        times: what was measured; None where the number of samplers was given.
    """

    trainers: tuple[torch.device, ...]
    samplers: tuple[torch.device, ...]
    round: int
    times: StageTimes | None

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """All of them, trainers first."""
        return self.trainers + self.samplers

    def round_of(self, i: int) -> int:
        """The step of an epoch that batch ``i`` is part of."""
        return i // self.round

    def end_of_round(self, i: int, total: int) -> int:
        """The batch after the last of the step of batch ``i``, in an epoch of ``total``."""
        return min(total, (self.round_of(i) + 1) * self.round)

    def deal(self, batches: int, paces: Sequence[float | None], ahead: bool) -> list[int]:
        """Who of :attr:`devices` trains each of ``batches`` of a step (:func:`assign`).

        Args:
            paces: seconds that one takes each of ``devices``; None where that is not known yet.
            ahead: whether samples are: samplers train only then.
        """
        paces = paces if ahead or not self.trainers else paces[: len(self.trainers)]
        known = [pace for pace in paces if pace is not None]
        usual = statistics.fmean(known) if known else 1.0
        return assign(batches, [usual if pace is None else pace for pace in paces])

    def explain(self) -> str:
        """Who does what, and why, a line each."""
        lines = [f"train:  {_names(self.trainers) or 'nobody else'}", f"sample: {_names(self.samplers)}; standby trainers"]
        if self.times is None:
            lines.append("the number of samplers was given")
        else:
            t, count = self.times, len(self.devices)
            lines.append(
                f"a batch: {t.sample * 1e3:.2f} ms to sample (T_s), {t.gather * 1e3:.2f} to gather, {t.train * 1e3:.2f} to "
                f"train; T_t = {t.trainer * 1e3:.2f}, so one sampler serves K = {t.served:.2f} trainers"
            )
            lines.append(f"samplers = ceil({count} / (K + 1)), at least one, and one trainer: {len(self.samplers)} of {count}")
        lines.append(f"a step averages the gradients of {self.round} consecutive batches, whoever computes them")
        return "\n".join(lines)


def plan_roles(
    devices: Sequence[torch.device], round: int, times: StageTimes | None = None, samplers: int | None = None
) -> FactoredPlan:
    """The last devices sample, the others train: N_s = ceil(N / (K + 1)) of N, at least one of each (GNNLab, section 5.2).

    Args:
        devices: at least one. A single one is a sampler and its own standby trainer.
        round: batches of one step.
        times: measured; not needed where there is one device or ``samplers`` is given.
        samplers: how many sample.

    Raises:
        ConfigError: ``samplers`` that leave no trainer.
    """
    count = len(devices)
    most = max(1, count - 1)
    if samplers is not None and not 1 <= (samplers := whole_number("samplers", samplers)) <= most:
        allowed = "1" if most == 1 else f"1 to {most}"
        raise ConfigError(f"samplers={samplers} of {count} devices leave no sampler or no trainer; use {allowed}")
    if samplers is None:
        samplers = 1 if times is None else min(most, math.ceil(count / (times.served + 1)))
    return FactoredPlan(tuple(devices[: count - samplers]), tuple(devices[count - samplers :]), round, times)


def assign(batches: int, seconds: Sequence[float]) -> list[int]:
    """Who trains each batch of one step: whoever would be done with it first; the first of equals.

    A standby trainer comes after the trainers. It takes a batch where that is profitable: GNNLab's
    P = M_r T_t / N_t - T_t' > 0, M_r being the batches of the step, since nobody may begin the next one before.

    Args:
        batches: of the step.
        seconds: what one batch takes each trainer (T_t), then each standby trainer (T_t').
    """
    done = [0.0] * len(seconds)
    owners = []
    for _ in range(batches):
        who = min(range(len(seconds)), key=lambda i: done[i] + seconds[i])
        done[who] += seconds[who]
        owners.append(who)
    return owners


def _names(devices: Sequence[torch.device]) -> str:
    return ", ".join(map(str, devices))
