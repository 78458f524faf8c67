"""Every reader against the arrays that its files were written from, and against damaged files."""

from __future__ import annotations

import gzip
import os
import shutil
import zipfile
from collections import Counter

import numpy as np
import pyarrow.csv
import pytest
import torch

import hinterland as hl
from hinterland.datasets import igb
from hinterland.datasets.dataset import SPLITS
from hinterland.datasets.files import source_of
from hinterland.runtime.errors import ConfigError, FormatError, OutOfMemory, StorageError

from .. import forked
from . import writers

EDGES = ("node", "to", "node")


def incoming(graph: hl.Graph) -> Counter:
    """The edges (source, target) of lists of in-neighbours."""
    targets = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr.numpy()))
    return Counter(zip(graph.indices.tolist(), targets.tolist(), strict=True))


def pairs(ends: np.ndarray) -> Counter:
    return Counter(map(tuple, ends.T.tolist()))


def mirrored(ends: np.ndarray) -> Counter:
    """Both directions of each edge; a self loop once."""
    loops = ends[0] == ends[1]
    return pairs(np.concatenate([ends, ends[::-1, ~loops]], axis=1))


def check_labels(found, data: writers.Truth) -> None:
    assert found.labels.dtype == torch.int64
    assert found.labels.tolist() == np.nan_to_num(data.labels, nan=-1).astype(int).tolist()
    assert {name: part.tolist() for name, part in found.splits.items()} == {k: v.tolist() for k, v in data.splits.items()}
    assert all(part.dtype == torch.int64 for part in found.splits.values())


def check(found: hl.datasets.Dataset, data: writers.Truth, edges: Counter) -> None:
    table = data.features["node"]
    assert isinstance(found, hl.datasets.Dataset)
    assert found.num_vertices == data.counts["node"] and found.num_classes == data.classes
    assert isinstance(found.features, hl.UnifiedTensor) and np.array_equal(found.features.cpu().numpy(), table)
    assert found.features.cpu().numpy().dtype == table.dtype
    assert incoming(found.graph) == edges
    check_labels(found, data)


HOMOGENEOUS = {
    "products": (writers.write_products, mirrored, "ogb"),
    "processed": (writers.write_processed, None, "ogb"),
    "papers100m": (writers.write_papers100m, pairs, "ogb"),
    "saved": (writers.write_saved, pairs, "ogb"),
}


@pytest.fixture(params=HOMOGENEOUS)
def written(request, tmp_path):
    """A data set of vertices of one type: its path, what it holds, its edges, its format."""
    write, edges, kind = HOMOGENEOUS[request.param]
    data = writers.truth(dtype="f2" if request.param == "papers100m" else "f4")
    ends = data.edges[EDGES]
    expected = edges(ends) if edges else pairs(np.concatenate([ends, ends[::-1]], axis=1))
    return write(tmp_path / "ogbn_some", data), data, expected, kind


def test_ogb_as_it_lies_on_disk_and_converted(written, tmp_path):
    path, data, edges, kind = written
    assert hl.datasets.detect(path) == kind
    found = hl.datasets.open(path)
    check(found, data, edges)
    assert found.name == "ogbn-some"
    hl.datasets.convert(path, tmp_path / "converted")
    again = hl.datasets.open(tmp_path / "converted")
    check(again, data, edges)
    assert again.name == "ogbn-some" and again.graph.directed == found.graph.directed


def test_products_are_undirected_and_papers_are_not(tmp_path):
    data = writers.truth()
    assert not hl.datasets.open(writers.write_products(tmp_path / "a", data)).graph.directed
    assert not hl.datasets.open(writers.write_processed(tmp_path / "b", data)).graph.directed
    assert hl.datasets.open(writers.write_papers100m(tmp_path / "c", data)).graph.directed


