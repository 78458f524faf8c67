"""MGG's evaluation (OSDI 2023) of its kernel beside the library's sums. Graphs, times and their units: as of ``fullgraph``.

``mapping``, ``remote loads``, ``granularity``, ``heat map``: of its kernel (_ablation.py). ``baselines``: figures 7 to 9.
``lookup``: section 7.3. ``crossover``: strategies by reuse and width. ``accuracy``: table 3. ``sm use``: how busy
multiprocessors are, with GPUs and ``ncu``. _plots.py draws them.

``tuner``: sums by the strategy that was chosen, with launches shaped by default, as the tuner has them (``steps`` shapes tried,
``spent s`` in all) and as the best of all ``grid`` shapes has them, the three timed anew in turn; ``of best`` is the best's
time over the tuned one's. ``tuner grid``: every shape's time, which step of the search it was, and whether the model found it
``worth`` trying (figure 11).
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks._ncu import ncu
from benchmarks.fullgraph import SHAPES
from hinterland.runtime import devices

from ._ablation import TABLES as ABLATIONS
from ._ablation import ablations
from ._accuracy import sampled_and_full
from ._baselines import baselines
from ._crossover import crossover
from ._lookup import lookup
from ._sm import sm_use
from ._tuning import tuning

PARTS = ("tuner", *ABLATIONS, "baselines", "lookup", "crossover", "accuracy", "sm use")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--widths", default="16,64,256")
    parser.add_argument("--parts", default=",".join(PARTS), help="which tables to make")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """On CPUs two parts share one."""
    small, wanted = options.small, options.parts.split(",")
    shapes, widths = options.shapes.split(","), [int(width) for width in options.widths.split(",")]
    if small:
        shapes, widths = ["products:0.001"], [16]
    gpus = devices.gpus()
    results: dict[str, Any] = {"gpus": len(gpus), **ablations(wanted, shapes, widths, gpus)}
    if "tuner" in wanted:
        grid, rows = tuning(shapes, widths, gpus or [devices.as_device()])
        results |= {"tuner grid": grid, "tuner": rows}
    where = gpus or [devices.as_device()] * 2
    if "baselines" in wanted:
        results["baselines"] = [row for shape in shapes for row in baselines(shape, widths, where)]
    if "lookup" in wanted:
        results["lookup"] = lookup(widths, where, *((1 << 12, 64) if small else ()))
    if "crossover" in wanted:
        together = where if len(where) > 1 else [*where] * 2
        results["crossover"] = crossover(together, *((1 << 13, widths) if small else ()))
    if "accuracy" in wanted:
        results["accuracy"], results["accuracy runs"] = sampled_and_full(small)
    if "sm use" in wanted and gpus and ncu():
        results["sm use"] = list(sm_use(shapes, widths, max(len(gpus), 2)))
    return results
