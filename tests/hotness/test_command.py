"""The command and its picture."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import cli, hotness
from hinterland.hotness.plot import plot
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler


@pytest.fixture
def command(command_line):
    """Runs the command on the CPU: exit status, standard output, standard error."""
    return lambda *words: command_line(cli.main, "hinterland", "hotness", *words, "--device", "cpu")


@pytest.fixture
def file(tmp_path):
    hl.save_graph(hl.generate("kronecker", scale=10, edge_factor=8, seed=1, device="cpu"), tmp_path / "graph.hl")
    return tmp_path / "graph.hl"


def test_json_has_what_the_library_finds(command, file, tmp_path):
    seeds = torch.arange(0, 1024, 9)
    np.save(tmp_path / "seeds.npy", seeds.numpy())
    options = ("--seeds", tmp_path / "seeds.npy", "--fanout", "4,2", "--batch-size", 16, "--epochs", 2, "--seed", 3)
    status, out, _ = command(file, *options, "--json")
    assert status == 0
    found = json.loads(out)
    graph = hl.load_graph(file)
    sampler = NeighborSampler(graph, [4, 2], seed=3, device="cpu")
    expected = hotness.compare(graph, sampler, seeds, [4, 2], 16, epochs=2, seed=3, device="cpu")
    assert found["graph"] == {"vertices": graph.num_vertices, "edges": graph.num_edges}
    assert {name: score["hit_rates"] for name, score in found["scores"].items()} == expected.hit_rates(found["shares"])
    assert (found["seeds"], found["fanouts"], found["epochs"]) == (114, [4, 2], 2)
    assert found["fetches"] == int(expected.counts.sum())
    assert all(score["seconds"] > 0 for score in found["scores"].values())


def test_a_table_and_a_picture(command, file, tmp_path):
    status, out, error = command(file, "--seeds", 50, "--fanout", "3", "--plot", tmp_path / "hits.png")
    assert status == 0 and "50 seeds in batches of 1,024, fanout 3" in out and "wrote" in error
    assert [line.split()[0] for line in out.splitlines()[4:]] == [
        *("degree", "reverse-pagerank", "weighted-reverse-pagerank", "inclusion-probability"),
        *("presample-1", "presample-2", "corrected-probability", "oracle"),
    ]
    assert (tmp_path / "hits.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fanout", "15,many"], "fanout '15,many' is no row of whole numbers; write for example 15,10,5"),
        (["--fanout", "15,-2"], "fanout -2"),
        (["--seeds", "5000"], "5,000 seeds cannot be drawn from the"),
        (["--seeds", "0"], "vertices that have neighbours; use 1 to as many"),
        (["--seeds", "/no/such/seeds.txt"], "/no/such/seeds.txt"),
        (["--plot", "hits.txt"], "hits.txt cannot be plotted: its name ends in none of .pdf, .png, .svg"),
        (["--plot", "/no/such/folder/hits.png"], "/no/such/folder/hits.png"),
    ],
)
def test_wrong_options_get_a_sentence(command, file, options, words):
    status, out, error = command(file, *options)
    assert status == 1 and out == "" and words in error.splitlines()[-1]


def test_plots_say_what_they_miss(tmp_path, monkeypatch):
    counts = torch.ones(4)
    found = hotness.Comparison(counts, {"oracle": counts}, {"oracle": 1.0})
    plot(found, tmp_path / "hits.svg", "four rows")
    assert "four rows" in (tmp_path / "hits.svg").read_text()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="pip install 'hinterland\\[plot\\]'"):
        plot(found, tmp_path / "hits.png", "four rows")
