"""Processes that a test starts as the ranks of one torch.distributed job.

They are run by this file, and end without Python's own end. Once torch._dynamo is there, as with torch's optimizers, gloo's
threads outlive their group (torch 2.13); one that lets go of a collective's tensor while Python ends aborts the process.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RANK = (sys.executable, __file__)  # and then the program and its arguments


def run_ranks(count, script, *arguments, own=lambda rank: {}):
    """What ``script`` says in so many processes, each with its ``RANK`` and what ``own`` adds to its environment, which
    must all end well. They meet at ``MASTER_PORT``, and groups that begin after others at one of ``PORTS`` each."""
    from torch.distributed import TCPStore

    # As torchrun's: a port that is let go of may be another test's by then.
    stores = [TCPStore("127.0.0.1", 0, is_master=True) for _ in range(3)]
    port, *more = (str(store.port) for store in stores)
    above = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count), "PYTHONPATH": above}
    where |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    where |= {"PORTS": ",".join(more), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [*RANK, str(script), *map(str, arguments)],
            env={**os.environ, **where, "RANK": str(rank), **own(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        said = [process.communicate(timeout=240)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * count, said
    return said


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
