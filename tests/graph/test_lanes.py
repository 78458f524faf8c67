"""The code that a warp runs, with 32 lanes, on a machine without a GPU."""

from __future__ import annotations

import pytest

from hinterland.runtime import jit

from ..programs import ROOT, TESTS, compiled, needs_compiler, run, tried_by_threads

INCLUDE = (jit.INCLUDE_DIR, ROOT / "papers")
# Those without a main() are libraries for other tests.
PROGRAMS = sorted(path for path in TESTS.rglob("*_lanes.cpp") if "int main()" in path.read_text())


def headers(source):
    """The names of the headers that a program includes, at any depth; each comes after a quotation mark or "<"."""
    return {listed[1:].split("\n")[0] for listed in jit.headers(source.read_text(), False, INCLUDE)}


def reads_through_a_cache(source):
    """Whether it reads graphs, unless it brings a source of its own."""
    read = headers(source)
    return "hinterland/memory/source.hpp" in read and "hinterland/storage/source.hpp" not in read


def leaves_something_out(source):
    """Whether ThreadSanitizer does not run all of it, for it would call a race what is none."""
    return any(word in source.read_text() for word in ("__SANITIZE_THREAD__", "kOnce"))


@needs_compiler
@pytest.mark.parametrize(
    "source",
    [pytest.param(path, marks=() if leaves_something_out(path) else tried_by_threads, id=path.stem) for path in PROGRAMS],
)
def test_a_warp_of_lanes_agrees_with_its_oracle(source, tmp_path):
    run(compiled(tmp_path, source, flags=["-O1", *(f"-I{folder}" for folder in (TESTS / "lanes", *INCLUDE))]))


@needs_compiler
@pytest.mark.parametrize("source", list(filter(reads_through_a_cache, PROGRAMS)), ids=lambda path: path.stem)
def test_a_warp_of_lanes_agrees_with_its_oracle_through_a_cache(source, tmp_path):
    folders = [TESTS / "cached", TESTS / "lanes", *INCLUDE]
    program = compiled(tmp_path, source, flags=["-O1", *(f"-I{folder}" for folder in folders)])
    run(program, HINTERLAND_CACHED_SOURCES="1")
