"""MGG's evaluation beside its kernel: figures 7 to 9, lookups (section 7.3), strategies by reuse and width, table 3, and how
busy multiprocessors are (with GPUs and ``ncu``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hinterland.runtime import devices

from ._fullgraph_accuracy import sampled_and_full
from ._fullgraph_baselines import baselines
from ._fullgraph_crossover import crossover
from ._fullgraph_lookup import lookup
from ._fullgraph_sm import sm_use
from ._ncu import ncu

STUDIES = ("baselines", "lookup", "crossover", "accuracy", "sm use")


def studies(
    wanted: Sequence[str], shapes: Sequence[str], widths: Sequence[int], gpus: Sequence[torch.device], small: bool
) -> dict[str, Any]:
    """Those that are wanted; on CPUs two parts share one."""
    results: dict[str, Any] = {}
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
