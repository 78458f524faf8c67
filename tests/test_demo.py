"""The demonstration from end to end, its traversals compared with scipy's."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import shortest_path

from hinterland.cli.demo import demo as demo_command

from . import forked


def demo(tmp_path, *arguments: str) -> subprocess.CompletedProcess:
    return forked.run("-m", "hinterland.cli", "demo", *arguments, env={"HINTERLAND_CACHE_DIR": str(tmp_path)})


def check(found: dict, graph: scipy.sparse.csr_array) -> None:
    """Compares the vertices on each level with scipy's, and the rest of the report with the graph."""
    vertices = graph.shape[0]
    assert found["graph"]["vertices"] == vertices and found["graph"]["edges"] == graph.nnz
    degrees = np.diff(graph.indptr)
    for run in found["runs"]:
        distance = shortest_path(graph, unweighted=True, indices=run["source"])
        reached = np.isfinite(distance)
        assert run["levels"] == np.bincount(distance[reached].astype(int)).tolist()
        assert run["reached"] == reached.sum() and run["edges"] == degrees[reached].sum()
        assert run["verified"] and run["seconds"] > 0
        assert run["bytes"] >= 4 * run["edges"]  # each edge once, in whole sectors
    gather = found["gather"]
    assert gather["checked"] and gather["bytes"] == gather["rows"] * gather["row_bytes"]
    tiers = {tier["what"]: tier["bytes"] for tier in found["tiers"]}
    assert tiers["indptr"] == 8 * (vertices + 1) and tiers["indices"] == 4 * graph.nnz
    assert tiers["features"] == vertices * gather["row_bytes"]
    assert found["bytes"] == gather["bytes"] + sum(run["bytes"] for run in found["runs"])


def test_the_demo_on_a_real_network(tmp_path, real_data):
    file = real_data / "soc-Epinions1.txt"
    done = demo(tmp_path, "--graph", str(file), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    edges = np.loadtxt(file, dtype=np.int64, comments="#")
    shape = (edges.max() + 1,) * 2
    graph = scipy.sparse.coo_array((np.ones(len(edges), np.int8), (edges[:, 0], edges[:, 1])), shape).tocsr()
    check(found, graph)
    assert found["graph"]["file"] == str(file) and "hl.load_graph" in found["python"]


def test_the_demo_on_a_file_of_another_format(tmp_path):
    graph = scipy.sparse.csr_array(np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], *[[0] * 5] * 3]))
    scipy.sparse.save_npz(tmp_path / "small.npz", graph)
    done = demo(tmp_path, "--graph", str(tmp_path / "small.npz"), "--json")
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), graph)


@pytest.mark.parametrize("why", ["", "built where liburing was missing; install liburing-dev"])
def test_the_demo_says_how_files_are_read(monkeypatch, capsys, why):
    monkeypatch.setattr("hinterland._core.uring_refusal", lambda: why)
    demo_command(None, 6)
    said = f"and not by io_uring: {why}" if why else "files would be read by io_uring"
    assert f"{said}\n" in capsys.readouterr().out


def test_the_demo_for_people(tmp_path):
    done = demo(tmp_path, "--scale", "10")
    assert done.returncode == 0, done.stderr
    for words in ("scale 10: 1,024 vertices", "host memory", "verified", "equal to torch's", "hinterland as hl"):
        assert words in done.stdout
    shown = done.stdout[done.stdout.index("import torch") :]
    code = "\n".join(line.strip() for line in shown.splitlines())
    again = forked.run("-c", code)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("content", ["%%MatrixMarket matrix coordinate pattern general\n0 0 0\n", "\x00\x01garbage"])
def test_a_graph_that_cannot_be_shown_is_said(tmp_path, content):
    file = tmp_path / "odd.mtx"
    file.write_text(content)
    done = demo(tmp_path, "--graph", str(file))
    assert done.returncode == 1 and str(file) in done.stderr and "Traceback" not in done.stderr
