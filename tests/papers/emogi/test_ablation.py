"""The tables of EMOGI's evaluation: they are complete, and what does not depend on time is right."""

from __future__ import annotations

import json

import pytest
import torch

import hinterland as hl
from hinterland.memory.mapping import UNLIMITED, managed_limit
from hinterland.runtime.errors import ConfigError
from hinterland_papers import cli
from hinterland_papers.emogi import ablation
from hinterland_papers.emogi import traversal as emogi
from hinterland_papers.emogi.migrating import migrating
from hinterland_papers.emogi.traffic import analyse


@pytest.fixture(scope="module")
def tables():
    return ablation.ablation(scale=8, edge_factor=8, sources=2, device="cpu")


def test_every_case_has_its_row(tables):
    cases = len(ablation.KINDS) * len(ablation.WIDTHS)
    rows = {name: len(table) for name, table in tables.items()}
    assert rows == {
        "figure_5_request_sizes": 3 * cases,
        "figure_7_requests": cases,
        "figure_8_bandwidth": 3 * cases,
        "figure_9_bfs_speed": cases,
        "figure_10_amplification": cases,
        "figure_11_applications": 4 * cases,
        "edge_widths": 4 * len(ablation.KINDS),
        "assignments": cases,
    }
    assert all(ablation.title(name) for name in tables)


def test_shares_add_up_and_merging_saves_requests(tables):
    for row in tables["figure_5_request_sizes"]:
        assert sum(row[f"{size} B"] for size in (32, 64, 96, 128)) == pytest.approx(1)
    for row in tables["figure_7_requests"]:
        assert row["aligned"] <= row["merged"] < row["naive"]
        assert row["aligned_over_naive"] == pytest.approx(row["aligned"] / row["naive"])


def test_amplification_is_that_of_the_model():
    graph = hl.random_weights(hl.generate("uniform", scale=8, edge_factor=8, seed=3, device="cpu"), "int32")
    row = ablation.ablation(["uniform"], scale=8, edge_factor=8, sources=1, seed=3, device="cpu")["figure_10_amplification"][0]
    source = hl.graph.sources.draw_sources(graph, 1, 3)[0]
    assert row["aligned"] == pytest.approx(analyse(graph, "bfs", source).total["over_dataset"])
    # The search reaches everything, so UVM moves all pages: those of 4096 vertices' lists are whole.
    pages = -(-4 * graph.num_edges // 4096)
    assert row["uvm"] == pytest.approx(4096 * pages / (4 * graph.num_edges))


@pytest.mark.gpu
def test_every_column_is_there_on_a_gpu():
    tables = ablation.ablation(["uniform"], scale=12, sources=1, device="cuda")
    assert {"uvm", "aligned_over_uvm"} <= set(tables["figure_9_bfs_speed"][0])
    assert "measured" in tables["figure_8_bandwidth"][0]
    assert all(row["speedup"] > 0 for row in tables["figure_11_applications"])


@pytest.mark.gpu
def test_uvm_beyond_its_budget_gives_the_same_results():
    """Edges of 128 MiB where 64 are left: pages go as others come."""
    if managed_limit().nbytes != UNLIMITED:
        pytest.skip("more managed memory than the GPU has free: only with HINTERLAND_MANAGED_LIMIT=unlimited")
    device = torch.device("cuda", 0)
    graph = hl.generate("uniform", scale=20, seed=1, placement={"indptr": "gpu", "indices": "host"}, device="cuda")
    expected = emogi.bfs(graph, 5).values
    moved, come_home = migrating(graph, 64 << 20)
    with ablation._only(64 << 20, device):
        assert ablation.devices.free_bytes(device) <= 68 << 20
        come_home()
        assert torch.equal(emogi.bfs(moved, 5).values, expected)
    assert ablation.devices.free_bytes(device) > 1 << 30


def test_a_budget_for_uvm_is_a_size():
    with pytest.raises(ConfigError, match="x"):
        ablation.ablation(["uniform"], scale=6, sources=1, device="cpu", uvm_budget="x")


@pytest.fixture
def command(command_line, monkeypatch, tmp_path):
    """Runs a command: exit status, standard output, standard error."""
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))
    return lambda *words: command_line(cli.main, "hinterland_papers", *words)


