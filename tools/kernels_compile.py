"""Whether every kernel compiles for an architecture: unoptimized, which takes half the time, and kept nowhere.

python tools/kernels_compile.py sm_90
python tools/kernels_compile.py sm_100 ltoir

With ``ltoir`` the compiler's front end alone has its say, in a fifth of the time. That is enough for an architecture without
lines of its own: of inline assembly it gets what an older one got.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "papers"))

from hinterland.cli import kernels
from hinterland.runtime import jit
from hinterland_papers.cli import kernels as papers

kernels.register_all()
papers.register_all()
arch, target = [*sys.argv[1:], "cubin"][:2]
jit._FLAGS |= {"ofast_compile": "max", "link_time_optimization": target == "ltoir"}
units = [(file, unit) for file, _ in jit.chosen([arch]) for unit in file.units()]
count = sum(1 for _ in jit.on_all_cores(lambda one: jit.translate(one[0], arch, one[1], target), units))
print(f"{count} modules compile for {arch}")
