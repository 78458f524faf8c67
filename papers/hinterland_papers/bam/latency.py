"""Where the time of one read goes that a kernel asks for by itself (Mailthody 2022, section 5.5.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from hinterland.runtime.launch import launch
from hinterland.runtime.params import struct
from hinterland.storage.on_device import DeviceStore

from .. import _core, kernel_file

_Sums, _Latency = struct("bam::LatencySums"), struct("bam::LatencyParams")
KERNELS = kernel_file("bam/latency.cu", ("latency_kernel",))


class Stages(NamedTuple):
    """Mean nanoseconds of one read, from first to last.

    ``pick_up`` and ``seen`` lie between two processors. Where these have clocks of their own (a GPU and the host), each is half
    of what is left when all other stages are known.
    """

    enqueue: float  # the command is in its queue, and the doorbell was rung
    pick_up: float  # a thread of the controller has read it
    submit: float  # ... and handed it to the device
    device: float  # ... which is through
    complete: float  # the completion is in its queue
    seen: float  # ... and the line in the cache, less
    copy: float  # from host memory
    total: float  # ... and the element was read
    hit: float  # the same of a line that is there


def time_reads(store: DeviceStore, position: int, at: torch.Tensor) -> Stages:
    """Reads elements one after the other, and says where the time went.

    Args:
        store: made while :func:`hinterland._core.count_stages` was on, so that its controller counts too.
        position: where an array of int64 numbers begins in what it reads.
        at: int64 ``[n]`` on the store's device: elements in lines that are not there, each in another.

    Raises:
        StorageError: a line could not be read.
    """
    device = store.device
    sums = torch.zeros(len(bytes(_Sums())), dtype=torch.uint8, device=device)
    line = torch.empty(store.line_bytes + 128, dtype=torch.uint8, device=device)
    params = _Latency(
        array=store.array(position),
        at=at.data_ptr(),
        count=len(at),
        line=line.data_ptr() + -line.data_ptr() % 128,
        sums=sums.data_ptr(),
    )
    store.controller.start()
    before = _served(store)
    with store.live():
        if device.type == "cpu":
            _core.time_reads(params.address)
        else:
            launch(KERNELS, "latency_kernel", device, 1, 32, params)
    served = {name: count - before[name] for name, count in _served(store).items()}
    return _stages(_Sums.read(sums), served, len(at), device.type == "cpu")


def _served(store: DeviceStore) -> dict[str, int]:
    each = store.controller.served()
    return {name: sum(one[name] for one in each) for name in each[0]}


def _stages(sums: Any, served: dict[str, int], count: int, one_clock: bool) -> Stages:
    each = {name: getattr(sums, name) / count for name in ("enqueue", "total", "hit", "copy")}
    submit, transfer, complete = (served[f"{name}_ns"] / count for name in ("submit", "transfer", "complete"))
    between = _apart(sums.seen_at, sums.asked_at) / count - (submit + transfer + complete) - each["copy"]
    pick_up = _apart(served["picked_up_at"], sums.asked_at) / count if one_clock else between / 2
    seen = between - pick_up
    return Stages(each["enqueue"], pick_up, submit, transfer, complete, seen, each["copy"], each["total"], each["hit"])


def _apart(later: int, earlier: int) -> int:
    """Sums of times, which have gone round 2^64."""
    return (later - earlier + (1 << 63)) % (1 << 64) - (1 << 63)
