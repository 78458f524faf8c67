"""Hit rate against cached share as a picture, a line for each score (Min 2022, figure 4.8)."""

from __future__ import annotations

from pathlib import Path

from ..runtime.pictures import picture
from .compare import ORACLE, Comparison

_SHARES = [percent / 100 for percent in range(101)]


def plot(comparison: Comparison, path: Path, title: str) -> None:
    """Writes the picture; the end of the name says as what.

    Raises:
        ConfigError: matplotlib is missing, or the name ends in none of .pdf, .png and .svg.
        StorageError: the file cannot be written.
    """
    with picture(path, 7, 5) as figure:
        axes = figure.subplots()
        for name, rates in comparison.hit_rates(_SHARES).items():
            line = ":k" if name == ORACLE else "-"
            axes.plot([100 * share for share in _SHARES], [100 * rate for rate in rates], line, label=name)
        axes.set(xlabel="rows cached, %", ylabel="fetches served, %", xlim=(0, 100), ylim=(0, 100), title=title)
        axes.legend()