def test_processed_files_of_any_age_need_no_pyg(tmp_path):
    """Files of torch before 1.6, which cannot be mapped; and Data of PyG before 2.0, which held its tensors itself."""
    data = writers.truth()
    ends = data.edges[EDGES]
    expected = pairs(np.concatenate([ends, ends[::-1]], axis=1))
    check(hl.datasets.open(writers.write_processed(tmp_path / "legacy", data, legacy=True)), data, expected)

    path = writers.write_processed(tmp_path / "old", data) / "processed" / "geometric_data_processed.pt"
    held, slices = torch.load(path, weights_only=False)
    torch.save((dict(held._store._mapping), slices), path)
    check(hl.datasets.open(tmp_path / "old"), data, expected)


def test_text_features_are_what_arrow_reads(tmp_path):
    path = writers.write_products(tmp_path / "p", writers.truth(vertices=300, columns=11))
    unnamed = pyarrow.csv.ReadOptions(autogenerate_column_names=True)
    theirs = pyarrow.csv.read_csv(path / "raw" / "node-feat.csv.gz", unnamed)
    found = hl.datasets.open(path)
    np.testing.assert_allclose(found.features.cpu().numpy(), np.stack(theirs.columns, axis=1).astype("f4"), rtol=2e-7)


def test_symmetrize_adds_each_reverse_once(tmp_path):
    data = writers.truth()
    path = writers.write_papers100m(tmp_path / "p", data)
    found = hl.datasets.open(path, symmetrize=True)
    assert incoming(found.graph) == Counter(set(mirrored(data.edges[EDGES]))) and not found.graph.directed
    hl.datasets.convert(path, tmp_path / "a", symmetrize=True)
    hl.datasets.convert(path, tmp_path / "b")
    for other in (hl.datasets.open(tmp_path / "a"), hl.datasets.open(tmp_path / "b", symmetrize=True)):
        assert incoming(other.graph) == incoming(found.graph)


@pytest.mark.parametrize("kind", ["products", "processed", "papers100m", "igb", "bare", "folder"])
def test_rows_that_are_passed_over(tmp_path, kind):
    """From text, a torch file, a compressed archive, a .npy and raw binary."""
    igb_s = kind in ("igb", "bare")
    data = writers.igb_truth(hetero=False) if igb_s else writers.truth(dtype="f2" if kind == "papers100m" else "f4")
    if kind in HOMOGENEOUS:
        path = HOMOGENEOUS[kind][0](tmp_path / kind, data)
    elif kind == "folder":
        hl.datasets.convert(writers.write_products(tmp_path / "raw", data), path := tmp_path / "set")
    else:
        path = writers.write_igb(tmp_path / ("full" if kind == "bare" else "small"), data, bare=kind == "bare")
    [vertices] = source_of(path, None, None).vertices.values()
    [table] = data.features.values()
    rows, at = vertices.features, 0
    assert rows.shape == table.shape
    for read, skipped in ((3, 5), (0, 7), (1, 0), (4, 13), (len(table) - 33, 0)):
        found = torch.empty(read, rows.shape[1], dtype=rows.dtype)
        rows.read(found)
        assert np.array_equal(found.numpy(), table[at : at + read])
        rows.skip(skipped)
        at += read + skipped
    assert at == len(table)


def check_hetero(found: hl.datasets.HeteroDataset, data: writers.Truth, reverse: bool = False) -> None:
    assert isinstance(found, hl.datasets.HeteroDataset) and found.target == "paper"
    assert found.num_vertices == data.counts
    assert found.features.keys() == data.features.keys()
    for kind, table in data.features.items():
        assert np.array_equal(found.features[kind].cpu().numpy(), table)
        assert found.features[kind].cpu().numpy().dtype == table.dtype
    expected = {}
    for (source, name, target), ends in data.edges.items():
        same = source == target
        expected[source, name, target] = Counter(set(mirrored(ends))) if same and reverse else pairs(ends)
        if reverse and not same:
            expected[target, f"rev_{name}", source] = pairs(ends[::-1])
    assert {kind: incoming(graph) for kind, graph in found.graphs.items()} == expected
    for (source, _, target), graph in found.graphs.items():
        assert graph.num_vertices == max(data.counts[source], data.counts[target])
    check_labels(found, data)


