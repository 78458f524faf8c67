"""Our own folders: what is saved is what opens; whole or not there; damaged ones get a sentence."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.datasets import folder
from hinterland.runtime.errors import ConfigError, FormatError, HinterlandError, StorageError

from .. import forked
from . import writers


@st.composite
def datasets(draw):
    """A data set of vertices of one type, of any small size."""
    n, columns = draw(st.integers(1, 30)), draw(st.integers(0, 9))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    ends = torch.from_numpy(rng.integers(0, n, (2, draw(st.integers(0, 40)))))
    graph = hl.from_edges(ends[0], ends[1], num_vertices=n, symmetrize=draw(st.booleans()))
    dtype = draw(st.sampled_from([torch.float16, torch.float32, torch.float64]))
    features = hl.UnifiedTensor.from_tensor(torch.from_numpy(rng.standard_normal((n, columns))).to(dtype))
    labels = torch.from_numpy(rng.integers(0, 4, n))
    order = torch.from_numpy(rng.permutation(n))
    cuts = sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))
    names = draw(st.sampled_from([(), ("train", "valid", "test")]))
    splits = dict(zip(names, order.tensor_split(cuts), strict=False))
    return hl.datasets.Dataset(graph, features, labels, splits, 4, draw(st.text(max_size=8)), messages="in")


def same(a: hl.datasets.Dataset, b: hl.datasets.Dataset) -> bool:
    return (
        torch.equal(a.graph.indptr, b.graph.indptr)
        and torch.equal(a.graph.indices, b.graph.indices)
        and a.graph.directed == b.graph.directed
        and a.features.dtype == b.features.dtype
        and torch.equal(a.features.cpu(), b.features.cpu())
        and torch.equal(a.labels, b.labels)
        and a.splits.keys() == b.splits.keys()
        and all(torch.equal(part, b.splits[name]) for name, part in a.splits.items())
        and (a.num_classes, a.name) == (b.num_classes, b.name)
    )


@pytest.fixture(scope="module")
def shared():
    """A folder in memory, where there is one: each file is synced."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@settings(max_examples=20)
@given(dataset=datasets())
def test_what_is_saved_is_what_opens(shared, dataset):
    hl.datasets.save(dataset, shared / "d", overwrite=True)
    assert same(hl.datasets.open(shared / "d"), dataset)
    hl.datasets.convert(shared / "d", shared / "e", overwrite=True)  # a copy
    assert same(hl.datasets.open(shared / "e"), dataset)
    assert sorted(os.listdir(shared)) == ["d", "e"]


@pytest.fixture
def dataset():
    """A data set of vertices of one type."""
    graph = hl.from_edges(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0]))
    features = hl.UnifiedTensor.from_tensor(torch.arange(12.0).view(4, 3))
    splits = {"train": torch.tensor([2, 0]), "valid": torch.tensor([1]), "test": torch.tensor([3])}
    return hl.datasets.Dataset(graph, features, torch.tensor([0, 1, 1, -1]), splits, 2, "four", messages="in")


def test_features_are_a_plain_npy_file(dataset, tmp_path):
    hl.datasets.save(dataset, tmp_path / "d")
    assert np.array_equal(np.load(tmp_path / "d" / "features.npy"), dataset.features.cpu())
    assert torch.equal(hl.UnifiedTensor.from_file(tmp_path / "d" / "features.npy").cpu(), dataset.features.cpu())
    assert hl.load_graph(tmp_path / "d" / "graph.hl").num_edges == 4


def test_placements(dataset, tmp_path):
    hl.datasets.save(dataset, tmp_path / "d")
    found = hl.datasets.open(tmp_path / "d", {"features": "pinned", "indices": "pageable"})
    assert found.features.placement == "pinned" and found.graph.placement["indices"] == "pageable"
    assert hl.datasets.open(tmp_path / "d", "pageable").features.placement == "pageable"
    with pytest.raises(ConfigError, match="features are placed in host memory"):
        hl.datasets.open(tmp_path / "d", "gpu")
    for wrong in ("attic", {"labels": "pageable"}, {"features": "attic"}, 5):
        with pytest.raises(ConfigError):
            hl.datasets.open(tmp_path / "d", wrong)


