"""The traffic of a run as a picture: requests of each level by size, bandwidth and requests in flight over time."""

from __future__ import annotations

from pathlib import Path

from hinterland.memory.count import SIZES
from hinterland.runtime.pictures import picture

from .requests import Traffic


def plot(traffic: Traffic, path: Path) -> None:
    """Writes the picture; the end of the name says as what.

    Raises:
        ConfigError: matplotlib is missing, or the name ends in none of .pdf, .png and .svg.
        StorageError: the file cannot be written.
    """
    with picture(path, 7, 8) as figure:
        sizes, rates, flight = figure.subplots(3)
        levels = traffic.levels
        below = [0] * len(levels)
        for size in SIZES:
            counts = [level["requests"][str(size)] for level in levels]
            sizes.bar(range(len(levels)), counts, bottom=below, label=f"{size} B")
            below = [lower + count for lower, count in zip(below, counts, strict=True)]
        sizes.set(xlabel="level", ylabel="requests", title=_title(traffic))
        if levels:
            sizes.legend(title="request")
        edges = [1e3 * level["start"] for level in levels] + [1e3 * traffic.total["seconds"]]
        rates.stairs([level["bandwidth"] / 1e9 for level in levels], edges, fill=True)
        rates.axhline(traffic.link.rate / 1e9, linestyle=":", color="grey")
        rates.set(xlabel="ms, by the model of the link", ylabel="GB/s")
        flight.stairs([level["in_flight"] for level in levels], edges, fill=True)
        flight.set(xlabel="ms, by the model of the link", ylabel="requests in flight")


def _title(traffic: Traffic) -> str:
    run = traffic.run
    where = "" if run["source"] is None else f" from {run['source']}"
    return f"{run['algorithm']}{where}, {run['access']}, {run['assignment']}, edges of {run['edge_bytes']} bytes"
