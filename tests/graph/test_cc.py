"""Connected components against scipy and networkx, and the verifier against tampering."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from scipy.sparse import csgraph

import hinterland as hl
from hinterland.graph import traversal, verify_components
from hinterland.graph.cc import MODES
from hinterland.runtime.errors import ConfigError, VerificationError

from ..graphs import FAMILIES, family, skewed, with_wide_edges
from .budgets import within_budgets
from .cases import Everywhere
from .small import any_graphs

cc_module = importlib.import_module("hinterland.graph.cc")


def expected_labels(graph):
    """Smallest vertex of each weak component, by scipy."""
    indptr, indices = graph.indptr.cpu().numpy(), graph.indices.cpu().numpy()
    matrix = sp.csr_matrix((np.ones(len(indices), np.int8), indices, indptr), shape=(graph.num_vertices,) * 2)
    count, numbers = csgraph.connected_components(matrix, directed=True, connection="weak")
    smallest = np.full(count, graph.num_vertices)
    np.minimum.at(smallest, numbers, np.arange(graph.num_vertices))
    return count, torch.from_numpy(smallest[numbers].astype(np.int64))


def check(graph, device="cpu"):
    """In every mode, and once more after the lists of in-neighbours are there."""
    count, labels = expected_labels(graph)
    for transposed in (False, True) if graph.directed else (True,):
        if transposed:
            graph.transpose()
        for mode in MODES:
            result = hl.connected_components(graph, mode, device=device, stats=True)
            assert result.labels.dtype == torch.int64 and result.labels.device == torch.device(device)
            assert torch.equal(result.labels.cpu(), labels) and result.count == count
            verify_components(graph, result)
    return result


def chain(order, **options):
    return hl.from_edges(order[:-1], order[1:], num_vertices=len(order), **options)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("edges", [3000, 100000])
def test_skewed_graph(device, directed, wide, edges):
    graph = skewed(5000, edges, symmetrize=not directed)
    check(with_wide_edges(graph) if wide else graph, device)


@settings(max_examples=200, deadline=None)
@given(any_graphs(edges=120))
def test_any_graph(graph):
    check(graph)


@pytest.mark.parametrize("vertices", [0, 1, 33])
def test_no_edges(device, vertices):
    none = torch.tensor([], dtype=torch.int64)
    result = check(hl.from_edges(none, none, num_vertices=vertices), device)
    assert result.labels.tolist() == list(range(vertices)) and result.count == vertices


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("order", ["up", "down", "shuffled"])
def test_chain(device, directed, order):
    """A label travels the whole length, with, against and across the order of the vertices."""
    numbers = torch.arange(5000)
    numbers = {"up": numbers, "down": numbers.flip(0), "shuffled": torch.randperm(5000)}[order]
    assert check(chain(numbers, symmetrize=not directed), device).count == 1


@pytest.mark.parametrize("inward", [True, False])
def test_directed_star(device, inward):
    """A list of the hub alone, or one of each leaf and none of the hub's."""
    hub, leaves = torch.full((5000,), 77), torch.arange(5000)
    ends = (leaves, hub) if inward else (hub, leaves)
    assert check(hl.from_edges(*ends, num_vertices=5001), device).count == 2


def test_self_loops_and_parallel_edges(device):
    src, dst = torch.tensor([0, 0, 4, 4, 4, 3]), torch.tensor([0, 0, 2, 2, 4, 3])
    assert check(hl.from_edges(src, dst, num_vertices=5), device).labels.tolist() == [0, 1, 2, 3, 2]


def test_components_of_equal_size(device):
    """None is the largest; 2-cycles, so that the first links find all there is."""
    evens = torch.arange(0, 4000, 2)
    assert check(hl.from_edges(evens, evens + 1, symmetrize=True), device).count == 2000


def test_only_a_late_neighbour_connects(device):
    """Two dense halves, joined by the last edge of a list in the component that is passed over."""
    within = torch.randint(0, 1000, (2, 8000), generator=torch.Generator().manual_seed(1))
    src = torch.cat([within[0], within[0] % 40 + 1000, torch.tensor([999])])
    dst = torch.cat([within[1], within[1] % 40 + 1000, torch.tensor([1039])])
    for symmetrize in (False, True):
        check(hl.from_edges(src, dst, num_vertices=1040, symmetrize=symmetrize), device)


