"""The commands that run an algorithm: what they print, write and refuse. What the algorithms find is tested where they are."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet
import pytest
import torch

import hinterland as hl
from hinterland import cli
from hinterland.graph.sources import draw_sources, read_sources
from hinterland.runtime.errors import FormatError, IndexOutOfRange, StorageError

from ..graph.cases import RECORDS, START, begins, call

COMMANDS = tuple(RECORDS)


def npy(header: str) -> bytes:
    """An array file with this header and one element."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8)


@pytest.fixture
def command(command_line):
    """Runs a command on the CPU: exit status, standard output, standard error."""
    return lambda *words: command_line(cli.main, "hinterland", *words, "--device", "cpu")


@pytest.fixture
def graph() -> hl.Graph:
    """Weighted, directed, with vertices that have no neighbours, and with some that have but are not reached."""
    src, dst = torch.randint(60, (2, 300), generator=torch.Generator().manual_seed(3))
    built = hl.from_edges(src, dst + 10, num_vertices=80, remove_duplicates=True)
    return hl.random_weights(built, "int32")


@pytest.fixture
def file(graph, tmp_path):
    hl.save_graph(graph, tmp_path / "g.hl")
    return tmp_path / "g.hl"


def results(name: str, graph: hl.Graph) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """What a command writes that begins as :func:`start_of` says, from the Python side: a table's columns, and an array."""
    record = RECORDS[name]
    found = call(record, graph, device="cpu")
    rows = torch.arange(graph.num_vertices) if record.rows == "vertex" else torch.tensor(START["sources"]["sources"])
    columns = {column: getattr(found, field) for column, field in record.columns.items()}
    return {record.rows: rows, **columns}, getattr(found, record.array)


