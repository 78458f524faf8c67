"""The commands of EMOGI's programs and of the model of the link: the product's options and reports, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet
import pytest

import hinterland as hl
from hinterland_papers import cli, emogi
from hinterland_papers.bam import stored as bam

from ..cli.test_traversal import results


@pytest.fixture
def command(command_line):
    """Runs a command on the CPU: exit status, standard output, standard error."""
    return lambda *words: command_line(cli.main, "hinterland_papers", *words, "--device", "cpu")


@pytest.mark.parametrize("access", [*emogi.ACCESSES, emogi.UVM])
@pytest.mark.parametrize("name", ["bfs", "sssp", "cc", "pagerank"])
def test_emogis_programs_find_the_same(name, access, command, graph, tmp_path):
    graph = hl.random_weights(hl.graph.simplify(graph.without_weights(), symmetrize=True), "float32")
    hl.save_graph(graph, tmp_path / "g.hl")
    begin = ["--source", 5] if name in ("bfs", "sssp") else []
    array, table = tmp_path / "result.npy", tmp_path / "result.parquet"
    options = ("--access", access, "--verify")
    status, out, _ = command(name, tmp_path / "g.hl", *begin, *options, "--json", "--output", array)
    (run,) = json.loads(out)["runs"]
    assert status == 0 and run["verified"] and run["access"] == access and run["device"] == "cpu"
    assert run["counted"] == "lists"  # the bytes, which are the same for every access
    assert run["bytes"] >= 4 * run["edges"] > 0 and run["link"] is None
    assert command(name, tmp_path / "g.hl", *begin, *options, "--output", table)[0] == 0
    columns, expected = results(name, graph)
    written, values = pyarrow.parquet.read_table(table), expected.numpy()
    assert written.column_names == [column for column in columns if column != "parent"]
    for found in (np.load(array), written[1].to_numpy()):
        assert found.dtype == values.dtype
        assert np.abs(found - values).sum() < 2e-4 if name == "pagerank" else np.array_equal(found, values)


@pytest.mark.parametrize("assignment", bam.ASSIGNMENTS)
@pytest.mark.parametrize("name", ["bfs", "cc"])
def test_bams_assignments_over_a_file(name, assignment, command, graph, tmp_path):
    graph = hl.graph.simplify(graph.without_weights(), symmetrize=True)
    hl.save_graph(graph, tmp_path / "g.hl")
    begin = ["--source", 5] if name == "bfs" else []
    stored = ("--placement", "storage", "--host-budget", "1MiB", "--gpu-budget", "6MiB")
    words = (name, tmp_path / "g.hl", *begin, *stored, "--assignment", assignment, "--verify", "--json")
    status, out, error = command(*words, "--output", tmp_path / "result.npy")
    assert status == 0, error
    (run,) = json.loads(out)["runs"]
    assert run["verified"] and run["storage"]["requests"] == run["lines"] > 0
    expected = results(name, graph)[1].numpy()
    assert np.array_equal(np.load(tmp_path / "result.npy"), expected)


def test_emogis_programs_run_several_times(command, file):
    status, out, _ = command("sssp", file, "--access", "uvm", "--runs", 3, "--seed", 9, "--verify")
    assert (
        status == 0
        and out.count("verified") == 3
        and out.count("of lists, whatever the access") == 3
        and "average of 3 runs" in out
    )


def test_emogis_pagerank_is_right_to_its_tolerance(command, file):
    """Of a graph with vertices that lead nowhere, whose rank EMOGI loses."""
    status, out, _ = command("pagerank", file, "--access", "merged", "--tolerance", 1e-6, "--verify", "--json")
    (run,) = json.loads(out)["runs"]
    assert status == 0 and run["verified"] and run["converged"] and run["error"] < 1e-6


@pytest.mark.gpu
@pytest.mark.parametrize("access", [*emogi.ACCESSES, emogi.UVM])
@pytest.mark.parametrize("name", ["bfs", "sssp"])
def test_emogis_programs_over_the_link(name, access, file, command_line):
    words = [name, file, "--source", 5, "--access", access, "--verify", "--json", "--device", "cuda"]
    status, out, _ = command_line(cli.main, "hinterland_papers", *words)
    (run,) = json.loads(out)["runs"]
    assert status == 0 and run["verified"] and run["device"] == "cuda:0"
    assert run["link"] is None if access == emogi.UVM else 0 < run["link"]["share"] < 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bfs", "--mode", "top-down"), "No such option: --mode"),
        (("cc", "--access", "uvm", "--gpu-budget", "1GiB"), "EMOGI's programs do not have --gpu-budget"),
        (("sssp", "--access", "naive", "--placement", "storage"), "EMOGI's programs do not have --placement storage"),
        (("bfs", "--access", "naive", "--placement", "storage"), "BaM's programs read lines"),
    ],
)
def test_options_that_it_does_not_have_are_usage(arguments, says, command, file):
    status, out, error = command(arguments[0], file, *arguments[1:])
    assert status == 2 and says in " ".join(error.split()) and out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bfs", "--access", "zero-copy"), "access 'zero-copy' is not one of naive, merged, aligned, uvm"),
        (("cc", "--access", "merged"), "EMOGI finds components of undirected graphs"),
        (("sssp", "--random-weights", "uint8"), "EMOGI's shortest paths take int32, float32 and float64"),
        (("pagerank", "--tolerance", "1e-9"), "the least that EMOGI's float32 resolves"),
    ],
)
def test_what_is_wrong_gets_a_sentence(arguments, says, command, file):
    status, out, error = command(arguments[0], file, *arguments[1:])
    assert status == 1 and says in error and out == ""


@pytest.mark.parametrize("option", ["--rate", "--latency"])
@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "1e-320"])
def test_links_that_are_none(option, value, file, command_line):
    status, out, error = command_line(cli.main, "hinterland_papers", "traffic", file, "--json", option, value)
    assert status == 1 and "a link has a rate" in error and out == ""
