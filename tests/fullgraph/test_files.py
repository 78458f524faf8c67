"""Rows that go through files: the results of rows in memory, bytes as the plan says, and what is refused."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hinterland.fullgraph import PartitionedGraph, host_files, host_plan
from hinterland.fullgraph.host import in_files
from hinterland.fullgraph.host_program import plans
from hinterland.fullgraph.host_stream import HostRoom
from hinterland.runtime.errors import OutOfMemory, StorageError
from hinterland.storage import StorageCache
from hinterland.table import StorageArray
from hinterland.table.array import unnamed
from hinterland.training.full_models import FULL_MODELS, make_full_model
from tests.fullgraph.test_aggregate import inputs
from tests.graphs import family

KIB = 1 << 10


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(host_plan, "_QUEUED", 0.0)


def step(model, p, x):
    """Scores by vertex, and gradients of parameters."""
    model.zero_grad()
    out = p.each(model(p.scatter(x) if p.files is None else in_files(p, x, x.dtype), p))
    torch.stack([one.square().sum() for one in out]).sum().backward()
    return [p.gather(p.as_given(out)), *(one.grad.clone() for one in model.parameters())]


def least(p, model, x, slack):
    """Bytes with which little stays on the device that need not; of sums in many ranges of columns somewhat more."""
    p.gpu_budget = 1
    with pytest.raises(OutOfMemory) as refused:
        step(model, p, x)
    number, unit = str(refused.value).split(" are needed at least")[0].split()[-2:]
    return int(slack * float(number) * {"KiB": KIB, "MiB": KIB**2}[unit])


def gcn_in_files(folder):
    """A graph, a model and its features, of which no row finds room in host memory."""
    graph = family("web", 10, seed=2)
    x = inputs(graph, 12, torch.float64)
    model = make_full_model("gcn", 12, 64, 5, 3).double()
    p = PartitionedGraph.from_graph(graph, devices="cpu", gpu_budget=1, host_budget=0, folder=folder)
    p.gpu_budget = least(p, model, x, 1.25)
    return p, model, in_files(p, x, x.dtype)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("kind", FULL_MODELS)
def test_models_are_those_in_memory(kind, parts, tmp_path):
    """To the bit, where blocks are as long; tables of sums are made in ranges of columns."""
    graph = family("web", 10, seed=2)
    x = inputs(graph, 12, torch.float64)
    model = make_full_model(kind, 12, 64, 5, 3).double()
    wanted = step(model, PartitionedGraph.from_graph(graph, parts, devices="cpu"), x)
    p = PartitionedGraph.from_graph(graph, parts, devices="cpu", gpu_budget=1, host_budget=0, folder=tmp_path)
    p.gpu_budget = least(p, model, x, 1.02 if "gat" in kind else 1.25)
    in_host = PartitionedGraph.from_graph(graph, parts, devices="cpu", gpu_budget=p.gpu_budget)
    found, same = step(model, p, x), step(model, in_host, x)
    plan = plans(p)[-1]
    assert plan.in_files.written > 0 and plan.peak <= p.gpu_budget
    assert plan.block == plans(in_host)[-1].block
    for one, other, at_all in zip(found, same, wanted, strict=True):
        if plan.columns == plans(in_host)[-1].columns:
            assert torch.equal(one, other)
        torch.testing.assert_close(one, at_all, rtol=1e-9, atol=1e-9)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host_budget", [0, 200 * KIB, 1 << 30])
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_files_move_what_was_predicted(kind, host_budget, tmp_path, monkeypatch):
    moved = Counter()
    for name in ("read_into", "write_from"):
        plain = getattr(StorageArray, name)

        def counted(self, rows, begin=0, plain=plain, name=name):
            moved[name] += rows.nbytes
            return plain(self, rows, begin)

        monkeypatch.setattr(StorageArray, name, counted)
    graph = family("web", 10, seed=2)
    x = inputs(graph, 12, torch.float64)
    model = make_full_model(kind, 12, 64, 5, 3).double()
    p = PartitionedGraph.from_graph(graph, devices="cpu", gpu_budget=1, host_budget=host_budget, folder=tmp_path)
    p.gpu_budget = least(p, model, x, 1.02 if "gat" in kind else 1.25)
    moved.clear()
    step(model, p, x)
    plan = plans(p)[-1]
    assert moved["read_into"] == plan.in_files.read
    assert moved["write_from"] - x.nbytes == plan.in_files.written
    assert p.kept("host room", HostRoom)._taken <= host_budget and plan.in_files.written >= (host_budget < 1 << 30)
    if host_budget == 1 << 30:
        assert plan.in_files.written == 0
    link = (plan.seconds - plan.in_files.seconds) * 1e3
    assert f"down a step, {link:.1f} ms of the link; " in plan.explain()
    taken = p.files._made
    step(model, p, x)
    assert p.files._made - taken == x.nbytes  # of the features once more; all other files are those of before


def test_a_full_disk_is_found_before_anything_is_computed(tmp_path, monkeypatch):
    p, model, rows = gcn_in_files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(host_files, "DISK_LEFT", 1 << 62)
        with pytest.raises(StorageError, match=f"{tmp_path}: files of rows need .* more, and .* are free.*; free space"):
            p.each(model(rows, p))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=f"{tmp_path}: .* more for rows cannot be had: No space left"):
        p.each(model(rows, p))
    assert not list(tmp_path.iterdir())


def test_a_budget_of_a_cpu_is_called_as_it_was_given(tmp_path):
    p = PartitionedGraph.from_graph(family("web", 8, seed=1), devices="cpu", host_budget=1, folder=tmp_path)
    with pytest.raises(OutOfMemory, match="1 B may be taken; raise host_budget"):
        p.each(make_full_model("gcn", 4, 8, 5, 2)(p.scatter(torch.ones(p.num_vertices, 4)), p))


def test_a_folder_that_is_not_there(tmp_path):
    p = PartitionedGraph.from_graph(family("web", 8, seed=1), devices="cpu", host_budget="1GiB", folder=tmp_path / "none")
    with pytest.raises(StorageError, match="none: cannot be used for rows: No such file or directory"):
        in_files(p, torch.ones(p.num_vertices, 4), torch.float32)


def test_writes_that_fail_end_the_step(tmp_path, monkeypatch):
    p, model, rows = gcn_in_files(tmp_path)

    def failing(self, rows, begin=0):
        raise StorageError("the disk is gone")

    monkeypatch.setattr(StorageArray, "write_from", failing)
    with pytest.raises(StorageError, match="the disk is gone"):
        p.each(model(rows, p))


def test_features_of_a_file_are_read_in_place(tmp_path):
    graph = family("web", 8, seed=1)
    table = StorageArray.create(tmp_path / "x.npy", (graph.num_vertices, 4))
    table[torch.arange(len(table))] = torch.randn(len(table), 4)
    table.flush()
    p = PartitionedGraph.from_graph(graph, devices="cpu", host_budget="1GiB", folder=tmp_path)
    assert torch.equal(p.each(in_files(p, table, torch.float32))[0], table[:]) and p.files._made == 0
    assert torch.equal(p.each(in_files(p, table, torch.float64))[0], table[:].double()) and p.files._made > 0


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_rows_written_past_the_cache_are_those_read(data):
    """Of any width and from any row on, also such as the cache had."""
    width, rows = data.draw(st.sampled_from([1, 3, 256, 1030])), 700
    wanted = torch.zeros(rows, width)
    with tempfile.TemporaryDirectory() as folder:
        table = unnamed(folder, "rows", (rows, width), torch.float32, cache=StorageCache("1MiB"))
        for turn in range(3):
            begin = data.draw(st.integers(0, rows - 1))
            part = torch.full((data.draw(st.integers(1, rows - begin)), width), float(turn + 1))
            wanted[begin : begin + len(part)] = part
            table.write_from(part, begin)
            assert torch.equal(table[torch.arange(rows)], wanted)
        with pytest.raises(StorageError, match="past its end"):
            table.write_from(torch.ones(2, width), rows - 1)
        found = torch.empty_like(wanted)
        table.read_into(found)
        assert torch.equal(found, wanted)
        table.close()
