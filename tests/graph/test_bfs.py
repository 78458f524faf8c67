"""Breadth-first search against scipy, networkx and the definition of its parents."""

from __future__ import annotations

import hashlib
import importlib
import json

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.graph import verify_bfs
from hinterland.graph.algorithms import state_bytes
from hinterland.graph.bfs import MODES
from hinterland.graph.traversal import RECORDS
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange

from ..graphs import FAMILIES, family, skewed, with_wide_edges
from .cases import Everywhere
from .small import any_graphs, chain, expected_levels, star

bfs_module = importlib.import_module("hinterland.graph.bfs")
TASK_EDGES = 2048  # kTaskEdges: longer neighbour lists are shared by several warps


def edges_of(graph):
    """Sources and targets of all stored edges, as numpy arrays."""
    indptr = graph.indptr.cpu().numpy()
    return np.repeat(np.arange(graph.num_vertices), np.diff(indptr)), graph.indices.cpu().numpy()


def smallest_parents(graph, source, levels):
    """From the definition: of all edges one level down, the smallest source at each target."""
    src, dst = edges_of(graph)
    down = (levels[src] >= 0) & (levels[dst] == levels[src] + 1)
    parents = np.full(graph.num_vertices, np.iinfo(np.int64).max)
    np.minimum.at(parents, dst[down], src[down])
    parents[levels == -1] = -1
    parents[source] = source
    return parents


def check(graph, source, device="cpu", **options):
    result = hl.bfs(graph, source, device=device, **options)
    assert result.levels.dtype == torch.int32 and result.parents.dtype == torch.int64
    assert result.levels.device == result.parents.device == torch.device(device)
    levels = expected_levels(graph, source)
    np.testing.assert_array_equal(result.levels.cpu().numpy(), levels)
    np.testing.assert_array_equal(result.parents.cpu().numpy(), smallest_parents(graph, source, levels))
    verify_bfs(graph, source, result)
    graph.transpose()  # from now on directed graphs are searched bottom-up as well
    for mode in MODES:
        again = hl.bfs(graph, source, mode, device=device)
        assert torch.equal(again.levels, result.levels) and torch.equal(again.parents, result.parents)
    return result


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("wide", [False, True])
def test_skewed_graph(device, directed, wide):
    graph = skewed(5000, 100000, symmetrize=not directed)
    assert int(graph.degrees().max()) > TASK_EDGES
    if wide:
        graph = with_wide_edges(graph)
    for source in (0, int(graph.degrees().argmax()), 4999):
        check(graph, source, device)


@settings(max_examples=150, deadline=None)
@given(any_graphs(), st.data())
def test_any_graph(graph, data):
    check(graph, data.draw(st.integers(0, graph.num_vertices - 1)))


@pytest.mark.parametrize("leaves", [1, 31, 32, TASK_EDGES - 1, TASK_EDGES, TASK_EDGES + 1, 5 * TASK_EDGES + 7])
def test_star(device, leaves):
    graph = star(leaves)
    check(graph, 0, device)
    check(graph, leaves, device)


def test_chain_has_a_level_for_each_vertex(device):
    result = check(chain(300), 0, device, stats=True)
    assert result.stats["levels"] == 300 and len(result.stats["per_level"]) == 300


def test_levels_beyond_the_records_are_still_counted(device):
    vertices = RECORDS + 499
    result = hl.bfs(chain(vertices), 0, device=device, stats=True)
    assert result.levels.tolist() == list(range(vertices))
    assert result.stats["levels"] == vertices and result.stats["reached"] == vertices
    assert result.stats["edges"] == 2 * (vertices - 1)
    assert len(result.stats["per_level"]) == RECORDS
    assert sum(level["seconds"] for level in result.stats["per_level"]) > 0


def test_one_vertex(device):
    none = torch.tensor([], dtype=torch.int64)
    result = check(hl.from_edges(none, none, num_vertices=1), 0, device)
    assert result.levels.tolist() == [0] and result.parents.tolist() == [0]


