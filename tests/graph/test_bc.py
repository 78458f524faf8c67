"""Betweenness centrality against networkx and its verifier."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.graph import simplify, verify_betweenness
from hinterland.graph.traversal import RECORDS
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange, VerificationError

from ..graphs import skewed, with_wide_edges
from .cases import Everywhere
from .small import any_graphs, chain, star

bc = importlib.import_module("hinterland.graph.bc")
FORMS = {"plain": lambda g: g, "packed": hl.compress, "reordered": lambda g: hl.reorder(g, "degree"), "wide": with_wide_edges}
TASK_EDGES = 2048  # kTaskEdges: longer neighbour lists are shared by several warps


@pytest.fixture
def device(device, monkeypatch):
    """A GPU does its searches itself, however short."""
    monkeypatch.setattr(bc, "_SHORT_OF_THREAD", -1)
    return device


class Chosen:
    """In place of networkx's random numbers: a sample that is given."""

    def __init__(self, sources):
        self.sources = sources

    def sample(self, nodes, k):
        assert k == len(self.sources)
        return self.sources


def network_of(graph):
    """The same graph for networkx, which keeps parallel edges once."""
    network = nx.DiGraph() if graph.directed else nx.Graph()
    network.add_nodes_from(range(graph.num_vertices))
    indptr = graph.indptr.cpu().numpy()
    sources = np.repeat(np.arange(graph.num_vertices), np.diff(indptr))
    network.add_edges_from(zip(sources.tolist(), graph.indices.cpu().tolist(), strict=True))
    return network


def expected_scores(graph, sources, normalized):
    from networkx.algorithms.centrality import betweenness

    count = graph.num_vertices if sources is None else len(sources)
    if count in (0, graph.num_vertices):
        found = nx.betweenness_centrality(network_of(graph), normalized=normalized)
    else:  # the function below the decorator that turns a seed into random numbers
        plain = betweenness.betweenness_centrality
        while hasattr(plain, "__wrapped__"):
            plain = plain.__wrapped__
        found = plain(network_of(graph), k=count, normalized=normalized, seed=Chosen(list(sources)))
    return np.array([found[v] for v in range(graph.num_vertices)])


def check(graph, sources=None, device="cpu", **options):
    for normalized in (True, False):
        result = hl.betweenness_centrality(graph, sources, normalized, device=device, **options)
        assert result.scores.dtype == torch.float64 and result.scores.device == torch.device(device)
        expected = expected_scores(graph, sources, normalized)
        np.testing.assert_allclose(result.scores.cpu().numpy(), expected, rtol=1e-9, atol=1e-12)
        verify_betweenness(graph, result, normalized)
    return result


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("wide", [False, True])
def test_skewed_graph(device, directed, wide):
    graph = skewed(300, 3000, symmetrize=not directed, remove_duplicates=True)
    graph = with_wide_edges(graph) if wide else graph
    check(graph, None, device)
    check(graph, [5, 17, 250], device)


@settings(max_examples=100, deadline=None)
@given(any_graphs(40, 120, remove_duplicates=True), st.data())
def test_any_graph(graph, data):
    vertices = graph.num_vertices
    some = st.lists(st.integers(0, vertices - 1), min_size=2, max_size=9, unique=True) if vertices > 1 else st.none()
    check(graph, data.draw(st.one_of(st.none(), some)))


@pytest.mark.parametrize("leaves", [1, 33, TASK_EDGES, 2 * TASK_EDGES + 7])
def test_star(device, leaves):
    graph = star(leaves)
    result = hl.betweenness_centrality(graph, [0, 1], False, device=device)
    expected = torch.zeros(leaves + 1, dtype=torch.float64)
    if leaves > 1:  # the hub is on the way from leaf 1 to each of the others; one source, of as many as there are leaves
        expected[0] = (leaves - 1) * leaves / 2
    assert torch.equal(result.scores.cpu(), expected)
    verify_betweenness(graph, result, False)