@pytest.mark.parametrize("whole", ["test", "test-whole"])
@pytest.mark.parametrize("reverse", [False, True])
def test_mag240m(tmp_path, whole, reverse):
    data = writers.mag_truth()
    path = writers.write_mag240m(tmp_path / "mag240m_kddcup2021", data, whole)
    assert hl.datasets.detect(path) == "mag240m"
    check_hetero(hl.datasets.open(path, symmetrize=reverse), data, reverse)
    hl.datasets.convert(path, tmp_path / "converted", symmetrize=reverse)
    check_hetero(hl.datasets.open(tmp_path / "converted"), data, reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_what_ogb_saves_of_several_types(tmp_path, reverse):
    data = writers.mag_truth()
    path = writers.write_saved_hetero(tmp_path / "toy", data)
    assert hl.datasets.detect(path) == "ogb"
    found = hl.datasets.open(path, symmetrize=reverse)
    check_hetero(found, data, reverse)
    assert found.name == "toy"
    hl.datasets.convert(path, tmp_path / "converted", symmetrize=reverse)
    check_hetero(hl.datasets.open(tmp_path / "converted"), data, reverse)
    with pytest.raises(FormatError, match="several types; hl.datasets.open reads it"):
        hl.load_graph(path)


def test_what_ogb_saves_and_is_not_read(tmp_path):
    """Splits of links, several graphs, labels of two types, the zip that it is handed in as."""
    path = writers.write_saved(tmp_path / "toy", writers.truth())
    place = path / "split" / "random" / "split_dict.pt"
    splits = torch.load(place, weights_only=False)
    for held, words in (
        ({name: {"edge": np.zeros((3, 2), int)} for name in splits}, "a split holds edge; only those of vertices are read"),
        ({"train": splits["train"], "valid": splits["valid"]}, "has no split 'test', only train, valid"),
        ({**splits, "valid": "abc"}, "it must be a list of vertex numbers"),
        ({**splits, "valid": np.array([0.5])}, "it must be a list of vertex numbers"),
        ({**splits, "valid": [999]}, "position 0 of the split 'valid' is 999"),
    ):
        torch.save(held, place)
        with pytest.raises(FormatError, match=words):
            hl.datasets.open(path)
    torch.save({**splits, "valid": splits["valid"].tolist()}, place)
    assert hl.datasets.open(path).splits["valid"].tolist() == splits["valid"].tolist()
    shutil.make_archive(path, "zip", path)
    with pytest.raises(FormatError, match="this is an archive; unpack it"):
        hl.datasets.open(tmp_path / "toy.zip")
    with np.load(path / "raw" / "data.npz") as archive:
        arrays = dict(archive)
    np.savez_compressed(path / "raw" / "data.npz", **{**arrays, "num_nodes_list": np.array([30, 30])})
    with pytest.raises(FormatError, match="num_nodes_list has 2 elements .* only data sets of one graph are read"):
        hl.datasets.open(path)

    several = writers.write_saved_hetero(tmp_path / "several", writers.mag_truth())
    labels = np.zeros((40, 1), int)
    for held, words in (({"paper": labels, "author": labels}, "labels of author, paper"), ({"book": labels}, "labels of book")):
        np.savez_compressed(several / "raw" / "node-label.npz", **held)
        with pytest.raises(FormatError, match=words):
            hl.datasets.open(several)
    np.savez_compressed(several / "raw" / "edge_index_dict.npz", a___b=np.zeros((2, 3), int))
    with pytest.raises(FormatError, match="edges a___b___, but the types of vertices are author, institution, paper"):
        hl.datasets.open(several)


def test_splits_of_mag240m_that_are_none(tmp_path):
    path = writers.write_mag240m(tmp_path / "mag240m_kddcup2021", writers.mag_truth())
    for held in ({"train": {}, "valid": [], "test": []}, {"train": "x", "valid": [], "test": []}):
        torch.save(held, path / "split_dict.pt")
        with pytest.raises(FormatError, match=r"split_dict.pt: a split "):
            hl.datasets.open(path)


@pytest.mark.parametrize("bare", [False, True])
def test_igbh(tmp_path, bare):
    data = writers.igb_truth(hetero=True)
    data.splits = {k: v.numpy() for k, v in igb.random_parts(50, (0.6, 0.2), 0).items()}
    path = writers.write_igb(tmp_path / "tiny", data, bare=bare)
    assert hl.datasets.detect(path) == "igbh"
    found = hl.datasets.open(path)
    check_hetero(found, data)
    assert found.num_classes == 19 and found.name == "igbh-tiny"
    hl.datasets.convert(path, tmp_path / "converted")
    check_hetero(hl.datasets.open(tmp_path / "converted"), data)
    papers = hl.datasets.open(path, format="igb")
    assert incoming(papers.graph) == pairs(data.edges["paper", "cites", "paper"])


@pytest.mark.parametrize("bare", [False, True])
def test_igb_has_two_kinds_of_labels(tmp_path, bare):
    data = writers.igb_truth(hetero=False)
    path = writers.write_igb(tmp_path / "small", data, bare=bare)
    for place in (path, path / "processed"):
        found = hl.datasets.open(place)
        assert found.name == "igb-small" and hl.datasets.detect(place) == "igb"
        assert np.array_equal(found.features.cpu().numpy(), data.features["paper"])
        assert incoming(found.graph) == pairs(data.edges["paper", "cites", "paper"])
    assert found.labels.tolist() == data.labels.astype(int).tolist() and found.num_classes == 19
    more = hl.datasets.open(path, num_classes=2983)
    assert more.labels.tolist() == (data.labels + 1000).astype(int).tolist() and more.num_classes == 2983
    assert [len(part) for part in found.splits.values()] == [30, 10, 10]
    assert sorted(torch.cat(list(found.splits.values())).tolist()) == list(range(50))
    with pytest.raises(ConfigError, match="19 or 2983 classes, not 5"):
        hl.datasets.open(path, num_classes=5)
    with pytest.raises(ConfigError, match="has one kind"):
        hl.datasets.open(writers.write_papers100m(tmp_path / "p", writers.truth()), num_classes=19)


def test_of_igb_full_only_the_first_papers_have_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(igb, "_FULL_PAPERS", 50)
    monkeypatch.setattr(igb, "_FULL", {19: 40, 2983: 25})
    data = writers.igb_truth(hetero=False)
    path = writers.write_igb(tmp_path / "full", data, bare=True)
    with open(path / "processed" / "paper" / "node_label_19.npy", "r+b") as file:
        file.seek(4 * 40)
        file.write(np.full(10, 1e9, np.float32).tobytes())  # what lies there means nothing
    found = hl.datasets.open(path)
    assert [part.tolist() for part in found.splits.values()] == [
        list(range(24)), list(range(24, 32)), list(range(32, 40)),
    ]  # fmt: skip
    assert found.labels[40:].tolist() == [-1] * 10 and found.labels[:40].tolist() == data.labels[:40].astype(int).tolist()


def test_shchur(tmp_path):
    data = writers.truth()
    path = writers.write_shchur(tmp_path / "some.npz", data)
    assert hl.datasets.detect(path) == "shchur"
    found = hl.datasets.open(path)
    ends = data.edges[EDGES]
    data.splits = {}
    check(found, data, Counter(set(mirrored(ends[:, ends[0] != ends[1]]))))
    assert found.name == "some" and not found.graph.directed and found.graph.weights is None


@pytest.mark.parametrize("name, vertices, edges, classes", [("cora", 2485, 5069, 7), ("citeseer", 2110, 3668, 6)])
def test_real_graphs_have_the_published_sizes(real_data, name, vertices, edges, classes):
    """Table 1 of Shchur et al. 2018, whose figures are of the largest component."""
    whole = hl.datasets.open(real_data / f"{name}.npz")
    found = hl.datasets.largest_component(whole)
    assert (found.num_vertices, found.graph.num_edges, found.num_classes) == (vertices, 2 * edges, classes)
    splits = hl.datasets.random_splits(found, seed=3)
    assert [len(splits[part]) for part in ("train", "valid")] == [20 * classes, 30 * classes]
    everything = torch.cat(list(splits.values()))
    assert sorted(everything.tolist()) == list(range(vertices))
    for part, each in (("train", 20), ("valid", 30)):
        assert found.labels[splits[part]].bincount().tolist() == [each] * classes
    again, other = hl.datasets.random_splits(found, seed=3), hl.datasets.random_splits(found, seed=4)
    assert torch.equal(splits["train"], again["train"]) and not torch.equal(splits["train"], other["train"])
    # Each vertex keeps its features, label and neighbours.
    kept = np.flatnonzero(np.isin(_components(whole.graph), np.bincount(_components(whole.graph)).argmax()))
    assert np.array_equal(found.features.cpu().numpy(), whole.features.cpu().numpy()[kept])
    assert np.array_equal(found.labels.numpy(), whole.labels.numpy()[kept])
    theirs = whole.graph.to_scipy()[kept][:, kept]
    assert (found.graph.to_scipy() != theirs).nnz == 0


def _components(graph: hl.Graph) -> np.ndarray:
    import scipy.sparse.csgraph

    return scipy.sparse.csgraph.connected_components(graph.to_scipy(), directed=False)[1]


def test_classes_too_small_for_the_splits(tmp_path):
    found = hl.datasets.open(writers.write_shchur(tmp_path / "some.npz", writers.truth()))
    with pytest.raises(ConfigError, match="fewer than the 20 for training and 30 for validation"):
        hl.datasets.random_splits(found)
    with pytest.raises(ConfigError, match="seed -1"):
        hl.datasets.random_splits(found, -1)


def _cut(path, share=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def _gz(path, text):
    path.write_bytes(gzip.compress(text))


def _lines(path, change):
    _gz(path, b"".join(change(gzip.decompress(path.read_bytes()).splitlines(keepends=True))))


def _npz(path, **changes):
    with np.load(path) as held:
        members = {**held, **changes}
    np.savez_compressed(path, **{name: array for name, array in members.items() if array is not None})


def _data(path, **changes):
    held = {"edge_index": torch.zeros(2, 3, dtype=torch.int64), "x": torch.zeros(60, 2), "y": torch.zeros(60)}
    torch.save((held | changes, {}), path)


# What is done to the files of a data set, and what is said of it.
DAMAGED = {
    "products": [
        ("raw/node-feat.csv.gz", _cut, "truncated|damaged gzip"),
        ("raw/edge.csv.gz", _cut, "truncated|damaged gzip"),
        ("raw/node-feat.csv.gz", lambda p: _lines(p, lambda x: x[:-1]), "ends after 59 of 60 rows"),
        ("raw/node-feat.csv.gz", lambda p: _lines(p, lambda x: [*x, x[0]]), "more rows than the 60 vertices"),
        ("raw/node-feat.csv.gz", lambda p: _lines(p, lambda x: [*x[:9], b"1,2\n", *x[10:]]), "number of columns changed"),
        ("raw/node-feat.csv.gz", lambda p: _lines(p, lambda x: [*x[:9], b"a" + x[9], *x[10:]]), "could not convert"),
        ("raw/node-label.csv.gz", lambda p: _lines(p, lambda x: x[:-3]), "57 labels for 60 vertices"),
        ("raw/node-label.csv.gz", lambda p: _lines(p, lambda x: [b"1.5\n", *x[1:]]), "label of vertex 0 is 1.5"),
        ("raw/node-label.csv.gz", lambda p: _lines(p, lambda x: [b"nan\n"] * 60), "of the split 'train' has no label"),
        ("raw/node-label.csv.gz", lambda p: _lines(p, lambda x: [b"inf\n", *x[1:]]), "which is no class"),
        ("raw/edge.csv.gz", lambda p: _lines(p, lambda x: [b"0,60\n", *x]), "exceeds the 60 vertices"),
        ("raw/num-node-list.csv.gz", lambda p: _gz(p, b"some\n"), "must hold whole numbers"),
        ("split/sales_ranking/train.csv.gz", lambda p: _gz(p, b"3\n60\n"), "position 1 of the split 'train' is 60"),
        ("split/sales_ranking/valid.csv.gz", lambda p: _gz(p, b"3\n4.5\n"), "line 2 is 4.5, which is no vertex"),
        ("split/sales_ranking/valid.csv.gz", lambda p: _gz(p, b"3,4\n"), "expected"),
    ],
    "processed": [
        ("processed/geometric_data_processed.pt", _cut, "no torch file that can be read"),
        ("processed/geometric_data_processed.pt", lambda p: torch.save([1], p), "holds no graph of PyG"),
        ("processed/geometric_data_processed.pt", lambda p: torch.save(({"x": 1}, {}), p), "has no tensors edge_index"),
        ("processed/geometric_data_processed.pt", lambda p: _data(p, edge_index=torch.zeros(2, 3)), "must be integers of"),
        ("processed/geometric_data_processed.pt", lambda p: _data(p, edge_index=torch.ones(3, 2).int()), "must be integers of"),
        ("processed/geometric_data_processed.pt", lambda p: _data(p, edge_index=torch.full((2, 3), 99)), "joins vertices 99"),
        ("processed/geometric_data_processed.pt", lambda p: _data(p, x=torch.zeros(60)), "they must be float16, 32 or 64"),
        ("processed/geometric_data_processed.pt", lambda p: _data(p, y=torch.zeros(59)), "59 labels for 60 vertices"),
    ],
    "papers100m": [
        ("raw/data.npz", _cut, "cannot be read|truncated"),
        ("raw/data.npz", lambda p: _npz(p, node_feat=None), "no array 'node_feat'"),
        ("raw/data.npz", lambda p: _npz(p, node_feat=np.zeros((59, 7), "f4")), "59 rows of features, but there are 60"),
        ("raw/data.npz", lambda p: _npz(p, node_feat=np.zeros(60, "f4")), r"has the shape \(60,\); features are rows"),
        ("raw/data.npz", lambda p: _npz(p, node_feat=np.zeros((60, 7), "i4")), "features are float16, 32 or 64"),
        ("raw/data.npz", lambda p: _npz(p, node_feat=np.zeros((60, 7), "f4", "F")), "in Fortran order"),
        ("raw/data.npz", lambda p: _npz(p, edge_index=np.full((2, 9), 60)), "is 60, but vertex numbers lie between 0 and 59"),
        ("raw/data.npz", lambda p: _npz(p, num_nodes_list=np.array([3, 4])), "only data sets of one graph"),
        ("raw/node-label.npz", lambda p: _npz(p, node_label=np.zeros((61, 1))), "61 labels for 60 vertices"),
        ("raw/node-label.npz", lambda p: _npz(p, node_label=np.full((60, 1), np.nan)), "has no label"),
        ("raw/node-label.npz", lambda p: _npz(p, node_label=np.zeros((30, 2))), "one number for each vertex"),
    ],
    "mag240m": [
        ("meta.pt", _cut, "no torch file that can be read"),
        ("meta.pt", lambda p: torch.save({"paper": 40}, p), "has no number author, only paper"),
        ("meta.pt", lambda p: torch.save([1], p), "where a dict is expected"),
        ("meta.pt", lambda p: torch.save({"paper": os.system}, p), "it holds posix.system, which is neither"),
        ("split_dict.pt", lambda p: torch.save({"train": np.arange(3)}, p), "has no split 'valid', only train"),
        ("split_dict.pt", lambda p: torch.save(dict.fromkeys(SPLITS, np.ones(3)), p), "list of vertex numbers"),
        ("processed/paper/node_feat.npy", _cut, "truncated"),
        ("processed/paper/node_label.npy", lambda p: np.save(p, np.full(40, 99.0)), "is 99, but there are 5 classes"),
        (
            "processed/author___writes___paper/edge_index.npy",
            lambda p: np.save(p, np.array([[0, 0], [1, 40]])),
            "the target of edge 1 is 40, but its type has 40 vertices",
        ),
        (
            "processed/author___affiliated_with___institution/edge_index.npy",
            lambda p: np.save(p, np.zeros((3, 4), int)),
            r"edges have \[2, E\] or \[E, 2\]",
        ),
    ],
    "igbh": [
        ("processed/paper/node_feat.npy", lambda p: p.write_bytes(b"\1" * 5000), "no whole number of rows of 1024 float32"),
        ("processed/paper/node_label_19.npy", lambda p: p.write_bytes(b"\0" * 40), "50 papers have 200 of float32"),
        ("processed/paper/node_label_19.npy", lambda p: np.save(p, np.full(50, 19)), "is 19, but there are 19 classes"),
        ("processed/author/node_feat.npy", _cut, "truncated"),
        ("processed/paper__topic__fos/edge_index.npy", lambda p: np.save(p, np.array([[0, 9]] * 3)), "target of edge 0 is 9"),
        ("processed/paper__cites__paper/edge_index.npy", lambda p: np.save(p, np.ones((4, 2))), "vertex numbers are integers"),
    ],
    "shchur": [
        ("some.npz", lambda p: _npz(p, attr_indptr=np.zeros(61, int)), "no matrix of 60 rows"),
        ("some.npz", lambda p: _npz(p, attr_indices=np.full(160, 7)), "attr_ind"),
        ("some.npz", lambda p: _npz(p, labels=np.zeros(4, int)), "4 labels for 60 vertices"),
        ("some.npz", lambda p: _npz(p, attr_shape=np.array([3])), "a matrix has two extents"),
        ("some.npz", lambda p: _npz(p, adj_indices=np.full(4, 99)), "offset|neighbour|elements|vertex"),
    ],
}  # fmt: skip


def _write(name: str, folder):
    if name in HOMOGENEOUS:
        return HOMOGENEOUS[name][0](folder / name, writers.truth())
    if name == "mag240m":
        return writers.write_mag240m(folder / name, writers.mag_truth())
    if name == "igbh":
        return writers.write_igb(folder / name, writers.igb_truth(hetero=True))
    return writers.write_shchur(folder / "some.npz", writers.truth())


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_get_a_sentence(tmp_path, name):
    path = _write(name, tmp_path)
    folder = path if path.is_dir() else path.parent
    sound = shutil.copytree(folder, tmp_path / "sound")
    for file, damage, says in DAMAGED[name]:
        damage(folder / file)
        for call in (lambda: hl.datasets.open(path), lambda: hl.datasets.convert(path, tmp_path / "converted")):
            with pytest.raises(FormatError, match=says) as error:
                call()
            assert os.path.basename(file) in str(error.value), error.value
        assert not (tmp_path / "converted").exists()
        shutil.copy(sound / file, folder / file)
    hl.datasets.open(path)


@pytest.mark.parametrize("name", [name for name in DAMAGED if name != "shchur"])
def test_missing_files_are_named(tmp_path, name):
    path = _write(name, tmp_path)
    files = [file for file in path.rglob("*") if file.is_file() and file.name not in ("RELEASE_v1.txt", "num-edge-list.csv.gz")]
    files = [file for file in files if file.name not in ("node_year.npy", "paper_id_index_mapping.npy", "node_label_2K.npy")]
    for file in files:
        file.rename(tmp_path / "aside")
        with pytest.raises((StorageError, FormatError)) as error:
            hl.datasets.open(path)
        assert file.name in str(error.value) or str(path) in str(error.value)
        (tmp_path / "aside").rename(file)


def test_splits_must_be_one_folder(tmp_path):
    path = writers.write_products(tmp_path / "p", writers.truth())
    (path / "split" / "other").mkdir()
    with pytest.raises(StorageError, match="has the folders other, sales_ranking where one"):
        hl.datasets.open(path)
    shutil.rmtree(path / "split")
    with pytest.raises(StorageError, match="has no folder where one"):
        hl.datasets.open(path)


def test_what_is_no_data_set(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_text("hello")
    for name in ("empty", "text.npz"):
        with pytest.raises(FormatError, match="no data set that is known"):
            hl.datasets.open(tmp_path / name)
    with pytest.raises(StorageError, match="No such file or directory"):
        hl.datasets.open(tmp_path / "missing")
    with pytest.raises(ConfigError, match="no data set's format is called 'dgl'"):
        hl.datasets.open(tmp_path / "empty", format="dgl")


def test_nothing_of_a_pickle_is_run(tmp_path):
    """A file that would call a function when it is unpickled."""

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = writers.write_mag240m(tmp_path / "mag", writers.mag_truth())
    torch.save({"paper": Trap()}, path / "meta.pt")
    with pytest.raises(FormatError, match="can be read safely"):
        hl.datasets.open(path)
    assert not (tmp_path / "sprung").exists()


def _shchur(path, rows: int, columns: int, entries: int) -> None:
    """Attributes of ones in the first column of the first row, which compress a thousand to one."""
    arrays = {
        "adj_data": np.ones(0, np.float32), "adj_indices": np.zeros(0, np.int32), "adj_indptr": np.zeros(rows + 1, np.int32),
        "adj_shape": np.array([rows, rows]), "labels": np.zeros(rows, np.int8), "attr_shape": np.array([rows, columns]),
        "attr_data": np.ones(entries, np.float32), "attr_indices": np.zeros(entries, np.int32),
        "attr_indptr": np.concatenate([[0], np.full(rows, entries)]),
    }  # fmt: skip
    np.savez_compressed(path, **arrays)


_PEAK = """
import sys
import hinterland as hl
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
hl.datasets.open(sys.argv[2])
before = peak()
found = hl.datasets.open(sys.argv[1])
print(found.features.nbytes + found.labels.nbytes + found.graph.nbytes, peak() - before)
"""


def test_a_matrix_of_attributes_is_read_in_blocks(tmp_path):
    _shchur(tmp_path / "small.npz", 10, 4, 10)
    _shchur(tmp_path / "packed.npz", 100, 4, 20_000_000)  # 160 MB of entries in 160 KB; they make 400 numbers
    assert (tmp_path / "packed.npz").stat().st_size < 1 << 20
    ran = forked.run("-c", _PEAK, tmp_path / "packed.npz", tmp_path / "small.npz", check=True)
    output, peak = map(int, ran.stdout.split())
    assert peak < output + (80 << 20)
    assert int(hl.datasets.open(tmp_path / "packed.npz").features.cpu()[0, 0]) == 2**24  # where float32 stops to count


def test_what_a_small_file_promises_is_refused_before_it_is_taken(tmp_path, monkeypatch):
    _shchur(tmp_path / "wide.npz", 10_000, 4_000, 0)
    _shchur(tmp_path / "long.npz", 8_000_000, 0, 0)
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "100MB")
    for name, says in (("wide", "host memory asked for"), ("long", "long.npz: .*host memory asked for")):
        with pytest.raises(OutOfMemory, match=says):
            hl.datasets.open(tmp_path / f"{name}.npz")


def test_labels_with_holes_are_refused_before_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "ours"
    hl.datasets.convert(writers.write_products(tmp_path / "products", writers.truth()), path)
    for file, count in (("labels.npy", 100_000_000), ("train.npy", 100_000_000)):
        sound = (path / file).read_bytes()
        with open(path / file, "wb") as output:
            header = {"descr": "<i8", "fortran_order": False, "shape": (count,)}
            np.lib.format.write_array_header_1_0(output, header)
            output.truncate(output.tell() + 8 * count)
        monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "100MB")
        with pytest.raises(FormatError, match=f"{file}: 800000128 bytes, but the folder's header promises"):
            hl.datasets.open(path)
        (path / file).write_bytes(sound)
    hl.datasets.open(path)


@pytest.mark.parametrize("file", ["node-feat", "node-label", "edge", "num-node-list"])
def test_a_line_without_end_is_refused_before_it_is_read(tmp_path, file):
    path = writers.write_products(tmp_path / "products", writers.truth())
    _gz(path / "raw" / f"{file}.csv.gz", b"1" * (3 << 20))
    with pytest.raises(FormatError, match=rf"{file}.csv.gz: line 1: longer than 1048576 bytes"):
        hl.datasets.open(path)


def test_torch_files_are_not_compressed(tmp_path):
    path = writers.write_mag240m(tmp_path / "mag", writers.mag_truth())
    place = path / "split_dict.pt"
    with zipfile.ZipFile(place) as held:
        members = {name: held.read(name) for name in held.namelist()}
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    with pytest.raises(FormatError, match="split_dict.pt: .* is compressed, which torch does not do"):
        hl.datasets.open(path)
