"""``hinterland kernels build``, with one small file."""

from __future__ import annotations

import json
import re
import sys

import pytest

import hinterland as hl
from hinterland import cli
from hinterland.runtime import inspection, jit
from hinterland.runtime.errors import DeviceError

pytest.importorskip("cuda.bindings.nvrtc")


@pytest.fixture
def build(monkeypatch, capsys, tmp_path):
    """Runs the command; gives its exit status and what it printed."""

    def run(*more, only="datasets/generate"):
        words = ["hinterland", "kernels", "build", "--only", only, "--output", str(tmp_path / "built"), *more]
        monkeypatch.setattr(sys, "argv", words)
        try:
            cli.main()
            status = 0
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    return run


def test_the_report_is_a_table(build):
    status, out, err = build("--arch", "sm_80,sm_90", "--report")
    assert status == 0 and err.count("datasets/generate.cu") == 2
    heads = [line.split() for line in out.splitlines() if line.startswith("registers")]
    columns = ["registers", "stack", "spilled", "reloaded", "shared", "instructions", "datasets/generate.cu", "for"]
    assert heads == [[*columns, "sm_80"], [*columns, "sm_90"]]
    rows = [line.split() for line in out.splitlines() if line.endswith("fill_features")]
    assert len(rows) == 2 and all(int(number.replace(",", "")) >= 0 for row in rows for number in row[:-1])
    assert out.splitlines()[-1].startswith("2 modules in ")


def test_the_report_as_json(build):
    status, out, _ = build("--report", "--json")
    result = json.loads(out)
    assert status == 0 and set(result) == {"kernels", "seconds", "resources"}
    kernels = ["fill_citations<int32_t>", "fill_citations<int64_t>", "fill_features"]
    assert sorted(taken["kernel"] for taken in result["resources"]) == kernels
    for taken in result["resources"]:
        assert (taken["file"], taken["arch"]) == ("datasets/generate.cu", "sm_90")
        assert 8 <= taken["registers"] <= 255 and taken["instructions"] > 8
    again = json.loads(build("--report", "--json")[1])  # of what is kept, without a compile
    assert again["resources"] == result["resources"]


def test_a_dump(build, tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "disassembler", lambda: None)
    status, out, err = build("--dump", str(tmp_path / "text"), "--json")
    file = tmp_path / "text" / "sm_90" / "datasets" / "generate" / "fill_features.ptx"
    dumped = json.loads(out)["dumped"]
    assert status == 0 and len(dumped) == 3 and str(file) in dumped and "fill_features" in file.read_text()
    assert "no SASS is written" in err and "pip install nvidia-cuda-nvdisasm" in err


@pytest.mark.parametrize(
    ("lack", "reason"),
    (
        (lambda m: m.setattr("cuda.bindings.nvrtc.nvrtcVersion", not_found), "needs NVRTC (Failure finding libnvrtc.so.13)"),
        (lambda m: m.setitem(sys.modules, "cuda.core", None), "needs cuda-core"),
    ),
    ids=("nvrtc", "cuda-core"),
)
def test_a_library_that_is_missing(build, monkeypatch, lack, reason):
    jit._toolchain.cache_clear()
    lack(monkeypatch)
    status, out, err = build()
    assert status == 1 and not out and err == f"hinterland: compiling kernels {reason}: pip install 'hinterland[cuda]'\n"
    kernel = hl.kernel("__global__ void k(int* x) {}")._text(1)
    with pytest.raises(DeviceError, match=re.escape(reason)):  # as a launch does
        kernel.key("sm_90")


def not_found():
    raise RuntimeError("Failure finding libnvrtc.so.13\nand where it was looked for")


def test_a_kernel_file_that_does_not_exist(build):
    status, out, err = build(only="graph/bsf")
    assert status == 1 and not out and "there is no kernel file graph/bsf.cu; there are datasets/generate.cu, " in err