def test_a_hub_that_several_warps_share(device):
    """From a vertex beside the hub, through the hub to many middle vertices, and on from each to one end."""
    middle = 2 * TASK_EDGES + 100
    hub, first, end = torch.zeros(middle + 1, dtype=torch.int64), torch.arange(1, middle + 2), torch.full((middle,), middle + 2)
    graph = hl.from_edges(torch.cat([hub, torch.arange(2, middle + 2)]), torch.cat([first, end]), symmetrize=True)
    check(graph, [1, middle + 2], device)


def test_chain(device):
    check(chain(200), None, device)


def test_levels_beyond_the_records(device):
    vertices = RECORDS + 499
    result = hl.betweenness_centrality(chain(vertices), [0, vertices - 1], False, device=device, stats=True)
    # From either end, the vertices beyond v; each of the two sources stands for half of all.
    beyond = torch.arange(vertices - 1, -1, -1, dtype=torch.float64)
    expected = (beyond + beyond.flip(0)) * (vertices - 1) / 4
    expected[0] = expected[-1] = 0
    torch.testing.assert_close(result.scores.cpu(), expected, rtol=1e-9, atol=0)
    assert result.stats["searches"][0]["levels"] == 2 * vertices - 2


def test_a_grid_with_very_many_paths(device):
    check(mesh(40, 40), [0, 820, 1599], device)


def mesh(rows, columns):
    number = torch.arange(rows * columns).view(rows, columns)
    src = torch.cat([number[:, :-1].reshape(-1), number[:-1].reshape(-1)])
    dst = torch.cat([number[:, 1:].reshape(-1), number[1:].reshape(-1)])
    return hl.from_edges(src, dst, symmetrize=True)


def ring(vertices):
    return hl.from_edges(torch.arange(vertices), (torch.arange(vertices) + 1) % vertices, symmetrize=True)


