"""StorageArray against torch, numpy and what a disk does."""

import copy
import errno
import gc
import os
import pickle
import platform
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory, StorageError

from .. import forked
from ..storage.killed import ROWS, WIDTH, killed_writers, rows_of
from ..together import by_threads

ENGINES = ("auto", "threads")
SET = 8 * (512 + 64)  # holds one set of the smallest lines


def table(path: Path, rows: int = 1000, width: int = 33, seed: int = 0) -> torch.Tensor:
    """A file of random numbers, whose rows straddle pages, and what it holds."""
    x = np.random.default_rng(seed).random((rows, width), dtype=np.float32)
    np.save(path, x)
    return torch.from_numpy(x)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("line_bytes", (512, 4096, 65536))
def test_rows_are_those_of_the_file(tmp_path: Path, engine: str, line_bytes: int) -> None:
    x = table(tmp_path / "x.npy")
    cache = hl.StorageCache(64 * line_bytes, line_bytes, engine)
    with hl.StorageArray.open(tmp_path / "x.npy", cache=cache) as a:
        assert (a.shape, a.dtype, a.placement, len(a)) == (x.shape, x.dtype, "storage", 1000)
        index = torch.randint(-1000, 1000, (7, 300), generator=torch.Generator().manual_seed(1))
        assert torch.equal(a[index], x[index])
        assert torch.equal(a.gather(index.int()), x[index])
        out = torch.empty(7, 300, 33)
        assert a.gather(index, out) is out and torch.equal(out, x[index])
        assert torch.equal(a[3:-7:5], x[3:-7:5]) and torch.equal(a[-1], x[-1]) and torch.equal(a[[5, 5, -2]], x[[5, 5, -2]])
        assert torch.equal(a[:], x)
        assert a[torch.empty(0, dtype=torch.int64)].shape == (0, 33)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_reads_and_writes_in_any_order(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Against a tensor; what is read at the end is read from the file by numpy."""
    path = tmp_path_factory.mktemp("any") / "x.bin"
    rows, width = data.draw(st.integers(1, 60)), data.draw(st.sampled_from((1, 3, 64, 700)))
    offset = data.draw(st.sampled_from((0, 2, 510, 4096)))
    x = torch.randint(-(2**15), 2**15, (rows, width), dtype=torch.int16)
    path.write_bytes(b"\xaa" * offset + x.numpy().tobytes() + b"\xbb" * 5)
    engine, line = data.draw(st.sampled_from(ENGINES)), data.draw(st.sampled_from((512, 4096)))
    cache = hl.StorageCache(data.draw(st.integers(8, 40)) * (line + 64), line, engine)
    with hl.StorageArray.open(path, "r+", dtype=torch.int16, shape=(rows, width), offset=offset, cache=cache) as a:
        for turn in range(data.draw(st.integers(1, 6))):
            index = torch.tensor(data.draw(st.lists(st.integers(-rows, rows - 1), max_size=40)), dtype=torch.int64)
            if data.draw(st.booleans()):
                assert torch.equal(a[index], x[index])
            else:
                new = torch.randint(0, 100, (len(index), width), dtype=torch.int16) + turn
                a[index] = new
                for i, row in zip(index.tolist(), new, strict=True):  # the last counts
                    x[i] = row
            if data.draw(st.booleans()):
                a.flush()
        assert torch.equal(a[:], x)
    held = path.read_bytes()
    assert held == b"\xaa" * offset + x.numpy().tobytes() + b"\xbb" * 5, "neither more nor less was written"


def test_rows_are_fetched_to_their_places(tmp_path: Path) -> None:
    """All at once, rows asked for again too; other rows of the tensor stay as they are."""
    x = table(tmp_path / "x.npy", rows=5000)
    with hl.StorageArray.open(tmp_path / "x.npy") as a:
        out = torch.full((2000, 33), 7.0)
        places = torch.randperm(2000)[:900].sort().values
        rows = torch.randint(0, 5000, (900,))
        a.fetch(rows, out, places)
        expected = torch.full((2000, 33), 7.0)
        expected[places] = x[rows]
        assert torch.equal(out, expected)


def test_what_a_gather_asks_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(512 * 3000))
    cache = hl.StorageCache("1MiB", line_bytes=512)
    for width, index, pages in ((512, [5, 5, 7], 2), (128, [0, 3, 4, 4], 2), (700, [0, 1], 3), (1536, [2], 3), (512, [], 0)):
        a = hl.StorageArray.open(tmp_path / "x.bin", dtype=torch.uint8, shape=(1000, width), cache=cache)
        counted = a.count(torch.tensor(index, dtype=torch.int64))
        assert counted.tiers["storage"] == {"bytes": 512 * pages, "requests": pages, "hits": len(index)}
        assert counted.rows == {"local": 0, "peers": 0, "host": 0, "storage": len(index)}
    with pytest.raises(IndexOutOfRange, match="position 1"):
        a.count([1, 1000])


def test_a_table_beside_another_goes_with_it(tmp_path: Path) -> None:
    table(tmp_path / "x.npy")
    a = hl.StorageArray.open(tmp_path / "x.npy")
    b = a.beside(tuple(a.shape), torch.float16, "sums")
    assert (b.shape, b.dtype, b.cache) == (a.shape, torch.float16, a.cache) and not b[:].any()
    b[3] = 2.0
    b.flush()
    assert os.listdir(tmp_path) == ["x.npy"] and bool((b[3] == 2).all())
    b.close()
    os.rename(tmp_path, tmp_path.with_name("moved"))
    with pytest.raises(StorageError, match="No such file"):
        a.beside(tuple(a.shape), torch.float16, "sums")


def test_what_is_set_may_be_broadcast(tmp_path: Path) -> None:
    with hl.StorageArray.create(tmp_path / "x.npy", (10, 4), torch.int32) as a:
        a[2] = 7
        a[4:6] = torch.arange(4)
        a[[8, 9]] = np.ones((2, 4), dtype=np.int32)
        with pytest.raises(ConfigError, match=r"rows of shape \(2, 4\)"):
            a[4:6] = torch.arange(3)
        with pytest.raises(ConfigError, match="indexed by rows"):
            a["x"] = 1
    x = np.load(tmp_path / "x.npy")
    assert x.sum() == 28 + 12 + 8 and (x[2] == 7).all() and (x[4:6] == np.arange(4)).all() and x.dtype == np.int32


def test_wrong_arguments_get_a_sentence(tmp_path: Path) -> None:
    x = table(tmp_path / "x.npy")
    a = hl.StorageArray.open(tmp_path / "x.npy")
    with pytest.raises(IndexOutOfRange, match="index 1000 at position 1"):
        a[torch.tensor([3, 1000])]
    with pytest.raises(ConfigError, match="mode='r\\+'"):
        a[0] = x[0]
    with pytest.raises(ConfigError, match="out must be"):
        a.gather(torch.tensor([1]), torch.empty(1, 32))
    with pytest.raises(ConfigError, match="mode 'w'"):
        hl.StorageArray.open(tmp_path / "x.npy", "w")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="power of two"):
        hl.StorageCache("1MiB", line_bytes=1000)
    with pytest.raises(OutOfMemory, match="no set of 8 lines"):
        hl.StorageCache("16KiB")
    with pytest.raises(StorageError, match="No such file"):
        hl.StorageArray.open(tmp_path / "y.npy")
    a.close()
    a.close()
    with pytest.raises(StorageError, match="was closed"):
        a[0]


def test_a_cache_smaller_than_what_is_in_flight(tmp_path: Path) -> None:
    """One set of eight lines for four threads with rows of many pages each: nobody waits for ever."""
    x = table(tmp_path / "x.npy", rows=300, width=1500)
    cache = hl.StorageCache(SET, 512)
    a = hl.StorageArray.open(tmp_path / "x.npy", cache=cache)
    wrong = []

    def read(seed: int) -> None:
        index = torch.randint(0, 300, (200,), generator=torch.Generator().manual_seed(seed))
        if not torch.equal(a[index], x[index]):
            wrong.append(seed)

    by_threads(read, 4)
    assert not wrong


def test_arrays_share_a_cache(tmp_path: Path) -> None:
    """Each sees its own file, and the same file's pages are there once."""
    cache = hl.StorageCache("1MiB")
    held = {}
    for seed in range(5):
        x = table(tmp_path / f"{seed}.npy", seed=seed)
        held[seed] = (hl.StorageArray.open(tmp_path / f"{seed}.npy", cache=cache), x)
    for a, x in held.values():
        assert torch.equal(a[:], x)
    reads = cache.stats().reads
    again = hl.StorageArray.open(tmp_path / "4.npy", cache=cache)
    assert torch.equal(again[-10:], held[4][1][-10:]) and cache.stats().reads == reads
    held[0][0].close()
    assert torch.equal(held[1][0][:], held[1][1])
    fresh = hl.StorageArray.open(tmp_path / "0.npy", "r+", cache=cache)
    fresh[1] = 5.0
    assert bool((fresh[1] == 5).all())


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    table(tmp_path / "x.npy")
    first = hl.StorageArray.open(tmp_path / "x.npy", "r+")
    with pytest.raises(StorageError, match="one writer"):
        hl.StorageArray.open(tmp_path / "x.npy", "r+")
    hl.StorageArray.open(tmp_path / "x.npy").close()
    first.close()
    hl.StorageArray.open(tmp_path / "x.npy", "r+").close()


def test_a_file_that_shrinks_while_open(tmp_path: Path) -> None:
    """An exception, no signal; and what is still there is read."""
    path = tmp_path / "x.npy"
    x = table(path, rows=10_000)
    a = hl.StorageArray.open(path)
    os.truncate(path, 500_000)
    with pytest.raises(StorageError, match=r"x\.npy at offset .*shorter than when it was opened"):
        a[-1]
    with pytest.raises(StorageError, match="shorter"):
        a[-1]
    assert torch.equal(a[:3000], x[:3000])


def test_a_file_that_shrinks_is_not_written_to(tmp_path: Path) -> None:
    """It would have a hole, which reads as zeros, and nobody would know."""
    path = tmp_path / "x.npy"
    x = table(path, rows=10_000)
    a = hl.StorageArray.open(path, "r+")
    a[-1] = 1.0
    os.truncate(path, 500_000)
    with pytest.raises(StorageError, match=r"cannot write .*x\.npy at offset .*shorter than when it was opened; restore it"):
        a.flush()
    assert path.stat().st_size == 500_000
    np.save(tmp_path / "whole.npy", x)
    path.write_bytes((tmp_path / "whole.npy").read_bytes())  # restored, in place
    a.close()
    assert bool((torch.from_numpy(np.load(path))[-1] == 1).all()) and torch.equal(torch.from_numpy(np.load(path))[:-1], x[:-1])


def test_what_another_process_wrote_is_seen_on_pages_not_yet_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    x = table(path, rows=10_000)
    a = hl.StorageArray.open(path)
    assert torch.equal(a[0], x[0])
    with open(path, "r+b") as file:
        file.seek(-x[0].nbytes, os.SEEK_END)
        file.write(torch.full((33,), 2.0).numpy().tobytes())
    assert bool((a[-1] == 2).all())


def test_a_sparse_file(tmp_path: Path) -> None:
    """A tebibyte of zeros takes what is written."""
    a = hl.StorageArray.create(tmp_path / "x.bin", (1 << 30, 256), torch.float32, host_budget="1MiB")
    far = torch.tensor([0, 1 << 29, (1 << 30) - 1])
    assert not a[far].any()
    a[far] = torch.ones(3, 256)
    a.flush()
    assert bool((a[far] == 1).all()) and not a[far[:-1] + 1].any()
    assert os.stat(a.path).st_size == 1 << 40 and os.stat(a.path).st_blocks * 512 < 1 << 20


def test_a_full_disk(small_disk: Path) -> None:
    """What could not be written is said, is still held, and is written once there is room."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (600 << 10))
    a = hl.StorageArray.create(small_disk / "x.bin", (1024, 1024), torch.uint8, host_budget="4MiB")
    a[:] = 3
    with pytest.raises(StorageError, match="No space left on device; make room"):
        a.flush()
    with pytest.raises(StorageError, match="No space left"):
        a.close()
    ballast.unlink()
    a.flush()
    assert (np.fromfile(a.path, dtype=np.uint8) == 3).all()
    a.close()


def test_a_full_disk_that_leaves_no_room_in_the_cache(small_disk: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever needs room is told whose pages cannot make any: also readers of another file. Later all of it is there."""
    other = tmp_path_factory.mktemp("other") / "x.npy"
    x, cache = table(other, rows=20_000), hl.StorageCache("256KiB")
    reader = hl.StorageArray.open(other, cache=cache)
    full = hl.StorageArray.create(small_disk / "x.bin", (20_000, 64), cache=cache)
    sentence = rf"cannot write {small_disk}/x\.bin at offset \d+: No space left on device; make room, and call flush\(\) again"
    with pytest.raises(StorageError, match=sentence):
        full[:] = torch.ones(20_000, 64)
    with pytest.raises(StorageError, match=sentence):
        reader[:]
    with pytest.raises(StorageError, match=sentence):
        reader.pin(torch.arange(0, 20_000, 2000))
    with pytest.raises(StorageError, match=sentence):
        full.flush()
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    full.flush()
    assert torch.equal(reader[:], x)
    full[:] = torch.ones(20_000, 64)
    full.close()
    assert (np.fromfile(small_disk / "x.bin", dtype=np.float32) == 1).all()


def test_a_file_that_is_whole_again(tmp_path: Path) -> None:
    """What failed is read anew together: a call for each page would be hundreds. Reads that were under way may fail later."""
    x = table(tmp_path / "x.npy", rows=20_000)
    whole = (tmp_path / "x.npy").read_bytes()
    for prefetches in (False, True):
        a = hl.StorageArray.open(tmp_path / "x.npy", host_budget="16MiB")
        os.truncate(tmp_path / "x.npy", 10_000)
        if prefetches:
            a.prefetch(torch.arange(20_000))
            time.sleep(0.5)
        with pytest.raises(StorageError, match="shorter than when it was opened"):
            a[:]
        with open(tmp_path / "x.npy", "r+b") as file:
            file.write(whole)
        for _ in range(10):
            with suppress(StorageError):
                assert torch.equal(a[:], x)
                break
        else:
            pytest.fail("the file is whole, and still not read")


def test_a_file_that_nobody_may_write(small_disk: Path) -> None:
    """Not even root: its file system is read only."""
    x = table(small_disk / "x.npy", rows=100)
    with open(small_disk / "x.npy", "rb") as held:
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        with pytest.raises(StorageError, match=r"cannot open .*x\.npy: Read-only file system; check the permissions"):
            hl.StorageArray.open(small_disk / "x.npy", "r+")
        with pytest.raises(StorageError, match="Read-only file system"):
            hl.StorageArray.create(small_disk / "y.npy", (3,))
        assert held.read(6) == b"\x93NUMPY"
    assert torch.equal(hl.StorageArray.open(small_disk / "x.npy")[:], x)
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)


