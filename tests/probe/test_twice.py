"""Two measurements of one machine: which figures are kept, and what is said where they are far apart."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from pathlib import Path

import pytest

import hinterland
from hinterland.machine import Cpu, Disk, Link, Machine, RowPoint, SequentialPoint
from hinterland.probe import link, measure, twice


def machine(**changes: object) -> Machine:
    rows = tuple(RowPoint("pageable", 1 << 29, width, 1e9, 2e9) for width in (32, 64))
    found = Machine("now", "f", False, Cpu("a CPU", 2, 1 << 34, 2e10, 1e10, 1e-7, 1e7, rows))
    return dataclasses.replace(found, **changes)


def test_the_higher_rate_and_the_shorter_time_are_kept():
    quiet = machine(sort={1024: 1e-4}, disk=Disk("/d", True, 2e9, 1e9, {1: 9e3, 64: 8e4}))
    slow_cpu = dataclasses.replace(
        quiet.cpu, read=1e10, latency=3e-7, rows=(quiet.cpu.rows[0], RowPoint("pageable", 1 << 29, 64, 1e8, 3e9))
    )
    busy = dataclasses.replace(quiet, cpu=slow_cpu, sort={1024: 5e-4}, disk=Disk("/d", True, 1.9e9, 1.1e9, {1: 9e3, 64: 2e4}))
    expected = dataclasses.replace(
        quiet,
        cpu=dataclasses.replace(quiet.cpu, rows=(quiet.cpu.rows[0], RowPoint("pageable", 1 << 29, 64, 1e9, 3e9))),
        disk=Disk("/d", True, 2e9, 1.1e9, {1: 9e3, 64: 8e4}),
    )
    for pair in ((quiet, busy), (busy, quiet)):
        found, said = twice.better(*pair)
        assert found == expected
        assert [sentence.split(":")[0] for sentence in said] == ["cpu", "sort", "disk"]
        assert "3 figures lie up to 10.0 times apart" in said[0] and "(cpu.rows[1].random)" in said[0]
        assert "one figure lies up to 5.0 times apart" in said[1] and "(sort[1024])" in said[1]
        assert all("--refresh" in sentence for sentence in said)


def test_a_measurement_that_gave_nothing_is_not_kept():
    for pair in ((0.0, 5.0), (5.0, 0.0)):
        found, (said,) = twice.better(*pair, "rate")
        assert found == 5.0 and "one figure lies up to inf times apart" in said
    assert twice.better(0.0, 0.0, "rate") == (0.0, [])
    for pair in ((math.nan, 5.0), (5.0, math.nan)):
        for name in ("rate", "latency"):
            assert twice.better(*pair, name) == (5.0, [])


def test_what_is_alike_is_not_in_doubt():
    near = dataclasses.replace(machine().cpu, read=1.4e10)
    assert twice.better(machine(), machine(cpu=near)) == (machine(), [])


def test_what_one_measurement_has_alone_is_kept():
    disk = Disk("/d", True, 2e9, 1e9, {1: 9e3})
    fewer = dataclasses.replace(machine().cpu, rows=machine().cpu.rows[:1])
    for pair in ((machine(disk=disk), machine(cpu=fewer)), (machine(cpu=fewer), machine(disk=disk))):
        assert twice.better(*pair) == (machine(disk=disk), [])


def test_what_saturates_a_link_follows_from_the_figures_that_are_kept():
    def swept(rates: dict[int, float]) -> Link:
        points = [SequentialPoint("managed", access, 0, blocks, rate) for access in (4, 16) for blocks, rate in rates.items()]
        return Link(5e10, 5e10, 5e10, 1e-6, {}, tuple(points))

    disturbed, quiet = swept({1: 1e9, 2: 3.9e9, 8: 4e9}), swept({1: 1e9, 2: 4e9, 8: 5e10})
    found, _ = twice.better(disturbed, quiet)
    assert link.saturated(disturbed).threads_to_saturate == {4: 2, 16: 2}
    assert link.saturated(found).threads_to_saturate == {4: 8, 16: 8}


def jiffies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worked: list[int], idle: int) -> list[str]:
    """What is said of a machine whose first two cores worked so long, and were idle, between two looks."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    file = tmp_path / "stat"
    file.write_text("cpu 9 9 9 9\ncpu0 5 0 5 50 10 0 0 0 0 0\ncpu1 5 0 5 50 10 0 0 0 0 0\ncpu2 0 0 0 0 0 0 0 0 0 0\nintr 1\n")
    later = "".join(f"cpu{core} {5 + work} 0 5 {50 + idle} 10 0 0 0 0 0\n" for core, work in enumerate(worked))
    monkeypatch.setattr(twice, "Path", lambda name: file)
    monkeypatch.setattr(
        twice.time, "sleep", lambda seconds: file.write_text(f"cpu 9 9 9 9\n{later}cpu2 900 0 0 0 0 0 0 0 0 0\n")
    )
    return twice.busy()


def test_a_machine_that_does_something_else_is_told_of(monkeypatch, tmp_path):
    assert jiffies(monkeypatch, tmp_path, [25, 15], 10) == [
        "other programs kept 1.3 of 2 cores busy while this machine was measured"
    ]


def test_an_idle_machine_is_not(monkeypatch, tmp_path):
    assert jiffies(monkeypatch, tmp_path, [1, 0], 25) == []


def test_a_probe_measures_twice_warns_and_keeps_the_better(monkeypatch, tmp_path):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))
    fingerprint = hinterland.machine.cache.fingerprint()
    disturbed = dataclasses.replace(machine().cpu, read=1e9)
    turns = iter([machine(cpu=disturbed, fingerprint=fingerprint), machine(fingerprint=fingerprint)])
    monkeypatch.setattr(measure, "_once", lambda full, folder, say: next(turns))
    monkeypatch.setattr(twice, "busy", lambda: ["the machine is busy"])
    with pytest.warns(UserWarning) as told:
        found = hinterland.probe()
    assert found.cpu == machine().cpu and hinterland.machine.load() == found
    assert found.doubts == tuple(str(warning.message) for warning in told)
    assert found.doubts[0] == "the machine is busy" and "20.0 times apart" in found.doubts[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what was measured before has been told
        assert hinterland.probe() == found
