"""Whether there is memory for what would be of use, but is not needed."""

from __future__ import annotations

from ..memory import report
from ..memory.limits import host_memory
from ..runtime import devices

_LITTLE = 4  # one part in so many of what is free: chosen, not measured


def is_little(nbytes: int, placement: str) -> bool:
    """Whether ``nbytes`` are at most a quarter of the memory that is free on the host, and on the GPU for placement ``"gpu"``,
    which arrays reach by way of the host."""
    free = host_memory(report().nbytes)[0]
    if placement == "gpu" and devices.keeps_on_gpu("placement 'gpu'"):
        free = min(free, devices.free_bytes(devices.as_device("cuda")))
    return _LITTLE * nbytes <= free