def test_components_as_networkx_finds_them(device):
    network = nx.gnm_random_graph(500, 400, seed=3)
    src, dst = torch.tensor(list(network.edges())).T
    result = hl.connected_components(hl.from_edges(src, dst, num_vertices=500, symmetrize=True), device=device)
    for component in nx.connected_components(network):
        assert {int(result.labels[v]) for v in component} == {min(component)}


def test_labels_of_eight_bytes_are_the_same(monkeypatch):
    graph = skewed(3000, 4000)
    narrow = hl.connected_components(graph, device="cpu")
    monkeypatch.setattr(cc_module, "id_bytes", lambda vertices: 8)
    wide = hl.connected_components(graph, device="cpu")
    assert torch.equal(narrow.labels, wide.labels) and narrow.count == wide.count


def test_most_edges_are_never_looked_at():
    graph = hl.generate("uniform", scale=14, edge_factor=16, seed=1, device="cpu")
    everything = hl.connected_components(graph, "all-lists", device="cpu", stats=True)
    assert everything.stats["edges"] == graph.num_edges
    assert hl.connected_components(graph, device="cpu", stats=True).stats["edges"] < graph.num_edges / 100


def grid(height, width, missing, seed):
    """Row-major numbers, some edges missing."""
    numbers = torch.arange(height * width).view(height, width)
    across = torch.stack([numbers[:, :-1].reshape(-1), numbers[:, 1:].reshape(-1)])
    ends = torch.cat([across, torch.stack([numbers[:-1].reshape(-1), numbers[1:].reshape(-1)])], 1)
    return ends[:, torch.rand(ends.shape[1], generator=torch.Generator().manual_seed(seed)) >= missing]


def bit_reversed(bits):
    numbers = torch.arange(1 << bits)
    return sum(((numbers >> bit) & 1) << (bits - 1 - bit) for bit in range(bits))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("numbers", ["row-major", "reversed", "bit-reversed", "permuted"])
