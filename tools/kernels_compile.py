"""Whether every kernel compiles for an architecture: unoptimized, which takes half the time, and kept nowhere.

python tools/kernels_compile.py sm_80
python tools/kernels_compile.py sm_90 differing

With ``differing`` only those in which a line asks for the architecture. All others were compiled for an older one, and a newer
one takes all that it takes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "papers"))

from hinterland.cli import kernels
from hinterland.runtime import jit
from hinterland_papers.cli import kernels as papers

# Whether it is defined says only that a GPU is meant.
ASKS = re.compile(r"(?<!defined\()(?<!ifdef )\b__CUDA_ARCH")


def differs(file: jit.KernelFile) -> bool:
    text = file.source()
    return any(ASKS.search(one) for one in (text, *jit.headers(text, file.reads_here, file.include)))


kernels.register_all()
papers.register_all()
arch, *which = sys.argv[1:]
jit._FLAGS |= {"ofast_compile": "max"}
files = [file for file, _ in jit.chosen([arch]) if which != ["differing"] or differs(file)]
units = [(file, unit) for file in files for unit in file.units()]
count = sum(1 for _ in jit.on_all_cores(lambda one: jit.translate(one[0], arch, one[1]), units))
print(f"{count} modules compile for {arch}")