def test_reprs_say_what_is_there(dataset):
    assert repr(dataset) == (
        "Dataset('four': 4 vertices, 4 stored edges, features (4, 3) float32 (48 B), 2 classes, train 2, valid 1, test 1)"
    )
    many = hl.datasets.generate("mag240m", scale=1e-5)
    assert "author: 1,224 vertices, no features" in repr(many) and "author writes paper: " in repr(many)


def test_what_does_not_belong_together_is_not_saved(dataset, tmp_path):
    wrong = [
        ({"labels": torch.zeros(3, dtype=torch.int64)}, "3 labels for 4 vertices"),
        ({"labels": torch.tensor([0, 1, 2, 0])}, "the label of vertex 2 is 2, but there are 2 classes"),
        ({"splits": {"train": torch.tensor([3])}}, "vertex 3 of the split 'train' has no label"),
        ({"splits": {"test": torch.tensor([0, -1])}}, "position 1 of the split 'test' is -1"),
        ({"splits": {"../train": torch.tensor([0])}}, "split '../train' is none that is known; the splits of a data set are"),
        ({"splits": {"labels": torch.tensor([0])}}, "split 'labels' is none that is known"),
        ({"features": hl.UnifiedTensor.empty((5, 2))}, "5 rows of features, but there are 4"),
        ({"features": hl.UnifiedTensor.empty((4, 2), torch.bfloat16)}, "they must be float16, 32 or 64"),
    ]
    for changes, says in wrong:
        with pytest.raises(ConfigError, match=says):
            hl.datasets.save(dataclasses.replace(dataset, **changes), tmp_path / "d")
    assert os.listdir(tmp_path) == []


def test_only_our_folders_are_replaced_and_only_when_asked(dataset, tmp_path):
    hl.datasets.save(dataset, tmp_path / "d")
    with pytest.raises(ConfigError, match="is there already; choose another name, or overwrite it"):
        hl.datasets.save(dataset, tmp_path / "d")
    hl.datasets.save(dataclasses.replace(dataset, name="new"), tmp_path / "d", overwrite=True)
    assert hl.datasets.open(tmp_path / "d").name == "new"
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    for name in ("precious", "file"):
        with pytest.raises(ConfigError, match="no data set of this library, so it stays"):
            hl.datasets.save(dataset, tmp_path / name, overwrite=True)
    (tmp_path / "d" / "run.pt").touch()
    with pytest.raises(ConfigError, match=r"d: holds run.pt, which is no part of a data set, so it stays; move that away"):
        hl.datasets.save(dataset, tmp_path / "d", overwrite=True)
    assert hl.datasets.open(tmp_path / "d").name == "new"
    (tmp_path / "empty").mkdir()
    hl.datasets.save(dataset, tmp_path / "empty")
    with pytest.raises(StorageError, match="make the folder"):
        hl.datasets.save(dataset, tmp_path / "missing" / "d")
    assert sorted(os.listdir(tmp_path)) == ["d", "empty", "file", "precious"]


def test_what_was_put_into_the_folder_meanwhile_stays(dataset, tmp_path):
    """Into an empty one, and into one of ours that is being overwritten."""
    (tmp_path / "d").mkdir()
    for there in ({"thesis.txt"}, None):
        if there is None:
            shutil.rmtree(tmp_path / "d")
            hl.datasets.save(dataset, tmp_path / "d")
            there = {*os.listdir(tmp_path / "d"), "thesis.txt"}

        def put(*_):
            (tmp_path / "d" / "thesis.txt").write_text("precious")

        with pytest.raises(ConfigError, match=rf"^{tmp_path}/d: .*so it stays"):
            hl.datasets.save(dataset, tmp_path / "d", overwrite=True, progress=put)
        assert {*os.listdir(tmp_path / "d")} == there and os.listdir(tmp_path) == ["d"]


