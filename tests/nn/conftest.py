from ..memory.conftest import gpu  # noqa: F401
