"""The link between a GPU and host memory: the copy engine both ways, and kernels that read host memory themselves."""

from __future__ import annotations

import dataclasses

import torch

from .. import _core
from ..machine.model import Link, SequentialPoint
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import struct
from ..table import UnifiedTensor
from .timing import best, seconds

KERNELS = KernelFile(
    "probe/link.cu",
    (
        "read_sequence<4>",
        "read_sequence<8>",
        "read_sequence<16>",
        "read_random",
        "read_chain",
    ),
)
_SequenceParams, _ChainParams = struct("probe::SequenceParams"), struct("probe::ChainParams")
BLOCK = 1024
_ACCESS_BYTES = (4, 8, 16)
_SHIFTS = (32, 64, 96)  # bytes past a line: whole sectors, the misalignments that EMOGI's figure 4 compares
_LINE = _core.LINE_BYTES
_SATURATED = 0.95  # of the best rate: a definition
_CHAIN_STRIDE = 512  # bytes between the places of the latency chain: no two on one line, nor on neighbours


def copy_rates(device: torch.device, size: int = 256 << 20) -> tuple[float, float]:
    """The copy engine's bytes a second with pinned memory: host to device, and device to host."""
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    held = torch.empty(size, dtype=torch.uint8, device=device)
    to_device = best(lambda: held.copy_(host, non_blocking=True), device, repeats=4)
    to_host = best(lambda: host.copy_(held, non_blocking=True), device, repeats=4)
    return size / to_device, size / to_host


def sequence_rate(device: torch.device, base: int, size: int, access_bytes: int, blocks: int) -> float:
    """Bytes a second at which ``blocks`` blocks of 1024 threads read ``size`` bytes at ``base`` in sequence."""
    sink = torch.zeros(1, dtype=torch.int32, device=device)
    words = size // access_bytes
    instance = f"read_sequence<{access_bytes}>"
    params = _SequenceParams(base=base, words=words, sink=sink.data_ptr())

    def work() -> None:
        launch(KERNELS, instance, device, blocks, BLOCK, params)

    return words * access_bytes / best(work, device)


def measure(device: torch.device, full: bool = False) -> Link:
    """Measures the link of one GPU; :func:`saturated` then says what saturates it."""
    size = (4 << 30) if full else (512 << 20)
    h2d, d2h = copy_rates(device, size)
    many = 2 * devices.sm_count(device)
    points = []
    for mapping in ("managed", "pinned"):
        table = UnifiedTensor.empty((size + _LINE,), torch.uint8, placement=mapping)
        base = table.cuda(device).data_ptr()
        for access, shift in [(a, 0) for a in _ACCESS_BYTES] + [(4, s) for s in _SHIFTS]:
            rate = sequence_rate(device, base + shift, size, access, many)
            points.append(SequentialPoint(mapping, access, shift, many, rate))
        if mapping == "managed":
            latency = chain_latency(device, table)
            sweep = [point for access in (4, 16) for point in _sweep(device, base, size, access)]
        del table
    return Link(
        h2d=h2d,
        d2h=d2h,
        zero_copy=max(p.bandwidth for p in points if p.shift_bytes == 0),
        latency=latency,
        threads_to_saturate={},
        sequential=(*points, *sweep),
    )


def saturated(found: Link) -> Link:
    """``found`` with the blocks that saturate it, by its sweep over blocks: aligned reads of managed memory."""
    sweep = [point for point in found.sequential if point.mapping == "managed" and point.shift_bytes == 0]
    blocks = {access: _saturating_blocks(sweep, access) for access in (4, 16)}
    return dataclasses.replace(found, threads_to_saturate=blocks)


def chain_latency(device: torch.device, table: UnifiedTensor) -> float:
    """Seconds of one GPU read of host memory that waits for the one before: the slope between two chain lengths."""
    places = 1 << (min(table.shape[0], 64 << 20) // _CHAIN_STRIDE).bit_length() - 1
    _core.write_chain(table.cpu().data_ptr(), places, _CHAIN_STRIDE // 8)
    base = table.cuda(device).data_ptr()
    at = torch.zeros(1, dtype=torch.int64, device=device)  # each run goes on where the last stopped: nothing is cached

    def run(steps: int) -> float:
        params = _ChainParams(base=base, steps=steps, at=at.data_ptr())
        return seconds(lambda: launch(KERNELS, "read_chain", device, 1, 1, params), device)

    run(100)
    return min(run(9000) - run(1000) for _ in range(3)) / 8000


def _sweep(device: torch.device, base: int, size: int, access: int) -> list[SequentialPoint]:
    sms = devices.sm_count(device)
    points = []
    for blocks in sorted({1 << k for k in range(sms.bit_length())} | {sms}):
        part = min(size, blocks * (32 << 20))
        points.append(SequentialPoint("managed", access, 0, blocks, sequence_rate(device, base, part, access, blocks)))
    return points


def _saturating_blocks(sweep: list[SequentialPoint], access: int) -> int:
    points = [p for p in sweep if p.access_bytes == access]
    ceiling = max(p.bandwidth for p in points)
    return min(p.blocks for p in points if p.bandwidth >= _SATURATED * ceiling)