def test_self_loops_and_parallel_edges(device):
    src, dst = torch.tensor([0, 0, 0, 1, 1, 3]), torch.tensor([0, 1, 1, 1, 2, 3])
    result = check(hl.from_edges(src, dst, num_vertices=5), 0, device)
    assert result.levels.tolist() == [0, 1, 2, -1, -1]


def test_levels_as_networkx_finds_them(device):
    network = nx.gnm_random_graph(400, 900, seed=3)
    src, dst = torch.tensor(list(network.edges())).T
    graph = hl.from_edges(src, dst, num_vertices=400, symmetrize=True)
    levels = torch.full((400,), -1, dtype=torch.int32)
    for vertex, level in nx.single_source_shortest_path_length(network, 7).items():
        levels[vertex] = level
    assert torch.equal(hl.bfs(graph, 7, device=device).levels.cpu(), levels)


def test_parents_of_eight_bytes_are_the_same(monkeypatch):
    graph = skewed(3000, 20000)
    narrow = hl.bfs(graph, 5, device="cpu")
    monkeypatch.setattr(bfs_module, "id_bytes", lambda vertices: 8)
    wide = hl.bfs(graph, 5, device="cpu")
    assert torch.equal(narrow.levels, wide.levels) and torch.equal(narrow.parents, wide.parents)


def test_real_network(real_data, device):
    ends = torch.from_numpy(np.loadtxt(real_data / "soc-Epinions1.txt", dtype=np.int64, comments="#"))
    graph = hl.from_edges(ends[:, 0], ends[:, 1], symmetrize=True)
    assert graph.num_edges == 2 * len(ends)
    check(graph, 0, device)
    check(graph, graph.num_vertices - 1, device)


def test_stats_add_up(device):
    graph = skewed(4000, 30000)
    source = int(graph.degrees().argmax())
    result = hl.bfs(graph, source, device=device, stats=True)
    stats, levels = result.stats, result.levels.cpu()
    reached = levels >= 0
    assert stats["reached"] == int(reached.sum()) and stats["edges"] == int(graph.degrees()[reached].sum())
    assert [level["vertices"] for level in stats["per_level"]] == torch.bincount(levels[reached]).tolist()
    assert stats["bytes"] >= 4 * stats["edges"] and stats["bytes"] % 32 == 0
    tiers = stats["tiers"]
    assert stats["bytes"] + stats["cached"] == sum(tier["bytes"] for tier in tiers.values())
    hits, requests = (sum(tier[count] for tier in tiers.values()) for count in ("hits", "requests"))
    assert stats["edges"] == hits >= requests > 0
    assert device.type == "cuda" or tiers["local"] == tiers["peers"] == {"bytes": 0, "requests": 0, "hits": 0}
    assert stats["seconds"] > 0 and stats["device"] == str(device)
    assert hl.bfs(graph, source, device=device).stats is None


@pytest.mark.parametrize("source", [-1, 5, 2**40])
def test_source_out_of_range(device, source):
    with pytest.raises(IndexOutOfRange, match=f"source {source} is not a vertex: the graph has 5 vertices"):
        hl.bfs(chain(5), source, device=device)


def test_empty_graph_has_no_source(device):
    none = torch.tensor([], dtype=torch.int64)
    with pytest.raises(IndexOutOfRange, match="0 vertices"):
        hl.bfs(hl.from_edges(none, none, num_vertices=0), 0, device=device)


def test_wrong_arguments():
    with pytest.raises(ConfigError, match="mode 'sideways'"):
        hl.bfs(chain(3), 0, mode="sideways")
    with pytest.raises(ConfigError, match=r"1\.5 is not a vertex number"):
        hl.bfs(chain(3), 1.5)
    with pytest.raises(ConfigError, match="not a size in bytes: 'much'"):
        hl.bfs(chain(3), 0, gpu_budget="much")


