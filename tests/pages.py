"""The code that README.md, CONTRIBUTING.md and docs/ print, and the files that it names, small."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path

import numpy as np
import torch

import hinterland as hl
from hinterland.machine import cache
from hinterland.machine.model import Cpu, Disk, Machine

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    page for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()
]

# The only changes to what is printed: sizes that a test has no time for.
SIZES = {
    "scale=25": "scale=8",
    "scale=20": "scale=8",
    "scale=14": "scale=8",
    "--scale 20": "--scale 8",
    "--seeds 5000": "--seeds 2",
    "1 << 20": "1 << 8",
    "1_000_000": "1_000",
    "scale=0.01": "scale=0.0001",
    "scale=0.1": "scale=0.001",
    "--scale 0.01": "--scale 0.0001",
}


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, in order, with the sizes of ``SIZES``."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    texts = []
    for text in map(textwrap.dedent, found):
        for printed, small in SIZES.items():
            text = text.replace(printed, small)
        texts.append(text)
    return texts


def make_files(folder: Path) -> None:
    """Every file and folder that a page reads, under the name that it has there."""
    rng = np.random.default_rng(1)
    np.save(folder / "features.npy", rng.standard_normal((1500, 16), dtype=np.float32))
    np.save(folder / "train.npy", np.arange(200))
    (folder / "soc-Epinions1.txt").write_text("# a comment\n0\t1\n1\t2\n2\t0\n")
    (folder / "friends.csv").write_text("source,target\nalice,bob\nbob,carol\n")
    ends = torch.from_numpy(rng.integers(0, 300, (2, 2000)))
    network = hl.from_edges(ends[0], ends[1], num_vertices=300, symmetrize=True, remove_duplicates=True)
    for name in ("network.mtx", "graph.mtx", "graph.hl", "web.hl", "web.txt.gz"):
        hl.save_graph(network, folder / name)
    cites = torch.from_numpy(rng.integers(0, 1500, (2, 6000)))
    hl.save_graph(hl.from_edges(cites[0], cites[1], num_vertices=1500), folder / "citations.mtx")
    lists = torch.from_numpy(rng.integers(0, 12000, (2, 30000)))
    hl.save_graph(hl.from_edges(lists[0], lists[1], num_vertices=12000), folder / "lists.hl")
    hl.save_graph(hl.generate("grid", rows=20, cols=20, seed=1, weights="int32"), folder / "roads.gr")
    products = hl.datasets.generate("products", scale=0.0005, seed=1)
    for name in ("ogbn_products", "ogbn_papers100M", "papers100M"):
        hl.datasets.save(products, folder / name)
    hl.datasets.save(hl.datasets.generate("mag240m", scale=0.00002, seed=1), folder / "mag240m_kddcup2021")
    _write_cora(folder / "cora.npz", rng)
    _write_trips(folder / "trips.arrow", rng)


def _write_trips(path: Path, rng: np.random.Generator) -> None:
    """A table of a few columns, where pyarrow is there to write it."""
    try:
        import pyarrow as pa
        import pyarrow.feather
    except ImportError:
        return
    color = pa.array(["yellow", "green"] * 500).dictionary_encode()
    trips = pa.table({"distance": rng.exponential(20, 1000), "total": rng.exponential(30, 1000), "color": color})
    pyarrow.feather.write_feather(trips, path, compression="uncompressed")


def _write_cora(path: Path, rng: np.random.Generator) -> None:
    """In the form of Shchur et al.: 400 vertices of 3 classes."""
    ring = np.arange(400)
    np.savez(
        path,
        adj_data=np.ones(400),
        adj_indices=(ring + 1) % 400,
        adj_indptr=np.arange(401),
        adj_shape=[400, 400],
        attr_data=np.ones(400, "f4"),
        attr_indices=rng.integers(0, 9, 400),
        attr_indptr=np.arange(401),
        attr_shape=[400, 9],
        labels=ring % 3,
    )


def make_machine() -> None:
    """Stands for a measurement of this machine, which would take a quarter of a minute."""
    cpu = Cpu("a CPU", 2, 1 << 34, 1e10, 5e9, 1e-7, 1e8)
    disk = Disk("/", True, 1e9, 1e9, {1: 1e4, 8: 5e4, 64: 1e5})
    cache.store(Machine("2026-11-22", cache.fingerprint(), False, cpu, disk=disk, left_out=("the link: a test has none",)))


def lay_out(folder: Path, texts: list[str], target: Path) -> None:
    """Copies the files of ``folder`` that the texts name to ``target``."""
    for source in folder.iterdir():
        if any(re.search(rf"(?<![\w./-]){re.escape(source.name)}(?![\w-])", text) for text in texts):
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, target / source.name)
