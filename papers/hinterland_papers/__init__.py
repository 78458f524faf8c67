"""What only reproduces one of the papers that Hinterland is made of, a folder for each: kernels as published, models, rivals.

It stands on :mod:`hinterland`, public and inner modules alike, which imports nothing of it. Importing it makes the structs of
its kernels known.
"""

from __future__ import annotations

from pathlib import Path

from hinterland.runtime import params
from hinterland.runtime.jit import KernelFile

from . import _core

params.also_told(_core.STRUCTS)

# Where its .cu files and headers are found, as "hinterland_papers/emogi/traversal.hpp".
FOLDER = Path(__file__).resolve().parent.parent


def kernel_file(path: str, instances: tuple[str, ...], separate_module: bool = False) -> KernelFile:
    """The kernels of a ``.cu`` file, named from this folder on."""
    return KernelFile(f"hinterland_papers/{path}", instances, separate_module, beside=FOLDER)
