"""Every pattern reads every element once, through the cache and from memory. (Which threads read what: patterns_lanes.cpp.)"""

from __future__ import annotations

import pytest
import torch

from hinterland.memory.allocator import allocate
from hinterland.runtime.params import struct
from hinterland.storage.on_device import DeviceStore
from hinterland_papers import FOLDER
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.patterns import PATTERNS, read_pattern

from ...programs import NATIVE, compiled, needs_compiler, run

FIRST = 65536  # a line of any size begins here
_Array = struct("memory::ArrayWords")


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("line_bytes", (512, 4096, 65536))
def test_the_sum_is_that_of_all_elements(device: torch.device, name: str, line_bytes: int) -> None:
    elements = 50_001
    buffer = allocate(FIRST * 2 + elements * 8, "pinned" if device.type == "cuda" else "pageable")
    held = buffer.tensor(torch.int64, torch.Size([buffer.nbytes // 8]))
    held.copy_(torch.randint(-(2**62), 2**62, held.shape, generator=torch.Generator().manual_seed(2)))
    x = held[FIRST // 8 :][:elements]
    there = x.to(device)
    backing = Device(address=held.data_ptr(), bytes=held.nbytes)
    store = DeviceStore(backing, device, 40 * 8 * (line_bytes + 16), line_bytes, channels=2, depth=64, threads=2)
    plain = read_pattern(PATTERNS[name], _Array(home=there.data_ptr()), elements, line_bytes, device)
    with store.live():
        found = read_pattern(PATTERNS[name], store.array(FIRST), elements, line_bytes, device)
    assert int(found) == int(plain)
    assert name == "random" or int(found) == int(x.sum())
    assert store.counts()["reads"] > 0
    store.close()


@needs_compiler
def test_every_element_is_read_once_by_any_number_of_threads(tmp_path):
    run(compiled(tmp_path, "tests/papers/bam/patterns_lanes.cpp", flags=["-O1", *NATIVE, f"-I{FOLDER}"]))
