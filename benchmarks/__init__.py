"""Benchmarks: ``python -m benchmarks NAME``. Each is one file here, or in ``papers/benchmarks`` if it only reproduces a paper,
that offers ``run(small: bool) -> dict``."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "papers"))