def tree(vertices):
    return hl.from_edges(torch.arange(1, vertices), (torch.arange(1, vertices) - 1) // 2, symmetrize=True)


def teeth(vertices):
    """A path with a leaf at each of its vertices."""
    along = torch.arange(vertices // 2)
    return hl.from_edges(torch.cat([along[:-1], along]), torch.cat([along[1:], along + len(along)]), symmetrize=True)


PROCESSORS = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]
LONG = {"mesh": lambda n: mesh(n // 10, 10), "ring": lambda n: ring(n + 1), "tree": tree, "teeth": teeth}


@pytest.mark.parametrize("vertices", [1000, 3200])
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("device", PROCESSORS)
def test_long_paths(device, name, vertices):
    """As igraph has them, of vertices and of edges."""
    graph = LONG[name](vertices)
    known = pytest.importorskip("igraph").Graph(graph.num_vertices, sorted({(min(e), max(e)) for e in network_of(graph).edges}))
    found = hl.betweenness_centrality(graph, normalized=False, device=device)
    np.testing.assert_allclose(found.scores.cpu().numpy(), known.betweenness(), rtol=1e-9, atol=1e-9)
    expected = dict(zip(known.get_edgelist(), known.edge_betweenness(), strict=True))
    over = edge_scores(graph, hl.graph.edge_betweenness_centrality(graph, normalized=False, device=device))
    assert over == pytest.approx({(u, v): expected[min(u, v), max(u, v)] for u, v in over}, rel=1e-9)


@pytest.mark.parametrize("vertices", [1000, 3200])
@pytest.mark.parametrize("device", PROCESSORS)
def test_a_path_from_all_its_vertices(device, vertices):
    """Through a vertex lead the paths between those before and those behind it, and so over an edge."""
    before = torch.arange(vertices, dtype=torch.float64)
    found = hl.betweenness_centrality(chain(vertices), normalized=False, device=device)
    torch.testing.assert_close(found.scores.cpu(), before * (vertices - 1 - before), rtol=1e-12, atol=0)
    over = hl.graph.edge_betweenness_centrality(chain(vertices), normalized=False, device=device)
    expected = (before[1:] * (vertices - before[1:])).repeat_interleave(2)
    torch.testing.assert_close(over.scores.cpu(), expected, rtol=1e-12, atol=0)


def test_beside_a_gpu_threads_do_what_takes_them_less_than_a_launch(monkeypatch):
    enough = _core.BC_SOURCES_TOGETHER * _core.num_threads()
    gpu = SimpleNamespace(device=torch.device("cuda", 0), graph=chain(1000))
    found = bc._for_threads(gpu, list(range(enough)))
    assert found.device.type == "cpu" and found.graph is gpu.graph
    assert bc._for_threads(gpu, list(range(enough - 1))) is None
    monkeypatch.setattr(bc, "_SHORT_OF_THREAD", (1000 + gpu.graph.num_edges - 1) // _core.num_threads())
    assert bc._for_threads(gpu, list(range(enough))) is None


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["host", "gpu"])
def test_scores_that_threads_found_lie_where_they_were_asked_for(placement):
    made = {"scale": 9, "edge_factor": 16, "seed": 1}
    graph = hl.generate("kronecker", **made, device="cuda", placement=placement)
    for search in (hl.betweenness_centrality, hl.graph.edge_betweenness_centrality):
        expected = search(hl.generate("kronecker", **made, device="cpu"), device="cpu").scores
        found = search(graph, device="cuda").scores
        assert found.device == torch.device("cuda", 0)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("form", ["plain", "packed", "reordered", "wide"])
def test_a_thread_for_each_search_finds_what_all_find_together(monkeypatch, directed, form):
    """The searches of many sources, which threads share out on a CPU, and those of one after the other."""
    lists = hl.generate("kronecker", scale=9, edge_factor=16, seed=1, device="cpu")
    graph = FORMS[form](simplify(hl.Graph.of(lists.neighbor_lists, directed), remove_duplicates=True))
    short = hl.betweenness_centrality(graph, device="cpu").scores
    over = hl.graph.edge_betweenness_centrality(graph, 40, device="cpu").scores
    torch.testing.assert_close(short, hl.betweenness_centrality(graph, device="cpu", stats=True).scores, rtol=1e-9, atol=1e-15)
    monkeypatch.setattr(bc, "_SHORT", -1)
    torch.testing.assert_close(short, hl.betweenness_centrality(graph, device="cpu").scores, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(
        over, hl.graph.edge_betweenness_centrality(graph, 40, device="cpu").scores, rtol=1e-9, atol=1e-15
    )


def test_self_loops_change_nothing(device):
    check(hl.from_edges(torch.tensor([0, 0, 1, 1, 2, 3, 5]), torch.tensor([0, 1, 1, 2, 3, 3, 4]), num_vertices=7), None, device)


def test_parallel_edges_are_paths_of_their_own(device):
    # From 0 to 3 by 1, with two edges, or by 2.
    src, dst = torch.tensor([0, 0, 0, 1, 2]), torch.tensor([1, 1, 2, 3, 3])
    graph = hl.from_edges(src, dst)
    result = hl.betweenness_centrality(graph, normalized=False, device=device)
    torch.testing.assert_close(result.scores.cpu(), torch.tensor([0, 2 / 3, 1 / 3, 0], dtype=torch.float64))
    verify_betweenness(graph, result, False)
    check(simplify(graph, remove_duplicates=True), None, device)


@pytest.mark.parametrize("vertices", [0, 1, 2])
def test_tiny_graphs(device, vertices):
    none = torch.tensor([], dtype=torch.int64)
    result = hl.betweenness_centrality(hl.from_edges(none, none, num_vertices=vertices), device=device)
    assert result.scores.tolist() == [0.0] * vertices and result.sources.tolist() == list(range(vertices))


def test_drawn_sources(device):
    graph = skewed(200, 1500, remove_duplicates=True)
    result = hl.betweenness_centrality(graph, 50, seed=4, device=device)
    assert len(set(result.sources.tolist())) == 50
    assert torch.equal(result.sources, hl.betweenness_centrality(graph, 50, seed=4, device=device).sources)
    assert not torch.equal(result.sources, hl.betweenness_centrality(graph, 50, seed=5, device=device).sources)
    np.testing.assert_allclose(result.scores.cpu().numpy(), expected_scores(graph, result.sources.tolist(), True), rtol=1e-9)
    everything = hl.betweenness_centrality(graph, 200, device=device)
    assert sorted(everything.sources.tolist()) == list(range(200))
    torch.testing.assert_close(everything.scores, hl.betweenness_centrality(graph, device=device).scores, rtol=1e-9, atol=0)


def test_nothing_is_known_of_a_lone_source(device):
    result = hl.betweenness_centrality(chain(4), [1], device=device)
    assert result.scores.isnan().tolist() == [False, True, False, False]
    np.testing.assert_allclose(result.scores.cpu().numpy(), expected_scores(chain(4), [1], True))
    verify_betweenness(chain(4), result)


@pytest.mark.parametrize("directed", [True, False])
def test_compressed_lists(device, directed):
    graph = skewed(300, 3000, symmetrize=not directed, remove_duplicates=True)
    found = hl.betweenness_centrality(hl.compress(graph), device=device)
    np.testing.assert_allclose(found.scores.cpu().numpy(), expected_scores(graph, None, True), rtol=1e-9, atol=1e-12)


def test_any_number_of_threads_gives_the_same_to_the_bit_from_many_sources(set_threads):
    graph = skewed(500, 6000, symmetrize=True, remove_duplicates=True)
    results = []
    for threads in (1, 2, 5, 70):
        set_threads(threads)
        results.append(hl.betweenness_centrality(graph, device="cpu").scores)
        results.append(hl.graph.edge_betweenness_centrality(graph, device="cpu").scores)
    assert all(torch.equal(results[i], results[i % 2]) for i in range(8))


def test_more_paths_than_a_double_counts(device):
    src = torch.arange(300).repeat_interleave(40)
    with pytest.raises(GraphError, match="more shortest paths from vertex 0 than a double counts"):
        hl.betweenness_centrality(hl.from_edges(src, src + 1), [0], device=device)
    for search in (hl.betweenness_centrality, hl.graph.edge_betweenness_centrality):
        with pytest.raises(GraphError, match="more shortest paths from vertex 0 than a double counts"):
            search(hl.from_edges(src, src + 1), device=device)


def test_bad_arguments(device):
    with pytest.raises(ConfigError, match="6 sources cannot be drawn from 5 vertices"):
        hl.betweenness_centrality(chain(5), 6, device=device)
    with pytest.raises(ConfigError, match="0 sources cannot be drawn"):
        hl.betweenness_centrality(chain(5), 0, device=device)
    with pytest.raises(ConfigError, match="source 3 is there more than once"):
        hl.betweenness_centrality(chain(5), [1, 3, 3], device=device)
    with pytest.raises(IndexOutOfRange, match="source 5 is not a vertex"):
        hl.betweenness_centrality(chain(5), [5], device=device)


def test_the_verifier_finds_wrong_scores():
    graph = hl.from_edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]))
    for vertex, score, sentence in (
        (1, -0.1, "rule 1: vertex 1 has score -0.1"),
        (2, float("nan"), "rule 1: vertex 2 has score nan"),
        (3, 0.5, "rule 2: vertex 3 has no out-edge"),
        (1, 0.5, "rule 3: paths lead through 5.0"),
    ):
        result = hl.betweenness_centrality(graph, device="cpu")
        verify_betweenness(graph, result)
        result.scores[vertex] = score
        with pytest.raises(VerificationError, match=sentence):
            verify_betweenness(graph, result)
    with pytest.raises(ConfigError, match=r"scores are torch\.float32"):
        verify_betweenness(graph, hl.BetweennessResult(result.scores.float(), result.sources))


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress])
def test_a_cpu_reads_the_shorter_lists_of_an_undirected_graph(form):
    """Most edges leave a few vertices of one level: those of all others are fewer. Also hubs whose lists are cut into tasks."""
    lists = simplify(hl.generate("kronecker", scale=12, edge_factor=16, seed=1, device="cpu"), remove_duplicates=True)
    graph = form(lists)
    source = int(graph.degrees().argmax())
    result = hl.betweenness_centrality(graph, [source], device="cpu", stats=True)
    assert result.stats["tiers"]["host"]["hits"] < graph.num_edges  # lists of a level each way would be nearly twice as many
    verify_betweenness(graph, result)
    directed = hl.Graph.of(lists.neighbor_lists, directed=True)  # which is searched from one end
    expected = hl.betweenness_centrality(directed, [source], device="cpu", normalized=False).scores
    found = hl.betweenness_centrality(graph, [source], device="cpu", normalized=False).scores
    torch.testing.assert_close(2 * found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.parametrize("wide", [False, True])
def test_a_gpu_finds_what_the_cpu_finds(wide):
    graph = hl.generate("kronecker", scale=16, edge_factor=16, seed=1)
    graph = with_wide_edges(graph) if wide else graph
    sources = graph.degrees().nonzero()[:4, 0]
    on_cpu = hl.betweenness_centrality(graph, sources, device="cpu").scores
    for budget in (None, "64MiB", "8MiB"):
        with hl.prepare(graph, gpu_budget=budget, algorithms=["bc"]) as prepared:
            assert prepared.device.type == "cuda"
            found = hl.betweenness_centrality(prepared, sources)
        torch.testing.assert_close(found.scores.cpu(), on_cpu, rtol=1e-9, atol=1e-15)
        verify_betweenness(graph, found)


def edge_scores(graph, result):
    """Scores by the ends of the stored edges."""
    src = torch.repeat_interleave(torch.arange(graph.num_vertices), graph.indptr.cpu().diff())
    order = torch.arange(graph.num_vertices) if graph.order is None else graph.order
    ends = zip(order[src].tolist(), order[graph.indices.cpu().long()].tolist(), strict=True)
    return dict(zip(ends, result.scores.cpu().tolist(), strict=True))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("form", ["plain", "packed", "reordered", "wide"])
def test_betweenness_of_edges_is_that_of_networkx(device, directed, normalized, form):
    graph = skewed(120, 900, symmetrize=not directed, remove_duplicates=True)
    expected = nx.edge_betweenness_centrality(network_of(graph), normalized=normalized)
    changed = FORMS[form](graph)
    found = edge_scores(changed, hl.graph.edge_betweenness_centrality(changed, normalized=normalized, device=device))
    assert len(found) == graph.num_edges
    for (u, v), score in found.items():
        assert score == pytest.approx(expected[u, v] if (u, v) in expected else expected[v, u], rel=1e-9, abs=1e-12)


def test_over_all_edges_paths_are_as_long_as_distances(device):
    """A path of d edges leads over d."""
    graph = skewed(3000, 20_000, symmetrize=True, remove_duplicates=True)
    result = hl.graph.edge_betweenness_centrality(graph, 20, normalized=False, seed=2, device=device)
    distances = hl.multi_source_bfs(graph, result.sources, levels=False, device=device).distance_sum
    # Each edge is there twice, a source stands for 150, and a path counts half.
    assert float(result.scores.sum()) == pytest.approx(int(distances.sum()) * 2 * 150 / 2)


def test_parallel_edges_have_a_part_each(device):
    graph = hl.from_edges(torch.tensor([0, 0, 1]), torch.tensor([1, 1, 2]), symmetrize=True)
    result = hl.graph.edge_betweenness_centrality(graph, normalized=False, device=device)
    by_row = result.scores.cpu().tolist()
    assert by_row == pytest.approx([1, 1, 1, 1, 2, 2])


@pytest.mark.parametrize("vertices", [0, 1, 2])
def test_betweenness_of_edges_of_tiny_graphs(device, vertices):
    none = torch.tensor([], dtype=torch.int64)
    result = hl.graph.edge_betweenness_centrality(hl.from_edges(none, none, num_vertices=vertices), device=device)
    assert result.scores.tolist() == [] and result.sources.tolist() == list(range(vertices))


def check_bc(case, form, run):
    result = run(hl.betweenness_centrality, case.between, normalized=False)
    assert result.sources.tolist() == case.between
    np.testing.assert_allclose(result.scores.cpu().numpy(), case.betweenness, rtol=1e-10, atol=1e-12)


EVERYWHERE = [Everywhere("bc", check_bc)]
