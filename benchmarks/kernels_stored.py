"""c = a + b and sums of segments over storage, by kernels of one's own, beside native io_uring (_kernels_stored.py)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hinterland.runtime import devices

from . import _kernels_stored


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")
    parser.add_argument("--mib", type=int, default=4096, help="of each array; with --small, and on a CPU, 24")
    parser.add_argument("--lines", type=int, nargs="+", default=[4096, 65536], help="bytes of a line, each of which is tried")
    parser.add_argument("--pairs", type=int, default=5, help="how often everything is measured, in turns")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured files go: the disk in question")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(options.device)
    nbytes = (24 if options.small or device.type == "cpu" else options.mib) << 20
    return _kernels_stored.run(device, nbytes, options.lines, options.pairs, options.folder)
