"""Python programs in processes that are forked from one that has torch: to import it takes seconds of each.

Not for what the start or the end of an interpreter is part of: these processes end without the interpreter's own end. Nor for
the ranks of a job, which read OMP_NUM_THREADS as they start; one of them was once waited for in vain, and why was not found.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", "hypothesis", "scipy.sparse", "torch._dynamo"])  # optimizers import the last


def run(
    *arguments: object, env: dict[str, str] | None = None, timeout: float = 240, check: bool = False
) -> subprocess.CompletedProcess:
    """As subprocess.run does of ``python`` with these arguments, with both outputs captured as text; ``env`` is added to this
    process's."""
    words = [os.fspath(one) if isinstance(one, os.PathLike) else str(one) for one in arguments]
    with tempfile.TemporaryDirectory() as folder:
        process = _CONTEXT.Process(target=_begin, args=(words, {**os.environ, **(env or {})}, os.getcwd(), folder))
        process.start()
        process.join(timeout)
        lasts = process.exitcode is None
        if lasts:
            os.kill(process.pid, signal.SIGABRT)  # it says where its threads are
            process.join(10)
            process.kill()
        said = [Path(folder, name) for name in ("stdout", "stderr")]
        out, error = (file.read_text() if file.exists() else "" for file in said)
    assert not lasts, f"{words} lasts longer than {timeout} s:\n{out}\n{error}"
    assert not check or process.exitcode == 0, f"{words} ended with {process.exitcode}:\n{out}\n{error}"
    return subprocess.CompletedProcess(words, process.exitcode, out, error)


def _begin(arguments: list[str], environment: dict[str, str], here: str, folder: str) -> None:
    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT), number)
    faulthandler.enable()
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    first, *rest = arguments
    if first == "-c":
        sys.argv = [first, *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    elif first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0:0] = arguments, [str(Path(first).parent)]
        runpy.run_path(first, run_name="__main__")
