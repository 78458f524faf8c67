"""EMOGI's three files: saved together or not at all, and never read as a mixture of two saves."""

from __future__ import annotations

import os
import shutil
import signal
import struct

import pytest
import torch

import hinterland as hl
from hinterland.graph.formats import bel
from hinterland.runtime.errors import FormatError, HinterlandError, StorageError
from hinterland.runtime.files import Output

from .samples import listed

_ENDS = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0])


def a_graph(turned: bool, weighted: bool) -> hl.Graph:
    """Two cycles, of equal sizes, so that the files of one fit those of the other."""
    ends = _ENDS[::-1] if turned else _ENDS
    return hl.from_edges(*ends, torch.arange(4) + (10 if turned else 1) if weighted else None)


def foreign(folder) -> None:
    """As programs of others leave the second word."""
    for number, path in enumerate(sorted(folder.glob("g.bel.*"))):
        content = path.read_bytes()
        path.write_bytes(content[:8] + struct.pack("<Q", number) + content[16:])


pairs = pytest.mark.parametrize(
    ("old", "new"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=lambda weighted: "val" if weighted else "-",
)


@pairs
@pytest.mark.parametrize("others", [False, True], ids=["ours", "others"])
def test_a_crash_between_the_renames_leaves_no_mixture(tmp_path, monkeypatch, old, new, others):
    """Each state of the folder that a save passes through is the old graph, the new one, or refused."""
    folder = tmp_path / "now"
    folder.mkdir()
    graphs = a_graph(False, old), a_graph(True, new)
    hl.save_graph(graphs[0], folder / "g.bel")
    if others:
        foreign(folder)
    states = [shutil.copytree(folder, tmp_path / "0")]

    def watched(name):
        real = getattr(os, name)

        def changed(*arguments, **options):
            real(*arguments, **options)
            states.append(shutil.copytree(folder, tmp_path / str(len(states))))

        monkeypatch.setattr(os, name, changed)

    with monkeypatch.context():
        watched("replace")
        watched("unlink")
        hl.save_graph(graphs[1], folder / "g.bel")
        monkeypatch.undo()
    assert len(states) >= 3
    known = [listed(graph) for graph in graphs]
    for state in states:
        try:
            found = listed(hl.load_graph(state / "g.bel"))
        except HinterlandError:
            continue
        assert found in known, sorted(os.listdir(state))
    assert listed(hl.load_graph(folder / "g.bel")) == known[1]


@pairs
def test_a_full_disk_at_any_time_leaves_what_was_there(tmp_path, monkeypatch, old, new):
    graphs = a_graph(False, old), a_graph(True, new)
    hl.save_graph(graphs[0], tmp_path / "g.bel")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    left = 0

    def failing(real):
        def method(self, *arguments):
            nonlocal left
            left -= 1
            if left < 0:
                raise StorageError("no space")
            return real(self, *arguments)

        return method

    for name in ("write", "write_tensor", "sync"):
        monkeypatch.setattr(Output, name, failing(getattr(Output, name)))
    steps = 6 + 3 * new  # a header, the elements and the sync of each file
    for left in range(steps):  # noqa: B007  counted down by the writers
        with pytest.raises(StorageError, match="no space"):
            hl.save_graph(graphs[1], tmp_path / "g.bel")
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    left = steps
    hl.save_graph(graphs[1], tmp_path / "g.bel")
    assert listed(hl.load_graph(tmp_path / "g.bel")) == listed(graphs[1])


def test_ctrl_c_between_the_renames_comes_after_them(tmp_path, monkeypatch):
    hl.save_graph(a_graph(False, True), tmp_path / "g.bel")
    real = os.replace

    def interrupted(*arguments):
        real(*arguments)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "replace", interrupted)
        hl.save_graph(a_graph(True, False), tmp_path / "g.bel")
    assert sorted(os.listdir(tmp_path)) == ["g.bel.col", "g.bel.dst"]
    assert listed(hl.load_graph(tmp_path / "g.bel")) == listed(a_graph(True, False))


@pytest.mark.parametrize("part", ["col", "dst", "val"])
def test_a_file_of_another_save_is_refused(tmp_path, part):
    for name, turned in (("a", False), ("b", True)):
        hl.save_graph(a_graph(turned, True), tmp_path / f"{name}.bel")
    shutil.copy(tmp_path / f"b.bel.{part}", tmp_path / f"a.bel.{part}")
    with pytest.raises(FormatError, match="were not saved together.*save the graph again"):
        hl.load_graph(tmp_path / "a.bel")


def test_files_of_others_have_no_stamp(tmp_path):
    hl.save_graph(a_graph(False, True), tmp_path / "g.bel")
    foreign(tmp_path)
    assert listed(hl.load_graph(tmp_path / "g.bel")) == listed(a_graph(False, True))


def test_one_graph_makes_the_same_files(tmp_path):
    for name in ("a", "b"):
        hl.save_graph(a_graph(False, True), tmp_path / f"{name}.bel")
    for part in ("col", "dst", "val"):
        assert (tmp_path / f"a.bel.{part}").read_bytes() == (tmp_path / f"b.bel.{part}").read_bytes()


def test_a_save_while_another_reads(tmp_path, monkeypatch):
    hl.save_graph(a_graph(False, True), tmp_path / "g.bel")
    real = bel.read_into

    def slow(path, *arguments):
        real(path, *arguments)
        if path.endswith(".col"):
            hl.save_graph(a_graph(True, True), tmp_path / "g.bel")

    monkeypatch.setattr(bel, "read_into", slow)
    with pytest.raises(FormatError, match="while this one was read; load it again"):
        hl.load_graph(tmp_path / "g.bel")
