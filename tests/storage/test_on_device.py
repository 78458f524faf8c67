"""Pages that kernels ask for themselves: on the CPU everywhere, on a GPU where there is one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hinterland.runtime.errors import ConfigError, StorageError
from hinterland.runtime.params import struct
from hinterland.storage.on_device import Backing, DeviceStore, read_elements

PAGE = 4096


def numbers(count: int, seed: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    kind = np.int64 if dtype == torch.int64 else np.int32
    return torch.from_numpy(np.random.default_rng(seed).integers(-(2**31), 2**31, count, dtype=kind))


def memory(x: torch.Tensor) -> tuple[torch.Tensor, Backing]:
    """What a store in memory has: a page that is no array's, and x."""
    held = torch.cat([torch.zeros(PAGE, dtype=torch.uint8), x.view(torch.uint8), torch.zeros(65536, dtype=torch.uint8)])
    return held, Backing(address=held.data_ptr(), bytes=held.numel())


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
    late = Backing(address=backing.address, bytes=backing.bytes, faults=(("reorder", True), ("late", 100)), seed=3)
    store = DeviceStore(late, device, "64KiB", channels=2, depth=32, threads=2)
    with store.live():
        found, _ = read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))
    assert found is not None and torch.equal(found.cpu(), x)
    store.close()
    broken = Backing(address=backing.address, bytes=backing.bytes, faults=(("fatal", 20),), seed=3)
    store = DeviceStore(broken, device, "64KiB", channels=2, depth=32, threads=2)
    with pytest.raises(StorageError, match="could not be read: NVMe status"), store.live():
        read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))
    store.close()
    del held


def test_a_device_that_does_not_answer(device: torch.device) -> None:
    x = numbers(100_000)
    held, backing = memory(x)
    lost = Backing(address=backing.address, bytes=backing.bytes, faults=(("removed_after", 10),), seed=3)
    store = DeviceStore(lost, device, "64KiB", channels=1, depth=32, threads=1, timeout=0.2)
    with pytest.raises(StorageError, match="not answered in time"), store.live():
        read_elements(store.array(PAGE), len(x), x.dtype, device, None, len(x))
    store.close()
    del held


def test_budgets(device: torch.device) -> None:
    held, backing = memory(numbers(1000))
    store = DeviceStore(backing, device, "1MiB", channels=2, depth=64, threads=1)
    queues = 2 * 64 * (4 + 4 + 24)
    assert store.num_slots * store.line_bytes <= 1 << 20 and store.nbytes <= (1 << 20) + queues + 16 * 8192
    assert store.pinned_bytes <= 2 * 64 * (4096 + 64 + 16) + 8 * PAGE
    store.close()
    with pytest.raises(ConfigError, match="hold no set"):
        DeviceStore(backing, device, "16KiB")
    with pytest.raises(ConfigError, match="more than a gibibyte"):
        DeviceStore(backing, device, "1MiB", 65536, channels=64, depth=1024)
    del held


def test_an_array_in_memory_is_read_as_well(device: torch.device) -> None:
    """What a benchmark compares with: no store, and an address."""
    x = numbers(5000).to(device)
    words = struct("memory::ArrayWords")(home=x.data_ptr())
    found, total = read_elements(words, len(x), x.dtype, device, None, len(x))
    assert found is not None and torch.equal(found, x) and int(total) == int(x.sum())
