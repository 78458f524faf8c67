"""Processes that the library starts: what they are told, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError, DeviceError, GraphError, RankLost

from .launched import fails, sums
from .test_aggregate import close, expected, hub, inputs


def check(folder, count, kind):
    wanted = expected(hub(), inputs(hub(), 3, torch.float64), "sum")
    for rank in range(count):
        whole, part, device, names = torch.load(folder / f"{rank}.pt")
        close(whole, wanted, torch.float64)
        assert part == rank and device.startswith(kind)
        assert names == [str(rank), str(rank), str(count), str(count), "0", "1"]


def test_processes_of_the_cpu(tmp_path):
    before = dict(os.environ)
    hl.launch(sums, tmp_path, inputs(hub(), 3, torch.float64), cpus=2)
    check(tmp_path, 2, "cpu")
    assert dict(os.environ) == before


@pytest.mark.gpu
def test_a_process_for_each_gpu(tmp_path):
    hl.launch(sums, tmp_path, inputs(hub(), 3, torch.float64))
    count = torch.cuda.device_count()
    if count > 1:  # alone a rank has a world of its own
        check(tmp_path, count, "cuda")


@pytest.mark.parametrize(
    "how, count, kind, says",  # each process takes seconds to start
    [
        ("ours", 2, GraphError, r"^rank 1: a sentence$"),
        ("theirs", 2, RankLost, r"^rank 1 raised ValueError: many words (.|\n)*Traceback(.|\n)*in fails\n"),
        ("killed", 2, RankLost, r"^rank 1 was killed by SIGKILL; what it printed may say why$"),
        pytest.param(
            *("exit", 2, RankLost, r"^rank 1 ended with exit status 3; what it printed may say why$"), marks=pytest.mark.nightly
        ),
    ],
)
def test_one_that_fails_ends_all(how, count, kind, says):
    begin = time.monotonic()
    with pytest.raises(kind, match=says):
        hl.launch(fails, how, cpus=count)
    assert time.monotonic() - begin < 60


def test_wrong_arguments():
    for options, says in (
        ({"cpus": 0}, "cpus=0 starts nothing"),
        ({"gpus": 1, "cpus": 1}, "processes have one or the other"),
        ({"cpus": "two"}, "cpus"),
    ):
        with pytest.raises(ConfigError, match=says):
            hl.launch(fails, **options)
    with pytest.raises(ConfigError, match="fn and its arguments are sent to other processes"):
        hl.launch(lambda rank: None, cpus=1)
    if not devices.cuda_available():
        with pytest.raises(ConfigError, match=r"launch\(fn, cpus=4\)"):
            hl.launch(fails, "ours")
        with pytest.raises(DeviceError, match="gpus=2 needs an NVIDIA GPU"):
            hl.launch(fails, "ours", gpus=2)


def test_without_a_guard(tmp_path):
    """A program whose call every process would repeat."""
    program = tmp_path / "program.py"
    program.write_text("import hinterland as hl\n\n\ndef fn(rank): ...\n\n\nhl.launch(fn, cpus=1)\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 1 and 'put the call under if __name__ == "__main__":' in done.stderr


@pytest.mark.parametrize(("stop", "count"), [(signal.SIGINT, 2), (signal.SIGKILL, 1)])
def test_who_starts_them_ends_them(tmp_path, stop, count):
    """By Ctrl-C; and as it is killed, of which each process hears alone."""
    program = [sys.executable, "-m", "tests.fullgraph.launched", str(tmp_path), str(count)]
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    started = subprocess.Popen(program, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)
    try:
        files = [tmp_path / str(rank) for rank in range(count)]
        wait_for(lambda: all(file.exists() and file.read_text() for file in files), 60)
        started.send_signal(stop)
        started.wait(20)
        wait_for(lambda: not any(Path(f"/proc/{file.read_text()}/cwd").exists() for file in files), 20)
    finally:
        started.kill()


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
