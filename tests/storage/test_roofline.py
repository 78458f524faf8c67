"""How many requests a disk needs at a time."""

import os
from types import SimpleNamespace

import pytest

from hinterland.machine.model import Disk
from hinterland.probe import storage as measure
from hinterland.runtime.errors import ConfigError
from hinterland.storage import roofline
from hinterland.storage.roofline import Roofline


def test_littles_law_of_the_paper():
    """Section 4.5: 6.35 million reads a second of 4 KiB, each 11 us (Optane) or 324 us (NAND), need 70 or 2057."""
    for seconds, needed in ((11e-6, 70), (324e-6, 2057)):
        roof = Roofline(seconds, 6.35e6, {1: 1 / seconds, 4096: 6.35e6})
        assert round(roof.little) == needed
        assert roof.at(1) == pytest.approx(1 / seconds) and roof.at(needed + 1) == 6.35e6
        assert roof.at(needed // 2) == pytest.approx(needed // 2 / seconds)


def test_room_for_twice_to_three_times_that_and_for_what_was_measured():
    optane = Roofline(11e-6, 6.35e6, {1: 9e4, 64: 5e6, 128: 6.35e6})
    assert 2 * optane.little <= optane.needed <= 3 * optane.little + 1
    # A virtual disk: 50,000 a second one at a time, 240,000 with 64, where Little's law asks for 5.
    virtual = Roofline.of({1: 5e4, 8: 165e3, 64: 240e3, 256: 241e3})
    assert virtual.little == pytest.approx(4.82) and virtual.needed == 64


def test_a_file_is_measured(tmp_path):
    (tmp_path / "x").write_bytes(os.urandom(1 << 20))
    found = measure.under_way(tmp_path / "x")
    assert tuple(found.measured) == measure.UNDER_WAY and found.most == max(found.measured.values())
    assert found.at(1) == pytest.approx(found.measured[1])
    (tmp_path / "x").write_bytes(b"little")
    with pytest.raises(ConfigError, match="take a larger file"):
        measure.under_way(tmp_path / "x")


@pytest.mark.parametrize(("block_bytes", "lines"), [(4096, 64), (65536, 4), (262144, 4)])
def test_blocks_are_counted_whatever_lines_they_are_of(tmp_path, monkeypatch, block_bytes, lines):
    through, moved = measure._through, []

    def in_a_second(array, *given):
        moved.append(through(array, *given)[0])
        return moved[-1], 1.0, 0.5

    monkeypatch.setattr(measure, "_through", in_a_second)
    path = tmp_path / "x"
    path.write_bytes(os.urandom(1 << 20))
    found = measure.compare(
        path, block_bytes=block_bytes, sequential=True, blocks=(lines * min(block_bytes, 65536)) // block_bytes, pairs=1
    )
    assert moved == [lines] and found.block_bytes == block_bytes
    assert found.requests == lines * min(block_bytes, 65536) / block_bytes  # blocks in that second
    assert found.cpu_us == 0.5e6 / found.requests


def test_what_the_probe_has_found(tmp_path, monkeypatch):
    disk = Disk(str(tmp_path), True, 1e9, 1e9, {1: 5e4, 64: 240e3})
    monkeypatch.setattr(roofline, "load", lambda: SimpleNamespace(disk=disk))
    found = roofline.probed(str(tmp_path / "."), 4096)
    assert found is not None and found.measured == {1: 5e4, 64: 240e3}
    large = roofline.probed(str(tmp_path), 65536)  # no faster than in sequence
    assert large is not None and large.most == pytest.approx(1e9 / 65536)
    assert roofline.probed("/proc/self", 4096) is None  # another file system
    assert roofline.probed(str(tmp_path / "missing"), 4096) is None
    monkeypatch.setattr(roofline, "load", lambda: None)
    assert roofline.probed(str(tmp_path), 4096) is None