def test_the_command_prints_json_and_tables(command):
    options = ("ablation", "--kind", "kronecker", "--scale", 6, "--sources", 1, "--device", "cpu")
    status, out, err = command(*options, "--json")
    assert status == 0 and "generating kronecker" in err
    assert json.loads(out)["tables"]["figure_7_requests"][0]["graph"] == "kronecker"
    status, out, _ = command(*options)
    assert status == 0 and "Figure 10 amplification" in out


@pytest.mark.parametrize("edge_bytes", [4, 8])
@pytest.mark.parametrize("weighted", [None, "int32", "float32"])
def test_a_graph_of_ones_own(edge_bytes, weighted):
    """The same tables as of the graph that is generated, whatever its file holds; weights only where they are int32."""
    graph = hl.generate("kronecker", scale=7, edge_factor=8, seed=1, device="cpu")
    if edge_bytes == 8:
        graph = ablation._with_width(graph, 8)
    if weighted is not None:
        graph = hl.random_weights(graph, weighted, 1)
    tables = ablation.ablation_of([("own", graph)], sources=2, device="cpu")
    expected = ablation.ablation(["kronecker"], scale=7, edge_factor=8, sources=2, device="cpu")
    for name in ("figure_5_request_sizes", "figure_7_requests", "figure_10_amplification"):
        assert tables[name] == [{**row, "graph": "own"} for row in expected[name]]


def test_components_are_left_out_of_a_directed_graph():
    graph = hl.from_edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), directed=True)
    tables = ablation.ablation_of([("path", graph)], sources=1, device="cpu")
    assert [row["algorithm"] for row in tables["edge_widths"]] == ["bfs", "sssp", "pagerank"]


def test_the_command_takes_a_file(command, tmp_path):
    hl.save_graph(graph := hl.generate("ring", vertices=90, seed=1, device="cpu"), tmp_path / "g.hl")
    hl.save_graph(hl.compress(graph), tmp_path / "packed.hl")
    options = ("ablation", "--sources", 1, "--device", "cpu", "--graph")
    status, out, _ = command(*options, tmp_path / "g.hl", "--json")
    assert status == 0 and json.loads(out)["tables"]["figure_7_requests"][0]["graph"] == "g.hl"
    status, _, err = command(*options, tmp_path / "packed.hl")
    assert status == 1 and "packed.hl is compressed" in err
    assert command(*options, tmp_path / "none.hl")[0] == 2
    assert command(*options, tmp_path / "g.hl", "--scale", 5)[0] == 2


def test_traffic_of_a_file(command, tmp_path):
    hl.save_graph(hl.generate("kronecker", scale=7, edge_factor=8, seed=1, device="cpu"), tmp_path / "graph.hl")
    status, out, _ = command("traffic", tmp_path / "graph.hl", "--source", 3, "--access", "merged", "--json")
    graph = hl.load_graph(tmp_path / "graph.hl")
    assert status == 0 and json.loads(out)["total"] == analyse(graph, "bfs", 3, "merged").total
    status, out, err = command("traffic", tmp_path / "graph.hl", "--algorithm", "cc", "--plot", tmp_path / "cc.png")
    assert status == 0 and "amplification" in out and "wrote" in err
    assert (tmp_path / "cc.png").read_bytes().startswith(b"\x89PNG")
    status, out, _ = command("traffic", tmp_path / "graph.hl", "--rate", 12.3, "--latency", 1.6, "--json")
    link = json.loads(out)["link"]
    assert (link["rate"], link["latency"], link["measured"]) == (12.3e9, 1.6e-6, False)
    status, _, err = command("traffic", tmp_path / "none.hl", "--plot", tmp_path / "cc.csv")
    assert status == 1 and "cc.csv cannot be plotted" in err
    status, _, err = command("traffic", tmp_path / "graph.hl", "--access", "wide")
    assert status == 1 and "access 'wide' is not one of" in err
