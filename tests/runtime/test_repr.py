"""What objects say of themselves: a line that stays a line, a table for notebooks, and never what tensors hold."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as xml

import pytest
import torch

import hinterland as hl
from hinterland.machine.model import Cpu, Machine, RowPoint
from hinterland.runtime.repr import Repr
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader, plan_cache


@pytest.fixture(scope="module")
def graph():
    return hl.generate("kronecker", scale=9, edge_factor=8, seed=1)


@pytest.fixture(scope="module")
def table(graph):
    return hl.UnifiedTensor.from_tensor(torch.randn(graph.num_vertices, 16))


@pytest.fixture(scope="module")
def data(graph, table):
    splits = {"train": torch.arange(300), "valid": torch.arange(10), "test": torch.arange(20)}
    return hl.datasets.Dataset(graph, table, torch.zeros(graph.num_vertices, dtype=torch.int64), splits, 4, "<small & odd>")


def machine():
    points = tuple(RowPoint("pageable", 1 << 30, 64 << i, 1e9, 2e9) for i in range(9))
    return Machine("2026-01-01", "x", False, Cpu("a CPU", 2, 1 << 34, 1e10, 1e10, 1e-7, 1e7, points))


def batch(graph, table):
    return next(iter(Loader(NeighborSampler(graph, [3], device="cpu"), torch.arange(5), 5, features=table, device="cpu")))


OBJECTS = {
    "table": lambda graph, table: table,
    "tiers": lambda graph, table: table.tiered(local="4KiB"),
    "cached": lambda graph, table: table.cached("8KiB", "cpu"),
    "graph": lambda graph, table: graph,
    "prepared": lambda graph, table: hl.prepare(graph, device="cpu"),
    "bfs": lambda graph, table: hl.bfs(graph, 1, stats=True, device="cpu"),
    "components": lambda graph, table: hl.connected_components(graph, device="cpu"),
    "pagerank": lambda graph, table: hl.pagerank(graph, stats=True, device="cpu"),
    "many": lambda graph, table: hl.multi_source_bfs(graph, [1, 2], device="cpu"),
    "sample": lambda graph, table: NeighborSampler(graph, [3, 2], device="cpu").sample(torch.arange(5)),
    "batch": batch,
    "plan": lambda graph, table: plan_cache(graph, table, [3, 2], torch.arange(64), 16, "30KiB", device="cpu"),
    "machine": lambda graph, table: machine(),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_line_and_a_table(name, graph, table):
    shown = OBJECTS[name](graph, table)
    line = repr(shown)
    assert line.startswith(type(shown).__name__ + "(") and len(line) < 700 and "\n" not in line and "tensor(" not in line
    html = xml.fromstring(shown._repr_html_())  # well-formed: what is shown is escaped
    assert html.find("caption/b").text == type(shown).__name__
    rows = {row.find("th").text: row.find("td").text for row in html.findall("tr")}
    assert 2 <= len(rows) <= 16 and all(rows.values())


def test_what_they_say(graph, table, data):
    assert repr(table) == "UnifiedTensor(shape=(512, 16), dtype=float32, size=32.00 KiB, placement='pageable')"
    result = hl.bfs(graph, 1, device="cpu")
    assert repr(result) == "BfsResult(levels=int32 [512], parents=int64 [512])"
    assert "'<small & odd>'" in xml.fromstring(data._repr_html_()).itertext()


def test_fields_that_are_private_or_none_stay_out():
    @dataclasses.dataclass(repr=False)
    class Odd(Repr):
        long: list[int]
        text: str
        number: float = 1 / 3
        missing: int | None = None
        _held: int = 5
        hidden: int = dataclasses.field(default=6, repr=False)

    assert repr(Odd(list(range(10)), "x" * 200)).count("x") < 90
    assert repr(Odd(list(range(10)), "x")) == "Odd(long=10 of int, text='x', number=0.333333)"
    assert repr(Odd([1, 2], "x")) == "Odd(long=[1, 2], text='x', number=0.333333)"
