"""Data sets that are almost right: each public layout and ours, with one or two files damaged inside their compression."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import random
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

import hinterland as hl
from hinterland.runtime.errors import HinterlandError


def _beside(name: str, path: Path):
    """A module of the tests by its file: the fuzzer runs as a script, the tests as parts of a package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


_HERE = Path(__file__).parent
writers = _beside("dataset_writers", _HERE / "writers.py")
damage = _beside("graph_mutations", _HERE.parent / "graph" / "formats" / "mutations.py").damage

NAMES = ("products", "processed", "papers100m", "saved", "saved_hetero", "mag240m", "igbh", "shchur", "ours", "ours_hetero")


def prepare(folder: Path) -> None:
    """Writes one sound data set of each kind, once."""
    small = writers.truth(vertices=12, edges=20, columns=3)
    small.splits = {name: part[:2] for name, part in small.splits.items()}
    writers.write_products(folder / "products", small)
    writers.write_processed(folder / "processed", small)
    writers.write_papers100m(folder / "papers100m", small)
    writers.write_saved(folder / "saved", small)
    writers.write_saved_hetero(folder / "saved_hetero", writers.mag_truth())
    writers.write_mag240m(folder / "mag240m", writers.mag_truth())
    writers.write_igb(folder / "igbh", writers.igb_truth(hetero=True), bare=True)
    (folder / "shchur").mkdir()
    writers.write_shchur(folder / "shchur" / "g.npz", small)
    hl.datasets.convert(folder / "papers100m", folder / "ours")
    hl.datasets.convert(folder / "mag240m", folder / "ours_hetero")


def write(sound: Path, folder: Path, rng: random.Random) -> Path:
    """A damaged copy of one of them in the empty ``folder``; returns what to open."""
    name = rng.choice(NAMES)
    path = folder / name
    shutil.copytree(sound / name, path)
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.stat().st_size < 1 << 20)
    for file in rng.sample(files, min(rng.choice((1, 1, 2)), len(files))):
        if rng.random() < 0.05:
            file.unlink()
        else:
            file.write_bytes(_damaged(file, rng))
    return path / "g.npz" if name == "shchur" else path


def _damaged(file: Path, rng: random.Random) -> bytes:
    content = file.read_bytes()
    if rng.random() < 0.3:
        return damage(content, rng)
    if file.suffix == ".gz":
        return gzip.compress(damage(gzip.decompress(content), rng), 1)
    if file.suffix in (".npz", ".pt") and zipfile.is_zipfile(file):
        return _damaged_archive(content, rng)
    if file.suffix == ".json":
        return _damaged_header(content, rng)
    if file.suffix == ".npy":
        return damage(content[:160], rng) + content[160:]
    return damage(content, rng)


def _damaged_archive(content: bytes, rng: random.Random) -> bytes:
    """The same members, one of them damaged or replaced by an array of another shape, type or size."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        victim = rng.choice(old.namelist())
        for name in old.namelist():
            member = old.read(name)
            if name == victim and name.endswith(".npy") and rng.random() < 0.5:
                made = io.BytesIO()
                shape = rng.choice([(), (0,), (1,), (3,), (12,), (13,), (2, 6), (12, 3), (60, 1), (2, 0)])
                kind = rng.choice(["<i8", "<i4", "<f4", "<f8", "|b1", "|S3", "<c8", "<u8", ">i4"])
                np.save(made, np.full(shape, rng.choice([-1, 0, 1, 5, 99, 2**31]), np.int64).astype(kind))
                member = made.getvalue()
            elif name == victim:
                member = damage(member, rng)
            new.writestr(zipfile.ZipInfo(name), member, zipfile.ZIP_STORED if name.endswith("pkl") else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _damaged_header(content: bytes, rng: random.Random) -> bytes:
    """A field, at any depth, that has another value."""
    header = json.loads(content)
    at = header
    while True:
        key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        at[key] = rng.choice([None, -1, 0, 3, 2**70, 1.5, True, "", "../x", "node", [], {}, [["a"]], "\ud800"])
        return json.dumps(header).encode()


def load(path: Path, rng: random.Random) -> None:
    """Opens it with random options. Nothing but the library's own exceptions may come of it."""
    try:
        found = hl.datasets.open(path, "pageable", symmetrize=rng.random() < 0.3)
    except HinterlandError as error:
        assert str(error), "an error without a sentence"
        return
    several = isinstance(found, hl.datasets.HeteroDataset)
    count = found.num_vertices[found.target] if several else found.num_vertices
    assert len(found.labels) == count and found.labels.dtype == torch.int64
    assert count == 0 or (int(found.labels.min()) >= -1 and int(found.labels.max()) < found.num_classes)
    for part in found.splits.values():
        assert len(part) == 0 or (int(part.min()) >= 0 and int(part.max()) < count)
    for kind, table in found.features.items() if several else [("", found.features)]:
        assert len(table) == (found.num_vertices[kind] if several else count)


def empty(folder: Path) -> None:
    """Removes what ``write`` made."""
    shutil.rmtree(folder)
    folder.mkdir()
