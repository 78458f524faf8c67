"""What the threads of a factored epoch share: the queue of samples, who trains which, the step at hand, and who does what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ..runtime.arguments import repr_of
from ..runtime.errors import ConfigError
from ..runtime.watch import Watch
from .factored_plan import FactoredPlan
from .trace import span


@dataclass(frozen=True)
class SampleTask:
    """A sample that waits for its trainer: batch ``i`` of the epoch, on the sampler's device."""

    i: int
    sampled: tuple[Any, torch.Tensor]
    device: torch.device
    ready: torch.cuda.Event | None


@dataclass(frozen=True)
class BatchResult:
    """What training on one batch gave, on the model's device: all gradients one behind the other, and which parameters have
    one."""

    loss: torch.Tensor
    gradients: torch.Tensor
    learned: tuple[bool, ...]
    buffers: list[torch.Tensor]
    seen: Any


def loss_and_seen(given: Any) -> tuple[torch.Tensor, Any]:
    """What a step returned. ConfigError: that is no loss."""
    loss, seen = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise ConfigError(f"step returned {repr_of(loss)}; it must return the loss, a tensor of one number made by the model")
    return loss, seen


class TrainerPace:
    """What a trainer needs for a batch: T_t, or T_t' of a standby trainer."""

    def __init__(self) -> None:
        self._spent = {"gather": 0.0, "train": 0.0}
        self._batches = {"gather": -1, "train": -1}  # its first is not counted, which loads kernels

    def add(self, stage: str, seconds: float) -> None:
        self._batches[stage] += 1
        if self._batches[stage]:
            self._spent[stage] += seconds

    @property
    def seconds(self) -> float | None:
        """The mean of the stage that takes longer; None before the second batch."""
        if self._batches["train"] < 1:
            return None
        return max(self._spent[stage] / self._batches[stage] for stage in self._spent)


@dataclass
class Tally:
    """What was done in all epochs.

    Attributes:
        seconds: by stage, all devices together.
        trained: batches, by device of the plan.
        paces: of each device of the plan, as a trainer.
    """

    trained: list[int]
    paces: list[TrainerPace]
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("sample", "gather", "train"), 0.0))


class Epoch:
    """One epoch, or the rest of one.

    Args:
        plan: who samples and who trains.
        depth: samples that may wait.
        timeout: seconds without a trained batch after which the caller gets PipelineStalled.
        tally: is kept up to date.
        numbered: numbers and seeds of the batches from ``first`` to ``total``.
    """

    def __init__(
        self,
        plan: FactoredPlan,
        depth: int,
        timeout: float,
        tally: Tally,
        numbered: Iterator[tuple[int, torch.Tensor]],
        first: int,
        total: int,
    ) -> None:
        self._plan, self._depth, self._tally = plan, depth, tally
        self._numbered, self._first, self._total = numbered, first, total
        self._issued = self._taken = first  # batches that samplers, and trainers, were given; both in order
        self._samples: dict[int, SampleTask] = {}
        self._owners: dict[int, int] = {}  # of the batches of the last round that was dealt out
        self._made: dict[int, BatchResult] = {}
        self._round: int | None = None  # at hand
        self.ready: torch.cuda.Event | None = None  # when the model's parameters are those of that round
        self.watch = Watch(timeout, "batch")
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()

    def guarded(self, work: Callable[[], None]) -> None:
        """Runs a thread's work; what it raises is raised in the caller's thread."""
        try:
            work()
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()

    def close(self) -> None:
        """Nobody begins anything more."""
        with self._changed:
            self._closed = True
            self._samples.clear()
            self._changed.notify_all()

    @contextmanager
    def doing(self, stage: str, device: torch.device, i: int, who: int | None = None) -> Iterator[None]:
        """Around work on one batch: for the watch, and for the times."""
        with self.watch.over(f"{stage!r} on {device}", i) as work, span(stage):
            yield
        took = work.seconds
        with self._changed:
            self._tally.seconds[stage] += took
            if who is not None:
                self._tally.paces[who].add(stage, took)

    # Samplers

    def _is_ahead(self) -> bool:
        """Whether every sample is made, or being made, that there is room for."""
        return self._issued == min(self._total, self._taken + self._depth)

    def wanted(self) -> tuple[int, int, torch.Tensor] | None:
        """The next batch to sample, its number and seeds, once there is room for it; None after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._issued == self._total or not self._is_ahead())
            if self._closed or self._issued == self._total:
                return None
            i, (number, seeds) = self._issued, next(self._numbered)
            self._issued += 1
            return i, number, seeds

    def put(self, task: SampleTask) -> None:
        with self._changed:
            if not self._closed:
                self._samples[task.i] = task
                self._changed.notify_all()

    # Trainers

    def tasks_of(self, who: int) -> Iterator[SampleTask]:
        """The samples of a trainer, in order."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._taken == self._total or self._owner() == who)
                if self._closed or self._taken == self._total:
                    return
                task = self._samples.pop(self._taken)
                self._taken += 1
                self._changed.notify_all()
            yield task

    def _owner(self) -> int | None:
        """Who trains the next batch; None while it is not sampled. The first batch of a round deals out all of them."""
        if self._taken not in self._samples:
            return None
        if self._taken not in self._owners:
            batches = range(self._taken, self.end_of_round(self._taken))
            owners = self._plan.deal(len(batches), [pace.seconds for pace in self._tally.paces], self._is_ahead())
            self._owners = dict(zip(batches, owners, strict=True))
        return self._owners[self._taken]

    def begun(self, i: int) -> bool:
        """Waits for the round of batch ``i``; False if the epoch ends before."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._round == self._plan.round_of(i))
            return not self._closed

    def give(self, i: int, who: int, made: BatchResult) -> None:
        with self._changed:
            self._made[i] = made
            self._tally.trained[who] += 1
            self.watch.came()
            self._changed.notify_all()

    # The caller

    def begins_round(self, i: int) -> bool:
        """Whether batch ``i`` is the first of its round."""
        return i == self._first or self._plan.round_of(i) != self._plan.round_of(i - 1)

    def end_of_round(self, i: int) -> int:
        """The batch after the last of the round of batch ``i``."""
        return self._plan.end_of_round(i, self._total)

    def publish(self, i: int, ready: torch.cuda.Event | None) -> None:
        """Begins the round of batch ``i``: the model's parameters are its own."""
        with self._changed:
            self._round, self.ready = self._plan.round_of(i), ready
            self.watch.came()
            self._changed.notify_all()

    def gradients(self, first: int, end: int) -> list[BatchResult]:
        """What the batches of a round gave, in order.

        Raises:
            PipelineStalled: no batch for ``timeout`` seconds.
            BaseException: what a thread raised.
        """
        with self._changed:
            while self._error is None and not all(i in self._made for i in range(first, end)):
                self._changed.wait(self.watch.glance)  # and not longer, to hear Ctrl-C
                self.watch.look()
            if self._error is not None:
                raise self._error
            self.watch.leaves()
            return [self._made.pop(i) for i in range(first, end)]
