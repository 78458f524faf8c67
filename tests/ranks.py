"""Processes that a test starts as the ranks of one torch.distributed job."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_ranks(count, script, *arguments):
    """Runs ``script`` in so many processes, each with its ``RANK``, which must all end well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    above = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "PYTHONPATH": above}
    running = [
        subprocess.Popen(
            [sys.executable, str(script), *map(str, arguments)],
            env={**os.environ, **where, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    said = [process.communicate(timeout=240)[0] for process in running]
    assert [process.returncode for process in running] == [0] * count, said
