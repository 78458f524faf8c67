"""Vertices that have names, on the command line: read, kept, asked for and printed by them."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pyarrow.parquet
import pytest

import hinterland as hl
from hinterland import cli

EDGES = [("bob", "ann", 4), ("bob", "eve", 1), ("eve", "ann", 1), ("ann", "Zoë Z", 2), ("dan", "bob", 3)]
NAMES = sorted({end for edge in EDGES for end in edge[:2]})


@pytest.fixture
def command(command_line):
    """Runs a command: exit status, standard output, standard error."""
    return lambda *words: command_line(cli.main, "hinterland", *words)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("from,to,weight\n" + "".join(f"{u},{v},{w}\n" for u, v, w in EDGES))
    return path


@pytest.fixture
def file(text, command):
    path = text.with_suffix(".hl")
    assert command("convert", text, path, "--ids", "any")[0] == 0
    return path


def rows(path) -> dict[str, tuple]:
    """A table's other columns, by the name in each row."""
    table = pyarrow.parquet.read_table(path).to_pydict()
    names = table.pop("name")
    return dict(zip(names, zip(*table.values(), strict=True), strict=True))


@pytest.mark.parametrize("reorder", [(), ("--reorder", "degree", "--compress")])
def test_names_go_from_a_text_to_every_result(command, text, file, tmp_path, reorder):
    theirs = nx.DiGraph()
    theirs.add_weighted_edges_from(EDGES)
    if reorder:
        command("convert", file, file, *reorder)
    assert hl.load_graph(file).labels == NAMES
    for path, ids in ((text, ("--ids", "any")), (file, ())):
        out = tmp_path / "found.parquet"
        status, said, _ = command("sssp", path, *ids, "--source", "bob", "--output", out, "--json")
        assert status == 0 and json.loads(said)["runs"][0]["source"] == "bob"
        expected = nx.single_source_dijkstra_path_length(theirs, "bob")
        assert {name: row[1] for name, row in rows(out).items() if row[1] >= 0} == expected
        assert "source bob: " in command("bfs", path, *ids, "--source", "bob")[1]
        assert json.loads(command("info", path, *ids, "--json")[1])["named"] is True
    status, said, _ = command("bfs", file, "--runs", 8, "--json")
    assert {run["source"] for run in json.loads(said)["runs"]} <= {"ann", "bob", "dan", "eve"}  # who have neighbours


def test_files_of_sources_list_names(command, file, tmp_path):
    begin = tmp_path / "begin.txt"
    begin.write_text("# who\nbob\n\n  Zoë Z\ndan # and nobody else\n")
    status, said, log = command("bfs", file, "--sources", begin, "--json")
    found = json.loads(said)
    assert [run["source"] for run in found["runs"]] == ["bob", "dan"] and found["left_out"] == ["Zoë Z"]
    assert "left out 1 of 3" in log
    status, said, _ = command("msbfs", file, "--sources", begin, "--json", "--output", tmp_path / "m.parquet")
    assert json.loads(said)["runs"][0]["sources"] == ["bob", "Zoë Z", "dan"]
    assert {name: row[1] for name, row in rows(tmp_path / "m.parquet").items()} == {"bob": 4, "Zoë Z": 1, "dan": 5}
    wide = hl.load_graph(file)
    wide.labels = ["\u3000x", "a\x85b\u2028c", *NAMES[2:]]
    hl.save_graph(wide, tmp_path / "wide.hl")
    begin.write_text("a\x85b\u2028c\t\r\n\u3000x # the first\n")
    status, said, _ = command("msbfs", tmp_path / "wide.hl", "--sources", begin, "--json")
    assert json.loads(said)["runs"][0]["sources"] == ["a\x85b\u2028c", "\u3000x"]
    for content, words in (("bob\ncarl\n", "line 2: no vertex is called 'carl'"), ("\n# x\n", "holds no name of a vertex")):
        begin.write_text(content)
        status, _, log = command("pagerank", file, "--sources", begin)
        assert status == 1 and words in log


def test_integers_name_vertices_as_well(command, tmp_path):
    (tmp_path / "hashes.txt").write_text("18446744073709551615 7\n7 9\n")
    assert command("convert", tmp_path / "hashes.txt", tmp_path / "h.hl", "--ids", "any")[0] == 0
    status, said, _ = command("bfs", tmp_path / "h.hl", "--source", "18446744073709551615", "--json")
    assert status == 0 and json.loads(said)["runs"][0]["source"] == 2**64 - 1 and json.loads(said)["runs"][0]["reached"] == 3
    np.save(tmp_path / "begin.npy", np.array([9, 7]))
    (tmp_path / "begin.txt").write_text("9\n7\n")
    for begin in ("begin.npy", "begin.txt"):
        status, said, _ = command("msbfs", tmp_path / "h.hl", "--sources", tmp_path / begin, "--json")
        assert json.loads(said)["runs"][0]["sources"] == [9, 7]
    status, _, log = command("bfs", tmp_path / "h.hl", "--source", "0")
    assert status == 2 and "'0' is neither the name of a vertex nor random" in log


def test_what_holds_no_names_says_so(command, text, file, tmp_path):
    status, _, log = command("convert", file, tmp_path / "g.mtx")
    assert status == 0 and "in the order of their names, which only .hl holds" in log
    status, _, log = command("bfs", file, "--source", "bob", "--output", tmp_path / "levels.npy")
    assert status == 0 and "in the order of the vertices' names" in log
    levels = nx.single_source_shortest_path_length(nx.DiGraph([edge[:2] for edge in EDGES]), "bob")
    assert np.load(tmp_path / "levels.npy").tolist() == [levels.get(name, -1) for name in NAMES]
    status, _, log = command("bfs", text)
    assert status == 1 and 'line 2: the vertex is "bob"' in log and "--ids any" in log
    status, _, log = command("bfs", file, "--ids", "any")
    assert status == 1 and "numbers its vertices itself" in log
