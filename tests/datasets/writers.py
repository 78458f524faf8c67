"""Tiny data sets, written exactly as the public ones lie on disk after download."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

PAPERS, AUTHORS, PLACES = "paper", "author", "institution"


@dataclass
class Truth:
    """A data set as plain arrays: what a reader must find."""

    features: dict[str, np.ndarray]
    counts: dict[str, int]
    edges: dict[tuple[str, str, str], np.ndarray]  # [2, E]
    labels: np.ndarray  # float32, NaN for none
    splits: dict[str, np.ndarray]
    classes: int = 5


def truth(seed: int = 1, vertices: int = 60, edges: int = 200, columns: int = 7, dtype: str = "f4") -> Truth:
    """Vertices of one type."""
    rng = np.random.default_rng(seed)
    kind = ("node", "to", "node")
    return Truth(
        {"node": rng.standard_normal((vertices, columns)).astype(dtype)},
        {"node": vertices},
        {kind: rng.integers(0, vertices, (2, edges))},
        *_labelled(rng, vertices),
    )


def hetero_truth(kinds: tuple[tuple[str, str, str], ...], counts: dict[str, int], columns: int, dtype: str = "f4") -> Truth:
    """Vertices of several types, all with features."""
    rng = np.random.default_rng(2)
    edges = {k: np.stack([rng.integers(0, counts[k[0]], 90), rng.integers(0, counts[k[2]], 90)]) for k in kinds}
    features = {kind: rng.standard_normal((count, columns)).astype(dtype) for kind, count in counts.items()}
    return Truth(features, counts, edges, *_labelled(rng, counts[PAPERS]))


def _labelled(rng: np.random.Generator, vertices: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels, some of them missing, and splits of those that are there."""
    labels = rng.integers(0, 5, vertices).astype(np.float32)
    labels[:5] = range(5)
    order = rng.permutation(vertices)
    parts = np.split(order, [vertices // 2, vertices // 2 + vertices // 5, vertices - vertices // 10])
    labels[parts[3]] = np.nan
    return labels, dict(zip(("train", "valid", "test"), (np.sort(part) for part in parts[:3]), strict=True))


def write_csv(path: Path, array: np.ndarray, form: str = "%d") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        np.savetxt(file, array, form, ",")


def _write_splits(folder: Path, data: Truth) -> None:
    for name, part in data.splits.items():
        write_csv(folder / f"{name}.csv.gz", part)


def write_products(folder: Path, data: Truth) -> Path:
    """ogbn-products: text."""
    raw = folder / "raw"
    write_csv(raw / "edge.csv.gz", data.edges["node", "to", "node"].T)
    write_csv(raw / "node-feat.csv.gz", data.features["node"], "%.9g")
    write_csv(raw / "node-label.csv.gz", data.labels[:, None], "%g")
    write_csv(raw / "num-node-list.csv.gz", np.array([data.counts["node"]]))
    write_csv(raw / "num-edge-list.csv.gz", np.array([data.edges["node", "to", "node"].shape[1]]))
    _write_splits(folder / "split" / "sales_ranking", data)
    (folder / "RELEASE_v1.txt").touch()
    return folder


def write_processed(folder: Path, data: Truth, *, legacy: bool = False) -> Path:
    """ogbn-products as OGB's loader for PyG leaves it: each edge followed by its reverse, in one file with ``Data``."""
    from torch_geometric.data import Data, InMemoryDataset

    ends = data.edges["node", "to", "node"]
    both = np.stack([ends, ends[::-1]], axis=2).reshape(2, -1)
    graph = Data(x=torch.from_numpy(data.features["node"]), edge_index=torch.from_numpy(both))
    graph.y = torch.from_numpy(data.labels[:, None])
    graph.num_nodes = data.counts["node"]
    (folder / "processed").mkdir(parents=True)
    path = folder / "processed" / "geometric_data_processed.pt"
    torch.save(InMemoryDataset.collate([graph]), path, _use_new_zipfile_serialization=not legacy)
    _write_splits(folder / "split" / "sales_ranking", data)
    return folder


def write_papers100m(folder: Path, data: Truth) -> Path:
    """ogbn-papers100M: one compressed archive, labels in another."""
    (folder / "raw").mkdir(parents=True)
    ends = data.edges["node", "to", "node"]
    np.savez_compressed(
        folder / "raw" / "data.npz",
        edge_index=ends,
        node_feat=data.features["node"],
        num_nodes_list=np.array([data.counts["node"]]),
        num_edges_list=np.array([ends.shape[1]]),
        node_year=np.full((data.counts["node"], 1), 2015),
    )
    np.savez_compressed(folder / "raw" / "node-label.npz", node_label=data.labels[:, None])
    _write_splits(folder / "split" / "time", data)
    return folder


def write_saved(folder: Path, data: Truth) -> Path:
    """What DatasetSaver of OGB makes of vertices of one type (ogb/io/save_dataset.py)."""
    write_papers100m(folder, data)
    shutil.rmtree(folder / "split")
    (folder / "split" / "random").mkdir(parents=True)
    torch.save(data.splits, folder / "split" / "random" / "split_dict.pt")
    for name in ("processed", "mapping"):
        (folder / name).mkdir()
    (folder / "RELEASE_v1.txt").touch()
    return folder


def write_saved_hetero(folder: Path, data: Truth) -> Path:
    """The same of several types."""
    (folder / "raw").mkdir(parents=True)
    (folder / "split" / "random").mkdir(parents=True)
    ends = {"___".join(kind): ends for kind, ends in data.edges.items()}
    np.savez_compressed(folder / "raw" / "edge_index_dict.npz", **ends)
    np.savez_compressed(
        folder / "raw" / "num_edges_dict.npz", **{kind: np.array([part.shape[1]]) for kind, part in ends.items()}
    )
    np.savez_compressed(folder / "raw" / "num_nodes_dict.npz", **{kind: np.array([n]) for kind, n in data.counts.items()})
    np.savez_compressed(folder / "raw" / "node_feat_dict.npz", **data.features)
    np.savez_compressed(folder / "raw" / "node-label.npz", **{PAPERS: data.labels[:, None]})
    splits = {name: {PAPERS: part} for name, part in data.splits.items()}
    torch.save(splits, folder / "split" / "random" / "split_dict.pt")
    return folder


MAG_RELATIONS = ((AUTHORS, "affiliated_with", PLACES), (AUTHORS, "writes", PAPERS), (PAPERS, "cites", PAPERS))


def mag_truth() -> Truth:
    data = hetero_truth(MAG_RELATIONS, {PAPERS: 40, AUTHORS: 70, PLACES: 6}, 9, "f2")
    data.features = {PAPERS: data.features[PAPERS]}
    return data


def write_mag240m(folder: Path, data: Truth, whole: str = "test") -> Path:
    """MAG240M; ``whole`` is what the split of all test papers is called."""
    papers = folder / "processed" / "paper"
    papers.mkdir(parents=True)
    torch.save({**{kind: np.int64(n) for kind, n in data.counts.items()}, "num_classes": data.classes}, folder / "meta.pt")
    torch.save(
        {"train": data.splits["train"], "valid": data.splits["valid"], whole: data.splits["test"]}, folder / "split_dict.pt"
    )
    np.save(papers / "node_feat.npy", data.features[PAPERS])
    np.save(papers / "node_label.npy", data.labels)
    np.save(papers / "node_year.npy", np.full(data.counts[PAPERS], 2015))
    for kind, ends in data.edges.items():
        place = folder / "processed" / "___".join(kind)
        place.mkdir()
        np.save(place / "edge_index.npy", ends)
    (folder / "RELEASE_v1.txt").touch()
    return folder


IGB_RELATIONS = (
    (PAPERS, "cites", PAPERS),
    (PAPERS, "written_by", AUTHORS),
    (AUTHORS, "affiliated_to", "institute"),
    (PAPERS, "topic", "fos"),
)


def igb_truth(*, hetero: bool) -> Truth:
    counts = {PAPERS: 50, **({AUTHORS: 80, "institute": 4, "fos": 9} if hetero else {})}
    data = hetero_truth(IGB_RELATIONS if hetero else IGB_RELATIONS[:1], counts, 1024)
    data.labels = np.nan_to_num(data.labels, nan=1)
    return data


def write_igb(folder: Path, data: Truth, *, bare: bool = False) -> Path:
    """One size of IGB or IGBH; ``bare``: as large and full have them, features and labels without NumPy's header."""
    processed = folder / "processed"
    for kind, table in data.features.items():
        place = processed / kind
        place.mkdir(parents=True)
        if bare and kind in (PAPERS, AUTHORS):
            table.tofile(place / "node_feat.npy")
        else:
            np.save(place / "node_feat.npy", table)
    for name, shift in (("node_label_19.npy", 0), ("node_label_2K.npy", 1000)):
        labels = data.labels + shift
        labels.tofile(processed / PAPERS / name) if bare else np.save(processed / PAPERS / name, labels)
    np.save(processed / PAPERS / "paper_id_index_mapping.npy", np.arange(data.counts[PAPERS]))
    for kind, ends in data.edges.items():
        place = processed / "__".join(kind)
        place.mkdir()
        np.save(place / "edge_index.npy", np.ascontiguousarray(ends.T))
    return folder


def write_shchur(path: Path, data: Truth) -> Path:
    """A graph of Shchur et al."""
    import scipy.sparse as sp

    n = data.counts["node"]
    ends = data.edges["node", "to", "node"]
    adjacency = sp.csr_matrix((np.ones(ends.shape[1], np.float32), (ends[0], ends[1])), (n, n))
    table = data.features["node"].copy()
    table[table < 0.3] = 0
    data.features["node"] = table
    attributes = sp.csr_matrix(table)
    arrays = {
        f"{name}_{part}": np.array(getattr(matrix, part))
        for name, matrix in (("adj", adjacency), ("attr", attributes))
        for part in ("data", "indices", "indptr", "shape")
    }
    names = np.array([f"n{i}" for i in range(n)])
    data.labels = np.nan_to_num(data.labels, nan=1)
    np.savez(path, **arrays, labels=data.labels.astype(np.int8), node_names=names, class_names=np.array(list("abcde")))
    return path
