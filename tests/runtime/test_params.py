"""Structs that Python fills in lie as C++ declares them, and none of their fields is left out."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from hinterland import _core
from hinterland.runtime import params

NATIVE = Path(__file__).resolve().parent.parent.parent / "native"


@pytest.mark.parametrize("name", sorted(_core.STRUCTS))
def test_every_struct_is_laid_out_as_in_cpp(name):
    size, fields = _core.STRUCTS[name]
    made = params.struct(name)
    assert ctypes.sizeof(made) == size and fields
    assert [(field, getattr(made, field).offset) for field, _ in made._fields_] == [(field, at) for field, at, _ in fields]
    assert bytes(made()) == bytes(size)


def test_what_is_given_is_what_cpp_reads():
    made = params.struct("graph::BfsParams")(source=-3, scratch=2**64 - 1)
    words = made.on(torch.device("cpu")).view(torch.int64)
    assert words.tolist() == [0, 0, -3, 0, 0, -1]
    assert params.struct("graph::BfsParams").read(words).source == -3
    assert (ctypes.c_char * 48).from_address(made.address).raw == bytes(made)
    with pytest.raises(AttributeError):
        params.struct("graph::BfsParams")(no_such_field=1)


def test_a_struct_that_another_module_tells_may_hold_one_of_ours(monkeypatch):
    monkeypatch.setattr(params, "_STRUCTS", dict(params._STRUCTS))
    size, _ = _core.STRUCTS["graph::BfsParams"]
    params.also_told({"above::Params": (size + 8, [("bfs", 0, "graph::BfsParams"), ("count", size, "int64")])})
    made = params.struct("above::Params")(bfs=params.struct("graph::BfsParams")(source=-3), count=5)
    assert (made.bfs.source, made.count, ctypes.sizeof(made)) == (-3, 5, size + 8)


ALL = "a, b, c, d, e, f, g"
STRUCT = """
#include <cstdio>
#include "params.hpp"
namespace hinterland {{
struct Inner {{ int64_t a; float b; int32_t c; }};
struct Outer {{ int32_t a, b; const char* c; Inner d; int64_t e[3]; float f, g; }};
namespace native {{
HINTERLAND_STRUCT(Inner, a, b, c);
HINTERLAND_STRUCT(Outer, {fields});
}}
}}
int main() {{
  for (const auto& one : hinterland::native::structs())
    for (const auto& f : one.fields)
      std::printf("%s.%s %zu %s\\n", one.name.c_str(), f.name.c_str(), f.offset, f.kind.c_str());
}}
"""


@pytest.mark.skipif(shutil.which("g++") is None or not NATIVE.exists(), reason="no g++")
@pytest.mark.parametrize("left_out", ["", "a", "b", "c", "f", "g", "c, d"])
def test_a_field_that_is_not_told_is_an_error_as_the_module_loads(left_out, tmp_path):
    (tmp_path / "struct.cpp").write_text(
        STRUCT.format(fields=ALL.replace(f"{left_out}, " if left_out != "g" else ", g", "", 1) if left_out else ALL)
    )
    program = tmp_path / "struct"
    subprocess.run(["g++", "-std=c++20", "-I", NATIVE, tmp_path / "struct.cpp", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    if left_out:
        assert done.returncode != 0 and "Outer: what comes " in done.stderr
        return
    told = [line.removeprefix("Outer.") for line in done.stdout.splitlines() if line.startswith("Outer")]
    assert told == ["a 0 int32", "b 4 int32", "c 8 pointer", "d 16 Inner", "e 32 int64[3]", "f 56 float", "g 60 float"]
