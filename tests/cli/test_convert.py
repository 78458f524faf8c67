"""``hinterland convert`` and ``hinterland info``: JSON alone on standard output, sentences for what cannot be done."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import cli
from hinterland.graph.arrays import WEIGHT_TYPES


@pytest.fixture
def hinterland(command_line):
    """Runs a command: exit status, standard output, standard error."""
    return lambda *words: command_line(cli.main, "hinterland", *words)


def test_info_counts_what_networkx_counts(hinterland, tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("# Nodes: 9 Edges: 6\n0 1 5\n1 2 -3\n2 0 7\n2 2 1\n5 6 2\n5 0 4\n")
    status, out, _ = hinterland("info", path, "--json")
    assert status == 0
    found = json.loads(out)
    theirs = nx.read_weighted_edgelist(path, create_using=nx.DiGraph, nodetype=int)
    theirs.add_nodes_from(range(9))
    assert found["vertices"] == theirs.number_of_nodes()
    assert found["edges"] == theirs.number_of_edges()
    assert found["max_degree"] == max(degree for _, degree in theirs.out_degree)
    assert found["self_loops"] == nx.number_of_selfloops(theirs)
    assert found["isolated"] == sum(degree == 0 for _, degree in theirs.out_degree)
    assert found["format"] == "edges"
    assert found["directed"] is True
    assert found["weighted"] is True
    assert found["weights"] == [-3, 7]
    assert found["file_bytes"] == path.stat().st_size


@pytest.mark.parametrize("dtype", WEIGHT_TYPES)
def test_info_knows_weights_of_every_type(hinterland, tmp_path, dtype):
    ends = torch.tensor([0, 1, 2])
    hl.save_graph(hl.from_edges(ends, ends.flip(0), torch.tensor([7, 3, 5]).to(dtype)), tmp_path / "g.hl")
    status, out, _ = hinterland("info", tmp_path / "g.hl", "--json")
    assert status == 0 and json.loads(out)["weights"] == [3, 7]


def test_info_for_people(hinterland, real_data):
    status, out, _ = hinterland("info", real_data / "netscience.mtx")
    assert status == 0
    lines = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line)
    assert {key.strip(): value.strip() for key, value in lines.items()}["vertices"] == "1,589"


@pytest.mark.parametrize("name", ["g.hl", "g.mtx", "g.bel", "g.sg", "g.npz", "g.el"])
def test_convert(hinterland, tmp_path, real_data, name):
    target = tmp_path / name
    status, out, log = hinterland("convert", real_data / "soc-Epinions1.txt", target, "--symmetrize", "--json")
    assert status == 0
    found = json.loads(out)
    assert found["graph"] == {"vertices": 75877, "edges": 2 * 405739}
    assert found["bytes"] > 2 * 405739 * 4
    assert "read" in log
    graph = hl.load_graph(target)
    expected = hl.load_graph(real_data / "soc-Epinions1.txt", symmetrize=True)
    assert graph.indptr.equal(expected.indptr)
    assert graph.indices.equal(expected.indices)


def test_convert_applies_its_options(hinterland, tmp_path):
    (tmp_path / "g.txt").write_text("0 1\n0 1\n1 1\n")
    options = ("--format", "mtx", "--remove-self-loops", "--remove-duplicates")
    status, _, _ = hinterland("convert", tmp_path / "g.txt", tmp_path / "x", *options)
    assert status == 0
    assert (tmp_path / "x").read_text().splitlines()[1:] == ["2 2 1", "1 2"]


def test_what_cannot_be_converted(hinterland, tmp_path):
    (tmp_path / "g.txt").write_text("0 1\nx y\n")
    for arguments, words in (
        (("g.txt", "h.hl"), 'line 2: the vertex is "x"'),
        (("g.txt", "h.xyz"), "the ending names no format"),
        (("missing", "h.hl"), "cannot be read: No such file"),
    ):
        status, out, log = hinterland("convert", *(tmp_path / name for name in arguments), "--json")
        assert (status, out) == (1, "")
        assert words in log
        assert log.startswith("hinterland: ")
    assert hinterland("convert", tmp_path / "g.txt")[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["g.txt"]


def test_levels_are_written_to_what_a_link_points_at(hinterland, tmp_path):
    hl.save_graph(hl.generate("kronecker", scale=4), tmp_path / "g.hl")
    (tmp_path / "link.npy").symlink_to(tmp_path / "there.npy")
    assert hinterland("bfs", tmp_path / "g.hl", "--output", tmp_path / "link.npy")[0] == 0
    assert (tmp_path / "link.npy").is_symlink() and len(np.load(tmp_path / "there.npy")) == 16


def test_levels_never_take_the_place_of_a_device(hinterland, tmp_path):
    hl.save_graph(hl.generate("kronecker", scale=4), tmp_path / "g.hl")
    os.mkfifo(tmp_path / "pipe")
    status, out, err = hinterland("bfs", tmp_path / "g.hl", "--output", tmp_path / "pipe")
    assert status == 1 and out == "" and "no regular file" in err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_format_that_is_not_there_is_found_before_the_graph_is_made(hinterland, tmp_path, monkeypatch):
    monkeypatch.setattr("hinterland.graph.generate", lambda *_, **__: pytest.fail("made for nothing"))
    status, _, err = hinterland("generate", "kronecker", "--scale", 4, "--output", tmp_path / "g.foo")
    assert status == 1 and "names no format" in err


def test_an_unknown_device_gets_a_sentence(hinterland, tmp_path):
    status, _, err = hinterland("generate", "kronecker", "--scale", 4, "--output", tmp_path / "g.hl", "--device", "gpu")
    assert status == 1 and err.startswith("hinterland: device 'gpu'")


def test_a_full_standard_output_without_a_buffer_gets_a_sentence(tmp_path):
    """With one: test_cli.py."""
    hl.save_graph(hl.generate("kronecker", scale=4), tmp_path / "g.hl")
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "hinterland.cli", "info", str(tmp_path / "g.hl"), "--json"],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 1
    assert ended.stderr == "hinterland: standard output cannot be written: No space left on device; the result is lost\n"


def test_names_that_are_no_utf8_are_printed_as_they_are(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.hl"
    hl.save_graph(hl.generate("kronecker", scale=4), path)
    ended = subprocess.run([sys.executable, "-m", "hinterland.cli", "info", path], capture_output=True)
    assert ended.returncode == 0 and b"caf\xe9.hl" in ended.stdout


@pytest.mark.parametrize("order", ["degree", "bfs", "rcm", None])
def test_convert_compresses(hinterland, tmp_path, order):
    hl.save_graph(hl.generate("kronecker", scale=8, weights=True), tmp_path / "g.mtx")
    reorder = [] if order is None else ["--reorder", order]
    status, out, _ = hinterland("convert", tmp_path / "g.mtx", tmp_path / "g.hl", "--compress", *reorder, "--json")
    assert status == 0
    found = json.loads(out)
    assert 2 < found["bits_per_edge"] < 12 and found["seconds"]["compress"] > 0
    graph = hl.load_graph(tmp_path / "g.hl")
    assert graph.is_compressed and (graph.order is not None) == (order is not None)
    status, out, _ = hinterland("info", tmp_path / "g.hl", "--json")
    shown = json.loads(out)
    assert (shown["compressed"], shown["reordered"]) == (True, order is not None)
    assert shown["bits_per_edge"] == found["bits_per_edge"] and shown["sorted"]
    # And back: the edges under their first numbers.
    assert hinterland("convert", tmp_path / "g.hl", tmp_path / "back.mtx")[0] == 0
    assert (tmp_path / "back.mtx").read_text() == (tmp_path / "g.mtx").read_text()


@pytest.mark.parametrize("source", ["g.hl", "g.mtx", "packed.hl"])
@pytest.mark.parametrize("budget", ["20KiB", "1GiB"])
def test_convert_for_being_read_in_place(hinterland, tmp_path, monkeypatch, source, budget):
    graph = hl.random_weights(hl.generate("web", scale=9, edge_factor=6, directed=True), "int32", seed=1)
    hl.save_graph(hl.compress(graph) if source == "packed.hl" else graph, tmp_path / source)
    loads = []
    monkeypatch.setattr("hinterland.graph.load_graph", lambda *a, **k: loads.append(a[1]) or hl.load_graph(*a, **k))
    options = ("--placement", "storage", "--host-budget", budget, "--json")
    status, out, err = hinterland("convert", tmp_path / source, tmp_path / "out.hl", *options)
    assert status == 0 and "lists of in-neighbours are built" in err
    assert json.loads(out)["graph"] == {"vertices": graph.num_vertices, "edges": graph.num_edges}
    assert loads == {"g.hl": ["storage"], "g.mtx": ["pageable"], "packed.hl": ["storage", "pageable"]}[source]
    stored = hl.load_graph(tmp_path / "out.hl", "storage", host_budget="64KiB")
    assert stored.is_compressed == (source == "packed.hl")
    for one, other in ((stored, graph), (stored.known_transpose, graph.transpose())):
        assert torch.equal(one.indptr, other.indptr) and torch.equal(one.indices, other.indices)
        assert torch.equal(one.weights.long(), other.weights.long())
    status, out, _ = hinterland("info", tmp_path / "out.hl", "--placement", "storage", "--host-budget", "64KiB", "--json")
    shown = json.loads(out)
    status, out, _ = hinterland("info", tmp_path / "out.hl", "--json")
    assert status == 0 and shown == json.loads(out) and shown["in_neighbours"] and shown["directed"]


def test_what_is_damaged_is_not_written_anew(hinterland, tmp_path):
    hl.save_graph(hl.generate("web", scale=9, edge_factor=6, directed=True), tmp_path / "g.hl")
    whole = bytearray((tmp_path / "g.hl").read_bytes())
    whole[-4096 - 50] ^= 1
    (tmp_path / "g.hl").write_bytes(whole)
    for command in (("convert", tmp_path / "g.hl", tmp_path / "out.hl"), ("info", tmp_path / "g.hl")):
        status, _, err = hinterland(*command, "--placement", "storage")
        assert status == 1 and "the checksum of indices does not match" in err
    assert not (tmp_path / "out.hl").exists()


def test_options_of_storage_that_cannot_be_used(hinterland, tmp_path):
    hl.save_graph(hl.generate("uniform", scale=4), tmp_path / "g.hl")
    for target, placement in (("g.mtx", "storage"), ("h.hl", "gpu")):
        status, _, err = hinterland("convert", tmp_path / "g.hl", tmp_path / target, "--placement", placement)
        assert status == 1 and f"--placement {placement}: only storage says how a file is written" in err
    hl.save_graph(hl.generate("uniform", scale=4), tmp_path / "g.mtx")
    status, _, err = hinterland("info", tmp_path / "g.mtx", "--placement", "storage")
    assert status == 1 and "placement 'storage' reads .hl files" in err


def test_only_our_files_can_be_compressed(hinterland, tmp_path):
    hl.save_graph(hl.generate("uniform", scale=4), tmp_path / "g.hl")
    for option in (["--compress"], ["--reorder", "rcm"]):
        status, _, err = hinterland("convert", tmp_path / "g.hl", tmp_path / "g.mtx", *option)
        assert status == 1 and "let the name end with .hl" in err
    status, _, err = hinterland("convert", tmp_path / "g.hl", tmp_path / "h.hl", "--reorder", "random")
    assert status == 1 and "none of degree, bfs, rcm" in err