def test_neither_file_nor_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises((StorageError, ConfigError)):
        hl.StorageArray.open(tmp_path / "pipe", dtype=torch.uint8, shape=(4,))
    with pytest.raises((StorageError, ConfigError)):
        hl.StorageArray.open(tmp_path, dtype=torch.uint8, shape=(4,))


# In a process of its own, whose kernel refuses what it is told to: the number of a system call, and which of its arguments has
# which bit.
REFUSING = """
import ctypes, struct, sys, warnings, torch, hinterland as hl
warnings.simplefilter("always")
number, argument, bit, error, path = *map(int, sys.argv[1:5]), sys.argv[5]
LOAD, IS, HAS, END, ALLOW = 0x20, 0x15, 0x45, 0x06, 0x7FFF0000
asks = [(LOAD, 0, 0, 16 + 8 * argument), (HAS, 0, 1, bit)] if bit else []
code = [(LOAD, 0, 0, 0), (IS, 0, 1 + len(asks), number), *asks, (END, 0, 0, 0x50000 | error), (END, 0, 0, ALLOW)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
a = hl.StorageArray.open(path, "r+")
x = a[:]
assert bool((x[:, 0] != 0).any())
a[::2] = -x[::2]
a.close()
b = hl.StorageArray.open(path)
assert torch.equal(b[::2], -x[::2]) and torch.equal(b[1::2], x[1::2])
print(b.cache.engine)
try:
    hl.StorageCache("1MiB", engine="io_uring")
except hl.runtime.errors.StorageError as refused:
    print(refused)
"""


