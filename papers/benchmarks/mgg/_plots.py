"""Draws the ablations and studies of ``python -m benchmarks mgg`` from its JSON, beside what the paper has.

python -m papers.benchmarks.mgg._plots benchmarks/results/mgg-*.json --to docs/figures
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hinterland.runtime.pictures import picture

Table = list[dict[str, Any]]
STRATEGIES = ("direct", "halo", "halo-pipelined", "halo-columns", "all-gather")
MAPPINGS = ("mixed", "split", "split pairs", "fixed", "launches", "pairs")
BASELINES = ("mgg", "ring", "tiles", "uvm", "host")
PANEL = 2.6  # inches


def panels(figure: Any, count: int) -> list[Any]:
    """Axes of so many panels, four in a line."""
    columns = min(count, 4)
    axes = figure.subplots(-(-count // columns), columns, squeeze=False).flatten()
    for unused in axes[count:]:
        unused.set_axis_off()
    return list(axes[:count])


def grouped(table: Table, *keys: str) -> dict[tuple[Any, ...], Table]:
    """Rows by what they have under ``keys``."""
    groups: dict[tuple[Any, ...], Table] = defaultdict(list)
    for row in table:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def bars(axes: Any, table: Table, names: Sequence[str], label: Callable[[dict[str, Any]], str], over: str = "") -> None:
    """A group for each row, of which each name has a bar; ``over``: divided by what that name has."""
    for i, name in enumerate(names):
        at = [(k, row[name] / (row[over] if over else 1)) for k, row in enumerate(table) if row.get(name) is not None]
        lefts, heights = [k + 0.8 * i / len(names) for k, _ in at], [value for _, value in at]
        axes.bar(lefts, heights, 0.8 / len(names), align="edge", label=name)
    axes.set_xticks([k + 0.4 for k in range(len(table))], [label(row) for row in table], rotation=30, ha="right", fontsize=7)
    beside(axes)


def beside(axes: Any) -> None:
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def _of_shape(row: dict[str, Any]) -> str:
    return f"{row['shape']} {row['width']}"


def mapping(figure: Any, table: Table) -> None:
    axes = figure.subplots()
    bars(axes, table, [*MAPPINGS, "direct"], _of_shape, "pairs")
    axes.set(ylabel="time over pairs", title="What a warp takes (paper: without partitions 2.26, unpaired 1.89)")


def granularity(figure: Any, table: Table) -> None:
    axes = figure.subplots()
    bars(axes, table, ["thread", "warp", "block"], lambda row: f"{row['shape']} ps {row['ps']}", "warp")
    axes.set(ylabel="time over warp", title="Partitions to threads, warps, blocks (figure 10c: warps least)")


def remote_loads(figure: Any, table: Table) -> None:
    groups = grouped(table, "shape", "width")
    for axes, ((shape, width), rows) in zip(panels(figure, len(groups)), groups.items(), strict=True):
        for loads, lines in grouped(rows, "loads").items():
            style = "o" if loads == ("common",) else "o-"
            axes.plot([row["ahead"] for row in lines], [row["ms"] for row in lines], style, label=loads[0], markersize=3)
        axes.axhline(rows[0]["direct"], color="k", linestyle=":", label="direct")
        axes.set(xscale="log", xticks=[1, 2, 4, 8], xticklabels=[1, 2, 4, 8], ylim=(0, None), xlabel="rows a lane")
        axes.minorticks_off()
        axes.set_title(f"{shape} {width}, ms", fontsize=8)
    figure.get_axes()[0].legend(fontsize=7)


def heat_map(figure: Any, table: Table) -> None:
    groups = grouped(table, "wpb")
    most, least = (pick(row["ms"] for row in table if row["ms"] is not None) for pick in (max, min))
    for axes, ((wpb,), rows) in zip(panels(figure, len(groups)), groups.items(), strict=True):
        sizes, distances = (sorted({row[name] for row in rows}) for name in ("ps", "dist"))
        cells = {(row["dist"], row["ps"]): row["ms"] for row in rows}
        grid = [[cells[dist, ps] or float("nan") for ps in sizes] for dist in distances]
        axes.imshow(grid, norm="log", vmin=least, vmax=most, cmap="viridis_r", aspect="auto")
        for (dist, ps), ms in cells.items():
            if ms is not None:
                color = "w" if ms * ms > least * most else "k"
                at = sizes.index(ps), distances.index(dist)
                axes.text(*at, f"{ms:.3g}", ha="center", va="center", fontsize=5, color=color)
        axes.set(xticks=range(len(sizes)), xticklabels=sizes, yticks=range(len(distances)), yticklabels=distances)
        axes.set(xlabel="ps", ylabel="dist")
        axes.set_title(f"wpb {wpb}, ms", fontsize=8)
    one = table[0]
    figure.suptitle(f"{_of_shape(one)}: MGG's kernel; direct {one['direct']:.3g} ms", fontsize=9)


def baselines(figure: Any, table: Table) -> None:
    axes = figure.subplots()
    bars(axes, table, BASELINES, _of_shape, "auto")
    axes.axhline(1, color="k", linewidth=0.5)
    axes.set(ylabel="time over auto", yscale="log", title="Beside rivals (paper, over MGG: DGL 4.41, UVM 4.81, ROC 10.83)")


def crossover(figure: Any, table: Table) -> None:
    groups = grouped(table, "width")
    for axes, ((width,), rows) in zip(panels(figure, len(groups)), groups.items(), strict=True):
        for name in STRATEGIES:
            axes.plot([row["reuse"] for row in rows], [row[name] for row in rows], "o-", label=name, markersize=2, linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="entries a remote row")
        axes.set_title(f"{4 * width} bytes, ms", fontsize=8)
    figure.get_axes()[0].legend(fontsize=6)


def accuracy(figure: Any, table: Table) -> None:
    axes, groups = figure.subplots(), grouped(table, "data")
    ways = list(dict.fromkeys(row["way"] for row in table))
    for i, way in enumerate(ways):
        rows = [row for row in table if row["way"] == way]
        at = [k + 0.8 * i / len(ways) for k in range(len(rows))]
        means, deviations = ([row[name] for row in rows] for name in ("mean", "deviation"))
        axes.bar(at, means, 0.8 / len(ways), yerr=deviations, align="edge", label=way)
    axes.set_xticks([k + 0.4 for k in range(len(groups))], [name for (name,) in groups])
    axes.set(ylabel="test accuracy, %", ylim=(50, 100), title="Sampled and full (paper: 93.7 and 95.7, 77.6 and 82.5)")
    beside(axes)


FIGURES: dict[str, Callable[[Any, Table], None]] = {
    "mapping": mapping,
    "remote loads": remote_loads,
    "granularity": granularity,
    "heat map": heat_map,
    "baselines": baselines,
    "crossover": crossover,
    "accuracy": accuracy,
}


def draw(records: Iterable[dict[str, Any]], folder: Path) -> list[Path]:
    """Writes an SVG for each table of FIGURES that the records have; of several that have it, the last one's."""
    tables: dict[str, Table] = {}
    for record in records:
        tables |= {name: rows for name, rows in record["results"].items() if name in FIGURES and rows}
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, table in tables.items():
        many = {"remote loads": ("shape", "width"), "heat map": ("wpb",), "crossover": ("width",)}.get(name)
        lines, columns = 1, 3
        if many is not None:
            count = len(grouped(table, *many))
            lines, columns = -(-count // 4), min(count, 4)
        made.append(folder / f"fullgraph-{name.replace(' ', '-')}.svg")
        with picture(made[-1], columns * PANEL, lines * PANEL + 0.8) as figure:
            FIGURES[name](figure, table)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    for path in draw((json.loads(path.read_text()) for path in options.results), options.to):
        print(path)


if __name__ == "__main__":
    main()
