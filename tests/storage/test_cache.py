"""The software cache: every order of the steps of a few threads, and many threads at once, as programs of their own."""

from __future__ import annotations

import pytest

from ..programs import NATIVE, ROOT, compiled, needs_compiler, run

HERE = ROOT / "tests/storage"
CASES = ("refused", "retag", "once", "victim", "flush", "clock", "belady", "known", "fill", "fills", "fails", "glance", "back")

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    flags = ["-O2", f"-I{HERE}/explored", f"-I{HERE}", *NATIVE]
    return compiled(tmp_path_factory.mktemp("model"), HERE / "cache_model.cpp", flags=flags)


@pytest.mark.parametrize("case", CASES)
def test_in_every_order_of_steps_pages_are_whole_and_threads_come_to_their_end(model, case):
    said = run(model, case)
    states = int(said.split(":")[1].split()[0])
    assert said.startswith(case) and states > 1000


def test_the_cases_are_all_there_are():
    assert set(CASES) == {part.split('"')[0] for part in (HERE / "cache_model.cpp").read_text().split('asked("')[1:]}


@pytest.fixture(scope="module")
def stress(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("stress"), HERE / "cache_stress.cpp", flags=["-O2", *NATIVE])


@pytest.mark.parametrize("threads", [1, 2, 8, 32])
def test_many_threads_lose_no_write_and_see_no_other_page(stress, threads):
    for seed in (1, 2):
        run(stress, 500, threads, seed)
