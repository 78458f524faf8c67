"""Whether every kernel compiles for the architectures named: unoptimized, which takes half the time, and kept nowhere.

python tools/kernels_compile.py sm_80 sm_90 sm_100
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "papers"))

from hinterland.cli import kernels
from hinterland.runtime import jit
from hinterland_papers.cli import kernels as papers

kernels.register_all()
papers.register_all()
jit._FLAGS["ofast_compile"] = "max"
with tempfile.TemporaryDirectory() as folder:
    print(f"{len(list(jit.build_all(sys.argv[1:], Path(folder))))} modules compile for {', '.join(sys.argv[1:])}")
