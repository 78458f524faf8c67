"""Arrays on storage as a CPU's threads read and write them. (What warps do is among tests/graph/test_lanes.py.)"""

from __future__ import annotations

import pytest

from ..programs import NATIVE, compiled, needs_compiler, run


@needs_compiler
@pytest.mark.parametrize("name", ["source", "written", "coalesced"])
def test_what_is_read_is_what_is_stored_and_whoever_waits_comes_to_his_end(tmp_path, name):
    run(compiled(tmp_path, f"tests/storage/{name}_lanes.cpp", flags=["-O1", *NATIVE]))