@pytest.mark.parametrize("height", [2, 64])
def test_grid_in_any_numbering(device, directed, numbers, height):
    """Ways through first neighbours are as long as the grid, or short, by how its vertices are numbered."""
    count = 1 << 12
    given = torch.arange(count)
    renumbered = {
        "row-major": given,
        "reversed": given.flip(0),
        "bit-reversed": bit_reversed(12),
        "permuted": torch.randperm(count, generator=torch.Generator().manual_seed(5)),
    }[numbers]
    src, dst = renumbered[grid(height, count // height, 0.1, seed=3)]
    check(hl.from_edges(src, dst, num_vertices=count, symmetrize=not directed), device)


def test_vertices_without_lists_are_not_visited():
    """2,000 of them, and a component that the first links do not find whole."""
    src, dst = torch.tensor([0, 1, 2, 3, 4, 5, 6]), torch.tensor([7, 7, 7, 7, 7, 7, 7])
    graph = hl.from_edges(src, dst, num_vertices=2008, symmetrize=True)
    result = hl.connected_components(graph, device="cpu", stats=True)
    assert result.count == 2001 and result.stats["reached"] <= 8
    assert hl.connected_components(graph, "all-lists", device="cpu", stats=True).stats["reached"] == 2008


@pytest.mark.parametrize("vertices", [1 << 20, 1 << 30])
@pytest.mark.parametrize("edges", [4, 16, 32])
def test_ten_bytes_of_state_a_vertex(vertices, edges):
    """By the layout alone, result included."""
    graph = SimpleNamespace(num_vertices=vertices, num_edges=edges * vertices, original_ids=None)
    assert cc_module.ALGORITHM.state_bytes(graph) <= 10 * vertices


def test_ten_bytes_of_state_a_vertex_of_a_reordered_graph():
    graph = SimpleNamespace(num_vertices=1 << 30, num_edges=32 << 30, original_ids=object())
    assert cc_module.ALGORITHM.state_bytes(graph) <= 10 << 30


def test_real_network(real_data, device):
    ends = torch.from_numpy(np.loadtxt(real_data / "soc-Epinions1.txt", dtype=np.int64, comments="#"))
    for symmetrize in (True, False):
        check(hl.from_edges(ends[:, 0], ends[:, 1], symmetrize=symmetrize), device)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("edges", [3000, 100000])
def test_compressed_graph(device, directed, edges):
    check(hl.compress(skewed(5000, edges, symmetrize=not directed)), device)


@pytest.mark.parametrize("at_once", [7, 1 << 22])
def test_labels_of_a_reordered_graph(monkeypatch, at_once):
    """They are the smallest numbers that the vertices had before."""
    monkeypatch.setattr(traversal, "LONG_CHUNK", at_once)
    graph = skewed(500, 400, symmetrize=True)
    turned = hl.compress(graph, reorder="degree")
    found, expected = (hl.connected_components(g, device="cpu") for g in (turned, graph))
    assert torch.equal(found.labels, expected.labels) and found.count == expected.count
    verify_components(turned, found)


def test_wrong_arguments():
    graph = chain(torch.arange(3))
    with pytest.raises(ConfigError, match="mode 'sideways' is not one of auto, all-lists"):
        hl.connected_components(graph, mode="sideways")
    with pytest.raises(ConfigError, match="not a size in bytes: 'much'"):
        hl.connected_components(graph, gpu_budget="much")


# 0-1-2 and 3-4, and 5 alone.
@pytest.mark.parametrize(
    ("changes", "count", "sentence"),
    [
        ({2: 1}, 3, "rule 1: vertex 2 has label 1, which is not the smallest"),
        ({5: 6}, 3, "rule 1: vertex 5 has label 6"),
        ({5: -1}, 3, "rule 1: vertex 5 has label -1"),
        ({2: 2}, 4, r"rule 2: edge 1 -> 2 \(position 2\) leads from label 0 to label 2"),
        ({5: 3}, 2, "rule 3: vertices 3 and 5 have the same label, but no path"),
        ({3: 0, 4: 0}, 2, "rule 3: vertices 0 and 3 have"),
        ({}, 2, "rule 4: there are 3 labels, but count is 2"),
    ],
)
def test_tampering_is_found(changes, count, sentence):
    graph = hl.from_edges(torch.tensor([0, 1, 3]), torch.tensor([1, 2, 4]), num_vertices=6, symmetrize=True)
    labels = hl.connected_components(graph, device="cpu").labels
    assert labels.tolist() == [0, 0, 0, 3, 3, 5]
    for vertex, label in changes.items():
        labels[vertex] = label
    with pytest.raises(VerificationError, match=sentence):
        verify_components(graph, hl.ComponentsResult(labels, count))


def test_verifier_wants_labels_of_the_graph():
    graph = chain(torch.arange(4))
    with pytest.raises(VerificationError, match=r"shape \(3,\), but the graph has 4"):
        verify_components(graph, hl.ComponentsResult(torch.zeros(3, dtype=torch.int64), 1))
    with pytest.raises(ConfigError, match=r"torch\.int32"):
        verify_components(graph, hl.ComponentsResult(torch.zeros(4, dtype=torch.int32), 1))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("wide", [False, True])
def test_a_gpu_finds_what_the_cpu_finds(kind, wide):
    graph = family(kind, 16)
    graph = with_wide_edges(graph) if wide else graph
    expected = hl.connected_components(graph, device="cpu")
    for mode in MODES:
        found = hl.connected_components(graph, mode, device="cuda")
        assert torch.equal(found.labels.cpu(), expected.labels) and found.count == expected.count


@pytest.mark.gpu
def test_a_budget_bounds_what_is_taken_of_a_directed_graph():
    vertices = 300_000
    graph = skewed(vertices, 4 * vertices)
    _, labels = expected_labels(graph)
    graph.transpose()
    extras = (2048, 8 * vertices + (3 << 20), 24 * vertices + (6 << 20), 1 << 30)
    for result in within_budgets("cc", graph, hl.connected_components, extras):
        assert torch.equal(result.labels.cpu(), labels)


def check_cc(case, form, run):
    result = run(hl.connected_components)
    np.testing.assert_array_equal(result.labels.cpu().numpy(), case.components)
    assert result.count == len(np.unique(case.components))


EVERYWHERE = [Everywhere("cc", check_cc)]