def test_features_pass_in_blocks_and_progress_counts_every_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(hl.datasets.folder, "COPIED_BYTES", 5000)
    data = writers.truth(vertices=500, columns=30)
    seen = []
    path = writers.write_papers100m(tmp_path / "p", data)
    hl.datasets.convert(path, tmp_path / "d", progress=lambda *step: seen.append(step))
    blocks = [done for what, done, total in seen if what == "features" and total == 60000]
    assert blocks == [*range(4920, 60000, 4920), 60000]  # 41 rows of 120 bytes at once, from the compressed archive too
    assert [step for step in seen if step[0] == "edges"]
    opened = []
    hl.datasets.open(tmp_path / "d", progress=lambda *step: opened.append(step))
    assert opened[-1][1:] == (60000, 60000)
    assert np.array_equal(hl.datasets.open(tmp_path / "d").features.cpu().numpy(), data.features["node"])


@pytest.mark.parametrize("moment", ["features", "edges"])
@pytest.mark.parametrize("before", [False, True])
def test_an_interrupted_conversion_leaves_what_was_there(dataset, tmp_path, moment, before):
    path = writers.write_products(tmp_path / "p", writers.truth())
    if before:
        hl.datasets.save(dataset, tmp_path / "d")

    def interrupt(what, done, total):
        if what == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hl.datasets.convert(path, tmp_path / "d", overwrite=before, progress=interrupt)
    assert sorted(os.listdir(tmp_path)) == ["d", "p"][not before :]
    if before:
        assert same(hl.datasets.open(tmp_path / "d"), dataset)


_WRITE_TO_A_FULL_DISK = """
import resource, signal, sys
import hinterland as hl
from hinterland.runtime.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
made = hl.datasets.generate("products", scale=0.0005)
for limit in (1000, 20000, 300000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        hl.datasets.save(made, sys.argv[1] + "/d")
    except StorageError as error:
        print(error)
    else:
        print("written")
"""