@pytest.mark.gpu
@pytest.mark.parametrize(
    "placement", ["host", "gpu", {"indptr": "gpu", "indices": "host"}, {"indptr": "host", "indices": "gpu"}]
)
def test_every_placement_on_a_gpu(placement):
    graph = skewed(5000, 60000, placement=placement)
    check(graph, 3, "cuda:0", stats=True)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("wide", [False, True])
def test_a_gpu_finds_what_the_cpu_finds(kind, wide):
    graph = family(kind, 16)
    if wide:
        graph = with_wide_edges(graph)

    def digest(device):
        result = hl.bfs(graph, int(graph.degrees().argmax()), device=device)
        return [hashlib.sha256(t.cpu().numpy().tobytes()).hexdigest() for t in (result.levels, result.parents)]

    assert digest("cuda") == digest("cpu")


@pytest.mark.gpu
def test_parents_of_eight_bytes_on_a_gpu(monkeypatch):
    graph = with_wide_edges(skewed(3000, 20000))
    monkeypatch.setattr(bfs_module, "id_bytes", lambda vertices: 8)
    check(graph, 5, "cuda:0")


@pytest.mark.parametrize("scale", [20, 30])
def test_a_search_takes_at_most_ten_bytes_a_vertex(scale):
    vertices = 1 << scale
    scratch, *_ = _core.bfs_layout(vertices, 32 * vertices)
    assert scratch + (4 + 4) * vertices <= 10 * vertices  # levels and parents of four bytes


def test_a_small_budget_is_for_the_state_and_a_larger_one_for_the_result():
    graph = hl.from_edges(torch.arange(1 << 16), torch.arange(1 << 16).roll(1), symmetrize=True)
    least, ample = state_bytes("bfs", graph), bfs_module.ALGORITHM.ample(graph)
    assert least < 10 * graph.num_vertices + (1 << 20) and ample >= 16 * graph.num_vertices
    reordered = hl.reorder(graph, "degree")
    assert state_bytes("bfs", reordered) == least and bfs_module.ALGORITHM.ample(reordered) > ample


@pytest.mark.gpu
def test_a_result_without_room_on_the_gpu_is_on_the_cpu():
    graph = skewed(300_000, 1_200_000, symmetrize=True)
    for searched in (graph, hl.reorder(graph, "degree")):
        least, ample = state_bytes("bfs", searched), bfs_module.ALGORITHM.ample(searched)
        for budget, place in ((least + 4096, "cpu"), (ample + 4096, "cuda")):
            result = hl.bfs(searched, 0, device="cuda", gpu_budget=budget, stats=True)
            assert result.stats["device"].startswith("cuda")
            assert result.levels.device.type == result.parents.device.type == place
            verify_bfs(searched, 0, result)


@pytest.mark.gpu
def test_another_stream():
    graph = skewed(5000, 60000)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = hl.bfs(graph, 3, device="cuda", stats=True)
    stream.synchronize()
    assert torch.equal(result.levels.cpu(), hl.bfs(graph, 3, device="cpu").levels)
    assert result.stats["seconds"] > 0


def run_command(capfd, *arguments):
    """Exit status and standard output of ``hinterland bfs``."""
    from hinterland import cli

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
        patch.setattr("sys.argv", ["hinterland", "bfs", *map(str, arguments)])
        cli.main()
    return left.value.code or 0, capfd.readouterr()


@pytest.fixture
def ladder(tmp_path):
    path = tmp_path / "ladder.txt"
    path.write_text("0 1\n0 2\n1 3\n2 3\n3 4\n5 6\n")
    return path


def test_command_prints_one_object(ladder, tmp_path, capfd):
    levels = tmp_path / "levels.npy"
    code, text = run_command(capfd, ladder, "--source", 0, "--verify", "--output", levels, "--json", "--device", "cpu")
    assert code == 0
    found = json.loads(text.out)
    assert found["graph"] == {"vertices": 7, "edges": 6} and found["link"] is None
    (run,) = found["runs"]
    assert run["source"] == 0 and run["levels"] == 4 and run["reached"] == 5 and run["edges"] == 5 and run["verified"]
    assert run["seconds"] > 0 and run["teps"] == pytest.approx(5 / run["seconds"]) and found["bytes"] == run["bytes"]
    written = np.load(levels)
    assert written.dtype == np.int32 and written.tolist() == [0, 1, 1, 2, 3, -1, -1]
    assert sorted(tmp_path.iterdir()) == sorted([ladder, levels])


