"""A cache plan as a picture: how many reads each further byte serves, rows and lists, and where the plan stops."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from ..runtime.pictures import picture
from ..runtime.units import format_bytes

_POINTS = 400


class Curve(NamedTuple):
    """What one cache serves: the reads of each entry, bytes of one, and how many are kept, in how many bytes, at what rate."""

    name: str
    reads: torch.Tensor
    each: int
    kept: int
    held: int
    rate: float


def plot(title: str, curves: Iterable[Curve], path: Path) -> None:
    """Writes the picture; the end of the name says as what.

    The curves are of reads met in advance, hottest first; the cross is what the plan keeps, at the hit rate that it predicts.

    Raises:
        ConfigError: matplotlib is missing, or the name ends in none of .pdf, .png and .svg.
        StorageError: the file cannot be written.
    """
    with picture(path, 7, 4.5) as figure:
        axes = figure.subplots()
        for name, reads, each, kept, held, rate in curves:
            if not len(reads) or not reads.sum():
                continue
            served = reads.double().sort(descending=True).values.cumsum(0)
            at = torch.linspace(0, len(reads) - 1, min(_POINTS, len(reads))).long()
            sizes, shares = (at + 1) * each / 2**20, 100 * served[at] / served[-1]
            (line,) = axes.plot(sizes.tolist(), shares.tolist(), label=f"{name}: {format_bytes(held)} kept")
            axes.plot([kept * each / 2**20], [100 * rate], "x", color=line.get_color(), markersize=9, markeredgewidth=2)
        axes.set(xlabel="GPU memory for them, MiB", ylabel="reads served, %", ylim=(0, 103))
        axes.set_title(title)
        axes.legend(loc="lower right")