def refusing(path: Path, number: int, argument: int = 0, bit: int = 0, error: int = errno.ENOSYS) -> tuple[str, str]:
    """What is said on both outputs."""
    done = forked.run("-c", REFUSING, number, argument, bit, error, path, check=True)
    return done.stdout, done.stderr


def test_a_file_system_without_direct_io(tmp_path: Path) -> None:
    """openat() with O_DIRECT is an error: all goes through the system's cache."""
    table(tmp_path / "x.npy")
    openat = {"x86_64": 257, "aarch64": 56}[platform.machine()]
    assert refusing(tmp_path / "x.npy", openat, 2, os.O_DIRECT, errno.EINVAL) == ("io_uring\n", "")


@pytest.mark.skipif("liburing" in _core.uring_refusal(), reason="built without liburing")
@pytest.mark.parametrize(("error", "why"), [(errno.ENOSYS, "Function not implemented"), (errno.EPERM, "not permitted")])
def test_a_kernel_without_io_uring(tmp_path: Path, error: int, why: str) -> None:
    """Said once, with the reason, where nobody asked for threads."""
    table(tmp_path / "x.npy")
    io_uring_setup = 425
    found, warned = refusing(tmp_path / "x.npy", io_uring_setup, error=error)
    assert found.startswith("threads\n") and "io_uring is not to be had: the kernel refuses it" in found and why in found
    assert warned.count("files on storage are read by threads") == 1
    assert why in warned and "kernel.io_uring_disabled=0" in warned and "liburing" not in warned


