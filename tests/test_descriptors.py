"""Where the process may open no more files, whatever opens one says so in a sentence, and never that a file is damaged."""

from __future__ import annotations

import numpy as np
import torch

import hinterland as hl
from hinterland.training import checkpoint

from . import forked
from .datasets import writers

PROGRAM = """
import itertools, os, resource, sys, torch, hinterland as hl
from hinterland.runtime.errors import StorageError
from hinterland.training import checkpoint
folder, *sets = sys.argv[1:]
array = hl.StorageArray.open(f"{folder}/x.npy", "r+")
kernel = hl.kernel("__global__ void k(array<const float> x, array<float> y) { y[0] = x[0]; }")
new = itertools.count(1)  # of each kernel that is compiled, since one is not compiled twice
calls = {f"data set {name}": lambda name=name: hl.datasets.open(f"{folder}/{name}") for name in sets}
calls |= {f"array {name}": lambda name=name: hl.StorageArray.open(f"{folder}/{name}") for name in ("x.npy", "x.pt")}
calls |= {f"table {name}": lambda name=name: hl.UnifiedTensor.from_file(f"{folder}/{name}") for name in ("x.npy", "x.pt")}
calls |= {
    "made": lambda: array.beside(tuple(array.shape), torch.float32, "state"),
    "checkpoint": lambda: checkpoint.load(f"{folder}/c.pt"),
    "saved": lambda: checkpoint.save(f"{folder}/d.pt", {"a": 1}),
    "kernel": lambda: kernel(array, torch.zeros(2)),
    "compiled": lambda: hl.kernel(f"__global__ void k(float* y) {{ y[0] = {next(new)}; }}")(torch.zeros(2)),
    "memory": lambda: hl.UnifiedTensor.empty((1000, 8), torch.float32),
}
for call in calls.values():
    call()  # what is opened but once
resource.setrlimit(resource.RLIMIT_NOFILE, (120, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for name, call in calls.items():
    for left in range(10):
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for _ in range(left):
            os.close(held.pop())
        try:
            call()
            said = "done"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        for number in held:
            os.close(number)
        print(name, left, said)
"""


def test_no_descriptor_is_left(tmp_path):
    data = writers.truth()
    sets = [writers.write_processed(tmp_path / "ogbn_some", data), writers.write_shchur(tmp_path / "s.npz", data)]
    sets.append(writers.write_mag240m(tmp_path / "mag", writers.mag_truth()))
    hl.datasets.save(hl.datasets.open(sets[1]), tmp_path / "ours")
    np.save(tmp_path / "x.npy", np.ones((10, 3), dtype=np.float32))
    torch.save(torch.ones(10, 3), tmp_path / "x.pt")
    checkpoint.save(tmp_path / "c.pt", {"a": 1})
    done = forked.run(
        "-c",
        PROGRAM,
        tmp_path,
        *(path.name for path in sets),
        "ours",
        check=True,
        env={"PYTHONWARNINGS": "ignore", "HINTERLAND_CACHE_DIR": str(tmp_path / "cache")},
    )
    lines = done.stdout.splitlines()
    refused = [line for line in lines if not line.endswith(" done")]
    remedy = "Too many open files; close some, or raise the limit (ulimit -n)"
    assert [line for line in refused if " StorageError: " not in line or remedy not in line] == []
    told = {line.partition(" 0 StorageError")[0] for line in refused if " 0 StorageError" in line}
    called = {line.rsplit(" 9 ", 1)[0] for line in lines if " 9 " in line}
    assert len(lines) == 140 and len(called) == 14
    assert called - told == {"kernel"}  # with none left all are refused, but the one whose device keeps what it has of the file
