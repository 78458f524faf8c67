"""Processes that a test starts as the ranks of one torch.distributed job.

They are forked from one process, which has torch and none of its threads, so that each begins as a fresh one would but for the
seconds that torch takes to import. They end without Python's own end: once torch._dynamo is there, as with torch's optimizers,
gloo's threads outlive their group (torch 2.13); one that lets go of a collective's tensor while Python ends aborts the process.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@functools.cache
def _forks() -> subprocess.Popen:
    """OpenMP reads OMP_NUM_THREADS as torch loads it."""
    above = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    environment = {**os.environ, "PYTHONPATH": above, "OMP_NUM_THREADS": "1"}
    command, pipe = [sys.executable, __file__], subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True, start_new_session=True)


def start_ranks(count, script, *arguments, own=lambda rank: {}, seconds=240):
    """Exit statuses, standard outputs and standard errors of ``script`` in so many processes, each with its ``RANK`` and what
    ``own`` adds to its environment. They meet at ``MASTER_PORT``, groups that begin after others at one of ``PORTS`` each."""
    from torch.distributed import TCPStore

    # As torchrun's: a port that is let go of may be another test's by then.
    stores = [TCPStore("127.0.0.1", 0, is_master=True) for _ in range(3)]
    port, *more = (str(store.port) for store in stores)
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PORTS": ",".join(more)}
    shared |= {"WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    with tempfile.TemporaryDirectory() as folder:
        ranks = [{**shared, "RANK": str(rank), **own(rank)} for rank in range(count)]
        job = {"words": [str(script), *map(str, arguments)], "here": os.getcwd(), "folder": folder, "ranks": ranks}
        forks = _forks()
        forks.stdin.write(json.dumps(job) + "\n")
        forks.stdin.flush()
        answered = []
        try:
            answered = select.select([forks.stdout], [], [], seconds)[0]
        finally:
            if not answered:
                os.killpg(forks.pid, signal.SIGKILL)
                _forks.cache_clear()
        codes = json.loads(forks.stdout.readline() or "[]")
        out, error = ([Path(folder, f"{rank}.{name}").read_text() for rank in range(count)] for name in ("out", "error"))
    assert codes, f"{script} lasts longer than {seconds} s: {out} {error}"
    return codes, out, error


def run_ranks(count, script, *arguments, own=lambda rank: {}):
    """What each rank says, as :func:`start_ranks` starts them; all must end well."""
    codes, *said = start_ranks(count, script, *arguments, own=own)
    assert codes == [0] * count, said
    return ["".join(texts) for texts in zip(*said, strict=True)]


def _run(words, here, folder, environment):
    """A rank, which does not return."""
    status = 1
    try:
        for number, name in ((1, "out"), (2, "error")):
            os.dup2(os.open(f"{folder}/{environment['RANK']}.{name}", os.O_WRONLY | os.O_CREAT), number)
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv, sys.path[0] = words, str(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401

    gc.freeze()
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a child would have none of the threads that torch started as it was imported"
    for line in sys.stdin:
        job = json.loads(line)
        forked = []
        for environment in job.pop("ranks"):
            forked.append(os.fork())
            if forked[-1] == 0:
                _run(**job, environment=environment)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in forked]), flush=True)
