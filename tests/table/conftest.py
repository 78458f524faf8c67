from ..memory.conftest import device, emulation, gpu, nothing_left  # noqa: F401