def start_of(name: str, folder) -> list[object]:
    """The options that make a command begin where :data:`START` says."""
    begin = begins(RECORDS[name])
    if begin == "sources":
        (folder / "sources.txt").write_text("\n".join(map(str, START[begin][begin])))
        return ["--sources", folder / "sources.txt"]
    return [word for option, value in START[begin].items() for word in (f"--{option}", value)]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_prints_one_object_and_writes_its_result(name, command, file, graph, tmp_path):
    begin = start_of(name, tmp_path)
    array, table = tmp_path / "result.npy", tmp_path / "result.parquet"
    status, out, _ = command(name, file, *begin, "--json", "--output", array)
    assert status == 0
    found = json.loads(out)
    assert found["graph"] == {"vertices": graph.num_vertices, "edges": graph.num_edges}
    (run,) = found["runs"]
    assert found["average_seconds"] == run["seconds"] > 0
    assert found["bytes"] == run["bytes"] and found["link"] is None and run["device"] == "cpu"
    assert "per_level" not in run
    assert sum(int(size) * count for size, count in run["requests"].items()) == run["bytes"]
    assert run["amplification"] == run["bytes"] / run["useful_bytes"]
    assert command(name, file, *begin, "--output", table)[0] == 0
    columns, expected = results(name, graph)
    written = pyarrow.parquet.read_table(table)
    assert written.column_names == list(columns)
    for column, values in columns.items():
        assert np.allclose(written[column].to_numpy(), values.numpy(), rtol=1e-6)
    assert np.allclose(np.load(array), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_speaks_to_people(name, command, file, tmp_path):
    status, out, _ = command(name, file, *start_of(name, tmp_path), "--stats")
    assert status == 0
    assert out.startswith("80 vertices, ") and " ms, " in out and " read" in out
    assert " of 32 B, " in out and "; amplification " in out


@pytest.mark.parametrize("name", COMMANDS)
def test_results_are_verified(name, command, file, tmp_path):
    status, out, error = command(name, file, *start_of(name, tmp_path), "--verify", "--json")
    assert status == 0 and json.loads(out)["runs"][0]["verified"] and "the result is right" in error


@pytest.mark.parametrize("name", COMMANDS)
def test_a_graph_on_storage(name, command, graph, tmp_path):
    hl.save_graph(graph, tmp_path / "g.hl", transpose=True)
    begin = start_of(name, tmp_path)
    array = tmp_path / "result.npy"
    there = ("--placement", "storage", "--host-budget", "40KiB", "--verify", "--output", array)
    status, out, error = command(name, tmp_path / "g.hl", *begin, *there, "--json")
    found, lists = json.loads(out), graph.neighbor_lists
    offsets = 2 * lists.indptr.nbytes
    assert status == 0
    assert found["storage"] == {"stored": 2 * graph.nbytes - offsets, "host_budget": 40 << 10, "offsets": offsets}
    (run,) = found["runs"]
    assert run["verified"] and {"bytes", "requests", "hits", "misses", "cpu_us_per_request"} <= set(run["storage"])
    assert run["tiers"]["storage"]["bytes"] == run["storage"]["bytes"] > 0
    assert f"stay in {tmp_path / 'g.hl'}; their pages take at most 40.00 KiB, and offsets 1.27 KiB besides" in error
    written = np.load(array)
    assert command(name, tmp_path / "g.hl", *begin, "--output", array)[0] == 0
    assert np.allclose(written, np.load(array), rtol=1e-6)
    status, out, _ = command(name, tmp_path / "g.hl", *begin, *there, "--stats")
    assert status == 0 and " from storage in " in out


def most_memory(*arguments: object) -> int:
    """The most memory that a command held, in bytes."""
    process = subprocess.Popen([sys.executable, "-m", "hinterland.cli", *map(str, arguments), "--device", "cpu"])
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return usage.ru_maxrss << 10


def test_the_budget_bounds_what_a_search_holds(tmp_path):
    """Of 62 MiB of edges: 8 MiB of pages, offsets, levels and parents, and what the search keeps of each vertex."""
    large, small = tmp_path / "large.hl", tmp_path / "small.hl"
    hl.save_graph(hl.generate("kronecker", scale=17, edge_factor=64, seed=1), large)
    hl.save_graph(hl.generate("kronecker", scale=6, seed=1), small)
    vertices, edges = 1 << 17, hl.graph.formats.hl.read_header(str(large)).edges
    levels = tmp_path / "levels.npy"
    budget = ("--placement", "storage", "--host-budget", "8MiB", "--source", 5, "--output", levels)
    more = most_memory("bfs", large, *budget) - most_memory("bfs", small, *budget)
    assert more < (8 << 20) + (8 + 4 + 8 + 8) * vertices + (12 << 20) < 4 * edges  # what memory allocators round up
    assert np.array_equal(np.load(levels), hl.bfs(hl.load_graph(small), 5, device="cpu").levels.numpy())


@pytest.mark.parametrize("name", COMMANDS)
def test_several_runs_are_averaged(name, command, file):
    status, out, _ = command(name, file, "--runs", 3, "--json")
    assert status == 0
    found = json.loads(out)
    assert len(found["runs"]) == 3
    assert found["average_seconds"] == pytest.approx(sum(run["seconds"] for run in found["runs"]) / 3)
    assert found["prepare_seconds"] >= 0
    assert "average of 3 runs" in command(name, file, "--runs", 3)[1]


def test_random_sources_have_neighbours_and_a_seed(command, file, graph):
    status, out, _ = command("bfs", file, "--runs", 40, "--seed", 9, "--json")
    assert status == 0
    sources = [run["source"] for run in json.loads(out)["runs"]]
    assert sources == draw_sources(graph, 40, 9) and len(set(sources)) > 10
    assert (graph.degrees()[sources] > 0).all()


def test_sources_without_neighbours_are_left_out_of_the_average(command, file, graph, tmp_path):
    lonely = (graph.degrees() == 0).nonzero()[:2, 0].tolist()
    np.save(tmp_path / "sources.npy", np.array([5, lonely[0], 7, lonely[1]], dtype=np.int32))
    status, out, error = command("bfs", file, "--sources", tmp_path / "sources.npy", "--json")
    assert status == 0
    found = json.loads(out)
    assert [run["source"] for run in found["runs"]] == [5, 7] and found["left_out"] == lonely
    assert "left out 2 of 4 sources" in error
    np.save(tmp_path / "sources.npy", np.array(lonely))
    status, out, error = command("bfs", file, "--sources", tmp_path / "sources.npy", "--json")
    assert status == 1 and "none of its 2 vertices has a neighbour" in error and out == ""


def test_random_weights_are_those_of_the_seed(command, graph, tmp_path):
    hl.save_graph(graph.without_weights(), tmp_path / "plain.hl")
    status, out, error = command("sssp", tmp_path / "plain.hl", "--source", 5)
    assert status == 1 and "no weights; add --random-weights" in error and out == ""
    options = ("--random-weights", "float32", "--seed", 4, "--output", tmp_path / "d.npy")
    assert command("sssp", tmp_path / "plain.hl", "--source", 5, *options)[0] == 0
    expected = hl.sssp(hl.random_weights(graph, "float32", 4), 5, device="cpu").distances
    assert np.allclose(np.load(tmp_path / "d.npy"), expected.numpy(), rtol=1e-6)


def test_pagerank_takes_its_settings(command, file, graph, tmp_path):
    (tmp_path / "home.txt").write_text("3\n# and\n8\n")
    options = ("--damping", 0.5, "--tolerance", 1e-9, "--sources", tmp_path / "home.txt", "--json")
    status, out, _ = command("pagerank", file, *options, "--output", tmp_path / "scores.npy")
    assert status == 0
    jumps = torch.zeros(graph.num_vertices, dtype=torch.float64)
    jumps[[3, 8]] = 1
    expected = hl.pagerank(graph, damping=0.5, tolerance=1e-9, personalization=jumps, device="cpu")
    (run,) = json.loads(out)["runs"]
    assert run["iterations"] == expected.iterations and run["error"] < 1e-9
    assert np.allclose(np.load(tmp_path / "scores.npy"), expected.scores.numpy(), rtol=1e-6)


def test_components_are_counted(command, file, graph):
    (run,) = json.loads(command("cc", file, "--json")[1])["runs"]
    sizes = hl.connected_components(graph, device="cpu").labels.unique(return_counts=True)[1]
    assert (run["components"], run["largest"]) == (len(sizes), int(sizes.max()))


def test_betweenness_raw_and_from_all(command, file, graph, tmp_path):
    assert command("bc", file, "--raw", "--output", tmp_path / "raw.npy")[0] == 0
    expected = hl.betweenness_centrality(graph, normalized=False, device="cpu").scores
    assert np.allclose(np.load(tmp_path / "raw.npy"), expected.numpy())
    # More than half of all vertices, and those without neighbours are among them.
    status, out, _ = command("bc", file, "--count", 60, "--seed", 4, "--output", tmp_path / "some.npy", "--json")
    assert status == 0 and json.loads(out)["runs"][0]["count"] == 60
    expected = hl.betweenness_centrality(graph, 60, seed=4, device="cpu").scores
    assert np.allclose(np.load(tmp_path / "some.npy"), expected.numpy())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_reordered_file_gives_the_same_result(name, command, command_line, file, tmp_path):
    other = tmp_path / "reordered.hl"
    assert command_line(cli.main, "hinterland", "convert", file, other, "--compress", "--reorder", "degree")[0] == 0
    assert hl.load_graph(other).order is not None
    found = []
    for path in (file, other):
        begin = start_of(name, tmp_path)
        verify = () if name in ("pagerank", "bc") else ("--verify",)
        assert command(name, path, *begin, *verify, "--output", tmp_path / "found.npy")[0] == 0
        found.append(np.load(tmp_path / "found.npy"))
    assert np.allclose(*found, rtol=1e-6)
    drawn = [json.loads(command("bfs", path, "--runs", 3, "--json")[1])["runs"] for path in (file, other)]
    assert [run["source"] for run in drawn[0]] == [run["source"] for run in drawn[1]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bfs", "--source", "first"), "neither a vertex number nor random"),
        (("sssp", "--runs", "2", "--output", "d.npy"), "one file holds the result of one source"),
        (("bfs", "--sources", "f.txt", "--output", "d.npy"), "one file holds the result of one source"),
        (("bfs", "--sources", "f.txt", "--source", "3"), "leave out --source and --runs"),
        (("sswp", "--sources", "f.txt", "--runs", "3"), "leave out --source and --runs"),
        (("msbfs", "--sources", "f.txt", "--count", "3"), "leave out --count"),
        (("msbfs", "--count", "3", "--runs", "2", "--output", "l.npy"), "leave out --runs"),
        (("bfs", "--runs", 10**12), "--runs"),
        (("cc", "--runs", 10**12), "--runs"),
        (("msbfs", "--count", 10**12), "at most 1,000,000 are drawn"),
        (("msbfs", "--runs", 10**6), "at most 1,000,000 are drawn"),
    ],
)
def test_options_that_do_not_go_together_are_usage(arguments, says, command, file):
    status, out, error = command(arguments[0], file, *arguments[1:])
    assert status == 2 and says in error and out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bfs", "--source", "80"), "source 80 is not a vertex"),
        (("bfs", "--sources", "/no/such/file"), "/no/such/file: cannot be read"),
        (("bfs", "--mode", "sideways"), "mode 'sideways' is not one of"),
        (("bfs", "--gpu-budget", "much"), "much"),
        (("sssp", "--random-weights", "int64"), "random weights are uint8, int32, float32, not 'int64'"),
        (("pagerank", "--max-iterations", "9" * 20), "is not a whole number from 1 to 2147483647"),
        (("bc", "--count", 10**12), "cannot be drawn from 80 vertices"),
        (("bfs", "--output", "/no/such/folder/levels.npy"), "make the folder /no/such/folder first"),
        (("cc", "--output", "/"), "is no regular file"),
        (("bfs", "--output", "o.csv"), "o.csv: results are written as .npy, one array, or as .parquet, a table; name a file"),
        (("msbfs", "--output", "levels"), "levels: results are written as .npy"),
        (("cc", "--output", "-"), "-: results are written as .npy"),
        (("bc", "--output", "/no/such/o.npy", "--sources", "/no/such/file"), "/no/such/o.npy: cannot be written"),
    ],
)
def test_errors_are_a_sentence(arguments, says, command, file):
    status, out, error = command(arguments[0], file, *arguments[1:])
    assert status == 1 and says in error and "Traceback" not in error and out == ""


