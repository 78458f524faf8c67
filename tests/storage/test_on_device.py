"""Pages that kernels ask for themselves: on the CPU everywhere, on a GPU where there is one."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import _core
from hinterland.runtime.errors import ConfigError, StorageError
from hinterland.runtime.params import struct
from hinterland.storage import on_device
from hinterland.storage.on_device import Backing, Controller, DeviceStore, Queues
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.elements import read_elements

from ..together import by_threads

PAGE = 4096


def numbers(count: int, seed: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    kind = np.int64 if dtype == torch.int64 else np.int32
    return torch.from_numpy(np.random.default_rng(seed).integers(-(2**31), 2**31, count, dtype=kind))


def memory(x: torch.Tensor) -> tuple[torch.Tensor, Backing]:
    """What a store in memory has: a page that is no array's, and x."""
    held = torch.cat([torch.zeros(PAGE, dtype=torch.uint8), x.view(torch.uint8), torch.zeros(65536, dtype=torch.uint8)])
    return held, Device(address=held.data_ptr(), bytes=held.numel())


def random_at(count: int, elements: int, device: torch.device, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, elements, (count,), generator=torch.Generator().manual_seed(seed)).to(device)


@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
@pytest.mark.parametrize("line_bytes", (512, 4096, 8192, 65536))
def test_elements_are_those_of_the_memory(device: torch.device, dtype: torch.dtype, line_bytes: int) -> None:
    x = numbers(200_000, dtype=dtype)
    held, backing = memory(x)
    store = DeviceStore(backing, device, 20 * 8 * (line_bytes + 16), line_bytes, channels=2, depth=64, threads=2)
    words, at = store.array(PAGE), random_at(5000, len(x), device)
    with store.live():
        found, total = read_elements(words, len(x), dtype, device, at, len(at))
        in_order, _ = read_elements(words, len(x), dtype, device, None, len(x))
    assert found is not None and torch.equal(found.cpu(), x[at.cpu()])
    assert in_order is not None and torch.equal(in_order.cpu(), x)
    assert int(total) == int(x[at.cpu()].sum())
    assert store.counts()["reads"] >= x.nbytes // line_bytes
    store.close()
    del held


def test_elements_are_those_of_a_file(device: torch.device, tmp_path: Path) -> None:
    x = numbers(300_000)
    (tmp_path / "x").write_bytes(bytes(PAGE) + x.numpy().tobytes())
    store = DeviceStore(Backing(path=str(tmp_path / "x")), device, "256KiB", channels=2, depth=64, threads=1)
    with store.live():
        found, _ = read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))
    assert found is not None and torch.equal(found.cpu(), x)
    store.close()


def test_a_cache_smaller_than_the_lines_in_flight(device: torch.device) -> None:
    """One set of eight lines for all threads of the device."""
    x = numbers(50_000)
    held, backing = memory(x)
    store = DeviceStore(backing, device, 8 * (512 + 16), 512, channels=1, depth=16, threads=1)
    assert store.num_slots == 8
    at = random_at(20_000, len(x), device)
    with store.live():
        found, _ = read_elements(store.array(PAGE), len(x), x.dtype, device, at, len(at))
    assert found is not None and torch.equal(found.cpu(), x[at.cpu()])
    store.close()
    del held


def test_faults_end_in_a_sentence_or_in_the_right_answer(device: torch.device) -> None:
    x = numbers(100_000)
    held, backing = memory(x)
    faults = (("reorder", True), ("late", 100), ("retryable", 50))
    late = Device(address=backing.address, bytes=backing.bytes, faults=faults, seed=3)
    store = DeviceStore(late, device, "64KiB", channels=2, depth=32, threads=2)
    with store.live():
        found, _ = read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))
    assert found is not None and torch.equal(found.cpu(), x)
    assert sum(one["failed"] for one in store.controller.served()) > 0, "what failed was tried again"
    store.close()
    broken = Device(address=backing.address, bytes=backing.bytes, faults=(("fatal", 20),), seed=3)
    store = DeviceStore(broken, device, "64KiB", channels=2, depth=32, threads=2)
    with pytest.raises(StorageError, match="could not be read: NVMe status"), store.live():
        read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))
    store.close()
    del held