def test_a_full_disk_leaves_nothing(tmp_path):
    ran = forked.run("-c", _WRITE_TO_A_FULL_DISK, tmp_path, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == 3, ran.stderr
    for line in lines:
        assert line.startswith(f"{tmp_path}/d/") and "cannot be written" in line and "/.d." not in line
        assert "free space or write elsewhere; nothing was left under this name" in line
    assert os.listdir(tmp_path) == []


def test_a_disk_too_small_is_refused_first(dataset, tmp_path, monkeypatch):
    from hinterland.datasets import folder

    monkeypatch.setattr(folder.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(StorageError, match="the features take 48 B, but 10 B are free"):
        hl.datasets.save(dataset, tmp_path / "d")
    assert os.listdir(tmp_path) == []


def sign(header):
    """A header whose checksum is right, whatever it says."""
    header = {name: value for name, value in header.items() if name != "checksum"}
    return {**header, "checksum": folder._checksum(header)}


def as_version_1(path):
    """Makes a folder one of the first version, which had no checksums."""
    header = json.loads((path / "dataset.json").read_text())
    for name in ("arrays", "checksums", "checksum"):
        del header[name]
    (path / "dataset.json").write_text(json.dumps({**header, "version": 1}))
    (path / "checksums.npy").unlink()


@pytest.mark.parametrize("version", [1, 2])
def test_damaged_folders_get_a_sentence(dataset, tmp_path, version):
    path = tmp_path / "d"
    hl.datasets.save(dataset, path)
    if version == 1:
        as_version_1(path)
    header = json.loads((path / "dataset.json").read_text())
    sound = {file.name: file.read_bytes() for file in path.iterdir()}

    two = hl.from_edges(torch.tensor([0]), torch.tensor([1]))

    def npy(array):
        def write(file):
            np.save(file, array)

        return write

    def field(**changes):
        return lambda file: file.write_text(json.dumps(sign(header | changes)))

    # Version 1 with the number 2, and version 2 with another name.
    changed, unsigned = ({"version": 2}, "wrong kind") if version == 1 else ({"name": "x"}, "its checksum does not match")

    def damage(says):
        return says if version == 1 else "truncated|damaged: the checksum does not match|the folder's header promises"

    cases = [
        ("dataset.json", lambda file: file.write_text("{"), "damaged"),
        ("dataset.json", lambda file: file.write_bytes(b"\xff\xfe{}"), "damaged"),
        ("dataset.json", lambda file: file.write_text("[]"), "describes no data set"),
        ("dataset.json", field(version=3), "version 3 of the format; this library reads up to 2"),
        ("dataset.json", lambda file: file.write_text(json.dumps(header | changed)), unsigned),
        ("dataset.json", field(vertices={}), "a field is missing or of the wrong kind"),
        ("dataset.json", field(vertices={"node": {"count": -1, "features": True}}), "wrong kind"),
        ("dataset.json", field(vertices={"../../x": {"count": 4, "features": True}}, target="../../x"), "wrong kind"),
        ("dataset.json", field(edges=[]), "wrong kind"),
        ("dataset.json", field(splits={"/etc/passwd": 1}), "wrong kind"),
        ("dataset.json", field(vertices={"node": {"count": 5, "features": True}}), "4 rows of features, but there are 5"),
        ("dataset.json", field(num_classes=1), "but there are 1 classes"),
        ("features.npy", lambda file: file.write_bytes(sound[file.name][:-4]), "truncated"),
        ("labels.npy", npy(np.zeros(3, int)), damage("3 labels for 4 vertices")),
        ("labels.npy", npy(np.array([0.5, 0, 0, 0])), damage("is 0.5, which is no class")),
        ("train.npy", npy(np.array([4])), damage("position 0 of the split 'train' is 4")),
        ("train.npy", npy(np.array([0.0])), damage("a list of vertex numbers")),
        ("train.npy", npy(np.array([[0]])), damage("a list of vertex numbers")),
        ("train.npy", npy(np.array([3])), damage("has no label")),
        ("features.npy", npy(np.zeros((4, 3), np.int32)), damage("features are float16, 32 or 64")),
        ("graph.hl", lambda file: file.write_bytes(sound[file.name][:-8]), "truncated"),
        ("graph.hl", lambda file: hl.save_graph(two, file), "a graph of 2 vertices"),
    ]  # fmt: skip
    for name, change, says in cases:
        change(path / name)
        with pytest.raises(FormatError, match=says) as error:
            hl.datasets.open(path)
        assert str(path) in str(error.value)
        (path / name).write_bytes(sound[name])
    for name in sound:
        (path / name).unlink()
        with pytest.raises(HinterlandError) as missing:
            hl.datasets.open(path)
        assert name in str(missing.value)
        (path / name).write_bytes(sound[name])
    assert same(hl.datasets.open(path), dataset)


def test_one_flipped_bit_anywhere_is_found_or_changes_nothing(dataset, tmp_path):
    """At every byte of every file but the graph's, which has checksums of its own."""
    path = tmp_path / "d"
    hl.datasets.save(dataset, path)

    def read():
        source = folder.read(str(path), None)
        source.check()
        found = [source.labels, *source.splits.values(), torch.empty(4, 3)]
        source.vertices["node"].features.read(found[-1])
        return source.name, source.num_classes, [values.tolist() for values in found]

    sound, refused = read(), set()
    for file in (file for file in path.iterdir() if file.suffix != ".hl"):
        content = file.read_bytes()
        for at in range(len(content)):
            with open(file, "r+b") as place:
                os.pwrite(place.fileno(), bytes([content[at] ^ 1 << at % 8]), at)
            try:
                assert read() == sound, (file.name, at)
            except FormatError:
                refused.add((file.name, at))
            with open(file, "r+b") as place:
                os.pwrite(place.fileno(), content[at : at + 1], at)
        if file.name not in ("dataset.json", "checksums.npy"):  # where a blank may be another
            assert len({at for name, at in refused if name == file.name}) == len(content)
    assert len(refused) > 1000 and read() == sound


def test_large_features_are_checked_wherever_they_are_read(tmp_path):
    """Blocks of the file are not those of the rows: whole tables, some rows, and the last ones."""
    rows = torch.randn(30_000, 33, dtype=torch.float64)  # 7.6 MiB
    graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]), num_vertices=30_000)
    table, labels = hl.UnifiedTensor.from_tensor(rows), torch.zeros(30_000, dtype=torch.int64)
    hl.datasets.save(hl.datasets.Dataset(graph, table, labels, {}, 1, messages="in"), tmp_path / "d")

    def read(begin, end):
        source = folder.read(str(tmp_path / "d"), None)
        part = source.vertices["node"].features
        part.skip(begin)
        part.read(into := torch.empty(end - begin, 33, dtype=torch.float64))
        return into

    assert torch.equal(hl.datasets.open(tmp_path / "d").features.cpu(), rows)
    for begin, end in ((0, 1), (3970, 3975), (17, 29_999), (29_999, 30_000), (5, 5)):
        assert torch.equal(read(begin, end), rows[begin:end])
    file = tmp_path / "d" / "features.npy"
    sound = file.read_bytes()
    for at in (130, 1 << 20, len(sound) - 1):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        row = (at - 128) // 264
        with pytest.raises(FormatError, match=r"features.npy: damaged: the checksum does not match between the offsets"):
            read(row, row + 1)
        with pytest.raises(FormatError, match="damaged"):
            hl.datasets.open(tmp_path / "d")
    assert torch.equal(read(10_000, 10_001), rows[10_000:10_001])  # the damage is elsewhere


