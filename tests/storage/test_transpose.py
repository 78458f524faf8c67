"""Files in Fortran order, read and written again row by row: numpy writes them, and says what is in them."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import hinterland as hl
from hinterland import StorageArray, UnifiedTensor, cli
from hinterland.memory import load, transposed
from hinterland.runtime.errors import ConfigError, FormatError, StorageError
from hinterland.storage import transpose as transposing
from hinterland.storage.transpose import transpose

from .. import forked

TYPES = ["?", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "c8", "c16"]
ANYWHERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def save(path, shape, kind, seed=0):
    """A file as ``np.save(frame.to_numpy())`` writes it, and what is in it."""
    values = np.random.default_rng(seed).integers(0, 2 if kind == "?" else 100, shape).astype(kind)
    np.save(path, np.asfortranarray(values))
    return values


def same(found, values):
    return found.dtype == torch.from_numpy(values).dtype and np.array_equal(found.cpu().numpy(), values)


@ANYWHERE
@given(shape=st.lists(st.integers(0, 40), min_size=1, max_size=4), kind=st.sampled_from(TYPES))
@example(shape=[1, 1], kind="f4")
@example(shape=[1, 700], kind="i2")
@example(shape=[700, 1], kind="f8")
@example(shape=[3, 40, 2, 5], kind="c16")
def test_any_shape_and_type(tmp_path, shape, kind):
    values = save(tmp_path / "a.npy", shape, kind)
    assert same(UnifiedTensor.from_file(tmp_path / "a.npy"), values)
    assert same(hl.open_table(tmp_path / "a.npy").place(), values)


@pytest.mark.parametrize(
    ("shape", "kind"), [((300_000, 11), "f4"), ((5, 700_001), "i2"), ((2_100, 2_300), "f8"), ((1500, 7, 90), "u1")]
)
def test_larger_than_a_tile(tmp_path, shape, kind):
    values = save(tmp_path / "a.npy", shape, kind)
    assert same(UnifiedTensor.from_file(tmp_path / "a.npy"), values)


def test_more_columns_than_are_numbered_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(transposed, "_COLUMNS", 7)
    values = save(tmp_path / "a.npy", (9, 4, 6), "i4")
    assert same(UnifiedTensor.from_file(tmp_path / "a.npy"), values)


def test_what_is_asked_for_is_checked(tmp_path):
    values = save(tmp_path / "a.npy", (6, 4), "f4")
    assert same(UnifiedTensor.from_file(tmp_path / "a.npy", dtype=torch.float32, shape=(-1, 4), placement="pageable"), values)
    with pytest.raises(ConfigError, match=r"shape \(6, 4\)"):
        UnifiedTensor.from_file(tmp_path / "a.npy", shape=(4, 6))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-1])
    with pytest.raises(FormatError, match="truncated"):
        UnifiedTensor.from_file(tmp_path / "a.npy")


@pytest.mark.parametrize("shape", [(0, 1 << 70), (1 << 70, 0), (0, 1 << 62, 4), (1 << 40, 0, 1 << 40)])
def test_an_empty_table_of_more_than_64_bits_count_is_refused(tmp_path, shape):
    header = repr({"descr": "<f8", "fortran_order": True, "shape": shape}).encode() + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    for read in (UnifiedTensor.from_file, StorageArray.open, hl.open_table, load_at):
        with pytest.raises(FormatError, match="more elements than 64 bits"):
            read(tmp_path / "a.npy")


def load_at(path):
    return load.locate(path, None, None, 0)


def test_what_lies_behind_other_bytes(tmp_path):
    values = save(tmp_path / "a.npy", (6, 4), "f4")
    (tmp_path / "b.bin").write_bytes(b"12345" + (tmp_path / "a.npy").read_bytes())
    assert same(UnifiedTensor.from_file(tmp_path / "b.bin", offset=5), values)


@pytest.mark.nightly
def test_all_of_it_is_in_memory_once(tmp_path):
    save(tmp_path / "a.npy", (1 << 20, 64), "f4")  # 256 MiB
    code = """
import sys, hinterland as hl
def most():
    return next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
hl.UnifiedTensor.empty(1)
before = most()
table = hl.UnifiedTensor.from_file(sys.argv[1])
print(most() - before)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.npy"], capture_output=True, text=True, check=True)
    assert 256 <= int(done.stdout) < 256 + 160  # and 16 tiles of 8 MiB


def test_a_file_that_shrinks_as_it_is_read(tmp_path):
    save(tmp_path / "a.npy", (600, 4), "f4")
    stored = load.locate(tmp_path / "a.npy", None, None, 0)
    os.truncate(tmp_path / "a.npy", 2000)
    with pytest.raises(FormatError, match="truncated: the file ends"):
        transposed.read_all(tmp_path / "a.npy", stored, torch.empty(600, 4))


def test_rows_are_placed(tmp_path):
    values = save(tmp_path / "a.npy", (500, 6), "f4")
    opened = hl.open_table(tmp_path / "a.npy")
    assert "ColumnFile" in repr(opened)
    tiers = opened.place(gpu=100 * 24, hot=torch.rand(500), devices=["cpu"])
    index = torch.randint(0, 500, (300,))
    assert torch.equal(tiers[index], torch.from_numpy(values)[index])
    assert opened.plan(gpu="1MiB", devices=["cpu"]).rows == 500
    recent = opened.place(gpu="64KiB", hot="recent", devices="cpu")
    assert torch.equal(recent[index], torch.from_numpy(values)[index])
    with pytest.raises(ConfigError, match=r"host=1000 leaves rows in the file.*`hinterland storage transpose"):
        opened.place(host=1000)


