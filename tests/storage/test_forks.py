"""Forked processes: what they inherit of arrays, kernels and loaders they are refused by a sentence, and may let go of.

Each case is a child that an alarm ends, so that one that waits for what is not there fails the test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .. import forked

BEGIN = """
import gc, os, signal, sys, threading, time, warnings
import numpy as np, torch, hinterland as hl
from hinterland.runtime.errors import PipelineStalled, StorageError
path, engine = sys.argv[1:]
warnings.simplefilter("error")
rows = torch.arange(4000)

def opened(mode="r"):
    return hl.StorageArray.open(path, mode, cache=hl.StorageCache("256KiB", engine=engine))

def child(name, work):
    process = os.fork()
    if process == 0:
        signal.alarm(20)
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(name, repr(error), flush=True)
            os._exit(1)
    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    print(name, "ended with", ended, flush=True)

def refused(call, error, words):
    try:
        call()
    except error as said:
        assert words in str(said), said
    else:
        raise AssertionError(f"{call} is not refused")
"""

ARRAYS = """
def drop(name):
    globals().pop(name)
    gc.collect()

a = opened()
a.prefetch(rows)
while a.stats().reads == 0:
    time.sleep(0.01)
pinned, table = a.pin(rows[:20]), a.tiered(host="8KiB", devices="cpu")
a.expect([rows[:100]])

def again():
    global a
    for use in (lambda: a[3], a.stats, lambda: a.prefetch(rows), lambda: a.open_paths):
        refused(use, StorageError, "opened before the process was forked; open it anew")
    a = opened()
    assert torch.equal(a[rows], x)
    a.prefetch(rows)
    drop("a")

def all_of_it():
    for name in ("pinned", "table", "a"):
        drop(name)

def closes():
    with a:
        pinned.unpin()
    a.close()
    refused(lambda: a[3], StorageError, "was closed")

x = a[rows]
child("an array", lambda: drop("a"))
child("opened anew", again)
child("pins and tiers", all_of_it)
child("closed", closes)
assert torch.equal(a[rows], x) and pinned.pages
pinned.unpin()
a.close()

a = opened("r+")
a[rows[:20]] = x[:20] + 1
child("written", lambda: drop("a"))
assert torch.equal(opened()[rows], x)  # the parent alone flushes
a.close()
assert torch.equal(opened()[rows[:20]], x[:20] + 1)
"""

KERNELS = """
text = "__global__ void add(array<const float> a, float* b) { b[threadIdx.x] += a[threadIdx.x]; }"
add, a, b, one = hl.kernel(text), opened(), torch.zeros(30), {"grid": 1, "block": 30}
add(a, b, **one)  # its cache stays, and the threads behind it

def again():
    for use in (lambda: add(a, b, **one), lambda: a.stats("cpu")):
        refused(use, StorageError, "opened before the process was forked; open it anew")
    with opened("r+") as mine:
        mine[:2] = mine[:2]  # what devices keep of the file is let go
        add(mine, b, **one)

child("dropped", lambda: (globals().pop("a"), gc.collect()))
lock, forked = a.cache.on_devices._lock, threading.Event()

def hold():  # as a thread does that calls it meanwhile
    with lock:
        held.set()
        forked.wait()

held = threading.Event()
holder = threading.Thread(target=hold)
holder.start()
held.wait()
child("called anew", again)
forked.set()
holder.join()
add(a, b, **one)
assert torch.equal(b, 2 * a[0][:30])

from hinterland import _core
blocks = _core.file_blocks(path, True, 4)  # which has a thread that flushes
child("blocks of a file", lambda: globals().pop("blocks"))
"""

LOADERS = """
from hinterland.memory import allocator
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader
graph = hl.generate("kronecker", scale=8, edge_factor=4, seed=1, device="cpu")
batches = iter(Loader(NeighborSampler(graph, [3], device="cpu"), torch.arange(100), 10, device="cpu"))
next(batches)
child("left", lambda: batches.close())
child("gone on with", lambda: refused(lambda: next(batches), PipelineStalled, "begin another here"))
assert len(list(batches)) == 9
with allocator._lock:  # as a thread has it that allocates meanwhile
    other = threading.Thread(target=child, args=("memory", lambda: hl.UnifiedTensor.empty((10, 3))))
    other.start()
    other.join()
"""


@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_arrays(tmp_path: Path, engine: str) -> None:
    said = ran(tmp_path, ARRAYS, engine)
    assert said == [f"{name} ended with 0" for name in ("an array", "opened anew", "pins and tiers", "closed", "written")]


def test_kernels(tmp_path: Path) -> None:
    assert ran(tmp_path, KERNELS) == [f"{name} ended with 0" for name in ("dropped", "called anew", "blocks of a file")]


def test_loaders(tmp_path: Path) -> None:
    assert ran(tmp_path, LOADERS) == [f"{name} ended with 0" for name in ("left", "gone on with", "memory")]


def ran(folder: Path, program: str, engine: str = "auto") -> list[str]:
    np.save(folder / "x.npy", np.random.default_rng(1).standard_normal((4000, 33), dtype=np.float32))
    done = forked.run("-c", BEGIN + program, folder / "x.npy", engine, timeout=120, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()
