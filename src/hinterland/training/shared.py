"""What the processes of a torchrun job have together: the features of a data set.

On one machine the first rank reads the table into pinned memory, and the others map the same pages. Over several, every
machine reads its part of a ShardedTensor.
"""

from __future__ import annotations

import os
from functools import partial

import torch

from ..datasets.dataset import AnyDataset
from ..datasets.files import DatasetPlacement, placed, read_rows, source_of
from ..datasets.source import FeatureSource, Source
from ..memory.ranks import Ranks, naming_lost_ranks
from ..runtime import arguments
from ..table import UnifiedTensor
from ..table.sharded import ShardedTensor, Shards


class PartOfRows:
    """The rows of one node, out of the rows of a file."""

    def __init__(self, rows: FeatureSource, shards: Shards, node: int) -> None:
        self.path, self.dtype, self.shape = rows.path, rows.dtype, (shards.count(node), rows.shape[1])
        self.in_place = False  # they are dealt out over the file
        self._rows, self._shards, self._node = rows, shards, node
        self._taken = 0  # rows of the node
        self._at = 0  # rows of the file

    def read(self, target: torch.Tensor) -> None:
        done = 0
        while done < len(target):
            begin = self._shards.row(self._node, self._taken)
            length = min(self._shards.block - begin % self._shards.block, len(target) - done)
            self._rows.skip(begin - self._at)
            self._rows.read(target[done : done + length])
            self._at, self._taken, done = begin + length, self._taken + length, done + length
        if self._taken == self.shape[0]:
            self._rows.skip(self._rows.shape[0] - self._at)  # to the end, where an archive has its checksum
            self._at = self._rows.shape[0]

    def skip(self, count: int) -> None:
        self._taken += count


def open_shared(
    path: str | os.PathLike[str] | Source,
    ranks: Ranks,
    *,
    symmetrize: bool = False,
    num_classes: int | None = None,
    format: str | None = None,
    placement: str = "host",
    host_budget: int | str | None = None,
) -> AnyDataset:
    """A data set whose features the processes of a torchrun job hold together; everything else each has for itself.

    On one machine they share one pinned table. On several, each machine reads only its part of the features from the
    file, and they are a ShardedTensor. One process alone gets what ``datasets.open`` gives. So does every process for a data
    set without splits, which is small and about to be cut (``largest_component``).

    Args:
        ranks: who shares (:func:`.joined`); all of them call this.
        path, symmetrize, num_classes, format: as in ``datasets.open``. Every node finds the files under the same path. In its
            place stands a Source whose small parts were read already.
        placement: ``"host"``, or ``"storage"``: then each process reads rows of features and neighbours from the files itself,
            through a cache of its own, as ``datasets.open`` says.
        host_budget: of that cache, in each process, as in ``datasets.open``.

    Raises:
        FormatError, StorageError, OutOfMemory: as in ``datasets.open``; of features, in all ranks alike.
        RankLost: another rank died.
    """
    arguments.instance("ranks", ranks, Ranks, "as training.joined() gives")
    arguments.one_of("placement", placement, ("host", "storage"))
    symmetrize = arguments.switch("symmetrize", symmetrize)
    with naming_lost_ranks(ranks.timeout):
        same = {"placement": placement, "symmetrize": symmetrize, "num_classes": num_classes, "format": format}
        place = path.path if isinstance(path, Source) else str(arguments.path("path", path))
        ranks.check_same({"path": place, **same})
        source = ranks.agreed(lambda: path if isinstance(path, Source) else source_of(path, format, num_classes))
    alone = ranks.world_size == 1 or not any(len(part) for part in source.splits.values())
    home = DatasetPlacement.of(placement, host_budget)
    table = home.table() if alone or home.cache is not None else partial(_held_together, ranks)
    with naming_lost_ranks(ranks.timeout):
        return placed(source, home, symmetrize, table)


def _held_together(ranks: Ranks, rows: FeatureSource, what: str) -> UnifiedTensor | ShardedTensor:
    placement = "pinned" if ranks.local_world_size > 1 else "host"
    mine = rows if ranks.nodes == 1 else PartOfRows(rows, Shards(rows.shape[0], ranks.nodes), ranks.node)
    part = ranks.from_node(lambda: read_rows(mine, what, placement))
    return part if ranks.nodes == 1 else ShardedTensor(part, rows.shape[0], ranks)
