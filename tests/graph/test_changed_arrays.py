"""Arrays that were changed after a graph was made: nothing crashes, hangs or is lost, on any processor."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import GraphError

from .. import forked

PROGRAM = Path(__file__).with_name("changed_arrays.py")


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("every", [31, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_no_operation_crashes_on_arrays_that_were_changed(device, every):
    assert len(ended_well(PROGRAM, device, every)) > 7000 // every


def ended_well(program: Path, device: torch.device, every: int) -> list[str]:
    """The combinations that a program has tried: none did what no user should see."""
    ran = forked.run(program, device.type, every, timeout=2900)  # on a GPU all kernels are compiled
    combinations = ran.stdout.splitlines()
    if ran.returncode < 0:
        pytest.fail(f"{signal.Signals(-ran.returncode).name} in {combinations[-1]}")
    wrong = [line for line in combinations if line.rpartition(" | ")[2] not in ("result", "sentence", "does not apply")]
    assert not wrong and ran.returncode == 0, "\n".join([*wrong[:20], ran.stderr[-2000:]])
    return combinations


@pytest.fixture
def graph():
    src, dst = torch.randint(0, 40, (2, 300), generator=torch.Generator().manual_seed(1))
    return hl.from_edges(src, dst, num_vertices=40)


WHOLE = {
    "reorder": lambda graph, folder: hl.reorder(graph, "rcm"),
    "compress": lambda graph, folder: hl.compress(graph),
    "transpose": lambda graph, folder: graph.transpose(),
    "save": lambda graph, folder: hl.save_graph(graph, folder / "g.mtx"),
    "weights": lambda graph, folder: hl.random_weights(graph),
    "scipy": lambda graph, folder: graph.to_scipy(),
}


@pytest.mark.parametrize("operation", WHOLE)
def test_what_goes_through_all_lists_names_the_offset_that_is_wrong_by_now(graph, operation, tmp_path):
    graph.indptr[7] = 2**40
    with pytest.raises(GraphError, match=r"indptr\[8\] is \d+, less than indptr\[7\] = 1099511627776"):
        WHOLE[operation](graph, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("operation", sorted(WHOLE.keys() - {"weights"}))
def test_what_goes_through_all_lists_names_the_neighbour_that_is_wrong_by_now(graph, operation, tmp_path):
    graph.indices[11] = 40
    with pytest.raises(GraphError, match=r"indices\[11\] is 40, but the vertices are numbered from 0 to 39"):
        WHOLE[operation](graph, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["packed", "packed_offsets"])
def test_packed_lists_that_are_wrong_by_now_are_named(graph, name, tmp_path):
    packed = hl.compress(graph)
    packed.array(name)[9:-12] = 255
    for operation in (hl.decompress, hl.reorder, lambda graph: hl.save_graph(graph, tmp_path / "g.hl")):
        with pytest.raises(GraphError, match="packed"):
            operation(packed, "degree") if operation is hl.reorder else operation(packed)
    assert not list(tmp_path.iterdir())


def test_changing_the_order_that_a_graph_shows_changes_nothing(graph):
    given = torch.arange(40).flip(0)
    ordered = hl.reorder(graph, order=given)
    given.fill_(2**40)
    assert torch.equal(ordered.order, torch.arange(40).flip(0))
    ordered.order.fill_(-1)
    assert torch.equal(hl.bfs(ordered, 3, device="cpu").levels, hl.bfs(graph, 3, device="cpu").levels)


def test_a_compressed_graph_knows_its_edges_whatever_becomes_of_the_offsets(graph):
    packed = hl.compress(hl.random_weights(graph))
    packed.indptr[-1] = 2**50
    assert packed.num_edges == packed.without_weights().num_edges == 300
    with pytest.raises(GraphError, match="indptr ends with"):
        _ = packed.indices
