"""What test_assisted.py runs in a process of its own: rows on their way to a GPU, through the driver of ../runtime/driver.cpp.

Argument: that driver. Ends with an error where a row is wrong, or prints what a copy that is refused says.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable
from typing import Any

DRIVER = ctypes.CDLL(sys.argv[1])  # before torch, so that this is the library that is found under the name libcuda.so.1

import torch  # noqa: E402

from hinterland import _core  # noqa: E402
from hinterland.memory.gather import row_copy  # noqa: E402
from hinterland.runtime.errors import DeviceError  # noqa: E402

DRIVER.num_copied.restype = ctypes.c_int64
SOME, ALL, READER, COPIED = 1, 2, 3, 10  # events
BYTES = 4096  # of a part
events = itertools.count(100)


def queue(to: int, at: int, nbytes: int, event: int) -> None:
    """A copy of somebody else's, and an event behind it."""
    DRIVER.cuMemcpyHtoDAsync_v2(*(ctypes.c_void_p(number) for number in (to, at, nbytes, 0)))
    DRIVER.cuEventRecord(event, 0)


def sent(
    table: torch.Tensor,
    index: torch.Tensor,
    parts: int,
    under_way: int,
    threads: int = 3,
    reader: int = 0,
    least: float = 0.0,
    take_over: Callable[[int, float], int] = lambda begun, rate: 1 // 0,
) -> tuple[torch.Tensor, Any, float]:
    """The rows once the GPU has all copies, what is wrong with their numbers, and the rate. Numbers come with the events."""
    row_bytes, rows, line = table.shape[1], BYTES // table.shape[1], _core.CPU_LINE_BYTES
    room, earlier = torch.full((parts * BYTES + 2 * line,), 7, dtype=torch.uint8), torch.zeros(BYTES, dtype=torch.uint8)
    packed = room.data_ptr() + -room.data_ptr() % line
    numbers, out = torch.full_like(index, len(table)), torch.zeros(len(index), row_bytes, dtype=torch.uint8)
    ahead = parts - under_way
    copied = [next(events) for _ in range(parts)]
    for event, stop in ((SOME, min(rows * ahead, len(index))), (ALL, len(index))):
        queue(numbers.data_ptr(), index.data_ptr(), index.element_size() * stop, event)
    queue(earlier.data_ptr(), packed, BYTES, copied[-1])
    copy = row_copy(table.data_ptr(), len(table), row_bytes, packed, numbers, index.element_size(), False)
    copies = out.data_ptr(), 0, copied, under_way, SOME, ALL, reader, least
    try:
        fault, rate = _core.send_rows(copy.address, len(index), threads, (parts, BYTES, rows, ahead), copies, take_over)
    finally:  # copies that are queued read memory of this call
        for event in copied:
            DRIVER.cuEventSynchronize(event)
    begin = packed - room.data_ptr()
    assert bool((earlier == 7).all() and (room[:begin] == 7).all() and (room[begin + parts * BYTES :] == 7).all())
    return out, fault, rate


def main() -> None:
    random = torch.Generator().manual_seed(5)
    for width, parts, count in itertools.product((1, 64, 100, 656, 4096), (2, 3, 8), (1, 5, 100, 9000)):
        table = torch.randint(0, 256, (50, width), dtype=torch.uint8, generator=random)
        index = torch.randint(-50, 50, (min(count, (1 << 18) // width),), generator=random)
        for under_way in range(1, parts):
            out, fault, rate = sent(table, index, parts, under_way)
            assert torch.equal(out, table[index]) and fault is None, (width, parts, under_way)
            assert (rate > 0) == (len(index) > BYTES // width)
    for width, threads in itertools.product(range(1, 301), (1, 5)):
        table = torch.randint(0, 256, (97, width), dtype=torch.uint8, generator=random)
        index = torch.randint(-97, 97, (313,), generator=random, dtype=torch.int32)
        assert torch.equal(sent(table, index, 3, 1, threads)[0], table[index]), width
    table, index = torch.randint(1, 256, (50, 64), dtype=torch.uint8), torch.randint(0, 50, (5000,))

    asked = []

    def take_over(begun: int, rate: float) -> int:
        asked.append((begun, rate))
        return begun

    for options in ({"reader": READER}, {"least": 1e18}):
        out, _, _ = sent(table, index, 4, 2, take_over=take_over, **options)
        begun, rate = asked.pop()  # once the rate is known, with the third part: nobody has begun the fifth
        assert not asked and begun == 4 * BYTES // 64 and 0 < rate < 1e18
        assert torch.equal(out[:begun], table[index[:begun]]) and not out[begun:].any()
    index[7], index[4000] = -51, 50
    out, fault, _ = sent(table, index, 4, 2)
    assert fault == (7, -51, 50, 2) and not out[[7, 4000]].any()

    def interrupted(begun: int, rate: float) -> int:
        raise KeyboardInterrupt

    try:
        sent(table, index, 4, 2, reader=READER, take_over=interrupted)
        raise AssertionError("nothing was raised")
    except KeyboardInterrupt:
        assert sent(table, index, 4, 2)[1] == (7, -51, 50, 2)  # and nothing is left of it
    DRIVER.set_refusal(1)
    try:
        sent(table, index, 4, 2)
    except DeviceError as error:
        print(error)


if __name__ == "__main__":
    main()
