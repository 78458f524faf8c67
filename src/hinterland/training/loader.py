"""Mini-batches of a graph: seeds are shuffled, their neighbourhoods sampled, the rows gathered, while the model trains.

What a batch holds depends on the seed, the epoch and the batch's number alone, so a run that is stopped goes on exactly
where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from ..machine import load
from ..memory import UnifiedTensor
from ..runtime import devices
from ..runtime.errors import ConfigError, IndexOutOfRange
from ..runtime.shuffle import shuffled
from .pipeline import Pipeline, Stage

_STATE_VERSION = 1
_LOAD_BYTES = 16  # of one thread's load in a gather
_FEW_BLOCKS = 8  # fill an H200's link (docs/notes/training-on-h200.md)
_SHARE = 4  # of the multiprocessors, for rows that lie in GPU memory too


class Sampler(Protocol):
    """What samples the neighbourhood of seeds; ``batch`` numbers the mini-batch, so that each has draws of its own."""

    def sample(self, seeds: torch.Tensor, batch: int = 0) -> Any: ...


@dataclass(frozen=True)
class Batch:
    """One mini-batch on the training device.

    Attributes:
        sample: the sampled neighbourhood (hinterland.sampling.Sample).
        x: the features of ``sample.node``, ``[n, ...]``; None without a feature table.
        y: the labels of the seeds, ``[batch_size, ...]``; None without labels.
        seeds: int64 ``[batch_size]``; the first entries of ``sample.node``.
    """

    sample: Any
    x: torch.Tensor | None
    y: torch.Tensor | None
    seeds: torch.Tensor

    @property
    def batch_size(self) -> int:
        """How many seeds it has."""
        return len(self.seeds)

    @property
    def edge_index(self) -> torch.Tensor:
        """int64 ``[2, e]``: from the sampled neighbour to the vertex that sampled it, in numbers of ``x``'s rows."""
        return torch.stack([self.sample.row, self.sample.col])


