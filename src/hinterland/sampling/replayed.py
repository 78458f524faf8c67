"""What sampling kernels in CUDA graphs find wrong: the CPU does not wait for a replay, and is told at a later call.

A control block begins with a word for each thing that can be wrong, the smallest number of who has it. After each launch those
of the first replay with something wrong come to host memory, and the number of that replay. Where each replay makes another
batch, the kernel itself notes that, with the number of the batch (include/hinterland/sampling/neighbors.hpp).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

from .. import _core
from ..memory import faults
from ..runtime.capture import beside
from ..runtime.errors import HinterlandError
from ..runtime.params import Params, address

_NONE: int = _core.SAMPLE_NONE


def in_batch(error: HinterlandError, batch: int, *more: str) -> HinterlandError:
    """``error``, which also says in which batch, and what is ``more``."""
    return faults.located(error, f"batch {batch}", *more)


class Replayed:
    """What launches of one graph find wrong in a batch, told by ``sentence`` of the control's first ``count`` words. It stays
    as long as the process, since nobody knows when the last replay is over. ``batch`` is None where each replay has another."""

    replayed = True

    def __init__(
        self, device: torch.device, batch: int | None, count: int, sentence: Callable[..., HinterlandError | None]
    ) -> None:
        self._device, self._batch, self._sentence = device, batch, sentence
        with torch.inference_mode(False), beside(device):  # they are cleared outside of what may be such a mode now
            size = count + (1 if batch is not None else 2)  # then the replay, and its batch
            self._met = torch.full((size,), _NONE, dtype=torch.int64, device=device)
            self._here = torch.full((size,), _NONE, dtype=torch.int64, pin_memory=True)
            self._counted = torch.zeros(size - count, dtype=torch.int64, device=device)
        self._words, self._clear = (ctypes.c_int64 * count).from_address(self._here.data_ptr()), [_NONE] * count
        self._sent: list[torch.Tensor] = []
        faults.defer(device, self)

    def sent(self, params: Params, size: int | None = None) -> torch.Tensor:
        """The first ``size`` bytes of a struct, uint8 on the GPU, to be copied from at each replay."""
        with beside(self._device):
            self._sent.append(params.on(self._device)[:size])
        return self._sent[-1]

    def note(self, control: torch.Tensor) -> None:
        """Has the graph look at ``control`` (int64, of which the first are these words) after what was captured so far."""
        self._counted.add_(1)
        now = torch.cat([control[: len(self._clear)], self._counted])
        torch.where((self._met[:-1] == _NONE).all(), now, self._met, out=self._met)
        self._here.copy_(self._met, non_blocking=True)

    @property
    def words(self) -> dict[str, int]:
        """Where a kernel that notes them itself does so, by the names of a FixedShape."""
        return {"counted": address(self._counted), "met": address(self._met), "told": address(self._here)}

    def raised(self) -> bool:
        """Whether a replay found something wrong."""
        return self._words[:] != self._clear

    def check(self) -> None:
        """Raises that, once; the next replay may raise again. Waits for the GPU."""
        if not self.raised():
            return
        torch.cuda.synchronize(self._device)
        count, words = len(self._clear), self._here.tolist()
        with beside(self._device):
            self._met.fill_(_NONE)
        self._here.fill_(_NONE)
        error = self._sentence(*words[:count])
        if error is not None:
            raise in_batch(error, words[-1] if self._batch is None else self._batch, faults.replay(words[count]))
