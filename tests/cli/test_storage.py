"""``hinterland storage``: what its commands print and refuse. What arrays reach is measured elsewhere; for cuFile see also
tests/probe/test_cufile.py."""

from __future__ import annotations

import json
import os

import pytest

import hinterland as hl
from hinterland import cli


@pytest.fixture
def storage(command_line):
    """Runs ``hinterland storage``: exit status, standard output, standard error."""
    return lambda *words: command_line(cli.main, "hinterland", "storage", *words)


@pytest.fixture
def bench(storage):
    return lambda *arguments: storage("bench", *arguments)


SMALL = ("--blocks", "16", "--pairs", "1", "--host-budget", "4MiB")


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_a_file_of_any_kind_is_read_and_stays_as_it_is(bench, tmp_path, engine) -> None:
    graph = hl.generate("kronecker", scale=13, seed=1)
    hl.save_graph(graph, tmp_path / "graph.hl")
    content = (tmp_path / "graph.hl").read_bytes()
    status, out, _ = bench(tmp_path / "graph.hl", *SMALL, "--engine", engine, "--json")
    found = json.loads(out)
    assert status == 0 and found["file"] == str(tmp_path / "graph.hl")
    assert [(run["pattern"], run["block_bytes"]) for run in found["runs"]] == [
        ("random reads", 4096),
        ("sequential reads", 65536),
    ]
    for run in found["runs"]:
        assert min(run["requests"], run["raw_requests"], run["ratio"], run["cpu_us"], run["raw_cpu_us"]) > 0
    roof = found["roofline"]
    assert min(roof["measured"].values()) > 0 and roof["most"] == max(roof["measured"].values())
    assert roof["needed"] >= 2 * roof["little"]
    assert (tmp_path / "graph.hl").read_bytes() == content
    status, out, _ = bench(tmp_path / "graph.hl", *SMALL)
    assert status == 0 and "random reads" in out and "of the disk" in out and "of the roofline" in out


def test_writes_are_asked_for(bench, tmp_path) -> None:
    (tmp_path / "x.bin").write_bytes(os.urandom(1 << 20))
    status, out, _ = bench(tmp_path / "x.bin", *SMALL, "--writes", "--json")
    patterns = [run["pattern"] for run in json.loads(out)["runs"]]
    assert status == 0 and patterns[2:] == ["random writes", "sequential writes", "random reads, one in 3 a write"]
    assert (tmp_path / "x.bin").stat().st_size == 1 << 20


def test_what_cannot_be_measured_is_a_sentence(bench, tmp_path) -> None:
    (tmp_path / "small.bin").write_bytes(b"little")
    for path, found in (
        ("missing", "No such file or directory; check the path"),
        ("small.bin", "take a larger file"),
        (".", "this is a folder"),
    ):
        status, out, err = bench(tmp_path / path, *SMALL)
        assert status == 1 and not out and found in err and "Traceback" not in err
    status, _, err = bench(tmp_path / "small.bin", "--engine", "magic")
    assert status == 1 and "magic" in err


def test_help(bench) -> None:
    status, out, _ = bench("--help")
    assert status == 0 and "--writes" in out and "LOST" in out


def test_cufile_is_asked_of_what_is_there(storage, tmp_path) -> None:
    status, out, err = storage("cufile", tmp_path / "missing")
    assert status == 1 and not out and "missing: cannot be read: No such file or directory; check the path" in err


def test_cufile_says_what_is_missing(storage, tmp_path) -> None:
    status, out, _ = storage("cufile", tmp_path, "--json")
    found = json.loads(out)
    assert status == 0 and set(found) == {"possible", "conditions", "libcufile", "nvidia_fs"}
    status, out, _ = storage("cufile", tmp_path)
    for one in found["conditions"]:
        assert status == 0 and one["name"] in out and one["remedy"] in out
    verdict = {True: "could be used here", False: "cannot be used here", None: "may be possible here"}[found["possible"]]
    assert f"cuFile with PCIe peer-to-peer {verdict}" in out
