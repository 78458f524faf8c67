"""What a loader gives out, and what becomes that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..runtime.annotations import IfRequested
from ..runtime.repr import Repr
from ..sampling import Sample
from ..sampling.neighbor import PendingSample
from .reads_by_tier import Served
from .row_gather import HelpedGathers, by_type


@dataclass(frozen=True, repr=False)
class Batch(Repr):
    """One mini-batch on the training device.

    Attributes:
        sample: the sampled neighbourhood (hinterland.sampling.Sample; of several types a HeteroSample).
        x: the features of ``sample.node``, ``[n, ...]``; None without a feature table. Of several types a dictionary with those
            that have a table.
        y: the labels of the seeds, ``[batch_size, ...]``; None without labels.
        seeds: int64 ``[batch_size]``; the first entries of ``sample.node``, of several types of that of the sampler's target.
        served: from where its rows and edges were read; counted for one batch in 256, None for the others.
        stats: what sampling it and gathering its features did (``sampling`` and ``features``); None unless the loader has
            ``stats=``.
        buffer: of a replayed batch (``capture=``) the number of the memory in which it lies: that of every third. Once the next
            batch is asked for, this one is overwritten, after what was launched before on the current stream: clone what is
            to stay. Numbers go on where graphs are captured anew. ``sample`` is a PaddedSample, ``x`` has a row for each of its
            vertices, ``y`` is -100 for seeds that are not there. None of any other batch.
    """

    sample: Any
    x: IfRequested[Any]
    y: IfRequested[torch.Tensor]
    seeds: torch.Tensor
    served: IfRequested[Served] = None
    stats: IfRequested[dict[str, Any]] = None
    buffer: IfRequested[int] = None

    @property
    def batch_size(self) -> int:
        """How many seeds it has, with those that pad a replayed one."""
        return len(self.seeds)

    @property
    def edge_index(self) -> Any:
        """int64 ``[2, e]``: from the sampled neighbour to the vertex that sampled it, in numbers of ``x``'s rows; of several
        types by relation."""
        return by_type(lambda row, col: torch.stack([row, col]), self.sample.row, self.sample.col)


@dataclass(frozen=True)
class SampledBatch:
    """A batch between sampling and gathering: its seeds are on the CPU and ``here``, where it is made."""

    number: int
    sample: Sample | PendingSample
    seeds: torch.Tensor
    here: torch.Tensor
    stats: dict[str, Any] | None = None  # of sampling it

    def is_ready(self) -> bool:
        return not isinstance(self.sample, PendingSample) or self.sample.is_ready()


@dataclass(frozen=True)
class PackedBatch:
    """A batch whose rows the CPU may still be packing."""

    batch: Batch
    helped: HelpedGathers

    def is_ready(self) -> bool:
        return self.helped.is_ready()


def packed(made: PackedBatch | Batch) -> Batch:
    """The batch, once its rows are there; raises what went wrong with them."""
    if isinstance(made, Batch):
        return made
    made.helped.finish()
    return made.batch
