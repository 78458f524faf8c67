"""The end of a process: what finalizers, exit handlers and daemon threads read is there until it is gone."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import hinterland as hl

QUIET = "-W", "ignore:files on storage are read by threads"  # which is said where there is no io_uring

READERS = """
import atexit, gc, sys, types
held = {}

def read(when):
    for name, tensor in held.items():
        print(when, name, int(tensor.sum()), flush=True)

atexit.register(read, "registered first")
import torch, hinterland as hl

class Reader:
    def __init__(self, name, tensor):
        self.name, self.tensor = name, tensor

    def __del__(self):
        sys.stdout.write(f"finalizer {self.name} {int(self.tensor.sum())}\\n")

ones = torch.ones(1000, 30, dtype=torch.int64)
tables = {place: hl.UnifiedTensor.from_tensor(ones, placement=place) for place in ("pageable", "pinned")}
tables["file"] = hl.UnifiedTensor.from_file(sys.argv[1])
held.update((name, table.cpu()) for name, table in tables.items())
held["graph"] = hl.load_graph(sys.argv[2]).indices
cached = hl.UnifiedTensor.from_tensor(ones).cached("64KiB", "cpu")
tiered = hl.UnifiedTensor.from_tensor(ones).tiered(local="64KiB", devices="cpu")
stored = hl.StorageArray.open(sys.argv[1], "r+")
on_storage = stored.tiered(local="32KiB", host="32KiB", devices="cpu")
for table in (cached, tiered, stored, on_storage):
    table[torch.arange(100)]
for i in range(999):  # what was written and not flushed is written back
    on_storage.scatter_([i], ones[[i]])
stored.prefetch(torch.arange(1000))
outlives = tables.pop("pageable").cpu()
del ones
gc.collect()
readers = [Reader(name, tensor) for name, tensor in held.items()]
readers.append(readers)  # not released by counting
sys.modules["late"] = types.ModuleType("late")  # goes when modules go; torch holds on to functions of this library's
sys.modules["late"].readers = readers
del readers
atexit.register(read, "registered last")
"""


def test_what_is_read_at_exit_is_there(tmp_path):
    np.save(tmp_path / "ones.npy", np.ones((1000, 30), dtype=np.int64))
    graph = hl.generate("kronecker", scale=8, edge_factor=8, seed=1, device="cpu")
    hl.save_graph(graph, tmp_path / "graph.hl")
    command = [sys.executable, *QUIET, "-c", READERS, str(tmp_path / "ones.npy"), str(tmp_path / "graph.hl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    sums = {"pageable": 30000, "pinned": 30000, "file": 30000, "graph": int(graph.indices.sum())}
    for when in ("registered first", "registered last", "finalizer"):
        for name, total in sums.items():
            assert f"{when} {name} {total}\n" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["graph.hl", "ones.npy"]


DAEMONS = """
import threading, time, torch, hinterland as hl
from hinterland.memory.gather import OneRange, RowCopy
rows, index = torch.ones(1 << 18, 16), torch.randint(0, 1 << 18, (20000,))
tables = [hl.UnifiedTensor.from_tensor(rows, placement=place) for place in ("pageable", "pinned")]
turns = [0, 0]

def read(i, copy):
    while True:
        hl._core.copy_rows(copy.address)
        turns[i] += 1

outs = [torch.empty(len(index), 16) for _ in tables]
for i, (table, out) in enumerate(zip(tables, outs)):
    place = OneRange(base=table.cpu().data_ptr(), rows=len(rows))
    copy = RowCopy(placement=place, packed=out.data_ptr(), indices=index.data_ptr(), index_bytes=8)
    copy.count, copy.row_bytes = len(index), 64
    threading.Thread(target=read, args=(i, copy), daemon=True).start()
while min(turns) < 50:
    time.sleep(0.01)
"""


# Through torch's own functions, which abort a process that ends while Python ends a thread in them.
STORED = """
import sys, threading, time, torch, hinterland as hl
sys.setswitchinterval(1e-5)  # so that many are in torch at the end
array, turns = hl.StorageArray.open(sys.argv[1], host_budget="1MiB"), [0] * 24

def read(i):
    while True:
        array[i : 20 + i]
        turns[i] += 1

for i in range(len(turns)):
    threading.Thread(target=read, args=(i,), daemon=True).start()
while min(turns) < 20:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.nightly) for turn in range(1, 9))])
@pytest.mark.parametrize("program", [DAEMONS, STORED], ids=["memory", "storage"])
def test_daemon_threads_may_read_until_the_end(tmp_path, program, turn):
    np.save(tmp_path / "x.npy", np.ones((1000, 30), dtype=np.float32))
    command = [sys.executable, *QUIET, "-c", program, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


FORKED = """
import os, signal, sys, torch, hinterland as hl
array = hl.StorageArray.open(sys.argv[1])
array.prefetch(torch.arange(1000))
kernel = hl.kernel("__global__ void k(array<const float> x, float* y) { *y = x[0]; }")
kernel(array, torch.zeros(1), grid=1, block=1)
process = os.fork()
if process == 0:
    signal.alarm(30)
    sys.exit()
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
"""


def test_a_forked_child_comes_to_its_end(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1000, 30), dtype=np.float32))
    command = [sys.executable, *QUIET, "-c", FORKED, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_tensor_outlives_its_table():
    table = hl.UnifiedTensor.from_tensor(torch.arange(1000.0))
    tensor = table.cpu()
    del table
    assert tensor.sum() == 499500
