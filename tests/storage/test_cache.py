"""The software cache: every order of the steps of a few threads, and many threads at once, as programs of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/storage"
CASES = ("refused", "retag", "once", "victim", "flush", "clock", "belady", "known", "fill", "fills", "fails", "glance", "back")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def compiled(source, folder, *includes):
    program = folder / source.stem
    paths = [part for include in (*includes, ROOT / "include") for part in ("-I", str(include))]
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run(["g++", *flags, *paths, str(source), "-o", str(program)], check=True)
    return program


def run(program, *arguments):
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return compiled(HERE / "cache_model.cpp", tmp_path_factory.mktemp("model"), HERE / "explored", HERE)


@pytest.mark.parametrize("case", CASES)
def test_in_every_order_of_steps_pages_are_whole_and_threads_come_to_their_end(model, case):
    said = run(model, case)
    states = int(said.split(":")[1].split()[0])
    assert said.startswith(case) and states > 1000


def test_the_cases_are_all_there_are():
    assert set(CASES) == {part.split('"')[0] for part in (HERE / "cache_model.cpp").read_text().split('asked("')[1:]}


@pytest.fixture(scope="module")
def stress(tmp_path_factory):
    return compiled(HERE / "cache_stress.cpp", tmp_path_factory.mktemp("stress"))


@pytest.mark.parametrize("threads", [1, 2, 8, 32])
def test_many_threads_lose_no_write_and_see_no_other_page(stress, threads):
    for seed in (1, 2):
        run(stress, 500, threads, seed)
