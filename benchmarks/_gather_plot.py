"""Draws rates of rows of all widths, as ``python -m benchmarks gather`` kept them, beside the link's limits, and figure 3.10 of
Min 2022 beside the same rows here.

python -m benchmarks._gather_plot benchmarks/results/gather-nvidia-h200-2026-12-01.json --to docs/figures
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hinterland.runtime.pictures import picture

# Shares of the copy engine's rate, as section 3.4.2 has them: of rows of 1024 B, and least and most of those of 1028 to 1044 B.
WHOLE, SHIFTED, UNSHIFTED = 0.951, (0.88, 0.93), (0.78, 0.82)
MIN_WIDTHS = range(1024, 1045, 4)
NAMES = {"gbs": "hinterland", "units_gbs": "the shift, in units", "unshifted_gbs": "no shift", "few_gbs": "few multiprocessors"}


def every_width(axes: Any, rows: list[dict[str, Any]]) -> None:
    at = [row["row_bytes"] for row in rows]
    least = [min(row["wire_gbs"], row["lines_gbs"]) for row in rows]
    axes.plot(at, least, color="k", linewidth=0.8, label="the link's limit")
    for key, color in (("unshifted_gbs", "tab:red"), ("few_gbs", "tab:green"), ("gbs", "tab:blue")):
        points = [(row["row_bytes"], row[key]) for row in rows if key in row]
        axes.plot(*zip(*points, strict=True), ".", color=color, markersize=2, label=NAMES[key])
    axes.set(xlabel="bytes of a row", ylabel="GB/s of rows", ylim=(0, None), xscale="log")
    axes.set_xticks([16, 64, 256, 1024, 4096], [16, 64, 256, 1024, 4096])
    axes.legend(fontsize=7)


def figure_3_10(axes: Any, rows: list[dict[str, Any]], engine: float) -> None:
    held = {row["row_bytes"]: row for row in rows}
    for key, color in (("gbs", "tab:blue"), ("units_gbs", "tab:orange"), ("unshifted_gbs", "tab:red")):
        axes.plot(
            MIN_WIDTHS,
            [held[width].get(key, held[width]["gbs"]) / engine for width in MIN_WIDTHS],
            "o-",
            color=color,
            label=NAMES[key],
        )
    axes.plot([MIN_WIDTHS[0]], [WHOLE], "k*", label="Min 2022, whole lines")
    for name, (low, high), color in (("the shift", SHIFTED, "tab:orange"), ("no shift", UNSHIFTED, "tab:red")):
        axes.fill_between([MIN_WIDTHS[1], MIN_WIDTHS[-1]], low, high, color=color, alpha=0.2, label=f"Min 2022, {name}")
    axes.set(xlabel="bytes of a row", ylabel="share of the copy engine", ylim=(0.5, 1))
    axes.set(xticks=list(MIN_WIDTHS), title="Figure 3.10")
    axes.legend(fontsize=7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--to", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    results = json.loads(options.results.read_text())["results"]
    with picture(options.to / "gather-widths.svg", 10, 4) as figure:
        left, right = figure.subplots(1, 2)
        every_width(left, results["widths"])
        figure_3_10(right, results["widths"], results["copy_engine_gbs"])


if __name__ == "__main__":
    main()
