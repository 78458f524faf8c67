"""Writers that are killed, and what their files must hold then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

POINTS = int(os.environ.get("HINTERLAND_KILLED_WRITERS", "30"))  # more of them in tools/nightly.sh
ROWS, WIDTH = 512, 64  # of int64: a row is a sector


def rows_of(seed: int, version: int) -> torch.Tensor:
    """The rows that a writer sets; never the first."""
    return torch.randint(1, ROWS, (100,), generator=torch.Generator().manual_seed(seed << 20 | version))


def killed_writers(
    paths: list[Path], rewrite: Callable[[list[Path], int, int], None], at_once: bool = True, points: int = POINTS
) -> None:
    """Kills a writer of these copies at so many random points: in each a sector holds what its flush had confirmed, or what
    came after. A row that is not written ``at_once`` may be of both.

    ``rewrite(paths, out, seed)``: sets ``rows_of(seed, version)`` to ``version``, flushes, and writes the version's number and
    a line's end to the file descriptor ``out``, for versions from 1 on.
    """
    delays = np.random.default_rng(1).exponential(0.06, points)
    for seed, delay in enumerate(delays):
        for path in paths:
            path.write_bytes(bytes(ROWS * WIDTH * 8))
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                rewrite(paths, theirs, seed)
            finally:
                os._exit(1)
        os.close(theirs)
        said = os.read(ours, 10)  # it has begun
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        while more := os.read(ours, 1 << 16):
            said += more
        os.close(ours)
        confirmed = int(said.split(b"\n")[-2])
        least = torch.zeros(ROWS, dtype=torch.int64)
        for version in range(1, confirmed + 1):
            least[rows_of(seed, version)] = version
        newer = torch.zeros(ROWS, dtype=torch.int64)
        newer[rows_of(seed, confirmed + 1)] = confirmed + 1
        for path in paths:
            held = torch.from_numpy(np.fromfile(path, dtype=np.int64)).view(ROWS, WIDTH)
            assert not at_once or bool((held == held[:, :1]).all()), "a torn sector"
            found = (held == least[:, None]) | (held == newer[:, None])
            assert bool(found.all()), f"seed {seed}, confirmed {confirmed}, {path.name}"
