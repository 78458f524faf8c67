"""Shared fixtures: the devices that this machine has, and a kernel cache that no test shares with the user."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# On a busy machine threads that wait for each other by spinning take the processors from those that they wait for. OpenMP reads
# this as torch loads it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from hypothesis import settings

from hinterland.runtime import devices

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"

# What runs in the background of a shell ignores Ctrl-C, and tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure.
# Each change tries the same examples, so that what it is told is about itself; `make nightly` draws others, and more.
settings.register_profile("hinterland", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("nightly", deadline=None)
settings.load_profile(os.environ.get("HINTERLAND_EXAMPLES", "hinterland"))


gc.disable()  # until all tests are known: there is no garbage in what is imported


def pytest_collection_finish() -> None:
    """Tests ask for garbage to be collected: what is here before them all, which takes half a second, is not looked through."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # what was asked for is known
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where there is no GPU its tests, three of seven, are left out; those that were named alone say why they are skipped."""
    if devices.cuda_available():
        return
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if len(on_gpu) < len(items):
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=on_gpu)
    else:
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="no GPU on this machine"))


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """One test body for every processor."""
    return torch.device(request.param)


@pytest.fixture
def set_threads():
    """Sets the library's number of threads, which is what it was afterwards."""
    from hinterland import _core  # which is not there yet when style is checked

    before = _core.num_threads()
    yield _core.set_num_threads
    _core.set_num_threads(before)


@pytest.fixture
def command_line(monkeypatch, capsys):
    """Runs a command line in this process, by its ``main``: exit status, standard output, standard error."""

    def run(main, *words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [*map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def real_data() -> Path:
    """The folder of small real inputs; tests that use it skip where it is absent."""
    if not DATA.is_dir():
        pytest.skip("the folder of real inputs is not beside this checkout")
    return DATA


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of a mebibyte."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], capture_output=True).returncode != 0:
        pytest.skip("this user may not mount a file system")
    yield tmp_path
    gc.collect()
    subprocess.run(["umount", "-l", tmp_path], check=True)