def test_prefetch_is_used_and_may_be_abandoned(tmp_path: Path) -> None:
    """Nothing is left of arrays that were prefetched and dropped; and what was prefetched is not read again."""
    x = table(tmp_path / "x.npy", rows=20_000)
    index = torch.randint(0, 20_000, (3000,), generator=torch.Generator().manual_seed(1))
    with hl.StorageArray.open(tmp_path / "x.npy") as a:
        a.prefetch(index)
        before, until = -1, time.monotonic() + 20
        while (reads := a.stats().reads) != before and time.monotonic() < until:
            before = reads
            time.sleep(0.2)
        assert torch.equal(a[index], x[index]) and a.stats().reads == reads > 0
    gc.collect()
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(20):
        a = hl.StorageArray.open(tmp_path / "x.npy")
        a.prefetch(index)
        del a
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= files and threading.active_count() <= threads
    with hl.StorageArray.open(tmp_path / "x.npy", host_budget="64KiB") as a:
        a.prefetch(torch.arange(20_000))  # more than there is room for
        assert torch.equal(a[index], x[index])


def test_direct_writes_do_not_meet_the_system_s_cache(tmp_path: Path) -> None:
    """The end of a file, less than a page, is written by way of the system's cache; pages beside it are not lost for it."""
    size = 512 * 9 + 100
    (tmp_path / "x.bin").write_bytes(bytes(size))
    cache = hl.StorageCache("1MiB", line_bytes=512)
    for version in range(200):
        with hl.StorageArray.open(tmp_path / "x.bin", "r+", dtype=torch.uint8, shape=(size,), cache=cache) as a:
            a[:] = torch.full((size,), version, dtype=torch.uint8)
        assert (tmp_path / "x.bin").read_bytes() == bytes([version]) * size