def test_a_table_without_pyarrow_gets_a_sentence(command, file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    status, out, error = command("bfs", file, "--source", 5, "--output", tmp_path / "t.parquet")
    assert status == 1 and "pip install 'hinterland[arrow]'" in error and out == ""
    assert not (tmp_path / "t.parquet").exists()


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"5\nseven\n", FormatError, "line 2: 'seven' is no vertex number"),
        (b"5\n1.5\n", FormatError, "line 2: '1.5'"),
        ("٣\n".encode(), FormatError, "line 1"),
        (b"# nothing\n\n", FormatError, "holds no vertex number"),
        (b"5\n\n80\n", IndexOutOfRange, "line 3: source 80 is not a vertex: the graph has 80 vertices"),
        (b"-1\n", IndexOutOfRange, "line 1: source -1"),
        (b"9" * 5000, FormatError, "line 1: a number of 5000 digits is no vertex number"),
        (b"7" * 20, IndexOutOfRange, "line 1: source 7"),
        (b"\x93NUMPY\x01\x00garbage", FormatError, "cannot be read"),
        (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3"), FormatError, "cannot be read"),
        (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1 2,)}"), FormatError, "cannot be read"),
        (npy("{'descr': 'S99999999999', 'fortran_order': False, 'shape': (1,)}"), FormatError, "sources"),
        (npy("{'descr': [1, 2], 'fortran_order': False, 'shape': (1,)}"), FormatError, "cannot be read"),
        (npy("{1: " + "(" * 5000 + ")" * 5000 + "}"), FormatError, "cannot be read"),
        (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}"), FormatError, "damaged"),
        (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,)}"), FormatError, "truncated"),
        (np.array([2**64 - 1], dtype=np.uint64), FormatError, "no vertex number"),
        (np.array([[1, 2]]), FormatError, r"shape \(1, 2\)"),
        (np.array([1.0, 2.0]), FormatError, "float64"),
        (np.array([1, 90]), IndexOutOfRange, "position 1: source 90"),
        (None, StorageError, "cannot be read"),
    ],
)
def test_files_of_sources_that_are_none(content, error, says, graph, tmp_path):
    path = tmp_path / "sources"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        with path.open("wb") as file:
            np.save(file, content)
    with pytest.raises(error, match=says):
        read_sources(path, graph)


