from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinterland import machine as machine_module
from hinterland.machine import (
    Cpu,
    Disk,
    Gpu,
    HelpPoint,
    Link,
    Machine,
    MachineKind,
    Peer,
    RowPoint,
    SequentialPoint,
    cache,
)
from hinterland.runtime.errors import ConfigError, FormatError, StorageError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))


def a_machine(**changes) -> Machine:
    row = RowPoint("pageable", 1 << 20, 64, 1e9, 2e9)
    whole = Machine(
        date="2026-01-01T00:00:00+00:00",
        fingerprint=cache.fingerprint(),
        full=False,
        cpu=Cpu("a CPU", 2, 1 << 34, 2e10, 1e10, 1e-7, 1e7, (row,)),
        gpus=(Gpu("a GPU", "GPU-0", "sm_90", 1 << 37, 132),),
        driver="580.1",
        link=Link(5.5e10, 5.4e10, 5.1e10, 1.4e-6, {4: 16, 16: 8}, (SequentialPoint("managed", 4, 0, 264, 5e10),)),
        rows=(row, dataclasses.replace(row, mapping="managed")),
        sort={1 << 20: 1e-4},
        peers=(Peer(0, 1, 3.7e11, 3.3e11),),
        disk=Disk("/tmp", True, 1e9, 1e9, {1: 1e4, 64: 1e5}),
        left_out=("nothing much",),
        managed_limit=1 << 36,
        kind=MachineKind(True, "a flag"),
        helped=(HelpPoint(1 << 30, 64, 2e9, 2.8e10, 1.1e10),),
    )
    return dataclasses.replace(whole, **changes)


def test_json_and_back():
    for machine in (a_machine(), a_machine(link=None, disk=None, gpus=(), driver=None, rows=(), sort={}, peers=())):
        assert Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(version=0), "version"),
        (lambda d: d.pop("cpu"), "cpu"),
        (lambda d: d.update(surprise=1), "surprise"),
        (lambda d: d["cpu"].update(read="fast"), r"machine.cpu.read: 'fast'"),
        (lambda d: d["cpu"].update(cores=True), "machine.cpu.cores"),
        (lambda d: d["rows"][1].update(random=None), r"machine.rows\[1\].random"),
        (lambda d: d.update(sort={"many": 1.0}), "machine.sort"),
    ],
)
def test_a_wrong_field_is_named(change, words):
    data = json.loads(json.dumps(a_machine().to_json()))
    change(data)
    with pytest.raises(FormatError, match=words):
        Machine.from_json(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from([f.name for f in dataclasses.fields(Machine)]), json_values)
def test_any_other_json_is_refused_or_read_whole(name, value):
    data = {**a_machine().to_json(), name: value}
    try:
        machine = Machine.from_json(json.loads(json.dumps(data)))
    except FormatError:
        return
    assert machine.to_json().keys() == data.keys()


def test_load_is_none_where_nothing_is_measured():
    assert machine_module.load() is None


def test_store_and_load():
    machine = a_machine()
    assert cache.store(machine) == cache.path()
    assert machine_module.load() == machine
    assert [file.name for file in cache.path().parent.iterdir()] == ["machine.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe", b'{"version": 1}', b"[" * 100_000])
def test_a_damaged_file_is_as_none(content):
    cache.path().write_bytes(content)
    assert machine_module.load() is None


def test_no_flipped_bit_changes_a_measurement():
    kept = cache.store(a_machine()).read_bytes()
    changed = 0
    for at in range(len(kept)):
        content = bytearray(kept)
        content[at] ^= 1 << at % 8
        cache.path().write_bytes(content)
        os.utime(cache.path(), ns=(at, at))
        changed += machine_module.load() not in (None, a_machine())
    assert changed == 0


def test_a_file_that_others_could_write_is_as_none(monkeypatch):
    before = os.umask(0)
    try:
        cache.store(a_machine())
    finally:
        os.umask(before)
    assert machine_module.load() is not None
    cache.path().chmod(0o664)
    assert machine_module.load() is None
    cache.path().chmod(0o644)
    if os.geteuid() == 0:
        os.chown(cache.path(), 1234, 1234)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert machine_module.load() is None


def test_another_machine_is_as_none():
    cache.store(a_machine(fingerprint="another"))
    assert machine_module.load() is None


def test_load_sees_a_new_measurement():
    cache.store(a_machine())
    assert machine_module.load() is not None
    cache.store(a_machine(date="later than the other"))
    assert machine_module.load().date == "later than the other"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="HINTERLAND_CACHE_DIR"):
        cache.store(a_machine())


def test_a_file_in_place_of_the_folder_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "file"))
    assert machine_module.load() is None
    with pytest.raises(ConfigError, match="HINTERLAND_CACHE_DIR"):
        cache.store(a_machine())


def test_fingerprint_names_the_processor():
    assert cache.cpu_model()
    assert cache.cores() >= 1
    assert cache.fingerprint() == cache.fingerprint() != ""


def test_path_is_in_the_home_folder_by_default(monkeypatch):
    monkeypatch.delenv("HINTERLAND_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.path() == Path.home() / ".cache" / "hinterland" / "machine.json"


def test_a_full_disk_gets_a_sentence_and_keeps_what_was_there(tmp_path, monkeypatch):
    kept = cache.store(a_machine()).read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        cache.store(a_machine(date="2027-01-01T00:00:00+00:00"))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [kept]
