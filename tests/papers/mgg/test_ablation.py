"""The rivals and ablations of full-graph message passing make what the library makes; their tables are made, and drawn."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[3]))
from benchmarks import _fullgraph_rivals as rivals
from hinterland.fullgraph import PartitionedGraph, aggregate_launch
from hinterland.runtime import devices, jit
from hinterland_papers import FOLDER
from hinterland_papers.mgg import kernel as mgg
from hinterland_papers.mgg.kernel import Setting
from papers.benchmarks.mgg import _ablation as ablation
from papers.benchmarks.mgg import _baselines as baselines
from papers.benchmarks.mgg import _plots as plots
from papers.benchmarks.mgg import _sm as sm
from papers.benchmarks.mgg import mgg as evaluation
from tests.graphs import family
from tests.programs import TESTS

from ...fullgraph.test_aggregate import hub

HERE = Path(__file__).parent
SETTINGS = [
    *(Setting(None, order=order) for order in ("mixed", "apart", "pairs")),
    *(Setting(3, 2, 2, order=order) for order in ("pairs", "apart", "launches")),
    *(Setting(5, dist, 2, loads, ahead) for dist, loads, ahead in product((1, 3), ("plain", "staged"), (1, 4))),
    Setting(2, 2, 1, lanes=1),
    *(Setting(4, dist, 1, "common", order=order) for dist in (1, 2) for order in ("pairs", "apart")),
]
# What tables have that need a GPU.
_ROW = {"shape": "products", "width": 16, "direct": 1.0}
EXAMPLES = {
    "mapping": [{**_ROW, **dict.fromkeys(ablation.MAPPINGS, 2.0)}],
    "remote loads": [{**_ROW, "loads": loads, "ahead": 4, "ms": 2.0} for loads in ("plain", "staged", "common")],
    "granularity": [{**_ROW, "ps": 2, "thread": 3.0, "warp": 1.0, "block": None}],
    "heat map": [{**_ROW, "ps": ps, "dist": 1, "wpb": 2, "ms": ms} for ps, ms in ((1, 2.0), (2, None))],
}


@pytest.fixture(scope="module")
def lanes(tmp_path_factory):
    """The kernel on the CPU."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    library = tmp_path_factory.mktemp("mgg") / "mgg.so"
    paths = [part for folder in (TESTS / "lanes", jit.INCLUDE_DIR, FOLDER) for part in ("-I", str(folder))]
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


def agrees(setting, graph, devices, width):
    case = ablation.Case.of(PartitionedGraph.from_graph(graph, devices=devices), width)
    assert case.prepared(setting) is not None  # which compares them
    assert any(bool(one.any()) for one in case.sums)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_rival_agrees_with_direct(on_cpu, setting):
    for graph, parts in ((family("kronecker", 7), 3), (hub(), 2), (family("kronecker", 3), 9)):
        for width in (4, 20, 132):
            agrees(setting, graph, ["cpu"] * parts, width)


@pytest.mark.gpu
@pytest.mark.parametrize("setting", [*SETTINGS, Setting(16, 2, 4, "common"), Setting(4, 2, lanes=256)], ids=str)
def test_the_rival_agrees_with_direct_on_gpus(setting):
    gpus = devices.gpus()
    for graph, where in ((family("kronecker", 12), gpus * (2 if len(gpus) == 1 else 1)), (hub(), gpus[:1] * 3)):
        for width in (4, 20, 64, 516):
            agrees(setting, graph, where, width)


def test_a_block_that_stages_too_much_has_no_room(on_cpu, monkeypatch):
    monkeypatch.setattr(mgg.devices, "shared_bytes", lambda device: 8 * 32 * 16 * 4 - 1)
    p = PartitionedGraph.from_graph(family("kronecker", 7), parts=2, devices="cpu")
    case = ablation.Case.of(p, 64)
    assert case.ms(Setting(16, 1, 8, "staged", 4)) is None and case.ms(Setting(16, 1, 8, "staged", 2)) is not None


def test_parameters_are_those_of_the_header():
    """Their order, that is; on_cpu compares their size."""
    text = Path(mgg.__file__).with_suffix(".hpp").read_text()
    for name, struct in (("Partitions", mgg._Partitions), ("MggParams", mgg.MggParams)):
        body = re.sub(r"//.*", "", re.search(rf"struct {name} \{{(.*?)\}};", text, re.DOTALL)[1])
        declared = [re.search(r"(\w+)$", one)[1] for line in body.split(";") for one in line.split(",") if one.strip()]
        assert declared == [field for field, _ in struct._fields_]


