"""Work on one device that runs one after another: of all streams and threads, and of CUDA graphs at each replay."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from . import devices


class Turns:
    """``with turns.take(memory):`` runs after all earlier blocks and before all later ones. Nested blocks are one."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._lock = device, threading.RLock()
        self._done: torch.cuda.Event | None = None
        if device.type == "cuda":
            self._done = torch.cuda.Event(external=True)  # graphs wait for it, and record it, at each replay
            self._done.record(torch.cuda.current_stream(device))

    @contextmanager
    def take(self, memory: torch.Tensor | None) -> Iterator[None]:
        """The block, on the current stream of the device, which is the current GPU meanwhile.

        Args:
            memory: what the block works on: memory that is let go waits for this stream. None: nothing runs on the GPU.
        """
        with self._lock, devices.on(self._device):
            if self._done is None or memory is None:
                yield
                return
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(self._done)
            memory.record_stream(stream)
            try:
                yield
            finally:
                stream.record_event(self._done)
