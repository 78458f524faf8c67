"""The measurements themselves: figures of a running machine are only checked for sense, their work is checked exactly."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland
from hinterland import _core
from hinterland.probe import disk, host, measure, random_rows
from hinterland.runtime.errors import ConfigError, StorageError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))


def test_read_sequence_reads_every_word():
    values = np.random.default_rng(1).integers(0, 1 << 32, 100_003, dtype=np.uint32)
    tensor = torch.from_numpy(values.view(np.int32))
    assert _core.read_sequence(tensor.data_ptr(), tensor.nbytes) == np.bitwise_xor.reduce(values)


@pytest.mark.parametrize("count", [1, 2, 1024])
def test_the_chain_visits_every_place_once(count):
    stride = 8
    table = torch.full((count * stride,), -1, dtype=torch.int64)
    _core.write_chain(table.data_ptr(), count, stride)
    at, seen = 0, []
    for _ in range(count):
        seen.append(at)
        at = _core.read_chain(table.data_ptr(), at, 1)
    assert at == 0 and sorted(seen) == list(range(0, count * stride, stride))
    assert _core.read_chain(table.data_ptr(), 0, count) == 0


def test_cpu_figures_make_sense(monkeypatch):
    monkeypatch.setattr(host, "memory_bytes", lambda: 512 << 20)  # keeps the buffers, and so the test, small
    cpu = host.measure()
    assert cpu.memory_bytes == 512 << 20
    assert 1e6 < cpu.read < 1e13 and 1e6 < cpu.copy < 1e13  # wide: they must be rates, not good ones
    assert 1e-10 < cpu.latency < 1e-2
    assert [p.row_bytes for p in cpu.rows] == list(random_rows.ROW_BYTES)
    assert all(p.random > 0 and p.sorted > 0 and p.mapping == "pageable" for p in cpu.rows)


def test_the_buffers_fit_the_memory_that_can_be_had(monkeypatch):
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "600MiB")
    assert {point.table_bytes for point in host.measure().rows} == {75 << 20}


@pytest.fixture
def small_disk(monkeypatch):
    monkeypatch.setattr(disk, "_PIECE", 8 << 20)
    monkeypatch.setattr(disk, "LEAST_WRITTEN", 16 << 20)
    monkeypatch.setattr(disk, "_SECONDS", 0.3)
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=disk.DISK_LEFT + (33 << 20)))


def test_disk_figures_make_sense_and_nothing_stays(tmp_path, small_disk):
    found, left_out = disk.measure(tmp_path)
    assert found is not None and found.path == str(tmp_path)
    assert found.sequential > 1e6 and found.write > 1e5
    assert set(found.random4k) == {1, 8, 64, 256} and all(rate > 10 for rate in found.random4k.values())
    assert found.direct or "direct I/O" in left_out[0]
    assert list(tmp_path.iterdir()) == []


def test_nothing_stays_after_an_interrupt(tmp_path, small_disk, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(disk._core, "run_raw", interrupt)
    with pytest.raises(KeyboardInterrupt):
        disk.measure(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_nearly_full_disk_is_left_alone(tmp_path, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=100 << 20))
    found, left_out = disk.measure(tmp_path)
    assert found is None and "100.00 MiB are free" in left_out[0] and "--disk-path" in left_out[0]


def test_a_folder_that_is_none_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    found, left_out = disk.measure(tmp_path / "file")
    assert found is None and str(tmp_path / "file") in left_out[0]


def test_a_disk_that_fills_is_said(tmp_path, small_disk, monkeypatch):
    def full(*args):
        raise StorageError("cannot write: No space left on device")

    monkeypatch.setattr(disk._core, "transfer_file", full)
    found, left_out = disk.measure(tmp_path)
    assert found is None and "No space left" in left_out[0]


def test_transfer_writes_pages_of_which_no_two_are_alike(tmp_path):
    file = tmp_path / "file"
    file.touch()
    _core.transfer_file(str(file), 0, 8 << 20, 3, True, False)
    pages = np.fromfile(file, dtype=np.uint8).reshape(-1, 4096)
    assert len(pages) == 2048 and len({page.tobytes() for page in pages}) == 2048
    _core.transfer_file(str(file), 0, 8 << 20, 3, False, False)


def test_transfer_says_what_failed(tmp_path):
    with pytest.raises(StorageError, match=r"cannot open .*missing: No such file or directory; check the path"):
        _core.transfer_file(str(tmp_path / "missing"), 0, 4 << 20, 1, True, False)
    (tmp_path / "short").write_bytes(b"1")
    with pytest.raises(StorageError, match="ended early"):
        _core.transfer_file(str(tmp_path / "short"), 0, 4 << 20, 2, False, False)
    if os.path.exists("/dev/full"):
        with pytest.raises(StorageError, match="No space left"):
            _core.transfer_file("/dev/full", 0, 4 << 20, 2, True, False)


@pytest.fixture
def quick(monkeypatch, small_disk):
    monkeypatch.setattr(host, "memory_bytes", lambda: 512 << 20)


def test_probe_measures_once(tmp_path, quick, monkeypatch):
    phrases: list[str] = []
    first = hinterland.probe(progress=phrases.append)
    assert phrases[0] == "CPU memory" and hinterland.machine.load() == first
    monkeypatch.setattr(measure, "_measure", lambda *args: pytest.fail("measured again"))
    assert hinterland.probe() == first and first.kind == hinterland.machine.machine_kind()

    other = tmp_path / "elsewhere"
    other.mkdir()
    moved = hinterland.probe(disk_path=other)  # only the disk is measured
    assert moved.disk is not None and moved.disk.path == str(other) and moved.cpu == first.cpu
    assert hinterland.machine.load() == moved


def test_refresh_and_full_measure_again(monkeypatch):
    made = []

    def fake(full: bool, folder: Path, say: object) -> hinterland.Machine:
        made.append(full)
        cpu = hinterland.machine.Cpu("a CPU", 2, 1, 1.0, 1.0, 1.0, 1.0)
        return hinterland.Machine(str(len(made)), hinterland.machine.cache.fingerprint(), full, cpu)

    monkeypatch.setattr(measure, "_measure", fake)
    for arguments, expected in [({}, "1"), ({}, "1"), ({"refresh": True}, "2"), ({"full": True}, "3"), ({}, "3")]:
        assert hinterland.probe(**arguments).date == expected
    assert made == [False, False, True]


def test_what_may_be_mapped_is_kept_until_it_is_said_anew(monkeypatch):
    cpu = hinterland.machine.Cpu("a CPU", 2, 1, 1.0, 1.0, 1.0, 1.0)
    made = hinterland.Machine("now", hinterland.machine.cache.fingerprint(), False, cpu)
    monkeypatch.setattr(measure, "_measure", lambda full, folder, say: made)
    assert hinterland.probe().managed_limit is None
    for arguments, expected in [
        ({"managed_limit": "64GiB"}, 64 << 30),
        ({}, 64 << 30),
        ({"refresh": True}, 64 << 30),
        ({"managed_limit": "unlimited"}, 1 << 62),
        ({"managed_limit": 0, "refresh": True}, 0),
    ]:
        assert hinterland.probe(**arguments).managed_limit == expected
        assert hinterland.machine.load().managed_limit == expected
    with pytest.raises(ConfigError, match="may also be 'unlimited'"):
        hinterland.probe(managed_limit="lots")


def test_a_measurement_that_cannot_be_kept_is_still_returned(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "file"))
    cpu = hinterland.machine.Cpu("a CPU", 2, 1, 1.0, 1.0, 1.0, 1.0)
    measured = hinterland.Machine("now", "mine", False, cpu, left_out=("a thing",))
    monkeypatch.setattr(measure, "_measure", lambda full, folder, say: measured)
    machine = hinterland.probe()
    assert dataclasses.replace(machine, left_out=machine.left_out[:-1]) == measured
    assert "HINTERLAND_CACHE_DIR" in machine.left_out[-1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_without_a_gpu_the_rest_is_measured(quick):
    machine = hinterland.probe()
    assert machine.gpus == () and machine.link is None and machine.rows == () and machine.peers == ()
    assert any(sentence.startswith("no GPU: link, rows, sort and peers") for sentence in machine.left_out)