def test_the_kernel_compiles(tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc")
    for unit in mgg.KERNELS.units():
        assert mgg.KERNELS.build("sm_90", tmp_path, unit).stat().st_size > 0


def test_rows_in_one_table_of_host_memory():
    p = PartitionedGraph.from_graph(hub(), parts=3, devices="cpu")
    case = ablation.Case.of(p, 12)
    table = torch.cat(case.x)
    torch.testing.assert_close(baselines.HostRows(p, table)(case.x), case.sums, rtol=0, atol=0)
    torch.testing.assert_close(baselines.HostRows(p, 2 * table)(case.x), [2 * one for one in case.sums], rtol=0, atol=0)


def test_tiles_are_summed_one_after_the_other():
    graph = hub()
    bounds = rivals.even_bounds(graph.indptr, 3)
    tables = torch.randn(graph.num_vertices, 8, dtype=torch.float64).tensor_split(bounds[1:-1])
    homes = [torch.empty_like(table) for table in tables]
    for rank, home in enumerate(homes):
        baselines.Tiles(rivals.cut(graph.indptr, graph.indices, None, bounds, rank, "cpu"))(tables, home)
    adjacency = torch.zeros(graph.num_vertices, graph.num_vertices, dtype=torch.float64)
    rows = torch.repeat_interleave(torch.arange(graph.num_vertices), graph.indptr.diff())
    adjacency.index_put_((rows, graph.indices.long()), torch.ones((), dtype=torch.float64), accumulate=True)
    torch.testing.assert_close(torch.cat(homes), adjacency @ torch.cat(tables))


@pytest.mark.slow
def test_small_tables_are_made_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    wanted = (part for part in evaluation.PARTS if part != "tuner")
    options = argparse.Namespace(shapes="", widths="16", parts=",".join(wanted), small=True)
    results = evaluation.run(options)
    tables = {name for name, rows in results.items() if isinstance(rows, list)}
    assert {"baselines", "lookup", "crossover", "accuracy"} <= tables
    assert {row["way"] for row in results["accuracy"]} == {"full", "sampled 25,10", "sampled 3,3"}
    made = plots.draw([{"results": {**EXAMPLES, **json.loads(json.dumps(results))}}], tmp_path)
    assert {path.stem for path in made} == {f"fullgraph-{name.replace(' ', '-')}" for name in plots.FIGURES}
    assert all(b"</svg>" in path.read_bytes() for path in made)


STAGES = {"halo-pipelined": 2}  # sums of a part's own rows, and of one other's

# As Nsight Compute prints it, with the program's own lines before.
_SEEN = """what the program says
==PROF== Connected to process 17
"ID","Kernel Name","gpu__time_duration.sum","sm__cycles_active.avg","gpc__cycles_elapsed.max",{shares}
"","","ns","cycle","cycle","%","%","%"
"0","take_kernel","1,000.50","50","100","10","20","30"
"1","aggregate_kernel","3,001.50","100","100","50","40","70"
==PROF== Disconnected
"""
SOME = _SEEN.format(shares=",".join(f'"{metric}"' for metric in sm.SHARES.values()))


def test_use_of_multiprocessors_is_a_mean_by_time(tmp_path, monkeypatch):
    program = tmp_path / "ncu"
    names = ",".join(f'"{metric}"' for metric in sm.SHARES.values())
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/asked\ncat <<'END'\n{_SEEN.format(shares=names)}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = list(sm.sm_use(["products:0.001"], [16], parts=2))
    assert [row["way"] for row in found] == [*sm.WAYS]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split("papers.benchmarks.mgg._sm ")[1] for line in asked] == [f"products:0.001 16 {way}" for way in sm.WAYS]
    assert all(metric in asked[0] for metric in (sm.TIME, *sm.CYCLES.values(), *sm.SHARES.values()))
    wanted = {"occupancy": 40, "sm": 35, "dram": 60, "active": 87.5}
    for row in found:
        assert row["launches"] == 2 and row["ms"] == pytest.approx(0.002001, rel=1e-9)
        assert {name: row[name] for name in wanted} == pytest.approx(wanted, rel=1e-3)


def test_a_way_that_has_no_room_has_no_row(monkeypatch):
    seen = {"uvm": "==WARNING== No kernels were profiled.\n"}
    monkeypatch.setattr(sm._ncu, "counted", lambda module, given, *rest: sm._ncu.rows(seen.get(given[2], SOME)))
    assert [row["way"] for row in sm.sm_use(["products:0.001"], [16], parts=2)] == [way for way in sm.WAYS if way != "uvm"]


@pytest.mark.parametrize("way", [way for way in sm.WAYS if not way.startswith(("mgg", "uvm"))])
def test_what_is_looked_at_is_one_sum(way, monkeypatch):
    """Of two parts, each with pieces of long lists to join; MGG's kernel and managed memory want a GPU."""
    launches, run = [], aggregate_launch._run
    monkeypatch.setattr(aggregate_launch, "_run", lambda *given: launches.append(given[1]) or run(*given))
    sm.once("products:0.001", 16, way)
    assert len(launches) == 2 * 2 * STAGES.get(way, 1)
