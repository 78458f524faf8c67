"""The rivals and ablations of full-graph message passing make what the library makes; their tables are made, and drawn."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks import _fullgraph_ablation as ablation
from benchmarks import _fullgraph_mgg as mgg
from benchmarks._fullgraph_mgg import Setting
from hinterland.fullgraph import PartitionedGraph
from hinterland.runtime import jit
from tests.graphs import family

from .test_aggregate import hub

HERE = Path(__file__).parent
SETTINGS = [
    *(Setting(None, order=order) for order in ("mixed", "apart", "pairs")),
    *(Setting(3, 2, 2, order=order) for order in ("pairs", "apart", "launches")),
    *(Setting(5, dist, 2, loads, ahead) for dist, loads, ahead in product((1, 3), ("plain", "staged"), (1, 4))),
    Setting(2, 2, 1, lanes=1),
    *(Setting(4, dist, 1, "common", order=order) for dist in (1, 2) for order in ("pairs", "apart")),
]


@pytest.fixture(scope="module")
def lanes(tmp_path_factory):
    """The kernel on the CPU."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    library = tmp_path_factory.mktemp("mgg") / "mgg.so"
    paths = [part for folder in (HERE.parent / "lanes", jit.INCLUDE_DIR) for part in ("-I", str(folder))]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *paths]
    subprocess.run(["g++", *flags, str(HERE / "mgg_lanes.cpp"), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).mgg
    function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_char_p, ctypes.c_void_p, *[ctypes.c_int64] * 3]
    return function


@pytest.fixture
def on_cpu(lanes, monkeypatch):
    def launch(file, instance, device, grid, block, params, shared=0):
        assert lanes(instance.encode(), params.address, grid, block, shared) == ctypes.sizeof(params)

    monkeypatch.setattr(mgg, "launch", launch)
    monkeypatch.setattr(mgg.devices, "shared_bytes", lambda device: 1 << 20)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_rival_agrees_with_direct(on_cpu, setting):
    for graph, parts in ((family("kronecker", 7), 3), (hub(), 2), (family("kronecker", 3), 9)):
        p = PartitionedGraph.from_graph(graph, parts=parts, devices="cpu")
        for width in (4, 20, 132):
            case = ablation.Case.of(p, width)
            assert case.prepared(setting) is not None
            assert any(bool(one.any()) for one in case.sums)