def test_folders_of_the_first_version_open(dataset, tmp_path):
    hl.datasets.save(dataset, tmp_path / "d")
    as_version_1(tmp_path / "d")
    assert same(hl.datasets.open(tmp_path / "d"), dataset)


def test_relations_stay_within_their_types(tmp_path):
    """Of 122 authors and one institution, each relation's graph has 122 vertices."""
    made = hl.datasets.generate("mag240m", scale=1e-6, symmetrize=True)
    hl.datasets.save(made, tmp_path / "d")
    for name, target, source, says in (
        ("author.affiliated_with.institution", 0, 121, None),
        ("author.affiliated_with.institution", 1, 5, "a target is not below 1"),
        ("institution.rev_affiliated_with.author", 5, 1, "a source is 1, but its type has 1 vertices"),
    ):
        file = tmp_path / "d" / f"graph.{name}.hl"
        sound = file.read_bytes()
        hl.save_graph(hl.from_edges(torch.tensor([target]), torch.tensor([source]), num_vertices=122), file)
        if says:
            with pytest.raises(FormatError, match=says):
                hl.datasets.open(tmp_path / "d")
        else:
            assert hl.datasets.open(tmp_path / "d").graphs[tuple(name.split("."))].num_edges == 1
        file.write_bytes(sound)


def test_the_largest_component_of_features_on_storage(tmp_path):
    """Its rows are read into memory; the file stays as it is."""
    graph = hl.from_edges(torch.tensor([0, 2, 4, 5]), torch.tensor([2, 4, 6, 1]), num_vertices=7, symmetrize=True)
    features = hl.UnifiedTensor.from_tensor(torch.arange(21.0).view(7, 3))
    hl.datasets.save(hl.datasets.Dataset(graph, features, torch.zeros(7, dtype=torch.int64), {}, 1), tmp_path / "d")
    stored = hl.datasets.open(tmp_path / "d", placement="storage")
    assert isinstance(stored.features, hl.StorageArray)
    found = hl.datasets.largest_component(stored)
    assert torch.equal(found.features.cpu(), features.cpu()[[0, 2, 4, 6]]) and found.graph.num_vertices == 4