def test_command_draws_sources(ladder, capfd):
    def sources(seed):
        code, text = run_command(capfd, ladder, "--runs", 5, "--seed", seed, "--json", "--device", "cpu")
        assert code == 0
        return [run["source"] for run in json.loads(text.out)["runs"]]

    assert sources(1) == sources(1) != sources(2)
    assert set(sources(3)) <= {0, 1, 2, 3, 5}  # 4 and 6 have no out-edge


def test_command_speaks_to_people(ladder, capfd):
    code, text = run_command(capfd, ladder, "--source", 0, "--stats", "--device", "cpu")
    assert code == 0 and "5 vertices in 4 levels" in text.out and "level    3:" in text.out


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--source", "first"], 2, "neither a vertex number nor random"),
        (["--runs", "0"], 2, "--runs"),
        (["--runs", "2", "--output", "levels.npy"], 2, "one file holds the result of one source"),
        (["--source", "7"], 1, "source 7 is not a vertex"),
        (["--source", "-1"], 1, "source -1 is not a vertex"),
        (["--source", "0", "--output", "/nowhere/levels.npy"], 1, "/nowhere/levels.npy: cannot be written"),
    ],
)
def test_command_refuses(ladder, capfd, options, code, sentence):
    found, text = run_command(capfd, ladder, *options)
    assert found == code and sentence in text.err and "Traceback" not in text.err and text.out == ""


def test_command_needs_a_vertex_with_neighbours(tmp_path, capfd):
    path = tmp_path / "empty.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n3 3 0\n")
    code, text = run_command(capfd, path)
    assert code == 1 and "none of the graph's 3 vertices has a neighbour" in text.err


def test_lists_that_overlap_are_found_out_before_they_fill_memory():
    """Offsets that were changed after the graph was checked, and fall only at vertices that the search does not meet."""
    vertices, edges = 4096, 400_000
    graph = hl.Graph(torch.arange(vertices + 1) * edges // vertices, torch.arange(edges, dtype=torch.int32) % 2048 * 2)
    graph.indptr[1:-1:2] = edges  # an even vertex has all the edges,
    graph.indptr[2:-1:2] = 0  # which all lead to even vertices
    with pytest.raises(GraphError, match="overlap"):
        hl.bfs(graph, 0, device="cpu")


@pytest.mark.gpu
def test_the_command_knows_the_share_of_the_link_without_a_probe(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))
    hl.save_graph(hl.generate("kronecker", scale=12), tmp_path / "g.hl")
    code, text = run_command(capfd, tmp_path / "g.hl", "--device", "cuda", "--json")
    assert code == 0
    link = json.loads(text.out)["link"]
    assert 0 < link["share"] < 1 and link["ceiling"] > 1e9


def check_bfs(case, form, run):
    result = run(hl.bfs, case.source)
    levels = case.levels[case.source]
    np.testing.assert_array_equal(result.levels.cpu().numpy(), levels)
    # Of the neighbours one level nearer the parent is the first, by the numbers that the graph has inside.
    order = np.arange(case.vertices) if form.order is None else form.order.numpy()
    rank = np.argsort(order)
    down = (levels[case.src] >= 0) & (levels[case.dst] == levels[case.src] + 1)
    first = np.full(case.vertices, case.vertices)
    np.minimum.at(first, case.dst[down], rank[case.src[down]])
    parents = np.where(levels < 0, -1, order[np.minimum(first, case.vertices - 1)])
    parents[case.source] = case.source
    np.testing.assert_array_equal(result.parents.cpu().numpy(), parents)


EVERYWHERE = [Everywhere("bfs", check_bfs)]
