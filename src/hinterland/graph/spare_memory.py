"""Whether there is memory for what would be of use, but is not needed."""

from __future__ import annotations

from ..memory import report
from ..memory.limits import host_memory
from ..runtime import devices
from ..runtime.thresholds import LITTLE_SHARE


def is_little(nbytes: int, placement: str) -> bool:
    """Whether ``nbytes`` are at most a quarter of the memory that is free on the host, and on the GPU for placement ``"gpu"``,
    which arrays reach by way of the host."""
    free = host_memory(report().nbytes)[0]
    if placement == "gpu" and devices.keeps_on_gpu("placement 'gpu'"):
        free = min(free, devices.free_bytes(devices.as_device("cuda")))
    return LITTLE_SHARE * nbytes <= free
