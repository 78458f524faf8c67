"""Ablations of MGG's kernel (OSDI 2023, figures 3, 6 and 10) on the library's parts, beside the library's ``direct``.

Milliseconds of a sum over all parts of one process. Rows are small whole numbers, so that sums are exact in any order: all are
compared with those of ``direct`` before they are timed. A machine with one GPU has two parts on it, none of them remote.

``mapping``: what a warp takes. ``mixed``: a row's entries, local and remote (figure 3(b)); ``split``: its local, or its remote
ones (3(c)), and ``split pairs`` both, one after the other; ``fixed``: a partition of 16 entries (3(d)); ``pairs`` of them
(MGG); ``launches``: one for local partitions, and then one for remote ones.
``remote loads``: how a warp's remote rows come (figure 6). ``rows``: of a warp, on their way at once; ``read``: of remote
entries, the share whose rows are read; ``warps``: that a multiprocessor runs at once.
``granularity``: partitions taken by a thread, a warp or a block (figure 10(c)).
``heat map``: all ps, dist and wpb, with remote rows staged; ``heat map best``: the best of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from benchmarks._fullgraph_shapes import shaped
from benchmarks._rows import Rows as Printed
from benchmarks._timing import milliseconds
from hinterland.fullgraph import PartitionedGraph, plan
from hinterland.fullgraph.reduce import Operation, summed
from hinterland_papers.mgg.kernel import Mgg, NoRoom, Setting

MAPPINGS = {
    "mixed": Setting(None, order="mixed"),
    "split": Setting(None, order="apart"),
    "split pairs": Setting(None),
    "fixed": Setting(order="apart"),
    "pairs": Setting(),
    "launches": Setting(order="launches"),
}
AHEAD = (1, 2, 4, 8)
SIZES, DISTANCES, WARPS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16)  # the paper's ranges (section 6)


@dataclass(frozen=True)
class Case:
    """Rows over a partitioned graph."""

    p: PartitionedGraph
    x: list[Tensor]

    @classmethod
    def of(cls, p: PartitionedGraph, width: int) -> Case:
        sizes = zip(p.parts, p.world.devices, strict=True)
        return cls(p, [torch.randint(-8, 9, (part.rows, width), device=on, dtype=torch.float32) for part, on in sizes])

    @cached_property
    def sums(self) -> list[Tensor]:
        return summed(self.p, Operation(), self.x, "direct")

    @cached_property
    def direct(self) -> float:
        return milliseconds(partial(summed, self.p, Operation(), self.x, "direct"), self.p.world.devices)

    def prepared(self, setting: Setting) -> Mgg | None:
        """The rival, once its sums were found to be ours; None where it has no room."""
        try:
            rival = Mgg(self.p, self.x[0].shape[1], setting)
        except NoRoom:
            return None
        torch.testing.assert_close(rival(self.x), self.sums, rtol=0, atol=0)
        return rival

    def ms(self, setting: Setting) -> float | None:
        rival = self.prepared(setting)
        return None if rival is None else milliseconds(partial(rival, self.x), self.p.world.devices)


def mapping(case: Case) -> Iterator[dict[str, Any]]:
    most = max(plan.loads(case.p), key=lambda part: part.halo)
    took = {name: case.ms(setting) for name, setting in MAPPINGS.items()}
    yield {"reuse": most.remote / max(most.halo, 1), "of remote": most.remote / (most.local + most.remote), **took}


def remote_loads(case: Case) -> Iterator[dict[str, Any]]:
    vectors = case.x[0].shape[1] // 4
    settings = [Setting(loads=loads, ahead=ahead) for loads in ("plain", "staged") for ahead in AHEAD]
    for setting in (*settings, Setting(loads="common")):
        rival = case.prepared(setting)
        if rival is not None:
            at_once = None if setting.loads == "common" else setting.ahead * max(32 >> (vectors - 1).bit_length(), 1)
            ms = milliseconds(partial(rival, case.x), case.p.world.devices)
            found = {"loads": setting.loads, "ahead": setting.ahead, "rows": at_once, "read": rival.rows_once}
            yield {**found, "warps": rival.warps_of_sm(), "ms": ms}


def granularity(case: Case) -> Iterator[dict[str, Any]]:
    """With the paper's ps and dist of 2, and with longer partitions."""
    for ps in (2, 16):
        lanes = {"thread": 1, "warp": 32, "block": 256}
        yield {"ps": ps, **{name: case.ms(Setting(ps, 2, lanes=many)) for name, many in lanes.items()}}


def heat_map(case: Case) -> Iterator[dict[str, Any]]:
    for ps, dist, wpb in product(SIZES, DISTANCES, WARPS):
        yield {"ps": ps, "dist": dist, "wpb": wpb, "ms": case.ms(Setting(ps, dist, wpb))}


TABLES: dict[str, Callable[[Case], Iterable[dict[str, Any]]]] = {
    "mapping": mapping,
    "remote loads": remote_loads,
    "granularity": granularity,
    "heat map": heat_map,
}
# The paper's widths, where a table does not show what width does.
WIDTHS = {"granularity": [16], "heat map": [64]}


def ablations(
    wanted: Sequence[str], shapes: Sequence[str], widths: Sequence[int], gpus: Sequence[torch.device]
) -> dict[str, Printed]:
    """Those of TABLES that are wanted; none without a GPU. The heat map is that of the first shape."""
    tables = {name: Printed() for name in TABLES if name in wanted and gpus}
    where = gpus if len(gpus) > 1 else [*gpus] * 2
    for shape in shapes if tables else ():
        p = PartitionedGraph.from_graph(shaped(shape, where[0]).to_graph(), devices=where)
        for name, rows in tables.items():
            if name == "heat map" and shape != shapes[0]:
                continue
            for width in WIDTHS.get(name, widths):
                case = Case.of(p, width)
                for row in TABLES[name](case):
                    rows.append({"shape": shape, "width": width, **row, "direct": case.direct})
    if "heat map" in tables:
        tables["heat map best"] = Printed([best(tables["heat map"])])
    return tables


def best(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The quickest cell, how many times as fast as it ``direct`` is, and how many times as fast as the slowest it is."""
    fitting = [cell for cell in cells if cell["ms"] is not None]
    found = min(fitting, key=lambda cell: cell["ms"])
    slowest = max(cell["ms"] for cell in fitting)
    return {
        **found,
        "times": found["ms"] / found["direct"],
        "of slowest": slowest / found["ms"],
        "no room": len(cells) - len(fitting),
    }
