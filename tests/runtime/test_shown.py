"""What objects say of themselves: a line that stays a line, a table for notebooks, and never what tensors hold."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as xml

import pytest
import torch

import hinterland as hl
from hinterland.machine.model import Cpu, Machine, RowPoint
from hinterland.runtime.shown import Shown
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader, plan_cache

GRAPH = hl.generate("kronecker", scale=9, edge_factor=8, seed=1)
TABLE = hl.UnifiedTensor.from_tensor(torch.randn(GRAPH.num_vertices, 16))
SPLITS = {"train": torch.arange(300), "valid": torch.arange(10), "test": torch.arange(20)}
DATA = hl.datasets.Dataset(GRAPH, TABLE, torch.zeros(GRAPH.num_vertices, dtype=torch.int64), SPLITS, 4, "<small & odd>")
POINTS = tuple(RowPoint("heap", 1 << 30, 64 << i, 1e9, 2e9) for i in range(9))
OBJECTS = {
    "table": lambda: TABLE,
    "tiers": lambda: TABLE.tiered(local="4KiB"),
    "cached": lambda: TABLE.cached("8KiB", "cpu"),
    "graph": lambda: GRAPH,
    "prepared": lambda: hl.prepare(GRAPH, device="cpu"),
    "data set": lambda: DATA,
    "bfs": lambda: hl.bfs(GRAPH, 1, stats=True, device="cpu"),
    "components": lambda: hl.connected_components(GRAPH, device="cpu"),
    "pagerank": lambda: hl.pagerank(GRAPH, stats=True, device="cpu"),
    "many": lambda: hl.multi_source_bfs(GRAPH, [1, 2], device="cpu"),
    "sample": lambda: NeighborSampler(GRAPH, [3, 2], device="cpu").sample(torch.arange(5)),
    "batch": lambda: next(
        iter(Loader(NeighborSampler(GRAPH, [3], device="cpu"), torch.arange(5), 5, features=TABLE, device="cpu"))
    ),
    "plan": lambda: plan_cache(GRAPH, TABLE, [3, 2], torch.arange(64), 16, "30KiB", device="cpu"),
    "machine": lambda: Machine("2026-01-01", "x", False, Cpu("a CPU", 2, 1 << 34, 1e10, 1e10, 1e-7, 1e7, POINTS)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_line_and_a_table(name):
    shown = OBJECTS[name]()
    line = repr(shown)
    assert line.startswith(type(shown).__name__ + "(") and len(line) < 700 and "\n" not in line and "tensor(" not in line
    table = xml.fromstring(shown._repr_html_())  # well-formed: what is shown is escaped
    assert table.find("caption/b").text == type(shown).__name__
    rows = {row.find("th").text: row.find("td").text for row in table.findall("tr")}
    assert 2 <= len(rows) <= 16 and all(rows.values())


def test_what_they_say():
    assert repr(TABLE) == "UnifiedTensor(shape=(512, 16), dtype=float32, size=32.00 KiB, placement='heap')"
    result = hl.bfs(GRAPH, 1, device="cpu")
    assert repr(result) == "BfsResult(levels=int32 [512], parents=int64 [512])"
    assert "'<small & odd>'" in xml.fromstring(DATA._repr_html_()).itertext()


def test_fields_that_are_private_or_none_stay_out():
    @dataclasses.dataclass(repr=False)
    class Odd(Shown):
        long: list[int]
        text: str
        number: float = 1 / 3
        missing: int | None = None
        _held: int = 5
        hidden: int = dataclasses.field(default=6, repr=False)

    assert repr(Odd(list(range(10)), "x" * 200)).count("x") < 70
    assert repr(Odd(list(range(10)), "x")) == "Odd(long=10 of int, text='x', number=0.333333)"
    assert repr(Odd([1, 2], "x")) == "Odd(long=[1, 2], text='x', number=0.333333)"
