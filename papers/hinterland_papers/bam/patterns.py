"""Ways in which threads share out the elements of an array, each by itself (Mailthody 2022, sections 6.1 and 6.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch

from hinterland.runtime.launch import launch, resident_blocks
from hinterland.runtime.params import Params, struct

from .. import _core, kernel_file

_Pattern = struct("bam::PatternParams")
_CPU_THREADS = 1024  # of a GPU that a CPU stands for


class Pattern(NamedTuple):
    """A struct of patterns.hpp and its width."""

    name: str
    width: int = 0


PATTERNS = {
    "in order": Pattern("InOrder"),
    "coarsened, far apart": Pattern("FarApart"),
    "a warp a line": Pattern("PerLine", 32),
    "a warp a line held once": Pattern("HeldLines"),
    "half a warp a line": Pattern("PerLine", 16),
    "a quarter of a warp a line": Pattern("PerLine", 8),
    "a block a line": Pattern("PerLine", 256),
    "a warp, four lines": Pattern("SeveralLines", 32),
    "strided by 128": Pattern("Strided", 128),
    "random": Pattern("RandomElements"),
}

KERNELS = kernel_file(
    "bam/patterns.cu",
    tuple(
        f"pattern_kernel<{name}, {of}>"
        for name in sorted({pattern.name for pattern in PATTERNS.values()})
        for of in ("DeviceSources", "memory::Unmetered")
    ),
    separate_module=True,
)


def read_pattern(
    pattern: Pattern,
    words: Params,
    elements: int,
    line_bytes: int,
    device: torch.device,
    reads: int | None = None,
) -> torch.Tensor:
    """Reads an array of int64 numbers in a pattern, by as many threads as the GPU holds.

    Args:
        pattern: of :data:`PATTERNS`.
        words: of the array, which begins at a line; a null ``store`` means that ``home`` is its address.
        elements: of the array.
        line_bytes: of a line, also where none is.
        device: which reads. Of a CPU each thread does in turn what many of a GPU's do.
        reads: of the random pattern; None: as many as there are elements.

    Returns:
        The sum of all that was read, int64 ``[1]`` modulo 2^64, on the device.
    """
    total = torch.zeros(1, dtype=torch.int64, device=device)
    line = line_bytes // 8
    params = _Pattern(
        array=words,
        elements=elements,
        line_elements=line,
        width=pattern.width,
        reads=elements if reads is None else reads,
        sum=total.data_ptr(),
    )
    if device.type == "cpu":
        _core.read_pattern(params.address, pattern.name, _CPU_THREADS)
        return total
    instance = f"pattern_kernel<{pattern.name}, {'DeviceSources' if words.store else 'memory::Unmetered'}>"
    block = _core.PATTERN_THREADS
    launch(KERNELS, instance, device, resident_blocks(KERNELS, instance, device, block), block, params)
    return total