def test_files_of_sources(graph, tmp_path):
    (tmp_path / "text").write_bytes(b"# chosen by hand\r\n5  # first\r\n\r\n 7\n79")
    assert read_sources(tmp_path / "text", graph) == [5, 7, 79]
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbf5\n7\n")
    assert read_sources(tmp_path / "text", graph) == [5, 7]
    with (tmp_path / "array").open("wb") as file:
        np.save(file, np.array([5, 7], dtype=np.uint16))
    assert read_sources(tmp_path / "array", graph) == [5, 7]


def test_a_graph_without_edges(command, tmp_path):
    none = torch.empty(0, dtype=torch.int64)
    hl.save_graph(hl.from_edges(none, none, num_vertices=3), tmp_path / "noedge.hl")
    status, out, error = command("msbfs", tmp_path / "noedge.hl")
    assert status == 1 and "has a neighbour; name where to begin" in error and out == ""
    status, out, _ = command("bc", tmp_path / "noedge.hl", "--count", 2, "--json")
    assert status == 0 and json.loads(out)["runs"][0]["count"] == 2


def test_pagerank_says_whether_it_converged(command, file):
    few = ("--max-iterations", 1)
    assert json.loads(command("pagerank", file, *few, "--json")[1])["runs"][0]["converged"] is False
    assert "did not converge" in command("pagerank", file, *few)[1]
    assert json.loads(command("pagerank", file, "--json")[1])["runs"][0]["converged"] is True
    assert "did not converge" not in command("pagerank", file)[1]


