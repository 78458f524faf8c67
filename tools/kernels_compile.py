"""Whether every kernel compiles for the architectures named: unoptimized, which takes half the time, and kept nowhere.

python tools/kernels_compile.py sm_80 sm_90 sm_100
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from hinterland.cli.kernels import register_all
from hinterland.runtime import jit

register_all()
jit._FLAGS["ofast_compile"] = "max"
with tempfile.TemporaryDirectory() as folder:
    print(f"{len(list(jit.build_all(sys.argv[1:], Path(folder))))} modules compile for {', '.join(sys.argv[1:])}")