def test_what_is_overwritten_is_not_read(tmp_path: Path) -> None:
    """Pages of which rows are written to every byte, in whatever order and however often; others are read first."""
    for width, rows in ((1024, 100), (4096, 20), (64, 700), (10_000, 30)):  # bytes of a row
        path = tmp_path / f"{width}.bin"
        path.write_bytes(bytes(width * rows))
        x = torch.arange(rows * width // 4, dtype=torch.int32).view(rows, -1)
        with hl.StorageArray.open(path, "r+", dtype=torch.int32, shape=(rows, width // 4), host_budget="1MiB") as a:
            order = torch.randperm(rows, generator=torch.Generator().manual_seed(1))
            a[torch.cat([order, order[:7]])] = torch.cat([x[order] + 1, x[order[:7]]])
            again = torch.ones(rows, dtype=torch.bool)
            again[order[:7]] = False
            spans = width % 4096 != 0 and width > 4096  # then rows that come twice begin in an earlier page
            assert a.stats().reads == 0 or spans
            assert torch.equal(a[:], x + again[:, None])
            a[3] = x[3] + 9
        assert path.read_bytes()[3 * width : 4 * width] == (x[3] + 9).numpy().tobytes()
    with hl.StorageArray.open(path, "r+", dtype=torch.int32, shape=(rows, width // 4)) as a:
        a[3] = x[4]
        assert a.stats().reads == 2  # of its three pages


def test_a_closed_array_leaves_room(tmp_path: Path) -> None:
    """Pages on their way, and what was not written, do not keep their lines when nobody can ask for them any more."""
    x = table(tmp_path / "x.npy", rows=20_000)
    cache = hl.StorageCache("64KiB")
    for _ in range(20):
        with hl.StorageArray.open(tmp_path / "x.npy", cache=cache) as a:
            a.prefetch(torch.arange(20_000))
    with hl.StorageArray.open(tmp_path / "x.npy", cache=cache) as a:
        assert torch.equal(a[::7], x[::7])


def test_an_array_is_copied_and_saved_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = table(tmp_path / "x.npy")
    monkeypatch.chdir(tmp_path)
    a = hl.StorageArray.open("x.npy", host_budget="1MiB")
    b = hl.StorageArray.open(tmp_path / "x.npy", cache=a.cache)
    monkeypatch.chdir("/")
    pair = pickle.loads(pickle.dumps((a, b)))
    for again in (*pair, copy.deepcopy(a)):
        assert torch.equal(again[:], x[:]) and (again.mode, again.dtype) == ("r", x.dtype)
        assert again.cache is not a.cache and again.cache.host_budget == a.cache.host_budget
    assert pair[0].cache is pair[1].cache
    torch.save({"x": a}, tmp_path / "saved.pt")
    assert torch.equal(torch.load(tmp_path / "saved.pt", weights_only=False)["x"][:], x[:])


def test_an_array_that_is_written_is_opened_again_when_it_is_closed(tmp_path: Path) -> None:
    paths = [tmp_path / f"part{i}.safetensors" for i in range(2)]
    a = hl.StorageArray.create(paths, (100, 8), torch.int32, spread="striped")
    a[3] = 7
    packed = pickle.dumps(a)
    with pytest.raises(StorageError, match="open"):  # one writer at a time
        pickle.loads(packed)
    with pytest.raises(StorageError, match="open"):
        copy.deepcopy(a)
    a.close()
    again = pickle.loads(packed)
    assert again.mode == "r+" and again[3].tolist() == [7] * 8
    beside = again.beside(tuple(again.shape), torch.float32, "sums")
    with pytest.raises(StorageError, match=r"is not there any more.*write array\[:\]"):
        pickle.dumps(beside)
    again.close()
    with pytest.raises(StorageError, match="was closed"):
        pickle.dumps(again)
    for path in paths:
        path.unlink()
    with pytest.raises(StorageError):
        pickle.loads(packed)


def test_what_does_not_fit_or_makes_no_sense_gets_a_sentence(tmp_path: Path) -> None:
    a = hl.StorageArray.create(tmp_path / "x.bin", (1 << 40,), torch.uint8)
    for wanted in (lambda: a[:], lambda: a.gather(torch.zeros(1, dtype=torch.int64).expand(1 << 42))):
        with pytest.raises(OutOfMemory):
            wanted()
    wide = hl.StorageArray.create(tmp_path / "wide.bin", (3, 1 << 42), torch.uint8)
    with pytest.raises(OutOfMemory, match="4.00 TiB of rows do not fit in the memory of cpu; ask for fewer"):
        wide[0]
    for wrong in (slice(0, 5, 0), slice("a", None), slice(0.5, 3)):
        with pytest.raises(ConfigError, match="rows are selected by whole numbers, and a step that is not 0, not by slice"):
            a[wrong]
        with pytest.raises(ConfigError, match="rows are selected by whole numbers"):
            a[wrong] = 1
    with pytest.raises(ConfigError, match="a row is larger than a file can be"):
        hl.StorageArray.create(tmp_path / "large.npy", (0, 1 << 62, 1 << 62))
    with pytest.raises(ConfigError):
        hl.StorageArray.create(tmp_path / "large.npy", 5, host_budget="x")
    assert not (tmp_path / "large.npy").exists()
    a.close()
    for closed in (a.__enter__, lambda: a.beside((4, 4), torch.float32, "sums")):
        with pytest.raises(StorageError, match="was closed"):
            closed()
    z = torch.randn(10, 6, dtype=torch.complex64)
    np.save(tmp_path / "z.npy", z.numpy())
    with pytest.raises(ConfigError, match="lazily conjugated"):
        hl.StorageArray.open(tmp_path / "z.npy").gather([1, 2], out=torch.empty(2, 6, dtype=torch.complex64).conj())


@pytest.mark.parametrize("mode", ("r", "r+"))
def test_threads_that_open_and_close_one_file(tmp_path: Path, mode: str) -> None:
    """In one cache, large enough that closing takes a while."""
    x = table(tmp_path / "x.npy", rows=5000)
    cache = hl.StorageCache("256MiB")
    found: list[bool] = []

    def read(number: int) -> None:
        random = torch.Generator().manual_seed(number)
        for _ in range(40):
            a = hl.StorageArray.open(tmp_path / "x.npy", mode, cache=cache)
            rows = torch.randint(5000, (50,), generator=random)
            found.append(torch.equal(a[rows], x[rows]))
            by_threads(lambda _, a=a: a.close(), 2)
            assert a.closed

    by_threads(read, 3)
    assert found == [True] * 120


def test_a_file_is_closed_while_it_is_read_past_the_cache(tmp_path: Path) -> None:
    """Whoever reads it gets the rows or a sentence: the file is open until he is through."""
    x = torch.arange(1 << 20).view(-1, 64)
    np.save(tmp_path / "x.npy", x.numpy())
    cache = hl.StorageCache("1MiB")
    for _ in range(20):
        a = hl.StorageArray.open(tmp_path / "x.npy", cache=cache)

        def read(number: int, a: hl.StorageArray = a) -> None:
            out = torch.empty_like(x)
            with pytest.raises(StorageError, match="was closed"):
                while number != 0 or a.close() is None:
                    a.read_into(out)
                    assert torch.equal(out, x)

        by_threads(read, 3)


def test_a_forked_process_opens_its_own(tmp_path: Path) -> None:
    x = table(tmp_path / "x.npy")
    a = hl.StorageArray.open(tmp_path / "x.npy")
    assert torch.equal(a[:5], x[:5])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            a[7]
        except StorageError:
            status = 0 if torch.equal(hl.StorageArray.open(tmp_path / "x.npy")[-3:], x[-3:]) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.equal(a[:], x)


def _rewrite(paths: list[Path], out: int, seed: int) -> None:
    """Writes rows of a version, flushes and says so, version by version, until it is killed."""
    raw = {"dtype": torch.int64, "shape": (ROWS, WIDTH), "spread": "replicated"}
    cache = hl.StorageCache(24 * (4096 + 64), engine=ENGINES[seed % 2])
    with hl.StorageArray.open(paths, "r+", cache=cache, **raw) as a:
        for version in range(1, 100_000):
            rows = rows_of(seed, version)
            a[rows] = torch.full((len(rows), WIDTH), version)
            a.flush()
            os.write(out, b"%d\n" % version)


@pytest.mark.parametrize("copies", (1, 3))
def test_a_killed_writer_loses_nothing_that_was_flushed(tmp_path: Path, copies: int) -> None:
    killed_writers([tmp_path / f"{i}.bin" for i in range(copies)], _rewrite)


@pytest.mark.gpu
@pytest.mark.parametrize("pieces", (1, 5))
def test_rows_for_a_gpu(tmp_path: Path, pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = table(tmp_path / "x.npy", rows=5000)
    monkeypatch.setattr("hinterland.table.array.BOUNCE_BYTES", 5000 * 132 // pieces)
    with hl.StorageArray.open(tmp_path / "x.npy", "r+") as a:
        index = torch.randint(0, 5000, (5000,), device="cuda")
        rows = a[index]
        assert rows.is_cuda and torch.equal(rows.cpu(), x[index.cpu()])
        a[index[:100]] = torch.ones(100, 33, device="cuda")
        assert bool((a[index[:100]] == 1).all())


@pytest.mark.gpu
def test_a_gather_in_a_cuda_graph(tmp_path: Path) -> None:
    """It reads the numbers that are there as it is replayed, and what fails is raised afterwards."""
    x = table(tmp_path / "x.npy", rows=5000)
    a = hl.StorageArray.open(tmp_path / "x.npy")
    index = torch.zeros(300, dtype=torch.int32, device="cuda")
    out = torch.empty(300, 33, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a.gather(index, out)
        doubled = out * 2
    for seed in range(5):
        wanted = torch.randint(-5000, 5000, (300,), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
        index.copy_(wanted)
        graph.replay()
        assert torch.equal(doubled.cpu(), x[wanted.long()] * 2)
    index[7] = 5000
    graph.replay()
    with pytest.raises(IndexOutOfRange, match="index 5000 at position 7"):
        a.synchronize()
    assert not out.any()
    a.synchronize()
