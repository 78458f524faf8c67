"""One case of ``gnn``: rounds of training steps over a loader, captured or eager, and what they took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F

from hinterland import training
from hinterland.runtime import devices
from hinterland.sampling import PaddedSample
from hinterland.training import Batch, Loader, Ranks
from hinterland.training.reads_by_tier import fetched, served


def counts(batch: Batch) -> torch.Tensor:
    """Vertices and edges of a batch, padding left out: int64 [2]; of a padded one on the GPU, without waiting for it."""
    if isinstance(batch.sample, PaddedSample):
        return batch.sample.ends[:, -1].clone()
    return torch.tensor([len(batch.sample.node), len(batch.sample.row)])


def mean(counted: list[torch.Tensor]) -> list[float]:
    """Of vertices and edges that were counted so."""
    return torch.stack([count.cpu() for count in counted]).double().mean(0).tolist()


def loss_of(model: torch.nn.Module, batch: Batch, bf16: bool) -> torch.Tensor:
    """Of one batch; labels behind the seeds that count are -100."""
    x = batch.x if bf16 else batch.x.float()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False):
        return F.cross_entropy(model(x, batch.sample), batch.y)


class Case:
    """A model over a loader, which ``ranks`` train together.

    Attributes:
        seconds, cpu_seconds: of a step, by round: all of it, and what the CPU's thread worked.
        overflowed: batches that fitted no envelope, of all rounds.
        rows, edges: of a batch on average, padding left out; known once ``look`` has been called.
    """

    def __init__(
        self,
        name: str,
        loader: Loader,
        model: torch.nn.Module,
        captured: bool,
        bf16: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        self.name, self.loader, self.model, self.captured = name, loader, model, captured
        self.device = loader.device
        self.optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=self.device.type == "cuda")
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self.overflowed = self.rows = self.edges = 0
        self._loss = partial(loss_of, bf16=bf16)
        steps = training.capture(model, self._loss, self.optimizer, loader, ranks=ranks)
        self._steps = steps if captured or ranks is not None else None

    def batches(self) -> Iterator[Batch]:
        """One epoch, each batch once its step is queued."""
        if self._steps is not None:
            yield from (batch for batch, _ in self._steps)
            return
        for batch in self.loader:
            self.optimizer.zero_grad(set_to_none=True)
            self._loss(self.model, batch).backward()
            self.optimizer.step()
            yield batch

    def round(self, warm_up: int) -> None:
        """Times the steps of one epoch behind the first."""
        began = worked = 0.0
        for i, batch in enumerate(self.batches()):
            self.overflowed += self._replays and i > warm_up and batch.buffer is None
            if i == warm_up:
                began, worked = devices.idle_at(self.device), time.thread_time()
        worked = time.thread_time() - worked
        self.seconds.append((devices.idle_at(self.device) - began) / (i - warm_up))
        self.cpu_seconds.append(worked / (i - warm_up))

    @property
    def _replays(self) -> bool:
        """Whether batches are replayed, but for those that overflow."""
        return self.captured and self.loader.capture

    def look(self) -> None:
        """What batches hold, by two epochs that are not timed: graphs are captured in the first."""
        for _ in self.batches():
            pass
        rows, edges = mean([counts(batch) for batch in self.batches()])
        self.rows, self.edges = round(rows), round(edges)

    def link_bytes(self) -> float:
        """That come over the link for a batch; none on a CPU."""
        if self.device.type == "cpu":
            return 0.0
        sampler, table = self.loader.sampler, self.loader.features
        seeds = self.loader.seeds[: self.loader.batch_size].to(self.device)
        sample = sampler.sample(seeds)
        return float(served(sample, sampler, [fetched(table, sample.node)]).link)

    def kernels_ms(self) -> float:
        """Of the GPU's kernels for a batch: the sum of their times, but for the gather of rows that come over the link."""
        if self.device.type == "cpu":
            return 0.0
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            count = sum(1 for _ in self.batches())
            torch.cuda.synchronize(self.device)
        over_link = not isinstance(self.loader.features, torch.Tensor)
        kernels = [event for event in profiled.key_averages() if not (over_link and "rows_kernel" in event.key)]
        return sum(event.self_device_time_total for event in kernels) / 1e3 / count