class Loader:
    """Epoch after epoch of mini-batches; each ``iter()`` is one epoch, or the rest of one after ``load_state_dict``.

    Args:
        sampler: a NeighborSampler of hinterland.sampling, or anything with its ``sample``.
        seeds: int64 ``[S]``, the vertices to train on.
        batch_size: seeds of a batch; the last may be smaller.
        features: the table of vertex features (UnifiedTensor, TieredTensor or a tensor), or None.
        labels: the labels of all vertices, or None.
        shuffle: a new order each epoch, from ``seed`` and the epoch's number.
        drop_last: leaves out a last, smaller batch.
        seed: of the order. (The sampler has its own.)
        prefetch: batches that may wait between sampling and gathering, and before training.
        gather_blocks: blocks of 1024 threads for the gather: few, so that training finds room beside it (Min 2022, section
            3.3.2). By default, for a table in host memory, as many as fill the link, which the probe measured
            (``hinterland probe``), or 8; else one for every fourth multiprocessor.
        rank, world_size: this process's share of every epoch: all ranks shuffle alike and get the same number of batches; seeds
            are repeated to make them even, or left out with ``drop_last``.
        device: where batches are made; None is the current GPU, or the CPU without one.
        timeout: seconds without a batch after which PipelineStalled is raised.
    """

    def __init__(
        self,
        sampler: Sampler,
        seeds: torch.Tensor,
        batch_size: int,
        *,
        features: Any = None,
        labels: Any = None,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        prefetch: int = 2,
        gather_blocks: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | int | None = None,
        timeout: float = 300.0,
    ) -> None:
        if not isinstance(seeds, torch.Tensor) or seeds.dtype not in (torch.int32, torch.int64) or seeds.dim() != 1:
            raise ConfigError(
                "seeds are a one-dimensional int32 or int64 tensor of vertex numbers; for a mask use mask.nonzero().view(-1)"
            )
        if batch_size < 1:
            raise ConfigError(f"batch_size={batch_size} makes no batch; use 1 or more")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank={rank} is not one of {world_size} ranks, numbered from 0")
        for name, table in (("features", features), ("labels", labels)):
            _check_rows(name, table, seeds)
        self.sampler, self.seeds, self.batch_size = sampler, seeds.to("cpu", torch.int64), batch_size
        self.features, self.labels = features, labels
        self.shuffle, self.drop_last, self.seed = shuffle, drop_last, seed
        self.prefetch, self.timeout = prefetch, timeout
        self.device = devices.as_device(device)
        self.gather_blocks = _few_blocks(features, self.device) if gather_blocks is None else gather_blocks
        self.rank, self.world_size = rank, world_size
        self.stages = [Stage("sample", self._sample), Stage("gather", self._gather)]
        self._epoch = 0
        self._delivered = 0  # batches of the epoch that the caller has been given

    def __len__(self) -> int:
        share = self._share()
        return share // self.batch_size if self.drop_last else -(-share // self.batch_size)

    def _share(self) -> int:
        """Seeds of one rank in one epoch."""
        count = len(self.seeds)
        return count // self.world_size if self.drop_last else -(-count // self.world_size)

    def __iter__(self) -> Iterator[Batch]:
        pipeline = Pipeline(self.numbered(*self.position), self.stages, self.device, self.prefetch, self.timeout)
        for batch in pipeline:
            self.advance()
            yield batch

    @property
    def position(self) -> tuple[int, int]:
        """The epoch, and how many of its batches were given out."""
        return self._epoch, self._delivered

    def advance(self, batches: int = 1) -> None:
        """Counts batches as given out."""
        self._delivered += batches
        if self._delivered == len(self):
            self._epoch, self._delivered = self._epoch + 1, 0

    def numbered(self, epoch: int, first: int) -> Iterator[tuple[int, torch.Tensor]]:
        """The seeds of an epoch's batches from ``first`` on, with numbers that no other batch of any rank or epoch has."""
        order = self._order(epoch)
        for i in range(first, len(self)):
            yield (epoch * len(self) + i) * self.world_size + self.rank, order[i * self.batch_size : (i + 1) * self.batch_size]

    def _order(self, epoch: int) -> torch.Tensor:
        """This rank's seeds of one epoch, in order."""
        seeds = self.seeds
        if self.shuffle:
            seeds = shuffled(seeds, self.seed, epoch)
        share = self._share()
        missing = share * self.world_size - len(seeds)
        if missing > 0:
            seeds = torch.cat([seeds, seeds.repeat(-(-missing // len(seeds)))[:missing]])
        return seeds[self.rank :: self.world_size][:share]

    def _sample(self, numbered: tuple[int, torch.Tensor]) -> tuple[Any, torch.Tensor]:
        number, seeds = numbered
        seeds = seeds.to(self.device)
        return self.sampler.sample(seeds, batch=number), seeds

    def _gather(self, sampled: tuple[Any, torch.Tensor]) -> Batch:
        return self.batch_of(*sampled)

    def batch_of(self, sample: Any, seeds: torch.Tensor) -> Batch:
        """The batch of a sample, its rows gathered to the device where it is."""
        x = None if self.features is None else rows_of(self.features, sample.node, self.gather_blocks)
        y = None if self.labels is None else rows_of(self.labels, seeds)
        return Batch(sample, x, y, seeds)

    def seed_of(self, epoch: int, i: int) -> int:
        """Of what a model draws, as in dropout, when it trains on batch ``i`` of an epoch; each rank's is another one."""
        parts = [self.seed % 2**64, epoch + 1, i + 1, self.rank]
        return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: after the last batch that it gave out. Plain numbers, for a checkpoint."""
        return {
            "version": _STATE_VERSION,
            "epoch": self._epoch,
            "delivered": self._delivered,
            "seed": self.seed,
            "batches": len(self),
            "world_size": self.world_size,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the loader that made ``state`` was; the next ``iter()`` gives the rest of its epoch.

        Raises:
            ConfigError: the state is that of a loader with another seed, other batches or another number of ranks.
        """
        mine = self.state_dict()
        for key in ("version", "seed", "batches", "world_size"):
            if state.get(key) != mine[key]:
                raise ConfigError(
                    f"the state was saved with {key}={state.get(key)!r}, but this loader has {mine[key]!r}; "
                    "make it with the same seeds, batch_size, seed and ranks"
                )
        self._epoch, self._delivered = int(state["epoch"]), int(state["delivered"])


def _few_blocks(table: Any, device: torch.device) -> int | None:
    """Blocks that gather as fast as the link allows and leave the rest of the GPU to training."""
    if device.type == "cpu":
        return None
    if not isinstance(table, UnifiedTensor):
        return max(1, devices.sm_count(device) // _SHARE)
    machine = load()
    known = {} if machine is None or machine.link is None else machine.link.threads_to_saturate
    return known.get(_LOAD_BYTES, _FEW_BLOCKS)


def rows_of(table: Any, index: torch.Tensor, blocks: int | None = None) -> torch.Tensor:
    """Rows of a table of any kind, on the index's device."""
    if isinstance(table, torch.Tensor):
        return table[index.to(table.device)].to(index.device)
    rows: torch.Tensor = table.gather(index, max_blocks=blocks)
    return rows


def _check_rows(name: str, table: Any, seeds: torch.Tensor) -> None:
    if table is None or not len(seeds):
        return
    least, most = int(seeds.min()), int(seeds.max())
    if least < 0 or most >= len(table):
        wrong = least if least < 0 else most
        raise IndexOutOfRange(f"seed {wrong} is not a vertex: {name} has {len(table)} rows, numbered from 0")
