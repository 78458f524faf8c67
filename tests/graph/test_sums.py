"""Sums over lists that threads share, as a program of its own."""

from __future__ import annotations

from ..programs import NATIVE, compiled, needs_compiler, run


@needs_compiler
def test_lists_that_tasks_share_are_added_to_atomically(tmp_path):
    run(compiled(tmp_path, "tests/graph/sums.cpp", flags=["-O1", *NATIVE]))