def test_runs_at_the_same_time_are_all_told(device: torch.device) -> None:
    """What one thread's kernel could not read another's finds to be zeros, too: nobody takes these for what is there."""
    x = numbers(20_000)
    held, backing = memory(x)
    broken = Device(address=backing.address, bytes=backing.bytes, faults=(("fatal", 3),), seed=3)
    store = DeviceStore(broken, device, "64KiB", channels=2, depth=32, threads=2)
    ends: list[str] = []

    def read(_: int) -> None:
        for _ in range(30):
            try:
                ends.append("right" if torch.equal(all_of(store, x, PAGE), x) else "wrong")
            except StorageError:
                ends.append("told")

    by_threads(read, 3)
    assert len(ends) == 90 and ends.count("wrong") == 0 and ends.count("told") > 0 and ends.count("right") > 0
    store.close()
    del held


def test_what_failed_ahead_of_its_turn_is_read_anew(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that could not be read, and that nobody wanted in the run that asked for it."""
    x = numbers(1000)
    held, backing = memory(x)
    store = DeviceStore(backing, device, "64KiB", channels=1, depth=32, threads=1)
    read = lambda: read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))[0]  # noqa: E731
    with store.live():
        read()
    lines = store.line_words
    lines[lines & on_device._VALID != 0] ^= on_device._VALID | on_device._FAILED
    with pytest.raises(StorageError, match="could not be read"), store.live():
        read()
    with store.live():
        found = read()
    assert found is not None and torch.equal(found.cpu(), x)
    lines[lines & on_device._VALID != 0] ^= on_device._VALID | on_device._FAILED
    served = store.controller.served()
    monkeypatch.setattr(store.controller, "served", lambda: [{**one, "failed": one["failed"] + 1} for one in served])
    with store.live():
        pass
    with store.live():
        found = read()
    assert found is not None and torch.equal(found.cpu(), x)
    store.close()
    del held


def test_a_device_that_does_not_answer(device: torch.device) -> None:
    x = numbers(100_000)
    held, backing = memory(x)
    lost = Device(address=backing.address, bytes=backing.bytes, faults=(("removed_after", 10),), seed=3)
    store = DeviceStore(lost, device, "64KiB", channels=1, depth=32, threads=1, timeout=0.2)
    with pytest.raises(StorageError, match="not answered in time"), store.live():
        read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))
    store.close()
    del held


def test_how_many_queues() -> None:
    within = Queues.within
    assert within(1 << 30, 4096) == within(1 << 30, 4096, 8192) == within(1 << 30, 4096, 10**6) == Queues(32, 256)
    assert within(1 << 30, 4096, 1) == within(1 << 30, 4096, 512) == Queues(8, 64)
    assert within(1 << 30, 4096, 513) == Queues(16, 64)
    assert within(1 << 20, 4096) == within(1 << 20, 4096, 600) == Queues(4, 32) and within(0, 65536) == Queues(1, 4)
    for budget in (1 << 20, 5 << 20, 32 << 20):
        assert within(budget, 4096).host_bytes(4096) <= budget


def test_budgets(device: torch.device) -> None:
    held, backing = memory(numbers(1000))
    store = DeviceStore(backing, device, "1MiB", channels=2, depth=64, threads=1)
    queues = 2 * 64 * (4 + 4 + 24)
    assert store.num_slots * store.line_bytes <= 1 << 20 and store.nbytes <= (1 << 20) + queues + 16 * 8192
    assert store._shared.nbytes <= 2 * 64 * (4096 + 64 + 16) + 8 * PAGE
    store.close()
    with pytest.raises(ConfigError, match="hold no set"):
        DeviceStore(backing, device, "16KiB")
    with pytest.raises(ConfigError, match="more than a gibibyte"):
        DeviceStore(backing, device, "1MiB", 65536, channels=64, depth=1024)
    del held


def all_of(store: DeviceStore, x: torch.Tensor, position: int = 0, number: int = 0) -> torch.Tensor:
    """All elements of an array, as a kernel reads them."""
    with store.live():
        found, _ = read_elements(store.array(position, number), len(x), x.dtype, store.device, None, len(x))
    assert found is not None
    return found.cpu()


@pytest.mark.parametrize("line_bytes", (512, 4096, 65536))
def test_arrays_of_several_files_in_one_store(device: torch.device, tmp_path: Path, line_bytes: int) -> None:
    """Each begins at a page of its own, whatever the length of what lies before."""
    x, y, z = numbers(70_000), numbers(30_001, 1, torch.int32), numbers(50_000, 2)
    held, in_memory = memory(z)
    (tmp_path / "x").write_bytes(bytes(24) + x.numpy().tobytes())
    (tmp_path / "y").write_bytes(bytes(8) + y.numpy().tobytes())
    backings = [Backing(path=str(tmp_path / "x")), in_memory, Backing(path=str(tmp_path / "y"))]
    store = DeviceStore(backings, device, 40 * 8 * (line_bytes + 16), line_bytes, channels=2, depth=64, threads=2)
    for _ in range(2):
        assert torch.equal(all_of(store, x, 24, 0), x)
        assert torch.equal(all_of(store, z, PAGE, 1), z)
        assert torch.equal(all_of(store, y, 8, 2), y)
    store.close()
    store = DeviceStore(backings, device, "256KiB", channels=1, depth=64, threads=1)
    os.truncate(tmp_path / "y", 50_000)
    with pytest.raises(StorageError, match=rf"{tmp_path}/y: the bytes from \d+ on could not be read"):
        all_of(store, y, 8, 2)
    store.close()
    del held


@pytest.mark.parametrize("spread", ("striped", "replicated"))
@pytest.mark.parametrize("line_bytes", (512, 4096, 65536))
def test_arrays_that_several_files_hold(device: torch.device, tmp_path: Path, spread: str, line_bytes: int) -> None:
    x = numbers(150_001).view(-1, 1)
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    cache = hl.StorageCache("1MiB", line_bytes)
    with hl.StorageArray.create(paths, x.shape, x.dtype, spread=spread, cache=cache) as made:
        made[:] = x
        made.flush()
        store = DeviceStore(Backing.of(made), device, 40 * 8 * (line_bytes + 16), line_bytes, channels=2, depth=64, threads=2)
        assert torch.equal(all_of(store, x.view(-1), made.file_position), x.view(-1))
        store.close()


@pytest.mark.parametrize("stripe", (512, 4096, 65536))
def test_devices_that_are_dealt_round(device: torch.device, stripe: int) -> None:
    x = numbers(100_000)
    pieces = torch.cat([x.view(torch.uint8), torch.zeros(-x.nbytes % (3 * stripe), dtype=torch.uint8)]).view(-1, stripe)
    parts = [pieces[i::3].contiguous() for i in range(3)]
    backing = Backing(
        parts=tuple(Device(address=part.data_ptr(), bytes=part.nbytes, timing="optane") for part in parts), stripe=stripe
    )
    store = DeviceStore(backing, device, 40 * 8 * (stripe + 16), stripe, channels=2, depth=64, threads=2)
    assert torch.equal(all_of(store, x), x)
    store.close()


def test_a_copy_that_fails(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another is read, which is counted and said; also where a device is removed. If all fail, that is an error."""
    x = numbers(100_000)
    held, good = memory(x)

    def store_of(*faults: tuple[tuple[str, int], ...]) -> DeviceStore:
        parts = tuple(Device(address=good.address, bytes=good.bytes, faults=each, seed=3) for each in faults)
        return DeviceStore(Backing(parts=parts), device, "64KiB", channels=2, depth=32, threads=2)

    for bad in ("fatal", 1000), ("retryable", 1000), ("removed_after", 20):
        store = store_of((bad,), ())
        monkeypatch.setattr("hinterland.runtime.warned._told", set())
        with pytest.warns(UserWarning, match="memory could not be read everywhere; another copy is read in its place"):
            assert torch.equal(all_of(store, x, PAGE), x)
        assert 0 < store.stats().failed_reads < 100 and store.stats().reads >= x.nbytes // 4096
        store.close()
    store = store_of((("fatal", 1000),), (("fatal", 1000),))
    with pytest.raises(StorageError, match=r"memory, memory: the bytes from \d+ on could not be read: NVMe status 0x281"):
        all_of(store, x, PAGE)
    store.close()
    del held


def two_stores(devices: list[torch.device], path: Path, x: torch.Tensor) -> None:
    """Both are read at a time, by threads of their own, through one controller; then one of them alone."""
    controller = Controller(Backing(path=str(path)), threads=3)
    stores = [DeviceStore(controller, device, "256KiB", channels=2, depth=64) for device in devices]
    assert [store.controller for store in stores] == [controller, controller]
    found: list[torch.Tensor | None] = [None, None]

    def read(number: int) -> None:
        for _ in range(3):
            found[number] = all_of(stores[number], x, PAGE)

    by_threads(read, 2)
    assert all(each is not None and torch.equal(each, x) for each in found)
    reads = [store.counts()["reads"] for store in stores]
    assert min(reads) >= x.nbytes // 4096, "each has a cache of its own"
    assert sum(one["commands"] for one in controller.served()) == sum(reads) and len(controller.served()) == 3
    with pytest.raises(ConfigError, match="is at work already; make all stores before"):
        DeviceStore(controller, devices[0], "256KiB", channels=2, depth=64)
    stores[0].close()
    assert torch.equal(all_of(stores[1], x, PAGE), x)
    stores[1].close()


def test_two_caches_at_one_controller(device: torch.device, tmp_path: Path) -> None:
    x = numbers(200_000)
    (tmp_path / "x").write_bytes(bytes(PAGE) + x.numpy().tobytes())
    two_stores([device, torch.device("cpu")], tmp_path / "x", x)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_two_gpus_at_one_controller(tmp_path: Path) -> None:
    x = numbers(2_000_000)
    (tmp_path / "x").write_bytes(bytes(PAGE) + x.numpy().tobytes())
    two_stores([torch.device("cuda:0"), torch.device("cuda:1")], tmp_path / "x", x)


def test_a_file_has_one_writer_however_it_is_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "x.npy")
    np.save(path, np.zeros((1000, 8), dtype=np.float32))
    writer = _core.file_blocks(path, True, 4)
    with pytest.raises(StorageError, match="it is open for writing already"):
        _core.file_blocks(path, True, 4)
    with pytest.raises(StorageError, match="it is open for writing already"):
        hl.StorageArray.open(path, "r+")
    del writer
    with hl.StorageArray.open(path, "r+"), pytest.raises(StorageError, match="it is open for writing already"):
        Controller(Backing(path=path), mode="r+")
    controller = Controller(Backing(path=path), mode="r+")
    store = DeviceStore(controller, torch.device("cpu"), "64KiB", channels=1, depth=4)
    with pytest.raises(ConfigError, match="another's would not see; give the controller mode 'r'"):
        DeviceStore(controller, torch.device("cpu"), "64KiB", channels=1, depth=4)
    store.close()


def test_an_array_in_memory_is_read_as_well(device: torch.device) -> None:
    """What a benchmark compares with: no store, and an address."""
    x = numbers(5000).to(device)
    words = struct("memory::ArrayWords")(home=x.data_ptr())
    found, total = read_elements(words, len(x), x.dtype, device, None, len(x))
    assert found is not None and torch.equal(found, x) and int(total) == int(x.sum())