def test_a_result_that_cannot_be_written_does_not_cost_the_report(command, file, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    status, out, error = command("cc", file, "--json", "--output", tmp_path / "c.npy")
    assert status == 1 and "the disk or the quota is full" in error
    assert json.loads(out)["runs"][0]["components"] > 1 and not (tmp_path / "c.npy").exists()


@pytest.mark.parametrize("arguments", [("convert", "OUT"), ("generate", "grid", "--scale", "4", "--output", "OUT")])
def test_places_that_cannot_be_written_are_refused_first(arguments, tmp_path, command_line):
    (tmp_path / "folder.hl").mkdir()
    for place, says in ((tmp_path / "no" / "g.hl", "make the folder"), (tmp_path / "folder.hl", "is no regular file")):
        words = [str(place) if word == "OUT" else word for word in arguments]
        if words[0] == "convert":
            words.insert(1, "/no/such/graph")  # which is not looked at
        status, _, error = command_line(cli.main, "hinterland", *words)
        assert status == 1 and says in error


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (("cc", "g.hl", "--access", "merged", "--runs", "2"), "cc g.hl --access merged --runs 2"),
        (("bfs", "g.hl", "--source", "3", "--access", "uvm"), "bfs g.hl --source 3 --access uvm"),
        (("traffic", "g.hl", "--algorithm", "cc", "--plot", "a b.svg"), "traffic g.hl --algorithm cc --plot 'a b.svg'"),
        (("bench", "traversal", "--ablation", "--scale", "9"), "ablation --scale 9"),
    ],
)
def test_what_only_reproduces_a_paper_says_where_it_is_now(words, now, command_line):
    status, _, error = command_line(cli.main, "hinterland", *words)
    assert status == 2 and f"python -m hinterland_papers {now}" in " ".join(error.split())


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if record.weights == "unused"])
def test_it_is_said_that_weights_are_not_used(name, command, file, graph, tmp_path):
    says = f"{name} counts every edge the same; the weights in the file are not used"
    assert says in command(name, file)[2]
    hl.save_graph(graph.without_weights(), tmp_path / "bare.hl")
    assert "weights" not in command(name, tmp_path / "bare.hl")[2]
