from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from hinterland.machine import Cpu, Disk, Gpu, Link, Machine, MachineKind, Peer, RowPoint, SequentialPoint
from hinterland.probe.chart import Chart, ChartLine
from hinterland.probe.page import charts, page
from hinterland.probe.report import format_count, format_seconds, sections


def machine() -> Machine:
    rows = tuple(
        RowPoint(mapping, size, width, 1e7 * width * rank, 2e7 * width * rank)
        for rank, mapping in enumerate(("pinned", "managed"), start=1)
        for size in (1 << 26, 1 << 30)
        for width in (32, 512)
    )
    sweep = [SequentialPoint("managed", a, 0, b, 1e9 * a * b) for a in (4, 16) for b in (1, 2, 132)]
    whole = [SequentialPoint(m, 4, shift, 264, 5e10) for m in ("managed", "pinned") for shift in (0, 32)]
    return Machine(
        date="2026-01-01",
        fingerprint="f",
        full=True,
        cpu=Cpu("CPU <of> & sorts", 2, 1 << 34, 2e10, 1e10, 1e-7, 1e7, (RowPoint("pageable", 1 << 29, 64, 1e9, 2e9),)),
        gpus=(Gpu("a GPU", "GPU-0", "sm_90", 1 << 37, 132),) * 2,
        driver="580.1",
        link=Link(5.5e10, 5.4e10, 5.1e10, 1.4e-6, {4: 16, 16: 8}, (*whole, *sweep)),
        rows=rows,
        sort={1 << 20: 1e-4},
        peers=(Peer(0, 1, 3.7e11, 3.3e11),),
        disk=Disk("/data", True, 1e9, 1e9, {1: 1e4, 64: 1e5}),
        left_out=("a thing & another",),
        doubts=("a rate & another",),
        kind=MachineKind(True, "a flag & a name"),
    )


def bare() -> Machine:
    whole = machine()
    return dataclasses.replace(whole, gpus=(), link=None, rows=(), sort={}, peers=(), disk=None, driver=None)


class Balanced(HTMLParser):
    """Fails where an element is closed that is not open, or stays open."""

    void = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert not any(name in ("src", "href") for name, _ in attrs)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("make", [machine, bare])
def test_the_page_is_whole_and_needs_nothing_else(make):
    text = page(make())
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert "CPU &lt;of&gt; &amp; sorts" in text and "a thing &amp; another" in text and "a rate &amp; another" in text


@pytest.mark.parametrize(
    ("is_virtual", "said", "limit"),
    [
        (True, None, "the GPU's free memory"),
        (False, None, "what the host can give; past the GPU's free memory not measured by us"),
        (True, 64 << 30, "64.00 GiB, or the GPU's free memory where that is less, by hinterland probe --managed-limit"),
        (True, 1 << 62, "none, by hinterland probe --managed-limit"),
    ],
)
def test_the_limit_of_managed_memory_is_told_with_its_reason(is_virtual, said, limit):
    kind = MachineKind(is_virtual, "a flag & a name")
    told = {section.title: section.rows for section in sections(dataclasses.replace(machine(), kind=kind, managed_limit=said))}
    counts_as = f"{'virtual' if is_virtual else 'physical'}: a flag & a name"
    assert told["Managed memory"] == (("this machine counts as", counts_as), ("limit", limit))


def test_every_curve_has_its_points_and_its_ceiling():
    drawn = list(charts(machine()))
    assert [c.title.split(",")[0] for c in drawn] == [
        "Random rows",
        "Random rows",
        "Threads that saturate the link",
        "Random rows",
        "Disk",
    ]
    for chart in drawn:
        svg = ElementTree.fromstring(chart.svg())
        assert len(svg.findall("circle")) == sum(len(line.points) for line in chart.lines)
        assert len(svg.findall("polyline")) == len(chart.lines)
        assert len([e for e in svg.findall("line") if e.get("class") == "ceiling"]) == len(chart.ceilings)
        for circle in svg.findall("circle"):
            assert 0 < float(circle.get("cx")) < 460 and 0 < float(circle.get("cy")) < 300


def test_higher_values_are_drawn_higher():
    line = ChartLine("a line", [(1, 10.0), (2, 100.0), (4, 1000.0)], 1)
    svg = Chart("t", "x", "y", str, str, [line]).svg()
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', svg)]
    assert heights == sorted(heights, reverse=True)
    steps = [heights[0] - heights[1], heights[1] - heights[2]]
    assert steps[0] == pytest.approx(steps[1], abs=0.2)  # the axis is logarithmic


def test_a_single_point_is_drawn():
    assert "<circle" in Chart("t", "x", "y", str, str, [ChartLine("one", [(4, 3.0)], 1)]).svg()


@pytest.mark.parametrize("make", [machine, bare])
def test_tables_are_rectangular(make):
    for section in sections(make()):
        assert section.rows
        assert all(len(row) == len(section.columns) for row in section.rows), section.title


@pytest.mark.parametrize(("seconds", "text"), [(2.0, "2.00 s"), (0.0015, "1.50 ms"), (1.38e-6, "1.38 us"), (9e-8, "90 ns")])
def test_times_read_well(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(7, "7"), (88_298, "88.3 K"), (3.54e8, "354 M"), (2.5e9, "2.5 G")])
def test_counts_read_well(count, text):
    assert format_count(count) == text
