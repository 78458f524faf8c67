"""What one GPU reads from another's memory, for every pair that can."""

from __future__ import annotations

import itertools

import torch

from ..machine.model import Peer
from ..memory.peers import enable_access
from ..runtime import devices
from ..runtime.launch import launch
from ..runtime.params import struct
from .link import BLOCK, KERNELS, sequence_rate
from .timing import best

_RandomParams = struct("probe::RandomParams")
_ROW_BYTES = 64
_WORD_BYTES = 16


def measure(full: bool = False) -> tuple[tuple[Peer, ...], list[str]]:
    """Measures every ordered pair of GPUs; returns the figures and sentences about pairs without peer access."""
    found, left_out = [], []
    size = (4 << 30) if full else (1 << 30)
    for reader, owner in itertools.permutations(devices.gpus(), 2):
        if not torch.cuda.can_device_access_peer(reader, owner):
            left_out.append(f"peers: {reader} cannot read the memory of {owner} directly on this machine")
            continue
        enable_access(reader, owner)
        held = torch.zeros(size, dtype=torch.uint8, device=owner)
        torch.cuda.synchronize(owner)
        blocks = 2 * devices.sm_count(reader)
        sequence = sequence_rate(reader, held.data_ptr(), size, _WORD_BYTES, blocks)
        found.append(Peer(reader.index, owner.index, sequence, _random_rate(reader, held, blocks)))
    return tuple(found), left_out


def _random_rate(reader: torch.device, held: torch.Tensor, blocks: int) -> float:
    sink = torch.zeros(1, dtype=torch.int32, device=reader)
    rows = held.numel() // _ROW_BYTES
    seeds = itertools.count()

    def work() -> None:
        params = _RandomParams(base=held.data_ptr(), rows=rows, draws=rows, seed=next(seeds), sink=sink.data_ptr())
        params.words = _ROW_BYTES // _WORD_BYTES
        launch(KERNELS, "read_random", reader, blocks, BLOCK, params)

    return rows * _ROW_BYTES / best(work, reader)