def test_what_stays_in_the_file_names_the_command(tmp_path, monkeypatch):
    values = save(tmp_path / "a b.npy", (50, 6), "f4")
    for refused in (StorageArray.open, lambda path: UnifiedTensor.from_file(path, placement="storage")):
        with pytest.raises(FormatError) as caught:
            refused(tmp_path / "a b.npy")
    words = shlex.split(re.search(r"`hinterland (.*?)`", str(caught.value))[1])
    monkeypatch.chdir(tmp_path)
    forked.run("-m", "hinterland", *words, check=True)
    with StorageArray.open(tmp_path / "rows.npy") as array:
        assert same(array[:], values)


@pytest.mark.parametrize("ending", ["npy", "safetensors", "bin"])
@pytest.mark.parametrize(
    ("shape", "most"),
    [((500, 6), 1 << 20), ((500, 6), 1000), ((6, 500), 1000), ((40, 50), 2000), ((20, 3, 7), 300), ((3, 20, 7), 300)],
)
def test_written_row_by_row_in_parts(tmp_path, monkeypatch, ending, shape, most):
    values = save(tmp_path / "a.npy", shape, "f4")
    monkeypatch.setattr(transposing, "TRANSPOSED_BYTES", most)
    sizes = [
        4 * rows * columns for _, _, rows, columns in transposed.parts(load.locate(tmp_path / "a.npy", None, None, 0), most)
    ]
    assert max(sizes) <= most and sum(sizes) == values.nbytes
    output = tmp_path / f"rows.{ending}"
    assert transpose(tmp_path / "a.npy", output).shape == shape
    what = {"dtype": torch.float32, "shape": shape} if ending == "bin" else {}
    with StorageArray.open(output, **what) as array:
        assert same(array[:], values)


def test_a_file_can_be_replaced_by_itself(tmp_path):
    values = save(tmp_path / "a.npy", (50, 6), "f8")
    transpose(tmp_path / "a.npy", tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), values) and np.load(tmp_path / "a.npy").flags.c_contiguous
    with pytest.raises(ConfigError, match="in C order already"):
        transpose(tmp_path / "a.npy", tmp_path / "a.npy")
    assert os.listdir(tmp_path) == ["a.npy"]


def test_a_file_that_is_replaced_after_it_was_opened(tmp_path):
    values = save(tmp_path / "a.npy", (50, 6), "f8")
    opened = hl.open_table(tmp_path / "a.npy")
    transpose(tmp_path / "a.npy", tmp_path / "a.npy")
    with pytest.raises(FormatError, match="another table than when it was opened; open it again"):
        opened.place()
    assert same(hl.open_table(tmp_path / "a.npy").place(), values)


@pytest.mark.parametrize("kind", ["safetensors", "raw", "empty", "torch"])
def test_what_is_no_npy_is_left_as_it_is(tmp_path, kind):
    path = tmp_path / "a"
    if kind == "safetensors":
        save_file({"data": torch.zeros(3, 4)}, path)
    elif kind == "torch":
        torch.save(torch.zeros(3, 4), path)
    else:
        path.write_bytes(bytes(48) if kind == "raw" else b"")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="is no .npy file.*StorageArray.open"):
        transpose(path, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    (tmp_path / "a").mkdir() if kind == "folder" else os.mkfifo(tmp_path / "a")
    with pytest.raises(StorageError, match="this is"):
        transpose(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]


def test_the_command(tmp_path, command_line):
    save(tmp_path / "a.npy", (50, 6), "f8")
    command = (cli.main, "hinterland", "storage", "transpose", tmp_path / "a.npy")
    status, out, _ = command_line(*command, tmp_path / "b.npy", "--json")
    assert status == 0
    assert json.loads(out) == {"file": str(tmp_path / "b.npy"), "shape": [50, 6], "dtype": "float64", "bytes": 2400}
    for source, output, reason in (
        (tmp_path / "b.npy", tmp_path / "c.npy", "in C order already"),
        (tmp_path / "missing.npy", tmp_path / "c.npy", "No such file"),
        (tmp_path / "a.npy", tmp_path / "none" / "c.npy", "No such file"),
    ):
        status, _, error = command_line(*command[:-1], source, output)
        assert status == 1 and reason in error and not (tmp_path / "c.npy").exists()


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    save(tmp_path / "a.npy", (5000, 60), "f8")
    code = f"""
import resource, signal
from hinterland.storage.transpose import transpose
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
transpose({str(tmp_path / "a.npy")!r}, {str(tmp_path / "b.npy")!r})
"""
    done = forked.run("-c", code)
    assert StorageError.__name__ in done.stderr and "File too large; the disk or the quota is full" in done.stderr
    assert os.listdir(tmp_path) == ["a.npy"]


def test_ctrl_c_leaves_nothing(tmp_path):
    save(tmp_path / "a.npy", (3000, 60), "f8")
    code = f"""
import sys, time
from hinterland import cli
from hinterland.memory import transposed
real = transposed.read_part
def slow(*what):
    real(*what)
    print("reading", flush=True)
    time.sleep(60)
transposed.read_part = slow
sys.argv = ["hinterland", "storage", "transpose", {str(tmp_path / "a.npy")!r}, {str(tmp_path / "b.npy")!r}]
cli.main()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "reading\n"
    assert len(os.listdir(tmp_path)) == 2
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 130 and "interrupted" in error
    assert os.listdir(tmp_path) == ["a.npy"]
